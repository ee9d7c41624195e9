// SPDX-License-Identifier: BSD-3-Clause
// The linker prefers definitions in the program to those of the C library.
#include "io/system_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>

namespace reel::tests {
SystemCalls system_calls;

namespace {
template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

/// Makes the call, unless this call must fail.
template <class F>
auto made(const char* name, F call) {
  SystemCalls& calls = system_calls;
  if (!calls.armed) return call();
  calls.armed = false;
  calls.made.emplace_back(name);
  const bool fails = calls.until_failure == 0;
  if (calls.until_failure >= 0) --calls.until_failure;
  if (fails && calls.kills && !calls.kills_after) kill(getpid(), SIGKILL);
  decltype(call()) result = -1;
  // A close() that fails has closed the file all the same.
  if (!fails || calls.kills || calls.made.back() == "close") result = call();
  if (fails && calls.kills) kill(getpid(), SIGKILL);
  if (fails) {
    calls.failed = true;
    calls.failed_call = name;
    result = -1;
    errno = calls.error;
  }
  calls.armed = true;
  return result;
}
std::size_t at_most(std::size_t bytes) {
  const std::size_t most = system_calls.armed ? system_calls.most_bytes : 0;
  return most && most < bytes ? most : bytes;
}
}  // namespace
}  // namespace reel::tests

using reel::tests::at_most;
using reel::tests::made;
using reel::tests::next;

extern "C" {
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  static auto* const real = next<int(const char*, int, ...)>("open");
  const char* const name = flags & O_DIRECTORY ? "open folder" : "open";
  return made(name, [&] { return real(path, flags, mode); });
}
int close(int file) {
  static auto* const real = next<int(int)>("close");
  return made(file < 0 ? "close of nothing" : "close", [&] { return real(file); });
}
ssize_t read(int file, void* to, size_t bytes) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  const size_t some = at_most(bytes);
  return made("read", [&] { return real(file, to, some); });
}
ssize_t write(int file, const void* from, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  const size_t some = at_most(bytes);
  return made("write", [&] { return real(file, from, some); });
}
int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return made("fsync", [&] { return real(file); });
}
int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return made("rename", [&] { return real(from, to); });
}
int fchmod(int file, mode_t mode) noexcept {
  static auto* const real = next<int(int, mode_t)>("fchmod");
  return made("fchmod", [&] { return real(file, mode); });
}
int fchown(int file, uid_t owner, gid_t group) noexcept {
  static auto* const real = next<int(int, uid_t, gid_t)>("fchown");
  return made("fchown", [&] { return real(file, owner, group); });
}
int stat(const char* path, struct stat* status) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("stat");
  return made("stat", [&] { return real(path, status); });
}
int fstat(int file, struct stat* status) noexcept {
  static auto* const real = next<int(int, struct stat*)>("fstat");
  return made("fstat", [&] { return real(file, status); });
}
int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int, int)>("faccessat");
  return made("faccessat", [&] { return real(folder, path, mode, flags); });
}
ssize_t readlink(const char* path, char* to, size_t bytes) noexcept {
  static auto* const real = next<ssize_t(const char*, char*, size_t)>("readlink");
  return made("readlink", [&] { return real(path, to, bytes); });
}
}
