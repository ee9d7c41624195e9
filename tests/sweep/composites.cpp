// SPDX-License-Identifier: BSD-3-Clause
// Public functions that are made of several ops, as entries for the sweeps that only call samples.
#include <algorithm>

#include "lib/ops/samples.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
using enum Layout;
using Inputs = std::vector<Tensor>;
using Call = Tensor (*)(const Inputs&);

// Between these there are no kinks: differences and multiples are never 0 or 1.
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125};
constexpr Draw positive{0.2, 2}, share{0.1, 0.9};

const ShapeAndLayout shapes[] = {
    {{4}},   {{2, 3}}, {{3, 0}}, {{3, 4}, transposed}, {{2, 2, 3}, reversed}, {{3, 3}, stepped},
    {{1, 4}}};
/// f on x of each shape of at least this rank.
void each_shape(SampleList out, std::size_t least_rank, Call f, Draw x = {}) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : shapes)
    if (shape.rank() >= least_rank) sample(out, {drawn(shape, layout, x, seed++)}, f);
}
/// each_shape() without empty tensors.
void each_filled(SampleList out, std::size_t least_rank, Call f, Draw x = {}) {
  std::vector<Sample> all;
  each_shape(all, least_rank, f, x);
  for (Sample& one : all)
    if (one.inputs[0].size() > 0) out.push_back(std::move(one));
}
/// f on two tensors of each shape.
void each_pair(SampleList out, std::size_t least_rank, Call f, Draw x = {}, Draw y = {}) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : shapes)
    if (shape.rank() >= least_rank)
      sample(out, {drawn(shape, layout, x, seed), drawn(shape, y, seed + 5)}, f), ++seed;
}
/// Integers 0, 1, ..., count - 1, 0, ... in this shape.
Tensor positions(const Shape& shape, std::int64_t count) {
  return (arange(0, shape.elements()) % count).reshape(shape);
}
/// f on x of each shape and positions for its first axis, of `count`, each of which occurs.
void each_with_ids(SampleList out, Tensor (*f)(Operand, Operand, Extent)) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : shapes) {
    const std::int64_t count = std::min<std::int64_t>(3, shape[0]);
    sample(out, {drawn(shape, layout, {}, seed++), positions({shape[0]}, count)},
           [f, count](const Inputs& in) { return f(in[0], in[1], count); });
  }
}
/// Pads. The list of widths is made here, not in the call.
auto padded(std::vector<Padding> widths, PadOptions options) {
  return [widths, options](const Inputs& in) { return pad(in[0], widths, options); };
}
/// f on images of several layouts.
#define REEL_IMAGES(...)                                                         \
  [](SampleList out) {                                                           \
    for (const Layout layout :                                                   \
         {Layout::plain, Layout::transposed, Layout::reversed, Layout::stepped}) \
      sample(out, {drawn({2, 4, 5, 3}, layout)}, REEL_CALL(__VA_ARGS__));        \
  }
/// Targets -1 and 1.
Tensor signs(const Shape& shape) { return positions(shape, 2) * 2 - 1; }

Op composite(const char* name, Samples samples, bool differentiable = true) {
  return {.name = name, .differentiable = differentiable, .samples = samples};
}
/// A composite that draws numbers, from a generator of its own in each call.
Op drawing(const char* name, Samples samples, bool differentiable = true) {
  return {.name = name, .differentiable = differentiable, .random = true, .samples = samples};
}
#define REEL_DRAW(...)                               \
  +[](const Inputs& in [[maybe_unused]]) -> Tensor { \
    const GeneratorScope scope(Generator(7));        \
    return __VA_ARGS__;                              \
  }
#define REEL_CALL(...) +[](const Inputs& in) -> Tensor { return __VA_ARGS__; }

/// Losses of every reduction in turn.
#define REEL_LOSS(loss, x, y)                                                \
  composite(#loss, [](SampleList out) {                                      \
    each_pair(out, 1, REEL_CALL(loss(in[0], in[1])), x, y);                  \
    each_pair(out, 1, REEL_CALL(loss(in[0], in[1], Reduction::none)), x, y); \
  })

Op losses[] = {
    REEL_LOSS(mse_loss, {}, {}),
    REEL_LOSS(l1_loss, even, odd),
    composite("huber_loss",
              [](SampleList out) {
                each_pair(out, 1, REEL_CALL(huber_loss(in[0], in[1])), even, odd);
                each_pair(out, 1,
                          REEL_CALL(huber_loss(in[0], in[1],
                                               {.delta = 0.5, .reduction = Reduction::none})),
                          even, odd);
              }),
    REEL_LOSS(kl_divergence, {}, share),
    composite("hinge_loss",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  sample(out, {drawn(shape, layout, odd), signs(shape)},
                         REEL_CALL(hinge_loss(in[0], in[1], Reduction::none)));
              }),
    composite("binary_cross_entropy_with_logits",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  sample(out,
                         {drawn(shape, layout), drawn(shape, share, 3),
                          drawn({shape[shape.rank() - 1]}, positive)},
                         REEL_CALL(binary_cross_entropy_with_logits(in[0], in[1],
                                                                    {.positive_weight = in[2]})));
              }),
    composite("cosine_similarity",
              [](SampleList out) {
                each_pair(out, 1, REEL_CALL(cosine_similarity(in[0], in[1])), positive, {});
                each_pair(out, 2, REEL_CALL(cosine_similarity(in[0], in[1], 0)), {}, positive);
              }),
    composite("cosine_embedding_loss",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes) {
                  Shape rows = shape.rank() == 1 ? Shape{} : Shape{shape[0]};
                  if (shape.rank() == 3) rows = {shape[0], shape[1]};
                  sample(out,
                         {drawn(shape, layout, positive), drawn(shape, positive, 3), signs(rows)},
                         REEL_CALL(cosine_embedding_loss(in[0], in[1], in[2], {.margin = 0.1})));
                }
              }),
    composite("triplet_margin_loss",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  sample(out, {drawn(shape, layout), drawn(shape, {}, 3), drawn(shape, {}, 9)},
                         REEL_CALL(triplet_margin_loss(
                             in[0], in[1], in[2], {.margin = 20, .reduction = Reduction::none})));
              }),
    composite("cross_entropy",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes) {
                  if (shape.rank() != 2 || shape.elements() == 0) continue;
                  const Tensor x = drawn(shape, layout), labels = positions({shape[0]}, shape[1]);
                  sample(out, {x, labels, drawn({shape[1]}, positive, 3)},
                         REEL_CALL(cross_entropy(
                             in[0], in[1],
                             {.ignored_label = 1, .class_weights = in[2], .smoothing = 0.1})));
                  sample(out, {x, labels},
                         REEL_CALL(cross_entropy(
                             in[0], in[1], {.smoothing = 0.2, .reduction = Reduction::none})));
                }
              }),
    composite("ctc_loss", [](SampleList out) {
      for (const auto layout : {plain, transposed, reversed, stepped})
        sample(out,
               {drawn({4, 2, 3}, layout), tensor({{1, 2}, {2, 2}}), tensor({4, 3}), tensor({2, 1})},
               REEL_CALL(ctc_loss(log_softmax(in[0]), in[1], in[2], in[3])));
    })};

Op statistics[] = {
    composite("var",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(var(in[0])));
                each_filled(out, 2, REEL_CALL(var(in[0], -1, keepdims, {.correction = 1})));
              }),
    composite("stddev",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(stddev(in[0])));
                each_filled(out, 2, REEL_CALL(stddev(in[0], -1)));
              }),
    composite("norm",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(norm(in[0])), odd);
                each_filled(out, 2, REEL_CALL(norm(in[0], -1, Keepdims::no, {.p = 3})), odd);
                each_filled(out, 2, REEL_CALL(norm(in[0], 0, keepdims, {.p = 1})), odd);
              }),
    composite("logsumexp",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(logsumexp(in[0])));
                each_filled(out, 2, REEL_CALL(logsumexp(in[0], 0, keepdims)));
              }),
    composite("median",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(median(in[0])));
                each_filled(out, 2, REEL_CALL(median(in[0], -1, keepdims)));
              }),
    composite("quantile",
              [](SampleList out) {
                each_filled(out, 1, REEL_CALL(quantile(in[0], 0.3)));
                each_filled(out, 2, REEL_CALL(quantile(in[0], 0.8, -1)));
              }),
    composite(
        "count_nonzero",
        [](SampleList out) { each_shape(out, 1, REEL_CALL(count_nonzero(in[0], -1)), even); },
        false)};

Op layouts[] = {
    composite("swap_axes",
              [](SampleList out) { each_shape(out, 2, REEL_CALL(swap_axes(in[0], 0, -1))); }),
    composite("matrix_transpose",
              [](SampleList out) { each_shape(out, 2, REEL_CALL(matrix_transpose(in[0]))); }),
    composite("unbind",
              [](SampleList out) { each_filled(out, 1, REEL_CALL(stack(unbind(in[0], -1)))); }),
    composite("split",
              [](SampleList out) { each_shape(out, 1, REEL_CALL(square(split(in[0], 1)[0]))); }),
    composite("stack",
              [](SampleList out) {
                each_pair(out, 1, REEL_CALL(stack({in[0], in[1]}, -1)));
              }),
    composite("flip", [](SampleList out) { each_shape(out, 1, REEL_CALL(flip(in[0]))); }),
    composite("roll", [](SampleList out) { each_shape(out, 1, REEL_CALL(roll(in[0], 2, -1))); }),
    composite("tile",
              [](SampleList out) {
                each_shape(out, 1, REEL_CALL(tile(in[0], {2, 3})));
              }),
    composite("repeat", [](SampleList out) { each_shape(out, 1, REEL_CALL(repeat(in[0], 2, 0))); }),
    composite("diagonal",
              [](SampleList out) { each_shape(out, 2, REEL_CALL(diagonal(in[0], 1))); }),
    composite("tril", [](SampleList out) { each_shape(out, 2, REEL_CALL(tril(in[0], -1))); }),
    composite("triu", [](SampleList out) { each_shape(out, 2, REEL_CALL(triu(in[0]))); }),
    composite("meshgrid",
              [](SampleList out) {
                for (const auto layout : {plain, reversed, stepped, repeated})
                  sample(out, {drawn({3}, layout), drawn({2}, layout, {}, 3)},
                         REEL_CALL(stack(meshgrid({in[0], in[1]}))));
              }),
    composite("mean_pool",
              REEL_IMAGES(mean_pool2d(in[0], {2, 3}, {.stride = 2, .padding = 1, .ceil = true}))),
    composite("adaptive_mean_pool", REEL_IMAGES(adaptive_mean_pool2d(in[0], {2, 3}))),
    composite("adaptive_max_pool", REEL_IMAGES(adaptive_max_pool2d(in[0], {2, 3}))),
    composite("unfold", REEL_IMAGES(unfold(in[0], {2, 1}, {.stride = 2, .padding = 1}))),
    composite("resize", REEL_IMAGES(resize(in[0], {3, 7}, {.method = Resize::linear}))),
    composite("pad", [](SampleList out) {
      for (const auto& [shape, layout] : shapes) {
        if (shape.rank() != 2) continue;
        const Tensor x = drawn(shape, layout);
        sample(out, {x}, padded({{1, 2}, {0, 1}}, {.value = 0.5}));
        if (x.size() == 0) continue;
        sample(out, {x}, padded({{0, 0}, {2, 1}}, {PadMode::reflect}));
        sample(out, {x}, padded({{1, 1}, {2, 0}}, {PadMode::replicate}));
        sample(out, {x}, padded({{1, 0}, {1, 2}}, {PadMode::circular}));
      }
    })};

/// f on two matrices of the shapes (n, k) and (k, m), in several layouts.
#define REEL_MATRICES(...)                                                                        \
  [](SampleList out) {                                                                            \
    for (const Layout layout : {plain, transposed, reversed, repeated, stepped})                  \
      sample(out, {drawn({2, 3}, layout), drawn({3, 4}, layout, {}, 3)}, REEL_CALL(__VA_ARGS__)); \
    sample(out, {drawn({2, 0}), drawn({0, 4})}, REEL_CALL(__VA_ARGS__));                          \
  }
Op products[] = {composite("einsum", REEL_MATRICES(einsum("ij,jk,jk->kji", {in[0], in[1], in[1]}))),
                 composite("einsum_sums", REEL_MATRICES(einsum("ij,...k", {in[0], in[1]}) +
                                                        einsum("ij,jk->", {in[0], in[1]}))),
                 composite("tensordot", REEL_MATRICES(tensordot(in[0], in[1], 1, 0))),
                 composite("outer", REEL_MATRICES(outer(in[0], in[1]))),
                 composite("kron", REEL_MATRICES(kron(in[0], in[1])))};

Op choices[] = {
    composite("sort",
              [](SampleList out) {
                each_shape(out, 1, REEL_CALL(sort(in[0])));
                each_shape(out, 2, REEL_CALL(sort(in[0], 0, {.descending = true})));
              }),
    composite("topk",
              [](SampleList out) { each_filled(out, 1, REEL_CALL(topk(in[0], 2).values)); }),
    composite("pick",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  if (shape.rank() == 2 && shape.elements() > 0)
                    sample(out, {drawn(shape, layout), positions({shape[0]}, shape[1])},
                           REEL_CALL(pick(in[0], in[1])));
              }),
    composite("pairs",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  if (shape.rank() > 1 && shape.elements() > 0)
                    sample(
                        out,
                        {drawn(shape, layout), positions({5}, shape[0]), tensor({0, -1, 1, 0, 0})},
                        REEL_CALL(in[0](in[1], in[2])));
              }),
    composite("masked_select",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  sample(out, {drawn(shape, layout), positions(shape, 2) == 0},
                         REEL_CALL(masked_select(in[0], in[1])));
              }),
    composite("mask",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes)
                  sample(out, {drawn(shape, layout), positions({shape[0]}, 2) == 0},
                         REEL_CALL(in[0](in[1])));
              }),
    composite(
        "unique", [](SampleList out) { each_shape(out, 1, REEL_CALL(unique(in[0]))); }, false),
    composite(
        "nonzero", [](SampleList out) { each_shape(out, 1, REEL_CALL(nonzero(in[0])), even); },
        false),
    composite(
        "bincount",
        [](SampleList out) {
          for (const auto n : {0, 1, 5, 9})
            sample(out, {positions({n}, 4)}, REEL_CALL(bincount(in[0], 5)));
        },
        false),
    composite("scatter_mean",
              [](SampleList out) {
                for (const auto& [shape, layout] : shapes) {
                  Shape rows = shape;
                  rows.data()[0] = 5;
                  sample(out, {drawn(shape, layout), positions({5}, shape[0]), drawn(rows, {}, 3)},
                         REEL_CALL(scatter_mean(in[0], in[1], in[2])));
                }
              }),
    composite("segment_sum", [](SampleList out) { each_with_ids(out, segment_sum); }),
    composite("segment_mean", [](SampleList out) { each_with_ids(out, segment_mean); }),
    composite("segment_max", [](SampleList out) { each_with_ids(out, segment_max); }),
    composite("segment_min", [](SampleList out) { each_with_ids(out, segment_min); }),
    composite("segment_softmax", [](SampleList out) { each_with_ids(out, segment_softmax); }),
    composite(
        "sequence_mask",
        [](SampleList out) {
          for (const auto& [shape, layout] : shapes)
            sample(out, {positions(shape, 4)}, REEL_CALL(sequence_mask(in[0], 3)));
        },
        false),
    composite("clip", [](SampleList out) {
      for (const auto& [shape, layout] : shapes)
        sample(out, {drawn(shape, layout, even), drawn({}, odd, 3), drawn({1}, odd, 5)},
               REEL_CALL(clip(in[0], in[1], in[1] + square(in[2]))));
    })};

Op draws[] = {
    drawing("shuffle",
            [](SampleList out) {
              each_shape(out, 1, REEL_DRAW(random::shuffle(in[0])));
              each_shape(out, 2, REEL_DRAW(random::shuffle(in[0], -1)));
            }),
    drawing("dropout", [](SampleList out) { each_shape(out, 1, REEL_DRAW(dropout(in[0], 0.5))); }),
    drawing("choice",
            [](SampleList out) {
              each_filled(out, 1, REEL_DRAW(random::choice(in[0], 3)));
              each_filled(out, 1, REEL_DRAW(random::choice(in[0], 1, {.replace = false})));
            }),
    drawing(
        "categorical",
        [](SampleList out) {
          each_filled(out, 1, REEL_DRAW(random::categorical(in[0])));
          each_filled(out, 1, REEL_DRAW(random::categorical(in[0], 5)));
        },
        false),
    drawing(
        "distributions",
        [](SampleList out) {
          sample(out, {}, REEL_DRAW(random::exponential({3, 5})));
          sample(out, {}, REEL_DRAW(random::truncated_normal({3, 5})));
          sample(out, {}, REEL_DRAW(random::beta(0.5, 2, {3, 5}, {.dtype = float64})));
          sample(out, {}, REEL_DRAW(random::bernoulli(0.5, {3, 5})));
          sample(out, {}, REEL_DRAW(random::integers(-3, 3, {3, 5})));
          sample(out, {}, REEL_DRAW(random::permutation(7)));
        },
        false)};
}  // namespace

std::vector<Op*> ops_and_composites() {
  std::vector<Op*> found = library_ops();
  const auto add = [&](auto& entries) {
    for (Op& entry : entries) found.push_back(&entry);
  };
  add(losses), add(statistics), add(layouts), add(products), add(choices), add(draws);
  return found;
}
}  // namespace reel::tests
