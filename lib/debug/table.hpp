// SPDX-License-Identifier: BSD-3-Clause
// The debugger is a library of its own, libreel_debug.so, which is opened at its first use. It
// calls inline functions of our headers. It reaches all other functions of the library through
// DebugHost, so that it works with the static library too.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reel/debug.hpp>

#include "lib/flow/hooks.hpp"
#include "lib/flow/observer.hpp"

namespace reel {
/// What the debugger gives to a function of the user.
struct DebugEvent {
  std::string_view name;
  Caller caller;
  std::int64_t step, number;
  bool backward;
  const Body* const* inputs;
  int input_count;
  Body* const* outputs;
  int output_count;
  const Body* output;
  debug::Statistics statistics;
};
/// What an op is given by its name: a tensor, or a number where body is null.
struct DebugOperand {
  Body* body = nullptr;
  double number = 0;
};
/// A node of a graph that is drawn. Its inputs come before it.
struct DrawnNode {
  std::string name, label, note, title, op, caller, scope;
  std::vector<int> inputs;
  std::vector<const Body*> values;  // results; their health is added to that of the node
  int health = 0;                   // 0 well, 1 dead, 2 saturated, 3 not finite
  bool backward = false;
  int count = 1;
};
/// The names and kinds of errors that the debugger throws.
enum class DebugError : std::uint8_t { general, io };

/// The functions that the library provides to the debugger.
struct DebugHost {
  /// A number that changes with the layout of shared types. Both must have the same one.
  static constexpr std::size_t layout = sizeof(Op) * 1'000'003 + sizeof(Body) * 10'007 +
                                        sizeof(GateCall) * 101 + sizeof(Context) * 7 + 1;
  std::size_t size = sizeof(DebugHost);
  std::size_t layout_of_host = layout;

  void (*observe)(OwnedObserver& observer, std::size_t bytes);
  void (*end)(OwnedObserver* observer);
  Context& (*context)();
  void (*release)(Body* body) noexcept;
  /// A row-major copy on the CPU that shares nothing with the body; the caller's reference.
  Body* (*copied)(const Body& body);
  /// Elements are those given, or not set.
  Body* (*filled)(DType dtype, const Shape& shape, const void* elements);
  Body* (*sized)(DType dtype, const std::int64_t* lengths, int rank);
  /// A view of the elements of `base` from number `offset` on.
  Body* (*view)(Body& base, const Shape& shape, const std::int64_t* strides, std::int64_t offset);
  /// Calls a public op by its name. Returns the text of its error, or "".
  std::string (*call)(std::string_view op, const DebugOperand* operands, int count, Body** result);
  /// Computes a call again: `outputs` are made, except where call.outputs names them.
  std::string (*compute)(const GateCall& call, std::vector<Body*>& outputs);
  std::string (*options)(OptionsView options);
  std::string (*text)(const Body& body);
  std::string_view (*dtype)(DType dtype);
  std::string (*name)(const Variable& variable);
  MemoryStatistics (*memory)();
  std::vector<std::string> (*op_names)();
  /// "reel on x86-64, avx2"
  std::string (*machine)();
  std::unique_ptr<MeasuredRun> (*measure)(Observer& observer);
  /// This thread is stopped at a prompt, or goes on.
  void (*stopped)(bool stopped);
  bool (*ask)(const debug::Condition& condition, const DebugEvent& event);
  __attribute__((noreturn)) void (*fail)(DebugError kind, Caller caller, std::string_view op,
                                         std::string_view argument, std::string_view expected,
                                         std::string_view got, std::string_view advice);
};

/// The functions of the debugger.
struct DebugPlugin {
  std::size_t size = sizeof(DebugPlugin);
  OwnedObserver* (*watch)(const debug::WatchOptions& options, Caller caller);
  std::string (*answer)(OwnedObserver* watch, std::string_view command, debug::Form form);
  void (*cli)(Caller caller);
  std::string (*listen)(Caller caller);
  OwnedObserver* (*log)(std::string_view path, const debug::LogOptions& options, Caller caller);
  std::string (*draw)(std::vector<DrawnNode> nodes, debug::Fold fold);
  /// What REEL_DEBUG asks for, on a thread that begins to use the library.
  void (*thread_begins)(std::string_view kind, std::string_view argument);
};
/// The one function of the plugin. Null and a reason if it does not fit the library.
using InstallDebugger = const DebugPlugin* (*)(const DebugHost& host, const char** reason);
inline constexpr const char* install_debugger_name = "reel_install_debugger";

/// The functions of the debugger. Throws Error if it cannot be opened.
const DebugPlugin& the_plugin(Caller caller, std::string_view function);

/// The hook of a thread's first context: reads REEL_DEBUG.
void debug_thread() noexcept;
}  // namespace reel
