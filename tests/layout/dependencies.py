#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Modules stand in layers: includes lead downward, and a function is defined in the module that declares it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("include", "lib", "cuda", "autograd", "tests", "bench", "samples")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)

# Each module may include those in the rows above its own, and itself; those of one row not each other.
LAYERS = [
    ["include", "lib/formulas"],
    ["lib/body"],
    ["lib/pool"],
    ["lib/memory"],
    ["lib/table"],
    ["lib/reel"],
    ["lib/flow"],
    ["lib/gate"],
    ["lib/ops", "autograd", "lib/trace", "lib/cpu", "cuda"],
    ["lib/tensor"],
]
# Written against the public headers, and a few more.
MAY_INCLUDE = {
    "lib/nn": {"include"},
    "lib/optim": {"include", "lib/nn"},
    "lib/data": {"include"},
    "lib/bench": {"include"},
    "lib/io": {"include", "lib/body", "lib/flow"},
    "samples": {"include"},
    "bench": set(TOPS),
    "tests": set(TOPS),
}
for row, modules in enumerate(LAYERS):
    for module in modules:
        MAY_INCLUDE[module] = {below for rows in LAYERS[:row] for below in rows}
EXEMPT = {"lib/assemble.cpp"}  # the composition root

# Light headers: what a public header may ask of every program that includes it.
LIGHT_STANDARD = set("""cstdint cstddef initializer_list span string_view string vector memory
    type_traits exception stdexcept array tuple utility iosfwd""".split())
EXTRA = {
    "include/reel/trace.hpp": {"functional"},
    "include/reel/tape.hpp": {"functional"},
    "include/reel/format.hpp": {"fmt/core.h"},
    "include/reel/references.hpp": {"sys/single_threaded.h"},
}
OPT_IN = {"include/reel/xtensor.hpp", "include/reel/cuda.hpp", "include/reel/eigen.hpp"}
HEAVY = re.compile(r"^(xtensor|xsimd|cblas|cuda|cublas|cudnn)")
HEAVY_MODULES = ("lib/cpu/", "lib/formulas/", "lib/tensor/print.cpp", "cuda/", "tests/", "bench/")


def module_of(path):
    """The longest folder of the path that is a module; a folder of lib that is none is an error."""
    parts = path.split("/")
    two = "/".join(parts[:2])
    if two in MAY_INCLUDE and len(parts) > 2:
        return two
    if parts[0] == "lib" and path not in EXEMPT:
        sys.exit(f"{path} is in no module: give its folder a row in tests/layout/dependencies.py")
    return parts[0]


def project_path(including, spelled, quoted):
    """The path inside the project that an include names, or None for a header from elsewhere."""
    if spelled.startswith("reel/"):
        return "include/" + spelled
    if not quoted:
        return None
    for base in (including.parent, ROOT, ROOT / "tests"):
        found = (base / spelled).resolve()
        if found.is_file() and found.is_relative_to(ROOT):
            return found.relative_to(ROOT).as_posix()
    return None


def problem_with(file, bracket, spelled):
    path = file.relative_to(ROOT).as_posix()
    if path in EXEMPT:
        return None
    module, target = module_of(path), project_path(file, spelled, bracket == '"')
    if target is None and bracket == '"':
        return "names no file; third-party and standard headers stand in <>"
    if target is not None:
        allowed, there = MAY_INCLUDE[module], module_of(target)
        if there == module or there in allowed or target.split("/")[0] in allowed:
            return None
        return f"{module} may include only {', '.join(sorted(allowed))}"
    if module == "include" and path not in OPT_IN:
        if spelled not in LIGHT_STANDARD | EXTRA.get(path, set()):
            return "too heavy for a public header"
    elif HEAVY.match(spelled) and not path.startswith(HEAVY_MODULES) and path not in OPT_IN:
        return f"belongs in {', '.join(HEAVY_MODULES)}"
    return None


# A definition in a .cpp file, or a declaration in a header, that starts a line: "Tensor run(", "void Reel::clear(".
DEFINITION = re.compile(r"^(?!using|typedef|static|return|namespace|#|//)[A-Za-z_\[][^;{}()=]*?\b((?:\w+::)*)(~?\w+)\(", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct)(?: alignas\(\d+\))? (?:REEL_\w+ )?(\w+)[^;{]*\{", re.MULTILINE)


def end_of_block(text, at):
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i + 1
    return len(text)


def without_hidden(text):
    """The text without comments, literals and unnamed namespaces."""
    text = re.sub(r'//.*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', "", text)
    while hidden := re.search(r"^namespace \{", text, re.MULTILINE):
        text = text[:hidden.start()] + text[end_of_block(text, hidden.end() - 1):]
    return text


def types(parameters):
    """The types of a list of parameters, without names and defaults."""
    parts, depth, part = [], 0, ""
    for letter in parameters + ",":
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            part = re.sub(r"\s*=.*", "", part.strip(), flags=re.DOTALL)
            parts.append(re.sub(r"\s+|(?<=[\w>&*\s])\b(?<!^)\w+$" if re.search(r"[\s&*>]\w+$", part) else r"\s+", "", part))
            part = ""
        else:
            part += letter
    return tuple(parts)


def functions(text, bodies):
    """(class or namespace, name, types) of each function at the start of a line that has a body, or has none."""
    text = without_hidden(text)
    for match in DEFINITION.finditer(text):
        depth, i = 1, match.end()
        while i < len(text) and depth:
            depth += (text[i] == "(") - (text[i] == ")")
            i += 1
        behind = re.search(r"[;{]", text[i:])
        if behind and (behind.group() == "{") == bodies:
            yield match.group(1).removesuffix("::").split("::")[-1], match.group(2), types(text[match.end():i - 1])


def strangers():
    """Functions that a module defines although another one's header declares them or their class."""
    declared, classes = {}, {}
    sources = [f for top in ("include", "lib", "autograd", "cuda") for f in sorted((ROOT / top).rglob("*.[ch]pp"))]
    for file in sources:
        if file.suffix == ".hpp":
            text, module = file.read_text(), module_of(file.relative_to(ROOT).as_posix())
            named = re.search(r"^#pragma once  *// defined in (.*)$", text, re.MULTILINE)
            modules = {module} if module != "include" else set(named.group(1).split(", ")) if named else {"none"}
            for scope, *function in functions(text, bodies=False):
                declared.setdefault(tuple(function), set()).update(modules)
            for match in CLASS.finditer(text):
                classes.setdefault(match.group(1), set()).update(modules)
    found = 0
    for file in sources:
        path = file.relative_to(ROOT).as_posix()
        if file.suffix != ".cpp" or path in EXEMPT:
            continue
        module = module_of(path)
        for scope, name, parameters in functions(file.read_text(), bodies=True):
            homes = classes.get(scope) if scope else declared.get((name, parameters))
            found += bool(homes)
            if homes and module not in homes:
                yield f"{path}: {scope + '::' if scope else ''}{name} belongs to {', '.join(sorted(homes))}"
    if found < 300:
        yield f"only {found} functions found: the pattern no longer fits the code"


def main():
    problems, files, includes = [], 0, 0
    for top in TOPS:
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in (".hpp", ".cpp", ".cu", ".cuh"):
                continue
            files += 1
            for bracket, spelled in INCLUDE.findall(file.read_text()):
                includes += 1
                problem = problem_with(file, bracket, spelled)
                if problem:
                    problems.append(f"{file.relative_to(ROOT)}: {spelled}: {problem}")
    problems += strangers()
    print("\n".join(problems + [f"{includes} includes in {files} files, {len(problems)} against the layers"]))
    return 1 if problems or not includes else 0


if __name__ == "__main__":
    sys.exit(main())
