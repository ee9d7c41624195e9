// SPDX-License-Identifier: BSD-3-Clause
// What may be on the left of `=`: handles, but not the result of an index or an op.
#include <tuple>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
template <class X, class Y>
concept Assigns = requires(X&& x, Y&& y) {
  std::forward<X>(x) = std::forward<Y>(y);
};
template <class X>
concept AssignsAny = Assigns<X, Tensor&> || Assigns<X, const Tensor&> || Assigns<X, Tensor> ||
    Assigns<X, Variable&> || Assigns<X, VariableSlice&> || Assigns<X, VariableSlice> ||
    Assigns<X, float> || Assigns<X, int> || requires(X&& x) {
  std::forward<X>(x) = {};
};
template <class X>
concept ChangesBy = requires(X&& x, Tensor& y) {
  std::forward<X>(x) += y;
}
|| requires(X&& x, Tensor& y) { std::forward<X>(x) -= y; }
|| requires(X&& x) { std::forward<X>(x) *= 2; }
|| requires(X&& x) { std::forward<X>(x) /= 2.0f; };

template <class T>
T&& made();  // an rvalue, or an lvalue of T&
#define REEL_RVALUE(expression)                       \
  static_assert(!AssignsAny<decltype((expression))>); \
  static_assert(!ChangesBy<decltype((expression))>)

using X = Tensor&;
using W = Variable&;
REEL_RVALUE(made<X>()(0));
REEL_RVALUE(made<X>()[0]);
REEL_RVALUE(made<X>()[all]);
REEL_RVALUE(made<X>()(made<X>()));
REEL_RVALUE(made<X>()[made<X>()]);
REEL_RVALUE(made<X>()(newaxis, range(0, 2)));
REEL_RVALUE(made<X>()(0, 0, 0, 0, 0, 0, 0, 0));
REEL_RVALUE(made<X>()(0)(0));
REEL_RVALUE(made<X>().reshape({2}));
REEL_RVALUE(made<X>().to(DType::float64));
REEL_RVALUE(made<X>() + made<X>());
REEL_RVALUE(transpose(made<X>()));
REEL_RVALUE(split(made<X>(), 2)[0](0));
REEL_RVALUE(std::move(made<X>()));
REEL_RVALUE(Tensor());
REEL_RVALUE(std::as_const(made<X>()));
REEL_RVALUE(lstm_gates(made<X>(), made<X>()).h);
REEL_RVALUE(made<W>().value());
REEL_RVALUE(made<W>().value()(0));
REEL_RVALUE(made<W>()(0));
REEL_RVALUE(made<W>()[0]);
REEL_RVALUE(made<W>()(range(0, 2), all));
REEL_RVALUE(made<W>()(0)(0));
REEL_RVALUE(made<W>().clone());
REEL_RVALUE(made<X>().values<float>()[0]);
#undef REEL_RVALUE

static_assert(Assigns<Tensor&, Tensor&> && Assigns<Tensor&, Tensor> && Assigns<Tensor&, Variable&>);
static_assert(Assigns<Tensor&, VariableSlice> && ChangesBy<Tensor&>);
static_assert(Assigns<Variable&, Variable&> && Assigns<Variable&, Variable>);
static_assert(!Assigns<Variable&, Tensor&> && !Assigns<Variable&, float> && !ChangesBy<Variable&>);
// A named slice accepts another slice, but no tensor.
static_assert(Assigns<VariableSlice&, VariableSlice&> && Assigns<VariableSlice&, VariableSlice>);
static_assert(!Assigns<VariableSlice&, Tensor&> && !Assigns<VariableSlice&, Variable&>);
static_assert(!ChangesBy<VariableSlice&>);
}  // namespace

TEST_CASE("a slice stays what it is where its assignment fails, and may be its own value") {
  for (const DType dtype : {DType::float32, DType::float64, DType::int64}) {
    Variable w("w", arange(0, 6).to(dtype).reshape({2, 3}));
    auto slice = w(all, range(1, 3));
    const auto values = [&] { return slice.to(DType::float64).to_vector<double>(); };
    using Values = std::vector<double>;
    CHECK_THROWS_AS(slice.assign(ones({5}).to(dtype)), ShapeError);
    CHECK_THROWS_AS(slice.assign_add(Tensor()), Error);
    CHECK(values() == Values{1, 2, 4, 5});
    slice.assign_add(slice);
    CHECK(values() == Values{2, 4, 8, 10});
    slice.assign(slice);
    slice.assign_sub(Tensor(slice));
    CHECK(values() == Values{0, 0, 0, 0});
    CHECK(w.value().to(DType::float64).to_vector<double>() == Values{0, 0, 0, 3, 0, 0});
  }
}

TEST_CASE("handles that have a name are assigned, and slices of Variables are written") {
  Tensor x = tensor({1.0f, 2.0f, 3.0f});
  const Tensor y = x;
  x = x(range(0, 2));
  x += 1;
  CHECK(x.to_vector<float>() == std::vector<float>{2, 3});
  CHECK(y.to_vector<float>() == std::vector<float>{1, 2, 3});
  std::vector<Tensor> list(2);
  list[0] = y;
  std::tie(list[1], x) = std::pair(x, list[0]);
  CHECK(list[1].size() == 2);
  CHECK(equal(x, y));

  Variable w("w", zeros({2, 3}));
  w(0).assign(y);
  w[1].assign_add(1);
  w(all, 2).assign_sub(tensor({1.0f, 2.0f}));
  CHECK(w.value().to_vector<float>() == std::vector<float>{1, 2, 2, 1, 1, -1});
  VariableSlice slice = w(0);
  slice = w(1);
  slice.assign(5);
  CHECK(slice.to_vector<float>() == std::vector<float>{5, 5, 5});
  CHECK(w.value().to_vector<float>() == std::vector<float>{1, 2, 2, 5, 5, 5});
  Variable other = w.clone();
  other = w;
  CHECK(other.same_cell(w));
}

TEST_CASE("a number fills a Variable and a tensor of rank 0 does not, eagerly and traced") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  Variable v("v", zeros({2, 3}, {.dtype = dtype}));
  const auto fill = [&](Tensor x, Tensor rate) {
    v.assign(rate * 2);
    v.assign_add(rate);
    v(1).assign_sub(rate);
    return x * v;
  };
  const auto fills_with_tensor = [&](Tensor x) {
    v.assign(sum(x));
    return x;
  };
  const auto fills_part = [&](Tensor x) {
    v(1).assign(sum(x));
    return x;
  };
  const Tensor x = ones({2, 3}, {.dtype = dtype});
  const auto traced = trace(fill);
  const auto traced_tensor = trace(fills_with_tensor), traced_part = trace(fills_part);
  for (int call = 1; call < 6; ++call) {
    const double number = 0.25 * call;
    const Tensor expected = x * tensor({{3 * number}, {2 * number}}).to(dtype);
    CHECK(equal(fill(x, live(number)), expected));
    v.assign(0);
    CHECK(equal(traced(x, live(number)), expected));
    CHECK(equal(v, expected));
    CHECK_THROWS_AS(fills_with_tensor(x), ShapeError);
    CHECK_THROWS_AS(traced_tensor(x), ShapeError);
    CHECK_THROWS_AS(fills_part(x), ShapeError);
    CHECK_THROWS_AS(traced_part(x), ShapeError);
    CHECK_THROWS_AS(fill(x, tensor(number)), ShapeError);
    CHECK_THROWS_AS(traced(x, tensor(number)), ShapeError);
    CHECK(equal(v, expected));
  }
}

TEST_CASE("an axis of length 1 with any stride belongs to a view that is assigned") {
  Variable w("w", tensor({1.0f, 2.0f, 3.0f}));
  w.view([](const Tensor& x) { return broadcast_to(x, {1, 3}); }).assign_add(1);
  w.view([](const Tensor& x) { return expand_dims(x, -1); }).assign_add(1);
  w.view([](const Tensor& x) { return expand_dims(x(range(1, 2)), 0); }).assign_add(1);
  CHECK(equal(w, tensor({3.0f, 5.0f, 5.0f})));
  check_refused<Error>(
      [&] { w.view([](const Tensor& x) {
               return broadcast_to(x, {2, 3});
             }).assign(1); },
      "view: f: expected a view of the Variable's value in which each element occurs once");
}

TEST_CASE("a Live number that has axes does not give a slice another shape", "[cpu]") {
  Variable w("w", ones({3}));
  const Live<float> number{2.0f};
  const Tensor x = reshape(Tensor(number), {1, 1});
  check_refused<ShapeError>([&] { w(range(0, 2)).assign_add(x); }, "got (1, ");
  CHECK(equal(w, ones({3})));
}
}  // namespace reel::tests
