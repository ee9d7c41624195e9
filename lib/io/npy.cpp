// SPDX-License-Identifier: BSD-3-Clause
#include <reel/io/formats.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include <reel/ops/reshape.hpp>

#include <reel/error.hpp>

#include "lib/io/atomic_file.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/npy.hpp"

namespace reel::io {
namespace {
constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t most_header = 1 << 16;  // bytes; NumPy's own are below 128

struct Description {
  std::string_view code, name;
};
/// The dtypes that NumPy has too: all but bfloat16, and those that are read as wider ones.
constexpr Description descriptions[] = {{"b1", "bool"},    {"u1", "uint8"},   {"i4", "int32"},
                                        {"i8", "int64"},   {"f2", "float16"}, {"f4", "float32"},
                                        {"f8", "float64"}, {"i1", "int8"},    {"i2", "int16"},
                                        {"u2", "uint16"},  {"u4", "uint32"},  {"u8", "uint64"}};
static_assert(std::size(descriptions) == dtype_count + 2);

/// Null if no Tensor can hold it. The mark of the byte order may be left out.
const FileDType* dtype_described(std::string_view text) {
  if (text.find_first_of("<>=|") == 0) text.remove_prefix(1);
  for (const Description& description : descriptions)
    if (text == description.code) return file_dtype(description.name);
  return nullptr;
}

/// Reads the header's text, a dictionary as Python writes it, from left to right.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : rest_(text) {}
  bool next_is(char mark) {
    skip_space();
    return rest_.starts_with(mark);
  }
  /// Whether `mark` comes next. Skips it if so.
  bool take(char mark) {
    if (!next_is(mark)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  /// The text between the next two quotes; nothing if no quote comes next.
  std::optional<std::string_view> quoted() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    const std::size_t end = quote ? rest_.find(quote) : rest_.npos;
    if (end == rest_.npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  /// The text of a list or tuple with all its brackets; nothing if none comes next.
  std::optional<std::string_view> brackets() {
    if (!next_is('[') && !next_is('(')) return std::nullopt;
    const std::string_view from = rest_;
    int depth = 0;
    do {
      if (next_is('\'') || next_is('"')) {
        if (!quoted()) return std::nullopt;
      } else if (rest_.empty()) {
        return std::nullopt;
      } else {
        depth += next_is('[') || next_is('(');
        depth -= next_is(']') || next_is(')');
        rest_.remove_prefix(1);
      }
    } while (depth > 0);
    return from.substr(0, from.size() - rest_.size());
  }
  bool word(std::string_view wanted) {
    skip_space();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  /// Lengths in brackets. A single one has a comma behind it, as in Python.
  bool lengths(std::vector<std::int64_t>& lengths) {
    if (!take('(')) return false;
    bool comma = true;
    while (!take(')')) {
      std::int64_t length{};
      skip_space();
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), length);
      if (!comma || error != std::errc() || length < 0) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      word("L");  // Python 2 wrote it after long integers
      lengths.push_back(length);
      comma = take(',');
    }
    return lengths.size() != 1 || comma;
  }
  /// The text that has not been read yet, for errors.
  std::string rest() const { return "'" + escaped(rest_.substr(0, 64)) + "'"; }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() {
    while (rest_.starts_with(' ') || rest_.starts_with('\n')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

struct Header {
  const FileDType* dtype = nullptr;
  bool has_dtype = false, big_endian = false;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> lengths;
  std::size_t bytes = 0;  // in front of the elements
  std::string unread = {};
};

/// Reads a header and says what is wrong with it.
class HeaderReader {
 public:
  HeaderReader(Bytes& bytes, std::uint64_t size, const Input& input)
      : bytes_(bytes), size_(size), input_(input) {}

  NpyHeader read() const {
    const Header header = read_header();
    if (!header.unread.empty()) return {nullptr, false, false, Shape(), header.unread};
    check_size(header);
    return {header.dtype, header.big_endian, *header.fortran,
            Shape(*header.lengths, input_.caller())};
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    input_.fail(expected, got);
  }
  void take(void* to, std::size_t bytes) const { bytes_.read(to, bytes); }

  Header read_header() const {
    unsigned char start[12] = {};
    if (size_ >= 10) take(start, 10);
    if (std::memcmp(start, magic.data(), magic.size()) != 0)
      fail("the format .npy", "something else");
    const int version = start[6];
    if (version < 1 || version > 3 || start[7] != 0)
      fail("version 1.0, 2.0 or 3.0", std::to_string(version) + "." + std::to_string(start[7]));
    const std::size_t first = version > 1 ? 12 : 10;
    if (size_ < first) fail("a whole header", "the end of the file");
    if (version > 1) take(start + 10, 2);
    std::size_t length = start[8] | std::size_t{start[9]} << 8;
    if (version > 1) length |= std::size_t{start[10]} << 16 | std::size_t{start[11]} << 24;
    if (length > most_header) fail("a header of at most 64 KiB", std::to_string(length));
    if (length > size_ - first) fail("a whole header", "the end of the file");
    Header header;
    header.bytes = first + length;
    std::string text(length, '\0');
    take(text.data(), length);
    read_dictionary(text, header);
    return header;
  }

  void read_dictionary(std::string_view text, Header& header) const {
    Dictionary rest(text);
    bool whole = rest.take('{');
    while (whole && !rest.take('}')) {
      const std::optional<std::string_view> key = rest.quoted();
      whole = key && rest.take(':') && read_value(*key, rest, header) &&
              (rest.take(',') || rest.next_is('}'));
    }
    if (!whole || !rest.at_end() || !header.has_dtype || !header.fortran || !header.lengths)
      fail("a header of 'descr', 'fortran_order' and 'shape'", rest.rest());
    if (header.lengths->size() > Shape::max_rank)
      header.unread = std::to_string(header.lengths->size()) + " axes";
  }

  /// False if the dictionary cannot be understood from here on.
  bool read_value(std::string_view key, Dictionary& rest, Header& header) const {
    if (key == "descr" && !header.has_dtype) {
      const std::string before = rest.rest();
      const std::optional<std::string_view> name = rest.quoted();
      const std::optional<std::string_view> fields = name ? name : rest.brackets();
      if (!fields) fail("the name of a dtype", before);
      header.has_dtype = true;
      header.big_endian = fields->starts_with('>');
      header.dtype = name ? dtype_described(*name) : nullptr;
      if (!header.dtype) header.unread = "dtype '" + escaped(fields->substr(0, 64)) + "'";
      return true;
    }
    if (key == "fortran_order" && !header.fortran) {
      header.fortran = rest.word("True");
      return *header.fortran || rest.word("False");
    }
    if (key != "shape" || header.lengths) return false;
    const std::string before = rest.rest();
    if (!rest.lengths(header.lengths.emplace())) fail("a shape of lengths of at least 0", before);
    return true;
  }

  /// Compares with the size of the file before memory is allocated.
  void check_size(const Header& header) const {
    const std::optional<std::uint64_t> elements = bytes_of(*header.lengths, header.dtype->bytes);
    if (!elements) fail("a shape of at most 2^58 bytes", "a larger one");
    const std::uint64_t wanted = header.bytes + *elements;
    if (size_ != wanted)
      fail(std::to_string(wanted) + " bytes, by its header", std::to_string(size_));
  }

  Bytes& bytes_;
  const std::uint64_t size_;
  const Input& input_;
};
}  // namespace

NpyHeader read_npy_header(Bytes& bytes, std::uint64_t size, const Input& input) {
  return HeaderReader(bytes, size, input).read();
}

Tensor read_npy(Bytes& bytes, std::uint64_t size, const Input& input, std::string_view name) {
  const NpyHeader header = read_npy_header(bytes, size, input);
  if (!header.unread.empty())
    input.fail("a dtype of bool, integers, f2, f4 or f8, and at most 8 axes", header.unread);
  std::vector<std::int64_t> lengths(header.shape.begin(), header.shape.end());
  if (header.fortran) std::reverse(lengths.begin(), lengths.end());
  const Tensor x = read_elements(bytes, *header.dtype, header.big_endian,
                                 Shape(lengths, input.caller()), input, name);
  return header.fortran ? transpose(Operand(x, input.caller())) : x;
}

std::string npy_header(const Tensor& x, std::string_view op, Caller caller) {
  if (!x.defined()) fail<Error>(caller, op, "x", "a tensor", "an undefined Tensor");
  std::string lengths;
  for (std::int64_t length : x.shape()) lengths += std::to_string(length) + ", ";
  if (x.rank() > 0) lengths.resize(lengths.size() - (x.rank() > 1 ? 2 : 1));  // (2, 3) and (2,)
  const auto* const description =
      std::find_if(std::begin(descriptions), std::end(descriptions),
                   [&](const Description& known) { return known.name == name_of(x.dtype()); });
  if (description == std::end(descriptions))
    fail<DTypeError>(caller, op, "x", "a dtype that NumPy has", name_of(x.dtype()),
                     "Convert it first: x.to(DType::float32).");
  std::string header = std::string("{'descr': '") + (size_of(x.dtype()) > 1 ? '<' : '|') +
                       std::string(description->code) + "', 'fortran_order': False, 'shape': (" +
                       lengths + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string start(magic);
  start += {'\x01', '\0', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  return start + header;
}

Tensor load_npy(const Path& path, Caller caller) try {
  const Input input(path, "load_npy", caller);
  of_format(input, {Format::npy}, "the format .npy");
  InputBytes bytes(input);
  return on_current_device(read_npy(bytes, input.size(), input), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_npy");
}

void save_npy(const Path& path, const Tensor& x, Caller caller) try {
  const std::string header = npy_header(x, "save_npy", caller);
  const HostElements elements(x, caller);
  AtomicFile file(path, "save_npy", caller);
  file.write(header.data(), header.size());
  file.write(elements.data(), elements.bytes());
  file.commit();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "save_npy");
}
}  // namespace reel::io
