// SPDX-License-Identifier: BSD-3-Clause
// Trees one by one, by batched(), by parallel(), and batched by levels by hand: trees a second of
// processor time, forward and backward. Also a shift-reduce network, and trees with any number of
// children.
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>

using namespace reel;

namespace {
struct Tree {
  std::int64_t word = 0, level = 0, place = 0;  // the place is a row of all states
  std::unique_ptr<Tree> left, right;
};
std::unique_ptr<Tree> grow(std::mt19937& random, std::uint64_t leaves) {
  auto tree = std::make_unique<Tree>();
  if (leaves == 1) {
    tree->word = random() % 1000;
    return tree;
  }
  const std::uint64_t left = 1 + random() % (leaves - 1);
  tree->left = grow(random, left);
  tree->right = grow(random, leaves - left);
  tree->level = 1 + std::max(tree->left->level, tree->right->level);
  return tree;
}

/// The same cell in primitive ops, as a user may write it.
struct OwnCell {
  Variable weight, bias, leaf_weight, leaf_bias;
  OwnCell(int in, int hidden)
      : weight("weight", random::normal({2 * hidden, 5 * hidden}, {.stddev = 0.05})),
        bias("bias", zeros({5 * hidden})),
        leaf_weight("leaf_weight", random::normal({in, 3 * hidden}, {.stddev = 0.05})),
        leaf_bias("leaf_bias", zeros({3 * hidden})) {}
  nn::LSTMState leaf(const Tensor& x) const {
    const auto g = split(matmul(x, leaf_weight) + leaf_bias, 3, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[1]);
    return {sigmoid(g[2]) * tanh(c), c};
  }
  nn::LSTMState operator()(const nn::LSTMState& l, const nn::LSTMState& r) const {
    const auto g = split(matmul(concat({l.h, r.h}, 1), weight) + bias, 5, 1);
    const Tensor c = sigmoid(g[0]) * tanh(g[3]) + sigmoid(g[1]) * l.c + sigmoid(g[2]) * r.c;
    return {sigmoid(g[4]) * tanh(c), c};
  }
  REEL_FIELDS(weight, bias, leaf_weight, leaf_bias)
};

template <class Cell>
struct Model {
  nn::Embedding embed;
  Cell cell;
  nn::Linear head;
  explicit Model(int width) : embed(1000, width), cell(width, width), head(width, 5) {}
  nn::LSTMState encode(const Tree& tree) const {
    if (!tree.left) return cell.leaf(embed(tensor({tree.word})));
    return cell(encode(*tree.left), encode(*tree.right));
  }
  nn::LSTMState encode_parallel(const Tree& tree) const {
    if (!tree.left) return cell.leaf(embed(tensor({tree.word})));
    const auto [left, right] = parallel([&] { return encode_parallel(*tree.left); },
                                        [&] { return encode_parallel(*tree.right); });
    return cell(left, right);
  }
  Tensor operator()(const Tree& tree) const { return head(encode(tree).h); }
  REEL_FIELDS(embed, cell, head)

  /// All nodes of a level at once. A node's state is a row of what the levels below have made.
  Tensor by_levels(const std::vector<std::unique_ptr<Tree>>& forest) const {
    std::vector<std::vector<Tree*>> levels;
    const auto visit = [&](const auto& self, Tree& tree) -> void {
      if (tree.left) self(self, *tree.left), self(self, *tree.right);
      const auto level = static_cast<std::size_t>(tree.level);
      if (levels.size() <= level) levels.resize(level + 1);
      levels[level].push_back(&tree);
    };
    for (const auto& tree : forest) visit(visit, *tree);
    std::vector<std::int64_t> words;
    std::int64_t count = 0;
    for (Tree* leaf : levels[0]) {
      words.push_back(leaf->word);
      leaf->place = count++;
    }
    const nn::LSTMState leaves = cell.leaf(embed(tensor(words)));
    Tensor h = leaves.h, c = leaves.c;  // of all nodes so far
    for (std::size_t level = 1; level < levels.size(); ++level) {
      std::vector<std::int64_t> left, right;
      for (Tree* node : levels[level]) {
        left.push_back(node->left->place);
        right.push_back(node->right->place);
        node->place = count++;
      }
      const Tensor l = tensor(left), r = tensor(right);
      const nn::LSTMState made = cell({take(h, l), take(c, l)}, {take(h, r), take(c, r)});
      h = concat({h, made.h});
      c = concat({c, made.c});
    }
    std::vector<std::int64_t> roots;
    for (const auto& tree : forest) roots.push_back(tree->place);
    return head(take(h, tensor(roots)));
  }
};

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

enum Way { one_by_one, together, branches, levels, ways };

/// Each batch has trees of 10 to 29 words that were not seen before.
template <class Cell>
void row(const char* name, int width, int trees, int only = -1) {
  seed(1);
  const Model<Cell> model(width);
  const auto weights = parameters(model);
  std::mt19937 random(1);
  const int steps = std::max(10, 500 / trees), warm = 2;
  double seconds[ways] = {};
  for (int step = 0; step < warm + steps; ++step) {
    std::vector<std::unique_ptr<Tree>> forest;
    for (int i = 0; i < trees; ++i) forest.push_back(grow(random, 10 + random() % 20));
    for (int way = 0; way < ways; ++way) {
      if (only >= 0 && only != way) continue;
      const double start = processor_seconds();
      {
        GradientTape tape;
        Tensor scores;
        if (way == levels) {
          scores = model.by_levels(forest);
        } else if (way == together) {
          scores = concat(batched(forest, [&](const auto& tree) { return model(*tree); }));
        } else {
          std::vector<Tensor> all;
          for (const auto& tree : forest)
            all.push_back(way == branches ? model.head(model.encode_parallel(*tree).h)
                                          : model(*tree));
          scores = concat(all);
        }
        tape.gradient(sum(square(scores)), weights);
      }
      if (step >= warm) seconds[way] += processor_seconds() - start;
    }
  }
  const auto rate = [&](int way) { return steps * trees / seconds[way]; };
  fmt::print(
      "{} cell, width {:3}, {:3} trees: one by one {:6.0f} trees a second, batched {:6.0f}, "
      "parallel {:6.0f}, levels {:6.0f}; batched / one by one {:.2f}, batched / levels "
      "{:.2f}, parallel / one by one {:.2f}\n",
      name, width, trees, rate(one_by_one), rate(together), rate(branches), rate(levels),
      rate(together) / rate(one_by_one), rate(together) / rate(levels),
      rate(branches) / rate(one_by_one));
}

/// For a profiler: the one way to measure.
std::size_t only_way = 9;
/// Seconds of processor time, of each way in turn.
template <class... Ways>
std::vector<double> measure(int steps, const Ways&... ways) {
  std::vector<double> seconds(sizeof...(Ways));
  for (int step = -2; step < steps; ++step) {
    std::size_t i = 0;
    const auto timed = [&](const auto& way) {
      const double start = processor_seconds();
      if (only_way == 9 || only_way == i) way(step + 2);
      if (step >= 0) seconds[i] += processor_seconds() - start;
      ++i;
    };
    (timed(ways), ...);
  }
  return seconds;
}

/// Shifts words, and reduces two states to one. The steps are those of the tree.
struct Spinn {
  nn::Embedding embed{1000, 128};
  nn::LSTMCell tracker{192, 32};
  nn::SPINNCell reduce{64, 32};
  nn::Linear choose{32, 2};
  REEL_FIELDS(embed, tracker, reduce, choose)

  static void add_steps(const Tree& tree, std::vector<std::int64_t>& words,
                        std::vector<bool>& reduces) {
    if (tree.left) {
      add_steps(*tree.left, words, reduces);
      add_steps(*tree.right, words, reduces);
    } else {
      words.push_back(tree.word);
    }
    reduces.push_back(tree.left != nullptr);
  }
  /// The scores of all steps, and the root.
  Tensor operator()(const Tree& tree) const {
    std::vector<std::int64_t> words;
    std::vector<bool> steps;
    add_steps(tree, words, steps);
    const std::vector<Tensor> rows = split(embed(tensor(words)), words.size());
    const Tensor nothing = zeros({1, 64});
    std::vector<nn::LSTMState> stack;
    nn::LSTMState track = tracker.initial_state(1);
    std::vector<Tensor> scores;
    std::size_t next = 0;
    const auto from_top = [&](std::size_t i) {
      return i < stack.size() ? stack[stack.size() - 1 - i].h : nothing;
    };
    for (const bool reduces : steps) {
      const Tensor coming = next < rows.size() ? rows[next](all, range(0, 64)) : nothing;
      track = tracker(concat({coming, from_top(0), from_top(1)}, 1), track);
      scores.push_back(choose(track.h));
      if (reduces) {
        const nn::LSTMState right = stack.back(), left = stack[stack.size() - 2];
        stack.resize(stack.size() - 2);
        stack.push_back(reduce(left, right, track.h));
      } else {
        stack.push_back({rows[next](all, range(0, 64)), rows[next](all, range(64, {}))});
        ++next;
      }
    }
    return concat({sum(square(stack[0].h)).reshape({1}), sum(square(concat(scores))).reshape({1})});
  }
};
void shift_reduce() {
  seed(1);
  const Spinn model;
  const auto weights = parameters(model);
  std::mt19937 random(1);
  std::vector<std::vector<std::unique_ptr<Tree>>> batches(32);
  for (auto& batch : batches)
    for (int i = 0; i < 16; ++i) batch.push_back(grow(random, 8 + random() % 18));
  const auto seconds = measure(
      30,
      [&](int step) {
        GradientTape tape;
        std::vector<Tensor> found;
        for (const auto& tree : batches[static_cast<std::size_t>(step)])
          found.push_back(model(*tree));
        tape.gradient(sum(concat(found)), weights);
      },
      [&](int step) {
        GradientTape tape;
        const auto found = batched(batches[static_cast<std::size_t>(step)],
                                   [&](const auto& tree) { return model(*tree); });
        tape.gradient(sum(concat(found)), weights);
      });
  fmt::print(
      "shift-reduce, width 64, 16 trees: one by one {:.2f} ms, batched {:.2f} ms; {:.2f}\n{}",
      seconds[0] / 30 * 1e3, seconds[1] / 30 * 1e3, seconds[0] / seconds[1],
      to_string(batching_report()));
}

/// A word at each node, and any number of children.
struct Ragged {
  std::int64_t word = 0, place = 0;
  std::size_t level = 0;
  std::vector<Ragged> children;
};
Ragged grow_ragged(std::mt19937& random, int depth) {
  Ragged made;
  made.word = random() % 1000;
  for (auto left = depth ? 1 + random() % 3 : 0; left > 0; --left) {
    made.children.push_back(
        grow_ragged(random, depth - 1 - static_cast<int>(random() % 2) % depth));
    made.level = std::max(made.level, made.children.back().level + 1);
  }
  return made;
}
struct ChildSum {
  nn::Embedding embed{1000, 64};
  nn::ChildSumTreeLSTMCell cell{64, 64};
  REEL_FIELDS(embed, cell)
  nn::LSTMState operator()(const Ragged& tree) const {
    std::vector<nn::LSTMState> states;
    for (const Ragged& child : tree.children) states.push_back((*this)(child));
    return cell(embed(tensor({tree.word})), states);
  }
  /// The cell's formulas, for all nodes of a level at once.
  Tensor by_levels(std::vector<Ragged>& forest) const {
    std::vector<std::vector<Ragged*>> levels;
    const auto visit = [&](const auto& self, Ragged& tree) -> void {
      for (Ragged& child : tree.children) self(self, child);
      if (levels.size() <= tree.level) levels.resize(tree.level + 1);
      levels[tree.level].push_back(&tree);
    };
    for (Ragged& tree : forest) visit(visit, tree);
    Tensor h, c;
    std::int64_t count = 0;
    for (const auto& level : levels) {
      std::vector<std::int64_t> words, children, parents;
      for (std::size_t i = 0; i < level.size(); ++i) {
        words.push_back(level[i]->word);
        level[i]->place = count++;
        for (const Ragged& child : level[i]->children) {
          children.push_back(child.place);
          parents.push_back(static_cast<std::int64_t>(i));
        }
      }
      const auto word = split(matmul_add(embed(tensor(words)), cell.weight, cell.bias), 4, 1);
      Tensor in = word[0], update = word[1], out = word[2], kept;
      if (h.defined()) {
        const Tensor at = tensor(children), of = tensor(parents);
        const Tensor below = take(h, at);
        const auto gates = split(matmul(segment_sum(below, of, level.size()), cell.children), 3, 1);
        in = in + gates[0], update = update + gates[1], out = out + gates[2];
        kept = segment_sum(sigmoid(matmul_add(below, cell.forget, take(word[3], of))) * take(c, at),
                           of, level.size());
      }
      Tensor state = sigmoid(in) * tanh(update);
      if (kept.defined()) state = state + kept;
      const Tensor made = sigmoid(out) * tanh(state);
      h = h.defined() ? concat({h, made}) : made;
      c = c.defined() ? concat({c, state}) : state;
    }
    std::vector<std::int64_t> roots;
    for (const Ragged& tree : forest) roots.push_back(tree.place);
    return take(h, tensor(roots));
  }
};
void child_sums() {
  seed(1);
  const ChildSum model;
  const auto weights = parameters(model);
  std::mt19937 random(1);
  std::vector<std::vector<Ragged>> batches(32);
  for (auto& batch : batches)
    for (int i = 0; i < 32; ++i) batch.push_back(grow_ragged(random, 3));
  const auto train = [&](const auto& states_of) {
    return [&](int step) {
      GradientTape tape;
      tape.gradient(sum(square(states_of(batches[static_cast<std::size_t>(step)]))), weights);
    };
  };
  const auto recursion = [&](const std::vector<Ragged>& forest) {
    std::vector<Tensor> found;
    for (const Ragged& tree : forest) found.push_back(model(tree).h);
    return concat(found);
  };
  const auto together = [&](const std::vector<Ragged>& forest) {
    return concat(batched(forest, [&](const Ragged& tree) { return model(tree).h; }));
  };
  const auto by_hand = [&](std::vector<Ragged>& forest) { return model.by_levels(forest); };
  const auto seconds = measure(30, train(recursion), train(together), train(by_hand));
  fmt::print(
      "child sums, width 64, 32 trees: recursion {:.2f} ms, batched {:.2f} ms, levels {:.2f} "
      "ms; batched / levels {:.2f}\n{}",
      seconds[0] / 30 * 1e3, seconds[1] / 30 * 1e3, seconds[2] / 30 * 1e3, seconds[1] / seconds[2],
      to_string(batching_report()));
}

/// A chain of characters. In a lattice, a word leads from the state before its first character to
/// its last one.
struct Chain {
  struct Word {
    std::size_t start;
    std::int64_t word;
  };
  std::vector<std::int64_t> letters;
  std::vector<std::vector<Word>> ends;  // the words that end at each letter
};
Chain grow_chain(std::mt19937& random, bool lattice) {
  Chain made;
  made.letters.resize(10 + random() % 20);
  made.ends.resize(made.letters.size());
  for (std::size_t i = 0; i < made.letters.size(); ++i) {
    made.letters[i] = random() % 1000;
    const std::size_t end = i + 1 + random() % 3;
    if (lattice && random() % 2 && end < made.letters.size())
      made.ends[end].push_back({i, static_cast<std::int64_t>(random() % 1000)});
  }
  return made;
}
struct Reader {
  nn::Embedding embed{1000, 64};
  nn::LSTMCell letters{64, 64}, words{64, 64};
  nn::Linear join{128, 64, Activation::tanh};
  REEL_FIELDS(embed, letters, words, join)
  Tensor operator()(const Chain& chain) const {
    std::vector<nn::LSTMState> states{letters.initial_state(1)};
    for (std::size_t i = 0; i < chain.letters.size(); ++i) {
      nn::LSTMState state = letters(embed(tensor({chain.letters[i]})), states.back());
      for (const auto& [start, word] : chain.ends[i])
        state.h = join(concat({state.h, words(embed(tensor({word})), states[start]).h}, 1));
      states.push_back(state);
    }
    return states.back().h;
  }
};
void chains(const char* name, bool lattice) {
  seed(1);
  const Reader model;
  const auto weights = parameters(model);
  std::mt19937 random(1);
  std::vector<std::vector<Chain>> batches(32);
  for (auto& batch : batches)
    for (int i = 0; i < 25; ++i) batch.push_back(grow_chain(random, lattice));
  std::int64_t launches = 0;
  const auto seconds = measure(
      30,
      [&](int step) {
        GradientTape tape;
        std::vector<Tensor> found;
        for (const Chain& each : batches[static_cast<std::size_t>(step)])
          found.push_back(model(each));
        tape.gradient(sum(square(concat(found))), weights, Unconnected::zero);
      },
      [&](int step) {
        GradientTape tape;
        const Tensor found = concat(batched(batches[static_cast<std::size_t>(step)], model));
        launches += batching_report().launches;
        tape.gradient(sum(square(found)), weights, Unconnected::zero);
      });
  fmt::print(
      "{}, width 64, 25 examples: one by one {:.2f} ms, batched {:.2f} ms in {} launches; "
      "{:.2f}\n",
      name, seconds[0] / 30 * 1e3, seconds[1] / 30 * 1e3, launches / 32, seconds[0] / seconds[1]);
}
}  // namespace

int main(int count, char** words) {
  set_num_threads(1);
  if (count == 2 || count == 3) {
    const std::string what = words[1];
    if (count == 3) only_way = static_cast<std::size_t>(std::atoi(words[2]));
    if (what == "spinn") shift_reduce();
    if (what == "sums") child_sums();
    if (what == "chains") chains("chains", false);
    if (what == "lattices") chains("lattices", true);
    return 0;
  }
  if (count == 5) {  // for a profiler: a cell, a width, trees, a way
    const int width = std::atoi(words[2]), trees = std::atoi(words[3]), way = std::atoi(words[4]);
    if (words[1] == std::string("nn"))
      row<nn::TreeLSTMCell>("nn's", width, trees, way);
    else
      row<OwnCell>("own ", width, trees, way);
    fmt::print("{}", to_string(batching_report()));
    return 0;
  }
  for (const int width : {32, 150, 300})
    for (const int trees : {1, 25, 128}) {
      row<nn::TreeLSTMCell>("nn's", width, trees);
      row<OwnCell>("own ", width, trees);
    }
  shift_reduce();
  child_sums();
  chains("chains", false);
  chains("lattices", true);
}
