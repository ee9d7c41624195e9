// SPDX-License-Identifier: BSD-3-Clause
// The library's access to the private members of Tensor and Variable.
#pragma once
#include <atomic>
#include <string>
#include <utility>

#include <reel/variable.hpp>

#include "lib/body/body.hpp"
#include "lib/body/portion.hpp"

namespace reel {
struct VariablePath {
  std::string text;
  const VariablePath* shorter;  // name() has returned a reference to it
};
namespace detail {
struct Cell {
  std::uint32_t references = 1;
  Tensor value;  // always a body of the cell's own, with no record id
  std::string name;
  std::atomic<const VariablePath*> path = nullptr;  // in a model; null before it is visited
  bool is_buffer = false;
  Portion portion;
  const std::uint32_t id = 0;  // differs from that of a cell that had this address before
};
}  // namespace detail
using detail::Cell;

struct Access {
  static Body* body(const Tensor& x) { return x.body_; }
  /// Takes over the caller's reference.
  static Tensor adopt(Body* body) { return Tensor(body); }
  static Tensor share(Body* body) {
    if (body) retain(body);
    return Tensor(body);
  }
  /// A pointer to a body, read as a Tensor: both have the same bytes.
  static const Tensor& tensor(Body* const& body) {
    static_assert(sizeof(Tensor) == sizeof(Body*));
    return reinterpret_cast<const Tensor&>(body);
  }
  /// An array of Tensors, read as an array of pointers to their bodies.
  static Body* const* bodies(const Tensor* first) { return reinterpret_cast<Body* const*>(first); }
  /// Gives the caller the reference.
  static Body* detach(Tensor& x) { return std::exchange(x.body_, nullptr); }
  static Cell& cell(const Variable& x) { return *x.cell_; }
  /// The operands of a list in braces; null for a vector and a span.
  static const Operand* list(const Operands& x) {
    return x.kind_ == Operands::Kind::operands ? static_cast<const Operand*>(x.first_) : nullptr;
  }
};
/// The body of a tensor that `what`, a method, needs.
const Body& defined_body(const Tensor& x, std::string_view what, Caller caller);
}  // namespace reel
