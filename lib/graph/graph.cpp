// SPDX-License-Identifier: BSD-3-Clause
#include "lib/graph/graph.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lib/body/access.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/body/line.hpp"
#include "lib/body/live.hpp"
#include "lib/body/text.hpp"

namespace reel::graph {
constinit Op loop_op{.name = "loop", .arity = -1};
constinit Op view_op{.name = "view"};
constinit Op gradient_op{.name = "gradient", .arity = 0};

Layout::Layout(const Body& body)
    : dtype(body.dtype),
      contiguous(body.contiguous),
      live(is_live(body)),
      device(device_of(body)),
      elements(body.elements),
      shape(body.shape) {
  std::copy_n(body.strides, shape.rank(), strides);
}
void Layout::set(Body& body) const {
  body.dtype = dtype;
  body.contiguous = contiguous;
  body.device_kind =
      static_cast<std::uint8_t>(static_cast<int>(device.kind) | (live ? live_number : 0));
  body.device_index = static_cast<std::int8_t>(device.index);
  body.elements = elements;
  body.shape = shape;
  std::copy_n(strides, Shape::max_rank, body.strides);
}
bool operator==(const Layout& a, const Layout& b) {
  if (a.dtype != b.dtype || a.contiguous != b.contiguous || a.live != b.live ||
      !(a.device == b.device) || !(a.shape == b.shape))
    return false;
  // The stride of an axis of length 1 is never used.
  for (std::size_t i = 0; i < a.shape.rank() && !a.contiguous; ++i)
    if (a.shape.data()[i] != 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

KeptOptions::KeptOptions(OptionsView options) : type_(options.type) {
  if (!type_) return;
  data_ = ::operator new(type_->size);
  type_->copy(data_, options.data);
}
KeptOptions::KeptOptions(const OptionsType& type) : type_(&type) {
  data_ = ::operator new(type_->size);
  type_->make(data_);
}
KeptOptions::KeptOptions(KeptOptions&& other) noexcept
    : type_(std::exchange(other.type_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
KeptOptions& KeptOptions::operator=(KeptOptions other) noexcept {
  std::swap(type_, other.type_);
  std::swap(data_, other.data_);
  return *this;
}
KeptOptions::~KeptOptions() {
  if (data_ && type_->destroy) type_->destroy(data_);
  ::operator delete(data_);
}
bool operator==(const KeptOptions& a, const KeptOptions& b) {
  return a.type_ == b.type_ && (!a.type_ || equal_options(*a.type_, a.data_, b.data_));
}
std::string element_text(const Body& x, std::int64_t i) {
  return with_element(x.dtype, [&]<class T>(Type<T>) -> std::string {
    if constexpr (std::is_same_v<T, bool>) return x.as<bool>()[i] ? "true" : "false";
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
      return to_text(Scalar(x.as<T>()[i]));
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, static_cast<float>(x.as<T>()[i])).ptr};
  });
}

std::string place_of(const Step& step) {
  const std::string text(step.op ? step.op->name : "an op");
  return step.caller.file ? text + " at " + line_text(step.caller) : text;
}

}  // namespace reel::graph

namespace reel::detail {
const Tensor& GraphData::variable_value(std::size_t i) const {
  return i < program.size() ? Access::cell(program[i]).value : variable_values[i];
}
}  // namespace reel::detail
