// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dist/shares.hpp"

#include <algorithm>
#include <utility>

#include <reel/ops.hpp>
#include <reel/random.hpp>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/dist/parts.hpp"

namespace reel::dist::detail {
namespace {
constexpr const char* const own_name = "DataParallel";

RowGradient added(const RowGradient& a, const RowGradient& b, const Variable& variable) {
  if (!a.values.defined()) return b;
  if (!b.values.defined()) return a;
  if (a.rows.defined() && b.rows.defined())
    return reel::detail::sum_rows(concat({a.rows, b.rows}), concat({a.values, b.values}));
  const auto dense = [&](const RowGradient& x) { return dense_of(x, variable); };
  return {dense(a) + dense(b)};
}
std::string text_of(double number) { return std::string(to_text(number)); }
}  // namespace

Tensor wide(const Tensor& x) { return size_of(x.dtype()) == 2 ? cast(x, DType::float32) : x; }
Tensor number_on_host(std::int64_t value, Caller caller) {
  const DeviceScope on_host(cpu());
  return tensor(value, caller);
}

Device Shares::device_of_all(Caller caller) const {
  const WorldState& state = world.state();
  if (!state.device) return cpu();
  std::int64_t there = 1;
  for (const Variable& x : variables()) there = there && x.device() == world.device();
  state.main->run({Kind::all_reduce, Wire::int64, Combine::min, &there, &there, 1}, {own_name},
                  caller);
  return there ? world.device() : cpu();
}
void Shares::check_options(Caller caller) const {
  if (options.bucket_bytes < 1)
    fail<Error>(caller, own_name, "options.bucket_bytes", "1 or more",
                to_text(options.bucket_bytes));
  if (!(options.clip_norm >= 0))
    fail<Error>(caller, own_name, "options.clip_norm", "0 or more", to_text(options.clip_norm));
  if (options.clip_norm > 0 && options.scaler)
    fail<Error>(caller, own_name, "options.clip_norm", "0 beside options.scaler",
                to_text(options.clip_norm), "LossScalerOptions has a clip_norm of its own.");
  if ((options.clip_norm > 0 || options.scaler) && !world.state().parts)
    for (const Variable& x : variables())
      if (portion_of(x).count > 1)
        fail<Error>(caller, own_name, "world", "an axis of a Mesh, for .clip_norm and .scaler",
                    "another World, for a part of \"" + x.name() + "\"",
                    "The ranks with the other parts take the same decision.");
  if (options.send_as != DType::float32 && options.send_as != DType::bfloat16)
    fail<DTypeError>(caller, own_name, "options.send_as", "float32 or bfloat16",
                     name_of(options.send_as));
  if (options.send_as == DType::bfloat16 && options.sum != Sum::fast)
    fail<Error>(caller, own_name, "options.send_as", "float32 for ordered and tree sums",
                "bfloat16");
  if (options.shard_optimizer && world.state().survives)
    fail<Error>(caller, own_name, "options.shard_optimizer", "false in a World with .survive",
                "true", "The state of a rank that dies would be lost.");
  if (options.sum == Sum::tree && options.micro_batches < world.size())
    fail<Error>(caller, own_name, "options.micro_batches",
                "one for each of " + to_text(world.size()) + " ranks, or more",
                to_text(options.micro_batches));
  if (options.sum != Sum::tree && options.micro_batches != 0)
    fail<Error>(caller, own_name, "options.micro_batches", "0 without Sum::tree",
                to_text(options.micro_batches));
}
/// Micro-batches of this rank in a step.
std::int64_t Shares::expected() const {
  const std::int64_t rank = world.rank(), ranks = world.size(), all = options.micro_batches;
  return (rank + 1) * all / ranks - rank * all / ranks;
}

/// All ranks find the first line that differs, and throw it.
void Shares::compare(Caller caller) {
  if (world.size() == 1) return;
  std::string text = "options: bucket_bytes " + std::to_string(options.bucket_bytes) + ", sum " +
                     std::to_string(static_cast<int>(options.sum)) + ", micro_batches " +
                     std::to_string(options.micro_batches) + ", send_as " +
                     std::string(name_of(options.send_as)) + ", clip_norm " +
                     text_of(options.clip_norm) + (options.scaler ? ", scaler" : "") +
                     ", unconnected " + std::to_string(static_cast<int>(options.unconnected)) +
                     (options.shard_optimizer ? ", shard_optimizer" : "") + "\nseed " +
                     std::to_string(thread_generator().seed()) + "\n";
  text += std::to_string(variables().size()) + " Variables\n";
  for (std::size_t i = 0; i < variables().size(); ++i) {
    text += "Variable " + std::to_string(i) + " \"" + variables()[i].name() + "\" " +
            std::string(name_of(variables()[i].dtype())) + " " +
            std::string(to_text(variables()[i].shape()));
    if (const Portion part = portion_of(variables()[i]); part.count > 1)
      text += ", part " + std::to_string(part.index + 1) + " of " + std::to_string(part.count);
    text += "\n";
  }
  text += optimizer->options_text();
  const auto gather = [&](const void* mine, void* all, std::int64_t bytes) {
    world.state().main->run({Kind::all_gather, Wire::bytes, Combine::sum, mine, all, bytes},
                            {own_name}, caller);
  };
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> lengths(ranks);
  const auto length = static_cast<std::int64_t>(text.size());
  gather(&length, lengths.data(), sizeof length);
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  text.resize(static_cast<std::size_t>(longest), '\n');
  std::string all(ranks * text.size(), ' ');
  gather(text.data(), all.data(), longest);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    std::string_view a(all.data(), text.size()), b(all.data() + rank * text.size(), text.size());
    while (!a.empty() || !b.empty()) {
      const auto line_of = [](std::string_view& rest) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        return line.empty() ? std::string_view("nothing more") : line;
      };
      const std::string_view expected = line_of(a), got = line_of(b);
      if (expected != got)
        fail<DistError>(caller, own_name, "rank " + to_text(static_cast<std::int64_t>(rank)),
                        Text(expected) + " as on rank 0", Text(got),
                        "All ranks construct the same model, optimizer and options.");
    }
  }
}
void Shares::check_unchanged(Caller caller) const {
  if (variables().size() != order.size())
    fail<Error>(caller, own_name, "optimizer",
                to_text(order.size()) + " Variables, as at the start", to_text(variables().size()));
  lane.require_usable({own_name}, caller);
  if (sending)
    fail<DistError>(caller, own_name, "step", "steps that end",
                    "one that an exception has left while its gradients were sent");
}

void Shares::check_loss(const Operand& loss, StepOptions how) const {
  if (how.examples < 0)
    fail<Error>(loss.caller(), own_name, "options.examples", "0 or more", to_text(how.examples));
  if (how.examples == 0) return;
  if (const Tensor x = loss.value(); x.defined() && x.size() != 1)
    fail<ShapeError>(loss.caller(), own_name, "loss", "one number", "shape " + to_text(x.shape()),
                     "Use its mean() or its sum().");
}

std::vector<RowGradient> Shares::gradients_of(GradientTape& tape, const Operand& loss,
                                              double own_weight, bool sends, Puts* puts) {
  const Caller caller = loss.caller();
  const Tensor x = loss.value();
  GradientOptions how{.unconnected = Unconnected::none};
  if (x.defined()) {
    Tensor factor = full({}, own_weight, {.dtype = DType::float64}, caller).to(x.device());
    if (options.scaler) factor = factor * cast(options.scaler->factor, DType::float64);
    how.upstream = broadcast_to(cast(factor, x.dtype()), x.shape());
  }
  std::vector<std::size_t> completed;
  if (sends) begin(caller);
  how.on_complete = [&](std::size_t i, Tensor gradient) {
    completed.push_back(i);
    if (puts && gradient.defined()) put_in_trace(*puts, i, {gradient}, caller);
    if (sends && buckets->has(i) && gradient.defined()) {
      buckets->put(i, gradient);
      early[i] = true;
      buckets->complete(i);
    }
    return gradient;
  };
  std::vector<RowGradient> found = tape.row_gradients(loss, variables(), how);
  for (std::size_t i = 0; puts && i < found.size(); ++i)
    if (found[i].rows.defined()) put_in_trace(*puts, i, found[i], caller);
  if (!puts && !buckets) fix_order(std::move(completed));
  return found;
}
/// Variables without a dense gradient are last.
void Shares::fix_order(std::vector<std::size_t> completed) {
  for (std::size_t i = variables().size(); i-- > 0;)
    if (std::find(completed.begin(), completed.end(), i) == completed.end()) completed.push_back(i);
  order = std::move(completed);
}

void Shares::add(std::vector<RowGradient> gradients, double own_weight, Caller caller) {
  if (options.sum == Sum::tree && leaves >= expected())
    fail<Error>(caller, own_name, "micro-batch", to_text(expected()) + " on this rank in a step",
                "one more");
  weight += own_weight;
  used.resize(variables().size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].values.defined()) continue;
    used[i] = true;
    gradients[i].values = wide(gradients[i].values);
  }
  const std::int64_t first =
      options.sum == Sum::tree ? world.rank() * options.micro_batches / world.size() : 0;
  partials.push_back({{0, first + leaves++}, std::move(gradients)});
  const auto joins = [&] {
    if (partials.size() < 2) return false;
    const Subtree &left = partials[partials.size() - 2].tree, &right = partials.back().tree;
    return options.sum != Sum::tree ||
           (left.level == right.level && left.first % (std::int64_t{2} << left.level) == 0);
  };
  while (joins()) {
    const Partial right = std::move(partials.back());
    partials.pop_back();
    Partial& left = partials.back();
    for (std::size_t i = 0; i < variables().size(); ++i)
      left.gradients[i] = added(left.gradients[i], right.gradients[i], variables()[i]);
    ++left.tree.level;
  }
}

/// Rank 0's order of completion, and the Variables whose gradients some rank has as rows.
void Shares::fix_layout(Caller caller) {
  const std::size_t count = variables().size();
  std::vector<std::int64_t> rows(count), from_first(order.begin(), order.end());
  for (const Partial& partial : partials)
    for (std::size_t i = 0; i < count; ++i)
      if (options.sum != Sum::tree && partial.gradients[i].rows.defined()) rows[i] = 1;
  Lane& main = *world.state().main;
  main.run({Kind::all_reduce, Wire::int64, Combine::max, rows.data(), rows.data(),
            static_cast<std::int64_t>(count)},
           {own_name}, caller);
  main.run({Kind::broadcast, Wire::int64, Combine::sum, nullptr, from_first.data(),
            static_cast<std::int64_t>(count)},
           {own_name}, caller);
  std::vector<std::size_t> dense;
  for (const std::int64_t i : from_first) {
    const auto variable = static_cast<std::size_t>(i);
    (rows[variable] ? sparse : dense).push_back(variable);
  }
  order.assign(from_first.begin(), from_first.end());
  buckets = std::make_unique<Buckets>(world, variables(), dense, options, lane, device, caller);
}

/// For errors. Returns true.
bool Shares::count_step() {
  world.state().step = ++step;
  if (const World* const ranks = world.state().parts.get()) ranks->state().step = step;
  return true;
}
/// From now on buckets that are complete are sent.
void Shares::begin(Caller caller) {
  count_step();
  early.assign(variables().size(), false);
  sending = true;
  buckets->begin(step, caller);
}
/// Into the buckets, what is not there yet.
void Shares::put_all() {
  for (std::size_t i = 0; i < variables().size(); ++i) {
    if (!buckets->has(i)) continue;
    for (std::size_t k = 0; k < partials.size(); ++k)
      if (const RowGradient& x = partials[k].gradients[i]; x.values.defined() && !early[i])
        buckets->put(i, dense_of(x, variables()[i]), k);
  }
}

bool Shares::send(Caller caller) { return take_step(exchange(caller), caller); }
std::vector<RowGradient> Shares::exchange(Caller caller) {
  check_options(caller);
  if (options.sum == Sum::tree && leaves != expected() && leaves != 0)
    fail<Error>(caller, own_name, "micro-batches", to_text(expected()) + " on this rank in a step",
                to_text(leaves));
  used.resize(variables().size());
  if (!buckets) fix_layout(caller);
  if (!sending) begin(caller);
  put_all();
  const StepFields fields = buckets->finish(weight, used);
  std::vector<RowGradient> rows = exchange_rows(fields.weight, caller);
  sending = false;
  partials.clear();
  used.clear();
  weight = 0;
  leaves = 0;
  return fields.weight > 0 ? means(fields, std::move(rows), caller) : std::vector<RowGradient>();
}

/// The mean of all ranks. Throws for a Variable that none has used.
std::vector<RowGradient> Shares::means(const StepFields& fields, std::vector<RowGradient> rows,
                                       Caller caller) const {
  std::vector<RowGradient> all(variables().size());
  for (std::size_t k = 0; k < sparse.size(); ++k) all[sparse[k]] = std::move(rows[k]);
  std::string unused;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Variable& x = variables()[i];
    if (!fields.used[i] && options.unconnected == Unconnected::error)
      unused += (unused.empty() ? "\"" : ", \"") + x.name() + "\"";
    else if (!all[i].values.defined())
      all[i].values = cast(buckets->sum_of(i) / fields.weight, x.dtype()).to(x.device());
  }
  if (!unused.empty())
    fail<TapeError>(caller, own_name, "loss", "one on some rank that depends on each Variable",
                    "none that depends on " + unused,
                    "Give DataParallel .unconnected = Unconnected::zero if zeros are meant.");
  return all;
}

/// The mean gradients of sparse Variables.
std::vector<RowGradient> Shares::exchange_rows(double all_weights, Caller caller) const {
  std::vector<Variable> tables;
  std::vector<RowGradient> mine;
  for (const std::size_t i : sparse) {
    tables.push_back(variables()[i]);
    mine.push_back(partials.empty() ? RowGradient() : partials[0].gradients[i]);
  }
  return mean_rows(world, tables, mine, all_weights, own_name, caller);
}

bool Shares::take_step(std::vector<RowGradient> gradients, Caller caller) {
  if (gradients.empty()) return false;
  const auto step_by = [&](optim::Optimizer& whole) {
    if (options.scaler) return options.scaler->step(whole, gradients, caller);
    if (options.clip_norm > 0) whole.admit(gradients, true, options.clip_norm, caller);
    whole.step(gradients, caller);
    return true;
  };
  bool stepped = false;
  if (const World* const ranks = world.state().parts.get()) {
    Parts whole(*ranks, *optimizer);
    stepped = step_by(whole);
  } else {
    stepped = step_by(*optimizer);
  }
  if (stepped) taken.assign(taken + 1);
  return stepped;
}
}  // namespace reel::dist::detail
