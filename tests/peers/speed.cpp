// SPDX-License-Identifier: BSD-3-Clause
// The time of each row's call in both libraries: one thread, nothing recorded, float32.
#include <ATen/Parallel.h>

#include <cmath>
#include <cstdio>
#include <regex>

#include "peers/libtorch.hpp"

#include <reel/bench.hpp>

namespace {
using namespace reel;
using namespace reel::tests::peers;

Tensor in_float32(const Tensor& x) { return x.dtype() == float64 ? x.to(float32) : x; }

/// x with each axis `scale` times as long: its elements again and again. An axis of length 1 stays,
/// because it may broadcast.
Tensor scaled(const Tensor& x, std::int64_t scale) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t length : x.shape()) counts.push_back(length == 1 ? 1 : scale);
  return in_float32(
      x.rank() == 0 || scale == 1 ? x : tile(x, Shape(counts)) + full({}, 0, {x.dtype()}));
}
/// Inputs of about so many elements: random ones, or those of a case, which may be positions.
Ours inputs_of(const Row& row, std::int64_t elements) {
  if (row.chained) {
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements)));
    const Shape shape =
        row.least_rank < 2 && elements < 100 ? Shape{elements} : Shape{side, elements / side};
    Ours made = {in_float32(drawn(shape, row.draw))};
    if (row.inputs == 2) made.push_back(in_float32(drawn(shape, row.draw, 7)));
    return made;
  }
  std::size_t best = 0, largest = 0;
  for (std::size_t i = 0; i < row.cases.size(); ++i)
    if (const Ours& one = row.cases[i]; one[0].rank() == 2 && one[0].size() > 0 && best == 0)
      best = i;
  const Ours& from = row.cases[best];
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i].size() > from[largest].size()) largest = i;
  const auto rank = static_cast<double>(std::max<std::size_t>(from[largest].rank(), 1));
  const double scale =
      std::pow(static_cast<double>(elements) /
                   static_cast<double>(std::max<std::int64_t>(from[largest].size(), 1)),
               1 / rank);
  Ours made;
  for (const Tensor& x : from)
    made.push_back(scaled(x, std::max<std::int64_t>(1, std::llround(scale))));
  return made;
}

/// reel's time by LibTorch's, or why there is none.
std::string ratio(const Row& row, std::int64_t elements, double milliseconds) try {
  const Ours inputs = inputs_of(row, elements);
  const Theirs given = to_theirs(inputs);
  const bench::Comparison made = bench::compare(
      {{"LibTorch", [&] { return row.theirs(given); }}, {"reel", [&] { return row.ours(inputs); }}},
      {.batch_seconds = milliseconds * 1e-3, .warm_up_seconds = milliseconds * 2e-3});
  char text[100];
  std::snprintf(text, sizeof text, "%.2f\t%.0f", made.timings[1].ratio.median,
                made.timings[1].nanoseconds.median);
  return text;
} catch (const std::exception& error) {
  const std::string text = error.what();
  return "-\t" + text.substr(0, text.find('\n')).substr(0, 60);
}
}  // namespace

int main(int count, char** arguments) {
  const std::regex wanted(count > 1 ? arguments[1] : ".");
  const double milliseconds = count > 2 ? std::atof(arguments[2]) : 2;
  set_num_threads(1);
  at::set_num_threads(1);
  const c10::InferenceMode inference;
  std::printf("reel's time by LibTorch's, and reel's in ns\n%-44s\t16\t\t4096\t\t2^20\n", "row");
  for (const Row& row : all_rows()) {
    if (!std::regex_search(row.name, wanted) || row.name.find(", ") != std::string::npos) continue;
    std::printf("%-44s", row.name.c_str());
    for (const std::int64_t elements : {16, 4096, 1 << 20}) {
      std::printf("\t%s", ratio(row, elements, milliseconds).c_str());
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}
