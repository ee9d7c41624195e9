// SPDX-License-Identifier: BSD-3-Clause
// Random groups of pointwise ops and reductions of rows have the same bits, eager and replayed.
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// A function of pointwise ops and reductions of the last axis. It is made from its number again in
/// each run. Its values have one shape, or broadcast to it. Some programs also write a Variable.
class Group {
 public:
  explicit Group(unsigned number) : number_(number) {
    std::mt19937 draw(number);
    constexpr std::int64_t rows[] = {1, 2, 3, 5, 7, 64, 65, 1000},
                           columns[] = {1, 8, 17, 31, 64, 100, 129, 700, 1024, 2050, 8200, 40000};
    rows_ = rows[draw() % std::size(rows)];
    columns_ = columns[draw() % std::size(columns)];
    if (rows_ * columns_ > 200'000) rows_ = 1 + rows_ % 4;
    length_ = 2 + static_cast<int>(draw() % 30);
    variable_.emplace_back("v", random::normal({rows_, columns_}));
  }
  const Variable& variable() const { return variable_[0]; }
  bool differentiates() const { return number_ % 5 == 4; }
  std::vector<Tensor> arguments() const {
    Tensor special = random::normal({rows_, columns_});
    if (number_ % 3 == 0) special = special / where(special > 1.5f, 0.0f, 1.0f);  // infinities
    return {random::normal({rows_, columns_}), special,
            random::normal({columns_}),        random::normal({rows_, 1}),
            random::normal({columns_, rows_}), random::normal({rows_, 2 * columns_ + 1})};
  }

  std::vector<Tensor> operator()(const std::vector<Tensor>& in) const {
    std::mt19937 draw(number_ + 1);
    std::vector<Tensor> pool{in[0],
                             in[1],
                             in[2],
                             in[3],
                             transpose(in[4]),
                             in[5](all, range(1, columns_ + 1)),
                             variable().value()};
    if (differentiates()) {
      GradientTape tape;
      tape.watch(in[0]);
      pool[0] = in[0] * 1.0f;
      for (int i = 0; i < length_; ++i) pool.push_back(numeric(draw, pool));
      return tape.gradient(sum(pool.back()), {in[0], variable()}, Unconnected::zero);
    }
    for (int i = 0; i < length_; ++i) {
      pool.push_back(draw() % 4 ? numeric(draw, pool) : other(draw, pool));
      if (draw() % 16 == 0 && pool.back().dtype() == DType::float32)
        Variable(variable()).assign(broadcast_to(pool.back(), {rows_, columns_}));
    }
    return {pool.end() - 3, pool.end()};
  }

 private:
  static const Tensor& any(std::mt19937& draw, const std::vector<Tensor>& pool) {
    return pool[draw() % 3 ? pool.size() - 1 - draw() % 3 : draw() % pool.size()];
  }
  static Tensor tame(const Tensor& x) { return minimum(maximum(x, -4.0f), 4.0f); }

  static Tensor numeric(std::mt19937& draw, const std::vector<Tensor>& pool) {
    const Tensor a = any(draw, pool), b = any(draw, pool);
    const float number = static_cast<float>(draw() % 100) / 16 - 3;
    switch (draw() % 28) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return tame(a * b);
      case 3:
        return a / (abs(b) + 1.0f);
      case 4:
        return a + number;
      case 5:
        return number - a;
      case 6:
        return tame(a * number);
      case 7:
        return tame(number / a);
      case 8:
        return maximum(a, b);
      case 9:
        return minimum(a, number);
      case 10:
        return sqrt(abs(a));
      case 11:
        return tame(square(a));
      case 12:
        return tanh(a);
      case 13:
        return sigmoid(a) * b;
      case 14:
        return relu(a);
      case 15:
        return leaky_relu(a);
      case 16:
        return exp2(minimum(a, 2.0f));
      case 17:
        return where(a > b, a, b * 0.5f);
      case 18:
        return -a;
      case 19:
        return clip(a, -2.0f, number + 3.0f);
      case 20:
        return log1p(abs(a));
      case 21:
        return mean(tame(a), -1, keepdims);
      case 22:
        return max(a, -1, keepdims);
      case 23:
        return tame(sum(tame(a), -1, keepdims) / 64.0f);
      case 24:
        return reshape(reshape(a, {-1}) / 3.0f, a.shape());
      case 25:
        return tame(a * a);
      case 26:
        return maximum(a, a) * reshape(a, a.shape());
      default:
        return a;
    }
  }
  static Tensor other(std::mt19937& draw, const std::vector<Tensor>& pool) {
    const Tensor a = any(draw, pool), b = any(draw, pool);
    switch (draw() % 8) {
      case 0:
        return cast(a > b, DType::float32);
      case 1:
        return cast(tame(a), DType::int32) + 3;
      case 2:
        return cast(a, DType::float64) * 1.5;
      case 3:
        return where(isfinite(a) & (b > 0.0f), a, b);
      case 4:
        return cast(cast(a, DType::bfloat16) * 0.5f, DType::float32);
      case 5:
        return floor(a) + sign(b);
      case 6:
        return cast(argmax(a, -1, keepdims), DType::float32) * 0.01f;
      default:
        return cast(a, DType::float16) + cast(b, DType::float16);
    }
  }

  unsigned number_;
  std::int64_t rows_, columns_;
  int length_;
  std::vector<Variable> variable_;
};

bool same_bytes(const Tensor& x, const Tensor& y) {
  const Tensor a = reshape(x, {-1}), b = reshape(y, {-1});  // in order
  const Body &first = *Access::body(a), &second = *Access::body(b);
  return std::memcmp(first.data, second.data, static_cast<std::size_t>(first.bytes())) == 0;
}
/// The sum or product of two NaNs has the sign of either.
bool same_bits(const Tensor& x, const Tensor& y) {
  if (x.dtype() != y.dtype() || x.shape() != y.shape()) return false;
  if (x.dtype() == DType::boolean || x.dtype() == DType::int32) return same_bytes(x, y);
  const Tensor none = zeros_like(x), a = isnan(x), b = isnan(y);
  return same_bytes(a, b) && same_bytes(where(a, none, x), where(b, none, y));
}

void check_group(unsigned number) {
  seed(number);
  const Group eager(number);
  seed(number);
  const Group other(number);
  const auto traced = trace([&](std::vector<Tensor> in) { return other(in); });
  for (unsigned call = 0; call < 4; ++call) {
    INFO("group " << number << ", call " << call);
    seed(number + call / 2);
    const std::vector<Tensor> in = eager.arguments();
    const std::vector<Tensor> expected = eager(in), got = traced(in);
    const auto same = [&](const Tensor& a, const Tensor& b) {
      return same_bits(a, b) || (eager.differentiates() &&
                                 allclose(a, b, {.rtol = 1e-5, .atol = 1e-6, .equal_nan = true}));
    };
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
    CHECK(same(eager.variable().value(), other.variable().value()));
  }
}
}  // namespace

TEST_CASE("random groups of pointwise ops and reductions have the bits of eager calls", "[cpu]") {
  const unsigned groups = sanitized ? 50 : std::getenv("REEL_TEST_LONG") ? 10'000 : 400;
  for (unsigned number = 0; number < groups; ++number) check_group(number);
}
}  // namespace reel::tests
