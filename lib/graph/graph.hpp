// SPDX-License-Identifier: BSD-3-Clause
// A function as plain data: steps over numbered values, in segments that part where C++ asked a
// value for something and got different answers. A graph has no addresses of Variables or of user
// types, and nothing that changes while it runs.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reel/variable.hpp>

#include "lib/body/shape.hpp"
#include "lib/table/host_read.hpp"
#include "lib/table/op.hpp"

namespace reel {
struct ThreadMemory;
}
namespace reel::detail {
struct GraphData;
}

namespace reel::graph {
/// Dtype, shape, strides and device of a value.
struct Layout {
  DType dtype = DType::float32;
  bool contiguous = true;
  bool live = false;  // promotes as a C++ number does
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

/// A value of a trace. A call starts with these values: its arguments, and the Variables that it
/// reads or writes. An assignment to a Variable makes a new value.
struct Value {
  enum class Kind : std::uint8_t { argument, variable, constant, computed, view };
  Kind kind = Kind::computed;
  int number = 0;           // the number of the argument or Variable, or of the viewed value
  std::int64_t offset = 0;  // of a view, in bytes
  Layout layout = {};
  Tensor constant = {};
  std::string name = {};  // that named() gave
};

/// A copy of options that stays valid after the call.
class KeptOptions {
 public:
  KeptOptions() = default;
  explicit KeptOptions(OptionsView options);
  /// New options, whose type can make them.
  explicit KeptOptions(const OptionsType& type);
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

struct Graph;
/// What a step does again and again: a graph whose arguments are the state, a row of each array,
/// and what else a trip reads; its results are the next state, and what the trip makes.
struct Loop {
  std::string name;                    // "while_loop", "scan", "cond"
  std::size_t states = 0, arrays = 0;  // the first inputs of the step
  std::size_t results = 0;             // the first outputs of the step: the last state
  std::size_t made = 0;                // and then what trips make, joined
  bool reverse = false;                // rows are taken from the last to the first
  bool once = false;                   // one trip without a state: a branch
  std::int64_t most = 0;               // trips; 0: no limit
  bool gradient = false;               // of another loop, through its trips backward
  /// An output of a loop that has a gradient, or the first input of a gradient: the number of
  /// trips, by which they find each other.
  bool counts = false;
  std::size_t reads = 0;  // inputs of a gradient: what else the trips of the other loop read
  virtual ~Loop() = default;
  /// The graph of a trip; of a gradient one for each path that a trip of the other loop took.
  virtual std::vector<const Graph*> bodies() const = 0;
  /// Whether a trip that ends in this segment of the body is the last one.
  virtual bool stops_at(std::size_t segment) const = 0;
  std::size_t first_state() const { return gradient + reads; }
  std::size_t fixed_inputs() const { return first_state() + states + arrays; }
};

/// A call of an op or of its gradient. A step without an op is a question: C++ reads elements of a
/// value and may branch on them.
struct Step {
  Op* op = nullptr;
  Part part = Part::value;
  HostRead read = HostRead::values;  // for a question: what it reads
  std::vector<int> inputs, outputs;  // values; -1 for a missing one
  std::vector<int> updated;          // the Variables that an update writes
  KeptOptions options;
  Caller caller;
  std::shared_ptr<const std::string> scope = {};  // of NameScopes; null outside of them
  bool user_code = false;  // a user's function or kernel; its gradient is another step
  std::string answer;      // for a question: the bytes that C++ read
  std::shared_ptr<const Loop> loop = {};  // of a step that is one
};

inline bool draws(const Step& step) { return step.op && step.op->random; }
/// An element, with as few digits as identify it.
std::string element_text(const Body& x, std::int64_t i);
/// The op of the steps that are loops.
extern constinit Op loop_op;
/// The op of a view without an op: it shares the elements of its input, with the same layout.
extern constinit Op view_op;
/// Stands between the steps of a function and those of its gradient, which a replay executes when a
/// tape asks for them.
extern constinit Op gradient_op;
/// "multiply at train.cpp:12"
std::string place_of(const Step& step);

struct Branch {
  std::string answer;
  int segment;
};

/// Steps without a question. Then follows a question, whose answer selects the next segment, or the
/// end of a path.
struct Segment {
  std::vector<Step> steps;
  Step question;  // only if there are branches
  std::vector<Branch> branches;
  bool ends = false;
  std::vector<int> results;                   // of a path that ends; -1: undefined
  std::vector<std::pair<int, int>> assigned;  // Variables and their values at the end
};

/// What starts at segment 0. Values come before what reads them.
struct Graph {
  std::vector<Value> values;
  std::vector<Segment> segments;
};

/// "tanh.d0", "ask"
std::string op_text(const Step& step);
/// A name for each value, each once.
std::vector<std::string> names_of(const detail::GraphData& data);
/// What is wrong in a graph with so many Variables: "step 3, multiply at model.cpp:12: %7 is read
/// before it is made", or that a result has not the dtype and shape that its op gives. Empty if
/// nothing is. Of a `loaded` graph nothing is believed: it is a fault, too, if a kernel could
/// read or write what it should not.
std::string fault_of(const Graph& graph, std::size_t variables, ThreadMemory& memory,
                     bool loaded = false);
/// Why a kernel may not be called for a step of a loaded graph, whose inputs are made; empty if it
/// may.
std::string misfit_of(const Step& step, const Graph& graph, ThreadMemory& memory);
/// Why a loop of a loaded graph, whose bodies verify, may not run; empty if it may.
std::string loop_misfit_of(const Step& step, const Graph& graph);
/// Why memory may not be taken for a value of a loaded graph; empty if it may.
std::string misfit_of(const Value& value);
}  // namespace reel::graph

namespace reel::detail {
/// A graph with the names of its arguments and Variables, and the values that these had.
struct GraphData : graph::Graph {
  std::vector<std::string> arguments, variables;
  std::vector<Tensor> variable_values;
  bool loaded = false;            // from a file
  std::vector<Variable> program;  // the Variables themselves; none in a graph of a file
  /// What Variable number i holds now; in a graph of a file, what it held then.
  const Tensor& variable_value(std::size_t i) const;
};
}  // namespace reel::detail
