// models/onnx/dimensions.cpp -- dynamic dimensions of a file: their names, and what nodes say of their
// sizes. Files often name every extent, channels and features too, or one extent twice.
#include "base/print.h"
#include "base/text.h"
#include "models/onnx/importer.h"
#include "tensor/extents.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx {
namespace {

constexpr int64_t most_steps = 256;

/// Letters, digits and _ as the name of a symbol: files have "batch-size" and "past + 1".
std::string symbol_name(const std::string& name) {
  std::string made;
  for (const char c : name) {
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z', digit = c >= '0' && c <= '9';
    if (made.empty() && !letter && c != '_') made = "d";
    const bool dot = c == '.' && !made.empty() && made.back() != '.' && c != name.back();
    made += letter || digit || dot ? c : '_';
  }
  for (const std::string_view keyword : {"min", "max", "ceildiv", "and", "or", "not"})
    if (made == keyword) made += "_";
  return made.empty() ? "d" : made;
}

} // namespace

std::string dimension_name(const ValueData& input, size_t axis) {
  const std::string name = axis < input.shape.size() ? input.shape[axis].name : "";
  return name.empty() ? fmt::format("{}.{}", input.name, axis) : name;
}

void Importer::check_dimensions() const {
  std::vector<std::string> names;
  for (const ValueData& input : file_.graph.inputs) {
    const auto given = options_.shapes.find(input.name);
    const size_t rank = input.has_shape                  ? input.shape.size()
                        : given != options_.shapes.end() ? given->second.size()
                                                         : 0;
    for (size_t d = 0; d < rank; d++) {
      const std::string name = dimension_name(input, d);
      const bool open = !input.has_shape || !input.shape[d].value;
      if (open && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  for (const auto& [name, range] : options_.dims)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw Error("onnx",
                  fmt::format("{}: no input has a dimension '{}'; {}", file_.path, printable(name, 80),
                              names.empty() ? "the sizes of all inputs are fixed"
                                            : fmt::format("there is {}", printable(join(names), 400))),
                  where_);
}

std::string Importer::open_dimensions() const {
  std::vector<std::string> open;
  for (const auto& [name, dim] : dims_)
    if (!dim.is_constant()) open.push_back(printable(name, 80));
  return open.empty() ? ""
                      : fmt::format("; {} {} open, a size may settle it (OnnxOptions::dims, --size)",
                                    join(open), open.size() == 1 ? "is" : "are");
}

Dim Importer::dimension(const std::string& name) {
  if (const auto known = dims_.find(name); known != dims_.end()) return known->second;
  if (const auto value = solved_.values.find(name); value != solved_.values.end())
    return dims_.emplace(name, Dim::from_id(value->second.id())).first->second;
  const auto range = options_.dims.find(name);
  const auto [low, high] =
      range == options_.dims.end() ? std::pair<int64_t, int64_t>{1, 4096} : range->second;
  if (low == high) return dims_.emplace(name, Dim(low)).first->second;
  // Every name of the file has its symbol, whatever is solved already.
  if (names_.empty())
    for (const ValueData& input : file_.graph.inputs)
      for (size_t d = 0; d < input.shape.size(); d++) {
        const std::string each = dimension_name(input, d);
        std::string symbol = symbol_name(each);
        if (std::any_of(names_.begin(), names_.end(), [&](const auto& n) { return n.second == each; }))
          continue;
        while (names_.contains(symbol)) symbol += "_";
        names_[symbol] = each;
      }
  const auto known =
      std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.second == name; });
  std::string symbol = known == names_.end() ? symbol_name(name) : known->first;
  while (known == names_.end() && names_.contains(symbol)) symbol += "_";
  const auto step = solved_.steps.find(name);
  const Dim made =
      model_.graph.dim(symbol, low, high, step == solved_.steps.end() ? 1 : step->second, where_);
  names_[symbol] = name;
  return dims_.emplace(name, made).first->second;
}

Dim Importer::cut_at(const Dim& place, const Dim& extent) {
  if (place.is_constant() || extent.is_constant() || place.low() < 0 || solved_.inside) return place;
  const Dim first = min(place, extent);
  has_cut_ |= !(first == place) && !(first == extent);
  return first;
}

/// Extents must be equal for a node: a dimension that has one value then takes it, one that is a multiple of
/// a number then is known to be one. False where that does not make them equal.
bool Importer::solve(Expr a, Expr b) {
  const auto named = [&](Expr symbol) { return names_.find(std::string(symbol.name())); };
  const auto ours = [&](Expr e) {
    for (const Expr symbol : symbols_of(e))
      if (named(symbol) == names_.end()) return false;
    return true;
  };
  const Expr difference = a - b;
  if (!ours(difference)) return false;
  const auto replace = [&](Expr symbol, Expr value) {
    for (auto& [other, known] : solved_.values)
      if (depends_on(known, symbol)) known = substitute(known, {{symbol, value}});
  };
  for (const bool numbers : {true, false}) // numbers come first
    for (const Expr symbol : symbols_of(difference)) {
      const auto factor = coefficient_of(difference, symbol);
      if (!factor || !factor->is_constant() || factor->is_constant(0)) continue;
      const Expr rest = difference - *factor * symbol;
      Expr value;
      if (rest.is_constant() && rest.value() % factor->value() == 0)
        value = Expr(-rest.value() / factor->value());
      else if (!numbers && (factor->value() == 1 || factor->value() == -1))
        value = rest * Expr(-factor->value());
      else
        continue;
      if (value.range().low > symbol.range().high || value.range().high < symbol.range().low) continue;
      if (!value.is_constant() && value.range().low < 0) continue; // past + new, and not the other way round
      if (value.is_constant() && value.value() % symbol.multiple() != 0) continue;
      const std::string& name = named(symbol)->second;
      try {
        replace(symbol, value);
      } catch (const Error&) {
        return false;
      }
      solved_.values[name] = value;
      return true;
    }
  for (const Expr symbol : symbols_of(difference))
    for (int64_t step = 2; step <= most_steps; step++) {
      const int64_t whole = std::lcm(step, symbol.multiple());
      const Interval range = symbol.range();
      if (whole == symbol.multiple() || whole > range.high) continue;
      const Expr part = Expr::symbol("onnx.part", {(range.low + whole - 1) / whole, range.high / whole});
      const Expr in_steps = part * Expr(whole);
      try {
        if (!proves_equal(substitute(a, {{symbol, in_steps}}), substitute(b, {{symbol, in_steps}}))) continue;
      } catch (const Error&) {
        continue;
      }
      replace(symbol, Expr::symbol(symbol.name(), range, whole));
      solved_.steps[named(symbol)->second] = whole;
      return true;
    }
  return false;
}

} // namespace luminal::onnx
