// SPDX-License-Identifier: BSD-3-Clause
// Programs as users write them. Each computes a few numbers. The test code itself allocates nothing
// while they run.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <reel/reel.hpp>
#include <string>

#include "exhaustion/allocations.hpp"

namespace reel::tests {
/// A digest of the results of a program. It allocates no memory.
class Results {
 public:
  void add(const Tensor& x);
  void add(double number) { numbers_[count_++ % numbers_.size()] += number; }
  friend bool operator==(const Results& a, const Results& b) {
    return a.count_ == b.count_ && a.numbers_ == b.numbers_;
  }

 private:
  std::array<double, 16> numbers_ = {};
  std::size_t count_ = 0;
};

/// A program and its data. Both are made before allocations fail.
class Program {
 public:
  virtual ~Program() = default;
  /// Undoes the changes of run(). Allocations do not fail meanwhile.
  virtual void reset() {}
  virtual void run(Results& results) = 0;
};
struct ProgramKind {
  const char* name;
  std::unique_ptr<Program> (*make)(unsigned variant);
};
std::span<const ProgramKind> program_kinds();

/// Fails each allocation of a program in turn, or each `step`-th. Returns how many it has failed.
/// memory_ends.cpp.
int exhaust(const std::string& name, Program& program, Failing failing, std::int64_t step);

template <class P>
std::unique_ptr<Program> make(unsigned variant) {
  return std::make_unique<P>(variant);
}
// files.cpp
std::unique_ptr<Program> files_program(unsigned variant);
std::unique_ptr<Program> checkpoints_program(unsigned variant);
// data_files.cpp
std::unique_ptr<Program> data_files_program(unsigned variant);
// exchange.cpp
std::unique_ptr<Program> exchange_program(unsigned variant);
// functions.cpp
std::unique_ptr<Program> selection_program(unsigned variant);
std::unique_ptr<Program> layout_program(unsigned variant);
std::unique_ptr<Program> scatter_program(unsigned variant);
std::unique_ptr<Program> distributions_program(unsigned variant);
std::unique_ptr<Program> losses_program(unsigned variant);
std::unique_ptr<Program> plots_program(unsigned variant);
// models.cpp
std::unique_ptr<Program> optimizers_program(unsigned variant);
std::unique_ptr<Program> layers_program(unsigned variant);
std::unique_ptr<Program> transformers_program(unsigned variant);
std::unique_ptr<Program> transforms_program(unsigned variant);

inline constexpr DType floats[] = {DType::float32, DType::float64};
/// Numbers near 1 that depend on the variant.
inline Tensor numbers(const Shape& shape, unsigned variant) {
  const GeneratorScope scope(Generator(variant + 11));
  return random::uniform(shape, {.low = -1, .high = 1, .dtype = floats[variant % 2]});
}
inline std::int64_t side(unsigned variant) { return 2 + 3 * (variant % 5); }
}  // namespace reel::tests
