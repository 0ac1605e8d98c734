# /// script
# requires-python = ">=3.10"
# dependencies = ["lanewise", "torch>=2.4"]
# ///
"""Rung 8: several processes that train one model.

Each process has its own part of the batch. With `ddp` each holds the whole
model, and gradients are summed by all-reduce while the backward pass goes on;
with `fsdp` each holds a slice of every parameter, gathered before use and
reduced after. In the trace the collectives run on a stream of their own: what
they cost is what does not hide behind compute.

`--straggle` makes the last rank late. The others do not compute more slowly,
they wait, and their wait shows as a long collective: the rank with the
shortest one is the slow one.

    torchrun --nproc-per-node 2 ladder/08_distributed.py
    torchrun --nproc-per-node 2 ladder/08_distributed.py --mode fsdp
    lanewise run 08 --ranks 2 --straggle 20
"""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function

from lanewise.ladder import Lesson

lesson = Lesson(__file__, __doc__)
lesson.choice("--mode", ["ddp", "fsdp"], "how the model is spread")
lesson.size("--layers", 8, "layers of the model", cpu=4)
lesson.size("--dim", 4096, "width of the layers", cpu=128)
lesson.size("--batch", 2048, "rows on each rank", cpu=16)
lesson.parser.add_argument("--straggle", type=float, default=0.0, metavar="MS", help="how late the last rank is (0)")
args = lesson.parse()
if "RANK" not in os.environ:
    lesson.cannot("needs several processes: torchrun --nproc-per-node 2 ladder/08_distributed.py, or lanewise run 08 --ranks 2")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
local = int(os.environ["LOCAL_RANK"])
if args.device == "cuda" and torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
    lesson.cannot(f"{torch.cuda.device_count()} GPUs for {os.environ['LOCAL_WORLD_SIZE']} ranks. On the CPU: --device cpu")

if args.device == "cuda":
    torch.cuda.set_device(local)
dist.init_process_group("nccl" if args.device == "cuda" else "gloo")

layers = [nn.Sequential(nn.Linear(args.dim, args.dim), nn.GELU()) for _ in range(args.layers)]
model = nn.Sequential(*layers).to(args.device, args.dtype)
if args.mode == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        fully_shard(layer)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(args.batch, args.dim, device=args.device, dtype=args.dtype)


def step():
    with record_function("train_step"):
        if args.straggle and rank == world - 1:
            time.sleep(args.straggle / 1000)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


late = [f"straggle{args.straggle:g}ms"] if args.straggle else []
sizes = [args.layers, args.dim, args.batch]
lesson.record(step, tag=[args.mode, *sizes, args.dtype_name, f"{world}ranks", *late, "warm", "eager"])
dist.destroy_process_group()
