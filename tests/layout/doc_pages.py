#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every ```cpp block of README.md and docs is compiled and run, and the values that it shows are compared.

The blocks of a page form one program. A block with `int main` is a separate program. Structs and functions that begin
in the first column are defined before the program. A comment is compared if it is one of these: a value or
`shape (2, 3)` behind an assignment, the output behind an fmt::print, `throws Type`. A ```text block is compared with
the output of the block before it. `...` stands for any text. `<!-- not compiled: reason -->` before a block leaves the
block out. Every link to a file must lead to an existing file."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import doc_examples
import pictures

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
LEFT_OUT = re.compile(r"<!-- not compiled: .+ -->")
COMMENTED = re.compile(r"^(\s*)(\S.*;)\s+// (.+)$")
ASSIGNED = re.compile(r"^(?:(?:const )?[\w:<>]+&? )?(\w+) [-+*/%]?= ")
PLAIN_VALUE = re.compile(r"(?:[-+\d.,\s\[\](){}]|\de[-+]?\d|true|false|inf|nan|\.\.\.)+$")
SHAPE = re.compile(r"shape \([\d, ]*\)$")
DEFINITION = re.compile(r"^(?:struct|class|enum|template|using|namespace)\b|"
                        r"^(?!else|return|for|if|while|switch|do)\w[\w:<>&*, ]* [*&]?\w+\([^\[\]]*\)(?: const)?(?: try)? \{")
PLACE = re.compile(r"[\w./-]+\.(?:md|cpp):\d+")

START = """#include <fmt/format.h>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <reel/bench.hpp>
#include <reel/debug.hpp>
#include <reel/dist.hpp>
#include <reel/reel.hpp>
"""
HELPERS = """using namespace reel;
namespace doc {
void begin(int id) { fmt::print("\\x1e{}\\x1d", id); }
void block(int i) { fmt::print("\\x1c{}\\x1d", i); }
void end() { fmt::print("\\x1f"); }
void show(int id, const auto& x) { begin(id); fmt::print("{}", x); end(); }
void thrown(int id, const auto& f) {
  const auto say = [&](const char* type, const std::exception& e) { show(id, fmt::format("{}: {}", type, e.what())); };
  try { f(); show(id, "nothing"); }
  catch (const ShapeError& e) { say("ShapeError", e); }
  catch (const IndexError& e) { say("IndexError", e); }
  catch (const DTypeError& e) { say("DTypeError", e); }
  catch (const DeviceError& e) { say("DeviceError", e); }
  catch (const MemoryError& e) { say("MemoryError", e); }
  catch (const TapeError& e) { say("TapeError", e); }
  catch (const TraceError& e) { say("TraceError", e); }
  catch (const IoError& e) { say("IoError", e); }
  catch (const DistError& e) { say("DistError", e); }
  catch (const Error& e) { say("Error", e); }
}
}
"""


class Block:
    """The lines of one fenced block, and the number of its first line."""

    def __init__(self, number):
        self.number, self.lines, self.output = number, [], None  # output: the ```text block that follows

    def is_program(self):
        return any(line.startswith("int main(") for line in self.lines)


def blocks(page):
    """The blocks of a page that are compiled, and the number of blocks that are left out."""
    found, left_out, current, indent, before = [], 0, None, "", ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if current is not None:
            if fence:
                current = None
            else:
                current.lines.append(line.removeprefix(indent))
        elif fence:
            indent, current = fence[1], Block(number + 1)
            if fence[2] == "cpp" and LEFT_OUT.match(before.strip()):
                left_out += 1
            elif fence[2] == "cpp":
                found.append(current)
            elif fence[2] == "text" and found:
                found[-1].output = current
        if line.strip():
            before = line
    return found, left_out


def dead_links(page):
    """The links of a page to files that do not exist."""
    inside = False
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        inside ^= FENCE.match(line) is not None
        for target in [] if inside else LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not ((ROOT / page).parent / target).exists():
                yield f"{page}:{number}: there is no {target}"


class Program:
    """The source of one page, or of one block with `int main`, and the values that it shows."""

    def __init__(self, page, name, page_blocks):
        self.page, self.name, self.blocks = page, name, page_blocks
        self.includes, self.values = [], {}
        self.outside, self.inside = [], []
        for i, block in enumerate(page_blocks):
            self.inside += [f"doc::block({i});", "{"]
            self.add(block)
        self.inside.append("}" * len(page_blocks))

    def at(self, number):
        return f'#line {number} "{self.page}"'

    def add(self, block):
        target, number = self.inside, block.number
        self.inside.append(self.at(number))
        for line in block.lines:
            if line.startswith("#include"):
                self.includes.append(line)
                line = ""
            line = line.replace("int main() {", "void program() {")
            if target is self.inside and (block.is_program() or DEFINITION.match(line)) and line:
                target = self.outside
                target.append(self.at(number))
            target.append(self.shown(line, number))
            if not block.is_program() and target is self.outside and (
                    line in ("}", "};") or (DEFINITION.match(line) and line.endswith((";", "}")))):
                target = self.inside
                target.append(self.at(number + 1))
            number += 1

    def shown(self, line, number):
        """The line, and code that prints the value that its comment shows."""
        match = COMMENTED.match(line)
        if not match:
            return line
        _, code, comment = match.groups()
        name = ASSIGNED.match(code)
        if comment.startswith("throws "):
            text = f"doc::thrown({number}, [&] {{ {code} }});"
            comment = comment.removeprefix("throws ")
        elif code.startswith("fmt::print("):
            text = f'doc::begin({number}); {code} doc::end();'
        elif name and SHAPE.match(comment):
            text = f"{code} doc::show({number}, {name[1]}.shape());"
            comment = comment.removeprefix("shape ")
        elif name and PLAIN_VALUE.match(comment):
            text = f"{code} doc::show({number}, {name[1]});"
        else:
            return line
        self.values[number] = (code, comment)
        return text

    def own_output(self, shown):
        """The output of the page itself for a shown value."""
        return shown[2] if self.values[int(shown[1])][0].startswith("fmt::print(") else ""

    def source(self):
        call = ["program();"] if self.blocks[0].is_program() else self.inside
        return "\n".join([f"namespace {self.name} {{", *self.outside, "void page() {", *call, "}", "}"])

    def problems(self, binary):
        with tempfile.TemporaryDirectory() as folder:  # for files that the page writes
            if any('"pictures/' in line for block in self.blocks for line in block.lines):
                pictures.write_shapes(f"{folder}/pictures")
            run = subprocess.run([binary, self.name], capture_output=True, text=True, errors="replace", cwd=folder)
        if run.returncode:
            return [f"{self.page}: the program ends with status {run.returncode}: {run.stderr}"]
        printed = dict(re.findall(r"\x1e(\d+)\x1d(.*?)\x1f", run.stdout, re.DOTALL))
        wrong = []
        for number, (code, value) in self.values.items():
            got = printed.get(str(number), "nothing is printed")
            if not agrees(value, got):
                wrong.append(f"{self.page}:{number}: {code}  // {value}, but it is {got.strip()}")
        outputs = re.split(r"\x1c\d+\x1d", run.stdout)[1:]
        for block, text in zip(self.blocks, outputs or [run.stdout]):
            if block.output:
                got = re.sub(r"\x1e(\d+)\x1d(.*?)\x1f", self.own_output, text, flags=re.DOTALL)
                if not agrees("\n".join(block.output.lines), got):
                    wrong.append(f"{self.page}:{block.output.number}: the block before prints:\n{got}")
        return wrong


def agrees(shown, printed):
    """Whether the texts are equal except for white space, digits that `shown` leaves out, `...`, and places in other
    files than a page."""
    if any(place not in printed for place in re.findall(r"\w+\.md:\d+", shown)):
        return False
    shown, printed = PLACE.sub("@", shown), PLACE.sub("@", printed)
    if re.fullmatch(r"\w+(Error)?", shown) and printed.startswith(shown + ": "):
        return True  # throws ShapeError
    if "..." not in shown:
        return doc_examples.same(shown, printed) or doc_examples.same(shown, re.sub(r"^(\w+: )@: ", r"\1", printed))
    parts = [re.escape(part) for part in re.sub(r"\s+", "", shown).split("...")]
    return re.fullmatch(".*".join(parts), re.sub(r"\s+", "", printed.replace(": @: ", ": "))) is not None


def programs(pages):
    """The programs of all pages, and the number of blocks that are left out."""
    found, left_out = [], 0
    for i, page in enumerate(pages):
        page_blocks, skipped = blocks(ROOT / page)
        left_out += skipped
        groups = [[block for block in page_blocks if not block.is_program()]]
        groups += [[block] for block in page_blocks if block.is_program()]
        for j, group in enumerate(group for group in groups if group):
            found.append(Program(page, f"page_{i}_{j}", group))
    return found, left_out


def compile_batch(build, name, batch):
    """The binary, which runs the program that its argument names. None and the errors if it does not compile."""
    includes = sorted({line for program in batch for line in program.includes})
    table = "".join(f'  if (name == "{program.name}") {program.name}::page();\n' for program in batch)
    main = (f'\n#line 1 "main"\nint main(int, char** words) try {{\n  const std::string name = words[1];\n{table}}} '
            'catch (const std::exception& error) {\n  std::fflush(stdout);\n'
            '  fmt::print(stderr, "uncaught: {}\\n", error.what());\n  return 1;\n}\n')
    file, binary = build / f"{name}.cpp", build / name
    file.write_text(START + "\n".join(includes) + "\n" + HELPERS + "\n".join(p.source() for p in batch) + main)
    command = ["g++", "-std=c++20", f"-I{ROOT / 'include'}", "-isystem", "/usr/include/eigen3", file, f"-L{build}", "-lreel", "-lfmt",
               f"-Wl,-rpath,{build.resolve()}", "-o", binary]
    result = subprocess.run(command, capture_output=True, text=True)
    return (binary.resolve(), "") if result.returncode == 0 else (None, result.stderr)


def main(build, chosen):
    os.environ.setdefault("REEL_DEBUG_LIBRARY", f"{pathlib.Path(build).resolve()}/lib/debug/libreel_debug.so")
    pages = [pathlib.Path("README.md"), *sorted(page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if not chosen or str(page) in chosen]
    found, left_out = programs(pages)
    halves = [half for half in (found[::2], found[1::2]) if half]
    problems = [problem for page in pages for problem in dead_links(page)]
    if len((ROOT / "README.md").read_text().splitlines()) > 150:
        problems.append("README.md: more than 150 lines; move what a newcomer does not need to docs")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        built = pool.map(lambda i: compile_batch(build, f"doc_pages_{i}", halves[i]), range(len(halves)))
        for half, (binary, said) in zip(halves, list(built)):
            if said:
                problems.append(said)
            else:
                problems += [problem for one in pool.map(lambda p: p.problems(binary), half) for problem in one]
    count = sum(len(program.blocks) for program in found)
    values = sum(len(program.values) for program in found)
    print("\n".join(problems + [f"{count} blocks, {values} values, {left_out} blocks not compiled, "
                                f"{len(problems)} problems"]))
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2:]))
