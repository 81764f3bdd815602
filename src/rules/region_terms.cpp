// rules/region_terms.cpp -- sorts and constructors of the language of terms, and hashes of payloads.
#include "rules/region_terms.h"
#include "base/check.h"
#include "base/embedded.h"
#include "base/hash.h"
#include "ir/passes/edit.h"
#include "luminal/error.h"
#include "rules/rule_book.h"
#include "rules/theory.h"
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>

LUMINAL_EMBEDDED(rule_files)

namespace luminal::rules {
namespace {

/// gelu_tanh: GeluTanh.
std::string constructor_name(Op op) {
  std::string out;
  bool upper = true;
  for (const char c : to_string(op)) {
    if (c == '_') {
      upper = true;
      continue;
    }
    out += upper ? char(std::toupper(c)) : c;
    upper = false;
  }
  return out;
}

std::string text_of(const std::string& name) {
  for (const EmbeddedFile& file : embedded::rule_files())
    if (file.name == name) return std::string(file.content);
  LUMINAL_CHECK(false, "{} is not embedded", name);
}

std::string text(const AxisSet& axes) {
  std::vector<int> list;
  axes.for_each([&](AxisId a) { list.push_back(a); });
  return fmt::format("(axes {})", fmt::join(list, " "));
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

} // namespace

uint64_t Number::hash() const { return hash_mix(uint64_t(dtype), bits); }
uint64_t Iota::hash() const { return hash_mix(uint64_t(dtype), value.id()); }
uint64_t Along::hash() const { return hash_mix(axis, uint64_t(exclusive) * 2 + uint64_t(reverse)); }
uint64_t Tiling::hash() const { return hash_mix(uint64_t(out) << 16 | window, uint64_t(tile)); }
uint64_t Payload::hash() const {
  uint64_t h =
      hash_mix(passes::quick_hash({kind_of(attr), attr, {}, {}, {}, {}, {}}), uint64_t(unique.number()) + 1);
  for (const uint32_t form : operands) h = hash_mix(h, form);
  for (const uint32_t form : results) h = hash_mix(h, form);
  return h;
}

Number number_of(const Node& constant) {
  const auto& attr = std::get<ConstantAttr>(constant.attr);
  const DType type = attr.type.dtype;
  if (is_float(type)) return {type, std::bit_cast<uint64_t>(load_f64(type, attr.data->data(), 0))};
  return {type, uint64_t(load_i64(type, attr.data->data(), 0))};
}

Number identity(const Monoid& monoid, int component) {
  const DType type = monoid.components()[size_t(component)].dtype;
  if (is_float(type)) return {type, std::bit_cast<uint64_t>(monoid.identity(component))};
  return {type, uint64_t(monoid.identity_integer(component))};
}

Hash128 built_in_rules_hash() {
  Hasher hasher;
  for (const EmbeddedFile& file : embedded::rule_files()) hasher.add(file.name).add(file.content);
  return hasher.value128();
}

RegionTerms::RegionTerms(const TheoryOptions& options, egraph::EggOptions egg)
    : options_(options), program_([&] {
        egg.numeric = options.numeric;
        egg.files = false;
        return std::move(egg);
      }()) {
  replaced_.resize(options_.replaced.size());
  left_out_.resize(options_.without.size());
  add_sorts();
  if (!options_.without.empty()) program_.run("(ruleset parked)"); // which nothing runs
  read("terms.egg");
  add_rows();
  add_theory(*this);
  if (!options_.rules) return;
  for (const char* file : {"facts.egg", "scalar.egg", "algebra.egg", "folds.egg", "views.egg", "families.egg",
                           "cascades.egg", "tiles.egg"})
    read(file);
  for (size_t k = 0; k < replaced_.size(); ++k)
    LUMINAL_CHECK(replaced_[k], "the rules do not have the text {}", options_.replaced[k].first);
  info_ = program_.op("info");
  for (const RuleFile& file : options_.more) run(file.text, file.name);
  const auto missing = std::ranges::find(left_out_, false);
  if (missing == left_out_.end()) return;
  std::vector<std::string_view> names;
  for (egraph::RuleId id = 0; id < graph().rule_count(); ++id) names.emplace_back(graph().rule(id).name);
  throw Error(no_rule(options_.without[size_t(missing - left_out_.begin())], names));
}

void RegionTerms::add_rows() {
  std::string rows;
  for (int k = 0; k < op_count; ++k) {
    rows += fmt::format("(constructor {} (", constructor_name(Op(k)));
    for (int a = 0; a < row(Op(k)).arity; ++a) rows += a == 0 ? "V" : " V";
    rows += ") V)\n";
  }
  program_.run(rows, "rows of the op table");
  for (int k = 0; k < op_count; ++k) ops_.rows[size_t(k)] = program_.op(constructor_name(Op(k)));
  const std::pair<egraph::OpId*, const char*> named[] = {
      {&ops_.in, "In"},        {&ops_.par, "Par"},       {&ops_.number, "Const"},
      {&ops_.index, "Index"},  {&ops_.cast, "Cast"},     {&ops_.op, "Op"},
      {&ops_.view, "View"},    {&ops_.fold, "Fold"},     {&ops_.scan, "Scan"},
      {&ops_.get, "Get"},      {&ops_.opaque, "Opaque"}, {&ops_.opaque_tuple, "OpaqueTuple"},
      {&ops_.extent, "Extent"}};
  for (const auto& [id, name] : named) *id = program_.op(name);
}

void RegionTerms::read(const std::string& file) {
  std::string text = text_of(file);
  for (int arity = 1; arity <= 3; ++arity) { // constructors by number of operands; they hold floats
    std::string names;
    for (int k = 0; k < op_count; ++k)
      if (row(Op(k)).arity == arity && row(Op(k)).signature != Signature::bits &&
          row(Op(k)).signature != Signature::shift)
        names += (names.empty() ? "" : " ") + constructor_name(Op(k));
    replace_all(text, fmt::format("ROWS-{}", arity), names);
  }
  for (size_t k = 0; k < options_.replaced.size(); ++k) {
    const auto& [from, to] = options_.replaced[k];
    replaced_[k] = replaced_[k] || text.find(from) != std::string::npos;
    replace_all(text, from, to);
  }
  run(text, file);
}

void RegionTerms::run(const std::string& text, const std::string& file) {
  texts_.emplace_back(file, text);
  if (options_.without.empty())
    program_.run(text, file);
  else
    program_.run(parked_rules(text, file, options_.without, left_out_), file);
}

void RegionTerms::add_sorts() {
  const auto sort = [&](const char* name, auto print) { program_.add_sort({name, print}); };
  sort("Leaf", [this](Value v) { return fmt::format("(leaf {})", leaves[v].node); });
  sort("Number", [this](Value v) {
    const Number& n = numbers[v];
    return is_float(n.dtype) ? fmt::format("({} {})", to_string(n.dtype), std::bit_cast<double>(n.bits))
                             : fmt::format("({} {})", to_string(n.dtype), int64_t(n.bits));
  });
  sort("Iota", [this](Value v) {
    return fmt::format("({} {})", to_string(iotas[v].dtype), luminal::to_string(iotas[v].value));
  });
  sort("DType", [](Value v) { return std::string(luminal::to_string(DType(v))); });
  sort("Payload",
       [this](Value v) { return fmt::format("({} {})", luminal::to_string(kind_of(payloads[v].attr)), v); });
  sort("Place", [this](Value v) { return to_string(places[v]); });
  sort("Info", [this](Value v) { return to_string(infos[v]); });
  sort("Infos", [this](Value v) {
    std::string out = "(infos";
    for (const Value i : info_lists[v].infos) out += " " + to_string(infos[i]);
    return out + ")";
  });
  sort("Character", [this](Value v) {
    const Character& h = characters[v];
    return fmt::format("(character {}{} {}{})", h.slope, h.base2 ? " base 2" : "", h.power,
                       h.other ? fmt::format(" [== or {}]", *h.other) : "");
  });
  sort("Monoid", [this](Value v) { return fmt::format("(monoid \"{}\")", luminal::to_string(monoids_[v])); });
  sort("Axes", [this](Value v) { return text(sets[v]); });
  sort("Tiling", [this](Value v) {
    const Tiling& t = tilings[v];
    return fmt::format("(tiling {} {} {})", t.out, t.window, t.tile);
  });
  sort("Along", [this](Value v) {
    return fmt::format("(along {}{}{})", alongs[v].axis, alongs[v].exclusive ? " exclusive" : "",
                       alongs[v].reverse ? " reverse" : "");
  });
}

void RegionTerms::clear() {
  graph().clear();
  axes.clear();
  leaves.clear();
  forms.clear();
  numbers.clear();
  iotas.clear();
  alongs.clear();
  sets.clear();
  places.clear();
  payloads.clear();
  infos.clear();
  info_lists.clear();
  characters.clear();
  tilings.clear();
}

std::optional<Op> RegionTerms::row_of(egraph::OpId op) const {
  // Constructors of rows are made one after the other.
  if (op < ops_.rows.front() || op > ops_.rows.back()) return {};
  return Op(op - ops_.rows.front());
}

Value RegionTerms::monoid(Monoid m) {
  const auto [at, made] = monoid_numbers_.try_emplace(m.id(), Value(monoids_.size()));
  if (made) monoids_.push_back(m);
  return at->second;
}

} // namespace luminal::rules
