// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of random shapes against loops in float64, and their equivalent forms bit for bit.
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"
#include "support/short.hpp"

namespace reel::tests {
namespace {
using Int = std::int64_t;
/// A convolution along two axes.
struct Problem {
  Int batch, in[2], taps[2], stride[2], dilation[2], before[2], after[2], groups, channels, outputs;

  Int out(int a) const {
    return (in[a] + before[a] + after[a] - dilation[a] * (taps[a] - 1) - 1) / stride[a] + 1;
  }
  Shape x() const { return {batch, in[0], in[1], channels * groups}; }
  Shape weight() const { return {taps[0], taps[1], channels, outputs * groups}; }
  Shape y() const { return {batch, out(0), out(1), outputs * groups}; }
  double work() const { return static_cast<double>(y().elements() * taps[0] * taps[1] * channels); }
  ConvolutionOptions options() const {
    return {.stride = {stride[0], stride[1]},
            .dilation = {dilation[0], dilation[1]},
            .padding = {{before[0], after[0]}, {before[1], after[1]}},
            .groups = groups};
  }
  std::string text() const {
    std::string text = "batch " + std::to_string(batch) + ", groups " + std::to_string(groups) +
                       ", channels " + std::to_string(channels) + " to " + std::to_string(outputs);
    for (int a : {0, 1})
      text += "; length " + std::to_string(in[a]) + " taps " + std::to_string(taps[a]) +
              " stride " + std::to_string(stride[a]) + " dilation " + std::to_string(dilation[a]) +
              " padding " + std::to_string(before[a]) + " " + std::to_string(after[a]);
    return text;
  }
};
Problem random_problem(std::mt19937& random) {
  const auto pick = [&](Int low, Int high) {
    return std::uniform_int_distribution<Int>(low, high)(random);
  };
  const auto one_of = [&](std::initializer_list<Int> list) {
    return list.begin()[pick(0, static_cast<Int>(list.size()) - 1)];
  };
  Problem p{};
  do {
    p.batch = one_of({1, 1, 2, 3, 9});
    for (int a : {0, 1}) {
      p.in[a] = one_of({1, 2, 3, 5, 7, 8, 12, 19, 33});
      p.taps[a] = one_of({1, 1, 2, 3, 3, 4, 5, 7});
      p.stride[a] = one_of({1, 1, 1, 2, 3, 4});
      p.dilation[a] = one_of({1, 1, 1, 2, 3, 4});
      p.before[a] = one_of({0, 0, 1, 2, 3});
      p.after[a] = one_of({0, 0, 1, 2, 4});
    }
    p.groups = one_of({1, 1, 1, 2, 3, 5, 17, 40});
    const bool single = p.groups > 3 || pick(0, 9) == 0;
    p.channels = single ? 1 : one_of({1, 2, 3, 4, 6, 8, 13, 24, 48, 70});
    p.outputs = single && pick(0, 2) ? 1 : one_of({1, 2, 5, 8, 16, 17, 31, 64, 70});
  } while (p.out(0) < 1 || p.out(1) < 1 ||
           p.in[0] + p.before[0] + p.after[0] <= p.dilation[0] * (p.taps[0] - 1) ||
           p.in[1] + p.before[1] + p.after[1] <= p.dilation[1] * (p.taps[1] - 1) || p.work() > 4e5);
  return p;
}

struct Results {
  std::vector<double> y, dx, dw;
};
Results by_loops(const Problem& p, const std::vector<float>& x, const std::vector<float>& w,
                 const std::vector<float>& dy) {
  Results r{std::vector<double>(dy.size()), std::vector<double>(x.size()),
            std::vector<double>(w.size())};
  const Int in = p.channels * p.groups, all = p.outputs * p.groups;
  for (Int n = 0; n < p.batch; ++n)
    for (Int i = 0; i < p.out(0); ++i)
      for (Int j = 0; j < p.out(1); ++j)
        for (Int s = 0; s < p.taps[0]; ++s)
          for (Int t = 0; t < p.taps[1]; ++t) {
            const Int h = i * p.stride[0] + s * p.dilation[0] - p.before[0];
            const Int v = j * p.stride[1] + t * p.dilation[1] - p.before[1];
            if (h < 0 || h >= p.in[0] || v < 0 || v >= p.in[1]) continue;
            for (Int k = 0; k < all; ++k)
              for (Int c = 0; c < p.channels; ++c) {
                const auto a = static_cast<std::size_t>(((n * p.in[0] + h) * p.in[1] + v) * in +
                                                        k / p.outputs * p.channels + c);
                const auto b =
                    static_cast<std::size_t>(((s * p.taps[1] + t) * p.channels + c) * all + k);
                const auto o =
                    static_cast<std::size_t>(((n * p.out(0) + i) * p.out(1) + j) * all + k);
                r.y[o] += double(x[a]) * w[b];
                r.dx[a] += double(dy[o]) * w[b];
                r.dw[b] += double(dy[o]) * x[a];
              }
          }
  return r;
}
/// The largest error, relative to the largest sum of absolute values.
double error_of(const Tensor& got, const std::vector<double>& expected,
                const std::vector<double>& sums) {
  const auto values = got.values<float>();
  REQUIRE(values.size() == expected.size());
  double error = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::fmax(error, std::fabs(values[i] - expected[i]));
    if (std::isnan(values[i])) return INFINITY;
    largest = std::fmax(largest, sums[i]);
  }
  return error / largest;
}
std::vector<float> numbers_of(const Tensor& x) {
  const auto values = x.values<float>();
  return {values.begin(), values.end()};
}
bool equal_bits(const Tensor& x, const Tensor& y) { return x.shape() == y.shape() && equal(x, y); }
}  // namespace

TEST_CASE("convolutions and their gradients are those of loops in float64") {
  std::mt19937 random(std::getenv("REEL_TEST_LONG") ? std::random_device{}() : 20);
  const int count = at_most_asked(std::getenv("REEL_TEST_LONG") ? 2000 : 250);
  seed(3);
  for (int i = 0; i < count; ++i) {
    Problem p = random_problem(random);
    if (i == 0)  // many weights: several images for each reading of them
      p = {3, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, 100, 130};
    INFO(p.text());
    const Tensor x = random::normal(p.x()), w = random::normal(p.weight());
    const Tensor dy = random::normal(p.y());
    GradientTape tape({.persistent = true});
    tape.watch(x);
    tape.watch(w);
    const Tensor y = conv2d(x, w, p.options());
    REQUIRE(y.shape() == p.y());
    const Results expected = by_loops(p, numbers_of(x), numbers_of(w), numbers_of(dy));
    const Results sums = by_loops(p, numbers_of(abs(x)), numbers_of(abs(w)), numbers_of(abs(dy)));
    CHECK(error_of(y, expected.y, sums.y) < 5e-7);
    const auto found = tape.gradient(y, {x, w}, {.upstream = dy});
    CHECK(error_of(found[0], expected.dx, sums.dx) < 5e-7);
    CHECK(error_of(found[1], expected.dw, sums.dw) < 5e-7);
  }
}

TEST_CASE("convolutions of 16 bits are those of float32, rounded once") {
  std::mt19937 random(21);
  seed(5);
  const int count = at_most_asked(100);
  for (int i = 0; i < count; ++i) {
    const Problem p = random_problem(random);
    const DType dtype = i % 2 ? DType::float16 : DType::bfloat16;
    INFO(p.text() << ", " << to_string(dtype));
    const std::vector<Tensor> narrow = {random::normal(p.x()).to(dtype),
                                        random::normal(p.weight()).to(dtype),
                                        random::normal(p.y()).to(dtype)};
    const auto compute = [&](DType to) {
      const Tensor x = narrow[0].to(to), w = narrow[1].to(to);
      GradientTape tape;
      tape.watch(x);
      tape.watch(w);
      const Tensor y = conv2d(x, w, p.options());
      std::vector<Tensor> found = tape.gradient(y, {x, w}, {.upstream = narrow[2].to(to)});
      found.push_back(y);
      return found;
    };
    const std::vector<Tensor> found = compute(dtype), wide = compute(DType::float32);
    for (std::size_t k = 0; k < found.size(); ++k) {
      REQUIRE(found[k].dtype() == dtype);
      CHECK(equal_bits(found[k], wide[k].to(dtype)));
    }
  }
}

TEST_CASE("convolutions give the same bits in every form and for any number of threads") {
  seed(4);
  const Tensor x = random::normal({3, 9, 14, 6}), w = random::normal({3, 2, 6, 20});
  const Tensor bias = random::normal({20});
  const ConvolutionOptions options{.stride = {1, 2}, .padding = 1};
  const Tensor y = conv2d(x, w, bias, options);
  ConvolutionOptions first = options;
  first.channels = Channels::first;
  CHECK(equal_bits(conv2d(transpose(x, {0, 3, 1, 2}), w, bias, first), transpose(y, {0, 3, 1, 2})));

  CHECK(allclose(y, conv2d(x, w, options) + bias, {.rtol = 1e-5, .atol = 1e-5}));
  ConvolutionOptions active = options;
  active.activation = Activation::relu;
  CHECK(equal_bits(conv2d(x, w, bias, active), relu(y)));
  CHECK(equal_bits(conv2d(x, w, active), relu(conv2d(x, w, options))));
  const Tensor line = random::normal({2, 40, 5}), taps = random::normal({3, 5, 9});
  const ConvolutionOptions step{.stride = 2, .dilation = 2, .padding = 3};
  CHECK(equal_bits(conv1d(line, taps, step).reshape({2, 1, -1, 9}),
                   conv2d(line.reshape({2, 1, 40, 5}), taps.reshape({1, 3, 5, 9}),
                          {.stride = {1, 2}, .dilation = {1, 2}, .padding = {0, 3}})));
  CHECK(equal_bits(conv3d(x.reshape({1, 3, 9, 14, 6}), w.reshape({1, 3, 2, 6, 20}),
                          {.stride = {1, 1, 2}, .padding = {0, 1, 1}})
                       .reshape(y.shape()),
                   conv2d(x, w, options)));
  const int threads = num_threads();
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    GradientTape tape;
    tape.watch(x);
    tape.watch(w);
    const Tensor again = conv2d(x, w, options);
    static std::vector<Tensor> before;
    const auto found = tape.gradient(sum(again * again), {x, w});
    if (count == 1) before = found;
    CHECK(equal_bits(found[0], before[0]));
    CHECK(equal_bits(found[1], before[1]));
    if (count == 3) before.clear();
  }
  set_num_threads(threads);
}

TEST_CASE("padding and lengths of convolutions follow their formulas") {
  const Tensor x = ones({1, 7, 8, 2}), w = ones({3, 2, 2, 4});
  CHECK(conv2d(x, w, {.stride = 2, .padding = same}).shape() == Shape({1, 4, 4, 4}));
  CHECK(conv2d(x, w, {.stride = {2, 3}, .padding = {{0, 1}, {2, 0}}}).shape() ==
        Shape({1, 3, 3, 4}));
  // TensorFlow adds the odd zero of `same` after the elements.
  CHECK(
      equal(conv1d(tensor({{{1.f}, {2.f}, {3.f}}}), tensor({{{1.f}}, {{10.f}}}), {.padding = same}),
            tensor({{{21.f}, {32.f}, {3.f}}})));
  CHECK(equal(conv_transpose1d(tensor({{{1.f}, {2.f}}}), tensor({{{1.f}}, {{10.f}}}),
                               {.stride = 3, .output_padding = 2}),
              tensor({{{1.f}, {10.f}, {0.f}, {2.f}, {20.f}, {0.f}, {0.f}}})));
  CHECK(conv_transpose2d(x, ones({3, 2, 5, 2}), {.stride = 2, .padding = same}).shape() ==
        Shape({1, 14, 16, 5}));
  CHECK(equal(conv2d(x, w, {}, {.padding = same()}), conv2d(x, w, {.padding = same})));
  // Without input channels, the bias.
  CHECK(equal(conv1d(zeros({1, 3, 0}), zeros({2, 0, 2}), tensor({1.f, 2.f})),
              tensor({{{1.f, 2.f}, {1.f, 2.f}}})));
  CHECK(conv1d(zeros({0, 3, 2}), zeros({2, 2, 0})).shape() == Shape({0, 2, 0}));
}

TEST_CASE("wrong arguments of convolutions are errors that name them") {
  const Tensor x = ones({1, 4, 5, 6}), w = ones({3, 3, 6, 2});
  check_refused<ShapeError>([&] { conv2d(ones({4, 5, 6}), w); }, "conv2d: x: expected 4 axes");
  check_refused<ShapeError>(
      [&] {
        conv2d(x, ones({5, 3, 6, 2}));
      },
      "conv2d: weight: expected a window that fits the padded length 4");
  check_refused<ShapeError>([&] { conv2d(ones({1, 6, 4, 5}), w); }, "6 channels in the last axis");
  check_refused<ShapeError>(
      [&] {
        conv2d(x, ones({3, 3, 2, 4}), {.groups = 3});
      },
      "output channels that 3 groups divide");
  check_refused<ShapeError>([&] { conv2d(x, w, {.stride = {1, 2, 3}}); }, "stride");
  check_refused<ShapeError>([&] { conv2d(x, w, {.stride = 0}); }, "stride: expected 1 or more");
  check_refused<ShapeError>([&] { conv2d(x, w, {.padding = -1}); }, "padding");
  check_refused<ShapeError>([&] { conv2d(x, w, {.groups = 0}); }, "groups: expected 1 or more");
  check_refused<ShapeError>([&] { conv2d(x, w, ones({3})); }, "bias");
  check_refused<DTypeError>(
      [&] {
        conv2d(ones({1, 4, 5, 6}, int32), ones({3, 3, 6, 2}, int32));
      },
      "x: expected a floating dtype");
  check_refused<ShapeError>(
      [&] {
        conv_transpose1d(ones({1, 2, 3}), ones({2, 4, 3}), {.stride = 2, .output_padding = 2});
      },
      "output_padding");
}

TEST_CASE("a convolution is the product of unfolded windows and the weight") {
  seed(8);
  const Tensor x = random::normal({2, 6, 7, 3}), w = random::normal({3, 2, 3, 4});
  const Tensor matrix = reshape(w, {18, 4});
  for (const WindowOptions& options : {WindowOptions{},
                                       {.stride = 2},
                                       {.stride = {1, 3}, .padding = {1, 2}},
                                       {.dilation = 2, .padding = {{1, 2}, {0, 1}}},
                                       {.stride = 2, .padding = same}}) {
    const Tensor y = conv2d(
        x, w, {},
        {.stride = options.stride, .dilation = options.dilation, .padding = options.padding});
    const Tensor columns = unfold(x, {3, 2}, options);
    CHECK(allclose(reshape(matmul(columns, matrix), y.shape()), y, {.atol = 1e-4}));
    WindowOptions first = options;
    first.channels = Channels::first;
    CHECK(equal(unfold(transpose(x, {0, 3, 1, 2}), {3, 2}, first), columns));
    // fold() is the transpose of unfold(): <unfold(x), c> = <x, fold(c)>.
    const Tensor c = random::normal(columns.shape()), folded = fold(c, {6, 7}, {3, 2}, options);
    CHECK(folded.shape() == x.shape());
    CHECK(allclose(sum(columns * c), sum(x * folded), {.rtol = 1e-3, .atol = 1e-2}));
    CHECK(equal(fold(c, {6, 7}, {3, 2}, first), transpose(folded, {0, 3, 1, 2})));
  }
  CHECK(unfold(ones({2, 5, 1}), 3).shape() == Shape({2, 3, 3}));
  CHECK(unfold(ones({1, 3, 4, 5, 2}), 2).shape() == Shape({1, 2 * 3 * 4, 16}));
  CHECK(unfold(ones({0, 5, 1}), 3).shape() == Shape({0, 3, 3}));
  check_refused<ShapeError>([] { unfold(ones({2, 5}), 3); }, "unfold: x: expected 3 to 5 axes");
  check_refused<ShapeError>([] { unfold(ones({2, 5, 1}), 6); }, "unfold: window");
  check_refused<ShapeError>(
      [] {
        fold(ones({1, 3, 4}), {3}, 2);
      },
      "fold: columns: expected [batch, 2, a multiple of 2]");
}

TEST_CASE("means over windows of 16 bits are rounded once") {
  const Tensor x = full({1, 3, 3, 2}, 3, {DType::bfloat16});
  CHECK(equal(mean_pool2d(x, 3), full({1, 1, 1, 2}, 3, {DType::bfloat16})));
  CHECK(equal(adaptive_mean_pool2d(x, 2), full({1, 2, 2, 2}, 3, {DType::bfloat16})));
  CHECK(equal(resize(x, 5, {.method = Resize::cubic}), full({1, 5, 5, 2}, 3, {DType::bfloat16})));
}
}  // namespace reel::tests
