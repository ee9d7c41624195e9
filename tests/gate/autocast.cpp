// SPDX-License-Identifier: BSD-3-Clause
// AutocastScope: which dtype ops compute in, and what tapes and traces see of it.
#include <map>
#include <stdexcept>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// The dtype of the result of each function of bfloat16 and of float32 inputs.
struct Row {
  const char* name;
  Tensor (*call)(const Tensor& x);
  DType of_bfloat16, of_float32;
};
constexpr DType b = DType::bfloat16, f = DType::float32;
const Row rows[] = {
    {"matmul", [](const Tensor& x) { return matmul(x, x); }, b, b},
    {"matmul_add", [](const Tensor& x) { return matmul_add(x, x, x(0)); }, b, b},
    {"dense", [](const Tensor& x) { return dense(x, x, x(0), Activation::tanh); }, b, b},
    {"conv1d",
     [](const Tensor& x) {
       return conv1d(x.reshape({1, 3, 3}), x.reshape({1, 3, 3}));
     },
     b, b},
    {"conv_transpose1d",
     [](const Tensor& x) {
       return conv_transpose1d(x.reshape({1, 3, 3}), x.reshape({1, 3, 3}));
     },
     b, b},
    {"exp", [](const Tensor& x) { return exp(x); }, f, f},
    {"log", [](const Tensor& x) { return log(x); }, f, f},
    {"power", [](const Tensor& x) { return power(x, 3); }, f, f},
    {"softmax", [](const Tensor& x) { return softmax(x); }, f, f},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x); }, f, f},
    {"sum", [](const Tensor& x) { return sum(x); }, f, f},
    {"mean", [](const Tensor& x) { return mean(x, 0); }, f, f},
    {"var", [](const Tensor& x) { return var(x); }, f, f},
    {"norm", [](const Tensor& x) { return norm(x); }, f, f},
    {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }, f, f},
    {"logsumexp", [](const Tensor& x) { return logsumexp(x, 0); }, f, f},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, x(0), x(0)); }, f, f},
    {"cross_entropy",
     [](const Tensor& x) {
       return cross_entropy(x, tensor({0, 1, 2}));
     },
     f, f},
    {"mse_loss", [](const Tensor& x) { return mse_loss(x, x); }, f, f},
    {"mse_loss of float32",
     [](const Tensor& x) {
       return mse_loss(x, zeros({3, 3}));
     },
     f, f},
    {"binary_cross_entropy_with_logits",
     [](const Tensor& x) { return binary_cross_entropy_with_logits(x, x); }, f, f},
    {"add", [](const Tensor& x) { return x + x; }, b, f},
    {"add of float32", [](const Tensor& x) { return x + ones({3}); }, f, f},
    {"multiply by a number", [](const Tensor& x) { return x * 2.5; }, b, f},
    {"tanh", [](const Tensor& x) { return tanh(x); }, b, f},
    {"relu", [](const Tensor& x) { return relu(x); }, b, f},
    {"concat",
     [](const Tensor& x) {
       return concat({x, x});
     },
     b, f},
    {"max", [](const Tensor& x) { return max(x, 0); }, b, f},
    {"transpose", [](const Tensor& x) { return transpose(x); }, b, f},
};
}  // namespace

TEST_CASE("autocast: the dtype of each result") {
  const Tensor x = full({3, 3}, 0.5);
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(row.call(x).dtype() == f);
    const AutocastScope scope;
    CHECK(row.call(x.to(b)).dtype() == row.of_bfloat16);
    CHECK(row.call(x).dtype() == row.of_float32);
    if (row.of_float32 == b) CHECK(row.call(x.to(DType::float64)).dtype() == DType::float64);
  }
  {
    const AutocastScope scope({DType::float16});
    CHECK(matmul(x, x).dtype() == DType::float16);
    const Tensor input = zeros({2, 1, 3});
    nn::LSTM lstm(3, 4);
    CHECK(lstm(input).outputs.dtype() == DType::float16);
    nn::BatchNorm norm(3);
    CHECK(norm(matmul(x, x)).dtype() == f);
    nn::Linear layer(3, 2);
    CHECK(layer(x).dtype() == DType::float16);
    CHECK(layer.weight.dtype() == f);
    CHECK(layer(ones({2, 2, 3})).dtype() == DType::float16);
    CHECK(matmul(tensor({{1.0, 2.0}}), tensor({{3}, {4}})).dtype() == DType::float16);
  }
}

TEST_CASE("autocast ends with its scope, also by an exception, and can be nested") {
  const Tensor x = ones({2, 2});
  try {
    const AutocastScope scope;
    throw std::runtime_error("");
  } catch (const std::runtime_error&) {
  }
  CHECK(matmul(x, x).dtype() == f);
  const AutocastScope outer;
  {
    const AutocastScope inner({f});
    CHECK(matmul(x, x).dtype() == f);
    const AutocastScope again({DType::float16});
    CHECK(matmul(x, x).dtype() == DType::float16);
  }
  CHECK(matmul(x, x).dtype() == b);
  CHECK_THROWS_AS(AutocastScope({DType::float64}), DTypeError);
}

TEST_CASE("autocast: gradients have the dtype of what they belong to") {
  seed(1);
  Variable w("w", random::normal({4, 4}));
  const Tensor x = random::normal({3, 4});
  Tensor inside, outside, second;
  {
    GradientTape tape({.persistent = true});
    Tensor loss;
    {
      const AutocastScope scope;
      loss = mean(square(tanh(matmul(x, w)) - 1));
      inside = tape.gradient(loss, w);
    }
    CHECK(loss.dtype() == f);
    outside = tape.gradient(loss, w);
  }
  CHECK(inside.dtype() == f);
  CHECK(equal(inside, outside));
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor exact = tape.gradient(mean(square(tanh(matmul(x, w)) - 1)), w);
    CHECK(allclose(inside, exact, {.rtol = 0.05, .atol = 0.02}));
    CHECK(!equal(inside, exact));
  }
  GradientTape outer;
  {
    GradientTape inner;
    const AutocastScope scope;
    second = inner.gradient(sum(power(matmul(x, w), 2)), w);
  }
  CHECK(outer.gradient(sum(second * second), w).dtype() == f);
}

TEST_CASE("autocast: a traced function has a path for each dtype") {
  seed(2);
  const Tensor x = random::normal({3, 4}), w = random::normal({4, 5});
  const auto f_of = [](Tensor a, Tensor c) { return softmax(matmul(a, c)) + matmul(a, c); };
  const auto traced = trace(f_of);
  for (int turn = 0; turn < 4; ++turn) {
    CHECK(equal(traced(x, w), f_of(x, w)));
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      const AutocastScope scope({dtype});
      const Tensor y = traced(x, w);
      CHECK(y.dtype() == f);
      CHECK(equal(y, f_of(x, w)));
      CHECK(!equal(y, [&] {
        const AutocastScope plain({f});
        return f_of(x, w);
      }()));
    }
  }
}

TEST_CASE("autocast: the second run of a checkpoint computes as the first one") {
  seed(3);
  const Tensor x = random::normal({4, 4});
  const auto block = [](Tensor y) { return tanh(matmul(y, y)); };
  const auto slope = [&](bool checked) {
    GradientTape tape;
    tape.watch(x);
    Tensor y;
    {
      const AutocastScope scope;
      y = checked ? checkpoint(block)(x) : block(x);
    }
    return tape.gradient(sum(y.to(f)), x);
  };
  CHECK(equal(slope(true), slope(false)));
}
}  // namespace reel::tests
