// SPDX-License-Identifier: BSD-3-Clause
// C++ numbers in traces: part of the signature, or live.
#include <string>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
TEST_CASE("a live number takes the other operand's dtype") {
  const Live<double> rate{0.5};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = full({3}, 3.0f).to(dtype);
    CHECK((x * rate).dtype() == dtype);
    CHECK((rate * x).dtype() == dtype);
    CHECK((x * (rate * 2 + 1)).dtype() == dtype);
    CHECK((x * (1 - rate) / rate).dtype() == dtype);
    CHECK((x * -rate).dtype() == dtype);
    CHECK((x * Tensor(rate)).dtype() == dtype);
    CHECK(equal(x * rate, x * 0.5));
    CHECK(equal(x * (rate * 2 + 1), x * 2));
    CHECK(equal(x > rate, x > 0.5));
  }
  const Tensor whole = arange(0, 3);
  CHECK((whole * Live<std::int64_t>(2)).dtype() == (whole * 2).dtype());
  CHECK((whole * rate).dtype() == (whole * 0.5).dtype());
  CHECK((whole.to(DType::boolean) + Live<std::int64_t>(2)).dtype() ==
        (whole.to(DType::boolean) + std::int64_t{2}).dtype());
  CHECK((rate + rate).dtype() == DType::float64);
  Variable w("w", zeros({3}));
  w.assign(rate);
  w.assign_add(Tensor(rate));
  CHECK(equal(w, ones({3})));
  CHECK_THROWS_AS(w.assign(full({3}, 1.0, {.dtype = DType::float64})), DTypeError);
}

TEST_CASE("a live integer beside narrower integers does not wrap around") {
  const Tensor bytes = tensor({5, 200}).to(DType::uint8), words = tensor({5, 200});
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK((bytes + live(300)).to_vector<int>() == std::vector<int>{305, 500});
  CHECK((bytes + live(-1)).to_vector<int>() == std::vector<int>{4, 199});
  CHECK((words + live(large)).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{large + 5, large + 200});
  CHECK(where(tensor({false, true}), bytes, live(-1)).to_vector<int>() ==
        std::vector<int>{-1, 200});
  CHECK((words < live(large)).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK((words + live(1)).dtype() == DType::int32);
  const auto add = trace([](Tensor x, Tensor y) { return x + y; });
  for (const std::int64_t y : {large, large + 1, -large, std::int64_t{7}})
    CHECK(add(words, live(y))[0].item<std::int64_t>() == y + 5);
  Variable count("count", words);
  CHECK_THROWS_AS(count.assign_add(Tensor(live(large))), DTypeError);
  count.assign_add(Tensor(live(2)));
  CHECK(count.value()[0].item<int>() == 7);
}

TEST_CASE("a live number is compared as a C++ number is") {
  const Tensor x = tensor({0.1f, 0.2f});
  const auto check = [&](const auto& number) {
    const Tensor same = x == number, most = x <= number, more = number < x;
    CHECK(same.to_vector<bool>() == std::vector<bool>{true, false});
    CHECK(most.to_vector<bool>() == std::vector<bool>{true, false});
    CHECK(more.to_vector<bool>() == std::vector<bool>{false, true});
    CHECK(equal(x[0], number));
  };
  check(0.1);
  check(live(0.1));
  check(live(0.1f));
  CHECK((tensor<double>({0.1}) == live(0.1f)).to_vector<bool>() == std::vector<bool>{false});
}

TEST_CASE("a captured live number is read anew") {
  Live<double> rate{0.1};
  Variable w("w", zeros({3}));
  const auto step = trace([&](Tensor x) {
    w.assign_sub(x * rate);
    return x * rate + (rate * 2);
  });
  const auto decay = trace([&] { rate = rate.value() * 0.5; });
  for (int i = 0; i < 40; ++i) {
    if (i % 3 == 0) rate = 1.0 / (i + 1);
    const double now = rate.value();
    const Tensor x = full({3}, static_cast<float>(i)), got = step(x);
    CHECK(got.dtype() == DType::float32);
    CHECK(allclose(got, x * now + 2 * now));
  }
  CHECK(step.trace_count() == 1);
  CHECK(step.explain().find("agerly") == std::string::npos);
  Live<double> same = rate;
  same = 8;
  for (int i = 0; i < 4; ++i) decay();
  CHECK(rate.value() == 0.5);
  CHECK((ones({3}) * rate).dtype() == DType::float32);
}

TEST_CASE("a live argument is a tensor, and one trace serves all values") {
  const auto step = trace([](Tensor x, Tensor rate) { return x * rate; });
  for (int i = 0; i < 40; ++i) {
    const Tensor got = step(ones({3}), live(0.25 * i));
    CHECK(got.dtype() == DType::float32);
    CHECK(got[0].item<float>() == 0.25f * static_cast<float>(i));
  }
  CHECK(step.trace_count() == 1);
  CHECK(step(ones({3}), full({}, 0.5, {.dtype = DType::float64})).dtype() == DType::float64);
  const auto choose =
      trace([](Tensor x, Tensor rate) { return rate.item<double>() > 0.5 ? x * 2 : x * rate; });
  for (int i = 0; i < 40; ++i) {
    const double rate = 0.25 * (i % 4);
    CHECK(choose(ones({3}), live(rate))[0].item<float>() ==
          (rate > 0.5 ? 2.0f : static_cast<float>(rate)));
  }
  CHECK(choose.trace_count() == 4);
}

TEST_CASE("explain shows plain arguments") {
  enum class Kind { small, large };
  const auto f = trace([](Tensor x, double rate, bool, std::string, Shape shape, Kind,
                          std::vector<Tensor>) { return broadcast_to(x * rate, shape); });
  f(ones({3}), 0.25, true, "mean", {2, 3}, Kind::large, {ones({4})});
  INFO(f.explain());
  CHECK(f.explain().find("(float32(3,), 0.25, 1, \"mean\", (2, 3), 1, float32(4,)), training") !=
        std::string::npos);
}

TEST_CASE("eight signatures that differ in one number only are worth a warning") {
  const auto f = trace([](Tensor x, double rate, int times) { return x * rate * times; });
  const auto warned = [&](int from, int to, auto rate, auto times) {
    return on_stderr([&] {
      for (int i = from; i < to; ++i) f(ones({3}), rate(i), times(i));
    });
  };
  const auto same = [](int) { return 1; };
  CHECK(warned(
            0, 7, [](int i) { return 0.1 * i; }, same) == "");
  CHECK(warned(
            0, 7, [](int i) { return 0.5 + i; }, [](int i) { return i + 2; }) == "");
  const std::string said = warned(
      7, 9, [](int i) { return 0.1 * i; }, same);
  INFO(said);
  CHECK(said.find("numbers.cpp:") != std::string::npos);
  CHECK(said.find("argument 1") != std::string::npos);
  CHECK(said.find("live(number)") != std::string::npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

TEST_CASE("a warning of numbers names the argument, also the first") {
  const auto f = trace([](double rate, Tensor x) { return x * rate; });
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 12; ++i) f(0.5 * i, ones({3}));
  });
  INFO(said);
  CHECK(
      said.find("8 signatures of a traced function differ in argument 0 only: pass live(number)") !=
      std::string::npos);
}
}  // namespace reel::tests
