// SPDX-License-Identifier: BSD-3-Clause
// One entry for each op: all there is to know about it. Slots at the end are filled once by
// assemble().
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/op.hpp>

#include "lib/body/small_vector.hpp"
#include "lib/formulas/functions.hpp"
#include "lib/table/kernel_call.hpp"
#include "lib/table/options.hpp"

namespace reel {
using detail::Op;
struct ThreadMemory;
class GradientCall;  // of autograd

/// What a shape rule sees; it makes the outputs, whose elements the kernel computes afterwards.
struct Inference {
  ThreadMemory& memory;
  const Op& op;
  Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller caller;
  SmallVector<Tensor, 2>& outputs;
  bool computes = false;  // some output has memory of its own
  Device device = {};     // where its memory is

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

/// What a pointwise op gives: the dtype that its inputs have come to, or truth values.
enum class ResultDType : std::uint8_t { of_inputs, boolean };

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
  detail::Function<Tensor(const std::vector<Tensor>&)> call;
  std::string note;
};
using Samples = void (*)(std::vector<Sample>&);

using GradientRule = void (*)(GradientCall&);
using CompositeRule = Tensors (*)(const OpCall&, void* state);

namespace detail {
struct Op {
  std::string_view name;
  int arity = 1;  // -1: any number
  ShapeRule shape = nullptr;
  Promote promote = Promote::none;
  std::uint8_t promoted = 0xff;                            // bit i: input i takes part
  formulas::Domain domain = formulas::Domain::everything;  // of what inputs have come to
  ResultDType result = ResultDType::of_inputs;
  const OptionsType* options = nullptr;
  Needs needs = {};
  Fusion fusion = Fusion::opaque;
  bool differentiable = true;
  std::uint8_t passes = 0;         // bit i: the gradient of input i is dy itself
  bool contiguous_inputs = false;  // the kernel wants row-major inputs
  bool accumulates = false;        // the kernel can add to its output
  bool updates = false;            // outputs are Variables, written in place
  bool replaces = false;           // an update that does not read what it writes
  bool moves = false;              // computes nothing: takes dtypes without arithmetic too
  bool internal = false;           // no user calls it by its name
  bool random = false;             // draws numbers, as its RandomOptions say
  bool needs_elements = false;     // refuses to reduce no elements
  std::uint8_t numbers = 0;        // of an update: so many numbers follow the gradients
  bool changes_device = false;     // from the input's to the one that its options name
  Samples samples = nullptr;
  const char* argument_names = "x, y, z";  // for errors

  // Filled by assemble() and register_*().
  Kernel cpu = nullptr;
  Kernel cpu_gradient =
      nullptr;  // fused: inputs dy..., inputs..., outputs...; outputs dx... (null: not wanted)
  const Tiles* tiles = nullptr;
  const Tiles* fast = nullptr;  // the same, until a user registers another kernel
  GradientRule gradient = nullptr;
  bool fused_gradient = true;  // false once a user has registered another rule
  CompositeRule composite = nullptr;
  void* composite_state = nullptr;

  DType result_dtype(DType inputs) const {
    return result == ResultDType::boolean ? DType::boolean : inputs;
  }
};
}  // namespace detail

/// The table. Names at the edges only; ops inside the library are named by their entry.
class OpTable {
 public:
  static OpTable& the();
  void add(Op& op);
  /// Null for an unknown name.
  Op* find(std::string_view name) const;
  std::vector<Op*> ops() const;
  /// The rule of ops whose gradient a user registers; set by assemble().
  GradientRule users_rule = nullptr;

 private:
  std::vector<Op*> ops_;  // sorted by name, behind Lock::table
};

/// Fills every slot, once, and checks the table; throws Error for what is missing.
void assemble();
/// The same for an op without a kernel; throws Error if it is in no list of its family.
void assemble_for(const Op& op, Caller caller);
}  // namespace reel
