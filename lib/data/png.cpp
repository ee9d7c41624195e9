// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/foreign.hpp"

#if __has_include(<png.h>)
#include <png.h>

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

namespace reel::data {
namespace {
/// The functions of libpng that are used.
struct Functions {
  decltype(&::png_create_read_struct) create;
  decltype(&::png_create_info_struct) create_info;
  decltype(&::png_destroy_read_struct) destroy;
  decltype(&::png_get_error_ptr) error_pointer;
  decltype(&::png_set_read_fn) set_read;
  decltype(&::png_read_info) read_info;
  decltype(&::png_get_image_width) width;
  decltype(&::png_get_image_height) height;
  decltype(&::png_set_expand) expand;
  decltype(&::png_set_scale_16) scale_16;
  decltype(&::png_set_interlace_handling) interlace;
  decltype(&::png_read_update_info) update_info;
  decltype(&::png_get_channels) channels;
  decltype(&::png_read_row) read_row;
  decltype(&::png_read_end) read_end;

  explicit Functions(const Foreign& library) {
    library.find(create, "png_create_read_struct");
    library.find(create_info, "png_create_info_struct");
    library.find(destroy, "png_destroy_read_struct");
    library.find(error_pointer, "png_get_error_ptr");
    library.find(set_read, "png_set_read_fn");
    library.find(read_info, "png_read_info");
    library.find(width, "png_get_image_width");
    library.find(height, "png_get_image_height");
    library.find(expand, "png_set_expand");
    library.find(scale_16, "png_set_scale_16");
    library.find(interlace, "png_set_interlace_handling");
    library.find(update_info, "png_read_update_info");
    library.find(channels, "png_get_channels");
    library.find(read_row, "png_read_row");
    library.find(read_end, "png_read_end");
  }
};
/// This pointer is equal in each Functions. The functions below, which libpng calls, read it.
std::atomic<decltype(&::png_get_error_ptr)> error_pointer{nullptr};

/// A file that is decoded. Where something is wrong, libpng's functions are left by longjmp(), past
/// frames without destructors.
class Decoder {
 public:
  Decoder(const Functions& functions, std::string_view bytes) : f_(functions), rest_(bytes) {
    error_pointer.store(f_.error_pointer, std::memory_order_relaxed);
    png_ = f_.create(PNG_LIBPNG_VER_STRING, this, leave, [](png_structp, png_const_charp) {});
    if (png_) info_ = f_.create_info(png_);
    if (!info_) {
      f_.destroy(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    f_.set_read(png_, nullptr, read);
  }
  ~Decoder() { f_.destroy(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Reads up to the first row. False if something is wrong.
  bool begin(Pixels& pixels) {
    if (setjmp(jump_)) return false;
    f_.read_info(png_, info_);
    f_.expand(png_);    // palettes, fewer than 8 bits, and transparent colors
    f_.scale_16(png_);  // 16 bits
    passes_ = f_.interlace(png_);
    f_.update_info(png_, info_);
    pixels.width = f_.width(png_, info_);
    pixels.height = f_.height(png_, info_);
    pixels.channels = f_.channels(png_, info_);
    return true;
  }
  bool finish(Pixels& pixels) {
    if (setjmp(jump_)) return false;
    for (int pass = 0; pass < passes_; ++pass)
      for (std::size_t y = 0; y < pixels.height; ++y)
        f_.read_row(png_, pixels.bytes.data() + y * pixels.width * pixels.channels, nullptr);
    f_.read_end(png_, nullptr);
    return true;
  }
  std::string_view message() const { return message_; }

 private:
  static Decoder& of(png_structp png) {
    return *static_cast<Decoder*>(error_pointer.load(std::memory_order_relaxed)(png));
  }
  [[noreturn]] static void leave(png_structp png, png_const_charp text) {
    Decoder& decoder = of(png);
    std::snprintf(decoder.message_, sizeof decoder.message_, "%s", text);
    std::longjmp(decoder.jump_, 1);
  }
  static void read(png_structp png, png_bytep to, std::size_t count) {
    Decoder& decoder = of(png);
    if (count > decoder.rest_.size()) leave(png, "the end of the file");
    std::memcpy(to, decoder.rest_.data(), count);
    decoder.rest_.remove_prefix(count);
  }
  const Functions& f_;
  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::jmp_buf jump_;
  char message_[80] = {};
};
}  // namespace

Pixels read_png(const Encoded& encoded, std::int64_t most_pixels) {
  const Foreign library("libpng16.so.16", "libpng16-16", encoded);
  const Functions functions(library);
  Decoder decoder(functions, encoded.bytes);
  Pixels pixels;
  bool whole = decoder.begin(pixels);
  if (whole) {
    pixels.make(encoded, most_pixels, 8 * 1032);  // eight pixels in a byte, and a deflated byte
    whole = decoder.finish(pixels);
  }
  if (!whole && decoder.message().find("memory") != std::string_view::npos) throw std::bad_alloc();
  if (!whole) encoded.fail("a whole PNG", decoder.message());
  return pixels;
}
}  // namespace reel::data
#else
reel::data::Pixels reel::data::read_png(const Encoded& encoded, std::int64_t) {
  encoded.fail("a build of reel with libpng", "one without",
               "Install Debian's package libpng-dev, and build reel again.");
}
#endif
