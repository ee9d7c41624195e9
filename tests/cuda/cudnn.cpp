// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru by cuDNN, whose reference in the emulator checks every argument, and by the kernels
// of this library, against the CPU.
#include <functional>
#include <limits>
#include <vector>

#include "cuda/emulated.hpp"
#include "support/error_text.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
enum class Lengths { none, some, with_zero };

struct Case {
  bool lstm, reverse;
  Lengths lengths;
  DType dtype;
};
std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const bool lstm : {true, false})
    for (const bool reverse : {false, true})
      for (const Lengths lengths : {Lengths::none, Lengths::some, Lengths::with_zero})
        for (const DType dtype : {DType::float32, DType::float64})
          all.push_back({lstm, reverse, lengths, dtype});
  return all;
}
std::string text_of(const Case& c) {
  return std::string(c.lstm ? "lstm" : "gru") + (c.reverse ? " reversed" : "") + " lengths " +
         std::to_string(static_cast<int>(c.lengths)) + " float" +
         std::to_string(8 * size_of(c.dtype));
}

/// The inputs of a case. What x holds behind the end of a sequence is NaN.
struct Inputs {
  std::vector<Tensor> given;  // x, states, weight, bias
  SequenceOptions options;
};
Inputs inputs_of(const Case& c) {
  constexpr std::int64_t time = 7, batch = 5, in = 3, hidden = 37;
  seed(5);
  const auto drawn = [&](const Shape& shape) { return random::normal(shape).to(c.dtype); };
  Inputs made;
  Tensor x = drawn({time, batch, in});
  if (c.lengths != Lengths::none) {
    made.options.lengths = tensor({7, c.lengths == Lengths::some ? 1 : 0, 3, 5, 6});
    const Tensor runs =
        expand_dims(expand_dims(arange(0, time), 1) < expand_dims(made.options.lengths, 0), 2);
    x = where(runs, x, std::numeric_limits<float>::quiet_NaN());
  }
  made.options.reverse = c.reverse;
  made.given = {x, drawn({batch, hidden})};
  if (c.lstm) made.given.push_back(drawn({batch, hidden}));
  made.given.push_back(drawn({in + hidden, (c.lstm ? 4 : 3) * hidden}) * 0.3);
  made.given.push_back(drawn({4 * hidden}));
  return made;
}
std::vector<Tensor> results_of(const std::vector<Tensor>& in, const SequenceOptions& options) {
  if (in.size() == 5) {
    const LSTMSequence all = lstm(in[0], in[1], in[2], in[3], in[4], options);
    return {all.outputs, all.h, all.c};
  }
  const GRUSequence all = gru(in[0], in[1], in[2], in[3], options);
  return {all.outputs, all.h};
}

/// All results and all gradients, of a tape that is asked twice.
std::vector<Tensor> everything(const Inputs& inputs, Device device) {
  SequenceOptions options = inputs.options;
  if (options.lengths.defined()) options.lengths = options.lengths.to(device);
  std::vector<Tensor> in;
  for (const Tensor& each : inputs.given) in.push_back(each.to(device));
  GradientTape tape({.persistent = true});
  for (const Tensor& each : in) tape.watch(each);
  std::vector<Tensor> all = results_of(in, options);
  Tensor loss = sum(square(all[0]));
  for (std::size_t i = 1; i < all.size(); ++i) loss = loss + sum(all[i] * all[i] * all[i]);
  for (int twice = 0; twice < 2; ++twice)
    for (const Tensor& each : tape.gradient(loss, GradientSources(in))) all.push_back(each);
  for (const Tensor& one : tape.gradient(sum(all[1]), GradientSources(in))) all.push_back(one);
  for (Tensor& each : all) each = each.to(cpu());
  return all;
}
double difference(const Tensor& x, const Tensor& y) {
  return (max(abs(x - y)) / max(abs(x))).to(DType::float64).item<double>();
}
/// The case with the largest difference from the CPU as text; empty if none differs.
std::string differences(const std::function<bool(const Case&)>& by_cudnn) {
  std::string found;
  everything(inputs_of(all_cases()[0]), cuda(0));  // the first call prepares cuDNN
  for (const Case& c : all_cases()) {
    const Inputs inputs = inputs_of(c);
    const std::vector<Tensor> expected = everything(inputs, cpu());
    emulate::reset_counts();
    const std::vector<Tensor> got = everything(inputs, cuda(0));
    const std::uint64_t recurrences = emulate::counts().recurrences;
    if (recurrences != (by_cudnn(c) ? 7 : 0))
      found += text_of(c) + ": " + std::to_string(recurrences) + " calls of cuDNN\n";
    const double tolerance = c.dtype == DType::float64 ? 1e-13 : 1e-5;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (const double share = difference(expected[i], got[i]); !(share <= tolerance))
        found += text_of(c) + ": number " + std::to_string(i) + ": " + std::to_string(share) + "\n";
  }
  return found;
}
std::string printed_by(const std::string& test, const std::string& value) {
  return printed_under(test, "REEL_CUDNN=" + value);
}
/// Two layers with lengths as one traced step of training.
std::vector<float> losses(bool traces, bool with_lengths) {
  const DeviceScope scope(cuda(0));
  seed(3);
  const auto layers = std::make_shared<nn::LSTM>(4, 6, nn::LSTMLayersOptions{.layers = 2});
  const auto adam = std::make_shared<optim::Adam>(parameters(*layers));
  const Tensor x = random::normal({5, 3, 4}), lengths = tensor({5, 2, 4});
  const auto eager = [layers, adam, with_lengths](Tensor from, Tensor ends) {
    GradientTape tape;
    const Tensor lengths_or_none = with_lengths ? ends : Tensor();
    const Tensor loss = mean(square((*layers)(from, {}, lengths_or_none).outputs - 1));
    adam->step(tape.gradient(loss, parameters(*layers)));
    return loss;
  };
  const auto step = trace(eager);
  std::vector<float> numbers;
  for (int i = 0; i < 12; ++i)
    numbers.push_back((traces ? step(x, lengths) : eager(x, lengths)).item<float>());
  return numbers;
}
}  // namespace

TEST_CASE("cuDNN computes lstm and gru without lengths, other kernels those with lengths") {
  CHECK(differences([](const Case& c) { return c.lengths == Lengths::none; }) == "");
  CHECK(losses(true, false) == losses(false, false));
  CHECK(losses(true, true) == losses(false, true));
}
TEST_CASE("what a test with REEL_CUDNN=lengths prints", "[.][cudnn_lengths]") {
  // cuDNN does not take sequences without steps.
  CHECK(differences([](const Case& c) { return c.lengths != Lengths::with_zero; }) == "");
  // The calls of cuDNN read lengths, and stand between the graphs of a trace.
  CHECK(losses(true, true) == losses(false, true));
}
TEST_CASE("what a test with REEL_CUDNN=0 prints", "[.][no_cudnn]") {
  CHECK(differences([](const Case&) { return false; }) == "");
  CHECK(losses(true, false) == losses(false, false));
}
TEST_CASE("what a test with other weights of cuDNN prints", "[.][cudnn_weights]") {
  emulate::reshape_weights(true);
  CHECK(cuda_status() == "CUDA devices: 2");
  const Inputs inputs = inputs_of({true, false, Lengths::none, DType::float64});
  const std::vector<Tensor> expected = everything(inputs, cpu()), got = everything(inputs, cuda(0));
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(expected[i], got[i]) <= 1e-13);
  CHECK(emulate::counts().recurrences == 0);
  const std::string status = cuda_status();
  CHECK_THAT(status, Catch::StartsWith("CUDA devices: 2. cuDNN 9"));
  CHECK_THAT(status,
             Catch::EndsWith(" does not compute lstm: it has the weights in an unexpected form."));
  everything(inputs_of({false, false, Lengths::none, DType::float64}), cuda(1));
  CHECK_THAT(cuda_status(), Catch::Contains(" does not compute gru: ") &&
                                Catch::Contains(" does not compute lstm: "));
}
TEST_CASE("cuda_status() says that cuDNN has the weights of a layer in an unexpected form") {
  CHECK_THAT(printed_under("[cudnn_weights]", ""), Catch::Contains("1 passed, 0 failed"));
}
TEST_CASE("REEL_CUDNN chooses what computes lstm and gru") {
  CHECK_THAT(printed_by("[cudnn_lengths]", "lengths"), Catch::Contains("1 passed, 0 failed"));
  CHECK_THAT(printed_by("[no_cudnn]", "0"), Catch::Contains("1 passed, 0 failed"));
}
}  // namespace reel::tests
