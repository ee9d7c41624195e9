// SPDX-License-Identifier: BSD-3-Clause
// Losses.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
using enum Layout;
constexpr Draw even{.grid = 0.25}, odd{.grid = 0.25, .offset = 0.125}, share{0.1, 0.9},
    positive{0.2, 2};
constexpr auto none = at::Reduction::None, mean_of = at::Reduction::Mean,
               sum_of = at::Reduction::Sum;

/// Pairs of one shape.
std::vector<Ours> pairs(Draw x, Draw y, std::size_t least_rank = 1) {
  std::vector<Ours> found;
  for (const auto& [shape, layout] : {ShapeAndLayout{{4}},
                                      {{2, 3}},
                                      {{3, 0}},
                                      {{3, 4}, transposed},
                                      {{2, 2, 3}, reversed},
                                      {{3, 3}, stepped}})
    if (shape.rank() >= least_rank) found.push_back({drawn(shape, layout, x), drawn(shape, y, 7)});
  return found;
}
std::vector<Ours> filled_pairs(Draw x, Draw y, std::size_t least_rank = 1) {
  std::vector<Ours> found = pairs(x, y, least_rank);
  std::erase_if(found, [](const Ours& one) { return one[0].size() == 0; });
  return found;
}
/// Targets -1 and 1.
Tensor signs(const Shape& shape) {
  return ((arange(0, shape.elements()) % 2) * 2 - 1).reshape(shape).to(float64);
}

#define REEL_LOSS(loss, x_draw, y_draw)                                                          \
  rows.push_back(called(#loss " mean", pairs(x_draw, y_draw),                                    \
                        REEL_PAIR(loss(x[0], x[1]), loss(x[0], x[1]))));                         \
  rows.push_back(called(#loss " sum", pairs(x_draw, y_draw),                                     \
                        REEL_PAIR(loss(x[0], x[1], Reduction::sum), loss(x[0], x[1], sum_of)))); \
  rows.push_back(called(#loss " none", pairs(x_draw, y_draw),                                    \
                        REEL_PAIR(loss(x[0], x[1], Reduction::none), loss(x[0], x[1], none))))

void add_of_elements(Rows& rows) {
  const Draw plain{};
  REEL_LOSS(mse_loss, plain, plain);
  REEL_LOSS(l1_loss, even, odd);
  rows.push_back(called("huber_loss", pairs(even, odd),
                        REEL_PAIR(huber_loss(x[0], x[1]), huber_loss(x[0], x[1]))));
  rows.push_back(
      called("huber_loss delta", pairs(even, odd),
             REEL_PAIR(huber_loss(x[0], x[1], {.delta = 0.6, .reduction = Reduction::none}),
                       huber_loss(x[0], x[1], none, 0.6))));
  rows.push_back(called("binary_cross_entropy", pairs(share, share),
                        REEL_BOTH(binary_cross_entropy(x[0], x[1]))));
  rows.push_back(called("binary_cross_entropy none", pairs(share, share),
                        REEL_PAIR(binary_cross_entropy(x[0], x[1], Reduction::none),
                                  binary_cross_entropy(x[0], x[1], {}, none))));
  rows.push_back(called("binary_cross_entropy_with_logits", pairs(plain, share),
                        REEL_BOTH(binary_cross_entropy_with_logits(x[0], x[1]))));
  std::vector<Ours> weighted;
  for (const Ours& one : pairs(plain, share))
    weighted.push_back({one[0], one[1], drawn({one[0].shape(-1)}, positive, 5)});
  rows.push_back(called(
      "binary_cross_entropy_with_logits weighted", weighted,
      REEL_PAIR(
          binary_cross_entropy_with_logits(
              x[0], x[1], {.positive_weight = stop_gradient(x[2]), .reduction = Reduction::none}),
          binary_cross_entropy_with_logits(x[0], x[1], {}, x[2].detach(), none))));
  std::vector<Ours> hinges;
  for (const Ours& one : pairs(odd, plain)) hinges.push_back({one[0], signs(one[0].shape())});
  rows.push_back(called("hinge_loss", hinges,
                        REEL_PAIR(hinge_loss(x[0], x[1]), mean(clamp_min(1 - x[0] * x[1], 0)))));
}

void add_of_rows(Rows& rows) {
  rows.push_back(called(
      "kl_divergence", pairs({}, share, 2),
      REEL_PAIR(kl_divergence(x[0], x[1], Reduction::none), kl_div(x[0], x[1], none).sum(-1))));
  rows.push_back(called("kl_divergence mean", {{drawn({3, 4}), drawn({3, 4}, share, 3)}},
                        REEL_PAIR(kl_divergence(x[0], x[1]), kl_div(x[0], x[1], sum_of) / 3)));
  rows.push_back(called("cosine_similarity", filled_pairs(positive, {}),
                        REEL_BOTH(cosine_similarity(x[0], x[1], -1))));
  rows.push_back(called("cosine_similarity first", filled_pairs({}, positive, 2),
                        REEL_BOTH(cosine_similarity(x[0], x[1], 0))));
  rows.push_back(called("cosine_embedding_loss",
                        {{drawn({4, 3}, positive), drawn({4, 3}, positive, 3), signs({4})}},
                        REEL_PAIR(cosine_embedding_loss(x[0], x[1], x[2], {.margin = 0.1}),
                                  cosine_embedding_loss(x[0], x[1], x[2], 0.1))));
  rows.push_back(called(
      "triplet_margin_loss",
      {{drawn({4, 3}), drawn({4, 3}, {}, 3), drawn({4, 3}, {}, 9)},
       {drawn({3, 5}, transposed), drawn({3, 5}, {}, 3), drawn({3, 5}, {}, 9)}},
      REEL_PAIR(triplet_margin_loss(x[0], x[1], x[2], {.margin = 3, .reduction = Reduction::none}),
                triplet_margin_loss(x[0], x[1], x[2], 3, 2, 0, false, none))));
  const Tensor labels = tensor({0, 2, 1, 2});
  const std::vector<Ours> scored = {{drawn({4, 3}), labels},
                                    {drawn({4, 3}, transposed), labels},
                                    {drawn({4, 3}, stepped), labels}};
  rows.push_back(called("cross_entropy", scored,
                        REEL_PAIR(cross_entropy(x[0], x[1]), cross_entropy_loss(x[0], x[1]))));
  rows.push_back(called("cross_entropy none", scored,
                        REEL_PAIR(cross_entropy(x[0], x[1], {.reduction = Reduction::none}),
                                  cross_entropy_loss(x[0], x[1], {}, none))));
  std::vector<Ours> weighted;
  for (const Ours& one : scored) weighted.push_back({one[0], one[1], drawn({3}, positive, 5)});
  rows.push_back(called(
      "cross_entropy weighted", weighted,
      REEL_PAIR(cross_entropy(
                    x[0], x[1],
                    {.ignored_label = 1, .class_weights = stop_gradient(x[2]), .smoothing = 0.1}),
                cross_entropy_loss(x[0], x[1], x[2].detach(), mean_of, 1, 0.1))));
  rows.push_back(once_differentiable(
      called("ctc_loss",
             {{drawn({6, 2, 4}), tensor({{1, 2, 2}, {3, 3, 0}}), tensor({6, 5}), tensor({3, 2})},
              {drawn({5, 2, 4}, transposed), tensor({{1, 2, 1}, {3, 0, 0}}), tensor({5, 3}),
               tensor({3, 1})}},
             REEL_PAIR(ctc_loss(log_softmax(x[0]), x[1], x[2], x[3]),
                       ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], 0, mean_of)))));
  rows.push_back(once_differentiable(called(
      "ctc_loss none",
      {{drawn({6, 2, 4}), tensor({{1, 2, 2}, {3, 3, 0}}), tensor({6, 5}), tensor({3, 2})}},
      REEL_PAIR(ctc_loss(log_softmax(x[0]), x[1], x[2], x[3], {.reduction = Reduction::none}),
                ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], 0, none)))));
}
}  // namespace

void add_losses(Rows& rows) {
  add_of_elements(rows);
  add_of_rows(rows);
}
}  // namespace reel::tests::peers
