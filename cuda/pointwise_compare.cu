// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::gpu {
namespace {
KernelResult where(const Call& call) {
  // A unit represents every dtype of its size: elements are copied only.
  with_unit(size_of(call.output().dtype), [&]<class Unit>(Type<Unit>) {
    apply<Unit, std::uint8_t, Unit, Unit>(call.queue, formulas::Where(), call.output(),
                                          {&call.input(0), &call.input(1), &call.input(2)});
  });
  return {};
}

KernelResult order(const Call& call) {
  const Body &x = call.input(0), &y = call.input(1);
  if (x.dtype == DType::int64)
    apply<float, std::int64_t, double>(call.queue, formulas::Order(), call.output(), {&x, &y});
  else
    apply<float, double, std::int64_t>(call.queue, formulas::Order(), call.output(), {&x, &y});
  return {};
}

constexpr NamedKernel others[] = {{"where", where}, {"order", order}, {nullptr, nullptr}};
constexpr auto bits = table_of(formulas::BitwiseFormulas(), others);
constexpr auto table = table_of(formulas::CompareFormulas(), bits.kernels);
}  // namespace
extern const NamedKernel* const pointwise_compare_kernels;
const NamedKernel* const pointwise_compare_kernels = table.kernels;
}  // namespace reel::gpu
