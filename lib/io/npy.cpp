// SPDX-License-Identifier: BSD-3-Clause
#include <reel/io.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <reel/ops/reshape.hpp>

#include "lib/dispatch/gate.hpp"

namespace reel::io {
namespace {
constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t most_header = 1 << 16;  // bytes; NumPy's own are below 128

[[noreturn]] void fail_file(Caller caller, std::string_view op, const Path& path,
                            std::string_view expected, std::string_view got) {
  const std::size_t slash = path.rfind('/');
  fail<IoError>(caller, op, "\"" + path.substr(slash == Path::npos ? 0 : slash + 1) + "\"",
                expected, got, "The file is " + path + ".");
}

/// An open file, closed at the end.
struct File {
  int descriptor;
  explicit File(int opened) : descriptor(opened) {}
  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read_all(void* to, std::size_t bytes) const {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = read(descriptor, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  bool write_all(const void* from, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t done = write(descriptor, at, bytes);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) return false;
      at += done;
      bytes -= static_cast<std::size_t>(done);
    }
    return true;
  }
};

struct Description {
  std::string_view name;
  DType dtype;
};
constexpr Description descriptions[] = {{"|b1", DType::boolean}, {"|u1", DType::uint8},
                                        {"<i4", DType::int32},   {"<i8", DType::int64},
                                        {"<f4", DType::float32}, {"<f8", DType::float64}};

/// What stands after a key of the header's dictionary, up to the comma that ends it.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find("'" + std::string(key) + "':");
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::size_t end = rest.starts_with('(') ? rest.find(')') + 1 : rest.find_first_of(",}");
  return rest.substr(0, end);
}

bool read_lengths(std::string_view text, std::vector<std::int64_t>& lengths) {
  if (!text.starts_with('(') || !text.ends_with(')')) return false;
  text = text.substr(1, text.size() - 2);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return true;
    std::int64_t length = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || length < 0) return false;
    lengths.push_back(length);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text[0] != ',' && text[0] != ' ') return false;
  }
}

struct Header {
  DType dtype;
  std::vector<std::int64_t> lengths;
  bool fortran;
};

Header read_header(const File& file, const Path& path, std::size_t& bytes, Caller caller) {
  unsigned char start[12] = {};
  if (!file.read_all(start, 10) || std::memcmp(start, magic.data(), magic.size()) != 0)
    fail_file(caller, "load_npy", path, "the format .npy", "something else");
  const int version = start[6];
  if (version < 1 || version > 3 || (version > 1 && !file.read_all(start + 10, 2)))
    fail_file(caller, "load_npy", path, "version 1, 2 or 3", std::to_string(version));
  std::size_t length = start[8] | std::size_t{start[9]} << 8;
  if (version > 1) length |= std::size_t{start[10]} << 16 | std::size_t{start[11]} << 24;
  std::string text;
  if (length > most_header)
    fail_file(caller, "load_npy", path, "a header of at most 64 KiB", std::to_string(length));
  text.resize(length);
  if (!file.read_all(text.data(), length))
    fail_file(caller, "load_npy", path, "a whole header", "the end of the file");
  bytes = length + (version > 1 ? 12 : 10);
  Header header{};
  std::string_view name = value_of(text, "descr");
  if (name.size() >= 2) name = name.substr(1, name.size() - 2);
  bool known = false;
  for (const Description& description : descriptions)
    if (description.name == name) {
      header.dtype = description.dtype;
      known = true;
    }
  if (!known)
    fail_file(caller, "load_npy", path, "a dtype of bool, u1, i4, i8, f4 or f8",
              "'" + std::string(name) + "'");
  const std::string_view order = value_of(text, "fortran_order");
  if (order != "True" && order != "False")
    fail_file(caller, "load_npy", path, "a fortran_order", std::string(order));
  header.fortran = order == "True";
  if (!read_lengths(value_of(text, "shape"), header.lengths) ||
      header.lengths.size() > Shape::max_rank)
    fail_file(caller, "load_npy", path, "a shape of at most 8 axes",
              std::string(value_of(text, "shape")));
  return header;
}
/// The file that is to be replaced: what links lead to, with its permissions.
struct Target {
  Path path;
  bool exists = false;
  mode_t mode = 0;
};
Target target_of(const Path& path, Caller caller) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {path};
  if (!S_ISREG(status.st_mode))
    fail_file(caller, "save_npy", path, "a regular file or a new one", "something else");
  char* whole = realpath(path.c_str(), nullptr);
  Target target{whole ? whole : path, true, status.st_mode & 07777u};
  std::free(whole);
  return target;
}
}  // namespace

Tensor load_npy(const Path& path, Caller caller) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.descriptor < 0)
    fail_file(caller, "load_npy", path, "a file to read", std::strerror(errno));
  struct stat status {};
  if (fstat(file.descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    fail_file(caller, "load_npy", path, "a regular file", "something else");
  std::size_t header_bytes = 0;
  Header header = read_header(file, path, header_bytes, caller);
  if (header.fortran) std::reverse(header.lengths.begin(), header.lengths.end());
  const Shape shape(header.lengths, caller);
  const std::size_t bytes =
      static_cast<std::size_t>(shape.elements()) * static_cast<std::size_t>(size_of(header.dtype));
  // The file's own size is checked before memory is asked for.
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size != header_bytes + bytes)
    fail_file(caller, "load_npy", path, std::to_string(header_bytes + bytes) + " bytes",
              std::to_string(size));
  std::string data(bytes, '\0');
  if (!file.read_all(data.data(), bytes))
    fail_file(caller, "load_npy", path, "all of its elements", "the end of the file");
  if (header.dtype == DType::boolean)
    for (char& truth : data) truth = truth != 0;
  const Tensor x = detail::from_memory(data.data(), header.dtype, shape, shape.elements(), caller);
  return header.fortran ? transpose(Operand(x, caller)) : x;
}

void save_npy(const Path& path, const Tensor& x, Caller caller) {
  if (!x.defined()) fail<Error>(caller, "save_npy", "x", "a tensor", "an undefined Tensor");
  std::string lengths;
  for (std::int64_t length : x.shape()) lengths += std::to_string(length) + ", ";
  if (x.rank() > 0) lengths.resize(lengths.size() - (x.rank() > 1 ? 2 : 1));  // (2, 3) and (2,)
  std::string header = "{'descr': '" + std::string(descriptions[static_cast<int>(x.dtype())].name) +
                       "', 'fortran_order': False, 'shape': (" + lengths + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');
  std::string start(magic);
  start += {'\x01', '\0', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  const void* first = nullptr;
  const Tensor host = detail::contiguous_host(x, x.dtype(), &first, caller);

  const Target target = target_of(path, caller);
  const Path beside = target.path + ".new";
  {
    const File file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    const bool written =
        file.descriptor >= 0 && (!target.exists || fchmod(file.descriptor, target.mode) == 0) &&
        file.write_all(start.data(), start.size()) &&
        file.write_all(header.data(), header.size()) &&
        file.write_all(first, static_cast<std::size_t>(Access::body(host)->bytes())) &&
        fsync(file.descriptor) == 0;
    if (!written) {
      const int error = errno;
      unlink(beside.c_str());
      fail_file(caller, "save_npy", path, "a file that can be written", std::strerror(error));
    }
  }
  if (rename(beside.c_str(), target.path.c_str()) != 0)
    fail_file(caller, "save_npy", path, "a file that can be replaced", std::strerror(errno));
}
}  // namespace reel::io
