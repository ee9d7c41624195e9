// SPDX-License-Identifier: BSD-3-Clause
// Pointwise functions.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
// Between these there are no kinks: differences and multiples are never 0 or 1.
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125};
constexpr Draw positive{0.2, 2}, inside{-0.9, 0.9}, above_one{1.1, 3};

/// x, y and z of one shape, of shapes that broadcast, and empty.
std::vector<Ours> triples(Draw x, Draw y, Draw z) {
  using enum Layout;
  return {{drawn({}, x), drawn({}, y, 3), drawn({}, z, 5)},
          {drawn({19}, x), drawn({19}, y, 3), drawn({19}, z, 5)},
          {drawn({2, 3}, x), drawn({3}, y, 3), drawn({2, 1}, z, 5)},
          {drawn({3, 4}, transposed, x), drawn({3, 4}, stepped, y, 3), drawn({4}, reversed, z, 5)},
          {drawn({2, 3, 4}, repeated, x), drawn({3, 1}, y, 3), drawn({}, z, 5)},
          {drawn({0, 3}, x), drawn({3}, y, 3), drawn({1, 1}, z, 5)}};
}

void add_unary(Rows& rows) {
  rows.push_back(unary("abs", REEL_BOTH(abs(x[0])), odd));
#define REEL_SAME(name, draw) rows.push_back(unary(#name, REEL_BOTH(name(x[0])), draw))
  REEL_SAME(exp, {});
  REEL_SAME(log, positive);
  REEL_SAME(square, {});
  REEL_SAME(sqrt, positive);
  REEL_SAME(rsqrt, positive);
  REEL_SAME(reciprocal, positive);
  REEL_SAME(exp2, {});
  REEL_SAME(expm1, {});
  REEL_SAME(log1p, positive);
  REEL_SAME(log2, positive);
  REEL_SAME(erf, {});
  REEL_SAME(erfc, {});
  REEL_SAME(floor, odd);
  REEL_SAME(ceil, odd);
  REEL_SAME(round, odd);
  REEL_SAME(trunc, odd);
  REEL_SAME(sign, odd);
  REEL_SAME(negative, {});
  REEL_SAME(relu, odd);
  REEL_SAME(sigmoid, {});
  REEL_SAME(tanh, {});
  REEL_SAME(elu, odd);
  REEL_SAME(gelu, {});
  REEL_SAME(silu, {});
  REEL_SAME(softplus, {});
  REEL_SAME(lgamma, positive);
  REEL_SAME(digamma, positive);
  REEL_SAME(sin, {});
  REEL_SAME(cos, {});
  REEL_SAME(tan, inside);
  REEL_SAME(asin, inside);
  REEL_SAME(acos, inside);
  REEL_SAME(atan, {});
  REEL_SAME(sinh, {});
  REEL_SAME(cosh, {});
  REEL_SAME(asinh, {});
  REEL_SAME(acosh, above_one);
  REEL_SAME(atanh, inside);
#undef REEL_SAME
  rows.push_back(unary("gelu_tanh", REEL_PAIR(gelu_tanh(x[0]), gelu(x[0], "tanh"))));
  rows.push_back(unary("polygamma", REEL_BOTH(polygamma(1, x[0])), positive));
  rows.push_back(unary("polygamma 2", REEL_BOTH(polygamma(2, x[0])), positive));
  rows.push_back(unary("leaky_relu", REEL_BOTH(leaky_relu(x[0], 0.25)), odd));
  rows.push_back(unary("elu alpha", REEL_BOTH(elu(x[0], 0.5)), odd));
  rows.push_back(unary("clip", REEL_PAIR(clip(x[0], -1, 0.5), clamp(x[0], -1, 0.5)), odd));
  rows.push_back(unary("power 2", REEL_PAIR(power(x[0], 2), pow(x[0], 2)), odd));
  rows.push_back(unary("power 3", REEL_PAIR(power(x[0], 3), pow(x[0], 3)), odd));
  rows.push_back(unary("power 0.5", REEL_PAIR(power(x[0], 0.5), pow(x[0], 0.5)), positive));
  rows.push_back(unary("power -1", REEL_PAIR(power(x[0], -1), pow(x[0], -1)), positive));
  rows.push_back(unary("number - x", REEL_BOTH(2.5 - x[0])));
  rows.push_back(unary("number / x", REEL_BOTH(2.5 / x[0]), positive));
  rows.push_back(unary("x * number", REEL_BOTH(x[0] * 2.5)));
  rows.push_back(
      unary("stop_gradient", REEL_PAIR(stop_gradient(x[0]) * x[0], x[0].detach() * x[0])));
  for (Row made : {unary("isfinite", REEL_BOTH(isfinite(x[0]))),
                   unary("isinf", REEL_BOTH(isinf(x[0]))), unary("isnan", REEL_BOTH(isnan(x[0]))),
                   unary("logical_not", REEL_BOTH(logical_not(x[0])), even)})
    rows.push_back(constant(made));
}

void add_binary(Rows& rows) {
  rows.push_back(binary("add", REEL_BOTH(x[0] + x[1])));
  rows.push_back(binary("subtract", REEL_BOTH(x[0] - x[1])));
  rows.push_back(binary("multiply", REEL_BOTH(x[0] * x[1])));
  rows.push_back(binary("divide", REEL_BOTH(x[0] / x[1]), {}, positive));
  rows.push_back(binary("remainder", REEL_PAIR(x[0] % x[1], remainder(x[0], x[1])), odd, {0.3, 2}));
  rows.push_back(
      constant(binary("floor_divide", REEL_BOTH(floor_divide(x[0], x[1])), odd, {0.3, 2})));
  rows.push_back(binary("maximum", REEL_BOTH(maximum(x[0], x[1])), even, odd));
  rows.push_back(binary("minimum", REEL_BOTH(minimum(x[0], x[1])), even, odd));
  rows.push_back(binary("power", REEL_PAIR(power(x[0], x[1]), pow(x[0], x[1])), positive));
  rows.push_back(binary("logaddexp", REEL_BOTH(logaddexp(x[0], x[1]))));
  rows.push_back(binary("hypot", REEL_BOTH(hypot(x[0], x[1])), positive));
  rows.push_back(binary("atan2", REEL_BOTH(atan2(x[0], x[1])), positive));
  rows.push_back(binary("leaky_relu slope",
                        REEL_PAIR(leaky_relu(x[0], x[1]), where(x[0] > 0, x[0], x[0] * x[1])),
                        odd));
#define REEL_COMPARISON(ours, theirs) \
  rows.push_back(                     \
      constant(binary(#ours, REEL_PAIR(ours(x[0], x[1]), theirs(x[0], x[1])), even, even)))
  REEL_COMPARISON(less, lt);
  REEL_COMPARISON(less_equal, le);
  REEL_COMPARISON(greater, gt);
  REEL_COMPARISON(greater_equal, ge);
  REEL_COMPARISON(equal_to, eq);
  REEL_COMPARISON(not_equal, ne);
  REEL_COMPARISON(logical_and, logical_and);
  REEL_COMPARISON(logical_or, logical_or);
  REEL_COMPARISON(logical_xor, logical_xor);
#undef REEL_COMPARISON
}
}  // namespace

void add_pointwise(Rows& rows) {
  add_unary(rows);
  add_binary(rows);
  rows.push_back(called("lerp", triples({}, {}, {0.1, 0.9}), REEL_BOTH(lerp(x[0], x[1], x[2]))));
  rows.push_back(called("clip by tensors", triples(even, {-1, -0.3}, {0.3, 1}),
                        REEL_PAIR(clip(x[0], x[1], x[2]), clamp(x[0], x[1], x[2]))));
  rows.push_back(called("where", triples(odd, {}, {}), REEL_BOTH(where(x[0] > 0, x[1], x[2]))));
}
}  // namespace reel::tests::peers
