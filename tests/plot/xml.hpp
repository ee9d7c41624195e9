// SPDX-License-Identifier: BSD-3-Clause
// Reads the XML that plots write, strictly: elements with attributes, and texts.
#pragma once
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace reel::tests {
struct Element {
  std::string name, text;
  std::map<std::string, std::string> attributes;
  double number(const std::string& attribute) const { return std::stod(attributes.at(attribute)); }
};

/// Throws std::runtime_error for what is not well-formed.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : rest_(text) {
    element();
    take_space();
    require(rest_.empty());
  }
  /// In the order of their beginnings.
  std::vector<Element> elements;

  std::vector<Element> named(std::string_view name) const {
    std::vector<Element> found;
    for (const Element& one : elements)
      if (one.name == name) found.push_back(one);
    return found;
  }

 private:
  static void require(bool good) {
    if (!good) throw std::runtime_error("not well-formed");
  }
  bool take(std::string_view mark) {
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }
  void take_space() {
    while (take(" ") || take("\n")) {
    }
  }
  std::string name() {
    std::string result;
    while (!rest_.empty() &&
           (std::isalnum(static_cast<unsigned char>(rest_[0])) || rest_[0] == '-')) {
      result += rest_[0];
      rest_.remove_prefix(1);
    }
    require(!result.empty());
    return result;
  }
  /// Up to this mark, with the five entities of XML replaced.
  std::string characters(char end) {
    std::string result;
    while (true) {
      require(!rest_.empty());
      if (rest_[0] == end) return result;
      if (take("&lt;"))
        result += '<';
      else if (take("&gt;"))
        result += '>';
      else if (take("&amp;"))
        result += '&';
      else if (take("&quot;"))
        result += '"';
      else if (take("&apos;"))
        result += '\'';
      else {
        const auto c = static_cast<unsigned char>(rest_[0]);
        require(c != '&' && c != '<' && c != 0x7f && (c >= 0x20 || c == '\n'));
        result += rest_[0];
        rest_.remove_prefix(1);
      }
    }
  }
  void element() {
    require(take("<"));
    const std::size_t at = elements.size();
    elements.emplace_back().name = name();
    while (true) {
      take_space();
      if (take("/>")) return;
      if (take(">")) break;
      const std::string key = name();
      require(take("=\""));
      require(elements[at].attributes.emplace(key, characters('"')).second);
      require(take("\""));
    }
    while (true) {
      elements[at].text += characters('<');
      if (take("</")) break;
      element();
    }
    require(name() == elements[at].name && take(">"));
  }
  std::string_view rest_;
};
}  // namespace reel::tests
