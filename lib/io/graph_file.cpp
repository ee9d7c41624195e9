// SPDX-License-Identifier: BSD-3-Clause
// Graphs in files: what is written.
#include "lib/io/graph_file.hpp"

#include <reel/error.hpp>
#include <reel/io/graph.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "lib/io/file.hpp"
#include "lib/io/json.hpp"
#include "lib/trace/loop.hpp"

namespace reel::io {
namespace {
using graph::Layout, graph::Step, graph::Value;
using OptionKind = OptionsMember::Kind;

/// Members of a JSON object, or elements of an array.
class Json {
 public:
  explicit Json(std::string& out) : out_(out) {}
  /// Calls f(Json) for a new object.
  template <class F>
  static void object(std::string& out, const F& f) {
    out += '{';
    Json members(out);
    f(members);
    out += '}';
  }
  /// Calls f(element) for each element of a new array.
  template <class List, class F>
  static void array(std::string& out, const List& list, const F& f) {
    out += '[';
    Json elements(out);
    for (const auto& element : list) {
      elements.next();
      f(element);
    }
    out += ']';
  }
  /// The key of the next member.
  std::string& key(std::string_view name) { return next().append("\"").append(name).append("\":"); }
  void text(std::string_view name, std::string_view value) { key(name) += json_string(value); }
  void number(std::string_view name, std::int64_t value) { key(name) += std::to_string(value); }
  void truth(std::string_view name, bool value) {
    if (value) key(name) += "true";
  }
  template <class List>
  void numbers(std::string_view name, const List& values) {
    array(key(name), values, [&](std::int64_t value) { out_ += std::to_string(value); });
  }

 private:
  std::string& next() {
    if (!first_) out_ += ',';
    first_ = false;
    return out_;
  }
  std::string& out_;
  bool first_ = true;
};

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

class Writer {
 public:
  Writer(const reel::detail::GraphData& data, NamedTensors& tensors, Caller caller)
      : data_(data), tensors_(tensors), caller_(caller) {}

  std::string json() {
    Json::object(out_, [&](Json& all) {
      all.number("version", graph_version);
      Json::array(all.key("arguments"), data_.arguments,
                  [&](const std::string& name) { out_ += json_string(name); });
      std::size_t i = 0;
      Json::array(all.key("variables"), data_.variables, [&](const std::string& name) {
        Json::object(out_, [&](Json& one) {
          one.text("name", name);
          one.text("tensor", add(name, data_.variable_value(i++)));
        });
      });
      all.key("graph");
      graph(data_);
    });
    return std::move(out_);
  }

 private:
  /// Adds a tensor, and gives its name in the file.
  std::string add(std::string wanted, const Tensor& x) {
    const std::string base = wanted.empty() || wanted == "__metadata__" ? "tensor" : wanted;
    wanted = base;
    for (int i = 1; !names_.insert(wanted).second; ++i) wanted = base + "_" + std::to_string(i);
    tensors_.emplace_back(wanted, x);
    return wanted;
  }

  /// The elements of x in the order of its memory, without gaps; `strides` becomes that of x over
  /// them. So kernels find the elements of a transposed constant in the order that they had.
  static Tensor packed(const Tensor& x, std::int64_t* strides) {
    const Body& body = *Access::body(x);
    const int rank = body.rank();
    int order[Shape::max_rank];
    std::iota(order, order + rank, 0);
    std::stable_sort(order, order + rank, [&](int a, int b) {
      return std::abs(body.strides[a]) > std::abs(body.strides[b]);
    });
    Tensor made = make_alias(Context::here(), const_cast<Body*>(&body));
    if (!made.defined()) throw std::bad_alloc();
    Body& out = *Access::body(made);
    std::size_t axes = 0;
    std::int64_t step = 1;
    for (int i = 0; i < rank; ++i) {
      const int axis = order[i];
      const std::int64_t length = body.shape.data()[axis], stride = body.strides[axis];
      strides[axis] = 0;
      if (length == 1 || stride == 0) continue;
      if (stride < 0) out.data += (length - 1) * stride * size_of(body.dtype);
      out.shape.resize(std::max(axes + 1, out.shape.rank()));
      out.shape.data()[axes] = length;
      out.strides[axes++] = std::abs(stride);
    }
    out.shape.resize(axes);
    out.elements = out.shape.elements();
    out.contiguous = is_row_major(out.shape, out.strides);
    for (int i = rank - 1; i >= 0; --i) {
      const int axis = order[i];
      const std::int64_t length = body.shape.data()[axis], stride = body.strides[axis];
      if (length == 1 || stride == 0) continue;
      strides[axis] = stride < 0 ? -step : step;
      step *= length;
    }
    return made;
  }
  void constant(Json& all, const Value& value) {
    const Tensor& x = value.constant;
    const auto [known, is_new] = constants_.try_emplace(Access::body(x));
    Constant& constant = known->second;
    if (is_new) {
      const bool strided =
          !Access::body(x)->contiguous && x.device() == cpu() && Access::body(x)->elements > 0;
      constant.strides.resize(strided ? static_cast<std::size_t>(x.rank()) : 0);
      const Tensor stored = strided ? packed(x, constant.strides.data()) : x;
      constant.name = add("constant " + std::to_string(constants_.size() - 1), stored);
    }
    all.text("tensor", constant.name);
    if (!constant.strides.empty()) all.numbers("strides", constant.strides);
  }

  void graph(const graph::Graph& graph) {
    Json::object(out_, [&](Json& all) {
      Json::array(all.key("values"), graph.values, [&](const Value& each) { value(each); });
      Json::array(all.key("blocks"), graph.segments,
                  [&](const graph::Segment& each) { block(each); });
    });
  }
  void value(const Value& value) {
    static constexpr std::string_view kinds[] = {"argument", "variable", "constant", "computed",
                                                 "view"};
    const Layout& layout = value.layout;
    Json::object(out_, [&](Json& all) {
      all.text("kind", kinds[static_cast<int>(value.kind)]);
      if (value.number ||
          (value.kind != Value::Kind::constant && value.kind != Value::Kind::computed))
        all.number("number", value.number);
      if (value.offset) all.number("offset", value.offset);
      all.text("dtype", name_of(layout.dtype));
      all.numbers("shape", layout.shape);
      all.truth("live", layout.live);
      if (!(layout.device == cpu())) all.text("device", std::string(to_text(layout.device)));
      if (!value.name.empty()) all.text("name", value.name);
      if (value.kind == Value::Kind::constant)
        constant(all, value);
      else if (!layout.contiguous && value.kind != Value::Kind::variable)
        all.numbers("strides", std::span(layout.strides, layout.shape.rank()));
    });
  }
  void block(const graph::Segment& segment) {
    Json::object(out_, [&](Json& all) {
      Json::array(all.key("steps"), segment.steps, [&](const Step& each) { step(each); });
      if (!segment.branches.empty()) {
        Json::object(all.key("ask"), [&](Json& ask) {
          const bool truth = segment.question.read == HostRead::truth;
          ask.text("read", truth ? "truth" : "values");
          ask.numbers("in", segment.question.inputs);
          place(ask, segment.question);
        });
        Json::array(all.key("branches"), segment.branches, [&](const graph::Branch& branch) {
          Json::object(out_, [&](Json& one) {
            one.text("answer", hex(branch.answer));
            one.number("block", branch.segment);
          });
        });
      }
      if (!segment.ends) return;
      all.numbers("results", segment.results);
      Json::array(all.key("assigned"), segment.assigned, [&](const std::pair<int, int>& each) {
        out_ += fmt::format("[{},{}]", each.first, each.second);
      });
    });
  }
  /// The file without its folder, which is nobody's business.
  static void place(Json& all, const Step& step) {
    if (!step.caller.file) return;
    const std::string_view path = step.caller.file;
    all.text("file", path.substr(path.rfind('/') + 1));
    all.number("line", step.caller.line);
  }
  [[noreturn]] void refuse(const Step& step, std::string_view what) const {
    fail<Error>(caller_, "save_graph", "graph", "steps of ops of the library",
                Text(place_of(step)) + ", " + Text(what));
  }
  void step(const Step& step) {
    const bool known =
        step.op == &graph::loop_op || step.op == &graph::view_op || step.op == &graph::gradient_op;
    if (step.user_code || !step.op) refuse(step, "a user's function");
    if (!known && OpTable::the().find(step.op->name) != step.op)
      refuse(step, "an op without a name");
    Json::object(out_, [&](Json& all) {
      all.text("op", std::string(step.op->name).append(suffix_of(step.part)));
      all.numbers("in", step.inputs);
      all.numbers("out", step.outputs);
      if (!step.updated.empty()) all.numbers("writes", step.updated);
      if (step.options.view().type) {
        all.key("options");
        options(step);
      }
      if (step.scope) all.text("scope", *step.scope);
      place(all, step);
      if (!step.loop) return;
      all.key("loop");
      loop(tracing::loop_of(step));
    });
  }
  void options(const Step& step) {
    const OptionsView view = step.options.view();
    const OptionsMembers list(view.type, const_cast<void*>(view.data));
    Json::object(out_, [&](Json& members) {
      for (const OptionsMember& member : list) {
        members.key(member.name);
        if (member.kind == OptionKind::attributes) refuse(step, "with attributes");
        option(member);
      }
    });
  }
  void option(const OptionsMember& member) {
    const auto add_number = [&](std::int64_t number) { out_ += std::to_string(number); };
    switch (member.kind) {
      case OptionKind::boolean:
        out_ += member.as<bool>() ? "true" : "false";
        break;
      case OptionKind::choice: {
        std::int64_t number;
        std::memcpy(&number, member.place, sizeof number);
        add_number(number);
        break;
      }
      case OptionKind::integer:
        add_number(member.as<std::int64_t>());
        break;
      case OptionKind::natural:
        out_ += std::to_string(member.as<std::uint64_t>());
        break;
      case OptionKind::real:  // also "nan" and "inf", which JSON has not
        out_ += fmt::format("\"{}\"", member.as<double>());
        break;
      case OptionKind::text:
        out_ += json_string(member.as<const char*>());
        break;
      case OptionKind::dtype:
        out_ += json_string(name_of(member.as<DType>()));
        break;
      case OptionKind::device:
        out_ += json_string(std::string(to_text(member.as<Device>())));
        break;
      case OptionKind::shape:
        Json::array(out_, member.as<Shape>(), add_number);
        break;
      case OptionKind::axes: {
        const Axes& axes = member.as<Axes>();
        std::vector<int> numbers;
        for (int i = 0; i < axes.count(); ++i) numbers.push_back(axes[i]);
        if (axes.is_every())
          out_ += "null";
        else
          Json::array(out_, numbers, add_number);
        break;
      }
      case OptionKind::attributes:
        break;
    }
  }
  void loop(const tracing::Loop& loop) {
    const auto body = [&](const tracing::Loop::GradientBody& each, const tracing::Tree& tree) {
      Json::object(out_, [&](Json& one) {
        one.number("segment", each.segment);
        if (each.kept) one.number("kept", static_cast<std::int64_t>(each.kept));
        if (!loop.gradient)
          one.numbers("stops", std::vector<int>(loop.stops.begin(), loop.stops.end()));
        one.key("graph");
        graph(tree);
      });
    };
    Json::object(out_, [&](Json& all) {
      all.text("name", loop.name);
      for (const auto& [name, number] : {std::pair("states", loop.states),
                                         {"arrays", loop.arrays},
                                         {"results", loop.results},
                                         {"made", loop.made},
                                         {"reads", loop.reads}})
        if (number) all.number(name, static_cast<std::int64_t>(number));
      if (loop.most) all.number("most", loop.most);
      all.truth("reverse", loop.reverse);
      all.truth("once", loop.once);
      all.truth("gradient", loop.gradient);
      all.truth("counts", loop.counts);
      all.key("bodies");
      if (loop.gradient)
        Json::array(out_, loop.gradient_bodies, [&](const auto& each) { body(each, each.tree); });
      else
        Json::array(out_, std::vector<int>{0}, [&](int) { body({-1, 0, {}}, loop.tree); });
    });
  }

  struct Constant {
    std::string name;
    std::vector<std::int64_t> strides;  // none if they are row-major
  };
  std::string out_;
  const reel::detail::GraphData& data_;
  NamedTensors& tensors_;
  const Caller caller_;
  std::set<std::string> names_;
  std::map<const Body*, Constant> constants_;
};
}  // namespace

std::string graph_json(const reel::detail::GraphData& data, NamedTensors& tensors, Caller caller) {
  return Writer(data, tensors, caller).json();
}

void save_graph(const Path& path, const Graph& graph, Caller caller) try {
  NamedTensors tensors;
  std::string json = graph_json(graph.data(), tensors, caller);
  write_safetensors(path, tensors, {{"format", "reel"}, {std::string(graph_key), std::move(json)}},
                    "save_graph", caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "save_graph");
}
Graph load_graph(const Path& path, Caller caller) try {
  const auto archive = open_safetensors(path, "load_graph", caller);
  for (const auto& [key, text] : archive->metadata()) {
    if (key != graph_key) continue;
    Graph graph(graph_of_json(text, *archive, path, caller));
    graph.verify(caller);
    return graph;
  }
  fail_file(caller, "load_graph", path, "a graph, which save_graph() writes", "none");
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_graph");
}
}  // namespace reel::io
