// SPDX-License-Identifier: BSD-3-Clause
#include "lib/pool/copies.hpp"

#include <link.h>

#include <cstdint>
#include <cstring>

namespace reel {
namespace {
constexpr std::size_t alignment = 4;
/// An ELF note. Each object of the process that contains the library has one of its own.
struct Note {
  std::uint32_t name_bytes, content_bytes, type;
  char name[8];
};
[[gnu::section(".note.reel"), gnu::used]] alignas(alignment) const Note own = {5, 0, 1, "reel"};

std::size_t padded(std::size_t bytes) { return (bytes + alignment - 1) & ~(alignment - 1); }

/// Whether a segment of notes contains a note of another copy of the library.
bool has_other(const char* at, std::size_t bytes) {
  while (bytes >= sizeof(Note)) {
    Note note;
    std::memcpy(&note, at, sizeof note);
    if (note.name_bytes == own.name_bytes && note.content_bytes == 0 &&
        std::memcmp(note.name, own.name, sizeof note.name) == 0 &&
        at != reinterpret_cast<const char*>(&own))
      return true;
    const std::size_t size = 12 + padded(note.name_bytes) + padded(note.content_bytes);
    if (size > bytes) break;
    at += size;
    bytes -= size;
  }
  return false;
}
int find(dl_phdr_info* object, std::size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE || part.p_align > alignment) continue;
    if (!has_other(reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr), part.p_memsz))
      continue;
    const char* const name = object->dlpi_name;
    *static_cast<std::string*>(found) = name && *name ? name : "the program";
    return 1;
  }
  return 0;
}
}  // namespace

std::string other_copy() {
  std::string found;
  dl_iterate_phdr(find, &found);
  return found;
}
}  // namespace reel
