// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/parts.hpp"

#include <cmath>

#include <reel/ops.hpp>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/dist/send.hpp"

namespace reel::dist::detail {
namespace {
/// The sums of squares of the gradients of parts, and of the others, as float64 [1].
struct Squares {
  Tensor parts = zeros({1}, {.dtype = DType::float64}), shared = parts;
};
Squares squares_of(const std::vector<RowGradient>& gradients, const std::vector<Variable>& of,
                   std::int64_t ranks) {
  Squares all;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!gradients[i].values.defined()) continue;
    const Portion portion = portion_of(of[i]);
    Tensor own = sum(square(cast(gradients[i].values, DType::float64))).to(cpu());
    // Several ranks may have the part.
    if (portion.count > 1)
      own = own * (static_cast<double>(portion.count) / static_cast<double>(ranks));
    Tensor& sum = portion.count > 1 ? all.parts : all.shared;
    sum = sum + own;
  }
  return all;
}
}  // namespace

bool Parts::admit(std::vector<RowGradient>& gradients, bool finite, double norm,
                  Caller caller) const {
  const DeviceScope on_host(cpu());
  const Tensor infinite = full({1}, finite ? 0.0 : 1.0, {.dtype = DType::float64});
  const Squares own = norm > 0 ? squares_of(gradients, variables(), ranks_.size()) : Squares();
  const Tensor mine = concat({infinite, own.parts, own.shared});
  const Tensor found =
      send_raw(mine, {ranks_.size() * mine.size()},
               {Kind::all_gather, Wire::float64, Combine::sum, nullptr, nullptr, mine.size()},
               ranks_, {"DataParallel", "parts"}, caller)
          .reshape({ranks_.size(), mine.size()});
  if (static_cast<bool>(any(found(all, 0) > 0))) return false;
  if (norm <= 0) return true;
  const Tensor shared = found(all, 2), first = shared(0);
  constexpr double rounding = 1e-3;
  const Tensor differs = abs(shared - first) > rounding * first;
  if (static_cast<bool>(any(differs)))
    fail<DistError>(caller, "DataParallel", "gradients",
                    "one gradient on all ranks of a Variable that is no part",
                    "lengths " + to_text(std::sqrt(first.item<double>())) + " and " +
                        to_text(std::sqrt(shared(argmax(differs)).item<double>())),
                    "dist::part_of() makes Variables of which each rank has a part.");
  const Tensor length = sqrt(first + sum(found(all, 1)));
  const Tensor factor = where(length <= norm, 1.0, norm / length);
  for (RowGradient& x : gradients)
    if (x.values.defined())
      x.values = x.values * cast(factor, x.values.dtype()).to(x.values.device());
  return true;
}
}  // namespace reel::dist::detail
