// SPDX-License-Identifier: BSD-3-Clause
// A Unix socket on which other programs of the same user ask for commands.
#pragma once
#include <string>
#include <string_view>

#include "lib/debug/interpreter.hpp"

namespace reel::debugger {
// Note [Protocol]
// A client sends lines: "text COMMAND" or "json COMMAND". Each answer is its length in bytes as a
// decimal number, a newline, and the bytes. A command runs on the thread that is watched, at its
// next op. One more command, `stop`, stops there. While the program has stopped, it waits for
// commands, until one lets it go on or the client has gone.

/// Opens the socket of this process for the watcher of this thread. Returns its path. Throws
/// Mistake. Until a client comes, the watcher looks at nothing.
std::string listen(Watcher& watcher);
/// The folder of sockets: that of the user, of mode 0700. Empty: none could be made.
std::string socket_folder();
/// What listen() has set: the watched thread is to look at commands.
void attend(Recorder& recorder);
/// The program has stopped while a client is there: waits for commands. False: there is no client.
bool wait_for_client(Recorder& recorder, const Reason& reason);
}  // namespace reel::debugger
