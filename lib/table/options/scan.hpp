// SPDX-License-Identifier: BSD-3-Clause
// Options of scans, of sorting and of searching.
#pragma once
#include <cstdint>

namespace reel {
struct AxisScanOptions {
  std::int64_t axis = 0;  // from 0
  bool reverse = false;
  void fields(auto&& field) {
    field("axis", axis);
    field("reverse", reverse);
  }
};
struct AxisSortOptions {
  std::int64_t axis = 0;  // from 0
  bool descending = false;
  std::int64_t first = 0, count = -1;  // the ranks that the output has; -1: all
  std::int64_t ranks(std::int64_t length) const { return count < 0 ? length : count; }
  void fields(auto&& field) {
    field("axis", axis);
    field("descending", descending);
    field("first", first);
    field("count", count);
  }
};
struct HistogramOptions {
  std::int64_t bins = 1;
  double low = 0, high = 1;
  void fields(auto&& field) {
    field("bins", bins);
    field("low", low);
    field("high", high);
  }
};
struct SearchSortedOptions {
  bool right = false;
  void fields(auto&& field) { field("right", right); }
};
}  // namespace reel
