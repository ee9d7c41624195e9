// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npy format, in a file of its own or in a member of a .npz file.
#pragma once
#include <cstdint>
#include <string>

#include "lib/io/elements.hpp"

namespace reel::io {
/// Bytes from front to back.
class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual void read(void* to, std::size_t bytes) = 0;
};

struct NpyHeader {
  DType dtype;
  bool fortran;  // column by column
  Shape shape;
  std::string unread = {};  // if no Tensor can hold the array, the reason; then the rest is empty
};
/// Reads the header of a file of `size` bytes. Refuses a size that differs from the header's.
NpyHeader read_npy_header(Bytes& bytes, std::uint64_t size, const Input& input);
/// The whole array, on the host.
Tensor read_npy(Bytes& bytes, std::uint64_t size, const Input& input);
/// The bytes before the elements of x. Throws DTypeError for bfloat16.
std::string npy_header(const Tensor& x, std::string_view op, Caller caller);
}  // namespace reel::io
