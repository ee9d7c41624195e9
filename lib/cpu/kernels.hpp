// SPDX-License-Identifier: BSD-3-Clause
// What the kernels of one instruction set offer to the op table.
#pragma once
#include "lib/table/kernel_call.hpp"

namespace reel::kernels {
struct NamedKernel {
  const char* name;  // "softmax", "softmax.d": see Part
  Kernel kernel;
  TakesHalves takes_halves = nullptr;  // null: never
  ConversionOf conversion = nullptr;
};
struct NamedPasses {
  const char* op;
  const Passes* passes;
};
/// Kernels and passes of one family, ended by an entry whose op is null.
struct Family {
  const NamedKernel* kernels;
  const NamedPasses* passes;
};
/// The families of one instruction set, ended by null.
using Families = const Family* const*;
}  // namespace reel::kernels
