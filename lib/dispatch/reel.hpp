// SPDX-License-Identifier: BSD-3-Clause
// The reel: what ops leave behind on a thread. The tape plays it backward.
#pragma once
#include <cstdint>
#include <vector>

#include "lib/dispatch/op.hpp"
#include "lib/tensor/access.hpp"

namespace reel {
// Note [Record ids]
// A tensor carries {reel, record, output} of the record that made it, written once when it is made.
// A reel's uid is unique in the process and changes whenever the last tape of the thread ends, so
// an old id never names a new record. Record numbers only grow while a reel lives.
// Each record has two sets of tapes, a bit for each: `tapes` play it backward, `watchers` take its
// output as a leaf and stop there. Records of a tape have numbers from the tape's start on.

inline constexpr std::uint32_t no_record = 0xffffffffu;

struct InputSlot {
  std::uint32_t record = no_record;  // the record that made it, if tracked
  std::uint16_t output = 0;
  DType dtype = DType::float32;
  bool tracked = false;
  const Shape* shape = nullptr;      // in the arena, or the output's
  Body* saved = nullptr;             // a reference, if the gradient needs the value
};
struct OutputSlot {
  const Shape* shape = nullptr;
  Body* saved = nullptr;
  DType dtype = DType::float32;
};

struct Record {
  const Op* op;
  const char* file;
  unsigned line;
  std::uint16_t input_count;
  std::uint16_t output_count;
  std::uint64_t tapes;
  std::uint64_t watchers;
  InputSlot* inputs;
  OutputSlot* outputs;
  void* options;
  const OptionsType* options_type;

  Caller site() const { return {file, line}; }
};

/// A value that tapes watch: a Variable's or a tensor's.
struct Leaf {
  Tensor value;                    // keeps the body, and so the key, alive
  const Cell* cell;      // null for a tensor
  std::uint32_t record;
};

/// Memory that only grows, and is kept for the next reel.
class Arena {
 public:
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
  void clear();

 private:
  void* take_from_new_chunk(std::size_t bytes);
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  struct Chunk {
    std::byte* memory;
    std::size_t bytes;
  };
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
  std::uint32_t size() const { return size_; }
  Record& operator[](std::uint32_t i) { return chunks_[i / chunk_records][i % chunk_records]; }

  /// A new record with its slots; the caller fills them.
  Record& append(const Op& op, int inputs, int outputs, OptionsView options);
  Arena& arena() { return arena_; }

  /// The tape bits in use, of those that record now, and of those that watch Variables.
  std::uint64_t alive = 0, active = 0, watching_variables = 0;

  /// The record number of a leaf for this body, watched by `tapes`; made if there is none.
  std::uint32_t watch(Body* body, const Cell* cell, std::uint64_t tapes);
  /// The record of a watched body; no_record if nobody watches it.
  std::uint32_t find_leaf(const Body* body) const;
  const std::vector<Leaf>& leaves() const { return leaves_; }

  std::uint64_t open_tape();
  /// The tape is gone: lets go of what only it needed.
  void close_tape(std::uint64_t bit, std::uint32_t start);
  /// Lets go of what only these tapes need from record `start` on.
  void release(std::uint64_t bit, std::uint32_t start);
  static void release_saved(Record& record);

 private:
  void clear();
  void release_leaves(std::uint64_t bit);
  void insert_leaf(const Body* body, std::uint32_t leaf);
  std::uint64_t uid_ = 0;
  std::uint32_t size_ = 0;
  std::vector<Record*> chunks_;
  Arena arena_;
  std::vector<Leaf> leaves_;
  std::vector<std::uint32_t> leaf_table_;  // open addressing: leaf number + 1 by body
};
}  // namespace reel
