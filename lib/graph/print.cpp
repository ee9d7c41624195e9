// SPDX-License-Identifier: BSD-3-Clause
// Graphs as text, as DOT and as a list of nodes.
#include <cstring>
#include <unordered_map>

#include <reel/graph.hpp>

#include "lib/body/access.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/body/hash.hpp"
#include "lib/body/line.hpp"
#include "lib/body/text.hpp"
#include "lib/graph/graph.hpp"

namespace reel {
namespace graph {
namespace {
using Kind = Value::Kind;
std::string type_text(const Layout& layout) {
  std::string text = std::string(name_of(layout.dtype)) + std::string(to_text(layout.shape));
  if (!(layout.device == cpu())) text += " on " + std::string(to_text(layout.device));
  return text;
}
std::string id(int value) {
  std::string text("%");
  return value < 0 ? "none" : text + std::to_string(value);
}
std::string line_of(const Step& step) { return line_text(step.caller, ""); }
std::string options_text(const Step& step) {
  return step.options.view().type ? to_string(step.options.view()) : std::string();
}
/// The name that a value has by itself; empty if it has none.
std::string own_name(const detail::GraphData& data, const Value& value) {
  const auto number = static_cast<std::size_t>(value.number);
  if (!value.name.empty()) return value.name;
  if (value.kind == Kind::argument && number < data.arguments.size()) return data.arguments[number];
  if (value.kind == Kind::variable && number < data.variables.size()) return data.variables[number];
  return {};
}
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 32 ? ' ' : letter;
  }
  return out + "\"";
}
const char* read_text(const Step& question) {
  return question.read == HostRead::truth ? "truth" : "elements";
}
/// An answer of at most 8 bytes as an element of the value that was asked.
std::string answer_text(const Graph& graph, const Step& question, const std::string& answer) {
  if (question.read == HostRead::truth) return answer[0] ? "true" : "false";
  const DType dtype = graph.values[static_cast<std::size_t>(question.inputs[0])].layout.dtype;
  const auto as = [&]<class T>(T x) {
    std::memcpy(&x, answer.data(), sizeof x);
    return std::string(to_text(Scalar(x)));
  };
  if (answer.size() == 8 && dtype == DType::int64) return as(std::int64_t());
  if (answer.size() == 4 && dtype == DType::int32) return as(std::int32_t());
  if (answer.size() == 4 && dtype == DType::float32) return as(float());
  if (answer.size() == 8 && dtype == DType::float64) return as(double());
  return std::to_string(answer.size()) + " bytes";
}
}  // namespace

std::string op_text(const Step& step) {
  if (step.loop) return step.loop->name + (step.loop->gradient ? ".d" : "");
  return step.op ? std::string(step.op->name).append(suffix_of(step.part)) : "ask";
}
std::vector<std::string> names_of(const detail::GraphData& data) {
  std::vector<std::string> names;
  std::unordered_map<std::string, int> known;
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    std::string name = own_name(data, data.values[i]);
    if (name.empty()) name = id(static_cast<int>(i));
    std::string unique = name;
    while (!known.emplace(unique, 0).second) unique = name + "_" + std::to_string(++known[name]);
    names.push_back(std::move(unique));
  }
  return names;
}
}  // namespace graph

using graph::Branch, graph::element_text, graph::Layout, graph::Segment, graph::Step, graph::Value,
    graph::Kind, graph::answer_text, graph::id, graph::names_of, graph::op_text,
    graph::options_text, graph::own_name, graph::quoted, graph::read_text, graph::line_of,
    graph::type_text;

namespace {
Graph as_graph(const graph::Graph& body) {
  auto data = make_shared_of<detail::GraphData>();
  static_cast<graph::Graph&>(*data) = body;
  return Graph(std::move(data));
}
std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    out += "    " + text.substr(at, end - at);
    at = end;
  }
  return out;
}
}  // namespace

std::vector<GraphNode> Graph::nodes() const try {
  const detail::GraphData& data = *data_;
  const std::vector<std::string> names = names_of(data);
  const auto named = [&](int value) {
    return value < 0 ? std::string() : names[static_cast<std::size_t>(value)];
  };
  std::vector<GraphNode> nodes;
  const auto add = [&](const Step& step, std::size_t block) {
    GraphNode node;
    node.op = op_text(step);
    node.options = options_text(step);
    if (step.scope) node.scope = *step.scope;
    node.caller = line_of(step);
    for (const int input : step.inputs) node.inputs.push_back(named(input));
    for (const int output : step.outputs) {
      node.outputs.push_back(named(output));
      const Layout layout =
          output < 0 ? Layout() : data.values[static_cast<std::size_t>(output)].layout;
      node.shapes.push_back(layout.shape);
      node.dtypes.push_back(layout.dtype);
    }
    for (const int variable : step.updated)
      node.writes.push_back(data.variables[static_cast<std::size_t>(variable)]);
    node.block = static_cast<int>(block);
    nodes.push_back(std::move(node));
  };
  for (std::size_t block = 0; block < data.segments.size(); ++block) {
    for (const Step& step : data.segments[block].steps) add(step, block);
    if (!data.segments[block].branches.empty()) add(data.segments[block].question, block);
  }
  return nodes;
} catch (const std::bad_alloc&) {
  fail_memory({}, "Graph");
}

std::string Graph::text() const try {
  const detail::GraphData& data = *data_;
  std::string out;
  const auto titled = [&](int i) {
    const std::string name = own_name(data, data.values[static_cast<std::size_t>(i)]);
    return id(i) + (name.empty() ? "" : " " + quoted(name));
  };
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const Value& value = data.values[i];
    const bool starts = value.kind != Kind::computed && value.kind != Kind::view;
    if (!starts) continue;
    const char* const kind = value.kind == Kind::argument   ? "argument"
                             : value.kind == Kind::variable ? "variable"
                                                            : "constant";
    out += "  " + titled(static_cast<int>(i)) + " = " + kind;
    if (value.kind == Kind::constant && value.layout.elements == 1 &&
        value.layout.device == cpu() && value.constant.defined())
      out += " " + element_text(*Access::body(value.constant), 0);
    out += " : " + type_text(value.layout) + "\n";
  }
  for (std::size_t block = 0; block < data.segments.size(); ++block) {
    const Segment& segment = data.segments[block];
    if (data.segments.size() > 1) out += "block " + std::to_string(block) + ":\n";
    for (const Step& step : segment.steps) {
      std::string what = op_text(step);
      for (const int input : step.inputs) what += " " + id(input);
      if (const std::string options = options_text(step); !options.empty())
        what += " {" + options + "}";
      std::string made, types;
      for (const int output : step.outputs) {
        if (output < 0) continue;
        const Value& value = data.values[static_cast<std::size_t>(output)];
        made += (made.empty() ? "  " : ", ") + titled(output);
        types += (types.empty() ? " : " : ", ") + type_text(value.layout);
        if (value.kind == Kind::view) types += " view of " + id(value.number);
      }
      out += made + " = " + what + types;
      for (std::size_t i = 0; i < step.updated.size(); ++i)
        out += (i ? ", " : " writes ") +
               quoted(data.variables[static_cast<std::size_t>(step.updated[i])]);
      if (step.scope) out += "  # " + *step.scope;
      if (step.caller.file) out += (step.scope ? ", " : "  # ") + line_of(step);
      out += "\n";
      if (step.loop)
        for (const graph::Graph* body : step.loop->bodies())
          out += indented(as_graph(*body).text());
    }
    if (!segment.branches.empty()) {
      const Step& question = segment.question;
      out += "  ask " + std::string(read_text(question)) + " " + id(question.inputs[0]) + ":";
      for (const Branch& branch : segment.branches)
        out += " " + answer_text(data, question, branch.answer) + " -> block " +
               std::to_string(branch.segment) + ";";
      out.back() = ' ';
      out += " # " + line_of(question) + "\n";
    }
    if (!segment.ends) continue;
    for (const auto& [variable, value] : segment.assigned)
      out += "  assign " + quoted(data.variables[static_cast<std::size_t>(variable)]) + " " +
             id(value) + "\n";
    out += "  return";
    for (const int result : segment.results) out += " " + id(result);
    out += "\n";
  }
  return out;
} catch (const std::bad_alloc&) {
  fail_memory({}, "Graph");
}
std::string to_string(const Graph& graph) { return graph.text(); }

std::string Graph::dot() const try {
  const detail::GraphData& data = *data_;
  const std::vector<std::string> names = names_of(data);
  std::string out = "digraph {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  std::vector<std::string> maker(data.values.size());
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const Value& value = data.values[i];
    if (value.kind == Kind::computed || value.kind == Kind::view) continue;
    maker[i] = "v" + std::to_string(i);
    out += "  " + maker[i] +
           " [shape=ellipse, label=" + quoted(names[i] + "  " + type_text(value.layout)) + "];\n";
  }
  std::size_t number = 0;
  const auto add = [&](const Step& step, std::string label) {
    const std::string node = "n" + std::to_string(number++);
    for (const int output : step.outputs)
      if (output >= 0) {
        maker[static_cast<std::size_t>(output)] = node;
        label += "  " + type_text(data.values[static_cast<std::size_t>(output)].layout);
      }
    out += "  " + node + " [label=" + quoted(label) + "];\n";
    for (const int input : step.inputs)
      if (input >= 0) out += "  " + maker[static_cast<std::size_t>(input)] + " -> " + node + ";\n";
    return node;
  };
  std::vector<std::string> asked(data.segments.size());  // the question in front of each block
  for (std::size_t block = 0; block < data.segments.size(); ++block) {
    const Segment& segment = data.segments[block];
    for (const Step& step : segment.steps) add(step, op_text(step));
    if (segment.branches.empty()) continue;
    const std::string node =
        add(segment.question, "ask " + std::string(read_text(segment.question)));
    for (const Branch& branch : segment.branches) {
      const std::string to = "b" + std::to_string(branch.segment);
      out += "  " + to +
             " [shape=plaintext, label=" + quoted("block " + std::to_string(branch.segment)) +
             "];\n  " + node + " -> " + to +
             " [label=" + quoted(answer_text(data, segment.question, branch.answer)) + "];\n";
    }
  }
  return out + "}\n";
} catch (const std::bad_alloc&) {
  fail_memory({}, "Graph");
}

std::uint64_t Graph::hash() const try {
  const detail::GraphData& data = *data_;
  std::uint64_t hash = fnv1a_start;
  const auto add = [&](std::string_view bytes) { hash = fnv1a_step(fnv1a(bytes, hash), 256); };
  const auto add_numbers = [&](const std::vector<int>& numbers) {
    for (const int number : numbers) add(std::to_string(number));
    add(";");
  };
  for (const Value& value : data.values) {
    add(std::to_string(static_cast<int>(value.kind)) + " " + std::to_string(value.number) + " " +
        std::to_string(value.offset));
    add(type_text(value.layout));
    if (value.kind == Kind::constant && value.constant.defined() &&
        value.constant.device() == cpu()) {
      const Body& body = *Access::body(value.constant);
      Shape shape =
          body.shape;  // but for what is repeated, which may be far more than memory holds
      for (int axis = 0; axis < body.rank() && body.elements; ++axis)
        if (!body.strides[axis]) shape.data()[axis] = 1;
      for (std::int64_t i = 0; i < shape.elements(); ++i) {
        std::int64_t rest = i, place = 0;  // of element i in row-major order
        for (int axis = body.rank() - 1; axis >= 0; --axis) {
          place += rest % shape.data()[axis] * body.strides[axis];
          rest /= shape.data()[axis];
        }
        const std::int64_t size = size_of(body.dtype);
        add({reinterpret_cast<const char*>(body.data) + place * size,
             static_cast<std::size_t>(size)});
      }
    }
  }
  for (const Segment& segment : data.segments) {
    for (const Step& step : segment.steps) {
      add(op_text(step));
      add(options_text(step));
      add_numbers(step.inputs);
      add_numbers(step.outputs);
      add_numbers(step.updated);
      if (step.loop)
        for (const graph::Graph* body : step.loop->bodies())
          add(std::to_string(as_graph(*body).hash()));
    }
    if (!segment.branches.empty()) add_numbers(segment.question.inputs);
    for (const Branch& branch : segment.branches)
      add(branch.answer + std::to_string(branch.segment));
    add_numbers(segment.results);
    for (const auto& [variable, value] : segment.assigned) add_numbers({variable, value});
  }
  return hash;
} catch (const std::bad_alloc&) {
  fail_memory({}, "Graph");
}
}  // namespace reel
