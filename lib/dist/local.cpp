// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/local.hpp"

#include <sched.h>

#include <cstdio>
#include <cstring>
#include <list>
#include <vector>

namespace reel::dist {
namespace {
/// Held for the time of one collective at most. Not a mutex: a child of fork() has none of the
/// ranks, and must not find one locked.
class Spin {
 public:
  explicit Spin(char& flag) : flag_(flag) {
    while (__atomic_test_and_set(&flag_, __ATOMIC_ACQUIRE)) ::sched_yield();
  }
  ~Spin() { __atomic_clear(&flag_, __ATOMIC_RELEASE); }
  Spin(const Spin&) = delete;
  Spin& operator=(const Spin&) = delete;

 private:
  char& flag_;
};

/// A collective that not all ranks have seen the end of.
struct Call {
  std::vector<Message> messages;  // of each rank
  int missing, unseen;
  bool done = false;
  const char* problem = nullptr;
};
/// One channel, of all ranks.
struct Meeting {
  char busy = 0;
  std::vector<Call*> calls;         // the oldest first
  std::int64_t first = 0;           // the number of calls[0]
  std::vector<std::int64_t> begun;  // so many calls, of each rank
};

template <class T>
void combine(Combine how, std::vector<const void*>& parts, void* to, std::int64_t first,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = [&](std::size_t k) { return static_cast<const T*>(parts[k])[first + i]; };
    T all = at(0);
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const T x = at(k);
      switch (how) {
        case Combine::sum:
          all = static_cast<T>(all + x);
          break;
        case Combine::max:
          all = x > all || x != x ? x : all;
          break;
        case Combine::min:
          all = x < all || x != x ? x : all;
          break;
      }
    }
    static_cast<T*>(to)[i] = all;
  }
}
void combine_halves(std::vector<const void*>& parts, void* to, std::int64_t first,
                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = [&](std::size_t k) {
      return widened(static_cast<const std::uint16_t*>(parts[k])[first + i]);
    };
    std::uint16_t all = narrowed(at(0));
    for (std::size_t k = 1; k < parts.size(); ++k) all = narrowed(widened(all) + at(k));
    static_cast<std::uint16_t*>(to)[i] = all;
  }
}
void combine(const Message& m, std::vector<const void*>& parts, void* to, std::int64_t first) {
  switch (m.wire) {
    case Wire::int32:
      return combine<std::int32_t>(m.combine, parts, to, first, m.count);
    case Wire::int64:
      return combine<std::int64_t>(m.combine, parts, to, first, m.count);
    case Wire::float32:
      return combine<float>(m.combine, parts, to, first, m.count);
    case Wire::float64:
      return combine<double>(m.combine, parts, to, first, m.count);
    case Wire::bfloat16:
      return combine_halves(parts, to, first, m.count);
    case Wire::bytes:
      return combine<std::uint8_t>(m.combine, parts, to, first, m.count);
  }
}

/// What differs between the calls of two ranks; null if nothing does.
const char* difference(const Message& a, const Message& b) {
  if (a.kind != b.kind) return "ranks call different collectives at once";
  if (a.wire != b.wire) return "ranks send different dtypes";
  if (a.count != b.count) return "ranks send different numbers of elements";
  if (a.combine != b.combine) return "ranks combine in different ways";
  return a.root != b.root ? "ranks name different roots" : nullptr;
}

/// All ranks are here: each gets its result.
void complete(Call& call) {
  std::vector<Message>& all = call.messages;
  for (const Message& m : all)
    if (const char* const why = difference(all[0], m)) {
      call.problem = why;
      return;
    }
  const std::size_t bytes = static_cast<std::size_t>(all[0].count) * bytes_of(all[0].wire);
  std::vector<const void*> parts;
  for (const Message& m : all) parts.push_back(m.in);
  switch (all[0].kind) {
    case Kind::barrier:
      return;
    case Kind::broadcast: {
      const void* const from = all[static_cast<std::size_t>(all[0].root)].out;
      for (const Message& m : all)
        if (bytes && m.out != from) std::memcpy(m.out, from, bytes);
      return;
    }
    case Kind::all_gather:
      for (const Message& m : all)
        for (std::size_t k = 0; bytes && k < parts.size(); ++k)
          std::memcpy(static_cast<char*>(m.out) + k * bytes, parts[k], bytes);
      return;
    case Kind::all_reduce: {
      if (!bytes) return;
      // The inputs may be the outputs.
      std::vector<char> sum(bytes);
      combine(all[0], parts, sum.data(), 0);
      for (const Message& m : all) std::memcpy(m.out, sum.data(), bytes);
      return;
    }
    case Kind::reduce_scatter:
      for (std::size_t k = 0; k < all.size(); ++k)
        combine(all[0], parts, all[k].out, static_cast<std::int64_t>(k) * all[0].count);
      return;
  }
}
}  // namespace

struct LocalGroup::Table {
  struct Member {
    Table* board;
    std::size_t rank;
  };
  int ranks;
  std::vector<Member> members = {};
  char busy = 0;
  std::vector<Meeting*> meetings = {};
  std::vector<std::size_t> opened = {};  // so many channels, of each rank
  char why[200] = {};
  bool failed = false;
  struct Part {
    std::int64_t number, color;
    LocalGroup* group;
  };
  std::vector<Part> parts = {};
};
struct Request {
  std::int64_t number;
};
struct Channel {
  LocalGroup::Table& board;
  Meeting& meeting;
  std::size_t rank;
  std::list<Request> requests = {};  // that have not ended
};

namespace {
const char* failure(LocalGroup::Table& board) {
  return __atomic_load_n(&board.failed, __ATOMIC_ACQUIRE) ? board.why : nullptr;
}
/// From now on no call begins. Afterwards no other rank writes to the buffers of this one.
void give_up(LocalGroup::Table& board, std::string_view why) {
  const Spin held(board.busy);
  if (!board.failed) {
    board.why[why.copy(board.why, sizeof board.why - 1)] = 0;
    __atomic_store_n(&board.failed, true, __ATOMIC_RELEASE);
  }
  for (Meeting* const meeting : board.meetings) const Spin until_it_ends(meeting->busy);
}
const char* open(void* self, const char*, Channel** channel) {
  const auto& member = *static_cast<LocalGroup::Table::Member*>(self);
  LocalGroup::Table& board = *member.board;
  const Spin held(board.busy);
  const std::size_t number = board.opened[member.rank]++;
  if (board.meetings.size() <= number) {
    board.meetings.push_back(new Meeting);
    board.meetings.back()->begun.resize(static_cast<std::size_t>(board.ranks));
  }
  *channel = new Channel{board, *board.meetings[number], member.rank};
  return nullptr;
}
void close(Channel* channel) { delete channel; }

const char* start(Channel* channel, const Message& message, Request** request) {
  Meeting& meeting = channel->meeting;
  const Spin held(meeting.busy);
  if (const char* const why = failure(channel->board)) return why;
  const std::int64_t number = meeting.begun[channel->rank]++;
  const auto at = static_cast<std::size_t>(number - meeting.first);
  const int ranks = channel->board.ranks;
  while (meeting.calls.size() <= at) {
    Call* const made = new Call{{}, ranks, ranks};
    made->messages.resize(static_cast<std::size_t>(ranks));
    meeting.calls.push_back(made);
  }
  Call& call = *meeting.calls[at];
  call.messages[channel->rank] = message;
  if (--call.missing == 0) {
    complete(call);
    __atomic_store_n(&call.done, true, __ATOMIC_RELEASE);
  }
  *request = &channel->requests.emplace_back(Request{number});
  return nullptr;
}
const char* test(Channel* channel, Request* request, bool* done) {
  Meeting& meeting = channel->meeting;
  const Spin held(meeting.busy);
  Call& call = *meeting.calls[static_cast<std::size_t>(request->number - meeting.first)];
  *done = call.done;
  if (!call.done) return failure(channel->board);
  const char* const why = call.problem;
  channel->requests.remove_if([=](const Request& ended) { return &ended == request; });
  --call.unseen;
  while (!meeting.calls.empty() && meeting.calls.front()->unseen == 0) {
    delete meeting.calls.front();
    meeting.calls.erase(meeting.calls.begin());
    ++meeting.first;
  }
  return why;
}
}  // namespace

LocalGroup::LocalGroup(int ranks)
    : board_(new Table{ranks}), posts_(std::make_shared<Board>(ranks)) {
  board_->opened.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    board_->members.push_back({board_, static_cast<std::size_t>(rank)});
}
LocalGroup::~LocalGroup() {
  for (const Table::Part& part : board_->parts) delete part.group;
  for (Meeting* const meeting : board_->meetings) {
    for (Call* const call : meeting->calls) delete call;
    delete meeting;
  }
  delete board_;
}
EngineTable LocalGroup::engine(int rank) {
  EngineTable table;
  std::snprintf(table.name, sizeof table.name, "local");
  table.rank = rank;
  table.ranks = board_->ranks;
  table.self = &board_->members[static_cast<std::size_t>(rank)];
  table.open = open;
  table.close = close;
  table.start = start;
  table.test = test;
  table.abort = [](void* self) {
    give_up(*static_cast<Table::Member*>(self)->board, "another rank has given up");
  };
  return table;
}
LocalGroup& LocalGroup::part(std::int64_t number, std::int64_t color, int ranks) {
  const Spin held(board_->busy);
  for (const Table::Part& part : board_->parts)
    if (part.number == number && part.color == color) return *part.group;
  board_->parts.push_back({number, color, new LocalGroup(ranks)});
  return *board_->parts.back().group;
}
void LocalGroup::fail(std::string_view why) {
  give_up(*board_, why);
  std::vector<Table::Part> parts;
  {
    const Spin held(board_->busy);
    parts = board_->parts;
  }
  for (const Table::Part& part : parts) part.group->fail(why);
}
}  // namespace reel::dist
