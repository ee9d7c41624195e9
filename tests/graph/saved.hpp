// SPDX-License-Identifier: BSD-3-Clause
// Saves a graph, loads it, and compares the two.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "lib/body/access.hpp"
#include "lib/graph/graph.hpp"
#include "support/catch.hpp"

namespace reel::tests {
inline bool same_bits(const Tensor& x, const Tensor& y) {
  if (x.dtype() != y.dtype() || !(x.shape() == y.shape())) return false;
  const Tensor a = reshape(x, {-1}), b = reshape(y, {-1});
  const Tensor one = concat({a}), other = concat({b});  // row-major copies
  const Body &first = *Access::body(one), &second = *Access::body(other);
  return first.bytes() == second.bytes() &&
         (first.elements == 0 ||
          std::memcmp(first.data, second.data, static_cast<std::size_t>(first.bytes())) == 0);
}
/// Everything that the graph computes, or the error that run() throws for it.
inline std::vector<std::pair<std::string, Tensor>> all_values(
    const Graph& graph, const std::vector<Tensor>& arguments) {
  RunOptions options;
  for (std::size_t i = 0; i < arguments.size() && i < graph.data().arguments.size(); ++i)
    options.feed.emplace_back(graph.data().arguments[i], arguments[i]);
  for (const GraphNode& node : graph.nodes())
    for (const std::string& output : node.outputs)
      if (!output.empty()) options.fetch.push_back(output);
  try {
    return run(graph, options).values;
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {
    return {{error.what(), Tensor()}};
  }
}
inline void check_saved(const Graph& graph, const std::vector<Tensor>& arguments) {
  const Folder folder;
  const std::string path = folder.file("graph.safetensors");
  io::save_graph(path, graph);
  const Graph loaded = io::load_graph(path);
  CHECK(loaded.text() == graph.text());
  CHECK(loaded.dot() == graph.dot());
  CHECK(loaded.hash() == graph.hash());
  const auto values = all_values(graph, arguments), again = all_values(loaded, arguments);
  REQUIRE(values.size() == again.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO(values[i].first);
    CHECK(values[i].first.substr(values[i].first.find('\n') + 1) ==
          again[i].first.substr(again[i].first.find('\n') + 1));
    if (values[i].second.defined()) CHECK(same_bits(values[i].second, again[i].second));
  }
}
template <class F, class... T>
void check_saved_call(const char* name, F f, const T&... arguments) {
  INFO(name);
  auto traced = trace(std::move(f));
  traced(arguments...);
  check_saved(traced.graph(arguments...), {arguments...});
}
template <class F>
void check_saved(const char* name, F f, const std::vector<Tensor>& arguments) {
  if constexpr (std::is_invocable_v<F&, Tensor>)
    check_saved_call(name, std::move(f), arguments.at(0));
  else
    check_saved_call(name, std::move(f), arguments.at(0), arguments.at(1));
}
}  // namespace reel::tests
