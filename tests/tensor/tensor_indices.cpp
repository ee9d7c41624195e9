// SPDX-License-Identifier: BSD-3-Clause
// Tensors of positions and masks among the indices, and lists of indices.
#include <cstdint>
#include <vector>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Whole = std::vector<std::int64_t>;
struct Case {
  const char* numpy;
  Tensor picked;
  Shape shape;
  Whole elements;
};
}  // namespace

TEST_CASE("several tensors and masks pick what NumPy's pick") {
  // The shapes and elements come from NumPy 2.4.
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  const Tensor i = tensor({1, 0, -1}), k = tensor({3, -4, 1}), a = tensor({2, 0, 1});
  const Tensor j = tensor({{0}, {1}}), m = x % 3 == 0, r = tensor({true, false, true});
  const Tensor t = tensor({{true, false, true}, {false, true, true}});
  const Case cases[] = {
      {"x[i,a]", x(i, a), {3, 4}, {20, 21, 22, 23, 0, 1, 2, 3, 16, 17, 18, 19}},
      {"x[i,1,k]", x(i, 1, k), {3}, {19, 4, 17}},
      {"x[0,a,k]", x(0, a, k), {3}, {11, 0, 5}},
      {"x[:,a,k]", x(all, a, k), {2, 3}, {11, 0, 5, 23, 12, 17}},
      {"x[i,:,k]", x(i, all, k), {3, 3}, {15, 19, 23, 0, 4, 8, 13, 17, 21}},
      {"x[i,None,a]", x(i, newaxis, a), {3, 1, 4}, {20, 21, 22, 23, 0, 1, 2, 3, 16, 17, 18, 19}},
      {"x[i,...,k]", x(i, ellipsis, k), {3, 3}, {15, 19, 23, 0, 4, 8, 13, 17, 21}},
      {"x[:,a,...,k]", x(all, a, ellipsis, k), {3, 2}, {11, 23, 0, 12, 5, 17}},
      {"x[j,a]", x(j, a), {2, 3, 4}, {8,  9,  10, 11, 0,  1,  2,  3,  4,  5,  6,  7,
                                      20, 21, 22, 23, 12, 13, 14, 15, 16, 17, 18, 19}},
      {"x[j,a,k]", x(j, a, k), {2, 3}, {11, 0, 5, 23, 12, 17}},
      {"x[...,a,k]", x(ellipsis, a, k), {2, 3}, {11, 0, 5, 23, 12, 17}},
      {"x[i,a,1:3]", x(i, a, range(1, 3)), {3, 2}, {21, 22, 1, 2, 17, 18}},
      {"x[i,::-1,0]", x(i, range({}, {}, -1), 0), {3, 3}, {20, 16, 12, 8, 4, 0, 20, 16, 12}},
      {"x[m]", x(m), {8}, {0, 3, 6, 9, 12, 15, 18, 21}},
      {"x[:,r]", x(all, r), {2, 2, 4}, {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23}},
      {"x[t]", x(t), {4, 4}, {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[t,1]", x(t, 1), {4}, {1, 9, 17, 21}},
      {"x[t,1:3]", x(t, range(1, 3)), {4, 2}, {1, 2, 9, 10, 17, 18, 21, 22}},
      {"x[i[:2],r]", x(i(range(0, 2)), r), {2, 4}, {12, 13, 14, 15, 8, 9, 10, 11}},
      {"x[i[:1],:,m[0,0]]", x(i(range(0, 1)), all, m(0, 0)), {2, 3}, {12, 16, 20, 15, 19, 23}},
      {"x[:,r,k[:2]]", x(all, r, k(range(0, 2))), {2, 2}, {3, 8, 15, 20}},
      {"x[:,0,m[0,0]]", x(all, 0, m(0, 0)), {2, 2}, {0, 3, 12, 15}},
      {"x[~r[:2]]",
       x(~r(range(0, 2))),
       {1, 3, 4},
       {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
  };
  for (const Case& one : cases) {
    INFO(one.numpy);
    CHECK(one.picked.shape() == one.shape);
    CHECK(one.picked.to_vector<std::int64_t>() == one.elements);
  }
  // Here NumPy counts the number among the tensors, and moves its axis.
  CHECK(equal(x(0, all, m(0, 0)), x(0)(all, m(0, 0))));
  CHECK(x(0, all, m(0, 0)).to_vector<std::int64_t>() == Whole{0, 3, 4, 7, 8, 11});
}

TEST_CASE("tensors of every integer dtype and layout pick pairs") {
  const Tensor x = numbers({5, 7, 2});
  const Tensor rows = arange(0, 20) * 3 % 5, columns = arange(0, 20) * 5 % 7 - 7;
  const std::vector<double> values = x.to_vector<double>();
  std::vector<double> expected;
  for (int n = 0; n < 20; ++n)
    for (int c = 0; c < 2; ++c)
      expected.push_back(values[static_cast<std::size_t>((n * 3 % 5 * 7 + n * 5 % 7) * 2 + c)]);
  for (const DType dtype : {DType::int32, DType::int64}) {
    const Tensor i = cast(rows, DType::uint8), j = cast(columns, dtype);
    CHECK(x(i, j).to_vector<double>() == expected);
    CHECK(transpose(x)(all, j, i).shape() == Shape{2, 20});
    CHECK(transpose(transpose(x)(all, j, i)).to_vector<double>() == expected);
    const Tensor steps = stack({i, i}, 1), back = j(range({}, {}, -1));
    CHECK(x(steps(all, 1), j).to_vector<double>() == expected);
    CHECK(x(i(range({}, {}, -1)), back)(range({}, {}, -1)).to_vector<double>() == expected);
    CHECK(x(broadcast_to(i, {3, 20}), j)(2).to_vector<double>() == expected);
  }
  const Tensor cube = arange(0, 256).reshape({2, 2, 2, 2, 2, 2, 2, 2}), one = tensor({1, 0});
  CHECK(cube(one, one, one, one, one, one, one, one).to_vector<std::int64_t>() == Whole{255, 0});
  CHECK(x(tensor(1), tensor(2)).shape() == Shape{2});
  const Tensor none = zeros({0}, int64);
  CHECK(x(none, none).shape() == Shape{0, 2});
  CHECK(x(none, tensor({1})).shape() == Shape{0, 2});
  CHECK(zeros({0, 3})(none, none).shape() == Shape{0});
}

TEST_CASE("masks pick elements in order") {
  const Tensor x = numbers({4, 6});
  const Tensor mask = x > 0;
  CHECK(equal(x(mask), masked_select(x, mask)));
  CHECK(x(x > 100).shape() == Shape{0});
  CHECK(x(all, full({6}, false)).shape() == Shape{4, 0});
  CHECK(equal(x(full({4}, true)), x));
  CHECK(equal(transpose(x)(transpose(mask)), masked_select(transpose(x), transpose(mask))));
  CHECK(zeros({0, 3})(zeros({0, 3}, boolean)).shape() == Shape{0});
  CHECK(zeros({0, 3})(zeros({0}, boolean)).shape() == Shape{0, 3});
  const auto f = trace([](Tensor y) { return y(y > 0) * 2; });
  for (int round = 0; round < 3; ++round)
    for (const Tensor& y : {tensor({1, -1, 3}), tensor({-1, -1, 3}), tensor({5, 6, -7})})
      CHECK(equal(f(y), masked_select(y, y > 0) * 2));
}

TEST_CASE("elements that tensors pick have gradients, which add up") {
  const Variable w("w", numbers({3, 4, 2}));
  const Tensor i = tensor({0, 2, 0, -1}), j = tensor({1, -1, 1, 0});
  check_gradients({w}, [&] { return square(w(i, j)); });
  check_gradients({w}, [&] { return square(w(i, all, tensor({1, 0, 1, 1}))); });
  check_gradients({w}, [&] { return square(w(tensor({{0}, {1}}), j, 0)); });
  check_gradients({w}, [&] { return square(w(w.value() > 0)); });
  check_gradients({w}, [&] { return square(w(all, tensor({true, false, true, true}))); });
  const Tensor second = grad([&](Tensor x) {
    return sum(grad([&](Tensor y) { return sum(power(y(i, j, 0), 3)); })(x));
  })(w.value());
  // Of twice the cube at (0, 1) and one cube at (2, 3) and (2, 0).
  const std::vector<double> values = w.value().to_vector<double>();
  std::vector<double> expected(24);
  expected[2] = 12 * values[2];
  expected[22] = 6 * values[22];
  expected[16] = 6 * values[16];
  require_near(second, expected);
}

TEST_CASE("pick takes one element of each line") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  CHECK(pick(x, tensor({{0, 3, -1}, {-4, 1, 2}})).to_vector<std::int64_t>() ==
        Whole{0, 7, 11, 12, 17, 22});
  CHECK(pick(x, tensor({{0, 2, -1, 1}, {1, 1, 0, 0}}), 1).to_vector<std::int64_t>() ==
        Whole{0, 9, 10, 7, 16, 17, 14, 15});
  CHECK(pick(transpose(x), tensor({{1, 0}, {2, 2}, {0, 0}, {-1, -1}}), 1).shape() == Shape{4, 2});
  CHECK(pick(tensor({5, 6, 7}), tensor(2)).item<int>() == 7);
  CHECK(pick(tensor({5, 6, 7}), 2).item<int>() == 7);
  CHECK(pick(zeros({0, 3}), zeros({0}, int32)).shape() == Shape{0});
  const Variable w("w", numbers({3, 4}));
  check_gradients({w}, [&] { return square(pick(w, tensor({1, -1, 0}))); });
  check_gradients({w}, [&] { return square(pick(w, tensor({1, -1, 0, 2}), 0)); });
  check_refused<ShapeError>(
      [&] {
        pick(x, tensor({{0}, {1}}));
      },
      "pick: indices: expected shape (2, 3), as x has without axis 2, got");
  check_refused<IndexError>([&] { pick(x(0), tensor({0, 1, 4})); }, "pick: indices");
  check_refused<IndexError>([&] { pick(zeros({2, 0}), tensor({0, 0})); }, "pick: indices");
  check_refused<ShapeError>([] { pick(tensor(1), tensor(0)); }, "pick: axis");
  check_refused<Error>([&] { pick(x, Tensor()); }, "pick: indices: expected a tensor");
}

TEST_CASE("lists of indices keep their tensors alive") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  std::vector<Index> list{1, all};
  CHECK(equal(x(list), x(1)));
  list.push_back(tensor({0, -1}));
  CHECK(equal(x(list), x(1, all, tensor({0, 3}))));
  const std::vector<Index> copy = list;
  list[2] = range(0, 2);
  list[0] = list[2];
  CHECK(equal(x(list), x(range(0, 2), all, range(0, 2))));
  CHECK(equal(x(copy), x(1, all, tensor({0, 3}))));
  CHECK(equal(x(0)(std::span(copy).subspan(1)), x(0, all, tensor({0, 3}))));
  CHECK(equal(x(std::vector<Index>()), x));
  CHECK(equal(x(std::vector<Index>{1, 2}), x(1, 2)));
  CHECK(equal(x({1, all}), x(1)));
  const std::vector<Index> long_one{0,       1,       2,       ellipsis, newaxis, newaxis,
                                    newaxis, newaxis, newaxis, newaxis,  newaxis, newaxis};
  CHECK(x(long_one).shape() == Shape{1, 1, 1, 1, 1, 1, 1, 1});
  Variable w("w", x);
  w(std::vector<Index>{0, range(0, 2)}).assign(-1);
  w(long_one).assign(-7);
  CHECK(w.value().to_vector<std::int64_t>()[6] == -7);
  CHECK(w.value().to_vector<std::int64_t>()[3] == -1);
  VariableSlice rows = w(copy);
  CHECK(equal(rows, x(copy)));
  rows = w(std::vector<Index>());
  rows.assign_add(x);
  CHECK(equal(w(1), x(1) * 2));
  check_refused<IndexError>([&] { x(std::vector<Index>{0, 0, 0, 0}); }, "at most 3, got 4");
  check_refused<Error>([&] { Tensor()(std::vector<Index>()); }, "an undefined Tensor");
}

TEST_CASE("tensors that fit nothing are refused") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4}), i = tensor({0, 1});
  check_refused<IndexError>([&] { x(i, tensor({0, 3})); }, "x(...): indices 1: expected ");
  check_refused<IndexError>([&] { x(tensor({0, -3}), i); }, "got -3");
  check_refused<IndexError>([&] { x(i, i, i, i); }, "at most 3, got 4");
  check_refused<IndexError>([&] { x(x > 0, 0); }, "at most 3, got 4");
  check_refused<ShapeError>([&] { x(i, tensor({0, 1, 2})); }, "a shape that broadcasts with (2,)");
  check_refused<ShapeError>(
      [&] {
        x(all, tensor({true, false}));
      },
      "x(...): mask: expected the lengths of x (2, 3, 4) from axis 1 on, got");
  check_refused<ShapeError>([&] { x(all, tensor({true, true, true}), i); }, "x(...): ");
  check_refused<IndexError>([&] { x(0, full({}, true)); }, "mask: expected at least one axis");
  check_refused<DTypeError>([&] { x(i, ones({2})); }, "x(...): indices 1: expected ");
  check_refused<Error>([&] { x(i, Tensor()); },
                       "x(...): indices: expected a tensor, got an undefined");
  check_refused<ShapeError>(
      [&] {
        ones({1, 1, 1, 1, 1, 1, 1})(zeros({1, 1, 1}, int64));
      },
      "at most 8 axes");
}

TEST_CASE("any view of a Variable can be assigned") {
  const auto expect = [](const Variable& w, std::vector<float> values) {
    CHECK(w.value().to_vector<float>() == values);
  };
  Variable w("w", zeros({2, 3}));
  const auto part = w.view([](Tensor x) { return diagonal(x); });
  w.view([](Tensor x) { return diagonal(x, 1); }).assign(tensor({1.0, 2.0}));
  expect(w, {0, 1, 0, 0, 0, 2});
  w.view([](Tensor x) { return transpose(x)(range(1, 3)); }).assign_add(tensor({{1, 2}, {3, 4}}));
  expect(w, {0, 2, 3, 0, 2, 6});
  w.view([](Tensor x) { return flip(x).reshape({6})(range(0, 6, 2)); }).assign(9);
  expect(w, {0, 9, 3, 9, 2, 9});
  w.view([](Tensor x) { return unbind(x, 1)[0](newaxis); }).assign_sub(1);
  expect(w, {-1, 9, 3, 8, 2, 9});
  w.view([](Tensor x) { return x(range(0, 0)); }).assign(100);
  w.view([](Tensor x) { return diagonal(x, 5); }).assign(100);
  expect(w, {-1, 9, 3, 8, 2, 9});
  CHECK(equal(part, zeros({2})));
  VariableSlice ends = w.view([](Tensor x) { return x(0, range(0, 3, 2)); });
  ends.assign(ends * 2);
  CHECK(equal(ends, tensor({-2, 6})));
  {
    GradientTape tape;
    const Tensor corner = w.view([](Tensor x) { return diagonal(x); });
    CHECK(equal(tape.gradient(sum(square(corner)), w), tensor({{-4, 0, 0}, {0, 4, 0}})));
  }
  const auto step = trace([&](Tensor x) {
    w.view([](Tensor y) { return diagonal(y); }).assign(x);
    return w * 2;
  });
  for (int round = 0; round < 3; ++round) {
    const Tensor x = full({2}, float(round));
    CHECK(step(x)(1, 1).item<float>() == float(2 * round));
  }
  check_refused<Error>([&] { w.view([](Tensor x) { return x + 1; }); },
                       "view: f: expected a view of");
  check_refused<Error>([&] { w.view([](Tensor x) { return transpose(x).reshape({6}); }); },
                       "view: f");
  check_refused<Error>([&] { w.view([](Tensor x) {
                               return broadcast_to(x, {2, 2, 3});
                             }); },
                       "view: f");
  check_refused<Error>([&] { w.view([](Tensor) { return Tensor(); }); }, "view: f");
  check_refused<ShapeError>([&] { w.view([](Tensor x) { return diagonal(x); }).assign(ones({3})); },
                            "assign: value: expected shape (2,)");
}

TEST_CASE("what tensors of positions pick of a Variable can be assigned") {
  Variable w("w", zeros({3, 4}));
  const Tensor i = tensor({2, 0}), j = tensor({1, -1});
  w(i).assign(tensor({{1.f, 2.f, 3.f, 4.f}, {5.f, 6.f, 7.f, 8.f}}));
  CHECK(equal(w, tensor({{5.f, 6.f, 7.f, 8.f}, {0.f, 0.f, 0.f, 0.f}, {1.f, 2.f, 3.f, 4.f}})));
  w(i, j).assign(tensor({-1.f, -2.f}));
  CHECK(equal(w, tensor({{5.f, 6.f, 7.f, -2.f}, {0.f, 0.f, 0.f, 0.f}, {1.f, -1.f, 3.f, 4.f}})));
  w(w > 2).assign(0.5);
  CHECK(
      equal(w, tensor({{0.5f, 0.5f, 0.5f, -2.f}, {0.f, 0.f, 0.f, 0.f}, {1.f, -1.f, 0.5f, 0.5f}})));
  w(range(0, 2), j).assign(tensor({{1.f, 2.f}, {3.f, 4.f}}));
  CHECK(equal(w(range(0, 2)), tensor({{0.5f, 1.f, 0.5f, 2.f}, {0.f, 3.f, 0.f, 4.f}})));
  w(tensor({true, false, true}), 0).assign_sub(1);
  CHECK(equal(w(all, 0), tensor({-0.5f, 0.f, 0.f})));
  VariableSlice rows = w(i);
  rows.assign(rows * 2);
  CHECK(equal(rows, w.value()(i)));
  CHECK(w(0, 3).item<float>() == 4);
}

TEST_CASE("of several values for one element the last is assigned, and all are added") {
  for (const DType dtype : {int32, float32, uint8}) {
    Variable w("w", full({3}, 9, dtype));
    const Tensor twice = tensor({1, 0, 1}), y = tensor({1, 2, 3}).to(dtype);
    w(twice).assign(y);
    CHECK(equal(w, tensor({2, 3, 9})));
    w(twice).assign_add(y);
    CHECK(equal(w, tensor({4, 7, 9})));
    w(twice).assign_sub(y);
    CHECK(equal(w, tensor({2, 3, 9})));
  }
  Variable none("none", zeros({0, 2}));
  none(zeros({0}, int64)).assign(1);
  CHECK(none.size() == 0);
}

TEST_CASE("tapes and traces see a picked assignment as any other") {
  Variable w("w", tensor({1.f, 2.f, 3.f}));
  const Tensor i = tensor({2, 0});
  GradientTape tape;
  const Tensor before = w * w;
  w(i).assign(tensor({5.f, 7.f}));
  const Tensor loss = sum(w * w) + sum(before);
  CHECK(equal(tape.gradient(loss, w), tensor({16.f, 8.f, 16.f})));
  Variable other = w.clone();
  const auto step = [i](Variable v, Tensor y) {
    v(i).assign_add(y);
    v(v > 8).assign(0);
    return v * 2;
  };
  const auto traced = trace([&](Tensor y) { return step(w, y); });
  for (int turn = 0; turn < 6; ++turn) {
    const Tensor y = tensor({1.f + static_cast<float>(turn), 0.5f});
    CHECK(equal(traced(y), step(other, y)));
    CHECK(equal(w, other));
  }
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("a single truth value picks all of a tensor or nothing, along a new axis") {
  const Tensor x = tensor(2.0), rows = ones({2, 3});
  CHECK(equal(x(x > 0), tensor({2.0})));
  CHECK(x(x < 0).shape() == Shape({0}));
  CHECK(equal(masked_select(x, x > 0), tensor({2.0})));
  CHECK(rows(tensor(true)).shape() == Shape({1, 2, 3}));
  CHECK(rows(tensor(false)).shape() == Shape({0, 2, 3}));
  Variable w("w", x);
  GradientTape tape;
  CHECK(tape.gradient(square(w(w > 0)), w).item<float>() == 4);
  w(w < 0).assign(5);
  CHECK(equal(w, x));
  w(w > 0).assign(5);
  CHECK(w.value().item<float>() == 5);
}
}  // namespace reel::tests
