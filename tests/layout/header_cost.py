#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Public headers are light. Each compiles alone with both compilers, without a warning. None uses a name that a header
of C or of POSIX defines as a macro: programs include such headers first, and <complex.h> defines `I`."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
LIMITS = {"reel/reel.hpp": 60_000, "reel/tensor.hpp": 35_000}
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SYSTEM = """
aio arpa/inet assert complex ctype dirent dlfcn errno fcntl fenv float fmtmsg fnmatch ftw glob grp iconv inttypes
iso646 langinfo libgen limits locale math monetary mqueue net/if netdb netinet/in netinet/tcp nl_types poll pthread pwd
regex sched search semaphore setjmp signal spawn stdalign stdarg stdbool stddef stdint stdio stdlib string strings
sys/ipc sys/mman sys/msg sys/param sys/resource sys/select sys/sem sys/shm sys/socket sys/stat sys/statvfs
sys/sysmacros sys/time sys/times sys/types sys/uio sys/un sys/utsname sys/wait syslog tar termios tgmath time uchar
ulimit unistd utime utmpx wchar wctype wordexp
""".split()


def macros(text):
    """The names of macros, and whether each takes arguments, after this text."""
    command = ["g++", "-std=gnu++20", f"-I{INCLUDE}", "-dM", "-E", "-x", "c++", "-"]
    said = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return {name: bool(bracket) for name, bracket in re.findall(r"#define (\w+)(\(?)", said)}


def taken_names(headers):
    """Names in our headers that a program may have defined as macros."""
    system = macros("".join(f"#include <{name}.h>\n" for name in SYSTEM))
    for name in macros("#include <reel/reel.hpp>\n"):
        system.pop(name, None)
    for header in headers:
        text = re.sub(r'//.*|"(\\.|[^"\\])*"', "", (INCLUDE / header).read_text())
        names = re.findall(r"\b([A-Za-z_]\w*)\b(\s*\(?)", text)
        for name in sorted({name for name, end in names if name in system and (end.endswith("(") or not system[name])}):
            yield f"{header} uses the name {name}, which a system header defines as a macro"


def run(compiler, header, *arguments):
    command = [compiler, "-std=c++20", f"-I{INCLUDE}", "-isystem", "/usr/include/eigen3", "-x", "c++", *arguments, "-"]
    return subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)


def main():
    headers = sorted(h.relative_to(INCLUDE).as_posix() for h in INCLUDE.rglob("*.hpp"))
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    problems = list(taken_names(headers))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(c, h): pool.submit(run, c, h, "-fsyntax-only", *WARNINGS) for c in compilers for h in headers}
        for (compiler, header), job in jobs.items():
            if job.result().returncode:
                problems.append(f"{header} does not compile alone with {compiler}:\n{job.result().stderr}")
    costs = []
    for header, limit in LIMITS.items():
        lines = run("g++", header, "-E").stdout.count("\n")
        start = time.monotonic()
        run("g++", header, "-O0", "-c", "-o", os.devnull)
        costs.append(f"{header} {lines} lines {time.monotonic() - start:.2f} s")
        if not 0 < lines <= limit:
            problems.append(f"{header}: {lines} preprocessed lines, at most {limit}")
    print("\n".join(problems + [f"{len(headers)} headers, {' and '.join(compilers)}; {'; '.join(costs)}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
