// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/error.hpp>

#include <string>

namespace reel::tests {
/// The whole text of the Error that f throws; empty if it throws none.
template <class F>
std::string error_text(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}
}  // namespace reel::tests
