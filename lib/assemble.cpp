// SPDX-License-Identifier: BSD-3-Clause
// Composition root: the op table is filled from all modules, and what is missing is an error.
#include <string>

#include <reel/error.hpp>

#include "autograd/install.hpp"
#include "lib/bench/profile.hpp"
#include "lib/body/error.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/install.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/debug/table.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/device.hpp"
#include "lib/flow/error.hpp"
#include "lib/flow/hooks.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/plugin.hpp"
#include "lib/ops/ops.hpp"
#include "lib/pool/copies.hpp"
#include "lib/table/entries.hpp"

// Not null in a program that is linked with the plugin.
extern "C" [[gnu::weak]] const char* reel_install_cuda(const reel::PluginHost& host);

namespace reel {
constinit const ErrorSource error_source = {
    .begin = [] { tell_interceptors("it catches an error of the library"); },
    .line = caller_of,
    .names = names_of_call,
    .place = place_of_call,
    .find_call = find_call,
    .tell = tell_error,
};
constinit const ContextHooks context_hooks = {
    .made =
        [](Context& context) noexcept {
          detail::profile_thread(context);
          debug_thread();
        },
    .ended = detail::ProfileSession::context_ended,
    .measure = detail::measure,
};
constinit const CoreOps core_ops = {
    .add = add_op,
    .attention_dropout = attention_dropout_op,
    .cast = cast_op,
    .cofactors = cofactors_op,
    .convolution = convolution_op,
    .convolution_data = convolution_data_op,
    .convolution_weights = convolution_weights_op,
    .fill = fill_op,
    .function_curve = function_curve_op,
    .function_slope = function_slope_op,
    .linear_scan = linear_scan_op,
    .lookup = lookup_op,
    .matmul = matmul_op,
    .max_pool_places = max_pool_places_op,
    .multiply = multiply_op,
    .order = order_op,
    .polygamma = polygamma_op,
    .random = random_op,
    .relu = relu_op,
    .reshape = reshape_op,
    .scatter = scatter_op,
    .scatter_elements = scatter_elements_op,
    .sigmoid = sigmoid_op,
    .slice = slice_op,
    .sum_to = sum_to_op,
    .tanh = tanh_op,
    .to_device = to_device_op,
    .unslice = unslice_op,
};

namespace {
std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

void add_ops(OpTable& ops) {
  for (const Entry* family : {
#define REEL_FAMILY(family, ...) family##_ops,
#include "lib/table/families.def"
       })
    for (; *family; ++family) ops.add(**family);
}

/// Problems found, one to a line.
class Problems {
 public:
  void add(const std::string& problem) {
    text_ += (text_.empty() ? "op table: " : "\n  ") + problem;
  }
  Op* known(const OpTable& ops, const char* what, const char* name) {
    Op* op = ops.find(name);
    if (!op) add(std::string(what) + " for unknown op " + quoted(name));
    return op;
  }
  void raise() const {
    if (!text_.empty()) throw Error(text_);
  }

 private:
  std::string text_;
};

void add_kernels(const OpTable& ops, kernels::Families families, Problems& problems) {
  for (; *families; ++families) {
    for (auto* entry = (*families)->kernels; entry && entry->name; ++entry) {
      const auto [op, part] = ops.find_kernel(entry->name);
      if (!op) {
        problems.add("kernel for unknown op " + quoted(entry->name));
        continue;
      }
      op->on_cpu().set(part, entry->kernel);
      if (part != Part::value) continue;
      op->on_cpu().takes_halves = entry->takes_halves;
      op->on_cpu().conversion = entry->conversion;
    }
    for (auto* entry = (*families)->passes; entry && entry->op; ++entry)
      if (Op* op = problems.known(ops, "passes", entry->op))
        op->on_cpu().passes = op->fast = entry->passes;
  }
}

void add_gradients(const OpTable& ops, Problems& problems) {
  for (const Rules* families : {pointwise_rules, gradient_rules})
    for (; *families; ++families)
      for (const NamedRule* entry = *families; entry->op; ++entry)
        if (Op* op = problems.known(ops, "gradient rule", entry->op))
          op->gradient.rule = entry->rule;
}

void check(Op& op, Problems& problems) {
  const std::string name = quoted(op.name);
  if (!op.shape && !op.updates) problems.add(name + " has no shape rule; add one in lib/ops");
  if (!op.on_cpu().computes() && !op.changes_device)
    problems.add(name +
                 " has no kernel; add one in lib/cpu, or its formula to a list in lib/formulas");
  if (!op.gradient.rule && op.differentiable && !op.updates)
    problems.add(
        name +
        " has no gradient rule; add one in autograd/rules or say that it is not differentiable");
  if (op.gradient.rule && !op.differentiable)
    problems.add(name + " has a gradient rule but is said not to be differentiable");
  if (!op.samples && !op.updates) problems.add(name + " has no samples; add some in lib/ops");
}

/// A tape of one copy does not see the ops of the other.
void require_one_copy() {
  const std::string other = other_copy();
  if (other.empty()) return;
  fail<Error>({}, "reel", "process", "one copy of the library", "a second one in " + other,
              "Link the program and its plug-ins with the shared library.");
}

void fill_table() {
  require_one_copy();
  register_backend("cpu", CpuBackend::the());
  std::string error;
  const kernels::Families families = kernels::active_families(&error);
  if (!families) throw Error(error);
  OpTable& ops = OpTable::the();
  add_ops(ops);  // those that are not there yet: memory may have ended halfway the last time
  Problems problems;
  add_kernels(ops, families, problems);
  add_gradients(ops, problems);
  ops.users_rule = user_rule;
  ops.copy_for_views(Device::Kind::cpu);
  open_cuda = open_cuda_plugin;
  linked_plugin = reel_install_cuda;
  for (Op* op : ops.ops()) check(*op, problems);
  problems.raise();
}
}  // namespace

void assemble() {
  static const bool filled = (fill_table(), true);
  static_cast<void>(filled);
}

void assemble_for(const Op& op, Caller caller) {
  assemble();
  if (OpTable::the().find(op.name) != &op)
    fail<Error>(caller, op.name, "op table", "the entry in the list of its family", "none",
                "Add it to the list at the end of its file in lib/ops.");
}

namespace {
/// The slots are filled before any thread reads them; what goes wrong is thrown by the first op.
[[gnu::constructor]] void assemble_at_load() {
  try {
    assemble();
  } catch (const std::exception&) {
  }
}
}  // namespace
}  // namespace reel
