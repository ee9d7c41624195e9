// SPDX-License-Identifier: BSD-3-Clause
#include <reel/live.hpp>

#include <utility>

#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/flow/observer.hpp"
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

/// A body that belongs to a cell alone: the tensor's own where nobody else holds it, else a copy.
Tensor owned_value(Tensor value) {
  Body* body = Access::body(value);
  if (!body->contiguous || references(*body) > 1 || body->owner) return contiguous_copy(*body);
  body->id = {};
  body->leaf = no_record;
  return value;
}
/// All, or none if memory ends.
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
  cell_ = new Cell{1, owned_value(std::move(value)), std::string(name)};
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

/// What is read has a header of its own: tapes know the cell's as the Variable, whenever they
/// began, and this one by what listened when it was read.
Tensor Variable::value() const try {
  Context& context = Context::here();
  Body* const body = Access::body(read_variable(context, *this));
  const Origin origin =
      context.mode & recording ? origin_of(context, Operand(*this), body) : Origin();
  // Of several tapes, one may need the value longer than the leaf that another watches.
  if (origin.tapes && (*context.reel)[origin.record].tapes)
    return reshape(Operand(*this), body->shape);
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

Tensor detail::tensor_of(Operand x) {
  switch (x.kind()) {
    case Operand::Kind::variable:
      return x.variable().value();
    case Operand::Kind::scalar: {
      const PlaceScope numbers(Context::here(), cpu());
      return full({}, x.scalar(), x.caller());
    }
    default:
      return x.tensor();
  }
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
  tell_interceptors("moves Variables to another device");
  count_registration();
  replace(elsewhere, std::move(moved));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to");
}

void detail::replace_values(const std::vector<Variable>& variables, std::vector<Tensor> values) {
  tell_interceptors("loads values into Variables");
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

VariableSlice::VariableSlice(const Variable& variable, std::initializer_list<Index> indices) try
    : Tensor(reel::view(Operand(variable, indices.begin()->caller()),
                        {indices.begin(), indices.size()})),
      variable_(variable) {
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::tensor) gathered_ = true;
    indices_[count_++] = index;
  }
} catch (const std::bad_alloc&) {
  fail_memory({}, "index");
}
void VariableSlice::assign(Operand value) { write(assign_op, value); }
void VariableSlice::assign_add(Operand value) { write(assign_add_op, value); }
void VariableSlice::assign_sub(Operand value) { write(assign_sub_op, value); }

void VariableSlice::write(Op& op, const Operand& value) try {
  if (gathered_)
    fail<IndexError>(value.caller(), op.name, "slice", "positions and ranges",
                     "a tensor of positions", "Use scatter_add and assign the whole.");
  Tensor& read = *this;
  const bool is_own = value.kind() != Operand::Kind::scalar &&
                      value.kind() != Operand::Kind::variable && &value.tensor() == this;
  const Tensor own = is_own ? read : Tensor();
  const auto read_again = [&] {
    read = reel::view(Operand(variable_, value.caller()), {indices_, count_});
  };
  read = Tensor();  // its share of the buffer would force a copy
  try {
    run_slice_update(op, variable_, {indices_, count_},
                     is_own ? Operand(own, value.caller()) : value);
  } catch (...) {
    read_again();
    throw;
  }
  read_again();
} catch (const std::bad_alloc&) {
  fail_memory(value.caller(), op.name);
}
}  // namespace reel
