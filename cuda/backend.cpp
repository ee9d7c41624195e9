// SPDX-License-Identifier: BSD-3-Clause
// The backend of CUDA devices, and the function that installs it into the library.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "cuda/gpu.hpp"
#include "cuda/matmul.hpp"
#include "cuda/nccl.hpp"
#include "cuda/pinned.hpp"

namespace reel::gpu {
namespace {
/// A point in the stream of a thread.
class Mark final : public QueuePoint {
 public:
  explicit Mark(Gpu& gpu) : device_(gpu.index) {
    const Current current(device_);
    check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "Event", host->names_of({}));
    if (const cudaError_t error = cudaEventRecord(event_, gpu.streams.mine().handle)) {
      cudaEventDestroy(event_);
      check(error, "Event", host->names_of({}));
    }
  }
  ~Mark() override {
    const Current current(device_);
    cudaEventDestroy(event_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  bool done() override {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) {
      cudaGetLastError();
      return false;
    }
    check(error, "Event", host->names_of({}));
    return true;
  }
  void wait() override { check(cudaEventSynchronize(event_), "Event", host->names_of({})); }
  double milliseconds_since(QueuePoint& earlier) override {
    float time = 0;
    check(cudaEventElapsedTime(&time, static_cast<Mark&>(earlier).event_, event_), "Event",
          host->names_of({}));
    return time;
  }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

/// Throws DeviceError if the kernels have no code for the current device. The question makes its
/// context.
void check_code(int index) {
  const cudaError_t error = find_code();
  if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction)
    return check(error, "cuda", host->names_of({}));
  cudaGetLastError();
  const std::string major = std::to_string(attribute(cudaDevAttrComputeCapabilityMajor, index)),
                    minor = std::to_string(attribute(cudaDevAttrComputeCapabilityMinor, index));
  host->fail_device(host->names_of({}), "cuda", "device",
                    "a GPU that the CUDA backend has code for",
                    "one of compute capability " + major + "." + minor,
                    "Build the backend with -Dgpu_archs=" + major + minor + ".");
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int count)
      : gpus_(static_cast<std::size_t>(count)), allowed_(gpus_.size() * gpus_.size()) {}

  int device_count() const override { return static_cast<int>(gpus_.size()); }
  std::string missing() const override { return Cudnn::refused(); }
  std::byte* allocate(int index, std::size_t bytes) override {
    const Current current(index);
    std::byte* block = nullptr;
    const cudaError_t error = at(index).allocate(bytes, block);
    if (error != cudaErrorMemoryAllocation) check(error, "cuda", host->names_of({}));
    return block;
  }
  void release(int index, std::byte* block, std::size_t bytes) noexcept override {
    const Current current(index);
    at(index).release(block, bytes);
  }
  DeviceMemoryUse use(int index) override { return at(index).memory.use(); }
  void trim() noexcept override {
    for (const OneGpu& one : gpus_)
      if (Gpu* const gpu = one.gpu) {
        const Current current(gpu->index);
        gpu->make_room();
      }
    pinned_.trim();
  }
  std::string largest(int index) override { return at(index).memory.largest(); }
  void run(const DeviceCall& call) override {
    const bool is_value = call.part == Part::value;
    if (must_widen(call, false)) {
      const TakesHalves takes = call.op.on(Device::Kind::cuda).takes_halves;
      if (!is_value || !takes || !takes(call.kernel)) return host->run_widened(*this, call, false);
    }
    if (call.op.contiguous_inputs && is_value && !call.kernel.in_order())
      return host->run_on_copies(*this, call);
    if (!at(call.device.index).run(call)) host->run_widened(*this, call, false);
  }
  Pass pass_of(const Op&, Part, DType, DType) const override { return {}; }
  void execute(const PlannedGraph& graph) override {
    const Current current(graph.device.index);
    at(graph.device.index).graphs.execute(graph);
  }
  void forget(int index, std::uint64_t plan) noexcept override {
    Gpu* const gpu = gpus_[static_cast<unsigned>(index)].gpu;
    if (!gpu) return;  // nothing has used the device
    const Current current(index);
    gpu->graphs.forget(plan);
  }
  std::size_t kept_bytes(const Inference& call) override {
    const Current current(call.device.index);
    return bytes_kept_by_cudnn(at(call.device.index), call);
  }
  void fill(Body& to, double number) override { at(to.device_index).fill(to, number); }
  void upload(int index, std::byte* to, const void* from, std::size_t bytes) override {
    const Current current(index);
    Gpu& gpu = at(index);
    const auto* const first = static_cast<const std::byte*>(from);
    bool copied = false;
    check(gpu.use(to, true), "to");
    Stream& stream = gpu.streams.mine();
    check(pinned_.upload(stream.handle, to, first, bytes, copied), "to");
    if (!copied) check(stream.staging.upload(to, first, bytes), "to");
  }
  const std::byte* constant(int index, std::uint64_t bytes) override {
    const Current current(index);
    Gpu& gpu = at(index);
    return gpu.constants.find(bytes, gpu.streams);
  }
  void download(int index, void* to, const std::byte* from, std::size_t bytes) override {
    at(index).download(to, from, bytes);
    throw_of_sources(index);
  }
  void copy(int to_index, std::byte* to, int from_index, const std::byte* from,
            std::size_t bytes) override {
    Gpu &reader = at(from_index), &writer = at(to_index);
    const auto pair = static_cast<std::size_t>(to_index) * gpus_.size();
    std::call_once(allowed_[pair + static_cast<std::size_t>(from_index)], allow, to_index,
                   from_index);
    {
      const Current current(from_index);
      check(reader.use(from, false), "to");
    }
    follow(writer, reader);
    {
      const Current current(to_index);
      check(writer.use(to, true), "to");
      const cudaStream_t stream = writer.streams.mine().handle;
      check(cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes, stream), "to");
    }
    follow(reader, writer);  // later work of the reader may reuse the memory
    if (&reader == &writer) return;
    const std::uint32_t of_reader = reader.streams.mine().devices;
    writer.streams.mine().devices |= of_reader | std::uint32_t{1} << from_index % 32;
  }
  void name(const Body& made, const Op& op, Caller caller) override {
    at(made.device_index).memory.name(made, op, caller);
  }
  void wait(int index) override {
    at(index).wait();
    throw_of_sources(index);
  }
  std::unique_ptr<QueuePoint> mark(int index) override { return std::make_unique<Mark>(at(index)); }
  std::byte* allocate_pinned(int index, std::size_t bytes) override {
    std::byte* block = nullptr;
    check(pinned_.take(index, bytes, block), "pinned", host->names_of({}));
    return block;
  }
  void release_pinned(std::byte* block) noexcept override { pinned_.give(block); }
  const char* collectives(int index, dist::EngineTable& engine) override {
    return fill_with_nccl(at(index), engine);
  }

 private:
  struct OneGpu {
    std::mutex making;
    std::atomic<Gpu*> gpu = nullptr;
  };
  Gpu& at(int index) {
    OneGpu& one = gpus_[static_cast<unsigned>(index)];
    if (Gpu* const made = one.gpu.load(std::memory_order_acquire)) return *made;
    const Current current(index);
    check_code(index);  // before the lock: an observer that gets the error may use the device
    const std::lock_guard held(one.making);
    if (!one.gpu) one.gpu = new_for_ever<Gpu>(index);
    return *one.gpu;
  }
  /// A result of this device may come from wrong calls on others.
  void throw_of_sources(int index) {
    std::uint32_t others = 0;
    {
      const Current current(index);
      others = at(index).streams.mine().devices.exchange(0);
    }
    for (int other = 0; others; ++other, others >>= 1)
      if (others & 1 && other != index) at(other).throw_reports();
  }
  /// Lets a device read the memory of another one directly if the machine can. Else CUDA copies
  /// through the host's memory.
  static void allow(int reader, int owner) {
    int can = 0;
    cudaMemPool_t pool = nullptr;
    if (reader != owner && cudaDeviceCanAccessPeer(&can, reader, owner) == cudaSuccess && can) {
      if (cudaDeviceGetDefaultMemPool(&pool, owner) == cudaSuccess) {
        const cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, reader},
                                          cudaMemAccessFlagsProtReadWrite};
        cudaMemPoolSetAccess(pool, &access, 1);
      } else {  // the memory is that of cudaMalloc()
        const Current current(reader);
        cudaDeviceEnablePeerAccess(owner, 0);
      }
    }
    cudaGetLastError();  // such as of access that the program has enabled before
  }
  /// Makes new work of this thread on `later` wait for all of its work on `earlier`.
  static void follow(Gpu& later, Gpu& earlier) {
    if (&later == &earlier) return;
    cudaEvent_t reached = nullptr;
    {
      const Current current(earlier.index);
      const Stream& stream = earlier.streams.mine();
      reached = stream.reached;
      check(cudaEventRecord(reached, stream.handle), "to");
    }
    const Current current(later.index);
    check(cudaStreamWaitEvent(later.streams.mine().handle, reached), "to");
  }

  OwnVector<OneGpu> gpus_;
  OwnVector<std::once_flag> allowed_;  // for each reader, those that it reads
  Pinned pinned_;
};

// Of cudaGetDriverEntryPointByVersion(). Kernel arguments of more than 4096 bytes (update.cu) came
// with 12.1, in toolkit and driver. A driver works with later toolkits of its major version.
static_assert(CUDART_VERSION >= 12050, "The CUDA backend needs the toolkit of CUDA 12.5 or later.");
constexpr int least_driver = std::max(12010, CUDART_VERSION / 1000 * 1000);

/// Null if the driver is new enough, else a text that is never freed.
const char* old_driver(int version) {
  static char text[160];
  if (version >= least_driver) return nullptr;
  std::snprintf(text, sizeof text,
                "The NVIDIA driver supports CUDA %d.%d. The CUDA backend needs a driver that "
                "supports CUDA %d.%d.",
                version / 1000, version % 1000 / 10, least_driver / 1000, least_driver % 1000 / 10);
  return text;
}

void add_kernels() {
  for (const NamedKernel* const* family = families; *family; ++family)
    for (const NamedKernel* each = *family; each->name; ++each) {
      const auto [op, part] = host->find_kernel(each->name);
      if (!op) continue;
      op->on(Device::Kind::cuda).set<Queue>(part, each->kernel);
      if (part == Part::value) op->on(Device::Kind::cuda).takes_halves = each->takes_halves;
    }
}
}  // namespace
}  // namespace reel::gpu

extern "C" __attribute__((visibility("default"))) const char* reel_install_cuda(
    const reel::PluginHost& library) {
  using namespace reel::gpu;
  if (library.size != sizeof(reel::PluginHost) ||
      library.layout_of_host != reel::PluginHost::layout)
    return "The CUDA backend was built for another version of reel.";
  if (Memory::limit == 0) return "REEL_CUDA_MEMORY is no number of bytes, such as 500M or 4G.";
  if (const char* const wrong = Products::read_options()) return wrong;
  if (!Cudnn::read_options()) return "REEL_CUDNN is not 0, 1 or lengths.";
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) {
    if (driver == 0) return "No NVIDIA driver is installed.";
    if (const char* const old = old_driver(driver)) return old;
  }
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return cudaGetErrorString(error);
  if (count == 0) return "CUDA found no device.";
  host = &library;
  add_kernels();
  host->add_backend("cuda", *new_for_ever<CudaBackend>(count));
  return nullptr;
}
