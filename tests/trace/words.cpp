// SPDX-License-Identifier: BSD-3-Clause
// Changes of memory of unknown type, shown as numbers.
#include "lib/trace/words.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// A word with `value` at byte `at`. The other bytes are those of `beside`.
template <class T>
std::uint64_t word_of(T value, std::size_t at = 0, std::uint64_t beside = 0) {
  std::memcpy(reinterpret_cast<std::byte*>(&beside) + at, &value, sizeof value);
  return beside;
}
}  // namespace

TEST_CASE("a word that changed is read as the number that it most likely is") {
  using tracing::change_text;
  const auto check = [](auto before, auto now, const std::string& text) {
    CHECK(change_text(word_of(before), word_of(now)) == text);
    if constexpr (sizeof before == 4)
      for (const std::uint64_t beside : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
        // a float next to 0 looks like a double
        if (beside || std::is_integral_v<decltype(before)>)
          CHECK(change_text(word_of(before, 4, beside), word_of(now, 4, beside)) == text);
        CHECK(change_text(word_of(before, 0, beside << 32), word_of(now, 0, beside << 32)) == text);
      }
  };
  check(2, 3, "was 2 and is 3");
  check(0, -1, "was 0 and is -1");
  check(255, 256, "was 255 and is 256");
  check(1000000, 1000001, "was 1000000 and is 1000001");
  check(false, true, "was 0 and is 1");
  check('a', 'b', "was 97 and is 98");
  check(1.0f, 2.0f, "was 1 and is 2");
  check(0.1f, 0.25f, "was 0.1 and is 0.25");
  check(0.0f, -3.5f, "was 0 and is -3.5");
  check(1.0, 2.0, "was 1 and is 2");
  check(0.1, 0.05, "was 0.1 and is 0.05");
  check(0.0, 1e-3, "was 0 and is 0.001");
  check(std::int64_t{5}, std::int64_t{-5}, "was 5 and is -5");
  // also changed as two ints
  check(std::int64_t{1} << 40, (std::int64_t{1} << 40) + 1, "was 0 and is 1");
  // Two floats changed: the first is shown.
  CHECK(change_text(word_of(2.0f, 4, word_of(1.0f)), word_of(3.0f, 4, word_of(2.0f))) ==
        "was 1 and is 2");
}

TEST_CASE("a function that keeps state is told in words which, and then which byte") {
  if (sanitized) return;
  struct Model {
    double rate = 0.5;
    int steps = 0, padding = 0;  // a word as a whole is compared
  };
  int first = 0;
  Model model;
  const auto state_of = [](auto f) {
    const auto traced = trace(f);
    const std::string said = on_stderr([&] {
      for (int i = 0; i < 6; ++i) traced(ones({2}));
    });
    const std::string text = traced.explain(), start = "it changes its own state: ";
    const std::size_t at = text.find("runs eagerly: " + start);
    INFO(text);
    REQUIRE(at != text.npos);
    const std::size_t end = text.find('\n', at);
    const std::string words = text.substr(at + 14, end - at - 14);
    CHECK(text.find("    byte ") == end + 1);
    CHECK(said.find(words + "\n") != said.npos);
    CHECK(said.find("0x") == said.npos);
    CHECK(words.size() <= 200);
    const std::string advice = "; keep it in a Variable, or pass it as an argument";
    CHECK(words.ends_with(advice));
    return words.substr(start.size(), words.size() - start.size() - advice.size());
  };
  CHECK(state_of([&first, &model](Tensor x) { return x * (model.rate + ++model.steps + first); }) ==
        "what its captured pointer or reference number 2 leads to (8 bytes in) was 2 and is 3");
  CHECK(state_of([&first, &model](Tensor x) { return x * (model.rate *= 0.5) + first; }) ==
        "what its captured pointer or reference number 2 leads to (0 bytes in) was 0.125 and is "
        "0.0625");
  CHECK(state_of([n = 7.0f](Tensor x) mutable { return x * ++n; }) ==
        "a value that it holds (0 bytes in) was 9 and is 10");
}
}  // namespace reel::tests
