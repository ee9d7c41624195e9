// SPDX-License-Identifier: BSD-3-Clause
#include <reel/error.hpp>
#include <reel/progress.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <utility>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// Two ends: what is written to one can be read from the other.
struct Ends {
  int read = -1, write = -1;
  ~Ends() {
    ::close(read);
    ::close(write);
  }
  /// All that was written. A terminal gives it in parts. Nothing can be written any more.
  std::string text() {
    ::close(std::exchange(write, -1));
    std::string all;
    char part[4096];
    for (ssize_t size = 0; (size = ::read(read, part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(size));
    return all;
  }
};
struct Pipe : Ends {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    read = ends[0];
    write = ends[1];
  }
};
struct Terminal : Ends {
  explicit Terminal(unsigned short columns) {
    read = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(read >= 0);
    REQUIRE((::grantpt(read) == 0 && ::unlockpt(read) == 0));
    write = ::open(::ptsname(read), O_RDWR | O_NOCTTY);
    REQUIRE(write >= 0);
    const winsize size{24, columns, 0, 0};
    REQUIRE(::ioctl(write, TIOCSWINSZ, &size) == 0);
  }
};
bench::ProgressOptions often(const Ends& ends) {
  return {.descriptor = ends.write, .pause_seconds = 0};
}
}  // namespace

TEST_CASE("Progress writes plain lines where there is no terminal", "[progress]") {
  Pipe pipe;
  {
    bench::Progress progress("trees", 20, often(pipe));
    progress.show(5, "loss 0.5");
    progress.show(20);
    progress.end_line();
  }
  CHECK(std::regex_match(pipe.text(),
                         std::regex("5 / 20 trees  [0-9.]+ trees/s  0:00 left  loss 0.5\n"
                                    "20 / 20 trees  [0-9.]+ trees/s  0:00 left\n")));
}

TEST_CASE("Progress without a total shows the time so far", "[progress]") {
  Pipe pipe;
  bench::Progress progress("words", 0, often(pipe));
  progress.show(0);
  progress.show(7, "a");
  CHECK(std::regex_match(pipe.text(), std::regex("0 words  0.00 words/s  0:00 so far\n"
                                                 "7 words  [0-9.]+ words/s  0:00 so far  a\n")));
}

TEST_CASE("Progress waits between lines, but shows the end once", "[progress]") {
  Pipe pipe;
  bench::Progress progress("steps", 3, {.descriptor = pipe.write, .pause_seconds = 1e6});
  for (const int done : {1, 2, 3, 3}) progress.show(done);
  CHECK(std::regex_match(pipe.text(), std::regex("3 / 3 steps  [0-9.]+ steps/s  0:00 left\n")));
}

TEST_CASE("Progress in a file has no control characters", "[progress]") {
  Pipe pipe;
  bench::Progress progress("a\tb", 0, often(pipe));
  progress.show(1, "\033[1mloss\r\n\x7f\xc2\x9b\xc3\xa9");
  const std::string text = pipe.text();
  CHECK(text.find("1 a b  ") == 0);
  CHECK(text.find("   [1mloss    \xc3\xa9\n") != text.npos);
}

TEST_CASE("Progress rewrites one line of a terminal, as wide as the terminal", "[progress]") {
  Terminal terminal(24);
  ::setenv("TERM", "xterm", 1);
  {
    bench::Progress progress("steps", 1000, often(terminal));
    progress.show(1000, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
    progress.show(1000, "again");
  }
  const std::string text = terminal.text();
  CHECK(std::regex_match(text, std::regex("(\r1000 / 1000 steps  [0-9.]{3,4}\033\\[K){2}\r\n")));
}

TEST_CASE("Progress refuses a negative total", "[progress]") {
  CHECK_THROWS_AS(bench::Progress("steps", -1), Error);
}
}  // namespace reel::tests
