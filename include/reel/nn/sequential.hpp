// SPDX-License-Identifier: BSD-3-Clause
// Layers one after another.
#pragma once
#include <string_view>
#include <tuple>
#include <utility>

#include <reel/fields.hpp>

namespace reel::nn {
/// Calls each part with the result of the part before. A part is a layer, a function such as relu,
/// or a lambda.
///
///     nn::Sequential model(nn::Linear(2, 8), relu, nn::Linear(8, 1));
///     Tensor y = model(x);
template <class... Parts>
struct Sequential {
  std::tuple<Parts...> parts;
  explicit Sequential(Parts... each) : parts(std::move(each)...) {}
  Tensor operator()(Operand x) const {
    CallerScope here(x.caller());
    Tensor value = reel::detail::tensor_of(x);
    std::apply([&](auto&... part) { ((value = part(std::move(value))), ...); }, parts);
    return value;
  }
  /// The parts are called "0", "1", ...
  void fields(auto&& field) { name_parts(field, std::index_sequence_for<Parts...>()); }

 private:
  template <std::size_t... I>
  void name_parts(auto&& field, std::index_sequence<I...>) {
    (field(std::to_string(I), std::get<I>(parts)), ...);
  }
};
}  // namespace reel::nn
