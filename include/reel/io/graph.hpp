// SPDX-License-Identifier: BSD-3-Clause
// The graph of a traced function in a file.
#pragma once  // defined in lib/io
#include <reel/graph.hpp>
#include <reel/io/formats.hpp>

namespace reel::io {
/// Saves a graph in one .safetensors file: the values of constants and Variables as tensors, and
/// the rest as JSON in the metadata. An existing file is replaced atomically. Throws Error, which
/// names the step, for a step of a user's function or kernel, and IoError if the file cannot be
/// written.
///
///     io::save_graph("scores.safetensors", graph_of(traced, x));
REEL_API void save_graph(const Path& path, const Graph& graph, Caller caller = Caller::here());
/// Loads a graph that save_graph() wrote. It has the same text and hash, and run() computes the
/// same bits. The file need not be trusted: sizes are checked against the file before memory is
/// taken, and the options and inputs of each step are checked. Throws IoError for a file that is
/// missing, damaged or of another kind or version, and Error for a graph that does not verify, or
/// that has an op or a device which this program does not have.
REEL_API Graph load_graph(const Path& path, Caller caller = Caller::here());
}  // namespace reel::io
