// SPDX-License-Identifier: BSD-3-Clause
// A small residual network (He et al. 2016) learns Fashion-MNIST in float32, or with its products
// in bfloat16 or float16: convolutions, batch norms, an AutocastScope, a LossScaler.
#include <reel/reel.hpp>
#include <vector>

#include "fashion.hpp"

using namespace reel;

struct Options : fashion::Options {
  std::int64_t width = 16;
  std::string dtype = "bfloat16";
  Options() : fashion::Options(3, 2e-3) {}
};

/// Two convolutions, and the image itself beside them: y = relu(x + f(x)).
struct Block {
  nn::Conv2d first, second;
  nn::BatchNorm norm1, norm2;
  std::vector<nn::Conv2d> shorter;  // the image with other lengths and channels, where they change
  Block(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first(in, out, 3, {.stride = stride, .padding = 1}, nn::Bias::no),
        second(out, out, 3, {.padding = 1}, nn::Bias::no),
        norm1(out),
        norm2(out) {
    if (in != out || stride != 1)
      shorter.emplace_back(in, out, 1, ConvolutionOptions{.stride = stride});
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = norm2(second(relu(norm1(first(x)))));
    return relu(y + (shorter.empty() ? x : shorter[0](x)));
  }
  REEL_FIELDS(first, second, norm1, norm2, shorter)
};

struct Model {
  nn::Conv2d stem;
  Block one, two, three;
  nn::Linear head;
  explicit Model(std::int64_t width)
      : stem(1, width, 3, {.padding = 1, .activation = Activation::relu}),
        one(width, width, 1),
        two(width, 2 * width, 2),
        three(2 * width, 4 * width, 2),
        head(4 * width, fashion::names.size()) {}
  /// Scores of the ten kinds for bytes [batch, 784]: [batch, 10].
  Tensor operator()(const Tensor& images) const {
    const Tensor x = reshape(images / 255.0, {-1, 28, 28, 1});
    return head(mean(three(two(one(stem(x)))), {1, 2}));
  }
  REEL_FIELDS(stem, one, two, three, head)
};

DType dtype_of(const std::string& name) {
  return name == "float32" ? float32 : name == "float16" ? float16 : bfloat16;
}

void train(Model& model, const Options& options) {
  auto train = data::rows(fashion::train(options.data))
                   .shuffle({.seed = options.seed})
                   .batch(options.batch, {.drop_rest = true})
                   .prefetch({.device = device_named(options.device)});
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.epochs * train.size()));
  optim::LossScaler scaler;
  const auto loss = [&](const Model& m, const fashion::Set& batch) {
    const AutocastScope autocast({.dtype = dtype_of(options.dtype)});
    return cross_entropy(m(batch.images), batch.labels);
  };
  fit(model, adam, train, loss,
      {.epochs = options.epochs, .schedule = &schedule, .scaler = &scaler, .progress = true});
}

double accuracy(const Model& model, const fashion::Set& test) {
  TrainScope evaluating(false);
  std::int64_t right = 0;
  const std::int64_t count = test.images.shape(0);
  for (std::int64_t first = 0; first < count; first += 500) {
    const auto part = range(first, first + 500);
    right += sum(argmax(model(test.images(part)), 1) == test.labels(part)).item<std::int64_t>();
  }
  return 100.0 * static_cast<double>(right) / static_cast<double>(count);
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A small residual network learns Fashion-MNIST.", options);
  line.add("--dtype", options.dtype, "of products: float32, bfloat16 or float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  line.add("--width", options.width, "channels of the first block")->check(CLI::PositiveNumber);
  options.add_to(line);
  return line.run(argc, argv, [&] {
    const fashion::Set test = fashion::test(options.data);
    Model model(options.width);
    fmt::print("{}", summary(model));
    train(model, options);
    fmt::print("held out: {:.2f} % of {} right\n", accuracy(model, test), test.labels.size());
  });
}
