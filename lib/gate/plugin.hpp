// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend is a separate library, libreel_cuda.so, so that libreel does not depend on CUDA.
// It is opened at the first use of a CUDA device. It calls inline functions of our headers. It
// reaches all other functions of the library through PluginHost.
#pragma once
#include <string_view>

#include "lib/table/backend.hpp"

namespace reel {
/// The user's call that an error names: its line, and the layer and the function that it calls.
struct CallNames {
  Caller caller;
  std::string_view layer, function;
};

/// The functions that the library provides to a plugin.
struct PluginHost {
  /// A number that changes with the layout of shared types. Library and plugin must have the same
  /// one.
  static constexpr std::size_t layout =
      sizeof(Op) * 1'000'003 + sizeof(Body) * 10'007 + sizeof(PlannedGraph) * 101 + 6;
  std::size_t size = sizeof(PluginHost);
  std::size_t layout_of_host = layout;

  OpTable::NamedPart (*find_kernel)(std::string_view name);
  /// Call it after find_kernel() was called for all kernels. A view whose layout the backend does
  /// not support becomes a copy.
  void (*add_backend)(const char* name, Backend& backend);
  void (*execute_kernels)(const PlannedGraph& graph);
  /// Runs a call again, with row-major copies of its strided inputs.
  void (*run_on_copies)(Backend& backend, const DeviceCall& call);
  void (*run_widened)(Backend& backend, const DeviceCall& call, bool reads_halves);

  /// The user's call that this thread executes now.
  CallNames (*names_of)(Caller caller);
  /// Throws the error that a kernel found at element `position` of its input of this shape. -1: the
  /// error belongs to no element.
  void (*fail_kernel)(const Op& op, const KernelResult& result, const Shape& shape,
                      std::int64_t position, const CallNames& names);
  void (*fail_device)(const CallNames& names, std::string_view op, std::string_view argument,
                      std::string_view expected, std::string_view got, std::string_view advice);
  /// `for_what`: what the device has no memory for.
  void (*fail_memory)(const CallNames& names, std::string_view op, std::string_view argument,
                      std::string_view for_what, std::string_view advice);
};

/// The one function of the plugin. It adds a backend and returns null. If there is no backend, it
/// returns the reason, a string that is never freed.
using InstallPlugin = const char* (*)(const PluginHost& host);
inline constexpr const char* install_cuda_name = "reel_install_cuda";

/// The plugin's function if the program is linked with the plugin; else null.
extern InstallPlugin linked_plugin;

/// Opens the plugin at the first call. Null if the process has a CUDA backend, else the reason.
const char* open_cuda_plugin();
}  // namespace reel
