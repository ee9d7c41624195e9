// SPDX-License-Identifier: BSD-3-Clause
// What passed the gate while a function ran, as a list of steps over numbered values.
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

#include "lib/flow/interceptor.hpp"
#include "lib/gate/gate.hpp"
#include "lib/trace/state.hpp"

namespace reel::tracing {
/// How the elements of a value lie.
struct Layout {
  DType dtype = DType::float32;
  bool contiguous = true;
  bool live = false;  // takes part in promotion as a C++ number does
  Device device = {};
  std::int64_t elements = 0;
  Shape shape;
  Strides strides = {};

  Layout() = default;
  explicit Layout(const Body& body);
  void set(Body& body) const;
  std::int64_t bytes() const { return elements * size_of(dtype); }
  friend bool operator==(const Layout& a, const Layout& b);
};

/// A value of a trace. The values that a call starts with are its arguments and, once they are read
/// or written, the Variables; assigning one makes a new value.
struct Value {
  enum class Kind : std::uint8_t { argument, variable, constant, computed, view };
  Kind kind = Kind::computed;
  int number = 0;           // of the argument, of the Variable, of the value that this one views
  std::int64_t offset = 0;  // of a view, in bytes
  Layout layout = {};
  Tensor constant = {};
};

/// Options that outlive the call.
class KeptOptions {
 public:
  KeptOptions() = default;
  explicit KeptOptions(OptionsView options);
  KeptOptions(const KeptOptions& other) : KeptOptions(other.view()) {}
  KeptOptions(KeptOptions&& other) noexcept;
  KeptOptions& operator=(KeptOptions other) noexcept;
  ~KeptOptions();
  OptionsView view() const { return {type_, data_}; }
  void* data() { return data_; }
  friend bool operator==(const KeptOptions& a, const KeptOptions& b);

 private:
  const OptionsType* type_ = nullptr;
  void* data_ = nullptr;
};

/// A call of an op or of its gradient; or, without an op, a question that C++ asked of a value.
struct Step {
  Op* op = nullptr;
  Part part = Part::value;
  HostRead read = HostRead::values;  // of a question
  std::vector<int> inputs, outputs;  // values; -1 where there is none
  std::vector<int> updated;          // the Variables that an update writes
  KeptOptions options;
  Caller site;
  bool user_code = false;  // a function or kernel of a user's; its gradient is another step
  std::string answer;      // to a question
};

/// What C++ reads of x's elements, as a text of bytes.
std::string answer_of(const Tensor& x, HostRead read);

inline bool draws(const Step& step) { return step.op && step.op->random; }

/// What replays copy and fill with tensors: the result of a run without them.
struct KeptResult {
  void* object;
  void (*free)(void*);
  KeptResult(void* o, void (*f)(void*)) : object(o), free(f) {}
  KeptResult(const KeptResult&) = delete;
  KeptResult& operator=(const KeptResult&) = delete;
  ~KeptResult() { free(object); }
};

struct Capture {
  std::vector<Value> values;
  std::vector<Variable> variables;
  std::vector<Step> steps;
  std::vector<int> results;                   // -1: undefined
  std::vector<std::pair<int, int>> assigned;  // Variables and their values at the end
  std::shared_ptr<KeptResult> result;         // null where there is none
};

/// A call of a user's code, whose results a second call of it need not give again.
struct UserCall {
  const Op* op;
  std::vector<Tensor> inputs, results;
  std::exception_ptr error = {};  // that it threw
};

/// Listens while a function runs.
class Tracer : public Interceptor {
 public:
  Tracer();
  /// What a replay that was dropped has called already: a user's code is called once.
  void called(std::vector<UserCall> calls) { known_calls_ = std::move(calls); }
  /// A tensor that nothing else holds, as the next argument.
  void argument(const Tensor& x);
  /// Why what it saw cannot be replayed; empty if it can. Behind finish(), where nobody else holds
  /// more than one reference to each result.
  const std::string& trouble() const { return trouble_; }
  Capture finish(std::span<const Tensor> results);
  /// Whether what it saw may be another thread's and none of the function's.
  bool by_chance() const { return by_chance_; }
  /// The line of a tensor that the run made, and that somebody holds besides the results, the
  /// Variables and the trace; empty if there is none. `replayed` holds what a replay gave, which
  /// may be a user's code's result that the run took over, `arguments` what still holds an
  /// argument. Before finish().
  std::string escaped(std::span<const Tensor> results, std::span<const Tensor> replayed,
                      std::span<const Body* const> arguments) const;
  /// What a run may change: the tensors and Variables that passed.
  void exclude_from(StateWatch& state) const;

  void after(const GateCall& call) override;
  void variable_made(const Variable&) override;
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override;
  void aliased(const Body& x, Body& made) override;
  void host_read(const Tensor& x, HostRead read) override;
  void cannot_follow(const char* what) override;
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
  int add_view(int base, const Body& of, Body* made);
  void add_random(Step& step, const GateCall& call);

  Capture capture_;
  std::vector<Tensor> held_;  // every body that was seen: addresses name them
  std::unordered_map<const Body*, int> by_body_;
  std::unordered_map<const Cell*, int> numbers_;  // of the Variables
  struct Start {
    Tensor value, stand_in;
  };
  std::deque<Start> starts_;  // what the Variables held when they were first met
  std::vector<int> latest_;   // values of the Variables
  std::vector<int> first_;
  /// A user's code that runs now, and what there was when it began. A function is traced through
  /// unless it reads on the host: then it becomes one step.
  struct UserCode {
    bool kernel;
    bool reads = false;
    std::size_t steps, values;
    std::vector<const Body*> variables;
    std::uint64_t position;
  };
  std::vector<UserCode> user_code_;
  std::vector<UserCall> known_calls_;
  std::size_t next_known_call_ = 0;
  std::unordered_set<const Body*> inner_;  // made inside of such a step
  std::string trouble_;
  bool by_chance_ = false;
  const Generator* generator_;
  std::uint64_t seed_, position_, flows_, tapes_;
};

/// The same elements under a header that nothing else holds.
Tensor named_apart(const Tensor& x);
}  // namespace reel::tracing
