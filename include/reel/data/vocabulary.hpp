// SPDX-License-Identifier: BSD-3-Clause
// Words and their ids, and vectors of words that other programs have learned.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/tensor.hpp>

namespace reel::data {
/// The hash FNV-1a of 64 bits, on all machines: from 14695981039346656037 on, each byte is combined
/// by exclusive or, and the result is multiplied by 1099511628211.
REEL_API std::uint64_t hash_of(std::string_view text);

namespace detail {
/// Different words, in the order in which they were added.
class REEL_API WordTable {
 public:
  /// The position of a word; -1 if it is not there.
  std::int64_t find(std::string_view word) const;
  /// The position of a word, which is added unless it is there.
  std::int64_t add(std::string_view word);
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::size_t slot_of(std::string_view word) const;
  void grow();
  std::vector<std::string> words_;
  std::vector<std::uint32_t> slots_;  // a position + 1, or 0
};
}  // namespace detail

/// How often words occur.
class REEL_API WordCounts {
 public:
  /// Counts a word. Throws Error for a negative number.
  void add(std::string_view word, std::int64_t times = 1, Caller caller = Caller::here());
  /// How often a word was counted.
  std::int64_t of(std::string_view word) const;
  /// The different words, in the order of their first occurrence.
  const std::vector<std::string>& words() const REEL_LIFETIMEBOUND { return table_.words(); }

 private:
  detail::WordTable table_;
  std::vector<std::int64_t> counts_;
};

/// Options of a Vocabulary.
struct VocabularyOptions {
  /// Words with the first ids, such as {"<pad>", "<s>"}. Counts do not matter for them.
  std::vector<std::string> first = {};
  /// The word whose id other words get, such as "<unk>". Unless it is one of the words, it is added
  /// behind `first`. Empty: words that are not in the vocabulary have no id.
  std::string unknown = {};
  /// Words that were counted less often are left out.
  std::int64_t min_count = 1;
  /// The most words, with those of `first`. The most frequent words are kept.
  std::int64_t max_size = INT64_MAX;
};

/// Words with ids from 0. A copy is as large as the words.
///
///     data::WordCounts counts;
///     for (const std::string& word : words) counts.add(word);
///     data::Vocabulary vocabulary(counts, {.unknown = "<unk>", .min_count = 2});
///     Tensor ids = vocabulary.ids({"the", "dog"});
class REEL_API Vocabulary {
 public:
  Vocabulary() = default;
  /// Words by their number, the most frequent first. Of equally frequent words, the one with the
  /// smaller bytes comes first. Throws Error for an option that is negative.
  explicit Vocabulary(const WordCounts& counts, const VocabularyOptions& options = {},
                      Caller caller = Caller::here());
  /// The words in this order; the options `min_count` and `max_size` have no effect. Throws Error
  /// if a word occurs twice.
  explicit Vocabulary(const std::vector<std::string>& words, const VocabularyOptions& options = {},
                      Caller caller = Caller::here());

  /// The number of words.
  std::int64_t size() const { return static_cast<std::int64_t>(words().size()); }
  /// All words, by their ids.
  const std::vector<std::string>& words() const REEL_LIFETIMEBOUND { return table().words(); }
  /// The id of a word; that of the unknown word if the vocabulary does not have it. Throws
  /// IndexError if it has no unknown word either.
  std::int64_t id(std::string_view word, Caller caller = Caller::here()) const;
  /// The ids of words, as id() gives them: [words], int64.
  Tensor ids(const std::vector<std::string>& words, Caller caller = Caller::here()) const;
  /// The id of a word, or -1 if the vocabulary does not have it.
  std::int64_t find(std::string_view word) const { return table().find(word); }
  /// The word with this id. Throws IndexError for an id that is not in [0, size()).
  const std::string& word(CountNumber id, Caller caller = Caller::here()) const REEL_LIFETIMEBOUND;
  /// The id of the unknown word; -1 if there is none.
  std::int64_t unknown() const { return table(), unknown_; }
  /// Writes a text file with one word on each line, which replaces an old file as save_npy() does.
  /// The file does not say which word is the unknown one. Throws IoError if the file cannot be
  /// written, and Error for a word with a line end in it.
  void save(const std::string& path, Caller caller = Caller::here()) const;
  /// For io::save(), io::load() and Checkpoints, which keep the words and the unknown one. No other
  /// thread may use the vocabulary meanwhile. After a load of something else, the next call throws
  /// Error.
  void fields(const auto& field) {
    state_ = packed();
    field("vocabulary", state_);
    __atomic_store_n(&loaded_, true, __ATOMIC_RELEASE);
  }

 private:
  const detail::WordTable& table() const {
    if (__atomic_load_n(&loaded_, __ATOMIC_ACQUIRE)) [[unlikely]]
      take_loaded();
    return table_;
  }
  Tensor packed() const;
  void take_loaded() const;
  mutable detail::WordTable table_;
  mutable std::int64_t unknown_ = -1;
  mutable Tensor state_;  // what a load has written
  mutable bool loaded_ = false;
};

/// Reads the words of a text file, one on each line, in their order. `min_count` has no effect; of
/// more than `max_size` words, the first ones are kept. Throws IoError if a word occurs twice.
///
///     auto vocabulary = data::read_vocabulary("words.txt", {.unknown = "<unk>"});
REEL_API Vocabulary read_vocabulary(const std::string& path, const VocabularyOptions& options = {},
                                    Caller caller = Caller::here());

/// Options of read_vectors().
struct VectorOptions {
  /// Only the first words of the file are read. Files have frequent words first.
  std::int64_t max_words = INT64_MAX;
  /// The unknown word of the vocabulary. If the file does not have it, it has the id 0 and a vector
  /// of zeros.
  std::string unknown = {};
};
/// Words and their vectors.
struct WordVectors {
  Vocabulary vocabulary;
  Tensor vectors;  ///< [words, dimensions], float32; row i is the vector of the word with the id i
};
/// Reads vectors as the programs GloVe and word2vec write them as text: on each line a word and its
/// numbers, with spaces between them. A first line with two integers (words, dimensions) may be
/// there. A word may contain spaces. If a word occurs several times, the first vector counts.
/// Throws IoError for a line with another number of dimensions, for a text that is no number, and
/// for fewer words than the first line says.
///
///     auto [vocabulary, vectors] = data::read_vectors("glove.6B.50d.txt", {.unknown = "<unk>"});
REEL_API WordVectors read_vectors(const std::string& path, const VectorOptions& options = {},
                                  Caller caller = Caller::here());
}  // namespace reel::data
