// SPDX-License-Identifier: BSD-3-Clause
// The backend of the CPU. Kernels run at once, on the calling thread and on the threads of the
// pool.
#pragma once
#include "lib/table/passes.hpp"

namespace reel {
class CpuBackend final : public HostBackend {
 public:
  static CpuBackend& the();

  std::byte* allocate(int index, std::size_t bytes) override;
  void release(int index, std::byte* block, std::size_t bytes) noexcept override;
  int device_count() const override { return 1; }
  void run(const DeviceCall& call) override;
  Pass pass_of(const Op& op, Part part, DType from, DType to) const override;
  void execute(const PlannedGraph& graph) override;
  void fill(Body& to, double number) override;
  void upload(int index, std::byte* to, const void* from, std::size_t bytes) override;
  void download(int index, void* to, const std::byte* from, std::size_t bytes) override;
  void copy(int to_index, std::byte* to, int from_index, const std::byte* from,
            std::size_t bytes) override;
  void wait(int) override {}
  // In passes.cpp.
  void share_pass(const Passes& passes, PassFunction function, std::int64_t n,
                  const void* const* inputs, const int* sizes, int count, unsigned how,
                  void* output, int size) override;
  void run_rows(const Pass& pass, const Body& x, const Body& row, Body& output) override;
  void run_transposed(const Pass& pass, const Body& transposed, const Body& in_order,
                      bool transposed_first, Body& output) override;

 private:
  /// A pointwise op over any layout. Broadcast inputs are visited so that a function gets
  /// contiguous elements.
  void run_pointwise(const Op& op, const KernelCall& call);
  /// The gradient of one input, see Part.
  void run_pointwise_gradient(const DeviceCall& call);
  void run_planned(const PlannedGraph& graph, const Instruction& instruction);
  void run_blocks(const PlannedGraph& graph, const Instruction* blocks);
  void run_on_rows(const PlannedGraph& graph, const Instruction& call, std::int64_t at,
                   std::int64_t n, std::byte* blocks);
  void run_stages(const PlannedGraph& graph, const Instruction& stages);
};
}  // namespace reel
