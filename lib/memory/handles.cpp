// SPDX-License-Identifier: BSD-3-Clause
// How long the bodies of Tensors and the cells of Variables live.
#include <utility>

#include "lib/body/access.hpp"
#include "lib/memory/blocks.hpp"
#include "lib/memory/handles.hpp"

namespace reel {
void Tensor::release(Body* body) noexcept { reel::release(body); }
namespace {
void retain(Cell* cell) { detail::add_reference(cell->references); }
}  // namespace

void release(Cell* cell) {
  if (!detail::drop_reference(cell->references)) return;
  for (const VariablePath* path = cell->path; path;) delete std::exchange(path, path->shorter);
  delete cell;
}

Variable::Variable(const Variable& other) noexcept : cell_(other.cell_) { retain(cell_); }
Variable& Variable::operator=(const Variable& other) & {
  retain(other.cell_);
  release(std::exchange(cell_, other.cell_));
  return *this;
}
Variable::~Variable() { release(cell_); }
}  // namespace reel
