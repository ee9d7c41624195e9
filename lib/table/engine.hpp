// SPDX-License-Identifier: BSD-3-Clause
// What an engine of lib/dist does: a table of functions, which the library of an MPI fills, or the
// backend of a device.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reel::dist {
enum class Kind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, barrier };
enum class Wire : std::uint8_t { bytes, int32, int64, float32, float64, bfloat16 };
enum class Combine : std::uint8_t { sum, max, min };

constexpr std::size_t bytes_of(Wire wire) {
  switch (wire) {
    case Wire::bytes:
      return 1;
    case Wire::bfloat16:
      return 2;
    case Wire::int32:
    case Wire::float32:
      return 4;
    case Wire::int64:
    case Wire::float64:
      return 8;
  }
  return 0;
}

/// One collective. The buffers must live until it has ended. They are in memory of the host, or of
/// the engine's device.
struct Message {
  Kind kind = Kind::barrier;
  Wire wire = Wire::bytes;
  Combine combine = Combine::sum;
  const void* in = nullptr;  // broadcast: on a device, what the root sends; else it is in `out`
  void* out = nullptr;       // all_reduce: may be `in`
  /// Elements: of `in` for all_gather, whose `out` has so many for each rank; of `out` for
  /// reduce_scatter, whose `in` has so many for each rank; else of both.
  std::int64_t count = 0;
  int root = 0;
};

/// An order of collectives of its own: all ranks start the same ones in one order.
struct Channel;
/// A collective that has started and not ended.
struct Request;

struct EngineTable;
/// How ranks go on without one that has died.
struct Survival {
  /// From now on a rank that dies ends no other one. start() and test() return an error then.
  void (*begin)();
  /// Calls on channels of `self` fail, on all ranks; those that have started end.
  void (*revoke)(void* self);
  /// Which ranks have died, as far as this one knows: how many of `most`.
  int (*dead)(void* self, int* ranks, int most);
  /// All ranks that live call it, and get one answer: whether all of them say `yes`, and, if
  /// `complete`, no rank has died.
  bool (*agree)(void* self, bool yes, bool complete);
  /// Makes the engine of the ranks that live; all of them call it.
  const char* (*shrink)(void* self, EngineTable* part);
};

/// Functions that return a text return null, or what has gone wrong; the text is never freed.
struct EngineTable {
  static constexpr std::size_t version = 5, id_bytes = 128;
  std::size_t layout = sizeof(EngineTable) * 16 + version;
  char name[96] = {};
  int rank = 0, ranks = 1;
  void* self = nullptr;
  /// Rank 0 makes an id for open(), and the caller brings it to all ranks. Null: open() needs none.
  const char* (*identify)(void* self, char* id) = nullptr;
  /// All ranks call it. With an id, it returns before the others have come.
  const char* (*open)(void* self, const char* id, Channel** channel) = nullptr;
  void (*close)(Channel* channel) = nullptr;
  const char* (*start)(Channel* channel, const Message& message, Request** request) = nullptr;
  /// Whether the collective has ended. Then the request is gone. A null request: whether a channel
  /// with an id has been opened on all ranks.
  const char* (*test)(Channel* channel, Request* request, bool* done) = nullptr;
  /// start() and test() until the end, in less time; null if the engine has no such call. It cannot
  /// be left before the end.
  const char* (*run)(Channel* channel, const Message& message) = nullptr;
  /// Makes the engine of the ranks of one color; all ranks call it. Null: LocalGroup::part().
  const char* (*split)(void* self, int color, EngineTable* part) = nullptr;
  /// An exception leaves the World: when the program ends, the other ranks do not come any more.
  void (*leave)(void* self) = nullptr;
  /// Ends all ranks, or returns.
  void (*abort)(void* self) = nullptr;
  const Survival* survival = nullptr;  // null where a rank that dies ends all
};

/// The one function of a plugin. It fills the table, and returns null or the reason why it cannot.
using OpenEngine = const char* (*)(EngineTable& table);
inline constexpr const char* open_engine_name = "reel_dist_open";

/// bfloat16 as its 16 bits, rounded to nearest even.
inline float widened(std::uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}
inline std::uint16_t narrowed(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
}  // namespace reel::dist
