#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tools/gpu-check bundle` packs the repository and the libraries that a build needs, and the unpacked tool starts.

It needs no network: pip finds a package of compute-sanitizer in a folder, which contains a file that stands for it."""
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ["catch2", "fmt", "xsimd", "xtensor", "zlib"]
SANITIZER = "third_party/compute-sanitizer/bin/compute-sanitizer"


def output_of(command, **arguments):
    return subprocess.run(command, capture_output=True, text=True, **arguments)


def skip(reason):
    print(f"gpu_bundle: {reason}")
    sys.exit(77)


def make_wheel(folder):
    """A package of compute-sanitizer, of nvcc's version."""
    version = "13.0"
    try:
        said = re.search(r"release ([\d.]+)", output_of(["nvcc", "--version"]).stdout)
        version = said[1] if said else version
    except OSError:
        pass
    name = f"nvidia_cuda_sanitizer_api-{version}.99"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("nvidia/cu13/bin/compute-sanitizer", "#!/bin/sh\necho sanitizer\n")
        wheel.writestr(f"{name}.dist-info/METADATA",
                       f"Metadata-Version: 2.1\nName: nvidia-cuda-sanitizer-api\nVersion: {version}.99\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")


def bundle(folder, has_pip):
    """What the tool prints, and the folder of the unpacked bundle. `has_pip`: whether pip finds the package."""
    folder.mkdir()
    packages = folder / "packages"
    packages.mkdir()
    if has_pip:
        make_wheel(packages)
    archive = folder / "reel.tar.gz"
    made = output_of([sys.executable, "tools/gpu-check", "bundle", archive], cwd=ROOT,
                     env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages)})
    if "is missing: ./dev setup" in made.stderr:
        skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    return made.stdout, folder / "reel"


def check_files(reel, tracked):
    missing = [name for name in tracked if (ROOT / name).exists() and not (reel / name).exists()]
    assert not missing, f"the bundle lacks {missing[:5]}"
    for library in LIBRARIES:
        assert (reel / "third_party" / library / "meson.build").is_file(), library
        assert any((reel / "third_party" / library / "include").iterdir()), library
    assert (reel / "third_party/zlib/libz.so").is_file()
    meson = (ROOT / "meson.build").read_text() + (ROOT / "tests/meson.build").read_text()
    needed = set(re.findall(r"(?<!override_)dependency\('(\w+)'", meson)) - {"threads", "dl", "eigen3"}
    assert needed <= set(LIBRARIES), f"the bundle lacks {needed - set(LIBRARIES)}"


def check_tool(reel):
    usage = output_of([reel / "tools/gpu-check", "--help"])
    assert usage.returncode == 0 and usage.stdout.startswith("usage: tools/gpu-check "), usage
    assert not (reel / "build").exists(), "--help has made a folder"


def main():
    tracked = output_of(["git", "ls-files", "-z"], cwd=ROOT)
    if tracked.returncode:
        skip("not a git repository")
    tracked = list(filter(None, tracked.stdout.split("\0")))
    assert len(tracked) > 100
    skipped = ""
    with tempfile.TemporaryDirectory() as folder:
        said, reel = bundle(pathlib.Path(folder, "without"), has_pip=False)
        assert "without compute-sanitizer" in said and not (reel / SANITIZER).exists(), said
        check_files(reel, tracked)
        check_tool(reel)
        if output_of([sys.executable, "-m", "pip", "--version"]).returncode:
            skipped = "; skipped: compute-sanitizer in a bundle: pip is missing"
        else:
            said, reel = bundle(pathlib.Path(folder, "with"), has_pip=True)
            assert "without compute-sanitizer" not in said, said
            assert output_of([reel / SANITIZER]).stdout == "sanitizer\n"
    print(f"{len(tracked)} files, {len(LIBRARIES)} libraries{skipped}")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        print(f"gpu_bundle: {error}")
        sys.exit(1)
