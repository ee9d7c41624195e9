// SPDX-License-Identifier: BSD-3-Clause
// trace: a function whose ops are captured when it first runs, and replayed afterwards.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/error.hpp>
#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/signature.hpp>

namespace reel {
namespace detail {
struct TraceBook;      // what was captured (lib/trace)
struct TraceProgress;  // one call

/// What frees an object whose type is not known.
template <class T>
void free_object(void* object) {
  delete static_cast<T*>(object);
}

/// A function and its traces; copies share both.
class REEL_API Traces {
 public:
  /// Takes the function over.
  Traces(void* function, void (*free)(void*));
  Traces(const Traces& other) noexcept;
  Traces& operator=(Traces other) noexcept;
  ~Traces();
  std::size_t count() const;
  std::string explain() const;
  void* function() const;
  TraceBook& book() const { return *book_; }

 private:
  TraceBook* book_;
};

/// Values that are equal where their bytes or their texts are.
template <class T>
concept PlainLeaf =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T> ||
    std::is_same_v<T, Shape> || std::is_convertible_v<const T&, std::string_view>;
template <class T>
concept TraceLeaf = std::is_same_v<T, Tensor> || std::is_same_v<T, Variable> || PlainLeaf<T>;

/// One call of a traced function: it is replayed, or run and perhaps captured.
class REEL_API TraceCall {
 public:
  TraceCall(Traces traces, Caller caller);
  ~TraceCall();
  TraceCall(const TraceCall&) = delete;
  TraceCall& operator=(const TraceCall&) = delete;

  template <class T>
  void argument(T& value) try {
    if constexpr (!std::is_same_v<T, Tensor>) begin_argument();
    visit_leaves("", value, KeyVisitor{*this});
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  /// What an earlier run gave, for filled(), if this call was replayed; null if the function is to
  /// be run.
  const void* replay();
  template <class R>
  R filled(const R& known) try {
    R result = known;
    std::size_t i = 0;
    visit_leaves("", result, [&](std::string_view, auto& leaf) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
        leaf = take_result(i++);
    });
    return result;
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  void* function() const { return traces_.function(); }
  /// After the function has run. Its result stands even if there is no memory to keep what was
  /// captured.
  void finish();
  template <class R>
  void finish(R& result) try {
    visit_leaves("", result, [this](std::string_view, auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      static_assert(TraceLeaf<Leaf>,
                    "results of a traced function are Tensors, Variables, numbers, texts, Shapes, "
                    "and lists and structs (with fields) of them");
      if constexpr (std::is_same_v<Leaf, Tensor>) add_result(leaf);
    });
    if (captures()) keep(result);
    if (const void* known = checked_against()) compare(result, *static_cast<const R*>(known));
    finish();
  } catch (const std::bad_alloc&) {
  } catch (const MemoryError&) {
  }

 private:
  struct KeyVisitor {
    TraceCall& call;
    template <class Leaf>
    void operator()(std::string_view path, Leaf& leaf) const {
      static_assert(TraceLeaf<Leaf>,
                    "arguments of a traced function are Tensors, Variables, numbers, texts, "
                    "Shapes, and lists and structs (with fields) of them");
      if constexpr (std::is_same_v<Leaf, Tensor>)
        call.add_tensor(path, leaf);
      else if constexpr (std::is_same_v<Leaf, Variable>)
        call.add_variable(path, leaf);
      else if constexpr (std::is_same_v<Leaf, Shape>)
        call.add_plain(path, {reinterpret_cast<const char*>(leaf.data()), 8 * leaf.rank()});
      else if constexpr (std::is_convertible_v<const Leaf&, std::string_view>)
        call.add_plain(path, std::string_view(leaf));
      else
        call.add_plain(path, {reinterpret_cast<const char*>(&leaf), sizeof leaf});
    }
    void holds(std::string_view path, std::size_t count) const {
      call.add_plain(path, {reinterpret_cast<const char*>(&count), sizeof count});
    }
  };
  void begin_argument();
  void add_tensor(std::string_view path, Tensor& x);
  void add_variable(std::string_view path, const Variable& x);
  void add_plain(std::string_view path, std::string_view bytes);
  void add_result(const Tensor& x);
  Tensor take_result(std::size_t i);
  bool captures() const;
  /// What an earlier run gave, if this one checks a replay.
  const void* checked_against() const;
  void differs();
  /// The plain values of a result are the same each time.
  template <class R>
  void compare(R& result, const R& known) {
    std::vector<std::pair<std::string, const void*>> leaves;
    visit_leaves("", known,
                 [&](std::string_view path, auto& leaf) { leaves.emplace_back(path, &leaf); });
    std::size_t i = 0;
    bool same = true;
    visit_leaves("", result, [&](std::string_view path, auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      same = same && i < leaves.size() && leaves[i].first == path;
      if constexpr (PlainLeaf<Leaf>)
        same = same && *static_cast<const Leaf*>(leaves[i].second) == leaf;
      ++i;
    });
    if (!same || i != leaves.size()) differs();
  }
  /// A result for replays to start from: a copy whose tensors are empty.
  template <class R>
  void keep(R& result) {
    auto* copy = new R(result);
    keep_result(copy, free_object<R>);
    std::vector<const void*> places;
    visit_leaves("", result, [&](std::string_view, auto& leaf) { places.push_back(&leaf); });
    std::size_t i = 0;
    visit_leaves("", *copy, [&](std::string_view, auto& leaf) {
      if (places[i++] == &leaf)
        keep_nothing();
      else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
        leaf = Tensor();
    });
  }
  /// Takes the copy over.
  void keep_result(void* copy, void (*free)(void*));
  /// Copies of the result share what it points at.
  void keep_nothing();
  Traces traces_;  // the function may replace the handle it was called by
  TraceProgress* progress_;
};
}  // namespace detail

/// A traced function, made by trace(). A handle: copies share what was captured. Threads may call
/// it at the same time as far as they may call the function itself.
template <class>
class Traced;
template <class R, class... Args>
class Traced<R(Args...)> {
  static_assert(!std::is_reference_v<R>, "a traced function gives a value");
  static_assert(((!std::is_reference_v<Args> ||
                  std::is_const_v<std::remove_reference_t<Args>>)&&...),
                "a traced function takes values, or references to const");

 public:
  explicit Traced(Function<R(Args...)> f) try
      : traces_(new Function<R(Args...)>(std::move(f)), detail::free_object<Function<R(Args...)>>) {
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  R operator()(std::decay_t<Args>... args, Caller caller = Caller::here()) const {
    detail::TraceCall call(traces_, caller);
    (call.argument(args), ...);
    const void* known = call.replay();
    const auto& f = *static_cast<const Function<R(Args...)>*>(call.function());
    if constexpr (std::is_void_v<R>) {
      if (known) return;
      f(std::forward<Args>(args)...);
      call.finish();
    } else {
      if (known) return call.filled(*static_cast<const R*>(known));
      R result = f(std::forward<Args>(args)...);
      call.finish(result);
      return result;
    }
  }
  /// How many ways through the function have been captured, over all signatures.
  std::size_t trace_count() const { return traces_.count(); }
  /// What was captured: for each signature its steps, the answers it was captured for, the
  /// constants it holds; and why calls run eagerly where they do.
  std::string explain() const { return traces_.explain(); }

 private:
  detail::Traces traces_;
};

/// f, captured when it first runs with arguments of some signature (dtypes, shapes, values of plain
/// arguments, train or eval), and replayed without running it afterwards. Live are tensor
/// arguments, Variables, random numbers, and every value that f reads on the host: where it takes
/// another way for another value, that way is captured too. All else that f uses is constant, and
/// what it does besides ops (printing, counting) happens only when it runs. The first replay of
/// every way is checked against a run; where they differ it is captured anew, and after the third
/// time calls of that signature go on running f, as they do while a tape outside f records. Throws
/// what f throws.
///
/// For a generic lambda or an overloaded function object, say the signature:
/// `trace<Tensor(Tensor)>(f)`.
template <class Signature, class F>
requires std::is_function_v<Signature> Traced<Signature> trace(F f) {
  return Traced<Signature>(Function<Signature>(std::move(f)));
}
template <class F>
requires(!std::is_function_v<F>) auto trace(F f) {
  return Traced<typename detail::SignatureOf<F>::type>(std::move(f));
}
}  // namespace reel
