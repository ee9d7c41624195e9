// SPDX-License-Identifier: BSD-3-Clause
// Sorting by digits of keys: unsigned numbers in the order of the elements.
#include <utility>

#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/formulas/histogram.hpp"
#include "lib/formulas/order.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/scan.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
constexpr std::int64_t shared_elements = 1
                                         << 14;  // at least, before lines are shared among threads

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
/// Equal for -0 and 0, and for all NaNs, which are last.
template <class T>
KeyOf<T> key_of(T x) {
  using Key = KeyOf<T>;
  constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return ~Key{0};
    const Key bits = __builtin_bit_cast(Key, x + T(0));
    return bits & sign ? ~bits : bits | sign;
  } else {
    return static_cast<Key>(x) ^ (std::is_signed_v<T> ? sign : 0);
  }
}

/// The place has the size of the key: lines of 2^32 elements or more have keys of 64 bits.
template <class Key>
struct Item {
  Key key, place;
  int digit(int d) const { return static_cast<int>(key >> (8 * d) & 255); }
};

/// Sorts by inserting one item after the other.
template <class Key>
void insert_all(Item<Key>* items, std::int64_t n) {
  for (std::int64_t i = 1; i < n; ++i) {
    const Item<Key> item = items[i];
    std::int64_t k = i;
    for (; k > 0 && items[k - 1].key > item.key; --k) items[k] = items[k - 1];
    items[k] = item;
  }
}
/// Merges adjacent runs of `length` sorted items to runs of twice this length.
template <class Key>
void merge_runs(const Item<Key>* items, std::int64_t n, std::int64_t length, Item<Key>* to) {
  for (std::int64_t first = 0; first < n; first += 2 * length) {
    const std::int64_t middle = first + length < n ? first + length : n;
    const std::int64_t end = middle + length < n ? middle + length : n;
    std::int64_t left = first, right = middle, next = first;
    while (left < middle && right < end) {  // without a branch that depends on the keys
      const bool later = items[right].key < items[left].key;
      to[next++] = items[left ^ ((left ^ right) & -std::int64_t{later})];
      right += later;
      left += !later;
    }
    while (left < middle) to[next++] = items[left++];
    while (right < end) to[next++] = items[right++];
  }
}
/// Sorts n items: a few by insertion, some by merging, more from the lowest digit to the
/// highest. The result is in `items` or in `other`.
template <class Key>
Item<Key>* sorted(Item<Key>* items, Item<Key>* other, std::int64_t n) {
  constexpr int digits = sizeof(Key);
  constexpr std::int64_t few = 16, some = 96;
  if (n <= some) {
    for (std::int64_t i = 0; i < n; i += few) insert_all(items + i, n - i < few ? n - i : few);
    for (std::int64_t length = few; length < n; length *= 2) {
      merge_runs(items, n, length, other);
      std::swap(items, other);
    }
    return items;
  }
  std::int64_t counts[digits][256] = {};
  for (std::int64_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++counts[d][items[i].digit(d)];
  for (int d = 0; d < digits; ++d) {
    if (counts[d][items[0].digit(d)] == n) continue;
    std::int64_t places = 0;
    for (std::int64_t& count : counts[d]) places += std::exchange(count, places);
    for (std::int64_t i = 0; i < n; ++i) other[counts[d][items[i].digit(d)]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

/// A range of ranks in a sorted line, from 0.
struct Ranks {
  std::int64_t first, end;
};
/// Stores the keys of elements, `step` apart. `flip` has all bits for descending order, else none.
template <class T, class Key>
void load_keys(const void* x, std::int64_t count, std::int64_t step, Key flip, Key* to) {
  const T* const from = static_cast<const T*>(x);
  if (step == 1 && sizeof(T) == sizeof(Key))
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Key>(key_of(from[i])) ^ flip;
  else
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = static_cast<Key>(key_of(from[i * step])) ^ flip;
}

/// A line of n elements of `size` bytes, `step` elements apart.
template <class Key>
struct Line {
  void (*load)(const void* x, std::int64_t count, std::int64_t step, Key flip, Key* to);
  std::int64_t size, n, step;
  Key flip;
  Ranks ranks;  // that are wanted
  using Items = Item<Key>*;

  /// The items of the ranks of the line at x, in order. `items` has space for space() items.
  Items ranked(const std::byte* x, Items items) const {
    if (takes_leading()) return ranks.end <= few ? first_few(x, items) : leading(x, items);
    if (n >= least_counted && ranks.end - ranks.first <= n / part) return between(x, items);
    Items end = items;
    for_blocks(x, [&](const Key* keys, std::int64_t i, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) *end++ = {keys[k], static_cast<Key>(i + k)};
    });
    return sorted(items, items + n, n) + ranks.first;
  }
  std::int64_t space() const { return 2 * (takes_leading() ? candidates() : n); }

 private:
  static constexpr std::int64_t part = 8;  // an eighth of a line is a small part
  static constexpr std::int64_t block = 32;
  static constexpr std::int64_t few = 8;
  static constexpr std::int64_t least_counted = 64;  // counting takes longer for a shorter line
  bool takes_leading() const { return ranks.end <= n / part; }
  std::int64_t candidates() const { return 3 * ranks.end + 2 * block; }

  /// Calls f(keys, position of the first one, their number) along the line.
  template <class F>
  void for_blocks(const std::byte* x, const F& f) const {
    Key keys[block];
    for (std::int64_t i = 0; i < n; i += block) {
      const std::int64_t count = n - i < block ? n - i : block;
      load(x + i * step * size, count, step, flip, keys);
      f(keys, i, count);
    }
  }
  /// Inserts each element that comes before the last of the best so far.
  Items first_few(const std::byte* x, Items items) const {
    std::int64_t kept = 0;
    Key limit = ~Key{0};  // the last key, once there are enough
    for_blocks(x, [&](const Key* keys, std::int64_t i, std::int64_t count) {
      Key any = kept < ranks.end;
      for (std::int64_t k = 0; k < count; ++k) any |= keys[k] < limit;
      if (!any) return;
      for (std::int64_t k = 0; k < count; ++k) {
        if (kept == ranks.end && keys[k] >= limit) continue;
        kept += kept < ranks.end;
        std::int64_t place = kept - 1;
        for (; place > 0 && items[place - 1].key > keys[k]; --place)
          items[place] = items[place - 1];
        items[place] = {keys[k], static_cast<Key>(i + k)};
        if (kept == ranks.end) limit = items[kept - 1].key;
      }
    });
    return items + ranks.first;
  }
  /// An element that comes before the last of the best so far becomes a candidate. When there is no
  /// space for more candidates, only the best stay. So no more items are sorted than there are
  /// elements, and few if the elements are in random order.
  Items leading(const std::byte* x, Items items) const {
    Items other = items + candidates();
    std::int64_t kept = 0;
    Key limit = 0;
    bool enough = false;
    const auto keep_best = [&] {
      if (sorted(items, other, kept) != items) std::swap(items, other);
      if (kept < ranks.end) return;
      kept = ranks.end;
      limit = items[kept - 1].key;
      enough = true;
    };
    for_blocks(x, [&](const Key* keys, std::int64_t i, std::int64_t count) {
      Key any = !enough;
      for (std::int64_t k = 0; k < count; ++k) any |= keys[k] < limit;
      if (!any) return;
      for (std::int64_t k = 0; k < count; ++k) {
        items[kept] = {keys[k], static_cast<Key>(i + k)};
        kept += !enough | (keys[k] < limit);
      }
      if (kept > candidates() - block || (!enough && kept >= ranks.end)) keep_best();
    });
    keep_best();
    return items + ranks.first;
  }
  /// Counts elements by the highest bits of their keys. Elements with the bits of the ranks remain,
  /// and are counted by the next bits.
  Items between(const std::byte* x, Items items) const {
    constexpr int bits = 8 * sizeof(Key), width = 11;
    std::int64_t counts[1 << width], left = n, first = ranks.first, end = ranks.end, low, high;
    int shift = bits - width;
    const auto bits_of = [&](Key key) {
      return static_cast<std::int64_t>(key >> shift & ((Key{1} << width) - 1));
    };
    const auto find = [&] {
      std::int64_t before = 0;
      for (low = 0; before + counts[low] <= first; ++low) before += counts[low];
      first -= before;
      end -= before;
      std::int64_t through = counts[low];
      for (high = low; through < end;) through += counts[++high];
      left = 0;
    };
    const auto keep = [&](const Item<Key>& item) {
      const std::int64_t place = bits_of(item.key);
      items[left] = item;
      left += (place >= low) & (place <= high);
    };
    __builtin_memset(counts, 0, sizeof(counts));
    for_blocks(x, [&](const Key* keys, std::int64_t, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) ++counts[bits_of(keys[k])];
    });
    find();
    for_blocks(x, [&](const Key* keys, std::int64_t i, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) keep({keys[k], static_cast<Key>(i + k)});
    });
    while (low == high && shift > 0 && left > block) {
      shift = shift > width ? shift - width : 0;
      __builtin_memset(counts, 0, sizeof(counts));
      for (std::int64_t i = 0; i < left; ++i) ++counts[bits_of(items[i].key)];
      const std::int64_t all = left;
      find();
      for (std::int64_t i = 0; i < all; ++i) keep(items[i]);
    }
    return sorted(items, items + left, left) + first;
  }
};

template <class Key>
void argsort_lines(const Body& x, const AxisSortOptions& options, std::int64_t* output,
                   decltype(Line<Key>::load) load) {
  const std::int64_t n = x.shape.data()[options.axis], count = options.ranks(n);
  if (x.elements == 0 || count == 0) return;
  std::int64_t inner = 1;
  for (auto i = static_cast<std::size_t>(options.axis) + 1; i < x.shape.rank(); ++i)
    inner *= x.shape.data()[i];
  const Line<Key> lines = {load,
                           size_of(x.dtype),
                           n,
                           inner,
                           options.descending ? ~Key{0} : Key{0},
                           {options.first, options.first + count}};
  parallel_rows(x.elements / n, n, shared_elements, [&](std::int64_t line, std::int64_t end) {
    auto* const items = static_cast<Item<Key>*>(
        scratch(static_cast<std::size_t>(lines.space()) * sizeof(Item<Key>)));
    for (; line < end; ++line) {
      const std::int64_t outer = line / inner * inner, column = line % inner;
      const Item<Key>* const in_order =
          lines.ranked(x.data + (outer * n + column) * lines.size, items);
      std::int64_t* const to = output + outer * count + column;
      for (std::int64_t i = 0; i < count; ++i)
        to[i * inner] = static_cast<std::int64_t>(in_order[i].place);
    }
  });
}
/// One line of truth values: counted rather than sorted.
void argsort_truths(const KernelCall& call) {
  const auto& options = call.option<AxisSortOptions>();
  const Body& x = call.input(0);
  const std::int64_t n = x.elements, count = options.ranks(n);
  const std::uint8_t* const from = x.as<std::uint8_t>();
  std::int64_t* const to = call.output().as<std::int64_t>();
  std::int64_t rank = -options.first;
  for (const bool wanted : {options.descending, !options.descending}) {
    const std::uint64_t others = wanted ? 0 : 0x0101010101010101;
    const auto put = [&](std::int64_t i) {
      to[rank > 0 ? rank : 0] = i;  // the next one of its kind takes this place from the others
      rank += from[i] == wanted;
    };
    std::int64_t i = 0;
    for (; i + 8 <= n && rank < count; i += 8) {
      std::uint64_t eight;
      __builtin_memcpy(&eight, from + i, 8);
      if (eight == others) continue;
#ifdef __AVX512F__
      if (rank >= 0 && rank + 8 <= count) {
        const auto chosen = static_cast<__mmask8>(_mm512_cmpeq_epi64_mask(
            _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<long long>(eight))),
            _mm512_set1_epi64(wanted)));
        const __m512i places =
            _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(i));
        _mm512_storeu_si512(to + rank, _mm512_maskz_compress_epi64(chosen, places));
        rank += __builtin_popcount(chosen);
        continue;
      }
#endif
      if (rank + 8 <= count)
        for (std::int64_t k = 0; k < 8; ++k) put(i + k);
      else
        for (std::int64_t k = 0; k < 8 && rank < count; ++k) put(i + k);
    }
    for (; i < n && rank < count; ++i) put(i);
  }
}
KernelResult argsort(const KernelCall& call) {
  const Body& x = call.input(0);
  if (x.dtype == DType::boolean && x.rank() == 1) {
    argsort_truths(call);
    return {};
  }
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    const auto sort = [&]<class Key>(Type<Key>) {
      argsort_lines<Key>(x, call.option<AxisSortOptions>(), call.output().as<std::int64_t>(),
                         load_keys<T, Key>);
    };
    if (sizeof(T) == 8 || x.elements >> 32)
      sort(Type<std::uint64_t>());
    else
      sort(Type<KeyOf<T>>());
  });
  return {};
}

KernelResult searchsorted(const KernelCall& call) {
  const Body &line = call.input(0), &values = call.input(1);
  const bool right = call.option<SearchSortedOptions>().right;
  std::int64_t* const to = call.output().as<std::int64_t>();
  with_arithmetic(values.dtype, [&]<class T>(Type<T>) {
    parallel_ranges(values.elements, shared_elements, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i)
        to[i] = formulas::place_in(line.as<T>(), line.elements, 1, values.as<T>()[i], right);
    });
  });
  return {};
}

KernelResult histogram(const KernelCall& call) {
  const auto& options = call.option<HistogramOptions>();
  const formulas::Bins bins(options.bins, options.low, options.high);
  const Body& x = call.input(0);
  std::int64_t* const counts = call.output().as<std::int64_t>();
  clear_bytes(call.output().data, call.output().bytes());
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    const T* const from = x.as<T>();
    if constexpr (std::is_integral_v<T>) {
      if (options.low == 0 && options.high == static_cast<double>(options.bins)) {
        const auto most = static_cast<std::uint64_t>(options.bins);  // one number a part
        for (std::int64_t i = 0; i < x.elements; ++i)
          if (const auto k = static_cast<std::uint64_t>(from[i]); k <= most)
            ++counts[k - (k == most)];
        return;
      }
    }
    for (std::int64_t i = 0; i < x.elements; ++i)
      if (const std::int64_t k = bins.of(static_cast<double>(from[i])); k >= 0) ++counts[k];
  });
  return {};
}

const NamedKernel kernels[] = {{"argsort", argsort},
                               {"searchsorted", searchsorted},
                               {"histogram", histogram},
                               {nullptr, nullptr}};
}  // namespace
extern const Family sort_family;
const Family sort_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
