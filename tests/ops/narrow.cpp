// SPDX-License-Identifier: BSD-3-Clause
// Ops at points that few programs reach: errors of a second argument, shapes without elements, and
// gradients where a formula has no value.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <reel/ops/loss.hpp>
#include <reel/ops/scatter.hpp>
#include <reel/ops/select.hpp>
#include <reel/ops/sort.hpp>
#include <reel/ops/statistics.hpp>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
template <class F>
std::string whole_text(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
}  // namespace

TEST_CASE("errors name the second argument that is undefined") {
  check_refused<Error>([] { left_shift(tensor({true}), Tensor()); },
                       "left_shift: y: expected a te");
  check_refused<Error>([] { pick(ones({2, 3}), Tensor()); }, "pick: indices: expected a tensor");
  check_refused<Error>([] { masked_select(ones({2}), Tensor()); }, "masked_select: y: expected a ");
}

TEST_CASE("errors show the argument that does not fit, and what it may be", "[cpu]") {
  check_refused<ShapeError>(
      [] {
        searchsorted(ones({2, 3}), ones({4}));
      },
      "searchsorted: sorted: expected one axis, got (2, 3)");
  check_refused<DTypeError>([] { exp(ones({2}, TensorOptions{DType::float16})); },
                            "exp: x: expected a dtype with arithmetic, got float16");
  check_refused<MemoryError>([] { zeros({std::int64_t{1} << 50}); }, "got none from the system");
  // One number alone must fit too.
  check_refused<DTypeError>([] { arange(300, 301, 1, TensorOptions{DType::uint8}); },
                            "arange: value: expected a number that fits uint8, got 300");
  CHECK(arange(300, 300, 1, TensorOptions{DType::uint8}).size() == 0);
}

TEST_CASE("matmul advises to transpose only where that would fit") {
  const Tensor x = ones({2, 3});
  CHECK_THAT(whole_text([&] { matmul(x, ones({4, 3})); }), Catch::Contains("Transpose y?"));
  CHECK_THAT(whole_text([&] {
               matmul(x, ones({4, 5}));
             }),
             Catch::Contains("expected length 3") && !Catch::Contains("Transpose"));
}

TEST_CASE("products of a matrix and a stack whose lengths are all alike") {
  const auto product = [](const Tensor& x, const Tensor& y) {  // of matrices
    const auto n = x.shape(0), k = x.shape(1), m = y.shape(1);
    const std::vector<double> a = x.to_vector<double>(), b = y.to_vector<double>();
    std::vector<double> c(static_cast<std::size_t>(n * m));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t l = 0; l < k; ++l)
          c[static_cast<std::size_t>(i * m + j)] +=
              a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * m + j)];
    return c;
  };
  const Tensor stack = numbers({3, 3, 3}), x = numbers({3, 3}), y = numbers({3, 2});
  REQUIRE(matmul(stack, y).shape() == Shape({3, 3, 2}));
  REQUIRE(matmul(x, stack).shape() == Shape({3, 3, 3}));
  for (std::int64_t i = 0; i < 3; ++i) {
    require_near(matmul(stack, y)(i), product(stack(i), y));
    require_near(matmul(x, stack)(i), product(x, stack(i)));
  }
}

TEST_CASE("a whole number becomes float32 with one rounding") {
  // It is above the middle of two float32 numbers by 1, which float64 does not hold.
  const std::int64_t number = (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1;
  CHECK(cast(number, DType::float32).item<float>() == 0x1p54f + 0x1p31f);
  CHECK(cast(-number, DType::float32).item<float>() == -0x1p54f - 0x1p31f);
}

TEST_CASE("the gradient of a divergence by its target is 0 where the target is 0") {
  const Variable x("x", log_softmax(numbers({2, 3})));
  const std::vector<double> of_p = {0, 0.25, 0.75, 1, 0, 0}, of_x = x.value().to_vector<double>();
  const Variable p("target", from_span(of_p, {2, 3}));
  GradientTape tape;
  const Tensor slope = tape.gradient(kl_divergence(x, p, Reduction::sum), p);
  std::vector<double> expected;
  for (std::size_t i = 0; i < 6; ++i)
    expected.push_back(of_p[i] == 0 ? 0 : std::log(of_p[i]) + 1 - of_x[i]);
  require_near(slope, expected);
}

TEST_CASE("the cosine's gradient by a vector of zeros is that of a vector of length 1") {
  const Variable u("u", zeros({1, 2}, wide));
  const Tensor v = tensor<double>({{3.0, 4.0}});
  GradientTape tape;
  require_near(tape.gradient(cosine_similarity(u, v), u), {0.6, 0.8});
}

TEST_CASE("sums of magnitudes are exact for whole numbers") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (std::int64_t n = 2; n < 80; ++n) {
      const Tensor x = arange(1, n + 1).to(dtype) * tensor(-1.0).to(dtype);
      INFO(n);
      CHECK(norm(x, Keepdims::no, {.p = 1}).to(DType::float64).item<double>() ==
            static_cast<double>(n * (n + 1) / 2));
    }
}

TEST_CASE("sequences say that x may be transposed only where its first axis is the batch") {
  const Tensor weight = ones({7, 12}), bias = ones({16});
  const auto text = [&](const Shape& x, const Tensor& h) {
    return whole_text([&] { gru(ones(x), h, weight, bias); });
  };
  CHECK_THAT(text({5, 2, 3}, ones({5, 4})), Catch::Contains("pass transpose(x, {1, 0, 2})"));
  CHECK_THAT(text({5, 2, 3}, ones({3, 4})),
             Catch::Contains("gru: h: expected (2, 4)") && !Catch::Contains("transpose"));
  CHECK_THAT(text({0, 2, 3}, tensor(1.0f)),
             Catch::Contains("gru: h: expected (2, 4)") && !Catch::Contains("transpose"));
  check_refused<ShapeError>(
      [&] {
        gru(ones({5, 3}), ones({2, 4}), weight, bias, {.lengths = tensor({5})});
      },
      "gru: x: expected [time, batch, in], got (5, 3)");
}

TEST_CASE("many rows without elements are reduced and normalized") {
  const std::int64_t n = 1 << 21;
  const Tensor none = zeros({n, 0});
  CHECK(equal(sum(none, 1), zeros({n})));
  CHECK(equal(prod(none, 1), ones({n})));
  CHECK(softmax(none, 1).shape() == Shape({n, 0}));
  CHECK(cumsum(none, 1).shape() == Shape({n, 0}));
  CHECK(sort(none, 1).shape() == Shape({n, 0}));
  CHECK(take(zeros({4, 0}), zeros({n}, int64)).shape() == Shape({n, 0}));
  CHECK(layer_norm(none, ones({0}), ones({0})).shape() == Shape({n, 0}));
}

TEST_CASE("positions do not decide the dtype of a scatter") {
  const Tensor x = tensor({1, 2}).to(DType::uint8), at = tensor({0}).to(int64);
  CHECK(scatter(x, at, tensor({5})).dtype() == DType::int32);
  CHECK(equal(scatter(x, at, tensor({5})), tensor({5, 2})));
}

TEST_CASE("truth values that are added to one place are one") {
  const Tensor sums = scatter_add(full({2}, false), tensor({0, 0, 0}), full({3}, true));
  CHECK(sums.dtype() == DType::boolean);
  CHECK(sum(sums).item<std::int64_t>() == 1);
  CHECK(equal(sums, tensor({true, false})));
}
}  // namespace reel::tests
