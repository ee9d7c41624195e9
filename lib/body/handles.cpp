// SPDX-License-Identifier: BSD-3-Clause
// What Tensors, Variables and Operands say of the bodies that they lead to.
#include <string>

#include <reel/error.hpp>
#include <reel/operand.hpp>

#include "lib/body/access.hpp"
#include "lib/body/live.hpp"
#include "lib/body/text.hpp"

namespace reel {
const Body& defined_body(const Tensor& x, std::string_view what, Caller caller) {
  const Body* body = Access::body(x);
  if (!body) fail<Error>(caller, what, "x", "a tensor", "an undefined Tensor");
  return *body;
}

const Shape& Tensor::shape(Caller caller) const& {
  return defined_body(*this, "shape", caller).shape;
}
std::int64_t Tensor::shape(AxisNumber axis, Caller caller) const {
  const Shape& shape = defined_body(*this, "shape", caller).shape;
  const int rank = static_cast<int>(shape.rank());
  if (axis < -rank || axis >= rank)
    fail<ShapeError>(caller, "shape", "axis", "an axis of " + to_text(shape), to_text(axis.value));
  return shape[axis.value];
}
DType Tensor::dtype(Caller caller) const { return defined_body(*this, "dtype", caller).dtype; }
Device Tensor::device(Caller caller) const {
  return device_of(defined_body(*this, "device", caller));
}
std::int64_t Tensor::size(Caller caller) const {
  return defined_body(*this, "size", caller).elements;
}

const std::string& Variable::name() const {
  const VariablePath* path = cell_->path.load(std::memory_order_acquire);
  return path ? path->text : cell_->name;
}
const Shape& Variable::shape() const { return Access::body(cell_->value)->shape; }
DType Variable::dtype() const { return Access::body(cell_->value)->dtype; }
Device Variable::device() const { return device_of(*Access::body(cell_->value)); }
Portion portion_of(const Variable& variable) { return Access::cell(variable).portion; }
void set_portion(const Variable& variable, Portion portion) {
  Access::cell(variable).portion = portion;
}
std::int64_t Variable::size() const { return Access::body(cell_->value)->elements; }

const Shape& Operand::shape() const {
  static const Shape number;
  if (kind_ == Kind::scalar) return number;
  return kind_ == Kind::variable ? variable().shape() : tensor().shape(caller());
}
std::int64_t Operand::shape(int axis) const { return shape()[{axis, caller()}]; }
DType Operand::dtype() const {
  if (kind_ == Kind::scalar) return scalar_.dtype();
  return kind_ == Kind::variable ? variable().dtype() : tensor().dtype(caller());
}

void Operand::fail_kind(const char* expected) const {
  fail<Error>(caller(), "Operand", "x", expected,
              kind_ == Kind::scalar     ? "a number"
              : kind_ == Kind::variable ? "a Variable"
                                        : "a Tensor",
              "value() gives a Tensor for each of them.");
}
/// Where packaging/gdb.py finds what a Tensor and a Variable are, in bytes from the beginning of
/// their Body and Cell. It reads memory alone, so that it works in a core file too.
namespace detail {
extern REEL_API const std::uint16_t gdb_places[];
const std::uint16_t gdb_places[] = {offsetof(Body, dtype),   offsetof(Body, device_kind),
                                    offsetof(Body, data),    offsetof(Body, shape),
                                    offsetof(Body, strides), offsetof(Cell, value),
                                    offsetof(Cell, name)};
}  // namespace detail
}  // namespace reel
