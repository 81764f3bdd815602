// egg/egg_schema.cpp -- the tables of names of a rule program.
#include "egg/egg_schema.h"
#include "base/check.h"
#include "base/text.h"
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

std::string_view what(NameKind kind) {
  switch (kind) {
  case NameKind::none: break;
  case NameKind::sort: return "a sort";
  case NameKind::function: return "a function";
  case NameKind::ruleset: return "a ruleset";
  case NameKind::global: return "a global";
  }
  return "nothing";
}

} // namespace

void Schema::declare(Symbol name, NameKind kind, uint32_t index, NodeId at) {
  const NameEntry old = find(name);
  if (old.kind != NameKind::none)
    syntax_->fail(at, fmt::format("'{}' is declared already, as {}", syntax_->text(name), what(old.kind)));
  if (name >= names_.size()) names_.resize(std::max<size_t>(name + 1, syntax_->symbols().size()));
  names_[name] = {kind, index};
}

SortId Schema::find_sort(std::string_view name) const {
  for (size_t i = 0; i < sorts.size(); ++i)
    if (syntax_->text(sorts[i].name) == name) return static_cast<SortId>(i);
  return no_sort;
}

SortId Schema::sort(NodeId name) const {
  if (!syntax_->is_symbol(name)) syntax_->fail(name, "expected the name of a sort");
  const Symbol symbol = (*syntax_)[name].symbol;
  const NameEntry entry = find(symbol);
  if (entry.kind == NameKind::sort) return static_cast<SortId>(entry.index);
  if (entry.kind != NameKind::none)
    syntax_->fail(name, fmt::format("expected a sort; '{}' is {}", syntax_->text(symbol), what(entry.kind)));
  std::vector<std::string_view> known;
  for (const Sort& s : sorts) known.push_back(syntax_->text(s.name));
  const std::string_view near = nearest_word(syntax_->text(symbol), known);
  syntax_->fail(name, fmt::format("there is no sort '{}'{}", syntax_->text(symbol),
                                  near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
}

SortId Schema::add_sort(Sort sort, NodeId at) {
  const auto id = static_cast<SortId>(sorts.size());
  declare(sort.name, NameKind::sort, id, at);
  sorts.push_back(std::move(sort));
  return id;
}

std::string_view Schema::sort_name(SortId id) const {
  if (id == no_sort) return "an unknown sort";
  if (id == any_sort) return "any";
  return syntax_->text(sorts[id].name);
}

std::string Schema::sort_names(const std::vector<SortId>& list) const {
  std::vector<std::string_view> names;
  for (const SortId sort : list) names.push_back(sort_name(sort));
  return join(names, " ");
}

void Schema::add_primitive(std::string_view name, Overload overload) {
  const Symbol symbol = syntax_->symbols().intern(name);
  if (symbol >= primitive_of_.size())
    primitive_of_.resize(std::max<size_t>(symbol + 1, syntax_->symbols().size()));
  if (primitive_of_[symbol] == 0) {
    primitives_.emplace_back();
    primitive_of_[symbol] = static_cast<uint32_t>(primitives_.size());
  }
  LUMINAL_CHECK(!overload.variadic || overload.inputs.size() == 1, "{}", name);
  primitives_[primitive_of_[symbol] - 1].push_back(std::move(overload));
}

std::string Schema::signature(const Overload& overload) const {
  return fmt::format("({}{}) -> {}", sort_names(overload.inputs), overload.variadic ? " ..." : "",
                     sort_name(overload.output));
}

std::string Schema::signature(const FunctionInfo& function) const {
  return fmt::format("({}) -> {}", sort_names(function.inputs), sort_name(function.output));
}

std::string Schema::suggestion(Symbol name) const {
  std::vector<std::string_view> known;
  for (const FunctionInfo& f : functions) known.push_back(syntax_->text(f.name));
  for (Symbol s = 0; s < primitive_of_.size(); ++s)
    if (primitive_of_[s] != 0) known.push_back(syntax_->text(s));
  const std::string_view near = nearest_word(syntax_->text(name), known);
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

} // namespace luminal::egraph
