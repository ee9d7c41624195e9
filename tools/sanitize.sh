# SPDX-License-Identifier: BSD-3-Clause
# './dev sanitize': the tests under AddressSanitizer, UBSan and ThreadSanitizer. dev reads this file.
# shellcheck shell=bash disable=SC2154  # variables of dev

# sweep_on_emulator FOLDER: every op with its gradients on the CUDA emulator, with few samples of each, in two parts.
sweep_on_emulator() {
  local part
  for part in '"every*"' '~"every*"'; do
    REEL_TEST_DEVICE=cuda REEL_TEST_SHORT=1 \
      beside run_tests "$1/tests/test_sweep" "~[cpu]~[slow]~[.]~\"an exception at any kernel*\"$part"
  done
}

# race_on_emulator: ThreadSanitizer over the kernels. Only the plugin is compiled for it: the programs are those of
# './dev test', into which its runtime is loaded first, and the emulator of the plugin instead of theirs.
race_on_emulator() {
  local -x REEL_CUDA_LIBRARY=$PWD/build/emulator/cuda/libreel_cuda_emulated.so REEL_CUDA_CACHE=nan
  local -x REEL_TEST_PLUGIN=$REEL_CUDA_LIBRARY REEL_TEST_PLANTED_MODULE=$PWD/build/emulator/tests/libplanted.so
  local -x LD_LIBRARY_PATH=$PWD/build/emulator/cuda/emulate
  local -x TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1
  local -x LD_PRELOAD
  LD_PRELOAD="$PWD/build/emulator/tests/libbegin_tsan.so $(clang++ "-print-file-name=libclang_rt.tsan-$(uname -m).so")"
  LD_PRELOAD+=" $LD_LIBRARY_PATH/libemulate.so"
  REEL_TEST_SHORT=1 beside run_tests build/test/tests/test_cuda '~[.]'  # first, as it takes longest
  sweep_on_emulator build/test
}

sanitize() {
  need "${build_packages[@]}" "${test_packages[@]}"  # some parts use the programs of './dev test'
  local common=(-Dsamples=false -Disa=native -Doptimization=1 -Db_lundef=false)
  local lines=-g1  # enough for the lines of a report
  # Not detect_stack_use_after_return: g++ 12 aligns the locals of its fake stack to 32 bytes where
  # AVX-512 code takes them for 64 (GCC bug 110027), and a vector store to one traps.
  export ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1:allocator_may_return_null=1
  export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=0
  local part
  for part in ${1:-tests thread emulator}; do
    declare -F "sanitize_$part" >/dev/null || { usage; exit 2; }
    "sanitize_$part"
  done
  finish
}

configure_address() {
  # A null or a wild pointer is AddressSanitizer's to see; looking for both twice takes a fifth of the build. Checks
  # of alignment take 20 to 45 % of the time of a file. x86-64 needs alignment for vectors only, and traps there.
  # Code that runs on the emulator has these checks, because a GPU needs alignment: cuda/emulate/meson.build.
  configure address "${common[@]}" -Db_sanitize=address,undefined \
    "-Dcpp_args=$lines -fno-sanitize=null,object-size,alignment -fno-sanitize-recover=all -fno-omit-frame-pointer"
}

# relink PROGRAM: a program of './dev test', with the library of build/address.
relink() {
  local command
  command=$(ninja -C build/test -t commands "tests/$1" | tail -n 1)
  command=${command/ -o tests\/$1 / -o ../address/tests/$1 -fsanitize=address,undefined }
  (cd build/test && eval "${command/ libreel.a / ../address/libreel.a }")
}

# With the tests of './dev test': compiling them again is half of the build. Those that replace malloc or load our
# plugins are compiled for the sanitizers, with all that they load.
sanitize_address() {
  local program own targets
  configure_address
  build test "${test_options[@]}"
  own='test_(cuda|emulator|ends|exhaustion)'
  mapfile -t targets < <(ninja -C build/address -t targets all | sed -n 's/: cpp_LINKER$//p' |
    grep -E "^(cuda/|libreel|tests/(ends|lib(ends|planted).*|$own)$)")
  ninja -C build/address --quiet libreel.a "${targets[@]}"
  for program in build/test/tests/test_*; do
    if [[ -f $program && -x $program && ! $program =~ $own$ ]]; then relink "${program##*/}"; fi
  done
  run_for_address
}

sanitize_tests() {
  configure_address
  find build/address/tests -maxdepth 1 -name 'test_*' -type f -delete  # those of the part address
  ninja -C build/address --quiet
  run_for_address
}

run_for_address() {
  run_all_tests build/address
  # Without its cache the CUDA backend's blocks have their exact size: an access behind the last element is seen.
  local plugin=$PWD/build/address/cuda/libreel_cuda_emulated.so
  if [[ -f $plugin ]]; then
    REEL_CUDA_CACHE=0 REEL_CUDA_LIBRARY=$plugin sweep_on_emulator build/address
    gather
  fi
}

sanitize_thread() {
  configure thread "${common[@]}" -Db_sanitize=thread "-Dcpp_args=$lines"
  local binary threaded before=$((passed + failed))
  threaded=$(grep -rlE '"[^"]*\[threads\]' tests --include='*.cpp' | cut -d/ -f2 | sort -u | sed 's|.*|tests/test_&|')
  # shellcheck disable=SC2086  # names of targets
  ninja -C build/thread --quiet ${threaded:-libreel.a}
  for binary in $threaded; do beside run_tests "build/thread/$binary" '[threads]'; done
  gather
  if ((passed + failed == before)); then
    echo "FAILED: no test is tagged [threads]"
    ((++failed))
  fi
}

# ThreadSanitizer by clang++: g++ takes a thousand times as long to make a fiber.
sanitize_emulator() {
  need "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
  CXX=clang++ configure emulator "${common[@]}" -Db_sanitize=thread "-Dcpp_args=$lines"
  if [[ -z $(ninja -C build/emulator -t query cuda/emulate/libemulate.so 2>/dev/null) ]]; then
    echo 'skipped: the CUDA emulator with ThreadSanitizer: the headers of a CUDA toolkit are missing'
    ((++skipped))
    return
  fi
  ninja -C build/emulator --quiet tests/test_emulator tests/libplanted.so tests/libbegin_tsan.so \
    cuda/libreel_cuda_emulated.so
  [[ -f build/test/build.ninja ]] || configure test "${test_options[@]}"
  ninja -C build/test --quiet tests/test_sweep tests/test_cuda
  local start=$SECONDS
  beside run_tests build/emulator/tests/test_emulator
  race_on_emulator
  gather
  echo "the CUDA emulator with ThreadSanitizer: $((SECONDS - start)) s"
}
