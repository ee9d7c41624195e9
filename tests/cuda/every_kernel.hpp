// SPDX-License-Identifier: BSD-3-Clause
// Calls of every kernel of the CUDA backend.
#pragma once
#include <set>
#include <string>

#include "lib/table/op.hpp"
#include "support/resident.hpp"
#include "support/short.hpp"

namespace reel::tests {
/// Whether the tensors are small, because the kernels are slow.
inline const bool smaller = sanitized || is_short();
inline constexpr Part all_parts[] = {Part::value, Part::gradient_0, Part::gradient_1,
                                     Part::gradients};

/// Whether CUDA devices leave the op to a kernel of the CPU, as linear algebra.
bool runs_on_host(const Op& op);
/// The names of the kernels that CUDA devices have: "tanh", "tanh.d0".
std::set<std::string> kernels();
/// Calls every kernel on more elements than a grid takes at once.
void run_every_kernel();
/// Calls kernels with three blocks or more, and elements for a part of the last one.
void run_ragged_grids();
/// Calls the kernels of lines that no block keeps in its registers.
void run_long_lines();

/// While it lives, an op has no kernel for its value on CUDA devices.
class NoKernel {
 public:
  explicit NoKernel(const char* name)
      : kernels_(OpTable::the().find(name)->on(Device::Kind::cuda)),
        kernel_(kernels_.of(Part::value)) {
    kernels_.set(Part::value, Kernel(nullptr));
  }
  ~NoKernel() { kernels_.set(Part::value, kernel_); }
  NoKernel(const NoKernel&) = delete;
  NoKernel& operator=(const NoKernel&) = delete;

 private:
  Kernels& kernels_;
  const Kernel kernel_;
};
}  // namespace reel::tests
