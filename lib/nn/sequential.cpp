// SPDX-License-Identifier: BSD-3-Clause
#include <reel/nn/sequential.hpp>

#include <utility>

namespace reel {
detail::Member& detail::append(std::vector<Member>& list, Member member) {
  return list.emplace_back(std::move(member));
}

namespace nn {
Part::Part(Tensor (*function)(Operand)) : Part(function, 0) {}
Part::Part(const Part& other) try
    : object_(other.object_ ? other.type_->copy(other.object_) : nullptr), type_(other.type_) {
} catch (const std::bad_alloc&) {
  fail_memory({}, "Sequential");
}

Sequential::Sequential(std::initializer_list<Part> each) try : parts(each) {
  if (parts.size() == 1)  // Sequential{other} is a copy
    if (const Sequential* const other = parts[0].as<Sequential>())
      parts = std::vector<Part>(other->parts);
} catch (const std::bad_alloc&) {
  fail_memory({}, "Sequential");
}
void Sequential::reserve(std::size_t count) { parts.reserve(count); }
void Sequential::append(Part part) { parts.push_back(std::move(part)); }

Tensor Sequential::operator()(Operand x) const {
  CallerScope here(x.caller());
  Tensor value = x.value();
  for (const Part& part : parts) value = part(std::move(value));
  return value;
}
}  // namespace nn
}  // namespace reel
