// egg/egg_syntax.h -- s-expressions of rule programs: interned names, trees with places, errors
// that underline, printing.
#pragma once
#include "luminal/error.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

/// An interned name or text.
using Symbol = uint32_t;

/// Names as dense numbers, in the order of their first use.
class SymbolTable {
public:
  SymbolTable();
  Symbol intern(std::string_view text);
  std::optional<Symbol> find(std::string_view text) const;
  std::string_view text(Symbol symbol) const { return texts_[symbol]; }
  size_t size() const { return texts_.size(); }
  uint64_t bytes() const;

private:
  void grow();

  std::vector<std::string_view> texts_;
  std::vector<uint32_t> slots_; ///< symbol + 1, open addressing
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_left_ = 0, block_bytes_ = 0;
  char* block_next_ = nullptr;
};

enum class NodeKind : uint8_t { symbol, integer, floating, string, boolean, list };

/// A node of the tree. Nodes of all sources of a program live in one array.
using NodeId = uint32_t;
struct Node {
  struct Children {
    uint32_t first, count;
  };
  union {
    int64_t integer = 0; ///< also of a boolean, 0 or 1
    double floating;
    Symbol symbol; ///< a name, or the text of a string
    Children list;
  };
  uint32_t offset = 0, length = 0; ///< in the text of its source
  NodeKind kind = NodeKind::symbol;
};

/// A mistake in the text of a program, found before the command runs; other Errors come from
/// running it.
class ProgramError : public Error {
public:
  using Error::Error;
};

/// A range of a source text, for messages.
struct Span {
  uint32_t source = 0, offset = 0, length = 0;
};

/// The texts of a program and their trees. Comments start with `;`.
class Syntax {
public:
  /// Reads a whole text; the ids of its top-level nodes. Throws Error with file:line:column and an
  /// underlined line: unbalanced parentheses, an unterminated string, a number out of range, lists
  /// nested deeper than max_depth, text that is not UTF-8.
  std::vector<NodeId> parse(std::string file, std::string text);
  static constexpr uint32_t max_depth = 500;

  const Node& operator[](NodeId id) const { return nodes_[id]; }
  std::span<const NodeId> children(NodeId id) const {
    const Node& node = nodes_[id];
    return node.kind == NodeKind::list
               ? std::span<const NodeId>(children_).subspan(node.list.first, node.list.count)
               : std::span<const NodeId>();
  }
  bool is_symbol(NodeId id) const { return nodes_[id].kind == NodeKind::symbol; }
  bool is_list(NodeId id) const { return nodes_[id].kind == NodeKind::list; }
  /// The name at the head of a list; empty where there is none.
  std::string_view head(NodeId id) const;
  std::string_view text(Symbol symbol) const { return symbols_.text(symbol); }
  SymbolTable& symbols() { return symbols_; }
  const SymbolTable& symbols() const { return symbols_; }

  // ---- building nodes that stand for a place of the text
  NodeId make_atom(Symbol text, NodeId place); ///< of the kind of `place`, a symbol or a string
  NodeId make_list(std::span<const NodeId> children, NodeId place);

  // ---- places and errors
  Span span(NodeId id) const;
  std::string place(Span span) const; ///< "file:line:column"
  /// "file:line:column: message", then the line with the range underlined.
  std::string message(Span span, std::string_view text) const;
  [[noreturn]] void fail(NodeId at, std::string_view text) const;
  [[noreturn]] void fail(Span at, std::string_view text) const;
  const std::string& file(uint32_t source) const { return sources_[source]->file; }

  // ---- printing
  /// The tree as text on one line; parse() gives the same tree back.
  std::string print(NodeId id) const;
  /// Whole commands, one paragraph each, wrapped where they are long.
  std::string print_program(std::span<const NodeId> nodes) const;

  uint64_t bytes() const;

private:
  struct Source {
    std::string file, text;
    NodeId first_node = 0;
    mutable std::vector<uint32_t> lines; ///< offsets of line starts, made when first needed
  };
  class Reader;

  void append(std::string& out, NodeId id) const;
  void append_wrapped(std::string& out, NodeId id, size_t indent) const;

  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<Node> nodes_;
  std::vector<NodeId> children_;
  SymbolTable symbols_;
};

/// The commands with those in `(foreach @x (<name>*) <command>*)` written out, for each name in the
/// place of @x in names and strings.
std::vector<NodeId> expand_foreach(Syntax& syntax, std::span<const NodeId> commands);

/// Shortest decimal text without exponent that reads back to the same double, always with a point;
/// NaN, inf, -inf.
std::string egg_float_text(double value);
/// In quotes, with backslashes and quotes escaped.
std::string egg_string_text(std::string_view text);

} // namespace luminal::egraph
