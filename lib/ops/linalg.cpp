// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/linalg.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <reel/autocast.hpp>
#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/linalg.hpp"

namespace reel {
namespace {
[[noreturn]] void refuse(Caller caller, std::string_view function, const Text& argument,
                         const Text& expected, const Text& got) {
  fail<ShapeError>(caller, function, argument, expected, got);
}
constexpr std::int64_t most_rows = 32000;  // LAPACK counts in 32 bits

void require_dtype(const Inference& call, int i) {
  require_floating(call, i);
  if (is_half(call.input(i).dtype))
    fail<DTypeError>(call.caller, call.op.name, argument_name(call.op, i), "float32 or float64",
                     name_of(call.input(i).dtype), "Convert it first: x.to(DType::float32).");
}
void require_matrices(const Inference& call, int i) {
  require_dtype(call, i);
  require_rank(call, i, 2);
  const Shape& shape = call.input(i).shape;
  if (std::max(shape.end()[-1], shape.end()[-2]) > most_rows)
    refuse(call.caller, call.op.name, argument_name(call.op, i),
           "at most " + to_text(most_rows) + " rows and columns", to_text(shape));
}
void require_square(const Inference& call, int i) {
  require_matrices(call, i);
  const Shape& shape = call.input(i).shape;
  if (shape.end()[-1] != shape.end()[-2])
    refuse(call.caller, call.op.name, argument_name(call.op, i), "square matrices", to_text(shape));
}
/// x's leading axes, and these.
Shape leading(const Shape& x, std::initializer_list<std::int64_t> last) {
  Shape shape = x;
  shape.resize(x.rank() - 2 + last.size());
  std::copy(last.begin(), last.end(), shape.data() + x.rank() - 2);
  return shape;
}
void square_shape(Inference& call) {
  for (int i = 0; i < call.input_count; ++i) {
    require_square(call, i);
    if (i > 0 && !(call.input(i).shape == call.input(0).shape))
      refuse(call.caller, call.op.name, argument_name(call.op, i),
             "shape " + to_text(call.input(0).shape), to_text(call.input(i).shape));
  }
  call.output(call.input(0).dtype, call.input(0).shape);
}
void det_shape(Inference& call) {
  require_square(call, 0);
  for (int i = 0; i < (call.op.name == "det" ? 1 : 2); ++i)
    call.output(call.input(0).dtype, leading(call.input(0).shape, {}));
}
// a [..., n, n], b [..., n, k], of the same leading axes
void solve_shape(Inference& call) {
  require_square(call, 0);
  require_dtype(call, 1);
  require_rank(call, 1, 2);
  const Shape &a = call.input(0).shape, &b = call.input(1).shape;
  if (b.end()[-2] != a.end()[-1] || !(leading(a, {}) == leading(b, {})))
    refuse(call.caller, call.op.name, argument_name(call.op, 1),
           "length " + to_text(a.end()[-1]) + " in the second to last axis, as a is " + to_text(a),
           to_text(b));
  if (b.end()[-1] > std::numeric_limits<int>::max())
    refuse(call.caller, call.op.name, argument_name(call.op, 1), "fewer columns", to_text(b));
  call.output(call.input(0).dtype, b);
}
void qr_shape(Inference& call) {
  require_matrices(call, 0);
  const Shape& a = call.input(0).shape;
  const std::int64_t n = a.end()[-2], m = a.end()[-1], k = std::min(n, m);
  call.output(call.input(0).dtype, leading(a, {n, k}));
  call.output(call.input(0).dtype, leading(a, {k, m}));
}
void eigh_shape(Inference& call) {
  require_square(call, 0);
  const Shape& a = call.input(0).shape;
  call.output(call.input(0).dtype, leading(a, {a.end()[-1]}));
  if (call.op.name == "eigh") call.output(call.input(0).dtype, a);
}
void svd_shape(Inference& call) {
  require_matrices(call, 0);
  const Shape& a = call.input(0).shape;
  const std::int64_t n = a.end()[-2], m = a.end()[-1], k = std::min(n, m);
  call.output(call.input(0).dtype, leading(a, {n, k}));
  call.output(call.input(0).dtype, leading(a, {k}));
  call.output(call.input(0).dtype, leading(a, {k, m}));
}

const char* function_fits(const Inference& call) {
  const auto& [function, exponent] = call.option<MatrixFunction>();
  return function >= 0 && function <= 3 && std::isfinite(exponent) ? nullptr : "a function";
}

using Inputs = std::vector<Tensor>;
using Call = Tensor (*)(const Inputs&);
/// Matrices of all layouts, of one element and without elements.
std::vector<ShapeAndLayout> squares() {
  using enum Layout;
  return {{{1, 1}},
          {{2, 2}},
          {{3, 3}, transposed},
          {{3, 3}, reversed},
          {{4, 4}, stepped},
          {{2, 3, 3}},
          {{2, 2, 2}, transposed},
          {{2, 3, 3}, reversed},
          {{3, 2, 2}, stepped},
          {{2, 1, 2, 2}},
          {{0, 0}},
          {{0, 2, 2}},
          {{18, 18}}};
}
std::vector<ShapeAndLayout> rectangles() {
  using enum Layout;
  return {{{1, 1}},
          {{3, 2}},
          {{2, 3}},
          {{4, 2}, transposed},
          {{2, 4}, reversed},
          {{3, 3}, stepped},
          {{2, 3, 2}},
          {{2, 2, 3}, transposed},
          {{2, 3, 1}, reversed},
          {{2, 1, 3, 2}},
          {{0, 2}},
          {{2, 0}},
          {{0, 2, 2}}};
}
constexpr Draw tame{-0.5, 0.5};
void samples_of(SampleList out, const std::vector<ShapeAndLayout>& cases, Call f) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : cases) sample(out, {drawn(shape, layout, tame, seed++)}, f);
}
void samples_of_squares(SampleList out, Call f) { samples_of(out, squares(), f); }
void samples_of_rectangles(SampleList out, Call f) { samples_of(out, rectangles(), f); }
/// x with 2, 3, ... added to its diagonal. So it has full rank and no equal singular values.
Tensor regular(const Tensor& x) {
  const std::int64_t n = x.shape().end()[-2], m = x.shape().end()[-1];
  const Tensor diagonal = expand_dims(arange(0, n), 1) == arange(0, m);
  return x + where(diagonal, arange(0, m) + 2, 0).to(x.device());
}
/// The symmetric part of a square x, with the same diagonal. Tests lengthen one axis of x, and a
/// sum with the transpose would broadcast.
Tensor regular_symmetric(const Tensor& x) {
  if (x.shape().end()[-1] != x.shape().end()[-2])
    refuse({}, "sample", "x", "square matrices", to_text(x.shape()));
  return regular((x + matrix_transpose(x)) / 2);
}
/// All eigenvalues are above 1.
Tensor positive(const Tensor& x) { return regular_symmetric(x / 2); }
#define REEL_MATRIX(...) +[](const Inputs& in) -> Tensor { return __VA_ARGS__; }

/// f on matrices a and b of `columns` columns.
void samples_of_systems(SampleList out, std::int64_t columns,
                        detail::Function<Tensor(const Inputs&)> f) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : squares()) {
    Shape b = shape;
    b.data()[shape.rank() - 1] = columns;
    sample(out, {drawn(shape, layout, tame, seed), drawn(b, layout, {}, seed + 5)}, f);
    ++seed;
  }
}
void solve_samples(SampleList out) {
  samples_of_systems(out, 3, [](const Inputs& in) { return linalg::solve(regular(in[0]), in[1]); });
  const auto each = [&](const Shape& a, const Shape& b) {
    sample(out, {drawn(a, tame), drawn(b)},
           [](const Inputs& in) { return linalg::solve(regular(in[0]), in[1]); });
  };
  each({3, 3}, {3});
  each({2, 3, 3}, {3});
  each({3, 3}, {2, 3, 2});
  each({2, 3, 3}, {3, 2});
  each({2, 1, 2, 2}, {3, 2, 2});
  each({20, 20}, {20, 2});
}
void triangular_samples(SampleList out) {
  for (const bool upper : {false, true})
    for (const bool transposed : {false, true})
      for (const bool unit : {false, true})
        samples_of_systems(out, 2, [=](const Inputs& in) {
          return linalg::triangular_solve(regular(in[0]), in[1], {upper, transposed, unit});
        });
}
void matrix_function_samples(SampleList out) {
  samples_of_squares(out, REEL_MATRIX(linalg::apply(positive(in[0]), linalg::Function::sqrt)));
  samples_of_squares(out, REEL_MATRIX(linalg::apply(positive(in[0]), linalg::Function::log)));
  samples_of_squares(
      out, REEL_MATRIX(linalg::apply(regular_symmetric(in[0]) / 8, linalg::Function::exp)));
  samples_of_squares(out,
                     REEL_MATRIX(linalg::apply(positive(in[0]), linalg::Function::power, -1.5)));
}
constexpr MatrixFunction functions[] = {{0, 1}, {1, 1}, {2, 1}, {3, 2.5}};
/// The op of a derivative on symmetric matrices and `count` directions.
void derivative_samples(SampleList out, Op& op, int count) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : squares()) {
    const MatrixFunction function = functions[seed % 4];
    Inputs inputs{drawn(shape, layout, tame, seed++)};
    for (int i = 0; i < count; ++i)
      inputs.push_back(drawn(shape, layout, {}, seed + static_cast<unsigned>(i)));
    sample(out, inputs, [&op, count, function](const Inputs& in) {
      const Tensor a = positive(in[0]);
      if (count == 1) return run(op, {a, in[1]}, function);
      return run(op, {a, in[1], in[2]}, function);
    });
  }
}
constexpr std::uint16_t both_outputs = need_output(0) | need_output(1);
constexpr std::uint16_t three_outputs = both_outputs | need_output(2);
}  // namespace

constinit Op cholesky_op{.name = "cholesky",
                         .shape = square_shape,
                         .promote = Promote::numeric,
                         .needs = {{need_output()}},
                         .contiguous_inputs = true,
                         .autocast = Autocast::full,
                         .samples =
                             [](SampleList out) {
                               samples_of_squares(out,
                                                  REEL_MATRIX(linalg::cholesky(positive(in[0]))));
                             },
                         .argument_names = "a"};
constinit Op solve_op{.name = "solve",
                      .arity = 2,
                      .shape = solve_shape,
                      .promote = Promote::numeric,
                      .needs = {{need_input(0) | need_output(), need_input(0)}},
                      .contiguous_inputs = true,
                      .autocast = Autocast::full,
                      .samples = solve_samples,
                      .argument_names = "a, b"};
constinit Op triangular_solve_op{.name = "triangular_solve",
                                 .arity = 2,
                                 .shape = solve_shape,
                                 .promote = Promote::numeric,
                                 .options = &options_type<TriangularSystem>,
                                 .check = any_options,
                                 .needs = {{need_input(0) | need_output(), need_input(0)}},
                                 .contiguous_inputs = true,
                                 .autocast = Autocast::full,
                                 .samples = triangular_samples,
                                 .argument_names = "a, b"};
constinit Op inverse_op{.name = "inverse",
                        .shape = square_shape,
                        .promote = Promote::numeric,
                        .needs = {{need_output()}},
                        .contiguous_inputs = true,
                        .autocast = Autocast::full,
                        .samples =
                            [](SampleList out) {
                              samples_of_squares(out, REEL_MATRIX(linalg::inverse(regular(in[0]))));
                            },
                        .argument_names = "a"};
constinit Op det_op{.name = "det",
                    .shape = det_shape,
                    .promote = Promote::numeric,
                    .needs = {{need_input(0)}},
                    .contiguous_inputs = true,
                    .autocast = Autocast::full,
                    .samples =
                        [](SampleList out) {
                          samples_of_squares(out, REEL_MATRIX(linalg::det(regular(in[0]) / 4)));
                        },
                    .argument_names = "a"};
constinit Op slogdet_op{
    .name = "slogdet",
    .shape = det_shape,
    .promote = Promote::numeric,
    .needs = {{need_input(0)}},
    .contiguous_inputs = true,
    .autocast = Autocast::full,
    .samples =
        [](SampleList out) {
          samples_of_squares(out, REEL_MATRIX(linalg::slogdet(regular(in[0])).log));
          samples_of_squares(out, REEL_MATRIX(linalg::slogdet(in[0] - regular(in[0])).sign));
        },
    .argument_names = "a"};
/// det(a) times the transposed inverse of a; it exists for a singular a too.
constinit Op cofactors_op{
    .name = "cofactors",
    .shape = square_shape,
    .promote = Promote::numeric,
    .needs = {{need_input(0) | need_output()}},
    .contiguous_inputs = true,
    .internal = true,
    .autocast = Autocast::full,
    .samples =
        [](SampleList out) {
          samples_of_squares(out, REEL_MATRIX(square(run(cofactors_op, {regular(in[0]) / 4}))));
        },
    .argument_names = "a"};
constinit Op qr_op{.name = "qr",
                   .shape = qr_shape,
                   .promote = Promote::numeric,
                   .needs = {{both_outputs}},
                   .contiguous_inputs = true,
                   .autocast = Autocast::full,
                   .samples =
                       [](SampleList out) {
                         samples_of_rectangles(out, REEL_MATRIX(linalg::qr(regular(in[0])).q));
                         samples_of_rectangles(out,
                                               REEL_MATRIX(square(linalg::qr(regular(in[0])).r)));
                       },
                   .argument_names = "a"};
constinit Op eigh_op{
    .name = "eigh",
    .shape = eigh_shape,
    .promote = Promote::numeric,
    .needs = {{both_outputs}},
    .contiguous_inputs = true,
    .autocast = Autocast::full,
    .samples =
        [](SampleList out) {
          samples_of_squares(out, REEL_MATRIX(linalg::eigh(regular_symmetric(in[0])).vectors));
          samples_of_squares(out, REEL_MATRIX(linalg::eigh(regular_symmetric(in[0])).values));
        },
    .argument_names = "a"};
constinit Op eigvalsh_op{.name = "eigvalsh",
                         .shape = eigh_shape,
                         .promote = Promote::numeric,
                         .needs = {{need_input(0)}},
                         .contiguous_inputs = true,
                         .autocast = Autocast::full,
                         .samples =
                             [](SampleList out) {
                               samples_of_squares(
                                   out, REEL_MATRIX(linalg::eigvalsh(regular_symmetric(in[0]))));
                             },
                         .argument_names = "a"};
constinit Op svd_op{.name = "svd",
                    .shape = svd_shape,
                    .promote = Promote::numeric,
                    .needs = {{three_outputs}},
                    .contiguous_inputs = true,
                    .autocast = Autocast::full,
                    .samples =
                        [](SampleList out) {
                          samples_of_rectangles(out, REEL_MATRIX(linalg::svd(regular(in[0])).u));
                          samples_of_rectangles(out, REEL_MATRIX(linalg::svd(regular(in[0])).s));
                          samples_of_rectangles(out, REEL_MATRIX(linalg::svd(regular(in[0])).vt));
                        },
                    .argument_names = "a"};
constinit Op matrix_function_op{.name = "matrix_function",
                                .shape = square_shape,
                                .promote = Promote::numeric,
                                .options = &options_type<MatrixFunction>,
                                .check = function_fits,
                                .needs = {{need_input(0)}},
                                .contiguous_inputs = true,
                                .autocast = Autocast::full,
                                .samples = matrix_function_samples,
                                .argument_names = "a"};
/// The derivative of a function of a matrix a, along a symmetric matrix.
constinit Op function_slope_op{
    .name = "function_slope",
    .arity = 2,
    .shape = square_shape,
    .promote = Promote::numeric,
    .options = &options_type<MatrixFunction>,
    .check = function_fits,
    .needs = {{need_input(0) | need_input(1), need_input(0)}},
    .contiguous_inputs = true,
    .internal = true,
    .autocast = Autocast::full,
    .samples = [](SampleList out) { derivative_samples(out, function_slope_op, 1); },
    .argument_names = "a, x"};
/// Its second derivative along two symmetric matrices.
constinit Op function_curve_op{
    .name = "function_curve",
    .arity = 3,
    .shape = square_shape,
    .promote = Promote::numeric,
    .options = &options_type<MatrixFunction>,
    .check = function_fits,
    .differentiable = false,
    .contiguous_inputs = true,
    .internal = true,
    .autocast = Autocast::full,
    .samples = [](SampleList out) { derivative_samples(out, function_curve_op, 2); },
    .argument_names = "a, x, y"};

namespace {
/// A system with matrices b whose leading axes are those of a, or a vector b.
Tensor solved(Op& op, const Operand& a, const Operand& b, OptionsView options) {
  const Shape of_a = shape_of(op, a), of_b = shape_of(op, b, 1);
  if (of_a.rank() < 2 || of_b.rank() == 0) return run(op, {a, b}, options);  // an error
  if (of_b.rank() == 1) return squeeze(solved(op, a, expand_dims(b, 1), options), -1);
  const Shape batch_a = leading(of_a, {}), batch_b = leading(of_b, {});
  if (batch_a == batch_b) return run(op, {a, b}, options);
  const std::int64_t n = of_b.end()[-2], k = of_b.end()[-1];
  const int rank = static_cast<int>(of_b.rank());
  if (of_a.rank() == 2) {  // a is factored once: all columns beside each other
    int order[Shape::max_rank], back[Shape::max_rank];
    for (int axis = 0; axis < rank; ++axis) {
      order[axis] = axis == 0 ? rank - 2 : axis == rank - 1 ? axis : axis - 1;
      back[order[axis]] = axis;
    }
    const auto axes = [&](const int* list) {
      return Axes(std::span<const int>(list, static_cast<std::size_t>(rank)));
    };
    const Tensor beside = transpose(b, axes(order));
    const Tensor x = run(op, {a, reshape(beside, {n, batch_b.elements() * k})}, options);
    return transpose(reshape(x, beside.shape()), axes(back));
  }
  Shape batch = batch_a.rank() < batch_b.rank() ? batch_b : batch_a;
  for (std::size_t i = 1; i <= batch.rank(); ++i) {
    const std::int64_t of_one = i <= batch_a.rank() ? batch_a.end()[-static_cast<int>(i)] : 1,
                       of_other = i <= batch_b.rank() ? batch_b.end()[-static_cast<int>(i)] : 1;
    if (of_one != of_other && of_one != 1 && of_other != 1)
      refuse(a.caller(), op.name, "b",
             "leading axes that broadcast with those of a " + to_text(of_a), to_text(of_b));
    batch.data()[batch.rank() - i] = of_one == 1 ? of_other : of_one;
  }
  const auto with = [&](std::int64_t rows, std::int64_t columns) {
    Shape shape = batch;
    shape.resize(batch.rank() + 2);
    shape.data()[batch.rank()] = rows;
    shape.data()[batch.rank() + 1] = columns;
    return shape;
  };
  return run(op,
             {broadcast_to(a, with(of_a.end()[-2], of_a.end()[-1])), broadcast_to(b, with(n, k))},
             options);
}
}  // namespace

namespace linalg {
Tensor cholesky(Operand a) { return run(cholesky_op, a); }
Tensor solve(Operand a, Operand b) {
  const FunctionScope scope(a.caller(), "solve");
  return solved(solve_op, a, b, {});
}
Tensor triangular_solve(Operand a, Operand b, TriangularOptions options) {
  const FunctionScope scope(a.caller(), "triangular_solve");
  const TriangularSystem system{options.upper, options.transposed, options.unit};
  return solved(triangular_solve_op, a, b, system);
}
Tensor inverse(Operand a) { return run(inverse_op, a); }
Tensor det(Operand a) { return run(det_op, a); }
SignAndLog slogdet(Operand a) {
  SmallVector<Tensor, 2> made;
  run(slogdet_op, std::span(&a, 1), {}, a.caller(), made);
  return {std::move(made[0]), std::move(made[1])};
}
QR qr(Operand a) {
  SmallVector<Tensor, 2> made;
  run(qr_op, std::span(&a, 1), {}, a.caller(), made);
  return {std::move(made[0]), std::move(made[1])};
}
Eigenpairs eigh(Operand a) {
  SmallVector<Tensor, 2> made;
  run(eigh_op, std::span(&a, 1), {}, a.caller(), made);
  return {std::move(made[0]), std::move(made[1])};
}
Tensor eigvalsh(Operand a) { return run(eigvalsh_op, a); }
SVD svd(Operand a) {
  SmallVector<Tensor, 2> made;
  run(svd_op, std::span(&a, 1), {}, a.caller(), made);
  return {std::move(made[0]), std::move(made[1]), std::move(made[2])};
}

Tensor lstsq(Operand a, Operand b) {
  const FunctionScope scope(a.caller(), "lstsq");
  const Shape &of_a = shape_of(solve_op, a), &of_b = shape_of(solve_op, b, 1);
  if (of_a.rank() < 2) refuse(a.caller(), "lstsq", "a", "at least 2 axes", to_text(of_a));
  if (of_b.rank() == 1) return squeeze(lstsq(a, expand_dims(b, 1)), -1);
  const std::int64_t n = of_a.end()[-2], m = of_a.end()[-1];
  if (of_b.rank() == 0 || of_b.end()[-2] != n)
    refuse(a.caller(), "lstsq", "b",
           "length " + to_text(n) + " in the second to last axis, as a is " + to_text(of_a),
           to_text(of_b));
  const double epsilon = dtype_of(solve_op, a) == DType::float64
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  TriangularSystem system{.upper = true,
                          .transposed = n < m,
                          .tolerance = epsilon * static_cast<double>(std::max(n, m))};
  if (n >= m) {
    const QR factors = qr(a);
    const AutocastScope exact({DType::float32});
    return solved(triangular_solve_op, factors.r, matmul(matrix_transpose(factors.q), b), system);
  }
  const QR factors = qr(matrix_transpose(a));
  const AutocastScope exact({DType::float32});
  return matmul(factors.q, solved(triangular_solve_op, factors.r, b, system));
}

Tensor matrix_power(Operand a, CountNumber n) {
  const FunctionScope scope(a.caller(), "matrix_power");
  const Shape& shape = shape_of(inverse_op, a);
  if (shape.rank() < 2 || shape.end()[-1] != shape.end()[-2])
    refuse(a.caller(), "matrix_power", "a", "square matrices", to_text(shape));
  if (n == 0) {
    const PlaceScope place(Context::here(), a);
    return broadcast_to(eye(shape.end()[-1], {dtype_of(inverse_op, a)}), shape);
  }
  Tensor square = n < 0 ? inverse(a) : a.value(), power;
  const AutocastScope exact({DType::float32});
  std::uint64_t rest =
      n < 0 ? 0 - static_cast<std::uint64_t>(n.value) : static_cast<std::uint64_t>(n.value);
  for (;; square = matmul(square, square)) {
    if (rest & 1) power = power.defined() ? matmul(power, square) : square;
    if ((rest >>= 1) == 0) break;
  }
  return n == 1 ? reshape(power, shape) : power;  // a result is never an argument itself
}

Tensor apply(Operand a, Function f, double exponent) {
  if (f < Function::sqrt || f > Function::power)
    fail<Error>(a.caller(), "apply", "f", "sqrt, log, exp or power",
                to_text(static_cast<std::int64_t>(f)));
  if (!std::isfinite(exponent))
    fail<Error>(a.caller(), "apply", "exponent", "a finite number", to_text(exponent));
  return run(matrix_function_op, a, MatrixFunction{static_cast<std::int64_t>(f), exponent});
}
}  // namespace linalg

const Entry linalg_ops[] = {&cholesky_op,
                            &solve_op,
                            &triangular_solve_op,
                            &inverse_op,
                            &det_op,
                            &slogdet_op,
                            &cofactors_op,
                            &qr_op,
                            &eigh_op,
                            &eigvalsh_op,
                            &svd_op,
                            &matrix_function_op,
                            &function_slope_op,
                            &function_curve_op,
                            nullptr};
}  // namespace reel
