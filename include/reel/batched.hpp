// SPDX-License-Identifier: BSD-3-Clause
// batched: many examples at once from code written for one. vmap: a function over a leading axis.
#pragma once  // defined in lib/batch
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/error.hpp>
#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/operand.hpp>
#include <reel/pointer.hpp>

namespace reel {
/// Options of batched().
struct BatchedOptions {
  /// The stack of each example in bytes, of which only what is used takes memory. Under 16 KiB that
  /// are left, an op throws Error: f recurses too deeply.
  std::size_t stack = std::size_t{1} << 20;
};

/// One kind of op in the last batched() of this thread.
struct BatchedOp {
  std::string name;
  std::int64_t calls = 0;     // that f made
  std::int64_t launches = 0;  // of kernels for several calls
  std::int64_t alone = 0;     // calls that ran one by one, because the op has no rule for them
};
/// What the last batched() of this thread did.
struct BatchingReport {
  std::int64_t examples = 0;
  std::int64_t rounds = 0;  // how often all examples waited, or had ended
  std::int64_t calls = 0, launches = 0;
  std::vector<BatchedOp> ops;  // the one with the most calls first
  std::int64_t failed = -1;    // the first example that threw; -1: none
};
/// The report of the last batched() of this thread, empty before the first one.
REEL_API BatchingReport batching_report();
/// A table: ops, calls, launches, calls that ran alone.
REEL_API std::string to_string(const BatchingReport& report);

namespace detail {
/// Calls f(i) for each example on a fiber of its own, and the ops of all of them together.
REEL_API void run_batched(std::size_t examples, const Function<void(std::size_t)>& f,
                          BatchedOptions options, Caller caller);
using Branches = void (*)(const void* what, std::size_t i);
/// Calls f(what, i) for each branch.
REEL_API void run_parallel(std::size_t branches, Branches f, const void* what);
template <class F>
void run_parallel(std::size_t branches, const F& f) {
  run_parallel(
      branches, [](const void* what, std::size_t i) { (*static_cast<const F*>(what))(i); }, &f);
}
/// The result of a branch, once it is there.
template <class F, class... X>
using ResultOf = std::remove_cvref_t<std::invoke_result_t<const F&, X...>>;

struct MapData;
/// While it lives, ops of tensors from row() compute all rows at once.
class REEL_API MapScope {
 public:
  explicit MapScope(Caller caller);
  ~MapScope();
  MapScope(const MapScope&) = delete;
  MapScope& operator=(const MapScope&) = delete;
  /// Stands for each of the rows of x. Throws ShapeError unless all x have equally many.
  Tensor row(const Tensor& x);
  /// The rows that a tensor stands for; the same row each time for any other tensor.
  Tensor all(const Tensor& x);

 private:
  MapData* data_;
};
template <class F>
struct Mapped {
  F f;
  template <class... Rest>
  auto operator()(Operand x, const Rest&... rest) const {
    return run(std::index_sequence_for<Operand, Rest...>(), x, Operand(rest)...);
  }
  template <std::size_t... K, class... Operands>
  auto run(std::index_sequence<K...>, const Operand& x, const Operands&... rest) const {
    MapScope scope(x.caller());
    const Tensor rows[] = {scope.row(x.value()), scope.row(rest.value())...};
    auto result = f(rows[K]...);
    visit_leaves("", result, [&](std::string_view, auto& leaf) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
        leaf = scope.all(leaf);
    });
    return result;
  }
};
}  // namespace detail

/// Calls f for each example and returns the results in order. Ops of the same kind and shapes run
/// as one kernel for all examples. f is written for one example: it may recurse, loop and decide on
/// values. An example that reads a value waits until the others have come as far. Results and
/// gradients are those of a loop, up to the order of sums; layers, devices and tapes around the
/// call work as in a loop. f must not write Variables: Error. A tape in f is a TapeError. Random
/// ops of example i draw from a generator of its own, which the thread's generator and i determine.
/// A traced function captures the kernels of the batch, unless f draws random numbers.
/// If f throws, the other examples finish; then the exception of the first such example is thrown.
/// Throws Error for a batched() inside f. Method: automatic batching by agenda (Neubig, Goldberg,
/// Dyer, 2017), with fibers (Fegade et al., ACRoBat, 2024).
template <class Examples, class F>
auto batched(const Examples& examples, const F& f, BatchedOptions options = {},
             Caller caller = Caller::here()) {
  using Result = std::remove_cvref_t<decltype(f(*std::begin(examples)))>;
  static_assert(!std::is_void_v<Result>, "batched(): f returns a value for each example");
  std::vector<decltype(std::begin(examples))> places;
  for (auto at = std::begin(examples); at != std::end(examples); ++at) places.push_back(at);
  std::vector<Owned<Result>> found(places.size());
  detail::run_batched(
      found.size(), [&](std::size_t i) { found[i] = make_owned<Result>(f(*places[i])); }, options,
      caller);
  std::vector<Result> results;
  results.reserve(found.size());
  for (Owned<Result>& each : found) results.push_back(std::move(*each));
  return results;
}

/// Calls functions that do not depend on each other and returns their results as a std::tuple. Ops
/// of the same kind and shapes run as one kernel for all of them, as in batched(): so the subtrees
/// of a single tree run together. Inside of batched(), the functions are parts of an example.
/// Outside of it, the outermost parallel() computes all ops of its functions before it returns.
/// The functions must not write Variables or make tapes. Each draws random numbers from a generator
/// of its own. If some throw, the others finish; then the exception of the first of them is thrown.
/// In a traced function and in vmap() they are plain calls.
///     std::get<1>(parallel([] { return 1; }, [] { return 2; }))  // 2
template <class... F>
requires(sizeof...(F) > 0 && (std::is_invocable_v<const F&> && ...)) auto parallel(const F&... f) {
  static_assert((!std::is_void_v<std::invoke_result_t<const F&>> && ...),
                "parallel(): each function returns a value");
  std::tuple<Owned<detail::ResultOf<F>>...> found;
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    detail::run_parallel(sizeof...(F), [&](std::size_t i) {
      ((i == K ? void(std::get<K>(found) = make_owned<detail::ResultOf<F>>(f())) : void()), ...);
    });
  }
  (std::index_sequence_for<F...>());
  return std::apply(
      [](auto&... each) { return std::tuple<detail::ResultOf<F>...>(std::move(*each)...); }, found);
}
/// Runs f(child) of each child, such as the children of a node, as parallel(f, g) does; returns the
/// results in order.
template <class Children, class F>
requires requires(const Children& children, const F& f) { f(*std::begin(children)); }
auto parallel(const Children& children, const F& f) {
  using Result = detail::ResultOf<F, decltype(*std::begin(children))>;
  static_assert(!std::is_void_v<Result>, "parallel(): f returns a value for each child");
  std::vector<decltype(std::begin(children))> places;
  for (auto at = std::begin(children); at != std::end(children); ++at) places.push_back(at);
  std::vector<Owned<Result>> found(places.size());
  detail::run_parallel(found.size(),
                       [&](std::size_t i) { found[i] = make_owned<Result>(f(*places[i])); });
  std::vector<Result> results;
  results.reserve(found.size());
  for (Owned<Result>& each : found) results.push_back(std::move(*each));
  return results;
}

/// Returns a function that calls f for each row of its arguments, all rows at once, and stacks the
/// results. Rows lie along the first axis. Tensors that f captures are the same for each row. f
/// must not read elements, write Variables or use gradients of your own: Error. A tape in f is a
/// TapeError. A random op draws once, for all rows.
template <class F>
auto vmap(F f) {
  return detail::Mapped<F>{std::move(f)};
}
}  // namespace reel
