#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of gpu.cpp in eager PyTorch, under the same names. Ends with status 77 without PyTorch or a GPU."""
import statistics
import sys
import time

try:
    import torch
    from torch import nn
except ImportError as error:
    sys.exit(print(error) or 77)

STEPS, BATCH, VOCABULARY = 64, 32, 96


def seconds(f, times):
    """The median time of one f() over 21 batches; the host waits after `times` calls."""
    batches = []
    for _ in range(24):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            f()
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - start) / times)
    return statistics.median(batches[3:])


def calls():
    x = torch.randn(16)
    w = torch.randn(16, requires_grad=True)
    for name, y, grad in ("call of add 16", x, False), ("call of add 16, recorded", w, True):
        batches = []
        for _ in range(101):
            torch.cuda.synchronize()
            with torch.set_grad_enabled(grad):
                start = time.perf_counter()
                for _ in range(200):
                    y + x
                batches.append((time.perf_counter() - start) / 200)
        print(name, statistics.median(batches) * 1e6, "us", sep="\t", flush=True)


def products(name, dtype):
    for n in 256, 512, 1024, 2048, 4096, 8192:
        x, y = torch.randn(n, n, dtype=dtype), torch.randn(n, n, dtype=dtype)
        time_of_one = seconds(lambda: x @ y, 100 if n <= 1024 else 2)
        print(f"{name} {n}", 2 * n**3 / time_of_one / 1e9, "GFLOP/s", sep="\t", flush=True)


class CharRnn(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, hidden)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, words):
        state, states = None, []
        for word in words[:-1]:
            state = self.cell(self.embed(word), state)
            states.append(state[0])
        return nn.functional.cross_entropy(self.head(torch.cat(states)), words[1:].reshape(-1))


def replayed(step):
    """The step as a CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def char_rnn():
    for hidden in 256, 1024:
        words = torch.randint(VOCABULARY, (STEPS + 1, BATCH))

        def training(in_graph):
            model = CharRnn(hidden)
            adam = torch.optim.Adam(model.parameters(), 1e-3, capturable=in_graph)

            def step():
                adam.zero_grad()
                model(words).backward()
                adam.step()

            return step

        print(f"char-RNN step {hidden}, eager", seconds(training(False), 1) * 1e6, "us", sep="\t", flush=True)
        print(f"char-RNN step {hidden}, traced", seconds(replayed(training(True)), 1) * 1e6, "us", sep="\t",
              flush=True)


def lstm():
    for hidden in 256, 1024:
        layer = nn.LSTM(hidden, hidden)
        weights = list(layer.parameters())
        x = torch.randn(STEPS, BATCH, hidden)
        time_of_one = seconds(lambda: torch.autograd.grad(layer(x)[0].sum(), weights), 1)
        print(f"LSTM of 64 steps and its gradients, {hidden}", time_of_one * 1e6, "us", sep="\t", flush=True)


if not torch.cuda.is_available():
    sys.exit(print("PyTorch sees no GPU") or 77)
print("PyTorch", torch.__version__.split("+")[0], "version", sep="\t")
torch.set_default_device("cuda")
torch.backends.cuda.matmul.allow_tf32 = False
calls()
products("product", torch.float32)
products("product of bfloat16", torch.bfloat16)
char_rnn()
lstm()
