// SPDX-License-Identifier: BSD-3-Clause
#include <reel/fields.hpp>
#include <reel/live.hpp>

#include <algorithm>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/flow/observer.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/crossing.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/recording.hpp"
#include "lib/gate/update.hpp"
#include "lib/table/entries.hpp"
#include "lib/tensor/assignment.hpp"
#include "lib/tensor/indexing.hpp"

namespace reel {
namespace {
void retain(Cell* cell) { detail::add_reference(cell->references); }
void release(Cell* cell) {
  if (!detail::drop_reference(cell->references)) return;
  for (const VariablePath* path = cell->path; path;) delete std::exchange(path, path->shorter);
  delete cell;
}

/// A body that only one cell holds: the tensor's body if nothing else holds it, else a copy.
Tensor owned_value(Tensor value) {
  Body* body = Access::body(value);
  if (!body->contiguous || references(*body) > 1 || body->owner) return contiguous_copy(*body);
  body->id = {};
  body->leaf = no_record;
  return value;
}
/// Writes all of them, or none if there is no memory.
void replace(const std::vector<Variable>& variables, std::vector<Tensor> values) {
  for (Tensor& value : values) value = owned_value(std::move(value));
  for (std::size_t i = 0; i < variables.size(); ++i)
    Access::cell(variables[i]).value = std::move(values[i]);
  Context& context = Context::here();
  if (context.mode & observed)
    for (const Variable& variable : variables) tell_written(context, variable);
}
}  // namespace

Variable::Variable(std::string_view name, Tensor value, Caller caller) try {
  if (!value.defined()) fail<Error>(caller, "Variable", "value", "a tensor", "an undefined Tensor");
  Context& context = Context::here();
  Crossings crossings;
  if (context.is_watchful()) crossings.read(context, *Access::body(value), "Variable", caller);
  const RecordId mark = crossings.together();
  static std::atomic<std::uint32_t> cells = 0;
  cell_ = new Cell{1, owned_value(std::move(value)), std::string(name), nullptr, ++cells};
  try {
    if (crossings) Access::body(cell_->value)->id = mark;
    tell_variable_made(context, *this);
  } catch (...) {
    release(cell_);
    throw;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Variable");
}
Variable::Variable(const Variable& other) noexcept : cell_(other.cell_) { retain(cell_); }
Variable& Variable::operator=(const Variable& other) & {
  retain(other.cell_);
  release(std::exchange(cell_, other.cell_));
  return *this;
}
Variable::~Variable() { release(cell_); }

/// A read value has a header of its own. Tapes recognise the Variable by the header in its cell,
/// whenever they began. They know the value only if they recorded when it was read.
Tensor Variable::value() const try {
  Context& context = Context::here();
  const Operand self =
      context.mode & redirected ? Redirect::here(context)->read(*this) : Operand(*this);
  Body* const body = self.kind() == Operand::Kind::variable
                         ? Access::body(read_variable(context, *this))
                         : body_of(self);
  const Origin origin = context.mode & recording ? origin_of(context, self, body) : Origin();
  // One tape may need the value for longer than the leaf exists that another tape watches.
  if (origin.tapes && (*context.reel)[origin.record].tapes) return reshape(self, body->shape);
  Tensor value = make_alias(context, body);
  if (!value.defined())
    fail<MemoryError>({}, "Variable", "value", "memory for a header", "none from the system");
  if (origin.tapes) Access::body(value)->id = {context.reel->uid(), origin.record, 0};
  return value;
} catch (const std::bad_alloc&) {
  fail_memory({}, "Variable");
}
const std::string& Variable::name() const {
  const VariablePath* path = cell_->path.load(std::memory_order_acquire);
  return path ? path->text : cell_->name;
}
void detail::name_by_path(const Variable& variable, std::string_view path) {
  Cell& cell = Access::cell(variable);
  const VariablePath* now = cell.path;
  const std::string& name = now ? now->text : cell.name;
  if (path.size() < name.size() + 2 || !path.ends_with(name) ||
      path[path.size() - name.size() - 1] != '.')
    return;
  const auto* longer = new VariablePath{std::string(path), now};
  if (!cell.path.compare_exchange_strong(now, longer)) delete longer;  // another thread was first
}
void detail::VariableNotes::note(std::string_view path, const Variable& leaf) const {
  for (const auto& [other, variable] : found)
    if (variable.same_cell(leaf)) return;
  name_by_path(leaf, path);
  found.emplace_back(path, leaf);
}
const Shape& Variable::shape() const { return Access::body(cell_->value)->shape; }
DType Variable::dtype() const { return Access::body(cell_->value)->dtype; }
Device Variable::device() const { return device_of(*Access::body(cell_->value)); }
std::int64_t Variable::size() const { return Access::body(cell_->value)->elements; }
Variable Variable::clone() const { return Variable(name(), read_variable(Context::here(), *this)); }

void Variable::assign(Operand value) { run_assignment(assign_op, *this, value); }
void Variable::assign_add(Operand value) { run_assignment(assign_add_op, *this, value); }
void Variable::assign_sub(Operand value) { run_assignment(assign_sub_op, *this, value); }

Variable detail::make_live(Scalar value, DType dtype, Caller caller) {
  const PlaceScope numbers(Context::here(), cpu());
  Variable made("live", full({}, value, {.dtype = dtype}, caller), caller);
  Access::body(Access::cell(made).value)->device_kind |= live_number;
  return made;
}

Tensor Operand::value() const {
  switch (kind_) {
    case Kind::variable:
      return variable().value();
    case Kind::scalar: {
      const PlaceScope numbers(Context::here(), cpu());
      return full({}, scalar_, caller());
    }
    default:
      return Redirect::read_tensor(Context::here(), tensor());
  }
}

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

void detail::move_variables(const std::vector<Variable>& variables, Device device,
                            Caller caller) try {
  const FunctionScope scope(caller, "to");
  Context& context = Context::here();
  const RecordingPause pause(context);
  std::vector<Variable> elsewhere;
  std::vector<Tensor> moved;
  for (const Variable& x : variables) {
    if (x.device() == device) continue;
    elsewhere.push_back(x);
    moved.push_back(x.value().to(device, caller));
  }
  tell_interceptors("it moves Variables to another device");
  count_registration();
  replace(elsewhere, std::move(moved));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to");
}

void detail::replace_values(const std::vector<Variable>& variables, std::vector<Tensor> values) {
  tell_interceptors("it loads values into Variables");
  replace(variables, std::move(values));
}

VariableSlice Variable::operator[](Index i) const { return VariableSlice(*this, {i}); }
VariableSlice Variable::operator()(Index a) const { return VariableSlice(*this, {a}); }
VariableSlice Variable::operator()(Index a, Index b) const { return VariableSlice(*this, {a, b}); }
VariableSlice Variable::operator()(Index a, Index b, Index c) const {
  return VariableSlice(*this, {a, b, c});
}
VariableSlice Variable::operator()(Index a, Index b, Index c, Index d) const {
  return VariableSlice(*this, {a, b, c, d});
}
VariableSlice Variable::operator()(Index a, Index b, Index c, Index d, Index e) const {
  return VariableSlice(*this, {a, b, c, d, e});
}
VariableSlice Variable::operator()(Index a, Index b, Index c, Index d, Index e, Index f) const {
  return VariableSlice(*this, {a, b, c, d, e, f});
}
VariableSlice Variable::operator()(Index a, Index b, Index c, Index d, Index e, Index f,
                                   Index g) const {
  return VariableSlice(*this, {a, b, c, d, e, f, g});
}
VariableSlice Variable::operator()(Index a, Index b, Index c, Index d, Index e, Index f, Index g,
                                   Index h) const {
  return VariableSlice(*this, {a, b, c, d, e, f, g, h});
}

VariableSlice Variable::operator()(std::span<const Index> indices, Caller caller) const {
  if (indices.empty()) return VariableSlice(*this, {Index(ellipsis, caller)});
  return VariableSlice(*this, indices);
}
VariableSlice Variable::operator()(const std::vector<Index>& indices, Caller caller) const {
  return (*this)(std::span<const Index>(indices), caller);
}
VariableSlice Variable::view(detail::Function<Tensor(const Tensor&)> f, Caller caller) const {
  return VariableSlice(*this, std::move(f), caller);
}

VariableSlice::VariableSlice(const Variable& variable, std::span<const Index> indices) try
    : variable_(variable), indices_(indices.begin(), indices.end()) {
  static_cast<Tensor&>(*this) = part(indices[0].caller());
} catch (const std::bad_alloc&) {
  fail_memory({}, index_name);
}
VariableSlice::VariableSlice(const Variable& variable, detail::Function<Tensor(const Tensor&)> f,
                             Caller caller) try
    : variable_(variable), view_(std::move(f)) {
  const FunctionScope scope(caller, "view");
  if (!view_) fail<Error>(caller, "view", "f", "a function", "an empty one");
  const Tensor value = variable.value();
  static_cast<Tensor&>(*this) = view_(value);
  if (!defined() || !is_part(*this, value))
    fail<Error>(caller, "view", "f",
                "a view of the Variable's value in which each element occurs once",
                "another tensor");
} catch (const std::bad_alloc&) {
  fail_memory(caller, "view");
}
void VariableSlice::assign(Operand value) { write(assign_op, value); }
void VariableSlice::assign_add(Operand value) { write(assign_add_op, value); }
void VariableSlice::assign_sub(Operand value) { write(assign_sub_op, value); }

Tensor VariableSlice::part(Caller caller) const {
  return view_ ? view_(variable_.value()) : reel::view(Operand(variable_, caller), indices_);
}

namespace {
/// What indices pick, as positions in the row-major order of the Variable.
Tensor picked_positions(const Variable& variable, std::span<const Index> indices, Caller caller) {
  const PlaceScope place(Context::here(), variable.device());
  const Tensor positions = reshape(arange(0, variable.size(), 1, caller), variable.shape());
  return reel::view(Operand(positions, caller), indices);
}
}  // namespace

void VariableSlice::write(Op& op, const Operand& value) try {
  const bool picks = std::any_of(indices_.begin(), indices_.end(), [](const Index& index) {
    return index.kind() == Index::Kind::tensor;
  });
  Tensor& read = *this;
  const bool is_own = value.kind() != Operand::Kind::scalar &&
                      value.kind() != Operand::Kind::variable && &value.tensor() == this;
  const Tensor own = is_own ? read : Tensor();
  read = Tensor();  // its share of the buffer would force a copy
  try {
    const RecordingPause pause(Context::here());
    const FunctionScope scope(value.caller(), op.name);
    const Operand assigned = is_own ? Operand(own, value.caller()) : value;
    if (picks)
      run_picked_update(op, variable_, picked_positions(variable_, indices_, value.caller()),
                        assigned);
    else
      run_part_update(op, variable_, part(value.caller()), assigned);
  } catch (...) {
    read = part(value.caller());
    throw;
  }
  read = part(value.caller());
} catch (const std::bad_alloc&) {
  fail_memory(value.caller(), op.name);
}
}  // namespace reel
