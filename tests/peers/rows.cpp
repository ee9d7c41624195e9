// SPDX-License-Identifier: BSD-3-Clause
#include "peers/rows.hpp"

#include <utility>

namespace reel::tests::peers {
namespace {
std::vector<Ours> inputs_of(const std::vector<Sample>& samples) {
  std::vector<Ours> found;
  for (const Sample& sample : samples)
    if (sample.note.empty()) found.push_back(sample.inputs);
  return found;
}
}  // namespace

Row shaped(std::string name, std::size_t least_rank, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x) {
  std::vector<Sample> samples;
  samples_of(
      samples, least_rank, [](const Ours& in) { return in[0]; }, x);
  return {.name = std::move(name),
          .ours = std::move(ours),
          .theirs = std::move(theirs),
          .cases = inputs_of(samples),
          .chained = true,
          .least_rank = least_rank,
          .draw = x};
}
Row unary(std::string name, std::function<Ours(const Ours&)> ours,
          std::function<Theirs(const Theirs&)> theirs, Draw x) {
  Row row = shaped(std::move(name), 0, std::move(ours), std::move(theirs), x);
  row.pointwise = true;
  return row;
}
Row filled(std::string name, std::size_t least_rank, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x) {
  Row row = shaped(std::move(name), least_rank, std::move(ours), std::move(theirs), x);
  std::erase_if(row.cases, [](const Ours& inputs) { return inputs[0].size() == 0; });
  return row;
}
Row binary(std::string name, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x, Draw y) {
  std::vector<Sample> samples;
  binary_samples(
      samples, [](Operand a, Operand b) { return a + b; }, x, y);
  return {.name = std::move(name),
          .ours = std::move(ours),
          .theirs = std::move(theirs),
          .cases = inputs_of(samples),
          .pointwise = true,
          .chained = true,
          .inputs = 2,
          .draw = {std::max(x.low, y.low), std::min(x.high, y.high)}};
}
Row called(std::string name, std::vector<Ours> cases, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs) {
  for (Ours& inputs : cases)
    for (Tensor& x : inputs)
      if (x.dtype() == int32) x = x.to(int64);
  return {std::move(name), std::move(ours), std::move(theirs), std::move(cases)};
}
Row constant(Row row) {
  row.orders = 0;
  row.chained = false;
  return row;
}
Row once_differentiable(Row row) {
  row.orders = 1;
  row.chained = false;
  return row;
}

Rows all_rows() {
  Rows rows;
  add_pointwise(rows);
  add_integers(rows);
  add_reductions(rows);
  add_layouts(rows);
  add_losses(rows);
  add_layers(rows);
  add_updates(rows);
  add_images(rows);
  add_linalg(rows);
  return rows;
}
}  // namespace reel::tests::peers
