// SPDX-License-Identifier: BSD-3-Clause
// What readers give, and that it is the same from each of their places on.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reel/data.hpp>
#include <reel/error.hpp>

#include "io/damage.hpp"
#include "io/folder.hpp"
#include "support/catch.hpp"

namespace reel::tests {
/// All elements. An error is counted and skipped.
template <class T>
std::vector<T> read_all(data::Reader<T>& reader, int* errors = nullptr) {
  std::vector<T> all;
  while (true) try {
      T element{};
      if (!reader.next(element)) return all;
      all.push_back(std::move(element));
    } catch (const IoError&) {
      if (!errors) throw;
      ++*errors;
    }
}
/// The text of an element, by which elements are compared.
inline std::string text_of(const std::string& text) { return text; }  // others: in reel::data

template <class T>
using Open = std::function<Owned<data::Reader<T>>(std::vector<std::string>, data::Place)>;

/// Checks that a reader that is opened at the place of an element goes on with this element.
template <class T>
void check_places(const Open<T>& open, const std::vector<std::string>& files) {
  std::vector<std::string> all;
  std::vector<data::Place> places;
  const auto reader = open(files, {});
  T element{};
  for (places.push_back(reader->place()); reader->next(element); places.push_back(reader->place()))
    all.push_back(text_of(element));
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::vector<std::string> rest;
    const auto again = open(files, places[i]);
    while (again->next(element)) rest.push_back(text_of(element));
    REQUIRE(rest ==
            std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()));
  }
}

/// Calls check(path) for a file that is cut at each length, and for files with random damage.
inline void each_damaged(const std::string& whole, const std::vector<std::string>& pieces,
                         int count, const std::function<void(const std::string&)>& check) {
  const Folder folder;
  const std::string path = folder.file("x");
  const auto check_bytes = [&](const std::string& bytes) {
    write_file(path, bytes);
    check(path);
  };
  for (std::size_t length = 0; length <= whole.size(); ++length)
    check_bytes(whole.substr(0, length));
  Random random(7);
  for (int i = 0; i < count; ++i) {
    std::string file = whole;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) damage(file, random, pieces);
    check_bytes(file);
  }
}
/// An error has a short first line, which is printable.
inline void check_text(const IoError& error) {
  const std::string text = error.what();
  REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
  REQUIRE(text.find('\x1b') == text.npos);
}
/// Reads damaged files. A reader gives elements or IoErrors, and ends.
template <class T>
void fuzz(const Open<T>& open, const std::string& whole, const std::vector<std::string>& pieces,
          int count = 1500) {
  int read = 0;
  each_damaged(whole, pieces, count, [&](const std::string& path) {
    const auto reader = open({path}, {});
    T element{};
    const std::size_t most = contents(path).size() + 1;
    for (std::size_t step = 0;; ++step) {
      REQUIRE(step <= most);
      try {
        if (!reader->next(element)) return;
        ++read;
      } catch (const IoError& error) {
        check_text(error);
        REQUIRE(!reader->where().empty());
      }
    }
  });
  CHECK(read > 0);
}
/// The same of a function that reads a whole file.
inline void fuzz_whole(const std::function<void(const std::string&)>& read,
                       const std::string& whole, const std::vector<std::string>& pieces,
                       int count = 1500) {
  int refused = 0;
  each_damaged(whole, pieces, count, [&](const std::string& path) {
    try {
      read(path);
    } catch (const IoError& error) {
      ++refused;
      check_text(error);
    }
  });
  CHECK(refused > 0);
}
}  // namespace reel::tests
