// SPDX-License-Identifier: BSD-3-Clause
// Shapes, views, picking and writing by positions, products.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
using enum Layout;
using at::indexing::Ellipsis;
using at::indexing::Slice;

/// Integers 0, 1, ..., count - 1, 0, ... in this shape.
Tensor positions(const Shape& shape, std::int64_t count) {
  return (arange(0, shape.elements()) % count).reshape(shape);
}
at::Tensor like(const at::Tensor& indices, const at::Tensor& updates, int axis) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(updates.dim()), 1);
  shape[static_cast<std::size_t>(axis)] = -1;
  return indices.view(shape).expand_as(updates);
}

/// A reduction of the slices of x[0] with the segments x[1], of 4.
at::Tensor segments_of(const Theirs& x, const char* kind, double start) {
  std::vector<std::int64_t> shape = x[0].sizes().vec();
  shape[0] = 4;
  return at::scatter_reduce(at::full(shape, start, x[0].options()), 0, like(x[1], x[0], 0), x[0],
                            kind, false);
}
at::Tensor segment_shares(const Theirs& x) {
  std::vector<std::int64_t> shape = x[0].sizes().vec();
  shape[0] = 4;
  const at::Tensor e = exp(x[0]), ids = like(x[1], x[0], 0);
  return e / at::zeros(shape, e.options()).scatter_add(0, ids, e).gather(0, ids);
}

/// The axes from the last to the first.
at::DimVector backwards(std::int64_t rank) {
  at::DimVector axes;
  while (rank-- > 0) axes.push_back(rank);
  return axes;
}
void add_shapes(Rows& rows) {
  rows.push_back(
      shaped("reshape", 0, REEL_PAIR(x[0].reshape({-1, 1}), x[0].reshape({x[0].numel(), 1}))));
  rows.push_back(
      shaped("transpose", 0, REEL_PAIR(transpose(x[0]), x[0].permute(backwards(x[0].dim())))));
  rows.push_back(shaped("swap_axes", 2, REEL_PAIR(swap_axes(x[0], 0, -1), x[0].transpose(0, -1))));
  rows.push_back(shaped("matrix_transpose", 2, REEL_PAIR(matrix_transpose(x[0]), x[0].mT())));
  rows.push_back(shaped("expand_dims", 0, REEL_PAIR(expand_dims(x[0], 0), x[0].unsqueeze(0))));
  rows.push_back(shaped("squeeze", 0, REEL_BOTH(squeeze(x[0]))));
  rows.push_back(called("broadcast_to",
                        {{drawn({3})}, {drawn({2, 1})}, {drawn({})}, {drawn({2, 3}, transposed)}},
                        REEL_PAIR(broadcast_to(x[0], {4, 2, 3}), broadcast_to(x[0], {4, 2, 3}))));
  rows.push_back(called("sum_to by add", {{drawn({2, 3}), drawn({3})}, {drawn({3, 1}), drawn({4})}},
                        REEL_BOTH(square(x[0] + x[1]))));
  rows.push_back(
      shaped("concat", 1, REEL_PAIR(concat({x[0], x[0] * 2}, -1), at::cat({x[0], x[0] * 2}, -1))));
  rows.push_back(
      shaped("stack", 0, REEL_PAIR(stack({x[0], x[0] * 2}, -1), at::stack({x[0], x[0] * 2}, -1))));
  rows.push_back(filled("split", 1, REEL_PAIR(split(x[0], x[0].shape(0)), x[0].split(1))));
  rows.push_back(filled("unbind", 1, REEL_BOTH(unbind(x[0], -1))));
  rows.push_back(shaped("flip", 1, REEL_BOTH(flip(x[0], -1))));
  rows.push_back(shaped("roll", 1, REEL_BOTH(roll(x[0], 2, -1))));
  rows.push_back(shaped("tile", 1, REEL_PAIR(tile(x[0], {2, 3}), tile(x[0], {2, 3}))));
  rows.push_back(shaped("repeat", 1, REEL_PAIR(repeat(x[0], 2, 0), x[0].repeat_interleave(2, 0))));
  rows.push_back(shaped("diagonal", 2, REEL_BOTH(diagonal(x[0], 1, -2, -1))));
  rows.push_back(shaped("tril", 2, REEL_BOTH(tril(x[0], -1))));
  rows.push_back(shaped("triu", 2, REEL_BOTH(triu(x[0]))));
  rows.push_back(called("pad", {{drawn({3, 4})}, {drawn({3, 4}, transposed)}, {drawn({0, 4})}},
                        REEL_PAIR(pad(x[0], {{1, 2}, {0, 1}}, {.value = 0.5}),
                                  constant_pad_nd(x[0], {0, 1, 1, 2}, 0.5))));
  rows.push_back(called("pad reflect", {{drawn({3, 4})}, {drawn({3, 4}, transposed)}},
                        REEL_PAIR(pad(x[0], {{0, 0}, {2, 1}}, {PadMode::reflect}),
                                  at::pad(x[0], {2, 1}, "reflect"))));
  rows.push_back(called("pad replicate", {{drawn({3, 4})}, {drawn({3, 4}, stepped)}},
                        REEL_PAIR(pad(x[0], {{0, 0}, {2, 1}}, {PadMode::replicate}),
                                  at::pad(x[0], {2, 1}, "replicate"))));
  rows.push_back(called("pad circular", {{drawn({3, 4})}, {drawn({3, 4}, reversed)}},
                        REEL_PAIR(pad(x[0], {{0, 0}, {1, 2}}, {PadMode::circular}),
                                  at::pad(x[0], {1, 2}, "circular"))));
  rows.push_back(called("meshgrid", {{drawn({3}), drawn({2})}, {drawn({4}, stepped), drawn({0})}},
                        REEL_PAIR(meshgrid({x[0], x[1]}), at::meshgrid({x[0], x[1]}, "ij"))));
  rows.push_back(shaped(
      "cast", 0,
      REEL_PAIR(x[0].to(float32).to(float64) * x[0], x[0].to(at::kFloat).to(at::kDouble) * x[0])));
}

void add_indices(Rows& rows) {
  rows.push_back(filled("slice", 1,
                        REEL_PAIR(x[0](ellipsis, range(0, {}, 2)),
                                  x[0].index({Ellipsis, Slice(0, at::indexing::None, 2)}))));
  rows.push_back(filled("slice position", 1, REEL_PAIR(x[0](-1), x[0].select(0, -1))));
  rows.push_back(filled("slice newaxis", 1,
                        REEL_PAIR(x[0](newaxis, range(0, 1)), x[0].unsqueeze(0).slice(1, 0, 1))));
  rows.push_back(shaped("mask", 1, REEL_PAIR(x[0](x[0] > 0.25), x[0].index({x[0] > 0.25}))));
  const Tensor some = tensor({2, 0, 0, 1});
  rows.push_back(called(
      "take", {{drawn({3}), some}, {drawn({3, 4}, transposed), some}, {drawn({3, 2, 2}), some}},
      REEL_PAIR(take(x[0], x[1]), index_select(x[0], 0, x[1]))));
  rows.push_back(
      called("take last",
             {{drawn({4, 3}, stepped), some}, {drawn({2, 2, 3}), some}, {drawn({0, 3}), some}},
             REEL_PAIR(take(x[0], x[1], -1), index_select(x[0], -1, x[1]))));
  rows.push_back(called("lookup", {{drawn({3, 4}), tensor({{0, 2}, {1, 1}})}},
                        REEL_PAIR(x[0](x[1]), embedding(x[0], x[1]))));
  rows.push_back(called(
      "gather",
      {{drawn({4, 3}), positions({2, 5}, 3)}, {drawn({4, 3}, transposed), positions({4, 1}, 3)}},
      REEL_PAIR(gather(x[0], x[1], 1), gather(x[0], 1, x[1]))));
  rows.push_back(
      called("gather first",
             {{drawn({4, 3}), positions({5, 2}, 4)}, {drawn({2, 3, 2}), positions({1, 3, 2}, 2)}},
             REEL_PAIR(gather(x[0], x[1], 0), gather(x[0], 0, x[1]))));
  rows.push_back(called(
      "pick",
      {{drawn({4, 3}), positions({4}, 3)}, {drawn({2, 3, 5}, reversed), positions({2, 3}, 5)}},
      REEL_PAIR(pick(x[0], x[1]), gather(x[0], -1, x[1].unsqueeze(-1)).squeeze(-1))));
  rows.push_back(called(
      "pairs",
      {{drawn({4, 3}), some, tensor({2, 0, 0, 2})}, {drawn({3, 4, 2}), some, tensor({2, 0, 0, 2})}},
      REEL_PAIR(x[0](x[1], x[2]), x[0].index({x[1], x[2]}))));
  rows.push_back(constant(called("one_hot", {{positions({5}, 3)}, {positions({2, 3}, 4)}},
                                 REEL_PAIR(one_hot(x[0], 4), one_hot(x[0], 4).to(at::kFloat)))));
  rows.push_back(constant(called("bincount", {{positions({9}, 4)}, {positions({0}, 4)}},
                                 REEL_PAIR(bincount(x[0], 5), bincount(x[0], {}, 5)))));
}

void add_scatters(Rows& rows) {
  const Tensor twice = tensor({2, 0, 2, 2}), once = tensor({2, 0});
  const std::vector<Ours> repeated_updates = {
      {drawn({3}), twice, drawn({4}, {}, 3)},
      {drawn({3, 2}), twice, drawn({4, 2}, {}, 3)},
      {drawn({3, 2}, transposed), twice, drawn({4, 2}, stepped, {}, 3)},
      {drawn({3, 2, 2}), twice, drawn({4, 2, 2}, reversed, {}, 3)}};
  rows.push_back(
      called("scatter",
             {{drawn({3}), once, drawn({2}, {}, 3)}, {drawn({3, 2}), once, drawn({2, 2}, {}, 3)}},
             REEL_PAIR(scatter(x[0], x[1], x[2]), index_copy(x[0], 0, x[1], x[2]))));
  rows.push_back(called("scatter_add", repeated_updates,
                        REEL_PAIR(scatter_add(x[0], x[1], x[2]), index_add(x[0], 0, x[1], x[2]))));
  rows.push_back(
      called("scatter_add last", {{drawn({2, 3}), twice, drawn({2, 4}, {}, 3)}},
             REEL_PAIR(scatter_add(x[0], x[1], x[2], 1), index_add(x[0], 1, x[1], x[2]))));
  rows.push_back(called("scatter_max", repeated_updates,
                        REEL_PAIR(scatter_max(x[0], x[1], x[2]),
                                  scatter_reduce(x[0], 0, like(x[1], x[2], 0), x[2], "amax"))));
  rows.push_back(called("scatter_min", repeated_updates,
                        REEL_PAIR(scatter_min(x[0], x[1], x[2]),
                                  scatter_reduce(x[0], 0, like(x[1], x[2], 0), x[2], "amin"))));
  rows.push_back(called("scatter_mean", repeated_updates,
                        REEL_PAIR(scatter_mean(x[0], x[1], x[2]),
                                  scatter_reduce(x[0], 0, like(x[1], x[2], 0), x[2], "mean"))));
  std::vector<Ours> segments;
  for (const Ours& inputs : repeated_updates) segments.push_back({inputs[2], twice});
  rows.push_back(called("segment_sum", segments,
                        REEL_PAIR(segment_sum(x[0], x[1], 4), segments_of(x, "sum", 0))));
  rows.push_back(called("segment_mean", segments,
                        REEL_PAIR(segment_mean(x[0], x[1], 4), segments_of(x, "mean", 0))));
  rows.push_back(called("segment_max", segments,
                        REEL_PAIR(segment_max(x[0], x[1], 4), segments_of(x, "amax", -INFINITY))));
  rows.push_back(called("segment_min", segments,
                        REEL_PAIR(segment_min(x[0], x[1], 4), segments_of(x, "amin", INFINITY))));
  rows.push_back(called("segment_softmax",
                        {{drawn({4}), tensor({1, 0, 1, 1})}, {drawn({4, 2}), tensor({0, 0, 1, 0})}},
                        REEL_PAIR(segment_softmax(x[0], x[1], 4), segment_shares(x))));
}

void add_products(Rows& rows) {
  const std::vector<Ours> matrices = {{drawn({3, 4}), drawn({4, 2}, {}, 3)},
                                      {drawn({3, 4}, transposed), drawn({4, 2}, transposed, {}, 3)},
                                      {drawn({3, 4}, stepped), drawn({4, 2}, reversed, {}, 3)},
                                      {drawn({0, 4}), drawn({4, 2}, {}, 3)},
                                      {drawn({3, 0}), drawn({0, 2}, {}, 3)},
                                      {drawn({19, 33}), drawn({33, 17}, {}, 3)}};
  std::vector<Ours> products = matrices, sums;
  for (const Ours& inputs :
       {Ours{drawn({4}), drawn({4}, {}, 3)}, Ours{drawn({4}), drawn({4, 2}, {}, 3)},
        Ours{drawn({3, 4}), drawn({4}, {}, 3)}, Ours{drawn({2, 3, 4}), drawn({4, 2}, {}, 3)},
        Ours{drawn({2, 3, 4}), drawn({2, 4, 2}, {}, 3)},
        Ours{drawn({2, 1, 3, 4}, transposed), drawn({3, 4, 2}, {}, 3)},
        Ours{drawn({4}), drawn({2, 4, 3}, {}, 3)}})
    products.push_back(inputs);
  rows.push_back(called("matmul", products, REEL_BOTH(matmul(x[0], x[1]))));
  for (const Ours& inputs : matrices) {
    sums.push_back({inputs[0], inputs[1], drawn({inputs[1].shape(1)}, {}, 5)});
    sums.push_back({inputs[0], inputs[1], drawn({inputs[0].shape(0), inputs[1].shape(1)}, {}, 5)});
  }
  rows.push_back(
      called("matmul_add", sums, REEL_PAIR(matmul_add(x[0], x[1], x[2]), addmm(x[2], x[0], x[1]))));
  rows.push_back(
      called("dense relu", sums,
             REEL_PAIR(dense(x[0], x[1], x[2], Activation::relu), relu(addmm(x[2], x[0], x[1])))));
  rows.push_back(
      called("dense tanh", sums,
             REEL_PAIR(dense(x[0], x[1], x[2], Activation::tanh), tanh(addmm(x[2], x[0], x[1])))));
  rows.push_back(called(
      "dense sigmoid", sums,
      REEL_PAIR(dense(x[0], x[1], x[2], Activation::sigmoid), sigmoid(addmm(x[2], x[0], x[1])))));
}
}  // namespace

void add_layouts(Rows& rows) {
  add_shapes(rows);
  add_indices(rows);
  add_scatters(rows);
  add_products(rows);
}
}  // namespace reel::tests::peers
