// egg/egg_query.cpp -- commands that ask: check, extract, print-size, print-function, print-stats.
#include "base/file.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;

struct RuleRow {
  std::string name;
  std::string ruleset;
  RuleStats stats;
  double seconds = 0;
};

/// All rules that were looked at, the slowest first.
std::vector<RuleRow> rule_rows(const Impl& p) {
  std::vector<RuleRow> rows;
  const std::vector<RuleStats> all = p.graph.rule_stats();
  for (RuleId id = 0; id < p.graph.rule_count(); ++id) {
    const RuleStats& stats = all[id];
    const Rule& rule = p.graph.rule(id);
    rows.push_back(
        {rule.name, p.graph.ruleset_name(rule.ruleset), stats, stats.search_seconds + stats.apply_seconds});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const RuleRow& a, const RuleRow& b) { return a.seconds > b.seconds; });
  return rows;
}

/// A field of a CSV line: in quotes where it holds a comma, a quote or a line end.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

} // namespace

void EggProgram::Impl::tell(NodeId command, std::string text, double cost) {
  if (!options.output) return;
  options.output(
      {std::string(syntax.head(command)), syntax.place(syntax.span(command)), std::move(text), cost});
}

void EggProgram::Impl::check(NodeId command) {
  const auto facts = syntax.children(command).subspan(1);
  const CoreRule query = check_query(schema, facts);
  if (!holds(query)) fail_run(command, "check failed");
}

void EggProgram::Impl::extract_command(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 2 || items.size() > 3)
    syntax.fail(command, "usage: (extract <expression> [<number of variants>])");
  const EggValue value = evaluate(items[1], no_sort);
  int64_t variants = 0;
  if (items.size() == 3) variants = pool.integer_of(evaluate(items[2], BuiltinSort::i64).value);
  if (variants < 0) fail_run(items[2], "the number of variants is negative");
  TermWriter writer(*this, {value.sort});
  if (variants == 0) {
    std::string text = writer.text(value.sort, value.value);
    tell(command, text + "\n", writer.cost(value.sort, value.value));
    return;
  }
  const auto terms = writer.variants(value.sort, value.value, static_cast<size_t>(variants));
  std::string text = "(\n";
  for (const EggExtracted& term : terms) text += "   " + term.text + "\n";
  tell(command, text + ")\n", terms.empty() ? 0 : terms[0].cost);
}

std::string EggProgram::Impl::all_sizes() const {
  std::vector<std::pair<std::string_view, size_t>> sizes;
  for (const FunctionInfo& f : schema.functions)
    if (!f.hidden) sizes.emplace_back(syntax.text(f.name), graph.size(f.op));
  std::sort(sizes.begin(), sizes.end());
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i)
    out += fmt::format("{}({} {}){}", i > 0 ? " " : "", sizes[i].first, sizes[i].second,
                       i + 1 < sizes.size() ? "\n" : "");
  return out + ")\n";
}

void EggProgram::Impl::print_size(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() > 2) syntax.fail(command, "usage: (print-size [<function>])");
  graph.rebuild();
  if (items.size() == 1) {
    tell(command, all_sizes());
    return;
  }
  const Symbol symbol = name(items[1], "the name of a function");
  const NameEntry entry = schema.find(symbol);
  if (entry.kind != NameKind::function || schema.functions[entry.index].hidden)
    syntax.fail(items[1],
                fmt::format("there is no function '{}'{}", syntax.text(symbol), schema.suggestion(symbol)));
  tell(command, fmt::format("{}\n", graph.size(schema.functions[entry.index].op)));
}

void EggProgram::Impl::print_function(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 2)
    syntax.fail(command,
                "usage: (print-function <function> [<rows>] [:file \"<file>\"] [:mode default|csv])");
  const Symbol symbol = name(items[1], "the name of a function");
  const NameEntry entry = schema.find(symbol);
  if (entry.kind != NameKind::function)
    syntax.fail(items[1],
                fmt::format("there is no function '{}'{}", syntax.text(symbol), schema.suggestion(symbol)));
  auto rest = items.subspan(2);
  uint64_t most = UINT64_MAX;
  if (!rest.empty() && syntax[rest[0]].kind == NodeKind::integer) {
    most = count(rest[0], "the number of rows");
    rest = rest.subspan(1);
  }
  bool csv = false;
  std::string file;
  for (const Option& option : options_of(rest)) {
    if (option.name == ":file") {
      file = string_value(option);
    } else if (option.name == ":mode") {
      const NodeId mode = one_value(option, "default or csv");
      const std::string text = syntax.print(mode);
      if (text != "default" && text != "csv") syntax.fail(mode, "expected default or csv");
      csv = text == "csv";
    } else {
      unknown_option(option, ":file, :mode");
    }
  }
  if (!file.empty() && !options.files) syntax.fail(command, "files cannot be written here");
  const FunctionInfo f = schema.functions[entry.index];
  std::vector<SortId> sorts = f.inputs;
  sorts.push_back(f.output);
  TermWriter writer(*this, sorts);
  const auto text = [&](SortId sort, Value value) {
    return writer.cost(sort, value) < HUGE_VAL ? writer.text(sort, value) : std::string("Unextractable");
  };
  std::string out = csv ? "" : "(\n";
  uint64_t printed = 0;
  graph.for_each_row(f.op, [&](const RowView& row) {
    if (printed++ >= most) return false;
    std::vector<std::string> fields{std::string(syntax.text(f.name))};
    for (size_t i = 0; i < f.inputs.size(); ++i) fields.push_back(text(f.inputs[i], row.cells[i]));
    const std::string term = "(" + join(fields, " ") + ")";
    // The value of a relation's fact is the fact itself.
    const bool value = f.relation || schema.sorts[f.output].type != SortType::unit;
    const std::string result = f.relation ? term : value ? text(f.output, row.out()) : "";
    if (csv) {
      if (value) fields.push_back(result);
      for (std::string& field : fields) field = csv_field(field);
      out += join(fields, ",") + "\n";
    } else {
      out += "   " + term + (value ? " -> " + result : "") + "\n";
    }
    return true;
  });
  if (!csv) out += ")\n";
  if (file.empty()) {
    tell(command, out);
    return;
  }
  const Result<void> written = write_file(file, out);
  if (!written.ok()) fail_run(command, written.error());
}

void EggProgram::Impl::print_stats(NodeId command) {
  const auto items = syntax.children(command);
  const auto given = options_of(items.subspan(1));
  if (given.empty()) {
    tell(command, "Overall statistics:\n" + fmt::format("{} iterations, {} matches, {} new rows, {} unions\n",
                                                        totals.iterations, totals.matches, totals.new_rows,
                                                        totals.unions));
    return;
  }
  if (given[0].name != ":file") unknown_option(given[0], ":file");
  const std::string file = string_value(given[0]);
  if (!options.files) syntax.fail(command, "files cannot be written here");
  nlohmann::ordered_json json{{"iterations", totals.iterations},
                              {"matches", totals.matches},
                              {"new_rows", totals.new_rows},
                              {"unions", totals.unions},
                              {"steps", totals.steps}};
  const Result<void> written = write_file(file, json.dump(2) + "\n");
  if (!written.ok()) fail_run(command, written.error());
}

// ---- statistics of the rules

std::string EggProgram::stats_table() const {
  std::string out = fmt::format("{:>9} {:>11} {:>11} {:>9} {:>9} {:>9}  {}\n", "ms", "steps", "probes",
                                "matches", "new rows", "unions", "rule");
  size_t silent = 0;
  for (const RuleRow& row : rule_rows(*impl_)) {
    const RuleStats& s = row.stats;
    if (s.matches == 0 && s.steps == 0) {
      ++silent;
      continue;
    }
    std::string name = row.ruleset.empty() ? row.name : row.ruleset + ": " + row.name;
    std::replace(name.begin(), name.end(), '\n', ' ');
    if (name.size() > 80)
      name = name.substr(0, utf8_complete_prefix(std::string_view(name).substr(0, 77))) + "...";
    out += fmt::format("{:>9.2f} {:>11} {:>11} {:>9} {:>9} {:>9}  {}\n", 1e3 * row.seconds, s.steps, s.probes,
                       s.matches, s.new_rows, s.unions, name);
  }
  const EggTotals& t = impl_->totals;
  out += fmt::format(
      "{} iterations, {} matches, {} new rows, {} unions; search {:.1f} ms, apply {:.1f} ms, rebuild "
      "{:.1f} ms; {} rules were never looked at\n",
      t.iterations, t.matches, t.new_rows, t.unions, 1e3 * t.search_seconds, 1e3 * t.apply_seconds,
      1e3 * t.rebuild_seconds, silent);
  return out;
}

std::string EggProgram::stats_json() const {
  const EggTotals& t = impl_->totals;
  nlohmann::ordered_json json{{"iterations", t.iterations},
                              {"matches", t.matches},
                              {"new_rows", t.new_rows},
                              {"unions", t.unions},
                              {"steps", t.steps},
                              {"search_seconds", t.search_seconds},
                              {"apply_seconds", t.apply_seconds},
                              {"rebuild_seconds", t.rebuild_seconds},
                              {"rows", impl_->graph.total_size()},
                              {"bytes", bytes()}};
  json["rules"] = nlohmann::ordered_json::array();
  for (const RuleRow& row : rule_rows(*impl_))
    json["rules"].push_back({{"name", utf8_sanitized(row.name)},
                             {"ruleset", row.ruleset},
                             {"steps", row.stats.steps},
                             {"probes", row.stats.probes},
                             {"matches", row.stats.matches},
                             {"waiting", row.stats.waiting},
                             {"new_rows", row.stats.new_rows},
                             {"unions", row.stats.unions},
                             {"seconds", row.seconds}});
  return json.dump(2);
}

} // namespace luminal::egraph
