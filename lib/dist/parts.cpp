// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/parts.hpp"

#include <cmath>

#include <reel/ops.hpp>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/dist/send.hpp"

namespace reel::dist::detail {
namespace {
/// What a rank says of its gradients: sums of squares of those of parts, and of the others.
struct Squares {
  double infinite = 0, parts = 0, shared = 0;
};
double number_in(const Tensor& sum) { return sum.defined() ? sum.item<double>() : 0; }
Squares squares_of(const std::vector<RowGradient>& gradients, const std::vector<Variable>& of,
                   std::int64_t ranks) {
  Tensor parts, shared;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!gradients[i].values.defined()) continue;
    const Portion portion = portion_of(of[i]);
    Tensor& sum = portion.count > 1 ? parts : shared;
    Tensor own = reel::sum(square(cast(gradients[i].values, DType::float64)));
    // Several ranks may have the part.
    if (portion.count > 1)
      own = own * (static_cast<double>(portion.count) / static_cast<double>(ranks));
    sum = sum.defined() ? sum + own : own;
  }
  return {0, number_in(parts), number_in(shared)};
}
}  // namespace

bool Parts::admit(std::vector<RowGradient>& gradients, bool finite, double norm,
                  Caller caller) const {
  not_traced();
  Squares own;
  if (norm > 0) own = squares_of(gradients, variables(), ranks_.size());
  own.infinite = !finite;
  std::vector<Squares> all(static_cast<std::size_t>(ranks_.size()));
  ranks_.state().main->run({Kind::all_gather, Wire::float64, Combine::sum, &own, all.data(), 3},
                           {"DataParallel", "parts"}, caller);
  double squares = all[0].shared;
  for (const Squares& each : all) {
    finite = finite && each.infinite == 0;
    squares += each.parts;
  }
  if (!finite || norm <= 0) return finite;
  constexpr double rounding = 1e-3;
  for (const Squares& each : all)
    if (std::abs(each.shared - all[0].shared) > rounding * all[0].shared)
      fail<DistError>(caller, "DataParallel", "gradients",
                      "one gradient on all ranks of a Variable that is no part",
                      "lengths " + to_text(std::sqrt(all[0].shared)) + " and " +
                          to_text(std::sqrt(each.shared)),
                      "dist::part_of() makes Variables of which each rank has a part.");
  const double length = std::sqrt(squares);
  if (length <= norm) return true;
  for (RowGradient& x : gradients)
    if (x.values.defined()) x.values = x.values * (norm / length);
  return true;
}
}  // namespace reel::dist::detail
