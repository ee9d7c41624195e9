// SPDX-License-Identifier: BSD-3-Clause
// Records the calls that pass the gate while a function runs, as a list of steps over numbered
// values.
#pragma once
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <reel/random.hpp>
#include <reel/trace.hpp>

#include "lib/flow/interceptor.hpp"
#include "lib/gate/gate.hpp"
#include "lib/graph/graph.hpp"
#include "lib/trace/state.hpp"

namespace reel::tracing {
using graph::Branch, graph::KeptOptions, graph::Layout, graph::Segment, graph::Step, graph::Value,
    graph::draws;

/// What C++ reads of x's elements, as a string of bytes.
std::string answer_of(const Tensor& x, HostRead read);

/// The result of a run without its tensors. Replays copy it and fill in their tensors.
struct KeptResult {
  void* object;
  void (*free)(void*);
  bool (*equal)(const void* a, const void* b);  // whether two have the same plain values
  KeptResult(void* o, void (*f)(void*), bool (*e)(const void*, const void*))
      : object(o), free(f), equal(e) {}
  KeptResult(const KeptResult&) = delete;
  KeptResult& operator=(const KeptResult&) = delete;
  ~KeptResult() { free(object); }
};

/// A trip of a loop, in numbers of values and steps.
struct LoopTrip {
  std::size_t first = 0, end = 0;  // steps
  std::vector<int> state, rows, next, made;
  bool stops = false;
};
/// The part of a path that went through a loop.
struct LoopPart {
  const char* name;
  Caller caller;
  bool reverse, once;
  std::int64_t most;               // trips; 0: no limit
  int gradient_of;                 // the number of another part; -1
  int around;                      // the part that this one is inside of; -1
  std::size_t first = 0, end = 0;  // steps; end is 0 while it is open
  std::vector<int> state = {}, arrays = {}, reads = {}, last = {}, joined = {};
  std::vector<LoopTrip> trips = {};
};

struct Capture {
  std::vector<Value> values;
  std::vector<Variable> variables;
  std::vector<Step> steps;
  std::vector<int> results;                   // -1: undefined
  std::vector<std::pair<int, int>> assigned;  // Variables and their values at the end
  std::shared_ptr<KeptResult> result;         // null if there is none
  std::vector<LoopPart> loops;                // in the order of their beginnings
  std::vector<Caller> apart;                  // of loops whose trips stay as they are
  std::vector<detail::TapedSource> sources;   // of its gradient, whose results are the last ones
};
/// Makes one step of each loop, where its trips do the same but for branches. Loops at the lines
/// `apart` stay as they are; so do others, whose lines are added.
void roll_loops(Capture& path, std::vector<Caller> apart);
bool has_line(const std::vector<Caller>& lines, Caller line);

/// A call of user code. A second call could return other results.
struct UserCall {
  const Op* op;
  std::vector<Tensor> inputs, results;
  std::exception_ptr error = {};  // the error that it threw
};

/// Records while a function runs.
class Tracer : public Interceptor {
 public:
  Tracer();
  /// The calls of user code that a dropped replay has already made. User code is called only once.
  void called(std::vector<UserCall> calls) { known_calls_ = std::move(calls); }
  /// Adds the next argument. Nothing else may hold the tensor.
  void argument(const Tensor& x);
  /// Why the recorded run cannot be replayed; empty if it can. Call it after finish(), when nothing
  /// else holds more than one reference to each result.
  const std::string& trouble() const { return trouble_; }
  Capture finish(std::span<const Tensor> results, std::vector<Caller> apart = {});
  /// Whether the reason may belong to another thread, and not to the function.
  bool by_chance() const { return by_chance_; }
  /// The line of a tensor that the run made, and that something holds besides the results, the
  /// Variables and the trace. Empty if there is none. `replayed` holds the results of a replay,
  /// which may include results of user code that the run took over. `arguments` holds what still
  /// refers to an argument. Call it before finish().
  std::string escaped(std::span<const Tensor> results, std::span<const Tensor> replayed,
                      std::span<const Body* const> arguments) const;
  /// Excludes what a run may change: the tensors and Variables that were recorded.
  void exclude_from(StateWatch& state) const;

  void after(const GateCall& call) override;
  void variable_made(const Variable&) override;
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override;
  void aliased(const Body& x, Body& made) override;
  void host_read(const Tensor& x, HostRead read) override;
  void cannot_follow(const char* what) override;
  void named(const Body& x, std::string_view name) override;
  int loop(const LoopEvent& event) override;
  void gradient_begins(std::span<const Tensor> upstream) override;
  void scope_changes(std::string_view name) override;
  bool user_code_begins(const CallView& call, Tensors& results) override;
  void user_code_ends(const GateCall* call) override;
  bool takes_gradients() const override { return true; }

 private:
  void give_up(std::string why) {
    if (trouble_.empty()) trouble_ = std::move(why);
  }
  int value_of(const Body* body);
  int value_of(const Variable& variable, Body* body);
  int number_of(const Variable& variable);
  int add(Body* body, Value value);
  void release_unused();
  int add_view(int base, const Body& of, Body* made);
  std::vector<int> values_of(std::span<const Tensor> list);
  std::vector<int> add_names(std::span<const Tensor> names, std::span<const Tensor> of);
  void add_random(Step& step, const GateCall& call);

  Capture capture_;
  // Keeps the recorded bodies alive, so that an address names one body; and the bytes of them,
  // since what nothing else holds was released.
  std::vector<Tensor> held_;
  static constexpr std::int64_t most_unused_bytes = 32 << 20;
  std::int64_t bytes_held_ = 0, bytes_to_sweep_ = most_unused_bytes;
  std::unordered_map<const Body*, int> by_body_;
  std::unordered_map<const Cell*, int> numbers_;  // numbers of the Variables
  struct Start {
    Tensor value, stand_in;
  };
  std::deque<Start> starts_;  // the values that Variables have at their first use
  std::vector<int> latest_;   // the current value of each Variable
  std::vector<int> first_;
  /// User code that is running, and the state of the tracer at its start. Its ops are traced,
  /// unless it reads on the host: then it becomes one step.
  struct UserCode {
    bool kernel;
    bool reads = false;
    std::size_t steps, values;
    std::vector<const Body*> variables;
    std::uint64_t position;
  };
  std::vector<UserCode> user_code_;
  int arguments_ = 0;
  std::vector<int> open_loops_;
  std::vector<UserCall> known_calls_;
  std::size_t next_known_call_ = 0;
  std::unordered_set<const Body*> inner_;  // bodies that were made inside of such a step
  std::vector<std::shared_ptr<const std::string>> scopes_;  // the open ones, with those around them
  std::string trouble_;
  bool by_chance_ = false;
  const Generator* generator_;
  std::uint64_t seed_, position_, flows_, tapes_;
};

/// A Tensor with the same elements and a new header, which only this Tensor holds.
Tensor named_apart(const Tensor& x);
}  // namespace reel::tracing
