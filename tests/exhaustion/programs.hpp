// SPDX-License-Identifier: BSD-3-Clause
// What users do, in parts that come to a few numbers. The programs allocate nothing of their own.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include <reel/reel.hpp>

namespace reel::tests {
/// A digest of what a program computed; takes no memory.
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

/// Made while there is memory, with what it works on.
class Program {
 public:
  virtual ~Program() = default;
  /// While there is memory: puts back what run() changes.
  virtual void reset() {}
  virtual void run(Results& results) = 0;
};
struct ProgramKind {
  const char* name;
  std::unique_ptr<Program> (*make)(unsigned variant);
};
std::span<const ProgramKind> program_kinds();
std::unique_ptr<Program> files_program(unsigned variant);
}  // namespace reel::tests
