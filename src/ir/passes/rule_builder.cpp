// ir/passes/rule_builder.cpp -- a rule in C++ is written as text, and read like any other.
#include "ir/text_names.h"
#include "luminal/error.h"
#include "luminal/pattern.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

RuleBuilder::RuleBuilder(std::string name, Numerics numerics) : name_(std::move(name)) {
  words_ = numerics == Numerics::exact ? " exact" : numerics == Numerics::reassoc ? " reassoc" : " range";
}
RuleBuilder& RuleBuilder::commutative() {
  words_ += " commutative";
  return *this;
}
RuleBuilder& RuleBuilder::shared() {
  words_ += " shared";
  return *this;
}
RuleBuilder& RuleBuilder::type(std::string name, std::string types) {
  declarations_ += fmt::format("type {}: {}\n", name, types);
  return *this;
}
RuleBuilder& RuleBuilder::shape(std::string name) {
  declarations_ += fmt::format("shape {}\n", name);
  return *this;
}
RuleBuilder& RuleBuilder::symbol(std::string name, std::string range) {
  declarations_ += fmt::format("symbol {}: {}\n", name, range);
  return *this;
}
RuleBuilder& RuleBuilder::where(std::string condition) {
  conditions_ += (conditions_.empty() ? " where " : ", ") + condition;
  return *this;
}

RuleBuilder::Value RuleBuilder::define(std::string text, std::string name) {
  if (name.empty()) name = fmt::format("v{}", names_.size());
  if (!is_plain_name(name)) throw Error(fmt::format("[rule] '{}' cannot name a value", name));
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    throw Error(fmt::format("[rule] {} has a value {} already", name_, name));
  if (replaced_) throw Error(fmt::format("[rule] {} is complete", name_));
  names_.push_back(name);
  if (!text.empty()) (found_ ? right_ : left_) += fmt::format("  %{} = {}\n", name, text);
  return {int(names_.size()) - 1};
}
RuleBuilder::Value RuleBuilder::parameter(std::string type, std::string name) {
  if (found_) throw Error(fmt::format("[rule] {}: a parameter must stand on the left", name_));
  const Value value = define("", std::move(name));
  const bool role = type.starts_with("const ") || type.starts_with("weight ") || type.starts_with("state ");
  const size_t space = role ? type.find(' ') + 1 : 0;
  parameters_ += fmt::format("{}{}%{}: {}", parameters_.empty() ? "" : ", ", type.substr(0, space),
                             names_.back(), type.substr(space));
  return value;
}
RuleBuilder::Value RuleBuilder::op(std::string_view op, std::initializer_list<Value> operands,
                                   std::string name) {
  std::string text(op);
  for (size_t i = 0; i < operands.size(); ++i) text += i == 0 ? " {}" : ", {}";
  return line(text, operands, std::move(name));
}
RuleBuilder::Value RuleBuilder::line(std::string_view text, std::initializer_list<Value> operands,
                                     std::string name) {
  std::string out;
  auto next = operands.begin();
  for (size_t i = 0; i < text.size(); ++i) {
    if (!text.substr(i).starts_with("{}")) {
      out += text[i];
      continue;
    }
    if (next == operands.end() || next->id < 0 || next->id >= int(names_.size()))
      throw Error(fmt::format("[rule] {}: '{}' has no value for one of its operands", name_, text));
    out += "%" + names_[size_t((next++)->id)];
    ++i;
  }
  if (next != operands.end()) throw Error(fmt::format("[rule] {}: '{}' takes fewer operands", name_, text));
  return define(std::move(out), std::move(name));
}
RuleBuilder& RuleBuilder::find(Value root) {
  if (found_) throw Error(fmt::format("[rule] {} has a left side already", name_));
  left_ += "  return %" + names_.at(size_t(root.id)) + "\n";
  found_ = true;
  return *this;
}
RuleBuilder& RuleBuilder::replace(Value with) {
  if (!found_) throw Error(fmt::format("[rule] {}: find comes before replace", name_));
  if (replaced_) throw Error(fmt::format("[rule] {} is complete", name_));
  right_ += "  return %" + names_.at(size_t(with.id)) + "\n";
  replaced_ = true;
  return *this;
}
std::string RuleBuilder::text() const {
  if (!replaced_) throw Error(fmt::format("[rule] {} needs find and replace", name_));
  return fmt::format("{}rule {}{}({}){} {{\n{}}} => {{\n{}}}\n", declarations_, name_, words_, parameters_,
                     conditions_, left_, right_);
}

} // namespace luminal
