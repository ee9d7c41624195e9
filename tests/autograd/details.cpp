// SPDX-License-Identifier: BSD-3-Clause
// What tapes record, keep and report in rare cases.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const auto twice = custom_gradient([](Tensor a, Tensor b) {
  return std::pair(a + b, [](Tensor up) -> Tensors { return {up, up * 2}; });
});
std::string refusal(const detail::Function<void()>& f) {
  try {
    f();
  } catch (const TapeError& error) {
    return error.what();
  }
  return "nothing was thrown";
}
bool says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
  return text.find(part) != text.npos;
}
}  // namespace

TEST_CASE("a custom gradient leaves a record where a tape follows an argument, and nowhere else") {
  const Tensor x = tensor({1.0f, 2.0f}), y = tensor({3.0f, 4.0f});
  const auto records = [] { return memory_statistics().live_records; };
  const auto before = records();
  const Tensor alone = twice(x, y);
  CHECK(records() == before);
  {
    GradientTape first, second;
    const Tensor constant = twice(x, 2.0);
    CHECK(first.ops().empty());
    CHECK(second.ops().empty());
    CHECK(records() == before);
    second.watch(y);
    const auto watched = records();
    const Tensor z = twice(x, y);
    CHECK(first.ops().empty());
    REQUIRE(second.ops().size() == 2);  // the op a + b, and the whole function
    CHECK(second.ops()[1].name == "custom_gradient");
    CHECK(second.ops()[1].inputs.size() == 2);
    CHECK(records() == watched + 2);
    CHECK(equal(second.gradient(z, y), tensor({2.0f, 2.0f})));
  }
  CHECK(records() == before);
  CHECK(equal(alone, x + y));
}

TEST_CASE("an undefined argument or value of a custom function is refused by its number") {
  const Tensor x = tensor({1.0f, 2.0f});
  check_refused<Error>([&] { twice(x, Tensor()); }, "argument 1: expected a tensor");
  check_refused<Error>([&] { twice(Tensor(), x); }, "argument 0: expected a tensor");
  const auto nothing =
      custom_gradient([](Tensor a) { return std::pair(Tensor(), [a](Tensor up) { return up; }); });
  check_refused<Error>([&] { nothing(x); }, "value: expected a tensor");
}

TEST_CASE("a record made behind gradient() names its own line") {
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

TEST_CASE("results of layers are sources beside what they were computed from") {
  const Tensor x = random::normal({3, 4}), w = random::normal({4, 5}), b = random::normal({5});
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid}) {
    GradientTape tape({.persistent = true});
    for (const Tensor* each : {&x, &w, &b}) tape.watch(*each);
    const Tensor y = dense(x, w, b, activation), z = y * y * 3.0;
    const auto all = tape.gradient(z, {y, x, w, b});
    CHECK(allclose(all[0], 6.0 * y));
    CHECK(equal(all[1], tape.gradient(z, x)));
    CHECK(equal(all[2], tape.gradient(z, w)));
    CHECK(equal(all[3], tape.gradient(z, b)));
  }
  // A scale that is used twice. Its gradients are added, in place or not.
  const Tensor scale = random::normal({4}), shift = random::normal({4});
  const auto loss = [&] {
    return sum(layer_norm(x, scale, shift) * x) + sum(layer_norm(x * x, scale, shift) * x);
  };
  GradientTape tape;
  for (const Tensor* each : {&scale, &shift}) tape.watch(*each);
  const auto found = tape.gradient(loss(), {scale, shift});
  const auto normal = [](const Tensor& v) {
    const Tensor centred = v - mean(v, 1, keepdims);
    return centred / sqrt(mean(square(centred), 1, keepdims) + 1e-5);
  };
  CHECK(allclose(found[0], sum((normal(x) + normal(x * x)) * x, 0), {.rtol = 1e-4, .atol = 1e-5}));
  CHECK(allclose(found[1], 2.0 * sum(x, 0), {.rtol = 1e-5, .atol = 1e-6}));
}

TEST_CASE("a Jacobian of no elements, of numbers and of Variables has the shapes of both") {
  Variable w("w", tensor<double>({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}));
  GradientTape tape({.persistent = true});
  const Tensor none = w(range(0, 0)), number = sum(w.value() * w);
  CHECK(tape.jacobian(none, w).shape() == Shape{0, 3, 2, 3});
  CHECK(tape.jacobian(none, w).dtype() == DType::float64);
  CHECK(equal(tape.jacobian(number, w), 2.0 * w.value()));
  check_refused<TapeError>([&] { tape.jacobian(number, tensor(1.0)); }, "source 0");
  CHECK(equal(tape.jacobian(number, tensor({1.0, 2.0}), Unconnected::zero), zeros({2})));
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

TEST_CASE("an unconnected source says where its path ends") {
  const Variable w("w", tensor({2.0f, 1.0f})), unused("unused", tensor(1.0f));
  const Tensor x = tensor({3.0f, 4.0f}), late = tensor({1.0f, 1.0f});
  GradientTape early({.persistent = true});
  const Tensor before = w * 2.0f;
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor target = x * x, used = w * 3.0f, more = exp(used);
  const unsigned line = __LINE__ - 1;
  const auto error = [&](const Tensor& y, GradientSource source) {
    return refusal([&] { tape.gradient(y, source); });
  };
  const std::string place = "details.cpp:" + std::to_string(line);
  says(error(target, w),
       "source 0 \"w\": expected a path to the target, got one that ends at exp (" + place + ")");
  says(error(target, used), "source 0: expected a path to the target, got one that ends at exp (");
  says(error(target, unused), "a Variable that nothing read while this tape recorded");
  says(error(target, late), "a tensor that this tape does not watch");
  says(error(late, unused), "a Variable that nothing read while this tape recorded");
  says(error(late, late), "a tensor that this tape does not watch");
  says(error(late, x), "a target that this tape did not record");
  says(error(before, w), "a target from before this tape");
  says(refusal([&] { tape.gradient(target, {x, w}); }), "source 1 \"w\"");
  says(error(target, w), "Unconnected::zero");
  // The error names the last stop_gradient() that the source reaches, and the file without its
  // folder.
  const Tensor cut = stop_gradient(Operand(used, Caller{"plain.cpp", 7}));
  const Tensor other = stop_gradient(Operand(x, Caller{"a/b/other.cpp", 8}));
  says(error(sum(cut * x) * 0.0f + target, w),
       "perhaps cut at stop_gradient (plain.cpp:7), which has no gradient");
  says(error(used, x), "perhaps cut at stop_gradient (other.cpp:8), which has no gradient");
  const Tensor again = stop_gradient(Operand(more, Caller{}));
  says(error(target, w), "got one that ends at exp (");  // the target does not depend on `again`
  says(error(target * again, w), "perhaps cut at stop_gradient, which has no gradient");
}

TEST_CASE("an op of a user without a gradient that reads numbers is named as what cut the path") {
  const Tensor x = tensor({3.0, 4.0});
  register_op("reads_in_cpp",
              [](const OpCall& call) { return tensor(call.input(0)[0].item<float>() * 2); });
  register_op("ops_only", [](const OpCall& call) { return call.input(0) * 2; });
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = call_op("reads_in_cpp", {x}), z = call_op("ops_only", {x});
  says(refusal([&] { tape.gradient(y, x); }), "perhaps cut at reads_in_cpp (details.cpp:");
  CHECK(equal(tape.gradient(sum(z), x), full({2}, 2)));
  CHECK(equal(tape.gradient(sum(z * y), x), full({2}, 12)));  // the cut is no error elsewhere
}

TEST_CASE("the value of a Variable as target: the error says that assignments are not recorded") {
  Variable v("v", tensor({3.0})), w("w", zeros({1}));
  GradientTape tape({.persistent = true});
  w.assign(v * 2);
  const Tensor y = w * 1;
  says(refusal([&] { tape.gradient(w, v); }), "does not record the assignment of a Variable");
  says(refusal([&] { tape.gradient(y, v); }), "one that ends at");
}

TEST_CASE("an unconnected source says why the tape knows nothing of it or of the target") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Variable w("w", tensor({2.0, 1.0}).to(dtype)), count("count", tensor({1, 2}));
    const Tensor x = tensor({3.0, 4.0}).to(dtype), early = w.value(), plain = x * 1;
    const Tensor labels = tensor({0, 1}), flags = tensor({true, false});
    GradientTape tape({.persistent = true});
    const auto check = [&](const Tensor& y, GradientSource source, const char* got,
                           const char* advice) {
      const std::string text = refusal([&] { tape.gradient(y, source); });
      says(text, std::string("expected a path to the target, got ") + got);
      says(text, advice);
      CHECK(text.find('\n') <= 200);
    };
    const char* const unread = "a Variable that nothing read while this tape recorded";
    // A value from before the tape, and a tensor that is not watched.
    check(sum(early * early), w, unread, "Read it and compute the target after the tape is made");
    check(sum(x * x), x, "a tensor that this tape does not watch", "Call watch() of the tape");
    tape.watch(x);
    check(plain, x, "a target that this tape did not record", "after the tape is made");
    // Integer sources, for any target.
    const Tensor recorded = sum(x * labels);
    for (const Tensor& target : {recorded, plain}) {
      check(target, labels, "a source of dtype int32", "to(DType::float32)");
      check(target, flags, "a source of dtype bool", "to(DType::float32)");
      check(target, count, "a source of dtype int32", "to(DType::float32)");
    }
    // Ops during a pause.
    Tensor unrecorded, of_other;
    {
      const auto pause = tape.pause();
      unrecorded = sum(x * w);
      GradientTape other;
      other.watch(x);
      of_other = x * 2;
      check(unrecorded, x, "a target that this tape did not record, as it is paused",
            "after the pause has ended");
    }
    check(unrecorded, x, "a target that this tape did not record", "The tape was paused");
    check(unrecorded, w, unread, "outside of pause()");
    check(of_other, x, "a target that only another tape recorded", "while this tape records");
    // Ops on another thread, without a tape and with its own tape.
    Tensor elsewhere, of_thread;
    std::thread([&] {
      elsewhere = sum(w * w);
      GradientTape other;
      of_thread = sum(w * w);
      other.gradient(of_thread, w);
    }).join();
    check(elsewhere, w, unread, "on the thread of the tape");
    check(of_thread, w, "a target from another thread", "on the thread of the tape");
  }
  {  // Two Variables that the tape has read.
    const Variable v("v", ones({2})), u("u", ones({2}));
    GradientTape both({.persistent = true});
    sum(v * u);
    for (const Variable& read : {v, u})
      says(refusal([&] { both.gradient(tensor(1.0f), read); }),
           "a target that this tape did not record");
  }
  const Variable w("w", ones({2}));
  GradientTape blind({.persistent = true, .watch_variables = false});
  const std::string text = refusal([&] { blind.gradient(sum(w * w), w); });
  says(text, "a Variable that this tape does not watch");
  says(text, "Call watch() of the tape for it");
}

TEST_CASE("an unconnected source of another tape is told from one of this tape") {
  const Variable w("w", tensor({2.0f, 1.0f}));
  const Tensor x = tensor({3.0f, 4.0f}), own = tensor({1.0f, 2.0f});
  GradientTape outer({.persistent = true});
  outer.watch(x);
  GradientTape tape({.persistent = true, .watch_variables = false});
  const Tensor first = x * 2.0f;
  const unsigned line = __LINE__ - 1;
  tape.watch(own);
  const Tensor target = own * w;
  says(refusal([&] { tape.gradient(target, first); }),
       "one that ends at multiply (details.cpp:" + std::to_string(line));
  says(refusal([&] { tape.gradient(target, w); }), "a Variable that this tape does not watch");
  CHECK(equal(outer.gradient(target, w), own));
}

TEST_CASE("a spent tape says which call was one too many") {
  const Tensor x = tensor(3.0f);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  const std::string text = refusal([&] { tape.gradient(y, x); });
  says(text, "gradient: tape: expected one call of gradient()");
  says(text, "got another call");
  CHECK(text.find("inside") == text.npos);
  says(refusal([&] { tape.jacobian(y, x); }), "got jacobian() after it");
}

TEST_CASE("layer_norm of equal numbers has gradients of 0, by the kernel and by ops") {
  for (const bool listened : {false, true}) {
    const Tensor x = full({2, 7}, 0.1f), scale = ones({7}), shift = zeros({7});
    GradientTape outer;
    if (listened) outer.watch(scale);
    GradientTape tape;
    for (const Tensor* each : {&x, &scale, &shift}) tape.watch(*each);
    const Tensor y = layer_norm(x, scale, shift);
    CHECK(equal(y, zeros({2, 7})));
    const auto found = tape.gradient(y * arange(0.0, 7.0), {x, scale, shift});
    CHECK(allclose(found[1], zeros({7}), {.atol = 1e-12}));
    CHECK(allclose(found[2], 2.0f * arange(0.0, 7.0)));
  }
}

TEST_CASE("layer_norm of numbers far from 0 has the gradients of the formula, by kernel and ops") {
  constexpr std::size_t n = 7;
  const double x[n] = {0x1p23 + 1,  0x1p23 + 2,  0x1p23 + 4, 0x1p23 + 7,
                       0x1p23 + 12, 0x1p23 + 19, 0x1p23 + 31};
  const double up[n] = {1, -2, 0.5, 3, -1, 0.25, 2}, gain[n] = {1, 2, -1, 0.5, 1, 3, -2};
  constexpr double epsilon = 1e-5;
  double mean = 0, variance = 0, g_mean = 0, product = 0;
  for (const double each : x) mean += each / n;
  for (const double each : x) variance += (each - mean) * (each - mean) / n;
  const double scale = 1 / std::sqrt(variance + epsilon);
  for (std::size_t i = 0; i < n; ++i) {
    g_mean += up[i] * gain[i] / n;
    product += up[i] * gain[i] * (x[i] - mean) * scale / n;
  }
  const auto row = [](const double(&values)[n]) {
    return from_span(std::span<const double>(values), {1, n}).to(DType::float32);
  };
  for (const bool listened : {false, true}) {
    INFO("listened: " << listened);
    const Tensor rows = row(x), scales = row(gain).reshape({n}), shifts = zeros({n});
    GradientTape outer;
    if (listened) outer.watch(scales);
    GradientTape tape;
    for (const Tensor* each : {&rows, &scales}) tape.watch(*each);
    const auto found =
        tape.gradient(layer_norm(rows, scales, shifts, epsilon) * row(up), {rows, scales});
    for (std::size_t i = 0; i < n; ++i) {
      const double place = (x[i] - mean) * scale;
      const auto at = static_cast<std::int64_t>(i);
      CHECK(std::abs(found[0](0, at).item<float>() -
                     scale * (up[i] * gain[i] - g_mean - place * product)) < 1e-6);
      CHECK(std::abs(found[1](at).item<float>() - up[i] * place) < 1e-5);
    }
  }
}
}  // namespace reel::tests
