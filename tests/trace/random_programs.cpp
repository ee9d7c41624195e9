// SPDX-License-Identifier: BSD-3-Clause
// R4: random programs of 5 to 200 ops give the same results eagerly, captured and replayed.
#include <cstdlib>
#include <random>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// A program is made from its number again in each run. The ops and their order are the same,
/// unless the program asks for a value. Programs use Variables, random numbers and a tape.
class Program {
 public:
  explicit Program(unsigned number)
      : number_(number), length_(5 + number % 196), width_(number % 16 == 7 ? 4400 : 4) {
    for (int i = 0; i < 2; ++i)
      variables_.emplace_back("v", random::uniform({3, width_}, {.low = -1, .high = 1}));
  }
  const std::vector<Variable>& variables() const { return variables_; }
  bool differentiates() const { return number_ % 4 == 0; }
  std::int64_t width() const { return width_; }

  std::vector<Tensor> operator()(const Tensor& x, const Tensor& row) const {
    std::mt19937 draw(number_);
    std::vector<Tensor> pool{x, row, variables_[0].value(), x * 0.5f};
    if (!differentiates()) {
      for (unsigned i = 0; i < length_; ++i) step(draw, pool, true);
      return {pool.end() - 4, pool.end()};
    }
    GradientTape tape;
    tape.watch(x);
    pool[0] = x * 1.0f;
    for (unsigned i = 0; i < length_ / 4 + 2; ++i) step(draw, pool, false);
    std::vector<Tensor> found =
        tape.gradient(sum(tanh(pool.back())), {x, variables_[1]}, Unconnected::zero);
    found.push_back(pool.back());
    return found;
  }

 private:
  static Tensor tame(const Tensor& x) { return maximum(minimum(x, 4.0f), -4.0f); }

  void step(std::mt19937& draw, std::vector<Tensor>& pool, bool writes) const {
    const auto any = [&]() -> const Tensor& { return pool[draw() % pool.size()]; };
    const Tensor a = any(), b = any();
    const auto wide = [this](const Tensor& t) { return broadcast_to(t, Shape({3, width_})); };
    switch (draw() % (writes ? 18 : 14)) {
      case 0:
        return pool.push_back(tame(a + b));
      case 1:
        return pool.push_back(tame(a * b));
      case 2:
        return pool.push_back(a - 0.25f);
      case 3:
        return pool.push_back(tanh(a));
      case 4:
        return pool.push_back(sigmoid(a) * b);
      case 5:
        return pool.push_back(softmax(a));
      case 6:
        return pool.push_back(wide(sum(wide(a), 0)) * 0.3f);
      case 7:
        return pool.push_back(transpose(transpose(wide(a)) + 0.1f));
      case 8:
        return pool.push_back(
            tame(matmul(wide(a), transpose(wide(b)))(all, range(0, 1)) + wide(a)));
      case 9:
        return pool.push_back(concat({wide(a)(range(0, 1), all), wide(b)(range(1, 3), all)}, 0));
      case 10:
        return pool.push_back(where(a > b, a, b * 0.5f));
      case 11:
        return pool.push_back(variables_[draw() % 2] * a);
      case 12:
        return pool.push_back(wide(mean(wide(a), 1, keepdims)));
      case 13:
        return pool.push_back(abs(a) + relu(b) * 0.5f);
      case 14:
        return pool.push_back(random::uniform({width_}) * a);
      case 15:
        return Variable(variables_[draw() % 2]).assign(wide(a));
      case 16:
        return Variable(variables_[draw() % 2])(range(0, 1), all)
            .assign_add(wide(a)(range(1, 2), all));
      default:
        if (draw() % 4 == 0 && sum(a) > 0.5f) pool.push_back(a * 0.9f);
        return pool.push_back(variables_[draw() % 2].value());
    }
  }

  unsigned number_, length_;
  std::int64_t width_;  // sometimes wide enough for passes to run block by block
  std::vector<Variable> variables_;
};

void check_program(unsigned number) {
  seed(number);
  const Program eager(number);
  seed(number);
  const Program other(number);
  const auto traced = trace([&](Tensor x, Tensor row) { return other(x, row); });
  for (unsigned call = 0; call < 6; ++call) {
    INFO("program " << number << ", call " << call);
    seed(number + call / 2);
    const Tensor x = random::normal({3, eager.width()}), row = random::normal({eager.width()});
    const Generator first(call), second(call);
    std::vector<Tensor> expected, got;
    {
      const GeneratorScope numbers(first);
      expected = eager(x, row);
    }
    {
      const GeneratorScope numbers(second);
      got = traced(x, row);
    }
    CHECK(first.position() == second.position());
    const auto same = [&](const Tensor& a, const Tensor& b) {
      return eager.differentiates() ? allclose(a, b, {.rtol = 1e-5, .atol = 1e-6}) : equal(a, b);
    };
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], expected[i]));
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(same(eager.variables()[i].value(), other.variables()[i].value()));
  }
  INFO(traced.explain());
  CHECK(traced.explain().find("agerly") == std::string::npos);
}
}  // namespace

TEST_CASE("a program of stages does not write over what it reads later", "[cpu]") {
  check_program(6151);  // whose values in blocks have elements of 1 and 4 bytes
}

TEST_CASE("random programs agree, eager, captured and replayed", "[slow]") {
  const unsigned programs = sanitized ? 100 : std::getenv("REEL_TEST_LONG") ? 10'000 : 600;
  for (unsigned number = 0; number < programs; ++number) check_program(number);
}
}  // namespace reel::tests
