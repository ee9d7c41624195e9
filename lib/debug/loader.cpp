// SPDX-License-Identifier: BSD-3-Clause
// Opens libreel_debug.so, and gives it the functions of the library. This file is the only one of
// the debugger that is in the library.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lib/body/dtypes.hpp"
#include "lib/body/text.hpp"
#include "lib/cpu/install.hpp"
#include "lib/debug/table.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/pool/process.hpp"
#include "lib/tensor/raw.hpp"

namespace reel {
namespace {
/// Calls f, and gives the first line of what it throws.
template <class F>
std::string error_of(const F& f) try {
  const Unobserved unobserved(Context::here());
  f();
  return "";
} catch (const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

Body* copied(const Body& body) {
  const Unobserved unobserved(Context::here());
  Tensor copy = contiguous_copy(body).to(cpu());
  Body* const made = Access::body(copy);
  if (made != &body && !made->owner && made->data != body.data) return Access::detach(copy);
  Body* const own = allocate(Context::here(), body.dtype, body.shape, body.elements);
  if (!own) fail_memory({}, "debug");
  __builtin_memcpy(own->data, made->data, static_cast<std::size_t>(body.bytes()));
  return own;
}
Body* filled(DType dtype, const Shape& shape, const void* elements) {
  Body* const made = allocate(Context::here(), dtype, shape, shape.elements());
  if (!made) fail_memory({}, "debug");
  if (elements) __builtin_memcpy(made->data, elements, static_cast<std::size_t>(made->bytes()));
  return made;
}
Tensor number_of(DType dtype, double number) {
  Tensor made = Access::adopt(filled(dtype, {}, nullptr));
  with_element(dtype,
               [&]<class T>(Type<T>) { *Access::body(made)->as<T>() = static_cast<T>(number); });
  return made;
}
std::string call_by_name(std::string_view op, const DebugOperand* operands, int count,
                         Body** result) {
  return error_of([&] {
    DType dtype = DType::float64;  // of numbers: that of a floating tensor beside them
    for (int i = 0; i < count; ++i)
      if (operands[i].body && is_floating(operands[i].body->dtype)) dtype = operands[i].body->dtype;
    std::vector<Tensor> inputs;
    for (int i = 0; i < count; ++i)
      inputs.push_back(operands[i].body ? Access::share(operands[i].body)
                                        : number_of(dtype, operands[i].number));
    Tensor made = call_op(op, Operands(inputs, Caller()));
    *result = copied(*Access::body(made));
  });
}
/// The call of an op that makes views goes through the gate; another one calls its kernel.
std::string compute(const GateCall& call, std::vector<Body*>& outputs) {
  return error_of([&] {
    if (outputs.empty()) {
      std::vector<Operand> operands;
      std::vector<Tensor> inputs;
      for (int i = 0; i < call.input_count; ++i)
        inputs.push_back(Access::share(const_cast<Body*>(call.inputs[i])));
      for (const Tensor& each : inputs) operands.emplace_back(each);
      SmallVector<Tensor, 2> made;
      run(call.op, operands, call.options, call.caller, made);
      for (Tensor& each : made) outputs.push_back(copied(*Access::body(each)));
      return;
    }
    const KernelCall kernel{call.inputs,
                            outputs.data(),
                            call.options.data,
                            call.input_count,
                            static_cast<int>(outputs.size()),
                            call.accumulates};
    if (call.part == Part::value)
      run_kernel(call.op, call.options, kernel, call.caller);
    else
      run_gradient(call.op, call.part, call.options, kernel, cpu(), call.caller);
  });
}
bool ask(const debug::Condition& condition, const DebugEvent& given) {
  const Unobserved unobserved(Context::here());
  debug::Event event;
  event.name = given.name;
  event.caller = given.caller;
  event.step = given.step;
  event.number = given.number;
  event.backward = given.backward;
  const auto share = [](const Body* body) { return Access::share(const_cast<Body*>(body)); };
  for (int i = 0; i < given.input_count; ++i) event.inputs.push_back(share(given.inputs[i]));
  for (int i = 0; i < given.output_count; ++i) event.outputs.push_back(share(given.outputs[i]));
  event.output = share(given.output);
  event.statistics = given.statistics;
  return condition.function()(event);
}
__attribute__((noreturn)) void fail_as(DebugError kind, Caller caller, std::string_view op,
                                       std::string_view argument, std::string_view expected,
                                       std::string_view got, std::string_view advice) {
  if (kind == DebugError::io) fail<IoError>(caller, op, argument, expected, got, advice);
  fail<Error>(caller, op, argument, expected, got, advice);
}

std::string machine() {
#if defined(__x86_64__)
  const std::string kind = "x86-64";
#elif defined(__aarch64__)
  const std::string kind = "aarch64";
#endif
  const char* const set = kernels::isa_name();
  return "reel on " + kind + ", " + (set ? set : "no instruction set");
}

constexpr DebugHost host = {
    .observe = start_owned,
    .end = end_observing,
    .context = []() -> Context& { return Context::here(); },
    .release = [](Body* body) noexcept { release(body); },
    .copied = copied,
    .filled = filled,
    .sized =
        [](DType dtype, const std::int64_t* lengths, int rank) {
          return filled(dtype, Shape(std::span(lengths, static_cast<std::size_t>(rank))), nullptr);
        },
    .view =
        [](Body& base, const Shape& shape, const std::int64_t* strides, std::int64_t offset) {
          const Unobserved unobserved(Context::here());
          const Tensor view = strided_view(Access::share(&base), shape, strides, offset);
          return Access::detach(const_cast<Tensor&>(view));
        },
    .call = call_by_name,
    .compute = compute,
    .options = [](OptionsView options) { return to_string(options); },
    .text =
        [](const Body& body) {
          const Unobserved unobserved(Context::here());
          return to_string(Access::share(const_cast<Body*>(&body)));
        },
    .dtype = [](DType dtype) { return name_of(dtype); },
    .name = [](const Variable& variable) { return std::string(variable.name()); },
    .memory = memory_statistics,
    .op_names = op_names,
    .machine = machine,
    .measure = [](Observer& observer) { return context_hooks.measure(observer); },
    .stopped = tell_stopped,
    .ask = ask,
    .fail = fail_as,
};

constinit const DebugPlugin* plugin = nullptr;  // atomic
constinit char reason[300] = "";

/// Beside this library or the program, if it is there; else where the dynamic loader searches.
void* open_library() {
  if (const char* const named = std::getenv("REEL_DEBUG_LIBRARY"); named && *named)
    return dlopen(named, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&open_library), &self) && self.dli_fname) {
    const std::string file = self.dli_fname;
    const std::string beside = file.substr(0, file.rfind('/') + 1) + "libreel_debug.so";
    if (access(beside.c_str(), F_OK) == 0)
      return dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }
  return dlopen("libreel_debug.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
/// Null, and a reason, where there is none.
const DebugPlugin* open_plugin() {
  if (const DebugPlugin* const found = __atomic_load_n(&plugin, __ATOMIC_ACQUIRE)) return found;
  const Locked held(Lock::cuda);
  const auto keep_reason = [](const char* what, const char* why) {
    std::snprintf(reason, sizeof reason, "%s%s", what, why ? why : "");
  };
  void* const library = open_library();
  if (!library) {
    keep_reason("", dlerror());
    return nullptr;
  }
  const auto install = reinterpret_cast<InstallDebugger>(dlsym(library, install_debugger_name));
  if (!install) {
    keep_reason("The file is no debugger of reel: ", dlerror());
    return nullptr;
  }
  const char* why = "";
  const DebugPlugin* const made = install(host, &why);
  if (!made) keep_reason("", why);
  __atomic_store_n(&plugin, made, __ATOMIC_RELEASE);
  return made;
}
/// What REEL_DEBUG asks for.
struct Request {
  enum State : std::uint8_t { unread, none, some };
  std::uint8_t state = unread;  // a State; atomic
  std::string_view kind, argument;
};
constinit Request request;

void read_request() {
  const char* const text = std::getenv("REEL_DEBUG");
  const std::string_view asked = text ? text : "";
  const std::size_t colon = asked.find(':');
  request.kind = asked.substr(0, colon);
  request.argument = colon == std::string_view::npos ? "" : asked.substr(colon + 1);
  const bool plain = request.kind == "cli" || request.kind == "listen";
  const bool with = request.kind == "log" || request.kind == "stop";
  bool some = plain ? colon == std::string_view::npos : with && !request.argument.empty();
  if (!some && !asked.empty())
    std::fprintf(
        stderr, "REEL_DEBUG: expected cli, listen, log:FILE or stop:CONDITION, got \"%s\"\n", text);
  if (some && !open_plugin()) {
    std::fprintf(stderr, "REEL_DEBUG: libreel_debug.so cannot be opened: %s\n", reason);
    some = false;
  }
  __atomic_store_n(&request.state, some ? Request::some : Request::none, __ATOMIC_RELEASE);
}
}  // namespace

const DebugPlugin& the_plugin(Caller caller, std::string_view function) {
  const DebugPlugin* const found = open_plugin();
  if (!found)
    fail<Error>(caller, function, "libreel_debug.so",
                "the debugger beside the library, or in REEL_DEBUG_LIBRARY", "none", reason);
  return *found;
}

void debug_thread() noexcept try {
  if (__atomic_load_n(&request.state, __ATOMIC_ACQUIRE) == Request::unread) read_request();
  if (request.state != Request::some) return;
  open_plugin()->thread_begins(request.kind, request.argument);
} catch (const std::exception& error) {
  std::fprintf(stderr, "REEL_DEBUG: %s\n", error.what());
}

namespace debug {
namespace {
OwnedObserver* observer_of(void* recorder) { return static_cast<OwnedObserver*>(recorder); }
}  // namespace

Watch::Watch(const WatchOptions& options, Caller caller) try
    : recorder_(the_plugin(caller, "Watch").watch(options, caller)) {
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Watch");
}
Watch::~Watch() { end_observing(observer_of(recorder_)); }
std::string Watch::answer(std::string_view command, Form form) const try {
  return the_plugin({}, "Watch").answer(observer_of(recorder_), command, form);
} catch (const std::bad_alloc&) {
  fail_memory({}, "Watch");
}

void cli(Caller caller) try {
  tell_interceptors("it calls debug::cli()");
  const DebugPlugin& debugger = the_plugin(caller, "cli");
  const auto prompt = [&] { debugger.cli(caller); };
  // Inside of batched(): on the stack of the thread, when what the function has called is computed.
  Interceptor* const inner = Context::here().interceptors;
  if (!inner || !inner->outside(prompt)) prompt();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "cli");
}

std::string listen(Caller caller) try {
  return the_plugin(caller, "listen").listen(caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "listen");
}

Log::Log(std::string_view path, LogOptions options, Caller caller) try
    : recorder_(the_plugin(caller, "Log").log(path, options, caller)) {
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Log");
}
Log::~Log() { end_observing(observer_of(recorder_)); }
}  // namespace debug
}  // namespace reel
