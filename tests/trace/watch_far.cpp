// SPDX-License-Identifier: BSD-3-Clause
// The watch of a function's state behind pointers: which objects pointers lead to, and which
// changes only show that memory is used for something else.
#include <malloc.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "trace/watched.hpp"

namespace reel::tests {
namespace {
/// An object that leads to `last` through this number of pointers.
class Chain {
 public:
  Chain(int pointers, void* last) {
    for (int i = 1; i < pointers; ++i) {
      nodes_.emplace_back();
      nodes_.back()->next = last;
      last = &*nodes_.back();
    }
    first_->next = last;
  }
  const Node& operator*() const { return *first_; }

 private:
  Kept<Node> first_;
  std::list<Kept<Node>> nodes_;
};
/// Two adjacent blocks of malloc().
struct Neighbours {
  explicit Neighbours(std::size_t bytes) {
    const std::size_t each = (bytes + 8 + 15) / 16 * 16;
    while (!second && all.size() < 100'000) {
      std::byte* const last = all.empty() ? nullptr : all.back();
      all.push_back(static_cast<std::byte*>(std::malloc(bytes)));
      if (last && all.back() == last + each) first = last, second = all.back();
    }
    REQUIRE(second);
    std::memset(first, 0, bytes), std::memset(second, 0, bytes);
  }
  ~Neighbours() {
    for (std::byte* const one : all) std::free(one);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  void free_first() {
    std::erase(all, first);
    std::free(first);
  }
  std::byte *first = nullptr, *second = nullptr;
  std::vector<std::byte*> all;
};
/// Writes into the unused start of a deque's table what free() writes into a block without a key.
void look_free(std::deque<void*>& queue) {
  void** table = nullptr;
  std::memcpy(&table, &queue, sizeof table);
  const std::unique_ptr<void, void (*)(void*)> other(std::malloc(malloc_usable_size(table)),
                                                     std::free);
  const std::uintptr_t next = address(other.get()) - 16, mixed = next ^ address(table) >> 12;
  table[0] = reinterpret_cast<void*>(mixed), table[1] = &queue;
}
/// Whether the watch finds the change in an object behind this number of pointers.
bool finds(int pointers, void* object, const Run& run) {
  const Chain chain(pointers, object);
  return !watched(*chain, run).text.empty();
}
}  // namespace

TEST_CASE("pointers are followed so far into objects as the guide says") {
  if (sanitized) return;
  const Kept<Node> target;
  const Kept<std::array<void*, 1'000>> object;
  const auto follows = [&](int pointers, std::size_t byte) {
    object->fill(nullptr);
    (*object)[byte / 8] = &*target;
    return finds(pointers, &*object, [&] { ++target->n; });
  };
  for (const std::size_t byte : {0u, 8u, 504u, 512u, 2'048u, 4'088u}) CHECK(follows(1, byte));
  CHECK_FALSE(follows(1, 4'096));
  for (const int pointers : {2, 3, 7}) {
    for (const std::size_t byte : {0u, 8u, 496u, 504u}) CHECK(follows(pointers, byte));
    CHECK_FALSE(follows(pointers, 512));
  }
  CHECK_FALSE(follows(8, 0));
}

TEST_CASE("objects are watched so far as the guide says") {
  if (sanitized) return;
  constexpr std::size_t most = std::size_t{256} << 10;
  std::vector<char> large(most + 4'096);
  for (const int pointers : {1, 2, 5}) {
    const Kept<std::array<void*, 2>> object;  // it does not say where the elements end
    (*object)[0] = large.data() - 16;
    for (const std::size_t byte : {std::size_t{0}, most / 2, most - 1}) {
      INFO(pointers << " pointers, " << byte);
      CHECK(finds(pointers, large.data(), [&] { ++large[byte]; }));
    }
    CHECK_FALSE(finds(pointers, large.data(), [&] { ++large[most + 8]; }));
  }
  // On the stack: behind one pointer, and behind two.
  std::array<std::int64_t, 1'500> here = {};
  for (const std::size_t i : {0u, 100u, 1'000u, 1'023u})
    CHECK(finds(1, here.data(), [&] { ++here[i]; }));
  CHECK_FALSE(finds(1, here.data(), [&] { ++here[1'024]; }));
  for (const std::size_t i : {0u, 8u, 60u, 63u}) CHECK(finds(2, here.data(), [&] { ++here[i]; }));
  CHECK_FALSE(finds(2, here.data(), [&] { ++here[64]; }));
  for (const int pointers : {3, 8}) {
    CHECK(finds(pointers, here.data(), [&] { ++here[7]; }));
    CHECK_FALSE(finds(pointers, here.data(), [&] { ++here[8]; }));
  }
}

TEST_CASE("statics, shared objects and what is inside of objects are found behind pointers") {
  if (sanitized) return;
  static std::int64_t counter = 0;
  CHECK(finds(1, &counter, [] { ++counter; }));
  CHECK(finds(2, &counter, [] { ++counter; }));
  const auto shared = std::make_shared<std::array<std::int64_t, 3>>();
  for (const int pointers : {1, 2, 3, 8})
    for (const std::size_t i : {0u, 2u}) {
      INFO(pointers << ' ' << i);
      CHECK(finds(pointers, shared->data(), [&] { ++(*shared)[i]; }));
    }
  const Kept<std::array<std::int64_t, 40>> object;
  for (const int pointers : {1, 2}) {
    CHECK(finds(pointers, &(*object)[17], [&] { ++(*object)[17]; }));
    CHECK(finds(pointers, &(*object)[17], [&] { ++(*object)[24]; }));
    CHECK_FALSE(finds(pointers, &(*object)[17], [&] { ++(*object)[16]; }));
  }
  // A number that is no multiple of four counts as an address only in the function object itself.
  const auto* const odd = object->data();
  auto* const inside = reinterpret_cast<char*>(const_cast<std::int64_t*>(odd)) + 13;
  CHECK(finds(1, inside, [&] { ++*inside; }));
  CHECK_FALSE(finds(2, inside, [&] { ++*inside; }));
  CHECK(finds(2, inside - 1, [&] { ++*inside; }));
}

TEST_CASE("a pointer in the last word of a block is followed, except in a Variable's cell") {
  if (sanitized) return;
  const Kept<Node> target;
  // malloc() may give a longer block, where the rest would be too short for another one.
  struct Full {
    std::int64_t n = 0;
    void *before = nullptr, *last = nullptr;
  };
  std::list<Kept<Full>> objects(1);
  while (malloc_usable_size(&*objects.back()) != sizeof(Full)) objects.emplace_back();
  const Kept<Full>& full = objects.back();
  void* const at = &*target;
  full->last = at;
  const Run run = [&] { ++target->n; };
  for (const int pointers : {1, 2, 3, 7}) {
    CHECK(finds(pointers, &*full, run));
    CHECK(finds(pointers, &*full, [&] { ++full->n; }));
  }
  // In a Variable's cell the word leads to the path of the Variable, which is no state.
  std::list<Variable> variables;
  std::byte* cell = nullptr;
  do {
    variables.emplace_back("w", ones({2}));
    cell = reinterpret_cast<std::byte*>(&Access::cell(variables.back()));
  } while (malloc_usable_size(cell) != tracing::cell_block_bytes);
  std::byte* const last = cell + tracing::cell_block_bytes - 8;
  std::memcpy(last, &at, 8);
  CHECK_FALSE(finds(1, cell, run));
  std::memset(last, 0, 8);
  // In another object of the same size the word leads to state.
  const Kept<std::array<void*, tracing::cell_block_bytes / 8>> object;
  object->back() = at;
  CHECK(finds(1, &*object, run));
  (*object)[1] = &*target;
  CHECK(finds(1, &*object, run));
}

TEST_CASE("a pointer that turns elsewhere is no state far away, a number and an end are") {
  if (sanitized) return;
  struct Words {
    std::array<std::int64_t, 6> word = {};
  };
  const Kept<Words> words;
  const Kept<std::array<std::int64_t, 12>> there;
  const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(address(&(*there)[i])); };
  const auto turns = [&](std::size_t i, std::int64_t from, std::int64_t to) {
    words->word[i] = from;
    return finds(2, &*words, [&] { words->word[i] = to; });
  };
  for (const std::size_t i : {0u, 1u, 3u, 5u}) {
    *words = {};
    INFO("word " << i);
    CHECK(turns(i, 0, 1));
    CHECK(turns(i, 5'000, 7));
    CHECK(turns(i, -1, 3));
    CHECK(turns(i, 1, std::int64_t{1} << 47));
    CHECK_FALSE(turns(i, at(0), at(1)));
    CHECK_FALSE(turns(i, at(0), 0));
    CHECK_FALSE(turns(i, 0, at(1)));
    CHECK_FALSE(turns(i, at(0), 3));
  }
  // A count of four bytes, next to the rest of an old address, may look like the address of mapped
  // memory.
  const auto page = address(std::aligned_alloc(4096, 8192));
  const auto low = static_cast<std::int64_t>(page);
  for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 9})
    CHECK(turns(2, low + count, low + count + 1));
  std::free(reinterpret_cast<void*>(page));
  REQUIRE(finds(2, &*words, [&] { words->word[5] = 1; }));
  CHECK(said.doubtful.size() == 1);
  CHECK(said.doubtful[0].at == address(&words->word[5]));
  CHECK(said.doubtful[0].value == 1);
  for (const std::size_t i : {1u, 2u, 4u}) {
    // The end of a vector's elements moves between the start and the end of its memory.
    *words = {};
    INFO("word " << i);
    words->word[i - 1] = at(2), words->word[i + 1] = at(8);
    CHECK(turns(i, at(3), at(5)));
    CHECK(turns(i, at(2), at(8)));
    CHECK(turns(i, at(8), at(2)));
    CHECK_FALSE(turns(i, at(3), at(9)));
    CHECK_FALSE(turns(i, at(1), at(5)));
    CHECK_FALSE(turns(i, at(3), at(1)));
    words->word[i - 1] = 0;
    CHECK_FALSE(turns(i, at(3), at(5)));
    words->word[i - 1] = at(2), words->word[i + 1] = 0;
    CHECK_FALSE(turns(i, at(3), at(5)));
    words->word[i + 1] = at(8), words->word[i] = at(3);
    CHECK_FALSE(finds(2, &*words, [&] { words->word[i - 1] = at(1), words->word[i] = at(4); }));
    words->word[i - 1] = at(2), words->word[i] = at(3);
    CHECK_FALSE(finds(2, &*words, [&] { words->word[i + 1] = at(9), words->word[i] = at(4); }));
  }
}

TEST_CASE("containers that grow are state at any distance") {
  if (sanitized) return;
  struct Object {
    std::int64_t tag = 0;
    std::vector<std::int64_t> list;
    std::deque<std::int64_t> queue = std::deque<std::int64_t>(5);
    std::map<int, int> table;
  };
  const Kept<Object> object;
  object->list.reserve(100);
  for (const int pointers : {1, 2, 3}) {
    CHECK(finds(pointers, &*object, [&] { object->list.push_back(1); }));
    CHECK(finds(pointers, &*object, [&] { object->queue.push_back(1); }));
    CHECK(finds(pointers, &*object, [&] { object->queue.pop_front(); }));
    CHECK(finds(pointers, &*object, [&] { object->table[pointers] = 1; }));
    CHECK(finds(pointers, &*object, [&] { ++object->queue[2]; }));
  }
  std::destroy_at(&*object);
  new (&*object) Object();
}

TEST_CASE("a vector that moves to a larger block is state") {
  if (sanitized) return;
  const Kept<std::vector<std::int64_t>> object;
  object->push_back(0);
  for (const int pointers : {2, 3, 7})
    for (int i = 0; i < (std::getenv("REEL_TEST_LONG") ? 100 : 25); ++i)
      CHECK(finds(pointers, &*object, [&] {
        object->push_back(i);
        object->shrink_to_fit();
      }));
  std::destroy_at(&*object);
  new (&*object) std::vector<std::int64_t>();
}

TEST_CASE("a vector that gets its first block, or loses its block, is state") {
  if (sanitized) return;
  for (const int pointers : {2, 3, 7}) {
    const Kept<std::vector<std::int64_t>> object;
    CHECK(finds(pointers, &*object, [&] { object->push_back(1); }));
    CHECK(finds(pointers, &*object, [&] { std::vector<std::int64_t>().swap(*object); }));
  }
}

TEST_CASE("a deque is found if its first block begins as a free block does") {
  if (sanitized || !tracing::key_of_free()) return;
  const Kept<std::deque<std::int64_t>> object;
  for (int i = 0; i < 9; ++i) object->push_back(1);
  std::int64_t* const first = &object->front();
  object->pop_front();
  // what free() writes into the first word of the last block of a list
  *first = static_cast<std::int64_t>(address(first) >> 12);
  for (const int pointers : {2, 3, 7}) CHECK(finds(pointers, &*object, [&] { ++(*object)[1]; }));
  std::destroy_at(&*object);
  new (&*object) std::deque<std::int64_t>();
}

TEST_CASE("a deque that grows or shrinks is state, and the memory of a former deque is not") {
  if (sanitized) return;
  const auto check = [](auto element) {
    using Element = decltype(element);
    struct Object {
      std::int64_t tag = 0;
      std::deque<Element> queue = std::deque<Element>(4);
    };
    const Kept<Object> object;
    std::deque<Element>& queue = object->queue;
    // Both ends pass from one block to the next, and the table of blocks grows.
    const int steps = std::getenv("REEL_TEST_LONG") ? 140 : sizeof element == 8 ? 60 : 14;
    for (const int pointers : {1, 2, 3})
      for (int i = 0; i < steps; ++i) {
        INFO(sizeof(Element) << " bytes, " << pointers << " pointers, " << i);
        CHECK(finds(pointers, &*object, [&] { queue.push_back(element); }));
        CHECK(finds(pointers, &*object, [&] { queue.push_front(element); }));
        if (i % 2) CHECK(finds(pointers, &*object, [&] { queue.pop_back(); }));
        if (i % 4 == 3) CHECK(finds(pointers, &*object, [&] { queue.pop_front(); }));
      }
    // Each word turns to somewhere else, so that no deque is there any more.
    std::array<std::uintptr_t, sizeof queue / 8> words;
    std::memcpy(words.data(), static_cast<const void*>(&queue), sizeof queue);
    const Kept<std::array<std::uintptr_t, words.size()>> former;
    *former = words;
    const Kept<std::array<std::int64_t, 30>> other;
    CHECK_FALSE(finds(2, &*former, [&] {
      for (std::size_t i = 0; i < words.size(); ++i) (*former)[i] = address(&(*other)[i]);
    }));
    std::destroy_at(&*object);
    new (&*object) Object();
  };
  check(std::int64_t{});
  check(std::array<std::int64_t, 33>{});   // one element in each block
  check(std::array<std::int64_t, 100>{});  // and longer than 512 bytes
}

TEST_CASE("the elements of a deque are state, and its spare memory is not") {
  if (sanitized) return;
  const Kept<Node> target;
  struct Object {
    std::int64_t tag = 0;
    std::deque<void*> queue;
  };
  for (const int pointers : {1, 2, 3})
    for (const std::size_t length : {3u, 200u}) {
      INFO(pointers << " pointers, " << length << " elements");
      const Kept<Object> object;
      std::deque<void*>& queue = object->queue;
      queue.assign(length + 2, nullptr);
      look_free(queue);
      const auto follows = [&](void** place) {
        *place = &*target;
        const bool found = finds(pointers, &*object, [&] { ++target->n; });
        *place = nullptr;
        return found;
      };
      queue.pop_back();
      CHECK_FALSE(follows(&queue.back() + 1));
      queue.pop_front();
      for (const std::size_t i : {std::size_t{0}, length / 2, length - 1}) {
        INFO("element " << i);
        CHECK(follows(&queue[i]));
      }
      std::destroy_at(&*object);
      new (&*object) Object();
    }
}

TEST_CASE("a long deque does not hide the state after it") {
  if (sanitized) return;
  const Kept<Node> last, between;
  between->next = &*last;
  struct Object {
    std::deque<std::int64_t> queue = std::deque<std::int64_t>(200'000);
    void* next = nullptr;
  };
  const Kept<Object> object;
  object->next = &*between;
  for (const int pointers : {1, 2, 3}) CHECK(finds(pointers, &*object, [&] { ++last->n; }));
  std::destroy_at(&*object);
  new (&*object) Object();
}

TEST_CASE("memory that the run has given back is no state") {
  if (sanitized) return;
  // Smaller blocks are not tested: if malloc() keeps many of them, they have no mark that they are
  // free.
  for (const std::size_t bytes : {2'000u, 5'000u})
    for (const int pointers : {1, 2, 3}) {
      INFO(bytes << " bytes, " << pointers << " pointers");
      Neighbours blocks(bytes);
      CHECK_FALSE(finds(pointers, blocks.first, [&] {
        std::memset(blocks.first, 7, bytes);
        blocks.free_first();
      }));
    }
  // If the run shrinks a block in place, changes in the block are state.
  auto* numbers = static_cast<std::int64_t*>(std::calloc(200, 8));
  const void* const behind = std::malloc(24);
  CHECK(finds(1, numbers, [&] {
    numbers = static_cast<std::int64_t*>(std::realloc(numbers, 80));
    numbers[3] = 4;
  }));
  std::free(numbers);
  std::free(const_cast<void*>(behind));
}

TEST_CASE("what is behind the end of a block is another's") {
  if (sanitized) return;
  // Two adjacent blocks. The first holds the rest of an older block, which looks like a block that
  // is longer than the first one.
  const Neighbours blocks(304);
  std::byte *const first = blocks.first, *const second = blocks.second;
  REQUIRE(malloc_usable_size(first) == 312);
  const std::uint64_t size = 96 | 1, behind = 33;
  std::memcpy(first + 264, &size, 8);
  std::memcpy(first + 272 + 96 - 8, &behind, 8);  // in the second block
  std::byte* const inside = first + 272;
  for (const int pointers : {1, 2})
    CHECK(finds(pointers, inside, [&] { first[280] ^= std::byte{1}; }));
  CHECK_FALSE(finds(2, inside, [&] { second[16] ^= std::byte{1}; }));
  CHECK(finds(2, second, [&] { second[16] ^= std::byte{1}; }));
  finds(2, inside, [&] { first[280] ^= std::byte{1}, second[16] ^= std::byte{1}; });
  CHECK_FALSE(said.doubtful.empty());
  // A stale pointer may lead to the same word once more.
  for (const auto& word : said.doubtful) CHECK(word.at == address(first + 280));
}
}  // namespace reel::tests
