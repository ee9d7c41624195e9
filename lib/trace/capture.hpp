// SPDX-License-Identifier: BSD-3-Clause
// What passed the gate while a function ran, as a list of steps over numbered values.
#pragma once
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <reel/random.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"

namespace reel::tracing {
/// How the elements of a value lie.
struct Layout {
  DType dtype = DType::float32;
  bool contiguous = true;
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
  std::string answer;  // to a question
};

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

/// Listens while a function runs.
class Tracer : public Stage {
 public:
  Tracer();
  /// A tensor that nothing else holds, as the next argument.
  void argument(const Tensor& x);
  Capture finish(std::span<const Tensor> results);
  /// Why what it saw cannot be replayed; null if it can.
  const char* trouble() const { return trouble_; }

  void after(const GateCall& call) override;
  void variable_made(const Variable&) override;
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override;
  void named_again(const Body& x, Body& made) override;
  void host_read(const Tensor& x, HostRead read) override;
  bool takes_gradients() const override { return true; }

 private:
  int value_of(const Body* body);
  int value_of(const Variable& variable, Body* body);
  int number_of(const Variable& variable);
  int add(Body* body, Value value);
  int add_view(int base, const Body& of, Body* made);
  void add_random(Step& step, const GateCall& call);

  Capture capture_;
  std::vector<Tensor> held_;  // every body that was seen: addresses name them
  std::unordered_map<const Body*, int> by_body_;
  struct Start {
    Tensor value, stand_in;
  };
  std::deque<Start> starts_;  // what the Variables held when they were first met
  std::vector<int> latest_;   // values of the Variables
  std::vector<int> first_;
  const char* trouble_ = nullptr;
  const Generator* generator_;
  std::uint64_t seed_, position_;
};

/// The same elements under a header that nothing else holds.
Tensor named_apart(const Tensor& x);
}  // namespace reel::tracing
