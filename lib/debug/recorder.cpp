// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include <reel/tape.hpp>

#include "lib/debug/moment.hpp"

namespace reel::debugger {
namespace {
constexpr std::size_t most_results = 100000;  // of a step: a program may update nothing
std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
}  // namespace

std::string name_of(const Node& node) {
  const std::string name(node.op->name);
  return node.part == Part::value ? name : "gradient of " + name;
}

Layout layout_of(const Body& body) {
  if (body.contiguous) return {};
  return {body.strides, body.strides + body.shape.rank()};
}
Input maker_of(const Step& step, Input input) {
  while (input.outside >= 0) {
    const Input& source = step.outsides[static_cast<std::size_t>(input.outside)].source;
    if (source.absent()) break;
    input = source;
  }
  return input;
}
Options::Options(OptionsView options) {
  if (!options.type) return;
  void* const memory = ::operator new(options.type->size, std::align_val_t(64));
  options.type->copy(memory, options.data);
  view_ = {options.type, memory};
}
Options::~Options() {
  if (!view_.type) return;
  void* const memory = const_cast<void*>(view_.data);
  if (view_.type->destroy) view_.type->destroy(memory);
  ::operator delete(memory, std::align_val_t(64));
}

void Step::clear() {
  nodes.clear();
  inputs.clear();
  outputs.clear();
  outsides.clear();
  gradients.clear();
  loss = -1;
  bytes = 0;
  complete = true;
}

Recorder::Recorder(const Settings& asked) : settings(asked) {
  steps_.push_back(std::make_unique<Step>());
  table_.resize(1024);
  only_looks = true;  // the functions of the host step aside
}
Recorder::~Recorder() = default;

// --- bodies ---
Recorder::Entry& Recorder::entry(const void* key) {
  if (2 * used_ > table_.size()) {
    std::vector<Entry> before(2 * table_.size());
    before.swap(table_);
    used_ = 0;
    for (const Entry& each : before)
      if (each.generation == generation_) entry(each.key) = each;
  }
  const std::size_t mask = table_.size() - 1;
  std::size_t at = (reinterpret_cast<std::uintptr_t>(key) >> 6) * 0x9e3779b97f4a7c15u >> 20 & mask;
  while (table_[at].generation == generation_ && table_[at].key != key) at = (at + 1) & mask;
  Entry& found = table_[at];
  if (found.generation != generation_) {
    found = {key, generation_};
    ++used_;
  }
  return found;
}
Input Recorder::input_of(const Body* body) {
  if (!body) return {};
  Entry& known = entry(body);
  Step& step = current();
  const std::uint64_t print = fingerprint_of(*body);
  if (known.node >= 0) {
    const Node& node = step.nodes[static_cast<std::size_t>(known.node)];
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + known.output)];
    if (output.fingerprint == print) return {known.node, known.output, -1};
    known.node = -1;
  }
  if (known.outside >= 0 &&
      step.outsides[static_cast<std::size_t>(known.outside)].fingerprint == print)
    return {-1, 0, known.outside};
  Outside outside{body->dtype, body->shape, -1, source_of(*body), print, {}, {}};
  if (settings.level == Level::values) outside.layout = layout_of(*body);
  if (const auto found = variable_of_body_.find(body);
      found != variable_of_body_.end() &&
      variables_[static_cast<std::size_t>(found->second)].body == body)
    outside.variable = found->second;
  if (settings.level == Level::values && outside.source.absent()) {
    make_room(body->bytes());
    if (bytes_ + body->bytes() <= settings.bytes) {
      outside.value = copy_of(*body);
      step.bytes += body->bytes();
      bytes_ += body->bytes();
    } else {
      step.complete = false;
    }
  }
  const int number = static_cast<int>(step.outsides.size());
  known.outside = number;
  if (outside.source.absent() && outside.layout.empty()) entry(body->data).outside = number;
  step.outsides.push_back(std::move(outside));
  return {-1, 0, number};
}
/// A view that the library has made beside the ops, as a transposed matrix of a gradient: where its
/// elements are those of a known body.
Input Recorder::source_of(const Body& body) {
  Entry& known = entry(body.data);
  if (known.node < 0 && known.outside < 0) return {};
  const Step& step = current();
  Body whole = body;
  whole.contiguous = true;
  if (known.node >= 0) {
    const Node& node = step.nodes[static_cast<std::size_t>(known.node)];
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + known.output)];
    whole.elements = elements_of(whole.shape = output.shape);
    if (output.dtype == body.dtype && whole.elements == body.elements &&
        fingerprint_of(whole) == output.fingerprint)
      return {known.node, known.output, -1};
  }
  if (known.outside >= 0) {
    const Outside& outside = step.outsides[static_cast<std::size_t>(known.outside)];
    whole.elements = elements_of(whole.shape = outside.shape);
    if (outside.dtype == body.dtype && whole.elements == body.elements && outside.layout.empty() &&
        fingerprint_of(whole) == outside.fingerprint)
      return {-1, 0, known.outside};
  }
  return {};
}
void Recorder::make_room(std::int64_t bytes) {
  while (bytes_ + bytes > settings.bytes && steps_.size() > 1) {
    bytes_ -= steps_.front()->bytes;
    steps_.pop_front();
  }
}
std::string Recorder::name_of_outside(const Outside& outside) const {
  return outside.variable < 0 ? "" : variables_[static_cast<std::size_t>(outside.variable)].name;
}

// --- Variables ---
/// The name, or a longer one if another Variable has it.
std::string Recorder::new_name(const Variable& variable) const {
  const std::string name = host->name(variable);
  const auto taken = [&](const std::string& text) {
    return std::any_of(variables_.begin(), variables_.end(), [&](const VariableInfo& each) {
      return each.name == text && each.cell != &Access::cell(variable);
    });
  };
  std::string text = name;
  for (int i = 1; taken(text); ++i) text = fmt::format("{}_{}", name, i);
  return text;
}
int Recorder::info_of(const Variable& variable) {
  const Cell& cell = Access::cell(variable);
  const void* const path = cell.path.load(std::memory_order_relaxed);
  const Body* const body = Access::body(cell.value);
  const auto found = variable_of_cell_.find(&cell);
  if (found != variable_of_cell_.end()) {
    VariableInfo& known = variables_[static_cast<std::size_t>(found->second)];
    if (known.id == cell.id) {
      if (known.body != body) variable_of_body_[known.body = body] = found->second;
      if (known.path != path) known.path = path, known.name = new_name(variable);
      return found->second;
    }
    known.name += " (gone)";
  }
  const int number = static_cast<int>(variables_.size());
  variables_.push_back(
      {&cell, cell.id, new_name(variable), body->dtype, body->shape, cell.is_buffer, path, body});
  variable_of_cell_[&cell] = number;
  variable_of_body_[body] = number;
  return number;
}
void Recorder::variable_read(const Variable& variable) {
  VariableInfo& info = variables_[static_cast<std::size_t>(info_of(variable))];
  ++info.reads;
  read_after_write_ |= info.written && (info.learns || !any_learns_);
}
void Recorder::variable_written(const Variable& variable) {
  VariableInfo& info = variables_[static_cast<std::size_t>(info_of(variable))];
  ++info.writes;
  info.written = !info.is_buffer;
}
int Recorder::layer_now() {
  const Context& context = host->context();
  const std::string_view name = context.layer_name.empty() ? context.function : context.layer_name;
  if (name.empty()) return -1;
  if (name.data() == last_layer_.data() && name.size() == last_layer_.size() &&
      name == layers_[static_cast<std::size_t>(last_layer_number_)])
    return last_layer_number_;
  const auto [place, is_new] =
      layer_numbers_.try_emplace(std::string(name), static_cast<int>(layers_.size()));
  if (is_new) layers_.emplace_back(name);
  last_layer_ = name;
  return last_layer_number_ = place->second;
}

// --- steps ---
void Recorder::next_step() {
  read_after_write_ = false;
  for (VariableInfo& each : variables_) each.written = false;
  std::unique_ptr<Step> next = std::move(spare_);
  ++current_step_;
  ++generation_;
  used_ = 0;
  depth_ = 0;
  played_ = -1;
  // A step that is not watched takes no place.
  if (current().nodes.empty()) {
    next = std::move(steps_.back());
    steps_.pop_back();
    bytes_ -= next->bytes;
    next->clear();
  }
  if (!next) next = std::make_unique<Step>();
  while (steps_.size() > static_cast<std::size_t>(std::max(settings.keep_steps, 1) - 1)) {
    if (!watches()) break;
    bytes_ -= steps_.front()->bytes;
    spare_ = std::move(steps_.front());
    spare_->clear();
    steps_.pop_front();
  }
  next->number = current_step_;
  steps_.push_back(std::move(next));
}

void Recorder::begin_profile() {
  end_profile();
  profile_ = host->measure(*this);
  profiles_ = true;
}
void Recorder::end_profile() {
  if (std::exchange(profiles_, false)) profile_->end();
}
void Recorder::sleep() {
  end_profile();
  sleeps_ = only_times = true;
}
void Recorder::wake() {
  if (!sleeps_) return;
  sleeps_ = only_times = false;
  depth_ = 0;
  next_step();
}
void Recorder::begins(const GateCall& begun) {
  if (attention.load(std::memory_order_relaxed) && attend) attend(*this);
  if (sleeps_) return;
  if (begun.op.updates)
    read_after_write_ = false;
  else if ((read_after_write_ && begun.part == Part::value) ||
           (depth_ == 0 && current().nodes.size() >= most_results))
    next_step();
  if (profiles_ && (goal.kind == Goal::Kind::nodes || current_step_ >= goal.count))
    stop_for(fmt::format("step {}", current_step_), -1);
  if (!watches()) return;
  if (pending_.size() <= depth_) pending_.emplace_back();
  if (depth_ > 4096) depth_ = 0;  // of ops that have thrown
  Pending& open = pending_[depth_++];
  open.inputs = begun.inputs;
  open.op = &begun.op;
  open.nodes = current().nodes.size();
  open.list.clear();
  for (int i = 0; i < begun.input_count; ++i) open.list.push_back(input_of(begun.inputs[i]));
  open.begin = settings.level == Level::odd ? 0 : now();
}

void Recorder::ends(const GateCall& ended) {
  if (!watches() || depth_ == 0) return;
  const std::int64_t end = settings.level == Level::odd ? 0 : now();
  std::size_t at = depth_;
  while (at-- > 0 && (pending_[at].inputs != ended.inputs || pending_[at].op != &ended.op)) {
  }
  if (at > depth_) return;
  Pending& open = pending_[at];
  Step& step = current();
  const int number = static_cast<int>(step.nodes.size());
  Node& node = step.nodes.emplace_back();
  node.op = &ended.op;
  node.part = ended.part;
  node.caller = ended.caller;
  node.layer = layer_now();
  node.backward = backward_ > 0 || ended.part != Part::value;
  node.accumulates = ended.accumulates & ~GateCall::of_replay;
  node.replayed = ended.is_replayed();
  if (backward_ > 0) node.forward = played_;
  node.first_input = static_cast<int>(step.inputs.size());
  node.inputs = static_cast<int>(open.list.size());
  step.inputs.insert(step.inputs.end(), open.list.begin(), open.list.end());
  node.nanoseconds = end - open.begin;
  if (settings.level == Level::values) node.options = Options(ended.options);
  const std::size_t nodes_before = open.nodes;
  // Move the finished one behind those that are open, so that its memory is used again.
  if (at + 1 < depth_)
    std::rotate(pending_.begin() + static_cast<std::ptrdiff_t>(at),
                pending_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                pending_.begin() + static_cast<std::ptrdiff_t>(depth_));
  --depth_;
  note_outputs(ended, nodes_before);
  call = &ended;
  noted(step, number);
  if (!stops.empty() || goal.kind != Goal::Kind::none) check_stops(number);
  call = nullptr;
}

/// The results of the last node.
void Recorder::note_outputs(const GateCall& ended, std::size_t nodes_before) {
  Step& step = current();
  Node& node = step.nodes.back();
  node.first_output = static_cast<int>(step.outputs.size());
  const int number = static_cast<int>(step.nodes.size()) - 1;
  is_odd_ = false;
  for (int i = 0; i < ended.output_count; ++i) {
    Output& output = step.outputs.emplace_back();
    node.outputs = i + 1;
    const Body* const body = ended.outputs[i];
    output.absent = !body;
    if (!body) continue;
    Entry& known = entry(body);
    if (known.node >= static_cast<int>(nodes_before)) node.inner = true;
    if (ended.accumulates >> i & 1) {
      node.before.resize(static_cast<std::size_t>(ended.output_count));
      node.before[static_cast<std::size_t>(i)] = {known.node, known.output, known.outside};
    }
    known.node = number;
    known.output = i;
    if (ended.updated) node.updated.push_back(info_of(ended.updated[i]));
    note_output(node, output, *body, ended);
    if (!body->contiguous) continue;
    Entry& by_data = entry(body->data);
    by_data.node = number;
    by_data.output = i;
  }
}
void Recorder::note_output(Node& node, Output& output, const Body& body, const GateCall& ended) {
  output.own_memory = !body.owner;
  output.dtype = body.dtype;
  output.shape = body.shape;
  output.fingerprint = fingerprint_of(body);
  if (settings.level == Level::values && !body.contiguous) output.layout = layout_of(body);
  if (is_floating(body.dtype) && settings.level == Level::odd) {
    if (!is_view_of_finite(ended, body, node)) output.odd = odd_of(body);
  } else if (is_floating(body.dtype)) {
    const bool is_forward = ended.part == Part::value && !node.backward;
    output.statistics = statistics_of(body, is_forward ? bounds_of(ended.op.name) : Bounds::none);
    output.measured = true;
    output.odd = {output.statistics.nans > 0, output.statistics.infinities > 0};
  }
  is_odd_ |= output.odd.any();
  if (settings.level == Level::values && counts(node, output)) keep(output, body);
}
/// Whether the command `only` lets the result count.
bool Recorder::counts(const Node& node, const Output& output) const {
  switch (only.kind) {
    case Filter::Kind::all:
      return true;
    case Filter::Kind::op:
      return std::regex_search(name_of(node), only.wanted);
    case Filter::Kind::name:
      return std::regex_search(
          line_of(node.caller) + (node.layer < 0 ? "" : " " + layer(node.layer)), only.wanted);
    case Filter::Kind::dtype:
      return std::regex_search(std::string(host->dtype(output.dtype)), only.wanted);
  }
  return true;
}
/// Whether the result has only elements of an input that was finite.
bool Recorder::is_view_of_finite(const GateCall& ended, const Body& body, const Node& node) const {
  if (ended.op.fusion != Fusion::layout || !body.owner || node.inputs == 0) return false;
  const Step& step = *steps_.back();
  const Input& input = step.inputs[static_cast<std::size_t>(node.first_input)];
  if (input.node < 0) return false;
  const Node& maker = step.nodes[static_cast<std::size_t>(input.node)];
  return !step.outputs[static_cast<std::size_t>(maker.first_output + input.output)].odd.any();
}
void Recorder::keep(Output& output, const Body& body) {
  Step& step = current();
  make_room(body.bytes());
  if (bytes_ + body.bytes() > settings.bytes) {
    step.complete = false;
    return;
  }
  output.value = copy_of(body);
  step.bytes += body.bytes();
  bytes_ += body.bytes();
}
void Recorder::recorded(const Record& record) {
  if (!watches()) return;
  auto& nodes = current().nodes;
  for (std::size_t i = nodes.size(); i-- > 0 && i + 8 > nodes.size();)
    if (nodes[i].op == record.op && !nodes[i].recorded) {
      nodes[i].recorded = true;
      entry(&record).node = static_cast<int>(i);
      return;
    }
}
void Recorder::record_played(const Record& record, const Body* dy) {
  if (!watches()) return;
  played_ = entry(&record).node;
  if (played_ >= 0 && dy)
    current().nodes[static_cast<std::size_t>(played_)].gradient = input_of(dy);
}
void Recorder::backward_begins(const Body& target) {
  if (backward_++ == 0 && watches()) current().loss = input_of(&target).node;
}
void Recorder::backward_ends(bool) {
  if (--backward_ == 0) played_ = -1;
}
void Recorder::gradient_complete(const GradientSource& source, std::size_t, const Tensor& x) {
  if (!watches() || !x.defined()) return;
  Complete complete{source.variable() ? info_of(*source.variable()) : -1, {}, {}};
  if (complete.variable >= 0)
    variables_[static_cast<std::size_t>(complete.variable)].learns = any_learns_ = true;
  const Body& body = *Access::body(x);
  complete.made = input_of(&body);
  if (settings.level != Level::odd) complete.statistics = statistics_of(body, Bounds::none);
  current().gradients.push_back(std::move(complete));
}
}  // namespace reel::debugger
