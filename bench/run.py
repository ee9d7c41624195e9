#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The bench table: reel, hand-written limits and LibTorch, batch by batch in turn.

Each side is a program of its own that waits on its standard input (serve.hpp). A row's batches
are interleaved, so that a busy machine slows all sides alike. Every side also says a number that
its work came to; where two differ, the row is no comparison and the run fails.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

SIDES = {"libtorch": "LibTorch", "limit": "limit", "reel": "reel", "traced": "reel traced"}

# Row: what reel's eager mode aims at, in nanoseconds (the figures of the design, measured on a
# Xeon with AVX-512, AMX and 2 MB of L2 at about 2.3 GHz).
TARGETS = {
    "add 16": 40,
    "add 16 recorded": 80,
    "add 1k": 90,
    "add 64k": 9.5e3,
    "add 16M": 12e6,
    "tanh 16": 60,
    "tanh 64k": 30e3,
    "scalar operand 16": 40,
    "64x64 + transposed 64x64": 900,
    "256x256 + transposed 256x256": None,
    "transpose view": 25,
    "slice view": 25,
    "split in 4": 100,
    "exp 64k": None,
    "sigmoid 64k": None,
    "10 ops on 1M floats": None,
    "softmax 2048x96": 150e3,
    "layer norm 64x512": 10e3,
    "column sum 4096x4096": 5.9e6,
    "row sum 4096x4096": None,
    "cumsum 1M": None,
    "sort 1M": None,
    "topk 100 of 1M": None,
    **{f"product {n}": None for n in (8, 16, 32, 64, 128, 256, 512, 1000, "32x256 256x1024",
                                      "256x32 32x1024", "1x256 256x1024")},
    "chain of 100, per op": 150,
    "y = w*w and gradient": 300,
    "LSTM cell 10x10 fused, forward": 2.5e3,
    "LSTM cell 10x10 fused, with backward": 5.9e3,
    "LSTM cell 10x10 primitive, forward": 2.5e3,
    "LSTM cell 10x10 primitive, with backward": 5.9e3,
    "LSTM cell 32x256, forward": 360e3,
    "LSTM cell 32x256, with backward": 720e3,
    "LSTM 64x32x256, forward": None,
    "LSTM 64x32x256 by loop, forward": None,
    "LSTM 64x32x256, with backward": None,
    "LSTM 64x32x256 by loop, with backward": None,
    "char-RNN step": 88e6,
    "char-RNN step, nn::LSTM": 88e6,
    "Tree-LSTM, one tree": 1e9 / 600,
    "Tree-LSTM, one tree, deferred products": 1e9 / 850,
    "MLP SGD step": 2.1e6,
    "MLP Adam step": 2.4e6,
    "max pool 64x28x28x32": None,
    "conv net, forward": None,
    "conv net, SGD step": None,
}


class Side:
    """A running bench program."""

    def __init__(self, name, path, *arguments):
        self.name = name
        environment = {**os.environ, "REEL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.rows, self.about = [], {}
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == "ready":
                return
            key, text = line.split("\t", 1)
            if key == "row":
                self.rows.append(text)
            else:
                self.about[key] = text
        sys.exit(f"bench: {path} ended before it was ready")

    def ask(self, *words):
        try:
            self.process.stdin.write("\t".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().rstrip("\n")
        except BrokenPipeError:
            answer = ""
        if not answer:
            sys.exit(f"bench: {self.name} died at: {' '.join(map(str, words))}")
        return answer


def measure(row, sides, batches, milliseconds):
    """{side: its times, value and calls}; a side that fails says why instead."""
    results, able = {}, []
    for side in sides:
        answer = side.ask("start", row, milliseconds)
        if answer.startswith("error"):
            results[side.name] = {"error": answer[6:]}
        else:
            results[side.name] = {"calls": int(answer), "times": []}
            able.append(side)
    for batch in range(batches):
        for turn in range(len(able)):
            side = able[(turn + batch) % len(able)]
            results[side.name]["times"].append(float(side.ask("batch")))
    for side in able:
        result = results[side.name]
        result["value"] = float(side.ask("value"))
        result["lower"], result["median"], result["upper"] = statistics.quantiles(result["times"])
        side.ask("stop")
    return results


def ratio(results, over, under):
    """The median over rounds of one side's time by another's."""
    if any("times" not in results.get(side, {}) for side in (over, under)):
        return None
    pairs = zip(results[over]["times"], results[under]["times"])
    return statistics.median(a / b for a, b in pairs)


def disagreement(results):
    values = {side: r["value"] for side, r in results.items() if "value" in r}
    if not values:
        return None
    low, high = min(values.values()), max(values.values())
    if high - low <= 1e-3 * abs(high):
        return None
    return ", ".join(f"{SIDES[side]} {value:.6g}" for side, value in values.items())


def duration(nanoseconds, row):
    if nanoseconds is None:
        return "-"
    if row.startswith("Tree-LSTM"):
        return f"{1e9 / nanoseconds:,.0f}/s"
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * size or unit == "ms":
            number = nanoseconds / size
            return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f} {unit}"


def cpu():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, text = line.partition(":")
        fields.setdefault(key.strip(), text.strip())
    flags = fields.get("flags", "").split()
    kinds = [kind for kind in ("avx2", "avx512f", "amx_tile") if kind in flags]
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index2/size")
    second = cache.read_text().strip() if cache.exists() else "unknown"
    return f"{fields.get('model name', platform.processor())}, {' '.join(kinds)}, L2 {second}"


def commit():
    run = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
                         cwd=pathlib.Path(__file__).parent)
    return run.stdout.strip() or "unknown"


def describe(sides, arguments, batches, milliseconds):
    about = {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "machine": f"{cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start",
        "system": platform.platform(),
        "threads": "1",
        "batches": f"{batches} of about {milliseconds:g} ms, medians",
        "commit": commit(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "not set"),
    }
    for side in sides:
        about.update(side.about)
    return about


HEADER = ("row", "LibTorch", "limit", "reel", "traced", "times faster than LibTorch",
          "times the limit", "traced: times faster", "target")


def line_of(row, results):
    def time_of(side):
        result = results.get(side, {})
        return "failed" if "error" in result else duration(result.get("median"), row)

    gain, cost = ratio(results, "libtorch", "reel"), ratio(results, "reel", "limit")
    replay = ratio(results, "reel", "traced")
    return (row, time_of("libtorch"), time_of("limit"), time_of("reel"), time_of("traced"),
            "-" if gain is None else f"{gain:.1f}", "-" if cost is None else f"{cost:.2f}",
            "-" if replay is None else f"{replay:.2f}", duration(TARGETS.get(row), row))


def show(cells, widths):
    aligned = [cells[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(cells[1:], widths[1:])]
    print("| " + " | ".join(aligned) + " |", flush=True)


def find_sides(arguments):
    sides = []
    for name in SIDES:
        traced = ["traced"] if name == "traced" else []
        path = arguments.programs / f"{'reel' if traced else name}_rows"
        if path.exists() and name not in arguments.without:
            sides.append(Side(name, path, *traced))
        elif name not in arguments.without:
            print(f"no {path}: {SIDES[name]} is left out")
    return sides


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path, help="folder of the built bench programs")
    parser.add_argument("rows", nargs="?", default=".", help="regular expression: rows to run")
    parser.add_argument("--quick", action="store_true", help="short batches, for a first look")
    parser.add_argument("--batches", type=int, default=21, help="at least 21")
    parser.add_argument("--json", type=pathlib.Path, help="default: bench.json in that folder")
    parser.add_argument("--without", action="append", default=[], choices=SIDES,
                        help="leave a side out")
    parser.add_argument("--list", action="store_true", help="show the names of the rows")
    arguments = parser.parse_intermixed_args()
    if arguments.batches < 21:
        parser.error("--batches: a median takes at least 21")
    return arguments


def main():
    arguments = parsed()
    sides = find_sides(arguments)
    chosen = [row for row in TARGETS if re.search(arguments.rows, row)
              and any(row in side.rows for side in sides)]
    if arguments.list or not chosen:
        print("\n".join(row for row in TARGETS if any(row in side.rows for side in sides)))
        return 0 if arguments.list else 2
    milliseconds = 1 if arguments.quick else 10
    about = describe(sides, arguments, arguments.batches, milliseconds)
    for key, text in about.items():
        print(f"{key}: {text}")
    widths = [max(len(row) for row in chosen), 9, 9, 9, 9, 26, 15, 20, 9]
    show(HEADER, widths)
    show(["-" * width for width in widths], widths)
    report, complaints = {}, []
    for row in chosen:
        able = [side for side in sides if row in side.rows]
        report[row] = results = measure(row, able, arguments.batches, milliseconds)
        show(line_of(row, results), widths)
        complaints += [f"{row}: {SIDES[side]}: {result['error']}"
                       for side, result in results.items() if "error" in result]
        if difference := disagreement(results):
            complaints.append(f"{row}: the sides computed different things: {difference}")
    path = arguments.json or arguments.programs / "bench.json"
    rows = {row: {"sides": results, "target": TARGETS[row],
                  "libtorch_by_reel": ratio(results, "libtorch", "reel"),
                  "reel_by_limit": ratio(results, "reel", "limit"),
                  "reel_by_traced": ratio(results, "reel", "traced")}
            for row, results in report.items()}
    path.write_text(json.dumps({"about": about, "nanoseconds": rows}, indent=1))
    print(f"written to {path}")
    for complaint in complaints:
        print(f"FAILED: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
