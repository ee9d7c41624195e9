// SPDX-License-Identifier: BSD-3-Clause
// The reference results of each op, computed by simple float64 loops on the host.
#pragma once
#include <functional>
#include <map>
#include <string_view>

#include "sweep/table.hpp"

namespace reel::tests {
using Hosts = std::vector<Host>;
/// Computes every output. The dtypes are those of the outputs of the call.
using Reference = std::function<Hosts(const Hosts& inputs, const void* options)>;
using References = std::map<std::string_view, Reference>;

/// The references by the name of the op. Each family adds its own.
const References& references();
void add_pointwise_references(References& table);
void add_reduce_references(References& table);
void add_product_references(References& table);
void add_attention_references(References& table);
void add_convolution_references(References& table);
void add_linalg_references(References& table);
void add_sequence_references(References& table);
void add_layout_references(References& table);
void add_gather_references(References& table);
void add_create_references(References& table);

/// The element of x at position `index` of a shape that x broadcasts to.
double at(const Host& x, const std::vector<std::int64_t>& index);
Shape broadcast_shape(const Hosts& inputs);
template <class T>
const T& as(const void* options) {
  return *static_cast<const T*>(options);
}
/// A result of this shape. f(index) gives each element.
template <class F>
Host filled(const Shape& shape, F f) {
  Host host{DType::float64, shape, {}};
  host.values.resize(static_cast<std::size_t>(shape.elements()));
  each_position(shape, [&](const std::vector<std::int64_t>& index, std::size_t flat) {
    host.values[flat] = f(index);
  });
  return host;
}
}  // namespace reel::tests
