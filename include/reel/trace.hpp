// SPDX-License-Identifier: BSD-3-Clause
// trace: captures the ops of a function when it first runs, and replays them afterwards.
#pragma once  // defined in lib/trace, autograd
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
#include <reel/op.hpp>
#include <reel/pointer.hpp>
#include <reel/references.hpp>
#include <reel/signature.hpp>

namespace reel {
class Graph;

/// Options of trace().
struct TraceOptions {
  /// The share of the time that checks may take. A check runs the function beside a replay, and
  /// finds what has changed outside the trace. Replays 1, 2, 4, ... 64 of each path are checked
  /// too, unless it is 0: 0 checks nothing. 1 checks every replay.
  double verify = 0.01;
  /// A check that finds a difference throws TraceError. Otherwise one line on stderr says so. Calls
  /// of the same signature run eagerly afterwards in both cases.
  bool throw_on_difference = false;
  /// Bytes that constants, and memory for replays, may take: at most about so many. Beyond that,
  /// the signatures that were called longest ago are dropped, and captured again when they are
  /// called. A function that several threads call drops nothing.
  std::int64_t memory = std::int64_t{1} << 30;
};

namespace detail {
struct TraceCache;     // what was captured (lib/trace)
struct TraceProgress;  // one call
struct GraphData;      // lib/graph

/// The memory that holds the state of a function: a run that changes it cannot be replayed.
class REEL_API StateList {
 public:
  virtual void add(const void* first, std::size_t bytes) = 0;

 protected:
  ~StateList() = default;
};
struct StateVisitor {
  StateList& list;
  template <class Leaf>
  void operator()(std::string_view, const Leaf& leaf) const {
    list.add(&leaf, sizeof leaf);
    if constexpr (std::is_convertible_v<const Leaf&, std::string_view>) {
      const std::string_view text(leaf);
      list.add(text.data(), text.size());
    }
  }
};
template <class F>
void list_state(const void* object, StateList& list) {
  list.add(object, sizeof(F));
  if constexpr (HasFields<F>) visit_leaves("", *static_cast<const F*>(object), StateVisitor{list});
}
/// Lists what the pointers of an argument lead to: the caller sees what a run changes there.
struct PointeeVisitor {
  StateList& list;
  template <class Leaf>
  void operator()(std::string_view, const Leaf&) const {}
  template <class T>
  void behind(const T& object) const {
    list.add(&object, sizeof object);
    visit_leaves("", object, StateVisitor{list});
  }
};

/// A function that is to be traced.
struct TracedFunction {
  void* target;  // a Target<F>, and what frees it
  void (*free)(void*);
  const void* object;  // inside it, the object that the user gave
  void (*list)(const void* object, StateList& list);
};

/// What the gradient of a traced function is for: an argument, a Variable or another tensor.
struct TapedSource {
  int argument = -1;
  std::vector<Variable> variable = {};  // one or none
  Tensor tensor = {};
};
/// A call under a tape.
struct TapedCall {
  std::vector<Tensor> arguments;     // as the tape knows them
  std::vector<bool> tracked;         // whether the tape follows them
  std::vector<Tensor*> slots;        // the tensors that the function gets in their place
  std::vector<TapedSource> sources;  // of a run
  const std::vector<TapedSource>* captured = nullptr;  // of a replay
  std::vector<Tensor> gradients;  // of a run, for results whose gradients are ones
};
using TapedGradient = Function<Tensors(const Tensors&)>;

class TraceCall;
/// An object that a traced function reads, and what visits it.
struct ReadObject {
  const void* object;
  void (*add)(const void* object, TraceCall& call);       // to the signature
  void (*describe)(const void* object, TraceCall& call);  // in explain()
};

/// What frees an object whose type is not known.
template <class T>
void free_object(void* object) {
  delete static_cast<T*>(object);
}

/// What a call reads first of a function and its traces.
struct TraceHead {
  // The first 64 bytes behind a handle are watched: they do not change.
  TracedFunction function = {};
  TraceOptions options = {};
  std::vector<ReadObject> reads = {};  // what trace().reads() lists
  std::uint32_t references = 1;
  std::uint32_t eager_calls = 0;  // so many calls run the function, without a look-up
};
/// A function and its traces; copies share both.
class REEL_API Traces {
 public:
  /// Takes the function over. Throws Error unless 0 <= verify <= 1.
  Traces(TracedFunction function, TraceOptions options, Caller caller);
  Traces(const Traces& other) noexcept : head_(other.head_) { add_reference(head_->references); }
  Traces& operator=(Traces other) noexcept {
    std::swap(head_, other.head_);
    return *this;
  }
  ~Traces() {
    if (drop_reference(head_->references)) destroy(head_);
  }
  void reads(ReadObject object, Caller caller) const;  // throws Error after the first call
  std::size_t count() const;
  std::string explain() const;
  void clear() const;
  /// The Target of the function, if this call is to run it and nothing else; null if not.
  void* eager_target() const {
    const std::uint32_t left = __atomic_load_n(&head_->eager_calls, __ATOMIC_RELAXED);
    if (left) __atomic_store_n(&head_->eager_calls, left - 1, __ATOMIC_RELAXED);
    return left ? head_->function.target : nullptr;
  }
  TraceCache& cache() const;  // defined in lib/trace

 private:
  static void destroy(TraceHead* head);
  TraceHead* head_;
};

/// Values that are equal where their bytes or their texts are.
template <class T>
concept PlainLeaf =
    (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T> ||
    std::is_same_v<T, Shape> || std::is_convertible_v<const T&, std::string_view>;
template <class T>
concept TraceLeaf = std::is_same_v<T, Tensor> || std::is_same_v<T, Variable> || PlainLeaf<T>;

/// A part of a Variable is a Tensor in the result of a traced function.
template <class Signature>
struct TracedAs {
  using type = Signature;
};
template <class... Args>
struct TracedAs<VariableSlice(Args...)> {
  using type = Tensor(Args...);
};

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
  /// What visits an object that the function reads.
  template <class T>
  static ReadObject reading(const T& object) {
    return {&object,
            [](const void* at, TraceCall& call) {
              visit_leaves("", *static_cast<const T*>(at), ReadVisitor{call});
            },
            [](const void* at, TraceCall& call) {
              visit_leaves("", *static_cast<const T*>(at), TextVisitor{call});
            }};
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
  /// The Target of the function, which is about to run.
  void* begin_run();
  /// Texts of the arguments, for a signature that is new.
  template <class... Arguments>
  void describe(const Arguments&... arguments) try {
    if (!is_new()) return;
    int i = 0;
    (visit_leaves("argument " + std::to_string(i++), arguments, TextVisitor{*this}), ...);
    described();
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  /// Before the function runs: notes its state, where what it does is written down.
  template <class... Arguments>
  void watch_state(const Arguments&... arguments) try {
    if (StateList* list = begin_state()) {
      (owns(&arguments, sizeof arguments), ...);
      (
          [&] {
            if constexpr (std::is_copy_constructible_v<Arguments>)
              visit_leaves("", arguments, PointeeVisitor{*list});
          }(),
          ...);
      note_state();
    }
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  /// Null unless a tape records, and the run is captured or checked together with its gradient.
  TapedCall* taped();
  /// After a replay: the call as the tape sees it, if one records, and what plays it backward.
  TapedCall* replayed_under_tape();
  TapedGradient backward();
  /// After the function has run. Its result is valid even if there is no memory to keep what was
  /// captured.
  void finish();
  /// For graph_of(): what a call with these arguments would replay.
  Shared<const GraphData> graph(const std::vector<std::pair<const Tensor*, std::string>>& names);
  template <class R>
  void finish(R& result) try {
    owns(&result, sizeof result);
    visit_leaves("", result, [this](std::string_view, auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      static_assert(TraceLeaf<Leaf>,
                    "results of a traced function are Tensors, Variables, numbers, texts, Shapes, "
                    "and lists and structs (with fields) of them");
      if constexpr (std::is_same_v<Leaf, Tensor>) add_result(leaf);
    });
    add_gradients();
    if (captures()) keep(result);
    if (const void* known = checked_against(); known && !equal<R>(known, &result)) differs();
    finish();
  } catch (const std::bad_alloc&) {
  } catch (const MemoryError&) {
  }

 private:
  struct KeyVisitor {
    TraceCall& call;
    static constexpr bool skips_positions = true;  // holds() gives the length of a list
    template <class Leaf>
    void operator()(std::string_view path, Leaf& leaf) const {
      static_assert(!std::is_same_v<Leaf, Generator>,
                    "a traced function cannot take a Generator or an nn::Sequential, alone or in a "
                    "struct: let the function capture it, as in trace([model](Tensor x) { ... })");
      static_assert(TraceLeaf<Leaf> || std::is_same_v<Leaf, Generator>,
                    "arguments of a traced function are Tensors, Variables, numbers, texts, "
                    "Shapes, and lists and structs of them; a struct lists its members with "
                    "REEL_FIELDS(a, b)");
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
      call.begin_argument();  // no element begins like this
      call.add_plain(path, {reinterpret_cast<const char*>(&count), sizeof count});
    }
  };
  /// Tensors count by identity: their elements never change.
  struct ReadVisitor {
    TraceCall& call;
    template <class Leaf>
    void operator()(std::string_view path, Leaf& leaf) const {
      static_assert(
          TraceLeaf<Leaf>,
          "reads() takes Tensors, Variables, numbers, texts, Shapes, and lists and structs "
          "of them; a struct lists its members with REEL_FIELDS(a, b)");
      if constexpr (std::is_same_v<Leaf, Tensor>)
        call.add_identity(path, leaf);
      else if constexpr (TraceLeaf<Leaf>)
        KeyVisitor{call}(path, leaf);
      call.end_read(path);
    }
    void holds(std::string_view path, std::size_t count) const {
      KeyVisitor{call}.holds(path, count);
      call.end_read(path);
    }
  };
  struct TextVisitor {
    TraceCall& call;
    template <class Leaf>
    void operator()(std::string_view path, const Leaf& leaf) const {
      if constexpr (std::is_arithmetic_v<Leaf>)
        call.describe_number(path, Scalar(leaf));
      else if constexpr (std::is_enum_v<Leaf>)
        call.describe_number(path, Scalar(static_cast<std::underlying_type_t<Leaf>>(leaf)));
      else if constexpr (std::is_convertible_v<const Leaf&, std::string_view>)
        call.describe_text(leaf);
      else if constexpr (TraceLeaf<Leaf>)
        call.describe_value(leaf);
    }
  };
  bool is_new() const;
  void describe_number(std::string_view path, Scalar number);
  void describe_text(std::string_view text);
  void describe_value(const Tensor& x);
  void describe_value(const Variable& x);
  void describe_value(const Shape& x);
  void described();
  void begin_argument();
  void add_tensor(std::string_view path, Tensor& x);
  void add_variable(std::string_view path, const Variable& x);
  void add_plain(std::string_view path, std::string_view bytes);
  void add_identity(std::string_view path, const Tensor& x);
  void end_read(std::string_view path);
  void add_reads();
  std::string changed_read();
  void add_result(const Tensor& x);
  Tensor take_result(std::size_t i);
  bool captures() const;
  void add_gradients();
  /// Null where nothing is written down.
  StateList* begin_state();
  /// Memory of the call, which is no state.
  void owns(const void* first, std::size_t bytes);
  void note_state();
  /// What an earlier run gave, if this one checks a replay.
  const void* checked_against() const;
  void differs();
  /// Whether the plain values of two results are equal.
  template <class R>
  static bool equal(const void* first, const void* second) {
    std::vector<std::pair<std::string, const void*>> leaves;
    visit_leaves("", *static_cast<const R*>(first),
                 [&](std::string_view path, auto& leaf) { leaves.emplace_back(path, &leaf); });
    std::size_t i = 0;
    bool same = true;
    visit_leaves("", *static_cast<const R*>(second), [&](std::string_view path, auto& leaf) {
      using Leaf = std::remove_cvref_t<decltype(leaf)>;
      same = same && i < leaves.size() && leaves[i].first == path;
      if constexpr (PlainLeaf<Leaf>)
        same = same && *static_cast<const Leaf*>(leaves[i].second) == leaf;
      ++i;
    });
    return same && i == leaves.size();
  }
  /// A result for replays to start from: a copy whose tensors are empty.
  template <class R>
  void keep(R& result) {
    auto* copy = new R(result);
    keep_result(copy, free_object<R>, equal<R>);
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
  void keep_result(void* copy, void (*free)(void*), bool (*equal)(const void*, const void*));
  /// Copies of the result share what it points at.
  void keep_nothing();
  Traces traces_;  // the function may replace the handle it was called by
  TraceProgress* progress_;
};
/// A run of a traced function that a tape sees as one op. Its ops are recorded by a tape of their
/// own, which gives the gradient of the run.
class REEL_API TapedRun {
 public:
  /// Does nothing if `call` is null.
  TapedRun(TapedCall* call, Caller caller);
  ~TapedRun();
  TapedRun(const TapedRun&) = delete;
  TapedRun& operator=(const TapedRun&) = delete;
  /// When the function gets its arguments.
  void begin();
  /// Computes the gradient of the run, for a trace.
  template <class R>
  void end(R& result) {
    if (run_) finish(leaves_of(result));
  }
  /// Leaves the record, when nothing traces the run any more.
  template <class R>
  void leave(R& result) {
    if (run_) record(leaves_of(result));
  }
  /// The record of a replay.
  template <class R>
  static void leave(R& result, const TapedCall& call, TapedGradient gradient, Caller caller) {
    record(leaves_of(result), call, static_cast<TapedGradient&&>(gradient), caller);
  }

 private:
  template <class R>
  static std::vector<Tensor*> leaves_of(R& result) try {
    std::vector<Tensor*> leaves;
    visit_leaves("", result, [&](std::string_view, auto& leaf) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>)
        leaves.push_back(&leaf);
    });
    return leaves;
  } catch (const std::bad_alloc&) {
    fail_memory({}, "trace");
  }
  void finish(const std::vector<Tensor*>& results);
  void record(const std::vector<Tensor*>& results);
  static void record(const std::vector<Tensor*>& results, const TapedCall& call,
                     TapedGradient gradient, Caller caller);
  struct Run;
  Run* run_ = nullptr;
};
/// An argument of Traced::reads().
struct Listed {
  ReadObject object = {};
  Caller caller = {};
  Listed() = default;
  template <class T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Listed>)
      Listed(T&& x, Caller from = Caller::here())
      : object(TraceCall::reading(x)), caller(from) {
    static_assert(std::is_lvalue_reference_v<T>,
                  "reads(x): x is a temporary, but each call reads it: give it a name, and let it "
                  "live as long as the trace");
  }
};
}  // namespace detail

/// A traced function, made by trace(). It is a handle: copies share what was captured. Several
/// threads may call it at the same time if they may call the function itself at the same time.
template <class>
class Traced;
/// A traced function with this signature.
template <class R, class... Args>
class Traced<R(Args...)> {
  static_assert(!std::is_reference_v<R>, "a traced function gives a value");
  static_assert(((!std::is_reference_v<Args> ||
                  std::is_const_v<std::remove_reference_t<Args>>)&&...),
                "a traced function takes values, or references to const");

 public:
  template <class F>
  requires(!std::is_same_v<F, Traced>) explicit Traced(F f, TraceOptions options = {},
                                                       Caller caller = Caller::here()) try
      : traces_(function_of(std::move(f)), options, caller), run_(run<F>) {
  } catch (const std::bad_alloc&) {
    fail_memory(caller, "trace");
  }
  R operator()(Args... args, Caller caller = Caller::here()) const {
    if (void* const target = traces_.eager_target()) {
      const detail::Traces held = traces_;  // f may replace the handle
      return run_(target, std::forward<Args>(args)...);
    }
    return look_up(std::forward<Args>(args)..., caller);
  }
  /// Names objects outside of tensors that the function reads, up to eight. Each call reads their
  /// fields, and the values belong to the signature: numbers, texts and Shapes by their values,
  /// Tensors and Variables by which they are. What else the function captures by pointer or
  /// reference is not watched then. A run that changes a listed value changes state. After four
  /// signatures that differ in listed values only, calls run eagerly. The objects must live as long
  /// as the trace. Copies of the handle share the list. Throws Error after the first call.
  Traced reads(detail::Listed a, detail::Listed b = {}, detail::Listed c = {},
               detail::Listed d = {}, detail::Listed e = {}, detail::Listed f = {},
               detail::Listed g = {}, detail::Listed h = {}) const {
    for (const detail::Listed& each : {a, b, c, d, e, f, g, h})
      if (each.object.object) traces_.reads(each.object, each.caller);
    return *this;
  }
  /// How many paths through the function have been captured, over all signatures.
  std::size_t trace_count() const { return traces_.count(); }
  /// A text for people: for each signature its steps, its branches, its Variables and constants,
  /// what each group of fused steps took in replays under profile(), and why calls run eagerly, if
  /// they do.
  std::string explain() const { return traces_.explain(); }
  /// Drops all that was captured, with its memory, and the reasons why calls run eagerly. Later
  /// calls capture again. Copies of the handle share this. A call that runs on another thread ends
  /// as it began. Signatures that were called count on towards the limit of 1024.
  void clear() const { traces_.clear(); }
  /// The graph that a call with these arguments would replay: see graph_of() in graph.hpp.
  Graph graph(std::decay_t<Args>... args, Caller caller = Caller::here()) const;

 private:
  template <class F>
  static detail::TracedFunction function_of(F f) {
    // The bytes behind the value of a std::optional are copied too. They may look like a pointer.
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&f);
#endif
    auto* target = new detail::Target<F>{std::move(f)};
    return {target, detail::free_object<detail::Target<F>>, &target->f, detail::list_state<F>};
  }
  template <class F>
  static R run(void* target, Args&&... args) {
    static_assert(std::is_invocable_r_v<R, F&, Args...>,
                  "trace<Signature>(f): f does not take the arguments of the signature, or its "
                  "result does not convert to that of the signature");
    if constexpr (std::is_invocable_r_v<R, F&, Args...>)
      return static_cast<R>(
          static_cast<detail::Target<F>*>(target)->f(std::forward<Args>(args)...));
  }
  /// Not inlined: the call's own stack memory must be apart from what f captures from the stack.
  [[gnu::noinline]] R look_up(std::decay_t<Args>... args, Caller caller) const {
    detail::TraceCall call(traces_, caller);
    (call.argument(args), ...);
    if (const void* known = call.replay()) {
      if constexpr (std::is_void_v<R>) {
        return;
      } else {
        R result = call.filled(*static_cast<const R*>(known));
        if (const detail::TapedCall* taped = call.replayed_under_tape())
          detail::TapedRun::leave(result, *taped, call.backward(), caller);
        return result;
      }
    }
    call.describe(args...);
    detail::TapedRun taped(call.taped(), caller);
    call.watch_state(args...);
    taped.begin();
    if constexpr (std::is_void_v<R>) {
      run_(call.begin_run(), std::forward<Args>(args)...);
      call.finish();
    } else {
      R result = run_(call.begin_run(), std::forward<Args>(args)...);
      taped.end(result);
      call.finish(result);
      taped.leave(result);
      return result;
    }
  }
  detail::Traces traces_;
  R (*run_)(void* target, Args&&... args);
};

/// Runs f once, captures its ops, and replays them in later calls without running f. Each signature
/// has a trace of its own. The signature is the dtypes, shapes and devices of tensor arguments, the
/// values of other arguments, and training(). A replay reads tensor arguments, Variables, Live
/// numbers, random numbers and every value that f reads in C++ anew. If f takes another path for
/// another value, that path is captured too. Everything else that f uses is constant. What f does
/// besides ops, such as printing, happens only when f runs.
///
/// Some calls run eagerly, that is they run f itself: with REEL_TRACE=0 in the environment, to find
/// out whether a trace is at fault; if f keeps state of its own, such as a counter or a running
/// best; if a check has found that a constant has changed; if f was faster than a replay, as
/// measured on the CPU after 256 replays of a signature, unless REEL_TRACE=1 is set; and while
/// several tapes outside of f record. Under one tape, a call is one op with the gradient of f.
/// Throws what f throws.
///
/// For a generic lambda or an overloaded function object, say the signature:
/// `trace<Tensor(Tensor)>(f)`.
template <class Signature, class F>
requires std::is_function_v<Signature> Traced<Signature> trace(F f, TraceOptions options = {},
                                                               Caller caller = Caller::here()) {
  return Traced<Signature>(std::move(f), options, caller);
}
template <class F>
requires(!std::is_function_v<F>) auto trace(F f, TraceOptions options = {},
                                            Caller caller = Caller::here()) {
  constexpr bool has_signature = requires { typename detail::SignatureOf<F>::type; };
  static_assert(has_signature,
                "trace(f): f is a generic lambda, has several operator(), or is no function. Say "
                "which arguments it takes: trace<Tensor(Tensor)>(f)");
  if constexpr (has_signature)
    return Traced<typename detail::TracedAs<typename detail::SignatureOf<F>::type>::type>(
        std::move(f), options, caller);
}
}  // namespace reel
