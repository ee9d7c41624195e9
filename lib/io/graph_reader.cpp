// SPDX-License-Identifier: BSD-3-Clause
// Graphs in files: what is read. Nothing is taken for true that is not checked here or by the
// graph's verification afterwards; a tensor has the bytes that the file has.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <set>

#include <reel/error.hpp>

#include "lib/io/file.hpp"
#include "lib/io/graph_file.hpp"
#include "lib/io/json.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/trace/loop.hpp"

namespace reel::io {
namespace {
using graph::Layout, graph::Step, graph::Value;
using OptionKind = OptionsMember::Kind;

/// A text that lives as long as the process, as those of a program's lines do.
const char* kept_text(const std::string& text) {
  static constinit std::set<std::string>* texts = nullptr;
  const Locked held(Lock::traces);
  if (!texts) texts = new std::set<std::string>;
  return texts->insert(text).first->c_str();
}

class Reader {
 public:
  Reader(const std::string& text, const Archive& archive, const Path& path, Caller caller)
      : archive_(archive), path_(path), caller_(caller), json_(text, *this) {
    for (std::size_t i = 0; i < archive.entries().size(); ++i)
      entries_.emplace(archive.entries()[i].name, i);
  }

  Shared<const reel::detail::GraphData> graph() {
    auto data = make_shared_of<reel::detail::GraphData>();
    data->loaded = true;
    members({"version", "arguments", "variables", "graph"}, [&](const std::string& key) {
      if (key == "version") {
        if (const std::int64_t version = number(); version != graph_version)
          fail("a graph of version " + std::to_string(graph_version), std::to_string(version));
      } else if (key == "arguments") {
        json_.elements([&] { data->arguments.push_back(json_.string()); });
      } else if (key == "variables") {
        json_.elements([&] { variable(*data); });
      } else if (key == "graph") {
        graph(*data, 0);
      } else {
        unknown(key);
      }
    });
    json_.expect_end();
    for (const Value& value : data->values) {
      if (value.kind != Value::Kind::variable) continue;
      const auto i = static_cast<std::size_t>(value.number);
      if (i >= data->variable_values.size()) continue;  // not verified
      if (!(Layout(*Access::body(data->variable_values[i])) == value.layout))
        fail("a Variable like its value", "\"" + escaped(data->variables[i].substr(0, 60)) + "\"");
    }
    return data;
  }
  /// Of JSON, too.
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    fail_file(caller_, "load_graph", path_, expected, got);
  }

 private:
  [[noreturn]] void unknown(const std::string& key) const {
    fail("members of a graph", "\"" + escaped(key.substr(0, 60)) + "\"");
  }
  /// json_.members(), each key once. Some must be there, also so that a short text makes no large
  /// object.
  template <class F>
  void members(std::initializer_list<std::string_view> required, const F& f) {
    std::set<std::string> known;
    json_.members([&](const std::string& key) {
      if (!known.insert(key).second)
        fail("each member once", "\"" + escaped(key.substr(0, 60)) + "\"");
      f(key);
    });
    for (const std::string_view key : required)
      if (!known.contains(std::string(key)))
        fail("\"" + std::string(key) + "\" in an object of the graph", "none");
  }
  template <class T>
  T number_of(std::string_view what) {
    const std::string_view text = json_.value();
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      fail(what, escaped(text.substr(0, 60)));
    return number;
  }
  std::int64_t number() { return number_of<std::int64_t>("a number of 64 bits"); }
  int small() { return number_of<int>("a number of 32 bits"); }
  std::size_t count() { return static_cast<std::size_t>(json_.count()); }
  bool truth() {
    const std::string_view text = json_.value();
    if (text != "true" && text != "false") fail("true or false", escaped(text.substr(0, 60)));
    return text == "true";
  }
  std::vector<int> ids() {
    std::vector<int> list;
    json_.elements([&] { list.push_back(small()); });
    return list;
  }
  /// At most eight numbers, of any sign.
  Shape numbers() {
    Shape list;
    json_.elements([&] {
      if (list.rank() == Shape::max_rank) fail("at most 8 numbers", "more");
      list.resize(list.rank() + 1);
      list.data()[list.rank() - 1] = number();
    });
    return list;
  }
  DType dtype() {
    const std::string text = json_.string();
    for (int i = 0; i < dtype_count; ++i)
      if (name_of(static_cast<DType>(i)) == text) return static_cast<DType>(i);
    fail("a dtype", "\"" + escaped(text.substr(0, 60)) + "\"");
  }
  Device device() {
    const std::string text = json_.string();
    if (text == "cpu") return cpu();
    int index = -1;
    if (text.starts_with("cuda:"))
      std::from_chars(text.data() + 5, text.data() + text.size(), index);
    if (text != "cuda:" + std::to_string(index) || index < 0 || index >= cuda_device_count())
      reel::fail<Error>(caller_, "load_graph", "device", "a device of this machine",
                        "\"" + Text(escaped(text.substr(0, 60))) + "\"");
    return cuda(index);
  }

  Tensor tensor(const std::string& name) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || !archive_.entries()[found->second].file_dtype.empty())
      fail("a tensor of the graph", "no \"" + escaped(name.substr(0, 60)) + "\"");
    Tensor& known = tensors_[name];
    if (!known.defined()) known = archive_.read(found->second);
    return known;
  }
  void variable(reel::detail::GraphData& data) {
    std::string name, of;
    members({"name", "tensor"}, [&](const std::string& key) {
      if (key == "name")
        name = json_.string();
      else if (key == "tensor")
        of = json_.string();
      else
        unknown(key);
    });
    data.variables.push_back(std::move(name));
    data.variable_values.push_back(tensor(of));
  }

  void graph(graph::Graph& graph, int depth) {
    if (depth > most_loops_inside) fail("at most 16 loops inside of each other", "more");
    members({"values", "blocks"}, [&](const std::string& key) {
      if (key == "values")
        json_.elements([&] { value(graph.values.emplace_back()); });
      else if (key == "blocks")
        json_.elements([&] { block(graph.segments.emplace_back(), depth); });
      else
        unknown(key);
    });
  }

  void value(Value& value) {
    static constexpr std::string_view kinds[] = {"argument", "variable", "constant", "computed",
                                                 "view"};
    std::string of;
    Shape lengths, strides;
    bool strided = false;
    Layout& layout = value.layout;
    members({"kind", "dtype", "shape"}, [&](const std::string& key) {
      if (key == "kind") {
        const std::string text = json_.string();
        const auto kind = std::find(std::begin(kinds), std::end(kinds), text);
        if (kind == std::end(kinds))
          fail("a kind of value", "\"" + escaped(text.substr(0, 60)) + "\"");
        value.kind = static_cast<Value::Kind>(kind - std::begin(kinds));
      } else if (key == "number") {
        value.number = small();
      } else if (key == "offset") {
        value.offset = number();
      } else if (key == "dtype") {
        layout.dtype = dtype();
      } else if (key == "shape") {
        lengths = numbers();
      } else if (key == "strides") {
        strides = numbers();
        strided = true;
      } else if (key == "live") {
        layout.live = truth();
      } else if (key == "device") {
        layout.device = device();
      } else if (key == "name") {
        value.name = json_.string();
      } else if (key == "tensor") {
        of = json_.string();
      } else {
        unknown(key);
      }
    });
    if (!is_shape(lengths) || (strided && strides.rank() != lengths.rank()))
      fail("a shape and its strides", std::string(to_text(lengths)));
    Body header{};
    layout.shape = header.shape = lengths;
    layout.elements = lengths.elements();
    set_row_major(header);
    std::copy_n(strided ? strides.data() : header.strides, lengths.rank(), layout.strides);
    layout.contiguous = is_row_major(layout.shape, layout.strides);
    if (value.kind == Value::Kind::constant) value.constant = constant(layout, tensor(of), of);
  }
  /// The elements of a file in this layout.
  Tensor constant(const Layout& layout, const Tensor& stored, const std::string& name) const {
    const std::int64_t size = size_of(layout.dtype);
    const bool fits = layout.contiguous ? stored.size() == layout.elements
                                        : layout.device == cpu() && layout.elements > 0 &&
                                              are_inside(first_of(layout), layout.shape,
                                                         layout.strides, stored.size());
    if (stored.dtype() != layout.dtype || !fits)
      fail("a tensor with the elements of its value", "\"" + escaped(name.substr(0, 60)) + "\"");
    const Tensor placed = stored.to(layout.device, caller_);
    Tensor made = make_alias(Context::here(), Access::body(placed));
    if (!made.defined()) throw std::bad_alloc();
    layout.set(*Access::body(made));
    if (!layout.contiguous) Access::body(made)->data += first_of(layout) * size;
    return made;
  }
  /// Where a constant begins among its elements, which lie without gaps.
  static std::int64_t first_of(const Layout& layout) {
    __int128 first = 0;
    for (std::size_t i = 0; i < layout.shape.rank(); ++i)
      if (layout.strides[i] < 0)
        first -= static_cast<__int128>(layout.strides[i]) * (layout.shape.data()[i] - 1);
    return first > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(first);
  }

  void block(graph::Segment& segment, int depth) {
    members({"steps"}, [&](const std::string& key) {
      if (key == "steps") {
        json_.elements([&] { segment.steps.push_back(step(depth)); });
      } else if (key == "ask") {
        segment.question = question();
      } else if (key == "branches") {
        json_.elements([&] { segment.branches.push_back(branch()); });
      } else if (key == "results") {
        segment.ends = true;
        segment.results = ids();
      } else if (key == "assigned") {
        json_.elements([&] {
          const std::vector<int> pair = ids();
          if (pair.size() != 2) fail("a Variable and a value", "others");
          segment.assigned.emplace_back(pair[0], pair[1]);
        });
      } else {
        unknown(key);
      }
    });
    if (segment.ends == !segment.branches.empty()) fail("\"results\" or \"branches\"", "others");
  }
  graph::Branch branch() {
    graph::Branch branch{{}, -1};
    members({"answer", "block"}, [&](const std::string& key) {
      if (key == "answer")
        branch.answer = bytes();
      else if (key == "block")
        branch.segment = small();
      else
        unknown(key);
    });
    return branch;
  }
  /// Bytes as hexadecimal digits.
  std::string bytes() {
    const std::string text = json_.string();
    std::string out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
      unsigned byte = 0;
      const char* const at = text.data() + i;
      if (std::from_chars(at, at + 2, byte, 16).ptr != at + 2) break;
      out += static_cast<char>(byte);
    }
    if (2 * out.size() != text.size()) fail("hexadecimal digits", escaped(text.substr(0, 60)));
    return out;
  }
  /// Whether the key is one of a step's place.
  bool place(const std::string& key, Step& step) {
    if (key == "file")
      step.caller.file = kept_text(json_.string());
    else if (key == "line")
      step.caller.line = number_of<unsigned>("a line");
    else
      return false;
    return true;
  }
  Step question() {
    Step step;
    members({"in", "read"}, [&](const std::string& key) {
      if (key == "in") {
        step.inputs = ids();
      } else if (key == "read") {
        const std::string text = json_.string();
        if (text != "truth" && text != "values")
          fail("truth or values", escaped(text.substr(0, 60)));
        step.read = text == "truth" ? HostRead::truth : HostRead::values;
      } else if (!place(key, step)) {
        unknown(key);
      }
    });
    return step;
  }

  Step step(int depth) {
    Step step;
    std::string name;
    bool has_options = false;
    members({"op", "in", "out"}, [&](const std::string& key) {
      if (key == "op") {
        find_op(name = json_.string(), step);
      } else if (key == "in") {
        step.inputs = ids();
      } else if (key == "out") {
        step.outputs = ids();
      } else if (key == "writes") {
        step.updated = ids();
      } else if (key == "scope") {
        step.scope = std::make_shared<const std::string>(json_.string());
      } else if (key == "options") {
        if (!step.op || !step.op->options || !step.op->options->make)
          fail("an op, and then options that it has", "others");
        step.options = graph::KeptOptions(*step.op->options);
        options(*step.op->options, step.options.data());
        has_options = true;
      } else if (key == "loop") {
        if (step.op != &graph::loop_op) fail("a loop of the op \"loop\"", "another");
        step.loop = loop(depth + 1);
      } else if (!place(key, step)) {
        unknown(key);
      }
    });
    if ((step.op->options != nullptr) != has_options || (step.op == &graph::loop_op) != !!step.loop)
      fail("what the op has", "options or a loop too much, or none for " + escaped(name));
    return step;
  }
  void find_op(const std::string& name, Step& step) const {
    for (Op* const op : {&graph::loop_op, &graph::view_op, &graph::gradient_op})
      if (op->name == name) step.op = op;
    if (step.op) return;
    const OpTable::NamedPart found = OpTable::the().find_kernel(name);
    if (!found.op)
      reel::fail<Error>(caller_, "load_graph", "op", "an op that this program has",
                        "\"" + Text(escaped(name.substr(0, 60))) + "\"");
    step.op = found.op;
    step.part = found.part;
  }

  void options(const OptionsType& type, void* place) {
    const OptionsMembers list(&type, place);
    std::size_t found = 0;
    members({}, [&](const std::string& key) {
      const auto member = std::find_if(list.begin(), list.end(),
                                       [&](const OptionsMember& each) { return each.name == key; });
      if (member == list.end()) unknown(key);
      option(*member);
      ++found;
    });
    if (found != list.size()) fail("all options of the op", "some");
  }
  void option(const OptionsMember& member) {
    switch (member.kind) {
      case OptionKind::boolean: {
        const bool value = truth();
        std::memcpy(member.place, &value, sizeof value);
        break;
      }
      case OptionKind::choice: {
        const std::int64_t value = number();
        std::memcpy(member.place, &value, sizeof value);
        break;
      }
      case OptionKind::integer:
        member.as<std::int64_t>() = number();
        break;
      case OptionKind::natural:
        member.as<std::uint64_t>() = number_of<std::uint64_t>("a number of 64 bits");
        break;
      case OptionKind::real: {
        const std::string text = json_.string();
        const char* const end = text.data() + text.size();
        if (std::from_chars(text.data(), end, member.as<double>()).ptr != end || text.empty())
          fail("a number", escaped(text.substr(0, 60)));
        break;
      }
      case OptionKind::text:
        member.as<const char*>() = kept_text(json_.string());
        break;
      case OptionKind::dtype:
        member.as<DType>() = dtype();
        break;
      case OptionKind::device:
        member.as<Device>() = device();
        break;
      case OptionKind::shape:
        member.as<Shape>() = numbers();
        break;
      case OptionKind::axes: {
        if (json_.take_null()) {
          member.as<Axes>() = Axes::every();
          break;
        }
        const std::vector<int> axes = ids();
        member.as<Axes>() = Axes(std::span<const int>(axes), caller_);
        break;
      }
      case OptionKind::attributes:
        fail("options of an op of the library", "attributes");
    }
  }

  std::shared_ptr<const graph::Loop> loop(int depth) {
    auto made = std::make_shared<tracing::Loop>();
    tracing::Loop& loop = *made;
    members({"name", "bodies"}, [&](const std::string& key) {
      if (key == "name")
        loop.name = json_.string();
      else if (key == "states")
        loop.states = count();
      else if (key == "arrays")
        loop.arrays = count();
      else if (key == "results")
        loop.results = count();
      else if (key == "made")
        loop.made = count();
      else if (key == "reads")
        loop.reads = count();
      else if (key == "most")
        loop.most = json_.count();
      else if (key == "reverse")
        loop.reverse = truth();
      else if (key == "once")
        loop.once = truth();
      else if (key == "gradient")
        loop.gradient = truth();
      else if (key == "counts")
        loop.counts = truth();
      else if (key == "bodies")
        json_.elements([&] { body(loop, depth); });
      else
        unknown(key);
    });
    if (!loop.gradient && loop.gradient_bodies.size() == 1) {
      loop.tree = std::move(loop.gradient_bodies[0].tree);
      loop.gradient_bodies.clear();
    }
    if (loop.gradient == loop.gradient_bodies.empty()) fail("the bodies of a loop", "others");
    loop.stops.resize(loop.tree.segments.size());
    return made;
  }
  void body(tracing::Loop& loop, int depth) {
    auto& body = loop.gradient_bodies.emplace_back(tracing::Loop::GradientBody{-1, 0, {}});
    members({"graph"}, [&](const std::string& key) {
      if (key == "segment") {
        body.segment = small();
      } else if (key == "kept") {
        body.kept = count();
      } else if (key == "stops") {
        for (const int stop : ids()) loop.stops.push_back(stop != 0);
      } else if (key == "graph") {
        graph(body.tree, depth);
      } else {
        unknown(key);
      }
    });
    for (std::size_t i = 0; i < body.tree.segments.size(); ++i) {
      body.tree.endings.emplace_back();
      if (!body.tree.segments[i].ends) continue;
      body.tree.endings[i] = std::make_shared<tracing::Ending>();
      body.tree.endings[i]->segment = i;
    }
  }

  const Archive& archive_;
  const Path& path_;
  const Caller caller_;
  std::map<std::string, std::size_t> entries_;
  std::map<std::string, Tensor> tensors_;
  JsonReader json_;
};
}  // namespace

Shared<const reel::detail::GraphData> graph_of_json(const std::string& json, const Archive& archive,
                                                    const Path& path, Caller caller) {
  assemble();
  return Reader(json, archive, path, caller).graph();
}
}  // namespace reel::io
