// SPDX-License-Identifier: BSD-3-Clause
// Parse trees in brackets, as the Penn Treebank and the Stanford Sentiment Treebank have them.
#pragma once  // defined in lib/data
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/reader.hpp>

namespace reel::data {
/// A node of a tree, with the nodes below it. Copies, moves and the destructor need no recursion,
/// so that a tree may have any depth.
///
///     int depth(const data::Tree& tree) {
///       int below = 0;
///       for (const data::Tree& child : tree.children) below = std::max(below, depth(child));
///       return below + 1;
///     }
struct REEL_API Tree {
  std::string label;           ///< "NP", or "3" of sentiments; may be empty
  std::string word;            ///< of a leaf; empty in other nodes
  std::vector<Tree> children;  ///< none in a leaf

  Tree() = default;
  Tree(std::string of, std::string leaf) : label(std::move(of)), word(std::move(leaf)) {}
  Tree(std::string of, std::vector<Tree> below)
      : label(std::move(of)), children(std::move(below)) {}
  Tree(const Tree& other);
  Tree(Tree&&) = default;
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&& other) noexcept;
  ~Tree();
};

/// The trees of files in brackets. "(NP (DT the) (NN dog))" is a node "NP" with two leaves. A tree
/// may have several lines, and a line several trees. What follows a bracket is the label, unless it
/// is a bracket too: the label is empty then, as at the root of trees of the Penn Treebank. A node
/// with one word is a leaf. Words that have other nodes or words beside them are leaves without a
/// label. Escapes such as "-LRB-" stay as they are. Throws IoError for text outside of brackets and
/// for a closing bracket without an opening one, and goes on with the next line then; and for
/// brackets that are not closed in their file.
REEL_API Owned<Reader<Tree>> open_trees(std::vector<std::string> files, Place from = {},
                                        Caller caller = Caller::here());
/// The tree as text on one line, as open_trees() reads it.
REEL_API std::string bracketed(const Tree& tree, Caller caller = Caller::here());
}  // namespace reel::data
