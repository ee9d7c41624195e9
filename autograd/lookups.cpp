// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/lookups.hpp"

#include <algorithm>
#include <string>

#include <reel/ops.hpp>

#include "autograd/playing.hpp"
#include "autograd/unconnected.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/entries.hpp"

namespace reel {
namespace detail {
void Lookups::find(Reel& reel, std::uint64_t tape, std::uint32_t start, std::uint32_t target,
                   const GradientSources& sources, SmallVector<SourceValue, 16>& places,
                   Caller caller) {
  std::vector<const Record*> other(sources.size());  // that reads a source, if it is no lookup
  std::vector<bool> leads(target - start + 1);       // to the target
  leads[target - start] = true;
  for (std::uint32_t i = target + 1; i-- > start;) {
    const Record& record = reel[i];
    if (!leads[i - start] || !(record.tapes & tape)) continue;
    for (int k = 0; k < record.input_count; ++k) {
      const InputSlot& input = record.inputs[k];
      if (!input.tracked || input.record < start) continue;
      leads[input.record - start] = true;
      for (const SourceValue& place : places) {
        if (place.value != input.value) continue;
        if (record.op == &core_ops.lookup)
          all_.push_back(
              {place.source, record.first_value, Access::share(record.inputs[1].saved), {}});
        else
          other[place.source] = &record;
      }
    }
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (other[i] && has(i))
      fail<TapeError>(caller, "row_gradients", name_of(sources[i], i),
                      "a Variable that only lookup() reads",
                      "one that " + place_of(*other[i]->op, other[i]->caller()) + " reads too",
                      "gradient() computes its dense gradient.");
  std::size_t kept = 0;
  for (const SourceValue& place : places)
    if (!has(place.source)) places[kept++] = place;
  places.resize(kept);
}

void Lookups::request(Playback& playback) const {
  for (const Lookup& lookup : all_) playback.request(lookup.value);
}

void Lookups::take(Playback& playback, Context& context, ResultMarks& marks, Caller caller) {
  for (Lookup& lookup : all_) {
    playback.take_requested(lookup.value, lookup.dy);
    if (marks && lookup.dy.defined()) marks.mark(context, lookup.dy, caller);
  }
}

bool Lookups::has(std::size_t source) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Lookup& lookup) { return lookup.source == source; });
}

RowGradient sum_rows(const Tensor& rows, const Tensor& values) {
  const std::int64_t n = rows.size();
  if (n < 2) return {values, rows};
  const Tensor order = argsort(rows), sorted = reel::take(rows, order);
  const Tensor is_new = concat({full({1}, true), sorted(range(1, {})) != sorted(range(0, -1))});
  const Tensor place = cumsum(cast(is_new, DType::int64)) - 1;  // of the sorted rows
  const Tensor place_of_row = scatter(zeros({n}, int64), order, place);
  return {segment_sum(values, place_of_row, n),
          scatter(full({n}, std::int64_t{-1}), place, sorted)};
}

RowGradient Lookups::gradient(std::size_t source, const Variable& table) const {
  std::vector<Tensor> rows, values;
  Shape shape = table.shape();
  const std::int64_t count = shape[0];
  for (const Lookup& lookup : all_) {
    if (lookup.source != source || !lookup.dy.defined()) continue;
    const Tensor at = cast(reshape(lookup.rows, {-1}), DType::int64);
    shape.data()[0] = at.size();
    rows.push_back(where(at < 0, at + count, at));
    values.push_back(reshape(lookup.dy, shape));
  }
  shape.data()[0] = 0;
  if (rows.empty()) return {zeros(shape, {.dtype = table.dtype()}), zeros({0}, int64)};
  if (rows.size() == 1) return sum_rows(rows[0], values[0]);
  return sum_rows(concat(rows, 0), concat(values, 0));
}
}  // namespace detail

namespace {
/// What the user's function returns for the last of these gradients.
RowGradient replaced_rows(Context& context, const GradientOptions& options,
                          const std::vector<Variable>& sources, std::vector<RowGradient>& all,
                          Caller caller) {
  const std::size_t i = all.size() - 1;
  const OwnLines lines(context);
  RowGradient found = options.on_rows_complete(i, std::move(all[i]));
  const Variable& table = sources[i];
  const Tensor& values = found.values;
  const std::string argument = "on_rows_complete for " + name_of(GradientSource(table), i);
  if (!values.defined())
    fail<Error>(caller, "row_gradients", argument, "values", "an undefined Tensor");
  Shape shape = table.shape();
  if (found.rows.defined()) shape.data()[0] = found.rows.size();
  if (!(values.shape() == shape))
    fail<ShapeError>(caller, "row_gradients", argument, "values of shape " + to_text(shape),
                     to_text(values.shape()));
  if (values.dtype() != table.dtype())
    fail<DTypeError>(caller, "row_gradients", argument, name_of(table.dtype()),
                     name_of(values.dtype()));
  if (found.rows.defined() && (found.rows.dtype() != DType::int64 || found.rows.rank() != 1))
    fail<DTypeError>(caller, "row_gradients", argument, "rows: int64 (n,)",
                     Text(name_of(found.rows.dtype())) + " " + to_text(found.rows.shape()));
  return found;
}
}  // namespace

std::vector<RowGradient> GradientTape::row_gradients(Operand target,
                                                     const std::vector<Variable>& sources,
                                                     GradientOptions options) try {
  const Caller caller = target.caller();
  const FunctionScope scope(caller, "row_gradients");
  Context& context = Context::here();
  std::vector<Tensor> dense(sources.size());
  detail::Lookups lookups;
  gradients(target, sources, options, dense.data(), false, &lookups);
  std::vector<RowGradient> all;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const DeviceScope place(sources[i].device());
    all.push_back(lookups.has(i) ? lookups.gradient(i, sources[i]) : RowGradient{dense[i]});
    if (!lookups.has(i)) continue;
    if (context.mode & observed) tell_rows_complete(context, sources[i], i, all.back());
    if (options.on_rows_complete)
      all.back() = replaced_rows(context, options, sources, all, caller);
  }
  lookups.events->end();
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(target.caller(), "row_gradients");
}
}  // namespace reel
