// SPDX-License-Identifier: BSD-3-Clause
// Tapes in corners: what others recorded, rows of tables, tapes inside of gradients, memory.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/flow.hpp"
#include "support/catch.hpp"
#include "support/refused.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
using Numbers = std::vector<double>;
Numbers numbers_of(const Tensor& x) { return x.to(DType::float64).to_vector<double>(); }

std::string refusal(const detail::Function<void()>& f) {
  try {
    f();
  } catch (const TapeError& error) {
    return error.what();
  }
  return "nothing was thrown";
}
void says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
}
}  // namespace

TEST_CASE("a checkpoint reads nothing for a tape from what only a paused tape recorded") {
  const Tensor x = tensor({1.0, 2.0}), other = tensor({3.0, 4.0});
  GradientTape first;
  first.watch(other);
  const Tensor seen = other * 2;
  const auto pause = first.pause();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = checkpoint([&](const Tensor& t) { return t * seen; })(x);
  REQUIRE(tape.ops().size() == 1);
  CHECK(tape.ops()[0].inputs.size() == 1);
  CHECK(tape.memory().bytes == 0);
  CHECK(numbers_of(tape.gradient(y, x)) == Numbers{6, 8});
}

TEST_CASE("a custom gradient of several captured Variables has the gradient of each") {
  const Variable v("v", tensor({2.0, 3.0})), w("w", tensor({5.0, 7.0})), u("u", tensor({1.0, 4.0}));
  const Tensor x = tensor({1.0, 10.0});
  const auto f = custom_gradient(
      [&](Tensor t) {
        return std::pair(t * v + w * u, [](Tensor up) {
          return Tensors{up * 2, up * 3, up * 4, up * 5};
        });
      },
      {v, w, u});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  CHECK(numbers_of(y) == Numbers{7, 58});
  const auto found = tape.gradient(y, {x, v, w, u});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto slope = static_cast<double>(i + 2);
    CHECK(numbers_of(found[i]) == Numbers{slope, slope});
  }
}

TEST_CASE("two equal positions are one row of a row gradient") {
  const Variable table("table", ones({3, 2}, {.dtype = DType::float64}));
  GradientTape tape({.persistent = true});
  const Tensor both = lookup(table, tensor({1, 1})), apart = lookup(table, tensor({2, 0}));
  const Tensor upstream = tensor({{1.0, 2.0}, {10.0, 20.0}});
  const RowGradient same = tape.row_gradients(both, {table}, {.upstream = upstream})[0];
  CHECK(same.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -1});
  CHECK(numbers_of(same.values) == Numbers{11, 22, 0, 0});
  const RowGradient other = tape.row_gradients(apart, {table}, {.upstream = upstream})[0];
  CHECK(other.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2});
  CHECK(numbers_of(other.values) == Numbers{10, 20, 1, 2});
}

TEST_CASE("lookups to which no gradient comes have no rows") {
  const Variable table("table", ones({3, 2}, {.dtype = DType::float64}));
  const auto nothing =
      custom_gradient([](Tensor t) { return std::pair(t * 2, [](Tensor) { return Tensor(); }); });
  GradientTape tape;
  const Tensor y = nothing(lookup(table, tensor({1, 2})));
  const RowGradient got = tape.row_gradients(y, {table}, {.unconnected = Unconnected::zero})[0];
  REQUIRE(got.rows.defined());
  CHECK(got.rows.shape() == Shape{0});
  CHECK(got.values.shape() == Shape{0, 2});
  CHECK(got.values.dtype() == DType::float64);
}

TEST_CASE("an op that only another tape recorded does not read a table for this one") {
  const Variable table("table", tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}));
  GradientTape outer, tape;
  const Tensor rows = lookup(table, tensor({2, 0}));
  Tensor scale;
  {
    const auto pause = tape.pause();
    scale = table * 2;
  }
  tape.watch(scale);
  const Tensor y = sum(rows) * sum(scale);
  const RowGradient got = tape.row_gradients(y, {table})[0];
  REQUIRE(got.rows.defined());
  CHECK(got.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2});
  CHECK(numbers_of(got.values) == Numbers{42, 42, 42, 42});
}

TEST_CASE("explain() names the use of a matrix that makes its gradient infinite") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Variable m("m", ones({2, 1}));
  GradientTape tape;
  const Tensor bad = tensor({{infinity, 1.0}}), good = tensor({{2.0, 1.0}});
  const Tensor first = matmul(bad, m);
  const std::string line = std::to_string(__LINE__ - 1);
  const Tensor second = matmul(good, m), third = matmul(good, m), last = matmul(good, m);
  says(tape.explain(sum(first + second + third + last), m),
       "is not finite: the gradient of matmul (corners.cpp:" + line + ") makes inf at [0, 0]");
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
  CHECK(numbers_of(tape.gradient(y, x)) == Numbers{27 + 9});
  CHECK(tape.ops().size() == ops);
}

TEST_CASE("the weight that is read for a Variable is the target where the Variable is asked") {
  const Variable w("w", tensor({1.0, 1.0}));
  const Tensor x = tensor({2.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor weight = x * x * 2;
  const WeightScope scope({w}, {weight});
  CHECK(numbers_of(tape.gradient(w, x)) == Numbers{8, 12});
}

TEST_CASE("Variables that a WeightScope does not list keep their values") {
  const Variable a("a", tensor({1.0})), b("b", tensor({2.0})), c("c", tensor({3.0}));
  const Tensor ten = tensor({10.0}), twenty = tensor({20.0});
  {
    // Freed memory in which the third place of a short list is this Variable.
    std::vector<std::vector<Variable>> lists;
    for (int i = 0; i < 64; ++i) lists.emplace_back(3, c);
  }
  const WeightScope scope({a, b}, {ten, twenty});
  CHECK(numbers_of(c * 1) == Numbers{3});
  CHECK(numbers_of(a * 1) == Numbers{10});
  CHECK(numbers_of(b * 1) == Numbers{20});
}

TEST_CASE("the gradient of limit_norm() at the very limit is that of no limit") {
  for (const bool listened : {false, true}) {
    INFO("listened: " << listened);
    const Tensor x = tensor({3.0, 4.0}), up = tensor({1.0, 2.0});
    GradientTape outer;
    if (listened) outer.watch(x);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = limit_norm({x}, 5)[0];
    CHECK(numbers_of(tape.gradient(y, x, {.upstream = up})) == Numbers{1, 2});
  }
}

TEST_CASE("batch_jacobian() of a number is refused") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(x);
  check_refused<ShapeError>([&] { tape.batch_jacobian(y, x); },
                            "target: expected a first axis like the source (3,), got ()");
}

TEST_CASE("the table of a tape's memory has bytes, tensors, op and line in this order") {
  TapeMemory memory;
  memory.bytes = 4321;
  memory.ops.push_back({"matmul", "a/b/file.cpp", 12, 3, 4321});
  CHECK(to_string(memory) ==
        "          4321 bytes\n"
        "          4321      3 matmul file.cpp:12\n");
}

TEST_CASE("views of one tensor count once in a tape's memory, as the whole tensor") {
  const Tensor x = ones({4, 4}, {.dtype = DType::float64});
  GradientTape tape;
  tape.watch(x);
  const Tensor whole = x + x;
  const Tensor y = whole(0) * whole(1);
  const TapeMemory kept = tape.memory();
  CHECK(kept.bytes == 16 * 8);
  REQUIRE(kept.ops.size() == 1);
  CHECK(kept.ops[0].tensors == 1);
  CHECK(numbers_of(y) == Numbers(4, 4));
}

TEST_CASE("a tensor that only another tape watches is named as one that this tape does not") {
  const Tensor x = tensor({1.0, 2.0}), other = tensor({3.0, 4.0});
  GradientTape outer({.persistent = true}), tape({.persistent = true});
  outer.watch(other);
  tape.watch(x);
  const Tensor y = x * x;
  says(refusal([&] { tape.gradient(y, other); }), "a tensor that this tape does not watch");
}

TEST_CASE("what was cut before a tape began is no reason for it") {
  const Tensor x = tensor({1.0, 2.0}), own = tensor({3.0, 4.0});
  const Variable unused("unused", tensor({1.0}));
  GradientTape outer;
  outer.watch(x);
  const Tensor cut = stop_gradient(x);
  GradientTape tape;
  tape.watch(own);
  const Tensor y = own * cut;
  const std::string text = refusal([&] { tape.gradient(y, unused); });
  says(text, "a Variable that nothing read while this tape recorded");
  CHECK(text.find("cut at") == text.npos);
}

TEST_CASE("linear maps leave no memory behind", "[cpu]") {
  if (sanitized) return;  // a leak checker finds it then
  const Tensor x = tensor({1.0, 2.0}), tangent = tensor({1.0, 10.0});
  const auto once = [&] { return linearize([](Tensor t) { return t * t; }, x).second(tangent); };
  CHECK(numbers_of(once()) == Numbers{2, 40});
  const auto used = [] { return static_cast<std::int64_t>(mallinfo2().uordblks); };
  for (int i = 0; i < 20; ++i) once();
  const std::int64_t before = used();
  for (int i = 0; i < 400; ++i) once();
  CHECK(used() - before < 400 * 16);
}

TEST_CASE("a tape that was asked may outlive its flow, and then touches nothing of it") {
  const Tensor x = tensor({3.0});
  auto fiber = std::make_unique<FiberFlow>();
  std::unique_ptr<GradientTape> tape;
  fiber->swap();
  tape = std::make_unique<GradientTape>();
  tape->watch(x);
  const Tensor slope = tape->gradient(x * x, x);
  fiber->swap();
  CHECK(numbers_of(slope) == Numbers{6});
  fiber.reset();
  // These may take the memory that the flow had.
  std::vector<std::vector<std::byte>> blocks;
  for (int i = 0; i < 16; ++i) blocks.emplace_back(sizeof(FlowReel));
  tape.reset();
  for (const auto& block : blocks)
    CHECK(std::all_of(block.begin(), block.end(),
                      [](std::byte each) { return each == std::byte{}; }));
}

TEST_CASE("a 16-bit tensor that is read twice has no gradient yet, and that is an error") {
  const Tensor x = tensor({1.0f, 2.0f}).to(DType::float16);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x.to(DType::float32) * 2.0f + x.to(DType::float32) * 3.0f;
  // The sum of both gradients would have 16 bits, which are for storage only.
  CHECK_THROWS_AS(tape.gradient(y, x), DTypeError);
}

TEST_CASE("a user's kernel computes each sum of a gradient, the second one too", "[cpu]") {
  if (sanitized) SKIP("a sanitizer does not follow a fork of several threads");
  const Tensor x = ones({3, 4}), b = zeros({4});
  // In a child process, because a kernel is replaced for the rest of the program.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int calls = 0;
    bool right = false;
    try {
      register_kernel("sum_to", [&](const OpCall& call) {
        ++calls;
        return sum(call.input(0), 0);
      });
      GradientTape tape;
      tape.watch(b);
      const Tensor y = (x + b) * 2.0f + (x + b) * 3.0f;
      right = numbers_of(tape.gradient(y, b)) == Numbers{15, 15, 15, 15};
    } catch (...) {
      right = false;
    }
    _exit(right && calls == 2 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
TEST_CASE("a Variable that a custom_gradient captures has a gradient only if it is listed") {
  const Variable s("s", tensor(2.0f));
  const Tensor x = tensor({1.0f, 2.0f});
  const auto listed = custom_gradient(
      [&](Tensor t) {
        return std::pair(t * s, [](Tensor up) { return Tensors{up * 100, sum(up) * 7}; });
      },
      {s});
  const auto unlisted = custom_gradient(
      [&](Tensor t) { return std::pair(t * s, [](Tensor up) { return up * 100; }); });
  for (const bool watched : {false, true}) {
    INFO(watched);
    GradientTape tape({.persistent = true});
    if (watched) tape.watch(x);
    const Tensor y = sum(unlisted(x)), z = sum(listed(x));
    CHECK(tape.gradient(y + 10 * s, s).item<float>() == 10);
    CHECK(tape.gradient(z + 10 * s, s).item<float>() == 24);
    if (watched) CHECK(equal(tape.gradient(y, x), full({2}, 100.0)));
    GradientTape another;
    if (watched) another.watch(x);
    check_refused<TapeError>([&] { another.gradient(unlisted(x), s); },
                             watched ? "one that ends at custom_gradient (corners.cpp:"
                                     : "perhaps cut at custom_gradient (corners.cpp:");
  }
  // A tape around does not see the captured Variable either, and one inside is not disturbed.
  GradientTape outer;
  outer.watch(x);
  const auto slope = custom_gradient([&](Tensor t) {
    GradientTape inner;
    inner.watch(t);
    const Tensor dt = inner.gradient(sum(t * t * s), t);
    return std::pair(dt, [](Tensor up) { return up * 3; });
  });
  CHECK(equal(outer.gradient(sum(slope(x)), x), full({2}, 3.0)));
}

}  // namespace reel::tests
