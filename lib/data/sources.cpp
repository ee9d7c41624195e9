// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/sources.hpp>

#include <reel/ops.hpp>

#include "lib/body/text.hpp"

namespace reel::data {
namespace detail {
namespace {
struct RangeStage final : Stage<std::int64_t> {
  RangeStage(Notes own, std::int64_t first, std::int64_t count)
      : Stage(std::move(own)), begin(first), length(count) {}
  std::int64_t size() const override { return length; }
  void get(std::int64_t, std::span<const std::int64_t> positions,
           std::vector<std::int64_t>& out) const override {
    for (const std::int64_t position : positions) out.push_back(begin + position);
  }
  std::int64_t begin, length;
};
}  // namespace

std::int64_t common_length(const std::vector<Tensor>& arrays, Caller caller) {
  if (arrays.empty())
    fail<Error>(caller, "rows", "arrays", "at least one Tensor", "a struct without Tensors");
  for (const Tensor& array : arrays)
    if (array.rank() == 0 || array.shape()[0] != arrays[0].shape()[0])
      fail<ShapeError>(
          caller, "rows", "arrays", "first axes of one length",
          "the shapes " + to_text(arrays[0].shape()) + " and " + to_text(array.shape()));
  return arrays[0].shape()[0];
}
Tensor row_of(const Tensor& array, std::int64_t i) { return array(i); }
}  // namespace detail

Pipeline<std::int64_t> range(CountNumber begin, CountNumber end, Caller caller) {
  if (end < begin)
    fail<Error>(caller, "range", "end", "at least begin, " + std::to_string(begin.value),
                std::to_string(end.value));
  const std::string from = begin == 0 ? "" : std::to_string(begin.value) + ", ";
  return Pipeline<std::int64_t>(std::make_shared<detail::RangeStage>(
      detail::notes("range(" + from + std::to_string(end.value) + ")", caller), begin.value,
      end - begin));
}
Pipeline<std::int64_t> range(CountNumber end, Caller caller) { return range(0, end, caller); }
}  // namespace reel::data
