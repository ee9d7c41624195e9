// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/conllu.hpp>

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/data/files.hpp"

namespace reel::data {
namespace {
constexpr std::size_t fields = 10;

/// Takes a number from the front of the text. False if there is none.
bool take(std::string_view& text, std::int64_t& number) {
  const char* const first = text.data();
  const bool digit = !text.empty() && *first >= '0' && *first <= '9';
  const auto [end, error] = std::from_chars(first, first + text.size(), number);
  if (!digit || error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - first));
  return true;
}
/// The value of "name=value" in a list with bars.
std::string_view value_of(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find('|'));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('='))
      return part.substr(name.size() + 1);
    list.remove_prefix(std::min(part.size() + 1, list.size()));
  }
  return {};
}

struct Sentences : FileReader<Sentence> {
  using FileReader::FileReader;
  bool read(Files& files, Sentence& sentence) override {
    sentence.comments.clear();
    sentence.tokens.clear();
    words_ = reach_ = minor_ = 0;
    std::string_view line;
    bool more = files.line(line);
    for (; more && line.empty(); more = files.line(line)) files.mark();
    if (!more) return false;
    const Place first = files.marked();
    for (; more && !line.empty(); more = files.line(line)) {
      if (line[0] == '#') {
        line.remove_prefix(line.starts_with("# ") ? 2 : 1);
        sentence.comments.emplace_back(line);
      } else if (const char* const expected = add(line, sentence)) {
        const std::string got = quoted(line);
        end(files);
        files.fail(expected, got);
      }
      files.mark();
    }
    files.mark(first);
    std::int64_t head = 0;
    for (const Token& token : sentence.tokens) head = std::max(head, token.head);
    if (words_ == 0) files.fail("a sentence with words", "none");
    if (reach_ > words_)
      files.fail("words up to " + std::to_string(reach_), std::to_string(words_));
    if (head > words_) files.fail("heads up to " + std::to_string(words_), std::to_string(head));
    return true;
  }

 private:
  /// Leaves the rest of a sentence.
  static void end(Files& files) {
    std::string_view line;
    while (files.line(line) && !line.empty()) {
    }
  }
  /// Adds the token of a line. Returns what was expected instead.
  const char* add(std::string_view line, Sentence& sentence) {
    std::array<std::string_view, fields> parts;
    for (std::size_t i = 0; i < fields; ++i) {
      const std::size_t tab = line.find('\t');
      if ((tab == line.npos) != (i + 1 == fields)) return "ten fields with tabs between them";
      parts[i] = line.substr(0, tab);
      if (parts[i].empty()) return "fields that are not empty";
      line.remove_prefix(i + 1 == fields ? 0 : tab + 1);
    }
    Token token;
    if (const char* const expected = read_id(parts[0], token)) return expected;
    if (parts[6] != "_" && (!take(parts[6], token.head) || !parts[6].empty()))
      return "a head that is a number or \"_\"";
    token.form = parts[1], token.lemma = parts[2], token.upos = parts[3], token.xpos = parts[4];
    token.feats = parts[5], token.deprel = parts[7], token.deps = parts[8], token.misc = parts[9];
    sentence.tokens.push_back(std::move(token));
    return nullptr;
  }
  const char* read_id(std::string_view text, Token& token) {
    if (!take(text, token.id)) return "an id such as 1, 1-2 or 1.1";
    token.last = token.id;
    if (text.empty()) {
      if (token.id != words_ + 1) return "ids in order";
      ++words_;
      minor_ = 0;
      return nullptr;
    }
    const char mark = text[0];
    text.remove_prefix(1);
    std::int64_t second = 0;
    if ((mark != '-' && mark != '.') || !take(text, second) || !text.empty())
      return "an id such as 1, 1-2 or 1.1";
    if (mark == '.') {
      if (token.id != words_ || second != minor_ + 1) return "ids in order";
      token.minor = minor_ = second;
      return nullptr;
    }
    if (token.id != words_ + 1 || second <= token.id || token.id <= reach_) return "ids in order";
    token.last = reach_ = second;
    return nullptr;
  }
  std::int64_t words_ = 0;  // that the sentence has so far
  std::int64_t reach_ = 0;  // the last word of a token of several words
  std::int64_t minor_ = 0;  // of the last empty node behind the last word
};
}  // namespace

std::string_view Token::feature(std::string_view name) const {
  const std::string_view value = value_of(feats, name);
  return value.empty() ? value_of(misc, name) : value;
}
std::vector<const Token*> Sentence::words(Caller caller) const try {
  std::vector<const Token*> found;
  for (const Token& token : tokens)
    if (token.is_word()) found.push_back(&token);
  return found;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Sentence");
}
std::string_view Sentence::comment(std::string_view name) const {
  for (std::string_view text : comments) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (!text.starts_with('=')) continue;
    text.remove_prefix(1);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return text;
  }
  return {};
}

Owned<Reader<Sentence>> open_conllu(std::vector<std::string> files, Place from, Caller caller) {
  return open_reader<Sentences>(Files::Kind::text, files, from, "open_conllu", caller);
}
}  // namespace reel::data
