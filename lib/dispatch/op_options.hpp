// SPDX-License-Identifier: BSD-3-Clause
// The options of the ops of this library: plain structs, readable in kernels of any instruction
// set.
#pragma once
#include <cstdint>

#include <reel/activation.hpp>
#include <reel/dtype.hpp>
#include <reel/shape.hpp>

namespace reel {
struct ReduceOptions {
  Axes axes = Axes::every();  // sorted, from 0; every() means all
  Keepdims keep = Keepdims::no;
  void fields(auto&& field) {
    field("axes", axes);
    field("keepdims", keep);
  }
  friend bool operator==(const ReduceOptions&, const ReduceOptions&) = default;
};
struct AxisOptions {
  std::int64_t axis = 0;  // from 0
  void fields(auto&& field) { field("axis", axis); }
  friend bool operator==(const AxisOptions&, const AxisOptions&) = default;
};
struct AxesOptions {
  Axes axes = Axes::every();
  void fields(auto&& field) { field("axes", axes); }
  friend bool operator==(const AxesOptions&, const AxesOptions&) = default;
};
struct ShapeOptions {
  Shape shape;
  void fields(auto&& field) { field("shape", shape); }
  friend bool operator==(const ShapeOptions&, const ShapeOptions&) = default;
};
struct DTypeOptions {
  DType dtype = DType::float32;
  void fields(auto&& field) { field("dtype", dtype); }
  friend bool operator==(const DTypeOptions&, const DTypeOptions&) = default;
};
/// A view by start, length and step along each axis of the input.
struct SliceOptions {
  Shape starts, lengths, steps;  // steps may be negative
  std::uint64_t dropped = 0;     // bit i: axis i, of length 1, is not in the result
  std::uint64_t added = 0;       // bit i: axis i of the result is a new one
  bool keeps_axes() const { return !(dropped | added); }
  void fields(auto&& field) {
    field("starts", starts);
    field("lengths", lengths);
    field("steps", steps);
    field("dropped", dropped);
    field("added", added);
  }
  friend bool operator==(const SliceOptions&, const SliceOptions&) = default;
};
/// The slice's place in a tensor of this shape; the slice keeps its axes.
struct UnsliceOptions {
  SliceOptions slice;
  Shape shape;
  void fields(auto&& field) {
    slice.fields(field);
    field("shape", shape);
  }
  friend bool operator==(const UnsliceOptions&, const UnsliceOptions&) = default;
};
/// Where a gradient of taken slices belongs: along an axis of a tensor of this shape.
struct UnTakeOptions {
  Shape shape;
  std::int64_t axis = 0;
  void fields(auto&& field) {
    field("shape", shape);
    field("axis", axis);
  }
  friend bool operator==(const UnTakeOptions&, const UnTakeOptions&) = default;
};
struct ActivationOptions {
  Activation activation = Activation::none;
  void fields(auto&& field) { field("activation", activation); }
  friend bool operator==(const ActivationOptions&, const ActivationOptions&) = default;
};
struct EpsilonOptions {
  double epsilon = 1e-5;
  void fields(auto&& field) { field("epsilon", epsilon); }
  friend bool operator==(const EpsilonOptions&, const EpsilonOptions&) = default;
};
struct DirectionOptions {
  bool reverse = false;
  void fields(auto&& field) { field("reverse", reverse); }
  friend bool operator==(const DirectionOptions&, const DirectionOptions&) = default;
};
struct OneHotOptions {
  std::int64_t depth = 0;
  DType dtype = DType::float32;
  void fields(auto&& field) {
    field("depth", depth);
    field("dtype", dtype);
  }
  friend bool operator==(const OneHotOptions&, const OneHotOptions&) = default;
};
/// Philox counters from `position` on, under the key `seed`.
struct RandomOptions {
  enum class Kind : std::int64_t { uniform, normal, integers, bernoulli, permutation };
  Kind kind = Kind::uniform;
  std::uint64_t seed = 0, position = 0;
  double a = 0, b = 1;             // low and high; mean and stddev; probability
  std::int64_t low = 0, high = 0;  // of integers
  DType dtype = DType::float32;
  Shape shape = {};
  /// How many numbers a block of four 32 bit words gives, and how many blocks so many numbers take.
  std::int64_t numbers_per_block() const {
    const bool words = kind == Kind::uniform || kind == Kind::normal ? dtype == DType::float32
                                                                     : kind == Kind::bernoulli;
    return words ? 4 : 2;
  }
  std::uint64_t blocks(std::int64_t numbers) const {
    const std::int64_t each = numbers_per_block();
    return static_cast<std::uint64_t>(numbers / each + (numbers % each != 0));
  }
  void fields(auto&& field) {
    field("kind", kind);
    field("seed", seed);
    field("position", position);
    field("a", a);
    field("b", b);
    field("low", low);
    field("high", high);
    field("dtype", dtype);
    field("shape", shape);
  }
  friend bool operator==(const RandomOptions&, const RandomOptions&) = default;
};
struct FillOptions {
  enum class Kind : std::int64_t { constant, range, identity };
  Kind kind = Kind::constant;
  double start = 0, step = 0;          // floating results
  std::int64_t first = 0, stride = 0;  // integer results
  DType dtype = DType::float32;
  Shape shape = {};
  void fields(auto&& field) {
    field("kind", kind);
    field("start", start);
    field("step", step);
    field("first", first);
    field("stride", stride);
    field("dtype", dtype);
    field("shape", shape);
  }
  friend bool operator==(const FillOptions&, const FillOptions&) = default;
};
}  // namespace reel
