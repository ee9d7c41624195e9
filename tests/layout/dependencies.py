#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Modules form layers. A module includes lower modules only, and only the public headers of its row. It calls functions
of lower modules only. It defines what its own headers declare, and what a header declares that names it. The composition
root is the one exception: it may include and call everything, and everything may call it. Includes are read in the
sources; calls and definitions in the objects of a build.

    python3 tests/layout/dependencies.py build/test

Without a build, only the includes are checked."""
import collections
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("include", "lib", "cuda", "autograd", "tests", "bench", "samples")
HEADERS = {".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp", ".tpp", ".def"}
SOURCES = {".c", ".cc", ".cpp", ".cxx", ".cu"}

# Each module may include and call itself and the modules in the rows above. Modules of one row are strangers.
LAYERS = [
    ["include", "lib/formulas"],
    ["lib/body"],
    ["lib/pool"],
    ["lib/memory"],
    ["lib/table"],
    ["lib/graph"],
    ["lib/record"],
    ["lib/flow"],
    ["lib/gate"],
    ["lib/ops", "autograd", "lib/trace", "lib/cpu", "cuda"],
    ["lib/tensor"],
    ["lib/batch", "lib/debug"],
]
BELOW = {module: {below for rows in LAYERS[:row] for below in rows} for row, modules in enumerate(LAYERS)
         for module in modules}
# These are written as a user would write them: against public headers. (the modules that they call; other headers)
USERS = {
    "lib/dist": ("autograd lib/body lib/flow lib/gate lib/io lib/memory lib/ops lib/optim lib/pool lib/tensor",
                 "lib/body/portion.hpp lib/body/text.hpp lib/flow/interceptor.hpp lib/flow/observer.hpp "
                 "lib/gate/effects.hpp lib/io/archive.hpp lib/io/elements.hpp lib/io/file.hpp lib/io/load.hpp "
                 "lib/memory/device_memory.hpp lib/ops/check.hpp lib/pool/process.hpp lib/table/backend.hpp "
                 "lib/table/engine.hpp lib/tensor/raw.hpp"),
    "lib/nn": ("lib/body lib/dist lib/flow lib/gate lib/memory lib/ops lib/tensor",
               "lib/body/format.hpp lib/body/room.hpp lib/body/text.hpp lib/ops/check.hpp"),
    "lib/optim": ("autograd lib/body lib/flow lib/gate lib/memory lib/ops lib/tensor",
                  "lib/body/format.hpp lib/body/room.hpp lib/body/text.hpp lib/nn/check.hpp"),
    "lib/fit": ("autograd lib/bench lib/body lib/flow lib/gate lib/io lib/memory lib/optim lib/tensor",
                "lib/body/text.hpp"),
    "lib/io": ("lib/body lib/flow lib/gate lib/graph lib/memory lib/ops lib/pool lib/table lib/tensor lib/trace",
               "lib/body/portion.hpp lib/body/text.hpp lib/body/utf8.hpp lib/flow/context.hpp lib/flow/interceptor.hpp "
               "lib/graph/graph.hpp lib/memory/blocks.hpp lib/pool/process.hpp lib/table/op.hpp "
               "lib/table/option_checks.hpp lib/tensor/raw.hpp lib/trace/loop.hpp"),
    "lib/plot": ("lib/body lib/gate lib/memory lib/ops", "lib/body/text.hpp lib/body/utf8.hpp"),
    "lib/bench": ("lib/body lib/flow lib/io lib/memory lib/pool",
                  "lib/body/line.hpp lib/body/text.hpp lib/body/utf8.hpp lib/flow/context.hpp lib/flow/hooks.hpp "
                  "lib/flow/observer.hpp lib/io/atomic_file.hpp lib/io/file.hpp lib/io/json.hpp lib/memory/blocks.hpp lib/pool/process.hpp lib/table/backend.hpp "
                  "lib/table/op.hpp"),
    "lib/data": ("lib/body lib/flow lib/gate lib/io lib/memory lib/ops lib/pool lib/tensor",
                 "lib/body/hash.hpp lib/body/line.hpp lib/body/text.hpp lib/io/atomic_file.hpp lib/io/elements.hpp "
                 "lib/io/file.hpp lib/io/input.hpp lib/io/json.hpp lib/io/wire.hpp lib/pool/process.hpp lib/tensor/raw.hpp"),
    "lib/testing": ("autograd lib/body lib/flow lib/gate lib/memory lib/ops lib/tensor lib/trace", ""),
}
# A function of the C library, which the CUDA emulator defines too. It counts for no module.
REPLACED = "process_vm_readv"
# These may include and call everything.
OUTSIDE = {"bench", "tests"}
# The composition root: it fills the op table with what all modules give.
ROOT_FILE = "lib/assemble.cpp"

# These modules also call the public functions of others, as a user does: the rules of gradients are made of ops.
CALLS = {"autograd": "lib/ops"}
# Only the CPU's backend uses threads and scratch memory.
PRIVATE = {
    "lib/pool/pool.hpp": {"lib/cpu", "lib/pool", "tests"},
    "lib/pool/scratch.hpp": {"lib/cpu", "lib/pool", "tests"},
}

# Light headers: a public header may include only these standard headers.
LIGHT_STANDARD = set("""cstdint cstddef initializer_list span string_view string vector memory
    type_traits exception stdexcept array tuple utility iosfwd""".split())
EXTRA = {
    "include/reel/format.hpp": {"fmt/core.h"},
    "include/reel/references.hpp": {"sys/single_threaded.h"},
}
OPT_IN = {"include/reel/xtensor.hpp", "include/reel/cuda.hpp", "include/reel/eigen.hpp"}
HEAVY = re.compile(r"^(xtensor|xsimd|cblas|cuda|cublas|cudnn)")
HEAVY_MODULES = ("lib/cpu/", "lib/formulas/", "lib/tensor/print.cpp", "cuda/", "tests/", "bench/")


def module_of(path):
    """The folder of the path that is a module. A folder of lib that is not a module is an error."""
    parts = path.split("/")
    two = "/".join(parts[:2])
    if len(parts) > 2 and (two in BELOW or two in USERS):
        return two
    if parts[0] == "lib" and path != ROOT_FILE:
        sys.exit(f"{path} is in no module: give its folder a row in tests/layout/dependencies.py")
    return ROOT_FILE if parts[0] == "lib" else parts[0]


@functools.cache
def text_of(path):
    return (ROOT / path).read_text()


@functools.cache
def homes_of(path):
    """The modules that define what this header declares."""
    module = module_of(path)
    named = re.search(r"^#pragma once  *// defined in (.*)$", text_of(path), re.MULTILINE)
    if named:
        return set(named.group(1).split(", "))
    return set() if module == "include" else {module}


# Includes

INCLUDE = re.compile(r'^\s*#\s*include\b\s*(?:([<"])([^">]+)[>"])?', re.MULTILINE)


def project_path(including, spelled, quoted):
    """The path inside the project that an include names, or None for a header from elsewhere."""
    if spelled.startswith("reel/"):
        return "include/" + spelled
    for base in ((ROOT / including).parent, ROOT, ROOT / "tests") if quoted else (ROOT,):
        found = pathlib.Path(os.path.normpath(base / spelled))
        if found.is_file() and found.is_relative_to(ROOT):
            return found.relative_to(ROOT).as_posix()
    return None


@functools.cache
def users_reached(path):
    """The modules of USERS that define what this public header declares, or a header that it includes."""
    found = homes_of(path) & set(USERS)
    for _, spelled in INCLUDE.findall(text_of(path)):
        if spelled.startswith("reel/") and (ROOT / "include" / spelled).is_file():
            found = found | users_reached("include/" + spelled)
    return found


def problem_with(path, bracket, spelled):
    module, target = module_of(path), project_path(path, spelled, bracket == '"')
    if not spelled:
        return "an #include names a header, not a macro"
    if target is None:
        if bracket == '"':
            return "names no file; third-party and standard headers stand in <>"
        if module == "include" and path not in OPT_IN and spelled not in LIGHT_STANDARD | EXTRA.get(path, set()):
            return "too heavy for a public header"
        if HEAVY.match(spelled) and not path.startswith(HEAVY_MODULES) and path not in OPT_IN:
            return f"belongs in {', '.join(HEAVY_MODULES)}"
        return None
    if pathlib.Path(target).suffix not in HEADERS | SOURCES:
        return "is neither a header nor a source by its ending"
    if module in OUTSIDE | {ROOT_FILE}:
        return None
    if module not in PRIVATE.get(target, {module}):
        return "is private to " + ", ".join(sorted(PRIVATE[target]))
    there = module_of(target)
    if there == "include":
        if not (ROOT / target).is_file():
            return "no such public header"
        if module in BELOW and users_reached(target) and (module != "include" or homes_of(path) & set(BELOW)):
            return f"leads to {', '.join(sorted(users_reached(target)))}, which is above"
        return None
    if there in BELOW.get(module, ()) or there == module or target in USERS.get(module, ("", ""))[1].split():
        return None
    hint = "; lib/table/entries.hpp names entries of ops" if there == "lib/ops" else ""
    return f"{module} may not include {there}{hint}"


def check_includes():
    """Yields each include against the layers. At the end, their number."""
    files, includes = 0, 0
    for top in TOPS:
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in HEADERS | SOURCES:
                path = file.relative_to(ROOT).as_posix()
                files += 1
                for bracket, spelled in INCLUDE.findall(text_of(path)):
                    includes += 1
                    problem = problem_with(path, bracket, spelled)
                    if problem:
                        yield f"{path}: {spelled}: {problem}"
    return f"{includes} includes in {files} files"


# Declarations: what headers declare, by name

HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                    re.DOTALL | re.MULTILINE)
TEMPLATE = r"(?:template\s*<.*>\s*)?(?:requires [^;{]*?\s)?"
CLASS = re.compile(TEMPLATE + r"(?:\[\[.*?\]\]\s*)?(?:class|struct|union)\s+(?:alignas\(.*?\)\s*)?(?:REEL_\w+\s+)?(\w+)"
                   r"\s*(?:final)?\s*(?::.*)?$", re.DOTALL)
NAME = re.compile(r"(operator\s*(?:\(\)|\[\]|[^\s\w(]+|[\w:&*<> ]+?)|\w+)\s*(?:<[^()]*>)?\s*\(")
NO_NAME = re.compile(r"(?:alignas|decltype|noexcept|requires|__attribute__|REEL_\w+)$")
Declaration = collections.namedtuple("Declaration", "path types")  # the types of the parameters, without those of std


def types_in(parameters):
    """The classes of the project that a list of parameters names."""
    return frozenset(re.findall(r"\b[A-Z]\w*", re.sub(r"=[^,]*", "", parameters)))


def statements(text):
    """(namespace, class, code) of each declaration outside of function bodies; for a class, the code is None."""
    text = HIDDEN.sub(lambda hidden: '""' if hidden.group()[0] in "R\"'" else " ", text)
    scopes, begin, parentheses = [], 0, 0  # a scope is (kind, name); kind is None in a body

    def inside(kind):
        return "::".join(name for of, name in scopes if of == kind and name)

    for mark in re.finditer(r"[{};()]", text):
        at, letter = mark.start(), mark.group()
        visible = not parentheses and (not scopes or scopes[-1][0])
        if letter in "()":
            parentheses += 1 if letter == "(" else -1
        elif letter == "}" and scopes:
            scopes.pop()
            if not parentheses and (not scopes or scopes[-1][0]):
                begin = mark.end()
        elif letter == "{" and not visible:
            scopes.append((None, ""))
        elif letter in "{;" and visible:
            code, begin = text[begin:at].strip(), mark.end()
            namespace = re.match(r"(?:inline )?namespace\b\s*([\w:]*)$", code)
            declared = CLASS.match(code)
            if letter == ";":
                yield inside("namespace"), inside("class"), code
            elif namespace:
                scopes.append(("namespace", namespace.group(1) or "(anonymous namespace)"))
            elif re.match(r'extern\s*""$', code):
                scopes.append(("linkage", ""))
            elif declared:
                scopes.append(("class", declared.group(1)))
                yield inside("namespace"), inside("class"), None
            else:
                scopes.append((None, ""))


def declarations():
    """{name: [Declaration]} of classes, functions and variables. A function with a body is none of them."""
    found = collections.defaultdict(list)
    for top in ("include", "lib", "autograd", "cuda"):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix not in HEADERS:
                continue
            path = file.relative_to(ROOT).as_posix()
            for namespace, of, code in statements(text_of(path)):
                before = namespace + "::" if namespace else ""
                if code is None:
                    found[before + of].append(Declaration(path, None))
                elif not (of and not re.search(r"\bfriend\b", code)) and not re.search(r"= *(delete|default)$", code):
                    for name, parameters in declared_names(code):
                        found[before + name].append(Declaration(path, types_in(parameters)))
    return found


def declared_names(code):
    """(name, parameters) of what a statement outside of classes declares."""
    code = re.sub(r"\[\[.*?\]\]", "", code)
    if re.match(r"(using|typedef|class|struct|enum|namespace|static_assert)\b[^(]*$|static_assert", code):
        return
    if "(" not in code or re.match(r"\w+ \w+ \w+\[", code):
        if re.match(r"extern\b|.*\bthread_local\b", code):
            for part in code.split(","):
                yield re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", part.split("=")[0]).group(1), ""
        return
    for match in NAME.finditer(code):
        if not NO_NAME.match(match.group(1)):
            yield re.sub(r"operator\s+(?=\W)", "operator", match.group(1)), code[match.end():]
            return


# Symbols: what objects define and call

def objects_of(build):
    """{object: module} of the library and the CUDA backend. The latter may be missing."""
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text()):
        source, made = re.sub(r"^(\.\./)+", "", command["file"]), build / command["output"]
        if made.suffix != ".o" or source.split("/")[0] not in ("lib", "autograd", "cuda") or (
                "/libreel.a.p/" in f"/{command['output']}"):
            continue
        if made.is_file():
            found[str(made)] = module_of(source)
        elif not source.startswith("cuda/"):
            sys.exit(f"{made} is missing: build first")
    return found


def without_templates(name):
    """A demangled name without arguments of templates."""
    name = name.replace("[abi:cxx11]", "")
    cut = re.search(r"\boperator(?!\w)", name)
    head, tail = (name[:cut.start()], name[cut.start():]) if cut else (name, "")
    while (shorter := re.sub(r"<[^<>]*>", "", head)) != head:
        head = shorter
    return head + re.sub(r"^(operator<?<|operator\W*)<.*>$", r"\1", tail)


class Symbols:
    """The symbols of all objects."""

    def __init__(self, build):
        objects = objects_of(build)
        listed = subprocess.run(["nm", "-A", "--no-sort", *objects], check=True, capture_output=True, text=True).stdout
        self.strong = collections.defaultdict(set)  # symbol: the modules that define it
        self.calls = collections.defaultdict(set)   # symbol: the modules that name it and do not define it
        self.weak = collections.defaultdict(set)    # the same for inline functions and the like
        for object_, kind, symbol in re.findall(r"^(.*?\.o):.{16} (\S) (.*)$", listed, re.MULTILINE):
            module = objects[object_]
            if symbol == REPLACED:
                continue
            if kind in "Uwv":
                self.calls[symbol].add(module)
            elif kind in "WVu":
                self.weak[symbol].add(module)
            elif kind.isupper():
                self.strong[symbol].add(module)
        self.definers = self.weak | self.strong
        names = sorted(self.definers)
        self.full = dict(zip(names, self.demangled(names)))
        self.plain = {symbol: re.sub(r"^[\w -]+ (?:for|to) ", "", without_templates(name))
                      for symbol, name in zip(names, self.demangled(names, "--no-params"))}

    def types(self, symbol):
        return types_in(self.full[symbol].partition("(")[2])

    @staticmethod
    def demangled(names, *options):
        return subprocess.run(["c++filt", *options], input="\n".join(names), check=True, capture_output=True,
                              text=True).stdout.splitlines()


def declared_in(symbols, symbol, declared):
    """The headers that declare a symbol, or its class. Overloads of several modules are distinguished by their types."""
    parts = re.sub(r"\bkernels::(?!REEL)\w+::", "kernels::REEL_ISA::", symbols.plain[symbol]).split("::")
    for end in range(len(parts), 0, -1):
        found = [d for d in declared.get("::".join(parts[:end]), ()) if end == len(parts) or d.types is None]
        if found and len(set().union(*(homes_of(d.path) for d in found))) > 1 and found[0].types is not None:
            found = [d for d in found if d.types == symbols.types(symbol)] or found
        if found:
            return {d.path for d in found}
    return set()


def declared_without_body(symbols, symbol, declared):
    """The headers that declare exactly this function and do not define it."""
    return {d.path for d in declared.get(symbols.plain[symbol], ()) if d.types == symbols.types(symbol)}


def check_definitions(symbols, declared):
    """Yields each function or variable that a module defines although a header of another one declares it."""
    count = 0
    found = [(symbol, modules, declared_in) for symbol, modules in symbols.strong.items()]
    found += [(symbol, modules, declared_without_body) for symbol, modules in symbols.weak.items()]
    for symbol, modules, find in sorted(found, key=lambda item: item[0]):
        headers = find(symbols, symbol, declared)
        if not headers:  # inline, or a function or variable of one module: check_calls() sees who else names it
            continue
        count += 1
        homes = set().union(*map(homes_of, headers)) or {"no module, as the header names none"}
        for module in sorted(modules - homes - {ROOT_FILE}):
            yield (f"{module} defines {symbols.full[symbol]}, which {', '.join(sorted(headers))} declares; "
                   f"it belongs to {', '.join(sorted(homes))}")
    if count < 1000:
        yield f"only {count} definitions found: the patterns no longer fit the headers"
    return f"{count} definitions"


def check_calls(symbols, declared):
    """Yields each call that goes up or to a stranger, or to what no header declares."""
    count, used = 0, set()
    for symbol, callers in sorted(symbols.calls.items()):
        for module in sorted(callers - {ROOT_FILE}) if symbol in symbols.definers else ():
            targets = symbols.definers[symbol]
            if module in targets:
                continue
            count += 1
            headers = declared_in(symbols, symbol, declared)
            public = any(h.startswith("include/") for h in headers)
            called = USERS.get(module, (CALLS.get(module, ""), ""))[0].split()
            if not headers:
                yield f"{module} names {symbols.full[symbol]} of {', '.join(sorted(targets))}, which no header declares"
            allowed = BELOW.get(module, set()) | {ROOT_FILE} | set(called if public or allowed_header(module, headers) else ())
            used |= {(module, target) for target in targets & allowed}
            if not targets & allowed:
                yield f"{module} names {symbols.full[symbol]} of {', '.join(sorted(targets))}: not allowed"
    for module, called in [(user, calls) for user, (calls, _) in USERS.items()] + list(CALLS.items()):
        for target in called.split():
            if (module, target) not in used:
                yield f"{module} no longer calls {target}: take it out of its row"
    return f"{count} calls between modules"


def allowed_header(module, headers):
    return bool(headers & set(USERS.get(module, ("", ""))[1].split()))


def main(build):
    modules = BELOW.keys() | USERS.keys() | OUTSIDE
    problems = [f"{module}: a row for no folder" for module in sorted(modules) if not (ROOT / module).is_dir()]
    summary = []

    def collect(checks):
        while True:
            try:
                problems.append(next(checks))
            except StopIteration as end:
                summary.append(end.value)
                return

    collect(check_includes())
    if build:
        declared, symbols = declarations(), Symbols(build)
        collect(check_definitions(symbols, declared))
        collect(check_calls(symbols, declared))
    print("\n".join(problems + [f"{', '.join(summary)}; {len(problems)} against the layers"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None))
