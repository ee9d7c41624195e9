// SPDX-License-Identifier: BSD-3-Clause
// What a thread knows of an error: the user's line, and the function and layer that the user
// called.
#include <reel/fields.hpp>

#include "lib/flow/context.hpp"
#include "lib/flow/error.hpp"
#include "lib/table/op.hpp"

namespace reel {
namespace {
/// Whether a layer's arguments are those of its op: LSTM and lstm, LayerNorm and layer_norm.
bool same_name(std::string_view layer, std::string_view op) {
  if (layer == op) return true;
  const Op* const entry = OpTable::the().find(op);
  if (entry && layer == entry->layer) return true;
  std::size_t i = 0;
  for (const char c : op) {
    if (c == '_') continue;
    if (i == layer.size() || (layer[i] | 0x20) != c) return false;
    ++i;
  }
  return i == layer.size();
}

}  // namespace

std::pair<std::string, std::string> names_of_call(std::string_view op, std::string_view argument) {
  const Context& context = Context::here();
  const std::string inner(context.function.empty() ? op : context.function);
  if (context.layer_name.empty()) return {inner, std::string(argument)};
  if (same_name(context.layer_name, inner))
    return {std::string(context.layer_name), std::string(argument)};
  return {std::string(context.layer_name),
          argument.empty() ? "in " + inner : std::string(argument) + " of " + inner};
}

std::string place_of_call() {
  const std::int64_t example = Context::here().example;
  return example < 0 ? "" : "in example " + std::to_string(example) + " of batched()";
}

void find_call(Caller& caller, std::string_view& op) {
  const Context* const context = Context::current();  // making one would ask for memory
  if (context && context->outer_caller.file) caller = context->outer_caller;
  if (context && !context->layer_name.empty())
    op = context->layer_name;
  else if (context && !context->function.empty())
    op = context->function;
}

Caller caller_of(Caller caller) { return Context::here().caller_of(caller); }
}  // namespace reel
