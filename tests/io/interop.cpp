// SPDX-License-Identifier: BSD-3-Clause
// Writes files for tests/io/interop.py, which reads them with the libraries of their formats.
#include <cstdlib>
#include <string>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("files for other programs are written", "[.][interop]") {
  const char* const folder = std::getenv("REEL_INTEROP");
  REQUIRE(folder != nullptr);
  const auto path = [&](const char* name) { return std::string(folder) + "/" + name; };
  const Tensor numbers = arange(0.0f, 6.0f).reshape({2, 3});
  io::NamedTensors tensors = {{"scalar", tensor(2.5f)},
                              {"empty", zeros({0, 3})},
                              {"transposed", transpose(numbers)},
                              {"a \"name\" of \xc3\xa9", numbers}};
  for (int dtype = 0; dtype < dtype_count; ++dtype)
    tensors.emplace_back("x." + std::string(name_of(static_cast<DType>(dtype))),
                         numbers.to(static_cast<DType>(dtype)));
  io::save_safetensors(path("all.safetensors"), tensors, {.metadata = {{"key", "a \"text\""}}});
  io::save_safetensors(path("shards.safetensors"), tensors, {.shard_bytes = 50});
  io::save_torch(path("all.pt"), tensors);
  std::erase_if(tensors,
                [](const auto& x) { return x.second.dtype() == bfloat16; });  // NumPy has none
  io::save_npz(path("stored.npz"), tensors);
  io::save_npz(path("deflated.npz"), tensors, {.compress = true});
  io::save_npy(path("fortran.npy"), transpose(numbers));
}
}  // namespace reel::tests
