// SPDX-License-Identifier: BSD-3-Clause
// GradientOptions::on_complete: when it is called, and what its result changes.
#include <stdexcept>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Order = std::vector<std::size_t>;
struct Model {
  Variable first{"first", full({3}, 0.5f)}, last{"last", arange(1, 4).to(float32)};
  Tensor operator()(const Tensor& x) const { return sum(tanh(x * first) * last); }
};
const Tensor x3() { return arange(1, 4).to(float32) / 4; }
}  // namespace

TEST_CASE("each source is completed once, while the backward pass goes on") {
  const Model model;
  for (const bool persistent : {false, true}) {
    GradientTape tape({.persistent = persistent});
    const Tensor x = x3();
    tape.watch(x);
    const Tensor loss = model(x);
    for (int pass = 0; pass < (persistent ? 2 : 1); ++pass) {
      Order order;
      const auto slopes = tape.gradient(loss, {model.first, model.last, x, model.last},
                                        {.on_complete = [&](std::size_t source, Tensor slope) {
                                          order.push_back(source);
                                          return slope * static_cast<float>(source + 1);
                                        }});
      CHECK(
          (order == Order{1, 3, 0, 2} || order == Order{3, 1, 0, 2} || order == Order{1, 3, 2, 0}));
      const Tensor y = tanh(x * 0.5f), dz = (1 - square(y)) * model.last.value();
      CHECK(allclose(slopes[0], dz * x));
      CHECK(allclose(slopes[1], y * 2));
      CHECK(allclose(slopes[2], dz * 0.5f * 3));
      CHECK(allclose(slopes[3], y * 4));
    }
  }
}

TEST_CASE("a source without a gradient is completed by its zeros") {
  const Model model;
  const Variable other("other", ones({2}));
  GradientTape tape;
  const Tensor loss = model(x3());
  Order order;
  const auto slopes = tape.gradient(
      loss, {other, model.last},
      {.unconnected = Unconnected::zero, .on_complete = [&](std::size_t source, Tensor slope) {
         order.push_back(source);
         return slope + 1;
       }});
  CHECK(order == Order{1, 0});
  CHECK(slopes[0].to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("an outer tape records the ops of on_complete") {
  // d/dw of 3 (d/dw w^3)^2 = 3 (3 w^2)^2 is 108 w^3.
  const Variable w("w", full({}, 2.0f));
  GradientTape outer;
  Tensor changed;
  {
    GradientTape inner;
    const Tensor cube = w * w * w;
    changed = inner.gradient(
        cube, {w}, {.on_complete = [](std::size_t, Tensor slope) { return 3 * square(slope); }})[0];
  }
  CHECK(outer.gradient(changed, w).item<float>() == 108 * 8);
}

TEST_CASE("a trace captures the ops of on_complete") {
  const Model model;
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor loss = model(x);
    return tape.gradient(loss, {model.first, model.last},
                         {.on_complete = [](std::size_t source, Tensor slope) {
                           return slope / (1.0f + static_cast<float>(source));
                         }});
  });
  for (int i = 1; i < 5; ++i) {
    const Tensor x = x3() * static_cast<float>(i);
    GradientTape tape;
    const auto expected = tape.gradient(model(x), {model.first, model.last});
    const auto found = step(x);
    CHECK(allclose(found[0], expected[0]));
    CHECK(allclose(found[1], expected[1] / 2));
  }
  CHECK(step.trace_count() == 1);
}

TEST_CASE("an exception of on_complete leaves Variables and a persistent tape as they were") {
  const Model model;
  const std::vector<float> before = model.first.value().to_vector<float>();
  GradientTape tape({.persistent = true}), once;
  const Tensor loss = model(x3());
  const GradientOptions throws{.on_complete = [](std::size_t source, Tensor slope) -> Tensor {
    if (source == 0) throw std::runtime_error("no route");
    return slope;
  }};
  CHECK_THROWS_AS(tape.gradient(loss, {model.first, model.last}, throws), std::runtime_error);
  CHECK_THROWS_AS(once.gradient(loss, {model.first, model.last}, throws), std::runtime_error);
  CHECK(model.first.value().to_vector<float>() == before);
  GradientTape fresh;
  const auto expected = fresh.gradient(model(x3()), {model.first, model.last});
  const auto found = tape.gradient(loss, {model.first, model.last});
  CHECK(found[0].to_vector<float>() == expected[0].to_vector<float>());
  CHECK(found[1].to_vector<float>() == expected[1].to_vector<float>());
  CHECK_THROWS_AS(once.gradient(loss, {model.first}), TapeError);
}

TEST_CASE("on_complete returns a tensor like the gradient") {
  const Model model;
  GradientTape tape({.persistent = true});
  const Tensor loss = model(x3());
  const GradientOptions none{.on_complete = [](std::size_t, const Tensor&) { return Tensor(); }};
  const GradientOptions wide{.on_complete = [](std::size_t, Tensor slope) {
    return slope.reshape({1, 3});
  }};
  const GradientOptions doubled{
      .on_complete = [](std::size_t, Tensor slope) { return slope.to(float64); }};
  check_refused<Error>([&] { tape.gradient(loss, {model.last}, none); }, "on_complete for");
  check_refused<ShapeError>([&] { tape.gradient(loss, {model.last}, wide); }, "(1, 3)");
  check_refused<DTypeError>([&] { tape.gradient(loss, {model.last}, doubled); }, "float64");
}

TEST_CASE("an error in on_complete names its own line") {
  const Model model;
  unsigned line = 0;
  const std::string message = error_text([&] {
    GradientTape tape;
    tape.gradient(model(x3()), {model.first}, {.on_complete = [&](std::size_t, Tensor slope) {
                    line = __LINE__ + 1;
                    return slope + zeros({5});
                  }});
  });
  CHECK(message.find("completion.cpp:" + std::to_string(line)) == 0);
}

TEST_CASE("row gradients arrive as rows, and may be replaced") {
  const Variable table("table", arange(0, 8).to(float32).reshape({4, 2})), w("w", ones({2}));
  GradientTape tape;
  const Tensor loss = sum(lookup(table, tensor({1, 3, 1})) * w);
  Order dense, rows;
  const auto slopes = tape.row_gradients(loss, {table, w},
                                         {.on_complete =
                                              [&](std::size_t source, Tensor slope) {
                                                dense.push_back(source);
                                                return slope;
                                              },
                                          .on_rows_complete =
                                              [&](std::size_t source, RowGradient slope) {
                                                rows.push_back(source);
                                                return RowGradient{slope.values * 10, slope.rows};
                                              }});
  CHECK(dense == Order{1});
  CHECK(rows == Order{0});
  CHECK(slopes[0].rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 3, -1});
  CHECK(slopes[0].values.to_vector<float>() == std::vector<float>{20, 20, 10, 10, 0, 0});
}
}  // namespace reel::tests
