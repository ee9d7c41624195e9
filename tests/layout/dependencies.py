#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Modules form layers: a module includes lower modules only, and defines only functions and variables that it declares,
or that a header which names it declares."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("include", "lib", "cuda", "autograd", "tests", "bench", "samples")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]', re.MULTILINE)

# Each module may include itself and the modules in the rows above. Modules of one row may not include each other.
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
# These use the public headers, and a few others.
MAY_INCLUDE = {
    "lib/nn": {"include"},
    "lib/optim": {"include", "lib/nn/check.hpp"},
    "lib/bench": {"include"},
    "lib/testing": {"include"},
    "lib/io": {"include", "lib/body/text.hpp"},
    "samples": {"include"},
    "bench": set(TOPS),
    "tests": set(TOPS),
}
for row, modules in enumerate(LAYERS):
    for module in modules:
        MAY_INCLUDE[module] = {below for rows in LAYERS[:row] for below in rows}
# This file makes the tensors that its module reads: their elements are written after they have been allocated.
ALSO = {"lib/io/elements.cpp": {"lib/flow/context.hpp"}}
EXEMPT = {"lib/assemble.cpp"}  # the composition root
# This header declares the entries of ops. The functions of lib/table, lib/gate and others name them; lib/ops defines
# them, and the linker joins the two.
DEFINED_ABOVE = {"lib/table/entries.hpp": {"lib/ops"}}
# Only the CPU's backend uses threads and scratch memory.
PRIVATE = {
    "lib/pool/pool.hpp": {"lib/cpu", "lib/pool", "tests"},
    "lib/pool/scratch.hpp": {"lib/cpu", "lib/pool", "tests"},
}

# Light headers: a public header may include only these standard headers.
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
    """The longest folder of the path that is a module. A folder of lib that is not a module is an error."""
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
        if module not in PRIVATE.get(target, {module}):
            return "is private to " + ", ".join(sorted(PRIVATE[target]))
        allowed, there = MAY_INCLUDE[module] | ALSO.get(path, set()), module_of(target)
        if there == module or {there, target, target.split("/")[0]} & allowed:
            return None
        return f"{module} may include only {', '.join(sorted(allowed))}"
    if module == "include" and path not in OPT_IN:
        if spelled not in LIGHT_STANDARD | EXTRA.get(path, set()):
            return "too heavy for a public header"
    elif HEAVY.match(spelled) and not path.startswith(HEAVY_MODULES) and path not in OPT_IN:
        return f"belongs in {', '.join(HEAVY_MODULES)}"
    return None


# A definition in a .cpp file, or a declaration in a header, that starts a line: "Tensor run(", "void Reel::clear(".
# Constructors and destructors have a class instead of a type: "Tensor::Tensor(", "Tensor::~Tensor(".
FUNCTION = r"((?:\w+::)*)(~?\w+)\("
DEFINITION = re.compile(r"^(?!using|typedef|static|return|namespace|#|//)"
                        rf"(?:[A-Za-z_\[][^;{{}}()=]*?[\s*&\]>]{FUNCTION}|(?=\w+::){FUNCTION})", re.MULTILINE)
# "extern Op add_op, matmul_op;" in a header, and a variable in a .cpp file that others may name.
EXTERN = re.compile(r"^(?:\[\[.*?\]\] )?extern (?!template|\")[^;(){}]*;", re.MULTILINE)
VARIABLE = re.compile(r"^(?!using|typedef|static|return|namespace|#|//|extern [^={]*?;)[A-Za-z_\[][^;{}()=]*[\s*&]"
                      r"(?:\w+::)*(\w+)(?:\[\w*\])? *(?:=|\{|;)", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct)(?: alignas\(\d+\))? (?:REEL_\w+ )?(\w+)[^;{]*\{", re.MULTILINE)


def end_of_block(text, at):
    """The position behind the brace that closes the brace at `at`."""
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
    """The types of the parameters in a list, without names and default values."""
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
    """(class or namespace, name, types) of each function that starts a line and has a body, or has none."""
    text = without_hidden(text)
    for match in DEFINITION.finditer(text):
        depth, i = 1, match.end()
        while i < len(text) and depth:
            depth += (text[i] == "(") - (text[i] == ")")
            i += 1
        behind = re.search(r"[;{]", text[i:])
        if behind and (behind.group() == "{") == bodies:
            scope, name = match.group(1) or match.group(3) or "", match.group(2) or match.group(4)
            yield scope.removesuffix("::").split("::")[-1], name, types(text[match.end():i - 1])


def homes_of(path, text):
    """The modules that define what this header declares."""
    module = module_of(path)
    if module != "include":
        return DEFINED_ABOVE.get(path, {module})
    named = re.search(r"^#pragma once  *// defined in (.*)$", text, re.MULTILINE)
    return set(named.group(1).split(", ")) if named else {"none"}


def externs(text):
    """The names of the variables that a header declares."""
    for match in EXTERN.finditer(without_hidden(text)):
        for declared in match.group().rstrip(";").split(","):
            yield re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", declared).group(1)


def strangers():
    """Functions and variables that a module defines, although the header of another module declares them or their
    class, and variables that a module declares for itself, although another one defines them."""
    declared, classes, variables = {}, {}, {}
    sources = {f.relative_to(ROOT).as_posix(): f.read_text() for top in ("include", "lib", "autograd", "cuda")
               for f in sorted((ROOT / top).rglob("*.[ch]*")) if f.suffix in (".hpp", ".cpp", ".cu")}
    for path, text in sources.items():
        if path in EXEMPT:
            continue
        homes = homes_of(path, text)
        for name in externs(text):
            variables.setdefault(name, {}).setdefault(module_of(path), set()).update(homes)
        if not path.endswith(".hpp"):
            continue
        for scope, *function in functions(text, bodies=False):
            declared.setdefault(tuple(function), set()).update(homes)
        for match in CLASS.finditer(text):
            classes.setdefault(match.group(1), set()).update(homes)
    found, defined = 0, set()
    for path, text in sources.items():
        if path.endswith(".hpp") or path in EXEMPT:
            continue
        module = module_of(path)
        for scope, name, parameters in functions(text, bodies=True):
            homes = classes.get(scope) if scope else declared.get((name, parameters))
            found += bool(homes)
            if homes and module not in homes:
                yield f"{path}: {scope + '::' if scope else ''}{name} belongs to {', '.join(sorted(homes))}"
        for match in VARIABLE.finditer(without_hidden(text)):
            name = match.group(1)
            defined |= {(name, declaring) for declaring, homes in variables.get(name, {}).items() if module in homes}
    for name, of in sorted(variables.items()):
        for declaring in of:
            if (name, declaring) not in defined:
                yield f"{name}: {declaring} declares this variable, and no module that its header names defines it"
    if found < 300:
        yield f"only {found} functions found: the pattern no longer fits the code"


def main():
    problems = [f"{module}: a row for no folder" for module in MAY_INCLUDE if not (ROOT / module).is_dir()]
    files, includes = 0, 0
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
