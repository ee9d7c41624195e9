// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "lib/table/op.hpp"
#include "support/error_text.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// While it lives, another op's kernel stands in the place of one, on CUDA devices. Names are those
/// of kernels, as "square" and "square.d0".
class WrongKernel {
 public:
  WrongKernel(std::string_view name, std::string_view other) {
    const auto [op, part] = OpTable::the().find_kernel(name);
    const auto [from, its_part] = OpTable::the().find_kernel(other);
    kernels_ = &op->on(Device::Kind::cuda);
    right_ = *kernels_;
    kernels_->set(part, from->on(Device::Kind::cuda).of(its_part));
  }
  ~WrongKernel() { *kernels_ = right_; }

 private:
  Kernels* kernels_;
  Kernels right_;
};
}  // namespace

TEST_CASE("a LockstepScope names the first kernel that differs from the CPU's, and its line") {
  const DeviceScope scope(cuda(0));
  const Tensor x = tensor({0.0f, 2.0f, 0.5f});
  const Variable w("w", tensor({1.0f, 2.0f, 3.0f}));
  const auto step = [&] {
    GradientTape tape;
    const Tensor y = sum(tanh(x * w) + sigmoid(w));
    return tape.gradient(y, w);
  };
  const LockstepScope lockstep;
  CHECK(error_text(step).empty());
  const WrongKernel wrong("tanh", "sigmoid");
  const unsigned line = __LINE__ + 1;
  const std::string text = error_text([&] { tanh(w); });
  INFO(text);
  CHECK(text.find("lockstep.cpp:" + std::to_string(line) + ": tanh: result: expected") == 0);
  CHECK(text.find("as on the CPU") != std::string::npos);
  CHECK(text.find(" at [0] on cuda:0") != std::string::npos);
}

TEST_CASE("a LockstepScope checks gradients, optimizer steps and steps of a trace") {
  const DeviceScope scope(cuda(0));
  nn::LSTMCell cell(3, 4);
  nn::LayerNorm norm(4);
  optim::Adam adam(parameters(cell));
  const Tensor x = random::normal({2, 3});
  const auto step = trace([&](Tensor from) {
    GradientTape tape;
    const Tensor loss = mean(square(norm(cell(from, cell.initial_state(2)).h)));
    adam.step(tape.gradient(loss, parameters(cell)));
    return loss;
  });
  for (int i = 0; i < 5; ++i) step(x);
  const LockstepScope lockstep;
  for (int i = 0; i < 3; ++i) CHECK(error_text([&] { step(x); }).empty());
  const auto text_with = [&](std::string_view kernel, std::string_view other) {
    const WrongKernel wrong(kernel, other);
    return error_text([&] { step(x); });
  };
  CHECK_THAT(text_with("square", "exp"), Catch::Contains("square: result") &&
                                             Catch::Contains("as on the CPU") &&
                                             Catch::Contains("on cuda:0"));
  CHECK_THAT(text_with("square.d0", "exp.d0"), Catch::Contains("gradient of square") &&
                                                   Catch::Contains("as on the CPU") &&
                                                   Catch::Contains("on cuda:0"));
  CHECK(error_text([&] { step(x); }).empty());
}

TEST_CASE("a LockstepScope compares kernels whose inputs are copied in row-major order first") {
  const Tensor x = transpose(random::normal({5, 4})).to(cuda(0)), row = ones({5}).to(cuda(0));
  const Tensor strided = transpose(transpose(x) + 0);
  const LockstepScope lockstep;
  CHECK(error_text([&] { layer_norm(strided, row, row); }).empty());
  CHECK(error_text([&] { limit_norm({strided, row}, 1); }).empty());
}

TEST_CASE("a LockstepScope compares with the largest number, and float64 more closely") {
  const DeviceScope scope(cuda(0));
  const Tensor tiny = full({3}, 1e-6f), x = full({3}, 0.01f);
  const LockstepScope lockstep;
  {
    const WrongKernel wrong("square", "abs");
    CHECK_THAT(error_text([&] { square(tiny); }), Catch::Contains("square: result: expected "));
  }
  // tanh(x) and sin(x) differ by x^2 / 6 = 1.7e-5 of their size.
  const WrongKernel wrong("tanh", "sin");
  CHECK(error_text([&] { tanh(x); }).empty());
  CHECK_THAT(error_text([&] { tanh(x.to(DType::float64)); }),
             Catch::Contains("tanh: result: expected "));
}

TEST_CASE("a LockstepScope takes equal integers, infinities and NaN as equal") {
  const DeviceScope scope(cuda(0));
  const Tensor numbers = tensor({1.0f, -2.0f, 0.0f}), whole = tensor({7, -3, 5});
  const LockstepScope lockstep;
  CHECK(error_text([&] { numbers / 0.0f; }).empty());
  CHECK(error_text([&] { whole + whole; }).empty());
  CHECK(error_text([&] { argsort(numbers); }).empty());
  CHECK(error_text([&] { numbers > 0; }).empty());
}

TEST_CASE("a LockstepScope refuses a tolerance that is no share") {
  for (const double wrong : {-1.0, std::nan("")})
    CHECK_THAT(error_text([&] { const LockstepScope lockstep({.tolerance = wrong}); }),
               Catch::Contains("LockstepScope: tolerance: expected a number of at least 0"));
}

TEST_CASE("a LockstepScope compares no more after its end") {
  const DeviceScope scope(cuda(0));
  const Tensor x = tensor({0.0f, 2.0f, 0.5f});
  { const LockstepScope lockstep; }
  const WrongKernel wrong("tanh", "sigmoid");
  CHECK(error_text([&] { tanh(x); }).empty());
}

TEST_CASE("a DeviceLogScope prints each op with its device and line") {
  const Tensor x = ones({2}), there = x.to(cuda(1));
  unsigned line = 0;
  const std::string text = on_stderr([&] {
    {
      const DeviceLogScope log;
      line = __LINE__ + 1;
      tanh(there);
      x* x;
    }
    exp(there);
  });
  const auto of = [](unsigned at, std::string_view rest) {
    return "lockstep.cpp:" + std::to_string(at) + ": " + std::string(rest);
  };
  CHECK_THAT(text, Catch::Contains(of(line, "tanh on cuda:1\n")) &&
                       Catch::Contains(of(line + 1, "multiply on cpu\n")));
  CHECK_THAT(text, !Catch::Contains("exp on"));
}

TEST_CASE("a DeviceLogScope goes on where a step of a trace keeps no result") {
  // The results of the first steps are in buffers of one block each.
  const auto traced = trace([](Tensor x) { return exp(tanh(x * 2) + 1); });
  const Tensor x = ones({1 << 18}), expected = traced(x);
  for (int i = 0; i < 4; ++i) traced(x);
  Tensor found;
  const std::string text = on_stderr([&] {
    const DeviceLogScope log;
    found = traced(x);
  });
  CHECK(equal(found, expected));
  CHECK_THAT(text, Catch::Contains("exp on cpu\n"));
}
}  // namespace reel::tests
