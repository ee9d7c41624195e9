// SPDX-License-Identifier: BSD-3-Clause
#include <reel/error.hpp>
#include <reel/fields.hpp>

namespace reel::detail {
std::string path_to(std::string_view outer, std::string_view inner) {
  if (outer.size() > 4000)
    fail<Error>({}, "REEL_FIELDS", "model", "paths of at most 4000 characters",
                std::string(outer.substr(0, 60)) + "...",
                "Perhaps a pointer in the model leads back to the model.");
  std::string path(outer);
  if (!path.empty()) path += '.';
  return path += inner;
}
}  // namespace reel::detail
