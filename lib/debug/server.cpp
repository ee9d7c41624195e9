// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/server.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace reel::debugger {
namespace {
using namespace std::chrono_literals;
constexpr std::size_t longest_line = 20000;

/// One command on its way to the watched thread, and the answer back.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::string command, answer;
  bool asked = false, answered = false, client = false, stopped = false, left = false;
  debug::Form form = debug::Form::text;
};
struct Server {
  Watcher* watcher = nullptr;
  int socket = -1;
  std::string path;
  pid_t process = ::getpid();
  Mailbox box;
};
Server* server = nullptr;  // lives until the process ends

/// Runs the command that waits, if there is one. The lock is held.
bool run_waiting(std::unique_lock<std::mutex>& lock) {
  Mailbox& box = server->box;
  if (!box.asked || box.answered) return false;
  const std::string command = box.command;
  lock.unlock();
  Answer answer;
  if (command == "stop") {
    if (!server->watcher->interpreter.is_stopped())
      server->watcher->goal = {Goal::Kind::nodes, 1, {}};
    answer.lines = {"stops at the next result"};
  } else {
    answer = server->watcher->interpreter.run(command);
  }
  lock.lock();
  box.answer = answer.in(box.form);
  box.answered = true;
  if (answer.goes_on) box.stopped = false;
  box.changed.notify_all();
  return answer.goes_on;
}

bool send_all(int client, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;  // gone, or not reading for longer than the time limit
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}
bool send_answer(int client, std::string_view text) {
  return send_all(client, fmt::format("{}\n", text.size())) && send_all(client, text);
}

/// What the watched thread answers to a line of the client.
std::string ask(std::string_view line) {
  const debug::Form form = line.starts_with("json ") ? debug::Form::json : debug::Form::text;
  if (!line.starts_with("json ") && !line.starts_with("text "))
    return "expected \"text COMMAND\" or \"json COMMAND\", got " + json_text(line.substr(0, 40)) +
           "\n";
  Mailbox& box = server->box;
  std::unique_lock lock(box.mutex);
  box.command = line.substr(5);
  box.form = form;
  box.asked = true;
  box.answered = false;
  server->watcher->attention.store(true, std::memory_order_relaxed);
  box.changed.notify_all();
  box.changed.wait_for(lock, 10s, [&] { return box.answered; });
  box.asked = false;
  if (box.answered) return box.answer;
  Answer late;
  late.error = "expected an op of the watched thread within 10 seconds, got none";
  return late.in(form);
}

/// Whether the other side runs as this user.
bool is_own_user(int client) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

void serve(int client) {
  const timeval limit = {5, 0};
  ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (!is_own_user(client)) {
    send_answer(client, "expected the user of the program, got another one\n");
    return;
  }
  {
    const std::lock_guard lock(server->box.mutex);
    server->box.client = true;
  }
  server->watcher->attention.store(true, std::memory_order_relaxed);
  std::string waiting;
  char some[4096];
  for (;;) {
    const ssize_t count = ::recv(client, some, sizeof some, 0);
    if (count <= 0) break;
    waiting.append(some, static_cast<std::size_t>(count));
    for (std::size_t end; (end = waiting.find('\n')) != std::string::npos;
         waiting.erase(0, end + 1))
      if (!send_answer(client, ask(waiting.substr(0, end)))) goto gone;
    if (waiting.size() > longest_line) {
      send_answer(client, fmt::format("expected a line of at most {} bytes\n", longest_line));
      break;
    }
  }
gone:
  const std::lock_guard lock(server->box.mutex);
  server->box.client = false;
  server->box.left = true;  // a stopped program goes on, even if another client comes at once
  server->watcher->attention.store(true, std::memory_order_relaxed);
  server->box.changed.notify_all();
}

void accept_clients() {
  for (;;) {
    const int client = ::accept4(server->socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    serve(client);  // one after the other: a second one waits
    ::close(client);
  }
}
void remove_socket() {
  if (server && server->process == ::getpid()) ::unlink(server->path.c_str());
}
}  // namespace

std::string socket_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string folder = runtime && *runtime ? runtime : "";
  struct stat found = {};
  const auto is_private = [&] {
    return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
           found.st_uid == ::getuid() && !(found.st_mode & 077);
  };
  if (!folder.empty() && is_private()) return folder;
  folder = fmt::format("/tmp/reel-{}", ::getuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return "";
  return is_private() ? folder : "";
}

std::string listen(Watcher& watcher) {
  if (server) return server->path;
  const std::string folder = socket_folder();
  if (folder.empty())
    mistake("a folder for sockets that only this user can read",
            "none: neither XDG_RUNTIME_DIR nor /tmp/reel-UID");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("{}/reel-debug.{}", folder, ::getpid());
  if (path.size() >= sizeof address.sun_path) mistake("a path of at most 107 bytes", path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::unlink(path.c_str());
  const mode_t before = ::umask(0177);
  const bool bound =
      made >= 0 && ::bind(made, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  if (!bound || ::listen(made, 4) != 0) {
    const std::string why = std::strerror(errno);
    if (made >= 0) ::close(made);
    mistake("a socket", path + ": " + why);
  }
  server = new Server;
  server->watcher = &watcher;
  server->socket = made;
  server->path = path;
  watcher.attend = attend;
  watcher.sleep();
  std::atexit(remove_socket);
  std::thread(accept_clients).detach();
  return path;
}

void attend(Recorder& recorder) {
  if (!server || &recorder != server->watcher) return;
  Mailbox& box = server->box;
  std::unique_lock lock(box.mutex);
  recorder.attention.store(false, std::memory_order_relaxed);
  if (box.client)
    recorder.wake();
  else
    recorder.sleep();
  run_waiting(lock);
}
bool wait_for_client(Recorder& recorder, const Reason& reason) {
  if (!server || &recorder != server->watcher) return false;
  Mailbox& box = server->box;
  std::unique_lock lock(box.mutex);
  // A program that is started by reel-debug waits for it.
  if (!box.client && std::getenv("REEL_DEBUG_WAIT"))
    box.changed.wait_for(lock, 20s, [&] { return box.client; });
  ::unsetenv("REEL_DEBUG_WAIT");
  if (!box.client) {
    recorder.goal = {};
    return true;
  }
  server->watcher->interpreter.stopped(reason);
  box.stopped = true;
  box.left = false;
  while (!box.left && box.stopped)
    if (!run_waiting(lock)) box.changed.wait(lock);
  server->watcher->interpreter.goes_on();
  if (box.left) {
    recorder.stops.clear();
    recorder.stop_at_errors = false;
    recorder.goal = {};
    recorder.sleep();
  }
  return true;
}
}  // namespace reel::debugger
