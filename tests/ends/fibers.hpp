// SPDX-License-Identifier: BSD-3-Clause
// Flows of fibers that exist when a program or a thread ends. Plugins cannot make them.
#pragma once
#include "ends/objects.hpp"
#include "lib/flow/flow.hpp"

namespace reel::tests {
/// A flow that waits, in the middle of a tape and of scopes. They end after the flow.
struct FiberSubject : Subject {
  Variable w{"w", ones({3})};
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<GeneratorScope> numbers;
  std::unique_ptr<FiniteScope> finite;
  std::unique_ptr<WeightScope> weights;
  Tensor y;
  std::optional<FiberFlow> flow{std::in_place};
  FiberSubject() {
    flow->swap();
    numbers = std::make_unique<GeneratorScope>(Generator(4));
    finite = std::make_unique<FiniteScope>();
    weights = std::make_unique<WeightScope>(std::vector{w}, Operands({2 * w.value()}));
    tape = std::make_unique<GradientTape>();
    y = three_ops(w + random::normal({3}));
    flow->swap();
  }
};
/// A FiberSubject whose objects all end in the flow.
struct EndedFiberSubject : FiberSubject {
  ~EndedFiberSubject() override {
    flow->swap();
    tape.reset(), weights.reset(), finite.reset(), numbers.reset();
    three_ops(w);
    flow->swap();
    flow.reset();
  }
};
/// The tape is used after its flow.
struct LeftFiberSubject : FiberSubject {
  ~LeftFiberSubject() override {
    flow.reset();
    try {
      tape->gradient(y, w);
    } catch (const TapeError&) {
      return;
    }
    std::abort();
  }
};

inline const Subjects& fiber_subjects() {
  static const auto* all = new Subjects{
      REEL_SUBJECT("fiber", FiberSubject),
      REEL_SUBJECT("ended fiber", EndedFiberSubject),
      REEL_SUBJECT("left fiber", LeftFiberSubject),
  };
  return *all;
}
}  // namespace reel::tests
