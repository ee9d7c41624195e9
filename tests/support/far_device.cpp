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
#include <stdexcept>
#include <thread>
#include <vector>

#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/table/backend.hpp"

namespace reel::tests {
namespace {
constexpr int devices = 2;
constexpr std::size_t arena_bytes = std::size_t{2} << 30, block = 64;
constexpr std::size_t most_waiting = 512;  // in a queue: then it is run, whoever waits

/// What waits in the queues has memory of its own: in the heap it would take blocks that a traced
/// function has freed, and the trace would see its state change.
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

/// Memory that is mapped twice: where tensors say that their elements are, which nobody may
/// read or write, and where kernels find them.
class Arena {
 public:
  Arena() {
    void* const first = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // Of a shared mapping an old size of 0 makes another one of the same memory.
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

/// A call as the kernel finds it later.
class KeptCall {
 public:
  KeptCall(const DeviceCall& call, const Arena& arena, bool gradient)
      : op_(call.op),
        gradient_(gradient),
        options_(call.options.type),
        site_(call.site),
        site_name_(Context::here().site_name),
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
  void operator()() {
    Context& context = Context::here();  // errors name what the user called then
    context.site_name = site_name_;
    context.function = function_;
    const KernelCall call{inputs_.data(),
                          outputs_.data(),
                          memory_.data(),
                          static_cast<int>(inputs_.size()),
                          static_cast<int>(outputs_.size()),
                          accumulate_};
    if (gradient_)
      call_checked(op_, op_.cpu_gradient, call, site_);
    else
      call_kernel(op_, call, site_);
  }

 private:
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
  bool gradient_;
  unsigned accumulate_;
  const OptionsType* options_;
  Caller site_;
  std::string_view site_name_, function_;
  std::pmr::deque<Body> bodies_{&queue_memory()};
  Queued<const Body*> inputs_{&queue_memory()};
  Queued<Body*> outputs_{&queue_memory()};
  Queued<double> memory_{&queue_memory()};
};

/// Something to do later.
struct Task {
  void (*run)(void* work);  // and ends it
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
  std::exception_ptr failure;
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
    std::unique_lock held(mutex);
    run_all(held);
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
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
        std::exception_ptr thrown;
        try {
          task.run(task.work);
        } catch (...) {
          thrown = std::current_exception();
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

class FarBackend : public Backend {
 public:
  std::string missing;

  int device_count() const override { return devices; }
  std::byte* allocate(int index, std::size_t bytes) override {
    FarDevice& far = device(index);
    std::byte* first;
    {
      const std::lock_guard held(far.mutex);
      first = far.arena.take(bytes);
    }
    // What was there is lost when the queue gets here: a kernel that reads it meets NaN.
    if (first) far.put([&far, first, bytes] { std::memset(far.arena.near(first), 0xff, bytes); });
    return first;
  }
  void release(int index, std::byte* first, std::size_t bytes) noexcept override {
    FarDevice& far = device(index);
    const std::lock_guard held(far.mutex);
    far.arena.give(first, bytes);
  }
  bool has_kernel(const Op& op) const override {
    return (op.cpu || op.tiles) && op.name != missing;
  }
  bool has_gradient(const Op& op) const override { return op.cpu_gradient && op.name != missing; }
  void run(const DeviceCall& call) override {
    FarDevice& far = device(call.device.index);
    far.put(KeptCall(call, far.arena, false), true);
  }
  void run_gradient(const DeviceCall& call) override {
    FarDevice& far = device(call.device.index);
    far.put(KeptCall(call, far.arena, true), true);
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
  std::array<FarDevice, devices> devices_;
};

FarBackend& backend() {
  // Its threads never end. Counts in the heap would look like state of traced functions.
  static auto* const one = new (queue_memory().allocate(sizeof(FarBackend))) FarBackend;
  return *one;
}
}  // namespace

void add_far_devices() { register_backend(Device::Kind::cuda, backend()); }
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
WithoutFarKernel::WithoutFarKernel(std::string op) { backend().missing = std::move(op); }
WithoutFarKernel::~WithoutFarKernel() { backend().missing.clear(); }
}  // namespace reel::tests
