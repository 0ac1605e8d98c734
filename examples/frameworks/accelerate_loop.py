"""A training loop with Accelerate: a tiny network, a few steps on the CPU.

python examples/frameworks/accelerate_loop.py --recorder           recorded by the context manager
lanewise record -- python examples/frameworks/accelerate_loop.py   recorded without a change
"""

import argparse
from contextlib import nullcontext

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train for some steps, two micro-batches each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recorder", action="store_true")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(400, 16), torch.randint(4, (400,)))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=8))
    recording = nullcontext()
    if args.recorder:
        from lanewise.recording.huggingface import accelerate_recorder

        recording = accelerate_recorder(accelerator, out="traces", label="accelerate")
    with recording:
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                accelerator.backward(torch.nn.functional.cross_entropy(model(inputs), targets))
                optimizer.step()


if __name__ == "__main__":
    main()
