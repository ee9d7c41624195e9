// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/deferred.hpp"

#include <cstring>
#include <utility>

#include <reel/ops.hpp>

#include "autograd/playback.hpp"
#include "lib/body/live.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace {
std::int64_t width_of(const Body& x) { return x.shape.end()[-1]; }
std::int64_t rows_of(const Body& x) { return x.elements / width_of(x); }

/// Whether the elements of each row are contiguous, and the step between rows is constant.
bool in_rows(const Body& x) { return x.contiguous || (x.rank() == 2 && x.strides[1] == 1); }

void append_to(Context& context, Tensor& block, std::int64_t at, const Body& rows) {
  const std::int64_t width = width_of(rows), size = size_of(rows.dtype);
  if (!block.defined()) {
    const std::int64_t most = DeferredProduct::most_rows;
    Body* made = allocate(context, rows.dtype, Shape({most, width}), most * width);
    if (!made)
      fail<MemoryError>({}, "matmul", "gradient", "memory for the rows of its uses", "none");
    block = Access::adopt(made);
  }
  std::byte* to = Access::body(block)->data + at * width * size;
  if (rows.contiguous)
    std::memcpy(to, rows.data, static_cast<std::size_t>(rows.bytes()));
  else
    for (std::int64_t i = 0; i < rows_of(rows); ++i)
      std::memcpy(to + i * width * size, rows.data + i * rows.strides[0] * size,
                  static_cast<std::size_t>(width * size));
}

void set_rows(const Tensor& block, std::int64_t rows) {
  Body& body = *Access::body(block);
  const std::int64_t width = width_of(body);
  body.shape = Shape({rows, width});
  body.elements = rows * width;
}
}  // namespace

bool DeferredProduct::fits(const Body& x, const Body& dz) {
  if (!on_cpu(x) || x.elements == 0 || dz.elements == 0 || 2 * rows_of(x) > most_rows) return false;
  const std::int64_t bytes = (width_of(x) + width_of(dz)) * most_rows * size_of(x.dtype);
  return bytes <= most_bytes && x.dtype == dz.dtype && in_rows(x) && in_rows(dz);
}

bool DeferredProduct::has_space(const Body& x) const { return rows_ + rows_of(x) <= most_rows; }

void DeferredProduct::append(Context& context, const Tensor& x, const Tensor& dz) {
  const Body &x_rows = *Access::body(x), &dz_rows = *Access::body(dz);
  if (context.path_mode()) {
    all_x_.push_back(reshape(x, {rows_of(x_rows), width_of(x_rows)}));
    all_dz_.push_back(reshape(dz, {rows_of(dz_rows), width_of(dz_rows)}));
  } else {
    append_to(context, x_, rows_, x_rows);
    append_to(context, dz_, rows_, dz_rows);
  }
  rows_ += rows_of(x_rows);
}

DeferredProduct::Rows DeferredProduct::rows() {
  if (!all_x_.empty())
    return {concat(std::exchange(all_x_, {}), 0), concat(std::exchange(all_dz_, {}), 0)};
  set_rows(x_, rows_);
  set_rows(dz_, rows_);
  return {x_, dz_};
}
void DeferredProduct::clear() {
  rows_ = 0;
  matrix_done = bias_done = false;
}

bool Playback::defer_product(const Record& record, const Tensor& x, const Tensor& dz) {
  const InputSlot& matrix = record.inputs[1];
  Slot& slot = slots_[matrix.value - first_value_];
  const Body &x_rows = *Access::body(x), &dz_rows = *Access::body(dz);
  // The product of the first use is not deferred, because most matrices have only one use.
  if (listened() || at_once_ || !(slot.gradient.defined() || slot.aside) ||
      matrix.shape->rank() != 2 || !DeferredProduct::fits(x_rows, dz_rows))
    return false;
  if (!slot.deferred) {
    deferred_.emplace_back().matrix = matrix.value;
    slot.deferred = static_cast<std::uint32_t>(deferred_.size());
  }
  DeferredProduct& product = deferred_[slot.deferred - 1];
  const std::uint32_t bias = deferred_bias(record, slot.deferred);
  if (product.bias != bias || !product.has_space(x_rows)) run_deferred(product);
  product.bias = bias;
  product.append(context_, x, dz);
  wanted_ &= bias == DeferredProduct::no_value ? ~std::uint64_t{2} : ~std::uint64_t{6};
  return true;
}

/// The bias whose gradient is the sum over the rows of dz, if this sum can be deferred.
std::uint32_t Playback::deferred_bias(const Record& record, std::uint32_t product) {
  if (record.input_count < 3 || !wants(record, 2)) return DeferredProduct::no_value;
  const InputSlot& bias = record.inputs[2];
  if (bias.shape->rank() != 1 || (*bias.shape)[0] != (*record.inputs[1].shape)[1])
    return DeferredProduct::no_value;
  Slot& slot = slots_[bias.value - first_value_];
  if (slot.deferred && slot.deferred != product) return DeferredProduct::no_value;
  slot.deferred = product;
  return bias.value;
}

void Playback::run_deferred(DeferredProduct& product) {
  if (product.empty()) return;
  const DeferredProduct::Rows rows = product.rows();
  if (!product.matrix_done) add_to_matrix(product, rows);
  if (!product.bias_done) add_to_bias(product, rows);
  product.clear();
}

void Playback::add_to_matrix(const DeferredProduct& product, const DeferredProduct::Rows& rows) {
  const auto& [x, dz] = rows;
  Slot& matrix = slots_[product.matrix - first_value_];
  if (!add_product(matrix.gradient, *Access::body(x), Transposed::yes, *Access::body(dz),
                   Transposed::no))
    add(matrix.gradient, matmul(transpose(x), dz));
}

void Playback::add_to_bias(const DeferredProduct& product, const DeferredProduct::Rows& rows) {
  if (product.bias == DeferredProduct::no_value) return;
  const Tensor& dz = rows.dz;
  Slot& bias = slots_[product.bias - first_value_];
  if (!add_in_place(bias.gradient, core_ops.sum_to, {dz}, ShapeOptions{Shape({dz.shape()[1]})}))
    add(bias.gradient, sum(dz, 0));
}

bool Playback::add_deferred(std::uint32_t value) {
  Slot* const slot = slot_of(value);
  if (!slot || !slot->deferred) return true;
  DeferredProduct& product = deferred_[slot->deferred - 1];
  const bool is_matrix = product.matrix == value;
  if (product.empty() || (!is_matrix && product.bias != value)) return true;
  if (context_.path_mode()) return false;
  // Nothing else is added to this gradient before run_deferred(), so the order of additions does
  // not change.
  bool& done = is_matrix ? product.matrix_done : product.bias_done;
  if (done) return true;
  const DeferredProduct::Rows rows = product.rows();
  is_matrix ? add_to_matrix(product, rows) : add_to_bias(product, rows);
  return done = true;
}
}  // namespace reel
