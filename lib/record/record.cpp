// SPDX-License-Identifier: BSD-3-Clause
#include "lib/record/record.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <reel/error.hpp>

#include "lib/memory/blocks.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
constexpr std::size_t arena_chunk_bytes = 64 << 10;
constexpr std::size_t most_cuts = 256;

// Each reel counts its uids from a different number, so that no two threads share a uid.
constinit std::uint64_t last_reel = 0;
/// The next uids of reels that have ended. New reels continue them, because a program may start any
/// number of threads and there are only 2^22 numbers. Guarded by Lock::contexts.
constinit std::vector<std::uint64_t>* left_uids = nullptr;

void leave_uids(std::uint64_t last) {
  const Locked held(Lock::contexts);
  try {
    if (!left_uids) left_uids = new std::vector<std::uint64_t>;
    left_uids->push_back(last);
  } catch (const std::bad_alloc&) {
    return;  // this number is not used again
  }
}
/// The last uid before those of a new reel.
[[gnu::noinline]] std::uint64_t take_uids(int bits) {
  const Locked held(Lock::contexts);
  if (!left_uids || left_uids->empty()) return ++last_reel << bits;
  const std::uint64_t last = left_uids->back();
  left_uids->pop_back();
  return last;
}

/// The op of a leaf, that is a value that tapes watch. For tapes that made the value, it is the
/// identity.
constinit Op watch_op{.name = "watch", .shape = same_as_input, .passes = 1};

[[noreturn]] void fail_records() {
  fail<MemoryError>({}, "tape", "records", "memory for more of them", "none from the system");
}

/// Reserves memory for the next push_back(), which then cannot fail after an irreversible step.
template <class T>
void reserve_one(std::vector<T>& list) try {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 8);
} catch (const std::bad_alloc&) {
  fail_records();
}
}  // namespace

Arena::~Arena() {
  for (Chunk& chunk : chunks_) std::free(chunk.memory);
}

void* Arena::take_from_new_chunk(std::size_t bytes) {
  while (used_ < chunks_.size() && chunks_[used_].bytes < bytes) ++used_;
  if (used_ == chunks_.size()) {
    const std::size_t size = bytes > arena_chunk_bytes ? bytes : arena_chunk_bytes;
    reserve_one(chunks_);
    auto* memory = static_cast<std::byte*>(std::malloc(size));
    if (!memory) fail_records();
    chunks_.push_back({memory, size});
  }
  Chunk& chunk = chunks_[used_++];
  next_ = chunk.memory + bytes;
  end_ = chunk.memory + chunk.bytes;
  return chunk.memory;
}

void Arena::clear() {
  if (chunks_.empty()) return;
  used_ = 1;
  next_ = chunks_[0].memory;
  end_ = next_ + chunks_[0].bytes;
  free_spare_chunks(Arena::kept_chunks);
}

void Arena::rewind(const void* place) {
  auto* const next = static_cast<std::byte*>(const_cast<void*>(place));
  while (!chunks_[used_ - 1].holds(place)) --used_;
  next_ = next;
  end_ = chunks_[used_ - 1].memory + chunks_[used_ - 1].bytes;
  free_spare_chunks(Arena::kept_chunks);
}

void Arena::free_spare_chunks(std::size_t kept) {
  for (; chunks_.size() > used_ + kept; chunks_.pop_back()) std::free(chunks_.back().memory);
}

Reel::~Reel() {
  for (std::uint32_t i = 0; i < size_; ++i) release_saved((*this)[i]);
  for (Record* chunk : chunks_) std::free(chunk);
  if (last_uid_) leave_uids(last_uid_);
}

void Reel::next_chunk() {
  open &= ~__atomic_load_n(&ended_elsewhere, __ATOMIC_RELAXED);  // their records are not read again
  active &= open;
  if (size_ / chunk_records == chunks_.size()) {
    if (size_ > no_record - chunk_records)
      fail<TapeError>({}, "tape", "records", "at most 2^32", "more");
    reserve_one(chunks_);
    auto* chunk = static_cast<Record*>(std::malloc(chunk_records * sizeof(Record)));
    if (!chunk) fail_records();
    chunks_.push_back(chunk);
  }
  chunk_end_ += chunk_records;
}

void Reel::require_values(int outputs, const Op& op, Caller caller) const {
  const auto more = static_cast<std::uint32_t>(outputs);
  if (more >= most_outputs || values_ > ~more)
    fail<TapeError>(caller, op.name, "outputs", "at most 2^30, and 2^32 on a tape",
                    to_text(outputs) + " more");
}

void Reel::release_saved(Record& record) {
  if (!(record.outputs_and_flags & Record::saves)) return;
  record.outputs_and_flags &= ~Record::saves;
  for (int i = 0; i < record.input_count; ++i)
    if (Body* body = std::exchange(record.inputs[i].saved, nullptr))
      if (!record.inputs[i].borrows) reel::release(body);
  for (int i = 0; i < record.output_count(); ++i)
    if (Body* body = std::exchange(record.outputs[i].saved, nullptr)) reel::release(body);
  if (record.options_type && record.options_type->destroy && record.options) {
    record.options_type->destroy(record.options);
    record.options = nullptr;
  }
}

void Reel::add_cut(const Op& op, Caller caller, std::uint32_t record) {
  if (cuts_.size() == most_cuts) return;
  reserve_one(cuts_);
  cuts_.push_back({&op, caller, record});
}

/// The place of the entry of this body, or the place where it would be inserted.
std::size_t Reel::leaf_place(const Body* body) const {
  const std::size_t last = leaf_table_.size() - 1;
  std::size_t i = (reinterpret_cast<std::uintptr_t>(body) >> 6) * 0x9e3779b97f4a7c15u & last;
  while (leaf_table_[i].generation == leaf_generation_ && leaf_table_[i].body != body)
    i = (i + 1) & last;
  return i;
}

std::uint32_t Reel::find_leaf(const Body* body) const {
  if (leaf_table_.empty()) return no_record;
  const LeafEntry& entry = leaf_table_[leaf_place(body)];
  return entry.generation == leaf_generation_ ? entry.record : no_record;
}

/// Memory for one more leaf.
void Reel::reserve_leaf() try {
  reserve_one(leaves_);
  if (2 * (leaf_count_ + 1) <= leaf_table_.size()) return;
  const std::vector<LeafEntry> before = std::exchange(
      leaf_table_, std::vector<LeafEntry>(leaf_table_.empty() ? 16 : 2 * leaf_table_.size()));
  for (const LeafEntry& entry : before)
    if (entry.generation == leaf_generation_) leaf_table_[leaf_place(entry.body)] = entry;
} catch (const std::bad_alloc&) {
  fail_records();
}

/// This cannot fail: reserve_leaf() has allocated the memory, or the entry existed before.
void Reel::insert_leaf(Body* body, std::uint32_t record) {
  LeafEntry& entry = leaf_table_[leaf_place(body)];
  if (entry.generation == leaf_generation_)
    at(entry.record).options = nullptr;
  else
    ++leaf_count_;
  entry = {body, record, leaf_generation_};
  at(record).options = body;
  __atomic_store_n(&body->leaf, record, __ATOMIC_RELAXED);
}

void Reel::forget_leaves() {
  for (const Leaf& leaf : leaves_)
    if (leaf.record < size_) at(leaf.record).options = nullptr;
  leaf_count_ = 0;
  if (++leaf_generation_ != 0) return;
  std::fill(leaf_table_.begin(), leaf_table_.end(), LeafEntry{});
  leaf_generation_ = 1;
}

bool Reel::is_leaf(std::uint32_t record) { return (*this)[record].op == &watch_op; }

template <class Id>
[[gnu::always_inline]] inline std::uint32_t Reel::add_leaf(Body* body, const Cell* cell,
                                                           const Id& cell_id, std::uint64_t tapes,
                                                           Caller caller) {
  const std::uint32_t before = find(*body);
  if (watches(before, tapes)) return before;
  return append_leaf(body, cell, cell_id, tapes, before, caller);
}
template <class Id>
[[gnu::always_inline]] inline std::uint32_t Reel::append_leaf(Body* body, const Cell* cell,
                                                              const Id& cell_id,
                                                              std::uint64_t tapes,
                                                              std::uint32_t before, Caller caller) {
  // See Note [Record ids]: if new tapes watch a tensor that older tapes know, the leaf gets an edge
  // to the record of the older tapes.
  std::uint64_t known = 0;
  if (before != no_record) known = (*this)[before].tapes | (*this)[before].watchers;
  // Nothing changes before all memory is allocated. The shape is stored after the record, so that
  // both are freed together.
  reserve_leaf();
  reserve_record();
  Record& record = append(watch_op, 1, 1, {}, false);
  auto* shape = new (arena_.take(sizeof(Shape))) Shape(body->shape);
  leaves_.push_back({Access::share(body), cell, size_ - 1, cell_id()});
  record.file = caller.file;
  record.line = caller.line;
  record.tapes = known & ~tapes;
  record.watchers = tapes;
  record.inputs[0] = {.shape = shape, .dtype = body->dtype};
  if (before != no_record) {
    record.inputs[0].record = before;
    record.inputs[0].value = value_of(*body, (*this)[before]);
    record.inputs[0].tracked = true;
  }
  record.outputs[0] = {shape, nullptr, body->dtype};
  insert_leaf(body, size_ - 1);
  if (!cell) tell_watched(*body, size_ - 1);
  return size_ - 1;
}
std::uint32_t Reel::watch(Body* body, const Cell* cell, std::uint64_t tapes, Caller caller) {
  return add_leaf(
      body, cell, [&] { return cell ? cell->id : 0; }, tapes, caller);
}
std::uint32_t Reel::watch_gone(Body* body, const Cell* cell, std::uint32_t cell_id,
                               std::uint64_t tapes, Caller caller) {
  return add_leaf(
      body, cell, [&] { return cell_id; }, tapes, caller);
}

/// Makes the Variables that the tape watches leaves of the step that begins. A value that nobody
/// can read any more is left out.
void Reel::renew_leaves(std::uint64_t bit) {
  for (std::size_t i = 0, count = leaves_.size(); i < count; ++i) {
    const Leaf leaf = leaves_[i];
    const Record& record = at(leaf.record);
    Body* const body = Access::body(leaf.value);
    const bool is_held =
        __atomic_load_n(&body->references, __ATOMIC_RELAXED) > 2;  // beside `leaf` and the list
    if (!leaf.cell || record.options != body || !(record.watchers & bit) || !is_held) continue;
    append_leaf(
        body, leaf.cell, [&] { return leaf.cell_id; }, record.watchers, leaf.record,
        record.caller());
  }
}

void Reel::tell_watched(Body& body, std::uint32_t record) {
  {
    const Locked held(Lock::contexts);
    watched_.push_back({&body, uid_, record});
  }
  if (!__atomic_load_n(&body.id.reel, __ATOMIC_RELAXED))
    __atomic_store_n(&body.id.reel, watched_only, __ATOMIC_RELAXED);
}

/// Other threads no longer see the tensors that no tape watches.
void Reel::forget_watched() {
  if (watched_.empty()) return;
  const auto before = [](const Leaf& leaf, std::uint32_t record) { return leaf.record < record; };
  const Locked held(Lock::contexts);
  std::erase_if(watched_, [&](const Watched& watched) {
    const auto leaf = std::lower_bound(leaves_.begin(), leaves_.end(), watched.record, before);
    return leaf == leaves_.end() || leaf->record != watched.record;
  });
}

bool Reel::is_followed(RecordId id, bool or_before, std::uint64_t tapes) const {
  const std::uint32_t record = find(id);
  const auto followed = [&](std::uint32_t i) { return (at(i).tapes | at(i).watchers) & tapes; };
  if (!or_before) return record != no_record && followed(record);
  if (!uid_ || number_of(id.reel) != number_of(uid_)) return false;
  std::uint32_t end = record != no_record ? record + 1 : end_of(id.reel);
  while (end > 0 && !followed(end - 1)) --end;
  return end > 0;
}

/// How many records have that uid or an older one.
std::uint32_t Reel::end_of(std::uint64_t uid) const {
  if (uid >= uid_) return size_;
  const auto next = std::upper_bound(older_.begin(), older_.end(), uid,
                                     [](auto u, const Older& older) { return u < older.uid; });
  return next == older_.begin() ? 0 : next[-1].end;
}

std::uint64_t Reel::open_tape(bool watch_variables) {
  if (alive == ~std::uint64_t{0}) return 0;
  if (!alive) {
    if (!last_uid_) [[unlikely]]
      last_uid_ = take_uids(uid_bits);
    uid_ = ++last_uid_;
    __atomic_store_n(&oldest_uid_, uid_, __ATOMIC_RELAXED);
  }
  const std::uint64_t bit = ~alive & (alive + 1);
  starts_[std::countr_zero(bit)] = size_;
  alive |= bit;
  open |= bit;
  muted &= ~bit;
  paused &= ~bit;
  if (watch_variables) watching_variables |= bit;
  return bit;
}

/// Releases what only this tape needed.
void Reel::release(std::uint64_t bit) {
  for (std::uint32_t i = start_of(bit); i < size_; ++i) release(at(i), bit);
}

void Reel::close_tape(std::uint64_t bit) {
  release(bit);
  alive &= ~bit;
  open &= ~bit;
  watching_variables &= ~bit;
  forget_leaves();
  if (!alive) return clear();
  std::erase_if(steps_, [=](const StepBegin& step) { return step.tape == bit; });
  if (!playing) truncate();
  drop_unneeded();
}

/// Drops the leaves that no tape needs, and the records before the first one of every tape.
void Reel::drop_unneeded() {
  std::erase_if(leaves_, [&](const Leaf& leaf) {
    return leaf.record >= size_ || !(at(leaf.record).tapes | at(leaf.record).watchers);
  });
  forget_watched();
  if (!playing) drop_front();
  for (const Leaf& leaf : leaves_) insert_leaf(Access::body(leaf.value), leaf.record);
}

/// Drops the records after the last one that a tape needs, so that their numbers can be used again.
/// Tapes that began after it begin there now. A leaf that no tape watches is the identity, so no
/// tape needs it unless records follow.
void Reel::truncate() {
  std::uint32_t size = size_;
  const auto needed = [](const Record& record) {
    return record.watchers || (record.tapes && record.op != &watch_op);
  };
  while (size > 0 && !needed(at(size - 1))) --size;
  if (size == size_) return;
  try {
    older_.push_back({uid_, size_});
  } catch (const std::bad_alloc&) {
    return;  // the numbers stay
  }
  const auto first = [&] { return older_.size() > 1 ? older_.end()[-2].end : 0; };
  while (!older_.empty() && first() >= size) older_.pop_back();
  if (!older_.empty()) older_.back().end = size;
  uid_ = ++last_uid_;
  for (std::uint64_t bits = alive; bits; bits &= bits - 1) {
    std::uint32_t& start = starts_[std::countr_zero(bits)];
    start = std::min(start, size);
  }
  for (StepBegin& step : steps_) step.record = std::min(step.record, size);
  std::erase_if(cuts_, [size](const Cut& cut) { return cut.record >= size; });
  values_ = at(size).first_value;
  arena_.rewind(at(size).inputs);
  set_size(size);
}

void Reel::set_size(std::uint32_t size) {
  __atomic_store_n(&size_, size, __ATOMIC_RELAXED);
  // The first chunk is kept, so that the next tape does not allocate it again.
  const std::uint32_t chunks = (size + chunk_records - 1) / chunk_records;
  chunk_end_ = (chunks || chunks_.empty() ? chunks : 1) * chunk_records;
  free_spare_chunks(Arena::kept_chunks);
}

std::uint32_t Reel::find_older(std::uint64_t uid, std::uint32_t number) const {
  const auto place = std::lower_bound(older_.begin(), older_.end(), uid,
                                      [](const Older& older, auto u) { return older.uid < u; });
  if (place == older_.end() || place->uid != uid) return no_record;
  const std::uint32_t record = number - place->moved;
  return record < place->end ? record : no_record;
}

void Reel::clear() {
  leaves_.clear();
  forget_watched();
  cuts_.clear();
  older_.clear();
  steps_.clear();
  shapes_.clear();
  arena_.clear();
  values_ = 0;
  set_size(0);
  uid_ = 0;
  __atomic_store_n(&oldest_uid_, 0u, __ATOMIC_RELAXED);
}

void Reel::free_spare_chunks(std::size_t kept) {
  const std::size_t used = chunk_end_ / chunk_records;
  for (; chunks_.size() > used + kept; chunks_.pop_back()) std::free(chunks_.back());
}

void Reel::trim() {
  if (!size_) chunk_end_ = 0;
  free_spare_chunks(0);
  arena_.free_spare_chunks(0);
}
}  // namespace reel
