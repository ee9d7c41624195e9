// SPDX-License-Identifier: BSD-3-Clause
// The error of a C++ type that is not that of a tensor's elements.
#pragma once
#include <string_view>

#include <reel/caller.hpp>
#include <reel/dtype.hpp>

namespace reel {
/// `op` is a template of the type, as item<T>().
[[noreturn]] void refuse_type(std::string_view op, DType dtype, DType asked, Caller caller);
}  // namespace reel
