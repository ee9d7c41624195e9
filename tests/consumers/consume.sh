#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# consume.sh PREFIX pkg-config|cmake|subproject shared|static: builds program.cpp that way and runs it.
set -euo pipefail
prefix=$(realpath "$1") way=$2 kind=$3
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")") root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
folder=$(dirname "$prefix")/consumer_$way
mkdir -p "$folder"
cd "$folder"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

case $way in
  pkg-config)
    if [[ $kind == static ]]; then
      libraries=$(pkg-config --static --libs reel | sed 's/-lreel\b/-l:libreel.a/')
    else
      libraries="$(pkg-config --libs reel) -Wl,-rpath,$prefix/lib"
    fi
    # shellcheck disable=SC2046,SC2086  # flags are words
    ${CXX:-g++} -std=c++20 $(pkg-config --cflags reel) "$here/program.cpp" $libraries -o "program_$kind"
    ;;
  cmake)
    cmake -G Ninja -S "$here" -B build -DCMAKE_PREFIX_PATH="$prefix" >cmake.log || { cat cmake.log; exit 1; }
    cmake --build build --target "program_$kind" >cmake.log || { cat cmake.log; exit 1; }
    cd build
    ;;
  subproject)
    mkdir -p source/subprojects
    cp "$here/program.cpp" "$here/meson.build" source/
    ln -sfn "$root" source/subprojects/reel
    [[ -f build/build.ninja ]] || meson setup build source -Doptimization=0 -Ddebug=false -Dreel:isa=native >meson.log || { cat meson.log; exit 1; }
    ninja -C build --quiet "program_$kind"
    cd build
    ;;
esac

"./program_$kind"
loaded=$(ldd "./program_$kind" | grep -c 'libreel\.so' || true)
if [[ $kind/$loaded != shared/1 && $kind/$loaded != static/0 ]]; then
  echo "program_$kind loads libreel.so $loaded times"
  exit 1
fi
