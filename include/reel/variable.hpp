// SPDX-License-Identifier: BSD-3-Clause
// Variable: a named value that can change.
#pragma once  // defined in lib/tensor
#include <string>
#include <string_view>

#include <reel/tensor.hpp>

namespace reel {
class VariableSlice;
namespace detail {
struct Cell;
struct Op;
}  // namespace detail

/// A named value that can change. A Variable is a handle: copies of it share one value, `clone()`
/// makes a new one. Reading gives the tensor of that moment, which later assignments do not change.
/// Tapes watch Variables by themselves. If one thread assigns while another uses the Variable, the
/// program must synchronise them.
class REEL_API Variable {
 public:
  /// Throws Error if `value` holds nothing.
  Variable(std::string_view name, Tensor value, Caller caller = Caller::here());
  Variable(const Variable& other) noexcept;  // moving is copying: a handle always has its cell
  Variable& operator=(const Variable& other) &;
  ~Variable();

  Tensor value() const;
  operator Tensor() const { return value(); }
  /// As it was made, "weight". Once parameters() or another walk over a model finds it at a path
  /// that ends so, the path: "head.weight".
  const std::string& name() const;
  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  std::int64_t size() const;
  /// A new cell with the same name and value.
  Variable clone() const;

  /// Replaces the value, adds to it, subtracts from it. The argument has the Variable's shape, or
  /// is a C++ number, which fills it; nothing else is broadcast. Throw ShapeError for another shape
  /// and DTypeError for a dtype that does not promote to the Variable's. Tapes do not record
  /// assignments: a gradient flows to a Variable, not through it.
  void assign(Operand value);
  void assign_add(Operand value);
  void assign_sub(Operand value);

  /// A slice, to read or to assign: `w(range(0, 3), all).assign(0)`. As a tensor it has the values
  /// of the moment when it was made; after an assignment to this slice it has the new values.
  VariableSlice operator[](Index i) const;
  VariableSlice operator()(Index a) const;
  VariableSlice operator()(Index a, Index b) const;
  VariableSlice operator()(Index a, Index b, Index c) const;
  VariableSlice operator()(Index a, Index b, Index c, Index d) const;
  VariableSlice operator()(Index a, Index b, Index c, Index d, Index e) const;
  VariableSlice operator()(Index a, Index b, Index c, Index d, Index e, Index f) const;
  VariableSlice operator()(Index a, Index b, Index c, Index d, Index e, Index f, Index g) const;
  VariableSlice operator()(Index a, Index b, Index c, Index d, Index e, Index f, Index g,
                           Index h) const;

  /// Whether both handles share one value.
  bool same_cell(const Variable& other) const { return cell_ == other.cell_; }

 private:
  friend struct Access;
  detail::Cell* cell_ = nullptr;
};

/// State of a model that is saved, moved and cloned with it, and not trained: running statistics, a
/// mask, a count. A member of this type is among buffers(), not among parameters(). All else is as
/// with a Variable.
///
///     Buffer mean{"mean", zeros({64})};
class Buffer : public Variable {
 public:
  using Variable::Variable;
};

namespace detail {
/// Makes the path the Variable's name if it ends with the name so far.
REEL_API void name_by_path(const Variable& variable, std::string_view path);
/// Each Variable's value is on the device afterwards; none changes if it throws.
REEL_API void move_variables(const std::vector<Variable>& variables, Device device, Caller caller);
/// Each Variable has the value beside it afterwards, which has its shape, dtype and device; none
/// changes if it throws.
REEL_API void replace_values(const std::vector<Variable>& variables, std::vector<Tensor> values);
}  // namespace detail
/// Name, dtype, shape and value.
REEL_API std::string to_string(const Variable& x, std::string_view format = {},
                               Caller caller = Caller::here());
REEL_API std::ostream& operator<<(std::ostream& out, const Variable& x);

/// A part of a Variable. It can be read as a Tensor, and assigned.
class REEL_API VariableSlice : public Tensor {
 public:
  VariableSlice(const VariableSlice&) = default;
  VariableSlice(VariableSlice&&) noexcept = default;
  VariableSlice& operator=(const VariableSlice&) & = default;
  VariableSlice& operator=(VariableSlice&&) & noexcept = default;
  void assign(Operand value);
  void assign_add(Operand value);
  void assign_sub(Operand value);

 private:
  friend class Variable;
  VariableSlice(const Variable& variable, std::initializer_list<Index> indices);
  void write(detail::Op& op, const Operand& value);
  Variable variable_;
  Index indices_[Shape::max_rank] = {all, all, all, all, all, all, all, all};
  std::size_t count_ = 0;
  bool gathered_ = false;
};

inline Operands::Operands(const std::vector<Tensor>& tensors, Caller caller)
    : first_(tensors.data()), count_(tensors.size()), caller_(caller), kind_(Kind::tensors) {}
inline Operands::Operands(const std::vector<Variable>& variables, Caller caller)
    : first_(variables.data()), count_(variables.size()), caller_(caller), kind_(Kind::variables) {}
inline Operands::Operands(std::span<const Tensor> tensors, Caller caller)
    : first_(tensors.data()), count_(tensors.size()), caller_(caller), kind_(Kind::tensors) {}
inline Operand Operands::operator[](std::size_t i) const {
  if (kind_ == Kind::operands) return static_cast<const Operand*>(first_)[i];
  if (kind_ == Kind::tensors) return Operand(static_cast<const Tensor*>(first_)[i], caller_);
  return Operand(static_cast<const Variable*>(first_)[i], caller_);
}
}  // namespace reel
