// SPDX-License-Identifier: BSD-3-Clause
// Gradient functions that use the tape which is calling them.
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
double number(const Tensor& x) { return x.to(DType::float64).item<double>(); }

/// x * x, with a gradient function that returns upstream * slope().
Tensor square_with(const Tensor& x, const detail::Function<Tensor()>& slope) {
  return custom_gradient([&](Tensor t) {
    return std::pair{t * t, [slope](Tensor up) { return up * slope(); }};
  })(x);
}
struct Stop : std::runtime_error {
  Stop() : std::runtime_error("stop") {}
};
bool same_memory(const MemoryStatistics& before) {
  const MemoryStatistics now = memory_statistics();
  return now.live_tensors == before.live_tensors && now.live_records == before.live_records;
}
}  // namespace

TEST_CASE("a persistent tape may be asked inside its own gradient functions") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const std::int64_t n = GENERATE(1, 5);
  const Tensor x = full({n}, 3).to(dtype);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor cube = x * x * x;
  const Tensor inner = square_with(x, [&] { return tape.gradient(cube, x); });
  const Tensor outer = square_with(inner, [&] { return tape.gradient(inner * 1, inner); });
  const Tensor by_row = square_with(x, [&] { return sum(tape.jacobian(cube, x), 0); });
  for (int again = 0; again < 2; ++again) {
    CHECK(equal(tape.gradient(2 * inner, x), full({n}, 54).to(dtype)));
    CHECK(equal(tape.gradient(2 * by_row, x), full({n}, 54).to(dtype)));
  }
  const std::size_t ops = tape.ops().size();
  CHECK(equal(tape.gradient(inner + cube, x), full({n}, 54).to(dtype)));
  CHECK(tape.ops().size() == ops + 1);                  // no op of the backward pass
  CHECK_THROWS_AS(tape.gradient(outer, x), TapeError);  // the tape did not see the op inner * 1
}

TEST_CASE("a tape that is not persistent refuses a call inside its own gradient functions") {
  const bool by_row = GENERATE(false, true);
  const Tensor x = tensor({3.0});
  const MemoryStatistics before = memory_statistics();
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor cube = x * x * x;
    const Tensor y = square_with(
        x, [&] { return by_row ? reshape(tape.jacobian(cube, x), {1}) : tape.gradient(cube, x); });
    const Tensor z = 2 * y;
    try {
      tape.gradient(z, x);
      FAIL("nothing was thrown");
    } catch (const TapeError& error) {
      const std::string text = error.what();
      CHECK(text.find(by_row ? "jacobian" : "gradient") != text.npos);
      CHECK(text.find("inside its own gradient()") != text.npos);
    }
    CHECK_THROWS_AS(tape.gradient(z, x), TapeError);  // the tape is used up
  }
  CHECK(same_memory(before));
  // A gradient function that can go on without the gradient does so.
  GradientTape tape;
  tape.watch(x);
  const Tensor cube = x * x * x;
  const Tensor y = square_with(x, [&] {
    CHECK_THROWS_AS(tape.gradient(cube, x), TapeError);
    return full({1}, 27.0).to(DType::float64);
  });
  CHECK(number(tape.gradient(2 * y + cube, x)) == 54 + 27);
}

TEST_CASE("jacobian() lets its gradient functions ask the tape, persistent or not") {
  const Tensor x = tensor({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor cube = x * x * x;
  const Tensor y = square_with(x, [&] { return tape.gradient(cube, x); });
  CHECK(equal(tape.jacobian(y, x), tensor({{3.0, 0.0}, {0.0, 12.0}})));
  CHECK(equal(tape.gradient(cube, x), tensor({3.0, 12.0})));  // the tape is not used up
}

TEST_CASE("tapes of a gradient function are tapes like any other") {
  const bool persistent = GENERATE(false, true);
  const Tensor x = tensor(3.0);
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape tape({.persistent = persistent});
    tape.watch(x);
    const Tensor y = square_with(x, [&] {
      GradientTape second;
      second.watch(x);
      GradientTape first;
      first.watch(x);
      const Tensor fourth = x * x * x * x;
      return second.gradient(first.gradient(fourth, x), x) / 2;  // 6 x^2
    });
    slope = tape.gradient(2 * y, x);
  }
  CHECK(number(slope) == 108);
  CHECK(number(outer.gradient(slope, x)) == 72);
}

TEST_CASE("what is watched inside a gradient function is watched from then on") {
  const Tensor x = tensor(3.0), c = tensor(5.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor middle = x * x;
  const Tensor y = square_with(x, [&] {
    tape.watch(c);
    tape.watch(x);
    tape.watch(middle);
    return c * 1;
  });
  const Tensor total = y + middle;
  CHECK(number(tape.gradient(total, x)) == 5 + 6);
  CHECK(number(tape.gradient(total, x)) == 5 + 6);
  CHECK(number(tape.gradient(c * x, c)) == 3);
  CHECK(number(tape.gradient(c * x, x)) == 5);
}

TEST_CASE("a pause that starts or ends inside a gradient function keeps out what is played") {
  const Tensor x = tensor(3.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  using Pause = GradientTape::Pause;
  std::unique_ptr<Pause> pause;
  const Tensor starts = square_with(x, [&] {
    pause.reset(new Pause(tape.pause()));
    return x + x;
  });
  const Tensor ends = square_with(x, [&] {
    pause.reset();
    return x + x;
  });
  const Tensor within = square_with(x, [&] {
    const Pause short_pause = tape.pause();
    return x + x;
  });
  const std::size_t ops = tape.ops().size();
  CHECK(number(tape.gradient(starts, x)) == 6);
  CHECK_THROWS_AS(tape.gradient(x * x, x), TapeError);  // the tape is paused
  CHECK(number(tape.gradient(ends, x)) == 6);
  CHECK(tape.ops().size() == ops);
  CHECK(number(tape.gradient(within, x)) == 6);
  CHECK(number(tape.gradient(x * x, x)) == 6);  // the tape records again
  CHECK(tape.ops().size() == ops + 1);
}

TEST_CASE("a tape destroyed inside one of its gradient functions is an error, and leaves nothing") {
  const bool persistent = GENERATE(false, true), by_row = GENERATE(false, true);
  const bool others = GENERATE(false, true), nested = GENERATE(false, true);
  const Tensor x = tensor({3.0});
  const MemoryStatistics before = memory_statistics();
  {
    std::unique_ptr<GradientTape> other;
    if (others) {
      other = std::make_unique<GradientTape>();
      other->watch(x);
    }
    auto tape = std::make_unique<GradientTape>(TapeOptions{.persistent = persistent});
    tape->watch(x);
    Tensor y = square_with(x, [&] {
      tape.reset();
      return x + x;
    });
    Tensor z = y * x;
    if (nested && persistent) {
      const Tensor inner = z;
      z = square_with(x, [&, inner] {
        CHECK_THROWS_AS(tape->gradient(inner, x), TapeError);
        return x + x;
      });
    }
    GradientTape* const raw = tape.get();
    const auto ask = [&] { return by_row ? raw->jacobian(z, x) : raw->gradient(z, x); };
    check_refused<TapeError>([&] { ask(); }, "destroyed inside one of its gradient functions");
    CHECK(!tape);
    if (others) CHECK(number(other->gradient(x * x * x, x)) == 27);
    GradientTape next;
    next.watch(x);
    CHECK(number(next.gradient(x * x, x)) == 6);
  }
  CHECK(same_memory(before));
}

TEST_CASE("an exception out of a gradient function spends a tape that is not persistent") {
  const bool persistent = GENERATE(false, true);
  const Tensor x = tensor({3.0, 4.0});
  const MemoryStatistics before = memory_statistics();
  {
    GradientTape outer({.persistent = true});
    outer.watch(x);
    GradientTape tape({.persistent = persistent});
    tape.watch(x);
    bool stops = true;
    const Tensor y = square_with(x * 1, [&] {
      if (stops) throw Stop();
      return x + x;
    });
    CHECK_THROWS_AS(tape.gradient(y, x), Stop);
    stops = false;
    if (persistent)
      CHECK(equal(tape.gradient(y, x), tensor({6.0, 8.0})));
    else
      CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
    CHECK(equal(outer.gradient(x * x, x), tensor({6.0, 8.0})));  // it still records
  }
  CHECK(same_memory(before));
}

TEST_CASE("jacobian leaves the tape as it was when it ends by an exception") {
  const bool persistent = GENERATE(false, true);
  const Tensor x = tensor({3.0, 4.0}), other = tensor(1.0);
  GradientTape tape({.persistent = persistent});
  tape.watch(x);
  tape.watch(other);
  int calls = 0, stop_at = 2;
  const Tensor y = square_with(x, [&] {
    if (++calls == stop_at) throw Stop();
    return x + x;
  });
  CHECK_THROWS_AS(tape.jacobian(y, x), Stop);  // thrown in the second row
  CHECK(calls == 2);
  check_refused<TapeError>([&] { tape.jacobian(y, other); }, "source 0");
  check_refused<TapeError>([&] { tape.jacobian(2.0, x); }, "target");
  stop_at = 0;
  CHECK(equal(tape.jacobian(y, x), tensor({{6.0, 0.0}, {0.0, 8.0}})));
  const Tensor z = x * x;  // the tape still records
  CHECK(equal(tape.gradient(z, x), tensor({6.0, 8.0})));
  if (persistent) {
    CHECK(equal(tape.gradient(z, x), tensor({6.0, 8.0})));
    return;
  }
  CHECK_THROWS_AS(tape.gradient(z, x), TapeError);  // the tape has one gradient() only
  check_refused<TapeError>([&] { tape.jacobian(z, x); }, "persistent");
  check_refused<TapeError>([&] { tape.jacobian(zeros({0}), x); }, "persistent");
}

TEST_CASE("a tape that ends, or is spent, inside a function records nothing of it") {
  const bool ends = GENERATE(false, true), registered = GENERATE(false, true);
  static detail::Function<void()> inside;
  static const bool done = [] {
    register_op("calls_inside", [](const OpCall& call) {
      inside();
      return Tensors(call.input(0) * 2);
    });
    register_gradient("calls_inside", [](const OpCall&, Tensor up) { return up * 2; });
    return true;
  }();
  (void)done;
  const MemoryStatistics before = memory_statistics();
  {
    const Tensor x = tensor(3.0);
    auto tape = std::make_unique<GradientTape>();
    tape->watch(x);
    const Tensor first = x * x;
    inside = [&] {
      if (ends)
        tape.reset();
      else
        CHECK(number(tape->gradient(first, x)) == 6);
    };
    Tensor y;
    if (registered)
      y = call_op("calls_inside", {first});
    else
      y = custom_gradient([](Tensor t) {
        inside();
        return std::pair{t * 2, [](Tensor up) { return up * 2; }};
      })(first);
    CHECK(number(y) == 18);
    if (tape) CHECK_THROWS_AS(tape->gradient(y, x), TapeError);
    CHECK(memory_statistics().live_records <= before.live_records + 8);
    GradientTape next;
    next.watch(x);
    CHECK(number(next.gradient(x * x, x)) == 6);
    CHECK_THROWS_AS(next.gradient(y, x), TapeError);
  }
  inside = detail::Function<void()>();
  CHECK(same_memory(before));
}

TEST_CASE("a paused tape keeps out a temporary that is moved into an op") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const std::int64_t n = GENERATE(1, 7, 4096);
  const Tensor x = full({n}, 3).to(dtype);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor recorded = x * x, kept = recorded;
  Tensor constant;
  {
    const auto pause = tape.pause();
    constant = std::move(recorded) + x * x;  // both operands are temporaries
    constant = exp(std::move(constant) * 0) + 1;
  }
  CHECK(equal(constant, full({n}, 2).to(dtype)));
  CHECK(equal(kept, full({n}, 9).to(dtype)));
  const Tensor y = std::move(constant) * x + std::move(kept);
  CHECK(equal(tape.gradient(y, x), full({n}, 2 + 6).to(dtype)));
  Tensor alone = x * x;
  {
    const auto pause = tape.pause();
    alone = std::move(alone) * 2;  // only the records of the tape hold the buffer too
  }
  CHECK(equal(alone, full({n}, 18).to(dtype)));
  CHECK_THROWS_AS(tape.gradient(alone, x), TapeError);
  CHECK(equal(tape.gradient(alone * x, x), full({n}, 18).to(dtype)));
}

TEST_CASE("jacobian leaves the memory of a tape that was destroyed alone") {
  alignas(GradientTape) std::byte memory[sizeof(GradientTape)];
  const Tensor x = tensor({3.0, 4.0});
  auto* const tape = new (memory) GradientTape;
  tape->watch(x);
  const auto ending = custom_gradient([&](Tensor a) {
    return std::pair(a * 2.0, [&](Tensor up) {
      tape->~GradientTape();
      std::memset(memory, 0x5a, sizeof memory);
      return up;
    });
  });
  const Tensor y = ending(x);
  CHECK_THROWS_AS(tape->jacobian(y, x), TapeError);
  for (const std::byte each : memory) CHECK(each == std::byte{0x5a});
}

TEST_CASE("a tape that is asked inside its own gradient does not record what follows there") {
  const Tensor x = tensor({3.0});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor cube = x * x * x;
  const auto f = custom_gradient([&](Tensor t) {
    return std::pair{t * 1, [&](Tensor up) {
                       const Tensor slope = tape.gradient(cube, x);
                       return up * (slope + x * x);  // this is no part of the tape
                     }};
  });
  const Tensor y = f(x);
  const std::size_t ops = tape.ops().size();
  CHECK(equal(tape.gradient(y, x), tensor({36.0})));
  CHECK(tape.ops().size() == ops);
}

TEST_CASE("a record made after gradient() names its own line") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  const Tensor z = y + x;
  const unsigned line = __LINE__ - 1;
  REQUIRE(tape.ops().size() == 2);
  CHECK(tape.ops()[1].line == line);
  check_refused<ShapeError>([&] { z + ones({3}); }, "add");
}
}  // namespace reel::tests
