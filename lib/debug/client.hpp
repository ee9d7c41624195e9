// SPDX-License-Identifier: BSD-3-Clause
// The other side of the socket: see Note [Protocol] in server.hpp.
#pragma once
#include <sys/types.h>

#include <string>

namespace reel::debugger {
class Client {
 public:
  /// Waits at most so many seconds for the socket of the process. Throws std::runtime_error.
  Client(pid_t process, int seconds);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  /// The answer to a command. Throws std::runtime_error if the program has gone.
  std::string ask(const std::string& command, bool json = false);

 private:
  std::string read_line();
  int socket_ = -1;
  std::string waiting_;
};
}  // namespace reel::debugger
