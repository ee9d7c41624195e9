// SPDX-License-Identifier: BSD-3-Clause
// Builds files of NumPy byte by byte, as numpy/lib/format.py describes them.
#pragma once
#include <string>

namespace reel::tests {
inline std::string dictionary(const std::string& type, const std::string& order,
                              const std::string& shape) {
  return "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + "}";
}
inline std::string npy_bytes(int version, const std::string& header, const std::string& elements) {
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0'};
  const int length_bytes = version > 1 ? 4 : 2;
  for (int i = 0; i < length_bytes; ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + elements;
}
}  // namespace reel::tests
