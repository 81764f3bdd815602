// ir/ops_apply.cpp -- types of an operation's results, its value rounded to a dtype, and the user's
// operations.
#include "base/check.h"
#include "ir/ops.h"
#include "ir/scalar.h"
#include "ir/user_ops.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <mutex>

namespace luminal {
namespace {

bool allowed(Signature signature, DType type) {
  switch (signature) {
  case Signature::numeric: return type != DType::boolean;
  case Signature::floating:
  case Signature::test: return is_float(type);
  case Signature::bits: return !is_float(type);
  case Signature::shift: return is_integer(type);
  default: return true;
  }
}
std::string_view expected(Signature signature) {
  switch (signature) {
  case Signature::numeric: return "integers or floats of one type";
  case Signature::floating: return "floats of one type";
  case Signature::test: return "a float";
  case Signature::bits: return "integers of one type or bool";
  case Signature::shift: return "integers of one type";
  case Signature::choice: return "bool and two values of one type";
  default: return "two values of one type";
  }
}

/// a * b + c for floats narrower than f64, such that the next rounding to the type is the only one:
/// the product is exact in double, the sum is rounded to odd (Boldo and Melquiond, "Emulation of
/// FMA and correctly rounded sums").
double fma_to_odd(double a, double b, double c) {
  double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  double back = sum - product, error = (product - (sum - back)) + (c - back);
  auto pattern = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (pattern & 1)) return sum;
  return std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const UserOp>, std::less<>> ops;
  std::vector<std::unique_ptr<const UserOp>> forgotten;
};
Registry& registry() {
  static Registry instance;
  return instance;
}

bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  for (char c : name)
    if (!letter(c) && !(c >= '0' && c <= '9')) return false;
  return true;
}

/// The definition must compute the same function: compared at points of the sample range.
void check_definition(const UserOp& op) {
  static const std::vector<std::string> leaves = {"a", "b", "c"};
  Scalar program =
      parse_scalar(op.definition, std::vector<std::string>(leaves.begin(), leaves.begin() + op.arity));
  if (!op.f64) return;
  for (int point = 0; point < 16; ++point) {
    double x[3];
    for (int i = 0; i < 3; ++i)
      x[i] = op.low + (op.high - op.low) * (((point * (5 + 2 * i) + i) % 16) + 0.5) / 16;
    double own = op.f64(x), defined = evaluate_f64(program, x);
    double scale = std::fmax(std::fmax(std::fabs(own), std::fabs(defined)), 1e-3);
    if (std::isnan(own) && std::isnan(defined)) continue;
    if (!(own == defined || std::fabs(own - defined) <= 1e-6 * scale))
      throw Error("register_op",
                  fmt::format("'{}' gives {} at {} and its definition {}", op.name, own, x[0], defined));
  }
}

} // namespace

std::optional<DType> result_type(Signature signature, int arity, const DType* args, std::string* why) {
  int first = signature == Signature::choice ? 1 : 0;
  bool ok = signature != Signature::choice || args[0] == DType::boolean;
  for (int i = first; i < arity; ++i) ok &= args[i] == args[first] && allowed(signature, args[i]);
  if (ok)
    return signature == Signature::comparison || signature == Signature::test ? DType::boolean : args[first];
  if (why) {
    *why = fmt::format("expected {}, found ", expected(signature));
    for (int i = 0; i < arity; ++i) *why += fmt::format("{}{}", i ? ", " : "", to_string(args[i]));
  }
  return {};
}
std::optional<DType> result_type(const OpRow& row, const DType* args, std::string* why) {
  return result_type(row.signature, row.arity, args, why);
}

double apply_f64(Op op, DType type, const double* x) {
  const OpRow& r = row(op);
  LUMINAL_CHECK(r.f64, "{} on {}", r.name, to_string(type));
  if (op == Op::fma && type != DType::f64) return round_to(type, fma_to_odd(x[0], x[1], x[2]));
  double value = r.f64(x);
  return r.signature == Signature::comparison || r.signature == Signature::test ? value
                                                                                : round_to(type, value);
}
int64_t apply_i64(Op op, DType type, const int64_t* x) {
  const OpRow& r = row(op);
  LUMINAL_CHECK(r.i64, "{} on {}", r.name, to_string(type));
  int64_t value = r.i64(x, type);
  return r.signature == Signature::comparison ? value : wrap(type, value);
}

std::string ops_markdown() {
  static constexpr std::string_view signatures[] = {
      "numbers", "floats", "integers, bool", "integers", "any to bool", "float to bool", "bool, any, any"};
  std::string text =
      "# The op table\n\n"
      "One elementwise operation is one row of `src/ir/ops.cpp`; their common semantics are at the head of\n"
      "`src/ir/ops.h`. This page is printed from the table by the tests (`LUMINAL_UPDATE=1`). ulp: the error "
      "of a\n"
      "direct evaluation that code generation promises, in units of the last place.\n\n"
      "| name | arguments | on | meaning | ulp | folds as | definition |\n|---|---|---|---|---|---|---|\n";
  for (int i = 0; i < op_count; ++i) {
    const OpRow& r = row(Op(i));
    std::string definition = r.definition.empty()        ? ""
                             : r.definition.size() > 120 ? "in the table"
                                                         : fmt::format("`{}`", r.definition);
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", r.name,
                        std::string_view("a, b, c").substr(0, size_t(3 * r.arity - 2)),
                        signatures[size_t(r.signature)], r.doc, r.ulp, r.monoid, definition);
  }
  return text;
}

void register_op(UserOp op) {
  auto fail = [&](std::string_view text) {
    throw Error("register_op", fmt::format("'{}' {}", op.name, text));
  };
  if (!is_identifier(op.name)) fail("is not an identifier");
  if (parse_op(op.name) || parse_monoid_word(op.name)) fail("is the name of a built-in operation");
  for (std::string_view word : {"const", "iota", "random",     "cast", "bitcast", "view", "scatter", "fold",
                                "scan",  "sort", "collective", "call", "loop",    "cond", "host",    "custom",
                                "fence", "get",  "gt",         "ge",   "inf",     "nan",  "select"})
    if (op.name == word) fail("is a word of the text form");
  if (op.arity < 1 || op.arity > 3) fail("must have 1 to 3 arguments");
  bool integers_only = op.signature == Signature::bits || op.signature == Signature::shift;
  if (!integers_only && !op.f64) fail("lacks its evaluation on floats (f64)");
  if (integers_only && !op.i64) fail("lacks its evaluation on integers (i64)");
  if (op.signature == Signature::choice && op.arity != 3) fail("is a choice and must have 3 arguments");
  if (op.text.empty() && op.definition.empty()) fail("needs a text for each language or a definition");
  if (!(op.low < op.high)) fail("has an empty sample range");
  if (!op.definition.empty()) check_definition(op);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto [at, fresh] = r.ops.try_emplace(op.name);
  if (!fresh) {
    const UserOp& old = *at->second;
    if (old.arity != op.arity || old.signature != op.signature || old.text != op.text ||
        old.definition != op.definition)
      fail("is registered already, as a different operation");
    return;
  }
  at->second = std::make_unique<const UserOp>(std::move(op));
}
void forget_op(std::string_view name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  const auto at = r.ops.find(name);
  if (at == r.ops.end()) return;
  r.forgotten.push_back(std::move(at->second));
  r.ops.erase(at);
}
const UserOp* find_user_op(std::string_view name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto at = r.ops.find(name);
  return at == r.ops.end() ? nullptr : at->second.get();
}

std::vector<const UserOp*> user_ops() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<const UserOp*> list;
  for (const auto& [name, op] : r.ops) list.push_back(op.get());
  return list;
}
std::vector<DType> argument_types(const UserOp& op) {
  std::vector<DType> types;
  for (int t = 0; t < dtype_count; t++) {
    const auto type = DType(t);
    if (type == DType::boolean && op.signature == Signature::comparison)
      continue; // whether it has a value is not said
    if (!allowed(op.signature, type) || (is_float(type) ? !op.f64 : !op.i64)) continue;
    types.push_back(type);
  }
  return types;
}

} // namespace luminal
