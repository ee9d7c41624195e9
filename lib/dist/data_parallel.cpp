// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/data_parallel.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <reel/ops.hpp>
#include <reel/random.hpp>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/dist/buckets.hpp"
#include "lib/dist/owners.hpp"
#include "lib/dist/parts.hpp"
#include "lib/dist/send.hpp"

namespace reel::dist::detail {
namespace {
constexpr const char* const own_name = "DataParallel";

/// Gradients that are added up on this rank: of one tree of micro-batches, or of all.
struct Partial {
  Subtree tree;
  std::vector<RowGradient> gradients;  // undefined values: not used
};

RowGradient added(const RowGradient& a, const RowGradient& b, const Variable& variable) {
  if (!a.values.defined()) return b;
  if (!b.values.defined()) return a;
  if (a.rows.defined() && b.rows.defined())
    return reel::detail::sum_rows(concat({a.rows, b.rows}), concat({a.values, b.values}));
  const auto dense = [&](const RowGradient& x) { return dense_of(x, variable); };
  return {dense(a) + dense(b)};
}
/// Sums are made in float32 at least.
Tensor wide(const Tensor& x) { return size_of(x.dtype()) == 2 ? cast(x, DType::float32) : x; }

std::string text_of(double number) { return std::string(to_text(number)); }
}  // namespace

/// What a DataParallel has inside.
struct Shares {
  Shares(const World& of, optim::Optimizer& own, const DataParallelOptions& given, Caller caller)
      : world(of),
        optimizer(&own),
        options(given),
        device(device_of_all(caller)),
        lane(world.state(), caller, device != cpu()) {
    for (std::size_t i = 0; i < variables().size(); ++i)
      order.push_back(variables().size() - 1 - i);
  }
  const std::vector<Variable>& variables() const { return optimizer->variables(); }

  /// The GPU of this rank, if the Variables of all ranks are on their GPUs; else the CPU.
  Device device_of_all(Caller caller) const;
  void check_options(Caller caller) const;
  void compare(Caller caller);
  void check_unchanged(Caller caller) const;
  void check_loss(const Operand& loss, StepOptions how) const;
  /// The gradients of a loss, multiplied by its weight. With `sends`, buckets start meanwhile.
  std::vector<RowGradient> gradients_of(GradientTape& tape, const Operand& loss, double weight,
                                        bool sends);
  void add(std::vector<RowGradient> gradients, double weight, Caller caller);
  bool send(Caller caller);
  void fix_layout(Caller caller);
  void begin(Caller caller);
  void put_all();
  std::vector<RowGradient> means(const StepFields& fields, std::vector<RowGradient> rows,
                                 Caller caller) const;
  std::vector<RowGradient> exchange_rows(double weight, Caller caller) const;
  bool apply(std::vector<RowGradient> gradients, Caller caller);
  std::int64_t expected() const;
  bool sends_early() const {
    return buckets && partials.empty() && options.sum == Sum::fast && world.size() > 1;
  }

  World world;
  optim::Optimizer* optimizer;  // `owners`, if there are
  std::unique_ptr<Owners> owners;
  std::vector<std::vector<Variable>*> state = {};  // that the owners divide
  DataParallelOptions options;
  Device device;  // that sends
  Lane lane;
  std::int64_t step = 0, taken = 0, leaves = 0;
  double weight = 0;
  std::vector<Partial> partials;
  std::vector<bool> used;
  std::vector<std::size_t> order;   // in which gradients become complete
  std::vector<std::size_t> sparse;  // Variables whose gradients are sent as rows
  std::unique_ptr<Buckets> buckets;
  std::vector<bool> early;  // what a bucket has already
  bool sending = false;
};

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
                                              double own_weight, bool sends) {
  const Caller caller = loss.caller();
  const Tensor x = loss.value();
  GradientOptions how{.unconnected = Unconnected::none};
  if (x.defined()) {
    Tensor factor = full({}, own_weight, {.dtype = DType::float64}, caller).to(x.device());
    if (options.scaler) factor = factor * cast(options.scaler->factor, DType::float64);
    how.upstream = broadcast_to(cast(factor, x.dtype()), x.shape());
  }
  std::vector<std::size_t> completed;
  if (sends || !buckets) {
    if (sends) {
      begin(caller);
    }
    how.on_complete = [&](std::size_t i, Tensor gradient) {
      if (!sends) {
        completed.push_back(i);
      } else if (buckets->has(i) && gradient.defined()) {
        buckets->put(i, gradient);
        early[i] = true;
        buckets->complete(i);
      }
      return gradient;
    };
  }
  std::vector<RowGradient> found = tape.row_gradients(loss, variables(), how);
  if (!sends && !buckets) {
    for (std::size_t i = variables().size(); i-- > 0;)  // those without a dense gradient last
      if (std::find(completed.begin(), completed.end(), i) == completed.end())
        completed.push_back(i);
    order = std::move(completed);
  }
  return found;
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

/// From now on buckets that are complete are sent.
void Shares::begin(Caller caller) {
  world.state().step = ++step;
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

bool Shares::send(Caller caller) {
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
  return fields.weight > 0 && apply(means(fields, std::move(rows), caller), caller);
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

bool Shares::apply(std::vector<RowGradient> gradients, Caller caller) {
  const auto step_by = [&](optim::Optimizer& whole) {
    if (options.scaler) return options.scaler->step(whole, gradients, caller);
    if (options.clip_norm > 0) whole.admit(gradients, true, options.clip_norm, caller);
    whole.step(gradients, caller);
    return true;
  };
  bool stepped;
  if (const World* const ranks = world.state().parts.get()) {
    ranks->state().step = step;
    Parts whole(*ranks, *optimizer);
    stepped = step_by(whole);
  } else {
    stepped = step_by(*optimizer);
  }
  taken += stepped;
  return stepped;
}

Replicas::Replicas(const World& world, optim::Optimizer& optimizer,
                   const DataParallelOptions& options, Caller caller) try
    : Optimizer(optimizer), shares_(nullptr) {
  const CallerScope here(caller, own_name);
  shares_ = new Shares(world, optimizer, options, caller);
  try {
    shares_->check_options(caller);
    shares_->compare(caller);
    broadcast_variables(variables(), caller);
  } catch (...) {
    delete shares_;
    throw;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
Replicas::~Replicas() { delete shares_; }

void Replicas::broadcast_variables(const std::vector<Variable>& variables, Caller caller) const {
  if (shares_->world.size() == 1) return;
  const CallerScope here(caller, own_name);
  for (const Variable& x : variables) x.assign(broadcast_raw(x, shares_->world, 0, caller));
}

bool Replicas::step(GradientTape& tape, Operand loss, StepOptions options) try {
  Shares& shares = *shares_;
  const Caller caller = loss.caller();
  const CallerScope here(caller, own_name);
  shares.check_unchanged(caller);
  shares.check_loss(loss, options);
  if (options.examples == 0) return join(caller);
  if (shares.world.size() == 1 && shares.partials.empty() && shares.options.sum != Sum::tree) {
    shares.world.state().step = ++shares.step;
    GradientOptions how{.unconnected = shares.options.unconnected};
    if (const Tensor x = loss.value(); shares.options.scaler && x.defined())
      how.upstream = broadcast_to(cast(shares.options.scaler->factor, x.dtype()), x.shape());
    return shares.apply(tape.row_gradients(loss, variables(), how), caller);
  }
  not_traced();
  const auto weight = static_cast<double>(options.examples);
  shares.add(shares.gradients_of(tape, loss, weight, shares.sends_early()), weight, caller);
  return shares.send(caller);
} catch (const std::bad_alloc&) {
  fail_memory(loss.caller(), own_name);
}
void Replicas::accumulate(GradientTape& tape, Operand loss, StepOptions options) try {
  const Caller caller = loss.caller();
  const CallerScope here(caller, own_name);
  shares_->check_unchanged(caller);
  shares_->check_loss(loss, options);
  if (options.examples == 0) return;
  not_traced();
  const auto weight = static_cast<double>(options.examples);
  shares_->add(shares_->gradients_of(tape, loss, weight, false), weight, caller);
} catch (const std::bad_alloc&) {
  fail_memory(loss.caller(), own_name);
}
bool Replicas::join(Caller caller) try {
  const CallerScope here(caller, own_name);
  shares_->check_unchanged(caller);
  not_traced();
  return shares_->send(caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
bool Replicas::any(bool more, Caller caller) {
  std::int64_t found = more;
  take_largest(&found, 1, caller);
  return found != 0;
}
void Replicas::step(GradientList gradients, Caller caller) try {
  const CallerScope here(caller, own_name);
  shares_->check_unchanged(caller);
  if (shares_->world.size() == 1 && shares_->partials.empty() &&
      shares_->options.sum != Sum::tree) {
    shares_->world.state().step = ++shares_->step;
    std::vector<RowGradient> own;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      own.push_back({gradients.values(i), gradients.rows(i) ? *gradients.rows(i) : Tensor()});
    shares_->apply(std::move(own), caller);
    return;
  }
  not_traced();
  if (gradients.size() != variables().size())
    fail<Error>(caller, own_name, "gradients", to_text(variables().size()),
                to_text(gradients.size()));
  std::vector<RowGradient> own;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    own.push_back({gradients.values(i), gradients.rows(i) ? *gradients.rows(i) : Tensor()});
  shares_->add(std::move(own), 1, caller);
  shares_->send(caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
void Replicas::add_up(double* numbers, std::size_t count, Caller caller) {
  const CallerScope here(caller, own_name);
  if (shares_->world.size() == 1) return;
  not_traced();
  std::vector<double> all(count * static_cast<std::size_t>(shares_->world.size()));
  shares_->world.state().main->run({Kind::all_gather, Wire::float64, Combine::sum, numbers,
                                    all.data(), static_cast<std::int64_t>(count)},
                                   {own_name, "add_up"}, caller);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = all[i];
    for (std::size_t k = i + count; k < all.size(); k += count) numbers[i] += all[k];
  }
}
void Replicas::take_largest(std::int64_t* numbers, std::int64_t count, Caller caller) {
  const CallerScope here(caller, own_name);
  const auto among = [&](const World& ranks) {
    if (ranks.size() == 1) return;
    not_traced();
    ranks.state().main->run({Kind::all_reduce, Wire::int64, Combine::max, numbers, numbers, count},
                            {own_name, "any"}, caller);
  };
  among(shares_->world);
  if (const World* const parts = shares_->world.state().parts.get()) among(*parts);
}
Replicas::Place Replicas::place() const {
  const World& world = shares_->world;
  const World* const parts = world.state().parts.get();
  return {world.rank(), world.size(), parts ? parts->rank() : 0, parts ? parts->size() : 1};
}
std::int64_t Replicas::least_of_parts(std::int64_t number, Caller caller) const {
  shares_->world.state().parts->state().main->run(
      {Kind::all_reduce, Wire::int64, Combine::min, &number, &number, 1}, {"Checkpoints", "parts"},
      caller);
  return number;
}
void Replicas::check_resumed(std::int64_t step, Caller caller) const {
  if (shares_->owners) {
    if (step >= 0) shares_->owners->take_gathered();
    shares_->owners->release();
  }
  if (shares_->world.size() == 1) return;
  std::vector<std::int64_t> all(static_cast<std::size_t>(shares_->world.size()));
  shares_->world.state().main->run(
      {Kind::all_gather, Wire::int64, Combine::sum, &step, all.data(), 1}, {"resume"}, caller);
  const auto text = [](std::int64_t found) {
    return found < 0 ? Text("no checkpoint") : "step " + to_text(found);
  };
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail<DistError>(caller, "Checkpoints", "rank " + to_text(static_cast<std::int64_t>(rank)),
                      text(all[0]) + ", as on rank 0", text(all[rank]),
                      "Checkpoints need a folder that all ranks see.");
}
bool Replicas::shards() const {
  return shares_->options.shard_optimizer && shares_->world.size() > 1;
}
void Replicas::shard(std::vector<std::vector<Variable>*> state, Caller caller) try {
  const CallerScope here(caller, own_name);
  shares_->state = state;
  shares_->owners = std::make_unique<Owners>(shares_->world, *shares_->optimizer, std::move(state));
  shares_->optimizer = shares_->owners.get();
} catch (const std::bad_alloc&) {
  fail_memory(caller, own_name);
}
std::vector<Variable>& Replicas::whole_state(const std::vector<Variable>* list) const {
  const auto found = std::find(shares_->state.begin(), shares_->state.end(), list);
  if (found == shares_->state.end()) return const_cast<std::vector<Variable>&>(*list);
  std::vector<Variable>* const whole =
      shares_->owners->gathered(static_cast<std::size_t>(found - shares_->state.begin()));
  if (!whole)
    fail<Error>({}, own_name, "state", "the state of the optimizer on all ranks",
                "a part of it, by .shard_optimizer",
                "io::Checkpoints saves and resumes it, as all ranks call it.");
  return *whole;
}
void Replicas::gather_state(bool everywhere, Caller caller) const {
  const CallerScope here(caller, "Checkpoints");
  if (shares_->owners) shares_->owners->gather(everywhere, caller);
}
void Replicas::release_state() const {
  if (shares_->owners) shares_->owners->release();
}
std::int64_t Replicas::steps() const { return shares_->taken; }
const World& Replicas::world() const { return shares_->world; }
std::string Replicas::buckets() const { return shares_->buckets ? shares_->buckets->text() : ""; }
}  // namespace reel::dist::detail
