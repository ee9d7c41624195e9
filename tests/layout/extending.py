#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/extending.md fit the sources. They have as many files and lines as the document says. Other code
in the document is copied from the file that it names. With REEL_TEST_LONG=1 a copy of the sources is built with the
examples and tested. Then each step of the examples is left out in turn."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = ("autograd", "bench", "cuda", "dev", "include", "lib", "meson.build", "meson_options.txt", "packaging",
          "samples", "tests")
STEP = re.compile(r"^\d+\. `([\w/.]+)`: ")
ROW = re.compile(r"^\| [\w ]+ \| `(\w+)` \| (\d+) \| (\d+) \|$", re.MULTILINE)
# For the example max_abs: (the file and a part of the block that is left out, what the tests then report).
LEFT_OUT = [
    ("lib/ops/reduce.cpp", "Entry reduce_ops[]", 'op table: kernel for unknown op "max_abs"'),
    ("lib/cpu/reduce.cpp", '{"max_abs", ', 'op table: "max_abs" has no kernel'),
    ("autograd/rules/reduce.cpp", '{"max_abs", ', 'op table: "max_abs" has no gradient rule'),
    ("tests/sweep/reference_reduce.cpp", 'table["max_abs"]', '"max_abs" == "an op with a reference"'),
]


class Wrong(Exception):
    pass


class Block:
    """A diff in the document: lines of a file, each with its mark."""

    def __init__(self, op, file, place, lines):
        self.op, self.file, self.place, self.lines = op, file, place, lines
        self.old, self.new = ("".join(line[1:] + "\n" for line in lines if line[0] in marks) for marks in (" -", " +"))

    def apply(self, text):
        """The file's text with the old lines replaced. The text has the old lines exactly once; a new file has none."""
        found = ("\n" + text).count("\n" + self.old)
        if found != 1:
            raise Wrong(f"{self.place}: {self.file} has these lines {found} times, expected once:\n{self.old}")
        return ("\n" + text).replace("\n" + self.old, "\n" + self.new)[1:]


def blocks(text, ops):
    """All blocks of the document. The blocks of a section belong to the op or layer that one block defines."""
    number = 0
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        op = next((op for op in ops if f"{op}_op" in section or f"struct REEL_API {op} " in section), None)
        file, lines = None, None
        for line in section.splitlines():
            number += 1
            step = STEP.match(line)
            file = step[1] if step else file
            if line.strip() == "```diff":
                lines, place = [], f"docs/extending.md:{number}"
            elif line.strip() == "```" and lines is not None:
                yield Block(op, file, place, lines)
                lines = None
            elif lines is not None:
                lines.append(line[3:] or " ")


def require_shown(text):
    """Checks that each ```cpp block is in the file that the comment before the block names."""
    for file, code in re.findall(r"<!-- not compiled: .*?([\w/]+\.cpp) contains it -->\n```cpp\n(.*?)```", text, re.DOTALL):
        if code not in (ROOT / file).read_text():
            raise Wrong(f"docs/extending.md shows code that {file} does not contain:\n{code}")


def counted(all_blocks):
    """{op: (files, added lines)}"""
    counts = {}
    for block in all_blocks:
        files, lines = counts.setdefault(block.op, (set(), []))
        files.add(block.file)
        lines += [line for line in block.lines if line[0] == "+"]
    return {op: (len(files), len(lines)) for op, (files, lines) in counts.items()}


def extended(all_blocks, without=None):
    """{file: its text with the examples}"""
    texts = {}
    for block in all_blocks:
        if block is not without:
            text = texts.get(block.file) or ((ROOT / block.file).read_text() if (ROOT / block.file).exists() else "")
            texts[block.file] = block.apply(text)
    return texts


def write(tree, texts):
    """Makes `tree` a copy of the sources with these texts. Unchanged files keep their time, so builds are short."""
    wanted = set()
    sources = [source for name in COPIED for source in [ROOT / name, *(ROOT / name).rglob("*")]
               if source.is_file() and source.suffix != ".pyc"]
    for path in {source.relative_to(ROOT) for source in sources} | set(map(pathlib.Path, texts)):
        target = tree / path
        wanted.add(target)
        content = texts[str(path)].encode() if str(path) in texts else (ROOT / path).read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            if (ROOT / path).exists():
                shutil.copymode(ROOT / path, target)
    for name in COPIED:
        for old in (tree / name).rglob("*"):
            if old.is_file() and old not in wanted:
                old.unlink()


def output_of(*command, cwd=None, fails=False):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if bool(done.returncode) != fails:
        raise Wrong(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout + done.stderr


def check_sources(tree, texts):
    for script in ("dependencies", "ops_listed"):
        output_of(sys.executable, tree / f"tests/layout/{script}.py")
    if " 14." in output_of("clang-format", "--version"):
        code = [file for file in texts if file.endswith((".cpp", ".cu", ".hpp"))]
        output_of("clang-format", "--dry-run", "-Werror", *code, cwd=tree)


def check_builds(tree, all_blocks):
    build = tree / "build"
    if not (build / "build.ninja").exists():
        output_of("meson", "setup", build, tree, "-Disa=native", "-Dsamples=false")

    def ninja(*targets):
        return output_of("ninja", "-C", build, *targets)

    libraries = re.findall(r"^build (lib(?:reel\.so|/)[^ :]*): cpp_LINKER", (build / "build.ninja").read_text(), re.MULTILINE)
    if "warning: " in (said := ninja(*libraries, "tests/test_sweep", "tests/test_nn")):
        raise Wrong(said)
    output_of(sys.executable, tree / "tests/layout/dependencies.py", build)
    output_of(build / "tests/test_nn", "LayerScale multiplies the last axis")
    sweep = build / "tests/test_sweep"
    if (build / "cuda/emulate").exists():
        ninja("cuda/libreel_cuda_emulated.so")
        output_of("env", f"LD_PRELOAD={build}/cuda/emulate/libemulate.so", "REEL_TEST_DEVICE=cuda",
                  f"REEL_CUDA_LIBRARY={build}/cuda/libreel_cuda_emulated.so", sweep, "every op*,*gradient agrees*")
    lines = [output_of(sweep).splitlines()[-1], output_of(sys.executable, tree / "tests/layout/doc_examples.py", build)]
    for file, part, expected in LEFT_OUT:
        left_out = next(block for block in all_blocks if block.file == file and part in block.new)
        write(tree, extended(all_blocks, left_out))
        ninja("tests/test_sweep")
        if expected not in (said := output_of(sweep, "every op agrees with its reference", fails=True)):
            raise Wrong(f"{left_out.place}: without it the tests should say {expected}, but:\n{said[-2000:]}")
    return lines


def main(build):
    text = (ROOT / "docs/extending.md").read_text()
    stated = {op: (int(files), int(lines)) for op, files, lines in ROW.findall(text)}
    try:
        require_shown(text)
        all_blocks = list(blocks(text, stated))
        counts = counted(all_blocks)
        if counts != stated:
            raise Wrong(f"files and lines of the examples are {counts}, but docs/extending.md says {stated}")
        texts = extended(all_blocks)
        tree = build.resolve() / "extended"
        write(tree, texts)
        check_sources(tree, texts)
        if os.environ.get("REEL_TEST_LONG"):
            print(*check_builds(tree, all_blocks), sep="\n")
    except Wrong as wrong:
        print(wrong)
        return 1
    print(f"{len(stated)} examples in {len(texts)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
