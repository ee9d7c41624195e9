// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"

namespace reel {
namespace {
// y = x[i]        dx[i] += dy
void take_rule(GradientCall& call) {
  call.give(0, core_ops.scatter, {call.dy(), call.input(1)},
            UnTakeOptions{call.input_shape(0), call.option<AxisOptions>().axis});
}
void gather_rule(GradientCall& call) {
  call.give(0, core_ops.scatter_elements, {call.dy(), call.input(1)},
            UnTakeOptions{call.input_shape(0), call.option<AxisOptions>().axis});
}
// y[i] += x        dx = dy[i]
void scatter_rule(GradientCall& call) {
  call.give(0, take(call.dy(), call.input(1), static_cast<int>(call.option<UnTakeOptions>().axis)));
}
void scatter_elements_rule(GradientCall& call) {
  call.give(0,
            gather(call.dy(), call.input(1), static_cast<int>(call.option<UnTakeOptions>().axis)));
}
}  // namespace

const NamedRule gather_rules[] = {
    {"take", take_rule},
    {"lookup", take_rule},
    {"gather", gather_rule},
    {"scatter", scatter_rule},  // the gradient of take, and of gather:
    {"scatter_elements", scatter_elements_rule},
    {nullptr, nullptr},
};
}  // namespace reel
