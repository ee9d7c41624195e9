// SPDX-License-Identifier: BSD-3-Clause
// Models with other weights, derivatives along vectors, Jacobians of batches, lists with a gradient
// of their own.
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
Tensor numbers(Shape shape) { return random::normal(shape, {.dtype = DType::float64}); }
bool near(const Tensor& a, const Tensor& b, double tolerance = 1e-9) {
  return allclose(a, b, {.rtol = tolerance, .atol = tolerance});
}

struct Net {
  Variable w{"w", numbers({3, 2})}, b{"b", numbers({2})};
  Tensor operator()(Operand x) const { return tanh(matmul(x, w) + b); }
  REEL_FIELDS(w, b)
};
/// The slopes of the sum of squares of the net's results, at weights moved along a direction.
std::vector<Tensor> slopes_at(const Net& net, const std::vector<Tensor>& along, double step,
                              const Tensor& x) {
  std::vector<Tensor> moved = {net.w + step * along[0], net.b + step * along[1]};
  GradientTape tape;
  for (const Tensor& w : moved) tape.watch(w);
  return tape.gradient(sum(square(functional_call(net, moved, x))), moved);
}
}  // namespace

TEST_CASE("a tensor that a differentiated function captures is a constant, also its argument") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), one = ones({3});
  const auto f = [&](Tensor q) { return sum(q * x); };
  CHECK(equal(grad(f)(x), x));
  CHECK(equal(value_and_grad(f)(x).second, x));
  CHECK(jvp(f, x, one).second.item<float>() == 6);
  CHECK(linearize(f, x).second(one).item<float>() == 6);
  CHECK(equal(hvp([&](Tensor q) { return sum(q * q * x); }, x, one), 2 * x));
  CHECK(equal(diagonal(jacobian([&](Tensor q) { return q * x; }, x)), x));
  CHECK(equal(batch_jacobian([&](Tensor q) { return q * x; }, x), x));
  const auto slope = [&](Tensor q) {
    return sum(grad([&](Tensor p) { return sum(p * p * q * x); })(q));
  };
  CHECK(equal(grad(slope)(x), 4 * x * x));
  // A tape follows the tensor itself, and through the argument.
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * 1;
  CHECK(equal(tape.gradient(sum(x * x), x), 2 * x));
  CHECK(equal(tape.gradient(sum(grad([&](Tensor q) { return sum(q * q * y); })(y)), x), 4 * x));
}

TEST_CASE("functional_call runs a model with other weights, and does not change it") {
  Net net;
  const Net other;
  const Tensor x = numbers({4, 3}), before = net.w.value() * 1.0;
  const std::vector<Tensor> weights = {other.w, other.b};
  CHECK(equal(functional_call(net, weights, x), other(x)));
  CHECK(equal(functional_call(net, parameters(other), x), other(x)));
  CHECK(equal(functional_call(net, {other.w, other.b}, x), other(x)));
  CHECK(equal(net.w, before));
  const auto f = [&](Tensor t) { return net(t) + net.b.value() + net.w(0); };
  const WeightScope scope(parameters(net), weights);
  CHECK(equal(f(x), other(x) + other.b + other.w(0)));
  {
    const WeightScope inner({net.b}, {zeros({2}, {.dtype = DType::float64})});
    CHECK(equal(net(x), tanh(matmul(x, other.w))));
  }
  CHECK(equal(net(x), other(x)));
  std::thread([&] { CHECK(equal(net.w, before)); }).join();  // other threads read their own
  std::string text;
  try {
    net.b.assign(1.0);
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text.find("assign: \"b\": expected a Variable with its own value") != text.npos);
  CHECK_THROWS_AS(net.w(0).assign(1.0), Error);
}

TEST_CASE("gradients go through the weights of functional_call: learning to adapt") {
  const Net net;
  const Variable rate("rate", tensor<double>(0.3));
  const Tensor x = numbers({4, 3}), y = numbers({4, 2}), x2 = numbers({5, 3}), y2 = numbers({5, 2});
  const auto task = [](const Tensor& scores, const Tensor& wanted) {
    return mean(square(scores - wanted));
  };
  // The loss after two steps of learning.
  const auto after = [&] {
    std::vector<Tensor> weights = {net.w, net.b};
    for (int i = 0; i < 2; ++i) {
      GradientTape inner;
      for (const Tensor& w : weights) inner.watch(w);
      const std::vector<Tensor> slopes =
          inner.gradient(task(functional_call(net, weights, x), y), weights);
      for (std::size_t k = 0; k < 2; ++k) weights[k] = weights[k] - rate * slopes[k];
    }
    return task(functional_call(net, weights, x2), y2);
  };
  GradientTape tape;
  const std::vector<Tensor> found = tape.gradient(after(), {net.w, net.b, rate});
  const double step = 1e-6;
  const std::vector<Variable> sources = {net.w, net.b, rate};
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const Tensor start = sources[k].value() * 1.0;
    for (std::int64_t i = 0; i < start.size(); ++i) {
      const Tensor move = one_hot(i, start.size(), DType::float64).reshape(start.shape()) * step;
      Variable source = sources[k];
      source.assign(start + move);
      const double up = after().item<double>();
      source.assign(start - move);
      const double down = after().item<double>();
      source.assign(start);
      CHECK(std::abs((up - down) / (2 * step) -
                     found[k].reshape({start.size()})(i).item<double>()) < 1e-7);
    }
  }
}

TEST_CASE("a tape made while other weights are read takes them for the Variables") {
  const Net net, other;
  const Tensor x = numbers({4, 3});
  GradientTape outer;
  const Tensor scale = tensor<double>(0.5);
  outer.watch(scale);
  const std::vector<Tensor> weights = {other.w * scale, other.b * scale};
  const WeightScope scope(parameters(net), weights);
  GradientTape inner({.persistent = true});
  const Tensor loss = sum(square(net(x)));
  const auto slopes = inner.gradient(loss, parameters(net));
  CHECK(equal(inner.gradient(loss, {net.w})[0], slopes[0]));
  GradientTape plain;
  for (const Tensor& w : weights) plain.watch(w);
  const auto expected =
      plain.gradient(sum(square(tanh(matmul(x, weights[0]) + weights[1]))), weights);
  for (std::size_t i = 0; i < 2; ++i) CHECK(near(slopes[i], expected[i]));
  CHECK(near(outer.gradient(loss, scale), sum(slopes[0] * other.w) + sum(slopes[1] * other.b)));
}

TEST_CASE("a tensor that is read often in place of a Variable is watched once") {
  const Net net;
  const std::vector<Tensor> weights = {net.w * 2, net.b * 2};
  const WeightScope scope(parameters(net), weights);
  const auto records = [&](int times) {
    GradientTape tape;
    for (int i = 0; i < times; ++i) net.w.value();
    return memory_statistics().live_records;
  };
  CHECK(records(1) > 0);
  CHECK(records(100) == records(1));
}

TEST_CASE("threads run one model with weights of their own", "[threads]") {
  const Net net;
  const Tensor x = numbers({4, 3});
  std::vector<std::thread> threads;
  std::vector<double> wrong(4);
  for (std::size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      const Tensor scale = tensor<double>(1.0 + static_cast<double>(i));
      for (int k = 0; k < 100; ++k) {
        GradientTape tape;
        tape.watch(scale);
        const Tensor y = sum(functional_call(net, {net.w * scale, net.b * scale}, x));
        const Tensor z = sum(tanh((matmul(x, net.w) + net.b) * scale));
        wrong[i] +=
            std::abs((y - z).item<double>()) + std::abs(sum(net(x) - net(x)).item<double>());
        const auto slopes = tape.gradient(y - z, {scale, net.w});
        wrong[i] += sum(abs(slopes[0])).item<double>() + sum(abs(slopes[1])).item<double>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const double each : wrong) CHECK(each < 1e-8);
}

TEST_CASE("derivatives along vectors inside a traced function") {
  const Net net;
  const auto f = [&](Tensor x, Tensor v) {
    const auto g = [&](Tensor t) { return exp(net(t)) * sum(t * t); };
    const auto [y, map] = linearize(g, x);
    return std::vector<Tensor>{y, map(v), jvp(g, x, v).second,
                               hvp([&](Tensor t) { return sum(g(t)); }, x, v),
                               batch_jacobian(net, x)};
  };
  auto traced = trace(f);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = numbers({4, 3}), v = numbers({4, 3});
    const auto found = traced(x, v), expected = f(x, v);
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(near(found[k], expected[k]));
  }
  INFO(traced.explain());
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("weights of another number, shape or dtype are refused by name") {
  const Net net;
  const Tensor x = numbers({4, 3}), w = net.w, b = net.b;
  check_refused<Error>([&] { functional_call(net, {w}, x); }, "weights: expected 2 tensors");
  check_refused<ShapeError>(
      [&] {
        functional_call(net, {b, b}, x);
      },
      "weight of \"w\": expected the Variable's shape (3, 2), got (2,)");
  check_refused<DTypeError>(
      [&] {
        functional_call(net, {w, ones({2})}, x);
      },
      "weight of \"b\": expected float64, got float32");
  check_refused<Error>([&] { functional_call(net, {w, Tensor()}, x); }, "an undefined Tensor");
  CHECK(equal(net(x), tanh(matmul(x, w) + b)));
}

TEST_CASE("functional_call inside a traced function, and a traced model inside functional_call") {
  const Net net;
  const auto call = [&](Tensor scale, Tensor x) {
    return functional_call(net, {net.w * scale, net.b - scale}, x);
  };
  auto traced = trace(call);
  auto model = trace([&](Tensor x) { return net(x); });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = numbers({4, 3}), scale = numbers({});
    CHECK(near(traced(scale, x), call(scale, x)));
    model(x);
    const WeightScope scope(parameters(net), {net.w * scale, net.b.value()});
    CHECK(near(model(x), net(x)));
  }
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("a checkpoint runs again with the weights of its first run") {
  const Net net;
  const Tensor x = numbers({4, 3}), scale = tensor<double>(0.5);
  const auto slope = [&](const auto& f) {
    GradientTape tape;
    tape.watch(scale);
    Tensor y;
    {
      const WeightScope scope(parameters(net), {net.w * scale, net.b * scale});
      y = f(x);
    }
    return tape.gradient(sum(y), {scale, net.w, net.b});
  };
  const auto found = slope(checkpoint(net)), expected = slope(net);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(near(found[i], expected[i]));
  // The other way round: other weights inside a checkpoint.
  const auto inside = [&](Tensor s) {
    return sum(functional_call(net, {net.w * s, net.b * s}, x));
  };
  CHECK(near(grad(checkpoint(inside))(scale), grad(inside)(scale)));
}

TEST_CASE("random numbers that are drawn under other weights in a checkpoint are drawn once") {
  const Net net;
  const Tensor x = numbers({4, 3});
  const auto f = checkpoint([&](Tensor at) {
    const WeightScope scope(parameters(net), {net.w * 2, net.b * 2});
    return at * random::uniform({4, 3}, {.low = 1, .high = 2, .dtype = DType::float64});
  });
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  CHECK(near(tape.gradient(sum(y), x) * x, y));
}

TEST_CASE("jvp and linearize are the Jacobian times a vector") {
  const Net net;
  const Tensor x = numbers({4, 3});
  const auto f = [&](Tensor t) { return exp(net(t)) * sum(t * t) + relu(net(t)); };
  const Tensor all = reshape(jacobian(f, x), {8, 12});
  const auto found = linearize(f, x);
  const Tensor y = found.first;
  const LinearMap map = found.second;
  CHECK(equal(y, f(x)));
  for (int i = 0; i < 3; ++i) {
    const Tensor v = numbers({4, 3});
    const Tensor expected = reshape(matmul(all, reshape(v, {12, 1})), {4, 2});
    const auto [value, along] = jvp(f, x, v);
    CHECK(equal(value, y));
    CHECK(near(along, expected));
    CHECK(near(map(v), expected));
    const auto copy = map;
    CHECK(near(copy(2 * v), 2 * expected));
  }
  const double step = 1e-6;
  const Tensor v = numbers({4, 3});
  CHECK(near(map(v), (f(x + step * v) - f(x - step * v)) / (2 * step), 1e-6));
  check_refused<ShapeError>([&] { map(numbers({3})); }, "tangent: expected the shape of x (4, 3)");
  check_refused<ShapeError>([&] { jvp(f, x, numbers({3})); },
                            "jvp or linearize: tangent: expected the shape of x (4, 3), got (3,)");
  CHECK_THROWS_AS(jvp([](Tensor) { return ones({2}); }, x, x), TapeError);
  CHECK(equal(jvp([](Tensor t) { return 3 * t; }, x, v).second, 3 * v));
  // Under a tape: the derivative of the derivative.
  const auto size = [&](Tensor t) { return sum(square(jvp(f, t, v).second)); };
  const Tensor slope = grad(size)(x), u = numbers({4, 3});
  const double difference = (size(x + step * u) - size(x - step * u)).item<double>() / (2 * step);
  CHECK(std::abs(sum(slope * u).item<double>() - difference) < 1e-5 * std::abs(difference));
}

TEST_CASE("a linear map is copied and assigned, and says what it cannot take") {
  const auto square_of = linearize([](const Tensor& t) { return t * t; }, ones({2}));
  auto map = linearize([](const Tensor& t) { return t * 5; }, ones({3})).second;
  CHECK(equal(map(ones({3})), full({3}, 5.0)));
  map = square_of.second;
  CHECK(equal(map(ones({2})), full({2}, 2.0)));
  CHECK(equal(square_of.second(ones({2})), full({2}, 2.0)));
  check_refused<Error>([&] { map(Tensor()); }, "tangent: expected a tensor, got an undefined");
  check_refused<ShapeError>([&] { map(ones({3})); }, "tangent: expected the shape of x (2,)");
  check_refused<Error>([] { hvp([](const Tensor& t) { return sum(t * t); }, ones({2}), Tensor()); },
                       "v: expected a tensor, got an undefined");
}

TEST_CASE("hvp is the Hessian times a vector, for tensors and for Variables") {
  const Net net;
  const Tensor x = numbers({3}), v = numbers({3});
  const auto f = [&](Tensor t) { return sum(exp(net(reshape(t, {1, 3})))) * sum(t * t * t); };
  const Tensor hessian = jacobian(grad(f), x);
  CHECK(near(hvp(f, x, v), reshape(matmul(hessian, reshape(v, {3, 1})), {3})));
  CHECK(equal(hvp([](Tensor t) { return 2 * sum(t); }, x, v), zeros({3})));
  check_refused<ShapeError>([&] { hvp(f, x, numbers({4})); }, "v: expected the shape of x (3,)");

  const Tensor batch = numbers({4, 3});
  const auto loss = [&] { return sum(square(net(batch))); };
  const std::vector<Tensor> along = {numbers({3, 2}), numbers({2})};
  const std::vector<Tensor> found = hvp(loss, parameters(net), along);
  const std::vector<Tensor> up = slopes_at(net, along, 1e-5, batch),
                            down = slopes_at(net, along, -1e-5, batch);
  for (std::size_t i = 0; i < 2; ++i) CHECK(near(found[i], (up[i] - down[i]) / 2e-5, 1e-6));
  check_refused<Error>([&] { hvp(loss, parameters(net), {along[0]}); }, "v: expected 2 tensors");
}

TEST_CASE("batch_jacobian is the diagonal of the Jacobian, in as many passes as an output has") {
  const Net net;
  const Tensor x = numbers({5, 3});
  const Tensor found = batch_jacobian(net, x);
  REQUIRE(found.shape() == Shape{5, 2, 3});
  for (std::int64_t i = 0; i < 5; ++i)
    CHECK(near(found(i), jacobian(
                             [&](Tensor t) {
                               return reshape(net(reshape(t, {1, 3})), {2});
                             },
                             x(i))));
  int passes = 0;
  const auto counted = custom_gradient([&](Tensor t) {
    return std::pair(t, [&](Tensor up) {
      ++passes;
      return up;
    });
  });
  batch_jacobian([&](Tensor t) { return net(counted(t)); }, x);
  CHECK(passes == 2);
  // More axes, numbers for each row, no rows.
  CHECK(batch_jacobian(
            [](Tensor t) {
              return reshape(t * t, {2, 3, 2});
            },
            ones({2, 2, 3}))
            .shape() == Shape{2, 3, 2, 2, 3});
  CHECK(equal(batch_jacobian([](Tensor t) { return t * t; }, tensor({2.0, 3.0})),
              tensor({4.0, 6.0})));
  CHECK(batch_jacobian(net, numbers({0, 3})).shape() == Shape{0, 2, 3});
  check_refused<ShapeError>([&] { batch_jacobian([](Tensor t) { return sum(t, 0); }, x); },
                            "target: expected a first axis like the source (5, 3), got (3,)");
  check_refused<ShapeError>([&] { batch_jacobian([](Tensor t) { return sum(t); }, x); },
                            "target: expected a first axis like the source (5, 3), got ()");
  GradientTape tape;
  tape.watch(x);
  CHECK(near(tape.batch_jacobian(net(x), x), found));
}

TEST_CASE("custom_gradient takes lists, and gives gradients of captured Variables") {
  const Variable w("w", tensor({2.0, 3.0}));
  const Tensor a = tensor({1.0, 4.0}), b = tensor({5.0, 6.0});
  const auto both = custom_gradient(
      [&](Tensors x) {
        return std::pair(Tensors{x[0] * x[1] * w, x[0] + x[1]}, [x, v = w.value()](Tensors up) {
          return Tensors{up[0] * x[1] * v + up[1], up[0] * x[0] * v + up[1],
                         up[0] * x[0] * x[1] * 10};
        });
      },
      {w});
  GradientTape tape({.persistent = true});
  tape.watch(a);
  tape.watch(b);
  const Tensors out = both({a, b});
  REQUIRE(out.size() == 2);
  CHECK(equal(out[0], a * b * w));
  const auto first = tape.gradient(out[0], {a, b, w});
  CHECK(equal(first[0], b * w));
  CHECK(equal(first[1], a * w));
  CHECK(equal(first[2], a * b * 10));
  CHECK(equal(tape.gradient(out[1], a), ones({2})));
  const std::vector<Tensor> list = {a, b};
  CHECK(equal(tape.gradient(sum(both(list)[0]) + sum(both(list)[1]), a), b * w + 1));
  // One result of a list, and an argument without a gradient.
  const auto total = custom_gradient([](const Tensors& x) {
    Tensor y = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) y = y + x[i];
    return std::pair(y, [n = x.size()](Tensor up) {
      std::vector<Tensor> all(n);
      all[0] = up * 7;
      return Tensors(all);
    });
  });
  const Tensor y = total({a, b, a * b});
  CHECK(equal(y, a + b + a * b));
  CHECK(equal(tape.gradient(y, a), full({2}, 7.0)));
  CHECK_THROWS_AS(tape.gradient(y, b), TapeError);
  const auto few =
      custom_gradient([](Tensor x) { return std::pair(x, [](Tensor up) { return up; }); }, {w});
  CHECK_THROWS_AS(tape.gradient(few(a), a), TapeError);  // none for the Variable
  const auto none =
      custom_gradient([](Tensors) { return std::pair(Tensors(), [](Tensors u) { return u; }); });
  check_refused<Error>([&] { none({a}); }, "value: expected at least one tensor");
}
}  // namespace reel::tests
