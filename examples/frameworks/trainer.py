"""Hugging Face Trainer: a tiny randomly initialised GPT-2, a few steps on the CPU.

python examples/frameworks/trainer.py --callback           recorded by the callback
lanewise record -- python examples/frameworks/trainer.py   recorded without a change
"""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Noise(Dataset):
    """Sequences of random tokens."""

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(64, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--callback", action="store_true")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--accumulate", type=int, default=1)
    args = parser.parse_args()
    callbacks = []
    if args.callback:
        from lanewise.recording.huggingface import trainer_callback

        callbacks.append(trainer_callback(out="traces", label="trainer"))
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2))
    settings = TrainingArguments(
        output_dir="trainer-output",
        max_steps=args.steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=args.accumulate,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(model=model, args=settings, train_dataset=Noise(), callbacks=callbacks).train()


if __name__ == "__main__":
    main()
