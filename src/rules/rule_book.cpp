// rules/rule_book.cpp -- rule files read as text beside the engine's rules.
#include "rules/rule_book.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/embedded.h"
#include "base/text.h"
#include "egg/egg_syntax.h"
#include "rules/region_terms.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

LUMINAL_EMBEDDED(rule_files)

namespace luminal::rules {
namespace {

using egraph::NumericClass;
using egraph::Syntax;
using TextNode = egraph::NodeId; // of a program's text

constexpr std::array class_words{":exact", ":reassoc", ":range", ":approx"};
/// Rulesets that saturate() runs.
const std::vector<std::string_view> phases{"facts",  "scalar",  "factor", "exchange",
                                           "family", "cascade", "tuple",  "clean"};

bool is_rule(std::string_view head) { return contains(std::array{"rule", "rewrite", "birewrite"}, head); }

/// The value of an option of a rule: nothing where it is not given, the option itself where it has none.
std::optional<TextNode> option_of(const Syntax& syntax, TextNode command, std::string_view name) {
  const auto items = syntax.children(command);
  for (size_t k = 1; k < items.size(); ++k)
    if (syntax.is_symbol(items[k]) && syntax.text(syntax[items[k]].symbol) == name)
      return k + 1 < items.size() ? items[k + 1] : items[k];
  return {};
}

std::string_view word(const Syntax& syntax, TextNode node) {
  const egraph::NodeKind kind = syntax[node].kind;
  return kind == egraph::NodeKind::symbol || kind == egraph::NodeKind::string
             ? syntax.text(syntax[node].symbol)
             : std::string_view();
}

std::string_view phase_of(const Syntax& syntax, TextNode command) {
  auto phase = option_of(syntax, command, ":ruleset");
  if (!phase) phase = option_of(syntax, command, ":phase");
  return phase ? word(syntax, *phase) : std::string_view();
}

/// Premises of a rule, and conditions of a rewrite.
std::vector<TextNode> facts_of(const Syntax& syntax, TextNode command) {
  std::vector<TextNode> out;
  const auto add = [&](TextNode list) {
    for (const TextNode fact : syntax.children(list)) out.push_back(fact);
  };
  if (syntax.head(command) == "rule") add(syntax.children(command)[1]);
  for (const char* option : {":when", ":guard"})
    if (const auto list = option_of(syntax, command, option)) add(*list);
  return out;
}

bool joins(const Syntax& syntax, TextNode command) {
  if (syntax.head(command) != "rule") return true;
  return std::ranges::any_of(syntax.children(syntax.children(command)[2]),
                             [&](TextNode action) { return syntax.head(action) == "union"; });
}

size_t line_of(const Syntax& syntax, TextNode node) {
  const std::string place = syntax.place(syntax.span(node)); // file:line:column
  const size_t column = place.rfind(':'), line = place.rfind(':', column - 1);
  return std::stoul(place.substr(line + 1, column - line - 1));
}

std::string place_of(const Syntax& syntax, TextNode node) {
  const std::string place = syntax.place(syntax.span(node));
  return place.substr(0, place.rfind(':'));
}

/// On one line where there is room, else what is matched, what is done and the options on lines of their own.
std::string text_of(const Syntax& syntax, TextNode command) {
  constexpr size_t columns = 100;
  std::string out = syntax.print(command);
  if (out.size() <= columns) return out + "\n";
  out = fmt::format("({}", syntax.head(command));
  const auto items = syntax.children(command);
  const std::string indent(out.size() + 1, ' ');
  for (size_t k = 1; k < items.size(); ++k)
    out += (k == 1 || k > 3 ? " " : "\n" + indent) + syntax.print(items[k]);
  return out + ")\n";
}

/// Names of guards: primitives that have no value.
std::set<std::string_view> guards_of(const egraph::EGraph& graph, const egraph::Rule& rule) {
  std::set<std::string_view> out;
  for (const egraph::PrimAtom& prim : rule.query.prims)
    if (graph.primitive(prim.prim).out == egraph::EGraph::unit_sort)
      out.insert(graph.primitive(prim.prim).name);
  return out;
}

/// What a user's file may hold. `taken`: names of rules so far.
void check_rule_file(const RuleFile& file, std::set<std::string>& taken) {
  Syntax syntax;
  for (const TextNode command : expand_foreach(syntax, syntax.parse(file.name, file.text))) {
    const std::string_view head = syntax.head(command);
    if (contains(std::array{"relation", "function"}, head)) continue;
    if (!is_rule(head))
      syntax.fail(command,
                  fmt::format("a file of rules holds rule, rewrite, birewrite, relation, function and "
                              "foreach; {} is something else",
                              head.empty() ? "this" : head));
    if (syntax.children(command).size() < 3) continue; // the program tells what is missing
    const auto name = option_of(syntax, command, ":name");
    if (!name) syntax.fail(command, "a rule needs a name, as in :name \"my rule\"");
    if (!taken.insert(std::string(word(syntax, *name))).second)
      syntax.fail(*name, fmt::format("there is a rule '{}' already", word(syntax, *name)));
    const std::string_view phase = phase_of(syntax, command);
    if (!contains(phases, phase))
      syntax.fail(command,
                  fmt::format("a rule needs a phase, as in :ruleset scalar; there are {}", join(phases)));
    if (joins(syntax, command) && std::ranges::none_of(class_words, [&](const char* w) {
          return option_of(syntax, command, w).has_value();
        }))
      syntax.fail(command,
                  "a rule that joins classes needs a numeric class: :exact, :reassoc, :range or :approx");
  }
}

} // namespace

std::vector<RuleEntry> rule_entries(RegionTerms& terms) {
  LUMINAL_CHECK(terms.options().numeric == NumericClass::approximate, "rules are left out of the terms");
  const egraph::EGraph& graph = terms.graph();
  std::vector<RuleEntry> out;
  Syntax syntax;
  for (const auto& [file, text] : terms.texts()) {
    for (const TextNode command : expand_foreach(syntax, syntax.parse(file, text))) {
      if (!is_rule(syntax.head(command))) continue;
      const int ways = syntax.head(command) == "birewrite" ? 2 : 1;
      for (int way = 0; way < ways; ++way) {
        RuleEntry e;
        e.id = egraph::RuleId(out.size());
        const egraph::Rule& rule = graph.rule(e.id);
        e.named = option_of(syntax, command, ":name").has_value();
        e.name = e.named ? rule.name : place_of(syntax, command);
        e.numeric = rule.numeric;
        e.phase = phase_of(syntax, command);
        const auto guards = guards_of(graph, rule);
        for (const TextNode fact : facts_of(syntax, command))
          if (guards.contains(syntax.head(fact))) e.guards.push_back(syntax.print(fact));
        e.file = file;
        e.line = line_of(syntax, command);
        e.text = text_of(syntax, command);
        e.joins = joins(syntax, command);
        e.budget = rule.budget;
        out.push_back(std::move(e));
      }
    }
  }
  LUMINAL_CHECK(out.size() == graph.rule_count(), "{} rules are written, {} are there", out.size(),
                graph.rule_count());
  return out;
}

std::string_view to_string(NumericClass numeric) {
  return std::string_view(class_words[size_t(numeric)]).substr(1);
}

std::string no_rule(const std::string& name, const std::vector<std::string_view>& names) {
  const std::string_view meant = nearest_word(name, names);
  return fmt::format("there is no rule '{}'{}", name,
                     meant.empty() ? "; luminal rules list names all"
                                   : fmt::format(", did you mean '{}'?", meant));
}

void check_rule_files(const std::vector<RuleFile>& files) {
  std::set<std::string> taken; // by rules that are built in, and by earlier ones
  RegionTerms built_in({.numeric = NumericClass::approximate});
  for (const RuleEntry& e : rule_entries(built_in)) taken.insert(e.name);
  for (const RuleFile& file : files) check_rule_file(file, taken);
  RegionTerms({.numeric = NumericClass::approximate, .more = files}); // mistakes of their own
}

namespace {

/// The node without facts whose heads are names.
TextNode stripped(Syntax& syntax, TextNode node, const std::vector<std::string_view>& names) {
  if (!syntax.is_list(node)) return node;
  const std::vector<TextNode> items(syntax.children(node).begin(), syntax.children(node).end());
  std::vector<TextNode> kept;
  for (const TextNode item : items)
    if (!contains(names, syntax.head(item))) kept.push_back(stripped(syntax, item, names));
  return syntax.make_list(kept, node);
}

} // namespace

std::string parked_rules(const std::string& text, const std::string& file,
                         const std::vector<std::string>& names, std::vector<bool>& found) {
  Syntax syntax;
  std::vector<TextNode> commands = expand_foreach(syntax, syntax.parse(file, text));
  for (TextNode& command : commands) {
    const auto name = is_rule(syntax.head(command)) ? option_of(syntax, command, ":name") : std::nullopt;
    if (!name) continue;
    const auto at = std::ranges::find(names, word(syntax, *name));
    if (at == names.end()) continue;
    for (size_t k = 0; k < names.size(); ++k) found[k] = found[k] || names[k] == *at;
    std::vector<TextNode> items(syntax.children(command).begin(), syntax.children(command).end());
    for (size_t k = 0; k + 1 < items.size(); ++k)
      if (const auto option = word(syntax, items[k]); option == ":ruleset" || option == ":phase")
        items[k + 1] = syntax.make_atom(syntax.symbols().intern("parked"), items[k + 1]);
    command = syntax.make_list(items, command);
  }
  return syntax.print_program(commands);
}

std::string without_guards(const std::string& text, const std::string& file,
                           const std::vector<std::string_view>& names) {
  Syntax syntax;
  std::vector<TextNode> out;
  for (const TextNode command : syntax.parse(file, text)) out.push_back(stripped(syntax, command, names));
  return syntax.print_program(out);
}

} // namespace luminal::rules
