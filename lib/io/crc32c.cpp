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
constexpr std::size_t stream_bytes = 32;
/// What a byte of a sum, at each of its four places, becomes when stream_bytes zeros follow it.
constexpr std::array<std::array<std::uint32_t, 256>, 4> zeros = [] {
  std::array<std::uint32_t, 32> bits{};  // what each bit becomes
  for (std::size_t bit = 0; bit < bits.size(); ++bit) {
    std::uint32_t sum = 1u << bit;
    for (std::size_t i = 0; i < stream_bytes; ++i) sum = table[sum & 255] ^ sum >> 8;
    bits[bit] = sum;
  }
  std::array<std::array<std::uint32_t, 256>, 4> sums{};
  for (std::size_t place = 0; place < 4; ++place)
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      for (std::size_t bit = 0; bit < 8; ++bit)
        if (byte >> bit & 1) sums[place][byte] ^= bits[8 * place + bit];
  return sums;
}();
std::uint64_t with_zeros(std::uint64_t sum) {
  return zeros[0][sum & 255] ^ zeros[1][sum >> 8 & 255] ^ zeros[2][sum >> 16 & 255] ^
         zeros[3][sum >> 24 & 255];
}
__attribute__((target("sse4.2"))) inline std::uint64_t add(std::uint64_t sum, const char* at) {
  std::uint64_t bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  return __builtin_ia32_crc32di(sum, bytes);
}
/// With the processor's instruction, which SSE 4.2 has. It takes three cycles, and one can begin in
/// each cycle, so three streams run side by side.
__attribute__((target("sse4.2"))) std::uint32_t sum_of(const char* at, std::size_t count) {
  std::uint64_t sum = ~std::uint32_t{};
  for (; count >= 3 * stream_bytes; count -= 3 * stream_bytes, at += 3 * stream_bytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < stream_bytes; i += sizeof sum) {
      sum = add(sum, at + i);
      second = add(second, at + stream_bytes + i);
      third = add(third, at + 2 * stream_bytes + i);
    }
    sum = with_zeros(with_zeros(sum) ^ second) ^ third;
  }
  for (; count >= sizeof sum; count -= sizeof sum, at += sizeof sum) sum = add(sum, at);
  auto last = static_cast<std::uint32_t>(sum);
  if (count >= sizeof last) {
    std::uint32_t bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    last = __builtin_ia32_crc32si(last, bytes);
    count -= sizeof bytes, at += sizeof bytes;
  }
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
