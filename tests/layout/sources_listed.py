#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every source is in the meson.build of its folder. Otherwise it is never compiled, and nobody notices."""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("lib", "autograd", "cuda", "tests")
ELSEWHERE = {"tests/consumers/arrays.cpp", "tests/consumers/program.cpp",  # compiled against the installed library
             "tests/consumers/static_cuda.cpp"}  # by static_cuda.sh
PEERS = "tests/peers/"  # built where the folder of a LibTorch is given
EMULATOR = ("cuda/", "tests/cuda/", "tests/emulator/")  # built where a CUDA toolkit is
SCREEN = ("lib/debug/client.cpp", "lib/debug/screen.cpp")  # built where ncurses is
CUDNN = ("cuda/emulate/cudnn_", "tests/cuda/convolution_cudnn.cpp", "tests/cuda/cudnn.cpp",  # built where cuDNN's
         "tests/emulator/planted_convolutions.cpp", "tests/emulator/planted_recurrent.cpp")  # header is too


def main(build):
    introspection = subprocess.run(["meson", "introspect", "--targets", build], check=True,
                                   capture_output=True, text=True).stdout
    listed = {pathlib.Path(source).relative_to(ROOT).as_posix()
              for target in json.loads(introspection)
              for group in target["target_sources"] for source in group.get("sources", [])
              if pathlib.Path(source).is_relative_to(ROOT)}
    found = {file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in (ROOT / folder).rglob("*.cpp")}
    if not any(name.startswith(EMULATOR) for name in listed):
        found = {name for name in found if not name.startswith(EMULATOR)}
    if not any(name.startswith(CUDNN[0]) for name in listed):
        found = {name for name in found if not name.startswith(CUDNN)}
    if not any(name.startswith(SCREEN) for name in listed):
        found = {name for name in found if not name.startswith(SCREEN)}
    if not any(name.startswith(PEERS) for name in listed):
        found = {name for name in found if not name.startswith(PEERS)}
    missing = sorted(found - listed - ELSEWHERE)
    print("\n".join([f"{name} stands in no meson.build" for name in missing] + [f"{len(found)} sources"]))
    return 1 if missing or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
