// SPDX-License-Identifier: BSD-3-Clause
#include <reel/random.hpp>

#include <cmath>
#include <limits>

#include <reel/ops.hpp>

#include "lib/body/dtypes.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/random.hpp"

namespace reel {
extern Op random_op;

namespace {
void random_shape(Inference& call) {
  const auto& option = call.option<RandomOptions>();
  for (std::int64_t length : option.shape)
    if (length < 0)
      fail<ShapeError>(call.caller, call.op.name, "shape", "lengths of at least 0",
                       to_text(option.shape));
  call.output(option.dtype, option.shape);
}

const char* draw_fits(const Inference& call) {
  using Kind = RandomOptions::Kind;
  const auto& o = call.option<RandomOptions>();
  if (!is_shape(o.shape)) return "a shape";
  if (o.kind == Kind::integers || o.kind == Kind::permutation)
    return o.dtype == DType::int64 && (o.kind == Kind::permutation || o.low < o.high)
               ? nullptr
               : "a range of int64";
  if (o.kind == Kind::bernoulli)
    return (o.dtype == DType::boolean || is_floating(o.dtype)) && o.a >= 0 && o.a <= 1
               ? nullptr
               : "a probability";
  bool fits = o.kind >= Kind::uniform && o.kind <= Kind::beta && is_floating(o.dtype);
  for (const double number : {o.a, o.b, o.location, o.scale}) fits &= !std::isnan(number);
  if (o.kind == Kind::truncated_normal) fits &= o.a < o.b;
  if (o.kind == Kind::gamma || o.kind == Kind::beta) fits &= o.a > 0 && std::isfinite(o.a);
  if (o.kind == Kind::beta) fits &= o.b > 0 && std::isfinite(o.b);
  return fits ? nullptr : "a distribution and its parameters";
}

/// Draws from the generator of the thread, and advances its position.
Tensor draw_now(RandomOptions& options, Caller caller) {
  Generator& generator = current_generator();
  options.seed = seed_of(generator);
  options.position = position_of(generator);
  Tensor result = run(random_op, options, caller);
  generator.set_position(options.position + options.blocks(result.size()));
  return result;
}
Tensor draw(RandomOptions options, Caller caller) {
  Redirect* const redirect = Redirect::here(Context::here());
  return redirect ? redirect->draw(options, caller, draw_now) : draw_now(options, caller);
}

void require_fractions(DType dtype, std::string_view op, std::string_view argument, Caller caller) {
  if (!is_floating(dtype))
    fail<DTypeError>(caller, op, argument, "a floating dtype", name_of(dtype));
}

/// Every number of the range must be representable in the dtype.
void require_finite(std::string_view op, std::string_view argument, double number, DType dtype,
                    Caller caller) {
  const double most = with_element(dtype, []<class T>(Type<T>) -> double {
    using Number = std::conditional_t<std::is_floating_point_v<T>, T, double>;
    return std::numeric_limits<Number>::max();  // the other dtypes are refused
  });
  if (!(std::abs(number) <= most))
    fail<Error>(caller, op, argument, "a finite " + Text(name_of(dtype)), to_text(number));
}

void random_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({7}), Shape({3, 70})}) {
    sample(out, {}, [shape](const std::vector<Tensor>&) {
      const GeneratorScope scope(Generator(3));
      return random::normal(shape, {.dtype = DType::float64});
    });
    sample(out, {}, [shape](const std::vector<Tensor>&) {
      const GeneratorScope scope(Generator(4));
      return random::uniform(shape);
    });
    sample(out, {}, [shape](const std::vector<Tensor>&) {
      const GeneratorScope scope(Generator(5));
      return random::gumbel(shape, {.dtype = DType::float64});
    });
    sample(out, {}, [shape](const std::vector<Tensor>&) {
      const GeneratorScope scope(Generator(6));
      return random::gamma(0.5, shape);
    });
  }
}
}  // namespace

constinit Op random_op{.name = "random",
                       .arity = 0,
                       .shape = random_shape,
                       .options = &options_type<RandomOptions>,
                       .check = draw_fits,
                       .differentiable = false,
                       .internal = true,
                       .random = true,
                       .samples = random_samples};

namespace random {
Tensor normal(Shape shape, NormalOptions options, Caller caller) {
  const FunctionScope scope(caller, "normal");
  require_fractions(options.dtype, "normal", "dtype", caller);
  require_finite("normal", "mean", options.mean, options.dtype, caller);
  require_finite("normal", "stddev", options.stddev, options.dtype, caller);
  if (options.stddev < 0)
    fail<Error>(caller, "normal", "stddev", "at least 0", to_text(options.stddev));
  return draw({.kind = RandomOptions::Kind::normal,
               .a = options.mean,
               .b = options.stddev,
               .dtype = options.dtype,
               .shape = shape},
              caller);
}
Tensor uniform(Shape shape, UniformOptions options, Caller caller) {
  const FunctionScope scope(caller, "uniform");
  require_fractions(options.dtype, "uniform", "dtype", caller);
  require_finite("uniform", "low", options.low, options.dtype, caller);
  require_finite("uniform", "high", options.high, options.dtype, caller);
  if (options.low > options.high)
    fail<Error>(caller, "uniform", "high", "at least low = " + to_text(options.low),
                to_text(options.high));
  return draw({.kind = RandomOptions::Kind::uniform,
               .a = options.low,
               .b = options.high,
               .dtype = options.dtype,
               .shape = shape},
              caller);
}
Tensor integers(CountNumber low, CountNumber high, Shape shape, Caller caller) {
  const FunctionScope scope(caller, "integers");
  if (low >= high)
    fail<Error>(caller, "integers", "high", "more than low = " + to_text(low.value),
                to_text(high.value));
  return draw({.kind = RandomOptions::Kind::integers,
               .low = low,
               .high = high,
               .dtype = DType::int64,
               .shape = shape},
              caller);
}
Tensor bernoulli(double probability, Shape shape, Caller caller) {
  const FunctionScope scope(caller, "bernoulli");
  if (!(probability >= 0 && probability <= 1))
    fail<Error>(caller, "bernoulli", "probability", "a number in [0, 1]", to_text(probability));
  return draw({.kind = RandomOptions::Kind::bernoulli,
               .a = probability,
               .b = 1,
               .dtype = DType::boolean,
               .shape = shape},
              caller);
}
namespace {
void require_parameter(std::string_view op, std::string_view name, double number, DType dtype,
                       Caller caller) {
  require_finite(op, name, number, dtype, caller);
  if (!(number > 0)) fail<Error>(caller, op, name, "more than 0", to_text(number));
}
/// Draws floating numbers; errors name this function.
Tensor draw_floating(std::string_view name, RandomOptions options, Caller caller) {
  require_fractions(options.dtype, name, "dtype", caller);
  require_finite(name, "location", options.location, options.dtype, caller);
  return draw(options, caller);
}
}  // namespace
Tensor exponential(Shape shape, ExponentialOptions options, Caller caller) {
  const FunctionScope scope(caller, "exponential");
  require_parameter("exponential", "scale", options.scale, options.dtype, caller);
  return draw_floating("exponential",
                       {.kind = RandomOptions::Kind::exponential,
                        .scale = options.scale,
                        .dtype = options.dtype,
                        .shape = shape},
                       caller);
}
Tensor gumbel(Shape shape, GumbelOptions options, Caller caller) {
  const FunctionScope scope(caller, "gumbel");
  require_parameter("gumbel", "scale", options.scale, options.dtype, caller);
  return draw_floating("gumbel",
                       {.kind = RandomOptions::Kind::gumbel,
                        .location = options.location,
                        .scale = options.scale,
                        .dtype = options.dtype,
                        .shape = shape},
                       caller);
}
Tensor truncated_normal(Shape shape, TruncatedNormalOptions options, Caller caller) {
  constexpr std::string_view name = "truncated_normal";
  const FunctionScope scope(caller, name);
  require_fractions(options.dtype, name, "dtype", caller);
  require_finite(name, "mean", options.mean, options.dtype, caller);
  require_finite(name, "stddev", options.stddev, options.dtype, caller);
  if (options.stddev < 0)
    fail<Error>(caller, name, "stddev", "at least 0", to_text(options.stddev));
  if (!(options.low < options.high))
    fail<Error>(caller, name, "high", "more than low = " + to_text(options.low),
                to_text(options.high));
  return draw_floating(name,
                       {.kind = RandomOptions::Kind::truncated_normal,
                        .a = options.low,
                        .b = options.high,
                        .location = options.mean,
                        .scale = options.stddev,
                        .dtype = options.dtype,
                        .shape = shape},
                       caller);
}
Tensor gamma(double alpha, Shape shape, GammaOptions options, Caller caller) {
  const FunctionScope scope(caller, "gamma");
  require_parameter("gamma", "alpha", alpha, DType::float64, caller);
  require_parameter("gamma", "scale", options.scale, options.dtype, caller);
  return draw_floating("gamma",
                       {.kind = RandomOptions::Kind::gamma,
                        .a = alpha,
                        .scale = options.scale,
                        .dtype = options.dtype,
                        .shape = shape},
                       caller);
}
Tensor beta(double a, double b, Shape shape, BetaOptions options, Caller caller) {
  const FunctionScope scope(caller, "beta");
  require_parameter("beta", "a", a, DType::float64, caller);
  require_parameter("beta", "b", b, DType::float64, caller);
  return draw_floating(
      "beta",
      {.kind = RandomOptions::Kind::beta, .a = a, .b = b, .dtype = options.dtype, .shape = shape},
      caller);
}

Tensor permutation(Extent n, Caller caller) {
  const FunctionScope scope(caller, "permutation");
  return draw({.kind = RandomOptions::Kind::permutation,
               .dtype = DType::int64,
               .shape = Shape({n}, caller)},
              caller);
}
}  // namespace random

Tensor dropout(Operand x, double probability) {
  const Caller caller = x.caller();
  const FunctionScope scope(caller, "dropout");
  if (!(probability >= 0 && probability < 1))
    fail<Error>(caller, "dropout", "probability", "a number in [0, 1)", to_text(probability));
  require_fractions(dtype_of(random_op, x), "dropout", "x", caller);
  const PlaceScope place(Context::here(), x);
  const Tensor mask = draw({.kind = RandomOptions::Kind::bernoulli,
                            .a = 1 - probability,
                            .b = 1 / (1 - probability),
                            .dtype = dtype_of(random_op, x),
                            .shape = shape_of(random_op, x)},
                           caller);
  return multiply(x, Operand(mask, caller));
}

const Entry random_ops[] = {&random_op, nullptr};
}  // namespace reel
