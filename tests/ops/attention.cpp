// SPDX-License-Identifier: BSD-3-Clause
// Attention against its formula in float64, with every kind of mask.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include <reel/reel.hpp>

#include "lib/formulas/philox.hpp"
#include "support/catch.hpp"
#include "support/peak.hpp"
#include "support/refused.hpp"
#include "support/resident.hpp"
#include "support/short.hpp"

namespace reel::tests {
namespace {
using Int = std::int64_t;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// q [batch, heads, queries, width], k [batch, heads / group, keys, width].
struct Problem {
  Int batch, kv_heads, group, queries, keys, width, value_width;
  bool causal, has_lengths;
  Int window;
  enum class Mask { none, truth, scores } mask;
  int mask_axes;  // bit i: the mask has axis i of [batch, heads, queries, keys]

  Int heads() const { return kv_heads * group; }
  Shape q() const { return {batch, heads(), queries, width}; }
  Shape k() const { return {batch, kv_heads, keys, width}; }
  Shape v() const { return {batch, kv_heads, keys, value_width}; }
  Shape of_mask() const {
    const Int all[] = {batch, heads(), queries, keys};
    std::vector<Int> lengths;
    for (int i = 0; i < 4; ++i) lengths.push_back(mask_axes >> i & 1 ? all[i] : 1);
    return Shape(lengths);
  }
  std::string text() const {
    std::string text;
    for (const Int n : {batch, kv_heads, group, queries, keys, width, value_width, Int{causal},
                        Int{has_lengths}, window, static_cast<Int>(mask), Int{mask_axes}})
      text += std::to_string(n) + " ";
    return text;
  }
};
Problem random_problem(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<Int> list) {
    return list.begin()[std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random)];
  };
  Problem p{};
  p.batch = one_of({1, 1, 2, 3});
  p.kv_heads = one_of({1, 1, 2, 3});
  p.group = one_of({1, 1, 2, 3});
  p.queries = one_of({1, 1, 2, 5, 8, 9, 17, 64, 95, 96, 97, 130, 200});
  p.keys = one_of({1, 2, 3, 7, 15, 63, 64, 65, 100, 128, 129, 190});
  p.width = one_of({1, 2, 7, 8, 16, 33, 64});
  p.value_width = one_of({1, 3, 8, 20, 64});
  p.causal = one_of({0, 0, 1});
  p.has_lengths = one_of({0, 0, 1});
  p.window = one_of({0, 0, 0, 1, 5, 70});
  p.mask = static_cast<Problem::Mask>(one_of({0, 0, 1, 2}));
  p.mask_axes = static_cast<int>(one_of({0, 8, 12, 13, 14, 15, 9, 4, 2}));
  return p;
}

using Values = std::vector<double>;
template <class T>
Values values_of(const Tensor& x) {
  const Tensor row = x.to(DType::float64);
  const auto values = row.values<double>();
  return {values.begin(), values.end()};
}
struct Given {
  Values q, k, v, mask, dy;
  std::vector<Int> lengths;
};
/// `largest_dk` has, for each element of dk, the sum of its terms without their signs: with few
/// keys the terms cancel, and rounding is relative to them.
struct Results {
  Values y, dq, dk, dv, dmask, largest_dk;
};
/// The formula and its gradients, one query after the other. factor(head, query, key) is that of
/// dropout.
template <class Factor>
Results by_formula(const Problem& p, const Given& in, const Factor& factor) {
  Results r{Values(in.dy.size()), Values(in.q.size()),    Values(in.k.size()),
            Values(in.v.size()),  Values(in.mask.size()), Values(in.k.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(p.width));
  const auto at = [](Int i) { return static_cast<std::size_t>(i); };
  for (Int head = 0; head < p.batch * p.heads(); ++head)
    for (Int i = 0; i < p.queries; ++i) {
      const Int b = head / p.heads(), row = head * p.queries + i, first = head / p.group * p.keys;
      const auto mask_at = [&](Int j) {
        const Int index[] = {b, head % p.heads(), i, j};
        const Shape shape = p.of_mask();
        Int flat = 0;
        for (int a = 0; a < 4; ++a) flat = flat * shape[a] + (shape[a] == 1 ? 0 : index[a]);
        return at(flat);
      };
      Values weight(at(p.keys)), slope(at(p.keys)), largest_slope(at(p.keys));
      double most = -infinity, sum = 0, dot = 0, largest_dot = 0;
      for (Int j = 0; j < p.keys; ++j) {
        double score = 0;
        for (Int e = 0; e < p.width; ++e)
          score += in.q[at(row * p.width + e)] * in.k[at((first + j) * p.width + e)];
        score *= scale;
        if (p.mask == Problem::Mask::scores) score += in.mask[mask_at(j)];
        if ((p.mask == Problem::Mask::truth && in.mask[mask_at(j)] == 0) ||
            (p.causal && j - p.keys > i - p.queries) ||
            (p.window && j - p.keys <= i - p.queries - p.window) ||
            (p.has_lengths && j >= in.lengths[at(b)]))
          score = -infinity;
        weight[at(j)] = score;
        most = std::fmax(most, score);
      }
      for (double& w : weight) sum += w = w == -infinity ? 0 : std::exp(w - most);
      for (Int j = 0; j < p.keys; ++j) {
        double& w = weight[at(j)];
        if (sum > 0) w /= sum;
        const double f = factor(head, i, j);
        for (Int e = 0; e < p.value_width; ++e) {
          const std::size_t to = at(row * p.value_width + e),
                            of = at((first + j) * p.value_width + e);
          r.y[to] += w * f * in.v[of];
          r.dv[of] += w * f * in.dy[to];
          slope[at(j)] += f * in.dy[to] * in.v[of];
          largest_slope[at(j)] += f * std::fabs(in.dy[to] * in.v[of]);
        }
        dot += w * slope[at(j)];
        largest_dot += w * largest_slope[at(j)];
      }
      for (Int j = 0; j < p.keys; ++j) {
        const double d = weight[at(j)] * (slope[at(j)] - dot);
        const double largest = weight[at(j)] * (largest_slope[at(j)] + largest_dot) * scale;
        if (p.mask == Problem::Mask::scores) r.dmask[mask_at(j)] += d;
        for (Int e = 0; e < p.width; ++e) {
          r.dq[at(row * p.width + e)] += d * scale * in.k[at((first + j) * p.width + e)];
          const std::size_t of = at((first + j) * p.width + e);
          r.dk[of] += d * scale * in.q[at(row * p.width + e)];
          r.largest_dk[of] += largest * std::fabs(in.q[at(row * p.width + e)]);
        }
      }
    }
  return r;
}
/// The largest error, relative to 1 or to the largest element of `expected` and of `scale`.
double error_of(const Tensor& got, const Values& expected, const Values& scale = {}) {
  const Values values = values_of<double>(got);
  REQUIRE(values.size() == expected.size());
  double error = 0, largest = 1;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(values[i])) return infinity;
    error = std::fmax(error, std::fabs(values[i] - expected[i]));
    largest = std::fmax(largest, std::fabs(expected[i]));
  }
  for (const double size : scale) largest = std::fmax(largest, size);
  return error / largest;
}
struct Tensors {
  Tensor q, k, v, dy;
  AttentionOptions options;
};
Tensors random_tensors(const Problem& p, DType dtype) {
  const random::NormalOptions of{.dtype = dtype};
  Tensors t{random::normal(p.q(), of),
            random::normal(p.k(), of),
            random::normal(p.v(), of),
            random::normal({p.batch, p.heads(), p.queries, p.value_width}, of),
            {}};
  t.options.causal = p.causal;
  t.options.window = p.window;
  if (p.has_lengths) t.options.key_lengths = random::integers(0, p.keys + 1, {p.batch});
  if (p.mask == Problem::Mask::truth) t.options.mask = random::bernoulli(0.6, p.of_mask());
  if (p.mask == Problem::Mask::scores) t.options.mask = random::normal(p.of_mask(), of);
  return t;
}
Given given_by(const Tensors& t) {
  Given in{values_of<double>(t.q),  values_of<double>(t.k),
           values_of<double>(t.v),  {},
           values_of<double>(t.dy), {}};
  if (t.options.mask.defined()) in.mask = values_of<double>(t.options.mask);
  if (t.options.key_lengths.defined())
    for (const double n : values_of<double>(t.options.key_lengths))
      in.lengths.push_back(static_cast<Int>(n));
  return in;
}
/// y, dq, dk, dv and the gradient of a floating mask.
std::vector<Tensor> results_of(const Tensors& t) {
  GradientTape tape;
  std::vector<Tensor> sources = {t.q, t.k, t.v};
  if (t.options.mask.defined() && is_floating(t.options.mask.dtype()))
    sources.push_back(t.options.mask);
  for (const Tensor& source : sources) tape.watch(source);
  const Tensor y = attention(t.q, t.k, t.v, t.options);
  std::vector<Tensor> results = tape.gradient(y, GradientSources(sources),
                                              {.upstream = t.dy, .unconnected = Unconnected::zero});
  results.insert(results.begin(), y);
  return results;
}
void check_results(const std::vector<Tensor>& got, const Results& expected, double most) {
  CHECK(error_of(got[0], expected.y) < most);
  CHECK(error_of(got[1], expected.dq) < most);
  CHECK(error_of(got[2], expected.dk, expected.largest_dk) < most / 10);
  CHECK(error_of(got[3], expected.dv) < most);
  if (got.size() > 4) CHECK(error_of(got[4], expected.dmask) < most);
}
const auto no_dropout = [](Int, Int, Int) { return 1.0; };
Tensor normal(Shape shape) { return random::normal(shape); }
}  // namespace

TEST_CASE("attention and its gradients are those of the formula in float64") {
  std::mt19937 random(std::getenv("REEL_TEST_LONG") ? std::random_device{}() : 20);
  const int count = at_most_asked(std::getenv("REEL_TEST_LONG") ? 1000 : 120);
  seed(3);
  for (int i = 0; i < count; ++i) {
    const Problem p = random_problem(random);
    INFO(p.text());
    const DType dtype = i % 4 ? DType::float32 : DType::float64;
    const Tensors t = random_tensors(p, dtype);
    check_results(results_of(t), by_formula(p, given_by(t), no_dropout),
                  dtype == DType::float32 ? 1e-5 : 1e-13);
  }
}

TEST_CASE("dropout of attention has the Philox numbers of head, query and key") {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 5}, {3, 130}, {100, 70}}) {
    seed(4);
    const Problem p{.batch = 2,
                    .kv_heads = 1,
                    .group = 2,
                    .queries = queries,
                    .keys = keys,
                    .width = 4,
                    .value_width = 5,
                    .causal = false,
                    .has_lengths = false,
                    .window = 0,
                    .mask = Problem::Mask::none,
                    .mask_axes = 0};
    Tensors t = random_tensors(p, DType::float64);
    t.options.dropout = 0.3;
    seed(5);
    const auto number =
        static_cast<std::uint64_t>(random::integers(0, Int{1} << 53, {1}).values<Int>()[0]);
    seed(5);
    const auto factor = [&](Int head, Int query, Int key) {
      std::uint32_t words[4] = {static_cast<std::uint32_t>(key / 4),
                                static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(head),
                                0};
      formulas::philox(words, static_cast<std::uint32_t>(number),
                       static_cast<std::uint32_t>(number >> 32));
      return words[key % 4] < static_cast<std::uint64_t>(0.7 * 0x1p32) ? 1 / 0.7 : 0.0;
    };
    check_results(results_of(t), by_formula(p, given_by(t), factor), 1e-12);
  }
}

TEST_CASE("attention draws its dropout anew at each call and each replay") {
  seed(6);
  const Tensor q = normal({1, 4, 8}), k = normal({1, 16, 8}), v = normal({1, 16, 3});
  const AttentionOptions options{.dropout = 0.5};
  const auto f = [&](const Tensor& x) { return attention(x, k, v, options); };
  seed(7);
  const Tensor first = f(q), second = f(q), third = f(q);
  CHECK(!equal(first, second));
  seed(7);
  const auto traced = trace(f);
  CHECK(equal(traced(q), first));
  CHECK(equal(traced(q), second));
  CHECK(equal(traced(q), third));
  Tensor sum = zeros({1, 4, 3});
  for (int i = 0; i < 2000; ++i) sum += f(q);
  CHECK(allclose(sum / 2000, attention(q, k, v), {.atol = 0.15}));
}

TEST_CASE("attention does not depend on the order of keys, and values of 1 give 1") {
  seed(8);
  const Tensor q = normal({2, 70, 16}), k = normal({2, 150, 16}), v = normal({2, 150, 16});
  const Tensor order = random::permutation(150);
  CHECK(allclose(attention(q, take(k, order, 1), take(v, order, 1)), attention(q, k, v),
                 {.atol = 1e-5}));
  CHECK(allclose(attention(q, k, ones({2, 150, 3}), {.causal = true}), 1, {.atol = 1e-5}));
  CHECK(allclose(attention(q * 1000, k, ones({2, 150, 3})), 1, {.atol = 1e-5}));
}

TEST_CASE("queries without keys give zeros, with gradients of zero") {
  seed(9);
  const Tensor q = normal({1, 2, 100, 8}), k = normal({1, 1, 70, 8}), v = normal({1, 1, 70, 8});
  const Tensor rows = arange(Int{0}, 100).reshape({100, 1}) % 2 == 0;
  for (const AttentionOptions& options :
       {AttentionOptions{.mask = rows}, {.mask = where(rows, 0.0f, -infinity)}}) {
    GradientTape tape;
    tape.watch(q);
    tape.watch(k);
    const Tensor y = attention(q, k, v, options);
    const auto found = tape.gradient(y, {q, k}, {.upstream = normal(y.shape())});
    const Tensor none = y(all, all, range(1, {}, 2));
    CHECK(equal(none, zeros({1, 2, 50, 8})));
    CHECK(equal(found[0](all, all, range(1, {}, 2)), zeros({1, 2, 50, 8})));
    CHECK(all(isfinite(found[1])));
  }
  // With more queries than keys, the first queries see none.
  const Tensor y = attention(q, k, v, {.causal = true});
  CHECK(equal(y(all, all, range(0, 30)), zeros({1, 2, 30, 8})));
  CHECK(!equal(y(all, all, range(30, 31)), zeros({1, 2, 1, 8})));
  CHECK(equal(attention(q, k, v, {.key_lengths = zeros({1}, int64)}), zeros_like(y)));
  CHECK(equal(attention(q, zeros({1, 1, 0, 8}), zeros({1, 1, 0, 3})), zeros({1, 2, 100, 3})));
  CHECK(attention(zeros({1, 2, 0, 8}), k, v).shape() == Shape({1, 2, 0, 8}));
  CHECK(allclose(attention(zeros({1, 2, 4, 0}), zeros({1, 1, 70, 0}), v),
                 broadcast_to(mean(v, 2, keepdims), {1, 2, 4, 8}), {.atol = 1e-6}));
}

TEST_CASE("attention of 16 bits is that of float32, rounded once") {
  seed(11);
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const Int queries : {1, 5, 130})
      for (const bool causal : {false, true}) {
        INFO(to_string(dtype) << ", queries " << queries << ", causal " << causal);
        const Tensor lengths = tensor({150, 70});
        const std::vector<Tensor> narrow = {
            normal({2, 4, queries, 24}).to(dtype), normal({2, 2, 150, 24}).to(dtype),
            normal({2, 2, 150, 17}).to(dtype), normal({2, 4, queries, 17}).to(dtype)};
        const auto compute = [&](DType to) {
          std::vector<Tensor> in;
          for (const Tensor& x : narrow) in.push_back(x.to(to));
          GradientTape tape;
          for (int i : {0, 1, 2}) tape.watch(in[i]);
          const Tensor y =
              attention(in[0], in[1], in[2], {.key_lengths = lengths, .causal = causal});
          auto found = tape.gradient(y, {in[0], in[1], in[2]}, {.upstream = in[3]});
          found.push_back(y);
          return found;
        };
        const auto found = compute(dtype), wide = compute(DType::float32);
        CHECK(equal(found[3], wide[3].to(dtype)));
        for (int i : {0, 1, 2}) {  // the gradient reads the rounded result
          REQUIRE(found[i].dtype() == dtype);
          CHECK(allclose(found[i].to(DType::float32), wide[i], {.rtol = 2e-2, .atol = 2e-2}));
        }
      }
}

TEST_CASE("keys behind a length are not read, and NaN elsewhere spreads") {
  seed(10);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor q = normal({2, 1, 20, 8}), lengths = tensor({70, 3});
  const Tensor behind = (arange(Int{0}, 90) >= lengths.reshape({2, 1})).reshape({2, 1, 90, 1});
  const Tensor k = normal({2, 1, 90, 8}), v = normal({2, 1, 90, 8});
  const Tensor bad_k = where(behind, nan, k), bad_v = where(behind, nan, v);
  const auto gradients = [&](const Tensor& key, const Tensor& value) {
    GradientTape tape;
    for (const Tensor& x : {q, key, value}) tape.watch(x);
    const Tensor y = attention(q, key, value, {.key_lengths = lengths});
    auto found = tape.gradient(sum(square(y)), {q, key, value});
    found.push_back(y);
    return found;
  };
  const auto good = gradients(k, v), got = gradients(bad_k, bad_v);
  for (std::size_t i = 0; i < good.size(); ++i) CHECK(equal(got[i], good[i]));
  CHECK(all(isnan(attention(q, k * nan, v))));
  CHECK(all(isnan(attention(q * nan, k, v))));
  const Tensor one = where(arange(Int{0}, 90).reshape({90, 1}) == 80, nan, v);
  CHECK(all(isnan(attention(q, k, one))));
}

TEST_CASE("attention promotes dtypes and takes views") {
  seed(11);
  const Tensor q = normal({3, 5, 2, 8}), k = normal({3, 5, 6, 8}), v = normal({3, 5, 6, 4});
  const Tensor y = attention(q, k, v);
  CHECK(attention(q, k.to(DType::float64), v).dtype() == DType::float64);
  CHECK(attention(q, k, v, {.mask = zeros({6}, DType::float64)}).dtype() == DType::float32);
  const auto moved = [](const Tensor& x) {
    return transpose(transpose(x, {0, 2, 1, 3}) + 0, {0, 2, 1, 3});
  };
  CHECK(equal(attention(moved(q), moved(k), moved(v)), y));
  CHECK(equal(attention(q[0], k[0], v[0]), y[0]));
  const auto split = [](const Tensor& x) { return expand_dims(x, 0); };
  CHECK(equal(attention(split(q), split(k), split(v))[0], y));
}

TEST_CASE("attention gives the same bits for any number of threads", "[cpu]") {
  const int before = num_threads();
  for (const Problem& p :
       {Problem{1, 1, 1, 1100, 900, 40, 24, true, false, 0, Problem::Mask::scores, 12},
        Problem{2, 1, 2, 400, 500, 32, 32, false, true, 0, Problem::Mask::scores, 8},
        Problem{3, 4, 1, 300, 130, 16, 16, false, false, 90, Problem::Mask::truth, 15},
        Problem{1, 12, 2, 1, 700, 64, 64, false, true, 0, Problem::Mask::none, 0}})
    for (const double dropout : {0.0, 0.25})
      for (const DType dtype : {DType::float32, DType::float64}) {
        seed(12);
        Tensors t = random_tensors(p, dtype);
        t.options.dropout = dropout;
        std::vector<Tensor> expected;
        for (const int threads : {1, 2, 3}) {
          set_num_threads(threads);
          seed(13);
          const std::vector<Tensor> got = results_of(t);
          if (threads == 1) expected = got;
          for (std::size_t i = 0; i < got.size(); ++i) {
            INFO(p.text() << threads << " threads, result " << i);
            CHECK(equal(got[i], expected[i]));
          }
        }
      }
  set_num_threads(before);
}

TEST_CASE("attention and its gradient take memory for queries plus keys", "[slow][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const auto step = [] {
    const Tensor x = ones({1, 8'192, 16});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = attention(x, x, x, {.causal = true});
    tape.gradient(y, x, {.upstream = y});
  };
  const std::int64_t grown = peak_of(step);
  CHECK(grown > 0);
  CHECK(grown < 24 * mebibyte);  // all scores would take 256
}

TEST_CASE("wrong arguments of attention name the argument") {
  const Tensor q = zeros({2, 4, 3, 8}), k = zeros({2, 2, 5, 8}), v = zeros({2, 2, 5, 6});
  check_refused<ShapeError>([&] { attention(zeros({3, 8}), k, v); }, "attention: q");
  check_refused<ShapeError>(
      [&] {
        attention(q, zeros({2, 2, 5, 7}), v);
      },
      "attention: k: expected [2, kv_heads, keys, 8], as q is (2, 4, 3, 8)");
  check_refused<ShapeError>([&] { attention(q, zeros({1, 2, 5, 8}), v); }, "attention: k");
  check_refused<ShapeError>(
      [&] {
        attention(q, zeros({2, 3, 5, 8}), zeros({2, 3, 5, 8}));
      },
      "a number of heads that divides 4");
  check_refused<ShapeError>([&] { attention(q, k, zeros({2, 2, 4, 8})); }, "attention: v");
  check_refused<ShapeError>(
      [&] {
        attention(q, k, v, {.mask = ones({4, 5}) > 0});
      },
      "attention: mask");
  check_refused<DTypeError>(
      [&] {
        attention(q, k, v, {.mask = ones({3, 5}, int64)});
      },
      "attention: mask");
  check_refused<ShapeError>([&] { attention(q, k, v, {.key_lengths = ones({3}, int64)}); },
                            "attention: key_lengths");
  check_refused<IndexError>(
      [&] {
        attention(q, k, v, {.key_lengths = tensor({1, 6})});
      },
      "attention: key_lengths");
  check_refused<DTypeError>([&] { attention(q, k, v, {.key_lengths = ones({2})}); },
                            "attention: key_lengths");
  check_refused<Error>([&] { attention(q, k, v, {.window = -1}); }, "attention: window");
  check_refused<Error>([&] { attention(q, k, v, {.dropout = 1}); }, "attention: dropout");
  check_refused<Error>([&] { attention(q, k, v, {.scale = infinity}); }, "attention: scale");
  check_refused<DTypeError>(
      [&] {
        attention(zeros({1, 2, 3}, int64), zeros({1, 2, 3}, int64), zeros({1, 2, 3}, int64));
      },
      "attention: q");
}
}  // namespace reel::tests
