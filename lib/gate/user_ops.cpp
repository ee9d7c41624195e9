// SPDX-License-Identifier: BSD-3-Clause
// Ops by name: what users register, and calls at the edges.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <reel/op.hpp>
#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/effects.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
struct AttributeOptions {
  Attributes attributes;
  void fields(auto&& field) { field("attributes", attributes); }
};

/// The functions that a user has registered for an op. They live as long as the process.
struct UserOp {
  UserOp* next;
  std::string name;
  std::optional<Op> op;  // of register_op()
  detail::Function<Tensors(const OpCall&)> function;
  detail::Function<Tensors(const OpCall&, const Tensors&)> gradient;
  bool is_kernel = false;  // the function
  bool has_effects = false;
  std::vector<std::string> asked = {};  // names of attributes that its functions have read
  std::uint64_t read_inputs = 0;        // bit i: its functions have read input i
  bool gradient_ran = false;
};
/// The newest first. Guarded by Lock::registration.
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

/// The number of letters that must be inserted, removed, replaced or swapped to turn one name into
/// the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t k = 0; k <= b.size(); ++k) row[k] = k;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t k = 1; k <= b.size(); ++k) {
      row[k] = std::min({last[k] + 1, row[k - 1] + 1, last[k - 1] + (a[i - 1] != b[k - 1])});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        row[k] = std::min(row[k], before[k - 2] + 1);
    }
  }
  return row[b.size()];
}
/// The name of an op that the user may have meant; empty if none is near.
std::string_view nearest(std::string_view name) {
  std::string_view found;
  std::size_t best = std::min<std::size_t>(2, name.size() / 2) + 1;
  for (const Op* op : OpTable::the().ops())
    if (const std::size_t far = op->internal ? best : distance(name, op->name); far < best) {
      best = far;
      found = op->name;
    }
  return found;
}

Op& find_op(std::string_view name, Caller caller, std::string_view who) {
  assemble();
  Op* op = OpTable::the().find(name);
  if (op) return *op;
  const std::string meant(nearest(name.substr(0, 100)));
  fail<Error>(caller, who, "name", "the name of a registered op", "\"" + Text(name) + "\"",
              meant.empty() ? "op_names() lists all names." : "Did you mean \"" + meant + "\"?");
}

void check_count(std::size_t got, int expected, std::string_view op, std::string_view what,
                 Caller caller) {
  if (static_cast<int>(got) != expected)
    fail<Error>(caller, op, what, to_text(expected), to_text(got));
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

void set_effects(std::string_view name) {
  const Locked held(Lock::registration);
  find_or_add_user_op(name).has_effects = true;
}
bool has_effects(const Op& op) {
  return op.composite == user_function && static_cast<UserOp*>(op.composite_state)->has_effects;
}

bool runs_user_code(const Op& op, Device device) {
  return op.composite && (device == cpu() || !op.shape);
}

namespace {
/// Notes that a function of the op reads this attribute, whether it was given or not.
void note_asked(UserOp& user, std::string_view name) {
  const Locked held(Lock::registration);
  if (std::find(user.asked.begin(), user.asked.end(), name) == user.asked.end())
    user.asked.emplace_back(name);
}
/// Notes that a function of the op reads these inputs.
void note_read(const CallView& call, std::uint64_t inputs) {
  if (call.op.composite != user_function) return;
  std::uint64_t& read = static_cast<UserOp*>(call.op.composite_state)->read_inputs;
  if (~__atomic_load_n(&read, __ATOMIC_RELAXED) & inputs)
    __atomic_fetch_or(&read, inputs, __ATOMIC_RELAXED);
}
/// Throws Error for an input that no function of the op reads.
void check_inputs(const UserOp& user, std::size_t count, Caller caller) {
  {
    const Locked held(Lock::registration);
    if (user.is_kernel || (user.gradient && !user.gradient_ran)) return;  // which may read it
  }
  const std::uint64_t read = __atomic_load_n(&user.read_inputs, __ATOMIC_RELAXED);
  for (std::size_t i = 0; i < std::min<std::size_t>(count, 63); ++i)
    if (!(read >> i & 1))
      fail<Error>(caller, user.name, "input " + to_text(i), "an input that its functions read",
                  "one that none reads",
                  "Where an op may leave inputs unread, its function asks input_count().");
}
/// Throws Error for an attribute that no function of the op reads.
void check_attributes(const UserOp& user, const Attributes& attributes, Caller caller) {
  for (auto& attribute : attributes)
    for (const auto* other = attributes.data(); other != &attribute; ++other)
      if (other->first == attribute.first)
        fail<Error>(caller, user.name, "attributes", "each name once",
                    "\"" + Text(attribute.first) + "\" twice");
  for (const auto& attribute : attributes) {
    std::string known;
    {
      const Locked held(Lock::registration);
      if (user.gradient && !user.gradient_ran) return;  // which may read it
      if (std::find(user.asked.begin(), user.asked.end(), attribute.first) != user.asked.end())
        continue;
      for (const std::string& name : user.asked)
        known += (known.empty() ? "\"" : ", \"") + Text(name) + "\"";
    }
    fail<Error>(caller, user.name, "attributes",
                known.empty() ? "none" : "what its functions read, " + known,
                "\"" + Text(attribute.first) + "\"");
  }
}
}  // namespace

Tensors call_user_gradient(const CallView& call, const Tensors& upstream) {
  UserOp* user;
  {
    const Locked held(Lock::registration);
    user = find_user_op(call.op.name);
  }
  Tensors gradients = user->gradient(OpCall(call), upstream);
  {
    const Locked held(Lock::registration);
    user->gradient_ran = true;
  }
  if (call.op.composite == user_function)
    check_inputs(*user, static_cast<std::size_t>(call.input_count), call.caller);
  if (call.options.type == &options_type<AttributeOptions>)
    check_attributes(*user, static_cast<const AttributeOptions*>(call.options.data)->attributes,
                     call.caller);
  return gradients;
}

void register_op(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                 Caller caller) try {
  assemble();
  if (name.empty() || !f)
    fail<Error>(caller, "register_op", "name", "a name and a function", "none");
  const Locked held(Lock::registration);
  if (OpTable::the().find(name))
    fail<Error>(caller, "register_op", "name", "a name that is free", "\"" + Text(name) + "\"");
  UserOp& user = find_or_add_user_op(name);
  user.function = std::move(f);
  user.op.emplace(Op{.name = user.name, .arity = -1, .options = &options_type<AttributeOptions>});
  user.op->composite = user_function;
  user.op->composite_state = &user;
  OpTable::the().add(*user.op);
  count_registration();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_op");
}

void register_gradients(std::string_view name,
                        detail::Function<Tensors(const OpCall&, const Tensors&)> f,
                        Caller caller) try {
  Op& op = find_op(name, caller, "register_gradient");
  const Locked held(Lock::registration);
  std::swap(find_or_add_user_op(name).gradient, f);  // f is destroyed outside the lock
  op.gradient = {.rule = OpTable::the().users_rule,
                 .needs = {{0xffff, 0xffff, 0xffff, 0xffff}},
                 .passes = 0,
                 .differentiable = true,
                 .fused = false};
  count_registration();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "register_gradient");
}
void register_gradient(std::string_view name,
                       detail::Function<Tensors(const OpCall&, Tensor upstream)> f, Caller caller) {
  register_gradients(
      name, [f](const OpCall& call, const Tensors& upstream) { return f(call, upstream[0]); },
      caller);
}

void register_kernel(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                     Caller caller) try {
  Op& op = find_op(name, caller, "register_kernel");
  if (op.updates)
    fail<Error>(caller, "register_kernel", "name", "an op that computes tensors",
                "\"" + Text(name) + "\"");
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
    fail<Error>(caller, op.name, "attributes", "none", "\"" + Text(attributes[0].first) + "\"");
  if (op.options && !takes_attributes)
    fail<Error>(caller, op.name, "call", "its public function, which sets its options", "call_op");
  SmallVector<Operand, 8> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) operands.push_back(inputs[i]);
  const AttributeOptions options{std::move(attributes)};
  SmallVector<Tensor, 2> outputs;
  run(op, std::span<const Operand>(operands.data(), operands.size()),
      takes_attributes ? OptionsView(options) : OptionsView(), caller, outputs);
  if (op.composite == user_function) {
    check_inputs(*static_cast<UserOp*>(op.composite_state), operands.size(), caller);
    check_attributes(*static_cast<UserOp*>(op.composite_state), options.attributes, caller);
  }
  std::vector<Tensor> results;
  for (Tensor& output : outputs) results.push_back(std::move(output));
  return results;
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), "call_op");
}
Tensor call_op(std::string_view name, Operands inputs, Attributes attributes) {
  const Caller caller = inputs.caller();
  Tensors results = call_op_all(name, inputs, std::move(attributes));
  if (results.size() != 1)
    fail<Error>(caller, name, "call", "an op with one output", to_text(results.size()),
                "Use call_op_all.");
  return std::move(results[0]);
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
std::size_t OpCall::input_count() const {
  note_read(*call_, ~std::uint64_t{0});
  return static_cast<std::size_t>(call_->input_count);
}
const Tensor& OpCall::input(std::size_t i) const {
  if (i >= static_cast<std::size_t>(call_->input_count))
    fail<IndexError>(call_->caller, name(), "inputs", "at least " + to_text(i + 1),
                     to_text(call_->input_count));
  note_read(*call_, std::uint64_t{1} << std::min<std::size_t>(i, 63));
  return Access::tensor(call_->inputs[i]);
}
std::size_t OpCall::output_count() const { return static_cast<std::size_t>(call_->output_count); }
const Tensor& OpCall::output(std::size_t i) const {
  if (i >= output_count())
    fail<IndexError>(call_->caller, name(), "outputs", "at least " + to_text(i + 1),
                     to_text(output_count()));
  return Access::tensor(call_->outputs[i]);
}
Caller OpCall::caller() const { return call_->caller; }

const Attribute* OpCall::find(std::string_view wanted) const {
  if (call_->options.type != &options_type<AttributeOptions>) return nullptr;
  if (call_->op.composite == user_function)
    note_asked(*static_cast<UserOp*>(call_->op.composite_state), wanted);
  for (const auto& [name, value] :
       static_cast<const AttributeOptions*>(call_->options.data)->attributes)
    if (name == wanted) return &value;
  return nullptr;
}
const Attribute& OpCall::attribute(std::string_view wanted) const {
  const Attribute* found = find(wanted);
  if (!found) fail<Error>(call_->caller, name(), "attribute", "\"" + Text(wanted) + "\"", "none");
  return *found;
}
namespace {
constexpr const char* kind_name(Attribute::Kind kind) {
  switch (kind) {
    case Attribute::Kind::integer:
      return "an integer";
    case Attribute::Kind::real:
      return "a real number";
    case Attribute::Kind::text:
      return "a text";
    case Attribute::Kind::integers:
      return "a list of integers";
  }
  return "no attribute";
}
const Attribute& of_kind(const OpCall& call, std::string_view name, Attribute::Kind kind) {
  const Attribute& found = call.attribute(name);
  const bool widened = kind == Attribute::Kind::real && found.kind() == Attribute::Kind::integer;
  if (found.kind() != kind && !widened)
    fail<Error>(call.caller(), call.name(), "attribute \"" + Text(name) + "\"", kind_name(kind),
                kind_name(found.kind()));
  return found;
}
}  // namespace
std::int64_t OpCall::integer(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::integer).integer();
}
std::int64_t OpCall::integer(std::string_view name, std::int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}
double OpCall::real(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::real).real();
}
double OpCall::real(std::string_view name, double otherwise) const {
  return find(name) ? real(name) : otherwise;
}
const std::string& OpCall::text(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::text).text();
}
const std::vector<std::int64_t>& OpCall::integers(std::string_view name) const {
  return of_kind(*this, name, Attribute::Kind::integers).integers();
}
}  // namespace reel
