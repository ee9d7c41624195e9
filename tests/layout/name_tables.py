#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/from_*.md: the code in the column `reel` compiles, each op and layer is in one of the tables, and
names listed as missing do not exist.

The last column of a row has code in backticks: a name, or statements about what SETTING defines. A line that begins
with `Missing` lists names that no public header declares."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(?:\w+::)*\w+$")
NOT_LISTED = {"Optimizer"}  # the base of the optimizers

SETTING = """#include <fstream>
#include <string>
#include <vector>
#include <reel/bench.hpp>
#include <reel/dist.hpp>
#include <reel/dlpack.hpp>
#include <reel/reel.hpp>
using namespace reel;
struct Model {
  nn::Linear hidden{3, 4}, head{4, 2};
  Tensor operator()(Operand x) const { return head(hidden(x)); }
  REEL_FIELDS(hidden, head)
};
struct Example {
  Tensor x, y;
  REEL_FIELDS(x, y)
};
Tensor f(Tensor x);
Example load(std::int64_t i);
std::int64_t length_of(const Tensor& x);
Tensor group(const std::vector<Tensor>& all);
Tensor loss_of(const Model& model, const Example& batch);
void names(Model model, Model target_model, Tensor x, Tensor y, Tensor i, Tensor mask, Variable w, optim::Adam adam,
           Generator generator, std::vector<Tensor> gradients, std::vector<Tensor> parts, std::vector<float> values,
           double rate, std::string path, Tensor loss, Tensor target, Tensor scores, Tensor labels, Tensor lengths,
           dlpack::ManagedTensor* array, data::Pipeline<Example> train, data::Pipeline<Example> valid,
           data::Pipeline<Tensor> texts, std::vector<std::string> files, std::int64_t rank, std::int64_t count,
           const dist::World& world, dist::DataParallel<optim::Adam>& replicas, GradientTape& tape) {
"""


def rows(page):
    """(line, code of the last column) of every table row, and (line, name) of every missing name."""
    shown, missing = [], []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("Missing"):
            missing += [(number, name) for name in CODE.findall(line)]
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("|") and not line.startswith("| ---") and len(cells) >= 4:
            shown += [(number, code.replace("\\|", "|")) for code in CODE.findall(cells[-2])]
    return shown, missing


def program(pages):
    lines, count = [SETTING], 0
    for page in pages:
        for number, code in rows(page)[0]:
            count += 1
            lines.append(f'#line {number} "{page.relative_to(ROOT)}"')
            if code.startswith("REEL_"):
                lines.append(f"#ifndef {code.partition('(')[0]}\n#error no such macro\n#endif")
            elif NAME.match(code):
                lines.append(f"{{ using reel::{code.removeprefix('reel::')}; }}")
            else:
                lines.append(f"{{ {code}; }}")
    return "\n".join(lines + ["}\n"]), count


def declared():
    """Names of functions and types in public headers."""
    text = "\n".join(header.read_text() for header in (ROOT / "include").rglob("*.hpp"))
    text = re.sub(r"//.*", "", text)
    return set(re.findall(r"^(?:template.*> )?[\w:<>&,* ]*?(\w+)\(", text, re.MULTILINE)) | set(
        re.findall(r"\b(?:struct|class) (?:REEL_API )?(\w+)", text))


def public_names():
    """(header, name) of each function and layer that a newcomer may look for."""
    folder = ROOT / "include/reel"
    for header in [folder / "random.hpp", folder / "metrics.hpp",
                   *(header for part in ("ops", "nn", "optim") for header in sorted((folder / part).glob("*.hpp")))]:
        text = re.sub(r"namespace (?:\w+::)?detail {.*?\n}  // namespace (?:\w+::)?detail", "", header.read_text(), flags=re.DOTALL)
        found = re.findall(r"^REEL_API [\w:<>&]+ (\w+)\(|^(?:struct|class) REEL_API (\w+)", text, re.MULTILINE)
        yield from ((header.relative_to(ROOT), function or type) for function, type in found)


def main(build):
    pages = sorted((ROOT / "docs").glob("from_*.md"))
    source, count = program(pages)
    file = build / "name_tables.cpp"
    file.write_text(source)
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", "-fmax-errors=50", f"-I{ROOT / 'include'}", file]
    said = subprocess.run(command, capture_output=True, text=True)
    problems = [line for line in said.stderr.splitlines() if "error:" in line]
    known = declared()
    absent = [(page, *row) for page in pages for row in rows(page)[1]]
    problems += [f"{page.relative_to(ROOT)}:{number}: {name} is there, but the page says that it is missing"
                 for page, number, name in absent if name.rpartition("::")[2] in known]
    listed = {word for page in pages for _, code in rows(page)[0] for word in re.findall(r"\w+", code)}
    names = sorted(set(public_names()))
    problems += [f"{header}: {name} is in none of the tables of docs/from_*.md"
                 for header, name in names if name not in listed | NOT_LISTED]
    print("\n".join(problems + [f"{count} names, {len(absent)} missing ones, {len(names)} functions and layers, "
                                f"{len(problems)} wrong"]))
    return 1 if problems or said.returncode or not count or not names else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
