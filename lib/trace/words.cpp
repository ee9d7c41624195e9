// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/words.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace reel::tracing {
namespace {
/// Numbers that programs usually keep. Other bits are rarely a floating number.
bool is_usual(double x) { return x == 0 || (std::abs(x) > 1e-6 && std::abs(x) < 1e9); }
bool is_usual_float(std::uint64_t word) {
  return is_usual(double{std::bit_cast<float>(static_cast<std::uint32_t>(word))});
}

template <class T>
std::string text_of(T number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

/// If a change can be read in several ways, the shortest is the most likely: wrong types give long
/// numbers.
class Readings {
 public:
  template <class T>
  void add(T before, T now) {
    if constexpr (std::is_floating_point_v<T>)
      if (!is_usual(static_cast<double>(before)) || !is_usual(static_cast<double>(now))) return;
    const std::string text = "was " + text_of(before) + " and is " + text_of(now);
    if (best_.empty() || text.size() < best_.size()) best_ = text;
  }
  void add_half(std::uint64_t before, std::uint64_t now, bool maybe_float = true) {
    const auto was = static_cast<std::uint32_t>(before), is = static_cast<std::uint32_t>(now);
    add(std::bit_cast<std::int32_t>(was), std::bit_cast<std::int32_t>(is));
    if (maybe_float) add(std::bit_cast<float>(was), std::bit_cast<float>(is));
  }
  const std::string& best() const { return best_; }

 private:
  std::string best_;
};
}  // namespace

std::string change_text(std::uint64_t before, std::uint64_t now) {
  const std::uint64_t changed = before ^ now;
  Readings readings;
  if (!(changed >> 32)) {
    readings.add_half(before, now);
  } else {
    readings.add(std::bit_cast<std::int64_t>(before), std::bit_cast<std::int64_t>(now));
    if (!static_cast<std::uint32_t>(changed))
      // otherwise it is a double
      readings.add_half(before >> 32, now >> 32, static_cast<std::uint32_t>(now));
    else if (is_usual_float(before >> 32) && is_usual_float(now >> 32))  // two floats
      readings.add(std::bit_cast<float>(static_cast<std::uint32_t>(before)),
                   std::bit_cast<float>(static_cast<std::uint32_t>(now)));
  }
  readings.add(std::bit_cast<double>(before), std::bit_cast<double>(now));
  return readings.best();
}
}  // namespace reel::tracing
