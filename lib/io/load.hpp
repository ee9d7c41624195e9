// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/io/save.hpp>

#include "lib/io/archive.hpp"

namespace reel::io::detail {
/// The name of a load in errors, and whether it needs all of the file. load() skips optimizers,
/// generators and numbers if it is given none.
struct LoadScope {
  std::string_view op = "load";
  bool whole = false;
};
/// What save() writes of a state.
struct Contents {
  NamedTensors tensors;
  Metadata metadata;
};
Contents contents_of(const State& state);
/// load() from an open file.
LoadReport load_from(const Archive& archive, const PathAt& path, const LoadOptions& options,
                     const State& state, LoadScope scope = {});
}  // namespace reel::io::detail
