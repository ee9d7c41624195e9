// SPDX-License-Identifier: BSD-3-Clause
// Options of reductions.
#pragma once
#include <reel/shape.hpp>

namespace reel {
struct ReduceOptions {
  Axes axes = Axes::every();  // sorted, from 0; every() means all
  Keepdims keep = Keepdims::no;
  void fields(auto&& field) {
    field("axes", axes);
    field("keepdims", keep);
  }
};
}  // namespace reel
