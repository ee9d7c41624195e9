// SPDX-License-Identifier: BSD-3-Clause
// The graphs of traced functions, for programs; names in them.
#include <reel/graph.hpp>
#include <reel/train.hpp>

#include <unordered_map>

#include "lib/body/access.hpp"
#include "lib/flow/interceptor.hpp"
#include "lib/pool/process.hpp"
#include "lib/trace/progress.hpp"

namespace reel {
Shared<const detail::GraphData> detail::TraceCall::graph(const ArgumentNames& names) {
  TraceProgress& call = *progress_;
  if (!call.cache->reads.empty()) add_reads();
  const Locked held(Lock::traces);
  const TraceEntry* const entry = call.cache->find(call.key, hash_of(call.key));
  auto data = make_shared_of<GraphData>();
  std::string why = std::string("a signature that was never called with training() ") +
                    (training() ? "true" : "false");
  if (entry) {
    why = entry->trouble.empty() ? "no call of this signature was captured yet"
                                 : "calls of this signature run eagerly: " + entry->trouble;
    static_cast<graph::Graph&>(*data) = entry->tree;
    for (const Variable& variable : entry->tree.variables) {
      data->variables.push_back(variable.name());
      data->program.push_back(variable);
      data->variable_values.push_back(Access::cell(variable).value);
    }
  }
  if (data->segments.empty() || (entry && entry->eager))
    fail<Error>(call.caller, "graph_of", "arguments", "a signature that was captured", why);
  for (const Tensor* argument : call.arguments)
    for (const auto& [place, name] : names)
      if (place == argument) data->arguments.push_back(name);
  return data;
}

Graph Graph::planned(Caller caller) const try {
  auto data = make_shared_of<detail::GraphData>();
  *data = *data_;
  tracing::run_passes(*data, data->variables.size(), graph::all_passes(), false);
  return Graph(std::move(data));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "planned");
}

void Graph::verify(Caller caller) const try {
  const std::string fault =
      graph::fault_of(*data_, data_->variables.size(), Context::here(), data_->loaded);
  if (!fault.empty())
    fail<Error>(caller, "verify", "graph",
                "values that are made before they are read, with the shapes of their ops", fault);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "verify");
}

Tensor named(Operand x, std::string_view name) try {
  Tensor value = x.value();
  if (value.defined())
    for (Interceptor* each = Context::here().interceptors; each; each = each->next)
      each->named(*Access::body(value), name);
  return value;
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "named");
}
NameScope::NameScope(std::string_view name, Caller caller) try : thread_(Context::here().thread) {
  if (name.empty()) fail<Error>(caller, "NameScope", "name", "a name", "an empty text");
  for (Interceptor* each = Context::here().interceptors; each; each = each->next)
    each->scope_changes(name);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "NameScope");
}
NameScope::~NameScope() {
  if (Context::here().thread != thread_) return;
  for (Interceptor* each = Context::here().interceptors; each; each = each->next)
    each->scope_changes({});
}
}  // namespace reel
