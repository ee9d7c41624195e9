#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every `///     code   // value` line of the public headers is compiled, run and compared."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^\s*///     (.*\S)\s*$")
VALUE = re.compile(r"^(.*?\S)\s{2,}// (.+)$")
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


def blocks(header):
    """Runs of consecutive example lines that show at least one value: [(line number, code, value or None)]."""
    run = []
    for number, line in enumerate(header.read_text().splitlines() + [""], 1):
        match = EXAMPLE.match(line)
        if match:
            shown = VALUE.match(match[1])
            run.append((number, shown[1], shown[2]) if shown else (number, match[1], None))
            continue
        if any(value for _, _, value in run):
            yield run
        run = []


START = """#include <fmt/format.h>
#include <reel/dist.hpp>
#include <reel/dlpack.hpp>
#include <reel/reel.hpp>
using namespace reel;
void show(auto example) {
  try {
    fmt::print("{}\\x1e", example());
  } catch (const std::exception& error) {
    fmt::print("{}\\x1e", error.what());
  }
}
int main() {"""


def program(headers):
    lines = [START]
    expected = []
    for header in headers:
        for run in blocks(header):
            lines.append("{")
            for number, code, value in run:
                place = f"{header.relative_to(ROOT)}:{number}"
                lines.append(f'#line {number} "{header}"')
                if value is None:
                    lines.append(code if code.endswith((";", "{", "}")) else code + ";")
                else:
                    lines.append(f'show([&] {{ return fmt::format("{{}}", {code}); }});')
                    expected.append((place, code, value))
            lines.append("}")
    return "\n".join(lines + ["}"]), expected


def same(shown, printed):
    """Whether the texts are equal, but for white space and digits after the point that `shown` leaves out."""
    shown, printed = re.sub(r"\s+", "", shown), re.sub(r"\s+", "", printed)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    for few, many in zip(NUMBER.findall(shown), NUMBER.findall(printed)):
        digits = len(few.partition(".")[2])
        if few != many and (digits == 0 or abs(float(few) - float(many)) > 0.5 * 10 ** -digits + 1e-12):
            return False
    return True


def main(build):
    headers = sorted((ROOT / "include").rglob("*.hpp"))
    source, expected = program(headers)
    file, binary = build / "doc_examples.cpp", build / "doc_examples"
    file.write_text(source)
    command = ["g++", "-std=c++20", f"-I{ROOT / 'include'}", file, f"-L{build}", "-lreel", "-lfmt",
               f"-Wl,-rpath,{build.resolve()}", "-o", binary]
    subprocess.run(command, check=True)
    printed = subprocess.run([binary], check=True, capture_output=True, text=True).stdout.split("\x1e")[:-1]
    problems = [f"{place}: {code}  // {value}, but it is {got}"
                for (place, code, value), got in zip(expected, printed, strict=True) if not same(value, got)]
    print("\n".join(problems + [f"{len(expected)} examples, {len(problems)} wrong"]))
    return 1 if problems or not expected else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
