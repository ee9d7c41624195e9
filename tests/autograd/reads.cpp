// SPDX-License-Identifier: BSD-3-Clause
// How tapes treat a Variable's value that was read as a Tensor, and an index that selects
// everything.
#include <optional>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using Pair = Tensor (*)(Operand, Operand);
const Pair pairs[] = {
    [](Operand x, Operand y) { return x * y; },
    [](Operand x, Operand y) { return x + y; },
    [](Operand x, Operand y) { return x / (y + 3); },
    [](Operand x, Operand y) { return maximum(x, y); },
    [](Operand x, Operand y) { return matmul(x, y); },
    [](Operand x, Operand y) { return matmul_add(x, y, x); },
    [](Operand x, Operand y) {
      return concat({x, y}) * concat({y, y});
    },
    [](Operand x, Operand y) { return where(stop_gradient(x) > 0.5, x, y); },
    [](Operand x, Operand y) {
      return stack({x, y})(1) * stack({y, x})(1);
    },
    [](Operand x, Operand y) { return x * y.variable().value() + y.variable()(0); }};

Tensor copied(const Tensor& x) { return x + zeros_like(x); }
Variable made(DType dtype) {
  return Variable("w", tensor({{0.5f, -1.0f}, {2.0f, 0.25f}}).to(dtype));
}
/// A way to read a value before the tape that takes the gradient begins.
using Read = Tensor (*)(const Variable&);
const Read reads[] = {[](const Variable& w) { return w.value(); },
                      [](const Variable& w) -> Tensor { return w; },
                      [](const Variable& w) -> Tensor { return w(all); },
                      [](const Variable& w) {
                        Tensor x;
                        std::thread([&] { x = w; }).join();
                        return x;
                      },
                      [](const Variable& w) {
                        GradientTape tape;
                        const auto pause = tape.pause();
                        return w.value();
                      }};
}  // namespace

TEST_CASE("a value read before a tape began is a constant to it, on either side of an op") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Read read : reads)
      for (const Pair f : pairs)
        for (const bool outer : {false, true}) {
          const Variable w = made(dtype);
          std::optional<GradientTape> first;
          if (outer) first.emplace(TapeOptions{.persistent = true});
          const Tensor x = read(w), constant = copied(stop_gradient(x));
          const auto slope_of = [&](const auto& value) {
            GradientTape tape;
            return tape.gradient(sum(value()), w, Unconnected::zero);
          };
          CHECK(equal(slope_of([&] { return f(x, w); }), slope_of([&] { return f(constant, w); })));
        }
}

TEST_CASE("x * w and w * x have one gradient, where x is w's own value") {
  const Variable w("w", tensor(3.0f));
  for (const bool outer : {false, true}) {
    std::optional<GradientTape> first;
    if (outer) first.emplace(TapeOptions{.persistent = true});
    const Tensor x = w;
    for (const bool left : {false, true}) {
      GradientTape tape;
      const Tensor y = left ? w * x : x * w;
      CHECK(tape.gradient(y, w).item<float>() == 3);
      if (first) CHECK(first->gradient(y, w).item<float>() == 6);
    }
    GradientTape tape;
    const Tensor y = x * 2, z = w * w, v = x * 5;
    CHECK(tape.gradient(y + z + v, w).item<float>() == 6);
  }
}

TEST_CASE("a value read under a tape leads to the Variable, also when its tensor is gone") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Variable w = made(dtype);
    GradientTape tape({.persistent = true});
    std::optional<Tensor> x = w.value();
    const Tensor y = *x * *x + w * *x;
    CHECK(equal(tape.gradient(sum(y), *x), 4 * stop_gradient(w)));
    x.reset();
    std::vector<Tensor> others;
    for (int i = 0; i < 100; ++i) others.push_back(full({2, 2}, 100));
    CHECK(equal(tape.gradient(sum(y), w), 4 * stop_gradient(w)));
    CHECK(equal(tape.gradient(sum(square(w.value()(0))), w)(1), zeros({2})));
  }
}

TEST_CASE("a new Variable at the address of a dead one is another source") {
  GradientTape tape({.persistent = true});
  const Variable w("w", tensor({1.0, 2.0}));
  Tensor y;
  const void* place = nullptr;
  {
    const Variable dead("dead", tensor({1.0, 1.0}));
    place = &Access::cell(dead);
    y = dead * dead * w;
  }
  const Variable born("born", tensor({7.0, 7.0}));
  if (&Access::cell(born) != place) WARN("the allocator gave another address: nothing is shown");
  CHECK_THROWS_AS(tape.gradient(y, born), TapeError);
  CHECK_THROWS_AS(tape.gradient(y, {born, w}), TapeError);
  CHECK(equal(tape.gradient(y, born, Unconnected::zero), zeros({2})));
  const Tensor z = y * born;
  CHECK(equal(tape.gradient(z, born), tensor({1.0, 2.0})));
  CHECK(equal(tape.gradient(z, {w, born})[1], tensor({1.0, 2.0})));
}

TEST_CASE("second derivatives see a value read under the outer tape") {
  const Variable w("w", tensor<double>(3));
  const Pair cube[] = {[](Operand x, Operand y) { return x * x * y; },
                       [](Operand x, Operand y) { return y * x * x; }};
  for (const Pair f : cube) {
    GradientTape outer;
    const Tensor x = w;
    Tensor slope;
    {
      GradientTape inner;
      slope = inner.gradient(f(x, w), w);  // x^2, where the outer tape follows x
    }
    CHECK(slope.item<double>() == 9);
    CHECK(outer.gradient(slope, w).item<double>() == 6);
  }
}

TEST_CASE(
    "a value read under an inner tape belongs to the outer tape when the inner one has ended") {
  for (const bool known : {false, true})
    for (const bool paused : {false, true})
      for (const bool index : {false, true}) {
        const Variable w("w", tensor(3.0f));
        GradientTape outer({.persistent = true});
        const Tensor before = known ? w * 2 : Tensor();
        Tensor x;
        const auto read = [&] {
          GradientTape inner;
          x = index ? Tensor(w(ellipsis)) : w.value();
          CHECK(inner.gradient(x * x * w, w).item<float>() == 27);
        };
        if (paused) {
          const auto pause = outer.pause();
          read();
        } else {
          read();
        }
        for (int i = 0; i < 3; ++i) {
          GradientTape other;  // it reuses numbers of records
          other.gradient(w * w, w);
        }
        const Tensor y = x * x + w;
        CHECK(outer.gradient(y, w).item<float>() == (paused ? 1 : 7));
      }
}

TEST_CASE("a user's composite op leads to the Variables that it takes") {
  register_op("reads_twice", [](const OpCall& call) {
    return Tensors{call.input(0) * call.input(0) * call.input(1)};
  });
  const Variable w("w", tensor(3.0f));
  const Tensor x = w;
  GradientTape tape({.persistent = true});
  CHECK(tape.gradient(call_op("reads_twice", {w, x}), w).item<float>() == 18);
  CHECK(tape.gradient(call_op("reads_twice", {x, w}), w).item<float>() == 9);
}

TEST_CASE("an index that picks all gives a new tensor, whoever listens") {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  const auto check = [&](const auto& pick) {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = pick(x);
    CHECK(equal(y, x));
    CHECK(equal(tape.gradient(sum(y * y), x), 2 * x));
    CHECK(equal(tape.gradient(sum(y * y), y), 2 * x));
    CHECK_THROWS_AS(tape.gradient(sum(x * x), y), TapeError);
    CHECK(equal(tape.gradient(sum(x * y), y), x));
  };
  const auto check_all = [&] {
    check([](const Tensor& t) { return t(all); });
    check([](const Tensor& t) { return t[all]; });
    check([](const Tensor& t) { return t(all, all); });
    check([](const Tensor& t) { return t(ellipsis); });
    check([](const Tensor& t) { return t(range({}, {})); });
    check([](const Tensor& t) { return t(range(0, 2), range(0, 2)); });
    check([](const Tensor& t) { return t(all, tensor({0, 1})); });
    // Functions that have nothing to do.
    check([](const Tensor& t) { return roll(t, 0, 0); });
    check([](const Tensor& t) { return roll(t, 2, 1); });
    check([](const Tensor& t) { return pad(t, {{0, 0}, {0, 0}}); });
    check([](const Tensor& t) { return tile(t, {1, 1}); });
    check([](const Tensor& t) { return repeat(t, 1, 0); });
  };
  check_all();
  GradientTape outer;
  check_all();
  // A value that an earlier tape does not know is a new tensor in plain mode too.
  const Tensor y = x(all);
  GradientTape tape;
  tape.watch(y);
  CHECK_THROWS_AS(tape.gradient(sum(y * y), x), TapeError);
}

TEST_CASE("traced functions make the same of reads and of indices that pick all") {
  const Variable w("w", tensor({1.0f, 2.0f}));
  auto slope = trace([&](Tensor x, bool left) {
    GradientTape tape;
    return tape.gradient(sum(left ? w * x : x * w), w);
  });
  auto read_inside = trace([&](Tensor v) {
    GradientTape tape({.persistent = true});
    const Tensor x = w, y = x(all);
    return tape.gradient(sum(y * x * w * v), w);
  });
  for (int i = 0; i < 5; ++i)
    for (const bool left : {false, true}) {
      CHECK(equal(slope(w, left), w));
      CHECK(equal(read_inside(ones({2})), 3 * w * w));
    }
}

TEST_CASE("what a traced function has read stays as it was when the Variable is written") {
  for (const DType dtype : {DType::int32, DType::float32, DType::float64}) {
    Variable w("w", ones({3}, {.dtype = dtype})), same = w.clone();
    const auto turn = [](Variable v) {
      const Tensor before = v;
      v.assign_add(1);
      const Tensor middle = v.value(), part = v(range(1, 3));
      v.assign(v * 3);
      v(0).assign(7);
      return concat({before, middle, part, v});
    };
    const auto traced = trace([&] { return turn(w); });
    for (int i = 0; i < 5; ++i) CHECK(equal(traced(), turn(same)));
    CHECK(equal(w, same));
  }
}
}  // namespace reel::tests
