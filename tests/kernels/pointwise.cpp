// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise ops over floating elements against their formulas in float64, for each
// instruction set.
#include "kernels/pointwise.hpp"

#include <set>

#include "lib/formulas/bitwise.hpp"
#include "lib/formulas/compare.hpp"

namespace reel::tests {
namespace {
template <class T>
void check_values(const Formula<T>& f, const InstructionSet& set, double tolerance) {
  INFO(f.name << " on " << set.name);
  for_each_result<T>(f, set, [&](T x, T y, T got) {
    const double exact = f.exact(static_cast<double>(x), static_cast<double>(y));
    if (f.cancels && std::abs(static_cast<double>(got) - exact) <= 8 * epsilon<T>) return;
    if (ulps(got, exact) > tolerance)
      FAIL("x " << x << ", y " << y << ": got " << got << ", expected " << exact);
  });
}

/// Each element gives the same bits alone as among others, and if the result replaces an input.
void check_bits(const Formula<float>& f) {
  for_each_set([&](const InstructionSet& set) {
    INFO(f.name << " on " << set.name);
    const PassFunction function = f.function(set);
    constexpr std::int64_t n = 203;
    Array<float> x({n}, f.inputs(0, n, 3)), y({n}, f.inputs(1, n, 4)), out({n});
    const void* inputs[] = {x.body.data, y.body.data};
    function(n, inputs, 0, out.body.data);
    bool same = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const void* one[] = {&x[i], &y[i]};
      float alone = 0;
      function(1, one, 0, &alone);
      if (f.any_nan && std::isnan(alone) && std::isnan(out[i])) continue;
      same &= std::memcmp(&alone, &out[i], sizeof alone) == 0;
    }
    CHECK(same);
    function(n, inputs, 0, x.body.data);
    CHECK(std::memcmp(x.body.data, out.body.data, n * sizeof(float)) == 0);
  });
}

/// Each pair of special values at each position of a pass, among ordinary numbers.
template <class T>
void check_special(const Formula<T>& f, const InstructionSet& set) {
  constexpr std::int64_t n = 37;
  constexpr T inf = std::numeric_limits<T>::infinity();
  const T special[] = {T(0),
                       T(-0.0),
                       T(1),
                       T(-1),
                       T(2),
                       T(-2),
                       T(3),
                       T(0.5),
                       T(-0.5),
                       std::numeric_limits<T>::quiet_NaN(),
                       inf,
                       -inf,
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::lowest()};
  const PassFunction function = f.function(set);
  std::vector<T> x(n, T(1.5)), y(n, T(1.5)), out(n);
  const void* inputs[] = {x.data(), y.data()};
  function(n, inputs, 0, out.data());
  const T plain = out[0];
  for (std::size_t at = 0; at < n; ++at)
    for (const T a : special)
      for (const T b : special) {
        x[at] = a;
        y[at] = b;
        function(n, inputs, 0, out.data());
        const double exact = f.exact(static_cast<double>(a), static_cast<double>(b));
        const bool right = ulps(out[at], exact) <= (f.rough ? 4 : 2.5) &&
                           (std::isnan(exact) || std::signbit(out[at]) == std::signbit(exact));
        out[at] = plain;
        const bool alone = std::all_of(out.begin(), out.end(), [&](T value) {
          return value == plain || (std::isnan(value) && std::isnan(plain));
        });
        x[at] = y[at] = T(1.5);
        if (!right || !alone)
          FAIL(f.name << "(" << a << ", " << b << ") at " << at << ", exact " << exact);
        if (!f.binary) break;
      }
}
/// A number as an input, and stores past the caches, give the bits of a plain pass over arrays.
template <class T>
void check_how(std::string_view op, PassFunction function, unsigned inputs, unsigned flags) {
  constexpr std::int64_t most = 2100, size = sizeof(T);
  for (const std::int64_t n : {1, 2, 7, 16, 67, 1024, 2100})
    for (unsigned scalars = 0; scalars < 1u << inputs; ++scalars) {
      std::vector<T> values[4], repeated[4];
      const void *from[4], *arrays[4];
      for (unsigned k = 0; k < 4; ++k) {
        for (std::int64_t i = 0; i < n; ++i)
          values[k].push_back(T(0.5) + static_cast<T>((i * 37 + 11 * k) % 101) / 128);
        repeated[k] = values[k];
        const std::int64_t width = op == "where" && k == 0 ? 1 : size;  // the condition is bytes
        auto* const bytes = reinterpret_cast<std::byte*>(repeated[k].data());
        if (scalars >> k & 1)
          for (std::int64_t i = width; i < n * size; ++i) bytes[i] = bytes[i - width];
        from[k] = values[k].data();
        arrays[k] = repeated[k].data();
      }
      constexpr std::int64_t before = 3;  // elements: the output starts within a cache line
      alignas(64) T out[before + most + 1], right[before + most + 1];
      std::fill(std::begin(out), std::end(out), T(3));
      std::copy(std::begin(out), std::end(out), right);
      function(n, from, scalars | flags, out + before);
      function(n, arrays, flags & pass_adds, right + before);
      if (std::memcmp(out, right, sizeof out) != 0)
        FAIL(op << ": " << n << " elements, scalars " << scalars << ", flags " << flags);
    }
}
template <class T>
void check_how(const kernels::NamedPasses& op) {
  const std::string_view name = op.op;
  const auto dtype = static_cast<int>(dtype_of<T>());
  for (const unsigned flags : {0u, pass_streams})
    if (const PassFunction value = op.passes->value[dtype])
      check_how<T>(name, value, name == "lerp" || name == "where" ? 3 : 2, flags);
  for (const unsigned flags : {0u, pass_streams, pass_adds})
    for (const PassFunction gradient : op.passes->gradient[dtype])
      if (gradient) check_how<T>(name, gradient, 4, flags);
}

template <class... F>
void add_names(std::set<std::string_view>& names, List<F...>) {
  (names.insert(F::name), ...);
}

}  // namespace

TEST_CASE("every pass is tested here, but those of lerp and where") {
  std::set<std::string_view> names = {"lerp", "order", "where"};
  add_names(names, Numbers());
  add_names(names, BitwiseFormulas());
  add_names(names, CompareFormulas());
  for_each_set([&](const InstructionSet& set) {
    for (auto* family = set.families; *family; ++family)
      for (auto* entry = (*family)->passes; entry && entry->op; ++entry) {
        INFO(entry->op << " on " << set.name);
        CHECK(names.contains(entry->op));
      }
  });
}
TEST_CASE("pointwise passes agree with their formulas") {
  for_each_set([](const InstructionSet& set) {
    for (const auto& f : formulas_for<float>(Numbers())) {
      const bool divides = f.name == Tanh::name || f.name == Sigmoid::name;
      check_values(f, set, f.rough ? 4 : divides ? 2.5 : 2);
    }
    for (const auto& f : formulas_for<double>(Numbers())) check_values(f, set, 4);
  });
}
TEST_CASE("special values give what IEEE 754 says at every lane") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    for (const auto& f : formulas_for<float>(Numbers())) check_special(f, set);
    for (const auto& f : formulas_for<double>(Numbers())) check_special(f, set);
  });
}
TEST_CASE("a pass with numbers or past the caches has the bits of a pass over arrays") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    for (auto* family = set.families; *family; ++family)
      for (auto* op = (*family)->passes; op && op->op; ++op) {
        check_how<float>(*op);
        check_how<double>(*op);
      }
  });
}
TEST_CASE("an element's bits do not depend on adjacent elements") {
  for (const auto& f : formulas_for<float>(Numbers())) check_bits(f);
}
}  // namespace reel::tests
