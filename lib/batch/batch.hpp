// SPDX-License-Identifier: BSD-3-Clause
// Calls of ops that wait, and the tensors that stand for their results.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/batch/rules.hpp"
#include "lib/body/access.hpp"
#include "lib/flow/context.hpp"
#include "lib/flow/interceptor.hpp"

namespace reel::batch {
/// Headers without elements. The id of such a body names this maker and a number.
class StandIns {
 public:
  StandIns();
  bool made(const Body& body) const { return body.id.reel == uid_; }
  static std::uint32_t number_of(const Body& body) { return body.id.record; }
  static std::uint32_t output_of(const Body& body) { return body.id.output; }
  /// A header of this kind and shape.
  Tensor make(DType dtype, Device device, const Shape& shape, std::uint32_t number,
              std::uint32_t output);
  /// A header like another one.
  Tensor copy(const Tensor& like, std::uint32_t number, std::uint32_t output) const;
  /// What the op's shape rule gives for these operands, without elements.
  void infer(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             std::uint32_t number, SmallVector<Tensor, 2>& outputs);
  /// The header becomes a view of what `found` shows.
  static void show(Body& header, const Tensor& found);
  /// The header has elements of its own, NaN or zeros.
  static void clear(Body& header);

 private:
  Tensor nothing_;
  std::uint64_t uid_;
};

/// The kinds of operands, as inputs of waiting calls.
Input input_of(const Operand& x);
}  // namespace reel::batch
