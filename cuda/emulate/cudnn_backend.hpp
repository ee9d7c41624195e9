// SPDX-License-Identifier: BSD-3-Clause
// The descriptors of cuDNN's backend API, and a convolution that they describe.
#pragma once
#include <map>

#include "cuda/emulate/cudnn.hpp"

namespace reel::emulate::dnn {
/// A tensor [n, channels, spatial axes].
struct Dense {
  std::int64_t id = 0, alignment = 1;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> lengths, steps;
  bool is_virtual = false;  // between two operations, in no memory

  std::size_t bytes() const;
};
std::size_t bytes_of(cudnnDataType_t type);

/// A convolution: of x and the weight to y, or a gradient, whose result is x or the weight.
struct Problem {
  enum class Result { y, x, weight };
  Result result = Result::y;
  Dense x, weight, y;
  cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  std::vector<std::int64_t> before, after, dilation, stride;
  bool has_bias = false;
  Dense bias = {};  // added to y before it is rounded

  const Dense& output() const { return result == Result::y ? y : result == Result::x ? x : weight; }
};

/// What computes a convolution: how its numbers differ, what it says about itself, how much
/// workspace it wants.
enum class Engine { plain, with_workspace, tensor_core, any_order, winograd, short_sums, no_plan };
std::vector<cudnnBackendNumericalNote_t> notes_of(Engine engine, const Problem& problem);
std::size_t workspace_of(Engine engine, const Problem& problem);
/// Engines in a random order. Some of them are missing, unless the mode is the last resort.
std::vector<Engine> engines_for(const Problem& problem, cudnnBackendHeurMode_t mode);

/// The elements of an attribute: the bits of numbers or addresses.
struct Elements {
  cudnnBackendAttributeType_t type;
  std::vector<std::int64_t> bits;
};
struct Backend {
  cudnnBackendDescriptorType_t kind;
  bool is_final = false;
  std::map<int, Elements> attributes = {};
  // Set when it becomes final, or when cuDNN fills it.
  Problem problem = {};
  cudnnHandle_t handle = nullptr;
  std::vector<Engine> engines = {};

  const std::vector<std::int64_t>& numbers(int attribute) const {
    return attributes.at(attribute).bits;
  }
  std::int64_t number(int attribute) const { return numbers(attribute)[0]; }
  template <class T>
  T* address(int attribute, std::size_t i = 0) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<T*>(std::uintptr_t(numbers(attribute)[i]));
  }
  const Backend& part(int attribute) const { return *address<Backend>(attribute); }
};

/// Reads and checks the operation of a convolution, all of whose attributes are set.
cudnnStatus_t read_operation(const Backend& operation, Problem& problem);
/// Reads and checks a graph: a convolution, or one and the addition of a bias.
cudnnStatus_t read_graph(const Backend& graph, Problem& problem);
/// Checks a call of a plan, and queues it.
cudnnStatus_t execute(cudnnHandle_t handle, const Backend& plan, const Backend& pack);
}  // namespace reel::emulate::dnn
