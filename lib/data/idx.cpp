// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <new>
#include <optional>
#include <vector>

#include <reel/data/images.hpp>

#include "lib/data/unzipped.hpp"

namespace reel::data {
namespace {
const io::FileDType* dtype_of_code(unsigned char code) {
  constexpr std::string_view names[] = {"uint8", "int8",    "",       "int16",
                                        "int32", "float32", "float64"};
  return code < 8 || code > 14 ? nullptr : io::file_dtype(names[code - 8]);
}

Tensor read_array(io::Bytes& bytes, std::uint64_t most_bytes, const io::Input& input) {
  std::array<unsigned char, 4> start{};
  bytes.read(start.data(), start.size());
  const io::FileDType* const type = dtype_of_code(start[2]);
  if (start[0] != 0 || start[1] != 0 || !type || start[3] > Shape::max_rank)
    input.fail("the format IDX with at most 8 axes", "something else");
  std::vector<std::int64_t> lengths(start[3]);
  for (std::int64_t& length : lengths) {
    std::array<unsigned char, 4> big{};
    bytes.read(big.data(), big.size());
    for (const unsigned char byte : big) length = length << 8 | byte;
  }
  const std::optional<std::uint64_t> size = io::bytes_of(lengths, type->bytes);
  if (!size || *size > most_bytes) input.fail("a whole file", "a shape of more bytes than it has");
  return io::read_elements(bytes, *type, true, Shape(lengths, input.caller()), input, "");
}
}  // namespace

Tensor read_idx(const std::string& path, Caller caller) try {
  const io::Input input(path, "read_idx", caller);
  unsigned char start[2] = {};
  if (input.size() >= 2) input.read(0, start, 2);
  const std::uint64_t size = input.size();
  Tensor x;
  if (start[0] == gzip_mark[0] && start[1] == gzip_mark[1]) {
    Unzipped bytes(input);
    x = read_array(bytes, size * io::most_ratio, input);
    char more = 0;
    if (bytes.take(&more, 1) != 0) input.fail("a file as long as its shape says", "a longer one");
  } else {
    io::InputBytes bytes(input);
    x = read_array(bytes, size, input);
    const auto head = 4 + 4 * static_cast<std::uint64_t>(x.rank());
    if (size != head + static_cast<std::uint64_t>(x.size() * size_of(x.dtype())))
      input.fail("a file as long as its shape says", "a longer one");
  }
  return on_current_device(x, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_idx");
}
}  // namespace reel::data
