// SPDX-License-Identifier: BSD-3-Clause
// Tensors as messages.
#pragma once
#include <reel/dist/world.hpp>
#include <reel/op.hpp>
#include <reel/row_gradient.hpp>

#include "lib/dist/state.hpp"

namespace reel::dist::detail {
/// What a sum of this dtype is sent as; bytes for a dtype without sums.
Wire wire_of(DType dtype);
/// Runs a collective over x and returns its result of this shape, on the device of x: by the
/// World's engine for this device, else on the host. Only kind, wire, way, count and root of the
/// message are used.
Tensor send_raw(const Tensor& x, const Shape& shape, Message message, const World& world,
                const CallName& name, Caller caller);
/// Registers the ops by which a trace calls collectives and steps of DataParallel.
void register_steps();
inline constexpr char alone_name[] = "dist_alone", put_name[] = "dist_put", end_name[] = "dist_end",
                      rows_name[] = "dist_rows";
Tensors run_alone(const OpCall& call);  // whether the rank has no others and nothing accumulated
Tensors run_put(const OpCall& call);    // puts a gradient of a loss
Tensors run_end(const OpCall& call);    // ends the loss: adds what was put, or waits for the means
Tensors run_rows(const OpCall& call);   // gives a mean of rows
/// broadcast() without a gradient.
Tensor broadcast_raw(const Tensor& x, const World& world, std::int64_t root, Caller caller);
/// The gradient of all of a Variable.
Tensor dense_of(const RowGradient& x, const Variable& variable);
/// The means of all ranks' gradients of these Variables: as rows, or dense where this is smaller. A
/// gradient that this rank does not have is undefined.
std::vector<RowGradient> mean_rows(const World& world, const std::vector<Variable>& variables,
                                   const std::vector<RowGradient>& mine, double all_weights,
                                   std::string_view function, Caller caller);
/// A trace that captures now gives up: a replay would not send.
void not_traced();
}  // namespace reel::dist::detail
