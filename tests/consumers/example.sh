#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# example.sh PREFIX SOURCE: builds an example against the installed library, without a warning, and runs it.
set -euo pipefail
prefix=$(realpath "$1") source=$2
if [[ ! -f $source ]]; then
  echo "$source is not beside this repository"
  exit 77
fi
program=$(dirname "$prefix")/example_$(basename "$source" .cpp)
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra cflags < <(pkg-config --cflags reel)
read -ra eigen < <(pkg-config --cflags-only-I eigen3 2>/dev/null | sed 's/-I/-isystem /g') || true
cflags+=("${eigen[@]}")
read -ra libraries < <(pkg-config --libs reel)
warnings=(-Wall -Wextra -Werror)
g++ -std=c++20 "${warnings[@]}" "${cflags[@]}" "$source" "${libraries[@]}" -Wl,-rpath,"$prefix/lib" -o "$program"
if command -v clang++ >/dev/null; then
  clang++ -std=c++20 "${warnings[@]}" -fsyntax-only "${cflags[@]}" "$source"
fi
timeout 300 "$program"
