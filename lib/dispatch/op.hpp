// SPDX-License-Identifier: BSD-3-Clause
// One entry for each op: all there is to know about it. Slots at the end are filled once by
// assemble().
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/op.hpp>

#include "lib/dispatch/kernel_call.hpp"
#include "lib/dispatch/options.hpp"
#include "lib/tensor/few.hpp"

namespace reel {
struct Op;
struct Context;
class GradientCall;  // autograd/gradient_call.hpp

/// What a shape rule sees; it makes the outputs, whose elements the kernel computes afterwards.
struct Inference {
  Context& context;
  const Op& op;
  Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller caller;
  Few<Tensor, 2>& outputs;
  bool computes = false;  // some output has memory of its own

  const Body& input(int i) const { return *inputs[i]; }
  const Body& made(int i) const;
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(options.data);
  }
  Body& output(DType dtype, const Shape& shape);
  /// An output that views input 0, as it is: shape, strides, elements and data are the rule's to
  /// change.
  Body& view();
};
using ShapeRule = void (*)(Inference&);

enum class Fusion : std::uint8_t { opaque, pointwise, reduction, layout };

/// How inputs come to one dtype: none as they are; numeric by promotion; floating likewise, and
/// integers become float32; exact without rounding any integer, for comparisons.
enum class Promote : std::uint8_t { none, numeric, floating, exact };

/// For the gradient of each input (the last entry counts for all that follow): which inputs (low
/// byte) and outputs (high byte) it needs. Only those are kept alive.
struct Needs {
  std::uint16_t of[4] = {};
};
constexpr std::uint16_t need_input(int i) { return static_cast<std::uint16_t>(1u << i); }
constexpr std::uint16_t need_output(int i = 0) { return static_cast<std::uint16_t>(256u << i); }

/// One call that tests and benches make: the public function on these inputs.
struct Sample {
  std::vector<Tensor> inputs;  // float64 where floating
  Function<Tensor(const std::vector<Tensor>&)> call;
  std::string note;
};
using Samples = void (*)(std::vector<Sample>&);

using GradientRule = void (*)(GradientCall&);
using CompositeRule = Tensors (*)(const OpCall&, void* state);

struct Op {
  std::string_view name;
  int arity = 1;  // -1: any number
  ShapeRule shape = nullptr;
  Promote promote = Promote::none;
  std::uint8_t promoted = 0xff;  // bit i: input i takes part
  const OptionsType* options = nullptr;
  Needs needs = {};
  Fusion fusion = Fusion::opaque;
  bool differentiable = true;
  std::uint8_t passes = 0;         // bit i: the gradient of input i is dy itself
  bool contiguous_inputs = false;  // the kernel wants row-major inputs
  bool accumulates = false;        // the kernel can add to its output
  bool updates = false;            // outputs are Variables, written in place
  bool moves = false;              // computes nothing: takes dtypes without arithmetic too
  Samples samples = nullptr;
  const char* argument_names = "x, y, z";  // for errors

  // Filled by assemble() and register_*().
  Kernel cpu = nullptr;
  Kernel cpu_gradient =
      nullptr;  // fused: inputs dy..., inputs..., outputs...; outputs dx... (null: not wanted)
  const Tiles* tiles = nullptr;
  const Tiles* straight = nullptr;  // the same, until a user registers another kernel
  GradientRule gradient = nullptr;
  bool fused_gradient = true;  // false once a user has registered another rule
  CompositeRule composite = nullptr;
  void* composite_state = nullptr;
};

/// The table. Names at the edges only; ops inside the library are named by their entry.
class OpTable {
 public:
  static OpTable& the();
  void add(Op& op);
  /// Null for an unknown name.
  Op* find(std::string_view name) const;
  std::vector<Op*> ops() const;

 private:
  std::vector<Op*> ops_;  // sorted by name, behind Lock::table
};

/// Fills every slot, once, and checks the table; throws Error for what is missing.
void assemble();
}  // namespace reel
