// SPDX-License-Identifier: BSD-3-Clause
// A floating tensor wins over any integer tensor. C++ numbers take the tensor's dtype if they can.
// Gradients have the dtype of their inputs.
#include <cmath>
#include <cstdint>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr DType b = DType::boolean, u8 = DType::uint8, i32 = DType::int32, i64 = DType::int64,
                f32 = DType::float32, f64 = DType::float64;
constexpr DType every[] = {b, u8, i32, i64, f32, f64};
// torch.promote_types(row, column), PyTorch 2.15.
constexpr DType torch[6][6] = {{b, u8, i32, i64, f32, f64},    {u8, u8, i32, i64, f32, f64},
                               {i32, i32, i32, i64, f32, f64}, {i64, i64, i64, i64, f32, f64},
                               {f32, f32, f32, f32, f32, f64}, {f64, f64, f64, f64, f64, f64}};

Tensor one(DType dtype) { return ones({2}, {.dtype = dtype}); }
}  // namespace

TEST_CASE("two tensors come to PyTorch's dtype, in every op that promotes") {
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < 6; ++k) {
      const Tensor x = one(every[i]), y = one(every[k]);
      const DType common = torch[i][k], floating = is_floating(common) ? common : f32;
      INFO(x.dtype() << " and " << y.dtype());
      CHECK((x + y).dtype() == common);
      CHECK((x * y).dtype() == common);
      CHECK(maximum(x, y).dtype() == common);
      CHECK(where(tensor({true, false}), x, y).dtype() == common);
      CHECK(concat({x, y}).dtype() == common);
      CHECK(stack({x, y, x}).dtype() == common);
      CHECK((x == y).dtype() == b);
      CHECK(logical_and(x, y).dtype() == b);
      CHECK(equal(x, y));
      CHECK(allclose(x, y));
      // The quotient of two integers is a floating tensor.
      CHECK((x / y).dtype() == floating);
      CHECK(power(x, y).dtype() == floating);
      Tensor sum = x;
      sum += y;
      CHECK(sum.dtype() == common);
      const auto traced = trace([](Tensor p, Tensor q) { return p * q; });
      for (int turn = 0; turn < 3; ++turn) CHECK(traced(x, y).dtype() == common);
      if (!is_floating(common)) continue;
      CHECK(matmul(x, y).dtype() == common);
      const Tensor matrix = ones({2, 2}, {.dtype = every[i]});
      CHECK(matmul_add(matrix, ones({2, 2}, {.dtype = every[k]}), y).dtype() == common);
      CHECK(layer_norm(matrix, y, y).dtype() == common);
    }
}

TEST_CASE("16 bits come to PyTorch's dtype") {
  constexpr DType f16 = DType::float16, bf16 = DType::bfloat16;
  // torch.promote_types(row, column) of all eight.
  constexpr DType all_of[] = {b, u8, i32, i64, f32, f64, f16, bf16};
  constexpr DType with_f16[] = {f16, f16, f16, f16, f32, f64, f16, f32};
  constexpr DType with_bf16[] = {bf16, bf16, bf16, bf16, f32, f64, f32, bf16};
  for (int i = 0; i < 8; ++i) {
    const auto dtype = [](const Tensor& x, const Tensor& y) { return concat({x, y}).dtype(); };
    CHECK(dtype(one(all_of[i]), one(f16)) == with_f16[i]);
    CHECK(dtype(one(f16), one(all_of[i])) == with_f16[i]);
    CHECK(dtype(one(all_of[i]), one(bf16)) == with_bf16[i]);
    CHECK(dtype(one(bf16), one(all_of[i])) == with_bf16[i]);
  }
}

TEST_CASE("a loss divided by a count of tokens stays float32, and so does a model") {
  const Tensor lengths = tensor({3, 5, 2});
  const nn::Linear layer(2, 1);
  GradientTape tape;
  const Tensor loss = sum(square(layer(ones({3, 2})))) / sum(lengths);
  CHECK(sum(lengths).dtype() == i64);
  CHECK(loss.dtype() == f32);
  for (const Tensor& slope : tape.gradient(loss, parameters(layer))) CHECK(slope.dtype() == f32);
  CHECK(layer(tensor({{1, 2}})).dtype() == f32);
  CHECK(layer(tensor({{1L, 2L}})).dtype() == f32);
  CHECK(layer(tensor<double>({{1, 2}})).dtype() == f64);
}

TEST_CASE("values survive promotion as far as the dtype goes") {
  CHECK((tensor({16777217}) + tensor({0.0f})).to_vector<float>()[0] == 16777216);
  CHECK((tensor({16777217}) + tensor<double>({0.0})).to_vector<double>()[0] == 16777217);
  CHECK((tensor({true, false}) + tensor({2.5f, 1.5f})).to_vector<float>()[0] == 3.5f);
  CHECK((full({1}, std::uint8_t{200}) + tensor({100})).to_vector<std::int32_t>()[0] == 300);
  CHECK(
      (full({1}, std::uint8_t{200}) + full({1}, std::uint8_t{100})).to_vector<std::uint8_t>()[0] ==
      44);
}

TEST_CASE("a C++ number takes the tensor's dtype") {
  for (DType dtype : every) {
    INFO(dtype);
    CHECK((one(dtype) * true).dtype() == dtype);
    CHECK((one(dtype) + 1).dtype() == (dtype == b ? i32 : dtype));
    CHECK((2L + one(dtype)).dtype() == (dtype == b ? i64 : dtype));
    const DType with_fraction = is_floating(dtype) ? dtype : f32;
    CHECK((one(dtype) * 0.5f).dtype() == with_fraction);
    CHECK((0.5 - one(dtype)).dtype() == with_fraction);
    CHECK((one(dtype) > 0.5).dtype() == b);
  }
  CHECK((one(i32) * 2.5).to_vector<float>()[0] == 2.5f);
  CHECK((one(f32) * 0.1).to_vector<float>()[0] == 0.1f);
  CHECK((one(f64) * 0.1).to_vector<double>()[0] == 0.1);
  CHECK((tensor({1, 2, 3}) > 1.5).to_vector<bool>()[1]);
  CHECK(where(tensor({true, false}), one(i64), 7).dtype() == i64);
}

TEST_CASE("numbers in a stack take the dtype of its tensors, with all their digits") {
  CHECK(stack({tensor<double>(1.0), 0.1}).to_vector<double>()[1] == 0.1);
  CHECK(stack({0.1, tensor<double>(1.0), 2}).to_vector<double>() == std::vector<double>{0.1, 1, 2});
  CHECK(stack({tensor(1.0f), 0.1}).to_vector<float>()[1] == 0.1f);
  CHECK(stack({tensor(1), 0.5}).to_vector<float>()[1] == 0.5f);
  CHECK(stack({tensor(1), 2L}).dtype() == i32);
  CHECK(stack({0.5, 1}).dtype() == f32);
  check_refused<DTypeError>([] { stack({tensor(1).to(u8), 300}); }, "a number that fits uint8");
}

TEST_CASE("each of many parts counts, whatever its place") {
  for (const std::size_t at : {0, 1, 6, 7, 8, 11}) {
    INFO(at);
    std::vector<Tensor> parts(12, tensor({1, 2}));
    parts[at] = tensor({0.5f, 1.5f});
    std::vector<float> expected;
    for (std::size_t i = 0; i < parts.size(); ++i)
      expected.insert(expected.end(), {i == at ? 0.5f : 1.0f, i == at ? 1.5f : 2.0f});
    const Tensor joined = concat(parts, 0);
    CHECK(joined.dtype() == f32);
    CHECK(joined.to_vector<float>() == expected);
    const Tensor stacked = stack(parts, 0);
    CHECK(stacked.dtype() == f32);
    CHECK(stacked.to_vector<float>() == expected);
  }
  const Tensor x = tensor(1);
  CHECK(stack({x, x, x, x, x, x, x, x, 0.5}).to_vector<float>()[8] == 0.5f);
  CHECK(stack({1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5}).to_vector<float>() ==
        std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5f});
}

TEST_CASE("numbers alone come to float32 where one has a fraction") {
  CHECK(where(tensor({true, false}), 0.5, 1).dtype() == f32);
  CHECK(where(tensor({true, false}), 0.5, 0.25).dtype() == f32);
  CHECK(where(tensor({true, false}), 0.5f, 0.25).dtype() == f32);
  CHECK(where(tensor({true, false}), 1, 2).dtype() == i32);
  CHECK(where(tensor({true, false}), 1, 2L).dtype() == i64);
  CHECK(exp(0.5).dtype() == f32);
  CHECK(add(0.5, 0.25).dtype() == f32);
  CHECK(concat({tensor({0.5}), tensor({1})}).dtype() == f32);
  CHECK(cast(0.1, f64).item<double>() == 0.1);
}

TEST_CASE("a number that its tensor's dtype cannot hold is refused, but for comparisons") {
  check_refused<DTypeError>([] { one(u8) + 300; }, "a number that fits uint8, got 300");
  check_refused<DTypeError>([] { one(u8) - (-1); }, "a number that fits uint8, got -1");
  check_refused<DTypeError>([] { one(i32) + (1LL << 40); }, "a number that fits int32");
  check_refused<DTypeError>([] { full_like(one(i32), 0.5); }, "a number that fits int32");
  check_refused<DTypeError>([] { one(u8) & 300; }, "a number that fits uint8");
  check_refused<DTypeError>([] { clip(one(u8), -5, 100); },
                            "clip: low: expected a number that fits uint8, got -5");
  check_refused<DTypeError>([] { clip(one(u8), 5, 300); },
                            "clip: high: expected a number that fits uint8, got 300");
}

TEST_CASE("a number too large for int64 keeps its value, as a floating one") {
  constexpr std::uint64_t most = UINT64_MAX, half = std::uint64_t{1} << 63;
  CHECK((one(f32) * most).to_vector<float>()[0] == 0x1p64f);
  CHECK((most - one(f64)).to_vector<double>()[0] == 0x1p64);
  CHECK((one(i64) * half).to_vector<float>()[0] == 0x1p63f);
  CHECK(full({1}, most).to_vector<float>()[0] == 0x1p64f);
  CHECK(full({1}, half, {.dtype = f64}).to_vector<double>()[0] == 0x1p63);
  CHECK(full({1}, half - 1).to_vector<std::int64_t>()[0] == INT64_MAX);
  CHECK(arange(0, most, half).to_vector<float>()[1] == 0x1p63f);
  Variable w("w", ones({2}));
  w.assign(most);
  CHECK(w.value().to_vector<float>()[1] == 0x1p64f);
  const auto traced = trace([](Tensor x, std::uint64_t n) { return x * n; });
  for (int i = 0; i < 3; ++i) CHECK(traced(one(f32), most).to_vector<float>()[0] == 0x1p64f);
  check_refused<DTypeError>([] { full({1}, half, {.dtype = i64}); }, "a number that fits int64");
  check_refused<DTypeError>([] { one(i64) & most; }, "bool or integers");
  check_refused<DTypeError>([] { Variable("n", one(i64)).assign(most); },
                            "a number that fits int64");
  check_refused<DTypeError>(
      [] {
        tensor(std::vector<std::size_t>{1, most});
      },
      "tensor: value: expected a number that fits int64, got "
      "1.8446744073709552e+19");
}

TEST_CASE("ops with fractions make float32 of integers") {
  for (DType dtype : every) {
    INFO(dtype);
    const DType floating = is_floating(dtype) ? dtype : f32;
    for (const Tensor& y : {sqrt(one(dtype)), exp(one(dtype)), tanh(one(dtype)), mean(one(dtype)),
                            softmax(one(dtype)), one(dtype) / 2})
      CHECK(y.dtype() == floating);
    const DType summed = is_floating(dtype) ? dtype : i64;
    CHECK(sum(one(dtype)).dtype() == summed);
    CHECK(max(one(dtype)).dtype() == dtype);
    CHECK(argmax(one(dtype)).dtype() == i64);
  }
  CHECK((tensor({1, 3}) / 2).to_vector<float>()[1] == 1.5f);
  CHECK(mean(tensor({1, 2})).item<float>() == 1.5f);
  CHECK((tensor({7}) / tensor({0})).to_vector<float>()[0] == HUGE_VALF);
}

TEST_CASE("optimizer rates stay float64") {
  const Variable w("w", tensor<double>({1.0}));
  optim::SGD sgd({w}, {.learning_rate = 0.1});
  optim::Adam adam({w}, {.learning_rate = 0.1});
  CHECK(sgd.learning_rate().dtype() == f64);
  CHECK(adam.learning_rate().value().item<double>() == 0.1);
  sgd.step({tensor<double>({1.0})});
  CHECK(w.value().to_vector<double>()[0] == 1 - 0.1);
  sgd.learning_rate().assign(0.3);
  CHECK(sgd.learning_rate().value().item<double>() == 0.3);
  Variable v("v", tensor<double>({1.0}));
  sgd_update(v, tensor<double>({1.0}), 0.1);
  CHECK(v.value().to_vector<double>()[0] == 1 - 0.1);
  v.assign(0.1);
  CHECK(v.value().to_vector<double>()[0] == 0.1);
  v.assign_add(0.2);
  CHECK(v.value().to_vector<double>()[0] == 0.1 + 0.2);
  auto step = trace([&](Tensor g, double rate) { sgd_update(v, g, rate); });
  v.assign(1.0);
  for (int i = 0; i < 4; ++i) step(tensor<double>({1.0}), 0.1);
  CHECK(v.value().to_vector<double>()[0] == 1 - 0.1 - 0.1 - 0.1 - 0.1);
}

namespace {
/// Checks the sum of f(x, y) for x and y of these dtypes. The gradients must have the same dtypes,
/// and be equal to those in float64 except for rounding. Variables are checked too, eager and
/// traced.
void check_gradients(Tensor (*f)(Operand, Operand), DType x_dtype, DType y_dtype) {
  INFO(x_dtype << " and " << y_dtype);
  const Tensor wide_x = tensor<double>({{0.5, -1.0}, {2.0, 0.25}}),
               wide_y = tensor<double>({{1.5, 3.0}, {-0.5, 1.0}});
  const auto slopes = [f](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    if (is_floating(x.dtype())) tape.watch(x);
    if (is_floating(y.dtype())) tape.watch(y);
    const Tensor z = sum(square(f(x, y)));
    const std::vector<Tensor> sources = {x, y};
    return tape.gradient(z, GradientSources(sources), Unconnected::zero);
  };
  const Tensor x = wide_x.to(x_dtype), y = wide_y.to(y_dtype);
  const auto expected = slopes(x.to(f64), y.to(f64)), got = slopes(x, y);
  const auto traced = trace([&](Tensor p, Tensor q) { return slopes(p, q); });
  const Variable v("v", x), w("w", y);
  for (int turn = 0; turn < 3; ++turn) {
    const auto replayed = traced(x, y);
    for (std::size_t i = 0; i < 2; ++i) {
      const DType dtype = i == 0 ? x_dtype : y_dtype;
      CHECK(got[i].dtype() == dtype);
      CHECK(replayed[i].dtype() == dtype);
      if (!is_floating(dtype)) continue;
      CHECK(allclose(got[i], expected[i], {.rtol = 1e-5, .atol = 1e-5}));
      CHECK(equal(got[i], replayed[i]));
    }
  }
  if (!is_floating(x_dtype)) return;
  const auto step = [&] {
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(square(f(v, y))), v);
    Variable(v).assign_sub(0.125 * slope);
    return slope;
  };
  const auto traced_step = trace([&] { return step(); });
  for (int turn = 0; turn < 4; ++turn)
    CHECK((turn == 1 ? step() : traced_step()).dtype() == x_dtype);
  CHECK(v.dtype() == x_dtype);
}
}  // namespace

TEST_CASE("gradients come back in the dtype of each input, in every mixed op") {
  Tensor (*const ops[])(Operand, Operand) = {
      [](Operand x, Operand y) { return x + y; },
      [](Operand x, Operand y) { return x * y; },
      [](Operand x, Operand y) { return x / (y + 4); },
      [](Operand x, Operand y) { return maximum(x, y); },
      [](Operand x, Operand y) { return matmul(x, y); },
      [](Operand x, Operand y) { return matmul_add(x, y, y); },
      [](Operand x, Operand y) { return dense(x, y, sum(y, 0), Activation::tanh); },
      [](Operand x, Operand y) { return where(stop_gradient(x) > 0.3, x, y); },
      [](Operand x, Operand y) {
        return concat({x, y, x}, 1);
      },
      [](Operand x, Operand y) {
        return stack({y, x});
      },
      [](Operand x, Operand y) {
        return scatter_add(x * 1.0, tensor({1, 1}), y);
      },
      [](Operand x, Operand y) { return layer_norm(x, sum(y, 0), 1 + sum(y, 1)); },
      [](Operand x, Operand y) {
        return cross_entropy(matmul(x, y), tensor({1, 0}));
      },
      [](Operand x, Operand y) {
        return lstm_gates(concat({x, x, y, x}, 1), y).h;
      },
      [](Operand x, Operand y) {
        return sum(x, 0) * y / sum(tensor({3, 4}));
      }};
  for (const auto f : ops)
    for (const DType x_dtype : {f32, f64})
      for (const DType y_dtype : every) {
        check_gradients(f, x_dtype, y_dtype);
        if (x_dtype != y_dtype && is_floating(y_dtype)) check_gradients(f, y_dtype, x_dtype);
      }
}

TEST_CASE("layers give the gradients of their weights in the weights' dtype") {
  for (const DType weight : {f32, f64})
    for (const DType input : every) {
      const nn::Linear linear(2, 3, {.dtype = weight});
      const nn::LSTMCell cell(2, 3, {.dtype = weight});
      const nn::GRU gru(2, 3, {.dtype = weight});
      const Tensor x = ones({2, 2}, {.dtype = input});
      const DType common = torch[static_cast<int>(weight)][static_cast<int>(input)];
      GradientTape tape({.persistent = true});
      const Tensor y = linear(x), h = cell(x, cell.initial_state(2)).h;
      const Tensor outputs = gru(x.reshape({1, 2, 2})).outputs;
      CHECK(y.dtype() == common);
      CHECK(h.dtype() == common);
      CHECK(outputs.dtype() == common);
      for (const auto& slopes :
           {tape.gradient(sum(y), parameters(linear)), tape.gradient(sum(h), parameters(cell)),
            tape.gradient(sum(outputs), parameters(gru))})
        for (const Tensor& slope : slopes) CHECK(slope.dtype() == weight);
    }
}

TEST_CASE("an operand gives its argument as a tensor, and refuses to give another kind") {
  const Tensor x = tensor({1.0, 2.0});
  const Variable w("w", x);
  const auto value = [](Operand any) { return any.value(); };
  CHECK(equal(value(x), x));
  CHECK(equal(value(w), x));
  CHECK(equal(value(Tensor(x) * 1), x));
  CHECK(equal(value(2.5), tensor(2.5f)));
  CHECK(value(3).dtype() == tensor(3).dtype());
  const auto refuses = [](Operand any, const char* got, auto get) {
    check_refused<Error>([&] { get(any); }, got, any.caller());
  };
  const auto as_tensor = [](Operand any) { any.tensor(); };
  const auto as_variable = [](Operand any) { any.variable(); };
  const auto as_scalar = [](Operand any) { any.scalar(); };
  refuses(w, "got a Variable", as_tensor);
  refuses(2, "got a number", as_tensor);
  refuses(x, "got a Tensor", as_variable);
  refuses(2, "got a number", as_variable);
  refuses(x, "got a Tensor", as_scalar);
  refuses(w, "got a Variable", as_scalar);
}

TEST_CASE("where() of two plain numbers is a tensor, of a live one a number") {
  const Tensor yes = tensor(true), bytes = cast(tensor({1, 2}), DType::uint8);
  const Tensor chosen = where(yes, 300, 2);
  CHECK((bytes + chosen).dtype() != DType::uint8);
  CHECK((ones({2}) * where(yes, live(2.0), 3.0)).dtype() == DType::float32);
}
}  // namespace reel::tests
