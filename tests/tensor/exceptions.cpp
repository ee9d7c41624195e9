// SPDX-License-Identifier: BSD-3-Clause
// R14: if an op throws, the thread, its Variables and its generators are as if that op had not been
// tried.
#include <stdexcept>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"
#include "support/late.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
struct World {
  Variable w{"w", tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}})};
  Variable m{"m", zeros({2, 3})}, v{"v", zeros({2, 3})};
  Variable step{"step", tensor(std::int64_t{1})};
  Generator generator{5};
  int written = 0, drawn = 0;

  std::vector<Tensor> values() const { return {w, m, v, step}; }
};

Tensor layouts(const Tensor& x) {
  const std::vector<Tensor> parts = split(transpose(x), 3);
  const Tensor joined = concat({parts[1], parts[0], parts[2]});
  return squeeze(stack({joined, broadcast_to(parts[0], {3, 2})}, 0)(0, newaxis), 0);
}
Tensor picks(const Tensor& x) {
  const Tensor rows = take(x, tensor({0, -1, 0}));
  const Tensor more = scatter_add(x, tensor({1, 1}), rows(range(0, 2)));
  return gather(more, tensor({{1, 0}, {0, 1}, {2, 2}}), 0) * one_hot(tensor({1, 0, 1}), 2);
}

void program(World& world) {
  const TrainScope train(false);
  const GeneratorScope numbers(world.generator);
  GradientTape outer;
  outer.watch(world.w);
  GradientTape tape;
  Tensor x = layouts(world.w);
  const Tensor noise = random::normal({3, 2});
  ++world.drawn;
  x = x + noise;
  x = dropout(picks(x), 0.5);
  ++world.drawn;
  const Tensor loss = sum(where(x > 0, x, x * 0.1));
  const auto pause = outer.pause();
  const Tensor slope = tape.gradient(loss, world.w);
  world.w.assign_sub(slope);
  ++world.written;
  adam_update(world.w, world.m, world.v, slope, 0.1, world.step);
  ++world.written;
  const Tensor column = random::uniform({2});
  ++world.drawn;
  world.w(all, 1).assign(column);
  ++world.written;
  world.step.assign_add(1);
  ++world.written;
}

/// The values after `writes` writes, and the position of the generator after a number of draws.
std::vector<Tensor> values_after(int writes) {
  World world;
  class Stop : public Interceptor {
   public:
    Stop(World& world, int writes) : world_(world), writes_(writes) {}
    bool before(const GateCall&) override {
      if (world_.written == writes_) throw std::runtime_error("stop");
      return true;
    }

   private:
    World& world_;
    int writes_;
  } stop(world, writes);
  try {
    const InterceptorScope scope(stop);
    program(world);
  } catch (const std::runtime_error&) {
  }
  return world.values();
}
bool same(const std::vector<Tensor>& x, const std::vector<Tensor>& y) {
  bool all_equal = true;
  for (std::size_t i = 0; i < x.size(); ++i) all_equal &= equal(x[i], y[i]);
  return all_equal;
}
std::uint64_t position_after(int draws) {
  const std::uint64_t blocks[] = {0, 2, 2 + 2, 2 + 2 + 1};
  return blocks[draws];
}
}  // namespace

TEST_CASE("an exception before any kernel undoes that op alone") {
  {
    World warm;
    program(warm);
    REQUIRE(warm.drawn == 3);
    REQUIRE(warm.written == 4);
    REQUIRE(warm.generator.position() == position_after(3));
  }
  int thrown = 0;
  for (int k = 0; k < 200; ++k) {
    INFO("op " << k);
    World world;
    const ThreadState before = state();
    bool threw = false;
    {
      Bomb bomb(k, false);
      const InterceptorScope scope(bomb);
      try {
        program(world);
      } catch (const std::runtime_error&) {
        threw = true;
      }
    }
    thrown += threw;
    CHECK(state() == before);
    // Dropout draws, then multiplies.
    const std::uint64_t position = world.generator.position();
    const bool right_position = position == position_after(world.drawn) ||
                                (world.drawn == 1 && position == position_after(2));
    CHECK(right_position);
    if (!threw) break;
    // A slice that was written is read again before its statement ends.
    const bool as_expected = same(world.values(), values_after(world.written)) ||
                             (world.written == 2 && same(world.values(), values_after(3)));
    CHECK(as_expected);
  }
  CHECK(thrown > 40);
  CHECK(thrown < 200);
}

TEST_CASE("an exception after any kernel leaves the thread as it was") {
  int thrown = 0;
  for (int k = 0; k < 200; ++k) {
    INFO("op " << k);
    World world;
    const ThreadState before = state();
    Bomb bomb(k, true);
    try {
      const InterceptorScope scope(bomb);
      program(world);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    // Old and new values have headers and elements of the same size.
    CHECK(state() == before);
  }
  CHECK(thrown > 40);
  CHECK(thrown < 200);
}

TEST_CASE("a kernel that finds a bad position leaves the thread, the tape and the Variable",
          "[cpu]") {
  Variable w("w", arange(0.0f, 6.0f).reshape({3, 2}));
  const Tensor bad = tensor({0, 3}), start = w.value() * 1;
  const auto check_all = [&] {
    const ThreadState before = state();
    CHECK_THROWS_AS((take(w, bad), await_errors()), IndexError);
    CHECK_THROWS_AS((scatter_add(w, bad, w(range(0, 2))), await_errors()), IndexError);
    CHECK_THROWS_AS((w(bad) * 2, await_errors()), IndexError);
    CHECK_THROWS_AS((one_hot(bad, 3) + w, await_errors()), IndexError);
    CHECK_THROWS_AS((w.assign(take(w, bad)), await_errors()), IndexError);
    return state() == before;
  };
  CHECK(check_all());
  {
    GradientTape tape;
    const Tensor y = w * 2;
    check_all();
    CHECK(equal(tape.gradient(y, w), full({3, 2}, 2.0f)));
    const auto pause = tape.pause();
    CHECK(check_all());
  }
  CHECK(equal(w, start));
}

TEST_CASE("an error of a type advises the conversion that would help") {
  const Tensor x = ones({2});
  CHECK_THAT(error_text([&] { x.values<bool>(); }), Catch::Contains("x.to(DType::boolean)"));
  CHECK_THAT(error_text([&] { x.values<std::int32_t>(); }), Catch::Contains("x.to(DType::int32)"));
}
}  // namespace reel::tests
