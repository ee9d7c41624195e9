// SPDX-License-Identifier: BSD-3-Clause
// Tables of other programs in memory, by the Arrow C Data Interface and the Arrow C Stream
// Interface: of pyarrow, Polars, DuckDB and others. No library of Arrow is needed.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <vector>

#include <reel/data/key.hpp>
#include <reel/data/reader.hpp>
#include <reel/pointer.hpp>
#include <reel/tensor.hpp>

// The structs of the two interfaces, which headers of other programs may have too.
extern "C" {
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
/// The name and type of an array.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
/// The elements of an array.
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
/// Arrays of one type, one after the other.
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif
}

namespace reel::data {
/// Options of read_arrow() and open_arrow().
struct ArrowOptions {
  /// The columns to read, in this order; if there are none, all columns.
  std::vector<std::string> columns = {};
  /// Whether elements may be null. They become 0, false or "", and `valid` of the column tells
  /// which they are.
  bool nulls = false;
};
/// A column of a Table.
struct TableColumn {
  std::string name;
  Tensor values;                   ///< [rows]; undefined in a column of texts
  std::vector<std::string> texts;  ///< empty in other columns
  Tensor valid;  ///< [rows], bool: false at nulls; undefined without the option `nulls`
};
/// A table in memory.
struct REEL_API Table {
  std::int64_t rows = 0;
  std::vector<TableColumn> columns;
  /// The column with this name or position. Throws Error or IndexError if there is none.
  const TableColumn& operator[](Key column) const REEL_LIFETIMEBOUND;
};

/// Copies a table, or an array as a table of one column. bool, uint8, int8 to int64, float16,
/// float32 and float64 keep their dtype; uint16 becomes int32; uint32 and uint64 become int64.
/// Texts (utf8, large_utf8, and dictionaries of them) become std::string. Takes over both structs
/// and releases them, also if it throws. Throws IoError that names the column for another type, for
/// null without the option `nulls`, for an integer above 2^63 - 1, and for structs that contradict
/// each other.
///
///     data::Table table = data::read_arrow(&schema, &array, {.columns = {"age", "city"}});
///     Tensor age = table["age"].values;
REEL_API Table read_arrow(ArrowSchema* schema, ArrowArray* array, const ArrowOptions& options = {},
                          Caller caller = Caller::here());
/// Reads all batches of a stream into one table. Takes over the stream.
REEL_API Table read_arrow(ArrowArrayStream* stream, const ArrowOptions& options = {},
                          Caller caller = Caller::here());
/// The batches of a stream, each as a Table. Takes over the stream. A stream begins at its first
/// batch only: `from` counts batches, which are read and dropped.
REEL_API Owned<Reader<Table>> open_arrow(ArrowArrayStream* stream, const ArrowOptions& options = {},
                                         Place from = {}, Caller caller = Caller::here());
}  // namespace reel::data
