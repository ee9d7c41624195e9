#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the pages of docs and a reference of the public headers: build.py BUILD_FOLDER, in the repository's root.

Doxygen reads the headers (filter.py), Breathe and Sphinx make a page for each of them and an index of all names.
A warning of Doxygen is an error, but members of a class may go without a comment."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
WITHOUT_PAGE = {"export", "references", "signature", "function", "reel", "ops", "nn", "optim", "io"}


def doxygen(build):
    """Warnings that are errors."""
    subprocess.run(["doxygen", HERE / "Doxyfile"], cwd=ROOT, check=True)
    lines = (build / "doxygen.log").read_text().replace(f"{ROOT}/", "").splitlines()
    return sorted({line for line in lines
                   if line.strip() and not re.search(r"Member .* of (class|struct) .* is not documented", line)})


def title(header):
    return header.relative_to(ROOT / "include/reel").with_suffix("").as_posix()


def headers():
    """The headers with pages: families of ops, then the others."""
    found = [header for header in sorted((ROOT / "include/reel").rglob("*.hpp"))
             if title(header) not in WITHOUT_PAGE]
    return sorted(found, key=lambda header: (header.parent.name != "ops", header.parent.name != "reel", title(header)))


def write_reference(source):
    folder = source / "reference"
    folder.mkdir()
    names = []
    for header in headers():
        name, path = title(header), header.relative_to(ROOT / "include")
        page = folder / f"{name.replace('/', '_')}.rst"
        heading = f"{name}\n{'=' * len(name)}\n"
        page.write_text(f"{heading}\n``#include <{path}>``\n\n.. doxygenfile:: {path}\n   :project: reel\n")
        names.append(page.stem)
    toctree = "".join(f"   {name}\n" for name in names)
    (folder / "index.rst").write_text("Reference\n=========\nOne page for each public header. "
                                      f":ref:`genindex` lists all names.\n\n.. toctree::\n   :maxdepth: 1\n\n{toctree}")


def write_pages(source):
    """README as the first page, and docs as it is, with links that fit."""
    readme = (ROOT / "README.md").read_text().replace("](docs/", "](")
    (source / "index.md").write_text(readme + """
```{toctree}
:hidden:
:glob:

guide/*
from_*
recipes
samples
reference/index
extending
benchmarks
design/*
design/decisions/*
ci
mutation
dependencies
gpu
cuda_emulator
```
""")
    shutil.copytree(ROOT / "docs", source, dirs_exist_ok=True)
    shutil.copytree(ROOT / "samples", source / "samples")  # links to programs become downloads
    page = source / "samples.md"
    page.write_text(page.read_text().replace("](../samples/", "](samples/"))
    shutil.copy(HERE / "conf.py", source)


def main(build):
    source = build / "source"
    for folder in (source, build / "xml", build / "html"):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    problems = doxygen(build)
    write_pages(source)
    write_reference(source)
    sphinx = subprocess.run([sys.executable, "-m", "sphinx", "-b", "html", "-q", "-j", "2", source, build / "html"],
                            capture_output=True, text=True)
    problems += sphinx.stderr.replace(f"{source}/", "").splitlines() if sphinx.returncode else []
    (build / "sphinx.log").write_text(sphinx.stderr)
    print("\n".join([*problems, f"{build / 'html/index.html'}: {len(headers())} headers, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
