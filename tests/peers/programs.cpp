// SPDX-License-Identifier: BSD-3-Clause
// Random programs of the rows' functions in both libraries.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "peers/libtorch.hpp"
#include "support/catch.hpp"

namespace reel::tests::peers {
namespace {
/// A call of a row on earlier results. Where `squashed`, inputs are first brought between two
/// numbers by tanh. A row that takes inputs of certain shapes is called with those of a `sample`,
/// with numbers of the earlier results mixed into the floating ones.
struct Step {
  const Row* row;
  const Ours* sample = nullptr;
  std::vector<std::size_t> inputs = {};
  bool squashed = false;
};

Tensor squash(const Tensor& x, const Draw& to) {
  return tanh(x) * ((to.high - to.low) / 2) + (to.high + to.low) / 2;
}
at::Tensor squash(const at::Tensor& x, const Draw& to) {
  return tanh(x) * ((to.high - to.low) / 2) + (to.high + to.low) / 2;
}
/// Elements of x, as many as the sample has.
Tensor picked(const Tensor& x, const Tensor& sample) {
  return take(x.reshape({-1}), arange(0, sample.size()) % x.size()).reshape(sample.shape());
}
at::Tensor picked(const at::Tensor& x, const at::Tensor& sample) {
  return x.reshape({-1})
      .index_select(0, at::arange(sample.numel()).remainder(x.numel()))
      .reshape(sample.sizes());
}
/// The sample with numbers of x in it. They stay between the smallest and the largest of it.
template <class AnyTensor>
AnyTensor mixed(const Tensor& sample, const AnyTensor& same, const AnyTensor& x) {
  const std::vector<double> known = sample.to_vector<double>();
  const auto [low, high] = std::minmax_element(known.begin(), known.end());
  return (same + squash(picked(x, same), Draw{*low, *high})) * 0.5;
}
/// Of positions, and of floating classes such as -1 and 1: other numbers would mean something else.
bool is_whole(const Tensor& x) { return bool(all(x.to(float64) == round(x.to(float64)))); }
template <class AnyTensor>
AnyTensor as(const Tensor& x) {
  if constexpr (std::is_same_v<AnyTensor, Tensor>)
    return x;
  else
    return to_theirs(x);
}

template <class Tensors>
Tensors inputs_of(const Step& step, const Tensors& values) {
  Tensors inputs;
  if (!step.sample) {
    for (const std::size_t i : step.inputs)
      inputs.push_back(step.squashed ? squash(values[i], step.row->draw) : values[i]);
    return inputs;
  }
  for (std::size_t i = 0; i < step.sample->size(); ++i) {
    const Tensor& sample = (*step.sample)[i];
    const auto x = as<typename Tensors::value_type>(sample);
    inputs.push_back(is_whole(sample) ? x : mixed(sample, x, values[step.inputs[i]]));
  }
  return inputs;
}
/// The first results of all steps.
template <class Tensors, class Call>
Tensors run(const std::vector<Step>& steps, Tensors values, const Call& call) {
  const auto leaves = static_cast<std::ptrdiff_t>(values.size());
  for (const Step& step : steps) values.push_back(call(*step.row, inputs_of(step, values))[0]);
  return {values.begin() + leaves, values.end()};
}

/// Whether no two elements are nearly equal, as at a kink of max() or sort().
bool distinct(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] - values[i - 1] < 1e-6) return false;
  return true;
}
/// Whether the row's derivative exists at these inputs and rounding does not change its value much.
bool smooth(const Row& row, const Ours& inputs) {
  std::vector<std::vector<double>> values;
  for (const Tensor& x : inputs)
    if (x.dtype() == float64) values.push_back(x.to_vector<double>());
  if (values.empty() || (!row.pointwise && !distinct(values[0]))) return false;
  // The standard deviation of one element has a gradient of 0 here, and NaN there.
  if (row.name.rfind("stddev", 0) == 0 && inputs[0].shape(-1) == 1) return false;
  if (row.draw.grid == 0 && row.inputs == 1) return true;
  for (const std::vector<double>& x : values)
    for (const double element : x)
      if (std::abs(element * 4 - std::nearbyint(element * 4)) < 1e-5) return false;
  return true;
}
/// Special values are infinite, and so is the extreme of an empty segment.
bool finite(const Row& row) {
  return row.name.find("special") == row.name.npos && row.name != "segment_max" &&
         row.name != "segment_min";
}
bool moderate(const Tensor& y) {
  if (y.dtype() != float64 || y.size() == 0 || y.size() > 200 || y.rank() > 4) return false;
  const std::vector<double> values = y.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [](double x) { return std::abs(x) < 1e3; });
}

class Maker {
 public:
  Maker(const Rows& rows, unsigned seed) : random_(seed) {
    for (const Row& row : rows)
      if ((row.chained || row.orders == 2) && finite(row)) rows_.push_back(&row);
  }
  std::vector<Step> steps(Ours values) {
    std::vector<Step> made;
    const std::size_t wanted = 5 + below(16);
    for (int tries = 0; tries < 2000 && made.size() < wanted; ++tries) {
      Step step{rows_[below(rows_.size())]};
      const Row& row = *step.row;
      if (!row.chained) step.sample = &row.cases[below(row.cases.size())];
      for (std::size_t i = 0; i < (row.chained ? row.inputs : step.sample->size()); ++i)
        step.inputs.push_back(below(values.size()));
      if (!fits(step, values)) continue;
      try {
        const Ours inputs = inputs_of(step, values);
        const Tensor result = row.ours(inputs)[0];
        if (!smooth(row, inputs) || !moderate(result)) continue;
        values.push_back(result);
        made.push_back(step);
      } catch (const ShapeError&) {  // shapes that do not fit
      }
    }
    return made;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  static bool fits(Step& step, const Ours& values) {
    if (step.sample)
      return std::all_of(step.sample->begin(), step.sample->end(),
                         [](const Tensor& x) { return x.size() > 0; });
    if (step.inputs.size() == 2 && step.inputs[0] == step.inputs[1]) return false;
    const Draw& draw = step.row->draw;
    for (const std::size_t i : step.inputs) {
      if (values[i].rank() < step.row->least_rank) return false;
      for (const double x : values[i].to_vector<double>())
        step.squashed |= x < draw.low || x > draw.high;
    }
    return true;
  }

  std::mt19937 random_;
  std::vector<const Row*> rows_;
};
}  // namespace

TEST_CASE("random programs have LibTorch's values, gradients and second gradients", "[peers]") {
  const Rows rows = all_rows();
  const unsigned programs = std::getenv("REEL_TEST_LONG") ? 3000 : 300;
  std::set<std::string> called;
  for (unsigned seed = 1; seed <= programs; ++seed) {
    const Ours leaves = {drawn({3, 4}, {}, seed), drawn({4}, Layout::reversed, {}, seed + 1),
                         drawn({2, 3, 1}, {}, seed + 2)};
    const std::vector<Step> steps = Maker(rows, seed).steps(leaves);
    Row program;
    program.ours = [&](const Ours& x) {
      return run(steps, x, [](const Row& row, const Ours& in) { return row.ours(in); });
    };
    program.theirs = [&](const Theirs& x) {
      return run(steps, x, [](const Row& row, const Theirs& in) { return row.theirs(in); });
    };
    std::string text;
    for (const Step& step : steps) {
      called.insert(step.row->name);
      text += step.row->name + "(";
      for (const std::size_t i : step.inputs) text += " " + std::to_string(i);
      text += step.squashed ? " squashed) " : ") ";
    }
    INFO("seed " << seed << ": " << text);
    CHECK(steps.size() >= 5);
    const Outcome got = run_ours(program, leaves, 2), expected = run_theirs(program, leaves, 2);
    CHECK(difference(got.values, expected.values, {1e-9, 1e-9}) == "");
    CHECK(difference(got.gradients, expected.gradients, {1e-8, 1e-9}) == "");
    CHECK(difference(got.second_gradients, expected.second_gradients, {1e-7, 1e-8}) == "");
  }
  std::string missing;
  for (const Row& row : rows)
    if ((row.chained || row.orders == 2) && finite(row) && !called.count(row.name))
      missing += row.name + "; ";
  CHECK(missing == "");
}
}  // namespace reel::tests::peers
