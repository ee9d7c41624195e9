// SPDX-License-Identifier: BSD-3-Clause
// The graph of a run as an event: tensorflow.GraphDef.
#include <map>
#include <set>

#include <reel/graph.hpp>
#include <reel/io/summary_writer.hpp>

#include "lib/body/utf8.hpp"
#include "lib/io/board.hpp"
#include "lib/io/wire.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
using io::Message;
constexpr std::size_t most_nodes = 2000;

/// A name that TensorFlow allows for a node. A node "length" would break the page.
std::string allowed(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '/' || c == '_' || c == '-';
    name += fits ? c : '_';
  }
  if (name.empty() || name[0] == '_' || name[0] == '/') name.insert(0, "v");
  return name == "length" ? "length_" : name;
}
struct Drawn {
  std::string name, op, caller;
  std::set<std::string> inputs;
  std::vector<Shape> shapes;
  int times = 1;
};

/// The nodes, and the names of the nodes that make each value.
class Drawing {
 public:
  explicit Drawing(const std::vector<GraphNode>& nodes) {
    const bool joins = nodes.size() > most_nodes;
    std::map<std::string, std::size_t> known;
    for (const GraphNode& node : nodes) {
      const auto [place, is_new] =
          known.emplace(node.scope + "\n" + node.op + "\n" + node.caller, drawn.size());
      if (is_new || !joins) {
        place->second = drawn.size();
        drawn.push_back({name_of(node), node.op, node.caller, {}, node.shapes});
      } else {
        ++drawn[place->second].times;
      }
      const std::size_t own = place->second;  // source() adds nodes
      for (const std::string& input : node.inputs)
        if (const std::string from = source(input); !from.empty() && from != drawn[own].name)
          drawn[own].inputs.insert(from);
      for (const std::string& output : node.outputs)
        if (!output.empty()) makers_[output] = drawn[place->second].name;
    }
  }
  std::vector<Drawn> drawn;

 private:
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }
  std::string name_of(const GraphNode& node) {
    std::string own = node.op;
    if (!node.outputs.empty() && !node.outputs[0].empty() && node.outputs[0][0] != '%')
      own = node.outputs[0];
    return unique(allowed(node.scope.empty() ? own : node.scope + "/" + own));
  }
  /// The node of a value. A value that no step makes has a node of its own, before its first
  /// reader.
  std::string source(const std::string& value) {
    if (value.empty()) return {};
    const auto [known, is_new] = makers_.emplace(value, "");
    if (!is_new) return known->second;
    const char* const op = value[0] == '%'                  ? "Const"
                           : value.starts_with("argument ") ? "Placeholder"
                                                            : "Variable";
    std::string place = value[0] == '%' ? "constant" + value.substr(1) : value;
    if (value[0] != '%' && !value.starts_with("argument "))
      for (char& letter : place)
        if (letter == '.') letter = '/';
    known->second = unique(allowed(place));
    drawn.push_back({known->second, op, {}, {}, {}});
    return known->second;
  }
  std::map<std::string, std::string> makers_;
  std::set<std::string> names_;
};

Message attribute(std::string_view key, const Message& value) {
  return Message().bytes(1, key).message(2, value);
}
}  // namespace

void SummaryWriter::graph(const Graph& graph, Caller caller) try {
  const Drawing drawing(graph.nodes());
  Message definition;
  for (const Drawn& node : drawing.drawn) {
    Message message;
    message.bytes(1, node.name).bytes(2, node.op);
    for (const std::string& input : node.inputs) message.bytes(3, input);
    if (!node.shapes.empty()) {
      Message list;
      for (const Shape& shape : node.shapes) {
        Message lengths;
        for (const std::int64_t length : shape) lengths.message(2, Message().integer(1, length));
        list.message(7, lengths);
      }
      message.message(5, attribute("_output_shapes", Message().message(1, list)));
    }
    if (!node.caller.empty())
      message.message(5, attribute("line", Message().bytes(2, utf8(node.caller))));
    if (node.times > 1) message.message(5, attribute("steps", Message().integer(3, node.times)));
    definition.message(1, message);
  }
  definition.message(4, Message().integer(1, 22));  // versions: producer
  const Message event =
      Message().number(1, seconds_of(CLOCK_REALTIME)).integer(2, 0).message(4, definition);
  std::string record;
  io::append_record(record, event.view());
  io::seal_record(record.data());
  board_->add(record);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "SummaryWriter");
}
}  // namespace reel
