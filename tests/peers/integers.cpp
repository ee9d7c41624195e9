// SPDX-License-Identifier: BSD-3-Clause
// Integers and bools.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
/// Pairs of each integer dtype; those of `y` are above 0 if wanted.
std::vector<Ours> pairs(bool positive) {
  std::vector<Ours> found;
  for (const DType dtype : {int32, int64, uint8}) {
    const Tensor x = drawn({3, 7}, {-9, 9}).to(dtype), y = drawn({3, 7}, {-4, 5}, 3).to(dtype);
    const Tensor divisor = positive ? maximum(y, full({}, 1, {dtype})) : y;
    found.push_back({x, divisor});
    found.push_back({transpose(x)(range({}, {}, 2)), divisor(0, range(0, 3))});
    found.push_back({x(range(0, 0)), divisor(range(0, 1))});
  }
  return found;
}
std::vector<Ours> firsts(const std::vector<Ours>& cases) {
  std::vector<Ours> found;
  for (const Ours& one : cases) found.push_back({one[0]});
  return found;
}
std::vector<Ours> bools() {
  const Tensor x = drawn({3, 4}) > 0, y = drawn({3, 4}, {}, 3) > 0;
  return {{x, y}, {transpose(x), transpose(y)}, {x(all, range(0, 3)), y(0, range(1, 4))}};
}
}  // namespace

void add_integers(Rows& rows) {
  const std::vector<Ours> every = pairs(false), nonzero = pairs(true);
#define REEL_INTEGERS(name, cases, ...) \
  rows.push_back(constant({"integers: " name, __VA_ARGS__, cases}))
  REEL_INTEGERS("add", every, REEL_BOTH(x[0] + x[1]));
  REEL_INTEGERS("subtract", every, REEL_BOTH(x[0] - x[1]));
  REEL_INTEGERS("multiply", every, REEL_BOTH(x[0] * x[1]));
  REEL_INTEGERS("divide", nonzero, REEL_BOTH(x[0] / x[1]));
  REEL_INTEGERS("remainder", nonzero, REEL_PAIR(x[0] % x[1], remainder(x[0], x[1])));
  REEL_INTEGERS("floor_divide", nonzero, REEL_BOTH(floor_divide(x[0], x[1])));
  REEL_INTEGERS("maximum", every, REEL_BOTH(maximum(x[0], x[1])));
  REEL_INTEGERS("minimum", every, REEL_BOTH(minimum(x[0], x[1])));
  REEL_INTEGERS("less", every, REEL_BOTH(x[0] < x[1]));
  REEL_INTEGERS("equal_to", every, REEL_BOTH(x[0] == x[1]));
  REEL_INTEGERS("bitwise_and", every, REEL_BOTH(x[0] & x[1]));
  REEL_INTEGERS("bitwise_or", every, REEL_BOTH(x[0] | x[1]));
  REEL_INTEGERS("bitwise_xor", every, REEL_BOTH(x[0] ^ x[1]));
  REEL_INTEGERS("bitwise_not", firsts(every), REEL_BOTH(~x[0]));
  REEL_INTEGERS("left_shift", firsts(every),
                REEL_PAIR(left_shift(x[0], 3), bitwise_left_shift(x[0], 3)));
  REEL_INTEGERS("right_shift", firsts(every),
                REEL_PAIR(right_shift(x[0], 1), bitwise_right_shift(x[0], 1)));
  REEL_INTEGERS("abs", firsts(every), REEL_BOTH(abs(x[0])));
  REEL_INTEGERS("sign", firsts(every), REEL_BOTH(sign(x[0])));
  REEL_INTEGERS("square", firsts(every), REEL_BOTH(square(x[0])));
  REEL_INTEGERS("floor", firsts(every), REEL_BOTH(floor(x[0])));
  REEL_INTEGERS("relu", firsts(every), REEL_BOTH(relu(x[0])));
  REEL_INTEGERS("sqrt", firsts(nonzero), REEL_BOTH(sqrt(x[0])));
  REEL_INTEGERS("exp", firsts(every), REEL_BOTH(exp(x[0])));
  REEL_INTEGERS("sum", firsts(every), REEL_BOTH(sum(x[0])));
  REEL_INTEGERS("prod", firsts(every), REEL_BOTH(prod(x[0])));
  REEL_INTEGERS("cumsum", firsts(every), REEL_BOTH(cumsum(x[0], 0)));
  REEL_INTEGERS("cumprod", firsts(every), REEL_BOTH(cumprod(x[0], 0)));
  REEL_INTEGERS("sort", firsts(every),
                REEL_PAIR(sort(x[0], 0), std::get<0>(sort(x[0], true, 0, false))));
  REEL_INTEGERS("where", every, REEL_BOTH(where(x[0] > x[1], x[0], x[1])));
  REEL_INTEGERS("isnan", firsts(every), REEL_BOTH(isnan(x[0])));
#undef REEL_INTEGERS
#define REEL_BOOLS(name, ...) rows.push_back(constant(called("bools: " name, bools(), __VA_ARGS__)))
  REEL_BOOLS("and", REEL_BOTH(x[0] & x[1]));
  REEL_BOOLS("or", REEL_BOTH(x[0] | x[1]));
  REEL_BOOLS("xor", REEL_BOTH(x[0] ^ x[1]));
  REEL_BOOLS("not", REEL_BOTH(~x[0]));
  REEL_BOOLS("add", REEL_BOTH(x[0] + x[1]));
  REEL_BOOLS("multiply", REEL_BOTH(x[0] * x[1]));
  REEL_BOOLS("sum", REEL_BOTH(sum(x[0], -1)));
  REEL_BOOLS("any", REEL_BOTH(any(x[0], -1)));
  REEL_BOOLS("all", REEL_PAIR(all(x[0], -1), at::all(x[0], -1)));
#undef REEL_BOOLS
  rows.push_back(
      constant({"order",
                REEL_PAIR(x[0] < x[1], x[0].to(at::kDouble) < x[1].to(at::kDouble)),
                {{tensor({5, -2, 7}).to(int64), tensor({5.5, -2.0, 6.5}).to(float64)}}}));
}
}  // namespace reel::tests::peers
