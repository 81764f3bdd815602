// egg/egg_evaluate.cpp -- expressions and actions of commands, run at once.
#include "base/check.h"
#include "base/small_vector.h"
#include "egg/egg_state.h"
#include <fmt/format.h>

namespace luminal::egraph {

void EggProgram::Impl::run_actions(const CoreRule& code, std::vector<Value>& values) {
  std::vector<Value> args;
  const auto value = [&](const CoreTerm& term) {
    if (term.kind != CoreTerm::Kind::variable) return constant(term);
    // Hosts and comparisons see leaders.
    return graph.canonical(code.variables[term.index].sort, values[term.index]);
  };
  for (const CoreAction& a : code.head) {
    const auto terms = code.args(a.atom);
    args.clear();
    for (const CoreTerm& t : terms) {
      const bool result = &t == &terms.back();
      if (result && a.kind != CoreAction::Kind::insert && a.kind != CoreAction::Kind::unite) break;
      args.push_back(value(t));
    }
    const auto op = [&] { return schema.functions[a.atom.index].op; };
    switch (a.kind) {
    case CoreAction::Kind::call: {
      Value out = 0;
      if (a.atom.head == CoreAtom::Head::function) {
        const FunctionInfo& f = schema.functions[a.atom.index];
        if (f.relation) {
          graph.set(f.op, args, 0);
        } else if (f.kind == FunctionKind::constructor) {
          out = graph.add(f.op, args);
        } else {
          const std::optional<Value> found = graph.lookup(f.op, args);
          if (!found)
            fail_run(a.atom.place, fmt::format("the function '{}' has no value for these arguments",
                                               syntax.text(a.atom.name)));
          out = *found;
        }
      } else {
        const bool defined = a.atom.writes ? host_actions[a.atom.index].call(graph, args, out)
                                           : graph.primitive(a.atom.index).call(args, out);
        if (!defined)
          fail_run(a.atom.place, fmt::format("the primitive '{}' is not defined for these arguments",
                                             syntax.text(a.atom.name)));
      }
      LUMINAL_CHECK(terms.back().kind == CoreTerm::Kind::variable);
      values[terms.back().index] = out;
      break;
    }
    case CoreAction::Kind::insert: {
      const Value out = args.back();
      args.pop_back();
      const FunctionInfo& f = schema.functions[a.atom.index];
      graph.set(f.op, args, out);
      break;
    }
    case CoreAction::Kind::remove: graph.remove(op(), args); break;
    case CoreAction::Kind::subsume: graph.subsume(op(), args); break;
    case CoreAction::Kind::unite: graph.unite(args[0], args[1]); break;
    case CoreAction::Kind::panic: fail_run(a.atom.place, fmt::format("panic: {}", syntax.text(a.message)));
    }
  }
}

std::optional<EggValue> EggProgram::Impl::evaluate_plain(NodeId node) {
  const Node& n = syntax[node];
  switch (n.kind) {
  case NodeKind::integer: return EggValue{BuiltinSort::i64, literal(node)};
  case NodeKind::floating: return EggValue{BuiltinSort::f64, literal(node)};
  case NodeKind::string: return EggValue{BuiltinSort::string, literal(node)};
  case NodeKind::boolean: return EggValue{BuiltinSort::boolean, literal(node)};
  case NodeKind::symbol: {
    const NameEntry entry = schema.find(n.symbol);
    if (entry.kind != NameKind::global) return std::nullopt; // the checker tells what is wrong
    return EggValue{schema.globals[entry.index].sort, schema.globals[entry.index].value};
  }
  case NodeKind::list: break;
  }
  const auto items = syntax.children(node);
  if (items.empty()) return EggValue{BuiltinSort::unit, 0};
  if (!syntax.is_symbol(items[0])) return std::nullopt;
  const NameEntry entry = schema.find(syntax[items[0]].symbol);
  if (entry.kind != NameKind::function) return std::nullopt;
  const FunctionInfo& f = schema.functions[entry.index];
  if (f.inputs.size() + 1 != items.size() || f.kind == FunctionKind::custom) return std::nullopt;
  SmallVector<Value, 16> args;
  for (size_t i = 1; i < items.size(); ++i) {
    const std::optional<EggValue> arg = evaluate_plain(items[i]);
    if (!arg || arg->sort != f.inputs[i - 1]) return std::nullopt;
    args.push_back(arg->value);
  }
  if (f.relation) {
    graph.set(f.op, args.span(), 0);
    return EggValue{f.output, 0};
  }
  return EggValue{f.output, graph.add(f.op, args.span())};
}

EggValue EggProgram::Impl::evaluate(NodeId expression, SortId expected) {
  const std::optional<EggValue> plain = evaluate_plain(expression);
  if (plain && (expected == no_sort || plain->sort == expected)) return *plain;
  const CheckedExpression checked = check_expression(schema, expression, {}, expected, Context::top);
  std::vector<Value> values(checked.code.variables.size(), 0);
  run_actions(checked.code, values);
  const Value value =
      checked.value.kind == CoreTerm::Kind::variable ? values[checked.value.index] : constant(checked.value);
  return {checked.sort, value};
}

void EggProgram::Impl::let_global(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 3) syntax.fail(command, "usage: (let <name> <expression>)");
  const Symbol symbol = name(items[1], "the name of a global");
  if (schema.find(symbol).kind != NameKind::none)
    schema.declare(symbol, NameKind::global, 0, items[1]); // tells what the name is already
  if (!syntax.text(symbol).starts_with('$') && !warned_about_globals && options.warning) {
    warned_about_globals = true;
    options.warning(
        syntax.message(syntax.span(items[1]),
                       fmt::format("names of globals should start with '$': '${}'", syntax.text(symbol))));
  }
  const EggValue value = evaluate(items[2], no_sort);
  if (schema.sorts[value.sort].type == SortType::fact)
    syntax.fail(items[2], "a fact of a relation has no value that a global could hold");
  schema.declare(symbol, NameKind::global, static_cast<uint32_t>(schema.globals.size()), items[1]);
  schema.globals.push_back({symbol, value.sort, value.value});
  global_ops.push_back(absent);
}

void EggProgram::Impl::action(NodeId command) {
  const auto items = syntax.children(command);
  const Symbol symbol = syntax[items[0]].symbol;
  const std::string_view head = syntax.text(symbol);
  if (schema.find(symbol).kind == NameKind::function && evaluate_plain(command)) return;
  const bool known = head == "set" || head == "union" || head == "delete" || head == "subsume" ||
                     head == "panic" || schema.find(symbol).kind == NameKind::function ||
                     schema.primitive(symbol) != nullptr;
  if (!known)
    syntax.fail(items[0], fmt::format("there is no command, function or primitive '{}'{}", head,
                                      schema.suggestion(symbol)));
  const CoreRule code = check_actions(schema, std::span(&command, 1));
  std::vector<Value> values(code.variables.size(), 0);
  run_actions(code, values);
}

} // namespace luminal::egraph
