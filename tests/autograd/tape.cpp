// SPDX-License-Identifier: BSD-3-Clause
// The promises of GradientTape, one fact in each test.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"
#include "support/resident.hpp"

using namespace reel;
using tests::check_refused;

namespace {
float number(const Tensor& x) { return x.item<float>(); }
std::string message_of(const detail::Function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
}  // namespace

TEST_CASE("a Variable is watched by itself, a Tensor on request") {
  Variable w("w", tensor(3.0f));
  Tensor x = tensor(2.0f);
  GradientTape tape({.persistent = true});
  Tensor y = w * x * x;
  CHECK(number(tape.gradient(y, w)) == 4.0f);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
  tape.watch(x);
  Tensor z = w * x * x;
  CHECK(number(tape.gradient(z, x)) == 12.0f);
}

TEST_CASE("watch_variables = false leaves Variables alone until they are watched") {
  Variable w("w", tensor(3.0f));
  GradientTape tape({.persistent = true, .watch_variables = false});
  Tensor y = w * w;
  CHECK_THROWS_AS(tape.gradient(y, w), TapeError);
  tape.watch(w);
  CHECK(number(tape.gradient(w * w, w)) == 6.0f);
}

TEST_CASE("two reads of a Variable around an assign both count") {
  Variable w("w", tensor(2.0f));
  GradientTape tape;
  Tensor first = w * w;
  w.assign(5.0f);
  Tensor second = w * w;
  CHECK(number(tape.gradient(first + second, w)) == 14.0f);
}

TEST_CASE("what a record has saved is not changed by assign_add") {
  Variable w("w", tensor({2.0f, 3.0f}));
  GradientTape tape;
  Tensor y = sum(w * w);
  w.assign_add(10.0f);
  CHECK(equal(tape.gradient(y, w), tensor({4.0f, 6.0f})));
  CHECK(equal(w.value(), tensor({12.0f, 13.0f})));
}

TEST_CASE("an assigned value carries no gradient through the Variable") {
  Variable w("w", tensor(2.0f)), v("v", tensor(1.0f));
  GradientTape tape({.persistent = true});
  v.assign(w * 3.0f);
  Tensor y = v * v;
  CHECK(number(tape.gradient(y, v)) == 12.0f);
  CHECK_THROWS_AS(tape.gradient(y, w), TapeError);
}

TEST_CASE("an intermediate tensor is a source like any other") {
  Tensor x = tensor(2.0f);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor y = x * x, z = y * y;
  CHECK(number(tape.gradient(z, y)) == 8.0f);
  CHECK(number(tape.gradient(z, x)) == 32.0f);
  CHECK(number(tape.gradient(z, z)) == 1.0f);
}

TEST_CASE("sources may repeat, and stand between the target and others") {
  Variable w("w", tensor({2.0f, 3.0f}));
  GradientTape tape;
  const Tensor y = w * 2.0f, z = exp(y) * y + y;
  const auto slopes = tape.gradient(z, {y, w, y, w, z});
  const Tensor dy = exp(y) * (y + 1.0f) + 1.0f;
  CHECK(allclose(slopes[0], dy));
  CHECK(allclose(slopes[1], dy * 2.0f));
  CHECK(equal(slopes[2], slopes[0]));
  CHECK(equal(slopes[3], slopes[1]));
  CHECK(equal(slopes[4], ones({2})));
}

TEST_CASE("no gradient is made for a Variable that is no source") {
  Variable w("w", tensor({2.0f, 3.0f})), frozen("frozen", tensor({5.0f, 7.0f}));
  int made = 0;
  const auto counted = custom_gradient([&](Tensor t) {
    return std::pair(t * 1.0f, [&](Tensor dy) -> Tensors {
      ++made;
      return {dy};
    });
  });
  {
    GradientTape tape;
    CHECK(equal(tape.gradient(w * counted(frozen), w), frozen.value()));
    CHECK(made == 0);
  }
  GradientTape tape({.persistent = true});
  const Tensor y = w * counted(frozen);
  CHECK(equal(tape.gradient(y, w), frozen.value()));
  CHECK(equal(tape.gradient(y, frozen), w.value()));
  CHECK(made == 1);
}

TEST_CASE("a saved value outlives the tape that watched it, for another that needs it") {
  Tensor x = tensor({1.0f, 2.0f}), y;
  GradientTape outer({.watch_variables = false});
  outer.watch(x);
  {
    GradientTape inner;
    const Variable w("w", tensor({5.0f, 7.0f}));
    y = x * w + w * x;
  }
  const Tensor disturbing = tensor({0.0f, 0.0f});
  CHECK(equal(outer.gradient(y, x), tensor({10.0f, 14.0f})));
}

TEST_CASE("an outer tape that is younger than ops of the inner tape refuses what it would lose") {
  const Tensor a = tensor(2.0f), b = tensor(3.0f);
  const Variable w("w", tensor(2.0f));
  const char* const refused = "an outer tape that is younger than ops of the inner tape";
  GradientTape inner({.persistent = true});
  inner.watch(a);
  inner.watch(b);
  const Tensor cube = a * a * a, cubed = w * w * w, line = a * b;
  GradientTape outer({.persistent = true});
  outer.watch(a);
  const Tensor slope = inner.gradient(cube, a), slope_w = inner.gradient(cubed, w);
  CHECK(slope.item<float>() == 12);
  check_refused<TapeError>([&] { outer.gradient(slope, a); }, refused);
  check_refused<TapeError>([&] { outer.gradient(slope * a, a); }, refused);
  check_refused<TapeError>([&] { outer.gradient(slope_w * w, w); }, refused);
  // What the outer tape knows, and what does not depend on its values, has its gradient.
  CHECK(outer.gradient(inner.gradient(line, b), a).item<float>() == 1);
  const Tensor weight = tensor(5.0f);
  outer.watch(weight);
  const Tensor product = inner.gradient(cube, a, {.upstream = weight});
  CHECK(outer.gradient(product, weight).item<float>() == 12);
  const Tensor later = inner.gradient(a * a * a, a);
  CHECK(outer.gradient(later, a).item<float>() == 12);
}

TEST_CASE("an inner tape that watches an outer tape's intermediate stops there") {
  Tensor x = tensor(3.0f);
  GradientTape outer;
  outer.watch(x);
  Tensor y = x * x, slope;
  {
    GradientTape inner;
    inner.watch(y);
    Tensor z = y * y;
    slope = inner.gradient(z, y);  // 2 y
    CHECK(number(slope) == 18.0f);
  }
  CHECK(number(outer.gradient(slope, x)) == 12.0f);  // d 2 x^2 / dx
}

TEST_CASE("tapes nest to the third order") {
  Tensor x = tensor<double>(0.7);
  GradientTape t3;
  t3.watch(x);
  Tensor second;
  {
    GradientTape t2;
    t2.watch(x);
    Tensor first;
    {
      GradientTape t1;
      t1.watch(x);
      first = t1.gradient(x * x * x * x, x);
    }
    second = t2.gradient(first, x);
  }
  CHECK(t3.gradient(second, x).item<double>() == Approx(24 * 0.7));
}

TEST_CASE("tapes side by side answer each for itself, and end in any order") {
  Tensor x = tensor(2.0f);
  auto a = std::make_unique<GradientTape>();
  auto b = std::make_unique<GradientTape>();
  a->watch(x);
  Tensor y = x * x;
  b->watch(x);
  Tensor z = y * x;
  CHECK(number(a->gradient(z, x)) == 12.0f);
  a.reset();
  CHECK(number(b->gradient(z, x)) == 4.0f);  // y was computed before b watched x
}

TEST_CASE("a paused tape sees nothing") {
  Variable w("w", tensor(2.0f));
  GradientTape tape;
  Tensor hidden;
  {
    auto pause = tape.pause();
    hidden = exp(w);
  }
  Tensor y = w * w + stop_gradient(hidden);
  CHECK(number(tape.gradient(y, w)) == 4.0f);
}

TEST_CASE("a vector target is summed, or weighted by upstream") {
  Tensor x = tensor({1.0f, 2.0f, 3.0f});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor y = x * x;
  CHECK(equal(tape.gradient(y, x), tensor({2.0f, 4.0f, 6.0f})));
  CHECK(equal(tape.gradient(y, x, {.upstream = tensor({1.0f, 0.0f, -1.0f})}),
              tensor({2.0f, 0.0f, -6.0f})));
  CHECK_THROWS_AS(tape.gradient(y, x, {.upstream = tensor({1.0f})}), ShapeError);
}

TEST_CASE("a tape that is not persistent answers once") {
  Variable w("w", tensor(2.0f));
  GradientTape tape;
  Tensor y = w * w;
  tape.gradient(y, w);
  const std::string text = message_of([&] { tape.gradient(y, w); });
  CHECK(text.find("persistent") != std::string::npos);
  CHECK(text.find("gradient: tape: expected one call of gradient()") != std::string::npos);
  CHECK(message_of([&] { tape.jacobian(y, w); }).find("got jacobian() after it") !=
        std::string::npos);
}

TEST_CASE("an unconnected source says where the path was cut") {
  Variable w("w", tensor({2.0f, 1.0f})), d("d", tensor(1.0f));
  GradientTape tape({.persistent = true});
  Tensor y = sum(stop_gradient(w) * 2.0f) + d * 0.0f;
  const std::string text = message_of([&] { tape.gradient(y, w); });
  CHECK(text.find("stop_gradient (tape.cpp:") != std::string::npos);
  CHECK(text.find("\"w\"") != std::string::npos);
  CHECK(text.find("tape.cpp:" + std::to_string(__LINE__ - 3)) != std::string::npos);
  CHECK(equal(tape.gradient(y, w, Unconnected::zero), zeros({2})));
}

TEST_CASE("the lines of what was recorded are the user's, also inside layers") {
  nn::Linear layer{3, 2};
  GradientTape tape;
  Tensor y = layer(ones({1, 3}));
  const unsigned line = __LINE__ - 1;
  REQUIRE(!tape.ops().empty());
  for (const RecordedOp& op : tape.ops()) {
    CHECK(op.line == line);
    CHECK(op.file.find("tape.cpp") != std::string::npos);
  }
}

TEST_CASE("broadcast inputs get gradients of their own shape") {
  Tensor x = ones({2, 3}), row = ones({3}), number_ = tensor(2.0f), column = ones({2, 1});
  GradientTape tape;
  for (const Tensor* t : {&x, &row, &number_, &column}) tape.watch(*t);
  Tensor y = (x + row) * number_ * column;
  auto [dx, drow, dnumber, dcolumn] = tape.gradient(y, x, row, number_, column);
  CHECK(equal(dx, full({2, 3}, 2.0f)));
  CHECK(equal(drow, full({3}, 4.0f)));
  CHECK(number(dnumber) == 12.0f);
  CHECK(equal(dcolumn, full({2, 1}, 12.0f)));
}

TEST_CASE("the same tensor used twice gathers both gradients") {
  Tensor x = tensor({3.0f});
  GradientTape tape;
  tape.watch(x);
  Tensor y = x + x + x * x;
  CHECK(equal(tape.gradient(y, x), tensor({8.0f})));
}

TEST_CASE("temporaries that give their buffer away leave gradients right") {
  Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  tape.watch(x);
  Tensor y = tanh(x * 2.0f + 1.0f) * (x - 3.0f);
  const Tensor dx = tape.gradient(y, x);
  for (int i = 0; i < 2; ++i) {
    const double v = i + 1, t = std::tanh(2 * v + 1);
    CHECK(dx(i).item<float>() == Approx(2 * (1 - t * t) * (v - 3) + t).margin(1e-6));
  }
}

TEST_CASE("a custom gradient reaches second order through what it captured") {
  auto cube = custom_gradient([](Tensor t) {
    Tensor squared = t * t;
    return std::pair{squared * t, [squared](Tensor up) { return up * 3.0 * squared; }};
  });
  Tensor x = tensor<double>(2.0);
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape inner;
    inner.watch(x);
    slope = inner.gradient(cube(x), x);
  }
  CHECK(slope.item<double>() == 12.0);
  CHECK(outer.gradient(slope, x).item<double>() == Approx(12.0));
}

TEST_CASE("a steady training step takes no new large block") {
  if (tests::under_asan) SKIP("blocks are not reused under AddressSanitizer");
  Variable w("w", random::normal({128, 128}));
  Tensor x = random::normal({64, 128});
  const auto step = [&] {
    GradientTape tape;
    Tensor loss = mean(square(tanh(matmul(x, w))));
    w.assign_sub(tape.gradient(loss, w) * 0.01f);
  };
  for (int i = 0; i < 3; ++i) step();
  const auto before = memory_statistics().large_blocks;
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory_statistics().large_blocks == before);
}

TEST_CASE("jacobian has the target's axes, then the source's") {
  Tensor x = tensor({{1.0f, 2.0f}});
  Tensor j = jacobian([](Tensor t) { return reshape(t * t, {2}); }, x);
  CHECK(j.shape() == Shape({2, 1, 2}));
  CHECK(j(1, 0, 1).item<float>() == 4.0f);
  CHECK(j(0, 0, 1).item<float>() == 0.0f);
}

TEST_CASE("everything is let go of when tapes end") {
  const MemoryStatistics before = memory_statistics();
  {
    Tensor x = ones({8});
    GradientTape outer({.persistent = true});
    outer.watch(x);
    for (int i = 0; i < 10; ++i) {
      GradientTape inner;
      inner.watch(x);
      Tensor y = sum(exp(x) * x);
      inner.gradient(y, x);
    }
  }
  const MemoryStatistics after = memory_statistics();
  CHECK(after.live_tensors == before.live_tensors);
  CHECK(after.live_bytes == before.live_bytes);
  CHECK(after.live_records == before.live_records);
}

TEST_CASE("records take moved operands over") {
  const Tensor x = tensor({2.0f, 3.0f});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  Tensor square = x * x, again = square;
  Tensor twice = std::move(square) * std::move(square);  // the same object is both operands
  CHECK(equal(twice, tensor({16.0f, 81.0f})));
  CHECK(equal(tape.gradient(twice, x), 4.0f * x * x * x));
  CHECK(equal(again, tensor({4.0f, 9.0f})));
  Tensor cube = x * (x * x);
  CHECK(equal(tape.gradient(cube, x), 3.0f * x * x));
}

TEST_CASE("a function of yours may use its operand more than once") {
  const auto swish = [](Operand x) { return x * sigmoid(x); };
  const auto squared = [](Operand x) { return matmul(x, x) + matmul(x, x); };
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  const Tensor swished = swish(x + 1.0f), products = squared(x + 1.0f);
  const Tensor more = x + 1.0f;
  CHECK(equal(swished, more * sigmoid(more)));
  CHECK(products(0, 0).item<float>() == 32);
  GradientTape tape;
  tape.watch(x);
  CHECK(equal(swish(x + 1.0f), swished));
  CHECK(equal(squared(x + 1.0f), products));
}

TEST_CASE("one source in braces gives a list of one gradient") {
  Variable w("w", tensor(3.0f)), v("v", tensor(1.0f));
  const Tensor x = tensor(2.0f);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = w * w * x;
  const std::vector<Tensor> slopes = tape.gradient(y, {w});
  REQUIRE(slopes.size() == 1);
  CHECK(slopes[0].item<float>() == 12);
  CHECK(tape.gradient(y, {x})[0].item<float>() == 9);
  CHECK(tape.gradient(y, {w, x}).size() == 2);
  CHECK(tape.gradient(y, {v}, Unconnected::zero)[0].item<float>() == 0);
  CHECK(tape.gradient(y, {w}, {tensor(2.0f)})[0].item<float>() == 24);
}

TEST_CASE("the 65th tape of a thread is refused, and the 64 others go on") {
  const Tensor x = tensor(3.0f);
  std::vector<std::unique_ptr<GradientTape>> tapes;
  for (int i = 0; i < 64; ++i) tapes.push_back(std::make_unique<GradientTape>());
  for (const auto& tape : tapes) tape->watch(x);
  check_refused<TapeError>([] { const GradientTape tape; }, "at most 64 alive on a thread");
  const Tensor y = x * x;
  for (const auto& tape : tapes) CHECK(tape->gradient(y, x).item<float>() == 6);
  tapes.pop_back();
  CHECK_NOTHROW(GradientTape());
}

TEST_CASE("only floating values are watched, and a spent tape watches nothing") {
  const Tensor x = tensor({1.0f, 2.0f});
  const Variable count("count", tensor({1, 2})), w("w", x);
  GradientTape tape;
  check_refused<DTypeError>([&] { tape.watch(count); }, "x: expected a floating dtype, got int32");
  check_refused<DTypeError>([&] { tape.watch(tensor({1})); }, "x: expected a floating dtype");
  check_refused<Error>([&] { tape.watch(Tensor()); }, "an undefined Tensor");
  tape.watch(x);
  tape.gradient(x * x, x);
  const auto records = memory_statistics().live_records;
  tape.watch(x);
  tape.watch(w);
  const Tensor y = x * w;
  CHECK(memory_statistics().live_records == records);
  CHECK(tape.ops().empty());
}

TEST_CASE("a tape whose gradient() was refused before it began can be asked again") {
  const Tensor x = tensor({1.0f, 2.0f}), other = tensor(3.0f);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(x * x);
  check_refused<TapeError>([&] { tape.gradient(y, other); }, "source 0");
  check_refused<ShapeError>([&] { tape.gradient(y, x, {.upstream = ones({3})}); }, "upstream");
  CHECK(equal(tape.gradient(y, x), 2 * x));
}
