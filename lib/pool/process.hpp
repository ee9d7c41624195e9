// SPDX-License-Identifier: BSD-3-Clause
// What the library does when the process forks and when a thread ends.
#pragma once
#include <cstdint>
#include <mutex>

namespace reel {
/// Every mutex of the library. A thread that holds one locks only later ones. A fork locks all of
/// them, so in the child each mutex is free and the data that it guards are consistent. No user
/// code runs under one of them, because it might fork.
enum class Lock : std::uint8_t {
  boards,        // events that wait to be written
  cuda,          // opening the CUDA backend
  traces,        // what traced functions have captured
  registration,  // what users register
  table,         // the list of ops
  blas,          // opening the BLAS library, and waiting until a fork is over
  contexts,      // the list of contexts, and what other threads change of one
  blocks,        // free memory that all threads share
  profiles,      // what profiles collect
  count
};
class Locked {
 public:
  explicit Locked(Lock which);
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  std::mutex& mutex_;
};

/// A fork begins with this library, and ends with it, before it calls what libraries that were
/// opened earlier have registered for it. Call it once, after such a library was opened.
void begin_forks();

/// A fork waits while any thread has a ForkDelay. A thread makes one around each call of a library
/// that has locks of its own, because a child would inherit such a lock locked and wait for it for
/// ever. The call must not wait for another thread of the process.
class ForkDelay {
 public:
  ForkDelay();
  ~ForkDelay();
  ForkDelay(const ForkDelay&) = delete;
  ForkDelay& operator=(const ForkDelay&) = delete;
};

/// An object that is destroyed when its thread ends, after the destructors of the thread's
/// thread_local objects, which may still use it. The object of the main thread is not destroyed,
/// because destructors of statics may use it.
struct ThreadEnd {
  void (*run)(ThreadEnd&);
  ThreadEnd* next = nullptr;
  bool listed = false;
};
/// `end` is a thread_local without a destructor. It may be called again, from `run` too.
void at_thread_end(ThreadEnd& end) noexcept;

/// An object of each thread, made at its first use: `constinit thread_local OfThread<T> own;`.
template <class T>
class OfThread : ThreadEnd {
 public:
  constexpr OfThread() : ThreadEnd{[](ThreadEnd& end) { static_cast<OfThread&>(end).clear(); }} {}
  T& get() {
    if (!object_) [[unlikely]] {
      object_ = new T;
      at_thread_end(*this);
    }
    return *object_;
  }

 private:
  void clear() {
    T* const object = object_;
    object_ = nullptr;
    delete object;
  }
  T* object_ = nullptr;
};
}  // namespace reel
