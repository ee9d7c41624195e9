// SPDX-License-Identifier: BSD-3-Clause
// Builders of samples: the calls that tests and benches make of each op.
#pragma once
#include <vector>

#include "lib/table/op.hpp"

namespace reel {
using SampleList = std::vector<Sample>&;

/// Different numbers from low to high, the same in every run. With a grid they are rounded to
/// offset + k grid, so that they are not near the points between, where an op may have no
/// derivative.
struct Draw {
  double low = -2, high = 2;
  double grid = 0, offset = 0;
};
/// float64 numbers; another `seed` gives others.
Tensor drawn(const Shape& shape, Draw draw = {}, unsigned seed = 0);

enum class Layout { plain, transposed, reversed, repeated, stepped };
/// Random values in different layouts: axes reversed, the last axis reversed, the first axis
/// repeated (stride 0), and every other element of the last axis.
Tensor drawn(const Shape& shape, Layout layout, Draw draw = {}, unsigned seed = 0);

struct ShapeAndLayout {
  Shape shape;
  Layout layout = Layout::plain;
};
/// Shapes from 0-d to 3-d, empty and of size 1, in every layout: those of at least this rank.
std::vector<ShapeAndLayout> varied(std::size_t least_rank = 0);

/// f on every shape and layout.
using Unary = Tensor (*)(Operand);
using Binary = Tensor (*)(Operand, Operand);
void unary_samples(SampleList out, Unary f, Draw x = {});
/// f on pairs that are equal, broadcast, empty, of every layout, and with a C++ number.
void binary_samples(SampleList out, Binary f, Draw x = {}, Draw y = {});

/// Adds a call of f on these inputs.
void sample(SampleList out, std::vector<Tensor> inputs,
            detail::Function<Tensor(const std::vector<Tensor>&)> call, std::string note = {});
/// f on x of every shape and layout of at least this rank.
void samples_of(SampleList out, std::size_t least_rank,
                detail::Function<Tensor(const std::vector<Tensor>&)> call, Draw x = {},
                std::string note = {});
}  // namespace reel
