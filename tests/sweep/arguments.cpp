// SPDX-License-Identifier: BSD-3-Clause
// Wrong arguments of public functions: each throws the type it promises and names the user's line.
#include <limits>

#include "sweep/hostile.hpp"

namespace reel::tests {
namespace {
enum class Kind { any, shape, dtype, index, memory };
struct Wrong {
  const char* op;
  Kind kind;
  int line;
  void (*call)();
};

Tensor x() { return tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}); }
Tensor v() { return tensor({1.0f, 2.0f, 3.0f}); }
Tensor truth() { return tensor({true, false, true}); }
Tensor huge(Shape shape) { return broadcast_to(ones({}), shape); }
constexpr std::int64_t large = std::int64_t{1} << 40;

// clang-format off
const Wrong table[] = {  // one to a line, which the error names
    {"add", Kind::shape, __LINE__, [] { x() + tensor({1.0f, 2.0f}); }},
    {"add", Kind::any, __LINE__, [] { x() + Tensor(); }},
    {"add", Kind::dtype, __LINE__, [] { tensor({1, 2}) + (std::int64_t{1} << 40); }},
    {"add", Kind::shape, __LINE__, [] { huge({large, 1}) + huge({1, large}); }},
    {"add", Kind::memory, __LINE__, [] { huge({large, 1}) + huge({1, 1 << 17}); }},
    {"subtract", Kind::dtype, __LINE__, [] { truth() - truth(); }},
    {"negative", Kind::dtype, __LINE__, [] { -truth(); }},
    {"remainder", Kind::dtype, __LINE__, [] { truth() % truth(); }},
    {"exp", Kind::memory, __LINE__, [] { exp(huge({large, 1 << 17})); }},
    {"tanh", Kind::any, __LINE__, [] { tanh(Tensor()); }},
    {"where", Kind::dtype, __LINE__, [] { where(v(), 1, 2); }},
    {"where", Kind::shape, __LINE__, [] { where(truth(), x(), tensor({1.0f, 2.0f})); }},
    {"equal", Kind::shape, __LINE__, [] { (void)(x() == tensor({1.0f, 2.0f})); }},
    {"equal", Kind::any, __LINE__, [] { equal(Tensor(), x()); }},
    {"subtract", Kind::shape, __LINE__, [] { allclose(x(), tensor({1.0f, 2.0f})); }},
    {"sum", Kind::shape, __LINE__, [] { sum(x(), 2); }},
    {"sum", Kind::shape, __LINE__, [] { sum(x(), -3); }},
    {"sum", Kind::shape, __LINE__, [] { sum(x(), {0, -2}); }},
    {"mean", Kind::shape, __LINE__, [] { mean(x(), std::numeric_limits<int>::max()); }},
    {"mean", Kind::shape, __LINE__, [] { mean(x(), std::numeric_limits<int>::min()); }},
    {"max", Kind::shape, __LINE__, [] { max(zeros({0})); }},
    {"min", Kind::shape, __LINE__, [] { min(zeros({2, 0}), 1); }},
    {"argmax", Kind::shape, __LINE__, [] { argmax(zeros({0})); }},
    {"argmax", Kind::shape, __LINE__, [] { argmax(x(), {0, 1}); }},
    {"any", Kind::shape, __LINE__, [] { any(truth(), 1); }},
    {"all", Kind::shape, __LINE__, [] { all(truth(), 1); }},
    {"matmul", Kind::shape, __LINE__, [] { matmul(x(), x()); }},
    {"matmul", Kind::shape, __LINE__, [] { matmul(x(), tensor({1.0f, 2.0f})); }},
    {"matmul", Kind::shape, __LINE__, [] { matmul(tensor(1.0f), v()); }},
    {"matmul", Kind::shape, __LINE__, [] { matmul(v(), 2.0f); }},
    {"matmul", Kind::shape, __LINE__, [] { matmul(ones({2, 2, 3}), ones({3, 3, 2})); }},
    {"matmul", Kind::dtype, __LINE__, [] { matmul(tensor({1, 2}), tensor({1, 2})); }},
    {"matmul", Kind::memory, __LINE__, [] { matmul(huge({1 << 30, 1}), huge({1, 1 << 27})); }},
    {"matmul", Kind::any, __LINE__, [] { matmul(x(), Tensor()); }},
    {"matmul_add", Kind::shape, __LINE__, [] { matmul_add(v(), x(), 1); }},
    {"matmul_add", Kind::shape, __LINE__, [] { matmul_add(x(), transpose(x()), v()); }},
    {"matmul_add", Kind::shape, __LINE__, [] { matmul_add(x(), transpose(x()), ones({1, 1, 1})); }},
    {"softmax", Kind::shape, __LINE__, [] { softmax(1.0f, 0); }},
    {"softmax", Kind::shape, __LINE__, [] { softmax(x(), 2); }},
    {"log_softmax", Kind::shape, __LINE__, [] { log_softmax(x(), -3); }},
    {"cross_entropy", Kind::shape, __LINE__, [] { cross_entropy(x(), tensor({0, 1, 2})); }},
    {"cross_entropy", Kind::shape, __LINE__, [] { cross_entropy(1.0f, 0); }},
    {"cross_entropy", Kind::dtype, __LINE__, [] { cross_entropy(x(), tensor({0.0f, 1.0f})); }},
    {"cross_entropy", Kind::index, __LINE__, [] { cross_entropy(x(), tensor({0, 3})); }},
    {"cross_entropy", Kind::index, __LINE__, [] { cross_entropy(x(), tensor({-1, 0})); }},
    {"layer_norm", Kind::shape, __LINE__, [] { layer_norm(x(), ones({2}), ones({3})); }},
    {"layer_norm", Kind::shape, __LINE__, [] { layer_norm(1.0f, ones({1}), ones({1})); }},
    {"layer_norm", Kind::any, __LINE__, [] { layer_norm(x(), v(), v(), -1); }},
    {"layer_norm", Kind::dtype, __LINE__, [] { layer_norm(tensor({1}), 1, 1); }},
    {"lstm_gates", Kind::shape, __LINE__, [] { lstm_gates(ones({2, 9}), ones({2, 2})); }},
    {"lstm_gates", Kind::shape, __LINE__, [] { lstm_gates(ones({3, 8}), ones({2, 2})); }},
    {"lstm_gates", Kind::shape, __LINE__, [] { lstm_gates(1.0f, 1.0f); }},
    {"tree_lstm_gates", Kind::shape, __LINE__, [] { tree_lstm_gates(ones({10}), ones({2}), v()); }},
    {"reshape", Kind::shape, __LINE__, [] { reshape(x(), {4}); }},
    {"reshape", Kind::shape, __LINE__, [] { reshape(x(), {-1, -1}); }},
    {"reshape", Kind::shape, __LINE__, [] { reshape(x(), {-1, 0}); }},
    {"transpose", Kind::shape, __LINE__, [] { transpose(x(), {0, 0}); }},
    {"transpose", Kind::shape, __LINE__, [] { transpose(x(), {0}); }},
    {"expand_dims", Kind::shape, __LINE__, [] { expand_dims(x(), 4); }},
    {"expand_dims", Kind::shape, __LINE__, [] { expand_dims(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0); }},
    {"squeeze", Kind::shape, __LINE__, [] { squeeze(x(), 0); }},
    {"broadcast_to", Kind::shape, __LINE__, [] { broadcast_to(x(), {3, 2}); }},
    {"broadcast_to", Kind::shape, __LINE__, [] { broadcast_to(x(), {-1, 2, 3}); }},
    {"concat", Kind::shape, __LINE__, [] { concat({x(), v()}); }},
    {"concat", Kind::shape, __LINE__, [] { concat({x(), x()}, 2); }},
    {"concat", Kind::any, __LINE__, [] { concat({}); }},
    {"stack", Kind::shape, __LINE__, [] { stack({x(), v()}); }},
    {"split", Kind::shape, __LINE__, [] { split(x(), 4, 1); }},
    {"take", Kind::index, __LINE__, [] { take(v(), tensor({3})); }},
    {"take", Kind::index, __LINE__, [] { take(v(), tensor({std::int64_t{1} << 62})); }},
    {"take", Kind::dtype, __LINE__, [] { take(v(), v()); }},
    {"take", Kind::shape, __LINE__, [] { take(v(), tensor({0}), 1); }},
    {"gather", Kind::shape, __LINE__, [] { gather(x(), tensor({0}), 1); }},
    {"gather", Kind::index, __LINE__, [] { gather(x(), tensor({{3}, {0}}), 1); }},
    {"scatter", Kind::any, __LINE__, [] { scatter_add(v(), tensor({0, 1}), tensor({1.0f})); }},
    {"scatter", Kind::index, __LINE__, [] { scatter_add(v(), tensor({7}), tensor({1.0f})); }},
    {"one_hot", Kind::index, __LINE__, [] { one_hot(tensor({3}), 3); }},
    {"one_hot", Kind::shape, __LINE__, [] { one_hot(tensor({0}), -1); }},
    {"one_hot", Kind::dtype, __LINE__, [] { one_hot(v(), 3); }},
};
// clang-format on

bool is_of(Kind kind, const Error& error) {
  switch (kind) {
    case Kind::any:
      return true;
    case Kind::shape:
      return dynamic_cast<const ShapeError*>(&error) != nullptr;
    case Kind::dtype:
      return dynamic_cast<const DTypeError*>(&error) != nullptr;
    case Kind::index:
      return dynamic_cast<const IndexError*>(&error) != nullptr;
    case Kind::memory:
      return dynamic_cast<const MemoryError*>(&error) != nullptr;
  }
  return false;
}
}  // namespace

TEST_CASE("wrong arguments give the promised error, in the user's line") {
  for (const Wrong& wrong : table) {
    INFO("line " << wrong.line << ", " << wrong.op);
    const ThreadState before;
    try {
      wrong.call();
      FAIL_CHECK("no error was thrown");
    } catch (const Error& error) {
      const std::string message = error.what(), first = message.substr(0, message.find('\n'));
      INFO(message);
      CHECK(is_of(wrong.kind, error));
      CHECK(first.size() <= 200);
      CHECK(first.find("arguments.cpp:" + std::to_string(wrong.line) + ": ") == 0);
      CHECK(first.find(wrong.op) != std::string::npos);
    } catch (const std::exception& error) {
      FAIL_CHECK("foreign exception: " << error.what());
    }
    CHECK((ThreadState() == before));
  }
}

TEST_CASE("an operator that throws leaves its left side as it was") {
  Tensor kept = v();
  CHECK_THROWS_AS(kept += tensor({1.0f, 2.0f}), ShapeError);
  CHECK_THROWS_AS(kept *= Tensor(), Error);
  CHECK(equal(kept, v()));
}
}  // namespace reel::tests
