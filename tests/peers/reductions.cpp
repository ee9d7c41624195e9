// SPDX-License-Identifier: BSD-3-Clause
// Reductions, scans, sorting and searching.
#include <algorithm>

#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
constexpr Draw positive{0.3, 1.5}, odd{.grid = 0.25, .offset = 0.125};

/// Rows with infinities, NaN, zeros of both signs and equal elements.
std::vector<Ours> special() {
  const double inf = INFINITY, nan = NAN;
  std::vector<Ours> found;
  for (const std::vector<double>& x : {std::vector<double>{1, nan, 2, inf, 1, 0, -inf, inf, 3},
                                       {0, -0.0, 0, -0.0, -0.0, -0.0, 2, 2, 1},
                                       {inf, inf, 1, -inf, -inf, -inf, -inf, 1, 2}})
    found.push_back({from_span(std::span<const double>(x), {3, 3})});
  return found;
}
/// A row, and another one with those.
void add_with_special(Rows& rows, Row row) {
  rows.push_back(row);
  row.name += ", special";
  row.cases = special();
  row.chained = false;
  rows.push_back(row);
}
/// A row without inputs where an element occurs twice, and another one with those alone.
void add_with_ties(Rows& rows, Row row) {
  const auto tied = [](const Ours& inputs) {
    std::vector<double> values = inputs[0].to_vector<double>();
    std::sort(values.begin(), values.end());
    return std::adjacent_find(values.begin(), values.end()) != values.end();
  };
  Row with_ties = row;
  std::erase_if(row.cases, tied);
  std::erase_if(with_ties.cases, [&](const Ours& inputs) { return !tied(inputs); });
  with_ties.name += ", ties";
  with_ties.chained = false;
  rows.push_back(row);
  rows.push_back(with_ties);
}
at::Tensor all_of(const at::Tensor& x) { return x.reshape({-1}); }

void add_sums(Rows& rows) {
  add_with_special(rows, shaped("sum", 0, REEL_BOTH(sum(x[0]))));
  add_with_special(rows, shaped("sum last", 1, REEL_BOTH(sum(x[0], -1))));
  rows.push_back(shaped("sum first", 1, REEL_PAIR(sum(x[0], 0, keepdims), sum(x[0], 0, true))));
  rows.push_back(
      shaped("sum 0 -1", 2, REEL_PAIR(sum(x[0], {0, -1}), sum(x[0], at::IntArrayRef({0, -1})))));
  add_with_special(rows, shaped("mean", 0, REEL_BOTH(mean(x[0]))));
  rows.push_back(shaped("mean last", 1, REEL_BOTH(mean(x[0], -1))));
  rows.push_back(shaped("mean first", 2, REEL_PAIR(mean(x[0], 0, keepdims), mean(x[0], 0, true))));
  add_with_special(rows, shaped("prod", 0, REEL_BOTH(prod(x[0]))));
  add_with_special(rows, shaped("prod last", 1, REEL_BOTH(prod(x[0], -1))));
  rows.push_back(filled("var", 1, REEL_PAIR(var(x[0]), var(x[0], false))));
  add_with_special(rows, filled("var last", 2,
                                REEL_PAIR(var(x[0], -1, keepdims, {.correction = 1}),
                                          var(x[0], -1, true, true))));
  rows.push_back(filled("stddev", 1, REEL_PAIR(stddev(x[0]), at::std(x[0], false))));
  rows.push_back(filled("stddev last", 2, REEL_PAIR(stddev(x[0], -1), at::std(x[0], -1, false))));
  rows.push_back(filled("norm", 0, REEL_BOTH(norm(x[0])), odd));
  add_with_special(rows, filled("norm last", 1, REEL_PAIR(norm(x[0], -1), norm(x[0], 2, -1)), odd));
  rows.push_back(
      filled("norm 1", 1, REEL_PAIR(norm(x[0], 0, Keepdims::no, {.p = 1}), norm(x[0], 1, 0)), odd));
  rows.push_back(filled("norm 3", 1,
                        REEL_PAIR(norm(x[0], -1, Keepdims::no, {.p = 3}), norm(x[0], 3, -1)), odd));
  rows.push_back(filled("norm 0.5", 1,
                        REEL_PAIR(norm(x[0], -1, Keepdims::no, {.p = 0.5}), norm(x[0], 0.5, -1)),
                        odd));
  add_with_special(rows, filled("norm inf", 1,
                                REEL_PAIR(norm(x[0], -1, Keepdims::no, {.p = INFINITY}),
                                          norm(x[0], INFINITY, -1)),
                                odd));
  add_with_special(rows, shaped("logsumexp last", 1, REEL_BOTH(logsumexp(x[0], -1))));
  rows.push_back(filled("logsumexp", 1, REEL_PAIR(logsumexp(x[0]), logsumexp(all_of(x[0]), 0))));
}

void add_extremes(Rows& rows) {
  add_with_special(rows, filled("max", 0, REEL_PAIR(max(x[0]), amax(x[0]))));
  add_with_special(rows, filled("max last", 1, REEL_PAIR(max(x[0], -1), amax(x[0], -1))));
  add_with_special(rows, filled("min", 0, REEL_PAIR(min(x[0]), amin(x[0]))));
  add_with_special(rows,
                   filled("min first", 1, REEL_PAIR(min(x[0], 0, keepdims), amin(x[0], 0, true))));
  add_with_special(rows, constant(filled("argmax", 0, REEL_BOTH(argmax(x[0])))));
  add_with_special(rows, constant(filled("argmax last", 1, REEL_BOTH(argmax(x[0], -1)))));
  add_with_special(rows, constant(filled("argmin", 0, REEL_BOTH(argmin(x[0])))));
  add_with_special(rows, constant(filled("argmin first", 1, REEL_BOTH(argmin(x[0], 0)))));
  add_with_special(rows,
                   constant(shaped("any last", 1, REEL_PAIR(any(x[0], -1), any(x[0] != 0, -1)))));
  add_with_special(
      rows, constant(shaped("all last", 1, REEL_PAIR(all(x[0], -1), at::all(x[0] != 0, -1)))));
  add_with_special(rows, constant(shaped("count_nonzero", 0, REEL_BOTH(count_nonzero(x[0])))));
  add_with_special(rows, constant(shaped("count_nonzero last", 1,
                                         REEL_PAIR(count_nonzero(x[0], -1), (x[0] != 0).sum(-1)))));
  add_with_ties(rows, filled("median", 1, REEL_PAIR(median(x[0]), quantile(x[0], 0.5))));
  add_with_ties(rows,
                filled("median last", 1, REEL_PAIR(median(x[0], -1), quantile(x[0], 0.5, -1))));
  add_with_ties(rows, filled("quantile", 0, REEL_BOTH(quantile(x[0], 0.3))));
  add_with_ties(
      rows, filled("quantile last", 1,
                   REEL_PAIR(quantile(x[0], 0.8, -1, keepdims), quantile(x[0], 0.8, -1, true))));
}

void add_scans(Rows& rows) {
  add_with_special(rows, shaped("cumsum", 1, REEL_BOTH(cumsum(x[0], -1))));
  rows.push_back(
      shaped("cumsum reversed", 1,
             REEL_PAIR(cumsum(x[0], 0, {.reverse = true}), flip(cumsum(flip(x[0], 0), 0), 0))));
  add_with_special(rows, shaped("cumprod", 1, REEL_BOTH(cumprod(x[0], -1))));
  rows.push_back(shaped("cumprod first", 1, REEL_BOTH(cumprod(x[0], 0)), positive));
  add_with_special(rows,
                   shaped("cummax", 1, REEL_PAIR(cummax(x[0], -1), std::get<0>(cummax(x[0], -1)))));
  add_with_special(rows, shaped("logcumsumexp", 1, REEL_BOTH(logcumsumexp(x[0], -1))));
  add_with_special(rows, shaped("softmax", 1, REEL_BOTH(softmax(x[0], -1))));
  rows.push_back(shaped("softmax first", 1, REEL_BOTH(softmax(x[0], 0))));
  add_with_special(rows, shaped("log_softmax", 1, REEL_BOTH(log_softmax(x[0], -1))));
  rows.push_back(shaped("log_softmax first", 1, REEL_BOTH(log_softmax(x[0], 0))));
}

void add_orders(Rows& rows) {
  add_with_special(
      rows, shaped("sort", 1, REEL_PAIR(sort(x[0]), std::get<0>(sort(x[0], true, -1, false)))));
  add_with_special(rows, shaped("sort descending", 1,
                                REEL_PAIR(sort(x[0], 0, {.descending = true}),
                                          std::get<0>(sort(x[0], true, 0, true)))));
  add_with_special(
      rows,
      constant(shaped("argsort", 1, REEL_PAIR(argsort(x[0]), argsort(x[0], true, -1, false)))));
  add_with_ties(rows,
                filled("topk", 1, REEL_PAIR(topk(x[0], 1).values, std::get<0>(topk(x[0], 1)))));
  add_with_ties(
      rows, constant(filled("topk positions", 1,
                            REEL_PAIR(topk(x[0], 1, 0).positions, std::get<1>(topk(x[0], 1, 0))))));
  add_with_special(
      rows, constant(shaped("unique", 1, REEL_PAIR(unique(x[0]), std::get<0>(at::_unique(x[0]))))));
  add_with_special(rows, constant(shaped("nonzero", 1, REEL_BOTH(nonzero(x[0])))));
  rows.push_back(shaped("masked_select", 1, REEL_BOTH(masked_select(x[0], x[0] > 0.25))));
  rows.push_back(constant(
      shaped("searchsorted", 1,
             REEL_PAIR(searchsorted(linspace(-2, 2, 9, float64), x[0]),
                       searchsorted(at::linspace(-2, 2, 9, at::kDouble), x[0].to(at::kDouble))))));
  rows.push_back(
      constant(shaped("searchsorted right", 1,
                      REEL_PAIR(searchsorted(linspace(-2, 2, 9, float64), x[0], {.right = true}),
                                searchsorted(at::linspace(-2, 2, 9, at::kDouble),
                                             x[0].to(at::kDouble), false, true)),
                      {.grid = 0.5})));
  rows.push_back(constant(shaped(
      "histogram", 1, REEL_PAIR(histogram(x[0], 4, -1, 1), histc(x[0], 4, -1, 1).to(at::kLong)))));
}
}  // namespace

void add_reductions(Rows& rows) {
  add_sums(rows);
  add_extremes(rows);
  add_scans(rows);
  add_orders(rows);
}
}  // namespace reel::tests::peers
