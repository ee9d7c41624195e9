// SPDX-License-Identifier: BSD-3-Clause
// Variable: a named value that can change.
#pragma once  // defined in lib/body, lib/memory, lib/gate, lib/tensor
#include <string>
#include <string_view>

#include <reel/function.hpp>
#include <reel/tensor.hpp>

namespace reel {
class VariableSlice;
namespace detail {
struct Cell;
struct Op;
}  // namespace detail

/// A named tensor value that can change. A Variable is a handle: copies of it share one value, and
/// `clone()` makes a new one. A read returns the current tensor; later assignments do not change
/// this tensor. Tapes watch Variables automatically. If one thread assigns a Variable while another
/// thread uses it, the program must synchronise them.
class REEL_API Variable {
 public:
  /// Throws Error if `value` is undefined.
  Variable(std::string_view name, Tensor value, Caller caller = Caller::here());
  Variable(const Variable& other) noexcept;  // a move is a copy
  Variable& operator=(const Variable& other) &;
  void operator=(const Tensor& x) & = delete;  // w.assign(x)
  void operator=(double x) & = delete;         // w.assign(x)
  ~Variable();

  /// The current value. It has the shape and dtype of the Variable.
  Tensor value() const;
  operator Tensor() const { return value(); }
  /// The name that the constructor got, such as "weight". If parameters() or a similar function
  /// finds this Variable in a model at "head.weight", it is called "head.weight" from then on. If
  /// the path does not end with the name, the name stays.
  const std::string& name() const;
  /// Shape, dtype, device and number of elements of the value.
  const Shape& shape() const;
  DType dtype() const;
  Device device() const;
  std::int64_t size() const;
  /// A new Variable with the same name and value.
  Variable clone() const;

  /// Replace the value, add to it, or subtract from it. The argument has the Variable's shape, or
  /// is a C++ number that is used for every element. Other shapes throw a ShapeError; there is no
  /// broadcasting. A dtype that does not promote to the Variable's dtype throws a DTypeError. Tapes
  /// do not record assignments: a later loss has a gradient with respect to the Variable, but not
  /// with respect to the tensors from which the assigned value was computed.
  /// A Variable is a handle: what is const is the handle, not the value.
  void assign(Operand value) const;
  void assign_add(Operand value) const;
  void assign_sub(Operand value) const;

  /// A slice, to read or to assign: `w(range(0, 3), all).assign(0)`. Read as a tensor, it has the
  /// values of the time when this object was made, or last assigned. It does not see assignments to
  /// the same elements through other objects.
  /// Tensors of positions and masks may pick it. If they pick an element twice, assign() keeps the
  /// last value, assign_add() adds all, assign_sub() subtracts all.
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
  VariableSlice operator()(std::initializer_list<std::int64_t> positions) const =
      delete;  // an element is w(0, 1), rows are w(tensor({0, 1}))
  VariableSlice operator()(std::span<const Index> indices, Caller caller = Caller::here()) const;
  VariableSlice operator()(const std::vector<Index>& indices, Caller caller = Caller::here()) const;
  /// The view that f makes of the value, to read or to assign. f may call slices, transpose(),
  /// reshape(), diagonal() and other functions that return views. Throws Error if f returns a copy,
  /// or if an element occurs twice in the view.
  ///
  ///     w.view([](Tensor x) { return diagonal(x); }).assign(0);
  VariableSlice view(detail::Function<Tensor(const Tensor&)> f,
                     Caller caller = Caller::here()) const;

  /// Whether both handles share one value.
  bool same_cell(const Variable& other) const { return cell_ == other.cell_; }

 private:
  friend struct Access;
  detail::Cell* cell_ = nullptr;
};

/// State of a model that is saved, moved and cloned with it, but not trained, such as running
/// statistics, a mask or a count. buffers() lists members of this type; parameters() does not.
/// Otherwise a Buffer works as a Variable does. A copy of it in a Variable is not trained either.
///
///     Buffer mean{"mean", zeros({64})};
class REEL_API Buffer : public Variable {
 public:
  /// Throws Error if `value` is undefined.
  Buffer(std::string_view name, Tensor value, Caller caller = Caller::here());
};

namespace detail {
/// Whether the value was made by a Buffer.
REEL_API bool is_buffer(const Variable& variable);
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
  template <class T>
  void operator=(T&&) && = delete;  // w(0).assign(x)
  void assign(Operand value);
  void assign_add(Operand value);
  void assign_sub(Operand value);

 private:
  friend class Variable;
  VariableSlice(const Variable& variable, std::initializer_list<Index> indices)
      : VariableSlice(variable, std::span(indices.begin(), indices.size())) {}
  VariableSlice(const Variable& variable, std::span<const Index> indices);
  VariableSlice(const Variable& variable, detail::Function<Tensor(const Tensor&)> f, Caller caller);
  void write(detail::Op& op, const Operand& value);
  Tensor part(Caller caller) const;
  Variable variable_;
  std::vector<Index> indices_;
  detail::Function<Tensor(const Tensor&)> view_;  // instead of indices
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
