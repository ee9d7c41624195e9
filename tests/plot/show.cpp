// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
std::string shown(const Tensor& image, plot::ShowOptions options) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  options.descriptor = ends[1];
  plot::show(image, options);
  ::close(ends[1]);
  std::string text(65536, '\0');
  text.resize(static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
  ::close(ends[0]);
  return text;
}
constexpr auto always = plot::ShowOptions::Color::always;
}  // namespace

TEST_CASE("An image in color has two pixels in a character", "[plot]") {
  const Tensor image =
      cast(tensor({{{255, 0, 0}, {0, 255, 0}}, {{0, 0, 255}, {1, 2, 3}}, {{9, 9, 9}, {8, 8, 8}}}),
           uint8);
  CHECK(shown(image, {.color = always}) ==
        "\033[38;2;255;0;0m\033[48;2;0;0;255m▀\033[38;2;0;255;0m\033[48;2;1;2;3m▀\033[0m\n"
        "\033[38;2;9;9;9m▀\033[38;2;8;8;8m▀\033[0m\n");
}

TEST_CASE("An image of floating numbers is clipped to 0 and 1", "[plot]") {
  const Tensor image =
      tensor({{-1.0, 0.2, 7.0, static_cast<double>(std::numeric_limits<double>::quiet_NaN())}});
  const std::string expected =
      "\033[38;2;0;0;0m▀\033[38;2;51;51;51m▀\033[38;2;255;255;255m▀\033[38;2;0;0;0m▀\033[0m\n";
  CHECK(shown(image, {.color = always}) == expected);
  CHECK(shown(reshape(image, {1, 4, 1}), {.color = always}) == expected);
}

TEST_CASE("An image in a file has shades and no control codes", "[plot]") {
  const Tensor image = tensor({{0.0, 0.5, 1.0}, {0.0, 0.5, 1.0}});
  CHECK(shown(image, {}) == " ▒█\n");
  CHECK(shown(image, {.ascii = true}) == " +@\n");
  CHECK(shown(zeros({0, 5}), {}).empty());
}

TEST_CASE("An image that is too wide is drawn as means", "[plot]") {
  const Tensor image = tensor({{0.0, 1.0, 1.0, 1.0}, {0.0, 1.0, 1.0, 1.0}});
  CHECK(shown(image, {.width = 2, .color = always}) ==
        "\033[38;2;128;128;128m▀\033[38;2;255;255;255m▀\033[0m\n");
  CHECK(shown(ones({100, 1000}), {.ascii = true}).find(std::string(80, '@') + "\n") == 0);
}

TEST_CASE("An image on a terminal has colors and the width of the terminal", "[plot]") {
  const int reader = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE((reader >= 0 && ::grantpt(reader) == 0 && ::unlockpt(reader) == 0));
  const int terminal = ::open(::ptsname(reader), O_RDWR | O_NOCTTY);
  const winsize size{24, 3, 0, 0};
  REQUIRE(::ioctl(terminal, TIOCSWINSZ, &size) == 0);
  plot::show(ones({1, 50}), {.descriptor = terminal});
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(::read(reader, text.data(), text.size())));
  const std::string pixel = "\033[38;2;255;255;255m▀";
  CHECK(text == pixel + pixel + pixel + "\033[0m\r\n");
  ::close(terminal);
  ::close(reader);
}
}  // namespace reel::tests
