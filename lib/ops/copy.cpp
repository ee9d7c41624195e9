// SPDX-License-Identifier: BSD-3-Clause
// Copies with another dtype.
#include <reel/ops/create.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/gate/convert.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
void cast_shape(Inference& call) {
  call.output(call.option<DTypeOptions>().dtype, call.input(0).shape);
}
void cast_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& in) { return cast(in[0], DType::float64); });
}
}  // namespace

constinit Op cast_op{.name = "cast",
                     .shape = cast_shape,
                     .options = &options_type<DTypeOptions>,
                     .check = any_options,
                     .fusion = Fusion::pointwise,
                     .moves = true,
                     .samples = cast_samples};

Tensor cast(Operand x, DType dtype) { return as_dtype(x, dtype); }

const Entry copy_ops[] = {&cast_op, nullptr};
}  // namespace reel
