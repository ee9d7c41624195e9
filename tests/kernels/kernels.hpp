// SPDX-License-Identifier: BSD-3-Clause
// Calls kernels directly, for each instruction set of this machine, on bodies that the tests build.
#pragma once
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lib/body/body.hpp"
#include "lib/cpu/install.hpp"
#include "lib/table/options/random.hpp"

namespace reel::tests {
/// Elements, and a body over them. The body is row-major until its strides are changed.
template <class T>
struct Array {
  std::vector<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>> elements;
  Body body{};

  explicit Array(Shape shape, T value = T())
      : elements(static_cast<std::size_t>(shape.elements()), value) {
    describe(shape);
  }
  Array(Shape shape, const std::vector<T>& values) : elements(values.begin(), values.end()) {
    describe(shape);
  }
  Array(const Array&) = delete;
  auto& operator[](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; }

  /// This memory with another shape and other strides, from element `start` on.
  Body view(Shape shape, std::initializer_list<std::int64_t> strides, std::int64_t start = 0) {
    Body seen = body;
    seen.shape = shape;
    seen.elements = shape.elements();
    seen.contiguous = false;
    seen.data += start * static_cast<std::int64_t>(sizeof(T));
    int axis = 0;
    for (const std::int64_t stride : strides) seen.strides[axis++] = stride;
    return seen;
  }

 private:
  void describe(const Shape& shape) {
    body.dtype = dtype_of<T>();
    body.contiguous = true;
    body.data = reinterpret_cast<std::byte*>(elements.data());
    body.shape = shape;
    body.elements = shape.elements();
    std::int64_t step = 1;
    for (int axis = static_cast<int>(shape.rank()); axis-- > 0; step *= shape[axis])
      body.strides[axis] = step;
  }
};

using kernels::InstructionSet;
inline const Passes* find_passes(const InstructionSet& set, std::string_view op) {
  for (auto* family = set.families; *family; ++family)
    for (auto* entry = (*family)->passes; entry && entry->op; ++entry)
      if (entry->op == op) return entry->passes;
  return nullptr;
}
/// Finds a kernel by its name: "softmax", "softmax.d".
inline kernels::NamedKernel find_named(const InstructionSet& set, std::string_view name) {
  for (auto* family = set.families; *family; ++family)
    for (auto* entry = (*family)->kernels; entry && entry->name; ++entry)
      if (entry->name == name) return *entry;
  return {nullptr, nullptr};
}
inline Kernel find_kernel(const InstructionSet& set, std::string_view name) {
  return find_named(set, name).kernel;
}
/// The kernel of an op, and that of its gradient.
struct KernelPair {
  Kernel kernel, gradient;
};
inline KernelPair find_kernels(const InstructionSet& set, const std::string& op) {
  return {find_kernel(set, op), find_kernel(set, op + ".d")};
}
using Inputs = std::vector<const Body*>;
using Outputs = std::vector<Body*>;
inline KernelResult call_kernel(Kernel kernel, const Inputs& inputs, const Outputs& outputs,
                                const void* options = nullptr, unsigned accumulate = 0) {
  return kernel({inputs.data(), outputs.data(), options, static_cast<int>(inputs.size()),
                 static_cast<int>(outputs.size()), accumulate});
}
inline KernelResult call_kernel(const InstructionSet& set, std::string_view op,
                                const Inputs& inputs, Body& output, const void* options = nullptr,
                                unsigned accumulate = 0) {
  return call_kernel(find_kernel(set, op), inputs, {&output}, options, accumulate);
}

/// n random numbers of a dtype.
template <class T>
std::vector<T> drawn(const InstructionSet& set, RandomOptions options, std::int64_t n) {
  Array<T> out({n});
  options.dtype = dtype_of<T>();
  call_kernel(set, "random", {}, out.body, &options);
  return {out.elements.begin(), out.elements.end()};
}

/// Calls test(set) for each instruction set that this machine has.
template <class Test>
void for_each_set(const Test& test) {
  for (const InstructionSet& set : kernels::instruction_sets())
    if (set.supported()) test(set);
}
}  // namespace reel::tests
