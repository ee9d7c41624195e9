// SPDX-License-Identifier: BSD-3-Clause
// explain() and memory() of a tape.
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
void says(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  for (const std::string& part : parts) {
    INFO("expecting: " << part);
    CHECK(text.find(part) != text.npos);
  }
}
std::string at(std::string_view op, unsigned line) {
  return std::string(op) + " (explain.cpp:" + std::to_string(line) + ")";
}
}  // namespace

TEST_CASE("explain() says why a gradient is missing") {
  const Variable w("w", tensor({1.0, 2.0})), unread("unread", tensor(1.0f));
  const Tensor x = tensor({3.0, 4.0}), whole = tensor({1, 2});
  GradientTape tape;
  const Tensor scores = w * x;
  const Tensor cut = sum(argmax(scores) * 1.0);
  const unsigned line = __LINE__ - 1;
  says(tape.explain(cut, w), {"The gradient of float32 () for \"w\" float32 (2,) is missing",
                              "perhaps cut at " + at("argmax", line), "Unconnected::zero"});
  const Tensor loss = sum(scores);
  says(tape.explain(loss, x),
       {"for float32 (2,) is missing", "a tensor that this tape does not watch"});
  says(tape.explain(loss, unread), {"is missing", "a Variable that nothing read"});
  says(tape.explain(loss, whole),
       {"int32 (2,) is missing", "Only floating tensors have gradients"});
  says(tape.explain(argmax(scores), w), {"is missing: the target is int64"});
  says(tape.explain(x, w), {"is missing"});
  const auto nothing =
      custom_gradient([](Tensor a) { return std::pair(a * 2, [](Tensor) { return Tensor(); }); });
  const unsigned none_line = __LINE__ + 1;
  const Tensor none = sum(nothing(w * 1));
  says(tape.explain(none, w),
       {"is missing: " + at("custom_gradient", none_line) + " gives no gradient for its input 0"});
  CHECK(equal(tape.gradient(loss, w), x));  // it is not used up
}

TEST_CASE("explain() tells of pauses, and of targets on another branch") {
  const Variable w("w", tensor({1.0, 2.0}));
  GradientTape tape;
  Tensor paused;
  {
    const auto pause = tape.pause();
    paused = sum(w * w);
  }
  const Tensor scores = w * 3, other = w * 2;
  says(tape.explain(paused, w), {"is missing", "The tape was paused for a while."});
  says(tape.explain(other, scores), {"is missing", "one that ends at multiply"});
}

TEST_CASE("a metric that reads the source is no cause, or the last one that is named") {
  const Variable w("w", tensor({1.0, 2.0})), other("other", ones({2}));
  Variable assigned("assigned", ones({2}));
  const Tensor before = w;
  GradientTape tape({.persistent = true});
  argmax(w);
  const std::string metric = at("argmax", __LINE__ - 1);
  assigned.assign(w.value());
  const auto text_of = [&](const Tensor& y, bool possible) {
    const std::string text = tape.explain(y, w);
    INFO(text);
    CHECK((text.find(metric) != text.npos) == possible);
    if (text.find("which has no gradient") != text.npos) says(text, {"perhaps cut at"});
    try {
      tape.gradient(y, w);
      FAIL("it has a gradient");
    } catch (const TapeError& error) {
      const std::string message = error.what();
      CHECK(message.find('\n') <= 200);
      CHECK((message.find(metric) != message.npos) == possible);
    }
    return text;
  };
  const std::string unused = "got a source that no recorded op uses";
  // All that the target depends on is known.
  says(text_of(sum(other), false), {unused});
  says(text_of(sum(square(assigned)), false), {unused});
  const Tensor used = w * 1;
  const std::string end = "got one that ends at " + at("multiply", __LINE__ - 1);
  says(text_of(sum(other), false), {end});
  says(text_of(other, false), {"got a target that is the value of a Variable"});
  // It may depend on the position.
  says(text_of(sum(other * argmax(used)), false), {end + ", perhaps cut at argmax"});
  const std::string unrecorded = "got a target that this tape did not record";
  says(text_of(argmax(w) * 1.0, false), {unrecorded + ", perhaps cut at argmax"});
  says(text_of(tensor(sum(used).item<float>()) * 2, false), {unrecorded + ", perhaps cut at"});
  Tensor paused;
  {
    const auto pause = tape.pause();
    paused = sum(w * 2);
    says(text_of(paused, false), {unrecorded + ", as it is paused"});
  }
  says(text_of(paused, false),
       {unrecorded + ". ", "The tape was paused for a while. It was perhaps cut at argmax"});
}

TEST_CASE("explain() names the op that makes a gradient zero everywhere") {
  const Variable w("w", tensor({1.0, 2.0}));
  GradientTape tape({.persistent = true});
  const Tensor low = w - 10;
  const Tensor off = sum(relu(low) * 3);
  const unsigned line = __LINE__ - 1;
  says(tape.explain(off, w), {"is zero everywhere: it becomes zero at " + at("relu", line) +
                              ", as its result is 0 everywhere"});
  const Tensor scaled = sum(w * zeros({2}));
  says(tape.explain(scaled, w),
       {"it becomes zero at " + at("multiply", __LINE__ - 2), "as its input 1 is 0 everywhere"});
  const Tensor most = sum(maximum(w * 2, 10));
  says(tape.explain(most, w), {"it becomes zero at " + at("maximum", __LINE__ - 1) + "."});
  const Tensor flat = sum(sigmoid(w * 1000));
  says(tape.explain(flat, w), {"it becomes zero at " + at("sigmoid", __LINE__ - 1) + "."});
  const Tensor a = w * 2, same = sum(a) - sum(a);
  says(tape.explain(same, w), {"is zero everywhere", "cancel at " + at("sum", __LINE__ - 1)});
  says(tape.explain(sum(a - a), w), {"it becomes zero at " + at("subtract", __LINE__)});
  const Tensor first = relu(low);
  const Tensor both = sum(first) + sum(relu(low * 2));
  says(tape.explain(both, w), {"relu", "; relu"});
}

TEST_CASE("explain() lists four places at most, and says how many more there are") {
  const Variable w("w", tensor({1.0, 2.0}));
  for (int count = 1; count < 8; ++count) {
    GradientTape tape;
    Tensor loss = tensor(0.0f);
    for (unsigned i = 0; i < static_cast<unsigned>(count); ++i) {
      const CallerScope line(Caller{"explain.cpp", 100 + i}, "line");
      loss = loss + sum(minimum(w, -1));
    }
    const std::string text = tape.explain(loss, w);
    INFO(text);
    for (int i = 0; i < count; ++i)
      CHECK((text.find(at("minimum", static_cast<unsigned>(100 + i))) != text.npos) ==
            (i >= count - 4));  // the last ones come first
    CHECK((text.find("; and ") != text.npos) == (count > 4));
    if (count > 4) CHECK(text.find("; and " + std::to_string(count - 4) + " more.") != text.npos);
  }
}

TEST_CASE("explain() of a tape that ends inside it is an error") {
  const Variable w("w", tensor({1.0, 2.0}));
  auto tape = std::make_unique<GradientTape>();
  const auto ends = custom_gradient([&](const Tensor& a) {
    return std::pair(a * 2, [&](const Tensor& upstream) {
      tape.reset();
      return upstream;
    });
  });
  const Tensor y = sum(ends(w * 1));
  GradientTape* const raw = tape.get();
  CHECK_THROWS_AS(raw->explain(y, w), TapeError);
  CHECK(tape == nullptr);
}

TEST_CASE("explain() names the gradient that makes the first NaN or infinity") {
  const Variable w("w", tensor({4.0, 0.0, 1.0}));
  GradientTape tape({.persistent = true});
  const Tensor safe = w * 2;
  const Tensor root = sqrt(safe);
  const unsigned line = __LINE__ - 1;
  says(tape.explain(sum(root * 3), w),
       {"is not finite: the gradient of " + at("sqrt", line) + " makes inf at [1]"});
  const unsigned log_line = __LINE__ + 1;
  const Tensor branch = sum(where(w > 0, log(w), 0));
  says(tape.explain(branch, w),
       {"the gradient of " + at("log", log_line) + " makes nan at [1]", "where input 0 is 0"});
  // Several uses, of which one is at fault.
  const Tensor all = sum(safe * safe) + sum(root) + sum(exp(safe));
  says(tape.explain(all, w), {at("sqrt", line)});
}

TEST_CASE("explain() of a gradient that is there says how large it is, and its path") {
  const Variable w("w", tensor({1.0, -2.0}));
  GradientTape tape({.persistent = true});
  const Tensor y = relu(w);
  const unsigned line = __LINE__ - 1;
  const Tensor loss = sum(y * 3);
  says(tape.explain(loss, w), {"is there: 2 elements from 0 to 3, 1 of them 0",
                               "Its path: " + at("sum", line + 2) + " < " +
                                   at("multiply", line + 2) + " < " + at("relu", line)});
  says(tape.explain(loss, y), {"float32 (2,) is there", at("sum", line + 2)});
  says(tape.explain(w, w),
       {"is there: 2 elements from 1 to 1, 0 of them 0. The target is the source itself."});
  says(tape.explain(clip(w, 0, 5), w), {"Its path: " + at("clip", __LINE__) + "."});
  // A matrix that is used several times, whose products wait in gradient().
  const Variable m("m", tensor({{0.5f, 0.1f}, {0.2f, 0.3f}}));
  Tensor h = ones({1, 2});
  for (int i = 0; i < 50; ++i) h = tanh(matmul(h, m));
  says(tape.explain(sum(h), m), {"is there: 4 elements", "more."});
  CHECK(tape.gradient(loss, w).defined());
}

TEST_CASE("explain() changes nothing, and refuses what gradient() refuses") {
  const Variable w("w", tensor({1.0, 2.0}));
  GradientTape outer;
  GradientTape tape;
  const Tensor y = sum(w * w * w);
  const auto records = outer.ops().size();
  tape.explain(y, w);
  tape.explain(y, w);
  CHECK(outer.ops().size() == records);
  {
    FiniteScope finite;
    const Tensor root = sum(sqrt(w - 1.0));
    says(tape.explain(root, w), {"is not finite"});
  }
  check_refused<TapeError>([&] { tape.explain(1.0, w); },
                           "target: expected a tensor, got a number");
  check_refused<Error>([&] { tape.explain(Tensor(), w); }, "an undefined Tensor");
  check_refused<Error>([&] { tape.explain(y, Tensor()); }, "source: expected a tensor");
  const Tensor slope = tape.gradient(y, w);
  CHECK(equal(outer.gradient(sum(slope), w), 6 * w.value()));
  check_refused<TapeError>([&] { tape.explain(y, w); }, "explain() after it");
  GradientTape mine;
  std::thread([&] { CHECK_THROWS_AS(mine.explain(w * w, w), TapeError); }).join();
}

TEST_CASE("a traced function that calls explain() runs eagerly") {
  auto traced = trace([&](Tensor x) {
    GradientTape inside;
    inside.watch(x);
    const Tensor z = sum(x * x);
    says(inside.explain(z, x), {"is there"});
    return inside.gradient(z, x);
  });
  for (int i = 0; i < 4; ++i) CHECK(equal(traced(ones({3})), full({3}, 2.0)));
  CHECK(traced.explain().find("explain() of a tape") != std::string::npos);
}

TEST_CASE("memory() lists what a tape keeps, the largest first") {
  const Variable w("w", random::normal({10, 10}));
  const Tensor x = random::normal({100, 10});
  GradientTape tape({.persistent = true});
  CHECK(tape.memory().bytes == 0);
  const Tensor y = matmul(x, w);
  const unsigned line = __LINE__ - 1;
  Tensor z = tanh(y);
  z = tanh(z(range(0, 10)));
  const TapeMemory kept = tape.memory();
  REQUIRE(kept.ops.size() == 3);
  CHECK(kept.bytes == 4000 + 4000 + 400);
  for (const KeptTensors& each : kept.ops) CHECK(each.tensors == 1);
  CHECK(kept.ops[0].op == "matmul");
  CHECK(kept.ops[0].line == line);
  CHECK(kept.ops[1].op == "tanh");
  CHECK(kept.ops[1].bytes == 4000);
  CHECK(kept.ops[2].bytes == 400);
  // A line that runs again and again is one entry; a tensor counts once.
  for (int i = 0; i < 5; ++i) z = z * z;
  CHECK(tape.memory().ops.size() == 4);
  const std::string text = to_string(tape.memory());
  says(text, {"bytes\n", "matmul explain.cpp:" + std::to_string(line)});
  std::ostringstream out;
  out << tape.memory();
  CHECK(out.str() == text);
  GradientTape once;
  const Tensor loss = sum(w * w.value());
  once.gradient(loss, w);
  CHECK(once.memory().ops.empty());
  TapeMemory table;
  table.bytes = 4321;
  table.ops.push_back({"matmul", "a/b/file.cpp", 12, 3, 4321});
  CHECK(to_string(table) ==
        "          4321 bytes\n"
        "          4321      3 matmul file.cpp:12\n");
  std::thread([&] { CHECK_THROWS_AS(tape.memory(), TapeError); }).join();
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
       {"is not finite: the gradient of matmul (explain.cpp:" + line + ") makes inf at [0, 0]"});
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
  CHECK(equal(y, full({4}, 4.0)));
}
}  // namespace reel::tests
