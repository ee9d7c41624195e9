#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attention beside PyTorch, on one thread: bench/attention.py build/bench/bench/attention [ROUNDS]

Processor times in ms (medians), and the median of the ratios of reel to PyTorch, round by round."""
import statistics
import subprocess
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention as attention

ROWS = ["forward", "forward, causal", "forward, mask of bool", "backward", "backward, causal", "100 times one query",
        "encoder layer, both directions"]


def timed(f):
    begin = time.thread_time()
    f()
    return 1e3 * (time.thread_time() - begin)


def main(program, rounds):
    torch.set_num_threads(1)
    q, k, v = (torch.randn(1, 8, 2048, 64, requires_grad=True) for _ in range(3))
    upstream, mask, one = torch.randn(1, 8, 2048, 64), torch.rand(2048, 2048) < 0.9, torch.randn(1, 8, 1, 64)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True)
    x = torch.randn(8, 128, 256)

    def forward(**options):
        with torch.no_grad():
            return timed(lambda: attention(q, k, v, **options))

    def backward(**options):
        y = attention(q, k, v, **options)
        return timed(lambda: torch.autograd.grad(y, (q, k, v), upstream))

    def queries():
        with torch.no_grad():
            return timed(lambda: [attention(one, k, v) for _ in range(100)])

    ours, theirs = [], []
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reel:
        for turn in range(rounds + 1):
            reel.stdin.write("\n")
            reel.stdin.flush()
            own = [float(number) for number in reel.stdout.readline().split()]
            other = [forward(), forward(is_causal=True), forward(attn_mask=mask), backward(), backward(is_causal=True),
                     queries(), timed(lambda: torch.autograd.grad(layer(x).sum(), list(layer.parameters())))]
            if turn:  # the first round warms up
                ours.append(own)
                theirs.append(other)
        reel.stdin.close()
    for name, a, b in zip(ROWS, zip(*ours), zip(*theirs)):
        ratio = statistics.median(x / y for x, y in zip(a, b))
        print(f"{name:32} {statistics.median(a):8.1f} {statistics.median(b):8.1f} {ratio:6.2f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9)
