// SPDX-License-Identifier: BSD-3-Clause
// Small CUDA programs that can run with or without a planted fault. Each run is a separate process:
// `test_emulator --program NAME fault|sound`.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

namespace programs {
/// The possible finders of a fault.
enum Finder : unsigned {
  comparison = 1,     // random orders and a comparison of the result with a reference
  check = 2,          // a check of the emulator, or an error that the runtime returns
  closed_memory = 4,  // closed pages, which only allowed work can access
  any_order = 64,     // with another finder: that one finds the fault in every order
  address = 8,        // AddressSanitizer
  undefined = 16,     // UndefinedBehaviorSanitizer
  thread = 32,        // ThreadSanitizer
};

struct Program {
  const char* name;
  /// Runs the program. True if the results are right. A fault that is found may end the process
  /// before.
  bool (*run)(bool fault);
  unsigned found_by;
  const char* says;  // part of the first finder's output; "" for any output
};

/// Programs without a fault; their found_by is 0.
std::span<const Program> facts();
std::span<const Program> in_kernels();
std::span<const Program> in_memory();
std::span<const Program> in_streams();
std::span<const Program> in_graphs();
std::span<const Program> in_products();
std::span<const Program> in_recurrent();  // this and the next one only with the headers of cuDNN
std::span<const Program> in_convolutions();
std::vector<Program> all();

/// Ends the process with a message if the runtime returns an error.
void ok(cudaError_t error, int line = __builtin_LINE());
/// Prints the error and fails. For faults that an error code reveals.
bool expect_success(cudaError_t error, int line = __builtin_LINE());

/// Allocates and copies device memory for tests.
template <class T>
T* on_device(const std::vector<T>& values) {
  void* at = nullptr;
  ok(cudaMalloc(&at, values.size() * sizeof(T)));
  ok(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(at);
}
template <class T>
T* device_memory(std::size_t count) {
  void* at = nullptr;
  ok(cudaMalloc(&at, count * sizeof(T)));
  return static_cast<T*>(at);
}
template <class T>
std::vector<T> from_device(const T* at, std::size_t count) {
  std::vector<T> values(count);
  ok(cudaMemcpy(values.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}
}  // namespace programs
