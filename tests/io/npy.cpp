// SPDX-License-Identifier: BSD-3-Clause
// Files of NumPy: the library reads what it writes, and refuses damaged files.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// A folder with one file that was written and is read again.
struct Written {
  Folder folder;
  std::string path = folder.file("x.npy");
  Tensor read(const std::string& bytes) const {
    write_file(path, bytes);
    return io::load_npy(path);
  }
  void refuse(const std::string& bytes, const std::string& part,
              Caller caller = Caller::here()) const {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_npy(path, caller); }, part, caller);
  }
};
const std::string one_float(4, '\0');
}  // namespace

TEST_CASE("a .npy file gives back every dtype, shape and layout") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const Tensor numbers = arange(0.0f, 24.0f).reshape({2, 3, 4});
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int8, DType::int16, DType::int32,
                            DType::int64, DType::float32, DType::float64})
    for (const Tensor& x : {numbers, transpose(numbers), numbers(1, all, range({}, {}, -1)),
                            numbers(0, 0, 0), numbers(range(0, 0))}) {
      const Tensor y = x.to(dtype);
      io::save_npy(path, y);
      const Tensor read = io::load_npy(path);
      CHECK(read.dtype() == dtype);
      CHECK(equal(read, y));
    }
}

TEST_CASE("a .npy file has the bytes that NumPy writes") {
  const Folder folder;
  io::save_npy(folder.file("x.npy"), tensor({1.0f, -2.0f}));
  std::string wanted = "\x93NUMPY";
  wanted += {'\x01', '\0', '\x76', '\0'};
  wanted += "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  wanted.append(127 - wanted.size(), ' ') += "\n";
  wanted += {'\0', '\0', '\x80', '\x3f', '\0', '\0', '\0', '\xc0'};
  CHECK(contents(folder.file("x.npy")) == wanted);
}

TEST_CASE("every .npy file that is cut short, or too long, is refused") {
  const Written file;
  for (const int version : {1, 2, 3})
    for (const char* const order : {"True", "False"}) {
      const std::string whole =
          npy_bytes(version, dictionary("'<i4'", order, "(2, 3)"), std::string(24, '\1'));
      CHECK(file.read(whole).size() == 6);
      for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
        write_file(file.path, whole.substr(0, bytes));
        CHECK_THROWS_AS(io::load_npy(file.path), IoError);
      }
      file.refuse(whole + "x", "bytes, by its header");
    }
  check_refused<IoError>([&] { io::load_npy(file.folder.file("missing.npy")); }, "missing.npy");
  check_refused<IoError>([&] { io::load_npy(file.folder.path); }, "regular file");
  check_refused<IoError>([&] { io::load_npy(file.path + std::string(1, '\0')); }, "byte 0");
}

TEST_CASE(
    "headers of versions 1 to 3 are read, whatever their spaces and the order of their keys") {
  const Written file;
  const std::string elements = "\1\2\3\4\5\6";
  const Tensor wanted = tensor({{1, 2, 3}, {4, 5, 6}}).to(DType::uint8);
  for (const int version : {1, 2, 3})
    for (const char* const header :
         {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n",
          "{'shape': (2, 3), 'fortran_order': False, 'descr': '|u1'}",
          "  {\"descr\":\"|u1\",\"fortran_order\":False,\"shape\":(2,3,)}   \n",
          "{ 'descr' : '|u1' , 'fortran_order' : False , 'shape' : ( 2L , 3L ) , }"})
      CHECK(equal(file.read(npy_bytes(version, header, elements)), wanted));
  CHECK(file.read(npy_bytes(1, dictionary("'<f4'", "False", "()"), one_float)).rank() == 0);
  CHECK(file.read(npy_bytes(1, dictionary("'<f4'", "False", "(1,)"), one_float)).rank() == 1);
  CHECK(file.read(npy_bytes(1, dictionary("'<f4'", "False", "(1,1,1,1,1,1,1,1)"), one_float))
            .rank() == 8);
  CHECK(file.read(npy_bytes(1, dictionary("'<f4'", "True", "(0, 3)"), "")).shape() ==
        Shape({0, 3}));
}

TEST_CASE("Fortran order is column by column") {
  const Written file;
  const std::string elements = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const Tensor x = file.read(npy_bytes(1, dictionary("'|u1'", "True", "(2, 3, 2)"), elements));
  CHECK(equal(x, tensor({{{1, 7}, {3, 9}, {5, 11}}, {{2, 8}, {4, 10}, {6, 12}}})));
  const Tensor y =
      file.read(npy_bytes(2, dictionary("'|b1'", "True", "(3,)"), "\1" + one_float.substr(2)));
  CHECK(equal(y, tensor({true, false, false})));
}

TEST_CASE("any byte but 0 of a bool is true") {
  const Written file;
  std::string elements;
  for (int byte = 0; byte < 256; ++byte) elements += static_cast<char>(byte);
  const Tensor x = file.read(npy_bytes(1, dictionary("'|b1'", "False", "(256,)"), elements));
  CHECK(x.dtype() == DType::boolean);
  CHECK(sum(x).item<std::int64_t>() == 255);
  io::save_npy(file.path, x);
  const std::string saved = contents(file.path);
  CHECK(saved.substr(saved.size() - 256) == std::string(1, '\0') + std::string(255, '\1'));
}

TEST_CASE("a header that says something else is refused, with what it says") {
  const Written file;
  const auto refuse = [&](const char* type, const char* order, const char* shape,
                          const std::string& part, Caller caller = Caller::here()) {
    file.refuse(npy_bytes(1, dictionary(type, order, shape), one_float), part, caller);
  };
  refuse("'>c8'", "False", "(1,)", "'>c8'");
  refuse("'<f16'", "False", "(1,)", "'<f16'");
  refuse("'|O'", "False", "(1,)", "'|O'");
  refuse("[('a', '<f4')]", "False", "(1,)", "a dtype of bool, integers, f2, f4 or f8");
  refuse("'<f4'", "0", "(1,)", "'fortran_order'");
  refuse("'<f4'", "Falsehood", "(1,)", "'fortran_order'");
  refuse("'<f4'", "False", "(-1,)", "lengths of at least 0");
  refuse("'<f4'", "False", "(-1, -1)", "lengths of at least 0");
  refuse("'<f4'", "False", "(1)", "lengths of at least 0");
  refuse("'<f4'", "False", "(1 1)", "lengths of at least 0");
  refuse("'<f4'", "False", "(,)", "lengths of at least 0");
  refuse("'<f4'", "False", "1", "lengths of at least 0");
  refuse("'<f4'", "False", "(1.0,)", "lengths of at least 0");
  refuse("'<f4'", "False", "(99999999999999999999,)", "lengths of at least 0");
  refuse("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)", "at most 8 axes");
  refuse("'<f4'", "False", "(1,), 'shape': (1,)", "'shape'");
  refuse("'<f4'", "False", "(1,), 'more': 1", "'descr'");
  file.refuse(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False}", one_float), "'shape'");
  file.refuse(npy_bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), ", one_float),
              "'shape'");
  file.refuse(npy_bytes(1, dictionary("'<f4'", "False", "(1,)") + " more", one_float), "more");
  file.refuse(npy_bytes(1, "", one_float), "'shape'");
  file.refuse(npy_bytes(4, dictionary("'<f4'", "False", "(1,)"), one_float), "version 1.0");
  file.refuse(npy_bytes(0, dictionary("'<f4'", "False", "(1,)"), one_float), "version 1.0");
  file.refuse("\x93NUMPZ" + std::string(200, ' '), "the format .npy");
}

TEST_CASE("a shape that the file cannot hold is refused before memory is asked for") {
  const Written file;
  const std::int64_t asked = memory_statistics().large_blocks;
  for (const char* const shape :
       {"(2,)", "(0,)", "(1000000000000,)", "(9223372036854775807,)",
        "(4611686018427387904, 4611686018427387904)", "(4294967296, 4294967296)",
        "(9223372036854775807, 9223372036854775807, 9223372036854775807)",
        "(0, 9223372036854775807, 9223372036854775807)", "(2305843009213693952, 8)",
        "(1, 4611686018427387905)"})
    for (const char* const type : {"'|u1'", "'<f4'", "'<f8'"})
      for (const char* const order : {"True", "False"}) {
        INFO(shape << type << order);
        write_file(file.path, npy_bytes(1, dictionary(type, order, shape), one_float));
        CHECK_THROWS_AS(io::load_npy(file.path), IoError);
      }
  std::string long_header = npy_bytes(2, dictionary("'<f4'", "False", "(1,)"), one_float);
  for (const char* const length : {"\xff\xff\xff\xff", "\xff\xff\0\0", "\0\0\1\0"}) {
    write_file(file.path, long_header.replace(8, 4, length, 4));
    CHECK_THROWS_AS(io::load_npy(file.path), IoError);
  }
  CHECK(memory_statistics().large_blocks == asked);
}

TEST_CASE("bytes of a header cannot steer the terminal that prints the error") {
  const Written file;
  const std::string bad = "\x1b[31m\a\r\b\x7f\x9b\xc2\x9b";
  for (const std::string& header :
       {dictionary("'" + bad + "'", "False", "(1,)"), dictionary("'<f4'", bad, "(1,)"),
        dictionary("'<f4'", "False", bad), dictionary(bad, "False", "(1,)"), bad,
        dictionary("'" + std::string(1, '\0') + "'", "False", "(1,)")}) {
    write_file(file.path, npy_bytes(1, header, one_float));
    std::string text;
    try {
      io::load_npy(file.path);
    } catch (const IoError& error) {
      text = error.what();
    }
    INFO(text);
    CHECK(text.find("\\x") != text.npos);
    for (const char c : text) CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
  }
}

TEST_CASE("errors of headers show where reading ended, 64 bytes of it at most") {
  const Written file;
  const auto refuse = [&](const std::string& header, const std::string& part,
                          Caller caller = Caller::here()) {
    file.refuse(npy_bytes(1, header, one_float), part, caller);
  };
  // An entry without a key, and one with a key but no value, whatever follows.
  refuse("{: '<f4', }", "got ': '<f4', }'");
  refuse("{'descr' '<f4'}", "got ''<f4'}'");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': }", "got ' }'");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': }", "got ' }'");
  refuse("{'descr': '<f4', 'fortran_order': False, 'fortran_order': , 'shape': (1,)}", "got ' , ");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "got ''");
  refuse("{'descr': '<f4'; }", "got '; }'");
  refuse("{'descr: }", "'descr'");
  const std::string digits = "1234567890", many = digits + digits + digits + digits;
  const std::string shown = many + digits + digits + "1234";
  refuse("{" + many + many, "got '" + shown + "'");
  refuse("{'descr': '" + many + many + "', 'fortran_order': False, 'shape': (1,)}",
         "got dtype '" + shown + "'");
  refuse("{'descr': " + many + many + "}",
         "the name of a dtype, got ' " + shown.substr(0, 63) + "'");
  refuse("{'shape': (x" + many + many + "}", "got ' (x" + shown.substr(0, 61) + "'");
}

TEST_CASE("the length of a header has all its bytes, and 64 KiB are the most") {
  const Written file;
  const std::string header = dictionary("'<f4'", "False", "(1,)");
  for (const int version : {1, 2, 3})
    for (const std::size_t length : {header.size(), std::size_t{255}, std::size_t{256},
                                     std::size_t{300}, std::size_t{65'535}, std::size_t{65'536}}) {
      if (version == 1 && length > 65'535) continue;
      const std::string padded = header + std::string(length - header.size(), ' ');
      CHECK(file.read(npy_bytes(version, padded, one_float)).size() == 1);
    }
  file.refuse(npy_bytes(2, header + std::string(65'537 - header.size(), ' '), one_float),
              "at most 64 KiB, got 65537");
  // Each byte of the length in turn is too large.
  std::string bytes = npy_bytes(3, header, one_float);
  bytes[10] = '\2';
  file.refuse(bytes, "at most 64 KiB, got " + std::to_string((2 << 16) + header.size()));
  bytes[10] = '\0', bytes[11] = '\3';
  file.refuse(bytes, "at most 64 KiB, got " + std::to_string((3 << 24) + header.size()));
  bytes = npy_bytes(1, header, one_float);
  bytes[7] = '\4';
  file.refuse(bytes, "expected version 1.0, 2.0 or 3.0, got 1.4");
  bytes[6] = '\5';
  file.refuse(bytes, "got 5.4");
}

TEST_CASE("an empty shape of too many bytes is refused as well") {
  const Written file;
  for (const char* const shape :
       {"(0, 9223372036854775807, 9223372036854775807)", "(9223372036854775807, 0, 16)",
        "(0, 1152921504606846976)", "(576460752303423489, 0)"})
    for (const char* const order : {"True", "False"})
      file.refuse(npy_bytes(1, dictionary("'|u1'", order, shape), ""), "at most 2^58 bytes");
  CHECK(
      file.read(npy_bytes(1, dictionary("'|u1'", "True", "(0, 288230376151711744)"), "")).shape() ==
      Shape({0, 288230376151711744}));
}

TEST_CASE("every file that is written has its elements at a multiple of 64 bytes") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  std::vector<std::int64_t> lengths;
  for (int rank = 0; rank <= 8; ++rank) {
    for (const std::int64_t length : {1, 2, 10}) {
      std::vector<std::int64_t> shape = lengths;
      if (rank > 0) shape.back() = length;
      const Tensor x = full(Shape(shape), 7.0f, {.dtype = DType::float64});
      io::save_npy(path, x);
      const std::string bytes = contents(path);
      const std::size_t start = bytes.size() - static_cast<std::size_t>(8 * x.size());
      CHECK(start % 64 == 0);
      CHECK(bytes[start - 1] == '\n');
      CHECK(static_cast<std::size_t>(static_cast<unsigned char>(bytes[8])) == start - 10);
      CHECK(io::load_npy(path).shape() == x.shape());
    }
    lengths.push_back(2);
  }
}

TEST_CASE("a file may have the descriptor 0, and one that is not there is named with the reason") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const int input = dup(0);
  close(0);
  std::string trouble;
  Tensor read;
  try {
    io::save_npy(path, tensor({4, 5}));
    read = io::load_npy(path);
  } catch (const IoError& error) {
    trouble = error.what();
  }
  if (input >= 0) {
    dup2(input, 0);
    close(input);
  }
  CHECK(trouble.empty());
  CHECK(equal(read, tensor({4, 5})));
  check_refused<IoError>([&] { io::load_npy(folder.file("none.npy")); },
                         "expected a file to read, got No such file");
  check_refused<IoError>([&] { io::load_npy(path + "/x"); },
                         "expected a file to read, got Not a directory");
  check_refused<IoError>([&] { io::save_npy(folder.file("no/x.npy"), tensor(1)); },
                         "expected a folder that can be written to, got No such file");
}

TEST_CASE("bytes of a path cannot steer the terminal that prints the error") {
  const Written file;
  const std::string folder = file.path.substr(0, file.path.rfind('/') + 1);
  for (const std::string bad : {"\x1b[31m", "\a\r\b", "\n", "\x7f", "\x9b", "\xc2\x9b"}) {
    const std::string name = "a" + bad + "b", inner = folder + name;
    const auto check = [&](const detail::Function<void()>& f) {
      std::string text;
      try {
        f();
      } catch (const IoError& error) {
        text = error.what();
      }
      INFO(text);
      CHECK(text.find("\"a\\x") != text.npos);
      CHECK(std::count(text.begin(), text.end(), '\n') <= 2);
      for (const char c : text) CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
    };
    check([&] { io::load_npy(inner); });
    check([&] { io::load_npy(inner + std::string(1, '\0')); });
    check([&] { io::save_npy(inner + "/" + name, ones({2})); });
    check([&] { io::save_npy(inner + std::string(1, '\0'), ones({2})); });
    write_file(inner, "no .npy file");
    check([&] { io::load_npy(inner); });
    ::unlink(inner.c_str());
    ::mkdir(inner.c_str(), 0700);
    check([&] { io::load_npy(inner); });
    check([&] { io::save_npy(inner, ones({2})); });
    ::rmdir(inner.c_str());
  }
}

TEST_CASE("float16 is read from NumPy's bytes and written as them; NumPy has no bfloat16") {
  const Folder folder;
  const std::string path = folder.file("half.npy");
  const std::string elements("\x00\x3c\x66\x2e\xff\x7b\x01\x80", 8);
  write_file(path, npy_bytes(1, dictionary("'<f2'", "True", "(2, 2)"), elements));
  const Tensor x = io::load_npy(path);
  CHECK(x.dtype() == DType::float16);
  CHECK(x.to(DType::float32).to_vector<float>() ==
        std::vector<float>{1, 65504, 0.0999755859375f, -0x1p-24f});
  io::save_npy(path, x);
  const std::string written = contents(path);
  CHECK(written.find("'descr': '<f2'") != std::string::npos);
  CHECK(written.substr(written.size() - 8) == std::string("\x00\x3c\xff\x7b\x66\x2e\x01\x80", 8));
  CHECK_THROWS_AS(io::save_npy(path, x.to(DType::bfloat16)), DTypeError);
}

TEST_CASE("a .npy header lacks no key, and its length is that of the file") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const auto refuse = [&](const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_npy(path, caller); }, part, caller);
  };
  refuse(npy_bytes(1, "{'descr': '|u1', 'shape': (1,)}", "\5"),
         "a header of 'descr', 'fortran_order' and 'shape'");
  refuse(npy_bytes(1, "{'fortran_order': False, 'shape': (1,)}", "\5"),
         "a header of 'descr', 'fortran_order' and 'shape'");
  for (const int version : {1, 2}) {
    const std::string whole = npy_bytes(version, dictionary("'|u1'", "False", "(1,)"), "");
    refuse(whole.substr(0, whole.size() - 1), "expected a whole header, got the end of the file");
  }
  refuse(std::string("abcd\0\0\0\0xyz", 11), "expected the format .npy, got something else");
}

TEST_CASE("a file that ends before its size is refused") {
  // Files of the system say that they have a page, and give less.
  const std::string path = "/sys/devices/system/cpu/online";
  if (!std::filesystem::exists(path) || std::filesystem::file_size(path) <= contents(path).size())
    SKIP("the system has no such file");
  check_refused<IoError>([&] { io::load_npy(path); },
                         "expected a whole file, got the end of the file");
}
}  // namespace reel::tests
