// SPDX-License-Identifier: BSD-3-Clause
// pad() compared with plain loops, and with the results of NumPy's pad.
#include <limits>

#include "nn/near.hpp"
#include "ops/moved.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t huge = std::int64_t{1} << 60;
using Whole = std::vector<std::int64_t>;
using Widths = std::vector<Padding>;

/// The position of a padded axis in x, one step after the other.
std::int64_t source(PadMode mode, std::int64_t i, std::int64_t n) {
  switch (mode) {
    case PadMode::constant:
      return i;
    case PadMode::replicate:
      return i < 0 ? 0 : i >= n ? n - 1 : i;
    case PadMode::circular:
      while (i < 0) i += n;
      while (i >= n) i -= n;
      return i;
    case PadMode::reflect:
      while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
      return n > 1 ? i : 0;
  }
  return 0;
}
void check_pad(const Tensor& x, const Widths& widths, PadMode mode) {
  Shape shape = x.shape();
  for (std::size_t i = 0; i < widths.size(); ++i)
    shape.data()[i] += widths[i].before.value + widths[i].after.value;
  const auto from = [&](Position at) {
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = source(mode, at[i] - widths[i].before.value, x.shape().data()[i]);
    return at;
  };
  check_moved(pad(x, widths, {.mode = mode}), x, shape, from, 0);
  if (mode == PadMode::constant) check_moved(pad(x, widths, {.value = 1}), x, shape, from, 1);
}
}  // namespace

TEST_CASE("pad adds elements at the ends of each axis") {
  using enum PadMode;
  for_each_layout([](const Tensor& x) {
    for (const PadMode mode : {constant, reflect, replicate, circular})
      for (const Widths& widths : {Widths{{0, 0}, {0, 0}, {0, 0}}, Widths{{1, 0}, {0, 2}, {3, 3}},
                                   Widths{{0, 1}, {2, 2}, {0, 0}}, Widths{{5, 7}, {0, 4}, {9, 1}}})
        check_pad(x, widths, mode);
  });
  for (const PadMode mode : {constant, reflect, replicate, circular}) {
    check_pad(tensor({7}), {{2, 3}}, mode);
    check_pad(tensor({7, 8}), {{2, 3}}, mode);
    check_pad(tensor(7), Widths(), mode);
    check_pad(zeros({0, 2}), {{0, 0}, {1, 1}}, mode);
  }
  check_pad(zeros({0, 2}), {{2, 0}, {1, 1}}, constant);
}

TEST_CASE("pad gives what NumPy gives") {
  // np.pad([1, 2, 3], (5, 4), mode) of NumPy 2.4
  const Tensor x = arange(1, 4);
  CHECK(pad(x, {{5, 4}}).to_vector<std::int64_t>() == Whole{0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0});
  CHECK(pad(x, {{5, 4}}, {PadMode::reflect}).to_vector<std::int64_t>() ==
        Whole{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3});
  CHECK(pad(x, {{5, 4}}, {PadMode::replicate}).to_vector<std::int64_t>() ==
        Whole{1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3});
  CHECK(pad(x, {{5, 4}}, {PadMode::circular}).to_vector<std::int64_t>() ==
        Whole{2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1});
  const std::vector<float> ends = pad(ones({1}), {{1, 1}}, {.value = NAN}).to_vector<float>();
  CHECK((ends[0] != ends[0] && ends[1] == 1 && ends[2] != ends[2]));
  CHECK(pad(tensor({1.0}), {{1, 0}}, {.value = -INFINITY}).to_vector<float>()[0] == -INFINITY);
}

TEST_CASE("pad has a gradient in each mode") {
  const Variable w("w", numbers({3, 4}));
  for (const PadMode mode :
       {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular})
    for (const Widths& widths : {Widths{{1, 2}, {2, 0}}, Widths{{5, 0}, {1, 9}}})
      check_gradients({w}, [&] { return square(pad(w, widths, {.mode = mode, .value = 2})); });
  const Tensor second = grad([](Tensor x) {
    return sum(grad([](Tensor y) { return sum(square(y) * pad(y, {{1, 0}})(range(0, 3))); })(x));
  })(tensor({1.0, 2.0, 3.0}));
  // sum over i of x[i]^2 x[i - 1]: its gradient is 2 x[i] x[i - 1] + x[i + 1]^2, summed
  CHECK(second.to_vector<float>() == std::vector<float>{4, 12, 10});
}

TEST_CASE("the value of pad counts only where it is added") {
  const Tensor x = tensor({1, 2});
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular})
    CHECK(pad(x, {{1, 0}}, {mode, 0.5}).shape() == Shape{3});
  check_refused<DTypeError>([&] { pad(x, {{1, 0}}, {PadMode::constant, 0.5}); }, "pad: ");
}

TEST_CASE("pad refuses wrong widths and values") {
  const Tensor x = arange(0, 6).reshape({2, 3});
  check_refused<ShapeError>(
      [&] {
        pad(x, {{1, 1}});
      },
      "pad: widths: expected 2 pairs, one an axis, got 1");
  check_refused<ShapeError>(
      [&] {
        pad(x, {{1, 1}, {0, -1}});
      },
      "pad: widths: expected widths from 0");
  check_refused<ShapeError>([&] { pad(x, {{huge, 1}, {0, 0}}); }, "pad: widths");
  check_refused<ShapeError>([&] { pad(x, {{huge / 8, 1}, {0, 0}}); }, "pad: ");
  check_refused<MemoryError>([&] { pad(x, {{huge / 64, 1}, {0, 0}}); }, "pad: ");
  check_refused<MemoryError>(
      [&] {
        pad(x, {{huge / 64, 1}, {0, 0}}, {PadMode::reflect});
      },
      "pad: ");
  check_refused<DTypeError>(
      [&] {
        pad(x, {{1, 1}, {0, 0}}, {.value = 0.5});
      },
      "pad: value: expected ");
  check_refused<ShapeError>(
      [] {
        pad(zeros({0}), {{1, 0}}, {PadMode::reflect});
      },
      "pad: x: expected elements along axis 0, got (0,)");
  check_refused<Error>([] { pad(Tensor(), {{1, 0}}); }, "pad: x: ");
}
}  // namespace reel::tests
