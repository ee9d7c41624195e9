// SPDX-License-Identifier: BSD-3-Clause
// Builds .safetensors files byte by byte.
#pragma once
#include <string>

namespace reel::tests {
inline std::string safetensors_bytes(const std::string& header, const std::string& elements) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i);
  return bytes + header + elements;
}
}  // namespace reel::tests
