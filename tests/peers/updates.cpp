// SPDX-License-Identifier: BSD-3-Clause
// Ops that write Variables: the inputs are values, state and gradients before, the results those
// after.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
Ours values(const std::vector<Variable>& variables) { return {variables.begin(), variables.end()}; }

/// x, a state above 0, another, and a gradient.
std::vector<Ours> states() {
  std::vector<Ours> found;
  for (const Shape& shape : {Shape{5}, Shape{3, 40}, Shape{}, Shape{0}})
    found.push_back({drawn(shape), drawn(shape, {}, 3), drawn(shape, {0.1, 1}, 5),
                     drawn(shape, {}, 7), drawn(shape, {0.1, 1}, 9)});
  return found;
}
template <class F>
Ours ours(const Ours& x, F f) {
  std::vector<Variable> v;
  for (std::size_t i = 0; i < x.size(); ++i) v.emplace_back("v" + std::to_string(i), x[i]);
  f(v);
  return values(v);
}
template <class F>
Theirs theirs(const Theirs& x, F f) {
  Theirs v;
  for (const at::Tensor& one : x) v.push_back(one.clone());
  f(v);
  return v;
}
using One = std::span<const Variable>;
One one(const Variable& x) { return {&x, 1}; }
GradientList gradient_of(const std::vector<Tensor>& g) { return g; }
}  // namespace

void add_updates(Rows& rows) {
  using Variables = std::vector<Variable>;
#define REEL_UPDATE(name, our_statement, their_statement)                  \
  rows.push_back(constant(called(                                          \
      name, states(),                                                      \
      [](const Ours& x) {                                                  \
        return ours(x, [&](Variables& v) {                                 \
          const std::vector<Tensor> g{x[3]};                               \
          (void)g;                                                         \
          our_statement;                                                   \
        });                                                                \
      },                                                                   \
      [](const Theirs& x) {                                                \
        return theirs(x, [&](Theirs& v) {                                  \
          const at::Tensor step = at::full({}, 3.0, at::kFloat), g = v[3]; \
          (void)g;                                                         \
          their_statement;                                                 \
        });                                                                \
      })))
  REEL_UPDATE("assign", v[0].assign(g[0]), v[0].copy_(g));
  REEL_UPDATE("assign_add", v[0].assign_add(g[0]), v[0].add_(g));
  REEL_UPDATE("assign_sub", v[0].assign_sub(g[0]), v[0].sub_(g));
  REEL_UPDATE("assign_slice", v[0](ellipsis).assign(g[0] * 2), v[0].copy_(g * 2));
  REEL_UPDATE("sgd_update", sgd_update(v[0], g[0], 0.1, {.weight_decay = 0.3}),
              at::_fused_sgd_({v[0]}, {g}, {}, 0.3, 0, 0.1, 0, false, false, false));
  REEL_UPDATE("momentum_update",
              momentum_update(v[0], v[1], g[0], 0.1, {.momentum = 0.8, .weight_decay = 0.3}),
              at::_fused_sgd_({v[0]}, {g}, {v[1]}, 0.3, 0.8, 0.1, 0, false, false, false));
  REEL_UPDATE("momentum_update nesterov",
              momentum_update(v[0], v[1], g[0], 0.1, {.momentum = 0.8, .nesterov = true}),
              at::_fused_sgd_({v[0]}, {g}, {v[1]}, 0, 0.8, 0.1, 0, true, false, false));
  REEL_UPDATE("adam_update", adam_update(v[0], v[1], v[2], g[0], 0.1, 3, {.weight_decay = 0.3}),
              at::_fused_adamw_({v[0]}, {g}, {v[1]}, {v[2]}, {}, {step}, 0.1, 0.9, 0.999, 0.3, 1e-8,
                                false, false));
  REEL_UPDATE("amsgrad_update",
              amsgrad_update(one(v[0]), one(v[1]), one(v[2]), one(v[4]), gradient_of(g), 0.1, 3),
              at::_fused_adamw_({v[0]}, {g}, {v[1]}, {v[2]}, {v[4]}, {step}, 0.1, 0.9, 0.999, 0,
                                1e-8, true, false));
  REEL_UPDATE("adagrad_update",
              adagrad_update(one(v[0]), one(v[2]), gradient_of(g), 0.1, {.weight_decay = 0.3}),
              at::_fused_adagrad_({v[0]}, {g}, {v[2]}, {step}, 0.1, 0, 0.3, 1e-10, false));
  REEL_UPDATE("rmsprop_update",
              rmsprop_update(one(v[0]), one(v[2]), gradient_of(g), 0.1, {.weight_decay = 0.3}), {
                const at::Tensor d = g + v[0] * 0.3;
                v[2].mul_(0.99).addcmul_(d, d, 0.01);
                v[0].sub_(d / (v[2].sqrt() + 1e-8) * 0.1);
              });
  REEL_UPDATE(
      "rmsprop_update momentum",
      rmsprop_update(one(v[0]), one(v[2]), one(v[1]), gradient_of(g), 0.1, {.momentum = 0.8}), {
        v[2].mul_(0.99).addcmul_(g, g, 0.01);
        v[1].mul_(0.8).add_(g / (v[2].sqrt() + 1e-8));
        v[0].sub_(v[1] * 0.1);
      });
  REEL_UPDATE("average_update", average_update(one(v[0]), g, 0.3), v[0].lerp_(g, 0.3));
#undef REEL_UPDATE
}
}  // namespace reel::tests::peers
