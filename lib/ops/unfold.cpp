// SPDX-License-Identifier: BSD-3-Clause
// Windows of images as rows, and back. Both are made of one slice for each element of a window.
#include <algorithm>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/spatial.hpp"
#include "lib/table/options/join.hpp"

namespace reel {
namespace {
/// The windows over images of these lengths.
struct Places {
  Shape window, stride, dilation, before, sizes, padded;

  Places(const Images& given, const Shape& lengths, const Steps& steps,
         const WindowOptions& options)
      : window(given.numbers("window", steps, 1)),
        stride(given.numbers("stride", options.stride, 1)),
        dilation(given.numbers("dilation", options.dilation, 1)),
        before(window),
        sizes(window),
        padded(window) {
    if (!options.padding.is_same()) given.require_padding(options.padding);
    for (int a = 0; a < given.axes(); ++a) {
      const std::int64_t length = lengths.data()[a], step = stride.data()[a];
      const std::int64_t wide = dilation.data()[a] * (window.data()[a] - 1) + 1;
      std::int64_t front, back;
      if (options.padding.is_same()) {
        const std::int64_t both =
            std::max<std::int64_t>(0, ((length + step - 1) / step - 1) * step + wide - length);
        front = both / 2;
        back = both - front;
      } else {
        front = options.padding.before(a);
        back = options.padding.after(a);
      }
      before.data()[a] = front;
      padded.data()[a] = length + front + back;
      if (padded.data()[a] < wide) given.fail_window("window", a, wide, padded.data()[a]);
      sizes.data()[a] = (padded.data()[a] - wide) / step + 1;
    }
  }
  /// The slice of padded images [batch, ..., channels] that holds element `tap` of all windows.
  SliceOptions slice(std::int64_t tap, std::int64_t batch, std::int64_t channels) const {
    SliceOptions slice = whole_slice(shape(batch, sizes, channels));
    for (int a = static_cast<int>(sizes.rank()); a-- > 0; tap /= window.data()[a]) {
      slice.starts.data()[a + 1] = tap % window.data()[a] * dilation.data()[a];
      slice.steps.data()[a + 1] = stride.data()[a];
    }
    return slice;
  }
  static Shape shape(std::int64_t batch, const Shape& middle, std::int64_t channels) {
    Shape shape;
    shape.resize(middle.rank() + 2);
    shape.data()[0] = batch;
    std::copy(middle.begin(), middle.end(), shape.data() + 1);
    shape.data()[middle.rank() + 1] = channels;
    return shape;
  }
  /// Where the images are in the padded ones.
  SliceOptions inside(std::int64_t batch, const Shape& lengths, std::int64_t channels) const {
    SliceOptions slice = whole_slice(shape(batch, lengths, channels));
    std::copy(before.begin(), before.end(), slice.starts.data() + 1);
    return slice;
  }
  bool pads(const Shape& lengths) const { return !(padded == lengths); }
};

int axes_of(const char* name, const Operand& x, std::size_t rank) {
  if (rank < 3 || rank > 5)
    fail<ShapeError>(x.caller(), name, "x", "3 to 5 axes", to_text(shape_of(slice_op, x)));
  return static_cast<int>(rank) - 2;
}
}  // namespace

Tensor unfold(Operand x, Steps window, const WindowOptions& options) try {
  const FunctionScope scope(x.caller(), "unfold");
  const Images given("unfold", axes_of("unfold", x, shape_of(slice_op, x).rank()), slice_op, x,
                     options.channels);
  const Shape& shape = given.x().shape();
  const Shape lengths(std::span(shape.begin() + 1, shape.end() - 1));
  const Places places(given, lengths, window, options);
  const std::int64_t batch = shape.data()[0], channels = given.channels();
  const Tensor padded = places.pads(lengths)
                            ? run(unslice_op, given.operand(),
                                  UnsliceOptions{places.inside(batch, lengths, channels),
                                                 Places::shape(batch, places.padded, channels)})
                            : given.x();
  std::vector<Tensor> taps;
  for (std::int64_t tap = 0; tap < places.window.elements(); ++tap)
    taps.push_back(run(slice_op, Operand(padded, x.caller()), places.slice(tap, batch, channels)));
  return reshape(concat(Operands(taps, x.caller()), -1),
                 {batch, places.sizes.elements(), places.window.elements() * channels});
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "unfold");
}

Tensor fold(Operand columns, Shape image, Steps window, const WindowOptions& options) {
  const Caller caller = columns.caller();
  const FunctionScope scope(caller, "fold");
  const Shape& shape = shape_of(slice_op, columns);
  if (shape.rank() != 3)
    fail<ShapeError>(caller, "fold", "columns", "3 axes, [batch, positions, window * channels]",
                     to_text(shape));
  if (image.rank() < 1 || image.rank() > 3)
    fail<ShapeError>(caller, "fold", "image", "1 to 3 spatial lengths", to_text(image));
  const Images given("fold", static_cast<int>(image.rank()), options.channels, caller);
  const Places places(given, image, window, options);
  const std::int64_t taps = places.window.elements(), positions = places.sizes.elements();
  const std::int64_t batch = shape[0];
  if (shape[1] != positions || shape[2] % taps != 0)
    fail<ShapeError>(caller, "fold", "columns",
                     "[batch, " + to_text(positions) + ", a multiple of " + to_text(taps) + "]",
                     to_text(shape));
  const std::int64_t channels = shape[2] / taps;
  const Shape padded = Places::shape(batch, places.padded, channels);
  const Tensor parts = reshape(columns, {batch, positions, taps, channels});
  Tensor sum;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const SliceOptions slice = places.slice(tap, batch, channels);
    const Tensor part = reshape(parts(all, all, tap), slice.lengths);
    const Tensor placed = run(unslice_op, Operand(part, caller), UnsliceOptions{slice, padded});
    sum = tap ? std::move(sum) + placed : placed;
  }
  if (places.pads(image))
    sum = run(slice_op, Operand(sum, caller), places.inside(batch, image, channels));
  return given.result(sum);
}
}  // namespace reel
