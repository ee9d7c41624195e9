// SPDX-License-Identifier: BSD-3-Clause
// Which elements the kernels that fill, take, slice and scatter read and write: all of a tensor and
// none beside it.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "kernels/kernels.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t behind = 64;  // elements behind a tensor, which nothing may change

/// Memory whose first elements are a tensor.
template <class T>
struct Guarded {
  Array<T> memory;
  Body body;

  explicit Guarded(Shape shape, T value) : memory({shape.elements() + behind}, value) {
    body = memory.body;
    body.shape = shape;
    body.elements = shape.elements();
    set_row_major(body);
  }
  bool keeps_rest(T value) {
    for (std::int64_t i = body.elements; i < body.elements + behind; ++i)
      if (memory[i] != value) return false;
    return true;
  }
};

using Kind = FillOptions::Kind;
template <class T>
void check_fill(const InstructionSet& set, Kind kind, Shape shape) {
  INFO(set.name << ": kind " << static_cast<int>(kind) << ", " << shape.elements() << " elements");
  Guarded<T> out(shape, T(77));
  const FillOptions options{.kind = kind, .start = 3, .step = 2, .first = 3, .stride = 2};
  call_kernel(set, "fill", {}, out.body, &options);
  const std::int64_t rank = out.body.rank(), columns = shape.data()[rank - 1],
                     rows = rank > 1 ? shape.data()[rank - 2] : 1;
  bool right = true;
  for (std::int64_t i = 0; i < out.body.elements; ++i) {
    const std::int64_t expected = kind == Kind::constant ? 3
                                  : kind == Kind::range  ? 3 + 2 * i
                                                         : i / columns % rows == i % columns;
    right &= out.memory[i] == static_cast<T>(expected);
  }
  CHECK(right);
  CHECK(out.keeps_rest(T(77)));
}
template <class T>
void check_fills(const InstructionSet& set) {
  for (const std::int64_t n : {1, 2, 7, 8, 15, 16, 33, 100})
    for (const Kind kind : {Kind::constant, Kind::range}) check_fill<T>(set, kind, {n});
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 3}, Shape{2, 5}, Shape{5, 2}, Shape{1, 6},
                             Shape{6, 1}, Shape{4, 2, 3}, Shape{2, 4, 3}})
    check_fill<T>(set, Kind::identity, shape);
}

/// Sums of updates, in float64.
struct Sums {
  std::vector<double> sum, size;
  explicit Sums(std::int64_t n)
      : sum(static_cast<std::size_t>(n)), size(static_cast<std::size_t>(n)) {}
  void add(std::int64_t at, double x) {
    sum[static_cast<std::size_t>(at)] += x;
    size[static_cast<std::size_t>(at)] += std::abs(x);
  }
  /// The largest error, relative to the sum of the sizes of a place's updates.
  template <class T>
  double error(const Array<T>& got) const {
    double worst = 0;
    for (std::size_t i = 0; i < sum.size(); ++i)
      worst = std::max(
          worst, std::abs(static_cast<double>(got.elements[i]) - sum[i]) / (size[i] + 1e-300));
    return worst;
  }
};
}  // namespace

TEST_CASE("fills write each element, and none behind the last") {
  for_each_set([](const InstructionSet& set) {
    check_fills<float>(set);
    check_fills<double>(set);
    check_fills<std::uint8_t>(set);
    check_fills<std::int64_t>(set);
  });
}

TEST_CASE("rows of any number of bytes are taken, and nothing is written behind the last one") {
  for_each_set([](const InstructionSet& set) {
    for (std::int64_t bytes = 1; bytes <= 17; ++bytes) {
      INFO(set.name << ": rows of " << bytes << " bytes");
      Array<std::uint8_t> x({5, bytes});
      for (std::int64_t i = 0; i < 5 * bytes; ++i) x[i] = static_cast<std::uint8_t>(i + 1);
      Array<std::int64_t> at({3}, {4, 0, -2});
      Guarded<std::uint8_t> out({3, bytes}, 200);
      const AxisOptions options{0};
      call_kernel(set, "take", {&x.body, &at.body}, out.body, &options);
      bool right = true;
      const std::int64_t rows[] = {4, 0, 3};
      for (std::int64_t i = 0; i < 3 * bytes; ++i)
        right &= out.memory[i] == rows[i / bytes] * bytes + i % bytes + 1;
      CHECK(right);
      CHECK(out.keeps_rest(200));
    }
  });
}

TEST_CASE("the gradient of a slice lies where the slice was, and is 0 elsewhere") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    const UnsliceOptions options{{.starts = {1, 0, 0}, .lengths = {2, 3, 2}, .steps = {1, 2, 2}},
                                 {4, 5, 3}};
    Array<float> dy({2, 3, 2});
    for (std::int64_t i = 0; i < 12; ++i) dy[i] = static_cast<float>(i + 1);
    for (const bool adds : {false, true}) {
      Guarded<float> dx({4, 5, 3}, 0.5f);
      call_kernel(set, "unslice", {&dy.body}, dx.body, &options, adds);
      std::vector<float> expected(60, adds ? 0.5f : 0.0f);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j)
          for (std::size_t k = 0; k < 2; ++k)
            expected[(1 + i) * 15 + 2 * j * 3 + 2 * k] +=
                static_cast<float>((i * 3 + j) * 2 + k + 1);
      CHECK(dx.keeps_rest(0.5f));
      CHECK(std::vector<float>(dx.memory.elements.begin(), dx.memory.elements.begin() + 60) ==
            expected);
    }
  });
}

TEST_CASE("many updates along a middle axis reach their places") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    constexpr std::int64_t outer = 3, count = 40, length = 5, inner = 4;
    Array<float> updates({outer, count, inner}), out({outer, length, inner});
    Array<std::int64_t> at({count});
    for (std::int64_t i = 0; i < count; ++i) at[i] = i % 7 == 0 ? 4 : i % 2;
    Sums exact(outer * length * inner);
    for (std::int64_t i = 0; i < updates.body.elements; ++i) {
      updates[i] = 0.1f * static_cast<float>(i % 19 + 1);
      const std::int64_t place = at[i / inner % count];
      exact.add((i / (count * inner) * length + place) * inner + i % inner, updates[i]);
    }
    const UnTakeOptions options{{outer, length, inner}, 1};
    call_kernel(set, "scatter", {&updates.body, &at.body}, out.body, &options);
    CHECK(exact.error(out) < 1e-6);
  });
}

TEST_CASE("rounding errors of one place are not added to another one") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    // So few of many places get updates that a hash table holds them. Some places collide in the
    // table.
    constexpr std::int64_t places = 200'000, rounds = 10;
    std::mt19937 random(1);
    std::set<std::int64_t> chosen;
    while (chosen.size() < 500) chosen.insert(static_cast<std::int64_t>(random() % places));
    std::vector<std::int64_t> at;
    std::vector<float> values;
    Sums exact(places);
    for (std::int64_t round = 0; round < rounds; ++round) {
      bool large = false;
      for (const std::int64_t place : chosen) {
        large = !large;
        const float share = 1 + 0.1f * static_cast<float>((round * 7 + place) % 11);
        at.push_back(place);
        values.push_back(large ? 1e8f * share : share);
        exact.add(place, values.back());
      }
    }
    const auto count = static_cast<std::int64_t>(at.size());
    Array<std::int64_t> positions({count}, at);
    Array<float> updates({count}, values), out({places});
    const UnTakeOptions options{{places}, 0};
    call_kernel(set, "scatter", {&updates.body, &positions.body}, out.body, &options);
    CHECK(exact.error(out) < 2e-7);
  });
}

TEST_CASE("a thousand updates of one element are rounded once") {
  for_each_set([](const InstructionSet& set) {
    INFO(set.name);
    Array<float> updates({1000}, 0.1f), out({3});
    Array<std::int64_t> at({1000}, 1);
    const UnTakeOptions options{{3}, 0};
    call_kernel(set, "scatter_elements", {&updates.body, &at.body}, out.body, &options);
    CHECK(out[1] == static_cast<float>(1000 * static_cast<double>(0.1f)));
    CHECK((out[0] == 0 && out[2] == 0));
  });
}
}  // namespace reel::tests
