#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# static_cuda.sh FOLDER ARCHIVE LIBRARY...: links static_cuda.cpp with the libreel.a of a build folder, the CUDA backend
# as an archive, and what that needs. Without the archive the same program finds no backend.
set -euo pipefail
folder=$1 archive=$2
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
link -Wl,--undefined=reel_install_cuda "$archive" "$folder/libreel.a" "${@:3}"
"$program"
