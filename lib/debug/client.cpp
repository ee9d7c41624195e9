// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/client.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace reel::debugger {
Client::Client(pid_t process, int seconds) {
  std::vector<std::string> folders = {"/tmp/reel-" + std::to_string(::getuid())};
  if (const char* const runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime)
    folders.insert(folders.begin(), runtime);
  for (int tries = 0; tries <= 20 * seconds; ++tries) {
    for (const std::string& folder : folders) {
      const std::string path = folder + "/reel-debug." + std::to_string(process);
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      if (path.size() >= sizeof address.sun_path) continue;
      std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
      socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return;
      ::close(socket_);
      socket_ = -1;
    }
    if (tries < 20 * seconds) ::usleep(50000);
  }
  throw std::runtime_error(
      "expected a program that listens (REEL_DEBUG=listen, or "
      "debug::listen()) as process " +
      std::to_string(process) + ", got none");
}
Client::~Client() {
  if (socket_ >= 0) ::close(socket_);
}
std::string Client::read_line() {
  for (;;) {
    if (const std::size_t end = waiting_.find('\n'); end != std::string::npos) {
      std::string line = waiting_.substr(0, end);
      waiting_.erase(0, end + 1);
      return line;
    }
    char some[4096];
    const ssize_t count = ::recv(socket_, some, sizeof some, 0);
    if (count <= 0) throw std::runtime_error("the program has ended");
    waiting_.append(some, static_cast<std::size_t>(count));
  }
}
std::string Client::ask(const std::string& command, bool json) {
  const std::string line = (json ? "json " : "text ") + command + "\n";
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    throw std::runtime_error("the program has ended");
  const std::size_t size = std::strtoull(read_line().c_str(), nullptr, 10);
  while (waiting_.size() < size) {
    char some[4096];
    const ssize_t count = ::recv(socket_, some, sizeof some, 0);
    if (count <= 0) throw std::runtime_error("the program has ended");
    waiting_.append(some, static_cast<std::size_t>(count));
  }
  std::string answer = waiting_.substr(0, size);
  waiting_.erase(0, size);
  return answer;
}
}  // namespace reel::debugger
