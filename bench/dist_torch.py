#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The MLP of dist_steps.cpp by torch's DistributedDataParallel over Gloo; torchrun's variables name rank and ranks.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=host MASTER_PORT=29500 dist_torch.py [BATCH]"""
import statistics
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 768
torch.manual_seed(1)
sizes = [784, 512, 512, 512, 512]
layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 10)), bucket_cap_mb=1)
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(batch, 784), torch.randn(batch, 10)
times = []
for step in range(24):
    torch.distributed.barrier()
    start = time.perf_counter()
    sgd.zero_grad()
    ((model(x) - y) ** 2).mean().backward()
    sgd.step()
    if step >= 4:
        times.append(1e3 * (time.perf_counter() - start))
if rank == 0:
    print(f"torch {torch.__version__} over Gloo, MLP, {ranks} ranks: a step takes {statistics.median(times):.2f} ms")
torch.distributed.destroy_process_group()
