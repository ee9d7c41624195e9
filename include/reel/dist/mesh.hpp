// SPDX-License-Identifier: BSD-3-Clause
// Layers that are divided between ranks, and grids of ranks (Shoeybi et al. 2019).
#pragma once  // defined in lib/dist
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/dist/world.hpp>
#include <reel/nn/layers.hpp>

namespace reel::dist {
/// An axis of a Mesh.
struct MeshAxis {
  std::string name;
  std::int64_t size;
};
/// Options of a Mesh.
struct MeshOptions {
  std::vector<MeshAxis> axes;
};

/// The ranks of a World as a grid, the last axis changing first: with axes of 2 and 3 ranks, rank 4
/// is at (1, 1). All ranks make it. Each axis gives a World of the ranks that differ in this axis
/// only. A DataParallel along an axis knows the other axes: the ranks along them have parts of one
/// model, decide together in .clip_norm and .scaler, and save their parts beside each other.
///
///     dist::Mesh mesh(world, {.axes = {{"batch", 2}, {"hidden", 2}}});
///     dist::SplitLinears mlp(mesh.axis("hidden"), first, second);
///     dist::DataParallel replicas(mesh.axis("batch"), adam);
///
/// Throws Error unless the names differ, and the product of the sizes is the number of ranks.
class REEL_API Mesh {
 public:
  explicit Mesh(const World& world, MeshOptions options, Caller caller = Caller::here());
  /// The ranks along an axis. This rank's place is rank(). Throws Error for another name.
  const World& axis(std::string_view name, Caller caller = Caller::here()) const;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<World> worlds_;
};

/// x, on all ranks of an axis that then compute different parts from it: the gradient is the sum of
/// theirs. The result has the shape and dtype of x.
REEL_API Tensor copy_to_parts(Operand x, const World& axis);
/// The sum of the parts of all ranks of an axis, which then compute the same from it: the gradient
/// of a part is that of the sum. The result has the shape and dtype of x.
REEL_API Tensor sum_of_parts(Operand part, const World& axis);

/// The part of a Variable that this rank of an axis has: an equal share of the Variable's axis
/// number `along`, as a new Variable. All ranks pass the same Variable. For layers of your own:
/// DataParallel, io::save() and io::Checkpoints know what is a part. Throws ShapeError unless the
/// ranks divide the axis.
/// `part_of(weight, mesh.axis("hidden"), 1)` has columns.
REEL_API Variable part_of(const Variable& whole, const World& axis, int along = 0,
                          Caller caller = Caller::here());

/// second(first(x)), of which each rank of an axis computes a part of the numbers in between. A
/// rank has these columns of the first weight, of its bias, and these rows of the second weight;
/// one sum between ranks joins the results. All ranks pass the same two layers, such as new ones
/// after seed(). The layers passed stay whole. Throws ShapeError unless they fit and the ranks
/// divide the numbers in between, and Error if the second one has an activation.
struct REEL_API SplitLinears {
  nn::Linear first, second;
  World axis;
  SplitLinears(const World& along, const nn::Linear& first_layer, const nn::Linear& second_layer,
               Caller caller = Caller::here());
  /// x [..., in] gives [..., out], on all ranks. x and the weights come to one floating dtype,
  /// which the result has.
  Tensor operator()(Operand x) const;
  void fields(auto&& field) {
    field("first", first);
    field("second", second);
  }
};

/// An Embedding whose words are divided between the ranks of an axis. All ranks pass the same
/// layer. Throws ShapeError unless the ranks divide the words, and Error for a sparse Embedding.
struct REEL_API SplitEmbedding {
  nn::Embedding part;
  World axis;
  SplitEmbedding(const World& along, const nn::Embedding& layer, Caller caller = Caller::here());
  /// words [...] gives [..., width], on all ranks, as nn::Embedding does. The result has the dtype
  /// of the table.
  Tensor operator()(Operand words) const;
  void fields(auto&& field) { field("part", part); }
};
}  // namespace reel::dist
