// SPDX-License-Identifier: BSD-3-Clause
// A file of another kind than the call reads is named, with the function that reads it.
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// Checks that f throws an IoError with this part in its first line and this one after it.
template <class F>
void check_named(const F& f, const std::string& part, const std::string& advice) {
  std::string text;
  try {
    f();
  } catch (const IoError& error) {
    text = error.what();
  }
  const std::size_t line = text.find('\n');
  INFO(text << "\nexpecting " << part << " and " << advice);
  CHECK(text.substr(0, line).find(part) != text.npos);
  CHECK(text.find(advice, line) != text.npos);
}
}  // namespace

TEST_CASE("a loader names a file of another kind, and what reads it") {
  const Folder folder;
  const std::string npy = folder.file("a.npy"), npz = folder.file("a.npz"),
                    safetensors = folder.file("a.safetensors"), torch = folder.file("a.pt"),
                    text = folder.file("a.txt"), pickle = folder.file("a.pkl"),
                    hdf5 = folder.file("a.h5");
  const Tensor x = ones({2, 3});
  io::save_npy(npy, x);
  io::save_npz(npz, {{"x", x}});
  io::save_safetensors(safetensors, {{"x", x}});
  io::save_torch(torch, {{"x", x}});
  write_file(text, "epoch,loss\n1,0.5\n");
  write_file(pickle, std::string("\x80\x04\x95\0\0", 5));
  write_file(hdf5, "\x89HDF\r\n\x1a\n");
  const auto load_npy = [](const std::string& path) { io::load_npy(path); };
  const auto load_npz = [](const std::string& path) { io::load_npz(path); };
  const auto load_safetensors = [](const std::string& path) { io::load_safetensors(path); };
  const auto load_torch = [](const std::string& path) { io::load_torch(path); };
  const auto load = [](const std::string& path) {
    const nn::Linear layer(2, 3);
    io::load(path, layer);
  };
  const auto check = [&](const std::string& path, const std::string& kind,
                         const std::string& advice, const auto&... loads) {
    (check_named([&] { loads(path); }, "got " + kind, advice), ...);
  };
  check(npy, "a .npy file", "io::load_npy reads it.", load_npz, load_safetensors, load_torch, load);
  check(npz, "a .npz file", "io::load_npz reads it.", load_npy, load_safetensors, load_torch);
  check(safetensors, "a .safetensors file", "io::load_safetensors reads it.", load_npy, load_npz,
        load_torch);
  check(torch, "a PyTorch file", "io::load_torch reads it.", load_npy, load_npz, load_safetensors);
  check(REEL_GOLDEN "/tagger.pt", "a PyTorch file", "io::load_torch", load_npy);
  check(REEL_GOLDEN "/deflated.npz", "a .npz file", "io::load_npz", load_npy);
  check(text, "a text", "", load_npy, load_npz, load_safetensors, load_torch, load);
  check(pickle, "a pickle of Python", "torch.save()", load_npy, load_npz, load_safetensors,
        load_torch, load);
  check(hdf5, "an HDF5 file", ".safetensors", load_npz, load_safetensors, load_torch, load);
  check_named([&] { io::load_npy(text); }, "load_npy: \"a.txt\": expected the format .npy", "");
  check_named([&] { load(npy); }, "expected the format .safetensors, .npz or that of PyTorch", "");
}

TEST_CASE("a .safetensors file whose header's length looks like a pickle is read") {
  const Folder folder;
  const std::string path = folder.file("x");
  // 0x0280 bytes of header begin as a pickle does.
  const std::string entry = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file("\x80\x02\0\0\0\0\0\0", 8);
  file += entry + std::string(0x280 - entry.size(), ' ') + std::string(4, '\0');
  write_file(path, file);
  CHECK(equal(io::load_safetensors(path)[0].second, zeros({1})));
}
}  // namespace reel::tests
