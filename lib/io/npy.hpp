// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npy format, in a file of its own or in a member of a .npz file.
#pragma once
#include <cstdint>
#include <string>

#include "lib/io/elements.hpp"

namespace reel::io {
struct NpyHeader {
  const FileDType* dtype;
  bool big_endian, fortran;  // fortran: column by column
  Shape shape;
  std::string unread = {};  // if no Tensor can hold the array, the reason; then the rest is empty
};
/// Reads the header of a file of `size` bytes. Refuses a size that differs from the header's.
NpyHeader read_npy_header(Bytes& bytes, std::uint64_t size, const Input& input);
/// The whole array, on the host. `name` is for errors.
Tensor read_npy(Bytes& bytes, std::uint64_t size, const Input& input, std::string_view name = {});
/// The bytes before the elements of x. Throws DTypeError for bfloat16.
std::string npy_header(const Tensor& x, std::string_view op, Caller caller);
}  // namespace reel::io
