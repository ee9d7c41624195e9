// SPDX-License-Identifier: BSD-3-Clause
// Prompts inside of a function of batched(), and in replays.
#include <thread>

#include "debug/user.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// What a new thread prints whose user types these lines.
template <class F>
std::string session(const std::string& lines, const F& f) {
  const User user(lines);
  const CaughtCout shown;
  std::thread(f).join();
  return shown.text();
}
}  // namespace

TEST_CASE("a prompt in a function of batched() shows what its examples have computed") {
  for (const bool watched_before : {false, true}) {
    const Variable w("w", ones({3}));
    const std::vector<Tensor> examples = {ones({3}), ones({3}) * 2, ones({3}) * 3};
    std::vector<Tensor> results;
    int ended = 0;
    const std::string text =
        session(std::string(watched_before ? "cont\n" : "") +
                    "info\nprint multiply\neval 1 + 1\nrun to tanh\nop\nfrom tanh\n"
                    "print tanh\ncont\n",
                [&] {
                  if (watched_before) debug::cli();
                  results = batched(examples, [&](Tensor x) {
                    const Tensor y = x * w;
                    if (max(x).item<float>() == 2) debug::cli();
                    const Tensor z = tanh(y * 0.25);
                    ++ended;
                    return z;
                  });
                });
    INFO(text);
    CHECK(has(text, "stopped: debug::cli() at prompts.cpp:"));
    CHECK(has(text, "(reel) float32 (2, 3)\n") == watched_before);  // of the others, which go on
    CHECK(has(text, "(reel) 2\n"));
    CHECK(has(text, "stopped: until tanh"));
    CHECK(has(text, "tanh at prompts.cpp:"));
    CHECK(ended == 3);
    REQUIRE(results.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(bool(all(results[i] == tanh(examples[i] * 0.25))));
  }
}

TEST_CASE("a prompt at an op of a function of batched()") {
  const Variable w("w", ones({3}));
  const std::vector<Tensor> examples = {ones({3}), ones({3}) * 2, ones({3}) * 3};
  std::vector<Tensor> results;
  const std::string text =
      session("run to tanh\nop\nrun to exp\nprint exp\nfrom exp 2\ncont\n", [&] {
        debug::cli();
        results = batched(examples, [&](Tensor x) {
          const Tensor own = tanh(x);  // at once, on the fiber
          return exp(own * w);
        });
      });
  INFO(text);
  CHECK(has(text, "stopped: until tanh"));
  CHECK(has(text, "tanh at prompts.cpp:"));
  CHECK(has(text, "stopped: until exp"));
  CHECK(has(text, "exp float32 ("));
  REQUIRE(results.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(bool(all(results[i] == exp(tanh(examples[i]) * w))));
}

TEST_CASE("why says how far a backward pass has come") {
  const Variable w("w", ones({3}));
  const std::string text =
      session("run\nrun to gradient of exp\nwhy sum w\nrun 1\nlook -1\nwhy sum w\ncont\n", [&] {
        debug::cli();
        for (int i = 0; i < 4; ++i) {
          GradientTape tape;
          Tensor loss = sum(exp(tanh(w * 2)));
          w.assign_sub(0.1 * tape.gradient(loss, w));
        }
      });
  INFO(text);
  CHECK(has(text, "The backward pass is not there yet: it has reached a gradient with the norm "));
  CHECK(has(text, "The gradient is there: its norm is "));
}

TEST_CASE("a prompt in a replay shows its graph") {
  const Variable w("w", ones({3}));
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    Tensor loss = sum(tanh(x * w));
    w.assign_sub(0.1 * tape.gradient(loss, w));
    return loss;
  });
  for (int i = 0; i < 3; ++i) step(ones({3}));
  const std::string text = session(
      "run\nrun to gradient of tanh\nfrom sum 3\ntensors\ndraw\n"
      "set #1 = 0\ncont\n",
      [&] {
        debug::cli();
        for (int i = 0; i < 3; ++i) step(ones({3}));
      });
  INFO(text);
  CHECK(has(text, "stopped: step 1"));
  CHECK(has(text, "stopped: until gradient of tanh"));
  CHECK(has(text, "sum float32 () at prompts.cpp:"));
  CHECK(has(text, "tanh float32 (3,) at prompts.cpp:"));
  CHECK(has(text, "<svg "));
}
}  // namespace reel::tests
