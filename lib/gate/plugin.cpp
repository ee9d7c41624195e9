// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/plugin.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/pool/process.hpp"

namespace reel {
constinit InstallPlugin linked_plugin = nullptr;

namespace {
/// Errors name the call that queued the kernel, not the call that waits.
class CallNamesScope {
 public:
  explicit CallNamesScope(const CallNames& names)
      : context_(Context::here()),
        caller_(context_.outer_caller),
        layer_(context_.layer_name),
        function_(context_.function) {
    context_.outer_caller = names.caller;
    context_.layer_name = names.layer;
    context_.function = names.function;
  }
  ~CallNamesScope() {
    context_.outer_caller = caller_;
    context_.layer_name = layer_;
    context_.function = function_;
  }
  CallNamesScope(const CallNamesScope&) = delete;
  CallNamesScope& operator=(const CallNamesScope&) = delete;

 private:
  Context& context_;
  Caller caller_;
  std::string_view layer_, function_;
};

CallNames names_of(Caller caller) {
  const Context& context = Context::here();
  return {context.caller_of(caller), context.layer_name, context.function};
}
void fail_queued_kernel(const Op& op, const KernelResult& result, const Shape& shape,
                        std::int64_t position, const CallNames& names) {
  const CallNamesScope scope(names);
  fail_kernel(op, result, position < 0 ? "" : place_text(shape, position), names.caller);
}
void fail_device(const CallNames& names, std::string_view op, std::string_view argument,
                 std::string_view expected, std::string_view got, std::string_view advice) {
  const CallNamesScope scope(names);
  fail<DeviceError>(names.caller, op, argument, expected, got, advice);
}
void fail_device_memory(const CallNames& names, std::string_view op, std::string_view argument,
                        std::string_view for_what, std::string_view advice) {
  const CallNamesScope scope(names);
  fail<MemoryError>(names.caller, op, argument, "memory of the device for " + Text(for_what),
                    "none", advice);
}
void add_backend(const char* name, Backend& backend) {
  OpTable::the().copy_for_views(register_backend(name, backend));
}
constexpr PluginHost host = {
    .find_kernel = [](std::string_view name) { return OpTable::the().find_kernel(name); },
    .add_backend = add_backend,
    .execute_kernels = execute_kernels,
    .run_on_copies = run_on_copies,
    .run_widened = run_widened,
    .names_of = names_of,
    .fail_kernel = fail_queued_kernel,
    .fail_device = fail_device,
    .fail_memory = fail_device_memory,
};

constinit char reason[256] = "";
constinit bool opened = false;

/// The file in the folder of this library. If there is none, the search path of the dynamic loader
/// decides. REEL_CUDA_LIBRARY replaces both with one file.
void* open_library() {
  if (const char* const named = std::getenv("REEL_CUDA_LIBRARY"); named && *named)
    return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&open_library), &self) && self.dli_fname) {
    const std::string file = self.dli_fname;
    const std::string beside = file.substr(0, file.rfind('/') + 1) + "libreel_cuda.so";
    if (access(beside.c_str(), F_OK) == 0) return dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  return dlopen("libreel_cuda.so", RTLD_NOW | RTLD_LOCAL);
}
void keep_reason(const char* what, const char* why) {
  std::snprintf(reason, sizeof reason, "%s%s", what, why);
}
InstallPlugin find_plugin() {
  if (linked_plugin) return linked_plugin;
  void* const library = open_library();
  if (!library) {
    keep_reason("The CUDA backend could not be opened: ", dlerror());
    return nullptr;
  }
  void* const found = dlsym(library, install_cuda_name);
  if (!found) keep_reason("The file of the CUDA backend is not a reel plugin: ", dlerror());
  return reinterpret_cast<InstallPlugin>(found);
}
}  // namespace

const char* open_cuda_plugin() {
  const Locked held(Lock::cuda);
  if (!opened && !backend_of(Device::Kind::cuda)) {
    if (const InstallPlugin install = find_plugin())
      if (const char* const why = install(host)) keep_reason("", why);
  }
  opened = true;
  return backend_of(Device::Kind::cuda) ? nullptr : reason;
}
}  // namespace reel
