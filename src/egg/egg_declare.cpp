// egg/egg_declare.cpp -- declarations: sorts, datatypes, constructors, relations, functions,
// rulesets, rules.
#include "base/check.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

constexpr std::string_view rule_options = ":ruleset, :phase, :name, :naive, :unsafe-seminaive, :budget, "
                                          ":exact, :reassoc, :range, :approx, :guard; of "
                                          "rewrites also :when and :subsume";

bool holds_classes(const Schema& schema, SortId sort) {
  return schema.sorts[sort].type == SortType::classes || schema.sorts[sort].holds_classes;
}

} // namespace

// ---- sorts

SortId EggProgram::Impl::add_classes_sort(NodeId node) {
  Sort sort;
  sort.name = name(node, "the name of a sort");
  SortSpec spec;
  spec.name = std::string(syntax.text(sort.name));
  const SortId id = schema.add_sort(sort, node);
  const SortId engine = graph.add_sort(std::move(spec));
  LUMINAL_CHECK(id == engine, "sort {}", syntax.text(sort.name));
  return id;
}

void EggProgram::Impl::declare_sort(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() == 2) {
    add_classes_sort(items[1]);
  } else if (items.size() == 3 && syntax.is_list(items[2])) {
    declare_container(items[1], items[2]);
  } else if (items.size() >= 4 && syntax.is_symbol(items[2]) &&
             syntax.text(syntax[items[2]].symbol) == ":internal-uf") {
    const Symbol leaders = name(items[3], "the name of a constructor");
    schema.sorts[add_classes_sort(items[1])].leaders = leaders;
  } else {
    syntax.fail(command, "usage: (sort <name>) or (sort <name> (<container> <sort>*))");
  }
}

void EggProgram::Impl::declare_container(NodeId node, NodeId form) {
  struct Container {
    std::string_view name;
    SortType type;
    size_t parts;
  };
  static constexpr Container containers[] = {{"Vec", SortType::vec, 1},
                                             {"Set", SortType::set, 1},
                                             {"MultiSet", SortType::multiset, 1},
                                             {"Map", SortType::map, 2},
                                             {"Pair", SortType::pair, 2}};
  const auto items = syntax.children(form);
  const std::string_view head = syntax.head(form);
  const auto* found = std::find_if(std::begin(containers), std::end(containers),
                                   [&](const Container& c) { return c.name == head; });
  if (found == std::end(containers))
    syntax.fail(items.empty() ? form : items[0],
                "expected a container: (Vec <sort>), (Set <sort>), (MultiSet <sort>), (Map <sort> <sort>) or "
                "(Pair <sort> <sort>)");
  if (items.size() != found->parts + 1)
    syntax.fail(form, fmt::format("{} takes {} sort{}", head, found->parts, found->parts == 1 ? "" : "s"));
  Sort sort;
  sort.name = name(node, "the name of a sort");
  sort.type = found->type;
  for (const NodeId part : items.subspan(1)) {
    sort.parts.push_back(schema.sort(part));
    sort.holds_classes = sort.holds_classes || egraph::holds_classes(schema, sort.parts.back());
  }
  const SortId id = schema.add_sort(std::move(sort), node);
  add_container_primitives(*this, id);
}

// ---- functions

uint32_t EggProgram::Impl::add_function(NodeId node, FunctionInfo info, OpSpec spec) {
  info.name = name(node, "a name");
  if (schema.primitive(info.name) != nullptr)
    syntax.fail(node, fmt::format("'{}' is the name of a primitive", syntax.text(info.name)));
  info.place = syntax.span(node);
  const auto index = static_cast<uint32_t>(schema.functions.size());
  schema.declare(info.name, NameKind::function, index, node);
  spec.name = std::string(syntax.text(info.name));
  spec.args = info.inputs;
  spec.out = info.relation ? EGraph::unit_sort : info.output;
  spec.cost = info.cost;
  spec.hidden = info.hidden;
  spec.unextractable = info.unextractable;
  info.op = graph.add_op(std::move(spec));
  schema.functions.push_back(std::move(info));
  return index;
}

void EggProgram::Impl::add_constructor(NodeId node, FunctionInfo info, std::span<const NodeId> rest,
                                       bool internal) {
  for (const Option& option : options_of(rest)) {
    if (option.name == ":cost")
      info.cost = static_cast<int64_t>(count(one_value(option, "a cost"), "a cost"));
    else if (option.name == ":unextractable")
      no_value(option), info.unextractable = true;
    else if (internal && (option.name == ":internal-hidden" || option.name == ":internal-let"))
      no_value(option), info.hidden = true;
    else
      unknown_option(option, ":cost, :unextractable");
  }
  OpSpec spec;
  spec.constructor = true;
  spec.merge = MergeKind::unite;
  add_function(node, std::move(info), std::move(spec));
}

void EggProgram::Impl::declare_variants(std::span<const NodeId> variants, SortId sort) {
  for (const NodeId variant : variants) {
    const auto items = syntax.children(variant);
    if (items.empty() || !syntax.is_symbol(items[0]))
      syntax.fail(variant, "expected a constructor: (<name> <sort>*)");
    FunctionInfo info;
    info.output = sort;
    size_t i = 1;
    while (i < items.size() &&
           !(syntax.is_symbol(items[i]) && syntax.text(syntax[items[i]].symbol).starts_with(':')))
      info.inputs.push_back(schema.sort(items[i++]));
    add_constructor(items[0], std::move(info), items.subspan(i), false);
  }
}

void EggProgram::Impl::declare_datatype(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 2) syntax.fail(command, "usage: (datatype <name> (<constructor> <sort>*)*)");
  declare_variants(items.subspan(2), add_classes_sort(items[1]));
}

void EggProgram::Impl::declare_datatypes(NodeId command) {
  const auto items = syntax.children(command).subspan(1);
  // First all datatypes, then the containers, which may name them, then the constructors.
  std::vector<std::pair<NodeId, SortId>> datatypes;
  for (const NodeId item : items) {
    if (syntax.head(item).empty())
      syntax.fail(item,
                  "expected (<datatype> (<constructor> <sort>*)*) or (sort <name> (<container> <sort>*))");
    if (syntax.head(item) != "sort") datatypes.emplace_back(item, add_classes_sort(syntax.children(item)[0]));
  }
  for (const NodeId item : items)
    if (syntax.head(item) == "sort") declare_sort(item);
  for (const auto& [item, sort] : datatypes) declare_variants(syntax.children(item).subspan(1), sort);
}

void EggProgram::Impl::declare_constructor(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 4)
    syntax.fail(command, "usage: (constructor <name> (<sort>*) <sort> [:cost <number>] [:unextractable])");
  FunctionInfo info;
  for (const NodeId sort : list(items[2], "the sorts of the arguments"))
    info.inputs.push_back(schema.sort(sort));
  info.output = schema.sort(items[3]);
  if (schema.sorts[info.output].type != SortType::classes)
    syntax.fail(items[3],
                fmt::format("a constructor makes classes; {} is a sort of values. Declare a function",
                            schema.sort_name(info.output)));
  add_constructor(items[1], std::move(info), items.subspan(4), true);
}

void EggProgram::Impl::declare_relation(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 3) syntax.fail(command, "usage: (relation <name> (<sort>*))");
  FunctionInfo info;
  info.relation = true;
  for (const NodeId sort : list(items[2], "the sorts of the arguments"))
    info.inputs.push_back(schema.sort(sort));
  const Symbol symbol = name(items[1], "the name of a relation");
  Sort sort;
  sort.name = symbol;
  sort.type = SortType::fact;
  info.output = static_cast<SortId>(schema.sorts.size());
  OpSpec spec;
  spec.merge = MergeKind::keep_old;
  add_function(items[1], std::move(info), std::move(spec));
  schema.sorts.push_back(sort);
  SortSpec facts; // no column has it: it keeps the numbers of sorts here and in the engine equal
  facts.name = fmt::format("facts of {}", syntax.text(symbol));
  facts.kind = SortKind::value;
  const SortId engine = graph.add_sort(std::move(facts));
  LUMINAL_CHECK(engine + 1 == schema.sorts.size());
}

void EggProgram::Impl::declare_function(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 4)
    syntax.fail(command, "usage: (function <name> (<sort>*) <sort> :merge <expression>) or (... :no-merge)");
  FunctionInfo info;
  info.kind = FunctionKind::custom;
  info.unextractable = true;
  for (const NodeId sort : list(items[2], "the sorts of the arguments"))
    info.inputs.push_back(schema.sort(sort));
  info.output = schema.sort(items[3]);
  OpSpec spec;
  spec.subsumable = false;
  bool known = false;
  NodeId merge = 0;
  for (const Option& option : options_of(items.subspan(4))) {
    if (option.name == ":merge" || option.name == ":no-merge") {
      if (known) syntax.fail(option.node, ":merge and :no-merge exclude each other");
      known = true;
      info.has_merge = option.name == ":merge";
      if (info.has_merge)
        merge = one_value(option, "an expression over old and new");
      else
        no_value(option);
    } else if (option.name == ":internal-hidden" || option.name == ":internal-let") {
      no_value(option), info.hidden = true;
    } else if (option.name == ":unextractable") {
      no_value(option);
    } else {
      unknown_option(option, ":merge, :no-merge, :unextractable");
    }
  }
  if (!known)
    syntax.fail(command, fmt::format("the function '{}' has to say what happens when it gets a second value: "
                                     ":merge <expression over old and new>, or :no-merge",
                                     syntax.text(name(items[1], "a name"))));
  spec.merge = MergeKind::assert_equal;
  if (info.has_merge) {
    const Binding bindings[] = {{syntax.symbols().intern("old"), info.output},
                                {syntax.symbols().intern("new"), info.output}};
    const CheckedExpression code = check_expression(schema, merge, bindings, info.output, Context::top);
    if (code.value.kind == CoreTerm::Kind::variable && code.value.index < 2) {
      spec.merge = code.value.index == 0 ? MergeKind::keep_old : MergeKind::keep_new;
    } else {
      spec.merge = MergeKind::program;
      spec.merge_program = lower_merge(code);
    }
  }
  add_function(items[1], std::move(info), std::move(spec));
}

// ---- rulesets and rules

void EggProgram::Impl::declare_ruleset(NodeId command) {
  const auto items = syntax.children(command);
  const bool combined = syntax.head(command) != "ruleset";
  if (items.size() < 2 || (!combined && items.size() != 2))
    syntax.fail(command, combined ? "usage: (unstable-combined-ruleset <name> <ruleset>*)"
                                  : "usage: (ruleset <name>)");
  const Symbol symbol = name(items[1], "the name of a ruleset");
  RulesetInfo info;
  info.combined = combined;
  for (const NodeId part : items.subspan(2)) info.parts.push_back(ruleset_index(part));
  schema.declare(symbol, NameKind::ruleset, static_cast<uint32_t>(rulesets.size()), items[1]);
  if (!combined) info.id = graph.add_ruleset(std::string(syntax.text(symbol)));
  rulesets.push_back(std::move(info));
}

namespace {

RuleOptions read_rule_options(EggProgram::Impl& p, std::span<const NodeId> nodes, bool rewrite,
                              bool may_subsume) {
  RuleOptions out;
  NodeId numeric = 0, ruleset = 0;
  for (const auto& option : p.options_of(nodes)) {
    const std::string_view key = option.name;
    if (key == ":ruleset" || key == ":phase") {
      // A phase is a ruleset that schedules run by its name.
      if (ruleset != 0) p.syntax.fail(option.node, ":ruleset and :phase exclude each other");
      ruleset = option.node;
      out.ruleset = p.ruleset_index(p.one_value(option, "the name of a ruleset"));
      if (p.rulesets[out.ruleset].combined)
        p.syntax.fail(option.values[0], "rules cannot be added to a combined ruleset, only to its parts");
    } else if (key == ":name") {
      out.name = p.string_value(option);
    } else if (key == ":naive" || key == ":unsafe-seminaive") {
      p.no_value(option);
      if (out.lookups) p.syntax.fail(option.node, ":naive and :unsafe-seminaive exclude each other");
      out.lookups = true;
      out.naive = key == ":naive";
    } else if (key == ":budget") {
      out.budget = p.count(p.one_value(option, "a number of matches"), "a number of matches");
      if (out.budget == 0) p.syntax.fail(option.values[0], "a budget is at least 1");
    } else if (key == ":exact" || key == ":reassoc" || key == ":range" || key == ":approx") {
      p.no_value(option);
      if (numeric != 0) p.syntax.fail(option.node, ":exact, :reassoc, :range and :approx exclude each other");
      numeric = option.node;
      out.numeric = key == ":exact"     ? NumericClass::exact
                    : key == ":reassoc" ? NumericClass::reassociate
                    : key == ":range"   ? NumericClass::range
                                        : NumericClass::approximate;
    } else if (key == ":when" && rewrite) {
      for (const NodeId fact : p.list(p.one_value(option, "a list of facts"), "facts"))
        out.conditions.push_back(fact);
    } else if (key == ":guard") {
      for (const NodeId guard :
           p.list(p.one_value(option, "a list of calls of primitives"), "calls of primitives")) {
        const auto items = p.syntax.children(guard);
        const bool call = !items.empty() && p.syntax.is_symbol(items[0]);
        if (!call ||
            (p.syntax.head(guard) != "=" && p.schema.primitive(p.syntax[items[0]].symbol) == nullptr))
          p.syntax.fail(guard, "a guard is a call of a primitive, or (= <expression> <expression>)");
        out.conditions.push_back(guard);
      }
    } else if (key == ":subsume" && may_subsume) {
      p.no_value(option), out.subsume = true;
    } else if (key == ":no-decomp") {
      p.no_value(option); // a hint for egglog's planner; ours has nothing to switch off
    } else {
      p.unknown_option(option, rule_options);
    }
  }
  return out;
}

} // namespace

void EggProgram::Impl::declare_rule(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 3) syntax.fail(command, "usage: (rule (<fact>*) (<action>*) <option>*)");
  const RuleOptions read = read_rule_options(*this, items.subspan(3), false, false);
  std::vector<NodeId> facts(list(items[1], "facts").begin(), list(items[1], "facts").end());
  facts.insert(facts.end(), read.conditions.begin(), read.conditions.end());
  const CoreRule rule =
      check_rule(schema, facts, list(items[2], "actions"), read.lookups ? Context::naive : Context::rule);
  add_rule(rule, command, read, "");
}

void EggProgram::Impl::declare_rewrite(NodeId command, bool both) {
  const auto items = syntax.children(command);
  if (items.size() < 3)
    syntax.fail(command, both ? "usage: (birewrite <expression> <expression> <option>*)"
                              : "usage: (rewrite <expression> <expression> <option>*)");
  const RuleOptions read = read_rule_options(*this, items.subspan(3), true, !both);
  const Context context = read.lookups ? Context::naive : Context::rule;
  const CoreRule forward =
      check_rewrite(schema, items[1], items[2], read.conditions, read.subsume, context, command);
  if (!both) {
    add_rule(forward, command, read, "");
    return;
  }
  const CoreRule backward =
      check_rewrite(schema, items[2], items[1], read.conditions, false, context, command);
  add_rule(forward, command, read, "=>");
  add_rule(backward, command, read, "<=");
}

} // namespace luminal::egraph
