// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstring>

#include "lib/io/wire.hpp"

namespace reel::io {
namespace {
constexpr std::array<std::uint32_t, 256> table = [] {
  std::array<std::uint32_t, 256> sums{};
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    sums[i] = i;
    for (int bit = 0; bit < 8; ++bit)
      sums[i] = sums[i] & 1 ? 0x82f63b78 ^ sums[i] >> 1 : sums[i] >> 1;
  }
  return sums;
}();
#ifdef __x86_64__
/// With the processor's instruction, which SSE 4.2 has.
__attribute__((target("sse4.2"))) std::uint32_t sum_of(const char* at, std::size_t count) {
  std::uint64_t sum = ~std::uint32_t{};
  for (; count >= sizeof sum; count -= sizeof sum, at += sizeof sum) {
    std::uint64_t bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    sum = __builtin_ia32_crc32di(sum, bytes);
  }
  auto last = static_cast<std::uint32_t>(sum);
  for (; count > 0; --count) last = __builtin_ia32_crc32qi(last, static_cast<unsigned char>(*at++));
  return ~last;
}
#endif
}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char byte : bytes)
    sum = table[(sum ^ static_cast<unsigned char>(byte)) & 255] ^ sum >> 8;
  return ~sum;
}
std::uint32_t crc32c(std::string_view bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return sum_of(bytes.data(), bytes.size());
#endif
  return crc32c_by_table(bytes);
}
}  // namespace reel::io
