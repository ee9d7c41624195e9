// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/key.hpp"

#include <string>

#include <reel/error.hpp>

#include "lib/data/files.hpp"

namespace reel::data {
void fail_key(const Key& key, std::string_view op, std::string_view what,
              std::span<const std::string_view> names) {
  if (key.position >= 0)
    fail<IndexError>(key.caller, op, what, "a position below " + std::to_string(names.size()),
                     std::to_string(key.position));
  std::string known;
  for (const std::string_view name : names)
    if (known.size() < 100) known.append(known.empty() ? "" : ", ").append(io::escaped(name));
  fail<Error>(key.caller, op, what, names.empty() ? "a name, but there is none" : "one of " + known,
              quoted(key.name));
}
}  // namespace reel::data
