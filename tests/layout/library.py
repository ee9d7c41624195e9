#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library is small, has no OpenMP and exports the API only, plugins one function, and kernels no weak symbols.
Stages of programs end with a jump. Forks are safe."""
import pathlib
import re
import subprocess
import sys
import tempfile

STRIPPED_LIMIT = 7_500_000
# What the library exports, by mangled names: members of namespace reel, and what belongs to its classes. Unique objects
# of the standard library ("u") are shared by all libraries of a process.
OURS = re.compile(r"_Z(T[VIS]|Thn\w+?_|GVZ?|Z)?(N[KRO]*)?4reel")


# A fork locks the mutexes of these files. Statics that are initialized when the library is loaded are always complete.
# The debugger is used by one thread, and leaves the child of a fork alone.
# A pipeline makes new locks in the child; a child must not use a World, which throws there.
LISTS_MUTEXES = "lib/pool/process.", "lib/data/crew.", "lib/dist/watchdog.", "lib/dist/mpi/", "lib/debug/"
WAITS = re.compile(r"\bstd::\w*mutex\b|\bstd::condition_variable|\bcall_once\b|\bpthread_(mutex|cond|rwlock|once|atfork)")
MADE_AT_LOAD = {"OpTable::the()::table", "assemble()::filled", "kernels::(anonymous namespace)::choice()::chosen"}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def fork_hazards(library):
    """What could block the child of a fork for ever: a mutex, or a static local that another thread is initializing."""
    for folder in ("include", "lib", "autograd"):  # CUDA itself does not work in the child of a fork
        for file in sorted((ROOT / folder).rglob("*.[ch]pp")):
            path = file.relative_to(ROOT).as_posix()
            if not path.startswith(LISTS_MUTEXES):
                yield from (f"{path}: {m.group()} outside of {LISTS_MUTEXES[0]}*" for m in WAITS.finditer(file.read_text()))
    for _, symbol in symbols(str(library)):
        made = re.match(r"guard variable for reel::(.*)", symbol)
        if made and made.group(1) not in MADE_AT_LOAD:
            yield f"{made.group(1)} is made at its first use"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(*arguments):
    """(type, demangled name) of each symbol that nm lists."""
    for line in output("nm", "-C", *arguments).splitlines():
        match = re.match(r"^(?:[0-9a-f]{16}|\s{16}) (\S) (.*)$", line)
        if match:
            yield match.groups()


def weak_leaks(objects, name):
    """Inline functions that the linker may take from a unit that is compiled for a newer processor."""
    scope = f"reel::kernels::{name}::"
    mangled = rf"^_Z.*7kernels.*{len(name)}{name}"  # names of lambdas within lambdas, which nm leaves as they are
    own = re.compile(rf"(^|[ <(&*]){scope}|xsimd::|^DW\.ref\.|{mangled}")
    return sorted({s for kind, s in symbols("--defined-only", *objects)
                   if kind in "WVu" and not own.search(s)})


def nested_stages(objects):
    """Stages of programs that call the next stage instead of jumping to it."""
    for text in output("objdump", "-dC", "--no-show-raw-insn", *objects).split("\n\n"):
        name = re.match(r"\w+ <(?:void )?(reel::kernels::\w+::(?:value|gradient)_stage<[^(]*(?:\(reel::StageForm\)\d+)?)", text)
        if name and (re.search(r"\tcall", text) or not re.search(r"\tjmp +\*", text)):
            yield name.group(1)


def main(build):
    library, problems = build / "libreel.so", []
    if "libgomp" in output("ldd", str(library)):
        problems.append("libreel.so loads libgomp, which hangs in the child of a fork")
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "libreel.so"
        subprocess.run(["strip", "-o", stripped, library.resolve()], check=True)
        size = stripped.stat().st_size
    if size > STRIPPED_LIMIT:
        problems.append(f"libreel.so has {size} bytes stripped, at most {STRIPPED_LIMIT}")
    exported = [s for _, s in symbols("-D", "--defined-only", str(library))]
    mangled = output("nm", "-D", "--defined-only", str(library)).splitlines()
    strangers = [line for line in mangled if line.split()[1] != "u" and not OURS.match(line.split()[2])]
    internal = [s for s in exported if "reel::kernels::" in s]
    problems += [f"libreel.so exports {s}" for s in strangers + internal]
    for plugin in build.glob("cuda/libreel_cuda*.so"):
        problems += [f"{plugin.name} exports {s}" for _, s in symbols("-D", "--defined-only", str(plugin))
                     if s != "reel_install_cuda"]
    problems += fork_hazards(build / "libreel.a")
    sets = {}  # each has a library for each level of optimization: libkernels_avx2_O3
    for folder in sorted((build / "lib" / "cpu").glob("libkernels_*_O*.a.p")):
        sets.setdefault(folder.name.split("_")[1], []).extend(map(str, folder.glob("*.o")))
    for name, objects in sets.items():
        problems += [f"{name} kernels leak {s}" for s in weak_leaks(sorted(objects), name)]
        stages = [o for o in objects if re.search(r"_O[23s]\.a\.p/pointwise_(arithmetic|activation)", o)]
        problems += [f"{s} is no tail call" for s in nested_stages(stages)] if stages else []
    print("\n".join(problems + [
        f"{size / 1e6:.1f} MB stripped, {len(exported)} symbols exported, {len(sets)} instruction sets"]))
    return 1 if problems or not exported or not sets else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
