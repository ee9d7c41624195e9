// SPDX-License-Identifier: BSD-3-Clause
// Functions of the library beside those of LibTorch that compute the same.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/ops/samples.hpp"

namespace reel::tests::peers {
using Ours = std::vector<Tensor>;
using Theirs = std::vector<at::Tensor>;

/// One function in both libraries.
struct Row {
  std::string name;
  std::function<Ours(const Ours&)> ours;
  std::function<Theirs(const Theirs&)> theirs;
  std::vector<Ours> cases = {};  // inputs; float64 where floating
  /// One element of each input for each element of the result. Such a row is also called with
  /// special values.
  bool pointwise = false;
  int orders = 2;  // 0: no gradients; 1: LibTorch has no gradient of the gradient
  /// Of functions that take one input of any shape with at least so many axes: random programs call
  /// them. Inputs of programs are brought between `low` and `high` first.
  bool chained = false;
  std::size_t least_rank = 0;
  std::size_t inputs = 1;
  Draw draw = {};
};
using Rows = std::vector<Row>;

inline Ours listed(const Tensor& x) { return {x}; }
inline Ours listed(const Ours& x) { return x; }
inline Theirs listed(const at::Tensor& x) { return {x}; }
inline Theirs listed(const Theirs& x) { return x; }

// Expressions of the inputs x[0], x[1], ...: one of each library, or one that both understand.
#define REEL_PAIR(our_expression, their_expression)             \
  [](const Ours& x) -> Ours { return listed(our_expression); }, \
      [](const Theirs& x) -> Theirs { return listed(their_expression); }
#define REEL_BOTH(...)                                       \
  [](const Ours& x) -> Ours { return listed(__VA_ARGS__); }, \
      [](const Theirs& x) -> Theirs { return listed(__VA_ARGS__); }

/// A pointwise function of one or two floating inputs, of every shape and layout.
Row unary(std::string name, std::function<Ours(const Ours&)> ours,
          std::function<Theirs(const Theirs&)> theirs, Draw x = {});
Row binary(std::string name, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x = {}, Draw y = {});
/// A function of one floating input of every shape and layout with at least so many axes.
Row shaped(std::string name, std::size_t least_rank, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x = {});
/// shaped() without empty inputs.
Row filled(std::string name, std::size_t least_rank, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs, Draw x = {});
/// A function of these inputs. Positions, labels and lengths are int64 as LibTorch wants them.
Row called(std::string name, std::vector<Ours> cases, std::function<Ours(const Ours&)> ours,
           std::function<Theirs(const Theirs&)> theirs);
/// The row without gradients, or without second gradients.
Row constant(Row row);
Row once_differentiable(Row row);

void add_pointwise(Rows& rows);
void add_integers(Rows& rows);
void add_reductions(Rows& rows);
void add_layouts(Rows& rows);
void add_losses(Rows& rows);
void add_layers(Rows& rows);
void add_updates(Rows& rows);
void add_images(Rows& rows);
void add_linalg(Rows& rows);
Rows all_rows();
}  // namespace reel::tests::peers
