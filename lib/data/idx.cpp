// SPDX-License-Identifier: BSD-3-Clause
#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <vector>

#include <reel/data/images.hpp>

#include "lib/io/elements.hpp"

namespace reel::data {
namespace {
/// What a gzip file has compressed.
class Unzipped : public io::Bytes {
 public:
  explicit Unzipped(const io::Input& input) : input_(input) {
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Unzipped() override { ::inflateEnd(&stream_); }
  Unzipped(const Unzipped&) = delete;
  Unzipped& operator=(const Unzipped&) = delete;
  void read(void* to, std::size_t bytes) override {
    if (take(to, bytes) != bytes) input_.fail("a whole file", "the end of what gzip compressed");
  }
  /// The number of bytes that were there.
  std::size_t take(void* to, std::size_t bytes) {
    constexpr std::size_t most = 1 << 30;  // that zlib can count
    std::size_t all = 0;
    while (all < bytes && !ended_) {
      stream_.next_out = static_cast<Bytef*>(to) + all;
      const std::size_t part = std::min(bytes - all, most);
      stream_.avail_out = static_cast<uInt>(part);
      if (stream_.avail_in == 0) fill();
      const int result = ::inflate(&stream_, Z_NO_FLUSH);
      all += part - stream_.avail_out;
      ended_ = result == Z_STREAM_END;
      if (result == Z_MEM_ERROR) throw std::bad_alloc();
      if (result != Z_OK && !ended_) input_.fail("a whole file of gzip", "damaged bytes");
    }
    return all;
  }

 private:
  void fill() {
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(packed_.size(), input_.size() - at_));
    if (part == 0) input_.fail("a whole file of gzip", "the end of the file");
    input_.read(at_, packed_.data(), part);
    at_ += part;
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_in = static_cast<uInt>(part);
  }
  const io::Input& input_;
  z_stream stream_ = {};
  std::vector<char> packed_ = std::vector<char>(1 << 15);
  std::uint64_t at_ = 0;
  bool ended_ = false;
};

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
  if (start[0] == 0x1f && start[1] == 0x8b) {
    Unzipped bytes(input);
    x = read_array(bytes, size * io::most_ratio, input);
    char more = 0;
    if (bytes.take(&more, 1) != 0) input.fail("a file as long as its shape says", "a longer one");
  } else {
    io::InputBytes bytes(input);
    x = read_array(bytes, size, input);
    const auto head = 4 + 4 * static_cast<std::uint64_t>(x.rank());
    // The dtype of the tensor may be wider than that of the file.
    input.read(2, start, 1);
    if (size != head + static_cast<std::uint64_t>(x.size()) * dtype_of_code(start[0])->bytes)
      input.fail("a file as long as its shape says", "a longer one");
  }
  return on_current_device(x, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_idx");
}
}  // namespace reel::data
