// SPDX-License-Identifier: BSD-3-Clause
// A layered layout: longest paths, dummy nodes on the layers that an edge crosses, barycentre
// sweeps, and positions that move towards the neighbours. Long drawings are wrapped into columns.
#include "lib/debug/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/debug/statistics.hpp"

namespace reel::debugger {
namespace {
constexpr double gap = 14, dummy_width = 4, layer_height = 56, box_height = 36, letter = 6.4;
constexpr int layers_in_column = 60;
constexpr std::size_t most_dummies = 20000;
constexpr int sweeps = 4;

/// Nodes and dummy nodes.
struct Places {
  std::vector<double> x, width;
  std::vector<int> layer;
  std::vector<std::vector<int>> above, below, layers;

  int add(int at, double wide) {
    const int number = static_cast<int>(x.size());
    x.push_back(0);
    width.push_back(wide);
    layer.push_back(at);
    above.emplace_back();
    below.emplace_back();
    if (layers.size() <= static_cast<std::size_t>(at))
      layers.resize(static_cast<std::size_t>(at) + 1);
    layers[static_cast<std::size_t>(at)].push_back(number);
    return number;
  }
  void join(int from, int to) {
    below[static_cast<std::size_t>(from)].push_back(to);
    above[static_cast<std::size_t>(to)].push_back(from);
  }
};

/// Orders one layer by the means of its neighbours.
void order(Places& places, std::vector<int>& layer, const std::vector<std::vector<int>>& neighbours,
           std::vector<double>& position) {
  std::vector<std::pair<double, int>> keys;
  for (const int v : layer) {
    const auto& its = neighbours[static_cast<std::size_t>(v)];
    double sum = 0;
    for (const int u : its) sum += position[static_cast<std::size_t>(u)];
    keys.emplace_back(
        its.empty() ? position[static_cast<std::size_t>(v)] : sum / static_cast<double>(its.size()),
        v);
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    layer[i] = keys[i].second;
    position[static_cast<std::size_t>(layer[i])] = static_cast<double>(i);
  }
  static_cast<void>(places);
}
/// Moves each node of a layer towards the mean of its neighbours; the order stays, and nothing
/// overlaps.
void straighten(Places& places, const std::vector<int>& layer,
                const std::vector<std::vector<int>>& neighbours) {
  double right = -1e18, shift = 0;
  std::vector<double> wanted;
  for (const int v : layer) {
    const auto at = static_cast<std::size_t>(v);
    double sum = 0;
    for (const int u : neighbours[at]) sum += places.x[static_cast<std::size_t>(u)];
    wanted.push_back(neighbours[at].empty() ? places.x[at]
                                            : sum / static_cast<double>(neighbours[at].size()));
  }
  for (std::size_t i = 0; i < layer.size(); ++i) {
    const auto at = static_cast<std::size_t>(layer[i]);
    const double half = places.width[at] / 2;
    places.x[at] = std::max(wanted[i], right + gap + half);
    right = places.x[at] + half;
    shift += wanted[i] - places.x[at];
  }
  if (layer.empty()) return;
  shift /= static_cast<double>(layer.size());
  for (const int v : layer) places.x[static_cast<std::size_t>(v)] += shift;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text))
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  return safe;
}
double width_of(const DrawnNode& node) {
  return 16 + letter * static_cast<double>(std::clamp<std::size_t>(
                           std::max(node.label.size() + (node.count > 1 ? 7 : 0), node.note.size()),
                           6, 28));
}
}  // namespace

int health_of(const debug::Statistics& all) {
  if (all.nans || all.infinities) return 3;
  if (all.saturated > 0.5) return 2;
  return all.zeros > 0.95 && all.elements > 1 ? 1 : 0;
}
void add_health(std::vector<DrawnNode>& nodes) {
  for (DrawnNode& node : nodes)
    for (const Body* const value : node.values)
      if (is_floating(value->dtype))
        node.health = std::max(node.health, health_of(statistics_of(*value, bounds_of(node.op))));
}

std::vector<DrawnNode> folded(std::vector<DrawnNode> nodes, debug::Fold fold) {
  if (fold == debug::Fold::none) return nodes;
  std::map<std::string, int> groups, counts;
  std::vector<int> group_of;
  std::vector<DrawnNode> made;
  for (DrawnNode& node : nodes) {
    // An op that reads no Variable belongs to the layer before it, if both are called at one line.
    for (std::size_t k = 0; node.scope.empty() && k < node.inputs.size(); ++k)
      if (const DrawnNode& input = nodes[static_cast<std::size_t>(node.inputs[k])];
          input.caller == node.caller && input.backward == node.backward)
        node.scope = input.scope;
    const bool whole = fold == debug::Fold::scopes && !node.scope.empty();
    const std::string call =
        node.op + "\n" + node.caller + "\n" + node.scope + (node.backward ? "b" : "");
    const auto [place, is_new] =
        groups.try_emplace(whole ? "\n" + node.scope + (node.backward ? "b" : "") : call,
                           static_cast<int>(made.size()));
    if (is_new) {
      made.push_back(node);
      made.back().inputs.clear();
      made.back().count = 0;
      if (whole) made.back().label = (node.backward ? "gradient of " : "") + node.scope;
    }
    DrawnNode& group = made[static_cast<std::size_t>(place->second)];
    group.count = std::max(group.count, ++counts[call]);
    group.health = std::max(group.health, node.health);
    group_of.push_back(place->second);
    for (const int input : node.inputs) {
      const int from = group_of[static_cast<std::size_t>(input)];
      if (from < place->second &&
          std::find(group.inputs.begin(), group.inputs.end(), from) == group.inputs.end())
        group.inputs.push_back(from);  // an edge back to an earlier step is left out
    }
  }
  return made;
}

Drawing layout(const std::vector<DrawnNode>& nodes, std::vector<std::string>& labels) {
  const std::size_t count = nodes.size();
  labels.assign(count, "");
  std::vector<int> layer(count);
  std::vector<int> first_use(count, INT32_MAX);
  for (std::size_t i = 0; i < count; ++i)
    for (const int input : nodes[i].inputs)
      layer[i] = std::max(layer[i], layer[static_cast<std::size_t>(input)] + 1);
  for (std::size_t i = 0; i < count; ++i)
    for (const int input : nodes[i].inputs)
      first_use[static_cast<std::size_t>(input)] =
          std::min(first_use[static_cast<std::size_t>(input)], layer[i]);
  for (std::size_t i = 0; i < count; ++i)  // what reads nothing stands above its first use
    if (nodes[i].inputs.empty() && first_use[i] != INT32_MAX) layer[i] = first_use[i] - 1;
  std::size_t dummies = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (const int input : nodes[i].inputs)
      dummies += static_cast<std::size_t>(layer[i] - layer[static_cast<std::size_t>(input)] - 1);
  const int longest = dummies > most_dummies ? 8 : INT32_MAX;

  Places places;
  for (std::size_t i = 0; i < count; ++i) places.add(layer[i], width_of(nodes[i]));
  Drawing drawing;
  std::vector<std::vector<int>> chains;
  for (std::size_t i = 0; i < count; ++i)
    for (const int input : nodes[i].inputs) {
      const int from = layer[static_cast<std::size_t>(input)];
      if (layer[i] - from > longest) {
        if (labels[i].size() < 24)
          labels[i] +=
              (labels[i].empty() ? "" : ", ") + nodes[static_cast<std::size_t>(input)].name;
        continue;
      }
      std::vector<int> chain = {input};
      for (int at = from + 1; at < layer[i]; ++at) {
        chain.push_back(places.add(at, dummy_width));
        places.join(chain[chain.size() - 2], chain.back());
      }
      places.join(chain.back(), static_cast<int>(i));
      chain.push_back(static_cast<int>(i));
      chains.push_back(std::move(chain));
      drawing.lines.push_back({input, static_cast<int>(i), {}});
    }

  std::vector<double> position(places.x.size());
  for (auto& each : places.layers)
    for (std::size_t i = 0; i < each.size(); ++i)
      position[static_cast<std::size_t>(each[i])] = static_cast<double>(i);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    if (sweep % 2 == 0)
      for (std::size_t l = 1; l < places.layers.size(); ++l)
        order(places, places.layers[l], places.above, position);
    else
      for (std::size_t l = places.layers.size(); l-- > 0;)
        order(places, places.layers[l], places.below, position);
  }
  for (const auto& each : places.layers) {
    double x = 0;
    for (const int v : each) {
      const auto at = static_cast<std::size_t>(v);
      places.x[at] = x + places.width[at] / 2;
      x += places.width[at] + gap;
    }
  }
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    if (sweep % 2 == 0)
      for (std::size_t l = 1; l < places.layers.size(); ++l)
        straighten(places, places.layers[l], places.above);
    else
      for (std::size_t l = places.layers.size(); l-- > 0;)
        straighten(places, places.layers[l], places.below);
  }

  // Columns of at most 60 layers, side by side.
  const auto all = static_cast<int>(places.layers.size());
  double left = gap;
  std::vector<double> y(places.x.size());
  for (int begin = 0; begin < all; begin += layers_in_column) {
    double low = 1e18, high = -1e18;
    const int end = std::min(begin + layers_in_column, all);
    for (int l = begin; l < end; ++l)
      for (const int v : places.layers[static_cast<std::size_t>(l)]) {
        const auto at = static_cast<std::size_t>(v);
        low = std::min(low, places.x[at] - places.width[at] / 2);
        high = std::max(high, places.x[at] + places.width[at] / 2);
      }
    for (int l = begin; l < end; ++l)
      for (const int v : places.layers[static_cast<std::size_t>(l)]) {
        places.x[static_cast<std::size_t>(v)] += left - low;
        y[static_cast<std::size_t>(v)] = gap + layer_height * (l - begin);
      }
    if (high > low) left += high - low + 3 * gap;
  }
  drawing.width = left;
  drawing.height = 2 * gap + layer_height * std::min(all, layers_in_column);
  for (std::size_t i = 0; i < count; ++i)
    drawing.boxes.push_back(
        {places.x[i] - places.width[i] / 2, y[i], places.width[i], box_height, layer[i]});
  for (std::size_t e = 0; e < chains.size(); ++e)
    for (std::size_t k = 0; k < chains[e].size(); ++k) {
      const auto at = static_cast<std::size_t>(chains[e][k]);
      const double down = k == 0 ? box_height : k + 1 == chains[e].size() ? 0 : box_height / 2;
      drawing.lines[e].points.emplace_back(places.x[at], y[at] + down);
    }
  return drawing;
}

std::string svg_of(const std::vector<DrawnNode>& nodes) {
  std::vector<std::string> labels;
  const Drawing drawing = layout(nodes, labels);
  std::string svg;
  svg.reserve(400 * nodes.size() + 1000);
  const auto out = std::back_inserter(svg);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
                 "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" "
                 "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
                 "<g fill=\"none\" stroke=\"#999\">\n",
                 drawing.width, drawing.height);
  for (const Drawing::Line& line : drawing.lines) {
    svg += "<path d=\"";
    for (std::size_t i = 0; i < line.points.size(); ++i)
      fmt::format_to(out, "{}{:.0f},{:.0f}", i ? "L" : "M", line.points[i].first,
                     line.points[i].second);
    svg += "\"/>\n";
  }
  svg += "</g>\n";
  constexpr const char* fills[] = {"#eef3fa", "#f6efe2", "#d9d9d9", "#f6c26b", "#e45756"};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Box& box = drawing.boxes[i];
    const DrawnNode& node = nodes[i];
    const int fill = node.health > 0 ? node.health + 1 : node.backward;
    fmt::format_to(out,
                   "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" "
                   "height=\"{:.0f}\" rx=\"4\" fill=\"{}\" stroke=\"#666\"/>",
                   escaped(node.title), box.x, box.y, box.width, box.height, fills[fill]);
    fmt::format_to(out, "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}{}</text>",
                   box.x + box.width / 2, box.y + 15,
                   escaped(std::string_view(node.label).substr(0, 28)),
                   node.count > 1 ? fmt::format(" x {}", node.count) : "");
    const std::string note = labels[i].empty() ? node.note : node.note + " " + labels[i];
    fmt::format_to(out,
                   "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#555\">{}</text>"
                   "</g>\n",
                   box.x + box.width / 2, box.y + 29,
                   escaped(std::string_view(note).substr(0, 28)));
  }
  return svg + "</svg>\n";
}
}  // namespace reel::debugger
