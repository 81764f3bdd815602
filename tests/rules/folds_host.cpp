// rules/folds_host.cpp -- the theory loaded, terms built from C++, and the phases run.
#include "folds_host.h"
#include "base/file.h"
#include "luminal/error.h"
#include <fmt/format.h>
#include <sstream>

namespace luminal::egraph::folds {
namespace {

EggOptions options(NumericClass numeric, int threads) {
  EggOptions out;
  out.limits.rows = 50000;
  out.numeric = numeric;
  out.threads = threads;
  return out;
}

const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/rules/folds/";

std::string text_of_file(const std::string& name) {
  static std::map<std::string, std::string> texts; // read once: many theories are made
  auto [at, made] = texts.try_emplace(name);
  if (made) at->second = read_file(folder + name).value();
  return at->second;
}

} // namespace

Theory::Theory(const std::vector<std::pair<std::string, std::string>>& replaced, NumericClass numeric,
               int threads)
    : program_(options(numeric, threads)) {
  add_sorts();
  program_.run(text_of_file("terms.egg"), "terms.egg");
  add_axes();
  add_facts();
  add_characters();
  add_monoids();
  add_vectors();
  std::string theory = text_of_file("theory.egg");
  for (const auto& [from, to] : replaced) {
    size_t at = theory.find(from);
    if (at == std::string::npos) throw Error("the theory does not have the text " + from);
    for (; at != std::string::npos; at = theory.find(from, at + to.size()))
      theory.replace(at, from.size(), to);
  }
  program_.run(theory, "theory.egg");
}

void Theory::add_sorts() {
  const auto list = [](const std::string& head, const auto& parts) {
    std::string out = "(" + head;
    for (const auto& part : parts) out += " " + part;
    return out + ")";
  };
  program_.add_sort({"Axes", [=, this](Value v) { return list("axes", axes_[v]); }});
  program_.add_sort({"Window", [this](Value v) {
                       const Window& w = windows_[v];
                       std::string out = "(window " + w.axis;
                       for (const auto& [axis, factor] : w.terms) out += fmt::format(" {}*{}", factor, axis);
                       out += fmt::format(" {:+} div {}", w.offset, w.divisor);
                       return out + (w.fill ? fmt::format(" fill {})", *w.fill) : ")");
                     }});
  program_.add_sort({"Character", [this](Value v) {
                       const Character& h = characters_[v];
                       return fmt::format("(character {} {}{})", h.slope, h.power,
                                          h.other ? fmt::format(" [== or {}]", *h.other) : "");
                     }});
  program_.add_sort(
      {"Monoid", [this](Value v) { return "(monoid \"" + algebra_.text(monoids_[v]) + "\")"; }});
  program_.add_sort({"Info", [this](Value v) { return text_of_info(infos_[v]); }});
  program_.add_sort({"Infos", [=, this](Value v) {
                       std::vector<std::string> parts;
                       for (const Value i : vectors_[v]) parts.push_back(text_of_info(infos_[i]));
                       return list("infos", parts);
                     }});
}

std::string Theory::text_of_info(const Info& info) const {
  std::string out = "(info";
  for (const auto& name : names_.names(info.axes)) out += " " + name;
  for (const auto& [axis, passes] : depth(info)) out += fmt::format(" {}:{}", axis, passes);
  out += fmt::format(" sign {}{}", info.sign, info.fixed ? " fixed" : "");
  return out + (info.constant ? fmt::format(" = {})", *info.constant) : ")");
}

Value Theory::axes_value(const std::string& names) {
  std::istringstream in(names);
  Axes out;
  for (std::string name; in >> name;) out.insert(name);
  return axes_.id(out);
}

AxisBits Theory::bits(Value axes) {
  if (bits_.size() <= axes) bits_.resize(axes + 1);
  if (!bits_[axes]) bits_[axes] = names_.bits(axes_[axes]);
  return *bits_[axes];
}

Value Theory::op(const std::string& name, std::initializer_list<Value> args) {
  return program_.graph().add(program_.op(name), std::span(args.begin(), args.size()));
}
Value Theory::in(const std::string& name, const std::string& axes) {
  return op("In", {program_.string(name), axes_value(axes)});
}
Value Theory::par(const std::string& name, const std::string& axes) {
  return op("Par", {program_.string(name), axes_value(axes)});
}
Value Theory::iota(const std::string& axis) { return op("Iota", {program_.string(axis)}); }
Value Theory::constant(double v) { return op("Const", {program_.values().real(v)}); }
Value Theory::dim(const std::string& axes) { return op("Dim", {axes_value(axes)}); }
Value Theory::get(int64_t i, const Monoid& monoid, const std::vector<Value>& bodies,
                  const std::string& axes) {
  const Value all = program_.values().sequence(bodies);
  return op("Get", {program_.integer(i), op("Fold", {monoids_.id(monoid), axes_value(axes), all})});
}
Value Theory::fold(Op o, Value x, const std::string& axes) { return get(0, algebra_.single(o), {x}, axes); }
Value Theory::scan(Op o, Value x, const std::string& axis) {
  const Value bodies[] = {x}, all = program_.values().sequence(bodies);
  return op("Get",
            {program_.integer(0), op("Scan", {monoids_.id(algebra_.single(o)), axes_value(axis), all})});
}
Value Theory::view(const Window& window, Value x) { return op("View", {windows_.id(window), x}); }
Value Theory::rename(Value x, const std::string& from, const std::string& to) {
  return view({from, {{to, 1}}, 0, 1, std::nullopt}, x);
}
Value Theory::mean(Value x, const std::string& axes) {
  return op("Div", {fold(Op::sum, x, axes), dim(axes)});
}

void Theory::split(const std::string& axis, int64_t n) {
  const Value args[] = {program_.string(axis), program_.integer(n)};
  program_.graph().set(program_.op("splits"), args, 0);
  const auto known = extents_.find(axis);
  if (known != extents_.end()) set_extents({{axis + ".i", n}, {axis + ".o", known->second / n}});
}

void Theory::clear() {
  program_.graph().clear();
  extents_.clear();
}

uint64_t Theory::saturate() {
  const uint64_t before = program_.totals().iterations;
  program_.run(text_of_file("schedule.egg"), "schedule.egg");
  return program_.totals().iterations - before;
}
void Theory::find_facts() { program_.run("(run-schedule (saturate facts))", "facts"); }

const Info& Theory::info_of(ClassId c) {
  const Value leader = program_.graph().find(c);
  const auto known = program_.graph().lookup(program_.op("info"), std::span(&leader, 1));
  if (!known) throw Error(fmt::format("nothing is known of class {}", c));
  return infos_[*known];
}
const Axes& Theory::axes_of(ClassId c) { return axes_[axes_.id(names_.names(info_of(c).axes))]; }
Depth Theory::depth(const Info& info) const {
  Depth out;
  for (uint32_t i = 0; i < info.passes.size(); ++i)
    if (info.passes[i] != 0) out[names_.name(i)] = info.passes[i];
  return out;
}
const Depth& Theory::depth_of(ClassId c) { return depths_[depths_.id(depth(info_of(c)))]; }

int Theory::passes(Value x, const std::string& axis) {
  const Depth& depth = depth_of(x);
  const auto at = depth.find(axis);
  return at == depth.end() ? 0 : at->second;
}

std::vector<std::string> Theory::monoids() {
  std::set<std::string> out;
  program_.graph().for_each_row(program_.op("Fold"), [&](const RowView& row) {
    if (monoids_[row.args()[0]].size() > 1) out.insert(algebra_.text(monoids_[row.args()[0]]));
    return true;
  });
  return {out.begin(), out.end()};
}

} // namespace luminal::egraph::folds
