// SPDX-License-Identifier: BSD-3-Clause
// Graphs as JSON and tensors.
#pragma once
#include <string>

#include <reel/graph.hpp>

#include "lib/io/archive.hpp"

namespace reel::io {
inline constexpr std::string_view graph_key = "reel.graph";  // in the metadata
inline constexpr std::int64_t graph_version = 1;
inline constexpr int most_loops_inside = 16;  // of each other

/// The JSON of a graph; its constants and Variables are added to the tensors.
std::string graph_json(const reel::detail::GraphData& data, NamedTensors& tensors, Caller caller);
/// The graph of a file. It is not verified yet.
Shared<const reel::detail::GraphData> graph_of_json(const std::string& json, const Archive& archive,
                                                    const Path& path, Caller caller);
}  // namespace reel::io
