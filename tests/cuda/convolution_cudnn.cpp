// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by cuDNN, whose reference in the emulator checks every call, and by the kernels of
// this library, against the CPU.
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "cuda/emulated.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
using emulate::Convolutions;

struct Case {
  Shape x, weight;
  ConvolutionOptions options;
  bool by_cudnn = true;
};
std::vector<Case> cases() {
  return {{{2, 9, 3}, {3, 3, 5}, {.stride = 2, .padding = {{1, 2}}}},
          {{2, 7, 8, 3}, {3, 2, 3, 4}, {}},
          {{2, 7, 8, 3}, {3, 2, 3, 4}, {.stride = {2, 1}, .dilation = {1, 3}, .padding = {1, 2}}},
          {{3, 6, 5, 2}, {3, 3, 2, 7}, {.padding = {{0, 1}, {2, 1}}}},
          {{1, 5, 4, 6, 2}, {2, 3, 2, 2, 3}, {.stride = {1, 2, 1}, .padding = 1}},
          {{2, 4, 4, 32}, {3, 3, 16, 32}, {.padding = same, .groups = 2}},
          {{2, 4, 4, 12}, {3, 3, 6, 12}, {.padding = same, .groups = 2}, false},
          {{2, 5, 5, 4}, {3, 3, 1, 4}, {.groups = 4}, false},  // depthwise
          {{0, 5, 5, 4}, {3, 3, 4, 2}, {}, false}};
}
constexpr DType dtypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
/// The largest error of a number, as a share of the largest number.
double tolerance(DType dtype) {
  return dtype == DType::float64   ? 1e-13
         : dtype == DType::float32 ? 2e-6
         : dtype == DType::float16 ? 2e-3
                                   : 1.6e-2;
}

Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor* bias,
                 const ConvolutionOptions& options) {
  switch (x.rank()) {
    case 3:
      return bias ? conv1d(x, weight, *bias, options) : conv1d(x, weight, options);
    case 4:
      return bias ? conv2d(x, weight, *bias, options) : conv2d(x, weight, options);
    default:
      return bias ? conv3d(x, weight, *bias, options) : conv3d(x, weight, options);
  }
}
/// The result and its gradients, with and without a bias and an activation.
std::vector<Tensor> everything(const Case& c, DType dtype, Device device) {
  seed(5);
  std::vector<Tensor> in, all;
  for (const Shape& shape : {c.x, c.weight, Shape{c.weight.end()[-1]}})
    in.push_back(random::uniform(shape, {.low = -1}).to(dtype).to(device));
  for (const bool ends : {false, true}) {
    GradientTape tape;
    for (const Tensor& each : in) tape.watch(each);
    ConvolutionOptions options = c.options;
    if (ends) options.activation = Activation::tanh;
    all.push_back(convolved(in[0], in[1], ends ? &in[2] : nullptr, options));
    const std::vector<Tensor> sources(in.begin(), in.begin() + (ends ? 3 : 2));
    const Tensor loss = sum((all.back() * all.back()).to(DType::float32));
    for (const Tensor& each : tape.gradient(loss, sources)) all.push_back(each);
  }
  for (Tensor& each : all) each = each.to(cpu());
  return all;
}
double difference(const Tensor& expected, const Tensor& got) {
  if (expected.size() == 0) return expected.shape() == got.shape() ? 0 : 1;
  const Tensor x = expected.to(DType::float64), y = got.to(DType::float64);
  return (max(abs(x - y)) / maximum(max(abs(x)), 1e-3)).item<double>();
}
std::string text_of(const Case& c, DType dtype) {
  std::ostringstream text;
  text << c.x << " " << c.weight << " " << dtype;
  return text.str();
}
/// Where a device differs from the CPU, or a number of calls of cuDNN is wrong, as text.
std::string differences(bool by_cudnn, double least_tolerance = 0) {
  std::string found;
  for (const Case& c : cases())
    for (const DType dtype : dtypes) {
      const std::string name = text_of(c, dtype);
      const std::vector<Tensor> expected = everything(c, dtype, cpu());
      emulate::reset_counts();
      const std::vector<Tensor> got = everything(c, dtype, cuda(0));
      const std::uint64_t calls = emulate::counts().convolutions;
      if (calls != (by_cudnn && c.by_cudnn ? 6 : 0))
        found += name + ": " + std::to_string(calls) + " calls of cuDNN\n";
      for (std::size_t i = 0; i < got.size(); ++i)
        if (const double share = difference(expected[i], got[i]);
            !(share <= std::max(tolerance(dtype), least_tolerance)))
          found += name + ": number " + std::to_string(i) + ": " + std::to_string(share) + "\n";
    }
  return found;
}
Tensor convolve_once(std::int64_t width = 9) {
  const DeviceScope scope(cuda(0));
  return conv2d(ones({2, 8, width, 3}), ones({3, 3, 3, 5}));
}
std::uint64_t plans_of(const std::function<void()>& f) {
  const std::uint64_t before = emulate::counts().plans;
  f();
  return emulate::counts().plans - before;
}
/// Steps of training of a network with convolutions: a function of no arguments.
auto training(bool traces) {
  const DeviceScope scope(cuda(0));
  seed(3);
  const auto first = std::make_shared<nn::Conv2d>(3, 8, 3);
  const auto second = std::make_shared<nn::Conv2d>(8, 4, 3, ConvolutionOptions{.stride = 2});
  std::vector<Variable> weights = parameters(*first);
  for (const Variable& each : parameters(*second)) weights.push_back(each);
  const auto sgd = std::make_shared<optim::SGD>(weights, optim::SGDOptions{.learning_rate = 0.05});
  const Tensor images = random::normal({2, 9, 9, 3});
  const auto eager = [=](Tensor x) {
    GradientTape tape;
    const Tensor loss = mean(square((*second)(relu((*first)(x))) - 1));
    sgd->step(tape.gradient(loss, weights));
    return loss;
  };
  const auto step = trace(eager);
  return [=] {
    const DeviceScope here(cuda(0));
    return (traces ? step(images) : eager(images)).item<float>();
  };
}
std::vector<float> times(int n, const std::function<float()>& f) {
  std::vector<float> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(f());
  return numbers;
}
}  // namespace

TEST_CASE("cuDNN computes convolutions and their gradients, in no engine that rounds more") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    emulate::set_seed(seed);
    CHECK(differences(true) == "");
    CHECK(emulate::counts().blurred == 0);
  }
}
TEST_CASE("cuDNN adds the bias of 16 bits before it rounds") {
  seed(9);
  const Tensor x = random::normal({2, 6, 5, 3}), weight = random::normal({3, 2, 3, 7}),
               bias = random::normal({7});
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const ConvolutionOptions& options :
         {ConvolutionOptions{}, ConvolutionOptions{.stride = 2, .padding = 1}}) {
      const auto exact = [&](const Tensor& y) { return y.to(dtype).to(DType::float64); };
      const Tensor expected = conv2d(exact(x), exact(weight), exact(bias), options).to(dtype);
      const auto on_device = [&](const Tensor& y) { return y.to(dtype).to(cuda(0)); };
      const Tensor dx = on_device(x), dweight = on_device(weight), dbias = on_device(bias);
      emulate::reset_counts();
      const Tensor got = conv2d(dx, dweight, dbias, options);
      CHECK(emulate::counts().launches == 1);  // of the copy of the weight
      CHECK(difference(expected, got.to(cpu())) == 0);
    }
}
TEST_CASE("cuDNN computes transposed convolutions") {
  seed(7);
  const Tensor x = random::normal({2, 4, 5, 6}), weight = random::normal({3, 2, 4, 6});
  for (const std::int64_t more : {0, 1}) {
    const TransposedConvolutionOptions options{.stride = 3, .padding = 1, .output_padding = more};
    emulate::reset_counts();
    const Tensor got = conv_transpose2d(x.to(cuda(0)), weight.to(cuda(0)), options).to(cpu());
    CHECK(difference(conv_transpose2d(x, weight, options), got) < 1e-6);
    CHECK(emulate::counts().convolutions == 1);
  }
  // The output is longer than cuDNN takes it for: the stride is less than what is added.
  const TransposedConvolutionOptions long_output{.dilation = 3, .output_padding = 2};
  emulate::reset_counts();
  const Tensor got = conv_transpose2d(x.to(cuda(0)), weight.to(cuda(0)), long_output).to(cpu());
  CHECK(difference(conv_transpose2d(x, weight, long_output), got) < 1e-6);
}
TEST_CASE("a thread makes one plan of cuDNN for each geometry") {
  convolve_once();
  CHECK(plans_of([] { convolve_once(); }) == 0);
  CHECK(plans_of([] { convolve_once(31), convolve_once(31); }) == 1);
  CHECK(plans_of([] { std::thread([] { convolve_once(31), convolve_once(31); }).join(); }) == 1);
  // A thread takes over the handle of another one that has ended.
  CHECK(plans_of([] { std::thread([] { convolve_once(31); }).join(); }) == 0);
}
TEST_CASE("a plan of cuDNN is for addresses of one alignment, on one device") {
  const Tensor x = random::uniform({4, 3, 3, 3}), weight = random::uniform({2, 2, 3, 2});
  for (const Device device : {cuda(0), cuda(1)})
    for (const std::int64_t begin : {0, 1, 0, 2}) {
      emulate::reset_counts();
      const Tensor part = x.to(device)(range(begin, begin + 2));
      const Tensor got = conv2d(part, weight.to(device)).to(cpu());
      CHECK(difference(conv2d(x(range(begin, begin + 2)), weight), got) < 1e-6);
      CHECK(emulate::counts().convolutions == 1);
    }
}
TEST_CASE("threads convolve at the same time, each with its own handle of cuDNN") {
  const Tensor expected = convolve_once().to(cpu());
  std::vector<std::thread> threads;
  std::vector<double> shares(4, 1);
  for (double& share : shares)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) share = difference(expected, convolve_once().to(cpu()));
    });
  for (std::thread& each : threads) each.join();
  CHECK(shares == std::vector<double>(4, 0));
}
TEST_CASE("the kernels of this library compute what cuDNN refuses") {
  for (const Convolutions refused :
       {Convolutions::without_engines, Convolutions::without_plans, Convolutions::without_runs}) {
    std::string found;
    // A thread of its own has no plan yet.
    std::thread([&] {
      emulate::refuse_convolutions(refused);
      const Case c{{1, 7, 6, static_cast<std::int64_t>(refused)},
                   {2, 2, static_cast<std::int64_t>(refused), 3},
                   {.padding = {{1, 0}, {1, 1}}}};
      for (const DType dtype : dtypes) {
        const std::vector<Tensor> expected = everything(c, dtype, cpu());
        for (int twice = 0; twice < 2; ++twice) {
          const std::vector<Tensor> got = everything(c, dtype, cuda(0));
          for (std::size_t i = 0; i < got.size(); ++i)
            if (!(difference(expected[i], got[i]) <= tolerance(dtype)))
              found += text_of(c, dtype) + " ";
        }
        emulate::reset_counts();
        everything(c, dtype, cuda(0));
        if (emulate::counts().convolutions || emulate::counts().plans) found += "asked again ";
      }
      emulate::refuse_convolutions(Convolutions::computed);
    }).join();
    INFO(static_cast<int>(refused));
    CHECK(found == "");
  }
}
TEST_CASE("plans of cuDNN are in CUDA graphs, for which nothing is made") {
  const std::vector<float> eager = times(8, training(false));
  emulate::reset_counts();
  CHECK(times(8, training(true)) == eager);
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.graph_launches > 0);
  CHECK(counts.convolutions > 0);
  CHECK(counts.first_uses_in_captures == 0);
}
TEST_CASE("threads without plans of cuDNN replay what another thread has traced") {
  const std::vector<float> eager = times(40, training(false));
  const std::function<float()> step = training(true);
  std::vector<float> traced = times(2, step);
  // Each of these threads lives while the next ones do, so that none takes over a handle.
  const std::function<void(int)> in_threads = [&](int count) {
    std::thread([&] {
      traced.push_back(step());
      if (count > 1) in_threads(count - 1);
    }).join();
  };
  emulate::reset_counts();
  in_threads(8);
  for (const float each : times(30, step)) traced.push_back(each);
  CHECK(traced == eager);
  CHECK(emulate::counts().graph_launches > 0);
  CHECK(emulate::counts().first_uses_in_captures == 0);
}
TEST_CASE("what a test with REEL_CUDNN=0 prints of convolutions", "[.][no_cudnn_convolutions]") {
  CHECK(differences(false) == "");
}
TEST_CASE("what a test with TF32 prints of convolutions", "[.][cudnn_tf32]") {
  std::uint64_t blurred = 0;
  for (int i = 0; i < 20; ++i) {
    const Tensor x = random::normal({1, 6, 7 + i, 3});
    const Tensor weight = random::normal({3, 3, 3, 2});
    emulate::reset_counts();
    CHECK(difference(conv2d(x, weight), conv2d(x.to(cuda(0)), weight.to(cuda(0))).to(cpu())) <
          2e-3);
    blurred += emulate::counts().blurred;
  }
  CHECK(blurred > 0);
}
TEST_CASE("REEL_CUDNN and REEL_CUDA_TF32 choose what computes convolutions") {
  CHECK_THAT(printed_under("[no_cudnn_convolutions]", "REEL_CUDNN=0"),
             Catch::Contains("1 passed, 0 failed"));
  CHECK_THAT(printed_under("[cudnn_tf32]", "REEL_CUDA_TF32=1"),
             Catch::Contains("1 passed, 0 failed"));
}
}  // namespace reel::tests
