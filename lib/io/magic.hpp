// SPDX-License-Identifier: BSD-3-Clause
// Finds out the format of a file by its first bytes.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "lib/io/input.hpp"

namespace reel::io {
enum class Format : std::uint8_t { npy, npz, safetensors, torch, other };

/// Whether the file begins as torch.save() began files before PyTorch 1.6.
bool is_legacy_torch(const Input& input);
/// Returns `input`. If its first bytes are those of another format, throws IoError, which names the
/// format and the function that reads it. `expected` names the formats that are read here.
const Input& of_format(const Input& input, std::initializer_list<Format> wanted,
                       std::string_view expected);
}  // namespace reel::io
