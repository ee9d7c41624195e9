// SPDX-License-Identifier: BSD-3-Clause
// Two devices whose memory the host cannot touch and whose kernels run late, on another thread, in
// the order of their queue: when somebody waits. They are cuda(0) and cuda(1) of a test.
#pragma once
#include <cstddef>
#include <string>

namespace reel::tests {
/// From now on the process has the devices. Their kernels are the CPU's.
void add_far_devices();
/// How many kernels of cuda(index) wait to be run, and how many have run.
std::size_t far_kernels_waiting(int index);
std::size_t far_kernels_run(int index);
/// While it lives the devices have no kernel for this op.
class WithoutFarKernel {
 public:
  explicit WithoutFarKernel(std::string op);
  ~WithoutFarKernel();
  WithoutFarKernel(const WithoutFarKernel&) = delete;
  WithoutFarKernel& operator=(const WithoutFarKernel&) = delete;
};
}  // namespace reel::tests
