// SPDX-License-Identifier: BSD-3-Clause
// Devices whose memory the host cannot access. Their kernels run late, on another thread, in the
// order of the queue: they start when somebody waits. There are two kinds, with two devices each.
#pragma once
#include <cstddef>
#include <string>

#include <reel/device.hpp>

namespace reel::tests {
/// A device of the kind "far", 0 or 1. Its kernels are those of the CPU.
Device far_device(int index = 0);
/// A device of the kind "other", which has all that far devices have.
Device other_device(int index = 0);
/// The number of kernels of far_device(index) that wait, and that have run.
std::size_t far_kernels_waiting(int index);
std::size_t far_kernels_run(int index);
/// During its lifetime far devices lack a kernel: "softmax", or "softmax.d" for its gradient.
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
