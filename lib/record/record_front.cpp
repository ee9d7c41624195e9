// SPDX-License-Identifier: BSD-3-Clause
// Records before the first one of every tape: their memory is used again.
#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "lib/pool/process.hpp"
#include "lib/record/record.hpp"

namespace reel {
std::vector<Arena::Chunk> Arena::chunks_from(const void* place) const {
  const auto end = chunks_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto first =
      std::find_if(chunks_.begin(), end, [&](auto& each) { return each.holds(place); });
  std::vector<Chunk> list(first, end);
  std::sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.memory < b.memory; });
  return list;
}

void Arena::drop_before(const void* place) {
  std::size_t count = 0;
  while (!chunks_[count].holds(place)) ++count;
  std::rotate(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(count), chunks_.end());
  used_ -= count;
  free_spare_chunks(kept_chunks);
}

/// Frees the chunks before the first record of every tape, once they are as many as the others.
/// Then moving the other records costs little for each record.
void Reel::drop_front() {
  std::uint32_t first = size_;
  for (std::uint64_t bits = alive; bits; bits &= bits - 1)
    first = std::min(first, starts_[std::countr_zero(bits)]);
  const std::uint32_t records = first / chunk_records * chunk_records;
  if (records == 0 || records == size_ || records < size_ - records) return;
  try {
    if (!keep_shapes(records)) return;
    older_.push_back({uid_, size_});
  } catch (const std::bad_alloc&) {
    return;  // the records stay
  }
  arena_.drop_before(at(records).inputs);
  move_to_front(records);
  __atomic_store_n(&oldest_uid_, older_.front().uid, __ATOMIC_RELAXED);
}

/// Copies shapes of the records from `first` on that are stored in the memory of earlier records.
/// False if that memory cannot be freed.
bool Reel::keep_shapes(std::uint32_t first) {
  const std::vector<Arena::Chunk> kept = arena_.chunks_from(at(first).inputs);
  if (kept.empty()) return false;
  const auto stays = [&](const Shape* shape) {
    if (!shape) return true;  // of a record for which there was no memory
    const auto after = std::upper_bound(
        kept.begin(), kept.end(), shape,
        [](auto* place, auto& each) { return static_cast<const void*>(place) < each.memory; });
    return after != kept.begin() && after[-1].holds(shape);
  };
  std::vector<const Shape**> moving;
  for (std::uint32_t i = first; i < size_; ++i) {
    const Record& record = at(i);
    for (int k = 0; k < record.input_count; ++k)
      if (!stays(record.inputs[k].shape)) moving.push_back(&record.inputs[k].shape);
    for (int k = 0; k < record.output_count(); ++k)
      if (!stays(record.outputs[k].shape)) moving.push_back(&record.outputs[k].shape);
  }
  std::vector<Shape> copies;
  copies.reserve(moving.size());
  const Shape* copied = nullptr;
  for (const Shape** shape : moving) {
    if (*shape != copied) copies.push_back(*(copied = *shape));
    *shape = &copies.back();
  }
  shapes_ = std::move(copies);
  return true;
}

/// No tape needs the records before them.
void Reel::move_to_front(std::uint32_t records) {
  const std::uint32_t values = at(records).first_value;
  for (std::uint32_t i = records; i < size_; ++i) {
    Record& record = at(i);
    record.first_value -= values;
    for (int k = 0; k < record.input_count; ++k) {
      InputSlot& input = record.inputs[k];
      if (input.record == no_record) continue;
      input.tracked = input.tracked && input.record >= records;
      input.record = input.tracked ? input.record - records : no_record;
      input.value -= values;
    }
  }
  uid_ = ++last_uid_;
  values_ -= values;
  for (std::uint32_t& start : starts_) start -= records;  // those of tapes that live count
  for (StepBegin& step : steps_) step.record -= records;
  for (Leaf& leaf : leaves_) leaf.record -= records;
  std::erase_if(cuts_, [=](const Cut& cut) { return cut.record < records; });
  for (Cut& cut : cuts_) cut.record -= records;
  for (Older& older : older_) {
    older.end -= std::min(older.end, records);
    older.moved += records;
  }
  std::erase_if(older_, [](const Older& older) { return older.end == 0; });
  {
    const Locked held(Lock::contexts);
    for (Watched& watched : watched_) watched = {watched.body, uid_, watched.record - records};
  }
  std::rotate(chunks_.begin(), chunks_.begin() + records / chunk_records, chunks_.end());
  set_size(size_ - records);
}

bool Reel::has_steps(std::uint64_t bit) const {
  return std::any_of(steps_.begin(), steps_.end(), [=](auto& step) { return step.tape == bit; });
}
void Reel::begin_step(std::uint64_t bit, std::size_t steps) {
  std::vector<std::uint32_t> kept;  // tensors that the tape watches, which have one leaf
  kept.reserve(leaves_.size());
  steps_.reserve(steps_.size() + 1);
  const std::uint32_t begin = size_;
  renew_leaves(bit);
  steps_.push_back({bit, begin});
  std::size_t first = steps_.size(), begun = 0;
  while (first > 0 && begun < steps) begun += steps_[--first].tape == bit;
  if (begun < steps) return;
  const auto own = [=](const StepBegin& step) { return step.tape == bit; };
  const StepBegin oldest = *std::find_if(steps_.begin(), steps_.end(), own);
  StepBegin& cut = steps_[first];
  if (cut.is_cut) return;
  cut.is_cut = true;
  for (const Leaf& leaf : leaves_)
    if (!leaf.cell && leaf.record < cut.record && at(leaf.record).watchers & bit)
      kept.push_back(leaf.record);
  // Tapes that end with the options of a record move no records.
  const std::uint64_t playing_before = std::exchange(playing, playing | bit);
  for (std::uint32_t i = oldest.is_cut ? oldest.record : start_of(bit); i < cut.record; ++i)
    release(at(i), bit);
  playing = playing_before;
  for (const std::uint32_t leaf : kept) at(leaf).watchers |= bit;
  starts_[std::countr_zero(bit)] = kept.empty() ? cut.record : kept.front();
  const auto old = steps_.begin() + static_cast<std::ptrdiff_t>(first);
  steps_.erase(std::remove_if(steps_.begin(), old, own), old);
  forget_leaves();
  drop_unneeded();
}
}  // namespace reel
