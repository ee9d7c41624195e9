// SPDX-License-Identifier: BSD-3-Clause
// Variables: what a write changes, what it does not change, and where it writes.
#include <cmath>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const void* memory_of(const Variable& w) { return Access::body(Access::cell(w).value)->data; }
std::vector<float> numbers(const Tensor& x) { return x.to_vector<float>(); }
using Numbers = std::vector<float>;
}  // namespace

TEST_CASE("assign, assign_add and assign_sub replace the value; a number fills it") {
  Variable w("w", zeros({2, 3}));
  w.assign(2);
  CHECK(numbers(w) == Numbers{2, 2, 2, 2, 2, 2});
  w.assign(tensor({{1.0f, 2.0f, 3.0f}, {1.0f, 2.0f, 3.0f}}));
  CHECK(numbers(w) == Numbers{1, 2, 3, 1, 2, 3});
  w.assign_add(broadcast_to(tensor({{10.0f}, {20.0f}}), {2, 3}));
  CHECK(numbers(w) == Numbers{11, 12, 13, 21, 22, 23});
  w.assign_sub(1);
  CHECK(numbers(w) == Numbers{10, 11, 12, 20, 21, 22});
  w.assign(transpose(tensor({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}})));
  CHECK(numbers(w) == Numbers{1, 3, 5, 2, 4, 6});
  w.assign(w + w);
  CHECK(numbers(w) == Numbers{2, 6, 10, 4, 8, 12});
  w.assign_sub(w);
  CHECK(equal(w, zeros({2, 3})));
}

TEST_CASE("assigning slices changes these elements and no other") {
  Variable w("w", zeros({3, 4}));
  w(range(0, 2), 1).assign(tensor({5.0f, 6.0f}));
  w(-1).assign(tensor({1.0f, 2.0f, 3.0f, 4.0f}));
  CHECK(numbers(w) == Numbers{0, 5, 0, 0, 0, 6, 0, 0, 1, 2, 3, 4});
  w(all, range({}, {}, -2)).assign_add(tensor({{10.0f, 20.0f}, {10.0f, 20.0f}, {10.0f, 20.0f}}));
  CHECK(numbers(w) == Numbers{0, 25, 0, 10, 0, 26, 0, 10, 1, 22, 3, 14});
  w[2].assign_sub(1);
  CHECK(numbers(w) == Numbers{0, 25, 0, 10, 0, 26, 0, 10, 0, 21, 2, 13});
  w(ellipsis).assign(0);
  w(newaxis, 0, 3).assign(7);
  CHECK(numbers(w) == Numbers{0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0});
  w(range(1, 1)).assign(100);
  CHECK(sum(w).item<float>() == 7);
}

TEST_CASE("a slice reads as a tensor, also after it was written") {
  Variable w("w", arange(0.0f, 6.0f, 1.0f).reshape({2, 3}));
  auto row = w(1);
  CHECK(numbers(row) == Numbers{3, 4, 5});
  row.assign(1);
  CHECK(numbers(row) == Numbers{1, 1, 1});
  CHECK(sum(row * row).item<float>() == 3);
}

TEST_CASE("overlapping slices of one Variable copy as if read first") {
  Variable w("w", arange(0.0f, 5.0f, 1.0f));
  w(range(1, 5)).assign(w(range(0, 4)));
  CHECK(numbers(w) == Numbers{0, 0, 1, 2, 3});
  w.assign(w(range({}, {}, -1)));
  CHECK(numbers(w) == Numbers{3, 2, 1, 0, 0});
  w(range(0, 2)).assign_add(w(range(1, 3)));
  CHECK(numbers(w) == Numbers{5, 3, 1, 0, 0});
}

TEST_CASE("what was read before a write stays as it was") {
  Variable w("w", ones({3}));
  const Tensor before = w, part = w(range(0, 2)), reversed = w.value()(range({}, {}, -1));
  w.assign_add(1);
  w(0).assign(9);
  CHECK(numbers(before) == Numbers{1, 1, 1});
  CHECK(numbers(part) == Numbers{1, 1});
  CHECK(numbers(reversed) == Numbers{1, 1, 1});
  CHECK(numbers(w) == Numbers{9, 2, 2});
}

TEST_CASE("a tensor that became a Variable, or was assigned, stays as it was") {
  const Tensor x = ones({3}), y = zeros({3});
  Variable w("w", x);
  w.assign_add(1);
  CHECK(numbers(x) == Numbers{1, 1, 1});
  w.assign(y);
  w.assign_add(5);
  CHECK(numbers(y) == Numbers{0, 0, 0});
  Variable from_view("v", x(range(0, 2)));
  from_view.assign(3);
  CHECK(numbers(x) == Numbers{1, 1, 1});
}

TEST_CASE("a Variable takes a tensor that nobody else holds over as it is, and copies others") {
  Tensor own = ones({30, 10});
  const void* const memory = Access::body(own)->data;
  const Variable taken("taken", std::move(own));
  CHECK(memory_of(taken) == memory);
  const Tensor kept = arange(0.0f, 6.0f).reshape({2, 3});
  const Variable copied("copied", kept);
  CHECK(memory_of(copied) != Access::body(kept)->data);
  const Variable transposed("transposed", transpose(kept)), part("part", kept(1)),
      backward("backward", arange(0.0f, 3.0f)(range({}, {}, -1)));
  for (const Variable& v : {taken, copied, transposed, part, backward}) {
    const Body& body = *Access::body(Access::cell(v).value);
    CHECK(body.contiguous);
    CHECK(body.owner == nullptr);
  }
  CHECK(numbers(transposed) == Numbers{0, 3, 1, 4, 2, 5});
  CHECK(numbers(part) == Numbers{3, 4, 5});
  CHECK(numbers(backward) == Numbers{2, 1, 0});
}

TEST_CASE("writes go in place while nobody else holds the buffer") {
  Variable w("w", zeros({300, 100}));
  const void* const memory = memory_of(w);
  const Tensor step = ones({300, 100});
  const auto blocks = memory_statistics().large_blocks;
  for (int i = 0; i < 10; ++i) {
    w.assign(step);
    w.assign_add(step);
    w.assign_sub(0.5f);
    w(range(0, 10)).assign(2.0f);
    w(all, 5).assign_add(1.0f);
  }
  CHECK(memory_of(w) == memory);
  CHECK(memory_statistics().large_blocks == blocks);

  Tensor held = w;
  w.assign_add(1);
  CHECK(memory_of(w) != memory);
  const void* const next = memory_of(w);
  held = Tensor();
  w.assign_add(1);
  CHECK(memory_of(w) == next);
}

TEST_CASE("copies of a handle share the cell, clones do not") {
  Variable w("w", zeros({2}));
  Variable same = w, other = w.clone();
  w.assign(1);
  CHECK(numbers(same) == Numbers{1, 1});
  CHECK(numbers(other) == Numbers{0, 0});
  CHECK(same.same_cell(w));
  CHECK_FALSE(other.same_cell(w));
  CHECK(other.name() == "w");
  same = other;
  same.assign(5);
  CHECK(numbers(other) == Numbers{5, 5});
  CHECK(numbers(w) == Numbers{1, 1});
  Variable moved = std::move(same);
  CHECK(moved.same_cell(other));
  CHECK(same.same_cell(other));  // NOLINT(bugprone-use-after-move): a handle always has its cell
}

TEST_CASE("a value of a lower dtype is converted, of a higher one refused") {
  Variable real("r", zeros({2})), whole("n", zeros({2}, {.dtype = DType::int32})),
      truth("b", zeros({2}, {.dtype = DType::boolean})),
      small("u", zeros({2}, {.dtype = DType::uint8}));
  real.assign(tensor({1, 2}));
  CHECK(numbers(real) == Numbers{1, 2});
  real.assign(tensor({true, false}));
  real.assign_add(0.25);
  CHECK(numbers(real) == Numbers{1.25f, 0.25f});
  whole.assign(3);
  whole.assign_add(tensor({true, false}));
  CHECK(whole.value().to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 3});
  check_refused<DTypeError>(
      [&] {
        real.assign(tensor<double>({1.0, 2.0}));
      },
      "assign: value: expected a dtype that promotes to float32");
  check_refused<DTypeError>([&] { whole.assign_add(tensor({1.0f, 2.0f})); }, "assign_add: value");
  check_refused<DTypeError>([&] { whole.assign(0.5); }, "a number that fits int32");
  check_refused<DTypeError>([&] { small.assign(256); }, "a number that fits uint8");
  check_refused<DTypeError>([&] { small(0).assign(-1); }, "a number that fits uint8");
  check_refused<DTypeError>([&] { truth.assign(tensor({1, 0})); }, "promotes to bool");
}

TEST_CASE("a value of another shape is refused, also where it would broadcast") {
  const Shape shapes[] = {{},     {1},       {3}, {1, 3}, {3, 1},   {2, 1},
                          {1, 1}, {1, 2, 3}, {6}, {0, 3}, {2, 3, 1}};
  for (const DType dtype :
       {DType::boolean, DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64}) {
    Variable w("w", ones({2, 3}, {.dtype = dtype})),
        rows("rows", ones({4, 2, 3}, {.dtype = dtype}));
    const Tensor before = w, rows_before = rows;
    for (const Shape& shape : shapes) {
      INFO(dtype << " " << shape);
      const std::string expected =
          "value: expected shape (2, 3) or a number, got " + to_string(shape);
      const Tensor value = zeros(shape, {.dtype = dtype});
      const Variable other("other", value);
      check_refused<ShapeError>([&] { w.assign(value); }, "assign: " + expected);
      check_refused<ShapeError>([&] { w.assign(other); }, "assign: " + expected);
      check_refused<ShapeError>([&] { w.assign_add(value); }, "assign_add: " + expected);
      check_refused<ShapeError>([&] { w.assign_sub(value); }, "assign_sub: " + expected);
      check_refused<ShapeError>([&] { w.assign(cast(value, DType::boolean)); }, expected);
      check_refused<ShapeError>([&] { rows(1).assign(value); }, "assign: " + expected);
      check_refused<ShapeError>([&] { rows[2].assign_add(value); }, "assign_add: " + expected);
      check_refused<ShapeError>([&] { rows(-1, all).assign_sub(value); },
                                "assign_sub: " + expected);
    }
    CHECK(equal(w, before));
    CHECK(equal(rows, rows_before));
    w.assign(transpose(ones({3, 2}, {.dtype = dtype})));
    rows(1).assign(w);
    w.assign(true);
    rows(1, 0).assign(0);
    CHECK(equal(w, ones({2, 3})));
    CHECK(sum(cast(rows, DType::float64)).item<double>() == 21);
  }
}

TEST_CASE("a traced assignment refuses another shape too") {
  Variable w("w", zeros({2, 3}));
  auto write = trace([&](Tensor x) { w.assign(x); });
  auto fill = trace([&](float x) { w.assign(x); });
  for (int i = 0; i < 4; ++i) {
    write(full({2, 3}, static_cast<float>(i)));
    CHECK(numbers(w) == Numbers(6, static_cast<float>(i)));
    CHECK_THROWS_AS(write(ones({3})), ShapeError);
    CHECK_THROWS_AS(write(ones({})), ShapeError);
    CHECK(numbers(w) == Numbers(6, static_cast<float>(i)));
    fill(7);
    CHECK(numbers(w) == Numbers(6, 7));
  }
}

TEST_CASE("what does not fit is refused and changes nothing") {
  Variable w("w", zeros({2, 3}));
  check_refused<ShapeError>([&] { w.assign_sub(zeros({1, 2, 3})); }, "got (1, 2, 3)");
  check_refused<ShapeError>([&] { w(0).assign(zeros({2})); }, "got (2,)");
  check_refused<ShapeError>([&] { w(0).assign_add(zeros({2, 3})); }, "got (2, 3)");
  check_refused<Error>([&] { w.assign(Tensor()); }, "an undefined Tensor");
  check_refused<IndexError>([&] { w(2).assign(0); }, "axis 0");
  check_refused<IndexError>([&] { w(tensor({0, 2})).assign(0); }, "x(...): indices");
  check_refused<ShapeError>(
      [&] {
        w(tensor({0, 1, 0})).assign(zeros({2, 3}));
      },
      "assign: value: expected shape (3, 3) or a number, got (2, 3)");
  check_refused<DTypeError>(
      [&] {
        w(tensor({0})).assign(zeros({1, 3}, float64));
      },
      "assign: value: expected a dtype that promotes to float32");
  check_refused<Error>([&] { Variable("v", Tensor()); }, "an undefined Tensor");
  CHECK(equal(w, zeros({2, 3})));
}

TEST_CASE("the same write of an empty Variable, and of a single number") {
  Variable none("none", zeros({0, 3})), one("one", tensor(1.0f));
  none.assign_add(ones({0, 3}));
  none.assign(1);
  CHECK(none.size() == 0);
  one.assign_add(2);
  one(ellipsis).assign_sub(tensor(0.5f));
  CHECK(one.value().item<float>() == 2.5f);
}

TEST_CASE("what is const of a Variable is the handle") {
  const std::vector<Variable> list = {Variable("a", zeros({2})), Variable("b", zeros({2}))};
  for (const Variable& x : list) {
    x.assign(1);
    x.assign_add(2);
    x.assign_sub(ones({2}));
    x(0).assign(5);
    CHECK(equal(x, tensor({5.0, 2.0})));
  }
}

TEST_CASE("a copy of a Buffer in a Variable is not trained") {
  struct Model {
    Buffer mean{"mean", zeros({2})};
    Variable same = mean, weight{"weight", ones({2})};
    REEL_FIELDS(same, weight)
  };
  const Model model;
  CHECK(parameters(model).size() == 1);
  CHECK(buffers(model).size() == 1);
  CHECK(buffers(model)[0].same_cell(model.mean));
  const Model copy = clone(model);
  CHECK(parameters(copy).size() == 1);
  CHECK_FALSE(buffers(copy)[0].same_cell(model.mean));
}

TEST_CASE("a layer with a Buffer can be called where it is const") {
  struct Count {
    Buffer calls{"calls", tensor(std::int64_t{0})};
    Tensor operator()(Operand x) const {
      calls.assign_add(1);
      return x * 2;
    }
    REEL_FIELDS(calls)
  };
  const Count count;
  count(ones({2}));
  const nn::Sequential layers{count, tanh};
  layers(ones({2}));
  CHECK(count.calls.value().item<std::int64_t>() == 2);
}
}  // namespace reel::tests
