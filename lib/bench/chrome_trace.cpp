// SPDX-License-Identifier: BSD-3-Clause
// The timeline of a profile as JSON: the "Trace Event Format" of Chrome, which Perfetto reads.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include <reel/error.hpp>

#include "lib/bench/profile.hpp"
#include "lib/body/text.hpp"
#include "lib/body/utf8.hpp"
#include "lib/io/atomic_file.hpp"
#include "lib/io/json.hpp"

namespace reel {
namespace {
using namespace detail;
constexpr std::size_t buffer_bytes = 1 << 20;
constexpr int first_device_row = 1'000'000;  // rows of threads are before it

class Writer {
 public:
  Writer(std::string_view path, Caller caller)
      : file_(io::Path(path), "write_chrome_trace", caller) {}
  /// An event without its braces.
  void event(std::string_view text) {
    buffer_ += first_ ? "[\n{" : ",\n{";
    first_ = false;
    (buffer_ += text) += '}';
    if (buffer_.size() >= buffer_bytes) write();
  }
  void finish() {
    buffer_ += first_ ? "[]\n" : "\n]\n";
    write();
    file_.commit();
  }

 private:
  void write() {
    file_.write(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  io::AtomicFile file_;
  std::string buffer_;
  bool first_ = true;
};

std::string quoted(std::string_view text) { return io::json_string(utf8(text)); }
std::string where(Caller caller) {
  return caller.file
             ? fmt::format("\"line\":{}", quoted(fmt::format("{}:{}", caller.file, caller.line)))
             : "";
}
/// A slice of a row.
std::string slice(int row, std::string_view name, double begin, double end,
                  std::string_view arguments) {
  return fmt::format(
      R"("ph":"X","pid":1,"tid":{},"name":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}})", row,
      quoted(name), begin, std::max(end - begin, 0.0), arguments);
}
std::string row_name(int row, std::string_view name) {
  return fmt::format(R"("ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":{}}})", row,
                     quoted(name));
}
}  // namespace

void Profile::write_chrome_trace(std::string_view path, Caller caller) const try {
  Writer out(path, caller);
  out.event(R"("ph":"M","pid":1,"name":"process_name","args":{"name":"reel"})");
  for (const ThreadSpans& thread : data_->threads) {
    const int row = thread.number + 1;
    out.event(row_name(row, thread.number == 0 ? "thread 0, which began"
                                               : fmt::format("thread {}", thread.number)));
    for (const std::span<const Span> part : thread.parts)
      for (const Span& span : part) {
        const SpanKey& key = span.place->key;
        std::string arguments = where({key.file, key.line});
        if (key.op)
          arguments += fmt::format(R"({}"moved":{},"results":{})", arguments.empty() ? "" : ",",
                                   span.moved, span.made);
        out.event(slice(row, name_of(key.op, key.part), data_->microseconds_at(span.begin),
                        data_->microseconds_at(span.end), arguments));
      }
  }
  std::vector<Device> devices;
  std::vector<double> free;  // kernels of a device run one after another
  for (std::size_t i = 0; i < data_->kernels.size(); ++i) {
    const KernelTime& kernel = data_->kernels[i];
    const auto place = std::find(devices.begin(), devices.end(), kernel.device);
    const auto number = static_cast<std::size_t>(place - devices.begin());
    const int row = first_device_row + static_cast<int>(number);
    if (place == devices.end()) {
      devices.push_back(kernel.device);
      out.event(row_name(row, std::string(reel::to_text(kernel.device))));
      free.push_back(0);
    }
    const double begin = std::max(kernel.begin, free[number]), end = std::max(kernel.end, begin);
    free[number] = end;
    out.event(slice(row, name_of(kernel.op, kernel.part), begin, end, where(kernel.caller)));
    const auto arrow = [&](std::string_view kind, int tid, double at) {
      out.event(fmt::format(
          R"("ph":{},"pid":1,"tid":{},"id":{},"cat":"launch","name":"launch","ts":{:.3f})", kind,
          tid, i, at));
    };
    arrow("\"s\"", kernel.thread + 1, kernel.launched);
    arrow(R"("f","bp":"e")", row, begin);
  }
  std::int64_t shown = -1;
  for (const auto& [at, bytes] : data_->memory())
    if (std::exchange(shown, bytes) != bytes)
      out.event(
          fmt::format(R"("ph":"C","pid":1,"name":"tensors","ts":{:.3f},"args":{{"bytes":{}}})",
                      data_->microseconds_at(at), bytes));
  if (data_->peak_time) {
    std::string bytes = fmt::format("\"bytes\":{}", data_->peak);
    for (const ProfileMemoryRow& row : memory())
      bytes += fmt::format(",{}:{}", quoted(row.line + ", " + row.op), row.bytes);
    out.event(fmt::format(
        R"("ph":"i","s":"p","pid":1,"tid":1,"name":"peak of memory","ts":{:.3f},"args":{{{}}})",
        data_->microseconds_at(data_->peak_time), bytes));
  }
  out.finish();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "write_chrome_trace");
}
}  // namespace reel
