// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <charconv>
#include <cstring>

#include <reel/data/vocabulary.hpp>
#include <reel/error.hpp>

#include "lib/body/hash.hpp"
#include "lib/body/text.hpp"
#include "lib/data/files.hpp"
#include "lib/io/atomic_file.hpp"
#include "lib/pool/process.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::data {
std::uint64_t hash_of(std::string_view text) { return fnv1a(text); }

namespace detail {
/// The slot that has the word, or the empty one where it would be. A slot must be empty.
std::size_t WordTable::slot_of(std::string_view word) const {
  const std::uint64_t hash = hash_of(word);
  std::size_t slot = (hash ^ hash >> 32) & (slots_.size() - 1);
  while (slots_[slot] != 0 && words_[slots_[slot] - 1] != word)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}
std::int64_t WordTable::find(std::string_view word) const {
  return slots_.empty() ? -1 : static_cast<std::int64_t>(slots_[slot_of(word)]) - 1;
}
void WordTable::grow() {
  std::vector<std::uint32_t> before(std::max<std::size_t>(2 * slots_.size(), 16));
  before.swap(slots_);
  for (const std::uint32_t filled : before)
    if (filled != 0) slots_[slot_of(words_[filled - 1])] = filled;
}
std::int64_t WordTable::add(std::string_view word) {
  if (2 * words_.size() >= slots_.size()) grow();
  std::uint32_t& slot = slots_[slot_of(word)];
  if (slot == 0) {
    words_.emplace_back(word);
    slot = static_cast<std::uint32_t>(words_.size());
  }
  return static_cast<std::int64_t>(slot) - 1;
}
}  // namespace detail

namespace {
void check_least(std::string_view argument, std::int64_t value, Caller caller,
                 std::string_view op) {
  if (value < 0) fail<Error>(caller, op, argument, "a number that is not negative", to_text(value));
}
}  // namespace

void WordCounts::add(std::string_view word, std::int64_t times, Caller caller) try {
  check_least("times", times, caller, "WordCounts");
  const auto position = static_cast<std::size_t>(table_.add(word));
  if (position >= counts_.size()) counts_.resize(position + 1);
  counts_[position] += times;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "WordCounts");
}
std::int64_t WordCounts::of(std::string_view word) const {
  const auto position = static_cast<std::size_t>(table_.find(word));
  return position < counts_.size() ? counts_[position] : 0;
}

Vocabulary::Vocabulary(const WordCounts& counts, const VocabularyOptions& options,
                       Caller caller) try {
  check_least("min_count", options.min_count, caller, "Vocabulary");
  check_least("max_size", options.max_size, caller, "Vocabulary");
  struct Counted {
    std::int64_t count;
    std::string_view word;
  };
  std::vector<Counted> all;
  for (const std::string& word : counts.words())
    if (const std::int64_t count = counts.of(word); count >= options.min_count)
      all.push_back({count, word});
  std::sort(all.begin(), all.end(), [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.word < b.word;
  });
  for (const std::string& word : options.first) table_.add(word);
  if (!options.unknown.empty()) unknown_ = table_.add(options.unknown);
  for (const Counted& one : all)
    if (size() < options.max_size) table_.add(one.word);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Vocabulary");
}

Vocabulary::Vocabulary(const std::vector<std::string>& words, const VocabularyOptions& options,
                       Caller caller) try {
  for (const std::string& word : options.first) table_.add(word);
  const bool listed = std::find(words.begin(), words.end(), options.unknown) != words.end();
  if (!options.unknown.empty() && !listed) table_.add(options.unknown);
  for (const std::string& word : words) {
    const std::int64_t before = size();
    const bool is_first = table_.add(word) < static_cast<std::int64_t>(options.first.size());
    if (size() == before && !is_first)
      fail<Error>(caller, "Vocabulary", "words", "different words", quoted(word) + " twice");
  }
  if (!options.unknown.empty()) unknown_ = table_.find(options.unknown);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Vocabulary");
}

/// The id of the unknown word, then the length and the bytes of each word; numbers have eight
/// bytes.
Tensor Vocabulary::packed() const try {
  std::size_t size = sizeof unknown_;
  for (const std::string& word : words()) size += sizeof size + word.size();
  const RawTensor made = raw_tensor(DType::uint8, Shape({size}));
  if (!made.tensor.defined()) fail_memory({}, "Vocabulary");
  auto* to = static_cast<char*>(made.elements);
  const auto put = [&](const void* from, std::size_t count) {
    if (count > 0) std::memcpy(to, from, count);
    to += count;
  };
  put(&unknown_, sizeof unknown_);
  for (const std::string& word : words()) {
    const std::uint64_t length = word.size();
    put(&length, sizeof length);
    put(word.data(), word.size());
  }
  return made.tensor;
} catch (const std::bad_alloc&) {
  fail_memory({}, "Vocabulary");
}
void Vocabulary::take_loaded() const try {
  const auto refuse = [] {
    fail<Error>({}, "Vocabulary", "fields", "the words of a saved Vocabulary", "something else");
  };
  if (!state_.defined() || state_.dtype() != DType::uint8 || state_.rank() != 1) refuse();
  const std::vector<std::uint8_t> bytes = state_.to_vector<std::uint8_t>();
  std::string_view left(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto number = [&] {
    std::uint64_t value = 0;
    if (left.size() < sizeof value) refuse();
    std::memcpy(&value, left.data(), sizeof value);
    left.remove_prefix(sizeof value);
    return value;
  };
  detail::WordTable table;
  const auto unknown = static_cast<std::int64_t>(number());
  while (!left.empty()) {
    const std::uint64_t length = number();
    if (length > left.size() || table.find(left.substr(0, length)) >= 0) refuse();
    table.add(left.substr(0, length));
    left.remove_prefix(length);
  }
  if (unknown < -1 || unknown >= static_cast<std::int64_t>(table.words().size())) refuse();
  const Locked held(Lock::registration);
  if (!__atomic_load_n(&loaded_, __ATOMIC_RELAXED)) return;  // another thread was faster
  table_ = std::move(table);
  unknown_ = unknown;
  __atomic_store_n(&loaded_, false, __ATOMIC_RELEASE);
} catch (const std::bad_alloc&) {
  fail_memory({}, "Vocabulary");
}

std::int64_t Vocabulary::id(std::string_view word, Caller caller) const try {
  const std::int64_t found = find(word);
  if (found >= 0) return found;
  if (unknown_ >= 0) return unknown_;
  fail<IndexError>(caller, "Vocabulary", "word", "one of its " + std::to_string(size()) + " words",
                   quoted(word));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Vocabulary");
}
Tensor Vocabulary::ids(const std::vector<std::string>& words, Caller caller) const {
  const RawTensor made = raw_tensor(DType::int64, Shape({static_cast<std::int64_t>(words.size())}));
  if (!made.tensor.defined()) fail_memory(caller, "Vocabulary");
  auto* to = static_cast<std::int64_t*>(made.elements);
  for (const std::string& word : words) *to++ = id(word, caller);
  return on_current_device(made.tensor, caller);
}
const std::string& Vocabulary::word(CountNumber id, Caller caller) const {
  if (id < 0 || id >= size())
    fail<IndexError>(caller, "Vocabulary", "id", one_of("id", 0, size()), to_text(id.value));
  return words()[static_cast<std::size_t>(id.value)];
}

void Vocabulary::save(const std::string& path, Caller caller) const try {
  std::string text;
  for (const std::string& word : words()) {
    if (word.find('\n') != word.npos || word.ends_with('\r'))
      fail<Error>(caller, "Vocabulary", "save", "words without line ends", quoted(word));
    text.append(word).append(1, '\n');
  }
  io::AtomicFile file(path, "Vocabulary", caller);
  file.write(text.data(), text.size());
  file.commit();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Vocabulary");
}

Vocabulary read_vocabulary(const std::string& path, const VocabularyOptions& options,
                           Caller caller) try {
  check_least("max_size", options.max_size, caller, "read_vocabulary");
  Files files({path}, {}, Files::Kind::text, "read_vocabulary", caller);
  detail::WordTable words;
  std::string_view line;
  while (files.begin() && static_cast<std::int64_t>(words.words().size()) < options.max_size) {
    files.line(line);
    const std::size_t before = words.words().size();
    words.add(line);
    if (words.words().size() == before) {
      const std::string twice = quoted(line) + " twice";
      files.fail("different words", twice);
    }
  }
  return Vocabulary(words.words(), options, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_vocabulary");
}

namespace {
std::string_view without_end(std::string_view line) {
  return line.substr(0, line.find_last_not_of(" \t") + 1);
}
/// The last word of a line, which is taken from it, with the spaces before it.
std::string_view take_last(std::string_view& line) {
  const std::size_t space = line.find_last_of(" \t");
  const std::string_view last = space == line.npos ? line : line.substr(space + 1);
  line = space == line.npos ? std::string_view() : line.substr(0, space);
  return last;
}
template <class T>
bool parse(std::string_view text, T& number) {
  T read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole) number = read;
  return whole;
}
/// The number of words and dimensions, if the first line has them.
bool read_head(std::string_view line, std::size_t& words, std::size_t& dimensions) {
  return parse(take_last(line), dimensions) && parse(line, words);
}

/// Reads the vectors of a file, line by line.
struct VectorReader {
  Files files;
  detail::WordTable table = {};
  std::vector<float> values = {};
  std::size_t dimensions = 0;

  void read(std::int64_t most) {
    std::size_t words = 0;
    std::int64_t lines = 0;
    std::string_view line;
    for (bool first = true; lines < most && files.begin(); first = false) {
      files.line(line);
      line = without_end(line);
      if (first && read_head(line, words, dimensions)) continue;
      if (dimensions == 0)
        dimensions = static_cast<std::size_t>(std::count(line.begin(), line.end(), ' '));
      add(line);
      ++lines;
    }
    if (lines < most && static_cast<std::size_t>(lines) < words)
      files.fail(std::to_string(words) + " words", std::to_string(lines));
  }
  void add(std::string_view line) {
    const std::size_t begin = values.size();
    if (dimensions == 0 || dimensions > line.size()) files.fail("a word and numbers", quoted(line));
    values.resize(begin + dimensions);
    std::string_view rest = line;
    for (std::size_t i = dimensions; i-- > 0;) {
      const std::string_view number = take_last(rest);
      if (!parse(number, values[begin + i]) || rest.data() == nullptr)
        files.fail("a word and " + std::to_string(dimensions) + " numbers", quoted(line));
    }
    const std::size_t before = table.words().size();
    table.add(rest);
    if (table.words().size() == before) values.resize(begin);
  }
};
}  // namespace

WordVectors read_vectors(const std::string& path, const VectorOptions& options, Caller caller) try {
  check_least("max_words", options.max_words, caller, "read_vectors");
  VectorReader reader{Files({path}, {}, Files::Kind::text, "read_vectors", caller)};
  reader.read(options.max_words);
  const VocabularyOptions words{.unknown = options.unknown};
  WordVectors result{Vocabulary(reader.table.words(), words, caller), {}};
  const RawTensor made =
      raw_tensor(DType::float32,
                 Shape({result.vocabulary.size(), static_cast<std::int64_t>(reader.dimensions)}));
  if (!made.tensor.defined()) fail_memory(caller, "read_vectors");
  const std::size_t extra = made.bytes - reader.values.size() * sizeof(float);
  if (extra > 0) std::memset(made.elements, 0, extra);  // of the unknown word
  if (!reader.values.empty())
    std::memcpy(static_cast<char*>(made.elements) + extra, reader.values.data(),
                reader.values.size() * sizeof(float));
  result.vectors = on_current_device(made.tensor, caller);
  return result;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_vectors");
}
}  // namespace reel::data
