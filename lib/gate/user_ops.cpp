// SPDX-License-Identifier: BSD-3-Clause
// Ops by name: what users register, and calls at the edges.
#include <memory>

#include <reel/op.hpp>
#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
struct AttributeOptions {
  Attributes attributes;
  void fields(auto&& field) { field("attributes", attributes); }
};

/// What a user has registered for an op; lives as long as the process.
struct UserOp {
  UserOp* next;
  std::string name;
  Op op;
  detail::Function<Tensors(const OpCall&)> function;
  detail::Function<Tensors(const OpCall&, const Tensors&)> gradient;
  bool is_kernel = false;  // the function
};
/// The newest first, behind Lock::registration.
constinit UserOp* user_ops = nullptr;
UserOp* find_user_op(std::string_view name) {
  UserOp* user = user_ops;
  while (user && user->name != name) user = user->next;
  return user;
}
UserOp& find_or_add_user_op(std::string_view name) {
  UserOp* user = find_user_op(name);
  if (!user) user_ops = user = new UserOp{user_ops, std::string(name), {}, {}, {}};
  return *user;
}

Op& find_op(std::string_view name, Caller caller, std::string_view who) {
  assemble();
  Op* op = OpTable::the().find(name);
  if (!op)
    fail<Error>(caller, who, "name", "the name of a registered op",
                "\"" + std::string(name) + "\"");
  return *op;
}

void check_count(std::size_t got, int expected, std::string_view op, std::string_view what,
                 Caller caller) {
  if (static_cast<int>(got) != expected)
    fail<Error>(caller, op, what, std::to_string(expected), std::to_string(got));
}

constinit std::uint64_t registered = 0;

Tensors user_function(const OpCall& call, void* state) {
  return static_cast<UserOp*>(state)->function(call);
}
}  // namespace

void count_registration() { __atomic_fetch_add(&registered, 1u, __ATOMIC_RELEASE); }
std::uint64_t registrations() { return __atomic_load_n(&registered, __ATOMIC_ACQUIRE); }

bool has_user_kernel(const Op& op) {
  return op.composite == user_function && static_cast<UserOp*>(op.composite_state)->is_kernel;
}

bool runs_user_code(const Op& op, Device device) {
  return op.composite && (device == cpu() || !op.shape);
}

Tensors call_user_gradient(const Op& op, const OpCall& call, const Tensors& upstream) {
  UserOp* user;
  {
    const Locked held(Lock::registration);
    user = find_user_op(op.name);
  }
  return user->gradient(call, upstream);
}

void register_op(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                 Caller caller) try {
  assemble();
  if (name.empty() || !f)
    fail<Error>(caller, "register_op", "name", "a name and a function", "none");
  const Locked held(Lock::registration);
  if (OpTable::the().find(name))
    fail<Error>(caller, "register_op", "name", "a name that is free",
                "\"" + std::string(name) + "\"");
  UserOp& user = find_or_add_user_op(name);
  user.function = std::move(f);
  user.op.name = user.name;
  user.op.arity = -1;
  user.op.options = &options_type<AttributeOptions>;
  user.op.composite = user_function;
  user.op.composite_state = &user;
  OpTable::the().add(user.op);
  count_registration();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_op");
}

void register_gradients(std::string_view name,
                        detail::Function<Tensors(const OpCall&, const Tensors&)> f,
                        Caller caller) try {
  Op& op = find_op(name, caller, "register_gradient");
  const Locked held(Lock::registration);
  std::swap(find_or_add_user_op(name).gradient, f);  // the older goes with f, behind the lock
  op.gradient = OpTable::the().users_rule;
  op.fused_gradient = false;
  op.passes = 0;
  op.differentiable = true;
  for (std::uint16_t& needs : op.needs.of) needs = 0xffff;
  count_registration();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_gradient");
}
void register_gradient(std::string_view name,
                       detail::Function<Tensors(const OpCall&, Tensor upstream)> f,
                       Caller caller) try {
  register_gradients(
      name, [f](const OpCall& call, const Tensors& upstream) { return f(call, upstream[0]); },
      caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_gradient");
}

void register_kernel(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                     Caller caller) try {
  Op& op = find_op(name, caller, "register_kernel");
  if (op.updates)
    fail<Error>(caller, "register_kernel", "name", "an op that computes tensors",
                "\"" + std::string(name) + "\"");
  const Locked held(Lock::registration);
  UserOp& user = find_or_add_user_op(name);
  std::swap(user.function, f);
  user.is_kernel = true;
  op.fast = nullptr;
  op.composite = user_function;
  op.composite_state = &user;
  count_registration();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_kernel");
}

Tensors call_op_all(std::string_view name, Operands inputs, Attributes attributes) try {
  const Caller caller = inputs.caller();
  Op& op = find_op(name, caller, "call_op");
  if (op.arity >= 0) check_count(inputs.size(), op.arity, op.name, "inputs", caller);
  if (op.updates)
    fail<Error>(caller, op.name, "call", "a function of tensors", "an op that writes Variables");
  const bool takes_attributes = op.options == &options_type<AttributeOptions>;
  if (!attributes.empty() && !takes_attributes)
    fail<Error>(caller, op.name, "attributes", "none", "\"" + attributes[0].first + "\"");
  if (op.options && !takes_attributes)
    fail<Error>(caller, op.name, "call", "its public function, which sets its options", "call_op");
  SmallVector<Operand, 8> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) operands.push_back(inputs[i]);
  const AttributeOptions options{std::move(attributes)};
  SmallVector<Tensor, 2> outputs;
  run(op, std::span<const Operand>(operands.data(), operands.size()),
      takes_attributes ? OptionsView(options) : OptionsView(), caller, outputs);
  std::vector<Tensor> results;
  for (Tensor& output : outputs) results.push_back(std::move(output));
  return results;
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), "call_op");
}
Tensor call_op(std::string_view name, Operands inputs, Attributes attributes) try {
  const Caller caller = inputs.caller();
  Tensors results = call_op_all(name, inputs, std::move(attributes));
  if (results.size() != 1)
    fail<Error>(caller, name, "call", "an op with one output", std::to_string(results.size()),
                "Use call_op_all.");
  return std::move(results[0]);
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), "call_op");
}

std::vector<std::string> op_names() try {
  assemble();
  std::vector<std::string> names;
  for (const Op* op : OpTable::the().ops()) names.emplace_back(op->name);
  return names;
} catch (const std::bad_alloc&) {
  fail_memory({}, "op_names");
}

std::string_view OpCall::name() const { return call_->op.name; }
std::size_t OpCall::input_count() const { return static_cast<std::size_t>(call_->input_count); }
const Tensor& OpCall::input(std::size_t i) const try {
  if (i >= input_count())
    fail<IndexError>(call_->caller, name(), "input", "one of " + std::to_string(input_count()),
                     std::to_string(i));
  return Access::tensor(call_->inputs[i]);
} catch (const std::bad_alloc&) {
  fail_memory(caller(), name());
}
std::size_t OpCall::output_count() const { return static_cast<std::size_t>(call_->output_count); }
const Tensor& OpCall::output(std::size_t i) const try {
  if (i >= output_count())
    fail<IndexError>(call_->caller, name(), "output", "one of " + std::to_string(output_count()),
                     std::to_string(i));
  return Access::tensor(call_->outputs[i]);
} catch (const std::bad_alloc&) {
  fail_memory(caller(), name());
}
Caller OpCall::caller() const { return call_->caller; }

const Attribute* OpCall::find(std::string_view wanted) const {
  if (call_->options.type != &options_type<AttributeOptions>) return nullptr;
  for (const auto& [name, value] :
       static_cast<const AttributeOptions*>(call_->options.data)->attributes)
    if (name == wanted) return &value;
  return nullptr;
}
const Attribute& OpCall::attribute(std::string_view wanted) const try {
  const Attribute* found = find(wanted);
  if (!found)
    fail<Error>(call_->caller, name(), "attribute", "\"" + std::string(wanted) + "\"", "none");
  return *found;
} catch (const std::bad_alloc&) {
  fail_memory(caller(), name());
}
namespace {
const Attribute& of_kind(const OpCall& call, std::string_view name, Attribute::Kind kind,
                         const char* what) try {
  const Attribute& found = call.attribute(name);
  const bool widened = kind == Attribute::Kind::real && found.kind() == Attribute::Kind::integer;
  if (found.kind() != kind && !widened)
    fail<Error>(call.caller(), call.name(), "attribute \"" + std::string(name) + "\"", what,
                "another kind");
  return found;
} catch (const std::bad_alloc&) {
  fail_memory(call.caller(), call.name());
}
}  // namespace
std::int64_t OpCall::integer(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::integer, "an integer").integer();
}
std::int64_t OpCall::integer(std::string_view name, std::int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}
double OpCall::real(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::real, "a real number").real();
}
double OpCall::real(std::string_view name, double otherwise) const {
  return find(name) ? real(name) : otherwise;
}
const std::string& OpCall::text(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::text, "a text").text();
}
const std::vector<std::int64_t>& OpCall::integers(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::integers, "a list of integers").integers();
}
}  // namespace reel
