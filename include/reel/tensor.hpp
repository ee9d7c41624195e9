// SPDX-License-Identifier: BSD-3-Clause
// Tensor: an immutable array of numbers.
#pragma once  // defined in lib/body, lib/memory, lib/gate, lib/ops, lib/tensor
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reel/device.hpp>
#include <reel/dtype.hpp>
#include <reel/indexing.hpp>
#include <reel/memory.hpp>
#include <reel/operand.hpp>
#include <reel/references.hpp>
#include <reel/shape.hpp>

namespace reel {
namespace detail {
struct Body;
}
template <class T>
class Values;

/// A handle to an immutable array with a dtype, a device, a shape and elements. It has the size of
/// a pointer; copies share the elements. A default-constructed Tensor holds nothing, and ops reject
/// it.
class REEL_API Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : body_(other.body_) {
    if (body_) retain(body_);
  }
  Tensor(Tensor&& other) noexcept : body_(other.body_) { other.body_ = nullptr; }
  // For lvalues only: `x(0) = y` would change a temporary and nothing else.
  Tensor& operator=(const Tensor& other) & {
    if (other.body_) retain(other.body_);
    if (body_) release(body_);
    body_ = other.body_;
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    detail::Body* body = other.body_;
    other.body_ = nullptr;
    detail::Body* before = body_;
    body_ = body;
    if (before) release(before);
    return *this;
  }
  template <class T>
  void operator=(T&&) && = delete;  // a Tensor never changes: see where(), or Variable::assign()
  ~Tensor() {
    if (body_) release(body_);
  }

  /// False for a default-constructed or moved-from Tensor.
  bool defined() const { return body_ != nullptr; }
  /// The lengths of the axes. This function and the others that describe a tensor throw Error for a
  /// Tensor that holds nothing.
  const Shape& shape(Caller caller = Caller::here()) const&;
  Shape shape(Caller caller = Caller::here()) && {
    return static_cast<const Tensor&>(*this).shape(caller);
  }
  /// The length of one axis. Negative axes count from the end. Throws ShapeError for an axis that
  /// does not exist.
  std::int64_t shape(AxisNumber axis, Caller caller = Caller::here()) const;
  /// The type of the elements.
  DType dtype(Caller caller = Caller::here()) const;
  /// Where the elements are.
  Device device(Caller caller = Caller::here()) const;
  /// Number of axes.
  std::size_t rank(Caller caller = Caller::here()) const { return shape(caller).rank(); }
  /// Number of elements.
  std::int64_t size(Caller caller = Caller::here()) const;
  std::int64_t size(int axis) const = delete;  // shape(axis)

  /// Picks elements; see Index. The result is a view, which shares memory with this tensor. If an
  /// index is a tensor, the result is a copy. Throws IndexError for a position outside its axis,
  /// and for more indices than axes.
  ///
  ///     arange(0, 6).reshape({2, 3})(1, range(0, 2))   // [3, 4]
  ///     arange(0, 6).reshape({2, 3})(tensor({1, 0}), tensor({2, 1}))  // [5, 1]
  ///     tensor({1, 5, 7})(tensor({true, false, true}))  // [1, 7]
  Tensor operator[](Index i) const { return view(&i, 1); }
  Tensor operator()(Index a) const { return view(&a, 1); }
  Tensor operator()(Index a, Index b) const { return view({a, b}); }
  Tensor operator()(Index a, Index b, Index c) const { return view({a, b, c}); }
  Tensor operator()(Index a, Index b, Index c, Index d) const { return view({a, b, c, d}); }
  Tensor operator()(Index a, Index b, Index c, Index d, Index e) const {
    return view({a, b, c, d, e});
  }
  Tensor operator()(Index a, Index b, Index c, Index d, Index e, Index f) const {
    return view({a, b, c, d, e, f});
  }
  Tensor operator()(Index a, Index b, Index c, Index d, Index e, Index f, Index g) const {
    return view({a, b, c, d, e, f, g});
  }
  Tensor operator()(Index a, Index b, Index c, Index d, Index e, Index f, Index g, Index h) const {
    return view({a, b, c, d, e, f, g, h});
  }
  Tensor operator()(std::initializer_list<std::int64_t> positions) const =
      delete;  // an element is x(0, 1), rows are x(tensor({0, 1}))
  /// Indexing by a list that is made when the program runs. An empty list picks all of x.
  Tensor operator()(std::span<const Index> indices, Caller caller = Caller::here()) const {
    return indices.empty() ? (*this)(Index(ellipsis, caller))
                           : view(indices.data(), indices.size());
  }
  Tensor operator()(const std::vector<Index>& indices, Caller caller = Caller::here()) const {
    return (*this)(std::span<const Index>(indices.data(), indices.size()), caller);
  }
  /// The elements of this tensor, in row-major order, in another shape; see reel::reshape(). The
  /// dtype does not change.
  Tensor reshape(Shape shape, Caller caller = Caller::here()) const;
  /// This tensor in another dtype; see cast().
  Tensor to(DType dtype, Caller caller = Caller::here()) const;
  /// This tensor on another device. Tapes follow the copy. Throws DeviceError for a device that the
  /// machine does not have.
  Tensor to(Device device, Caller caller = Caller::here()) const;

  /// The only element, as a C++ value. T is the type of the dtype, or one that holds each of its
  /// numbers: double for float32 and for integers of at most 32 bits, std::int64_t for integers.
  /// Throws DTypeError for another T, and ShapeError unless there is exactly one element.
  template <Element T>
  T item(Caller caller = Caller::here()) const {
    T value{};
    read("item", dtype_of<T>(), 1, &value, caller);
    return value;
  }
  /// The elements in row-major order. `values` shares the memory of a contiguous tensor on the CPU
  /// whose dtype is that of T, and copies others; `to_vector` always copies. Throws DTypeError for
  /// a T that item() does not take.
  template <Element T>
  Values<T> values(Caller caller = Caller::here()) const;
  template <Element T>
  std::vector<T> to_vector(Caller caller = Caller::here()) const;
  /// Whether the only element is not 0. Throws ShapeError unless there is exactly one. The error
  /// names no line, because C++ passes none to conversions.
  explicit operator bool() const;

 private:
  static void retain(detail::Body* body) {
    detail::add_reference(*reinterpret_cast<std::uint32_t*>(body));  // a body's first word
  }
  static void release(detail::Body* body) noexcept;
  explicit Tensor(detail::Body* body) : body_(body) {}
  Tensor view(std::initializer_list<Index> indices) const {
    return view(indices.begin(), indices.size());
  }
  Tensor view(const Index* indices, std::size_t count) const;
  void read(const char* op, DType dtype, std::int64_t count, void* to, Caller caller) const;
  friend struct Access;
  friend class VariableSlice;
  template <class>
  friend class Values;
  detail::Body* body_ = nullptr;
};

/// Elements in the host's memory, in row-major order. Keeps them alive.
template <class T>
class Values {
 public:
  const T* begin() const { return first_; }
  const T* end() const { return first_ + tensor_.size(); }
  const T* data() const { return first_; }
  std::size_t size() const { return static_cast<std::size_t>(tensor_.size()); }
  const T& operator[](std::size_t i) const { return first_[i]; }

 private:
  friend class Tensor;
  Values(Tensor tensor, const void* first)
      : tensor_(static_cast<Tensor&&>(tensor)), first_(static_cast<const T*>(first)) {}
  Tensor tensor_;
  const T* first_;
};

namespace detail {
/// x in row-major order on the host (x itself where it is so already), and where its elements
/// start.
REEL_API Tensor contiguous_host(const Tensor& x, DType dtype, const void** first,
                                std::string_view op, Caller caller);
REEL_API Tensor from_memory(const void* data, DType dtype, const Shape& shape,
                            std::int64_t available, Caller caller);
[[noreturn]] REEL_API void ragged_list(std::size_t expected, std::size_t got, Caller caller);
}  // namespace detail

template <Element T>
Values<T> Tensor::values(Caller caller) const {
  const void* first = nullptr;
  Tensor host = detail::contiguous_host(*this, dtype_of<T>(), &first, "values", caller);
  return Values<T>(static_cast<Tensor&&>(host), first);
}
template <Element T>
std::vector<T> Tensor::to_vector(Caller caller) const try {
  const void* first = nullptr;
  const Tensor host = detail::contiguous_host(*this, dtype_of<T>(), &first, "to_vector", caller);
  return std::vector<T>(static_cast<const T*>(first), static_cast<const T*>(first) + host.size());
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_vector");
}

namespace detail {
/// The element type of tensor<Chosen>(T): T, but float for double, unless one is chosen.
template <class Chosen, class T>
struct ElementFor {
  using type = Chosen;
};
template <class T>
struct ElementFor<void, T> {
  using type = T;
};
template <>
struct ElementFor<void, double> {
  using type = float;
};
template <class Chosen, class T>
using element_for = typename ElementFor<Chosen, T>::type;
/// No number loses its fraction.
template <class Chosen, class T>
concept Converts = Number<T> && Element<element_for<Chosen, T>> &&
    (!std::is_floating_point_v<T> || std::is_floating_point_v<element_for<Chosen, T>>);

[[noreturn]] REEL_API void number_does_not_fit(Scalar value, DType dtype, Caller caller);
template <class E, class T>
E to_element(T value, Caller caller) {
  const E element = static_cast<E>(value);
  if constexpr (std::is_integral_v<E> && sizeof(E) <= sizeof(T) && !std::is_same_v<E, T> &&
                !std::is_same_v<E, bool>)
    if (static_cast<T>(element) != value || (element < E(0)) != (value < T(0)))
      number_does_not_fit(value, dtype_of<E>(), caller);
  return element;
}

template <class E>
struct Flat {  // vector<bool> has no data()
  E* data;
  std::size_t count = 0;
  Flat(std::size_t n, Caller caller) : data(new (std::nothrow) E[n]) {
    if (!data) fail_memory(caller, "tensor");
  }
  ~Flat() { delete[] data; }
  Flat(const Flat&) = delete;
  template <class T>
  void append(std::initializer_list<T> row, Caller caller) {
    for (const T& value : row) data[count++] = to_element<E>(value, caller);
  }
  Tensor tensor(const Shape& shape, Caller caller) const {
    return from_memory(data, dtype_of<E>(), shape, static_cast<std::int64_t>(count), caller);
  }
};
/// Makes a tensor of the numbers of nested lists.
class REEL_API ListReader {
 public:
  explicit ListReader(Caller caller) : caller_(caller) {}
  /// A list begins, which is in `depth` other lists.
  void list(std::size_t depth, std::size_t length);
  void number(std::size_t depth, Scalar number, DType dtype);
  /// Without a dtype it is that of the numbers. If these differ, it is float32, and int64 if all
  /// are integers.
  Tensor tensor(const DType* dtype) const;

 private:
  Caller caller_;
  std::vector<std::int64_t> lengths_;
  std::vector<Scalar> numbers_;
  DType dtype_ = DType::float32;
};
/// A number, or a list of numbers and lists. The C++ types may differ: `NAN` is a float.
template <class Chosen>
class Nested {
 public:
  template <class T>
  requires Converts<Chosen, T> Nested(T value)
      : number_(value), dtype_(dtype_of<element_for<Chosen, T>>()) {}
  // The array of the list lives until the end of the call that takes this.
  Nested(std::initializer_list<Nested> parts) : length_(parts.size()), list_(true) {
    first_ = parts.begin();
  }
  void read(ListReader& to, std::size_t depth = 0) const {
    if (!list_) return to.number(depth, number_, dtype_);
    to.list(depth, length_);
    for (std::size_t i = 0; i < length_; ++i) first_[i].read(to, depth + 1);
  }

 private:
  Scalar number_ = 0;
  DType dtype_ = DType::float32;
  const Nested* first_ = nullptr;
  std::size_t length_ = 0;
  bool list_ = false;
};
template <class T>
struct SameType {  // of which the compiler does not deduce T
  using type = T;
};
}  // namespace detail

/// A tensor of these values: one number, or nested lists. The dtype is that of the C++ type, but
/// float32 for doubles, because literals are doubles: `tensor({1, 2})` is int32, `tensor(0.5)` is
/// float32. Numbers of several types give float32, and int64 if all are integers. A type in angle
/// brackets decides: `tensor<double>(0.5)` is float64. Throws DTypeError for a number that does not
/// fit, and ShapeError for lists of different lengths or depths.
///
///     tensor({{1, 2}, {3.5, NAN}})         // [[1.0, 2.0], [3.5, nan]]
template <class Chosen = void, class T>
requires detail::Converts<Chosen, T> Tensor tensor(T value, Caller caller = Caller::here()) {
  const auto element = detail::to_element<detail::element_for<Chosen, T>>(value, caller);
  return detail::from_memory(&element, dtype_of<std::remove_const_t<decltype(element)>>(), {}, 1,
                             caller);
}
template <class Chosen = void, class T>
requires detail::Converts<Chosen, T> Tensor tensor(std::initializer_list<T> values,
                                                   Caller caller = Caller::here()) {
  using E = detail::element_for<Chosen, T>;
  const Shape shape({values.size()}, caller);
  if constexpr (std::is_same_v<E, T>) {
    return detail::from_memory(values.begin(), dtype_of<E>(), shape, shape[0], caller);
  } else {
    detail::Flat<E> flat(values.size(), caller);
    flat.append(values, caller);
    return flat.tensor(shape, caller);
  }
}
template <class Chosen = void>
Tensor tensor(std::initializer_list<typename detail::SameType<detail::Nested<Chosen>>::type> parts,
              Caller caller = Caller::here()) try {
  detail::ListReader reader(caller);
  detail::Nested<Chosen>(parts).read(reader);
  if constexpr (std::is_void_v<Chosen>) {
    return reader.tensor(nullptr);
  } else {
    constexpr DType dtype = dtype_of<Chosen>();
    return reader.tensor(&dtype);
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "tensor");
}
/// A tensor with a copy of these values, in row-major order, in this shape. Throws ShapeError
/// unless there is one value for each element.
template <Element T>
Tensor from_span(std::span<const T> values, Shape shape, Caller caller = Caller::here()) {
  return detail::from_memory(values.data(), dtype_of<T>(), shape,
                             static_cast<std::int64_t>(values.size()), caller);
}
template <class R>
requires requires(const R& r) { std::span(r.data(), r.size()); }
Tensor from_span(const R& values, Shape shape, Caller caller = Caller::here()) {
  return from_span(std::span<const typename R::value_type>(values.data(), values.size()), shape,
                   caller);
}
namespace detail {
/// The element type of a std::vector: its own, int64 for other integers and unscoped enums.
template <class T>
inline constexpr bool counts = !Element<T> && (std::is_integral_v<T> || UnscopedEnum<T>);
template <class Chosen, class T>
using vector_element = std::conditional_t<!std::is_void_v<Chosen>, Chosen,
                                          std::conditional_t<counts<T>, std::int64_t, T>>;
template <class T>
auto as_number(T value) {
  if constexpr (std::is_enum_v<T>)
    return static_cast<std::int64_t>(value);
  else
    return value;
}
}  // namespace detail
/// A tensor of a vector's values. The dtype is that of its elements, or of the type in angle
/// brackets: `tensor<float>(sizes)`. Other integers, such as std::size_t, and unscoped enums become
/// int64.
template <class Chosen = void, class T>
Tensor tensor(const std::vector<T>& values, Caller caller = Caller::here()) {
  using E = detail::vector_element<Chosen, T>;
  static_assert(Element<E>,
                "tensor(values) of a std::vector: there are dtypes for bool, std::uint8_t, "
                "std::int8_t to std::int64_t, float, double, Float16 and BFloat16. Name one of "
                "them for numbers of another type: tensor<std::int64_t>(values)");
  if constexpr (Element<E> && std::is_same_v<E, T> && !std::is_same_v<T, bool>) {
    return from_span(std::span<const T>(values), Shape({values.size()}, caller), caller);
  } else if constexpr (Element<E>) {
    static_assert(detail::Converts<E, T> || detail::counts<T>,
                  "tensor<E>(values) of a std::vector of floating numbers takes float or double as "
                  "E. For other dtypes write tensor(values).to(dtype)");
    detail::Flat<E> flat(values.size(), caller);
    for (const T value : values) flat.append({detail::as_number(value)}, caller);
    return flat.tensor(Shape({values.size()}, caller), caller);
  }
}
namespace detail {
/// What a vector has inside the vectors of vectors.
template <class T>
struct Innermost {
  using type = T;
};
template <class T>
struct Innermost<std::vector<T>> : Innermost<T> {};
template <class T>
Shape lengths_of(const std::vector<T>& values, std::size_t depth, Caller caller) {
  Shape shape;
  if constexpr (requires(const T& row) { row.begin(); })
    shape = values.empty() ? lengths_of(T(), depth + 1, caller)
                           : lengths_of(values.front(), depth + 1, caller);
  else
    shape.resize(depth + 1, caller);
  shape.data()[depth] = static_cast<std::int64_t>(values.size());
  return shape;
}
template <class E, class T>
void append(Flat<E>& flat, const std::vector<T>& values, const std::int64_t* length,
            Caller caller) {
  if (values.size() != static_cast<std::size_t>(*length))
    ragged_list(static_cast<std::size_t>(*length), values.size(), caller);
  for (const T& value : values)
    if constexpr (requires { value.begin(); })
      append(flat, value, length + 1, caller);
    else
      flat.append({as_number(value)}, caller);
}
}  // namespace detail
/// A tensor of vectors of vectors: the matrix of these rows, and so on to any depth. Throws
/// ShapeError unless all rows have one length.
template <class Chosen = void, class T>
Tensor tensor(const std::vector<std::vector<T>>& rows, Caller caller = Caller::here()) {
  using E = detail::vector_element<Chosen, typename detail::Innermost<T>::type>;
  const Shape shape = detail::lengths_of(rows, 0, caller);
  detail::Flat<E> flat(static_cast<std::size_t>(shape.elements(caller)), caller);
  detail::append(flat, rows, shape.data(), caller);
  return flat.tensor(shape, caller);
}

/// Text in the layout of NumPy, with at most 4 digits after the point. `format` applies to each
/// number, for example ".2f".
REEL_API std::string to_string(const Tensor& x, std::string_view format = {},
                               Caller caller = Caller::here());
REEL_API std::ostream& operator<<(std::ostream& out, const Tensor& x);
}  // namespace reel
