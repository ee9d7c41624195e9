// SPDX-License-Identifier: BSD-3-Clause
// What a Key finds.
#pragma once
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include <reel/memory.hpp>

#include <reel/data/key.hpp>

namespace reel::data {
/// Throws Error that lists the names, or IndexError for a position. `what` is "feature".
[[noreturn]] void fail_key(const Key& key, std::string_view op, std::string_view what,
                           std::span<const std::string_view> names);

/// The position of the first of `all` that has the name. `name_of` gives that of each.
template <class All, class NameOf>
std::size_t position_of(const Key& key, std::string_view op, std::string_view what, const All& all,
                        const NameOf& name_of) try {
  if (key.position >= 0 && static_cast<std::size_t>(key.position) < all.size())
    return static_cast<std::size_t>(key.position);
  std::vector<std::string_view> names;
  if (key.position < 0)
    for (std::size_t i = 0; i < all.size(); ++i)
      if (name_of(all[i]) == key.name) return i;
  for (const auto& one : all) names.push_back(name_of(one));
  fail_key(key, op, what, names);
} catch (const std::bad_alloc&) {
  fail_memory(key.caller, op);
}
}  // namespace reel::data
