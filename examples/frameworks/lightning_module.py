"""Lightning: a tiny network, a few batches on the CPU, validation included.

python examples/frameworks/lightning_module.py --callback           recorded by the callback
lanewise record -- python examples/frameworks/lightning_module.py   recorded without a change
"""

import argparse
import logging
import warnings

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Classifier(lightning.LightningModule):
    """Two layers and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """The loss of a batch."""
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(self.network(inputs), targets)

    def validation_step(self, batch: list[torch.Tensor], _index: int) -> None:
        """The loss of a batch, not kept."""
        self.training_step(batch, _index)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    """Train for an epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--callback", action="store_true")
    args = parser.parse_args()
    callbacks = []
    if args.callback:
        from lanewise.recording.lightning import lightning_callback

        callbacks.append(lightning_callback(out="traces", label="lightning"))
    data = TensorDataset(torch.randn(240, 16), torch.randint(4, (240,)))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=80))


if __name__ == "__main__":
    main()
