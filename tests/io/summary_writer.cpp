// SPDX-License-Identifier: BSD-3-Clause
// Event files for TensorBoard, which a reader written here reads back. summary_writer.py reads them
// with TensorBoard's own reader.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/system_calls.hpp"
#include "lib/io/wire.hpp"
#include "support/refused.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// The bits of CRC-32C one by one, unlike the library's table.
std::uint32_t slow_crc(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? 0x82f63b78 ^ (sum >> 1) : sum >> 1;
  }
  return ~sum;
}
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T x;
  REQUIRE(at + sizeof x <= bytes.size());
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}
bool sum_fits(std::string_view data, std::uint32_t stored) {
  const std::uint32_t sum = slow_crc(data);
  return stored == ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}
/// The data of all whole records.
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> found;
  while (file.size() >= 12) {
    const auto length = number_at<std::uint64_t>(file, 0);
    REQUIRE(sum_fits(file.substr(0, 8), number_at<std::uint32_t>(file, 8)));
    if (file.size() < length + 16) break;
    found.emplace_back(file.substr(12, length));
    REQUIRE(sum_fits(found.back(), number_at<std::uint32_t>(file, 12 + length)));
    file.remove_prefix(length + 16);
  }
  return found;
}

/// The fields of a message, by number; numbers as their bytes.
using Fields = std::multimap<int, std::string>;
Fields fields(std::string_view message) {
  Fields found;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < message.size());
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    std::string value;
    if ((key & 7) == 0) {
      const std::uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), sizeof number);
    } else {
      const std::uint64_t size = (key & 7) == 1 ? 8 : varint();
      REQUIRE(size <= message.size() - at);
      value = message.substr(at, size);
      at += size;
    }
    found.emplace(static_cast<int>(key >> 3), value);
  }
  return found;
}
std::string field(const Fields& message, std::initializer_list<int> path) {
  const auto first = message.find(*path.begin());
  if (first == message.end()) return {};
  if (path.size() == 1) return first->second;
  std::vector<int> rest(path.begin() + 1, path.end());
  std::string value = first->second;
  for (const int number : rest) {
    const Fields inner = fields(value);
    const auto found = inner.find(number);
    if (found == inner.end()) return {};
    value = found->second;
  }
  return value;
}

struct Event {
  std::string tag, plugin;
  std::int64_t step = 0;
  Fields tensor;
  float number() const { return number_at<float>(field(tensor, {4}), 0); }
  template <class T>
  std::vector<T> numbers() const {
    const std::string bytes = field(tensor, {4});
    std::vector<T> x(bytes.size() / sizeof(T));
    std::memcpy(x.data(), bytes.data(), bytes.size());
    return x;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> found;
    for (auto [at, end] = tensor.equal_range(8); at != end; ++at) found.push_back(at->second);
    return found;
  }
};
std::string only_file(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (name.find("tfevents") != name.npos) return folder + "/" + name;
  return {};
}
/// The events of a file without the first record, which names its version.
std::vector<Event> events_in(const std::string& path) {
  std::vector<Event> events;
  const std::vector<std::string> all = records(contents(path));
  REQUIRE(!all.empty());
  CHECK(field(fields(all[0]), {3}) == "brain.Event:2");
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Fields event = fields(all[i]), value = fields(field(event, {5, 1}));
    events.push_back({field(value, {1}), field(value, {9, 1, 1}),
                      number_at<std::int64_t>(field(event, {2}), 0), fields(field(value, {8}))});
    CHECK(number_at<double>(field(event, {1}), 0) > 1.6e9);
  }
  return events;
}
std::vector<Event> events_of(const Folder& folder) { return events_in(only_file(folder.path)); }

/// The rows of a PNG, without the byte in front of each.
std::vector<std::string> rows_of_png(const std::string& png, std::size_t row_bytes) {
  REQUIRE(png.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  std::string packed;
  const auto big = [&](std::size_t at) {
    std::uint32_t x = 0;
    for (std::size_t i = 0; i < 4; ++i) x = x << 8 | static_cast<unsigned char>(png[at + i]);
    return x;
  };
  for (std::size_t at = 8; at < png.size();) {
    const std::size_t size = big(at);
    const std::string body = png.substr(at + 4, 4 + size);
    CHECK(big(at + 8 + size) ==
          crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    if (body.substr(0, 4) == "IDAT") packed += body.substr(4);
    at += 12 + size;
  }
  std::string raw(1 << 16, '\0');
  uLongf size = raw.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                     reinterpret_cast<const Bytef*>(packed.data()), packed.size()) == Z_OK);
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < size; at += row_bytes + 1) {
    CHECK(raw[at] == 0);
    rows.push_back(raw.substr(at + 1, row_bytes));
  }
  return rows;
}
constexpr double inf = std::numeric_limits<double>::infinity(), nan = NAN;
constexpr SummaryOptions late{.flush_seconds = 1e9};
}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720", "[board]") {
  CHECK(io::crc32c("123456789") == 0xe3069283u);
  CHECK(io::crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(io::crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(io::crc32c("") == 0u);
}

TEST_CASE("scalars are read back", "[board]") {
  Folder folder;
  Variable rate("rate", tensor(0.5));
  {
    SummaryWriter board(folder.path);
    board.scalar("loss", 0.25, 0);
    board.scalar("loss", tensor({{2.5}}), std::numeric_limits<std::int64_t>::max());
    board.scalar("loss", rate, -1);
    rate.assign(7.0);
    board.scalar("count", tensor(std::int64_t{3}), 2);
    board.scalar("right", tensor(true), 2);
    board.scalar("half", tensor(1.5).to(DType::float16), 2);
    board.scalar("bad", nan, 3);
    board.scalar("bad", -inf, 4);
    board.scalar("bad", tensor(inf), 5);
    CHECK(board.lost() == 0);
  }
  const std::vector<Event> events = events_of(folder);
  REQUIRE(events.size() == 9);
  const double wanted[] = {0.25, 2.5, 0.5, 3, 1, 1.5};
  for (std::size_t i = 0; i < 6; ++i) CHECK(events[i].number() == wanted[i]);
  CHECK(std::isnan(events[6].number()));
  CHECK(events[7].number() == -inf);
  CHECK(events[8].number() == inf);
  CHECK(events[0].tag == "loss");
  CHECK(events[0].plugin == "scalars");
  CHECK(events[1].step == std::numeric_limits<std::int64_t>::max());
  CHECK(events[2].step == -1);
}

TEST_CASE("a tape does not follow what a board reads", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  Variable w("w", tensor({1.0, 2.0}));
  GradientTape tape;
  const Tensor loss = sum(w * w);
  board.scalar("loss", loss, 0);
  board.histogram("w", w, 0);
  const auto gradients = tape.gradient(loss, w);
  CHECK(gradients.to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("any tag leaves the file readable", "[board]") {
  Folder folder;
  const std::string tags[] = {"a\nb\t\x01\x7f",
                              std::string("a\0b", 3),
                              "\xc3\xa9\xf0\x9f\x8e\x9e",
                              std::string(1 << 20, 'x'),
                              "../../etc",
                              "<script>"};
  SummaryWriter board(folder.path);
  for (const std::string& tag : tags) board.scalar(tag, 1, 0);
  board.scalar("a\xff\xc0\xaf\xed\xa0\x80\xf5\xe2\x82", 1, 0);
  board.flush();
  const std::vector<Event> events = events_of(folder);
  REQUIRE(events.size() == 7);
  for (std::size_t i = 0; i < 6; ++i) CHECK(events[i].tag == tags[i]);
  std::string replaced = "a";
  for (int i = 0; i < 9; ++i) replaced += "\xef\xbf\xbd";
  CHECK(events[6].tag == replaced);
  check_refused<Error>([&] { board.scalar("", 1, 0); }, "SummaryWriter: tag: expected a text");
  check_refused<Error>([&] { board.text("", "x", 0); }, "SummaryWriter: tag: expected a text");
}

TEST_CASE("histograms count values in buckets of equal width", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  board.histogram("x", tensor({0.0, 1.0, 2.0, 9.0, 10.0, nan, inf, -inf}), 4, {.buckets = 5});
  board.histogram("equal", full({2, 3}, 2.0), 0);
  board.histogram("none", zeros({0}), 0);
  board.histogram("bools", tensor({true, false, true}), 0, {.buckets = 2});
  board.histogram("wide", tensor<double>({-1.7e308, 0.1, 1.7e308}), 0, {.buckets = 2});
  board.flush();
  const std::vector<Event> events = events_of(folder);
  REQUIRE(events.size() == 6);
  using Numbers = std::vector<double>;
  CHECK(events[0].numbers<double>() == Numbers{0, 2, 2, 2, 4, 1, 4, 6, 0, 6, 8, 0, 8, 10, 2});
  CHECK(events[0].plugin == "histograms");
  CHECK(events[1].tag == "x/non_finite");
  CHECK(events[1].number() == 3);
  CHECK(events[2].numbers<double>() == Numbers{1.5, 2.5, 6});
  CHECK(events[3].numbers<double>().empty());
  CHECK(events[4].numbers<double>() == Numbers{0, 0.5, 1, 0.5, 1, 2});
  CHECK(events[5].numbers<double>() == Numbers{-1.7e308, 0, 1, 0, 1.7e308, 2});
}

TEST_CASE("images are PNG files", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  board.image("gray", tensor<std::uint8_t>({{0, 1, 2}, {253, 254, 255}}), 0);
  board.image("rgb", tensor({{{0.0, 0.5, 1.0}, {-1.0, 2.0, nan}}}), 0);
  board.flush();
  const std::vector<Event> events = events_of(folder);
  REQUIRE(events.size() == 2);
  const std::vector<std::string> gray = events[0].texts(), rgb = events[1].texts();
  REQUIRE(gray.size() == 3);
  CHECK(gray[0] == "3");
  CHECK(gray[1] == "2");
  CHECK(rows_of_png(gray[2], 3) == std::vector<std::string>{{"\0\1\2", 3}, "\xfd\xfe\xff"});
  CHECK(rows_of_png(rgb[2], 6) == std::vector<std::string>{{"\0\x80\xff\0\xff\0", 6}});
  const auto refused = [&](const Tensor& x) {
    check_refused<ShapeError>([&] { board.image("x", x, 0); }, "SummaryWriter: pixels: expected [");
  };
  for (const Shape& shape : {Shape{}, {4}, {3, 2, 5}, {0, 3}, {3, 3, 0}, {1, 2, 3, 4}})
    refused(zeros(shape));
  check_refused<DTypeError>(
      [&] {
        board.image("x", zeros({2, 2}, {DType::int32}), 0);
      },
      "SummaryWriter: pixels: expected uint8 or floating numbers, got int32");
}

TEST_CASE("sounds are WAV files of 16 bits", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  board.audio("y", tensor({{0.0, 1.0}, {-2.0, nan}, {0.5, -1.0}}), {.rate = 8000}, 1);
  board.flush();
  const std::string wav = events_of(folder).at(0).texts().at(0);
  CHECK(wav.substr(0, 4) + wav.substr(8, 8) == "RIFFWAVEfmt ");
  CHECK(number_at<std::uint32_t>(wav, 4) == wav.size() - 8);
  CHECK(number_at<std::uint16_t>(wav, 22) == 2);
  CHECK(number_at<std::uint32_t>(wav, 24) == 8000);
  CHECK(number_at<std::uint32_t>(wav, 40) == 12);
  const std::int16_t wanted[] = {0, 32767, -32767, 0, 16384, -32767};
  for (std::size_t i = 0; i < 6; ++i) CHECK(number_at<std::int16_t>(wav, 44 + 2 * i) == wanted[i]);
  check_refused<Error>([&] { board.audio("y", zeros({4}), {.rate = 0}, 0); },
                       "SummaryWriter: rate: expected a number from 1 to 1000000, got 0");
  check_refused<ShapeError>([&] { board.audio("y", tensor(1.0), {}, 0); },
                            "SummaryWriter: samples: expected [samples]");
  check_refused<DTypeError>([&] { board.audio("y", zeros({4}, {DType::int32}), {}, 0); },
                            "SummaryWriter: samples: expected floating numbers, got int32");
}

TEST_CASE("a precision and recall curve counts examples by threshold", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  board.pr_curve("p", tensor({1, 0, 1, 0}), tensor({1.0, 0.5, 0.5, 0.0}), 0, {.thresholds = 3});
  board.flush();
  const std::vector<float> wanted{2, 2, 1, 2, 1, 0, 0, 1, 2, 0, 0, 1, 0.5, 2.f / 3, 1, 1, 1, 0.5};
  CHECK(events_of(folder).at(0).numbers<float>() == wanted);
  const Tensor one = tensor({1.0});
  check_refused<Error>([&] { board.pr_curve("p", tensor({2}), one, 0); },
                       "SummaryWriter: labels: expected 0 and 1, got 2 at [0]");
  check_refused<Error>([&] { board.pr_curve("p", tensor({1}), one * nan, 0); },
                       "SummaryWriter: scores: expected numbers from 0 to 1, got nan at [0]");
  check_refused<ShapeError>(
      [&] {
        board.pr_curve("p", tensor({1, 0}), one, 0);
      },
      "SummaryWriter: scores: expected the shape of the labels, (2,)");
  check_refused<DTypeError>([&] { board.pr_curve("p", one, one, 0); },
                            "SummaryWriter: labels: expected bools or integers, got float32");
}

TEST_CASE("arguments of a board are checked", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  check_refused<ShapeError>(
      [&] {
        board.scalar("x", tensor({1.0, 2.0}), 0);
      },
      "SummaryWriter: value: expected one element, got (2,)");
  check_refused<Error>([&] { board.scalar("x", Tensor(), 0); },
                       "SummaryWriter: value: expected a tensor, got an undefined Tensor");
  check_refused<Error>([&] { board.histogram("x", 1.0, 0, {.buckets = 0}); },
                       "SummaryWriter: buckets: expected a number from 1 to 1000000, got 0");
  check_refused<Error>([&] { SummaryWriter other(folder.path, {.flush_seconds = nan}); },
                       "SummaryWriter: flush_seconds: expected 0 or more, got nan");
  check_refused<IoError>([&] { SummaryWriter other(""); }, "SummaryWriter: \"\": expected a path");
  write_file(folder.file("file"), "x");
  check_refused<IoError>([&] { SummaryWriter other(folder.file("file")); },
                         "SummaryWriter: \"file/\": expected a folder");
  board.flush();
  CHECK(events_of(folder).empty());
}

TEST_CASE("two writers of a folder have a file each", "[board]") {
  Folder folder;
  SummaryWriter a(folder.path), b(folder.path);
  a.scalar("a", 1, 0);
  b.scalar("b", 2, 0);
  a.flush();
  b.flush();
  std::string tags;
  CHECK(folder.count() == 2);
  for (const std::string& name : names_in(folder.path))
    for (const Event& event : events_in(folder.file(name.c_str()))) tags += event.tag;
  CHECK((tags == "ab" || tags == "ba"));
}

TEST_CASE("threads share a writer", "[board]") {
  Folder folder;
  {
    SummaryWriter board(folder.path, {.flush_seconds = 0});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&board, t] {
        for (int i = 0; i < 50; ++i) {
          board.scalar(std::to_string(t), i, i);
          if (i % 10 == t) board.flush();
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(board.lost() == 0);
  }
  std::map<std::string, float> next;
  for (const Event& event : events_of(folder)) CHECK(event.number() == next[event.tag]++);
  for (int t = 0; t < 4; ++t) CHECK(next[std::to_string(t)] == 50);
}

TEST_CASE("a cut file is readable up to the cut", "[board]") {
  Folder folder;
  {
    SummaryWriter board(folder.path);
    for (int i = 0; i < 10; ++i) board.scalar("x", i, i);
  }
  const std::string path = only_file(folder.path), whole = contents(path);
  std::size_t before = 11;
  for (std::size_t size = whole.size(); size > 60; size -= 7) {
    write_file(path, whole.substr(0, size));
    const std::size_t now = records(contents(path)).size();
    CHECK(now <= before);
    before = now;
  }
  CHECK(before == 1);
}

TEST_CASE("a killed process loses only what was not written", "[board][fork]") {
  Folder folder;
  const pid_t child = fork();
  if (child == 0) {
    SummaryWriter board(folder.path, late);
    board.scalar("x", 1, 0);
    board.flush();
    board.scalar("x", 2, 0);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  CHECK(events_of(folder).size() == 1);
}

TEST_CASE("the child of a fork writes nothing with the writer of its parent", "[board][fork]") {
  Folder folder;
  {
    SummaryWriter board(folder.path, late);
    board.scalar("x", 1, 0);
    const pid_t child = fork();
    if (child == 0) {
      board.scalar("x", 2, 0);
      board.flush();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  CHECK(events_of(folder).size() == 1);
}

TEST_CASE("a failed write throws nothing, and lost() counts", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path, late);
  const auto add = [&](int count) {
    for (int i = 0; i < count; ++i) board.scalar("x", i, i);
  };
  add(2);
  board.flush();
  add(3);
  const std::string said = on_stderr([&] {
    for (int failures = 0; failures < 2; ++failures) {
      const Armed armed;
      system_calls.until_failure = 1;  // writes a part, then no more
      system_calls.most_bytes = 100;
      system_calls.error = ENOSPC;
      board.flush();
      system_calls = {};
      add(failures == 0 ? 1 : 0);
    }
  });
  CHECK(said.find("reel: SummaryWriter: events are lost: ") == 0);
  CHECK(said.ends_with(": No space left on device\n"));
  CHECK(board.lost() == 2);
  add(5);
  board.flush();
  CHECK(board.lost() == 2);
  const std::size_t stored = events_of(folder).size();
  CHECK(stored == 2 + 1 + 1 + 5);
}

TEST_CASE("a graph is a tensorflow.GraphDef", "[cpu]") {
  const Folder folder;
  auto traced = trace([](Tensor x) {
    const NameScope scope("a b");  // a blank is not allowed in a name
    return named(tanh(x * x), "length");
  });
  traced(ones({2, 3}));
  auto steps = trace([](Tensor x) {
    for (int i = 0; i < 3000; ++i) x = x + x;
    return x;
  });
  steps(ones({1}));
  {
    SummaryWriter board(folder.path.string());
    board.graph(graph_of(traced, ones({2, 3})));
    board.graph(graph_of(steps, ones({1})));
  }
  const auto nodes_of = [&](std::size_t event) {
    const Fields graph =
        fields(field(fields(records(contents(only_file(folder.path))).at(event)), {4}));
    std::map<std::string, Fields> nodes;
    for (auto [at, end] = graph.equal_range(1); at != end; ++at) {
      const Fields node = fields(at->second);
      CHECK(nodes.emplace(field(node, {1}), node).second);
    }
    return nodes;
  };
  const auto nodes = nodes_of(1);
  REQUIRE(nodes.size() == 3);
  CHECK(field(nodes.at("argument_0"), {2}) == "Placeholder");
  CHECK(field(nodes.at("a_b/multiply"), {3}) == "argument_0");
  CHECK(field(nodes.at("a_b/length"), {2}) == "tanh");
  CHECK(field(nodes.at("a_b/length"), {3}) == "a_b/multiply");
  CHECK(nodes_of(2).size() == 2);  // one node for 3,000 equal steps
}
TEST_CASE("every kind of event", "[every_event]") {
  Folder own;
  const char* const given = std::getenv("REEL_SUMMARIES");
  const std::string folder = given ? given : own.path.string();
  SummaryWriter board(folder);
  for (int i = 0; i < 100; ++i) board.scalar("train/loss", std::exp(-i / 20.0), i);
  board.scalar("odd \n\x01\xff", nan, 0);
  board.histogram("weights", linspace(-1, 1, 1000), 3);
  board.image("input", linspace(0, 1, 48).reshape({4, 4, 3}), 0);
  board.text("note", "**rate** 1e-3", 0);
  board.audio("tone", sin(arange(0, 800).to(DType::float32) * 0.3) / 2, {.rate = 8000}, 0);
  board.pr_curve("curve", tensor({1, 0, 1, 0}), tensor({1.0, 0.5, 0.5, 0.0}), 0, {.thresholds = 3});
  board.embedding("words", eye(3), {.labels = {"a", "b", "c"}});
  board.embedding("pictures", eye(3),
                  {.labels = {"a", "b", "c"},
                   .metadata = {{"kind", {"vowel", "other", "other"}}},
                   .sprites = linspace(0, 1, 36).reshape({3, 2, 2, 3})});
  auto traced = trace([](Tensor x) {
    Tensor product;
    {
      const NameScope scope("scope");
      product = named(x * x, "product");
    }
    return tanh(product);
  });
  traced(ones({3}));
  board.graph(graph_of(traced, ones({3})));
  board.hparams({{"rate", 1e-3}, {"optimizer", "adam"}, {"nesterov", true}}, {"train/loss"});
  board.flush();
  CHECK(board.lost() == 0);
  CHECK(events_in(only_file(folder)).size() == 109);
}
}  // namespace reel::tests
