// SPDX-License-Identifier: BSD-3-Clause
// Stops a program where a value is wrong, shows what it has computed, and compares two runs.
#pragma once  // defined in lib/debug, autograd
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/function.hpp>
#include <reel/graph.hpp>
#include <reel/tape.hpp>
#include <reel/tensor.hpp>

namespace reel::debug {
/// The elements of a floating result.
struct Statistics {
  std::int64_t elements = 0, nans = 0, infinities = 0;
  double zeros = 0;          // the share of elements that are 0
  double saturated = 0;      // the share at the bounds of tanh and sigmoid, within 0.01; else 0
  double low = 0, high = 0;  // the smallest and the largest element that is no NaN
  double mean = 0, norm = 0;
};

/// A result of an op, or of the gradient of an op.
struct Event {
  std::string_view name;    // "tanh", "gradient of tanh"
  Caller caller;            // your line
  std::int64_t step = 0;    // counts from 0; it ends where a Variable is read after its update
  std::int64_t number = 0;  // of the result in its step, from 1: #1
  bool backward = false;    // inside of gradient()
  std::vector<Tensor> inputs, outputs;  // undefined where there is none
  Tensor output;                        // outputs[0]; for a gradient, the first one
  Statistics statistics;                // of `output`
};

/// What a watch stops at: the text of a condition, such as "norm(y) > 100", or a function of an
/// Event. docs/guide/debugging.md lists the names that a text may use.
class Condition {
 public:
  Condition() = default;
  Condition(std::string_view text) : text_(text) {}
  Condition(const char* text) : text_(text) {}
  Condition(const std::string& text) : text_(text) {}
  template <class F>
  requires(std::is_invocable_r_v<bool, F&, const Event&> &&
           !std::is_convertible_v<const F&, std::string_view>) Condition(F function)
      : function_(std::move(function)) {}
  const std::string& text() const { return text_; }
  const reel::detail::Function<bool(const Event&)>& function() const { return function_; }

 private:
  std::string text_;
  reel::detail::Function<bool(const Event&)> function_;
};
/// The result has a NaN.
inline constexpr std::string_view has_nan = "has_nan";
/// The result has an infinity that no input of the op has.
inline constexpr std::string_view has_inf = "has_inf";
/// Either of the two.
inline constexpr std::string_view has_inf_or_nan = "has_inf_or_nan";

/// Options of a Watch.
struct WatchOptions {
  /// The op whose result meets it throws Error, or opens a prompt. "" watches only.
  Condition stop = has_inf_or_nan;
  /// A regular expression (ECMAScript). Ops whose name or line it matches do not stop.
  std::string_view except = {};
  bool prompt = false;      // opens a prompt on stdin and stdout instead of throwing
  bool statistics = false;  // keeps Statistics of each result
  bool values = false;      // keeps copies of results, for print, eval and try
  int every = 1;            // watches steps 0, every, 2 * every, ...
  int keep_steps = 1;       // so many steps stay to be looked at
  std::int64_t bytes = std::int64_t{256} << 20;  // of copies, at most
};
/// How an answer is written.
enum class Form : std::uint8_t { text, json };

/// While it lives, the results of this thread are watched: forward, backward and in replays of
/// traces. It changes no result. End it on the thread that made it. A traced function that makes
/// one runs eagerly. Throws Error for wrong options, and where libreel_debug.so cannot be opened.
///
///     debug::Watch watch({.stop = "norm(y) > 100"});
///     train(model);
class REEL_API Watch {
 public:
  [[nodiscard]] explicit Watch(const WatchOptions& options = {}, Caller caller = Caller::here());
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// The answer to a command of the prompt, such as "tensors has_nan". Commands that let a program
  /// go on are for the prompt only.
  std::string answer(std::string_view command, Form form = Form::text) const;

 private:
  void* recorder_;
};
/// A Watch that throws where `condition` holds.
///
///     auto guard = debug::stop_when([](const debug::Event& e) {
///       return e.name == "tanh" && e.statistics.norm > 100;
///     });
[[nodiscard]] inline Watch stop_when(Condition condition, Caller caller = Caller::here()) {
  return Watch({.stop = std::move(condition)}, caller);
}

/// Opens a prompt on stdin and stdout: `help` lists its commands. From the first call on, the ops
/// of this thread are recorded, with their values. At the end of stdin the program goes on.
REEL_API void cli(Caller caller = Caller::here());

/// Opens a Unix socket, on which `reel-debug --attach PID` and other programs of this user ask for
/// commands about this thread. Returns its path. Until a client comes, ops take about 45 ns more.
/// Throws Error if there is no private folder for it: XDG_RUNTIME_DIR, or /tmp/reel-UID.
REEL_API std::string listen(Caller caller = Caller::here());

/// Options of a Log.
struct LogOptions {
  bool hash = true;  // a hash of all elements of each result
};
/// While it lives, each result of this thread is a line of a file: step, number, op, your line,
/// dtype, shape, range, norm, hash. `reel-diff a.log b.log` names the first op in which two runs
/// differ. Throws IoError if the file cannot be written; later, writing stops with one line on
/// stderr.
class REEL_API Log {
 public:
  [[nodiscard]] explicit Log(std::string_view path, LogOptions options = {},
                             Caller caller = Caller::here());
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

 private:
  void* recorder_;
};

/// An op that reads a Variable: one time step of an RNN, for example.
struct GradientUse {
  std::string op, line;
  double upstream = 0;      // the norm of the gradient of the loss for the result of the op
  double contribution = 0;  // the norm of what the op adds to the gradient of the Variable
  double share = 0;         // of the sum of all contributions
};
/// What gradients_by_step() has found, in the order in which the ops ran.
struct REEL_API GradientsByStep {
  std::string name;  // of the Variable
  std::vector<GradientUse> uses;
  double norm = 0;  // of the gradient of the Variable
  std::string to_text() const;
  /// A picture of 640 x 240: a bar for each contribution, a line of upstream, on a logarithmic
  /// axis.
  std::string to_svg() const;
};
/// The gradient of the loss for a Variable, by the ops that read it. The tape can be used
/// afterwards. Throws TapeError as gradient() of a tape does.
///
///     GradientTape tape({.persistent = true});
///     Tensor loss = model(x);
///     fmt::print("{}", debug::gradients_by_step(tape, loss, cell.weight).to_text());
REEL_API GradientsByStep gradients_by_step(GradientTape& tape, Operand loss,
                                           const Variable& variable);

/// What a picture joins into one box with a counter: nothing; calls of one op at one line, as the
/// time steps of an RNN; all ops of a layer (of a NameScope in a Graph).
enum class Fold : std::uint8_t { none, steps, scopes };
/// A picture of a graph in layers, as SVG. Throws Error where libreel_debug.so cannot be opened.
REEL_API std::string to_svg(const Graph& graph, Fold fold = Fold::none,
                            Caller caller = Caller::here());
/// A picture of the ops that a tape has recorded. Draw it before gradient(), which releases them.
/// - The box of an op that reads one of `variables` shows the name of the Variable.
/// - An op that reads "encoder.weight" or "encoder.bias" belongs to the layer "encoder". An op that
///   reads a result of this layer, and is called at the same line, belongs to the layer too.
/// - The colour tells about the values that the tape keeps for its gradients. A value of a red box
///   is not finite, values of an orange box are saturated, and those of a grey box are 0.
/// Throws TapeError after gradient(), and Error where libreel_debug.so cannot be opened.
///
///     std::string svg = debug::to_svg(tape, parameters(model), debug::Fold::steps);
REEL_API std::string to_svg(const GradientTape& tape, const std::vector<Variable>& variables = {},
                            Fold fold = Fold::none, Caller caller = Caller::here());

/// Options of check_gradient().
struct CheckGradientOptions {
  int elements = 10;     // of each Variable, spread over it
  double tolerance = 0;  // of the difference, relative to max(1, largest gradient); 0: 1e-2 for
                         // float32 and less, 1e-6 for float64
};
/// Compares the gradients of a whole model with differences, (f(w - 2h) - 8 f(w - h) + 8 f(w + h) -
/// f(w + 2h)) / 12 h. f computes the loss, a single number, from the Variables, and gives the same
/// value each time. Throws Error with the Variable, the element, and both numbers. The Variables
/// have their values afterwards.
///
///     debug::check_gradient([&] { return loss(model(x), y); }, parameters(model));
REEL_API void check_gradient(const reel::detail::Function<Tensor()>& f,
                             const std::vector<Variable>& variables,
                             const CheckGradientOptions& options = {},
                             Caller caller = Caller::here());
}  // namespace reel::debug
