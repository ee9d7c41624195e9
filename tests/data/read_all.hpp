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

/// Reads a file that is cut at each length, and files with random damage. A reader gives elements
/// or IoErrors, ends, and each error is printable.
template <class T>
void fuzz(const Open<T>& open, const std::string& whole, const std::vector<std::string>& pieces,
          int count = 1500) {
  const Folder folder;
  const std::string path = folder.file("x");
  int read = 0, refused = 0;
  const auto check = [&](const std::string& bytes) {
    write_file(path, bytes);
    const auto reader = open({path}, {});
    T element{};
    for (std::size_t step = 0;; ++step) {
      REQUIRE(step <= bytes.size() + 1);
      try {
        if (!reader->next(element)) return;
        ++read;
      } catch (const IoError& error) {
        ++refused;
        const std::string text = error.what();
        REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
        REQUIRE(text.find('\x1b') == text.npos);
        REQUIRE(!reader->where().empty());
      }
    }
  };
  for (std::size_t length = 0; length <= whole.size(); ++length) check(whole.substr(0, length));
  Random random(7);
  for (int i = 0; i < count; ++i) {
    std::string file = whole;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) damage(file, random, pieces);
    check(file);
  }
  CHECK(read > 0);
}
/// The same of a function that reads a whole file.
inline void fuzz_whole(const std::function<void(const std::string&)>& read,
                       const std::string& whole, const std::vector<std::string>& pieces,
                       int count = 1500) {
  const Folder folder;
  const std::string path = folder.file("x");
  int refused = 0;
  const auto check = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      read(path);
    } catch (const IoError& error) {
      ++refused;
      const std::string text = error.what();
      REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
      REQUIRE(text.find('\x1b') == text.npos);
    }
  };
  for (std::size_t length = 0; length <= whole.size(); ++length) check(whole.substr(0, length));
  Random random(7);
  for (int i = 0; i < count; ++i) {
    std::string file = whole;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n) damage(file, random, pieces);
    check(file);
  }
  CHECK(refused > 0);
}
}  // namespace reel::tests
