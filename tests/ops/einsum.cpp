// SPDX-License-Identifier: BSD-3-Clause
// einsum and its like, compared with loops over all indices.
#include <reel/ops/einsum.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "lib/flow/observer.hpp"
#include "lib/ops/einsum_order.hpp"
#include "lib/table/op.hpp"
#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Values = std::vector<double>;
/// A random formula with its operands. Each axis is a letter here; '0' and '1' stand for the axes
/// of "...".
struct Case {
  std::vector<std::string> terms;
  std::string result;
  std::map<char, int> length;
  std::vector<std::vector<int>> shapes;  // axes of "..." may have length 1
  bool dots = false;

  explicit Case(unsigned seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const std::string letters = "aBcDefG";
    const int used = 1 + below(7), count = 1 + below(5);
    for (const char c : letters) length[c] = below(8) == 0 ? 1 : 2 + below(2);
    length['0'] = 2, length['1'] = 3;
    dots = below(4) == 0;
    std::string seen;
    for (int i = 0; i < count; ++i) {
      std::string term;
      std::vector<int> shape;
      for (int a = below(5); a-- > 0;) term += letters[static_cast<std::size_t>(below(used))];
      for (const char c : term) shape.push_back(length[c]);
      if (dots) {
        const std::string more = std::string("01").substr(static_cast<std::size_t>(below(3)));
        const auto at = static_cast<std::size_t>(below(static_cast<int>(term.size()) + 1));
        std::vector<int> lengths;
        for (const char c : more) lengths.push_back(below(3) == 0 ? 1 : length[c]);
        term.insert(at, more);
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), lengths.begin(),
                     lengths.end());
      }
      seen += term;
      terms.push_back(term);
      shapes.push_back(shape);
    }
    for (const char c : letters)
      if (seen.find(c) != seen.npos && below(2))
        result.insert(static_cast<std::size_t>(below(static_cast<int>(result.size()) + 1)), 1, c);
    // The axes of "..." that some operand has stay, each as long as the longest one.
    std::string more;
    for (const char c : {'0', '1'}) {
      int longest = 0;
      for (std::size_t i = 0; i < terms.size(); ++i)
        if (const auto at = terms[i].find(c); at != terms[i].npos)
          longest = std::max(longest, shapes[i][at]);
      if (longest) more += c, length[c] = longest;
    }
    result.insert(static_cast<std::size_t>(below(static_cast<int>(result.size()) + 1)), more);
  }
  std::string formula() const {
    std::string text;
    for (std::size_t i = 0; i < terms.size(); ++i) text += (i ? ", " : "") + shown(terms[i]);
    return text + " -> " + shown(result);
  }
  /// f(the flat place in each operand, the flat place in the result), for all values of all
  /// indices.
  template <class F>
  void each(F f) const {
    std::string all;
    for (const std::string& term : terms)
      for (const char c : term)
        if (all.find(c) == all.npos) all += c;
    std::map<char, int> at;
    for (const char c : all) at[c] = 0;
    const auto place = [&](const std::string& term, const std::vector<int>& shape) {
      std::size_t flat = 0;
      for (std::size_t a = 0; a < term.size(); ++a)
        flat = flat * static_cast<std::size_t>(shape[a]) +
               static_cast<std::size_t>(shape[a] == 1 ? 0 : at[term[a]]);
      return flat;
    };
    std::vector<int> result_shape;
    for (const char c : result) result_shape.push_back(length.at(c));
    for (;;) {
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < terms.size(); ++i) places.push_back(place(terms[i], shapes[i]));
      f(places, place(result, result_shape));
      std::size_t k = 0;
      while (k < all.size() && ++at[all[k]] == length.at(all[k])) at[all[k++]] = 0;
      if (k == all.size()) return;
    }
  }

 private:
  std::string shown(const std::string& term) const {
    std::string text;
    bool has_dots = false;
    for (const char c : term) {
      if (c != '0' && c != '1')
        text += c;
      else if (!std::exchange(has_dots, true))
        text += "...";
    }
    return dots && !has_dots ? text + "..." : text;
  }
};

/// The work of products: one for each multiplication and 16 for each element written.
struct Work : Observer {
  double total = 0;
  void op_ends(const GateCall& call) override {
    const double written = static_cast<double>(call.outputs[0]->elements);
    if (call.op.name == "matmul")
      total += written * (16 + static_cast<double>(call.inputs[0]->shape.end()[-1]));
    if (call.op.name == "multiply") total += written * 17;
  }
};

struct Cost {
  double work, peak;
};
/// The work and the peak of each order of products, and whether no product has more than `limit`
/// elements.
void each_order(const Lengths& lengths, const std::vector<std::pair<Indices, bool>>& factors,
                Indices result, double limit, Cost cost, bool fits,
                std::vector<std::pair<Cost, bool>>& out) {
  if (factors.size() == 1) out.push_back({cost, fits});
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t k = i + 1; k < factors.size(); ++k) {
      Indices others = result;
      double live = 0;
      std::vector<std::pair<Indices, bool>> rest;
      for (std::size_t f = 0; f < factors.size(); ++f) {
        if (factors[f].second) live += lengths.elements(factors[f].first);
        if (f == i || f == k) continue;
        others |= factors[f].first;
        rest.push_back(factors[f]);
      }
      const Indices both = factors[i].first | factors[k].first, made = both & others;
      const double written = lengths.elements(made);
      rest.push_back({made, true});
      each_order(
          lengths, rest, result, limit,
          {cost.work + lengths.elements(both) + 16 * written, std::max(cost.peak, live + written)},
          fits && written <= limit, out);
    }
}
/// The cheapest order within the limit, or any order that takes a tenth of its work.
Cost best_order(const Lengths& lengths, const std::vector<Indices>& sets, Indices result,
                double limit) {
  std::vector<std::pair<Indices, bool>> factors;
  for (const Indices set : sets) factors.push_back({set, false});
  std::vector<std::pair<Cost, bool>> all;
  each_order(lengths, factors, result, limit, {0, 0}, true, all);
  const double none = std::numeric_limits<double>::infinity();
  Cost best[2] = {{none, none}, {none, none}};
  for (const auto& [cost, fits] : all) {
    Cost& least = best[fits];
    if (cost.work < least.work || (cost.work == least.work && cost.peak < least.peak)) least = cost;
  }
  return best[0].work * 10 <= best[1].work ? best[0] : best[1];
}
}  // namespace

TEST_CASE("einsum gives the values and gradients of 500 random formulas") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Case chosen(seed);
    INFO(seed << ": " << chosen.formula());
    std::vector<Variable> operands;
    std::vector<Values> values, slopes;
    for (const std::vector<int>& shape : chosen.shapes) {
      const Tensor x = numbers(Shape(shape));
      operands.emplace_back("x", x);
      values.push_back(x.to_vector<double>());
      slopes.emplace_back(values.back().size());
    }
    std::vector<int> shape;
    for (const char c : chosen.result) shape.push_back(chosen.length.at(c));
    const Tensor weights = numbers(Shape(shape));
    const Values w = weights.to_vector<double>();
    Values expected(w.size());
    chosen.each([&](const std::vector<std::size_t>& at, std::size_t to) {
      double product = 1;
      for (std::size_t i = 0; i < at.size(); ++i) product *= values[i][at[i]];
      expected[to] += product;
      for (std::size_t i = 0; i < at.size(); ++i) {
        double others = w[to];
        for (std::size_t k = 0; k < at.size(); ++k)
          if (k != i) others *= values[k][at[k]];
        slopes[i][at[i]] += others;
      }
    });
    GradientTape tape;
    const Tensor y = einsum(chosen.formula(), operands);
    REQUIRE(y.shape() == Shape(shape));
    require_near(y, expected, 1e-11);
    const std::vector<Tensor> gradients = tape.gradient(sum(y * weights), operands);
    for (std::size_t i = 0; i < operands.size(); ++i) require_near(gradients[i], slopes[i], 1e-10);
  }
}

TEST_CASE("einsum multiplies up to five operands in the best order") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Lengths lengths{};
    std::vector<Indices> sets(static_cast<std::size_t>(2 + below(4)));
    for (int i = 0; i < 7; ++i) lengths.of[i] = 2 + below(40);
    Indices result = 0, all = 0;
    double limit = 0;
    for (Indices& set : sets) {
      for (int a = 1 + below(3); a-- > 0;) set |= set_of(below(7));
      all |= set;
      limit = std::max(limit, lengths.elements(set));
    }
    for (int i = 0; i < 7; ++i)
      if (below(3) == 0) result |= all & set_of(i);
    limit = std::max(limit, lengths.elements(result));
    const Search::Order found = Search(lengths, result, limit).best(sets.data(), sets.size());
    const Cost best = best_order(lengths, sets, result, limit);
    CHECK(found.work <= best.work);
    CHECK(found.peak <= best.peak);
  }
}

TEST_CASE("einsum does the work of the order that it has chosen") {
  const auto work = [](const char* formula, const std::vector<Tensor>& operands) {
    Work observer;
    const ObserverScope scope(observer);
    einsum(formula, operands);
    return observer.total;
  };
  const Tensor x = numbers({2, 30}), y = numbers({30, 40}), z = numbers({40, 3});
  CHECK(work("ij,jk,kl->il", {x, y, z}) == 2 * 40 * (30 + 16) + 2 * 3 * (40 + 16));
  CHECK(work("ij,jk,kl->il", {transpose(z), transpose(y), transpose(x)}) ==
        40 * 2 * (30 + 16) + 3 * 2 * (40 + 16));
  CHECK(work("ij,ij->ij", {x, x}) == 60 * 17);
  // An index of one operand alone is summed first: 30 sums, then one dot product.
  CHECK(work("jk,j->", {y, x(0)}) == 30 + 16);
  // Six operands: a chain is multiplied from its small end.
  CHECK(work("a,ab,bc,cd,de,e->", {numbers({9}), numbers({9, 9}), numbers({9, 9}), numbers({9, 9}),
                                   numbers({9, 9}), numbers({9})}) == 4 * 9 * (9 + 16) + 9 + 16);
}

TEST_CASE("einsum follows NumPy where the formula has no result") {
  const Tensor x = numbers({3, 3}), y = numbers({3, 4}), z = numbers({2, 3, 4});
  CHECK(equal(einsum("ba", {x}), transpose(x)));
  CHECK(allclose(einsum("ii", {x}), sum(diagonal(x))));
  CHECK(allclose(einsum("ij,jk", {x, y}), matmul(x, y)));
  CHECK(allclose(einsum("ij...,jk...", {numbers({2, 3, 5}) * 0 + 1, numbers({3, 4, 5}) * 0 + 1}),
                 full({5, 2, 4}, 3.0)));
  CHECK(allclose(einsum("...ij->...ji", {z}), swap_axes(z, 1, 2)));
  CHECK(allclose(einsum("", {tensor(2.0)}), tensor(2.0)));
  CHECK(allclose(einsum(",i", {2, y(0)}), y(0) * 2));
  CHECK(einsum("iii->i", {arange(0, 27).reshape({3, 3, 3})}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 13, 26});
}

TEST_CASE("einsum keeps dtypes as promotion does, and integers exact") {
  CHECK(einsum("i,i->", {tensor({1, 2}), tensor({3, 4})}).dtype() == DType::int64);
  CHECK(einsum("i,i->", {tensor({1, 2}), tensor({3, 4})}).item<std::int64_t>() == 11);
  CHECK(einsum("ij->", {tensor({{true, true}})}).item<std::int64_t>() == 2);
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(einsum("i,->", {tensor({large}), 1}).item<std::int64_t>() == large);
  CHECK(einsum("i,i->", {ones({2}), tensor({1, 2})}).dtype() == DType::float32);
  CHECK(einsum("i,i,i->", {ones({2}), tensor({1, 2}), numbers({2})}).dtype() == DType::float64);
  CHECK(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})}).to_vector<float>() ==
        std::vector<float>(6));
  CHECK(einsum("ij,jk->ik", {zeros({0, 2}), zeros({2, 3})}).shape() == Shape({0, 3}));
}

TEST_CASE("einsum takes 16 bits, and an AutocastScope its products") {
  const Tensor x = random::normal({2, 3}), y = random::normal({3, 4});
  const Tensor expected = matmul(x, y);
  const Tensor low = einsum("ij,jk->ik", {x.to(bfloat16), y.to(bfloat16)});
  CHECK(low.dtype() == DType::bfloat16);
  CHECK(allclose(low.to(float32), expected, {.rtol = 0.05, .atol = 0.05}));
  CHECK(einsum("ij,jk->ik", {x.to(bfloat16), y}).dtype() == DType::float32);
  const AutocastScope autocast;
  CHECK(einsum("ij,jk->ik", {x, y}).dtype() == DType::bfloat16);
  CHECK(linalg::cholesky(eye(2)).dtype() == DType::float32);
}

TEST_CASE("einsum is traced as its products") {
  auto f = trace([](Tensor x, Tensor y) { return einsum("bij,bkj,k->bi", {x, y, y(0, all, 0)}); });
  for (int i = 0; i < 3; ++i) {
    const Tensor x = numbers({2, 3, 4}), y = numbers({2, 5, 4});
    CHECK(allclose(f(x, y), sum(matmul(x, swap_axes(y, 1, 2)) * y(0, all, 0), -1)));
  }
}

TEST_CASE("tensordot, outer and kron agree with einsum") {
  const Tensor x = numbers({2, 3, 4}), y = numbers({3, 4, 5}), z = numbers({4, 2});
  CHECK(allclose(tensordot(x, y), einsum("ijk,jkl->il", {x, y})));
  CHECK(allclose(tensordot(x, z, 1), einsum("ijk,kl->ijl", {x, z})));
  CHECK(allclose(tensordot(x, z, 0), einsum("ijk,lm->ijklm", {x, z})));
  CHECK(allclose(tensordot(x, z, {0, 2}, {1, 0}), einsum("ijk,ki->j", {x, z})));
  CHECK(allclose(tensordot(x, z, -1, 0), tensordot(x, z, 1)));
  CHECK(tensordot(zeros({2, 0}), zeros({0, 3}), 1).to_vector<float>() == std::vector<float>(6));
  CHECK(allclose(outer(x, z), einsum("i,j->ij", {x.reshape({24}), z.reshape({8})})));
  CHECK(outer(zeros({0}), ones({2})).shape() == Shape({0, 2}));
  CHECK(kron(tensor({{1, 2}}), tensor({{1}, {3}})).to_vector<int>() == std::vector{1, 2, 3, 6});
  CHECK(kron(tensor({1, 2}), tensor({{1, 1}})).shape() == Shape({1, 4}));
  CHECK(kron(2, tensor({1, 3})).to_vector<int>() == std::vector{2, 6});
}

TEST_CASE("einsum says what does not fit") {
  const Tensor x = ones({2, 3}), y = ones({3, 4});
  const auto refused = [](auto f, const std::string& part, Caller caller = Caller::here()) {
    check_refused<Error>(f, part, caller);
  };
  refused(
      [&] {
        einsum("ij,jk->il", {x, y});
      },
      "formula: expected the index l of the result in an operand too, got \"ij,jk->il\"");
  refused([&] { einsum("ij->ii", {x}); }, "the index i once in the result");
  refused([&] { einsum("i1->i", {x}); }, "letters");
  refused([&] { einsum("i.j->i", {x}); }, "three dots");
  refused([&] { einsum("i->j->i", {x}); }, "one \"->\"");
  refused([&] { einsum("ij->i,j", {x}); }, "one term behind");
  refused([&] { einsum("......->", {x}); }, "at most one \"...\"");
  refused([&] { einsum("i...->i", {x}); }, "\"...\" in the result");
  check_refused<ShapeError>([&] { einsum("ij,jk->ik", {x}); },
                            "operands: expected 2 operands, as \"ij,jk->ik\" says, got 1");
  check_refused<ShapeError>(
      [&] {
        einsum("ij,jk->ik", {x, x});
      },
      "operand 1: expected length 3 for the index j of \"ij,jk->ik\", got (2, 3)");
  check_refused<ShapeError>(
      [&] {
        einsum("ijk,jk->ik", {x, y});
      },
      "operand 0: expected 3 axes, as its term");
  check_refused<ShapeError>([&] { einsum("ii", {x}); },
                            "operand: expected length 2 for the index i");
  check_refused<ShapeError>([&] { einsum("...,...", {x, y}); }, "an axis of \"...\"");
  check_refused<ShapeError>(
      [&] {
        einsum("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})});
      },
      "at most 8 axes");
  check_refused<ShapeError>(
      [&] { tensordot(x, y, 2); },
      "tensordot: y: expected length 2 in axis 0, as x is (2, 3), got (3, 4)");
  check_refused<ShapeError>([&] { tensordot(x, y, 3); }, "axes: expected 0 to 2 axes");
  check_refused<ShapeError>([&] { tensordot(x, y, {0, 1}, 0); }, "as many axes of x as of y");
  check_refused<ShapeError>([&] { tensordot(x, x, {0, 0}, {0, 1}); }, "each axis once");
  check_refused<ShapeError>([&] { tensordot(x, x, 2, 0); }, "tensordot: axis");
  check_refused<ShapeError>(
      [&] {
        kron(x, ones({1, 1, 1, 1, 1}));
      },
      "kron: y: expected at most 4 axes");
}
}  // namespace reel::tests
