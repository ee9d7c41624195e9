// SPDX-License-Identifier: BSD-3-Clause
// L-BFGS: minima with known places, what it refuses, and what stays after an exception.
#include <reel/optim/lbfgs.hpp>

#include <cmath>
#include <stdexcept>
#include <string>

#include "io/folder.hpp"
#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// Rosenbrock's function: a curved valley with its minimum 0 at (1, 1).
Tensor rosenbrock(const Tensor& x) { return 100 * square(x(1) - square(x(0))) + square(1 - x(0)); }
}  // namespace

TEST_CASE("L-BFGS finds the minimum of Rosenbrock's function", "[optim]") {
  Variable x("x", tensor<double>({-1.2, 1.0}));
  optim::LBFGS lbfgs({x}, {.iterations = 100});
  const optim::LBFGSResult result = lbfgs.step([&] { return rosenbrock(x); });
  INFO(result.reason << ", " << result.iterations << " iterations, " << result.evaluations);
  CHECK(result.converged);
  CHECK(result.iterations < 50);
  CHECK(result.evaluations < 80);
  CHECK(result.loss < 1e-12);
  CHECK(allclose(x, ones({2}, DType::float64), {.rtol = 1e-5}));
}

TEST_CASE("L-BFGS solves least squares over several Variables as the normal equations do",
          "[optim]") {
  const GeneratorScope scope(Generator(3));
  const Tensor a = random::normal({40, 6}, {.dtype = DType::float64}),
               b = random::normal({40, 2}, {.dtype = DType::float64});
  Variable w("w", zeros({6, 2}, DType::float64)), c("c", zeros({2}, DType::float64));
  optim::LBFGS lbfgs({w, c},
                     {.iterations = 200, .gradient_tolerance = 1e-6, .change_tolerance = 0});
  CHECK(lbfgs.step([&] { return sum(square(matmul(a, w) + c - b)); }).converged);
  // Each column of ones and of `a` is orthogonal to the rest.
  const Tensor rest = matmul(a, w) + c - b;
  CHECK(max(abs(matmul(transpose(a), rest))).item<double>() < 1e-6);
  CHECK(max(abs(sum(rest, 0))).item<double>() < 1e-6);
}

TEST_CASE("L-BFGS minimizes float32 and goes on over calls of step()", "[optim]") {
  Variable x("x", tensor({-1.2, 1.0}));
  optim::LBFGS lbfgs({x}, {.iterations = 4});
  double before = rosenbrock(x).item<double>();
  for (int i = 0; i < 15; ++i) {
    const optim::LBFGSResult result = lbfgs.step([&] { return rosenbrock(x); });
    CHECK(result.loss <= before);
    before = result.loss;
  }
  CHECK(allclose(x, ones({2}), {.atol = 1e-2}));
}

TEST_CASE("a line search of L-BFGS steps back from infinities and NaN", "[optim]") {
  Variable x("x", tensor<double>({0.5}));
  optim::LBFGS lbfgs({x}, {.iterations = 50, .learning_rate = 100});
  // Not finite at 0 and below; the minimum is at 1.
  const auto result = lbfgs.step([&] { return sum(x - log(x)); });
  CHECK(result.converged);
  CHECK(std::abs(x.value()(0).item<double>() - 1) < 1e-5);
}

TEST_CASE("L-BFGS stops where the gradient is 0, and at kinks without a lower loss", "[optim]") {
  Variable x("x", zeros({3}));
  optim::LBFGS flat({x});
  const auto at_minimum = flat.step([&] { return sum(square(x)); });
  CHECK(at_minimum.converged);
  CHECK(at_minimum.evaluations == 1);
  CHECK(at_minimum.iterations == 0);
  Variable y("y", tensor<double>({1e-3}));
  optim::LBFGS kink({y});
  CHECK(kink.step([&] { return sum(abs(y)); }).loss <= 1e-3);
}

TEST_CASE("L-BFGS goes on with other losses and after being saved", "[optim]") {
  const Folder folder;
  const std::string path = folder.file("lbfgs.safetensors");
  Variable x("x", tensor<double>({-1.2, 1.0}));
  optim::LBFGS first({x}, {.iterations = 7});
  first.step([&] { return rosenbrock(x); });
  io::save(path, first);
  Variable y("y", x.value());
  optim::LBFGS second({y}, {.iterations = 7});
  io::load(path, second);
  first.step([&] { return rosenbrock(x); });
  second.step([&] { return rosenbrock(y); });
  CHECK(equal(x, y));
  // Another loss: pairs of the first one do not mislead it.
  for (int i = 0; i < 10; ++i) first.step([&] { return sum(square(x + 2)); });
  CHECK(allclose(x, full({2}, -2.0, DType::float64), {.rtol = 1e-6}));
}

TEST_CASE("L-BFGS refuses losses that it cannot minimize", "[optim]") {
  Variable x("x", ones({2}));
  optim::LBFGS lbfgs({x});
  require_parts(message<ShapeError>([&] { lbfgs.step([&] { return x * 2; }); }),
                {"LBFGS: loss: expected one number", "shape (2,)"});
  require_parts(message<ShapeError>([&] { lbfgs.step([&] { return Tensor(); }); }),
                {"LBFGS: loss: expected one number, got nothing"});
  require_parts(message<Error>([&] { lbfgs.step([&] { return sum(log(-x)); }); }),
                {"LBFGS: loss: expected a finite loss", "nan"});
  require_parts(message<Error>([&] { lbfgs.step([&] { return sum(sqrt(x - 1)); }); }),
                {"LBFGS: loss: expected a finite loss with a finite gradient"});
  message<TapeError>([&] { lbfgs.step([&] { return sum(ones({2})); }); });
  CHECK(equal(x, ones({2})));
  const Variable half("half", ones({2}, DType::float64));
  require_parts(message<DTypeError>([&] {
                  optim::LBFGS({x, half});
                }),
                {"LBFGS", "half", "float32"});
  require_parts(message<Error>([&] { optim::LBFGS({x, x}); }), {"LBFGS"});
  require_parts(message<Error>([&] { optim::LBFGS({}); }), {"LBFGS"});
  require_parts(message<Error>([&] { optim::LBFGS({x}, {.history = 0}); }),
                {"history", "1 or more"});
  require_parts(message<Error>([&] { optim::LBFGS({x}, {.learning_rate = 0}); }),
                {"learning_rate"});
}

TEST_CASE("after an exception of the loss, L-BFGS has left the last finished iteration",
          "[optim]") {
  Variable x("x", tensor<double>({-1.2, 1.0}));
  optim::LBFGS lbfgs({x}, {.iterations = 100});
  int calls = 0;
  double best = rosenbrock(x).item<double>();
  CHECK_THROWS_AS(lbfgs.step([&]() -> Tensor {
    if (++calls == 12) throw std::runtime_error("stop");
    return rosenbrock(x);
  }),
                  std::runtime_error);
  CHECK(rosenbrock(x).item<double>() < best);
  CHECK(lbfgs.step([&] { return rosenbrock(x); }).loss < 1e-10);
}

TEST_CASE("a clone of a model with L-BFGS trains the clone", "[optim]") {
  struct Fit {
    Variable x{"x", tensor<double>({4.0})};
    optim::LBFGS lbfgs{{x}};
    REEL_FIELDS(x, lbfgs)
  };
  const Fit model;
  Fit copy = clone(model);
  copy.lbfgs.step([&] { return sum(square(copy.x)); });
  CHECK(std::abs(copy.x.value()(0).item<double>()) < 1e-6);
  CHECK(model.x.value()(0).item<double>() == 4);
}
}  // namespace reel::tests
