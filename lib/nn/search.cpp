// SPDX-License-Identifier: BSD-3-Clause
#include <reel/nn/search.hpp>
#include <reel/ops.hpp>

#include <cmath>
#include <limits>

#include "lib/nn/check.hpp"

namespace reel::nn::detail {
namespace {
/// The first tokens as int64.
Tensor first_tokens(const char* name, const Operand& start) {
  const Shape* const shape = shape_of_input(name, "start", start);
  if (!shape || shape->rank() != 2 || (*shape)[1] < 1)
    fail<ShapeError>(start.caller(), name, "start", "[batch, length] with one token or more",
                     shape ? to_text(*shape) : "a number");
  const Tensor tokens = start.value();
  if (is_floating(tokens.dtype()) || tokens.dtype() == DType::boolean)
    fail<DTypeError>(start.caller(), name, "start", "integers", name_of(tokens.dtype()));
  return tokens.to(DType::int64);
}
Tensor scores_of(const char* name, const SearchStep& step, const Tensor& tokens, const Tensor& rows,
                 Caller caller) {
  const Tensor scores = step(tokens, rows);
  if (!scores.defined() || scores.rank() != 2 || scores.shape(0) != tokens.shape(0) ||
      scores.shape(1) < 1)
    fail<ShapeError>(caller, name, "result of step",
                     error_text("[{}, vocabulary]", tokens.shape(0)),
                     scores.defined() ? to_text(scores.shape()) : "an undefined Tensor");
  return scores;
}
void check_steps(const char* name, std::int64_t steps, Caller caller) {
  check_number(steps >= 0, name, "steps", "0 or more", static_cast<double>(steps), caller);
}
}  // namespace

Tensor greedy_search(const SearchStep& step, const Operand& start,
                     const GreedySearchOptions& options) {
  constexpr const char* name = "greedy_search";
  const CallerScope here(start.caller(), name);
  check_steps(name, options.steps, start.caller());
  Tensor tokens = first_tokens(name, start);
  const Tensor rows = arange(std::int64_t{0}, tokens.shape(0));
  Tensor ended = zeros({tokens.shape(0)}, DType::boolean);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    Tensor next = argmax(scores_of(name, step, tokens, rows, start.caller()), 1);
    if (options.end >= 0) {
      next = where(ended, options.end, next);
      ended = next == options.end;
    }
    tokens = concat({tokens, expand_dims(next, 1)}, 1);
    if (options.end >= 0 && reel::all(ended).item<bool>()) break;
  }
  return tokens;
}

Beams beam_search(const SearchStep& step, const Operand& start, const BeamSearchOptions& options) {
  constexpr const char* name = "beam_search";
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Caller caller = start.caller();
  const CallerScope here(caller, name);
  check_steps(name, options.steps, caller);
  const std::int64_t beams = checked(name, "beams", options.beams, caller);
  check_number(std::isfinite(options.length_penalty), name, "length_penalty", "a finite number",
               options.length_penalty, caller);
  const Tensor first = first_tokens(name, start);
  const std::int64_t batch = first.shape(0);
  // All beams are equal at first, so only one of them counts.
  const Tensor one = arange(std::int64_t{0}, beams) == 0;
  Tensor scores =
      broadcast_to(where(one, 0.0, full({beams}, -infinity, DType::float64)), {batch, beams});
  Tensor ranks = scores, lengths = zeros({batch, beams}, DType::float64);
  Tensor ended = zeros({batch, beams}, DType::boolean);
  const Tensor base = expand_dims(arange(std::int64_t{0}, batch) * beams, 1);
  Tensor rows = arange(std::int64_t{0}, batch * beams);
  Tensor tokens = take(first, floor_divide(rows, beams), 0);
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const Tensor given = scores_of(name, step, tokens, rows, caller);
    const std::int64_t words = given.shape(1);
    Tensor more = reshape(log_softmax(given.to(DType::float64), 1), {batch, beams, words});
    // A sequence that has ended continues with its end only, at no cost.
    if (options.end >= 0)
      more = where(expand_dims(ended, 2),
                   where(arange(std::int64_t{0}, words) == options.end, 0.0, -infinity), more);
    const Tensor sums = reshape(expand_dims(scores, 2) + more, {batch, beams * words});
    lengths = lengths + where(ended, 0.0, 1.0);
    const Tensor divisors = power(lengths, options.length_penalty);
    const auto [best, places] =
        topk(reshape(reshape(sums, {batch, beams, words}) / expand_dims(divisors, 2),
                     {batch, beams * words}),
             beams);
    const Tensor from = floor_divide(places, words), next = places % words;
    ranks = best;
    scores = gather(sums, places, 1);
    lengths = gather(lengths, from, 1);
    rows = reshape(base + from, {-1});
    tokens = concat({take(tokens, rows, 0), reshape(next, {-1, 1})}, 1);
    if (options.end < 0) continue;
    ended = next == options.end;
    if (reel::all(ended).item<bool>()) break;
  }
  return {reshape(tokens, {batch, beams, -1}), ranks};
}
}  // namespace reel::nn::detail
