// SPDX-License-Identifier: BSD-3-Clause
// Ops between ranks. All ranks call them in the same order, with one dtype and shape.
#pragma once  // defined in lib/dist
#include <reel/dist/world.hpp>
#include <reel/tensor.hpp>

namespace reel::dist {
/// How all_reduce() and reduce_scatter() combine the tensors of the ranks.
enum class Reduce : std::uint8_t { sum, mean, max, min };
/// Options of all_reduce() and reduce_scatter().
struct ReduceOptions {
  Reduce op = Reduce::sum;
};
/// Options of broadcast().
struct BroadcastOptions {
  std::int64_t root = 0;
};

// Each has a gradient, which is a collective too: all ranks must compute it. The gradient is that
// of the sum of what the ranks compute gradients of. In a world of one rank they return x. Inside
// of trace() each replay calls them, and a check of it takes its results. They throw DistError (see
// World) and, if x is undefined, Error.

/// The sum, mean, largest or smallest of x of all ranks, element by element. The result has the
/// shape and dtype of x. Numbers of int32, int64 and the floating dtypes; halves are added in
/// float32 and rounded once. The sum of floats may differ in its last bits from that of another
/// number of ranks; all ranks have the same bits. The mean of integers throws DTypeError.
///
///     dist::World world;
///     dist::all_reduce(tensor({1.f, 2.f}), world)  // [1., 2.]
REEL_API Tensor all_reduce(Operand x, const World& world, ReduceOptions options = {});
/// x [n, ...] of all ranks, one after the other: [ranks * n, ...], in the order of the ranks.
/// Throws ShapeError for a tensor without axes. All dtypes. The result has the dtype of x.
REEL_API Tensor all_gather(Operand x, const World& world);
/// Combines x [ranks * n, ...] of all ranks, as all_reduce() does; rank r gets part r: [n, ...].
/// Throws ShapeError unless the first axis has a multiple of the ranks. Reduce::max and Reduce::min
/// have no gradient: TapeError. The result has the dtype of x.
REEL_API Tensor reduce_scatter(Operand x, const World& world, ReduceOptions options = {});
/// x of rank `root`, on all ranks. All dtypes. Throws Error unless root is a rank. The result has
/// the dtype of x.
REEL_API Tensor broadcast(Operand x, const World& world, BroadcastOptions options = {});
}  // namespace reel::dist
