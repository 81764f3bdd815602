// egg/egg_foreach.cpp -- (foreach @x (a b ...) command ...): the commands once for each name, with
// the name in the place of @x.
#include "egg/egg_syntax.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

constexpr uint64_t max_copied_nodes = 1 << 20;

class Copier {
public:
  explicit Copier(Syntax& syntax) : syntax_(syntax) {}

  void expand(NodeId command, std::vector<NodeId>& out) {
    if (syntax_.head(command) != "foreach") {
      out.push_back(command);
      return;
    }
    // Copies move the array of children.
    const std::vector<NodeId> items(syntax_.children(command).begin(), syntax_.children(command).end());
    if (items.size() < 3 || !syntax_.is_symbol(items[1]) || !syntax_.is_list(items[2]))
      syntax_.fail(command, "usage: (foreach @<name> (<name>*) <command>*)");
    const std::string mark(syntax_.text(syntax_[items[1]].symbol));
    if (!mark.starts_with('@'))
      syntax_.fail(items[1], "what foreach replaces has a name that starts with '@'");
    const std::vector<NodeId> names(syntax_.children(items[2]).begin(), syntax_.children(items[2]).end());
    for (const NodeId name : names) {
      if (!syntax_.is_symbol(name)) syntax_.fail(name, "foreach takes names");
      for (size_t i = 3; i < items.size(); ++i)
        expand(copy(items[i], mark, std::string(syntax_.text(syntax_[name].symbol))), out);
    }
  }

private:
  /// Depth is bounded by Syntax::max_depth.
  NodeId copy(NodeId id, const std::string& mark, const std::string& name) {
    if (++copied_ > max_copied_nodes) syntax_.fail(id, "foreach makes more than a million copies");
    const Node node = syntax_[id];
    if (node.kind == NodeKind::list) {
      std::vector<NodeId> items(syntax_.children(id).begin(), syntax_.children(id).end());
      for (NodeId& item : items) item = copy(item, mark, name);
      return syntax_.make_list(items, id);
    }
    if (node.kind != NodeKind::symbol && node.kind != NodeKind::string) return id;
    std::string text(syntax_.text(node.symbol));
    size_t at = text.find(mark);
    if (at == std::string::npos) return id;
    for (; at != std::string::npos; at = text.find(mark, at + name.size()))
      text.replace(at, mark.size(), name);
    return syntax_.make_atom(syntax_.symbols().intern(text), id);
  }

  Syntax& syntax_;
  uint64_t copied_ = 0;
};

} // namespace

std::vector<NodeId> expand_foreach(Syntax& syntax, std::span<const NodeId> commands) {
  std::vector<NodeId> out;
  Copier copier(syntax);
  for (const NodeId command : commands) copier.expand(command, out);
  return out;
}

} // namespace luminal::egraph
