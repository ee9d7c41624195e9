// SPDX-License-Identifier: BSD-3-Clause
// What the debugger notes while a thread runs: the results of each step, and where they stop.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/debug/expression.hpp"
#include "lib/debug/statistics.hpp"

namespace reel::debugger {
struct Input {
  int node = -1;     // the one that made it
  int output = 0;    // its number there
  int outside = -1;  // or its number in Step::outsides; both -1: there is none
  bool absent() const { return node < 0 && outside < 0; }
};
/// How the elements of a body that is not row-major lie; of others, empty.
using Layout = std::vector<std::int64_t>;
/// A tensor that no op of the step has made: data, weights, constants.
struct Outside {
  DType dtype;
  Shape shape;
  int variable = -1;  // its number in Recorder::variables(), if it is the value of one
  Input source = {};  // what it is a view of, if the library has made the view
  std::uint64_t fingerprint = 0;
  Layout layout = {};
  Ref value;  // null where values are not kept
};
struct Output {
  bool absent = false;  // a gradient that is not wanted, or a value in a block of a replay
  bool own_memory = true;
  bool measured = false;  // `statistics` are those of the elements
  DType dtype = DType::float32;
  Shape shape;
  Odd odd;
  std::uint64_t fingerprint = 0;
  Layout layout;
  Statistics statistics;
  Ref value;  // null where values are not kept
};
/// The options of a call.
class Options {
 public:
  Options() = default;
  explicit Options(OptionsView options);
  Options(Options&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  Options& operator=(Options&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~Options();
  OptionsView view() const { return view_; }

 private:
  OptionsView view_;
};
/// A result of an op, or of a gradient.
struct Node {
  const Op* op;
  Part part;
  Caller caller;
  int layer;  // its number in Recorder::layers(), -1: none
  bool backward = false, recorded = false, replayed = false, edited = false;
  bool inner = false;  // its outputs are those of ops inside of it
  unsigned accumulates = 0;
  int first_input = 0, inputs = 0, first_output = 0, outputs = 0;
  int forward = -1;     // in the backward pass: the node whose gradients are computed
  Input gradient = {};  // of the loss for output 0, if it has been computed
  std::vector<int> updated;
  std::vector<Input> before;  // of outputs that it adds to or updates, what they were
  Options options;
  std::int64_t nanoseconds = 0;
};
std::string name_of(const Node& node);
Layout layout_of(const Body& body);

/// A gradient that is complete.
struct Complete {
  int variable;  // -1: a tensor
  Input made;
  Statistics statistics;
};
struct Step {
  std::int64_t number = 0;
  std::vector<Node> nodes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Outside> outsides;
  std::vector<Complete> gradients;
  int loss = -1;           // the target of the last backward pass
  std::int64_t bytes = 0;  // of values
  bool complete = true;    // every value is kept
  void clear();
};

/// What an input is a view of, if it is a view that the library has made.
Input maker_of(const Step& step, Input input);

struct VariableInfo {
  const void* cell;
  unsigned id;
  std::string name;
  DType dtype;
  Shape shape;
  bool is_buffer;
  const void* path;  // it has this name since then
  const Body* body = nullptr;
  bool written = false;  // since the last step began
  bool learns = false;   // a gradient for it has been computed
  int reads = 0, writes = 0;
};

enum class Level : std::uint8_t { odd, statistics, values };
enum class Action : std::uint8_t { error, prompt };
/// Where a program stops.
struct Stop {
  int number = 0;
  std::string text;           // as the user wrote it
  Target target;              // an op, a line, a Variable
  Expression condition;       // empty: always
  debug::Condition function;  // of the user; empty: none
  std::optional<std::regex> except;
  Action action = Action::prompt;
  int hits = 0;
  bool is_on = true;  // false: its condition has no meaning
};
/// Until when a program goes on after a prompt.
struct Goal {
  enum class Kind : std::uint8_t { none, nodes, steps, stop } kind = Kind::none;
  std::int64_t count = 0;
  Stop stop;
};
/// Why it has stopped.
struct Reason {
  std::string text;
  int node;  // of the current step, -1: none
};

/// The results that count.
struct Filter {
  /// name: the line and the layer.
  enum class Kind : std::uint8_t { all, op, name, dtype } kind = Kind::all;
  std::regex wanted;
};

struct Settings {
  Level level = Level::values;
  int every = 1, keep_steps = 1;
  std::int64_t bytes = std::int64_t{256} << 20;
};

class Recorder : public OwnedObserver {
 public:
  explicit Recorder(const Settings& settings);
  ~Recorder() override;

  void op_begins(const GateCall& call) override { begins(call); }
  void op_ends(const GateCall& call) override { ends(call); }
  void gradient_begins(const GateCall& call) override { begins(call); }
  void gradient_ends(const GateCall& call) override { ends(call); }
  void recorded(const Record&) override;
  void record_played(const Record& record, const Body* dy) override;
  void backward_begins(const Body& target) override;
  void backward_ends(bool) override;
  void gradient_complete(const GradientSource& source, std::size_t i, const Tensor& x) override;
  void variable_made(const Variable& variable) override { info_of(variable); }
  void variable_read(const Variable& variable) override;
  void variable_written(const Variable& variable) override;
  void error(const ErrorEvent& event) override;

  Step& current() { return *steps_.back(); }
  std::deque<std::unique_ptr<Step>>& steps() { return steps_; }
  const std::vector<VariableInfo>& variables() const { return variables_; }
  const std::string& layer(int i) const { return layers_[static_cast<std::size_t>(i)]; }
  /// "head.weight" or the like for an outside; "" for none.
  std::string name_of_outside(const Outside& outside) const;
  /// The number of calls of this op at this line before the node, plus 1.
  static int occurrence(const Step& step, int node);
  /// The value of an output: kept, or computed again. Throws Mistake.
  Ref value(Step& step, int node, int output = 0);
  Ref value(Step& step, const Input& input);

  /// How far an update has moved the Variable of its output k.
  double moved(Step& step, const Node& node, int k);

  Settings settings;
  Filter only;
  std::vector<Stop> stops;
  Goal goal;
  bool stop_at_errors = false;
  bool edited = false;
  /// Whether the result that has just ended may be changed: it is none of a replay.
  bool may_set() const;
  /// Called where the program stops for a prompt.
  void (*prompt)(Recorder& recorder, const Reason& reason) = nullptr;
  /// Called before the next op, where `attention` is set; by the server.
  std::atomic<bool> attention = false;
  void (*attend)(Recorder& recorder) = nullptr;
  /// Measures what runs until end_profile(), and notes nothing meanwhile.
  void begin_profile();
  void end_profile();
  /// The last one that has ended; null: none.
  const MeasuredRun* profile() const { return profiles_ ? nullptr : profile_.get(); }
  /// Looks at nothing, until it wakes.
  void sleep();
  void wake();
  /// Called for each result; for logs.
  virtual void noted(const Step&, int /*node*/) {}
  const GateCall* call = nullptr;  // the one that has just ended

 private:
  struct Pending {
    const Body* const* inputs;
    const Op* op;
    std::int64_t begin;
    std::size_t nodes;  // at the beginning
    std::vector<Input> list;
  };
  /// What is known of a body, of the elements of one, or of a record of a tape.
  struct Entry {
    const void* key = nullptr;
    std::uint64_t generation = 0;
    int node = -1, output = 0, outside = -1;
  };
  void begins(const GateCall& call);
  void ends(const GateCall& call);
  void next_step();
  bool watches() const { return !sleeps_ && !profiles_ && current_step_ % settings.every == 0; }
  Entry& entry(const void* key);
  Input input_of(const Body* body);
  Input source_of(const Body& body);
  std::string new_name(const Variable& variable) const;
  int info_of(const Variable& variable);
  int layer_now();
  void note_outputs(const GateCall& call, std::size_t nodes_before);
  void note_output(Node& node, Output& output, const Body& body, const GateCall& call);
  bool is_view_of_finite(const GateCall& ended, const Body& body, const Node& node) const;
  void keep(Output& output, const Body& body);
  bool counts(const Node& node, const Output& output) const;
  void make_room(std::int64_t bytes);
  void check_stops(int node);
  bool holds(Stop& stop, int node);
  [[noreturn]] void fail(const Stop& stop, int node);
  void stop_for(const std::string& why, int node);

  std::deque<std::unique_ptr<Step>> steps_;
  std::unique_ptr<Step> spare_;
  std::int64_t current_step_ = 0;
  std::vector<VariableInfo> variables_;
  std::unordered_map<const void*, int> variable_of_cell_;
  std::unordered_map<const Body*, int> variable_of_body_;
  std::vector<std::string> layers_;
  std::unordered_map<std::string, int> layer_numbers_;
  std::string_view last_layer_;
  int last_layer_number_ = -1;
  std::vector<Entry> table_;
  std::size_t used_ = 0;
  std::uint64_t generation_ = 1;
  std::vector<Pending> pending_;
  std::size_t depth_ = 0;
  int played_ = -1;  // the node whose gradients are computed
  int backward_ = 0;
  std::unique_ptr<MeasuredRun> profile_;
  bool sleeps_ = false, profiles_ = false, is_odd_ = false;  // is_odd_: the last result
  bool read_after_write_ = false, any_learns_ = false;
  std::int64_t bytes_ = 0;
};
}  // namespace reel::debugger
