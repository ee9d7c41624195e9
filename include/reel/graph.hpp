// SPDX-License-Identifier: BSD-3-Clause
// The graph of a traced function: its steps as data, to be read, printed, and run in part.
#pragma once  // defined in lib/graph, lib/trace
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/function.hpp>
#include <reel/pointer.hpp>
#include <reel/trace.hpp>

namespace reel {
namespace detail {
struct GraphData;  // lib/graph/graph.hpp
}  // namespace detail

/// A step of a Graph: an op, a gradient of an op ("tanh.d0"), or a question ("ask"), where C++ read
/// a value and may have branched on it.
struct GraphNode {
  std::string op;
  std::string options;              // "axis=1, keepdims=0"
  std::string scope;                // of NameScopes, "encoder/layer"
  std::string caller;               // "model.cpp:12"
  std::vector<std::string> inputs;  // names of values; empty for one that is missing
  std::vector<std::string> outputs;
  std::vector<Shape> shapes;  // of the outputs
  std::vector<DType> dtypes;
  std::vector<std::string> writes;  // Variables that the step updates
  int block = 0;                    // steps of one block follow each other without a question
};

/// What a traced function does for arguments of one signature. It is data: it does not change. It
/// keeps the Variables that the function reads, but nothing else of the function.
///
/// Values have names: those of named(); the paths of arguments, such as "argument 0" or
/// "argument 1.weight"; names of Variables; "%7" for the others. Of equal names the second one gets
/// "_1", and so on.
class REEL_API Graph {
 public:
  explicit Graph(Shared<const detail::GraphData> data) : data_(std::move(data)) {}
  /// All steps, in their order.
  std::vector<GraphNode> nodes() const;
  /// The graph as replays run it, after the passes: a step that repeats another one, or that makes
  /// only what nothing reads, is dropped; updates of Variables come last.
  Graph planned(Caller caller = Caller::here()) const;
  /// A line for each value and step: see to_string().
  std::string text() const;
  /// The steps in the language DOT, for Graphviz: `dot -Tsvg graph.dot`.
  std::string dot() const;
  /// A hash of all that decides what the graph computes: ops, options, shapes, constants; not of
  /// names and lines. Equal graphs have equal hashes on machines of one byte order.
  std::uint64_t hash() const;
  /// Throws Error unless each value is made once and before it is read, has the dtype and shape
  /// that the rule of its op gives, and each view, update and branch fits. With REEL_VERIFY=1 in
  /// the environment, each capture is verified.
  void verify(Caller caller = Caller::here()) const;
  const detail::GraphData& data() const { return *data_; }

 private:
  Shared<const detail::GraphData> data_;
};
/// The text of a graph:
///
///     %0 "x" = argument : float32(2)
///     %2 "product" = multiply %0 %1 : float32(2)  # model.cpp:12
///     return %2
REEL_API std::string to_string(const Graph& graph);

namespace detail {
using ArgumentNames = std::vector<std::pair<const Tensor*, std::string>>;
/// The Tensors of an argument, and their names.
template <class T>
void name_tensors(int number, const T& argument, ArgumentNames& names) {
  visit_leaves("argument " + std::to_string(number), argument,
               [&](std::string_view path, auto& leaf) {
                 if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
                   names.emplace_back(&leaf, path);
               });
}
}  // namespace detail

template <class R, class... Args>
Graph Traced<R(Args...)>::graph(std::decay_t<Args>... args, Caller caller) const try {
  detail::TraceCall call(traces_, caller);
  detail::ArgumentNames names;
  [[maybe_unused]] int number = 0;
  (call.argument(args), ...);
  (detail::name_tensors(number++, args, names), ...);
  return Graph(call.graph(names));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "graph_of");
}
/// The graph that a call of a traced function with these arguments would replay, as
/// `traced.graph(args...)`. It runs nothing. Throws Error, with the reason, for a signature that
/// was never captured or runs eagerly.
///
///     auto f = trace([](Tensor x) { return tanh(x) + 1; });
///     f(x);
///     fmt::print("{}", to_string(graph_of(f, x)));
template <class R, class... Args, class... Given>
Graph graph_of(const Traced<R(Args...)>& traced, Given&&... args) {
  return traced.graph(std::forward<Given>(args)...);
}

/// Gives x a name in the graph of a traced function, and returns x. It does nothing else. Of
/// several names of one value the last one counts.
REEL_API Tensor named(Operand x, std::string_view name);
/// While it lives, steps of a traced function belong to this scope. Scopes inside each other are
/// joined by "/".
class REEL_API NameScope {
 public:
  [[nodiscard]] explicit NameScope(std::string_view name, Caller caller = Caller::here());
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  std::uint64_t thread_;
};

/// Options of run().
struct RunOptions {
  /// Tensors in the place of values with these names. Arguments have no other value; Variables have
  /// their current ones.
  std::vector<std::pair<std::string, Tensor>> feed = {};
  /// The names of the values to compute.
  std::vector<std::string> fetch = {};
};
/// What run() has computed, in the order of .fetch.
struct REEL_API Fetched {
  std::vector<std::pair<std::string, Tensor>> values;
  /// Throws IndexError for a name that was not fetched.
  const Tensor& at(std::string_view name, Caller caller = Caller::here()) const;
};
/// Computes some values of a graph, and only the steps that they need. Steps run eagerly, as
/// constants for tapes, and no Variable changes. Random numbers are those of a generator with seed
/// 0. Throws Error for a name that the graph does not have, for an argument that is needed and not
/// fed, and for a step of a user's kernel; ShapeError and DTypeError for a fed Tensor of another
/// shape or dtype.
///
///     run(graph, {.feed = {{"product", ones({2})}}, .fetch = {"out"}}).at("out")
REEL_API Fetched run(const Graph& graph, const RunOptions& options, Caller caller = Caller::here());

/// A graph in which f(x) stands in the place of x, the value with this name: what reads x reads
/// f(x) then. f is called once, with zeros of the shape and dtype of x, and its ops become steps;
/// it may not read elements in C++ or write Variables. Throws Error for an unknown name, ShapeError
/// and DTypeError if f(x) differs from x in shape or dtype.
///
///     Graph without = replace(graph, "attention", [](Tensor x) { return zeros_like(x); });
REEL_API Graph replace(const Graph& graph, std::string_view name,
                       const detail::Function<Tensor(const Tensor&)>& f,
                       Caller caller = Caller::here());
/// A graph with a further value, f(inputs), under a name that no value has yet; run() can fetch it.
/// `inputs` are names of values that are made on one path. f is called as by replace().
///
///     Graph more = append(graph, "size", {"logits"}, [](auto& x) { return norm(x[0]); });
REEL_API Graph append(const Graph& graph, std::string_view name,
                      const std::vector<std::string>& inputs,
                      const detail::Function<Tensor(const std::vector<Tensor>&)>& f,
                      Caller caller = Caller::here());
}  // namespace reel
