#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of eager_vs_traced beside jax.jit and torch.compile, all on one core, in turns:

    bench/traced_peers.py build/bench/bench/eager_vs_traced [--rounds N] [--plot FILE.svg] [--only PART OF A NAME]

Prints a table in Markdown: microseconds of a call (medians over the rounds of the lower quartile of a round), and the
seconds of the first call, which compiles. Needs `pip install torch jax`, and matplotlib for the plot. A compiler that
is not installed has no column."""
import argparse
import functools
import os
import statistics
import subprocess
import sys
import time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # jax.jit takes two threads for a product in spite of its flag
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"


class Torch:
    def __init__(self):
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.torch, self.exp, self.tanh, self.sigmoid, self.relu = torch, torch.exp, torch.tanh, torch.sigmoid, torch.relu
        self.sqrt, self.rsqrt, self.concat = torch.sqrt, torch.rsqrt, torch.cat
        self.log_softmax = functools.partial(torch.log_softmax, dim=-1)
        self.softmax = functools.partial(torch.softmax, dim=-1)

    mean = staticmethod(lambda x: x.mean(-1, keepdim=True))
    top = staticmethod(lambda x: x.amax(-1, keepdim=True))
    total = staticmethod(lambda x: x.sum(-1, keepdim=True))
    split = staticmethod(lambda x, parts: x.chunk(parts, 1))

    def pick(self, x, columns):
        return x.gather(1, columns)

    def normal(self, shape):
        return self.torch.randn(shape)

    def integers(self, end, shape):
        return self.torch.randint(0, end, shape)

    def compile(self, f):
        self.torch._dynamo.reset()  # it compiles one function 8 times at most
        return self.torch.compile(f, dynamic=False)

    def compiled(self, f, arguments):
        f = self.compile(f)

        def call():
            with self.torch.no_grad():
                return f(*arguments)
        return call

    def gradient(self, f, arguments, count):
        for x in arguments[:count]:
            x.requires_grad_()
        f = self.compile(f)
        return lambda: self.torch.autograd.grad(f(*arguments), arguments[:count])

    def step(self, f, state, rest):
        def assign(*arguments):
            for x, y in zip(arguments, f(*arguments)):
                x.copy_(y)
        return self.compiled(assign, [*state, *rest])

    def training_step(self, f, weights, rest):
        weights = [w.requires_grad_() for w in weights]
        loss, adam = self.compile(f), self.torch.optim.Adam(weights, fused=True)

        def call():
            loss(*weights, *rest).backward()
            adam.step()
            adam.zero_grad()
        return call


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # faster where each result is waited for
        self.jax, self.exp, self.tanh, self.sigmoid, self.relu = jax, jnp.exp, jnp.tanh, jax.nn.sigmoid, jax.nn.relu
        self.sqrt, self.rsqrt, self.concat, self.numpy = jnp.sqrt, jax.lax.rsqrt, jnp.concatenate, jnp
        self.log_softmax, self.softmax, self.key = jax.nn.log_softmax, jax.nn.softmax, jax.random.key(1)

    mean = staticmethod(lambda x: x.mean(-1, keepdims=True))
    top = staticmethod(lambda x: x.max(-1, keepdims=True))
    total = staticmethod(lambda x: x.sum(-1, keepdims=True))

    def split(self, x, parts):
        return self.numpy.split(x, parts, 1)

    def pick(self, x, columns):
        return self.numpy.take_along_axis(x, columns, 1)

    def normal(self, shape):
        self.key, key = self.jax.random.split(self.key)
        return self.jax.random.normal(key, shape)

    def integers(self, end, shape):
        return self.jax.random.randint(self.key, shape, 0, end)

    def compiled(self, f, arguments):
        f = self.jax.jit(f)
        return lambda: self.jax.block_until_ready(f(*arguments))

    def gradient(self, f, arguments, count):
        return self.compiled(self.jax.grad(f, tuple(range(count))), arguments)

    def step(self, f, state, rest):
        f = self.jax.jit(f, donate_argnums=tuple(range(len(state))))

        def call():
            state[:] = self.jax.block_until_ready(f(*state, *rest))
        return call

    def training_step(self, f, weights, rest):
        count = len(weights)

        def step(*arguments):
            """Of the weights, their first and their second moments, and the rest."""
            found = self.jax.grad(f, tuple(range(count)))(*arguments[:count], *arguments[3 * count:])
            steps = [adam(self, *each, 1e-3) for each in
                     zip(arguments, arguments[count:], arguments[2 * count:], found)]
            return [each[part] for part in range(3) for each in steps]
        return self.step(step, weights + [0 * w for w in weights] + [0 * w for w in weights], rest)


def chain(count):
    def f(xp, x):
        for i in range(count):
            x = x + 0.01 if i % 2 else x * 1.01
        return x
    return f


def gelu(xp, x):
    return x * 0.5 * (xp.tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1)


def layer_norm(xp, x, gain, bias):
    centred = x - xp.mean(x)
    return centred * xp.rsqrt(xp.mean(centred * centred) + 1e-5) * gain + bias


def softmax(xp, x):
    e = xp.exp(x - xp.top(x))
    return e / xp.total(e)


def lstm(xp, sums, c):
    i, f, g, o = xp.split(sums, 4)
    c = xp.sigmoid(f) * c + xp.sigmoid(i) * xp.tanh(g)
    return xp.sigmoid(o) * xp.tanh(c), c


def lstm_cell(xp, weight, bias, x, h, c):
    return lstm(xp, xp.concat([x, h], 1) @ weight + bias, c)[0]


def tree_lstm(xp, weight, bias, leaf_weight, leaf_bias, words):
    def state(first, end):
        if end - first == 1:
            i, g, o = xp.split(words[first:end] @ leaf_weight + leaf_bias, 3)
            c = xp.sigmoid(i) * xp.tanh(g)
            return xp.sigmoid(o) * xp.tanh(c), c
        middle = (first + end) // 2
        (h1, c1), (h2, c2) = state(first, middle), state(middle, end)
        i, f1, f2, g, o = xp.split(xp.concat([h1, h2], 1) @ weight + bias, 5)
        c = xp.sigmoid(i) * xp.tanh(g) + xp.sigmoid(f1) * c1 + xp.sigmoid(f2) * c2
        return xp.sigmoid(o) * xp.tanh(c), c
    return state(0, words.shape[0])[0]


def cross_entropy(xp, logits, labels):
    return -xp.pick(xp.log_softmax(logits), labels[:, None]).mean()


def char_rnn(xp, table, weight, bias, head, head_bias, words, h, c):
    outputs = []
    for t in range(words.shape[0] - 1):
        h, c = lstm(xp, xp.concat([table[words[t]], h], 1) @ weight + bias, c)
        outputs.append(h)
    return cross_entropy(xp, xp.concat(outputs, 0) @ head + head_bias, words[1:].reshape(-1))


def transformer(xp, x, *p):
    def heads(y):
        return y.reshape(y.shape[0], y.shape[1], 4, -1).swapaxes(1, 2)
    y = layer_norm(xp, x, p[0], p[1])
    q, k, v = (heads(y @ w + b) for w, b in (p[2:4], p[4:6], p[6:8]))
    y = xp.softmax(q @ k.swapaxes(2, 3) * (q.shape[-1] ** -0.5)) @ v
    x = x + y.swapaxes(1, 2).reshape(x.shape) @ p[8] + p[9]
    return x + gelu(xp, layer_norm(xp, x, p[10], p[11]) @ p[12] + p[13]) @ p[14] + p[15]


def adam(xp, w, m, v, g, rate=0.01):
    m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
    return w - m * rate / (xp.sqrt(v) + 1e-8), m, v


def perceptron(xp, *p):
    return cross_entropy(xp, xp.relu(xp.relu(p[6] @ p[0] + p[1]) @ p[2] + p[3]) @ p[4] + p[5], p[7])


LAYER = [(64,), (64,)] + [(64, 64), (64,)] * 4 + [(64,), (64,), (64, 256), (256,), (256, 64), (64,)]
CELLS = [(10, 10), (32, 128), (32, 512)]
WEIGHTS = [(784, 512), (512,), (512, 512), (512,), (512, 10), (10,)]
# Name, function, shapes of its arguments, and of how many of them the gradient is taken, or the kind of a step.
ROWS = [(f"{count} ops, {n}", chain(count), [(n,)], 0) for n in (100, 65536, 1048576) for count in (10, 100)]
for size in (8, 64), (1024, 1024):
    ROWS += [("GELU by hand, %dx%d" % size, gelu, [size], 0),
             ("GELU by hand with gradient, %dx%d" % size, gelu, [size], 1),
             ("layer norm by hand, %dx%d" % size, layer_norm, [size, size[1:], size[1:]], 0),
             ("softmax by hand, %dx%d" % size, softmax, [size], 0)]
for batch, hidden in CELLS:
    shapes = [(2 * hidden, 4 * hidden), (4 * hidden,)] + [(batch, hidden)] * 3
    ROWS += [(f"LSTM cell of ops, {batch}x{hidden}", lstm_cell, shapes, 0),
             (f"LSTM cell of ops with gradient, {batch}x{hidden}", lstm_cell, shapes, 1)]
ROWS += [("nn::TreeLSTMCell, 16 leaves, 128, gradients", tree_lstm, [(256, 640), (640,), (128, 384), (384,), (16, 128)], 4),
         ("char-RNN, 32 steps of 16x128, gradients", char_rnn,
          [(64, 128), (256, 512), (512,), (128, 64), (64,), [64, (33, 16)], (16, 128), (16, 128)], 5),
         ("Transformer layer, 2x16x64", transformer, [(2, 16, 64), *LAYER], 0),
         ("Adam by hand, 1000000", adam, [(1000000,)] * 4, "step of 3"),
         ("MLP 784-512-512-10, Adam step", perceptron, WEIGHTS + [(64, 784), [10, (64,)]], "training step")]


def compiled(xp, f, shapes, gradients):
    arguments = [xp.integers(*shape) if isinstance(shape, list) else
                 xp.normal(shape) * (1 if len(shape) == 1 else shape[0] ** -0.5) for shape in shapes]
    if gradients == "step of 3":
        return xp.step(functools.partial(f, xp), [arguments[0], 0 * arguments[1], 0 * arguments[2]], arguments[3:])
    if gradients == "training step":
        return xp.training_step(functools.partial(f, xp), arguments[:6], arguments[6:])
    if not gradients:
        return xp.compiled(functools.partial(f, xp), arguments)
    return xp.gradient(lambda *x: f(xp, *x).sum(), arguments, gradients)


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def round_of(f):
    """Microseconds of a call: the lower quartile of 31 batches of 4 ms."""
    calls = max(1, int(0.004 / min(timed(f) for _ in range(5))))
    return 1e6 * statistics.quantiles([timed(lambda: [f() for _ in range(calls)]) / calls for _ in range(31)], n=4)[0]


def reel_row(program, name):
    """Microseconds eager and traced, milliseconds of the first call, and traced time over that of a loop by hand."""
    for line in subprocess.run([program, name], capture_output=True, text=True, check=True).stdout.splitlines():
        if line[:44].strip() == name:
            found = line[44:].replace("!", " ").split()
            return float(found[0]), float(found[1]), float(found[3]), found[6] if len(found) > 6 else ""
    raise LookupError(name)


def plot(path, names, table):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(names) + 1), layout="constrained")
    rows = range(len(names))
    for column, mark in zip(table, "os^D"):
        axes.plot([t / own for t, own in zip(table[column], table["traced"])], rows, mark, label=column)
    axes.set(xscale="log", yticks=rows, yticklabels=names, xlabel="time of a call / time of a traced call of reel")
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot")
    options = parser.parse_args()
    peers = {}
    for name, library in ("jax.jit", Jax), ("torch.compile", Torch):
        try:
            peers[name] = library()
        except ImportError as error:
            print(f"no column {name}: {error}", file=sys.stderr)
    names, table = [], {"eager": [], "traced": [], **{name: [] for name in peers}}
    print("| work | eager, us | traced, us |" + "".join(f" {name}, us |" for name in peers) +
          " traced / by hand | first call, ms |" + "".join(f" {name}, s |" for name in peers))
    print("| --- " * (5 + 2 * len(peers)) + "|")
    for name, f, shapes, gradients in ROWS:
        if options.only not in name:
            continue
        calls = [compiled(xp, f, shapes, gradients) for xp in peers.values()]
        first = [timed(call) for call in calls]
        rounds = []
        for _ in range(options.rounds):
            eager, traced, capture, by_hand = reel_row(options.program, name)
            rounds.append([eager, traced, *(round_of(call) for call in calls), capture])
        found = [statistics.median(column) for column in zip(*rounds)]
        names.append(name)
        for column, value in zip(table, found):
            table[column].append(value)
        print(f"| {name} | " + " | ".join(f"{x:,.3g}" if x < 100 else f"{x:,.0f}" for x in found[:-1]) +
              f" | {by_hand} | {found[-1]:.3g} | " + " | ".join(f"{x:.2g}" for x in first) + " |", flush=True)
    if options.plot:
        plot(options.plot, names, table)


if __name__ == "__main__":
    main()
