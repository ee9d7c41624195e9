// SPDX-License-Identifier: BSD-3-Clause
// Comparisons do not round, and bit operations are those of C++.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr DType b = DType::boolean, u8 = DType::uint8, i32 = DType::int32, i64 = DType::int64,
                f32 = DType::float32, f64 = DType::float64;
Tensor one(DType dtype) { return ones({2}, {.dtype = dtype}); }
bool truth(const Tensor& x) { return x.item<bool>(); }
}  // namespace

TEST_CASE("allclose compares integers exactly, beyond what a double holds too") {
  const std::int64_t large = std::int64_t{1} << 53, most = INT64_MAX;
  const Tolerance exact{.rtol = 0, .atol = 0}, by_one{.rtol = 0, .atol = 1};
  CHECK_FALSE(allclose(tensor(large), tensor(large + 1), exact));
  CHECK(allclose(tensor(large), tensor(large + 1), by_one));
  CHECK_FALSE(allclose(tensor(most), tensor(-most), by_one));
  CHECK(allclose(tensor(most), tensor(-most), {.rtol = 3}));
  CHECK(allclose(tensor({true}), tensor({1}), exact));
  CHECK(allclose(cast(tensor({0}), DType::uint8), tensor({1}), by_one));
  for (const DType floating : {f32, f64}) {
    const Tensor x = full({}, 0x1p53, {.dtype = floating});
    for (const bool swapped : {false, true}) {
      const auto close = [&](std::int64_t i, Tolerance tolerance) {
        return swapped ? allclose(x, tensor(i), tolerance) : allclose(tensor(i), x, tolerance);
      };
      CHECK(close(large, exact));
      CHECK_FALSE(close(large + 1, exact));
      CHECK(close(large + 1, by_one));
      CHECK_FALSE(close(large + 2, by_one));
      CHECK(close(large + 3, {.rtol = 0, .atol = 3}));
      CHECK_FALSE(close(-large, by_one));
    }
    const Tensor end = full({}, 0x1p63, {.dtype = floating});
    CHECK_FALSE(allclose(tensor(most), end, exact));
    CHECK(allclose(tensor(most), end, by_one));
    CHECK(allclose(tensor(-1), full({}, -1.1, {.dtype = floating}), {.rtol = 0, .atol = 0.11}));
    CHECK_FALSE(
        allclose(tensor(-1), full({}, -1.1, {.dtype = floating}), {.rtol = 0, .atol = 0.09}));
    CHECK_FALSE(allclose(tensor({1, 2}), full({2}, NAN, {.dtype = floating}), {.rtol = 3}));
    CHECK_FALSE(allclose(tensor({1L}), full({1}, HUGE_VAL, {.dtype = floating}), {.rtol = 3}));
  }
  CHECK(allclose(tensor<double>(0.1), 0.1, exact));
  CHECK_FALSE(allclose(tensor(0.1), 0.1, exact));  // 0.1f
}

namespace {
/// The expected result of a comparison of two numbers.
struct Comparison {
  Tensor (*compare)(Operand, Operand);
  bool less, same, greater, unordered;
};
const Comparison comparisons[] = {
    {operator==, false, true, false, false}, {operator!=, true, false, true, true},
    {operator<, true, false, false, false},  {operator<=, true, true, false, false},
    {operator>, false, false, true, false},  {operator>=, false, true, true, false}};
/// -1, 0 or 1; 2 for NaN. Computed in 128 bits or in long double, which holds every int64.
int exact_order(std::int64_t i, double x) {
  if (std::isnan(x)) return 2;
  const long double a = static_cast<long double>(i), c = static_cast<long double>(x);
  return a < c ? -1 : a > c;
}
bool expected(const Comparison& c, int order) {
  return order == 2 ? c.unordered : order < 0 ? c.less : order > 0 ? c.greater : c.same;
}
constexpr std::int64_t p24 = 1LL << 24, p53 = 1LL << 53, p62 = 1LL << 62;
const std::vector<std::int64_t> whole = {0,
                                         1,
                                         -1,
                                         7,
                                         p24,
                                         p24 + 1,
                                         -p24 - 1,
                                         p53,
                                         p53 + 1,
                                         p53 - 1,
                                         -p53 - 1,
                                         p62 + 1,
                                         p62 + 255,
                                         INT64_MAX,
                                         INT64_MIN,
                                         INT64_MAX - 512,
                                         INT64_MIN + 1};
const std::vector<double> reals = {
    0,       -0.0,   0.5,    -0.5,    1,     7.25,   0x1p24,   0x1p24 + 2, -0x1p24, 0x1p53,
    -0x1p53, 0x1p62, 0x1p63, -0x1p63, 1e300, -1e300, HUGE_VAL, -HUGE_VAL,  NAN,     5e-324};
}  // namespace

TEST_CASE("each comparison has a name") {
  const Tensor x = tensor({1, 2, 3}), y = tensor({2, 2, 2});
  const std::pair<Tensor (*)(Operand, Operand), Tensor (*)(Operand, Operand)> names[] = {
      {equal_to, operator== },
       {not_equal, operator!= },
        {less, operator<},
         {less_equal, operator<= }, {greater, operator> }, {greater_equal, operator>= } };
  for (const auto& [name, symbol] : names) CHECK(equal(name(x, y), symbol(x, y)));
  CHECK(equal_to(x, y).to_vector<bool>() == std::vector<bool>{false, true, false});
}

TEST_CASE("integers of 64 bits compare exactly with floating numbers, in every order and layout") {
  std::vector<std::int64_t> left;
  std::vector<double> right;
  for (const std::int64_t i : whole)
    for (const double x : reals) left.push_back(i), right.push_back(x);
  for (const DType floating : {f32, f64}) {
    const Tensor i = tensor(left), x = tensor(right).to(floating);
    const std::vector<double> stored = x.to(f64).to_vector<double>();
    for (const Comparison& c : comparisons) {
      const auto check = [&](const Tensor& got, bool mirrored) {
        const std::vector<bool> all_of = got.to_vector<bool>();
        for (std::size_t k = 0; k < left.size(); ++k) {
          const int order = exact_order(left[k], stored[k]);
          INFO(left[k] << " and " << stored[k]);
          CHECK(all_of[k] == expected(c, mirrored && order != 2 ? -order : order));
        }
      };
      check(c.compare(i, x), false);
      check(c.compare(x, i), true);
      const auto transposed = [](const Tensor& t) {
        return transpose(transpose(t.reshape({17, 20})) +
                         zeros_like(transpose(t.reshape({17, 20}))));
      };
      const Tensor zero = zeros({20, 17}, {.dtype = i64});
      check(
          c.compare(transpose(transpose(i.reshape({17, 20})) + zero), transposed(x)).reshape({340}),
          false);
      const auto traced = trace([&](Tensor p, Tensor q) { return c.compare(p, q); });
      for (int turn = 0; turn < 3; ++turn) check(traced(i, x), false);
      GradientTape tape;
      tape.watch(x);
      check(c.compare(x, i), true);
      // One number against many, on either side.
      for (std::size_t k = 0; k < left.size(); k += 7) {
        const int order = exact_order(left[k], stored[k]);
        CHECK(truth(c.compare(i, x(static_cast<int>(k)))(static_cast<int>(k))) ==
              expected(c, order));
        CHECK(truth(c.compare(left[k], x)(static_cast<int>(k))) == expected(c, order));
        if (floating == f64)
          CHECK(truth(c.compare(i, stored[k])(static_cast<int>(k))) == expected(c, order));
      }
    }
    CHECK_FALSE(equal(tensor({p24 + 1}), full({1}, 0x1p24, {.dtype = floating})));
    CHECK(equal(tensor({p24}), full({1}, 0x1p24, {.dtype = floating})));
    CHECK_FALSE(equal(full({1}, 0x1p53, {.dtype = floating}), tensor({p53 + 1})));
  }
  // Integers of 32 bits are exact too. Other comparisons are as before.
  CHECK_FALSE(truth(tensor(16777217) == tensor(16777216.0f)));
  CHECK(truth(tensor(16777217) > tensor(16777216.0f)));
  CHECK_FALSE(truth(tensor(16777216.0f) == 16777217));
  CHECK(truth(tensor(16777216.0f) < 16777217L));
  CHECK_FALSE(truth(tensor(16777217) == 16777216.0));
  CHECK(truth(tensor(0.1f) == 0.1));  // a number takes the dtype of a floating tensor
  CHECK_FALSE(truth(tensor<double>(0.1) == tensor(0.1f)));
}

TEST_CASE("integer tensors compare with numbers that their dtype does not hold, as NumPy's do") {
  // The results of np.array([0, 255], np.uint8) == -1 and so on, from NumPy 2.4.
  const Tensor byte = tensor({0, 255}).to(u8), word = tensor({INT32_MIN, INT32_MAX});
  const auto check = [](const Tensor& got, bool wanted) {
    CHECK(got.to_vector<bool>() == std::vector<bool>(2, wanted));
  };
  for (const bool traced : {false, true}) {
    const auto call = [&](const detail::Function<Tensor(Tensor)>& f, const Tensor& x, bool wanted) {
      if (!traced) return check(f(x), wanted);
      const auto replayed = trace(f);
      for (int i = 0; i < 3; ++i) check(replayed(x), wanted);
    };
    using T = const Tensor&;
    call([](T x) { return x == -1; }, byte, false);
    call([](T x) { return x != -1; }, byte, true);
    call([](T x) { return x > -1; }, byte, true);
    call([](T x) { return -1 < x; }, byte, true);
    call([](T x) { return x <= -1; }, byte, false);
    call([](T x) { return x < 256; }, byte, true);
    call([](T x) { return x >= 256; }, byte, false);
    call([](T x) { return x == 256 + 255; }, byte, false);
    call([](T x) { return x < (1LL << 40); }, byte, true);
    call([](T x) { return x < (1LL << 40); }, word, true);
    call([](T x) { return x > -(1LL << 40); }, word, true);
    call([](T x) { return (1LL << 40) > x; }, word, true);
    call([](T x) { return x == (1LL << 32) - 1; }, word, false);
    call([](T x) { return x > 1e10; }, word, false);
    call([](T x) { return x < HUGE_VAL; }, word, true);
    call([](T x) { return x == NAN; }, word, false);
    call([](T x) { return x == 255.00001; }, byte, false);
    call([](T x) { return x < 2; }, tensor({true, false}), true);
    call([](T x) { return x == -1; }, tensor({true, false}), false);
    // Numbers beyond int64. If they wrapped around, they would be -1 and INT64_MIN.
    for (const Tensor& x : {byte, word, tensor({-1, -1}), tensor({-1L, INT64_MAX})}) {
      call([](T t) { return t == UINT64_MAX; }, x, false);
      call([](T t) { return t < std::uint64_t{1} << 63; }, x, true);
      call([](T t) { return UINT64_MAX > t; }, x, true);
    }
  }
  CHECK_FALSE(equal(tensor(-1L), UINT64_MAX));
  CHECK_FALSE(allclose(tensor(-1L), UINT64_MAX));
  CHECK_FALSE(equal(tensor(255).to(u8), -1));
  CHECK_FALSE(allclose(tensor(255).to(u8), -1));
}

TEST_CASE("& | ^ ~ are logical on bool, bitwise on integers and refused on floats") {
  const std::int64_t values[] = {0, 1, 3, 5, 6, 127, 128, 200, 255};
  const auto number = [](const Tensor& x) { return x.to(i64).item<std::int64_t>(); };
  for (const DType x_dtype : {u8, i32, i64})
    for (const DType y_dtype : {u8, i32, i64})
      for (const std::int64_t p : values)
        for (const std::int64_t q : values) {
          const Tensor x = tensor(p).to(x_dtype), y = tensor(q).to(y_dtype);
          CHECK((x & y).dtype() == std::max(x_dtype, y_dtype));
          CHECK(number(x & y) == (p & q));
          CHECK(number(x | y) == (p | q));
          CHECK(number(x ^ y) == (p ^ q));
          CHECK(number(x & static_cast<int>(q)) == (p & q));
          CHECK(number(static_cast<int>(p) | y) == (p | q));
        }
  CHECK(number(tensor(6) & 3) == 2);
  CHECK(number(~tensor(5)) == -6);
  CHECK(number(~tensor(5L)) == -6);
  CHECK(number(~tensor(5).to(u8)) == 250);
  CHECK(number(tensor(-8) & 0xff) == 0xf8);
  CHECK(number(tensor(INT64_MIN) | 1) == INT64_MIN + 1);
  CHECK(number(tensor({true})(0) & tensor(6)) == 0);
  const Tensor p = tensor({true, true, false, false}), q = tensor({true, false, true, false});
  using Truths = std::vector<bool>;
  CHECK((p & q).to_vector<bool>() == Truths{true, false, false, false});
  CHECK((p | q).to_vector<bool>() == Truths{true, true, true, false});
  CHECK((p ^ q).to_vector<bool>() == Truths{false, true, true, false});
  CHECK((~p).to_vector<bool>() == Truths{false, false, true, true});
  CHECK((p & true).to_vector<bool>() == Truths{true, true, false, false});
  CHECK(((p & q) | ~p).dtype() == b);
  const auto traced = trace([](Tensor x, Tensor y) { return ~(x & y) ^ (x | 1); });
  for (int i = 0; i < 3; ++i) CHECK(number(traced(tensor(12), tensor(10))) == (~(12 & 10) ^ 13));
  for (const DType floating : {f32, f64}) {
    const Tensor x = one(floating);
    check_refused<DTypeError>([&] { x& x; }, "bitwise_and: operands: expected bool or integers");
    check_refused<DTypeError>([&] { x & 1; }, "bool or integers");
    check_refused<DTypeError>([&] { one(i32) | x; }, "bitwise_or: operands");
    check_refused<DTypeError>([&] { x ^ one(b); }, "bitwise_xor: operands");
    check_refused<DTypeError>([&] { ~x; }, "bitwise_not: operands");
    check_refused<DTypeError>([&] { one(i64) & 0.5; }, "bool or integers");
  }
}

TEST_CASE("the largest numbers of a dtype are finite, at every place of a vector") {
  const auto check = []<class T>(T largest) {
    for (std::size_t count = 1; count < 40; ++count)
      for (std::size_t at = 0; at < count; ++at)
        for (const T sign : {T{1}, T{-1}}) {
          std::vector<T> x(count, largest);
          x[at] = sign * largest;
          const Tensor finite = tensor(x);
          x[at] = sign * std::numeric_limits<T>::infinity();
          const Tensor infinite = tensor(x), others = arange(0, count) != at;
          if (all(isfinite(finite)) && !any(isinf(finite)) && equal(isfinite(infinite), others) &&
              equal(isinf(infinite), ~others))
            continue;
          FAIL_CHECK("place " << at << " of " << count);
        }
  };
  check(std::numeric_limits<float>::max());
  check(std::numeric_limits<double>::max());
}

TEST_CASE("NaN is close to NaN only if the call says so") {
  const Tensor x = tensor({1.0, NAN}), y = tensor({1.0, 2.0});
  CHECK_FALSE(allclose(x, x));
  CHECK(allclose(x, x, {.equal_nan = true}));
  CHECK(allclose(x, cast(x, DType::float64), {.equal_nan = true}));
  CHECK_FALSE(allclose(x, y, {.equal_nan = true}));
  CHECK_FALSE(allclose(y, x, {.equal_nan = true}));
  CHECK_FALSE(allclose(x, tensor({1, 2}), {.equal_nan = true}));
}

TEST_CASE("allclose leaves nothing on a tape, and reads numbers with all their digits") {
  const Tensor x = tensor({1.0f, 2.0f});
  const Variable w("w", x);
  GradientTape tape;
  tape.watch(x);
  CHECK(allclose(x, x));
  CHECK(allclose(x, tensor<double>({1.0, 2.0})));
  CHECK(allclose(w, x));
  CHECK(!allclose(x, 1.0));
  CHECK(tape.ops().empty());
  // Doubles beyond 2^53 are even integers.
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  for (const Tensor& even : {tensor(odd - 1), tensor<double>(0x1p53)}) {
    CHECK(!allclose(odd, even, {.rtol = 0, .atol = 0.5}));
    CHECK(!allclose(even, odd, {.rtol = 0, .atol = 0.5}));
    CHECK(allclose(tensor(odd), even, {.rtol = 0, .atol = 1}));
  }
  check_refused<Error>([&] { allclose(Tensor(), x); }, "x: expected a tensor");
  check_refused<Error>([&] { allclose(x, Tensor()); }, "y: expected a tensor");
  for (const double bad : {-1e-9, std::nan("")}) {
    check_refused<Error>([&] { allclose(x, x, {.rtol = bad}); }, "rtol: expected at least 0");
    check_refused<Error>([&] { allclose(x, x, {.atol = bad}); }, "atol: expected at least 0");
  }
}
}  // namespace reel::tests
