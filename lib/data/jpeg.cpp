// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/foreign.hpp"

#if __has_include(<jpeglib.h>) && __has_include(<jconfig.h>)
#include <csetjmp>
#include <cstdio>
#include <new>
// Only behind <cstdio>.
#include <jpeglib.h>

#include <jerror.h>

namespace reel::data {
namespace {
constexpr int most_scans = 200;  // of a progressive image; each of them takes time

/// The functions of libjpeg that are used.
struct Functions {
  decltype(&::jpeg_std_error) errors;
  decltype(&::jpeg_CreateDecompress) create;
  decltype(&::jpeg_destroy_decompress) destroy;
  decltype(&::jpeg_mem_src) source;
  decltype(&::jpeg_read_header) read_header;
  decltype(&::jpeg_start_decompress) start;
  decltype(&::jpeg_read_scanlines) read_rows;
  decltype(&::jpeg_finish_decompress) finish;

  explicit Functions(const Foreign& library) {
    library.find(errors, "jpeg_std_error");
    library.find(create, "jpeg_CreateDecompress");
    library.find(destroy, "jpeg_destroy_decompress");
    library.find(source, "jpeg_mem_src");
    library.find(read_header, "jpeg_read_header");
    library.find(start, "jpeg_start_decompress");
    library.find(read_rows, "jpeg_read_scanlines");
    library.find(finish, "jpeg_finish_decompress");
  }
};

/// A file that is decoded. Where something is wrong, libjpeg's functions are left by longjmp(),
/// past frames without destructors.
class Decoder {
 public:
  Decoder(const Functions& functions, std::string_view bytes) : f_(functions), bytes_(bytes) {
    image_.err = f_.errors(&errors_);
    image_.client_data = this;
    errors_.error_exit = [](j_common_ptr image) { of(image).leave(); };
    errors_.output_message = [](j_common_ptr) {};
    errors_.emit_message = [](j_common_ptr image, int level) {
      // Other warnings tell of bytes that do not matter.
      const int code = image->err->msg_code;
      if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) of(image).leave();
    };
    progress_.progress_monitor = [](j_common_ptr image) {
      Decoder& decoder = of(image);
      if (decoder.image_.input_scan_number <= most_scans) return;
      std::snprintf(decoder.message_, sizeof decoder.message_, "more than %d scans", most_scans);
      std::longjmp(decoder.jump_, 1);
    };
  }
  ~Decoder() {
    if (made_) f_.destroy(&image_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Reads up to the first row. False if something is wrong.
  bool begin(const int wanted, Pixels& pixels) {
    if (setjmp(jump_)) return false;
    f_.create(&image_, JPEG_LIB_VERSION, sizeof image_);
    made_ = true;
    image_.progress = &progress_;
    f_.source(&image_, reinterpret_cast<const unsigned char*>(bytes_.data()),
              static_cast<unsigned long>(bytes_.size()));
    f_.read_header(&image_, TRUE);
    const bool gray = wanted == 1 || (wanted == 0 && image_.num_components == 1);
    image_.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    pixels.width = image_.image_width;
    pixels.height = image_.image_height;
    pixels.channels = gray ? 1 : 3;
    return true;
  }
  bool finish(Pixels& pixels) {
    if (setjmp(jump_)) return false;
    f_.start(&image_);
    while (image_.output_scanline < image_.output_height) {
      JSAMPROW row = pixels.bytes.data() + image_.output_scanline * pixels.width * pixels.channels;
      f_.read_rows(&image_, &row, 1);
    }
    f_.finish(&image_);
    return true;
  }
  std::string_view message() const { return message_; }
  bool lacks_memory() const { return errors_.msg_code == JERR_OUT_OF_MEMORY; }

 private:
  static Decoder& of(j_common_ptr image) { return *static_cast<Decoder*>(image->client_data); }
  [[noreturn]] void leave() {
    char text[JMSG_LENGTH_MAX] = {};
    errors_.format_message(reinterpret_cast<j_common_ptr>(&image_), text);
    std::snprintf(message_, sizeof message_, "%.79s", text);
    std::longjmp(jump_, 1);
  }
  const Functions& f_;
  std::string_view bytes_;
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct image_ = {};
  bool made_ = false;
  std::jmp_buf jump_;
  char message_[80] = {};
};
}  // namespace

Pixels read_jpeg(const Encoded& encoded, int channels, std::int64_t most_pixels) {
  const Foreign library(JPEG_LIB_VERSION >= 80 ? "libjpeg.so.8" : "libjpeg.so.62",
                        JPEG_LIB_VERSION >= 80 ? "libjpeg-turbo8" : "libjpeg62-turbo", encoded);
  const Functions functions(library);
  Decoder decoder(functions, encoded.bytes);
  Pixels pixels;
  bool whole = decoder.begin(channels, pixels);
  if (whole) {
    pixels.make(encoded, most_pixels, 1024);  // a bit for a block of 64 pixels, and twice this
    whole = decoder.finish(pixels);
  }
  if (!whole && decoder.lacks_memory()) throw std::bad_alloc();
  if (!whole) encoded.fail("a whole JPEG, gray or in color", decoder.message());
  return pixels;
}
}  // namespace reel::data
#else
reel::data::Pixels reel::data::read_jpeg(const Encoded& encoded, int, std::int64_t) {
  encoded.fail("a build of reel with libjpeg", "one without",
               "Install Debian's package libjpeg-dev, and build reel again.");
}
#endif
