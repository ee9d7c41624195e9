// SPDX-License-Identifier: BSD-3-Clause
// The shapes and elements of the table come from NumPy 2.4 with x = arange(24).reshape(2, 3, 4).
#include <cstdint>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Case {
  const char* numpy;
  Tensor (*pick)(const Tensor& x);
  Shape shape;
  std::vector<std::int64_t> elements;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {"x[1]",
       [](const Tensor& x) { return x(1); },
       {3, 4},
       {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[-1]",
       [](const Tensor& x) { return x[-1]; },
       {3, 4},
       {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[-2,2]", [](const Tensor& x) { return x(-2, 2); }, {4}, {8, 9, 10, 11}},
      {"x[1,2,3]", [](const Tensor& x) { return x(1, 2, 3); }, {}, {23}},
      {"x[0,-1,-4]", [](const Tensor& x) { return x(0, -1, -4); }, {}, {8}},
      {"x[:]", [](const Tensor& x) { return x(all); }, {2, 3, 4}, {0,  1,  2,  3,  4,  5,  6,  7,
                                                                   8,  9,  10, 11, 12, 13, 14, 15,
                                                                   16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[:,1]", [](const Tensor& x) { return x(all, 1); }, {2, 4}, {4, 5, 6, 7, 16, 17, 18, 19}},
      {"x[:,:,-1]",
       [](const Tensor& x) { return x(all, all, -1); },
       {2, 3},
       {3, 7, 11, 15, 19, 23}},
      {"x[...]",
       [](const Tensor& x) { return x(ellipsis); },
       {2, 3, 4},
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[...,0]", [](const Tensor& x) { return x(ellipsis, 0); }, {2, 3}, {0, 4, 8, 12, 16, 20}},
      {"x[1,...,2]", [](const Tensor& x) { return x(1, ellipsis, 2); }, {3}, {14, 18, 22}},
      {"x[0,1,2,...]", [](const Tensor& x) { return x(0, 1, 2, ellipsis); }, {}, {6}},
      {"x[None]",
       [](const Tensor& x) { return x(newaxis); },
       {1, 2, 3, 4},
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[None,0,None,:,1]",
       [](const Tensor& x) { return x(newaxis, 0, newaxis, all, 1); },
       {1, 1, 3},
       {1, 5, 9}},
      {"x[...,None]",
       [](const Tensor& x) { return x(ellipsis, newaxis); },
       {2, 3, 4, 1},
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"x[0,...,None,2]",
       [](const Tensor& x) { return x(0, ellipsis, newaxis, 2); },
       {3, 1},
       {2, 6, 10}},
      {"x[0,0,1:3]", [](const Tensor& x) { return x(0, 0, range(1, 3)); }, {2}, {1, 2}},
      {"x[0,0,:3]", [](const Tensor& x) { return x(0, 0, range({}, 3)); }, {3}, {0, 1, 2}},
      {"x[0,0,1:]", [](const Tensor& x) { return x(0, 0, range(1, {})); }, {3}, {1, 2, 3}},
      {"x[0,0,:]", [](const Tensor& x) { return x(0, 0, range({}, {})); }, {4}, {0, 1, 2, 3}},
      {"x[0,0,-3:-1]", [](const Tensor& x) { return x(0, 0, range(-3, -1)); }, {2}, {1, 2}},
      {"x[0,0,0:4:2]", [](const Tensor& x) { return x(0, 0, range(0, 4, 2)); }, {2}, {0, 2}},
      {"x[0,0,::3]", [](const Tensor& x) { return x(0, 0, range({}, {}, 3)); }, {2}, {0, 3}},
      {"x[0,0,::-1]",
       [](const Tensor& x) { return x(0, 0, range({}, {}, -1)); },
       {4},
       {3, 2, 1, 0}},
      {"x[0,0,::-2]", [](const Tensor& x) { return x(0, 0, range({}, {}, -2)); }, {2}, {3, 1}},
      {"x[0,0,3:0:-1]", [](const Tensor& x) { return x(0, 0, range(3, 0, -1)); }, {3}, {3, 2, 1}},
      {"x[0,0,2::-1]", [](const Tensor& x) { return x(0, 0, range(2, {}, -1)); }, {3}, {2, 1, 0}},
      {"x[0,0,:1:-1]", [](const Tensor& x) { return x(0, 0, range({}, 1, -1)); }, {2}, {3, 2}},
      {"x[0,0,-1:-4:-2]", [](const Tensor& x) { return x(0, 0, range(-1, -4, -2)); }, {2}, {3, 1}},
      {"x[0,0,-1:-5:-1]",
       [](const Tensor& x) { return x(0, 0, range(-1, -5, -1)); },
       {4},
       {3, 2, 1, 0}},
      {"x[0,0,-1:-50:-1]",
       [](const Tensor& x) { return x(0, 0, range(-1, -50, -1)); },
       {4},
       {3, 2, 1, 0}},
      {"x[0,0,50::-3]", [](const Tensor& x) { return x(0, 0, range(50, {}, -3)); }, {2}, {3, 0}},
      {"x[0,0,2:2]", [](const Tensor& x) { return x(0, 0, range(2, 2)); }, {0}, {}},
      {"x[0,0,3:1]", [](const Tensor& x) { return x(0, 0, range(3, 1)); }, {0}, {}},
      {"x[0,0,1:3:-1]", [](const Tensor& x) { return x(0, 0, range(1, 3, -1)); }, {0}, {}},
      {"x[0,0,-100:100]",
       [](const Tensor& x) { return x(0, 0, range(-100, 100)); },
       {4},
       {0, 1, 2, 3}},
      {"x[0,0,4:100]", [](const Tensor& x) { return x(0, 0, range(4, 100)); }, {0}, {}},
      {"x[0,0,100:200:7]", [](const Tensor& x) { return x(0, 0, range(100, 200, 7)); }, {0}, {}},
      {"x[0,0,0:4:100]", [](const Tensor& x) { return x(0, 0, range(0, 4, 100)); }, {1}, {0}},
      {"x[1:0,0]", [](const Tensor& x) { return x(range(1, 0), 0); }, {0, 4}, {}},
      {"x[::-1,::-2,::-3]",
       [](const Tensor& x) { return x(range({}, {}, -1), range({}, {}, -2), range({}, {}, -3)); },
       {2, 2, 2},
       {23, 20, 15, 12, 11, 8, 3, 0}},
      {"x[1,0:3:2,:][:,::-1]",
       [](const Tensor& x) { return x(1, range(0, 3, 2), all)(all, range({}, {}, -1)); },
       {2, 4},
       {15, 14, 13, 12, 23, 22, 21, 20}},
      {"x[:,2:0:-1][1,0]",
       [](const Tensor& x) { return x(all, range(2, 0, -1))(1, 0); },
       {4},
       {20, 21, 22, 23}},
      {"x.T[1,:,0]", [](const Tensor& x) { return transpose(x)(1, all, 0); }, {3}, {1, 5, 9}},
      {"x.T[::-3,2]",
       [](const Tensor& x) { return transpose(x)(range({}, {}, -3), 2); },
       {2, 2},
       {11, 23, 8, 20}},
      {"x[np.array([1,0,1])][:,0]",
       [](const Tensor& x) {
         return x(tensor({1, 0, 1}), 0);
       },
       {3, 4},
       {12, 13, 14, 15, 0, 1, 2, 3, 12, 13, 14, 15}},
      {"x[0,np.array([2,-1])]",
       [](const Tensor& x) {
         return x(0, tensor({2, -1}));
       },
       {2, 4},
       {8, 9, 10, 11, 8, 9, 10, 11}},
      {"x[:,:,np.array([[0,3],[-4,1]])]",
       [](const Tensor& x) {
         return x(all, all, tensor({{0, 3}, {-4, 1}}));
       },
       {2, 3, 2, 2},
       {0, 3, 0, 1, 4, 7, 4, 5, 8, 11, 8, 9, 12, 15, 12, 13, 16, 19, 16, 17, 20, 23, 20, 21}},
      {"x[1][...,np.array([3,3])]",
       [](const Tensor& x) {
         return x(1, ellipsis, tensor({3, 3}));
       },
       {3, 2},
       {15, 15, 19, 19, 23, 23}},
      {"x[0:0][:,np.array([0])]",
       [](const Tensor& x) { return x(range(0, 0))(all, tensor({0})); },
       {0, 1, 4},
       {}},
      {"x[None,1][:,np.array([0,2])][:,:,::2]",
       [](const Tensor& x) {
         return x(newaxis, 1, tensor({0, 2}), range({}, {}, 2));
       },
       {1, 2, 2},
       {12, 14, 20, 22}},
  };
  return table;
}

/// Whether the first element of y is in the memory of x.
bool shares(const Tensor& x, const Tensor& y) {
  const Body &a = *Access::body(x), &b = *Access::body(y);
  return b.data >= a.data && b.data < a.data + a.bytes();
}

}  // namespace

TEST_CASE("indices pick what NumPy's pick") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  for (const Case& one : cases()) {
    INFO(one.numpy);
    const Tensor y = one.pick(x);
    CHECK(y.shape() == one.shape);
    CHECK(y.to_vector<std::int64_t>() == one.elements);
  }
}

TEST_CASE("positions and ranges give views, tensors of positions give copies") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  CHECK(shares(x, x(1, 2, 3)));
  CHECK(shares(x, x(all, newaxis, range({}, {}, -1))(1, 0, 0)));
  CHECK(shares(x, transpose(x)(range(1, 3), 0, newaxis)));
  CHECK_FALSE(shares(x, x(tensor({1}))));
  const auto bytes = memory_statistics().live_bytes;
  const Tensor row = x(1);
  CHECK(memory_statistics().live_bytes - bytes == 192);  // the size of a header
}

TEST_CASE("a view keeps the memory of a temporary alive") {
  Tensor row = ones({100, 1000})(7);
  const Tensor other = zeros({100, 1000});
  CHECK(sum(row).item<float>() == 1000);
}

TEST_CASE("what lies outside its axis, or is one index too many, is refused") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  check_refused<IndexError>([&] { x(2); }, "axis 0: expected an index in [-2, 2), got 2");
  check_refused<IndexError>([&] { x(0, -4); }, "axis 1: expected an index in [-3, 3), got -4");
  check_refused<IndexError>([&] { x(all, all, INT64_MIN); }, "axis 2");
  check_refused<IndexError>([&] { x(0, 0, 0, 0); }, "at most 3, got 4");
  check_refused<IndexError>([&] { x(all, ellipsis, 0, ellipsis); }, "one ellipsis");
  check_refused<IndexError>([&] { x(range(0, 1, 0)); }, "a step other than 0");
  check_refused<IndexError>([&] { x(tensor({0, 2})); }, "got 2");
  check_refused<IndexError>([&] { x(0, tensor({-4})); }, "got -4");
  const Tensor deep = zeros({1, 1, 1, 1, 1, 1, 1, 1});
  check_refused<ShapeError>([&] { deep(newaxis); }, "at most 8 axes");
  check_refused<Error>([&] { Tensor()(0); }, "an undefined Tensor");
}

TEST_CASE("each of 8 axes can be indexed, to read and to assign") {
  const Tensor x = arange(0, 256).reshape({2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(x(0, 1, 0, 1, 0, 1, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{86, 87});
  CHECK(x(0, 1, 0, 1, 0, 1, 1, -1).item<std::int64_t>() == 87);
  Variable w("w", x);
  w(1, 1, 1, 1, 1, 1, 1, 1).assign(0);
  w(0, 0, 0, 0, 0, 0, 0).assign_add(1);
  w(1, 0, 0, 0, 0, 0).assign(7);
  w(0, 1, 0, 0, 0).assign_sub(1);
  std::vector<std::int64_t> expected = x.to_vector<std::int64_t>();
  expected[255] = 0;
  for (std::size_t i = 0; i < 2; ++i) ++expected[i];
  for (std::size_t i = 128; i < 132; ++i) expected[i] = 7;
  for (std::size_t i = 64; i < 72; ++i) --expected[i];
  CHECK(w.value().to_vector<std::int64_t>() == expected);
}

TEST_CASE("ranges of any ends and steps are safe") {
  const Tensor x = arange(0, 5);
  const std::int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -6, -5, -1, 0, 1, 4, 5, 6, INT64_MAX};
  for (std::int64_t start : ends)
    for (std::int64_t stop : ends)
      for (std::int64_t step : ends) {
        if (step == 0) continue;
        const Tensor y = x(range(start, stop, step));
        std::vector<std::int64_t> expected;  // Python's rules, computed with wider integers
        const auto clip = [step](__int128 end) {
          if (end < 0) end += 5;
          const __int128 low = step > 0 ? 0 : -1, high = step > 0 ? 5 : 4;
          return end < low ? low : end > high ? high : end;
        };
        for (__int128 i = clip(start); step > 0 ? i < clip(stop) : i > clip(stop); i += step)
          expected.push_back(static_cast<std::int64_t>(i));
        if (y.to_vector<std::int64_t>() != expected) {
          INFO(start << " : " << stop << " : " << step);
          CHECK(y.to_vector<std::int64_t>() == expected);
        }
      }
}

TEST_CASE("the only position of an axis drops the axis, and a new axis stays") {
  const Tensor x = tensor({{1.0f, 2.0f, 3.0f}});
  CHECK(x(0).shape() == Shape{3});
  CHECK(x(all, newaxis).shape() == Shape{1, 1, 3});
  CHECK(x(newaxis, 0).shape() == Shape{1, 3});
  const Tensor seven = ones({2, 1, 1, 3, 1, 1, 1});
  CHECK(seven(newaxis).shape() == Shape{1, 2, 1, 1, 3, 1, 1, 1});
  CHECK(seven(ellipsis, newaxis).shape() == Shape{2, 1, 1, 3, 1, 1, 1, 1});
  CHECK(x(0, newaxis).shape() == Shape{1, 3});
  CHECK(x(all).shape() == Shape{1, 3});
  const Tensor one = tensor({{7.0f}});
  CHECK(one(0, 0).shape() == Shape{});
  CHECK(one(0).shape() == Shape{1});
}

TEST_CASE("a new axis behind the others is recorded as one before them is") {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor behind = x(ellipsis, newaxis), before = x(newaxis),
               both = x(0, newaxis, all, newaxis);
  CHECK(behind.shape() == Shape{2, 2, 1});
  CHECK(before.shape() == Shape{1, 2, 2});
  CHECK(both.shape() == Shape{1, 2, 1});
  CHECK(equal(both.reshape({2}), tensor({1.0f, 2.0f})));
  CHECK(equal(tape.gradient(behind * behind, x), 2.0f * x));
  CHECK(equal(tape.gradient(before * before, x), 2.0f * x));
  CHECK(equal(tape.gradient(both * both, x), tensor({{2.0f, 4.0f}, {0.0f, 0.0f}})));
}

TEST_CASE("errors and records name the line of the first index") {
  const Tensor x = ones({1, 1, 1, 1, 1, 1, 1, 2});
  const unsigned line = __LINE__ + 1;
  std::vector<Index> indices = {Index(newaxis)};
  indices.emplace_back(Index(tensor({{0}, {0}})));
  const std::string text = error_text([&] { x(indices); });
  INFO(text);
  CHECK(text.find("indexing.cpp:" + std::to_string(line) + ": ") == 0);
  CHECK(text.find("expected at most 8 axes in the result") != std::string::npos);

  const Variable w("w", ones({2, 3}));
  const unsigned first = __LINE__ + 1;
  std::vector<Index> places = {Index(0)};
  places.emplace_back(Index(1));
  GradientTape tape;
  const Tensor y = w(places) * 2;
  CHECK(equal(tape.gradient(y, w), tensor({{0.0f, 2.0f, 0.0f}, {0.0f, 0.0f, 0.0f}})));
  GradientTape other;
  const Tensor z = w(places) * 2;
  REQUIRE(!other.ops().empty());
  CHECK(other.ops()[0].line == first);
}
}  // namespace reel::tests
