// SPDX-License-Identifier: BSD-3-Clause
// R7: passes and copies over views, shared among threads, against loops over single elements.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/body/body.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
/// The elements of x in this shape, in row-major order, read by their strides.
template <class T>
std::vector<T> elements_of(const Tensor& x, const Shape& shape) {
  const Body& body = *Access::body(x);
  const int rank = static_cast<int>(shape.rank()), added = rank - body.rank();
  std::vector<T> list;
  std::int64_t position[Shape::max_rank] = {};
  for (std::int64_t left = shape.elements(); left > 0; --left) {
    std::int64_t place = 0;
    for (int axis = added; axis < rank; ++axis)
      if (body.shape[axis - added] != 1) place += position[axis] * body.strides[axis - added];
    list.push_back(body.as<T>()[place]);
    for (int axis = rank; axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
  return list;
}

template <class T>
bool same(const Tensor& got, const std::vector<T>& expected) {
  const Body& body = *Access::body(got);
  return body.contiguous && body.elements == static_cast<std::int64_t>(expected.size()) &&
         std::memcmp(body.data, expected.data(), expected.size() * sizeof(T)) == 0;
}

/// Views of one shape, with names.
std::vector<std::pair<std::string, Tensor>> views_of(std::int64_t a, std::int64_t b, std::int64_t c,
                                                     DType dtype) {
  const auto numbers = [&](Shape shape) { return random::normal(shape).to(dtype); };
  return {{"in order", numbers({a, b, c})},
          {"transposed", transpose(numbers({c, b, a}))},
          {"transposed plane", transpose(numbers({a, c, b}), {0, 2, 1})},
          {"first axis inside", transpose(numbers({b, c, a}), {2, 0, 1})},
          {"every other", numbers({a, b, 2 * c})(all, all, range({}, {}, 2))},
          {"backwards", numbers({a, b, c})(range({}, {}, -1), all, range({}, {}, -1))},
          {"part", numbers({a + 2, b + 1, c + 3})(range(1, a + 1), range(0, b), range(2, c + 2))},
          {"row", numbers({c})},
          {"column", numbers({a, b, 1})},
          {"plane", numbers({a, 1, c})},
          {"number", numbers({})}};
}

template <class T, class Out, class F>
std::vector<Out> loop(const std::vector<T>& x, const std::vector<T>& y, const F& f) {
  std::vector<Out> list;
  for (std::size_t i = 0; i < x.size(); ++i) list.push_back(static_cast<Out>(f(x[i], y[i])));
  return list;
}

/// Ops of the views x and y with several numbers of threads.
template <class T>
void check_pair(const Shape& shape, const Tensor& x, const Tensor& y, const Tensor& z) {
  const auto a = elements_of<T>(x, shape), b = elements_of<T>(y, shape),
             c = elements_of<T>(z, shape);
  const auto sums = loop<T, T>(a, b, [](T p, T q) { return p + q; });
  const auto products = loop<T, T>(a, b, [](T p, T q) { return p * q; });
  const auto quotients = loop<T, T>(a, b, [](T p, T q) { return p / q; });
  const auto most = loop<T, T>(a, b, [](T p, T q) { return p > q ? p : q; });
  const auto less = loop<T, std::uint8_t>(a, b, [](T p, T q) { return p < q; });
  const auto whole = loop<T, std::int32_t>(a, b, [](T p, T) { return p; });
  std::vector<T> chosen;
  for (std::size_t i = 0; i < a.size(); ++i) chosen.push_back(a[i] < b[i] ? c[i] : a[i]);
  const Tensor wide = broadcast_to(x, shape);
  const KeepThreads keep;
  for (const int threads : sanitized ? std::vector{3} : std::vector{2, 5}) {
    set_num_threads(threads);
    INFO(threads << " threads");
    CHECK(same(x + y, sums));
    CHECK(same(x * y, products));
    CHECK(same(x / y, quotients));
    CHECK(same(maximum(x, y), most));
    CHECK(same(x < y, less));
    CHECK(same(where(x < y, z, x), chosen));
    CHECK(same(cast(wide, DType::int32), whole));
    CHECK(same(concat({reshape(wide, {-1})}, 0), a));
    CHECK(same(negative(negative(wide)), a));
  }
}
}  // namespace

TEST_CASE("views that threads share give what each element alone gives", "[threads]") {
  // Rows and planes. The long axis is first, last or in the middle; rows are long or short.
  const std::vector<std::vector<std::int64_t>> shapes = {
      {600, 1, 450}, {7, 300, 130}, {2, 3, 45'000}, {5, 20'000, 3}};
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const std::int64_t p = shapes[k][0], q = shapes[k][1], r = shapes[k][2];
    const auto views = views_of(p, q, r, k % 2 ? DType::float64 : DType::float32);
    const std::size_t n = views.size(), step = 1 + k % 4;
    for (std::size_t i = k % 3; i < n; i += sanitized ? 5 : 3) {
      const auto& [x_name, x] = views[i];
      const auto& [y_name, given] = views[(i + step) % n];
      const Tensor z = views[(i + 2 * step) % n].second;
      const Tensor y = x.size() < p * q * r ? broadcast_to(given, {p, q, r}) : given;
      INFO(p << " x " << q << " x " << r << ": " << x_name << ", " << y_name);
      if (k % 2)
        check_pair<double>({p, q, r}, x, y, z);
      else
        check_pair<float>({p, q, r}, x, y, z);
    }
  }
}

TEST_CASE("rows so long that threads share each give what each element alone gives", "[threads]") {
  const KeepThreads keep;
  const std::int64_t n = 300'001;
  const Tensor row = arange(0, n), x = row.to(DType::float64) * 0.5, both = stack({x, x + 1.0});
  const Tensor mask = row % 3 == 0, masks = stack({mask, logical_not(mask)});
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const std::vector<double> chosen = where(masks, both, x * 0.0 - 1.0).to_vector<double>();
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < 2; ++r)
      for (std::int64_t i = 0; i < n; ++i) {
        const double of_row = static_cast<double>(i) * 0.5 + static_cast<double>(r);
        wrong += chosen[static_cast<std::size_t>(r * n + i)] !=
                 ((i % 3 == 0) == (r == 0) ? of_row : -1.0);
      }
    CHECK(wrong == 0);
  }
}
}  // namespace reel::tests
