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

TEST_CASE("L-BFGS finds the minima that SciPy's L-BFGS-B finds", "[optim]") {
  // minimize(method="L-BFGS-B", options={"maxcor": 10, "gtol": 1e-7, "ftol": 1e-15}), SciPy 1.17:
  // about as many evaluations: 48, 17, 14 and 55.
  const auto check = [](std::vector<double> start, const auto& loss, double least,
                        const std::vector<double>& place, std::int64_t evaluations) {
    Variable x("x", tensor(start));
    optim::LBFGS lbfgs({x}, {.iterations = 100});
    const optim::LBFGSResult result = lbfgs.step([&] { return loss(x.value()); });
    INFO(result.reason << ", loss " << result.loss << ", " << result.evaluations);
    CHECK(result.converged);
    CHECK(result.evaluations <= evaluations);
    CHECK(std::abs(result.loss - least) < 1e-8);
    CHECK(allclose(x, tensor(place), {.rtol = 1e-3, .atol = 0}));
  };
  check(
      {-1.2, 1}, [](const Tensor& x) { return 1e12 * rosenbrock(x); }, 0, {1, 1}, 60);
  const auto beale = [](const Tensor& v) {
    const Tensor x = v(0), y = v(1);
    return square(1.5 - x + x * y) + square(2.25 - x + x * y * y) +
           square(2.625 - x + x * y * y * y);
  };
  check({1, 1}, beale, 0, {3, 0.5}, 25);
  const auto logistic = [](const Tensor& x) {
    return mean(log(1 + exp(-x * tensor<double>({1, -2, 3})))) + 0.01 * sum(square(x));
  };
  check({1, 2, 3}, logistic, 0.1443384903176671, {1.9951744844, -1.5204370056, 1.2274184135}, 20);
  check(
      {-1.2e-6, 1e-6}, [](const Tensor& x) { return rosenbrock(x * 1e6); }, 0, {1e-6, 1e-6}, 60);
}

TEST_CASE("L-BFGS takes the same path in other units of the loss", "[optim]") {
  const auto path = [](double unit) {
    Variable x("x", tensor<double>({-1.2, 1.0}));
    optim::LBFGS lbfgs({x}, {.iterations = 30, .gradient_tolerance = 0, .change_tolerance = 0});
    lbfgs.step([&] { return unit * rosenbrock(x); });
    return x.value();
  };
  // Powers of two change no digit; the first step is one of length 1 from here.
  for (const double unit : {0x1p20, 0x1p40, 0x1p80}) CHECK(equal(path(unit), path(1)));
}

TEST_CASE("L-BFGS has converged where float32 has no lower loss", "[optim][cpu]") {
  const auto check = [](std::vector<float> start, const auto& loss) {
    Variable x("x", tensor(start));
    optim::LBFGS lbfgs({x}, {.iterations = 200, .change_tolerance = 0});
    const optim::LBFGSResult result = lbfgs.step([&] { return loss(x.value()); });
    INFO(result.reason);
    CHECK(result.converged);
    CHECK(result.reason.find("precision of the dtype") != result.reason.npos);
    // A new one, without pairs, says it too.
    const Tensor place = x.value();
    optim::LBFGS another({x}, {.change_tolerance = 0});
    const optim::LBFGSResult again = another.step([&] { return loss(x.value()); });
    INFO(again.reason << ", loss " << again.loss << ", " << again.evaluations);
    CHECK(again.converged);
    return place;
  };
  const Tensor middle = tensor({0.1f, 0.2f, 0.3f}), weight = tensor({1.f, 10.f, 100.f});
  const Tensor x =
      check({1, 2, 3}, [&](const Tensor& v) { return 1 + sum(square(v - middle) * weight); });
  CHECK(allclose(x, middle, {.atol = 1e-3}));
  check({1, 2, 3}, [](const Tensor& v) {
    return mean(log(1 + exp(-v * tensor({1.f, -2.f, 3.f})))) + 0.01 * sum(square(v));
  });
  // A wrong gradient is no minimum.
  Variable y("y", tensor({1.f}));
  const auto wrong = custom_gradient([](const Tensor& v) {
    return std::pair{sum(square(stop_gradient(v))),
                     [v](const Tensor& dy) -> Tensor { return -2 * v * dy; }};
  });
  const auto result = optim::LBFGS({y}).step([&] { return wrong(y); });
  CHECK(!result.converged);
  CHECK(result.reason == "the line search found no lower loss");
}

TEST_CASE("L-BFGS has not converged where the loss falls without end", "[optim]") {
  const auto check = [](const auto& loss) {
    for (const DType dtype : {DType::float32, DType::float64})
      for (const std::int64_t evaluations : {5, 25}) {
        Variable x("x", ones({2}, dtype));
        optim::LBFGS lbfgs({x}, {.iterations = 100, .evaluations = evaluations});
        const optim::LBFGSResult result = lbfgs.step([&] { return loss(x.value()); });
        INFO(evaluations << " evaluations: " << result.reason << ", loss " << result.loss);
        CHECK(!result.converged);
        if (evaluations == 25) CHECK(result.reason == "the loss falls without end along a line");
      }
  };
  check([](const Tensor& x) { return -sum(x); });
  check([](const Tensor& x) { return x(0) - 2 * x(1); });
  check([](const Tensor& x) { return -sum(square(x)); });
  check([](const Tensor& x) { return -sum(exp(x)); });
  check([](const Tensor& x) { return sum(log(x)); });
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
