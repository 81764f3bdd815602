// rules/region_terms.cpp -- sorts and constructors of the language of terms, and hashes of payloads.
#include "rules/region_terms.h"
#include "base/check.h"
#include "base/embedded.h"
#include "base/hash.h"
#include "ir/passes/edit.h"
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

} // namespace

uint64_t Number::hash() const { return hash_mix(uint64_t(dtype), bits); }
uint64_t Iota::hash() const { return hash_mix(uint64_t(dtype), value.id()); }
uint64_t Along::hash() const { return hash_mix(axis, uint64_t(exclusive) * 2 + uint64_t(reverse)); }
uint64_t Payload::hash() const {
  uint64_t h = hash_mix(passes::quick_hash({kind_of(attr), attr, {}, {}, {}, {}, {}}), unique);
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

RegionTerms::RegionTerms() {
  add_sorts();
  program_.run(text_of("terms.egg"), "terms.egg");
  std::string rows;
  for (int k = 0; k < op_count; ++k) {
    rows += fmt::format("(constructor {} (", constructor_name(Op(k)));
    for (int a = 0; a < row(Op(k)).arity; ++a) rows += a == 0 ? "V" : " V";
    rows += ") V)\n";
  }
  program_.run(rows, "rows of the op table");
  for (int k = 0; k < op_count; ++k) ops_.rows[size_t(k)] = program_.op(constructor_name(Op(k)));
  const std::pair<egraph::OpId*, const char*> named[] = {
      {&ops_.in, "In"},       {&ops_.par, "Par"},       {&ops_.number, "Const"},
      {&ops_.index, "Index"}, {&ops_.cast, "Cast"},     {&ops_.op, "Op"},
      {&ops_.view, "View"},   {&ops_.fold, "Fold"},     {&ops_.scan, "Scan"},
      {&ops_.get, "Get"},     {&ops_.opaque, "Opaque"}, {&ops_.opaque_tuple, "OpaqueTuple"}};
  for (const auto& [id, name] : named) *id = program_.op(name);
  add_primitives();
  program_.run(text_of("scalar.egg"), "scalar.egg");
}

void RegionTerms::add_primitives() {
  const auto guard = [&](const char* name, std::vector<std::string> inputs, auto test) {
    program_.add_primitive({name, std::move(inputs), "Unit", [test](std::span<const Value> args, Value& out) {
                              out = 0;
                              return test(args);
                            }});
  };
  guard("is", {"Number", "f64"}, [this](std::span<const Value> a) { // zeros of either sign alike
    const Number& n = numbers[a[0]];
    const double value = program_.values().real_of(a[1]);
    return is_float(n.dtype) ? std::bit_cast<double>(n.bits) == value : double(int64_t(n.bits)) == value;
  });
  guard("total", {"Place"}, [this](std::span<const Value> a) { // it is never outside
    const Place& place = places[a[0]];
    return place.predicate.is_constant(1) &&
           std::ranges::none_of(place.holes, [](const PlaceHole& h) { return h.policy == OutOfRange::fill; });
  });
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
  sort("Monoid", [this](Value v) { return fmt::format("(monoid \"{}\")", luminal::to_string(monoids_[v])); });
  sort("Axes", [this](Value v) { return text(sets[v]); });
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
