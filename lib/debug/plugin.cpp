// SPDX-License-Identifier: BSD-3-Clause
// What the library asks of the debugger.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "lib/debug/drawing.hpp"
#include "lib/debug/interpreter.hpp"
#include "lib/debug/log.hpp"
#include "lib/debug/server.hpp"

namespace reel::debugger {
namespace {
/// What `f` gives. A Mistake becomes an error of the library.
template <class F>
auto or_fail(Caller caller, std::string_view function, std::string_view argument, const F& f) {
  try {
    return f();
  } catch (const Mistake& wrong) {
    std::string_view text = wrong.text;
    const std::size_t got = text.find(", got ");
    host->fail(DebugError::general, caller, function, argument,
               text.starts_with("expected ") ? text.substr(9, got - 9) : text,
               got == std::string_view::npos ? "another" : text.substr(got + 6), {});
  }
}

/// While it lives, other ranks wait for this one, and say so.
struct Stopped {
  Stopped() { host->stopped(true); }
  ~Stopped() { host->stopped(false); }
};
/// Reads lines from stdin until the program is to go on. At its end, nothing stops any more.
void prompt(Recorder& recorder, const Reason& reason) {
  const Stopped stopped;
  recorder.end_profile();
  if (wait_for_client(recorder, reason)) return;
  auto& watcher = static_cast<Watcher&>(recorder);
  watcher.interpreter.stopped(reason);
  std::fflush(stdout);  // what the program has printed comes first
  std::cout << watcher.interpreter.run("info").text();
  std::string line, before;
  for (;;) {
    std::cout << "(reel) " << std::flush;
    if (!std::getline(std::cin, line)) {
      std::cout << "\n";
      recorder.stops.clear();
      recorder.stop_at_errors = false;
      recorder.goal = {};
      break;
    }
    if (line.empty() && isatty(STDIN_FILENO)) line = before;
    before = line;
    const Answer answer = watcher.interpreter.run(line);
    std::cout << answer.text();
    if (answer.goes_on) break;
  }
  std::cout << std::flush;
  watcher.interpreter.goes_on();
}

OwnedObserver* watch(const debug::WatchOptions& options, Caller caller) {
  if (options.every < 1)
    host->fail(DebugError::general, caller, "Watch", "every", "a number from 1 on",
               std::to_string(options.every), {});
  if (options.keep_steps < 1)
    host->fail(DebugError::general, caller, "Watch", "keep_steps", "a number from 1 on",
               std::to_string(options.keep_steps), {});
  if (options.bytes < 0)
    host->fail(DebugError::general, caller, "Watch", "bytes", "a number from 0 on",
               std::to_string(options.bytes), {});
  Settings settings;
  settings.level = options.values || options.prompt ? Level::values
                   : options.statistics             ? Level::statistics
                                                    : Level::odd;
  settings.every = options.every;
  settings.keep_steps = options.keep_steps;
  settings.bytes = options.bytes;
  auto watcher = std::make_unique<Watcher>(settings);
  watcher->prompt = prompt;
  or_fail(caller, "Watch", "stop", [&] {
    watcher->add_stop(options.stop, options.except,
                      options.prompt ? Action::prompt : Action::error);
    return 0;
  });
  host->observe(*watcher, sizeof(Watcher));
  return watcher.release();
}
std::string answer(OwnedObserver* observer, std::string_view command, debug::Form form) {
  return static_cast<Watcher*>(observer)->interpreter.run(command).in(form);
}

/// The recorder of this thread for prompts, made at the first use.
Watcher& thread_watcher() {
  struct Own {
    Watcher* watcher = nullptr;
    ~Own() {
      if (watcher) host->end(watcher);
    }
  };
  thread_local Own own;
  if (!own.watcher) {
    auto made = std::make_unique<Watcher>(Settings{Level::values, 1, 2});
    made->prompt = prompt;
    host->observe(*made, sizeof(Watcher));
    own.watcher = made.release();
  }
  return *own.watcher;
}
void cli(Caller caller) { prompt(thread_watcher(), {"debug::cli() at " + line_of(caller), -1}); }

std::string listen(Caller caller) {
  return or_fail(caller, "listen", "socket", [&] {
    Watcher& watcher = thread_watcher();
    const std::string path = debugger::listen(watcher);
    if (std::getenv("REEL_DEBUG_WAIT"))  // started by reel-debug: stops before the first op
      prompt(watcher, {"the program begins", -1});
    return path;
  });
}

OwnedObserver* log(std::string_view path, const debug::LogOptions& options, Caller caller) {
  auto made = std::make_unique<LogRecorder>(path, options, caller);
  host->observe(*made, sizeof(LogRecorder));
  return made.release();
}

/// For what REEL_DEBUG asks for.
void end_with_thread(OwnedObserver* observer) {
  struct Own {
    OwnedObserver* observer = nullptr;
    ~Own() {
      if (observer) host->end(observer);
    }
  };
  thread_local Own own;
  own.observer = observer;
}

void thread_begins(std::string_view kind, std::string_view argument) {
  static bool first = true;  // threads begin one after the other, or only see `false`
  const bool is_first = __atomic_exchange_n(&first, false, __ATOMIC_RELAXED);
  if (kind == "stop") {
    debug::WatchOptions options;
    options.stop = debug::Condition(argument);
    end_with_thread(watch(options, {}));
    return;
  }
  if (!is_first) return;  // the prompt and the log are for the first thread
  if (kind == "cli") {
    prompt(thread_watcher(), {"the program begins; `run`, `cont`, or `break` goes on", -1});
  } else if (kind == "listen") {
    listen({});
  } else if (kind == "log") {
    end_with_thread(log(argument, {}, {}));
  }
}

constexpr DebugPlugin plugin = {
    .watch = watch,
    .answer = answer,
    .cli = cli,
    .listen = listen,
    .log = log,
    .draw =
        [](std::vector<DrawnNode> nodes, debug::Fold fold) {
          add_health(nodes);
          return svg_of(folded(std::move(nodes), fold));
        },
    .thread_begins = thread_begins,
};
}  // namespace
}  // namespace reel::debugger

extern "C" [[gnu::visibility("default")]] const reel::DebugPlugin* reel_install_debugger(
    const reel::DebugHost& host, const char** reason) {
  if (host.size != sizeof host || host.layout_of_host != reel::DebugHost::layout) {
    *reason = "libreel_debug.so is of another version than the library";
    return nullptr;
  }
  reel::debugger::host = &host;
  return &reel::debugger::plugin;
}
