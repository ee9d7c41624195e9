// SPDX-License-Identifier: BSD-3-Clause
// What computes on the devices of one kind. Gate, tape and traces call kernels through it.
#pragma once
#include <cstdlib>
#include <memory>

#include "lib/memory/device_memory.hpp"
#include "lib/table/op.hpp"
#include "lib/table/planned_graph.hpp"

namespace reel {
namespace dist {
struct EngineTable;
}
/// A call of a kernel on a device, whose memory holds inputs and outputs. All that the members
/// refer to lives only as long as the call, so the backend copies what the kernel reads later. The
/// members are references because copying recently written data is slow.
struct DeviceCall {
  const Op& op;
  Part part;
  const OptionsView& options;
  const KernelCall& kernel;  // its options are those, too
  Device device;
  const Caller& caller;  // the line that an error names
};

/// Whether the kernel must not see a dtype of 16 bits of this call. Kernels that only move elements
/// take these dtypes, and some kernels of the CPU read them: Op::reads_halves.
inline bool must_widen(const DeviceCall& call, bool reads_halves) {
  if (call.op.moves && call.part == Part::value) return false;
  const KernelCall& kernel = call.kernel;
  for (int i = 0; i < kernel.input_count && !reads_halves; ++i)
    if (kernel.inputs[i] && is_half(kernel.inputs[i]->dtype)) return true;
  for (int i = 0; i < kernel.output_count; ++i)
    if (kernel.outputs[i] && is_half(kernel.outputs[i]->dtype)) return true;
  return false;
}

/// A point in the queue of a device.
class QueuePoint {
 public:
  QueuePoint() = default;
  QueuePoint(const QueuePoint&) = delete;
  QueuePoint& operator=(const QueuePoint&) = delete;
  virtual ~QueuePoint() = default;
  /// Whether all work before it is done.
  virtual bool done() = 0;
  virtual void wait() = 0;
  /// Both points are of this device, and done.
  virtual double milliseconds_since(QueuePoint& earlier) = 0;
};

/// Work of a device runs later, possibly on another thread. That of one thread runs in its order,
/// as does all work on one block of memory. The next wait throws errors that kernels have found.
class Backend : public DeviceMemory {
 public:
  virtual int device_count() const = 0;
  /// What the backend cannot use on this machine, for a status: sentences, or empty.
  virtual std::string missing() const { return {}; }
  /// Puts a kernel on the queue, which Op::on() of this kind of device has. Inputs may be strided,
  /// and those of a pointwise op of any shape that broadcasts to the output's.
  virtual void run(const DeviceCall& call) = 0;
  /// The pass that does a part of a pointwise op over contiguous elements, where inputs and result
  /// have these dtypes; null where there is none, or where passes are no functions of the host.
  virtual Pass pass_of(const Op& op, Part part, DType from, DType to) const = 0;
  /// Runs planned calls in their order.
  virtual void execute(const PlannedGraph& graph) = 0;
  /// Drops what execute() has kept for a plan that was replaced or is destroyed. Called on any
  /// thread, also after main(). Another thread may still execute graphs of a replaced plan.
  virtual void forget(int /*index*/, std::uint64_t /*plan*/) noexcept {}
  /// The bytes of Op::kept, where kernels of this backend keep something of their own in it, which
  /// only they can read; 0 where they keep what those of the CPU keep.
  virtual std::size_t kept_bytes(const Inference& /*call*/) { return 0; }
  /// Fills a row-major body with one number.
  virtual void fill(Body& to, double number) = 0;
  /// Copies from the host's memory, which is read before this returns unless it is pinned.
  virtual void upload(int index, std::byte* to, const void* from, std::size_t bytes) = 0;
  /// Memory of the device that has these eight bytes for ever, for a number that a program uses
  /// often; null where there is none.
  virtual const std::byte* constant(int /*index*/, std::uint64_t /*bytes*/) { return nullptr; }
  /// Copies to the host, after waiting for the work of this thread, and for what may report errors.
  virtual void download(int index, void* to, const std::byte* from, std::size_t bytes) = 0;
  /// Between two devices of this kind. What is put on the queue of either later comes after it.
  virtual void copy(int to_index, std::byte* to, int from_index, const std::byte* from,
                    std::size_t bytes) = 0;
  /// Remembers what made a value, for the error of a full memory.
  virtual void name(const Body& /*made*/, const Op& /*op*/, Caller /*caller*/) {}
  /// Waits until all work of the device is done.
  virtual void wait(int index) = 0;
  /// The end of this thread's work as it is now; null where the backend has no such points. Then an
  /// Event waits.
  virtual std::unique_ptr<QueuePoint> mark(int /*index*/) { return nullptr; }
  /// Memory of the host, from which upload() to this device may read after it has returned, until
  /// release_pinned() and later; null where there is none. All elements are written before the
  /// first upload, and never again.
  virtual std::byte* allocate_pinned(int /*index*/, std::size_t bytes) {
    return static_cast<std::byte*>(std::malloc(bytes));
  }
  virtual void release_pinned(std::byte* block) noexcept { std::free(block); }
  /// Fills the table, which says the rank and the number of ranks, with an engine for messages in
  /// memory of this device. Returns null, or why there is none, a text that is never freed.
  virtual const char* collectives(int /*index*/, dist::EngineTable& /*engine*/) {
    return "this backend has no collectives";
  }

 protected:
  ~Backend() = default;
};

/// Null if the process has no such devices.
inline Backend* backend_of(Device::Kind kind) {
  return static_cast<Backend*>(device_memories[static_cast<int>(kind)]);
}
/// Called once for each kind of devices, before its first use, with its name in texts: "cpu",
/// "cuda", or that of a kind of its own, whose number this gives. Name and backend live as long as
/// the process. Throws DeviceError if there are too many kinds.
Device::Kind register_backend(const char* name, Backend& backend);
}  // namespace reel
