// SPDX-License-Identifier: BSD-3-Clause
// Text of tensors and the small types: NumPy's layout, with as many digits in every number as the
// one that needs most, up to four behind the point.
#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include <reel/format.hpp>

#include "lib/dispatch/gate.hpp"
#include "lib/dispatch/pointwise.hpp"

namespace reel {
namespace {
constexpr std::int64_t summarised_above = 1000;
constexpr std::int64_t edge = 3;  // what a summary shows of each end of an axis
constexpr int most_digits = 4;
constexpr double fixed_below = 1e8, fixed_from = 1e-4;

double number_at(const Body& x, std::int64_t i) {
  return x.dtype == DType::float32 ? static_cast<double>(x.as<float>()[i]) : x.as<double>()[i];
}

int digits_needed(double value) {
  for (int digits = 0; digits < most_digits; ++digits) {
    const double scaled = value * std::pow(10.0, digits);
    if (std::abs(scaled - std::round(scaled)) < 0.5 * std::pow(10.0, digits - most_digits))
      return digits;
  }
  return most_digits;
}

/// How all floating numbers of a tensor are written.
std::string number_format(const Body& x, const std::vector<std::int64_t>& shown) {
  double largest = 0, smallest = fixed_below;
  int digits = 0;
  for (std::int64_t i : shown) {
    const double value = std::abs(number_at(x, i));
    if (!std::isfinite(value)) continue;
    largest = std::max(largest, value);
    if (value > 0) smallest = std::min(smallest, value);
    digits = std::max(digits, digits_needed(value));
  }
  if (largest >= fixed_below || smallest < fixed_from) return fmt::format("{{:.{}e}}", most_digits);
  return fmt::format("{{:.{}f}}", digits);
}

/// A tensor written out: which elements are shown, and how.
class Writer {
 public:
  Writer(const Body& x, std::string_view format) : x_(x), summary_(x.elements > summarised_above) {
    collect(0, 0);
    if (!format.empty())
      format_ = fmt::format("{{:{}}}", format);
    else if (is_floating(x.dtype))
      format_ = number_format(x, shown_);
    for (std::int64_t i : shown_) {
      texts_.push_back(text(i));
      width_ = std::max(width_, texts_.back().size());
    }
    write(0);
  }
  std::string result() && { return std::move(out_); }

 private:
  std::string text(std::int64_t i) const {
    try {
      switch (x_.dtype) {
        case DType::boolean:
          return *(x_.as<std::uint8_t>() + i) ? "true" : "false";
        case DType::uint8:
          return format_.empty() ? fmt::format("{}", x_.as<std::uint8_t>()[i])
                                 : fmt::format(fmt::runtime(format_), x_.as<std::uint8_t>()[i]);
        case DType::int32:
          return format_.empty() ? fmt::format("{}", x_.as<std::int32_t>()[i])
                                 : fmt::format(fmt::runtime(format_), x_.as<std::int32_t>()[i]);
        case DType::int64:
          return format_.empty() ? fmt::format("{}", x_.as<std::int64_t>()[i])
                                 : fmt::format(fmt::runtime(format_), x_.as<std::int64_t>()[i]);
        default:
          return fmt::format(fmt::runtime(format_), number_at(x_, i));
      }
    } catch (const fmt::format_error& error) {
      fail<Error>({}, "format", "format", "a format for " + std::string(name_of(x_.dtype)), format_,
                  error.what());
    }
  }
  bool skipped(std::int64_t i, std::int64_t length) const {
    return summary_ && length > 2 * edge && i >= edge && i < length - edge;
  }
  void collect(int axis, std::int64_t first) {
    if (axis == x_.rank()) {
      shown_.push_back(first);
      return;
    }
    for (std::int64_t i = 0; i < x_.shape.data()[axis]; ++i)
      if (!skipped(i, x_.shape.data()[axis])) collect(axis + 1, first + i * x_.strides[axis]);
  }
  void write(int axis) {
    if (axis == x_.rank()) {
      const std::string& number = texts_[next_++];
      if (x_.rank()) out_.append(width_ - number.size(), ' ');
      out_ += number;
      return;
    }
    const std::int64_t length = x_.shape.data()[axis];
    const bool last = axis + 1 == x_.rank();
    const std::string between =
        last ? ", "
             : "," + std::string(static_cast<std::size_t>(x_.rank() - axis - 1), '\n') +
                   std::string(static_cast<std::size_t>(axis) + 1, ' ');
    out_ += '[';
    for (std::int64_t i = 0; i < length; ++i) {
      if (skipped(i, length)) {
        out_.append(between).append("...");
        i = length - edge - 1;
        continue;
      }
      if (i) out_ += between;
      write(axis + 1);
    }
    out_ += ']';
  }

  const Body& x_;
  bool summary_;
  std::string format_, out_;
  std::vector<std::int64_t> shown_;
  std::vector<std::string> texts_;
  std::size_t width_ = 0, next_ = 0;
};
}  // namespace

std::string to_string(const Tensor& x, std::string_view format) {
  if (!x.defined()) return "undefined";
  const Body& body = *Access::body(x);
  if (body.contiguous) return Writer(body, format).result();
  const Tensor copy = contiguous_copy(body);
  return Writer(*Access::body(copy), format).result();
}
std::string to_string(const Variable& x, std::string_view format) {
  return fmt::format("Variable(\"{}\", {} {}, {})", x.name(), name_of(x.dtype()),
                     to_text(x.shape()), to_string(Access::cell(x).value, format));
}
std::string to_string(const Shape& x, std::string_view) { return to_text(x); }
std::string to_string(DType x, std::string_view) { return std::string(name_of(x)); }
std::string to_string(Device x, std::string_view) {
  return x.kind == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", x.index);
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, const Variable& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, const Shape& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, DType x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, Device x) { return out << to_string(x); }
}  // namespace reel
