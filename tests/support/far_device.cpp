// SPDX-License-Identifier: BSD-3-Clause
#include "support/far_device.hpp"

#include <sys/mman.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/table/backend.hpp"

namespace reel::tests {
namespace {
constexpr int devices = 2;
constexpr std::size_t arena_bytes = std::size_t{2} << 30, block = 64;
constexpr std::size_t most_waiting = 512;  // in a queue; a longer queue is run at once

/// Tasks in the queues have memory outside of the heap. In the heap they could take blocks that a
/// traced function has freed, and the trace would see a change of its state.
std::pmr::memory_resource& queue_memory() {
  struct Mapped : std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t) override {
      void* const first =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (first == MAP_FAILED) throw std::bad_alloc();
      return first;
    }
    void do_deallocate(void* first, std::size_t bytes, std::size_t) override {
      munmap(first, bytes);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
  };
  static auto* const mapped = new Mapped;
  static auto* const pool = new std::pmr::synchronized_pool_resource(mapped);
  return *pool;
}
template <class T>
using Queued = std::pmr::vector<T>;

/// Memory that is mapped twice. Tensors hold addresses in the first mapping, which nobody may read
/// or write. Kernels use the second mapping.
class Arena {
 public:
  Arena() {
    void* const first = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // For a shared mapping, an old size of 0 makes a second mapping of the same memory.
    void* const second = mremap(first, 0, arena_bytes, MREMAP_MAYMOVE);
    if (first == MAP_FAILED || second == MAP_FAILED || mprotect(second, arena_bytes, PROT_NONE))
      throw std::bad_alloc();
    near_ = static_cast<std::byte*>(first);
    far_ = static_cast<std::byte*>(second);
  }
  std::byte* take(std::size_t bytes) {
    const std::size_t size = rounded(bytes);
    Queued<std::byte*>& again = free_[size];
    if (!again.empty()) {
      std::byte* const first = again.back();
      again.pop_back();
      return first;
    }
    if (size > arena_bytes - used_) return nullptr;
    used_ += size;
    return far_ + used_ - size;
  }
  void give(std::byte* first, std::size_t bytes) { free_[rounded(bytes)].push_back(first); }
  std::byte* near(const std::byte* first) const {
    if (first < far_ || first >= far_ + arena_bytes)
      throw std::logic_error("a kernel of a far device was given an address of the host");
    return near_ + (first - far_);
  }

 private:
  static std::size_t rounded(std::size_t bytes) { return (bytes + block - 1) / block * block; }
  std::byte *far_, *near_;
  std::size_t used_ = 0;
  std::pmr::map<std::size_t, Queued<std::byte*>> free_{&queue_memory()};
};

/// What a kernel has found wrong, for the next wait.
struct LateError {
  std::exception_ptr error;
  std::string_view op = {};
  Caller caller = {};

  /// Throws it on the thread that waits, whose interceptors and observers are notified first.
  [[noreturn]] void raise() const try {
    std::rethrow_exception(error);
  } catch (const std::exception& found) {
    tell_interceptors("it catches an error of the library");
    tell_error(found, op, caller);
    throw;
  }
};

/// A copy of a kernel's call that the kernel uses later.
class KeptCall {
 public:
  KeptCall(const DeviceCall& call, const Arena& arena)
      : op_(call.op),
        part_(call.part),
        options_(call.options.type),
        caller_(call.caller),
        layer_name_(Context::here().layer_name),
        function_(Context::here().function) {
    for (int i = 0; i < call.kernel.input_count; ++i)
      inputs_.push_back(keep(call.kernel.inputs[i], arena));
    for (int i = 0; i < call.kernel.output_count; ++i)
      outputs_.push_back(keep(call.kernel.outputs[i], arena));
    accumulate_ = call.kernel.accumulate;
    if (!options_) return;
    memory_.resize(options_->size / sizeof(double) + 1);
    options_->copy(memory_.data(), call.options.data);
  }
  KeptCall(KeptCall&& other) noexcept = default;
  KeptCall& operator=(KeptCall&&) = delete;
  ~KeptCall() {
    if (options_ && options_->destroy && !memory_.empty()) options_->destroy(memory_.data());
  }
  void operator()() try {
    Context& context = Context::here();  // errors name the line and the op of the user's call
    context.layer_name = layer_name_;
    context.function = function_;
    const KernelCall call{inputs_.data(),
                          outputs_.data(),
                          memory_.data(),
                          static_cast<int>(inputs_.size()),
                          static_cast<int>(outputs_.size()),
                          accumulate_};
    backend_of(Device::Kind::cpu)
        ->run({op_, part_, {options_, memory_.data()}, call, cpu(), caller_});
  } catch (const std::exception&) {
    if (op_.updates) keep_values();
    throw LateError{std::current_exception(), op_.name, caller_};
  }

 private:
  /// Of Variables whose update has failed. Output i is the new value of input i.
  void keep_values() {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i]->data != inputs_[i]->data)
        std::memcpy(outputs_[i]->data, inputs_[i]->data,
                    static_cast<std::size_t>(outputs_[i]->bytes()));
  }

  Body* keep(const Body* body, const Arena& arena) {
    if (!body) return nullptr;
    Body& copy = bodies_.emplace_back(*body);
    copy.references = 1;
    copy.owner = nullptr;
    copy.device_kind = copy.device_index = 0;
    copy.data = arena.near(body->data);
    return &copy;
  }
  const Op& op_;
  Part part_;
  unsigned accumulate_;
  const OptionsType* options_;
  Caller caller_;
  std::string_view layer_name_, function_;
  std::pmr::deque<Body> bodies_{&queue_memory()};
  Queued<const Body*> inputs_{&queue_memory()};
  Queued<Body*> outputs_{&queue_memory()};
  Queued<double> memory_{&queue_memory()};
};

/// A task of a queue.
struct Task {
  void (*run)(void* work);  // runs the task and destroys it
  void* work;
  bool is_kernel;
};

struct FarDevice {
  std::mutex mutex;
  std::condition_variable changed;
  Arena arena;
  std::pmr::deque<Task> queue{&queue_memory()};
  std::size_t kernels_waiting = 0, kernels_run = 0;
  bool waited_for = false;
  std::optional<LateError> failure;
  std::thread thread{[this] { work(); }};

  template <class Work>
  void put(Work work, bool is_kernel = false) {
    void* const kept = queue_memory().allocate(sizeof(Work), alignof(Work));
    new (kept) Work(std::move(work));
    const auto run = [](void* given) {
      struct End {
        Work* work;
        ~End() {
          work->~Work();
          queue_memory().deallocate(work, sizeof(Work), alignof(Work));
        }
      } const end{static_cast<Work*>(given)};
      (*end.work)();
    };
    std::unique_lock held(mutex);
    queue.push_back({run, kept, is_kernel});
    kernels_waiting += is_kernel;
    if (queue.size() >= most_waiting) run_all(held);
  }
  void wait() {
    std::optional<LateError> found;
    {
      std::unique_lock held(mutex);
      run_all(held);
      found = std::exchange(failure, std::nullopt);
    }
    if (found) found->raise();
  }

 private:
  void run_all(std::unique_lock<std::mutex>& held) {
    waited_for = true;
    changed.notify_all();
    changed.wait(held, [this] { return !waited_for; });
  }
  [[noreturn]] void work() {
    for (std::unique_lock held(mutex);;) {
      changed.wait(held, [this] { return waited_for; });
      while (!queue.empty()) {
        const Task task = queue.front();
        queue.pop_front();
        held.unlock();
        std::optional<LateError> thrown;
        try {
          task.run(task.work);
        } catch (const LateError& error) {
          thrown = error;
        } catch (...) {
          thrown = LateError{std::current_exception()};
        }
        held.lock();
        if (!failure) failure = thrown;
        kernels_waiting -= task.is_kernel;
        kernels_run += task.is_kernel;
      }
      waited_for = false;
      changed.notify_all();
    }
  }
};

/// What the kernel of a far device needs to enter its queue.
struct FarQueue {
  FarDevice* far;
  const DeviceCall* call;
};
/// The kernel of every op and part. It puts the CPU's kernel on the queue.
KernelResult far_kernel(const KernelCallOn<FarQueue>& call) {
  FarDevice& far = *call.queue.far;
  far.put(KeptCall(*call.queue.call, far.arena), true);
  return {};
}

class FarBackend : public Backend {
 public:
  explicit FarBackend(const char* name) : kind(register_backend(name, *this)) { add_kernels(); }
  const Device::Kind kind;

  int device_count() const override { return devices; }
  std::byte* allocate(int index, std::size_t bytes) override {
    FarDevice& far = device(index);
    std::byte* first;
    {
      const std::lock_guard held(far.mutex);
      first = far.arena.take(bytes);
    }
    // When the queue reaches this task, the old content is lost: a kernel that reads it gets NaN.
    if (first) far.put([&far, first, bytes] { std::memset(far.arena.near(first), 0xff, bytes); });
    return first;
  }
  void release(int index, std::byte* first, std::size_t bytes) noexcept override {
    FarDevice& far = device(index);
    const std::lock_guard held(far.mutex);
    far.arena.give(first, bytes);
  }
  void run(const DeviceCall& call) override {
    if (must_widen(call, false)) return run_widened(*this, call, false);
    FarDevice& far = device(call.device.index);
    const auto kernel = call.op.on(kind).of<FarQueue>(call.part);
    kernel(call.kernel.on(FarQueue{&far, &call}));
  }
  Pass pass_of(const Op&, Part, DType, DType) const override { return {}; }
  void execute(const PlannedGraph& graph) override { execute_kernels(graph); }
  void fill(Body& to, double number) override {
    FarDevice& far = device(to.device_index);
    far.put([&far, number, data = to.data, bytes = static_cast<std::size_t>(to.bytes()),
             dtype = to.dtype] {
      Body near = {};
      near.data = far.arena.near(data);
      near.dtype = dtype;
      near.elements = static_cast<std::int64_t>(bytes) / size_of(dtype);
      backend_of(Device::Kind::cpu)->fill(near, number);
    });
  }
  void upload(int index, std::byte* to, const void* from, std::size_t bytes) override {
    FarDevice& far = device(index);
    const auto* const first = static_cast<const std::byte*>(from);
    far.put([&far, to, copy = Queued<std::byte>(first, first + bytes, &queue_memory())] {
      std::memcpy(far.arena.near(to), copy.data(), copy.size());
    });
  }
  void download(int index, void* to, const std::byte* from, std::size_t bytes) override {
    wait(index);
    std::memcpy(to, device(index).arena.near(from), bytes);
  }
  void copy(int to_index, std::byte* to, int from_index, const std::byte* from,
            std::size_t bytes) override {
    std::vector<std::byte> between(bytes);
    download(from_index, between.data(), from, bytes);
    upload(to_index, to, between.data(), bytes);
  }
  void wait(int index) override { device(index).wait(); }

  FarDevice& device(int index) { return devices_[static_cast<std::size_t>(index)]; }

 private:
  /// Gives each op of the library a kernel here if the CPU has one.
  void add_kernels() {
    assemble();
    for (Op* op : OpTable::the().ops()) {
      if (op->on_cpu().computes()) op->on(kind).set<FarQueue>(Part::value, far_kernel);
      if (op->on_cpu().has(Part::gradients))
        op->on(kind).set<FarQueue>(Part::gradients, far_kernel);
      for (const Part part : {Part::gradient_0, Part::gradient_1})
        if (backend_of(Device::Kind::cpu)->pass_of(*op, part, DType::float32, DType::float32))
          op->on(kind).set<FarQueue>(part, far_kernel);
    }
  }

  std::array<FarDevice, devices> devices_;
};

/// Never destroyed, as its threads never end. Not in the heap, because its counters would look like
/// state of traced functions.
FarBackend* made(const char* name) {
  return new (queue_memory().allocate(sizeof(FarBackend))) FarBackend(name);
}
FarBackend& backend() {
  static FarBackend* const one = made("far");
  return *one;
}
}  // namespace

Device far_device(int index) { return {backend().kind, index}; }
Device other_device(int index) {
  static FarBackend* const one = made("other");
  return {one->kind, index};
}
std::size_t far_kernels_waiting(int index) {
  FarDevice& far = backend().device(index);
  const std::lock_guard held(far.mutex);
  return far.kernels_waiting;
}
std::size_t far_kernels_run(int index) {
  FarDevice& far = backend().device(index);
  const std::lock_guard held(far.mutex);
  return far.kernels_run;
}
namespace {
void set_kernel(const std::string& name, KernelOn<FarQueue> kernel) {
  const auto [op, part] = OpTable::the().find_kernel(name);
  if (!op) throw std::logic_error("no kernel \"" + name + "\"");
  op->on(backend().kind).set<FarQueue>(part, kernel);
}
}  // namespace
WithoutFarKernel::WithoutFarKernel(std::string name) : name_(std::move(name)) {
  set_kernel(name_, nullptr);
}
WithoutFarKernel::~WithoutFarKernel() { set_kernel(name_, far_kernel); }
}  // namespace reel::tests
