// SPDX-License-Identifier: BSD-3-Clause
// Convolutions and pools.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
using enum Layout;

/// Channels come first in LibTorch, in images and in weights.
at::Tensor first(const at::Tensor& x) { return x.permute({0, 3, 1, 2}); }
at::Tensor last(const at::Tensor& x) { return x.permute({0, 2, 3, 1}); }
at::Tensor window(const at::Tensor& weight) { return weight.permute({3, 2, 0, 1}); }

/// Images with `in` channels, and a window [3, 2] that turns `read` channels of them to `out`.
std::vector<Ours> of_images(std::int64_t in, std::int64_t read, std::int64_t out, Ours more = {}) {
  std::vector<Ours> found;
  for (const auto& [shape, layout] :
       {ShapeAndLayout{{2, 5, 4, in}}, {{1, 7, 6, in}, transposed}, {{3, 3, 9, in}, stepped}}) {
    found.push_back({drawn(shape, layout), drawn({3, 2, read, out}, layout, {}, 3)});
    found.back().insert(found.back().end(), more.begin(), more.end());
  }
  return found;
}

void add_convolutions(Rows& rows) {
  const Tensor bias = drawn({4}, {}, 5);
  rows.push_back(
      called("conv2d", of_images(3, 3, 4),
             REEL_PAIR(conv2d(x[0], x[1]), last(at::conv2d(first(x[0]), window(x[1]))))));
  rows.push_back(
      called("conv2d stride", of_images(3, 3, 4, {bias}),
             REEL_PAIR(conv2d(x[0], x[1], x[2], {.stride = 2, .padding = {1, 2}}),
                       last(at::conv2d(first(x[0]), window(x[1]), x[2], at::IntArrayRef({2, 2}),
                                       at::IntArrayRef({1, 2}))))));
  rows.push_back(called(
      "conv2d groups", of_images(6, 3, 4, {bias}),
      REEL_PAIR(
          conv2d(x[0], x[1], x[2],
                 {.dilation = {1, 2}, .padding = 1, .groups = 2, .activation = Activation::tanh}),
          tanh(last(at::conv2d(first(x[0]), window(x[1]), x[2], at::IntArrayRef({1, 1}),
                               at::IntArrayRef({1, 1}), at::IntArrayRef({1, 2}), 2))))));
  rows.push_back(
      called("conv2d depthwise", of_images(4, 1, 4),
             REEL_PAIR(conv2d(x[0], x[1], {.groups = 4}),
                       last(at::conv2d(first(x[0]), window(x[1]), {}, at::IntArrayRef({1, 1}),
                                       at::IntArrayRef({0, 0}), at::IntArrayRef({1, 1}), 4)))));
  rows.push_back(called(
      "conv_transpose2d", of_images(4, 1, 4),
      REEL_PAIR(conv_transpose2d(x[0], x[1], {.stride = 2, .padding = {1, 0}, .output_padding = 1}),
                last(at::conv_transpose2d(first(x[0]), window(x[1]), {}, at::IntArrayRef({2, 2}),
                                          at::IntArrayRef({1, 0}), at::IntArrayRef({1, 1}))))));
}

void add_pools(Rows& rows) {
  std::vector<Ours> images;
  for (const Ours& one : of_images(3, 3, 4)) images.push_back({one[0]});
  rows.push_back(called("max_pool2d", images,
                        REEL_PAIR(max_pool2d(x[0], {3, 2}, {.stride = {1, 2}, .padding = {1, 0}}),
                                  last(at::max_pool2d(first(x[0]), {3, 2}, {1, 2}, {1, 0})))));
  rows.push_back(called("mean_pool2d", images,
                        REEL_PAIR(mean_pool2d(x[0], 2, {.padding = 1}),
                                  last(at::avg_pool2d(first(x[0]), 2, 2, 1, false, false)))));
  rows.push_back(called("adaptive_mean_pool2d", images,
                        REEL_PAIR(adaptive_mean_pool2d(x[0], {2, 3}),
                                  last(at::adaptive_avg_pool2d(first(x[0]), {2, 3})))));
}
}  // namespace

void add_images(Rows& rows) {
  add_convolutions(rows);
  add_pools(rows);
}
}  // namespace reel::tests::peers
