// SPDX-License-Identifier: BSD-3-Clause
// A library for tests/io/dlpack.py and tests/data/peers.py. It exports arrays to NumPy and PyTorch,
// and imports theirs and tables of pyarrow.
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <reel/dlpack.hpp>
#include <reel/reel.hpp>

namespace {
using namespace reel;

reel::Tensor& held() {
  static reel::Tensor one;
  return one;
}
Tensor numbers(const std::string& layout) {
  const Tensor x = arange(0, 6).reshape({2, 3});
  if (layout == "transposed") return transpose(x);
  if (layout == "reversed") return x(all, range({}, {}, -1));
  if (layout == "part") return x(range(1, 2), range({}, {}, 2));
  if (layout == "repeated") return broadcast_to(x(0), {2, 3});
  if (layout == "scalar") return x(1, 2);
  return layout == "empty" ? x(range(0, 0)) : x;
}
}  // namespace

extern "C" {
/// The address of an exported array.
REEL_API void* give(int dtype, const char* layout, bool versioned) {
  const Tensor x = numbers(layout).to(static_cast<DType>(dtype));
  if (versioned) return to_dlpack(x);
  return to_dlpack<dlpack::ManagedTensor>(x);
}
/// Keeps a tensor over an array. `text` gets its dtype, shape and values, or the message of an
/// error.
REEL_API bool take(void* array, bool versioned, char* text, std::size_t size) {
  std::string words;
  try {
    held() = versioned ? from_dlpack(static_cast<dlpack::ManagedTensorVersioned*>(array))
                       : from_dlpack(static_cast<dlpack::ManagedTensor*>(array));
    words = fmt::format("{} {} {}", held().dtype(), held().shape(), held());
  } catch (const Error& error) {
    words = error.what();
  }
  std::strncpy(text, words.c_str(), size - 1);
  return held().defined();
}
/// The address of the elements of the kept tensor.
REEL_API const void* address() {
  auto* const array = to_dlpack(held());
  const void* const first = array->dl_tensor.data;
  array->deleter(array);
  return first;
}
/// Reads a stream of Arrow. `text` gets the columns, one on each line, or the message of an error.
REEL_API void take_arrow(void* stream, bool nulls, char* text, std::size_t size) {
  std::string words;
  try {
    const data::Table table =
        data::read_arrow(static_cast<ArrowArrayStream*>(stream), {.nulls = nulls});
    for (const data::TableColumn& column : table.columns) {
      words += column.name + ":";
      for (const std::string& one : column.texts) words += " " + one;
      if (column.values.defined())
        for (const double one : column.values.to(DType::float64).to_vector<double>())
          words += fmt::format(" {}", one);
      if (nulls)
        for (const bool valid : column.valid.to_vector<bool>()) words += valid ? " +" : " -";
      words += '\n';
    }
  } catch (const Error& error) {
    words = error.what();
  }
  std::strncpy(text, words.c_str(), size - 1);
}
REEL_API void drop() { held() = Tensor(); }
REEL_API long live_tensors() { return memory_statistics().live_tensors; }
}
