// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/sources.hpp>

#include <reel/data/records.hpp>
#include <reel/data/text.hpp>
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

namespace {
/// "lines(a.txt and 2 more)"
std::string text_of(std::string op, const std::vector<std::string>& files) {
  if (files.empty()) return op + "(no files)";
  op += "(" + files[0].substr(files[0].rfind('/') + 1);
  if (files.size() > 1) op += " and " + std::to_string(files.size() - 1) + " more";
  return op + ")";
}
/// A stream of what open(files, place, caller) reads.
auto files_stream(const char* op, std::vector<std::string> files, auto open, Caller caller) {
  std::string text = text_of(op, files);
  return stream(
      std::move(text),
      [files = std::move(files), open, caller](Place place) { return open(files, place, caller); },
      caller);
}
}  // namespace

Pipeline<std::string> lines(std::vector<std::string> files, Caller caller) {
  return files_stream("lines", std::move(files), open_lines, caller);
}
Pipeline<std::string> tfrecords(std::vector<std::string> files, Caller caller) {
  return files_stream("tfrecords", std::move(files), open_tfrecords, caller);
}
Pipeline<Example> examples(std::vector<std::string> files, Caller caller) {
  return files_stream("examples", std::move(files), open_examples, caller);
}
Pipeline<CsvRow> csv(std::vector<std::string> files, CsvOptions options, Caller caller) {
  const auto open = [options](const std::vector<std::string>& names, Place place, Caller at) {
    return open_csv(names, options, place, at);
  };
  return files_stream("csv", std::move(files), open, caller);
}
Pipeline<JsonRecord> json_lines(std::vector<std::string> files, Caller caller) {
  return files_stream("json_lines", std::move(files), open_json_lines, caller);
}
Pipeline<Tree> trees(std::vector<std::string> files, Caller caller) {
  return files_stream("trees", std::move(files), open_trees, caller);
}
Pipeline<Sentence> conllu(std::vector<std::string> files, Caller caller) {
  return files_stream("conllu", std::move(files), open_conllu, caller);
}

Pipeline<std::int64_t> range(CountNumber begin, CountNumber end, Caller caller) {
  if (end < begin)
    fail<Error>(caller, "range", "end", "at least begin, " + std::to_string(begin.value),
                std::to_string(end.value));
  const std::string from = begin == 0 ? "" : std::to_string(begin.value) + ", ";
  return Pipeline<std::int64_t>(make_shared_of<detail::RangeStage>(
      detail::notes("range(" + from + std::to_string(end.value) + ")", caller), begin.value,
      end - begin));
}
Pipeline<std::int64_t> range(CountNumber end, Caller caller) { return range(0, end, caller); }
}  // namespace reel::data
