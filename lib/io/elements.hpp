// SPDX-License-Identifier: BSD-3-Clause
// Elements of tensors that are read from files and written to them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <reel/tensor.hpp>

#include "lib/io/input.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::io {
/// A dtype that files have, and the one in which its elements are read: itself if it is one of
/// ours, else the narrowest of ours with all its values. Values of uint64 above 2^63 - 1 are
/// refused.
struct FileDType {
  std::string_view name;  // "uint16"
  std::uint8_t bytes;     // of an element in the file
  DType dtype;
  /// The name, if it is no dtype of ours.
  std::string_view foreign() const { return name == name_of(dtype) ? "" : name; }
};
/// Null if no dtype of ours has all values of this one.
const FileDType* file_dtype(std::string_view name);

/// A deflated byte can become so many bytes. No tensor of a file is larger than the file times
/// this.
constexpr std::uint64_t most_ratio = 1032;

/// The number of bytes for these lengths; none if it exceeds 2^58. A length of 0 is left out of
/// this product, because strides are products of the other lengths.
std::optional<std::uint64_t> bytes_of(std::span<const std::int64_t> lengths,
                                      std::int64_t element_bytes);

/// Bytes from front to back.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual void read(void* to, std::size_t bytes) = 0;
};
/// The bytes of a file from `at` on.
class InputBytes : public Bytes {
 public:
  explicit InputBytes(const Input& input, std::uint64_t at = 0) : input_(input), at_(at) {}
  void read(void* to, std::size_t bytes) override {
    input_.read(at_, to, bytes);
    at_ += bytes;
  }

 private:
  const Input& input_;
  std::uint64_t at_;
};

/// Reads the elements of a shape in row-major order. `name` is that of the tensor, for errors.
/// Throws MemoryError if there is no memory.
Tensor read_elements(Bytes& bytes, const FileDType& type, bool big_endian, const Shape& shape,
                     const Input& input, std::string_view name);

/// A tensor's elements in row-major order on the host, while it lives.
class HostElements {
 public:
  HostElements(const Tensor& x, Caller caller);
  const void* data() const { return first_; }
  std::size_t bytes() const;
  std::string_view text() const { return {static_cast<const char*>(first_), bytes()}; }

 private:
  const void* first_ = nullptr;
  Tensor host_;
};
}  // namespace reel::io
