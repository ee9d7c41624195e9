// SPDX-License-Identifier: BSD-3-Clause
// Loading a file takes at most twice the memory of its tensors.
#include <cstdint>
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/pickle_bytes.hpp"
#include "support/catch.hpp"
#include "support/peak.hpp"

namespace reel::tests {
TEST_CASE("loading takes at most twice the memory of the tensors, and 8 MiB", "[cpu][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const Folder folder;
  constexpr std::int64_t side = 1600;  // 10 MiB of float32
  const auto save = [&](const Tensor& x) {
    io::save_npy(folder.file("x.npy"), x);
    io::save_npy(folder.file("fortran.npy"), transpose(x));
    const io::NamedTensors tensors = {{"a", x}, {"b", x + 1}};
    io::save_npz(folder.file("x.npz"), tensors);
    io::save_npz(folder.file("deflated.npz"), tensors, {.compress = true});
    io::save_safetensors(folder.file("x.safetensors"), tensors);
    io::save_torch(folder.file("x.pt"), tensors);
  };
  save(arange(0, side * side).to(DType::float32).reshape({side, side}));
  trim_memory();
  constexpr std::int64_t one = 4 * side * side, limit = 8 * mebibyte;
  const auto check = [&](const char* name, std::int64_t decoded, auto load) {
    const std::int64_t peak = peak_of([&] { load(folder.file(name)); });
    INFO(name << ": " << peak / mebibyte << " MiB for tensors of " << decoded / mebibyte);
    CHECK(peak >= decoded);
    CHECK(peak <= 2 * decoded + limit);
  };
  check("x.npy", one, [](const std::string& path) { io::load_npy(path); });
  check("fortran.npy", one, [](const std::string& path) { io::load_npy(path); });
  check("x.npz", 2 * one, [](const std::string& path) { io::load_npz(path); });
  check("deflated.npz", 2 * one, [](const std::string& path) { io::load_npz(path); });
  check("x.safetensors", 2 * one, [](const std::string& path) { io::load_safetensors(path); });
  check("x.pt", 2 * one, [](const std::string& path) { io::load_torch(path); });
}

TEST_CASE("a hostile pickle takes at most 48 times the memory of its file, and 8 MiB",
          "[cpu][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const Pickled file;
  constexpr std::int64_t bytes = 3 << 20;
  const auto check = [&](const char* what, const std::string& before, const std::string& once,
                         const std::string& after) {
    std::string pickle = two + before;
    while (static_cast<std::int64_t>(pickle.size()) < bytes) pickle += once;
    file.write(pickle + after);
    trim_memory();
    const std::int64_t peak = peak_of([&] {
      try {
        io::load_torch(file.path);
      } catch (const IoError&) {
      }
    });
    INFO(what << ": " << peak / mebibyte << " MiB");
    CHECK(peak > 0);
    CHECK(peak <= 48 * bytes + 8 * mebibyte);
  };
  check("tuples inside of tuples", ")", "\x85", ".");
  check("lists inside of lists", "", "]", std::string(bytes - 1, 'a') + ".");
  check("empty lists", "(", "]", "t.");
  check("notes", "(", "]\x94", "t.");
  check("one value", "(N", "2", "t.");
  check("integers", "(", "K\5", "t.");
  check("marks", "", "(", ".");
  check("one tensor", "(" + four + "q\1", "h\1", "t.");
  check("storages",
        "(" + storage() + "0(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
            text("cpu") + "K\4tq\1",
        "h\1Q", "t.");
  check("objects", "(ca\nb\nq\1)q\2", "h\1h\2R", "t.");
  check("names", "(" + text(std::string(100, 'a')) + "q\1", "h\1h\1\x93", "t.");
}
}  // namespace reel::tests
