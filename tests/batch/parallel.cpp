// SPDX-License-Identifier: BSD-3-Clause
// parallel() beside plain recursion.
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <reel/reel.hpp>

#include "batch/trees.hpp"
#include "support/catch.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
enum class Way { plain, functions, children };
struct Model {
  nn::Embedding embed{11, 6};
  nn::TreeLSTMCell cell{6, 6};
  nn::Linear head{6, 3};
  bool decides = false;
  nn::LSTMState encode(const Tree& tree, Way way) const {
    if (tree.children.empty()) return cell.leaf(embed(tensor({tree.word})));
    nn::LSTMState left, right;
    if (way == Way::functions) {
      std::tie(left, right) = parallel([&] { return encode(tree.children[0], way); },
                                       [&] { return encode(tree.children[1], way); });
    } else if (way == Way::children) {
      const auto both =
          parallel(tree.children, [&](const Tree& child) { return encode(child, way); });
      left = both[0], right = both[1];
    } else {
      left = encode(tree.children[0], way);
      right = encode(tree.children[1], way);
    }
    nn::LSTMState state = cell(left, right);
    if (decides && bool(sum(state.h) > 0.05)) state.h = state.h * 0.5;
    return state;
  }
  Tensor operator()(const Tree& tree, Way way) const { return head(encode(tree, way).h); }
  REEL_FIELDS(embed, cell, head)
};
}  // namespace

TEST_CASE("a tree with parallel subtrees has the values and gradients of plain recursion") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    seed(static_cast<std::uint64_t>(round));
    Model model;
    model.decides = round % 2;
    const auto weights = parameters(model);
    const Tree tree = grow(random, 1 + static_cast<int>(random() % 19));
    GradientTape loop, tape;
    const Tensor expected = model(tree, Way::plain);
    const auto slopes = loop.gradient(sum(square(expected)), weights, Unconnected::zero);
    const Tensor found = model(tree, round % 3 ? Way::functions : Way::children);
    const auto got = tape.gradient(sum(square(found)), weights, Unconnected::zero);
    CHECK(allclose(found, expected, {.rtol = 1e-4, .atol = 1e-5}));
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(allclose(got[i], slopes[i], {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST_CASE("forests with parallel subtrees equal a loop over plain recursion") {
  std::mt19937 random(8);
  for (int round = 0; round < 30; ++round) {
    Model model;
    model.decides = round % 2;
    std::vector<Tree> forest;
    for (int i = 0; i < 1 + round % 5; ++i)
      forest.push_back(grow(random, 1 + static_cast<int>(random() % 19)));
    const auto found =
        batched(forest, [&](const Tree& tree) { return model(tree, Way::functions); });
    for (std::size_t i = 0; i < forest.size(); ++i)
      CHECK(allclose(found[i], model(forest[i], Way::plain), {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST_CASE("subtrees that read values run together") {
  Model model;
  model.decides = true;
  std::function<Tree(int)> complete = [&](int depth) {
    Tree tree;
    for (int i = 0; depth && i < 2; ++i) tree.children.push_back(complete(depth - 1));
    return tree;
  };
  const Tree tree = complete(5);
  model.encode(tree, Way::functions);
  CHECK(batching_report().rounds == 5);  // the levels below the root, and the end
  for (const BatchedOp& op : batching_report().ops)
    if (op.name == "tree_lstm_gates") CHECK(op.launches == 4);
  batched(std::vector<Tree>(7, tree), [&](const Tree& t) { return model(t, Way::functions); });
  for (const BatchedOp& op : batching_report().ops)
    if (op.name == "tree_lstm_gates") CHECK(op.launches == 5);
}

TEST_CASE("cells over ragged children and cells with a tracking state run together") {
  nn::Embedding embed{11, 6};
  nn::ChildSumTreeLSTMCell cell{6, 6};
  nn::SPINNCell reduce{6, 3};
  nn::LSTMCell tracker{6, 3};
  std::vector<Variable> weights = parameters(embed);
  for (const Variable& each : parameters(cell)) weights.push_back(each);
  for (const Variable& each : parameters(reduce)) weights.push_back(each);
  std::mt19937 random(9);
  const std::function<Tree(int)> ragged = [&](int depth) {
    Tree tree;
    tree.word = static_cast<std::int64_t>(random() % 11);
    for (auto left = depth ? random() % 5 : 0; left > 0; --left)
      tree.children.push_back(ragged(depth - 1));
    return tree;
  };
  const std::function<nn::LSTMState(const Tree&)> encode = [&](const Tree& tree) {
    std::vector<nn::LSTMState> states;
    for (const Tree& child : tree.children) states.push_back(encode(child));
    return cell(embed(tensor({tree.word})), states);
  };
  const auto f = [&](const Tree& tree) {
    const nn::LSTMState root = encode(tree);
    return reduce(root, root, tracker(root.h, tracker.initial_state(1)).h).h;
  };
  std::vector<Tree> forest;
  for (int i = 0; i < 12; ++i) forest.push_back(ragged(3));
  GradientTape loop, tape;
  std::vector<Tensor> expected;
  for (const Tree& tree : forest) expected.push_back(f(tree));
  const auto slopes = loop.gradient(sum(square(concat(expected))), weights);
  const auto found = batched(forest, f);
  for (const BatchedOp& op : batching_report().ops) {
    INFO(op.name);
    CHECK(op.alone == 0);
  }
  const auto got = tape.gradient(sum(square(concat(found))), weights);
  CHECK(allclose(concat(found), concat(expected), {.rtol = 1e-4, .atol = 1e-5}));
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(allclose(got[i], slopes[i], {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_CASE("parallel() gives structs, numbers and references to what was there") {
  const Variable w("w", ones({2}));
  struct Pair {
    Tensor x;
    float y;
  };
  const auto [pair, number, text] = parallel(
      [&] {
        const Tensor x = w * 3;
        return Pair{x, sum(x).item<float>()};
      },
      [] { return 7; }, [] { return std::string("text"); });
  CHECK(pair.x.to_vector<float>() == std::vector<float>{3, 3});
  CHECK(pair.y == 6);
  CHECK(number == 7);
  CHECK(text == "text");
  CHECK(parallel(std::vector<int>{}, [&](int i) { return w * i; }).empty());
  CHECK(std::get<0>(parallel([&] { return w * 2; })).to_vector<float>() ==
        std::vector<float>{2, 2});
}

TEST_CASE("if branches throw, the others finish, and the first exception leaves parallel()") {
  const Variable w("w", ones({2}));
  std::vector<int> finished;
  const auto f = [&](int i) {
    if (i % 2 && sum(w * i).item<float>() > 4) throw std::runtime_error(std::to_string(i));
    finished.push_back(i);
    return w * i;
  };
  const std::vector<int> all{1, 2, 5, 3, 4};
  const auto caught = [&] {
    try {
      parallel(all, f);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(caught() == "5");
  CHECK(finished.size() == 3);
  finished.clear();
  const auto inside = batched(std::vector<int>{0, 1}, [&](int) { return caught(); });
  CHECK(inside == std::vector<std::string>{"5", "5"});
  CHECK(finished.size() == 6);
  CHECK(std::uncaught_exceptions() == 0);
  check_refused<Error>(
      [&] { parallel([&] { return w * 1; }, [&] { return batched(all, f).size(); }); },
      "parallel()");
}

TEST_CASE("branches draw random numbers of their own, whatever waits") {
  const auto draw = [](bool reads, int depth) {
    const auto self = [&](const auto& again, int d) -> Tensor {
      if (d == 0) {
        const Tensor x = random::normal({2});
        if (reads) static_cast<void>(sum(x).item<float>());
        return x;
      }
      auto [a, b] =
          parallel([&] { return again(again, d - 1); }, [&] { return again(again, d - 1); });
      return a - b * 2.0f + random::normal({2});
    };
    return self(self, depth);
  };
  const auto drawn = [&](bool reads) {
    seed(4);
    const Tensor first = draw(reads, 3);
    return concat({first, random::normal({2})}).to_vector<float>();
  };
  CHECK(drawn(false) == drawn(true));
  const auto together = [&](std::size_t count, bool reads) {
    seed(4);
    return batched(std::vector<int>(count), [&](int) { return draw(reads, 3); })[0]
        .to_vector<float>();
  };
  CHECK(together(1, false) == together(3, true));
  CHECK(together(2, true) == together(1, true));
}

TEST_CASE("more branches wait than get stacks") {
  const Variable w("w", ones({1}));
  std::vector<int> many(3000);
  for (int i = 0; i < 3000; ++i) many[static_cast<std::size_t>(i)] = i;
  const auto found =
      parallel(many, [&](int i) { return sum(w * static_cast<float>(i)).item<float>(); });
  CHECK(found[2999] == 2999);
  CHECK(found[7] == 7);
}

TEST_CASE("in a traced function and in vmap() branches are plain calls") {
  const Variable w("w", ones({2}));
  const auto f = [&](Tensor x) {
    const auto [a, b] = parallel([&] { return x * w; }, [&] { return x + w; });
    return a * b;
  };
  auto traced = trace(f);
  for (int i = 1; i < 4; ++i) {
    const auto at = static_cast<float>(i);
    CHECK(traced(full({2}, at)).to_vector<float>() == std::vector<float>(2, at * (at + 1)));
  }
  CHECK(vmap(f)(ones({3, 2})).to_vector<float>() == std::vector<float>(6, 2.0f));
}

TEST_CASE("functions of batched(), parallel() and vmap() make no tapes, however many there are") {
  const Variable w("w", ones({2}));
  const auto slope = [&](float x) {
    GradientTape tape;
    return tape.gradient(sum(square(w * x)), w);
  };
  const auto refuses = [&](const auto& f) {
    const std::string text = error_text(f);
    INFO(text);
    CHECK(text.starts_with("parallel.cpp:"));
    CHECK(text.find("GradientTape: tape: expected one around batched(), parallel() or vmap(), got "
                    "one inside of their function") != text.npos);
  };
  for (const std::size_t count : {1, 2, 3}) {
    const std::vector<float> x(count, 2);
    refuses([&] { batched(x, slope); });
    refuses([&] { parallel(x, slope); });
    refuses([&] { vmap([&](const Tensor& row) { return slope(2) * row; })(ones({3, 2})); });
    // A function with a gradient of its own runs outside of the batch.
    const auto own = custom_gradient([&](const Tensor& y) {
      return std::pair{y * slope(2), [](const Tensor& dy) -> Tensor { return dy; }};
    });
    for (const Tensor& y : batched(x, [&](float each) { return own(full({2}, each)); }))
      CHECK(equal(y, full({2}, 16.f)));
    GradientTape tape;
    const Tensor loss = sum(stack(batched(x, [&](float each) { return square(w * each); })));
    CHECK(equal(tape.gradient(loss, w), full({2}, 8.f * static_cast<float>(count))));
  }
  CHECK(equal(slope(2), full({2}, 8.f)));
}

TEST_CASE("one example and one branch have the rules of several") {
  const Variable w("w", ones({2}));
  const auto write = [&](float x) { return w.assign_add(x), x; };
  for (const std::size_t count : {1, 2}) {
    const std::vector<float> x(count, 2);
    CHECK(error_text([&] { parallel(x, write); }).find("no update inside of batched()") !=
          std::string::npos);
    GradientTape tape;
    const auto again = checkpoint([&](const Tensor& y) { return square(y) * w; });
    const Tensor loss = sum(stack(batched(x, [&](float each) { return again(full({2}, each)); })));
    CHECK(equal(tape.gradient(loss, w), full({2}, 4.f * static_cast<float>(count))));
  }
}
}  // namespace reel::tests
