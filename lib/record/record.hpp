// SPDX-License-Identifier: BSD-3-Clause
// The reel: the records that the ops of a thread make. A tape goes through them backward.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/body/access.hpp"
#include "lib/table/op.hpp"

namespace reel {
// Note [Record ids]
// A tensor carries {reel, record, output} of the record that made it, written once when it is made.
// A reel's uid is unique in the process. It changes whenever the last tape of the thread ends, and
// whenever numbers are taken back because no tape needs the records from there on, so an old id
// never names a new record. Records before those numbers keep the uid that they were made with.
// Records before the first one of every tape go in whole chunks, and the rest moves to the front.
// Ids of older uids are moved when they are looked up.
// The tapes of a record started before it, so closing them all lets go of all it holds.
// Each record has two sets of tapes, a bit for each: `tapes` play it backward, `watchers` take its
// output as a leaf and stop there. Records of a tape have numbers from the tape's start on.

// A body's id may be a mark instead, see Note [Marks] in marks.hpp.
/// A value in place of a reel's uid: no record made the tensor, but tapes of some thread watch it.
inline constexpr std::uint64_t watched_only = 1;

/// Atomic, because another thread may watch the tensor and write the id at the same time.
inline RecordId id_of(const Body& x) {
  return {__atomic_load_n(&x.id.reel, __ATOMIC_RELAXED), x.id.record, x.id.output};
}

/// A bit of the uid that says that the id is a mark.
inline constexpr std::uint64_t mark_bit = std::uint64_t{1} << 63;
/// A mark of several records of one reel: the named one and others before it.
inline constexpr std::uint64_t and_before = std::uint64_t{1} << 62;

inline bool is_mark(const Body& x) { return id_of(x).reel & mark_bit; }

struct InputSlot {
  std::uint32_t record = no_record;  // the record that made it, if tracked
  std::uint32_t value = 0;           // its number on the reel
  const Shape* shape = nullptr;      // in the arena, or the output's; null if not listed
  Body* saved = nullptr;             // if the gradient needs it: a reference unless borrowed
  DType dtype = DType::float32;
  bool tracked = false;
  bool followed = false;  // by all of the record's tapes
  bool borrows = false;   // the saved value is a leaf's, which outlives the record's tapes

  /// False for a value that the function of the op has read although it is no input of the op. Its
  /// part of a gradient is lost.
  bool is_listed() const { return shape; }
};
struct OutputSlot {
  const Shape* shape = nullptr;
  Body* saved = nullptr;
  DType dtype = DType::float32;
};

constexpr std::uint32_t most_outputs = 1u << 30;

struct Record {
  const Op* op;
  const char* file;
  unsigned line;
  // The outputs are values first_value, first_value + 1, ... of the reel.
  std::uint32_t first_value;
  int input_count;
  std::uint32_t outputs_and_flags;  // no bit fields: a byte of them written delays the next read
  std::uint64_t tapes;
  std::uint64_t watchers;
  InputSlot* inputs;
  OutputSlot* outputs;
  void* options;  // of a leaf: its body
  const OptionsType* options_type;

  static constexpr std::uint32_t saves = most_outputs;      // references or options to let go of
  static constexpr std::uint32_t alike = 2 * most_outputs;  // one output, at most two inputs, all
                                                            // of one shape and dtype
  int output_count() const { return static_cast<int>(outputs_and_flags & (most_outputs - 1)); }
  /// The number of the inputs that the op lists, which come first.
  int listed_count() const {
    int count = input_count;
    while (count > 0 && !inputs[count - 1].is_listed()) --count;
    return count;
  }
  Caller caller() const { return {file, line}; }
};
static_assert(sizeof(Record) == 80);

/// A value that tapes watch: a Variable's or a tensor's.
struct Leaf {
  Tensor value;      // keeps the body, and so the key, alive
  const Cell* cell;  // null for a tensor; the Variable may be gone
  std::uint32_t record;
  std::uint32_t cell_id;

  /// Whether it is a value of this Variable.
  bool is_of(const Cell& variable) const { return cell == &variable && cell_id == variable.id; }
};

/// The place where a tracked value was an input of an op without a gradient. Errors name it.
struct Cut {
  const Op* op;
  Caller caller;
  std::uint32_t record;
};

/// Memory that only grows, and is kept for the next reel.
class Arena {
 public:
  static constexpr std::size_t kept_chunks = 64;  // stay for the next records
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  void* take(std::size_t bytes) {
    bytes = (bytes + 7) & ~std::size_t{7};
    if (next_ + bytes > end_) return take_from_new_chunk(bytes);
    std::byte* taken = next_;
    next_ += bytes;
    return taken;
  }
  /// After this, take() of so many bytes does not fail.
  void reserve(std::size_t bytes) {
    if (next_ + bytes > end_) next_ = static_cast<std::byte*>(take_from_new_chunk(bytes));
  }
  void clear();
  /// Frees the memory at `place` and all that was taken after it.
  void rewind(const void* place);
  /// The chunks from the one that contains `place` on, in order; none if no chunk contains it.
  struct Chunk {
    std::byte* memory;
    std::size_t bytes;
    bool holds(const void* place) const { return place >= memory && place < memory + bytes; }
  };
  std::vector<Chunk> chunks_from(const void* place) const;
  /// Frees the chunks before the one that contains `place`. Some chunk must contain it.
  void drop_before(const void* place);
  void free_spare_chunks(std::size_t kept);

 private:
  void* take_from_new_chunk(std::size_t bytes);
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::vector<Chunk> chunks_;
  std::size_t used_ = 0;
};

class Reel {
 public:
  static constexpr std::uint32_t chunk_records = 256;
  Reel() = default;
  Reel(const Reel&) = delete;
  Reel& operator=(const Reel&) = delete;
  ~Reel();

  std::uint64_t uid() const { return uid_; }
  /// The bits that all uids of one reel share, and no uid of another reel has.
  static std::uint64_t number_of(std::uint64_t uid) { return uid >> uid_bits; }
  /// Read by other threads: the oldest uid that may name a record, with the number of the reel. 0
  /// while no tape exists.
  std::uint64_t oldest_uid() const { return __atomic_load_n(&oldest_uid_, __ATOMIC_RELAXED); }
  std::uint64_t live_number() const { return number_of(oldest_uid()); }
  bool made(RecordId id) const { return find(id) != no_record; }
  /// Whether any of `tapes` follows that record, or also one before it.
  bool is_followed(RecordId id, bool or_before, std::uint64_t tapes) const;
  struct Watched {
    const Body* body;
    std::uint64_t reel;
    std::uint32_t record;
  };
  /// The leaves that are no Variables; behind the lock of the contexts.
  const std::vector<Watched>& watched_tensors() const { return watched_; }
  std::int64_t live_records() const { return __atomic_load_n(&size_, __ATOMIC_RELAXED); }
  std::uint32_t size() const { return size_; }
  Record& operator[](std::uint32_t i) { return at(i); }

  /// A new record with its slots; the caller fills them.
  Record& append(const Op& op, int inputs, int outputs, OptionsView options, bool saves,
                 bool alike = false) {
    if (size_ == chunk_end_) [[unlikely]]
      next_chunk();
    const auto input_bytes = static_cast<std::size_t>(inputs) * sizeof(InputSlot);
    const auto output_bytes = static_cast<std::size_t>(outputs) * sizeof(OutputSlot);
    const std::size_t option_bytes = options.type ? options.type->size : 0;
    auto* slots = static_cast<std::byte*>(arena_.take(input_bytes + output_bytes + option_bytes));
    Record& record = (*this)[size_];
    record.op = &op;
    record.input_count = inputs;
    record.outputs_and_flags =
        static_cast<std::uint32_t>(outputs) | (alike ? Record::alike : 0) |
        (saves || (options.type && options.type->destroy) ? Record::saves : 0);
    record.first_value = values_;
    values_ += static_cast<std::uint32_t>(outputs);
    record.watchers = 0;
    record.inputs = reinterpret_cast<InputSlot*>(slots);
    record.outputs = reinterpret_cast<OutputSlot*>(slots + input_bytes);
    record.options = nullptr;
    record.options_type = options.type;
    if (option_bytes) {
      record.options = slots + input_bytes + output_bytes;
      options.type->copy(record.options, options.data);
    }
    __atomic_store_n(&size_, size_ + 1, __ATOMIC_RELAXED);
    return record;
  }
  /// Throws TapeError if there are not enough numbers for the outputs of one more record.
  void require_values(int outputs, const Op& op, Caller caller) const;
  /// After this, append() of two inputs and an output, with their shapes, does not fail.
  void reserve_record() {
    if (size_ == chunk_end_) next_chunk();
    arena_.reserve(2 * sizeof(InputSlot) + sizeof(OutputSlot) + 3 * sizeof(Shape));
  }
  Arena& arena() { return arena_; }

  /// Sets of tapes, a bit for each: those in use, and those that watch Variables.
  std::uint64_t alive = 0, watching_variables = 0;
  /// The tapes that are neither paused nor spent; those that must not record during the current
  /// call; and those that record now, which are open and not muted.
  std::uint64_t open = 0, muted = 0, active = 0;
  /// The tapes that were paused at any time.
  std::uint64_t paused = 0;
  /// The tapes inside gradient(), and the tapes that were destroyed inside their gradient().
  std::uint64_t playing = 0, ended = 0;
  /// The tapes that other threads have destroyed. Atomic; this thread closes them.
  std::uint64_t ended_elsewhere = 0;

  /// The record of a leaf for this body that all of `tapes` watch; made if there is none.
  std::uint32_t watch(Body* body, const Cell* cell, std::uint64_t tapes, Caller caller);
  /// For a Variable that may be gone.
  [[gnu::cold]] std::uint32_t watch_gone(Body* body, const Cell* cell, std::uint32_t cell_id,
                                         std::uint64_t tapes, Caller caller);
  /// The record of this body as a leaf, if it is one.
  std::uint32_t leaf_of(const Body& body) const {
    // All threads that watch the same weight write their numbers there.
    const std::uint32_t leaf = __atomic_load_n(&body.leaf, __ATOMIC_RELAXED);
    if (leaf == no_record || (leaf < size_ && at(leaf).options == &body)) return leaf;
    return find_leaf(&body);
  }
  std::uint32_t find(RecordId id) const {
    if (id.reel == uid_ && uid_) return id.record;
    return older_.empty() ? no_record : find_older(id.reel, id.record);
  }
  /// The record that tapes know this body by: its leaf's, else the one that made it.
  std::uint32_t find(const Body& body) const {
    const std::uint32_t leaf = leaf_of(body);
    if (leaf != no_record) return leaf;
    return find(id_of(body));
  }
  [[gnu::always_inline]] bool watches(std::uint32_t record, std::uint64_t tapes) const {
    return record != no_record && !(tapes & ~at(record).watchers);
  }
  bool is_leaf(std::uint32_t record);
  /// The number of the body as an output of that record.
  static std::uint32_t value_of(const Body& body, const Record& record) {
    return record.first_value + (record.output_count() == 1 ? 0 : body.id.output);
  }
  void add_cut(const Op& op, Caller caller, std::uint32_t record);
  const std::vector<Cut>& cuts() const { return cuts_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }

  /// A bit for a new tape; 0 if all 64 are taken.
  std::uint64_t open_tape(bool watch_variables);
  /// Where the records of a tape begin.
  std::uint32_t start_of(std::uint64_t bit) const { return starts_[std::countr_zero(bit)]; }
  /// The tape has ended: releases what only this tape needed.
  void close_tape(std::uint64_t bit);
  /// A time step of the tape begins. Afterwards the tape has the records of this step and of the
  /// `steps` - 1 before it.
  void begin_step(std::uint64_t bit, std::size_t steps);
  /// Whether a time step of the tape has begun.
  bool has_steps(std::uint64_t bit) const;
  /// Returns memory that no record needs to the system.
  void trim();
  static void release_saved(Record& record);

 private:
  Record& at(std::uint32_t i) const { return chunks_[i / chunk_records][i % chunk_records]; }
  void next_chunk();
  void clear();
  void release(std::uint64_t bit);
  static void release(Record& record, std::uint64_t bit) {
    record.tapes &= ~bit;
    record.watchers &= ~bit;
    if (!record.tapes) release_saved(record);
  }
  void drop_unneeded();
  void renew_leaves(std::uint64_t bit);
  void truncate();
  void drop_front();
  bool keep_shapes(std::uint32_t first);
  void move_to_front(std::uint32_t records);
  void set_size(std::uint32_t size);
  void free_spare_chunks(std::size_t kept);
  std::uint32_t find_older(std::uint64_t uid, std::uint32_t number) const;
  std::uint32_t end_of(std::uint64_t uid) const;
  std::size_t leaf_place(const Body* body) const;
  std::uint32_t find_leaf(const Body* body) const;
  void reserve_leaf();
  template <class Id>
  std::uint32_t add_leaf(Body* body, const Cell* cell, const Id& cell_id, std::uint64_t tapes,
                         Caller caller);
  template <class Id>
  std::uint32_t append_leaf(Body* body, const Cell* cell, const Id& cell_id, std::uint64_t tapes,
                            std::uint32_t before, Caller caller);
  void insert_leaf(Body* body, std::uint32_t record);
  void forget_leaves();
  void tell_watched(Body& body, std::uint32_t record);
  void forget_watched();
  static constexpr int uid_bits = 40;
  std::uint64_t uid_ = 0, last_uid_ = 0, oldest_uid_ = 0;
  std::vector<Watched> watched_;
  /// The uids of records before those that have `uid_`: of the records before `end`, which have
  /// moved so far to the front.
  struct Older {
    std::uint64_t uid;
    std::uint32_t end, moved = 0;
  };
  std::vector<Older> older_;
  std::uint32_t starts_[64];  // of the tapes alive, by the number of their bit
  struct StepBegin {
    std::uint64_t tape;
    std::uint32_t record;
    bool is_cut = false;  // the tape has nothing before it, except tensors that it watches
  };
  std::vector<StepBegin> steps_;  // of time steps, see begin_step()
  std::uint32_t size_ = 0, chunk_end_ = 0, values_ = 0;
  std::vector<Cut> cuts_;
  std::vector<Record*> chunks_;
  Arena arena_;
  std::vector<Shape> shapes_;  // of records whose shapes were in chunks that went
  std::vector<Leaf> leaves_;
  struct LeafEntry {
    const Body* body = nullptr;
    std::uint32_t record = 0;
    std::uint32_t generation = 0;  // empty unless it is that of the table
  };
  std::vector<LeafEntry> leaf_table_;  // open addressing, at most half full
  std::size_t leaf_count_ = 0;
  std::uint32_t leaf_generation_ = 1;
};
}  // namespace reel
