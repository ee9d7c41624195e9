// SPDX-License-Identifier: BSD-3-Clause
// Loops and branches as values: C++ loops when they run eagerly, one step of a graph in a trace.
#pragma once  // defined in autograd
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/operand.hpp>
#include <reel/tensor.hpp>

namespace reel {
/// Options of while_loop(), scan() and of repeat() with a function.
struct LoopOptions {
  std::int64_t most = 0;  ///< a loop of more trips throws Error; 0: no limit
  bool reverse = false;   ///< scan() begins with the last row
};

namespace detail {
/// The tensors of a value, by address.
class LoopLeaves {
 public:
  LoopLeaves() = default;
  template <class T>
  explicit LoopLeaves(T& value) {
    visit_leaves("", value, [this](std::string_view, auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      static_assert(!std::is_same_v<Leaf, Variable>,
                    "a loop's state holds a Variable: the body may read and assign Variables that "
                    "it captures; the state is of Tensors");
      if constexpr (std::is_same_v<Leaf, Tensor>) add(leaf);
    });
  }
  std::size_t size() const { return count_; }
  Tensor& operator[](std::size_t i) const { return *(i < few ? few_[i] : more_[i - few]); }

 private:
  static constexpr std::size_t few = 6;
  void add(Tensor& leaf) {
    if (count_ < few)
      few_[count_] = &leaf;
    else
      more_.push_back(&leaf);
    ++count_;
  }
  Tensor* few_[few] = {};
  std::size_t count_ = 0;
  std::vector<Tensor*> more_;
};
/// The path of tensor i of a value, "h" or "cell.h".
template <class T>
std::string loop_path(void* value, std::size_t i) {
  std::string path;
  std::size_t at = 0;
  visit_leaves("", *static_cast<T*>(value), [&](std::string_view name, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
      if (at++ == i) path = std::string(name);
  });
  return path;
}
/// The value that a trip gives for the next one, and what names its tensors.
struct LoopNext {
  LoopLeaves leaves;
  void* value;
  std::string (*path)(void* value, std::size_t i);
  template <class T>
  explicit LoopNext(T& next) : leaves(next), value(&next), path(loop_path<T>) {}
};

/// A loop while it runs. A trace follows it: then each trip works on other names of the state, so
/// that what the trip reads of it is known from what the loop captures.
class REEL_API Loop {
 public:
  enum class Kind : std::uint8_t { trips, once };
  Loop(const char* name, Kind kind, LoopOptions options, Caller caller);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  /// `arrays` are cut into rows along their first axes, which have one length.
  void begin(const LoopLeaves& state, const LoopLeaves& arrays);
  std::int64_t length() const { return length_; }
  bool is_followed() const { return followed_; }
  /// Sets `rows`, copies of the arrays, to the rows of the next trip.
  void begin_trip(const LoopLeaves& state, const LoopLeaves& rows);
  /// Whether a condition is true. Throws Error unless it is one bool.
  bool holds(const Tensor& condition, const LoopLeaves& state);
  bool holds(bool condition, const LoopLeaves& state);
  /// Throws ShapeError or DTypeError if the next state has other tensors than the first one.
  void end_trip(const LoopNext& next, const LoopLeaves& made);
  /// Sets `first`, a copy of what one trip has made, to all rows in their order.
  void stack(const LoopLeaves& first);
  void end(const LoopLeaves& state, const LoopLeaves& stacked);

 private:
  struct State;
  State* state_;
  std::int64_t length_ = 0;
  bool followed_ = false;  // by a trace
};

/// The start and the count of repeat(), as int64 Tensors.
REEL_API Tensor loop_start();
REEL_API Tensor loop_count(const Operand& count, Caller caller);

template <class F, class S>
concept LoopCondition = std::is_invocable_v<F&, const S&>;

template <class S, class Condition, class Body>
S run_while(const char* name, Condition& condition, Body& body, S state, LoopOptions options,
            Caller caller) try {
  Loop loop(name, Loop::Kind::trips, options, caller);
  loop.begin(LoopLeaves(state), {});
  for (;;) {
    loop.begin_trip(LoopLeaves(state), {});
    if (!loop.holds(condition(static_cast<const S&>(state)), LoopLeaves(state))) break;
    S next = body(static_cast<S&&>(state));
    loop.end_trip(LoopNext(next), {});
    state = static_cast<S&&>(next);
  }
  loop.end(LoopLeaves(state), {});
  return state;
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace detail

/// Calls `state = body(state)` as long as `condition(state)` is true, and returns the last state.
/// The state is a Tensor, or a struct, pair or vector of Tensors; their dtypes and shapes stay the
/// same. The condition gives one bool: a Tensor, or a C++ bool.
///
///     auto small = [](Tensor x) { return x < 50; };
///     while_loop(small, [](Tensor x) { return x * 2; }, tensor(1))  // 64
///
/// Eagerly this is a C++ loop: tapes, errors and what body does are those of the loop written by
/// hand. In a traced function it is one step, which is captured once and replayed any number of
/// times, and its gradient is one step too. This does not hold where a trip writes a Variable, runs
/// a user's function, or uses tensors of earlier trips that are not in the state: then the trips
/// are captured one by one, as those of a C++ loop.
///
/// Throws Error for a condition that is not one bool and for more than `options.most` trips,
/// ShapeError and DTypeError for a state that changes its shapes and dtypes.
template <class S, class Condition, class Body>
S while_loop(Condition condition, Body body, S state, LoopOptions options = {},
             Caller caller = Caller::here()) {
  static_assert(detail::LoopCondition<Condition, S>,
                "while_loop(condition, body, state): condition takes the state");
  static_assert(std::is_invocable_r_v<S, Body&, S>,
                "while_loop(condition, body, state): body takes a state and gives the next one");
  return detail::run_while("while_loop", condition, body, static_cast<S&&>(state), options, caller);
}

/// Calls `state = body(state, i)` for i = 0, 1, ... count - 1, and returns the last state. i is an
/// int64 Tensor. The count is a number, or one number in a Tensor; a traced function captures the
/// loop once for all counts in Tensors. See while_loop().
///
///     repeat(5, tensor(1.0), [](Tensor x, Tensor i) { return x * (i + 1); })  // 120.0
template <class S, class Body>
requires std::is_invocable_r_v<S, Body&, S, Tensor> S repeat(Operand count, S state, Body body,
                                                             LoopOptions options = {},
                                                             Caller caller = Caller::here()) {
  const Tensor end = detail::loop_count(count, caller);
  const auto goes_on = [&](const std::pair<Tensor, S>& at) { return at.first < end; };
  const auto next = [&](std::pair<Tensor, S> at) {
    Tensor i = at.first + 1;
    return std::pair<Tensor, S>(static_cast<Tensor&&>(i),
                                body(static_cast<S&&>(at.second), static_cast<Tensor&&>(at.first)));
  };
  std::pair<Tensor, S> start(detail::loop_start(), static_cast<S&&>(state));
  return detail::run_while("repeat", goes_on, next, static_cast<std::pair<Tensor, S>&&>(start),
                           options, caller)
      .second;
}

/// Calls `(state, y) = body(state, x)` for each row x of xs, and returns the last state and all y,
/// joined along a new first axis. xs is a Tensor, or a struct, pair or vector of Tensors with first
/// axes of one length; so is y.
///
///     auto add = [](Tensor s, Tensor x) { return std::pair(s + x, s + x); };
///     scan(tensor(0), tensor({1, 2, 3}), add).second  // [1, 3, 6]
///
/// With `.reverse`, rows are taken from the last to the first; y keeps the place of its x. See
/// while_loop() for traces and errors. Throws ShapeError for lengths that differ, and for length 0.
template <class S, class X, class Body>
auto scan(S state, X xs, Body body, LoopOptions options = {}, Caller caller = Caller::here()) try {
  static_assert(std::is_invocable_v<Body&, S, X>,
                "scan(state, xs, body): body takes a state and a row of xs");
  using Step = std::remove_cvref_t<std::invoke_result_t<Body&, S, X>>;
  using Y = std::remove_cvref_t<decltype(std::declval<Step&>().second)>;
  static_assert(std::is_convertible_v<decltype(std::declval<Step&>().first), S>,
                "scan(state, xs, body): body gives std::pair(next state, y)");
  detail::Loop loop("scan", detail::Loop::Kind::trips, options, caller);
  loop.begin(detail::LoopLeaves(state), detail::LoopLeaves(xs));
  std::vector<Y> one;  // what the last trip has made; Y need not have a default constructor
  for (std::int64_t i = 0; i < loop.length(); ++i) {
    X x = xs;
    loop.begin_trip(detail::LoopLeaves(state), detail::LoopLeaves(x));
    Step step = body(static_cast<S&&>(state), static_cast<X&&>(x));
    state = static_cast<S>(static_cast<decltype(step.first)&&>(step.first));
    one.clear();
    one.push_back(static_cast<Y&&>(step.second));
    loop.end_trip(detail::LoopNext(state), detail::LoopLeaves(one[0]));
  }
  loop.stack(detail::LoopLeaves(one[0]));
  loop.end(detail::LoopLeaves(state), detail::LoopLeaves(one[0]));
  return std::pair<S, Y>(static_cast<S&&>(state), static_cast<Y&&>(one[0]));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "scan");
}

/// Calls yes() if `which` is true, else no(), and returns the result: a Tensor, or a struct, pair
/// or vector of Tensors. Only one of the two functions runs. `which` is one bool. In a traced
/// function without a tape, cond() is one step, and both functions give tensors of the same dtypes
/// and shapes. So n calls of cond() are n steps, where n `if` are up to 2^n paths. While a tape
/// records, a trace captures cond() as an `if`.
///
///     cond(tensor(3) > 2, [] { return tensor(1); }, [] { return tensor(0); })  // 1
template <class Yes, class No>
requires std::is_invocable_v<Yes&>
auto cond(Operand which, Yes yes, No no, Caller caller = Caller::here()) try {
  using R = std::remove_cvref_t<std::invoke_result_t<Yes&>>;
  static_assert(std::is_invocable_r_v<R, No&>,
                "cond(which, yes, no): yes and no give results of one type");
  detail::Loop loop("cond", detail::Loop::Kind::once, {}, caller);
  const Tensor condition = which.value();
  loop.begin({}, {});
  loop.begin_trip({}, {});
  const bool holds = loop.holds(condition, {});
  R result = holds ? yes() : static_cast<R>(no());
  loop.end_trip(detail::LoopNext(result), {});
  loop.end(detail::LoopLeaves(result), {});
  return result;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "cond");
}
}  // namespace reel
