// SPDX-License-Identifier: BSD-3-Clause
#include <reel/fields.hpp>
#include <reel/live.hpp>

#include <algorithm>
#include <utility>

#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/body/room.hpp"
#include "lib/flow/observer.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"
#include "lib/gate/update.hpp"
#include "lib/memory/handles.hpp"
#include "lib/ops/entries.hpp"
#include "lib/ops/indexing.hpp"
#include "lib/tensor/assignment.hpp"

namespace reel {
namespace {
/// A body that only one cell holds: the tensor's body if nothing else holds it, else a copy.
Tensor owned_value(Tensor value, Caller caller) {
  Body* body = Access::body(value);
  if (!body->contiguous || references(*body) > 1 || body->owner)
    return contiguous_copy(*body, caller);
  body->id = {};
  body->leaf = no_record;
  return value;
}
/// Writes all of them, or none if there is no memory.
void replace(const std::vector<Variable>& variables, std::vector<Tensor> values,
             Caller caller = {}) {
  for (Tensor& value : values) value = owned_value(std::move(value), caller);
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
  ResultMarks marks;
  if (context.is_watchful()) marks.read(context, *Access::body(value), "Variable", caller);
  const RecordId mark = marks.together();
  static std::atomic<std::uint32_t> cells = 0;
  cell_ = new Cell{
      1, owned_value(std::move(value), caller), std::string(name), nullptr, false, {}, ++cells};
  try {
    if (marks) Access::body(cell_->value)->id = mark;
    tell_variable_made(context, *this);
  } catch (...) {
    release(cell_);
    throw;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Variable");
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
std::vector<Variable> detail::variables_of(const NamedVariables& named, std::string_view op) {
  auto variables = room_for<Variable>(named.size(), {}, op);
  for (const auto& [name, variable] : named) variables.push_back(variable);
  return variables;
}
void detail::VariableNotes::note(std::string_view path, const Variable& leaf) const {
  for (const auto& [other, variable] : found)
    if (variable.same_cell(leaf)) return;
  name_by_path(leaf, path);
  if (is_buffer(leaf) ? buffers : parameters) found.emplace_back(path, leaf);
}
Variable Variable::clone() const {
  Variable copy(name(), read_variable(Context::here(), *this));
  copy.cell_->is_buffer = cell_->is_buffer;
  copy.cell_->portion = cell_->portion;
  return copy;
}
Buffer::Buffer(std::string_view name, Tensor value, Caller caller)
    : Variable(name, std::move(value), caller) {
  Access::cell(*this).is_buffer = true;
}
bool detail::is_buffer(const Variable& variable) { return Access::cell(variable).is_buffer; }

void Variable::assign(Operand value) const { run_assignment(assign_op, *this, value); }
void Variable::assign_add(Operand value) const { run_assignment(assign_add_op, *this, value); }
void Variable::assign_sub(Operand value) const { run_assignment(assign_sub_op, *this, value); }

Variable detail::make_live(Scalar value, DType dtype, Caller caller) {
  const PlaceScope numbers(Context::here(), cpu());
  Variable made("live", full({}, value, {.dtype = dtype}, caller), caller);
  Access::body(Access::cell(made).value)->device_kind |= live_number;
  return made;
}

void detail::move_variables(const std::vector<Variable>& variables, Device device, Caller caller) {
  const FunctionScope scope(caller, "to");
  Context& context = Context::here();
  const RecordingPause pause(context);
  auto elsewhere = room_for<Variable>(variables.size(), caller, "to");
  auto moved = room_for<Tensor>(variables.size(), caller, "to");
  for (const Variable& x : variables) {
    if (x.device() == device) continue;
    elsewhere.push_back(x);
    moved.push_back(x.value().to(device, caller));
  }
  tell_interceptors("it moves Variables to another device");
  count_registration();
  replace(elsewhere, std::move(moved), caller);
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
                             Caller caller)
    : variable_(variable), view_(std::move(f)) {
  const FunctionScope scope(caller, "view");
  if (!view_) fail<Error>(caller, "view", "f", "a function", "an empty one");
  const Tensor value = variable.value();
  static_cast<Tensor&>(*this) = view_(value);
  if (!defined() || !is_part(*this, value))
    fail<Error>(caller, "view", "f",
                "a view of the Variable's value in which each element occurs once",
                "another tensor");
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

void VariableSlice::write(Op& op, const Operand& value) {
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
}
}  // namespace reel
