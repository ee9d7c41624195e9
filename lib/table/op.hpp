// SPDX-License-Identifier: BSD-3-Clause
// The entry of an op, which holds everything about it. assemble() fills the slots at its end once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/op.hpp>

#include "lib/body/small_vector.hpp"
#include "lib/formulas/functions.hpp"
#include "lib/memory/device_memory.hpp"
#include "lib/table/kernel_call.hpp"
#include "lib/table/options.hpp"

namespace reel {
using detail::Op;
struct ThreadMemory;
class GradientCall;  // of autograd

/// The arguments of a shape rule. The rule makes the outputs; the kernel computes their elements
/// afterwards.
struct Inference {
  ThreadMemory& memory;
  const Op& op;
  Body* const* inputs;
  int input_count;
  OptionsView options;
  Caller caller;
  SmallVector<Tensor, 2>& outputs;
  bool computes = false;     // some output has memory of its own
  Device device = {};        // where its memory is
  Body* stand_in = nullptr;  // outputs have no elements yet: they are headers over this body

  const Body& input(int i) const { return *inputs[i]; }
  const Body& made(int i) const;
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(options.data);
  }
  Body& output(DType dtype, const Shape& shape);
  /// An output that is a view of all of input 0. The rule then changes shape, strides, elements and
  /// data.
  Body& view();
};
using ShapeRule = void (*)(Inference&);
/// What is wrong in the options of a call, where the op's public function checks it and the shape
/// rule relies on that: "an axis that its input does not have". Null if nothing is.
using OptionsCheck = const char* (*)(const Inference&);

enum class Fusion : std::uint8_t { opaque, pointwise, reduction, layout };

/// How the inputs are converted to one dtype. none: not at all. numeric: by promotion. floating: by
/// promotion, and integers become float32. exact: without rounding an integer, for comparisons.
enum class Promote : std::uint8_t { none, numeric, floating, exact };

/// What an AutocastScope does with the promoted inputs of an op. low: float32 becomes its 16-bit
/// dtype. full: 16 bits become float32.
enum class Autocast : std::uint8_t { as_given, low, full };

/// The dtype of the result of a pointwise op: that of its converted inputs, or bool.
enum class ResultDType : std::uint8_t { of_inputs, boolean };

/// For the gradient of each input (the last entry counts for all that follow): which inputs (low
/// byte) and outputs (high byte) it needs. Only those are kept alive.
struct Needs {
  std::uint16_t of[4] = {};
};
constexpr std::uint16_t need_input(int i) { return static_cast<std::uint16_t>(1u << i); }
constexpr std::uint16_t need_output(int i = 0) { return static_cast<std::uint16_t>(256u << i); }

/// One call for tests and benchmarks: the public function with these inputs.
struct Sample {
  std::vector<Tensor> inputs;  // float64 where floating
  detail::Function<Tensor(const std::vector<Tensor>&)> call;
  std::string note;
};
using Samples = void (*)(std::vector<Sample>&);

using GradientRule = void (*)(GradientCall&);
using CompositeRule = Tensors (*)(const OpCall&, void* state);

/// The part of an op that a kernel computes. The name of a kernel is the op's name followed by the
/// suffix given here.
enum class Part : std::uint8_t {
  value,
  gradient_0,  // ".d0": the gradient of input 0; inputs dy, x, y, output (null: not needed), each
               // of the gradient's shape and row-major, or one number for all
  gradient_1,  // ".d1": the same of input 1
  gradients,   // ".d": those of all inputs that are wanted, see GradientKernelCall
};
/// Whether the CPU's kernel for this part takes the inputs of a call of 16 bits; its outputs are
/// float32.
using ReadsHalves = bool (*)(Part part, const KernelCall& call);
inline constexpr int parts = 4;
std::string_view suffix_of(Part part);

/// The kernels of an op for the devices of one kind. The backend of these devices fills the slot.
class Kernels {
 public:
  /// Queue is that of the backend.
  template <class Queue = NoQueue>
  KernelOn<Queue> of(Part part) const {
    return reinterpret_cast<KernelOn<Queue>>(kernels_[static_cast<int>(part)]);
  }
  template <class Queue = NoQueue>
  void set(Part part, KernelOn<Queue> kernel) {
    kernels_[static_cast<int>(part)] = reinterpret_cast<void (*)()>(kernel);
  }
  bool has(Part part) const { return kernels_[static_cast<int>(part)]; }
  /// Whether there is a kernel for the op's value.
  bool computes() const { return has(Part::value) || passes; }

  const Passes* passes = nullptr;      // of a pointwise op on the CPU, instead of kernels
  TakesHalves takes_halves = nullptr;  // of the kernel of the value; null: never
  ConversionOf conversion = nullptr;   // of a kernel on the CPU that converts each element

 private:
  void (*kernels_[parts])() = {};
};

inline constexpr Kernels no_kernels = {};

/// How the gradient of an op is computed: as its entry says, until a user registers a function.
struct GradientSlot {
  GradientRule rule = nullptr;
  Needs needs = {};
  std::uint8_t passes = 0;  // bit i: the gradient of input i is dy itself
  bool differentiable = true;
  bool fused = true;  // kernels and passes may compute it, not only the rule
};

namespace detail {
struct Op {
  // What the op is. This never changes.
  const std::string_view name;
  const int arity = 1;  // -1: any number
  const ShapeRule shape = nullptr;
  const Promote promote = Promote::none;
  const std::uint8_t promoted = 0xff;                            // bit i: input i takes part
  const formulas::Domain domain = formulas::Domain::everything;  // of what inputs have come to
  const ResultDType result = ResultDType::of_inputs;
  const OptionsType* const options = nullptr;
  const OptionsCheck check = nullptr;  // without it no file may give options
  const Needs needs = {};
  const Fusion fusion = Fusion::opaque;
  const bool differentiable = true;
  const std::uint8_t passes = 0;         // see GradientSlot
  const bool contiguous_inputs = false;  // the kernel wants row-major inputs
  const bool accumulates = false;        // the kernel can add to its output
  const bool by_lines = false;  // computes each line along its axis by itself, as does its gradient
  const bool takes_all_values = false;  // an opaque kernel that refuses no value of its inputs
  const bool updates = false;           // outputs are Variables, written in place
  const bool replaces = false;          // an update that does not read what it writes
  const bool moves = false;             // computes nothing: takes dtypes without arithmetic too
  const bool internal = false;          // no user calls it by its name
  const Autocast autocast = Autocast::as_given;
  const ReadsHalves reads_halves =
      nullptr;                        // the CPU's kernel takes inputs of 16 bits; null: never
  const bool random = false;          // draws numbers, as its RandomOptions say
  const bool needs_elements = false;  // refuses to reduce no elements
  const std::uint8_t numbers = 0;     // of an update: so many numbers follow the gradients
  const std::int8_t kept = -1;        // the output that only the gradient reads: keep()
  const bool changes_device = false;  // from the input's to the one that its options name
  const Samples samples = nullptr;
  // Texts of errors.
  const char* const argument_names = "x, y, z";
  const char* const not_finite = nullptr;            // why a result may be NaN or infinite
  const char* const slope_not_finite = nullptr;      // the same of a gradient
  const char* const bool_advice = "Cast it first.";  // where the op does not take bool
  const std::string_view layer = {};     // that has the op's arguments, if its name is another one
  const std::string_view function = {};  // of users that runs this op beside others

  // What runs it. assemble() and backends fill these slots, and register_*() changes them.
  Kernels cpu_kernels = {};
  Kernels* kernels_elsewhere[device_kinds - 1] = {};  // by Device::Kind; null: none. Never freed.
  const Passes* fast = nullptr;  // the CPU's passes, until a user registers another kernel
  GradientSlot gradient = {nullptr, needs, passes, differentiable};
  CompositeRule composite = nullptr;
  void* composite_state = nullptr;

  const Kernels& on(Device::Kind kind) const {
    if (kind == Device::Kind::cpu) return cpu_kernels;
    const Kernels* const found = kernels_elsewhere[static_cast<int>(kind) - 1];
    return found ? *found : no_kernels;
  }
  Kernels& on(Device::Kind kind) {
    if (kind == Device::Kind::cpu) return cpu_kernels;
    Kernels*& place = kernels_elsewhere[static_cast<int>(kind) - 1];
    if (!place) place = new Kernels;
    return *place;
  }
  const Kernels& on_cpu() const { return cpu_kernels; }
  Kernels& on_cpu() { return cpu_kernels; }
  DType result_dtype(DType inputs) const {
    return result == ResultDType::boolean ? DType::boolean : inputs;
  }
};
}  // namespace detail

/// The table of ops by name. Only the edges of the library use names; the rest uses entries.
class OpTable {
 public:
  static OpTable& the();
  void add(Op& op);
  /// Null for an unknown name.
  Op* find(std::string_view name) const;
  /// The op and the part of a kernel's name; a null op for an unknown one.
  struct NamedPart {
    Op* op;
    Part part;
  };
  NamedPart find_kernel(std::string_view name) const;
  std::vector<Op*> ops() const;
  /// If a layout does not allow the view that an op asks for, devices of this kind copy.
  void copy_for_views(Device::Kind kind) const;
  /// The rule of ops whose gradient a user registers; set by assemble().
  GradientRule users_rule = nullptr;

 private:
  std::vector<Op*> ops_;  // sorted by name; guarded by Lock::table
};

/// Fills every slot, once, and checks the table; throws Error for what is missing.
void assemble();
/// Calls assemble() for an op without a kernel; throws Error if no list of its family has the op.
void assemble_for(const Op& op, Caller caller);
}  // namespace reel
