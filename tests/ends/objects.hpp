// SPDX-License-Identifier: BSD-3-Clause
// Objects of the library that are in use when a program or a thread ends.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/reel.hpp>
#include <reel/share.hpp>

namespace reel::tests {
inline Tensor three_ops(const Tensor& x) { return sum(tanh(x * x)); }

/// An object that is in use.
struct Subject {
  virtual ~Subject() = default;
};
struct TensorSubject : Subject {
  Tensor small = ones({3}), large = ones({100'000}), view = small(range(1, 3)), none;
  Tensor moved = std::move(none);
};
struct VariableSubject : Subject {
  Variable w{"w", ones({3})}, other = std::move(w);
  VariableSubject() { other.assign_add(1.0f); }
};
struct TapeSubject : Subject {
  Tensor x = ones({3});
  Variable w{"w", ones({3})};
  GradientTape tape;
  Tensor y;
  explicit TapeSubject(bool persistent = false) : tape({.persistent = persistent}) {
    tape.watch(x);
    y = three_ops(x * w);
  }
};
/// A tape that is used in the destructor. It must give the gradient, or an error on a thread that
/// did not make the tape.
struct UsedTapeSubject : TapeSubject {
  ~UsedTapeSubject() override {
    try {
      const Tensor dx = tape.gradient(y, x);
      if (std::abs(dx(0).item<float>() - 0.8399487f) > 1e-5f) std::abort();
    } catch (const TapeError&) {
    }
  }
};
struct SpentTapeSubject : TapeSubject {
  SpentTapeSubject() { tape.gradient(y, x); }
};
struct PersistentTapeSubject : TapeSubject {
  PersistentTapeSubject() : TapeSubject(true) { tape.gradient(y, w); }
};
/// Tapes that end in the order in which they were made.
struct TapesSubject : Subject {
  std::vector<std::unique_ptr<GradientTape>> tapes;
  Tensor x = ones({2}), y;
  TapesSubject() {
    for (int i = 0; i < 5; ++i) {
      tapes.push_back(std::make_unique<GradientTape>());
      tapes.back()->watch(x);
      y = three_ops(x);
    }
  }
  ~TapesSubject() override {
    for (auto& tape : tapes) tape.reset();
  }
};
struct PauseSubject : Subject {
  std::optional<GradientTape> tape{std::in_place};
  GradientTape::Pause pause = tape->pause(), second = tape->pause();
  Tensor y = three_ops(ones({2}));
};
struct LatePauseSubject : PauseSubject {
  ~LatePauseSubject() override { tape.reset(); }  // the pauses outlive it
};
struct TrainScopeSubject : Subject {
  std::optional<TrainScope> first{false}, second{true};
  ~TrainScopeSubject() override { first.reset(); }
};
struct GeneratorScopeSubject : Subject {
  std::optional<GeneratorScope> first{Generator(1)}, second{Generator(2)};
  GeneratorScopeSubject() { random::normal({10}); }
  ~GeneratorScopeSubject() override {
    first.reset();
    random::normal({10});
    second.reset();
    // numbers of the thread's own generator, which may not have been used before
    random::normal({10});
  }
};
struct DeviceScopeSubject : Subject {
  std::optional<DeviceScope> first{cpu()}, second{cpu()};
  ~DeviceScopeSubject() override { first.reset(); }
};
struct WeightScopeSubject : Subject {
  Variable w{"w", ones({3})};
  std::vector<Variable> list{w};
  std::optional<WeightScope> first{std::in_place, list, Operands({2 * w.value()})},
      second{std::in_place, list, Operands({3 * w.value()})};
  std::optional<GradientTape> tape{std::in_place};
  Tensor y = three_ops(w);
  ~WeightScopeSubject() override { first.reset(); }
};
struct FiniteScopeSubject : Subject {
  std::optional<FiniteScope> first{std::in_place}, second{std::in_place};
  Tensor y = three_ops(ones({3}));
  ~FiniteScopeSubject() override {
    first.reset();
    three_ops(y);
  }
};
/// It prints nothing.
struct DeviceLogScopeSubject : Subject {
  std::optional<DeviceLogScope> first, second;
  DeviceLogScopeSubject() {
    static std::FILE* const nowhere = std::fopen("/dev/null", "w");
    stderr = nowhere;
    first.emplace(), second.emplace();
    three_ops(ones({3}));
  }
  ~DeviceLogScopeSubject() override { first.reset(); }
};
struct LockstepScopeSubject : Subject {
  std::optional<LockstepScope> first{std::in_place}, second{std::in_place};
  Tensor y = three_ops(ones({3}));
  ~LockstepScopeSubject() override { first.reset(); }
};
/// Its tape has records of checkpoints, one in the other. The destructor runs them again.
struct CheckpointSubject : Subject {
  Variable w{"w", ones({3})};
  GradientTape tape{{.persistent = true}};
  Tensor x = ones({3}), y;
  CheckpointSubject() {
    tape.watch(x);
    const auto inner = checkpoint([w = w](const Tensor& at) { return three_ops(at * w); });
    y = checkpoint([inner](const Tensor& at) { return inner(at) + sum(dropout(at, 0.0)); })(x);
  }
  ~CheckpointSubject() override {
    try {
      const Tensor dx = tape.gradient(y, x);
      if (std::abs(dx(0).item<float>() - 1.8399487f) > 1e-5f) std::abort();
    } catch (const TapeError&) {
    }
  }
};
struct LinearMapSubject : Subject {
  std::pair<Tensor, LinearMap> made = linearize([](const Tensor& x) { return x * x; }, ones({3}));
  ~LinearMapSubject() override {
    try {
      if (made.second(ones({3}))(0).item<float>() != 2) std::abort();
    } catch (const TapeError&) {
    }
  }
};
/// Memory that belongs to C++ objects.
struct SharedSubject : Subject {
  std::shared_ptr<std::vector<float>> common = std::make_shared<std::vector<float>>(6, 1.0f);
  Tensor shared = share(std::span<const float>(*common), {2, 3}, common), view = shared(1),
         adopted = adopt(std::vector<float>(50'000, 2.0f), {50'000});
  GradientTape tape;
  Tensor y;
  SharedSubject() {
    tape.watch(view);
    y = sum(view * adopted(range(0, 3)));
  }
  ~SharedSubject() override {
    if (sum(shared).item<float>() != 6 || common.use_count() != 2) std::abort();
  }
};
struct CallerScopeSubject : Subject {
  std::optional<CallerScope> first{std::in_place, Caller::here(), "first"},
      second{std::in_place, Caller::here(), "second"};
  ~CallerScopeSubject() override { first.reset(); }
};
struct GeneratorSubject : Subject {
  Generator generator{3};
  ~GeneratorSubject() override { random::uniform({1000}); }
};
/// A trace that is replayed in the destructor.
struct TraceSubject : Subject {
  Variable w{"w", ones({3})};
  Traced<Tensor(Tensor)> f = trace([w = w](Tensor x) { return three_ops(x * w); });
  Tensor x = ones({3});
  TraceSubject() { f(f(x) + x), f(x), f(x); }
  ~TraceSubject() override {
    for (int i = 0; i < 3; ++i)
      if (std::abs(f(x).item<float>() - 2.2847824f) > 1e-4f) std::abort();
    if (f.trace_count() == 0) std::abort();
  }
};
/// Ops on all threads, and a product by the BLAS library, if there is one.
struct WorkSubject : Subject {
  Tensor x = ones({300, 300});
  WorkSubject() { work(); }
  ~WorkSubject() override { work(); }
  void work() const { matmul(exp(ones({400'000}))(range(0, 90'000)).reshape({300, 300}), x); }
};

using Subjects = std::vector<std::pair<std::string_view, std::unique_ptr<Subject> (*)()>>;
#define REEL_SUBJECT(name, type)                            \
  {                                                         \
    name, [] { return std::unique_ptr<Subject>(new type); } \
  }
inline const Subjects& subjects() {
  static const auto* all = new Subjects{
      REEL_SUBJECT("tensor", TensorSubject),
      REEL_SUBJECT("variable", VariableSubject),
      REEL_SUBJECT("tape", TapeSubject),
      REEL_SUBJECT("used tape", UsedTapeSubject),
      REEL_SUBJECT("spent tape", SpentTapeSubject),
      REEL_SUBJECT("persistent tape", PersistentTapeSubject),
      REEL_SUBJECT("tapes", TapesSubject),
      REEL_SUBJECT("pause", PauseSubject),
      REEL_SUBJECT("late pause", LatePauseSubject),
      REEL_SUBJECT("train scope", TrainScopeSubject),
      REEL_SUBJECT("generator scope", GeneratorScopeSubject),
      REEL_SUBJECT("device scope", DeviceScopeSubject),
      REEL_SUBJECT("weight scope", WeightScopeSubject),
      REEL_SUBJECT("finite scope", FiniteScopeSubject),
      REEL_SUBJECT("device log scope", DeviceLogScopeSubject),
      REEL_SUBJECT("lockstep scope", LockstepScopeSubject),
      REEL_SUBJECT("checkpoint", CheckpointSubject),
      REEL_SUBJECT("linear map", LinearMapSubject),
      REEL_SUBJECT("shared memory", SharedSubject),
      REEL_SUBJECT("caller scope", CallerScopeSubject),
      REEL_SUBJECT("generator", GeneratorSubject),
      REEL_SUBJECT("trace", TraceSubject),
      REEL_SUBJECT("work", WorkSubject),
  };
  return *all;
}
}  // namespace reel::tests
