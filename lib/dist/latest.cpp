// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/latest.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/dist/send.hpp"
#include "lib/io/elements.hpp"
#include "lib/io/file.hpp"
#include "lib/io/load.hpp"

namespace reel::dist::detail {
namespace {
constexpr std::string_view op = "take_latest";

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile(std::size_t bytes, Caller caller)
      : bytes_(bytes), path_("/proc/self/fd/" + std::to_string(file_)) {
    if (file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(bytes)) == 0)
      memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (memory_ == MAP_FAILED) fail_memory(caller, op);
  }
  ~MemoryFile() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
    ::close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  char* memory() const { return static_cast<char*>(memory_); }
  const io::Path& path() const { return path_; }

 private:
  int file_ = ::memfd_create("reel", MFD_CLOEXEC);
  std::size_t bytes_;
  io::Path path_;
  void* memory_ = MAP_FAILED;
};
}  // namespace

void take_latest(const World& world, const io::StepInto& step, io::detail::State state) {
  const Caller caller = step.caller;
  const CallerScope here(caller, op);
  if (world.size() == 1) return;
  not_traced();
  Lane& main = *world.state().main;
  state.add_value(step.value);
  std::int64_t taken = 0;
  std::memcpy(&taken, step.value.place, step.value.bytes);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(world.size()));
  main.run({Kind::all_gather, Wire::int64, Combine::sum, &taken, steps.data(), 1}, {op}, caller);
  const auto root = static_cast<int>(std::max_element(steps.begin(), steps.end()) - steps.begin());
  const auto send = [&](void* bytes, std::size_t count) {
    main.run(
        {Kind::broadcast, Wire::bytes, {}, nullptr, bytes, static_cast<std::int64_t>(count), root},
        {op}, caller);
  };
  // What save() would write.
  io::detail::Contents contents;
  std::string begin;
  std::size_t bytes = 0;
  if (world.rank() == root) {
    contents = io::detail::contents_of(state);
    begin = io::begin_safetensors(contents.tensors, contents.metadata, op, caller);
    bytes = begin.size();
    for (const auto& [name, x] : contents.tensors)
      bytes += static_cast<std::size_t>(x.size() * size_of(x.dtype()));
  }
  send(&bytes, sizeof bytes);
  const MemoryFile file(bytes, caller);
  if (world.rank() == root) {
    char* at = file.memory() + begin.copy(file.memory(), begin.size());
    for (const auto& [name, x] : contents.tensors) {
      const io::HostElements elements(x, caller);
      at += elements.text().copy(at, elements.bytes());
    }
  }
  send(file.memory(), bytes);
  if (world.rank() != root)
    io::detail::load_from(*io::open_safetensors(file.path(), op, caller), {file.path(), caller}, {},
                          state, {op, true});
}
}  // namespace reel::dist::detail
