// SPDX-License-Identifier: BSD-3-Clause
// Sentences with their words and dependencies, in the format CoNLL-U of Universal Dependencies.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/reader.hpp>

namespace reel::data {
/// A line of a Sentence: a word, a token of several words (such as "du" for "de le"), or an empty
/// node of the enhanced dependencies. Texts are as in the file; "_" says that there is none.
struct REEL_API Token {
  std::int64_t id = 0;     ///< from 1; of a token of several words, its first word
  std::int64_t last = 0;   ///< of a token of several words, its last word; else the id
  std::int64_t minor = 0;  ///< of an empty node "8.1", the number 1; else 0
  std::string form, lemma, upos, xpos, feats;
  std::int64_t head = -1;  ///< the id of the head, 0 at the root, -1 for "_"
  std::string deprel, deps, misc;

  bool is_multiword() const { return last != id; }
  bool is_empty_node() const { return minor != 0; }
  bool is_word() const { return !is_multiword() && !is_empty_node(); }
  /// A feature of `feats`, or a field of `misc` if there is no such feature: "Sing" for "Number" in
  /// "Case=Nom|Number=Sing". Empty if there is none.
  std::string_view feature(std::string_view name) const REEL_LIFETIMEBOUND;
};
/// A sentence of a treebank.
struct REEL_API Sentence {
  std::vector<std::string> comments;  ///< lines that begin with "#", without it and a space
  std::vector<Token> tokens;          ///< all lines, in the order of the file
  /// The words: neither tokens of several words nor empty nodes. Word i has the id i + 1.
  std::vector<const Token*> words(Caller caller = Caller::here()) const REEL_LIFETIMEBOUND;
  /// What a comment "name = value" says, such as that of "sent_id". Empty if there is none.
  std::string_view comment(std::string_view name) const REEL_LIFETIMEBOUND;
};

/// The sentences of CoNLL-U files. Throws IoError for a line without ten fields, for ids that are
/// not in order, for a head that is no word of the sentence, and for a sentence without words. The
/// next call goes on with the next sentence.
REEL_API Owned<Reader<Sentence>> open_conllu(std::vector<std::string> files, Place from = {},
                                             Caller caller = Caller::here());
}  // namespace reel::data
