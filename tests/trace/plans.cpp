// SPDX-License-Identifier: BSD-3-Clause
// How a trace plans a captured function: memory that values share, sums in place, order.
#include <algorithm>
#include <random>
#include <vector>

#include "lib/trace/ranges.hpp"
#include "trace/plan_text.hpp"

namespace reel::tests {
TEST_CASE("free ranges give the least that fits, and join again") {
  tracing::FreeRanges ranges;
  std::mt19937 random(4);
  struct Taken {
    std::size_t offset, bytes;
  };
  std::vector<Taken> taken;
  std::size_t most = 0;
  for (int i = 0; i < 5'000; ++i) {
    if (taken.size() < 12 && random() % 2) {
      const std::size_t bytes = 64 * (1 + random() % 9);
      // Computes the gaps from what is taken.
      std::sort(taken.begin(), taken.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
      std::size_t at = 0, best = 0, best_bytes = ~std::size_t{0};
      for (std::size_t k = 0; k <= taken.size(); ++k) {
        const std::size_t end = k < taken.size() ? taken[k].offset : most;
        if (end - at >= bytes && end - at < best_bytes) best = at, best_bytes = end - at;
        if (k < taken.size()) at = taken[k].offset + taken[k].bytes;
      }
      const bool fits = best_bytes != ~std::size_t{0};
      const std::size_t offset = ranges.take(bytes);
      CHECK(offset == (fits ? best : most));
      if (!fits) most += bytes;
      taken.push_back({offset, bytes});
    } else if (!taken.empty()) {
      const std::size_t k = random() % taken.size();
      ranges.give(taken[k].offset, taken[k].bytes);
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(k));
    }
    CHECK(ranges.end() == most);
  }
  for (const Taken& piece : taken) ranges.give(piece.offset, piece.bytes);
  CHECK(ranges.take(most) == 0);
  CHECK(ranges.end() == most);
}

TEST_CASE("values that are dead give their memory to others", "[cpu]") {
  const Tensor x = line(100);  // 400 bytes, which take 448 bytes of memory
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {x}) == wanted);
  };
  // Each pass overwrites the value that it read last.
  check([](const List& v) { return List{tanh(v[0] * 2.0f) + 1.0f}; },
        "multiply/2!, tanh!, allocate, add/2!; 448");
  check(
      [](const List& v) {
        const Tensor a = v[0] * 2.0f, b = tanh(v[0] * 3.0f);
        return List{a * b};
      },
      "multiply/2!, multiply/2!, tanh!, allocate, multiply!; 896");
  check(
      [](const List& v) {
        const Tensor a = sum(sigmoid(v[0] * 2.0f)), b = sum(sigmoid(v[0] * 3.0f));
        return List{a + b};
      },
      "multiply/2!, sigmoid!, kernel sum!, multiply/2!, sigmoid!, kernel sum!, allocate, add/3!; "
      "576");
  // The memory of a value stays in use while the value has views.
  check(
      [](const List& v) {
        const Tensor a = v[0] * 2.0f, b = a.reshape({4, 25}), c = sum(b, 0), d = sigmoid(c) * 2.0f;
        return List{sum(b * d)};
      },
      "multiply/2!, kernel sum!, sigmoid!, multiply/2!, kernel multiply!, allocate, kernel sum!; "
      "1024");
  // A pass may not overwrite a value of which it reads another part.
  check(
      [](const List& v) {
        const Tensor a = v[0] * 2.0f, part = a(range(0, 1));
        return List{sum(a * part)};
      },
      "multiply/2!, multiply/2!, allocate, kernel sum!; 896");
  check(
      [](const List& v) {
        const Tensor a = v[0] * 2.0f, b = a.reshape({4, 25}).reshape({100});
        return List{sum(a + b)};
      },
      "multiply/2!, add!, allocate, kernel sum!; 896");
  // A pass does not take over memory of another dtype or length.
  check([](const List& v) { return List{sum(cast(sigmoid(v[0]), DType::float64) * 2.0)}; },
        "sigmoid!, cast!, multiply/2!, allocate, kernel sum!; 1280");
  check([](const List& v) { return List{sum(where(v[0] * 2.0f > 3.0f, v[0], 0.0f))}; },
        "multiply/2!, greater/2!, where/4!, allocate, kernel sum!; 576");
  check(
      [](const List& v) {
        return List{sigmoid(v[0] * 2.0f), sum(sigmoid(v[0] * 2.0f) * 3.0f)};
      },
      "multiply/2!, allocate, sigmoid!, sigmoid!, multiply/2!, allocate, kernel sum!; 448");
  check([](const List&) { return List{}; }, "; 0");
  check([](const List& v) { return List{v[0], Tensor(), v[0].reshape({10, 10})}; }, "view; 0");
  // The first value is one byte larger than its unit of memory.
  CHECK(plan_of([](const List& v) { return List{sum(v[0] + v[0])}; },
                {ones({65}, {.dtype = DType::uint8})}) == "add!, allocate, kernel sum!; 128");
  CHECK(plan_of([](const List& v) { return List{sum(v[0] + v[0])}; },
                {ones({64}, {.dtype = DType::uint8})}) == "add!, allocate, kernel sum!; 64");
}

TEST_CASE("kernels add to the memory of a sum themselves", "[cpu]") {
  const Tensor a = line(12).reshape({3, 4}), b = line(12).reshape({4, 3}), c = ones({3, 3});
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {a, b, c}) == wanted);
  };
  /// tanh(total + part) of the results of two functions.
  const auto summed = [](const auto& total, const auto& part) -> Traced {
    return [=](const List& v) {
      const Tensor t = total(v), p = part(v), s = t + p;
      return List{tanh(s)};
    };
  };
  const auto product = [](const List& v) { return matmul(v[0], v[1]); };
  const auto pass = [](const List& v) { return tanh(v[2]); };
  check(summed(product, product), "kernel matmul, add!, allocate, tanh!; 64");
  check(summed(pass, product), "tanh, kernel matmul/1, allocate, tanh!; 64");
  check(summed(pass, [](const List& v) { return sigmoid(v[2]); }),
        "tanh!, sigmoid!, add!, allocate, tanh!; 128");
  check(summed(pass, [](const List& v) { return softmax(v[2]); }),
        "tanh, kernel softmax, add!, allocate, tanh!; 128");  // softmax cannot add to its output
  check(summed(pass,
               [](const List& v) {
                 return take(v[2], tensor({2, 1, 0}), 0);
               }),
        "tanh, kernel take, add!, allocate, tanh!; 128");
  check(summed(pass,
               [](const List& v) {
                 return take(transpose(v[2]), tensor({2, 1, 0}), 0);
               }),
        "tanh, view, kernel take, add!, allocate, tanh!; 128");
  check(summed(pass,
               [](const List& v) {
                 return concat({v[2], v[2]}, 0)(range(0, 3));
               }),
        "tanh, kernel concat, add!, allocate, tanh!; 192");
  check(summed(pass,
               [](const List&) {
                 return random::uniform({3, 3});
               }),
        "tanh!, random!, add!, allocate, tanh!; 128");
  check(summed(pass,
               [](const List& v) {
                 return sum(v[2].reshape({3, 1, 3}), 1);
               }),
        "tanh!, view, kernel sum/1!, allocate, tanh!; 64");
  check(summed([](const List& v) { return v[2]; }, product),
        "kernel matmul, add!, allocate, tanh!; 64");
  check(summed([](const List& v) { return tanh(v[2](0)); }, product),
        "view, tanh, kernel matmul, kernel add!, allocate, tanh!; 192");
  check(summed([](const List& v) { return tanh(sum(v[2], 0)); },
               [](const List& v) { return sum(matmul(v[0], v[1]), 0); }),
        "kernel sum, tanh, kernel matmul, kernel sum/1!, allocate, tanh!; 128");
  // The summand or the total is read again, before or after the sum. Or the total is computed last.
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), s = t + m, u = tanh(s);
        return List{u * m};
      },
      "tanh, kernel matmul, add!, tanh!, allocate, multiply!; 128");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), s = t + m, u = tanh(s);
        return List{u * t};
      },
      "tanh, kernel matmul, add!, tanh!, allocate, multiply!; 128");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), u = sum(t), s = t + m;
        return List{tanh(s) * u};
      },
      "tanh, kernel matmul, kernel sum!, add!, tanh!, allocate, multiply/2!; 192");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), u = sum(m), s = t + m;
        return List{tanh(s) * u};
      },
      "tanh, kernel matmul, kernel sum!, add!, tanh!, allocate, multiply/2!; 192");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), u = sum(t), m = matmul(v[0], v[1]), s = t + m;
        return List{tanh(s) * u};
      },
      "tanh, kernel sum, kernel matmul/1, tanh!, allocate, multiply/2!; 128");
  check(
      [](const List& v) {
        const Tensor m = matmul(v[0], v[1]), t = tanh(v[2]), s = t + m;
        return List{tanh(s)};
      },
      "kernel matmul, tanh!, add!, allocate, tanh!; 128");
  // The kernel of the part reads the total.
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(t, v[2]), s = t + m;
        return List{tanh(s)};
      },
      "tanh, kernel matmul, add!, allocate, tanh!; 128");
  // The sum is a result, so it has its own memory.
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]);
        return List{t + m};
      },
      "tanh, kernel matmul, allocate, add!; 128");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), n = matmul(v[2], v[2]), s = t + m;
        const Tensor all_of = s + n;
        return List{tanh(all_of)};
      },
      "tanh, kernel matmul/1, kernel matmul, add!, allocate, tanh!; 128");
  check(
      [](const List& v) {
        const Tensor t = tanh(v[2]), m = matmul(v[0], v[1]), s = t + m, n = matmul(v[2], v[2]);
        const Tensor all_of = s + n;
        return List{tanh(all_of)};
      },
      "tanh, kernel matmul/1, kernel matmul/1, allocate, tanh!; 64");
}

TEST_CASE("gradients of ops add up in place", "[cpu]") {
  const Tensor a = line(12).reshape({3, 4}), b = line(12).reshape({4, 3});
  const auto slope = [](const auto& f) {
    return [f](const List& v) {
      GradientTape tape;
      tape.watch(v[0]);
      const Tensor y = f(v);
      return List{tape.gradient(y, v[0]) * 2.0f};
    };
  };
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {a, b}) == wanted);
  };
  check(slope([](const List& v) {
          const Tensor m = matmul(v[0], v[1]), n = matmul(v[0], v[1]);
          return sum(m * n);
        }),
        "kernel matmul, multiply/1, multiply/1, view, kernel matmul, kernel matmul/1, allocate, "
        "multiply/2!; 192");
  check(slope([](const List& v) {
          const Tensor t = tanh(v[0]);
          return sum(t * v[0]);
        }),
        "tanh!, multiply/1!, multiply/1!, tanh/256!, allocate, multiply/2!; 192");
  check(slope([](const List& v) {
          const Tensor t = softmax(v[0]), u = sigmoid(v[0]);
          return sum(t * u);
        }),
        "kernel softmax, sigmoid, multiply/1, multiply/1, sigmoid, kernel softmax/1, allocate, "
        "multiply/2!; 256");
  check(
      slope([](const List& v) {
        const Tensor t = layer_norm(v[0], ones({4}), zeros({4}));
        return sum(t * v[0]);
      }),
      "kernel layer_norm, multiply/1, multiply/1, kernel layer_norm/1, allocate, multiply/2!; 128");
  check(slope([](const List& v) {
          const Tensor t = v[0] * v[1].reshape({3, 4}), u = v[0] * v[0];
          return sum(t) + sum(u);
        }),
        "view, multiply/1!, multiply/257!, multiply/257!, allocate, multiply/2!; 64");
  // In a program, the sum is in a register.
  const Traced squared = slope([](const List& v) {
    const Tensor t = tanh(v[0]);
    return sum(t * v[0]);
  });
  for (const std::int64_t length : {2'049, 3'000, 4'095})
    CHECK(plan_of(squared, {line(length), b})
              .find("stages(5), multiply/1!, tanh!, multiply/1!, add!, multiply/2!") !=
          std::string::npos);
}

TEST_CASE("values in order, strided, and single numbers", "[cpu]") {
  const Tensor x = line(12).reshape({3, 4}), number = tensor(2.0f), one = ones({1, 1});
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {x, number, one}) == wanted);
  };
  check([](const List& v) { return List{sum((v[0] * v[1]) - v[2])}; },
        "multiply/2!, subtract/2!, allocate, kernel sum!; 64");
  check([](const List& v) { return List{sum(v[1] - v[0] * 2.0f)}; },
        "multiply/2!, subtract/1!, allocate, kernel sum!; 64");
  check([](const List& v) { return List{sum(transpose(v[0]) * 2.0f)}; },
        "view, kernel multiply!, allocate, kernel sum!; 64");
  check([](const List& v) { return List{sum(v[0](all, range(0, 2)) * 2.0f)}; },
        "view, kernel multiply!, allocate, kernel sum!; 64");
  check([](const List& v) { return List{softmax(transpose(v[0]))}; },
        "view, allocate, kernel softmax; 0");
  check([](const List& v) { return List{softmax(v[0])}; }, "allocate, kernel softmax; 0");
  check([](const List& v) { return List{v[0] * v[0](0)}; }, "view, allocate, kernel multiply!; 0");
  check([](const List& v) { return List{sum(where(v[0] > 1.0f, v[0], v[1]))}; },
        "greater/2!, where/4!, allocate, kernel sum!; 128");
  check(
      [](const List& v) {
        return List{sigmoid(v[0])(1), transpose(sigmoid(v[0]))};
      },
      "allocate, sigmoid!, view, allocate, sigmoid!, view; 0");
  check(
      [](const List& v) {
        return List{v[0](1) * 2.0f, sum(v[0](2))};
      },
      "view, allocate, multiply/2!, view, allocate, kernel sum!; 0");
}
}  // namespace reel::tests
