// SPDX-License-Identifier: BSD-3-Clause
// Memory of the backend itself, outside of the heap. A trace looks for changes in the heap that its
// function can reach, also by old pointers on the stack: what the backend keeps there would look
// like state of the function.
#pragma once
#include <list>
#include <map>
#include <memory_resource>
#include <new>
#include <utility>
#include <vector>

namespace reel::gpu {
std::pmr::memory_resource& own_memory();

/// An object that is never destroyed: tensors in statics are released after the end of main().
template <class T, class... Arguments>
T* new_for_ever(Arguments&&... arguments) {
  return new (own_memory().allocate(sizeof(T), alignof(T)))
      T(std::forward<Arguments>(arguments)...);
}

template <class T>
class OwnVector : public std::pmr::vector<T> {
 public:
  OwnVector() : std::pmr::vector<T>(&own_memory()) {}
  explicit OwnVector(std::size_t n) : std::pmr::vector<T>(n, &own_memory()) {}
};
template <class Key, class T>
class OwnMap : public std::pmr::map<Key, T> {
 public:
  OwnMap() : std::pmr::map<Key, T>(&own_memory()) {}
};
template <class T>
class OwnList : public std::pmr::list<T> {
 public:
  OwnList() : std::pmr::list<T>(&own_memory()) {}
};
}  // namespace reel::gpu
