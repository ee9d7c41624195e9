// SPDX-License-Identifier: BSD-3-Clause
// Two devices whose memory the host cannot access. Their kernels run late, on another thread, in
// the order of the queue: they start when somebody waits. In a test the devices are cuda(0) and
// cuda(1).
#pragma once
#include <cstddef>
#include <string>

namespace reel::tests {
/// Adds the devices to the process. Their kernels are those of the CPU.
void add_far_devices();
/// The number of kernels of cuda(index) that wait, and that have run.
std::size_t far_kernels_waiting(int index);
std::size_t far_kernels_run(int index);
/// During its lifetime the devices lack a kernel: "softmax", or "softmax.d" for its gradient.
class WithoutFarKernel {
 public:
  explicit WithoutFarKernel(std::string name);
  ~WithoutFarKernel();
  WithoutFarKernel(const WithoutFarKernel&) = delete;
  WithoutFarKernel& operator=(const WithoutFarKernel&) = delete;

 private:
  std::string name_;
};
}  // namespace reel::tests
