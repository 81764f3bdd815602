// egg/egg_files.cpp -- facts from tables in files, and terms into files.
#include "base/file.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <charconv>
#include <fmt/format.h>
#include <fstream>

namespace luminal::egraph {

/// (input <function> "<file>"): lines of fields separated by tabs, the arguments and, of functions,
/// the value.
void EggProgram::Impl::add_input(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 3) syntax.fail(command, "usage: (input <function> \"<file>\")");
  const Symbol symbol = name(items[1], "the name of a function");
  const NameEntry entry = schema.find(symbol);
  if (entry.kind != NameKind::function)
    syntax.fail(items[1],
                fmt::format("there is no function '{}'{}", syntax.text(symbol), schema.suggestion(symbol)));
  const FunctionInfo f = schema.functions[entry.index];
  std::vector<SortId> sorts = f.inputs;
  if (f.kind == FunctionKind::custom) sorts.push_back(f.output);
  for (const SortId sort : sorts)
    if (sort != BuiltinSort::i64 && sort != BuiltinSort::f64 && sort != BuiltinSort::string &&
        sort != BuiltinSort::unit)
      syntax.fail(items[1],
                  fmt::format("values of the sort {} cannot be read from a file", schema.sort_name(sort)));
  if (!options.files) syntax.fail(command, "files cannot be read here");
  const std::string path = find_file(items[2]);
  const Result<std::string> text = read_file(path);
  if (!text.ok()) fail_run(items[2], text.error());
  uint64_t number = 0;
  for (const std::string_view line : split(*text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const auto fields = split(line, '\t');
    const auto fail = [&](std::string_view what) {
      fail_run(items[2], fmt::format("{}:{}: {}", path, number, what));
    };
    std::vector<Value> row;
    for (size_t i = 0; i < sorts.size(); ++i) {
      if (sorts[i] == BuiltinSort::unit) {
        row.push_back(0);
        continue;
      }
      if (i >= fields.size())
        fail(fmt::format("expected {} fields separated by tabs, found {}", sorts.size(), fields.size()));
      const std::string_view field = trim(fields[i]);
      const char* end = field.data() + field.size();
      if (sorts[i] == BuiltinSort::string) {
        if (!is_utf8(field)) fail("the text is not UTF-8");
        row.push_back(syntax.symbols().intern(field));
      } else if (sorts[i] == BuiltinSort::i64) {
        int64_t value = 0;
        const auto read = std::from_chars(field.data(), end, value);
        if (read.ec != std::errc() || read.ptr != end)
          fail(fmt::format("'{}' is not an integer of 64 bits", printable(field)));
        row.push_back(pool.integer(value));
      } else {
        double value = 0;
        const auto read = std::from_chars(field.data(), end, value);
        if (read.ec != std::errc() || read.ptr != end)
          fail(fmt::format("'{}' is not a number", printable(field)));
        row.push_back(pool.real(value));
      }
    }
    if (fields.size() > sorts.size())
      fail(fmt::format("expected {} fields, found {}", sorts.size(), fields.size()));
    if (f.relation) {
      graph.set(f.op, row, 0);
    } else if (f.kind == FunctionKind::constructor) {
      graph.add(f.op, row);
    } else {
      graph.set(f.op, std::span(row).first(f.inputs.size()), row.back());
    }
  }
}

/// (output "<file>" <expression>+): the cheapest terms, a line each, after what the file holds.
void EggProgram::Impl::output_command(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() < 3 || syntax[items[1]].kind != NodeKind::string)
    syntax.fail(command, "usage: (output \"<file>\" <expression>+)");
  if (!options.files) syntax.fail(command, "files cannot be written here");
  std::string text;
  for (const NodeId expression : items.subspan(2)) {
    const EggValue value = evaluate(expression, no_sort);
    text += TermWriter(*this, {value.sort}).text(value.sort, value.value) + "\n";
  }
  const std::string path(syntax.text(syntax[items[1]].symbol));
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out << text;
  out.close();
  if (!out) fail_run(items[1], fmt::format("{} cannot be written", path));
}

} // namespace luminal::egraph
