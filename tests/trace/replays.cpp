// SPDX-License-Identifier: BSD-3-Clause
// A replay gives the same results as the function: updates, parts of values, values that the
// function asks for, and long rows.
#include <cmath>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("an update in place waits where a later one of the same step reads the old value") {
  const auto run = [](const auto& wrap) {
    std::vector<Variable> both = {Variable("w", ones({3})), Variable("u", zeros({3}))};
    const auto f = wrap([&] {
      sgd_update(both, std::vector<Tensor>{both[0].value() * 1.0f, both[0]}, 0.5f);
    });
    for (int i = 0; i < 5; ++i) f();
    return std::pair(both[0].value(), both[1].value());
  };
  const auto eager = run([](auto f) { return f; });
  const auto traced = run([](auto f) { return trace(f, {.verify = 0}); });
  CHECK(equal(traced.first, eager.first));
  CHECK(equal(traced.second, eager.second));
}

TEST_CASE("random numbers are the same where a replay has other places for its steps") {
  Variable w("w", zeros({3}));
  const Tensor places = tensor({2, 0});
  const auto f = [=](Tensor x) mutable {
    w.assign_add(x);
    const Tensor first = random::uniform({5}), second = random::normal({3}),
                 third = random::uniform({2});
    return std::vector<Tensor>{first, take(second, places, 0), third, w + first(range(0, 3))};
  };
  const auto run = [&](auto g) {
    seed(3);
    w.assign(0.0f);
    std::vector<Tensor> all;
    for (int i = 0; i < 4; ++i)
      for (const Tensor& each : g(ones({3}))) all.push_back(each);
    return all;
  };
  const std::vector<Tensor> got = run(trace(f, {.verify = 0})), expected = run(f);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(equal(got[i], expected[i]));
}

TEST_CASE("an update that fails in a replay and is caught leaves what a run leaves", "[cpu]") {
  Variable v("v", zeros({3})), w("w", zeros({3})), rate("rate", tensor<double>(0.5));
  const auto f = trace(
      [&](Tensor x) {
        try {
          sgd_update(v, x, tensor<double>(1.0));
          sgd_update(w, x, rate);
        } catch (const Error&) {
          v.assign(x * 3.0f);
        }
        return v + w;
      },
      {.verify = 0});
  for (int i = 0; i < 4; ++i) f(ones({3}));
  CHECK(equal(v, full({3}, -4.0f)));
  rate.assign(INFINITY);
  CHECK(equal(f(ones({3})), full({3}, 1.0f)));
  CHECK(equal(v, full({3}, 3.0f)));
}

TEST_CASE("parts of values that passes make are read where they are") {
  const auto f = [](Tensor x) {
    const Tensor y = x * 2.0f;
    return std::vector<Tensor>{sum(y(2)), sum(y(range(1, 3), range(2, 5)), 0), y(1) + 1.0f};
  };
  const auto traced = trace(f, {.verify = 0});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({4, 6});
    const std::vector<Tensor> got = traced(x), expected = f(x);
    for (std::size_t k = 0; k < 3; ++k) CHECK(equal(got[k], expected[k]));
  }
}

TEST_CASE("a number of any dtype is a truth, and answers as one") {
  static int runs = 0;
  const auto traced = trace(
      [](Tensor n) {
        ++runs;
        return n ? n * 2.0f : n + 1.0f;
      },
      {.verify = 0});
  for (const float n : {3.0f, 0.0f, 5.0f, -1.0f, 0.0f, 7.0f, -0.0f})
    CHECK(traced(tensor(n)).item<float>() == (n != 0 ? 2 * n : 1));
  CHECK(runs == 2);
  CHECK(traced.trace_count() == 2);
}

TEST_CASE("results that are parts have their own shape in every replay") {
  const auto traced = trace(
      [](Tensor x) {
        const Tensor y = x * 2.0f;
        return std::vector<Tensor>{y, y(1), transpose(y), x(0, range(1, 3))};
      },
      {.verify = 0});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({3, 4});
    const std::vector<Tensor> got = traced(x);
    CHECK(equal(got[1], x(1) * 2.0f));
    CHECK(equal(got[2], transpose(x) * 2.0f));
    CHECK(equal(got[3], x(0, range(1, 3))));
  }
}

TEST_CASE("long rows of passes are computed by all threads, to their ends") {
  const auto f = [](Tensor x) { return tanh(x * 2.0f + 1.0f) * x; };
  const auto traced = trace(f, {.verify = 0});
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const std::int64_t length : {65'535, 65'536, 300'007}) {
      for (int i = 0; i < 3; ++i) {
        const Tensor x = random::normal({length});
        CHECK(equal(traced(x), f(x)));
      }
    }
  }
  set_num_threads(before);
}
}  // namespace reel::tests
