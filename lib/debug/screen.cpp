// SPDX-License-Identifier: BSD-3-Clause
// reel-debug: the debugger on a full screen. It starts a program, or talks to one that listens.
#include <fcntl.h>
#include <ncurses.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/debug/client.hpp"

namespace reel::debugger {
namespace {
constexpr const char* usage =
    R"(usage: reel-debug PROGRAM [ARGUMENTS]
       reel-debug --attach PID [--command COMMAND]

Starts PROGRAM, or talks to one that was started with REEL_DEBUG=listen or calls debug::listen().
With --command it prints one answer, and needs no terminal.

Type commands; `help` lists them. `stop` stops a program that runs.
  F5 cont   F10 step   F9 back   F2 output of the program   Tab completes   Up, Down: earlier commands
  PageUp, PageDown, mouse wheel: scroll   /REGEX marks and finds lines   n the next one   q, Ctrl-D: leave
)";
const std::vector<std::string> names = {
    "back",      "break",   "config",  "cont", "delete", "draw",    "eval",      "except",  "from",
    "gradients", "help",    "history", "info", "inputs", "look",    "memory",    "op",      "path",
    "print",     "profile", "replay",  "run",  "set",    "show",    "source",    "sources", "step",
    "stop",      "summary", "tensors", "to",   "try",    "updates", "variables", "why"};

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

class Screen {
 public:
  Screen(Client& client, std::string output) : client_(client), output_(std::move(output)) {
    std::setlocale(LC_ALL, "");
    ::initscr();
    ::cbreak();
    ::noecho();
    ::keypad(stdscr, TRUE);
    ::mousemask(BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
    ::set_escdelay(50);
  }
  ~Screen() { ::endwin(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void run() {
    ask("info");
    for (bool goes_on = true; goes_on;) {
      draw();
      ::timeout(is_running_ ? 100
                            : -1);  // milliseconds; a program that runs may stop without a key
      const int pressed = getch();
      if (pressed != ERR)
        goes_on = key(pressed);
      else
        look_again();
    }
  }

 private:
  /// Asks where the program is, and shows the whole answer or only its first lines.
  void look(bool whole) {
    std::vector<std::string> info = lines_of(client_.ask("info"));
    is_running_ = !info.empty() && info[0].starts_with("running");
    status_ = info.empty() ? "" : info[0];
    if (info.size() > 1) status_ += " | " + info[1];
    if (whole) shown_ = std::move(info);
  }
  void look_again() {
    try {
      look(shows_info_);
    } catch (const std::exception& error) {
      end(error);
    }
  }
  void end(const std::exception& error) {
    status_ = error.what();
    ended_ = true;
    is_running_ = false;
  }
  void ask(const std::string& command) {
    if (command.starts_with("/")) return find(command.substr(1));
    if (!command.empty() && (history_.empty() || history_.back() != command))
      history_.push_back(command);
    try {
      shown_ = lines_of(client_.ask(command));
      title_ = command;
      const bool moved = command == "cont" || command.starts_with("step") ||
                         command.starts_with("run") || command.starts_with("back");
      shows_info_ = moved && shown_.empty();
      look(shows_info_);
    } catch (const std::exception& error) {
      end(error);
    }
    top_ = 0;
  }
  void find(const std::string& pattern) {
    try {
      wanted_ = std::make_unique<std::regex>(pattern);
      next();
    } catch (const std::regex_error& error) {
      wanted_.reset();
      status_ = std::string("expected a regular expression: ") + error.what();
    }
  }
  bool matches(const std::string& line) const {
    return wanted_ && std::regex_search(line.substr(0, 1000), *wanted_);
  }
  void next() {
    for (std::size_t i = 1; i <= shown_.size(); ++i)
      if (const std::size_t at = (top_ + i) % shown_.size(); matches(shown_[at])) {
        top_ = at;
        return;
      }
    status_ = "no line matches";
  }
  void draw() {
    int rows = 0, columns = 0;
    getmaxyx(stdscr, rows, columns);
    erase();
    const auto put = [&](int row, const std::string& text) {
      mvaddnstr(row, 0, text.c_str(), columns);
    };
    attron(A_REVERSE);
    put(0, " reel-debug  " + status_ + std::string(static_cast<std::size_t>(columns), ' '));
    attroff(A_REVERSE);
    const int high = std::max(rows - 3, 1);
    for (int i = 0; i < high && top_ + static_cast<std::size_t>(i) < shown_.size(); ++i) {
      const std::string& line = shown_[top_ + static_cast<std::size_t>(i)];
      if (matches(line)) attron(A_BOLD | A_UNDERLINE);
      put(1 + i, line);
      attroff(A_BOLD | A_UNDERLINE);
    }
    attron(A_REVERSE);
    put(rows - 2, " " + title_ + "  " + std::to_string(std::min(top_ + 1, shown_.size())) + "/" +
                      std::to_string(shown_.size()) +
                      "   F2 output  F5 cont  F9 back  F10 step  /find  q quit" +
                      std::string(static_cast<std::size_t>(columns), ' '));
    attroff(A_REVERSE);
    put(rows - 1, "> " + typed_);
    move(rows - 1, std::min(columns - 1, 2 + static_cast<int>(typed_.size())));
    refresh();
  }
  void scroll_by(long lines) {
    const long last = shown_.empty() ? 0 : static_cast<long>(shown_.size()) - 1;
    top_ = static_cast<std::size_t>(std::clamp(static_cast<long>(top_) + lines, 0L, last));
  }
  /// False: leave.
  bool key(int key) {
    const long page = std::max(LINES - 4, 1);
    MEVENT mouse;
    switch (key) {
      case KEY_F(2): {
        std::ifstream file(output_);
        const std::string text((std::istreambuf_iterator<char>(file)),
                               std::istreambuf_iterator<char>());
        shown_ = lines_of(text);
        title_ = output_.empty() ? "the program has its own terminal" : "output of the program";
        top_ = shown_.size() > static_cast<std::size_t>(page)
                   ? shown_.size() - static_cast<std::size_t>(page)
                   : 0;
        break;
      }
      case KEY_F(5):
        ask("cont");
        break;
      case KEY_F(9):
        ask("back");
        break;
      case KEY_F(10):
        ask("step");
        break;
      case KEY_PPAGE:
        scroll_by(-page);
        break;
      case KEY_NPAGE:
        scroll_by(page);
        break;
      case KEY_MOUSE:
        if (::getmouse(&mouse) == OK) scroll_by(mouse.bstate & BUTTON4_PRESSED ? -3 : 3);
        break;
      case KEY_UP:
      case KEY_DOWN:
        if (history_.empty()) break;
        recalled_ = std::clamp(recalled_ + (key == KEY_UP ? 1 : -1), 0L,
                               static_cast<long>(history_.size()));
        typed_ = recalled_ ? history_[history_.size() - static_cast<std::size_t>(recalled_)] : "";
        break;
      case KEY_BACKSPACE:
      case 127:
      case 8:
        if (!typed_.empty()) typed_.pop_back();
        break;
      case '\t':
        complete();
        break;
      case '\n':
      case KEY_ENTER: {
        const std::string command = std::exchange(typed_, "");
        recalled_ = 0;
        if (command == "q" || command == "quit") return false;
        if (command == "n" && wanted_)
          next();
        else if (!command.empty())
          ask(command);
        break;
      }
      case 4:
      case ERR:
        return false;
      default:
        if (key == 'q' && typed_.empty()) return false;
        if (key >= 32 && key < 127 && typed_.size() < 1000) typed_ += static_cast<char>(key);
    }
    return true;
  }
  void complete() {
    std::vector<std::string> like;
    for (const std::string& name : names)
      if (name.starts_with(typed_)) like.push_back(name);
    if (like.size() == 1) typed_ = like[0] + " ";
    if (like.size() < 2) return;
    status_.clear();
    for (const std::string& name : like) status_ += name + " ";
  }

  Client& client_;
  std::string output_, status_, title_, typed_;
  std::vector<std::string> shown_, history_;
  std::size_t top_ = 0;
  long recalled_ = 0;
  bool ended_ = false, is_running_ = false;
  bool shows_info_ = false;  // where the program is, and not the answer to a command
  std::unique_ptr<std::regex> wanted_;
};

/// The program, whose output goes to a file.
struct Started {
  pid_t process = -1;
  std::string output;
};
Started start(char** words) {
  Started started;
  char name[] = "/tmp/reel-debug.XXXXXX";
  const int file = ::mkstemp(name);
  if (file < 0) throw std::runtime_error("expected a temporary file for the output, got none");
  started.output = name;
  started.process = ::fork();
  if (started.process < 0) throw std::runtime_error("expected a process, got none");
  if (started.process == 0) {
    ::setenv("REEL_DEBUG", "listen", 1);
    ::setenv("REEL_DEBUG_WAIT", "1", 1);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::execvp(words[0], words);
    std::fprintf(stderr, "reel-debug: %s: %s\n", words[0], std::strerror(errno));
    ::_exit(127);
  }
  ::close(file);
  return started;
}
}  // namespace
}  // namespace reel::debugger

int main(int count, char** words) try {
  using namespace reel::debugger;
  const std::string first = count > 1 ? words[1] : "--help";
  if (first == "--help" || first == "-h") {
    std::fputs(usage, count > 1 ? stdout : stderr);
    return count > 1 ? 0 : 2;
  }
  if (first == "--attach") {
    const long process = count > 2 ? std::strtol(words[2], nullptr, 10) : 0;
    if (process < 1) throw std::runtime_error("--attach: expected the number of a process");
    Client client(static_cast<pid_t>(process), 2);
    if (count > 4 && std::string(words[3]) == "--command") {
      std::fputs(client.ask(words[4]).c_str(), stdout);
      return 0;
    }
    if (!::isatty(0) || !::isatty(1))
      throw std::runtime_error("expected a terminal, got none; --command needs none");
    Screen(client, "").run();
    return 0;
  }
  if (!::isatty(0) || !::isatty(1))
    throw std::runtime_error("expected a terminal, got none; REEL_DEBUG=cli needs none");
  const Started started = start(words + 1);
  try {
    Client client(started.process, 20);
    Screen(client, started.output).run();
  } catch (...) {
    ::kill(started.process, SIGTERM);
    ::waitpid(started.process, nullptr, 0);
    std::ifstream file(started.output);
    std::string line;
    while (std::getline(file, line)) std::fprintf(stderr, "%s\n", line.c_str());
    ::unlink(started.output.c_str());
    throw;
  }
  // The program goes on without a debugger; its output is what it has written.
  int status = 0;
  ::waitpid(started.process, &status, 0);
  std::ifstream file(started.output);
  std::string line;
  while (std::getline(file, line)) std::puts(line.c_str());
  ::unlink(started.output.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "reel-debug: %s\n", error.what());
  return 2;
}
