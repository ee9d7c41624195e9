// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/einsum.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include <reel/ops.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/einsum_order.hpp"
#include "lib/ops/ops.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
[[noreturn]] void refuse(Caller caller, std::string_view function, const Text& argument,
                         const Text& expected, const Text& got) {
  fail<ShapeError>(caller, function, argument, expected, got);
}
constexpr int first_of_dots = 52;
int index_of(char letter) { return letter < 'a' ? letter - 'A' : letter - 'a' + 26; }

/// The indices of the axes of a tensor, in order.
struct Term {
  std::int8_t axes[Shape::max_rank];
  int count = 0;
  Indices set = 0;

  const std::int8_t* begin() const { return axes; }
  const std::int8_t* end() const { return axes + count; }
  /// The axis of an index that the term has.
  int place(int index) const {
    return static_cast<int>(std::find(begin(), end(), index) - begin());
  }
  void add(int index) {
    axes[count++] = static_cast<std::int8_t>(index);
    set |= set_of(index);
  }
  /// Adds those of `other` that are in the set.
  void add(const Term& other, Indices chosen) {
    for (int a = 0; a < other.count; ++a)
      if (chosen & set_of(other.axes[a])) add(other.axes[a]);
  }
};
struct Factor {
  Tensor x;
  Term term;
};

/// x with its axes in the order of `term`, which has the same indices.
Tensor ordered(const Factor& factor, const Term& term) {
  int order[Shape::max_rank];
  bool as_it_is = true;
  for (int a = 0; a < term.count; ++a) {
    order[a] = factor.term.place(term.axes[a]);
    as_it_is = as_it_is && order[a] == a;
  }
  if (as_it_is) return factor.x;
  return transpose(factor.x,
                   Axes(std::span<const int>(order, static_cast<std::size_t>(term.count))));
}
/// x [axes of `first`, axes of `middle`, axes of `last`] with each of the two latter joined.
Tensor joined(const Factor& factor, const Term& first, const Term& middle, const Term& last) {
  Term all = first;
  all.add(middle, middle.set);
  all.add(last, last.set);
  const Tensor x = ordered(factor, all);
  if (middle.count == 1 && last.count == 1) return x;
  Shape shape = x.shape();
  shape.resize(static_cast<std::size_t>(first.count) + 2);
  const std::int64_t* length = x.shape().data() + first.count;
  for (int part : {0, 1}) {
    std::int64_t& product = shape.data()[first.count + part] = 1;
    for (int a = 0; a < (part ? last : middle).count; ++a) product *= *length++;
  }
  return reshape(x, shape);
}

/// The product of two factors, summed over the indices of both that are not kept. Its axes are
/// those that both keep, those of x alone, and those of y alone.
Factor multiplied(const Factor& x, const Factor& y, Indices keep) {
  const Indices both = x.term.set & y.term.set;
  Term batch, of_x, of_y, summed;
  batch.add(x.term, both & keep);
  of_x.add(x.term, ~both);
  of_y.add(y.term, ~both);
  // The larger tensor is copied less often.
  summed.add(x.x.size() < y.x.size() ? y.term : x.term, both & ~keep);
  Factor product{{}, batch};
  const int rank = batch.count + of_x.count + of_y.count;
  if (rank > static_cast<int>(Shape::max_rank))
    refuse({}, "einsum", "formula", "products with at most 8 axes", to_text(rank));
  product.term.add(of_x, of_x.set);
  product.term.add(of_y, of_y.set);
  if (summed.count == 0) {
    Term in_x = batch, in_y = batch;
    in_x.add(of_x, of_x.set);
    in_y.add(of_y, of_y.set);
    Shape first, second;
    const Tensor a = ordered(x, in_x), b = ordered(y, in_y);
    first.resize(static_cast<std::size_t>(rank));
    second.resize(static_cast<std::size_t>(rank));
    std::copy(a.shape().begin(), a.shape().end(), first.data());
    std::copy(b.shape().begin(), b.shape().begin() + batch.count, second.data());
    std::copy(b.shape().begin() + batch.count, b.shape().end(),
              second.data() + batch.count + of_x.count);
    product.x = reshape(a, first) * reshape(b, second);
    return product;
  }
  if (!is_floating(x.x.dtype())) {  // has no matrix products
    const Factor all = multiplied(x, y, ~Indices{0});
    int axes[Shape::max_rank], count = 0;
    for (int a = 0; a < all.term.count; ++a)
      if (summed.set & set_of(all.term.axes[a])) axes[count++] = a;
    product.x = sum(all.x, Axes(std::span<const int>(axes, static_cast<std::size_t>(count))));
    return product;
  }
  product.x = matmul(joined(x, batch, of_x, summed), joined(y, batch, summed, of_y));
  if (of_x.count == 1 && of_y.count == 1) return product;
  Shape shape;
  shape.resize(static_cast<std::size_t>(rank));
  for (int a = 0; a < rank; ++a) {
    const int index = product.term.axes[a];
    const Factor& from = x.term.set & set_of(index) ? x : y;
    shape.data()[a] = from.x.shape().data()[from.term.place(index)];
  }
  product.x = reshape(product.x, shape);
  return product;
}

/// The product of all factors, with the indices of the result in any order.
Factor product_of(std::vector<Factor>& factors, const Lengths& lengths, const Term& result,
                  double limit) {
  // In the last product, the factor with the first axis of the result comes first.
  const auto multiply = [&](Search::Pair pair) {
    Indices keep = result.set;
    for (std::size_t i = 0; i < factors.size(); ++i)
      if (i != pair.first && i != pair.second) keep |= factors[i].term.set;
    Factor &x = factors[pair.first], &y = factors[pair.second];
    const Indices alone = x.term.set ^ y.term.set;
    const auto* const first = std::find_if(result.begin(), result.end(),
                                           [=](int index) { return alone & set_of(index); });
    const bool swap = factors.size() == 2 && first != result.end() && y.term.set & set_of(*first);
    x = swap ? multiplied(y, x, keep) : multiplied(x, y, keep);
    factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(pair.second));
  };
  std::vector<Indices> sets;
  const auto list = [&] {
    sets.clear();
    for (const Factor& factor : factors) sets.push_back(factor.term.set);
  };
  while (factors.size() > Search::most) {  // the pair whose product adds the fewest elements
    list();
    const Search search(lengths, result.set, limit);
    Search::Pair best{0, 1};
    double least = std::numeric_limits<double>::infinity(), least_work = least;
    for (std::size_t i = 0; i < sets.size(); ++i)
      for (std::size_t k = i + 1; k < sets.size(); ++k) {
        const Indices one = search.product(sets.data(), sets.size(), {i, k});
        const double elements = lengths.elements(one);
        const double added = elements > limit || count_of(one) > 8
                                 ? std::numeric_limits<double>::max()
                                 : elements - lengths.elements(sets[i]) - lengths.elements(sets[k]);
        const double work = search.work(sets[i], sets[k], one);
        if (added < least || (added == least && work < least_work)) {
          least = added;
          least_work = work;
          best = {i, k};
        }
      }
    multiply(best);
  }
  if (factors.size() > 1) {
    Search::Order order{0, 0, {{0, 1}}};
    if (factors.size() > 2) {
      list();
      order = Search(lengths, result.set, limit).best(sets.data(), sets.size());
      if (order.work == std::numeric_limits<double>::infinity())
        refuse({}, "einsum", "formula", "products with at most 8 axes", "more");
    }
    for (int step = 0; factors.size() > 1; ++step) multiply(order.pairs[step]);
  }
  return std::move(factors[0]);
}

/// x; a number is where the tensor `beside` it is.
Tensor placed(const Operand& x, const Operand& beside) {
  const bool moves = x.kind() == Operand::Kind::scalar && beside.kind() != Operand::Kind::scalar;
  return moves ? x.value().to(beside.value().device(), x.caller()) : x.value();
}
/// The operands as tensors of one dtype.
std::vector<Factor> factors_of(const Operands& operands) {
  std::vector<Factor> factors(operands.size());
  std::size_t tensor = 0;
  while (tensor + 1 < operands.size() && operands[tensor].kind() == Operand::Kind::scalar) ++tensor;
  DType common = DType::boolean;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    shape_of(matmul_op, operands[i], static_cast<int>(std::min<std::size_t>(i, 2)));
    factors[i].x = placed(operands[i], operands[tensor]);
    common = promoted(common, factors[i].x.dtype());
  }
  if (!is_floating(common)) common = DType::int64;
  for (Factor& factor : factors)
    if (factor.x.dtype() != common) factor.x = cast(factor.x, common);
  return factors;
}

/// A formula without spaces, and with "." for "...".
class Formula {
 public:
  Formula(std::string_view text, Caller caller) : caller_(caller), text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == ' ') continue;
      if (c == '.') {
        if (text.substr(i, 3) != "...") fail_form("\"...\" of three dots");
        i += 2;
      } else if (c == '-') {
        if (text.substr(i, 2) != "->" || explicit_) fail_form("one \"->\"");
        ++i;
        explicit_ = true;
        continue;
      } else if (c != ',' && !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) {
        fail_form("letters, \",\", \"...\" and \"->\"");
      }
      if (explicit_)
        result_ += c;
      else if (c == ',')
        terms_.emplace_back();
      else
        terms_.back() += c;
    }
    for (const std::string& term : terms_) require_one_ellipsis(term);
    require_one_ellipsis(result_);
    if (result_.find(',') != result_.npos) fail_form("one term behind \"->\"");
  }

  /// Gives each axis of each operand its index, and returns the term of the result.
  Term resolve(std::vector<Factor>& factors, Lengths& lengths) const {
    if (factors.size() != terms_.size())
      refuse(caller_, "einsum", "operands",
             to_text(terms_.size()) + (terms_.size() == 1 ? " operand" : " operands") + ", as \"" +
                 shown() + "\" says",
             to_text(factors.size()));
    std::fill(lengths.of, lengths.of + index_count, -1);
    int dots = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const std::string& term = terms_[i];
      const Shape& shape = factors[i].x.shape();
      const int rank = static_cast<int>(shape.rank());
      const bool has_dots = term.find('.') != term.npos;
      const int letters = static_cast<int>(term.size()) - has_dots;
      if (has_dots ? rank < letters : rank != letters)
        refuse(caller_, "einsum", operand(i),
               to_text(letters) + (letters == 1 ? " axis" : " axes") +
                   (has_dots ? " or more" : "") + ", as its term in \"" + shown() + "\" says",
               to_text(shape));
      add(factors[i].term, term, rank - letters);
      dots = std::max(dots, rank - letters);
      for (int a = 0; a < rank; ++a) join(lengths, factors, i, a);
    }
    return result(dots, factors);
  }

 private:
  static void add(Term& term, const std::string& text, int dots) {
    for (const char c : text) {
      if (c != '.') {
        term.add(index_of(c));
        continue;
      }
      for (int a = index_count - dots; a < index_count; ++a) term.add(a);
    }
  }
  /// Compares axis a of operand i with the length of its index.
  void join(Lengths& lengths, const std::vector<Factor>& factors, std::size_t i, int a) const {
    const int index = factors[i].term.axes[a];
    const std::int64_t here = factors[i].x.shape().data()[a];
    std::int64_t& length = lengths.of[index];
    if (length < 0 || (length == 1 && index >= first_of_dots)) length = here;
    if (length == here || (here == 1 && index >= first_of_dots)) return;
    const Text axis = index >= first_of_dots
                          ? Text(" in axis ") + to_text(a) + ", an axis of \"...\","
                          : Text(" for the index ") + name(index);
    refuse(caller_, "einsum", operand(i),
           "length " + to_text(length) + axis + " of \"" + shown() + "\"",
           to_text(factors[i].x.shape()));
  }
  Term result(int dots, const std::vector<Factor>& factors) const {
    int uses[index_count] = {};
    for (const Factor& factor : factors)
      for (int a = 0; a < factor.term.count; ++a) ++uses[factor.term.axes[a]];
    std::string text = result_;
    if (!explicit_) {
      text = ".";
      for (int index = 0; index < first_of_dots; ++index)
        if (uses[index] == 1) text += name(index);
    }
    const bool has_dots = text.find('.') != text.npos;
    if (dots > 0 && !has_dots) fail_form("\"...\" in the result, as an operand has axes for it");
    const std::size_t rank = text.size() - has_dots + static_cast<std::size_t>(has_dots ? dots : 0);
    if (rank > Shape::max_rank)
      refuse(caller_, "einsum", "formula", "a result with at most 8 axes", to_text(rank));
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '.') continue;
      if (uses[index_of(text[i])] == 0)
        fail_form(Text("the index ") + text.substr(i, 1) + " of the result in an operand too");
      if (text.find(text[i], i + 1) != text.npos)
        fail_form(Text("the index ") + text.substr(i, 1) + " once in the result");
    }
    Term term;
    add(term, text, dots);
    return term;
  }
  void require_one_ellipsis(const std::string& term) const {
    if (std::count(term.begin(), term.end(), '.') > 1) fail_form("at most one \"...\" in a term");
  }
  static std::string name(int index) {
    return std::string(1, static_cast<char>(index < 26 ? 'A' + index : 'a' + index - 26));
  }
  Text operand(std::size_t i) const {
    return terms_.size() == 1 ? Text("operand") : "operand " + to_text(i);
  }
  std::string shown() const {
    return text_.size() <= 40 ? std::string(text_) : std::string(text_.substr(0, 37)) + "...";
  }
  [[noreturn]] void fail_form(const Text& expected) const {
    fail<Error>(caller_, "einsum", "formula", expected, "\"" + shown() + "\"");
  }
  Caller caller_;
  std::string_view text_;
  std::vector<std::string> terms_{1};
  std::string result_;
  bool explicit_ = false;
};

/// Takes diagonals, leaves out axes of length 1, and sums over indices that no other factor and not
/// the result has.
void simplify(Factor& factor, Indices others) {
  Term term;
  Shape shape;
  shape.resize(static_cast<std::size_t>(factor.term.count));
  for (int a = 0; a < factor.term.count; ++a) {
    const std::int64_t length = factor.x.shape().data()[a];
    if (length == 1) continue;
    shape.data()[term.count] = length;
    term.add(factor.term.axes[a]);
  }
  if (term.count < factor.term.count) {
    shape.resize(static_cast<std::size_t>(term.count));
    factor.x = reshape(factor.x, shape);
    factor.term = term;
  }
  for (int a = 0; a < factor.term.count; ++a) {
    const int index = factor.term.axes[a];
    const auto* const end = factor.term.end();
    const auto* const again = std::find(factor.term.begin() + a + 1, end, index);
    if (again == end) continue;
    factor.x = diagonal(factor.x, 0, a, static_cast<int>(again - factor.term.axes));
    Term kept;
    for (const auto* at = factor.term.begin(); at < end; ++at)
      if (at != factor.term.begin() + a && at != again) kept.add(*at);
    kept.add(index);  // diagonal() puts it behind the others
    factor.term = kept;
    a = -1;
  }
  int axes[Shape::max_rank], count = 0;
  Term kept;
  for (int a = 0; a < factor.term.count; ++a)
    if (others & set_of(factor.term.axes[a]))
      kept.add(factor.term.axes[a]);
    else
      axes[count++] = a;
  if (count == 0) return;
  factor.x = sum(factor.x, Axes(std::span<const int>(axes, static_cast<std::size_t>(count))));
  factor.term = kept;
}
}  // namespace

Tensor einsum(std::string_view formula, Operands operands) try {
  const FunctionScope scope(operands.caller(), "einsum");
  const Formula parsed(formula, operands.caller());
  std::vector<Factor> factors = factors_of(operands);
  Lengths lengths;
  const Term result = parsed.resolve(factors, lengths);
  Shape shape;
  shape.resize(static_cast<std::size_t>(result.count));
  Term long_axes;
  for (int a = 0; a < result.count; ++a) {
    shape.data()[a] = lengths.of[result.axes[a]];
    if (shape.data()[a] != 1) long_axes.add(result.axes[a]);
  }
  auto largest = static_cast<double>(shape.elements());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    largest = std::max(largest, static_cast<double>(factors[i].x.size()));
    Indices others = result.set;
    for (std::size_t k = 0; k < factors.size(); ++k)
      if (k != i) others |= factors[k].term.set;
    simplify(factors[i], others);
  }
  const Factor product = product_of(factors, lengths, long_axes, largest);
  const Tensor y = ordered(product, long_axes);
  // A result is never an operand itself.
  return long_axes.count == result.count && operands.size() > 1 ? y : reshape(y, shape);
} catch (const std::bad_alloc&) {
  fail_memory(operands.caller(), "einsum");
}

namespace {
Tensor dotted(const Operand& x, const Operand& y, int count, const int* of_x, const int* of_y) {
  std::vector<Factor> factors = factors_of({{x, y}, x.caller()});
  Indices keep = ~Indices{0};
  for (int a = 0; a < static_cast<int>(factors[0].x.rank()); ++a) factors[0].term.add(a);
  for (int a = 0; a < static_cast<int>(factors[1].x.rank()); ++a) {
    const auto* const at = std::find(of_y, of_y + count, a);
    const int index = at == of_y + count ? a + static_cast<int>(Shape::max_rank) : of_x[at - of_y];
    factors[1].term.add(index);
    if (at == of_y + count) continue;
    keep &= ~set_of(index);
    if (factors[0].x.shape().data()[index] != factors[1].x.shape().data()[a])
      refuse(x.caller(), "tensordot", "y",
             "length " + to_text(factors[0].x.shape().data()[index]) + " in axis " + to_text(a) +
                 ", as x is " + to_text(factors[0].x.shape()),
             to_text(factors[1].x.shape()));
  }
  return multiplied(factors[0], factors[1], keep).x;
}
}  // namespace

Tensor tensordot(Operand x, Operand y, CountNumber axes) try {
  const FunctionScope scope(x.caller(), "tensordot");
  const auto rank = static_cast<std::int64_t>(shape_of(matmul_op, x).rank());
  const auto least = std::min(rank, static_cast<std::int64_t>(shape_of(matmul_op, y, 1).rank()));
  if (axes < 0 || axes > least)
    refuse(x.caller(), "tensordot", "axes", "0 to " + to_text(least) + " axes",
           to_text(axes.value));
  int of_x[Shape::max_rank], of_y[Shape::max_rank];
  for (int a = 0; a < axes; ++a) {
    of_x[a] = static_cast<int>(rank - axes.value) + a;
    of_y[a] = a;
  }
  return dotted(x, y, static_cast<int>(axes.value), of_x, of_y);
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "tensordot");
}

Tensor tensordot(Operand x, Operand y, Axes of_x, Axes of_y) try {
  const FunctionScope scope(x.caller(), "tensordot");
  const Shape &from = shape_of(matmul_op, x), &by = shape_of(matmul_op, y, 1);
  if (of_x.is_every() || of_y.is_every() || of_x.count() != of_y.count())
    refuse(x.caller(), "tensordot", "axes", "as many axes of x as of y",
           to_text(of_x.count()) + " and " + to_text(of_y.count()));
  int chosen[2][Shape::max_rank];
  for (int i = 0; i < of_x.count(); ++i) {
    chosen[0][i] = static_cast<int>(normal_axis(matmul_op, of_x[i], from.rank(), x.caller()));
    chosen[1][i] = static_cast<int>(normal_axis(matmul_op, of_y[i], by.rank(), x.caller()));
    for (const auto& axes : chosen)
      if (std::find(axes, axes + i, axes[i]) != axes + i)
        refuse(x.caller(), "tensordot", "axes", "each axis once", to_text(axes[i]));
  }
  return dotted(x, y, of_x.count(), chosen[0], chosen[1]);
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "tensordot");
}

Tensor outer(Operand x, Operand y) {
  const FunctionScope scope(x.caller(), "outer");
  const std::int64_t n = shape_of(matmul_op, x).elements(),
                     m = shape_of(matmul_op, y, 1).elements();
  return reshape(placed(x, y), {n, 1}) * reshape(placed(y, x), {1, m});
}

Tensor kron(Operand x, Operand y) {
  const FunctionScope scope(x.caller(), "kron");
  const Shape &a = shape_of(matmul_op, x), &b = shape_of(matmul_op, y, 1);
  const std::size_t rank = std::max(a.rank(), b.rank());
  if (2 * rank > Shape::max_rank)
    refuse(x.caller(), "kron", a.rank() < rank ? "y" : "x", "at most 4 axes",
           to_text(a.rank() < rank ? b : a));
  Shape first, second, shape;
  for (Shape* each : {&first, &second}) each->resize(2 * rank);
  shape.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (i + a.rank() >= rank) first.data()[2 * i] = a.data()[i + a.rank() - rank];
    if (i + b.rank() >= rank) second.data()[2 * i + 1] = b.data()[i + b.rank() - rank];
    shape.data()[i] = first.data()[2 * i] * second.data()[2 * i + 1];
  }
  return reshape(reshape(placed(x, y), first) * reshape(placed(y, x), second), shape);
}
}  // namespace reel
