// SPDX-License-Identifier: BSD-3-Clause
// What an error says of a source that has no path to the target.
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
void says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != text.npos);
}
}  // namespace

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
    return error_text([&] { tape.gradient(y, source); });
  };
  const std::string place = "unconnected.cpp:" + std::to_string(line);
  says(error(target, w),
       "source 0 \"w\": expected a path to the target, got one that ends at exp (" + place + ")");
  says(error(target, used), "source 0: expected a path to the target, got one that ends at exp (");
  says(error(target, unused), "a Variable that nothing read while this tape recorded");
  says(error(target, late), "a tensor that this tape does not watch");
  says(error(late, unused), "a Variable that nothing read while this tape recorded");
  says(error(late, late), "a tensor that this tape does not watch");
  says(error(late, x), "a target that this tape did not record");
  says(error(before, w), "a target from before this tape");
  says(error_text([&] { tape.gradient(target, {x, w}); }), "source 1 \"w\"");
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
  says(error_text([&] { tape.gradient(y, x); }), "perhaps cut at reads_in_cpp (unconnected.cpp:");
  CHECK(equal(tape.gradient(sum(z), x), full({2}, 2)));
  CHECK(equal(tape.gradient(sum(z * y), x), full({2}, 12)));  // the cut is no error elsewhere
}

TEST_CASE("the value of a Variable as target: the error says that assignments are not recorded") {
  Variable v("v", tensor({3.0})), w("w", zeros({1}));
  GradientTape tape({.persistent = true});
  w.assign(v * 2);
  const Tensor y = w * 1;
  says(error_text([&] { tape.gradient(w, v); }), "does not record the assignment of a Variable");
  says(error_text([&] { tape.gradient(y, v); }), "one that ends at");
}

TEST_CASE("an unconnected source says why the tape knows nothing of it or of the target") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Variable w("w", tensor({2.0, 1.0}).to(dtype)), count("count", tensor({1, 2}));
    const Tensor x = tensor({3.0, 4.0}).to(dtype), early = w.value(), plain = x * 1;
    const Tensor labels = tensor({0, 1}), flags = tensor({true, false});
    GradientTape tape({.persistent = true});
    const auto check = [&](const Tensor& y, GradientSource source, const char* got,
                           const char* advice) {
      const std::string text = error_text([&] { tape.gradient(y, source); });
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
      says(error_text([&] { both.gradient(tensor(1.0f), read); }),
           "a target that this tape did not record");
  }
  const Variable w("w", ones({2}));
  GradientTape blind({.persistent = true, .watch_variables = false});
  const std::string text = error_text([&] { blind.gradient(sum(w * w), w); });
  says(text, "a Variable that this tape does not watch");
  says(text, "Call watch() of the tape for it");
}

TEST_CASE("errors distinguish unconnected sources of another tape and of this tape") {
  const Variable w("w", tensor({2.0f, 1.0f}));
  const Tensor x = tensor({3.0f, 4.0f}), own = tensor({1.0f, 2.0f});
  GradientTape outer({.persistent = true});
  outer.watch(x);
  GradientTape tape({.persistent = true, .watch_variables = false});
  const Tensor first = x * 2.0f;
  const unsigned line = __LINE__ - 1;
  tape.watch(own);
  says(error_text([&] { tape.gradient(own * own, x); }), "that this tape does not watch");
  const Tensor target = own * w;
  says(error_text([&] { tape.gradient(target, first); }),
       "one that ends at multiply (unconnected.cpp:" + std::to_string(line));
  says(error_text([&] { tape.gradient(target, w); }), "a Variable that this tape does not watch");
  CHECK(equal(outer.gradient(target, w), own));
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
  const std::string text = error_text([&] { tape.gradient(y, unused); });
  says(text, "a Variable that nothing read while this tape recorded");
  CHECK(text.find("cut at") == text.npos);
}
}  // namespace reel::tests
