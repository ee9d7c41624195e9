// SPDX-License-Identifier: BSD-3-Clause
// Images on a terminal.
#include <fmt/format.h>
#include <reel/error.hpp>
#include <reel/ops.hpp>
#include <reel/plot.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "lib/body/text.hpp"
#include "lib/plot/drawing.hpp"

namespace reel::plot {
namespace {
using std::size_t;
using Pixel = std::array<std::uint8_t, 3>;

struct Pixels {
  size_t height = 0, width = 0;
  std::vector<Pixel> all;
  const Pixel& at(size_t row, size_t column) const { return all[row * width + column]; }
};

/// The pixels as means, in an image no wider than this.
Pixels read(const Operand& x, size_t most_columns) {
  const Caller caller = x.caller();
  constexpr std::string_view expected = "[h, w], [h, w, 1] or [h, w, 3]";
  if (x.kind() == Operand::Kind::scalar)
    fail<ShapeError>(caller, "show", "image", expected, "a number");
  if (x.kind() != Operand::Kind::variable && !x.tensor().defined())
    fail<Error>(caller, "show", "image", "a tensor", "an undefined Tensor");
  const Tensor image = stop_gradient(x.value());
  const Shape& shape = image.shape();
  const std::int64_t channels = shape.rank() == 3 ? shape[2] : 1;
  if ((shape.rank() != 2 && shape.rank() != 3) || (channels != 1 && channels != 3))
    fail<ShapeError>(caller, "show", "image", expected, to_text(shape));
  const bool bytes = image.dtype() == uint8;
  if (!bytes && !is_floating(image.dtype()))
    fail<DTypeError>(caller, "show", "image", "uint8 or a floating dtype", name_of(image.dtype()));
  const auto rows = static_cast<size_t>(shape[0]), columns = static_cast<size_t>(shape[1]);
  if (rows == 0 || columns == 0) return {};
  const std::vector<float> numbers = image.to(float32, caller).to_vector<float>(caller);
  Pixels result;
  result.width = std::min(columns, most_columns);
  result.height = std::max<size_t>(rows * result.width / columns, 1);
  for (size_t row = 0; row < result.height; ++row) {
    for (size_t column = 0; column < result.width; ++column) {
      const size_t top = row * rows / result.height, bottom = (row + 1) * rows / result.height;
      const size_t left = column * columns / result.width,
                   right = (column + 1) * columns / result.width;
      Pixel pixel;
      for (size_t channel = 0; channel < 3; ++channel) {
        double sum = 0;
        for (size_t i = top; i < bottom; ++i) {
          for (size_t j = left; j < right; ++j) {
            const size_t at = (i * columns + j) * static_cast<size_t>(channels);
            const float value = numbers[at + (channels == 3 ? channel : 0)];
            sum += std::isnan(value) ? 0 : std::clamp(bytes ? value / 255 : value, 0.0f, 1.0f);
          }
        }
        const double mean = sum / static_cast<double>((bottom - top) * (right - left));
        pixel[channel] = static_cast<std::uint8_t>(std::lround(mean * 255));
      }
      result.all.push_back(pixel);
    }
  }
  return result;
}

/// Two rows of pixels in a line: the upper one in the foreground of U+2580, the lower one behind
/// it.
std::string colored(const Pixels& pixels) {
  std::string text;
  for (size_t row = 0; row < pixels.height; row += 2) {
    for (size_t column = 0; column < pixels.width; ++column) {
      const auto color = [&](int layer, size_t at) {
        const auto [r, g, b] = pixels.at(at, column);
        text += fmt::format("\033[{};2;{};{};{}m", layer, r, g, b);
      };
      color(38, row);
      if (row + 1 < pixels.height) color(48, row + 1);
      text += "▀";
    }
    text += "\033[0m\n";
  }
  return text;
}

/// Two rows of pixels in a line: each character is the mean of two pixels.
std::string grey(const Pixels& pixels, bool ascii) {
  constexpr std::string_view blocks[] = {" ", "░", "▒", "▓", "█"};
  constexpr std::string_view letters = " .:-=+*#%@";
  std::string text;
  for (size_t row = 0; row < pixels.height; row += 2) {
    for (size_t column = 0; column < pixels.width; ++column) {
      const auto light = [&](size_t at) {
        const auto [r, g, b] = pixels.at(std::min(at, pixels.height - 1), column);
        return 299 * r + 587 * g + 114 * b;  // ITU-R BT.601
      };
      const double mean = (light(row) + light(row + 1)) / 512'000.0;
      if (ascii)
        text += letters[static_cast<size_t>(mean * static_cast<double>(letters.size()))];
      else
        text += blocks[static_cast<size_t>(mean * static_cast<double>(std::size(blocks)))];
    }
    text += '\n';
  }
  return text;
}
}  // namespace

void show(Operand image, const ShowOptions& options) try {
  check_between("show", "width", options.width, 0, 1000, image.caller());
  const bool terminal = isatty(options.descriptor);
  winsize size{};
  size_t width = static_cast<size_t>(options.width);
  if (width == 0)
    width = terminal && ioctl(options.descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  const Pixels pixels = read(image, width ? width : 80);
  const bool color =
      options.color == ShowOptions::Color::always ||
      (options.color == ShowOptions::Color::where_terminal && terminal && !options.ascii);
  const std::string text = color ? colored(pixels) : grey(pixels, options.ascii);
  if (options.descriptor == STDOUT_FILENO) std::fflush(stdout);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(options.descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail<IoError>(image.caller(), "show", "descriptor", "a file or terminal that takes the image",
                    std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(written));
  }
} catch (const std::bad_alloc&) {
  fail_memory(image.caller(), "show");
}
}  // namespace reel::plot
