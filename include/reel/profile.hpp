// SPDX-License-Identifier: BSD-3-Clause
// Where a program spends its time and memory: ops by name, by your line, and on a timeline.
#pragma once        // defined in lib/bench
#include <cstdint>  // std::int64_t
#include <string>   // std::string
#include <string_view>
#include <vector>  // std::vector

#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel {
namespace detail {
struct ProfileData;
class ProfileSession;
}  // namespace detail

/// By what the rows of a profile are grouped: the op, or the line of your program that called it.
enum class ProfileBy : std::uint8_t { op, line };

/// Calls of one op, or of the ops of one line.
struct ProfileRow {
  std::string name;               // "matmul", "gradient of matmul", "backward pass"; "model.cpp:12"
  std::int64_t calls = 0;         // of ops and of kernels of gradients
  double total_seconds = 0;       // with the ops inside
  double self_seconds = 0;        // without them
  double device_seconds = 0;      // of kernels on other devices than the CPU
  std::int64_t moved_bytes = 0;   // elements of the inputs and results
  std::int64_t result_bytes = 0;  // results that have memory of their own
};

/// Tensors on the host that one op made at one line, and that were alive at the peak of memory.
struct ProfileMemoryRow {
  std::string line;  // "model.cpp:12", "no line"
  std::string op;    // "matmul"; "no op": copied from memory of the program, or read from a file
  std::int64_t bytes = 0;  // with what is allocated beyond the elements
};

/// Options of Profile::to_text().
struct ProfileTextOptions {
  ProfileBy by = ProfileBy::op;
  int rows = 25;  // at most; 1 to 10000
};

/// What profile() has measured. Copies share it.
class REEL_API Profile {
 public:
  /// The slowest first, by the time without the ops inside.
  std::vector<ProfileRow> rows(ProfileBy by = ProfileBy::op) const;
  /// From the beginning to the end.
  double seconds() const;
  /// How many threads ran ops.
  int threads() const;
  /// The most bytes of tensors on the host, in all threads, with those that lived before.
  std::int64_t peak_bytes() const;
  /// Whose tensors were alive at that moment, most bytes first. Tensors of more than 8,128 bytes
  /// are listed by line. A row "small tensors" and a row "before the profile" have the others, so
  /// that the rows add up to peak_bytes(). Where small tensors alone grow, the moment is one with
  /// at least 99.9 % of the peak.
  std::vector<ProfileMemoryRow> memory() const;
  /// A table for a terminal. Throws Error for options out of their range.
  std::string to_text(const ProfileTextOptions& options = {}, Caller caller = Caller::here()) const;
  /// Writes the timeline as JSON, for ui.perfetto.dev and chrome://tracing: a row for each thread
  /// and device, an arrow from the launch of a kernel to the kernel, and the memory. Only the first
  /// 800,000 calls or more of each thread are in it. Throws IoError if the file cannot be written.
  void write_chrome_trace(std::string_view path, Caller caller = Caller::here()) const;

  explicit Profile(detail::ProfileData* data) : data_(data) {}  // of profile()
  Profile(const Profile& other) noexcept;
  Profile& operator=(const Profile& other) noexcept;
  ~Profile();

 private:
  detail::ProfileData* data_;
};

namespace detail {
/// A profile that is being measured.
class REEL_API ProfileRun {
 public:
  explicit ProfileRun(Caller caller);
  ~ProfileRun();
  ProfileRun(const ProfileRun&) = delete;
  ProfileRun& operator=(const ProfileRun&) = delete;
  Profile finish();

 private:
  Caller caller_;
  ProfileSession* session_;
};
}  // namespace detail

/// Calls f() and measures the ops of this thread, and those of threads that use the library for the
/// first time meanwhile; threads that have used it before are left out. An op takes about 60 ns
/// more. Exceptions of f pass through. A replay of a
/// trace shows its steps; on a GPU these are then launched one by one. The environment variable
/// REEL_PROFILE=trace.json does the same for a whole program: at its exit it prints the table on
/// stderr and writes the timeline. A program that crashes writes nothing.
///
///     Profile p = profile([&] { train_step(); });
///     std::puts(p.to_text().c_str());
///     p.write_chrome_trace("trace.json");
template <class F>
Profile profile(F&& f, Caller caller = Caller::here()) {
  detail::ProfileRun run(caller);
  f();
  return run.finish();
}
}  // namespace reel
