// SPDX-License-Identifier: BSD-3-Clause
// A program that contains the library and the CUDA backend. It opens no plugin.
#include <cstdio>

#include <reel/reel.hpp>
using namespace reel;

int main() {
  const std::string status = cuda_status();
  std::puts(status.c_str());
  if (status.find("could not be opened") != std::string::npos) return 1;
  if (!cuda_available()) return 0;
  const Tensor x = ones({3}).to(cuda(0));
  return equal((x + matmul(ones({3, 3}).to(cuda(0)), x)).to(cpu()), full({3}, 4)) ? 0 : 1;
}
