// SPDX-License-Identifier: BSD-3-Clause
// Gradients of rows between ranks.
#include <algorithm>
#include <bit>

#include <reel/ops.hpp>

#include "lib/dist/buckets.hpp"
#include "lib/dist/send.hpp"

namespace reel::dist::detail {
Tensor dense_of(const RowGradient& x, const Variable& variable) {
  if (!x.rows.defined()) return x.values;
  // Rows of position -1 are zeros.
  return segment_sum(x.values, maximum(x.rows, 0), variable.shape()[0]);
}

namespace {
/// With so many rows: those behind its own have position -1. None is undefined.
RowGradient padded(const RowGradient& x, std::int64_t count, Shape shape, DType dtype,
                   Device device) {
  const DeviceScope there(device);
  const std::int64_t own = x.rows.defined() ? x.rows.size() : 0;
  if (own == count && own > 0) return x;
  shape.data()[0] = count - own;
  const Tensor rows = full({count - own}, std::int64_t{-1}), none = zeros(shape, {.dtype = dtype});
  if (own == 0) return {none, rows};
  return {concat({x.values, none}), concat({x.rows, rows})};
}
}  // namespace

std::vector<RowGradient> mean_rows(const World& world, const std::vector<Variable>& variables,
                                   const std::vector<RowGradient>& mine, double all_weights,
                                   std::string_view function, Caller caller) {
  if (variables.empty()) return {};
  const DeviceScope on_host(cpu());
  Lane& main = *world.state().main;
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> counts, gathered(ranks * variables.size());
  for (const RowGradient& x : mine)
    counts.push_back(!x.values.defined() ? 0 : x.rows.defined() ? x.rows.size() : -1);
  main.run({Kind::all_gather, Wire::int64, Combine::sum, counts.data(), gathered.data(),
            static_cast<std::int64_t>(counts.size())},
           {function, "row_counts"}, caller);
  std::vector<RowGradient> means;
  for (std::size_t k = 0; k < variables.size(); ++k) {
    const Variable& x = variables[k];
    std::int64_t most = 0;
    bool dense = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = gathered[rank * variables.size() + k];
      dense |= count < 0;
      most = std::max(most, count);
    }
    const CallName call{function, "rows", x.name()};
    const DType dtype = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
    const auto mean = [&](const Tensor& sum) {
      return cast(sum / all_weights, x.dtype()).to(x.device());
    };
    if (world.size() == 1) {
      const RowGradient own =
          counts[k] == 0 ? padded({}, 0, x.shape(), dtype, x.device()) : mine[k];
      means.push_back({mean(own.values), own.rows});
      continue;
    }
    Shape shape = x.shape();
    const auto all_reduced = [&](const Tensor& part) {
      return send_raw(
          part.to(x.device()), part.shape(),
          {Kind::all_reduce, wire_of(dtype), Combine::sum, nullptr, nullptr, part.size()}, world,
          call, caller);
    };
    if (dense || most * world.size() >= shape[0]) {
      const RowGradient& own = mine[k];
      const Tensor sum = all_reduced(own.values.defined() ? dense_of(own, x).to(dtype)
                                                          : zeros(shape, {.dtype = dtype}));
      if (dense) {
        means.push_back({mean(sum)});
        continue;
      }
      // As rows too, because an optimizer treats the two differently.
      Tensor is_used = zeros({shape[0]}, {.dtype = dtype});
      if (own.rows.defined() && own.rows.size() > 0) {
        const Tensor known = cast(own.rows >= 0, dtype);
        is_used = segment_sum(known, maximum(own.rows, 0), shape[0]);
      }
      const Tensor has_values = all_reduced(is_used).to(cpu()) > 0;
      const Tensor rows = where(has_values, arange(0, shape[0]), std::int64_t{-1});
      means.push_back({mean(sum), rows.to(x.device())});
      continue;
    }
    // All ranks send as many rows as the one that has most.
    RowGradient sent;
    if (counts[k] > 0) sent = {mine[k].values.to(cpu()).to(dtype), mine[k].rows.to(cpu())};
    sent = padded(sent, most, shape, dtype, cpu());
    const auto gather = [&](const Tensor& part) {
      Shape all_parts = part.shape();
      all_parts.data()[0] *= world.size();
      return send_raw(part.to(x.device()), all_parts,
                      {Kind::all_gather, Wire::bytes, Combine::sum, nullptr, nullptr,
                       part.size() * static_cast<std::int64_t>(size_of(part.dtype()))},
                      world, call, caller);
    };
    const RowGradient sum = reel::detail::sum_rows(gather(sent.rows), gather(sent.values));
    // Few numbers of rows, whatever ranks read: a trace has a path for each.
    const auto many = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
    const RowGradient few =
        padded(sum, std::min(many * world.size(), shape[0]), shape, dtype, x.device());
    means.push_back({mean(few.values), few.rows.to(x.device())});
  }
  return means;
}
}  // namespace reel::dist::detail
