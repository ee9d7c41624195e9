#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# static_cuda.sh FOLDER ARGUMENTS: links static_cuda.cpp with these arguments, which name the CUDA backend as an archive,
# the libreel.a of a build folder, and what these need. Without them the same program finds no backend.
set -euo pipefail
folder=$1
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")") root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
program=$folder/tests/static_cuda
export REEL_CUDA_LIBRARY=/no/such/file.so

link() {
  ${CXX:-g++} -std=c++20 -I"$root/include" "$here/static_cuda.cpp" "$@" -lfmt -lz -ldl -lrt -pthread -o "$program"
}
link "$folder/libreel.a"
if "$program"; then
  echo 'without the archive there is a backend'
  exit 1
fi
link "${@:2}"
"$program"
