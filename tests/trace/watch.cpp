// SPDX-License-Identifier: BSD-3-Clause
// The watch of a function's state: which bytes it compares, and what it reports of changed bytes.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/body/live.hpp"
#include "lib/flow/context.hpp"
#include "trace/watched.hpp"

namespace reel::tests {
TEST_CASE("the watch names the byte that changed, up to eight pointers away") {
  if (sanitized) return;
  const Kept<std::array<Node, 1>> root;
  std::array<Kept<Node>, 9> chain;
  (*root)[0].next = &*chain[0];
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) chain[i]->next = &*chain[i + 1];
  std::string path;
  CHECK(watched(*root, [&] { (*root)[0].n += 5; }).text ==
        "byte 8 of the function object: before 0, now 0x5");
  for (std::size_t i = 0; i < chain.size(); ++i) {
    INFO(i + 1 << " pointers");
    path += i ? " behind the pointer at byte 0" : " behind the pointer at byte 0";
    watched(*root, [&] { chain[i]->n += 3; });
    CHECK(said.text ==
          (i < 8 ? "byte 8" + path + " of the function object: before 0, now 0x3" : ""));
    if (i == 0 || i == 8) {
      CHECK(said.doubtful.empty());
    } else {
      REQUIRE(said.doubtful.size() == 1);
      CHECK(said.doubtful[0].at == address(&chain[i]->n));
      CHECK(said.doubtful[0].bytes == 8);
      CHECK(said.doubtful[0].value == 3);
    }
    watched(*root, [] {});
    CHECK(said.text.empty());
    CHECK(said.doubtful.empty());
  }
  // If there is a certain change, it reports that change alone.
  watched(*root, [&] { ++chain[4]->n, ++chain[0]->n, ++chain[6]->n; });
  CHECK(said.text ==
        "byte 8 behind the pointer at byte 0 of the function object: before 0x3, now 0x4");
  CHECK(said.doubtful.empty());
  // If all changes are doubtful, it reports each changed word.
  watched(*root, [&] { ++chain[4]->n, ++chain[6]->n; });
  CHECK(said.doubtful.size() == 2);
}

TEST_CASE("a watch is used again for another call") {
  if (sanitized) return;
  const Kept<std::array<Node, 1>> root;
  const Kept<Node> first, second;
  (*root)[0].next = &*first;
  first->next = &*second;
  StateWatch watch;
  for (int round = 0; round < 3; ++round) {
    watch.add(&*root, sizeof *root);
    watch.exclude(&*first + (round == 1), 1);  // once including its first byte
    watch.begin();
    second->n += 1;
    const std::string change = watch.change();
    CHECK(change.empty() == (round != 1));
    CHECK(watch.doubtful().size() == (round == 1));
    watch.clear();
    CHECK(watch.doubtful().empty());
  }
}

TEST_CASE("the bytes of an object are watched, and none beside them") {
  if (sanitized) return;
  // Words change at addresses that earlier held words of other objects.
  for (const std::size_t bytes : {1u, 3u, 5u, 8u, 12u, 15u, 64u, 4'000u, 5'000u, 20'000u}) {
    const Kept<std::array<unsigned char, 24'000>> memory;
    memory->fill(0xee);
    unsigned char* const first = memory->data() + 96;
    const auto changed = [&](std::size_t at) {
      return watched(
          first, bytes, [&] { first[at] ^= 0x11; },
          [&](StateWatch& watch) { watch.add(memory->data(), 64); });
    };
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) {
      INFO(bytes << " bytes, " << at);
      changed(at);
      const std::size_t step = std::min<std::size_t>(8, bytes), start = at - at % step;
      std::uint64_t was = 0, is = 0;
      std::memcpy(&is, first + start, std::min<std::size_t>(8, bytes - start));
      first[at] ^= 0x11;
      std::memcpy(&was, first + start, std::min<std::size_t>(8, bytes - start));
      char values[64];
      std::snprintf(values, sizeof values, "before %#llx, now %#llx",
                    static_cast<unsigned long long>(was), static_cast<unsigned long long>(is));
      CHECK(said.text ==
            "byte " + std::to_string(start) + " of the function object: " + std::string(values));
    }
    CHECK(changed(bytes).text == nothing);
    CHECK(changed(bytes + 4'096).text == nothing);
  }
  const Kept<std::array<int, 4>> object;
  CHECK(watched(&*object, 0, [&] { ++(*object)[0]; }).text == nothing);
}

TEST_CASE("the value of a word in words has no bytes of others") {
  if (sanitized) return;
  const Kept<std::array<unsigned char, 64>> large;
  const Kept<std::array<unsigned char, 64>> small;
  large->fill(0xff);
  watched(
      &*small, 12, [&] { (*large)[9] = (*small)[9] = 1; },
      [&](StateWatch& watch) {
        watch.exclude(&*large, 64);
        watch.add(&*large, 64);
      });
  CHECK(said.text == "byte 8 of the function object: before 0, now 0x100");
  // The same if the larger object was compared first.
  StateWatch watch;
  watch.add(&*large, 64);
  watch.add(&*small, 12);
  watch.exclude(&*large, 64);
  watch.begin();
  (*large)[9] = 7, (*small)[9] = 3;
  CHECK(watch.change() == "byte 8 of the function object: before 0x100, now 0x300");
}

TEST_CASE("excluded memory is no state, and what lies beside it is") {
  if (sanitized) return;
  const Kept<std::array<unsigned char, 512>> object;
  struct Range {
    std::size_t first, bytes;
  };
  // Unsorted ranges. Some overlap, touch, or contain others.
  const std::vector<Range> ranges = {{400, 16}, {64, 32}, {100, 50}, {110, 5}, {96, 4}, {140, 40},
                                     {300, 1},  {10, 30}, {305, 2},  {12, 2},  {60, 1}};
  const auto inside = [&](std::size_t at) {
    for (const Range& range : ranges)
      if (at >= range.first && at < range.first + range.bytes) return true;
    return false;
  };
  for (std::size_t at = 0; at < 512; ++at) {
    watched(
        &*object, 512, [&] { ++(*object)[at]; },
        [&](StateWatch& watch) {
          for (const Range& range : ranges)
            watch.exclude(object->data() + range.first, range.bytes);
        });
    INFO(at << said.text);
    CHECK(said.text.empty() == inside(at));
  }
  // A thread without tensors excludes nothing.
  std::thread([&] { CHECK(watched(*object, [&] { ++(*object)[3]; }).text.size() > 10); }).join();
}

TEST_CASE("what excluded memory leads to is state only where other pointers lead there") {
  if (sanitized) return;
  const Kept<std::array<void*, 2>> object;
  const std::array<Kept<Node>, 2> two;
  const bool up = address(&*two[0]) < address(&*two[1]);
  const Kept<Node>&low = two[!up], &known = two[up];
  const Kept<Node> other, far;
  known->next = other->next = &*far;
  (*object)[0] = &*known;
  const auto exclude = [&](StateWatch& watch) {  // the ranges are not sorted
    watch.exclude(&*known, sizeof(Node));
    watch.exclude(&*low, sizeof(Node));
  };
  CHECK(watched(
            &*object, 16, [&] { ++far->n; }, exclude)
            .text == nothing);
  (*object)[1] = &*other;
  CHECK(watched(
            &*object, 16, [&] { ++far->n; }, exclude)
            .text ==
        "byte 8 behind the pointer at byte 0 behind the pointer at byte 8 of the function object: "
        "before 0x1, now 0x2");
  // An excluded pointer is not followed, but the pointer next to it is.
  const auto only_first = [&](StateWatch& watch) { watch.exclude(&(*object)[0], 8); };
  CHECK(watched(
            &*object, 16, [&] { ++known->n; }, only_first)
            .text == nothing);
  CHECK(watched(
            &*object, 16, [&] { ++other->n; }, only_first)
            .text.size() > 10);
  CHECK(watched(&*object, 16, [&] { ++known->n; }).text.size() > 10);
}

TEST_CASE("tensors and Variables are known, and memory that only looks like a tensor is not",
          "[cpu]") {
  if (sanitized) return;
  const Kept<std::array<void*, 2>> object;
  for (const std::int64_t length : {1'600, 100'000}) {
    // An address far inside of the elements of a tensor.
    const Tensor x = full({length}, 1.0f);
    const Body& body = *Access::body(x);
    float* const element = body.as<float>() + 1'400;
    (*object)[0] = element;
    const auto known = [&](StateWatch& watch) { watch.exclude(body); };
    CHECK(watched(
              &*object, 16, [&] { ++element[1]; }, known)
              .text == nothing);
    CHECK(watched(&*object, 16, [&] { ++element[1]; }).text.size() > 10);
  }
  Variable w("w", ones({3}));
  const Run assign = [&] { w.assign(full({3}, 2.0f)); };
  CHECK(watched(&w, sizeof w, assign, [&](StateWatch& watch) { watch.exclude(w); }).text ==
        nothing);

  // The block of a destroyed tensor is used for another tensor.
  Tensor gone = ones({7});
  (*object)[0] = Access::body(gone);
  gone = Tensor();
  Tensor next;
  CHECK(watched(*object, [&] { next = full({7}, 2.0f); }).text == nothing);
  CHECK(Access::body(next) == (*object)[0]);

  constexpr std::size_t bytes = small_classes * block_unit, unit = 64;
  auto* const copy = static_cast<std::byte*>(std::aligned_alloc(unit, bytes));
  Body& body = *reinterpret_cast<Body*>(copy);
  const auto looks = [&](const Tensor& as, const std::function<void()>& change,
                         std::size_t offset = 0) {
    std::memset(copy, 0, bytes);
    std::memcpy(copy, Access::body(as), sizeof(Body));
    body.data = copy + body_bytes;
    change();
    if (offset) std::memmove(copy + offset, copy, sizeof(Body));
    (*object)[0] = copy + offset;
    return watched(*object, [&] { copy[offset + 32] ^= std::byte{1}; }).text.empty();
  };
  const Tensor x = ones({2, 3}), empty = zeros({0, 3}),
               whole = zeros({3, 1}, {.dtype = DType::int64});
  CHECK(looks(x, [] {}));
  CHECK(looks(empty, [] {}));
  CHECK(looks(whole, [] {}));
  CHECK(looks(x, [&] { body.device_kind = live_number; }));
  CHECK(looks(x, [&] { body.data = nullptr, body.owner = Access::body(x); }));
  CHECK(looks(x, [&] { body.data = nullptr, body.large_class = 9; }));
  CHECK(looks(x, [&] { body.block_class = body_bytes / block_unit; }));
  CHECK(looks(x, [&] { body.block_class = small_classes - 1; }));
  const std::size_t rank = offsetof(Body, shape) + sizeof(Shape) - sizeof(std::size_t);
  CHECK_FALSE(looks(x, [&] { body.references = 0; }));
  CHECK_FALSE(looks(x, [&] { copy[offsetof(Body, dtype)] = std::byte{16}; }));
  CHECK_FALSE(looks(x, [&] { copy[offsetof(Body, contiguous)] = std::byte{2}; }));
  CHECK_FALSE(looks(x, [&] { body.device_kind = 2; }));
  CHECK_FALSE(looks(x, [&] { copy[rank] = std::byte{9}; }));
  // with this change the body has 2 elements
  CHECK_FALSE(looks(x, [&] { copy[rank] = std::byte{1}; }));
  CHECK_FALSE(looks(x, [&] { body.shape.data()[0] = -2, body.elements = -6; }));
  CHECK_FALSE(looks(x, [&] {
    body.shape.data()[0] = std::int64_t{1} << 62, body.shape.data()[1] = 4, body.elements = 0;
  }));
  CHECK_FALSE(looks(x, [&] { body.elements = 7; }));
  CHECK_FALSE(looks(x, [&] { body.data = copy; }));
  CHECK_FALSE(looks(x, [&] { body.block_class = body_bytes / block_unit - 1; }));
  CHECK_FALSE(looks(x, [&] { body.block_class = small_classes; }));
  CHECK_FALSE(looks(
      x, [&] { body.data += 16; }, 16));  // tensors begin at multiples of 64
  // A block of 40 bytes in what was the block of a tensor. The sizes are in front of each block.
  const auto is_small = [&] {
    const std::size_t size = 49, next_size = 33;
    body.data += 256;
    std::memcpy(copy + 248, &size, sizeof size);
    std::memcpy(copy + 40, &next_size, sizeof next_size);
  };
  CHECK(looks(x, is_small, 256) == sanitized);
  std::free(copy);
}

TEST_CASE("pointers are found at multiples of eight, wherever the object begins") {
  if (sanitized) return;
  const Kept<std::array<std::byte, 128>> memory;
  const Kept<Node> target;
  for (std::size_t shift = 0; shift < 16; ++shift) {
    memory->fill(std::byte{});
    void* const at = &*target;
    std::memcpy(memory->data() + 48, &at, 8);
    CHECK(watched(memory->data() + shift, 100, [&] { ++target->n; })
              .text.find("byte 8 behind the pointer at byte " + std::to_string(48 - shift) +
                         " of the function object: ") == 0);
  }
  // The last word of an object, and a word that lacks a byte.
  CHECK(watched(memory->data(), 56, [&] { ++target->n; }).text.size() > 10);
  CHECK(watched(memory->data(), 55, [&] { ++target->n; }).text == nothing);
}

TEST_CASE("of a vector its elements are state, and its spare memory is not") {
  if (sanitized) return;
  struct Object {
    std::vector<int> numbers;
    int* behind = nullptr;
  };
  const Kept<Object> object;
  const Kept<std::array<int, 6>> counter;
  object->numbers.reserve(64);
  object->numbers = {1, 2, 3};
  object->behind = counter->data();
  int* const first = object->numbers.data();
  CHECK(watched(*object, [&] { ++first[2]; }).text ==
        "byte 8 behind the pointer at byte 0 of the function object: before 0x3, now 0x4");
  CHECK(watched(*object, [&] { ++first[3], ++first[63]; }).text == nothing);
  CHECK(watched(*object, [&] { ++(*counter)[0]; }).text.size() > 10);
  CHECK(watched(*object, [&] { object->numbers.push_back(1); }).text.size() > 10);
  object->numbers.clear();
  CHECK(watched(*object, [&] { ++first[0]; }).text == nothing);
  CHECK(watched(*object, [&] { ++(*counter)[5]; }).text.size() > 10);
  object->numbers = {};
  object->numbers.shrink_to_fit();

  // A block of pointers is full and three pointers away. Its last word is a pointer too.
  struct Lists {
    std::array<void*, 2> other = {};
    std::vector<int*> list;
  };
  const Kept<Node> root;
  const Kept<std::array<void*, 2>> between;
  const Kept<Lists> lists;
  std::array<Kept<int>, 3> targets;
  root->next = &*between;
  (*between)[0] = &*lists;
  lists->list.reserve(3);
  for (const auto& target : targets) lists->list.push_back(&*target);
  REQUIRE(malloc_usable_size(lists->list.data()) == 24);
  for (const auto& target : targets) CHECK(watched(*root, [&] { ++*target; }).text.size() > 10);
  lists->list = {};
  lists->list.shrink_to_fit();
}

TEST_CASE("the letters of a text are no pointers") {
  if (sanitized) return;
  struct Object {
    std::string text;
    Node* behind = nullptr;
  };
  const Kept<Object> object;
  const Kept<Node> first, second, behind;
  object->behind = &*behind;
  const auto spell = [](const auto&... nodes) {
    std::string text;
    (text.append(reinterpret_cast<const char*>(&nodes), 8), ...);
    return text;
  };
  Node* const at = &*first;
  object->text = spell(at).substr(0, 8);
  REQUIRE(address(object->text.data()) == address(&*object) + 16);
  CHECK(watched(*object, [&] { ++first->n; }).text == nothing);
  CHECK(watched(*object, [&] { ++behind->n; }).text ==
        "byte 8 behind the pointer at byte 32 of the function object: before 0, now 0x1");
  // A long string is stored elsewhere. Then the place of a short string holds old content.
  object->text = std::string(30, 'x');
  Node* const stale = &*second;
  std::memcpy(object.bytes + 24, &stale, 8);
  CHECK(watched(*object, [&] { ++second->n; }).text == nothing);
  CHECK(watched(*object, [&] { ++behind->n; }).text.size() > 10);
  CHECK(watched(*object, [&] { object->text[29] = 'y'; }).text.size() > 10);
  // The block of a long string may hold old content behind the text. A string may have zeros in it.
  object->text = std::string(41, 'x');
  object->text.shrink_to_fit();
  REQUIRE(malloc_usable_size(object->text.data()) >= 56);
  std::memcpy(object->text.data() + 48, &stale, 8);
  CHECK(watched(*object, [&] { ++second->n; }).text == nothing);
  CHECK(watched(*object, [&] { ++behind->n; }).text.size() > 10);
  CHECK(watched(*object, [&] { object->text[40] = 'y'; }).text.size() > 10);
  object->text[40] = '\0';
  CHECK(watched(*object, [&] { ++second->n; }).text.size() > 10);
  object->text = {};
  object->text.shrink_to_fit();
  // A matrix is no string, though its first number looks like a text of eight letters.
  struct Matrix {
    double* numbers;
    std::size_t rows = 8, columns = 8;
    Node* next;
  };
  std::vector<double> numbers(64);
  numbers[0] = 0.1;
  const Kept<Matrix> matrix;
  matrix->numbers = numbers.data();
  matrix->next = &*behind;
  CHECK(watched(*matrix, [&] { ++numbers[63]; }).text.find("byte 504 behind") == 0);
  CHECK(watched(*matrix, [&] { ++behind->n; }).text.size() > 10);
  // Adjacent pointers are no string.
  const Kept<std::array<Node*, 6>> pointers;
  std::array<Kept<Node>, 6> nodes;
  for (std::size_t i = 0; i < 6; ++i) (*pointers)[i] = &*nodes[i];
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(watched(*pointers, [&] {
            ++nodes[i]->n;
          }).text.find("byte 8 behind the pointer at byte " + std::to_string(8 * i)) == 0);
}
}  // namespace reel::tests
