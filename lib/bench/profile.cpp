// SPDX-License-Identifier: BSD-3-Clause
// What a profile tells.
#include "lib/bench/profile.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>

#include <reel/error.hpp>
#include <reel/references.hpp>

#include "lib/body/line.hpp"
#include "lib/body/utf8.hpp"
#include "lib/table/op.hpp"

namespace reel {
using detail::ProfileData;

namespace detail {
std::string name_of(const Op* op, Part part) {
  if (!op) return "backward pass";
  return part == Part::value ? std::string(op->name) : fmt::format("gradient of {}", op->name);
}

namespace {
std::string line_of(const SpanKey& key) { return line_text({key.file, key.line}); }

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}
std::string bytes_text(std::int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", count / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", count / 1e6);
  return fmt::format("{:.2f} GB", count / 1e9);
}

/// The profile of the whole program, and where its timeline goes.
struct Whole {
  ProfileSession* session = nullptr;
  std::string path;
};
constinit Whole* whole = nullptr;
constinit bool asked = false;

void write_whole() noexcept try {
  if (whole->session->process != getpid()) return;  // a child's exit
  const Profile profile(whole->session->end());
  std::fputs(profile.to_text().c_str(), stderr);
  profile.write_chrome_trace(whole->path, {});
} catch (const std::exception& error) {
  std::fprintf(stderr, "REEL_PROFILE: %s\n", error.what());
}
}  // namespace

void profile_thread(Context& context) noexcept try {
  if (!__atomic_exchange_n(&asked, true, __ATOMIC_RELAXED)) {
    const char* const path = std::getenv("REEL_PROFILE");
    if (path && *path) {
      whole = new Whole{&ProfileSession::begin(), path};
      std::atexit(write_whole);
      return;
    }
  }
  ProfileSession::context_made(context);
} catch (const std::exception& error) {
  std::fprintf(stderr, "REEL_PROFILE: %s\n", error.what());
}

ProfileRun::ProfileRun(Caller caller) try : caller_(caller), session_(&ProfileSession::begin()) {
} catch (const std::bad_alloc&) {
  fail_memory(caller, "profile");
}
ProfileRun::~ProfileRun() {
  if (session_) try {
      delete session_->end();
    } catch (const std::bad_alloc&) {
    }
}
Profile ProfileRun::finish() try {
  return Profile(std::exchange(session_, nullptr)->end());
} catch (const std::bad_alloc&) {
  fail_memory(caller_, "profile");
}

namespace {
class Measured final : public MeasuredRun {
 public:
  explicit Measured(Observer& observer) : session_(&ProfileSession::begin(&observer)) {}
  ~Measured() override try { end(); } catch (const std::bad_alloc&) {
  }
  void end() override {
    if (session_) profile_.emplace(std::exchange(session_, nullptr)->end());
  }
  std::string title() const override {
    const std::string text = profile_->to_text();
    return text.substr(0, text.find('\n'));
  }
  Rows rows(bool by_line) const override {
    Rows all = {
        {by_line ? "line" : "op", "calls", "self us", "total us", "device us", "moved", "results"}};
    const auto microseconds = [](double x) { return fmt::format("{:.1f}", x * 1e6); };
    for (const ProfileRow& row : profile_->rows(by_line ? ProfileBy::line : ProfileBy::op))
      all.push_back({row.name, std::to_string(row.calls), microseconds(row.self_seconds),
                     microseconds(row.total_seconds), microseconds(row.device_seconds),
                     bytes_text(row.moved_bytes), bytes_text(row.result_bytes)});
    return all;
  }
  Rows memory() const override {
    Rows all;
    for (const ProfileMemoryRow& row : profile_->memory())
      all.push_back({bytes_text(row.bytes), row.op, row.line});
    return all;
  }
  void write(std::string_view path) const override { profile_->write_chrome_trace(path, {}); }

 private:
  ProfileSession* session_;
  std::optional<Profile> profile_ = {};
};
}  // namespace
std::unique_ptr<MeasuredRun> measure(Observer& observer) {
  return std::make_unique<Measured>(observer);
}
}  // namespace detail

Profile::Profile(const Profile& other) noexcept : data_(other.data_) {
  detail::add_reference(data_->references);
}
Profile& Profile::operator=(const Profile& other) noexcept {
  Profile copy(other);
  std::swap(data_, copy.data_);
  return *this;
}
Profile::~Profile() {
  if (detail::drop_reference(data_->references)) delete data_;
}

std::vector<ProfileRow> Profile::rows(ProfileBy by) const try {
  std::map<std::string, ProfileRow> rows;
  for (const auto& [key, sums] : data_->sums) {
    const std::string name =
        by == ProfileBy::op ? detail::name_of(key.op, key.part) : detail::line_of(key);
    ProfileRow& row = rows[name];
    row.name = name;
    row.calls += sums.calls;
    row.total_seconds += data_->nanoseconds(sums.total) * 1e-9;
    row.self_seconds += data_->nanoseconds(sums.total - sums.inside) * 1e-9;
    row.device_seconds += sums.device_seconds;
    row.moved_bytes += sums.moved;
    row.result_bytes += sums.made;
  }
  std::vector<ProfileRow> result;
  for (auto& [name, row] : rows) result.push_back(std::move(row));
  std::stable_sort(result.begin(), result.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.self_seconds + a.device_seconds > b.self_seconds + b.device_seconds;
  });
  return result;
} catch (const std::bad_alloc&) {
  fail_memory({}, "rows");
}

double Profile::seconds() const {
  return static_cast<double>(data_->end.nanoseconds - data_->begin.nanoseconds) * 1e-9;
}
int Profile::threads() const {
  return static_cast<int>(std::count_if(data_->threads.begin(), data_->threads.end(),
                                        [](const auto& thread) { return !thread.parts.empty(); }));
}
std::int64_t Profile::peak_bytes() const { return data_->peak; }

std::vector<ProfileMemoryRow> Profile::memory() const try {
  std::map<std::pair<std::string, std::string>, std::int64_t> sums;
  std::int64_t others = data_->peak;
  for (const auto& [key, bytes] : data_->makers) {
    sums[{detail::line_of(key), key.op ? detail::name_of(key.op, key.part) : "no op"}] += bytes;
    others -= bytes;
  }
  const std::int64_t before = std::clamp(others, std::int64_t{0}, data_->before_at_peak);
  std::vector<ProfileMemoryRow> rows;
  for (const auto& [place, bytes] : sums) rows.push_back({place.first, place.second, bytes});
  if (before) rows.push_back({"no line", "before the profile", before});
  if (others > before) rows.push_back({"no line", "small tensors", others - before});
  std::stable_sort(
      rows.begin(), rows.end(),
      [](const ProfileMemoryRow& a, const ProfileMemoryRow& b) { return a.bytes > b.bytes; });
  return rows;
} catch (const std::bad_alloc&) {
  fail_memory({}, "memory");
}

std::string Profile::to_text(const ProfileTextOptions& options, Caller caller) const try {
  using detail::bytes_text, detail::time_text;
  if (options.rows < 1 || options.rows > 10000)
    fail<Error>(caller, "to_text", "rows", "a number from 1 to 10000",
                fmt::format("{}", options.rows));
  const std::vector<ProfileRow> all = rows(options.by);
  double time = 0;
  std::int64_t calls = 0;
  bool devices = false;
  for (const ProfileRow& row : all) {
    time += row.self_seconds;
    calls += row.calls;
    devices |= row.device_seconds > 0;
  }
  std::string text = fmt::format(
      "{} on {} thread{}: {} calls take {} ({:.0f} %), at most {} of tensors\n",
      time_text(seconds()), threads(), threads() == 1 ? "" : "s", calls, time_text(time),
      seconds() > 0 ? 100 * time / seconds() : 0, bytes_text(peak_bytes()));
  text += fmt::format("{:>10} {:>6} {:>10} {:>10} {:>9} {:>9}{}  {}\n", "self", "%", "total",
                      "calls", "moved", "results", devices ? "     device" : "",
                      options.by == ProfileBy::op ? "op" : "line");
  for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(options.rows); ++i) {
    const ProfileRow& row = all[i];
    text += fmt::format(
        "{:>10} {:>6.1f} {:>10} {:>10} {:>9} {:>9}{}  {}\n", time_text(row.self_seconds),
        time > 0 ? 100 * row.self_seconds / time : 0, time_text(row.total_seconds), row.calls,
        bytes_text(row.moved_bytes), bytes_text(row.result_bytes),
        devices ? fmt::format(" {:>10}", time_text(row.device_seconds)) : "", printable(row.name));
  }
  if (all.size() > static_cast<std::size_t>(options.rows))
    text += fmt::format("and {} more\n", all.size() - static_cast<std::size_t>(options.rows));
  const std::vector<ProfileMemoryRow> memory = this->memory();
  if (!memory.empty())
    text += fmt::format("{:>10} {:>6}  at the peak of memory: line, op\n", "bytes", "%");
  for (std::size_t i = 0; i < memory.size() && i < static_cast<std::size_t>(options.rows); ++i)
    text += fmt::format("{:>10} {:>6.1f}  {}, {}\n", bytes_text(memory[i].bytes),
                        100 * static_cast<double>(memory[i].bytes) /
                            static_cast<double>(std::max(data_->peak, std::int64_t{1})),
                        printable(memory[i].line), memory[i].op);
  if (memory.size() > static_cast<std::size_t>(options.rows))
    text += fmt::format("and {} more\n", memory.size() - static_cast<std::size_t>(options.rows));
  if (data_->lost > 0)
    text += fmt::format("{} calls are missing, because there was no memory\n", data_->lost);
  return text;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_text");
}
}  // namespace reel
