// SPDX-License-Identifier: BSD-3-Clause
// Layers over images, and pooling.
#include <cmath>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("convolution layers compute their functions, with or without a bias", "[nn]") {
  seed(1);
  const Tensor x = random::normal({2, 6, 5, 4});
  const nn::Conv2d plain(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2});
  CHECK(plain.weight.shape() == Shape({3, 3, 2, 6}));
  CHECK(equal(plain(x),
              conv2d(x, plain.weight, plain.bias, {.stride = 2, .padding = 1, .groups = 2})));
  const nn::Conv2d bare(4, 6, {2, 3}, {}, nn::no_bias);
  CHECK(named_parameters(bare).size() == 1);
  CHECK(equal(bare(x), conv2d(x, bare.weight)));
  const nn::ConvTranspose2d back(6, 4, 3, {.stride = 2, .padding = 1, .output_padding = {1, 0}});
  CHECK(back(plain(x)).shape() == x.shape());
  const nn::Conv1d line(3, 5, 2);
  CHECK(line(random::normal({2, 7, 3})).shape() == Shape({2, 6, 5}));
  const nn::Conv3d space(2, 3, 2, {.padding = same});
  CHECK(space(random::normal({1, 3, 4, 5, 2})).shape() == Shape({1, 3, 4, 5, 3}));
  check_refused<ShapeError>([&] { plain(random::normal({2, 4, 6, 5})); }, "Conv2d");
  check_refused<ShapeError>([&] { nn::Conv2d(4, 6, 3, {.groups = 4}); }, "Conv2d: groups");
  check_refused<ShapeError>([&] { nn::Conv2d(4, 6, 0); }, "Conv2d: window");
  check_refused<ShapeError>([&] { nn::Conv1d(0, 6, 1); }, "Conv1d: in");
  check_refused<ShapeError>([&] { nn::Conv2d(4, 6, {1, 2, 3}); }, "Conv2d: window");
}

TEST_CASE("a network of convolutions learns, is saved and traced", "[nn]") {
  seed(2);
  nn::Sequential model{nn::Conv2d(1, 8, 3, {.padding = 1, .activation = Activation::relu}),
                       nn::MaxPool2d{2},
                       nn::Conv2d(8, 8, 3, {.padding = 1}, nn::no_bias),
                       nn::BatchNorm(8),
                       relu,
                       nn::MeanPool2d{2},
                       nn::Flatten(),
                       nn::Linear(8 * 2 * 2, 2)};
  // Vertical and horizontal bars.
  std::vector<Tensor> images;
  std::vector<int> labels;
  for (int i = 0; i < 16; ++i) {
    Tensor image = 0.3f * random::normal({8, 8, 1});
    const Tensor bar = one_hot(tensor(1 + i / 2 % 6), 8);
    image = image + (i % 2 ? bar.reshape({8, 1, 1}) : bar.reshape({1, 8, 1}));
    images.push_back(image);
    labels.push_back(i % 2);
  }
  const Tensor x = stack(images), y = tensor(labels);
  optim::Adam adam(parameters(model), {.learning_rate = 0.01});
  auto step = trace([&](Tensor batch, Tensor truth) {
    GradientTape tape;
    const Tensor loss = cross_entropy(model(batch), truth);
    adam.step(tape, loss);
    return loss;
  });
  const float first = step(x, y).item<float>();
  float last = 0;
  for (int i = 0; i < 60; ++i) last = step(x, y).item<float>();
  CHECK(last < 0.1f * first);
}

TEST_CASE("pooling has the lengths and counts of PyTorch's table") {
  const Tensor x = arange(0, 7).to(DType::float32).reshape({1, 7, 1});
  const auto values = [](const Tensor& y) { return y.reshape({-1}); };
  CHECK(equal(values(max_pool1d(x, 3, {.stride = 2})), tensor({2.f, 4.f, 6.f})));
  CHECK(equal(values(max_pool1d(x, 2)), tensor({1.f, 3.f, 5.f})));
  CHECK(equal(values(max_pool1d(x, 2, {.ceil = true})), tensor({1.f, 3.f, 5.f, 6.f})));
  CHECK(equal(values(mean_pool1d(x, 2, {.ceil = true})), tensor({0.5f, 2.5f, 4.5f, 6.f})));
  CHECK(equal(values(mean_pool1d(x, 3, {.stride = 3, .padding = 1})), tensor({0.5f, 3.f, 5.5f})));
  CHECK(equal(values(mean_pool1d(x, 4, {.stride = 3, .padding = 1, .count_padding = true})),
              tensor({0.75f, 3.5f})));
  // torch.nn.functional.avg_pool1d(x, 4, 3, 1, True): what ceil adds is not counted.
  CHECK(allclose(
      values(mean_pool1d(x, 4, {.stride = 3, .padding = 1, .ceil = true, .count_padding = true})),
      tensor({0.75f, 3.5f, 11.f / 3})));
  // A last window that would begin behind the image does not exist.
  CHECK(max_pool1d(ones({1, 4, 1}), 2, {.stride = 3, .padding = 1, .ceil = true}).shape() ==
        Shape({1, 2, 1}));
  CHECK(equal(values(adaptive_mean_pool1d(x, 3)), tensor({1.f, 3.f, 5.f})));
  CHECK(equal(values(adaptive_max_pool1d(x, 3)), tensor({2.f, 4.f, 6.f})));
  CHECK(adaptive_mean_pool2d(ones({2, 8, 6, 3}), {4, 5}).shape() == Shape({2, 4, 5, 3}));
  CHECK(equal(
      adaptive_max_pool2d(arange(0, 16).to(DType::float32).reshape({1, 4, 4, 1}), 2).reshape({-1}),
      tensor({5.f, 7.f, 13.f, 15.f})));
  check_refused<ShapeError>([&] { max_pool1d(x, 2, {.padding = 2}); }, "padding");
  check_refused<ShapeError>([&] { max_pool1d(x, 9); }, "window");
  check_refused<ShapeError>([&] { max_pool2d(x, 2); }, "max_pool2d: x: expected 4 axes");
}

TEST_CASE("the gradient of a largest element goes to the first of equal ones, and to NaN") {
  const float nan = std::nanf("");
  const Tensor x = tensor({1.f, 3.f, 3.f, 2.f, nan, 5.f, 5.f, nan}).reshape({1, 8, 1});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = max_pool1d(x, 2, {.stride = 2});
  CHECK(y.values<float>()[0] == 3);
  CHECK(y.values<float>()[1] == 3);
  CHECK(std::isnan(y.values<float>()[2]));
  CHECK(std::isnan(y.values<float>()[3]));
  CHECK(equal(tape.gradient(sum(y), x).reshape({-1}),
              tensor({0.f, 1.f, 1.f, 0.f, 1.f, 0.f, 0.f, 1.f})));
}

TEST_CASE("the gradient of overlapping windows with equal elements is that of a loop") {
  seed(3);
  const std::int64_t height = 8, width = 11;
  for (const std::int64_t channels : {1, 3, 8, 21}) {
    INFO("channels " << channels);
    const Shape shape{2, height, width, channels};
    Tensor x = random::integers(0, 3, shape).to(float32);
    x = where(random::uniform(shape) < 0.1, std::nan(""), x);
    GradientTape tape;
    tape.watch(x);
    const Tensor y =
        max_pool2d(x, {3, 2}, {.stride = {2, 1}, .dilation = {1, 2}, .padding = {1, 1}});
    const Tensor dy = random::integers(1, 9, y.shape()).to(float32);  // sums are exact
    std::vector<float> expected(static_cast<std::size_t>(shape.elements()));
    const auto from = x.values<float>(), up = dy.values<float>();
    const auto at = [&](std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
      return static_cast<std::size_t>(((n * height + h) * width + w) * channels + c);
    };
    std::size_t k = 0;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t p = 0; p < y.shape()[1]; ++p)
        for (std::int64_t q = 0; q < y.shape()[2]; ++q)
          for (std::int64_t c = 0; c < channels; ++c, ++k) {
            std::size_t best = from.size();
            for (std::int64_t h = 2 * p - 1; h < 2 * p + 2; ++h)
              for (std::int64_t w = q - 1; w < q + 3; w += 2) {
                if (h < 0 || h >= height || w < 0 || w >= width) continue;
                const std::size_t now = at(n, h, w, c);
                if (best == from.size() || from[now] > from[best] ||
                    (std::isnan(from[now]) && !std::isnan(from[best])))
                  best = now;
              }
            expected[best] += up[k];
          }
    CHECK(equal(tape.gradient(y, x, {.upstream = dy}), tensor(expected).reshape(shape)));
  }
}

TEST_CASE("pooling and resizing have the derivatives of differences") {
  seed(3);
  const Variable x("x", random::uniform({2, 5, 6, 2}, {.dtype = DType::float64}));
  const auto slopes = [&](auto f) {  // second order too
    const Tensor v = random::normal(x.shape(), {.dtype = DType::float64});
    const double h = 1e-5;
    const auto loss = [&](Tensor t) { return sum(square(f(t))); };
    const double near = (loss(x.value() + h * v) - loss(x.value() - h * v)).template item<double>();
    CHECK(std::fabs(near / (2 * h) - sum(grad(loss)(x.value()) * v).template item<double>()) <
          1e-5);
    const Tensor curve = hvp(loss, x.value(), v);
    const Tensor steep = (grad(loss)(x.value() + h * v) - grad(loss)(x.value() - h * v)) / (2 * h);
    CHECK(allclose(curve, steep, {.rtol = 1e-4, .atol = 1e-4}));
  };
  slopes([](Tensor t) { return max_pool2d(t, {2, 3}, {.stride = {2, 1}, .padding = {1, 0}}); });
  slopes([](Tensor t) { return mean_pool2d(t, 2, {.padding = 1, .ceil = true}); });
  slopes([](Tensor t) { return adaptive_mean_pool2d(t, {2, 4}); });
  slopes([](Tensor t) { return adaptive_max_pool2d(t, {2, 3}); });
  slopes([](Tensor t) { return resize(t, {7, 4}, {.method = Resize::linear}); });
  slopes([](Tensor t) { return resize(t, {3, 9}, {.method = Resize::cubic}); });
}

TEST_CASE("images are resized to values that PyTorch's interpolate() has") {
  const Tensor x = tensor({1.f, 3.f, 2.f}).reshape({1, 3, 1});
  const auto values = [&](Steps size, const ResizeOptions& options) {
    return resize(x, size, options).reshape({-1});
  };
  CHECK(equal(values(5, {}), tensor({1.f, 1.f, 3.f, 3.f, 2.f})));
  CHECK(allclose(values(6, {.method = Resize::linear}),
                 tensor({1.f, 1.5f, 2.5f, 2.75f, 2.25f, 2.f})));
  CHECK(allclose(values(5, {.method = Resize::linear, .align_corners = true}),
                 tensor({1.f, 2.f, 3.f, 2.5f, 2.f})));
  CHECK(allclose(values(3, {.method = Resize::cubic}), tensor({1.f, 3.f, 2.f})));
  CHECK(
      allclose(resize(ones({1, 4, 4, 2}), {7, 3}, {.method = Resize::cubic}), ones({1, 7, 3, 2})));
  CHECK(resize(ones({1, 2, 4, 4}), 8, {.channels = Channels::first}).shape() ==
        Shape({1, 2, 8, 8}));
  check_refused<ShapeError>([&] { resize(x, 0); }, "resize: size");
  check_refused<ShapeError>([&] { resize(ones({3, 4}), 2); }, "resize: x: expected 3 to 5 axes");
}
}  // namespace reel::tests
