// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/run_program.hpp"

#include <cstdio>
#include <cstdlib>

#include "emulator/programs.hpp"

namespace programs {
std::vector<Program> all() {
  std::vector<Program> list;
  for (const auto part :
       {facts(), in_kernels(), in_memory(), in_streams(), in_graphs(), in_products()})
    list.insert(list.end(), part.begin(), part.end());
#ifdef REEL_CUDNN
  for (const auto part : {in_recurrent(), in_convolutions()})
    list.insert(list.end(), part.begin(), part.end());
#endif
  return list;
}

void ok(cudaError_t error, int line) {
  if (expect_success(error, line)) return;
  std::exit(3);
}

bool expect_success(cudaError_t error, int line) {
  if (error == cudaSuccess) return true;
  std::fprintf(stderr, "line %d: %s: %s\n", line, cudaGetErrorName(error),
               cudaGetErrorString(error));
  return false;
}
}  // namespace programs

int run_program(std::string_view name, bool fault) {
  for (const programs::Program& program : programs::all()) {
    if (program.name != name) continue;
    if (program.run(fault)) return 0;
    std::fprintf(stderr, "the result is wrong\n");
    return 4;
  }
  std::fprintf(stderr, "no such program\n");
  return 2;
}
