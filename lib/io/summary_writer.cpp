// SPDX-License-Identifier: BSD-3-Clause
#include <reel/io/summary_writer.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <new>

#include <reel/caller.hpp>
#include <reel/ops.hpp>

#include "lib/body/text.hpp"
#include "lib/body/utf8.hpp"
#include "lib/io/board.hpp"
#include "lib/io/file.hpp"
#include "lib/io/media.hpp"
#include "lib/io/wire.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
using io::Message;
constexpr std::string_view op = "SummaryWriter";
enum TensorType { floats = 1, doubles = 2, texts = 7 };  // of tensorflow.DataType
enum DataClass { no_class, scalars, tensors, blobs };    // of tensorflow.DataClass

constexpr int wav_encoding = 11;  // of tensorboard.AudioPluginData

/// A tensor of tensorflow.TensorProto, without elements.
Message tensor_of(TensorType type, std::initializer_list<std::size_t> lengths) {
  Message shape;
  for (const std::size_t length : lengths)
    shape.message(2, Message().integer(1, static_cast<std::int64_t>(length)));
  return Message().integer(1, type).message(2, shape);
}
/// Numbers are the last field: a scalar that is read later replaces the last bytes of its record.
template <class T>
Message tensor_of(TensorType type, std::initializer_list<std::size_t> lengths, const T* numbers,
                  std::size_t count) {
  return tensor_of(type, lengths)
      .bytes(4, {reinterpret_cast<const char*>(numbers), count * sizeof(T)});
}

/// What one plugin of TensorBoard shows.
struct Event {
  std::string_view plugin;
  DataClass data_class = no_class;
  Message content = {};
  std::string record(std::string_view tag, std::int64_t step, const Message& tensor) const {
    Message plugin_data, metadata;
    plugin_data.bytes(1, plugin);
    if (!content.view().empty()) plugin_data.message(2, content);
    metadata.message(1, plugin_data);
    if (data_class != no_class) metadata.integer(4, data_class);
    const Message value = Message().bytes(1, utf8(tag)).message(9, metadata).message(8, tensor);
    const Message event = Message()
                              .number(1, seconds_of(CLOCK_REALTIME))
                              .integer(2, step)
                              .message(5, Message().message(1, value));
    std::string record;
    io::append_record(record, event.view());
    io::seal_record(record.data());
    return record;
  }
};

void check_tag(std::string_view tag, Caller caller, std::string_view argument = "tag") {
  if (tag.empty()) fail<Error>(caller, op, argument, "a text", "an empty one");
}
void check_in(std::string_view argument, std::int64_t value, std::int64_t least, std::int64_t most,
              Caller caller) {
  if (value >= least && value <= most) return;
  fail<Error>(caller, op, argument, "a number from " + to_text(least) + " to " + to_text(most),
              to_text(value));
}
const Shape& shape_of(std::string_view argument, const Operand& x, std::string_view expected) {
  if (x.kind() == Operand::Kind::scalar)
    fail<ShapeError>(x.caller(), op, argument, expected, "a number");
  if (x.kind() != Operand::Kind::variable && !x.tensor().defined())
    fail<Error>(x.caller(), op, argument, "a tensor", "an undefined Tensor");
  return x.shape();
}
/// The elements as T, on the host.
template <class T>
std::vector<T> elements(const Operand& x) {
  return stop_gradient(x.value()).to(dtype_of<T>(), x.caller()).template to_vector<T>(x.caller());
}
/// Empty if the file cannot be read.
std::string contents_of(const io::Path& path) {
  const io::File file(path, O_RDONLY);
  const off_t size = file.is_open() ? ::lseek(file.descriptor(), 0, SEEK_END) : 0;
  std::string bytes(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
  const bool read = file.is_open() && ::lseek(file.descriptor(), 0, SEEK_SET) == 0 &&
                    file.read_all(bytes.data(), bytes.size());
  return read ? bytes : std::string();
}
std::size_t length(const Shape& shape, int axis) { return static_cast<std::size_t>(shape[axis]); }

/// Pixels from 0 to 255, of numbers from 0 to 1.
Tensor pixels_of(Tensor x, std::string_view argument, Caller caller) {
  if (x.dtype() == DType::uint8) return x;
  if (!is_floating(x.dtype()))
    fail<DTypeError>(caller, op, argument, "uint8 or floating numbers", name_of(x.dtype()));
  x = x.to(DType::float32);
  return round(clip(where(x == x, x, 0), 0, 1) * 255).to(DType::uint8);
}
/// A PNG file of [height, width, channels].
std::string png_of(const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  const auto bytes = pixels.to_vector<std::uint8_t>();
  return io::png(bytes.data(), length(shape, 0), length(shape, 1), length(shape, 2));
}
}  // namespace

void SummaryWriter::scalar(std::string_view tag, Operand value, std::int64_t step) try {
  check_tag(tag, value.caller());
  float number = 0;
  Tensor late;
  if (value.kind() == Operand::Kind::scalar) {
    number = static_cast<float>(value.scalar().real());
  } else {
    const Shape& shape = shape_of("value", value, "one element");
    if (shape.elements() != 1)
      fail<ShapeError>(value.caller(), op, "value", "one element", to_text(shape));
    late = stop_gradient(value.value());
    if (late.device().kind == Device::Kind::cpu) {
      number = late.to(DType::float32).item<float>(value.caller());
      late = Tensor();
    }
  }
  const std::string record =
      Event{"scalars", scalars}.record(tag, step, tensor_of(floats, {}, &number, 1));
  board_->add(record, 1, late.defined() ? &late : nullptr);
} catch (const std::bad_alloc&) {
  fail_memory(value.caller(), op);
}

void SummaryWriter::histogram(std::string_view tag, Operand values, std::int64_t step,
                              BucketOptions options) try {
  check_tag(tag, values.caller());
  check_in("buckets", options.buckets, 1, 1'000'000, values.caller());
  const CallerScope here(values.caller(), op);
  std::vector<double> x = elements<double>(values);
  const std::size_t all = x.size();
  std::erase_if(x, [](double value) { return !std::isfinite(value); });
  struct Bucket {
    double left, right, count;
  };
  std::vector<Bucket> buckets;
  if (!x.empty()) {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    const double first = *least, last = *most;
    if (first == last) {
      buckets.push_back({first - 0.5, last + 0.5, static_cast<double>(x.size())});
    } else {
      const auto count = static_cast<double>(options.buckets);
      const auto edge = [&](double i) { return first * (1 - i / count) + last * (i / count); };
      for (double i = 0; i < count; ++i) buckets.push_back({edge(i), edge(i + 1), 0});
      // Halves, because the difference of two finite numbers may be infinite.
      const double half = last / 2 - first / 2;
      for (const double value : x) {
        const double place = (value / 2 - first / 2) / half * count;
        buckets[static_cast<std::size_t>(std::min(place, count - 1))].count += 1;
      }
    }
  }
  std::string records = Event{"histograms", tensors}.record(
      tag, step,
      tensor_of(doubles, {buckets.size(), 3}, &buckets.data()->left, 3 * buckets.size()));
  const std::size_t left_out = all - x.size();
  if (left_out > 0) {
    const auto number = static_cast<float>(left_out);
    records += Event{"scalars", scalars}.record(std::string(tag) + "/non_finite", step,
                                                tensor_of(floats, {}, &number, 1));
  }
  board_->add(records, left_out > 0 ? 2 : 1);
} catch (const std::bad_alloc&) {
  fail_memory(values.caller(), op);
}

void SummaryWriter::image(std::string_view tag, Operand pixels, std::int64_t step) try {
  constexpr std::string_view expected = "[height, width] or [height, width, 1 to 4 channels]";
  const Caller caller = pixels.caller();
  check_tag(tag, caller);
  const Shape& shape = shape_of("pixels", pixels, expected);
  const bool has_channels = shape.rank() == 3;
  if ((shape.rank() != 2 && !has_channels) || shape.elements() == 0 || shape.elements() > 1 << 30 ||
      (has_channels && shape[2] > 4))
    fail<ShapeError>(caller, op, "pixels", expected, to_text(shape),
                     "An image has 1 to 2^30 numbers. Its channels are the last axis.");
  const CallerScope here(caller, op);
  const Tensor x = pixels_of(stop_gradient(pixels.value()), "pixels", caller);
  Message content = tensor_of(texts, {3});
  content.bytes(8, std::to_string(shape[1])).bytes(8, std::to_string(shape[0]));
  content.bytes(8, png_of(has_channels ? x : expand_dims(x, 2)));
  board_->add(Event{"images", blobs}.record(tag, step, content));
} catch (const std::bad_alloc&) {
  fail_memory(pixels.caller(), op);
}

void SummaryWriter::text(std::string_view tag, std::string_view text, std::int64_t step,
                         Caller caller) try {
  check_tag(tag, caller);
  board_->add(Event{"text", tensors}.record(tag, step, tensor_of(texts, {1}).bytes(8, utf8(text))));
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

void SummaryWriter::audio(std::string_view tag, Operand samples, AudioOptions options,
                          std::int64_t step) try {
  constexpr std::string_view expected = "[samples] or [samples, channels]";
  const Caller caller = samples.caller();
  check_tag(tag, caller);
  check_in("rate", options.rate, 1, 1'000'000, caller);
  const Shape& shape = shape_of("samples", samples, expected);
  if (shape.rank() < 1 || shape.rank() > 2 || shape.elements() == 0 || shape.elements() > 1 << 30 ||
      (shape.rank() == 2 && shape[1] > 256))
    fail<ShapeError>(caller, op, "samples", expected, to_text(shape),
                     "A sound has 1 to 2^30 numbers, and at most 256 channels.");
  if (!is_floating(samples.dtype()))
    fail<DTypeError>(caller, op, "samples", "floating numbers", name_of(samples.dtype()));
  const CallerScope here(caller, op);
  const std::size_t channels = shape.rank() == 2 ? length(shape, 1) : 1;
  const auto x = elements<float>(samples);
  const std::string sound =
      io::wav(x.data(), x.size(), channels, static_cast<std::uint32_t>(options.rate));
  const Message content = tensor_of(texts, {1, 2}).bytes(8, sound).bytes(8, {});
  board_->add(Event{"audio", blobs, Message().integer(2, wav_encoding)}.record(tag, step, content));
} catch (const std::bad_alloc&) {
  fail_memory(samples.caller(), op);
}

void SummaryWriter::pr_curve(std::string_view tag, Operand labels, Operand scores,
                             std::int64_t step, PrCurveOptions options) try {
  const Caller caller = labels.caller();
  check_tag(tag, caller);
  check_in("thresholds", options.thresholds, 2, 100'000, caller);
  const Shape& shape = shape_of("labels", labels, "a tensor");
  if (shape_of("scores", scores, "a tensor") != shape)
    fail<ShapeError>(caller, op, "scores",
                     "the shape of the labels, " + std::string(to_text(shape)),
                     to_text(scores.shape()));
  if (is_floating(labels.dtype()))
    fail<DTypeError>(caller, op, "labels", "bools or integers", name_of(labels.dtype()));
  const CallerScope here(caller, op);
  const auto truth = elements<std::int64_t>(labels);
  const auto x = elements<double>(scores);
  const auto n = static_cast<std::size_t>(options.thresholds);
  // Rows: true and false positives, true and false negatives, precision, recall.
  std::vector<float> rows(6 * n);
  std::vector<double> positives(n), negatives(n);  // by the highest threshold that they reach
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto place = [&] { return place_text(shape, static_cast<std::int64_t>(i)); };
    if (truth[i] != 0 && truth[i] != 1)
      fail<Error>(caller, op, "labels", "0 and 1", to_text(truth[i]) + place());
    if (!(x[i] >= 0 && x[i] <= 1))
      fail<Error>(caller, op, "scores", "numbers from 0 to 1", to_text(x[i]) + place());
    (truth[i] ? positives
              : negatives)[static_cast<std::size_t>(x[i] * static_cast<double>(n - 1))] += 1;
  }
  double all_positives = 0, all_negatives = 0, right = 0, wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    all_positives += positives[i];
    all_negatives += negatives[i];
  }
  for (std::size_t i = n; i-- > 0;) {
    right += positives[i];
    wrong += negatives[i];
    const double column[6] = {right,
                              wrong,
                              all_negatives - wrong,
                              all_positives - right,
                              right / std::max(right + wrong, 1.0),
                              right / std::max(all_positives, 1.0)};
    for (std::size_t row = 0; row < 6; ++row) rows[row * n + i] = static_cast<float>(column[row]);
  }
  const Event event{"pr_curves", tensors, Message().integer(2, options.thresholds)};
  board_->add(event.record(tag, step, tensor_of(floats, {6, n}, rows.data(), rows.size())));
} catch (const std::bad_alloc&) {
  fail_memory(labels.caller(), op);
}

namespace {
/// Texts of rows in columns, as the projector reads them. Several columns have their names above.
std::string rows_text(std::int64_t rows, const ProjectorOptions& options, Caller caller) {
  std::string text;
  const auto add = [&](const std::string& cell, char end) {
    std::string line = utf8(cell);
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    text.append(line.empty() ? " " : line) += end;
  };
  const auto check = [&](std::string_view argument, const std::vector<std::string>& texts) {
    if (static_cast<std::int64_t>(texts.size()) != rows)
      fail<ShapeError>(caller, op, argument, to_text(rows), std::to_string(texts.size()));
  };
  if (!options.labels.empty()) check("labels", options.labels);
  const std::size_t columns = options.metadata.size();
  const auto end = [&](std::size_t i) { return i == columns ? '\n' : '\t'; };
  if (columns > 0) add("label", '\t');
  for (std::size_t i = 0; i < columns; ++i) {
    check("metadata \"" + options.metadata[i].name + '"', options.metadata[i].texts);
    add(options.metadata[i].name, end(i + 1));
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    add(options.labels.empty() ? std::to_string(row) : options.labels[row], end(0));
    for (std::size_t i = 0; i < columns; ++i) add(options.metadata[i].texts[row], end(i + 1));
  }
  return text;
}

/// One image of all sprites, row by row in a square.
Tensor sprite_sheet(Tensor sprites, std::int64_t rows, Caller caller) {
  const Shape& shape = sprites.shape();
  const std::string expected = "[" + std::string(to_text(rows)) + ", height, width] or [" +
                               std::string(to_text(rows)) + ", height, width, 1 to 4 channels]";
  const bool has_channels = shape.rank() == 4;
  if ((shape.rank() != 3 && !has_channels) || shape[0] != rows || shape.elements() == 0 ||
      (has_channels && shape[3] > 4))
    fail<ShapeError>(caller, op, "sprites", expected, to_text(shape));
  std::int64_t side = 1;
  while (side * side < rows) ++side;
  const std::int64_t height = shape[1], width = shape[2], channels = has_channels ? shape[3] : 1;
  if (std::max(height, width) > 8192 / side)
    fail<ShapeError>(
        caller, op, "sprites",
        "at most " + to_text(8192 / side) + " pixels a side for " + to_text(rows) + " rows",
        to_text(shape), "TensorBoard shows at most 8192 x 8192 pixels together.");
  Tensor x = pixels_of(stop_gradient(sprites), "sprites", caller);
  x = pad(x.reshape({rows, height, width, channels}),
          {{0, side * side - rows}, {0, 0}, {0, 0}, {0, 0}});
  x = transpose(x.reshape({side, side, height, width, channels}), {0, 2, 1, 3, 4});
  return x.reshape({side * height, side * width, channels});
}
/// A text of the projector's configuration, in quotes.
std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : utf8(name)) {
    char code[8];
    std::snprintf(code, sizeof code, "\\%03o", static_cast<unsigned char>(c));
    text.append(c >= 0x20 && c < 0x7f && c != '"' && c != '\\' ? std::string(1, c) : code);
  }
  return text + '"';
}
}  // namespace

void SummaryWriter::embedding(std::string_view name, Operand table,
                              const ProjectorOptions& options) try {
  const Caller caller = table.caller();
  check_tag(name, caller, "name");
  const Shape& shape = shape_of("table", table, "[rows, width]");
  if (shape.rank() != 2 || shape.elements() == 0)
    fail<ShapeError>(caller, op, "table", "[rows, width]", to_text(shape));
  const CallerScope here(caller, op);
  const std::string labels = rows_text(shape[0], options, caller);
  std::string points, sheet;
  // Files of one name differ in the checksum of the name.
  char sum[16];
  std::snprintf(sum, sizeof sum, "-%08x", io::crc32c(name));
  std::string stem;
  for (const char c : name.substr(0, 60))
    stem += (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ? c : '_';
  stem += sum;
  const std::string start = "embeddings {\n  tensor_name: " + quoted(name) + "\n";
  std::string entry =
      start + "  tensor_path: \"" + stem + ".tsv\"\n  metadata_path: \"" + stem + ".labels.tsv\"\n";
  if (options.sprites.defined()) {
    sheet = png_of(sprite_sheet(options.sprites, shape[0], caller));
    entry += "  sprite {\n    image_path: \"" + stem +
             ".png\"\n    single_image_dim: " + to_text(options.sprites.shape()[2]) +
             "\n    single_image_dim: " + to_text(options.sprites.shape()[1]) + "\n  }\n";
  }
  entry += "}\n";
  const std::size_t width = length(shape, 1);
  const auto x = elements<float>(table);
  char digits[32];
  for (std::size_t i = 0; i < x.size(); ++i) {
    points.append(digits, std::to_chars(digits, digits + sizeof digits, x[i]).ptr);
    points += (i + 1) % width ? '\t' : '\n';
  }
  const io::Path file = board_->folder + stem, config = board_->folder + "projector_config.pbtxt";
  // The entry of a new name is appended by one write, so that several writers share the file.
  const auto save_entry = [&] {
    std::string old = contents_of(config);
    if (old.find(entry) != old.npos) return true;
    const std::size_t at = old.find(start);
    if (at == old.npos) return board_->save(config, O_APPEND, entry);
    const std::size_t end = std::min(old.find("\n}\n", at), old.size() - 3) + 3;
    return board_->save(config, O_TRUNC, old.replace(at, end - at, entry));
  };
  if (board_->save(file + ".tsv", O_TRUNC, points) &&
      board_->save(file + ".labels.tsv", O_TRUNC, labels) &&
      (sheet.empty() || board_->save(file + ".png", O_TRUNC, sheet)) && save_entry())
    return;
  const Locked lock(Lock::boards);
  ++board_->lost;
} catch (const std::bad_alloc&) {
  fail_memory(table.caller(), op);
}

void SummaryWriter::hparams(std::initializer_list<HParam> settings,
                            std::initializer_list<std::string_view> metrics, Caller caller) try {
  constexpr int types[] = {1, 2, 3};   // string, bool, float64 of hparams.DataType
  constexpr int fields[] = {3, 4, 2};  // of google.protobuf.Value
  Message experiment, session;
  for (const HParam& setting : settings) {
    check_tag(setting.name, caller, "settings");
    const std::string name = utf8(setting.name);
    const auto kind = static_cast<std::size_t>(setting.kind);
    Message value;
    switch (setting.kind) {
      case HParam::Kind::text:
        value.bytes(fields[kind], utf8(setting.text));
        break;
      case HParam::Kind::boolean:
        value.integer(fields[kind], setting.number != 0);
        break;
      default:
        value.number(fields[kind], setting.number);
    }
    experiment.message(4, Message().bytes(1, name).bytes(2, name).integer(4, types[kind]));
    session.message(1, Message().bytes(1, name).message(2, value));
  }
  for (const std::string_view metric : metrics) {
    check_tag(metric, caller, "metrics");
    experiment.message(5, Message().message(1, Message().bytes(2, utf8(metric))));
  }
  session.number(5, seconds_of(CLOCK_REALTIME));
  const auto record = [&](std::string_view tag, int field, const Message& data) {
    return Event{"hparams", no_class, Message().message(field, data)}.record(
        tag, 0, tensor_of<float>(floats, {}, nullptr, 0));
  };
  board_->add(record("_hparams_/experiment", 2, experiment) +
                  record("_hparams_/session_start_info", 3, session),
              2);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
}  // namespace reel
