# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 7: a data pipeline that is too slow, on demand.

Every sample costs `--work` milliseconds of CPU, as decoding an image would.
Without workers the training loop does that work itself, between two steps, and
the GPU waits for all of it; with enough workers it is done beside the
training, and the loop waits for nothing. Pinned memory matters for the copy to
the GPU: only from there can it run while the CPU goes on.

    python ladder/07_data_pipeline.py --work 2                          starving
    python ladder/07_data_pipeline.py --work 2 --workers 4              better, if there are as many cores
    python ladder/07_data_pipeline.py --work 0 --workers 4 --pin_memory
"""

import time

import torch
from torch import nn
from torch.profiler import record_function
from torch.utils.data import DataLoader, Dataset

from lanewise.ladder import Lesson


class Samples(Dataset):
    """Noise that takes a while to make."""

    def __init__(self, length: int, width: int, work_ms: float) -> None:
        self.length, self.width, self.work_ms = length, width, work_ms

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.perf_counter() + self.work_ms / 1000
        while time.perf_counter() < end:
            pass
        return torch.full((self.width,), float(index))


def main() -> None:
    lesson = Lesson(__file__, __doc__)
    lesson.size("--batch", 64, "samples in a batch", cpu=8)
    lesson.size("--dim", 4096, "width of samples and layers", cpu=256)
    lesson.size("--layers", 4, "layers of the model")
    lesson.size("--workers", 0, "processes that load; 0 loads in the training loop")
    lesson.switch("--pin_memory", "put batches in pinned memory and copy without waiting")
    lesson.parser.add_argument("--work", type=float, default=1.0, metavar="MS", help="CPU time of a sample (1.0)")
    args = lesson.parse()

    layers = [nn.Sequential(nn.Linear(args.dim, args.dim), nn.ReLU()) for _ in range(args.layers)]
    model = nn.Sequential(*layers).to(args.device, args.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    pin_memory = args.pin_memory and args.device == "cuda"
    samples = Samples(args.batch * (20 + args.steps), args.dim, args.work)
    loader = DataLoader(samples, args.batch, num_workers=args.workers, pin_memory=pin_memory)

    def train(batch: torch.Tensor) -> None:
        with record_function("train_step"):
            x = batch.to(args.device, args.dtype, non_blocking=pin_memory)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    pinned = ["pinned"] if pin_memory else []
    sizes = [args.batch, args.dim, args.layers]
    tag = [*sizes, args.dtype_name, f"{args.workers}workers", f"{args.work:g}ms", *pinned, "warm", "eager"]
    lesson.record_over(loader, train, tag=tag)


if __name__ == "__main__":  # workers that are spawned import this file again
    main()
