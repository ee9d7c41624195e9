// SPDX-License-Identifier: BSD-3-Clause
// Every exception type of reel. The first line of what() is at most 200 characters:
// "program.cpp:12: op: argument: expected ..., got ...".
#pragma once          // defined in lib/body
#include <stdexcept>  // std::invalid_argument
#include <string_view>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/memory.hpp>  // fail_memory

namespace reel {
/// The base of all exceptions of reel, and the type for wrong options, unknown names and the like.
struct REEL_API Error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
/// Lengths, axes or numbers of axes that do not fit.
struct REEL_API ShapeError : Error {
  using Error::Error;
};
/// A position, label or length outside its range.
struct REEL_API IndexError : Error {
  using Error::Error;
};
/// A dtype that the op does not take, or a C++ type that is not that of the dtype.
struct REEL_API DTypeError : Error {
  using Error::Error;
};
/// Tensors on different devices, a device that does not exist, or an error of a device.
struct REEL_API DeviceError : Error {
  using Error::Error;
};
/// No memory is left. The call has changed nothing and can be made again.
struct REEL_API MemoryError : Error {
  using Error::Error;
  const char* what() const noexcept override;

 private:
  friend void fail_memory(Caller caller, std::string_view op);
  char text_[200] = {};  // where there is no memory for a text, not even of an error
};
/// A gradient that does not exist, or a tape that is used twice or by another thread.
struct REEL_API TapeError : Error {
  using Error::Error;
};
/// A check found that a traced function depends on something that the trace does not know.
struct REEL_API TraceError : Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose content does not fit.
struct REEL_API IoError : Error {
  using Error::Error;
};
/// A rank that did not come to a collective in time, or an error of what connects the ranks. what()
/// names the rank, the step, the collective and the Variables. See dist::World.
struct REEL_API DistError : Error {
  using Error::Error;
};

/// Throws an error E in the library's form, for an op or layer of your own: "line: op: argument:
/// expected ..., got ...". The line is that of the outermost CallerScope, else that of `caller`.
/// `advice` is a line of its own.
template <class E>
[[noreturn]] REEL_API void fail(Caller caller, std::string_view op, std::string_view argument,
                                std::string_view expected, std::string_view got,
                                std::string_view advice = {});
}  // namespace reel
