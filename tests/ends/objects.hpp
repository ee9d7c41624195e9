// SPDX-License-Identifier: BSD-3-Clause
// What the ends of programs and threads meet: an object of the library, somewhere, in use.
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <reel/reel.hpp>

namespace reel::tests {
inline Tensor three_ops(const Tensor& x) { return sum(tanh(x * x)); }

/// Something that is in the middle of its work.
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
/// Still useful where it ends: the destructor takes the gradient, or gets an error on a thread that
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
/// Ended in the order in which they were made.
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
    random::normal({10});  // from the thread's own, which may never have been used
  }
};
struct DeviceScopeSubject : Subject {
  std::optional<DeviceScope> first{cpu()}, second{cpu()};
  ~DeviceScopeSubject() override { first.reset(); }
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
/// Replayed where it ends.
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
/// Ops by all threads, and a product by the BLAS library where there is one.
struct WorkSubject : Subject {
  Tensor x = ones({300, 300});
  WorkSubject() { work(); }
  ~WorkSubject() override { work(); }
  void work() const { matmul(exp(ones({400'000}))(range(0, 90'000)).reshape({300, 300}), x); }
};

inline const std::vector<std::pair<std::string_view, std::unique_ptr<Subject> (*)()>>& subjects() {
  static const auto* all =
      new std::vector<std::pair<std::string_view, std::unique_ptr<Subject> (*)()>>{
#define REEL_SUBJECT(name, type)                            \
  {                                                         \
    name, [] { return std::unique_ptr<Subject>(new type); } \
  }
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
          REEL_SUBJECT("caller scope", CallerScopeSubject),
          REEL_SUBJECT("generator", GeneratorSubject),
          REEL_SUBJECT("trace", TraceSubject),
          REEL_SUBJECT("work", WorkSubject),
#undef REEL_SUBJECT
      };
  return *all;
}
}  // namespace reel::tests
