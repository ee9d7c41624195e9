// SPDX-License-Identifier: BSD-3-Clause
// Text of tensors and of small types, in NumPy's layout. All numbers of a tensor have the same
// number of digits after the point, at most four. Columns are aligned, and lines have at most 75
// columns.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <ostream>

#include <reel/format.hpp>

#include "lib/body/dtypes.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/devices.hpp"

namespace reel {
namespace {
constexpr std::int64_t summarised_above = 1000;
constexpr std::int64_t edge = 3;  // what a summary shows of each end of an axis
constexpr std::size_t line_width = 75;
constexpr double fixed_below = 1e8, fixed_from = 1e-4, fixed_range = 1000;

/// The nearest number that a floating dtype holds.
double rounded_to(DType dtype, double x) {
  return with_element(dtype,
                      [&]<class T>(Type<T>) { return static_cast<double>(static_cast<T>(x)); });
}
/// The shortest decimal that names the element; NaN without a sign.
double number_at(const Body& x, std::int64_t i) {
  const double value =
      with_element(x.dtype, [&]<class T>(Type<T>) { return static_cast<double>(x.as<T>()[i]); });
  if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
  if (x.dtype == DType::float64 || std::isinf(value)) return value;
  for (int digits = 1; x.dtype != DType::float32; ++digits) {
    const double shorter = std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
    if (rounded_to(x.dtype, shorter) == value) return shorter;
  }
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

/// Digits after the point, without trailing zeros.
std::size_t digits_behind_point(const std::string& number) {
  const std::size_t point = number.find('.');
  std::size_t last = std::min(number.find('e'), number.size());
  while (number[last - 1] == '0') --last;
  return last - point - 1;
}

/// How all floating numbers of a tensor are written.
std::string number_format(const Body& x, const std::vector<std::int64_t>& shown) {
  double largest = 0, smallest = fixed_below;
  bool whole = true;
  std::size_t fixed_digits = 0, digits = 0;
  for (std::int64_t i : shown) {
    const double value = std::abs(number_at(x, i));
    if (!std::isfinite(value)) continue;
    whole = whole && value == std::trunc(value);
    largest = std::max(largest, value);
    if (value > 0) smallest = std::min(smallest, value);
    fixed_digits = std::max(fixed_digits, digits_behind_point(fmt::format("{:.4f}", value)));
    digits = std::max(digits, digits_behind_point(fmt::format("{:.4e}", value)));
  }
  const bool wide = !whole && largest > fixed_range * smallest;
  // The point is written even if no digits follow, to distinguish floating numbers from integers.
  if (largest >= fixed_below || smallest < fixed_from || wide) return fmt::format("#.{}e", digits);
  return fixed_digits == 0 && x.rank() == 0 ? ".1f" : fmt::format("#.{}f", fixed_digits);
}

/// `format` is the text after the colon in fmt's braces.
template <class T>
std::string formatted(std::string_view format, const T& value, std::string_view what,
                      Caller caller) {
  try {
    return fmt::format(fmt::runtime(fmt::format("{{:{}}}", format)), value);
  } catch (const fmt::format_error& error) {
    fail<Error>(caller, "to_string", "format", fmt::format("a format for {}", what),
                fmt::format("\"{}\"", format), error.what());
  }
}

/// A tensor written out: which elements are shown, and how.
class Writer {
 public:
  Writer(const Body& x, std::string_view format, std::size_t indent, Caller caller)
      : x_(x),
        caller_(caller),
        summary_(x.elements > summarised_above),
        indent_(indent),
        format_(format) {
    if (x.elements == 0) {
      out_ = "[]";
      return;
    }
    collect(0, 0);
    if (format.empty() && is_floating(x.dtype)) format_ = number_format(x, shown_);
    for (std::int64_t i : shown_) {
      texts_.push_back(text(i));
      width_ = std::max(width_, texts_.back().size());
    }
    write(0);
  }
  std::string result() && { return std::move(out_); }

 private:
  std::string text(std::int64_t i) const {
    const auto written = [this](auto value) {
      return formatted(format_, value, name_of(x_.dtype), caller_);
    };
    return with_element(x_.dtype, [&]<class T>(Type<T>) {
      if constexpr (std::is_integral_v<T>)
        return written(x_.as<T>()[i]);
      else
        return written(number_at(x_, i));
    });
  }

  /// f(position) for each shown position along an axis, f(-1) for what a summary leaves out.
  template <class F>
  void each_shown(int axis, F f) const {
    const std::int64_t length = x_.shape.data()[axis];
    for (std::int64_t i = 0; i < length; ++i) {
      if (summary_ && length > 2 * edge && i == edge) {
        f(-1);
        i = length - edge;
      }
      f(i);
    }
  }
  void collect(int axis, std::int64_t place) {
    if (axis == x_.rank()) return shown_.push_back(place);
    each_shown(axis, [&](std::int64_t i) {
      if (i >= 0) collect(axis + 1, place + i * x_.strides[axis]);
    });
  }

  void write(int axis) {
    if (x_.rank() == 0) {
      out_ += texts_[0];
      return;
    }
    out_ += '[';
    if (axis + 1 == x_.rank()) {
      write_row();
    } else {
      const auto lines = static_cast<std::size_t>(x_.rank() - axis - 1);
      const std::string between = "," + std::string(lines, '\n') +
                                  std::string(indent_ + static_cast<std::size_t>(axis) + 1, ' ');
      each_shown(axis, [&](std::int64_t i) {
        if (i) out_ += between;
        if (i < 0)
          out_ += "...";
        else
          write(axis + 1);
      });
    }
    out_ += ']';
  }
  void write_row() {
    const auto rank = static_cast<std::size_t>(x_.rank());
    const std::size_t start = indent_ + rank;
    std::size_t column = start;
    each_shown(x_.rank() - 1, [&](std::int64_t i) {
      if (i) {
        out_ += ", ";
        column += 2;
      }
      const std::string word = i < 0 ? "..." : fmt::format("{:>{}}", texts_[next_++], width_);
      if (column > start && column + word.size() > line_width - rank) {
        out_.back() = '\n';
        out_.append(start, ' ');
        column = start;
      }
      out_ += word;
      column += word.size();
    });
  }

  const Body& x_;
  Caller caller_;
  bool summary_;
  std::size_t indent_;  // of the lines after the first
  std::string format_, out_;
  std::vector<std::int64_t> shown_;
  std::vector<std::string> texts_;
  std::size_t width_ = 0, next_ = 0;
};
}  // namespace

std::string to_string(const Tensor& x, std::string_view format, Caller caller) try {
  if (!x.defined()) return "undefined";
  tell_host_read(x, HostRead::values);
  return Writer(*Access::body(on_host(x)), format, 0, caller).result();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_string");
}
std::string to_string(const Variable& x, std::string_view format, Caller caller) try {
  const std::string head = fmt::format("Variable(\"{}\", {} {}, ", x.name(), name_of(x.dtype()),
                                       std::string(to_text(x.shape())));
  const Tensor& value = read_variable(Context::here(), x);
  tell_host_read(value, HostRead::values);
  const Tensor host = on_host(value);
  return head + Writer(*Access::body(host), format, head.size(), caller).result() + ")";
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_string");
}
namespace {
std::string formatted(std::string_view format, const Text& text, Caller caller) try {
  return formatted(format, std::string(text), "a text", caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_string");
}
}  // namespace
std::string to_string(const Shape& x, std::string_view format, Caller caller) {
  return formatted(format, to_text(x), caller);
}
std::string to_string(DType x, std::string_view format, Caller caller) {
  return formatted(format, name_of(x), caller);
}
std::string to_string(Device x, std::string_view format, Caller caller) {
  return formatted(format, to_text(x), caller);
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, const Variable& x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, DType x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, Device x) { return out << to_string(x); }
std::ostream& operator<<(std::ostream& out, const Shape& x) { return out << to_string(x); }
}  // namespace reel
