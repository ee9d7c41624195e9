// SPDX-License-Identifier: BSD-3-Clause
// Inputs of kernels that copy what they read.
#pragma once
#include <cstring>
#include <type_traits>

#include "lib/body/body.hpp"
#include "lib/cpu/half.hpp"

namespace reel::kernels::REEL_ISA {
/// Elements of T in memory; if T is float, also elements of 16 bits, which are widened when they
/// are copied.
template <class T>
class Source {
 public:
  Source() = default;
  explicit Source(const Body& x)
      : data_(x.data),
        how_(x.dtype == DType::float16    ? pass_float16
             : x.dtype == DType::bfloat16 ? pass_bfloat16
                                          : 0) {}
  explicit operator bool() const { return data_; }
  bool operator==(const Source&) const = default;
  Source operator+(std::int64_t n) const {
    Source moved = *this;
    moved.data_ += n * bytes();
    return moved;
  }
  bool is_half() const { return std::is_same_v<T, float> && how_; }
  /// The elements where they are; not for 16 bits.
  const T* in_place() const { return reinterpret_cast<const T*>(data_); }
  void copy(T* to, std::int64_t n) const {
    if constexpr (std::is_same_v<T, float>)
      if (how_) return widen(reinterpret_cast<const std::uint16_t*>(data_), to, n, how_);
    std::memcpy(to, data_, static_cast<std::size_t>(n) * sizeof(T));
  }
  /// n elements where they are; of 16 bits, widened in `memory`.
  const T* read(std::int64_t n, T* memory) const {
    if (!is_half()) return in_place();
    copy(memory, n);
    return memory;
  }
  T operator[](std::int64_t i) const {
    if constexpr (std::is_same_v<T, float>)
      if (how_) {
        const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(data_)[i];
        return how_ & pass_bfloat16 ? half::from_bfloat16(bits) : half::from_float16(bits);
      }
    return in_place()[i];
  }

 private:
  std::int64_t bytes() const { return is_half() ? 2 : static_cast<std::int64_t>(sizeof(T)); }
  const std::byte* data_ = nullptr;
  unsigned how_ = 0;
};
}  // namespace reel::kernels::REEL_ISA
