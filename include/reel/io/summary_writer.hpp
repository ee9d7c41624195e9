// SPDX-License-Identifier: BSD-3-Clause
// Event files, which TensorBoard shows as curves, histograms and images.
#pragma once  // defined in lib/io
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reel/io/formats.hpp>
#include <reel/operand.hpp>

namespace reel {
class Graph;

/// Options of SummaryWriter.
struct SummaryOptions {
  double flush_seconds = 10;  // the longest time between two writes while events are added
};
/// Options of histogram().
struct BucketOptions {
  std::int64_t buckets = 30;  // of equal width, from the least value to the largest
};
/// Options of audio().
struct AudioOptions {
  std::int64_t rate = 44'100;  // samples a second
};
/// Options of pr_curve().
struct PrCurveOptions {
  std::int64_t thresholds = 127;  // equally spaced in [0, 1]
};
/// A text for each row of a table, by which the projector can color and search.
struct ProjectorColumn {
  std::string name;
  std::vector<std::string> texts;
};
/// Options of embedding().
struct ProjectorOptions {
  std::vector<std::string> labels = {};        // of the rows; none: their numbers
  std::vector<ProjectorColumn> metadata = {};  // further texts of the rows
  /// An image for each row, shown in the place of its point: [rows, height, width] or [rows,
  /// height, width, channels], as in image(). Together they have at most 8,192 pixels a side. None
  /// if undefined.
  Tensor sprites = {};
};
/// A setting of a run: its name, and a number, bool or text. It points to the texts, so use it only
/// as an argument.
struct HParam {
  enum class Kind : std::uint8_t { text, boolean, number };
  std::string_view name, text = {};
  double number = 0;
  Kind kind = Kind::number;
  template <Number T>
  HParam(std::string_view setting, T value)
      : name(setting),
        number(static_cast<double>(value)),
        kind(std::is_same_v<T, bool> ? Kind::boolean : Kind::number) {}
  HParam(std::string_view setting, std::string_view value)
      : name(setting), text(value), kind(Kind::text) {}
  HParam(std::string_view setting, const char* value) : HParam(setting, std::string_view(value)) {}
};

/// Writes events of a run into a folder that TensorBoard reads. Each writer has a file of its own.
/// Give each run a folder of its own: TensorBoard follows one file of a folder at a time.
///
///     SummaryWriter board("runs/a");
///     for (int step = 0; step < 1000; ++step) board.scalar("loss", train(model), step);
///
/// Events wait in memory. They are written when an event is added and `flush_seconds` have passed
/// since the last write, or 1 MiB waits; also by flush() and by the destructor. A killed process
/// loses the events that waited. Each write has whole records, so the file is readable at any time.
///
/// A failed write, as on a full disk, throws nothing: one line on stderr says so, and lost() counts
/// the events that are not in the file. Later events are written again when the disk has room.
///
/// `tag` names a curve or image; "train/loss" is in the group "train". Use a tag for one kind of
/// event only. An empty tag throws Error. Bytes of tags and texts that are not UTF-8 become U+FFFD.
///
/// Threads may share a writer. In a process that fork() made, the writer of its parent writes
/// nothing. Call these functions outside of traced functions, because a replay does not run them.
class REEL_API SummaryWriter {
 public:
  /// Creates the folder, and a file "events.out.tfevents.*" in it. Throws IoError if it cannot, and
  /// Error unless flush_seconds is 0 or more.
  explicit SummaryWriter(const io::Path& folder, SummaryOptions options = {},
                         Caller caller = Caller::here());
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /// A point of a curve: a number, or a tensor with one element, as float32. NaN and infinity are
  /// legal. The call does not wait for a tensor on a GPU, which is read when it is written.
  void scalar(std::string_view tag, Operand value, std::int64_t step);
  /// How often values occur, in a tensor of any shape and dtype. NaN and infinity are left out; if
  /// there are some, scalar "<tag>/non_finite" has their number.
  void histogram(std::string_view tag, Operand values, std::int64_t step,
                 BucketOptions options = {});
  /// An image [height, width] or [height, width, channels]: uint8, or floating numbers from 0 to 1,
  /// which are clamped; NaN is 0. 1 channel is gray, 2 gray and opacity, 3 RGB, 4 RGB and opacity.
  void image(std::string_view tag, Operand pixels, std::int64_t step);
  /// A text, shown as Markdown.
  void text(std::string_view tag, std::string_view text, std::int64_t step,
            Caller caller = Caller::here());
  /// A sound [samples] or [samples, channels]: floating numbers from -1 to 1, which are clamped;
  /// NaN is 0. It is stored with 16 bits.
  void audio(std::string_view tag, Operand samples, AudioOptions options, std::int64_t step);
  /// Precision and recall of a classifier with two classes, by threshold. labels are bools or the
  /// integers 0 and 1, scores floating numbers from 0 to 1, of one shape.
  void pr_curve(std::string_view tag, Operand labels, Operand scores, std::int64_t step,
                PrCurveOptions options = {});
  /// Points of the projector: a table [rows, width]. It writes the files of the projector into the
  /// folder. A call with the name of an earlier one replaces its points.
  void embedding(std::string_view name, Operand table, const ProjectorOptions& options = {});
  /// The graph of a traced function: see graph_of(). Scopes of NameScopes can be opened by a click.
  /// Above 2,000 steps, one node stands for the steps of one op, line and scope, because the page
  /// of TensorBoard cannot draw long chains. A run has one graph: call it once.
  ///
  ///     board.graph(graph_of(traced, x));
  void graph(const Graph& graph, Caller caller = Caller::here());
  /// The settings of the run, and the tags of scalars that measure its success. Call it once.
  ///
  ///     board.hparams({{"rate", 1e-3}, {"optimizer", "adam"}}, {"loss"});
  void hparams(std::initializer_list<HParam> settings,
               std::initializer_list<std::string_view> metrics, Caller caller = Caller::here());

  /// Writes what waits. It returns when the system has the bytes, which may be before the disk has
  /// them.
  void flush();
  /// The number of events, and of tables of the projector, that could not be written.
  std::int64_t lost() const;

 private:
  struct Board;
  Board* board_;
};
}  // namespace reel
