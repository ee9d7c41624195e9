// SPDX-License-Identifier: BSD-3-Clause
// An observer that writes a log, and a way to run a program with and without it.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
using Events = std::vector<std::string>;

/// One line for each event: "begin add", "end add (3,)", "begin tanh'0", "record tanh",
/// "read w", ...
struct EventLog : Observer {
  Events events;
  bool outputs_at_begin = false;
  static std::string name_of(const GateCall& call) {
    static const char* const parts[] = {"", "'0", "'1", "'"};
    return std::string(call.op.name) + parts[static_cast<int>(call.part)];
  }
  void begin(const GateCall& call) {
    outputs_at_begin |= call.output_count != 0;  // no CHECK, as it changes state of the program
    events.push_back("begin " + name_of(call));
  }
  void end(const GateCall& call) {
    std::string line = "end " + name_of(call);
    for (int i = 0; i < call.output_count; ++i)
      line += call.outputs[i] ? " " + to_text(call.outputs[i]->shape) : " -";
    events.push_back(std::move(line));
  }
  void op_begins(const GateCall& call) override { begin(call); }
  void op_ends(const GateCall& call) override { end(call); }
  void gradient_begins(const GateCall& call) override { begin(call); }
  void gradient_ends(const GateCall& call) override { end(call); }
  void recorded(const Record& record) override {
    events.push_back("record " + std::string(record.op->name));
  }
  void backward_begins(const Body&) override { events.push_back("backward begins"); }
  void backward_ends(bool finished) override {
    events.push_back(finished ? "backward ends" : "backward fails");
  }
  void gradient_complete(const GradientSource&, std::size_t i, const Tensor&) override {
    events.push_back("complete " + std::to_string(i));
  }
  void variable_made(const Variable& x) override { events.push_back("made " + x.name()); }
  void variable_read(const Variable& x) override { events.push_back("read " + x.name()); }
  void variable_written(const Variable& x) override { events.push_back("write " + x.name()); }
  void host_read(const Body&, HostRead) override { events.push_back("host read"); }
  void error(const ErrorEvent& event) override {
    events.push_back("error " + std::string(event.op));
  }
};

/// The events during f.
template <class F>
Events events_of(const F& f) {
  EventLog log;
  const ObserverScope scope(log);
  f();
  CHECK(!log.outputs_at_begin);
  return std::move(log.events);
}

/// The results of a program: the addresses of its tensors, their bits, and further notes.
struct Trail {
  std::vector<const void*> places;
  std::vector<std::string> bits;
  Events notes;
  std::int64_t live = 0;  // the number of live tensors

  void add(const Tensor& x) {
    places.push_back(Access::body(x)->data);
    const Tensor ordered = contiguous_copy(*Access::body(on_host(x)));
    const Body& body = *Access::body(ordered);
    bits.emplace_back(reinterpret_cast<const char*>(body.data),
                      static_cast<std::size_t>(body.bytes()));
  }
  /// The records of this thread's tapes.
  void add_records() {
    Reel& reel = *Context::here().reel;
    for (std::uint32_t i = 0; i < reel.size(); ++i) {
      const Record& record = reel[i];
      std::string note = std::string(record.op->name) + " " + std::to_string(record.line) + " " +
                         std::to_string(record.outputs_and_flags);
      for (int k = 0; k < record.input_count; ++k)
        note += record.inputs[k].saved ? record.inputs[k].borrows ? " borrowed" : " saved" : " -";
      notes.push_back(std::move(note));
    }
  }
  friend bool operator==(const Trail&, const Trail&) = default;
};

/// From now on, the blocks of this thread are reused in the order of their addresses.
inline void sort_blocks() {
  for (FreeList& list : Context::here().blocks) {
    std::vector<FreeBlock*> all;
    for (FreeBlock* block = list.first; block; block = block->next) all.push_back(block);
    std::sort(all.begin(), all.end());
    list.first = nullptr;
    for (auto block = all.rbegin(); block != all.rend(); ++block) {
      (*block)->next = list.first;
      list.first = *block;
    }
  }
}

/// Runs the program without and with an observer. Both runs must use the same blocks and give the
/// same bits. Returns the events.
inline Events observe_alike(const std::function<void(Trail&)>& program) {
  const auto run = [&] {
    sort_blocks();
    Trail trail;
    program(trail);
    trail.live = memory_statistics().live_tensors;
    return trail;
  };
  run();
  run();  // later runs allocate no new blocks
  const Trail expected = run();
  EventLog log;
  Trail found;
  {
    const ObserverScope scope(log);
    found = run();
  }
  CHECK(found.notes == expected.notes);
  CHECK(found.live == expected.live);
  CHECK((found.bits == expected.bits));
  if (!sanitized) CHECK((found.places == expected.places));  // a sanitizer keeps freed blocks
  return std::move(log.events);
}
inline std::ptrdiff_t count(const Events& events, const std::string& line) {
  return std::count(events.begin(), events.end(), line);
}
}  // namespace reel::tests
