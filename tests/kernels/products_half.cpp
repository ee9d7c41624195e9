// SPDX-License-Identifier: BSD-3-Clause
// Products of float16 and bfloat16 for each instruction set. Products in float32 have the bits of
// the product of widened matrices. Products of pairs, by AVX512-BF16 and AMX, are compared with
// float64.
#include <cmath>
#include <cstring>
#include <limits>

#include <reel/threads.hpp>

#include "kernels/operands.hpp"
#include "lib/table/options/matmul.hpp"
#include "support/catch.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
/// Whether this set multiplies pairs of bfloat16.
bool has_pairs(const InstructionSet& set) {
  const std::string_view name = set.name;
  return name == "bf16" || name == "amx";
}
/// Calls test(set) for the sets with products of pairs, and says which ones this machine lacks.
template <class Test>
void for_each_set_of_pairs(const Test& test) {
  for (const std::string_view name : {"bf16", "amx"}) {
    bool found = false;
    for_each_set([&](const InstructionSet& set) {
      if (set.name != name) return;
      found = true;
      INFO(name);
      test(set);
    });
    if (!found) WARN("skipped: this machine or this build has no products by " << name);
  }
}

/// Calls a kernel that must take 16 bits.
void call_halves(const InstructionSet& set, const char* op, const Inputs& inputs, Body& output,
                 const void* options = nullptr, unsigned accumulate = 0) {
  const auto named = find_named(set, op);
  Body* const outputs[] = {&output};
  const KernelCall call{inputs.data(), outputs, options, static_cast<int>(inputs.size()), 1,
                        accumulate};
  REQUIRE(named.takes_halves);
  REQUIRE(named.takes_halves(call));
  named.kernel(call);
}

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr double u = 0x1p-24;  // the relative error of rounding to float32

/// Elements behind an output, which must stay as they are.
constexpr std::int64_t behind = 40;

struct Shapes {
  std::int64_t n, m, k;
  Layout left = Layout::row_major, right = Layout::row_major;
};
// Lengths next to those of blocks, strips, groups and pieces.
constexpr Shapes shapes[] = {
    {1, 1, 1},    {1, 40, 3},    {40, 1, 33},    {3, 17, 0},       {15, 16, 31},  {16, 32, 32},
    {17, 33, 64}, {33, 65, 65},  {64, 64, 64},   {8, 100, 700},    {9, 31, 1500}, {100, 9, 257},
    {31, 300, 2}, {700, 70, 40}, {300, 400, 50}, {200, 1100, 130}, {2, 70, 9000}, {64, 2100, 1030}};

/// Each element lies between the ends of the interval of float32 sums, rounded once.
void check_pairs(const InstructionSet& set, const Shapes& s, std::mt19937& random, bool adds) {
  INFO(s.n << " x " << s.k << " by " << s.k << " x " << s.m << ", layouts "
           << static_cast<int>(s.left) << " and " << static_cast<int>(s.right) << ", adds "
           << adds);
  const Operand<BFloat16> x(random, 1, s.n, s.k, s.left), y(random, 1, s.k, s.m, s.right);
  const Body a = x.matrix(), b = y.matrix();
  Array<BFloat16> out({s.n * s.m + behind}, BFloat16(0.5));
  Body c = out.view({s.n, s.m}, {s.m, 1});
  call_halves(set, "matmul", {&a, &b}, c, nullptr, adds);
  std::int64_t wrong = 0;
  const std::int64_t step = s.n * s.m * s.k > 1 << 22 ? 7 : 1;
  for (std::int64_t i = 0; i < s.n; i += step)
    for (std::int64_t j = 0; j < s.m; ++j) {
      double sum = adds ? 0.5 : 0, size = sum;
      for (std::int64_t l = 0; l < s.k; ++l) {
        const double product = x.at(0, i, l) * y.at(0, l, j);
        sum += product;
        size += std::abs(product);
      }
      const double off = static_cast<double>(s.k + 2) * u * size, got = out[i * s.m + j];
      wrong += !(got >= BFloat16(sum - off) && got <= BFloat16(sum + off));
    }
  CHECK(wrong == 0);
  for (std::int64_t i = 0; i < behind; ++i) CHECK(out[s.n * s.m + i] == 0.5f);
}

/// The body of the elements of x as float32, row-major.
struct Widened {
  Array<float> wide;

  explicit Widened(const Body& x) : wide(x.shape) {
    for (std::int64_t i = 0; i < x.elements; ++i) {
      std::int64_t rest = i, place = 0;
      for (int axis = x.rank() - 1; axis >= 0; rest /= x.shape[axis--])
        place += rest % x.shape[axis] * x.strides[axis];
      wide[i] = x.dtype == DType::float16 ? static_cast<float>(x.as<Float16>()[place])
                                          : static_cast<float>(x.as<BFloat16>()[place]);
    }
  }
};
/// matmul, or with z matmul_add or dense, has the bits of the same in float32, rounded once.
template <class T>
void check_bits(const InstructionSet& set, const char* op, const Body& x, const Body& y,
                const Body* z, const Shape& shape, bool adds = false) {
  INFO(set.name << ": " << op << " of " << name_of(dtype_of<T>()));
  const ActivationOptions options{Activation::tanh};
  Array<T> out(shape, T(0.75));
  Array<float> expected(shape, 0.75f);
  Widened wide_x(x), wide_y(y);
  Inputs halves{&x, &y}, floats{&wide_x.wide.body, &wide_y.wide.body};
  const std::unique_ptr<Widened> wide_z = z ? std::make_unique<Widened>(*z) : nullptr;
  if (z) {
    halves.push_back(z);
    floats.push_back(&wide_z->wide.body);
  }
  call_kernel(set, op, floats, expected.body, &options, adds);
  const auto named = find_named(set, op);
  Body* const outputs[] = {&out.body};
  const KernelCall call{halves.data(), outputs, &options, static_cast<int>(halves.size()), 1, adds};
  if (!named.takes_halves || !named.takes_halves(call)) return;  // SSE4
  named.kernel(call);
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < out.body.elements; ++i)
    different += T(expected[i]).bits() != out[i].bits();
  CHECK(different == 0);
}
}  // namespace

TEST_CASE("products of 16 bits in float32 have the bits of float32, rounded once", "[products]") {
  std::mt19937 random(11);
  for_each_set([&](const InstructionSet& set) {
    for (const Layout left : {Layout::row_major, Layout::transposed, Layout::every_other})
      for (const Layout right : {Layout::row_major, Layout::transposed, Layout::gaps})
        for (const Shapes& s : shapes) {
          INFO(s.n << " x " << s.k << " by " << s.k << " x " << s.m << ", layouts "
                   << static_cast<int>(left) << " and " << static_cast<int>(right));
          const auto check = [&]<class T>(T) {
            const Operand<T> x(random, 1, s.n, s.k, left), y(random, 1, s.k, s.m, right);
            const Body a = x.matrix(), b = y.matrix();
            check_bits<T>(set, "matmul", a, b, nullptr, {s.n, s.m}, s.k % 2);
            for (const Shape& added : {Shape{s.m}, Shape{s.n, 1}, Shape{}, Shape{s.n, s.m}}) {
              if (left != right) continue;
              Array<T> z(added);
              for (std::int64_t i = 0; i < z.body.elements; ++i)
                z[i] = T(0.125 * static_cast<double>(i % 7));
              check_bits<T>(set, "matmul_add", a, b, &z.body, {s.n, s.m});
              check_bits<T>(set, "dense", a, b, &z.body, {s.n, s.m});
            }
          };
          check(Float16());
          if (!has_pairs(set)) check(BFloat16());
        }
    const Operand<Float16> x(random, 3, 20, 30, Layout::gaps), y(random, 3, 30, 40, Layout::gaps);
    const Body one = y.matrix();
    check_bits<Float16>(set, "matmul", x.body, y.body, nullptr, {3, 20, 40}, true);
    check_bits<Float16>(set, "matmul", x.body, one, nullptr, {3, 20, 40});
  });
}

TEST_CASE("products of pairs agree with float64 at many shapes and layouts", "[products]") {
  for_each_set_of_pairs([](const InstructionSet& set) {
    std::mt19937 random(3);
    for (Shapes s : shapes)
      for (const Layout left : {Layout::row_major, Layout::transposed, Layout::every_other})
        for (const Layout right : {Layout::row_major, Layout::transposed, Layout::gaps}) {
          s.left = left;
          s.right = right;
          check_pairs(set, s, random, s.m % 2);
        }
    const auto length = [&] { return static_cast<std::int64_t>(random() % 80); };
    const auto layout = [&] { return layouts[random() % std::size(layouts)]; };
    for (int i = 0; i < 300; ++i)
      check_pairs(set, {length(), length(), length(), layout(), layout()}, random, i % 2);
  });
}

TEST_CASE("products of pairs add a row, a column, a number or a matrix, then activate",
          "[products]") {
  for_each_set_of_pairs([](const InstructionSet& set) {
    std::mt19937 random(5);
    constexpr std::int64_t n = 37, m = 50, k = 40;
    const Operand<BFloat16> x(random, 1, n, k, Layout::gaps),
        y(random, 1, k, m, Layout::transposed);
    const Body a = x.matrix(), b = y.matrix();
    for (const Shape& shape : {Shape{m}, Shape{1, m}, Shape{n, 1}, Shape{}, Shape{n, m}})
      for (const Activation activation : {Activation::none, Activation::relu, Activation::tanh}) {
        Array<BFloat16> z(shape), out({n, m});
        for (std::int64_t i = 0; i < z.body.elements; ++i)
          z[i] = BFloat16(0.25 * static_cast<double>(i % 23 - 11));
        const ActivationOptions options{activation};
        call_halves(set, activation == Activation::none ? "matmul_add" : "dense", {&a, &b, &z.body},
                    out.body, &options);
        const int rank = static_cast<int>(shape.rank());
        const bool by_row = rank == 2 && shape[0] != 1, by_column = rank && shape[rank - 1] != 1;
        double worst = 0;
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < m; ++j) {
            double sum = z[(by_row ? i * (by_column ? m : 1) : 0) + (by_column ? j : 0)];
            for (std::int64_t l = 0; l < k; ++l) sum += x.at(0, i, l) * y.at(0, l, j);
            if (activation == Activation::relu) sum = std::max(sum, 0.0);
            if (activation == Activation::tanh) sum = std::tanh(sum);
            const double off = std::abs(static_cast<double>(out[i * m + j]) - sum);
            worst = std::max(worst, off / (0x1p-8 * std::abs(sum) + 1e-4));
          }
        INFO("added shape of rank " << rank << ", activation " << static_cast<int>(activation));
        CHECK(worst < 1);
      }
  });
}

TEST_CASE("products of pairs of leading axes broadcast", "[products]") {
  for_each_set_of_pairs([](const InstructionSet& set) {
    std::mt19937 random(9);
    constexpr std::int64_t n = 20, k = 35, m = 18;
    for (const Layout left : {Layout::row_major, Layout::gaps}) {
      const Operand<BFloat16> x(random, 3, n, k, left), y(random, 2, k, m, Layout::transposed);
      Body many = x.body;
      many.shape = {3, 1, n, k};
      for (int axis = 3; axis > 1; --axis) many.strides[axis] = many.strides[axis - 1];
      const Body one = y.matrix();
      Array<BFloat16> both({3, 2, n, m}), single({3, n, m}, BFloat16(1));
      call_halves(set, "matmul", {&many, &y.body}, both.body);
      call_halves(set, "matmul", {&x.body, &one}, single.body, nullptr, 1);
      double worst = 0;
      for (std::int64_t at = 0; at < both.body.elements; ++at) {
        const std::int64_t j = at % m, i = at / m % n, b = at / (m * n) % 2, a = at / (2 * m * n);
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += x.at(a, i, l) * y.at(b, l, j);
        const auto see = [&](double got, double exact) {
          worst = std::max(worst, std::abs(got - exact) / (0x1p-8 * std::abs(exact) + 1e-4));
        };
        see(both[at], sum);
        if (b == 0) see(single[(a * n + i) * m + j], 1 + sum);
      }
      CHECK(worst < 1);
    }
  });
}

TEST_CASE("products of pairs have the same bits for any number of threads and of rows",
          "[products]") {
  const KeepThreads keep;
  for_each_set_of_pairs([](const InstructionSet& set) {
    std::mt19937 random(2);
    for (const auto& [n, m, k] : {std::array{400, 300, 520}, {40, 1500, 1100}, {1500, 40, 1100}}) {
      const Operand<BFloat16> x(random, 1, n, k, Layout::row_major),
          y(random, 1, k, m, Layout::transposed);
      const Body a = x.matrix(), b = y.matrix();
      Array<BFloat16> alone({n, m}), shared({n, m});
      set_num_threads(1);
      call_halves(set, "matmul", {&a, &b}, alone.body);
      set_num_threads(3);
      call_halves(set, "matmul", {&a, &b}, shared.body);
      CHECK(std::memcmp(alone.body.data, shared.body.data, alone.elements.size() * 2) == 0);
      Body row = a;
      row.shape = {1, k};
      row.elements = k;
      row.data += (n - 1) * k * 2;
      Array<BFloat16> last({1, m});
      call_halves(set, "matmul", {&row, &b}, last.body);
      CHECK(std::memcmp(last.body.data, &alone[(n - 1) * m], last.elements.size() * 2) == 0);
    }
  });
}

TEST_CASE("products of pairs keep NaN and infinity, and take subnormal numbers for zero",
          "[products]") {
  for_each_set_of_pairs([](const InstructionSet& set) {
    const auto product = [&](const std::vector<double>& row, const std::vector<double>& column) {
      const auto k = static_cast<std::int64_t>(row.size());
      Array<BFloat16> x({2, k}, BFloat16(1)), y({k, 1}), out({2, 1});
      for (std::int64_t i = 0; i < k; ++i) {
        x[i] = BFloat16(row[static_cast<std::size_t>(i)]);
        y[i] = BFloat16(column[static_cast<std::size_t>(i)]);
      }
      call_halves(set, "matmul", {&x.body, &y.body}, out.body);
      return static_cast<float>(out[0]);
    };
    CHECK(std::isnan(product({1, NAN, 2}, {1, 0, 1})));
    CHECK(std::isnan(product({1, infinity}, {1, 0})));
    CHECK(std::isnan(product({infinity, infinity}, {1, -1})));
    CHECK(product({infinity, 1, 1}, {2, 3, 4}) == infinity);
    CHECK(product({-infinity, 1}, {2, 3}) == -infinity);
    CHECK(product({3e38, 1}, {2, 1}) == infinity);
    CHECK(product({3.39e38, 3.39e38}, {1, 1}) == infinity);
    CHECK(product({-1, 1}, {0, 0}) == 0);
    // The smallest normal number is 2^-126.
    CHECK(product({0x1p-126, 1}, {1, 0}) == 0x1p-126f);
    CHECK(product({0x1p-127, 1}, {0x1p100, 0}) == 0);
    CHECK(product({0x1p-127, 1}, {0x1p100, 1}) == 1);
    CHECK(product({0x1p-70, 1}, {0x1p-60, 0}) == 0);

    // What is beside NaN is not touched by it, nor by what lies behind the rows.
    constexpr std::int64_t n = 20, k = 5, m = 19;
    Array<BFloat16> x({n, k}, BFloat16(1)), y({k, m}, BFloat16(2)), out({n, m});
    x[7 * k + 2] = BFloat16(NAN);
    y[3 * m + 11] = BFloat16(infinity);
    call_halves(set, "matmul", {&x.body, &y.body}, out.body);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        const float got = out[i * m + j];
        CHECK((i == 7 ? std::isnan(got) : got == (j == 11 ? infinity : 10.0f)));
      }
  });
}

TEST_CASE("products of 16 bits in float32 keep subnormal numbers", "[products]") {
  for_each_set([](const InstructionSet& set) {
    if (has_pairs(set) || !find_named(set, "matmul").takes_halves) return;
    Array<BFloat16> x({1, 2}, BFloat16(0x1p-130)), y({2, 1}, BFloat16(2)), out({1, 1});
    call_halves(set, "matmul", {&x.body, &y.body}, out.body);
    INFO(set.name);
    CHECK(out[0] == 0x1p-128f);
  });
}
}  // namespace reel::tests
