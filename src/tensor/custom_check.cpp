// tensor/custom_check.cpp -- operations of the user are tried like those of the table; their rules.
#include "ir/interp.h"
#include "ir/scalar.h"
#include "ir/user_ops.h"
#include "luminal/custom.h"
#include "luminal/functions.h"
#include "tensor/custom_rules.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <mutex>
#include <random>

namespace luminal {
namespace {

struct RuleTable {
  std::mutex mutex;
  std::map<std::string, Rules> rules;
};
RuleTable& rule_table() {
  static RuleTable table;
  return table;
}

constexpr int64_t columns = 3, most = 8;

/// One dtype: every layout in one graph, compiled once, run at several sizes.
class Trial {
public:
  Trial(const UserOp& op, DType type, uint64_t seed, std::vector<std::string>& failures)
      : op_(op), type_(type), random_(seed), failures_(failures), n_(graph_.dim("n", 0, most)) {
    std::vector<Tensor> plain, turned, rows;
    for (int a = 0; a < op.arity; a++) {
      plain.push_back(input({n_, columns}));
      turned.push_back(input({columns, n_}).transpose());
      rows.push_back(a == 0 ? plain[0] : input({columns})); // broadcast along n
    }
    add("contiguous", plain);
    add("transposed", turned);
    add("broadcast", rows);
  }

  void run() {
    for (int64_t size : {int64_t(0), int64_t(1), most - 1}) {
      graph_.set_dim("n", size);
      for (Tensor& tensor : inputs_) fill(tensor);
      graph_.execute();
      for (const Form& form : forms_) compare(form, size);
    }
  }

private:
  struct Form {
    std::string name;
    std::vector<Tensor> operands;
    Tensor result;
  };

  Tensor input(Dims shape) { return inputs_.emplace_back(graph_.tensor(std::move(shape), type_)); }
  void add(std::string name, const std::vector<Tensor>& operands) {
    std::vector<Tensor> shown;
    Tensor result = apply_operation(op_.name, operands).keep();
    for (const Tensor& t : operands) shown.push_back(t.expand({n_, columns}).contiguous().keep());
    forms_.push_back({std::move(name), std::move(shown), result});
  }
  void fill(Tensor& tensor) {
    const int64_t count = tensor.element_count();
    std::vector<std::byte> bytes(size_t(storage_bytes(type_, count)));
    for (int64_t i = 0; i < count; i++) {
      const double unit = double(random_() >> 11) * 0x1p-53, value = op_.low + (op_.high - op_.low) * unit;
      if (is_float(type_))
        store_f64(type_, bytes.data(), i, round_to(type_, value));
      else
        store_i64(type_, bytes.data(), i,
                  random_() % 4 == 0 ? wrap(type_, int64_t(random_())) : truncate_to(type_, value));
    }
    tensor.set_bytes(bytes, type_);
  }
  static std::vector<std::byte> bytes_of(const Tensor& tensor) {
    std::vector<std::byte> bytes(size_t(storage_bytes(tensor.dtype(), tensor.element_count())));
    tensor.read(bytes.data(), tensor.dtype());
    return bytes;
  }
  void compare(const Form& form, int64_t size) {
    const DType to = form.result.dtype();
    const std::vector<std::byte> got = bytes_of(form.result);
    std::vector<std::vector<std::byte>> in;
    for (const Tensor& t : form.operands) in.push_back(bytes_of(t));
    for (int64_t i = 0; i < size * columns; i++) {
      double x[3] = {}, want, have;
      int64_t n[3] = {};
      for (size_t a = 0; a < in.size(); a++)
        if (is_float(type_))
          x[a] = load_f64(type_, in[a].data(), i);
        else
          x[a] = double(n[a] = load_i64(type_, in[a].data(), i));
      bool same;
      if (is_float(type_)) {
        want = is_float(to) ? round_to(to, op_.f64(x)) : op_.f64(x);
        have = is_float(to) ? load_f64(to, got.data(), i) : double(load_i64(to, got.data(), i));
        const double unit =
            is_float(to) ? std::fmax(2 * unit_roundoff(to) * std::fabs(want), least_subnormal(to)) : 0;
        same = std::isnan(want) ? std::isnan(have) : have == want || std::fabs(have - want) <= op_.ulp * unit;
      } else {
        const int64_t exact = is_float(to) ? 0 : wrap(to, op_.i64(n, type_)),
                      found = load_i64(to, got.data(), i);
        same = exact == found;
        want = double(exact), have = double(found);
      }
      if (same) continue;
      std::string arguments;
      for (size_t a = 0; a < in.size(); a++) arguments += fmt::format("{}{:.9g}", a ? ", " : "", x[a]);
      failures_.push_back(fmt::format("{}({}) on {}, {}, size {}: compiled {:.9g}, evaluated {:.9g}",
                                      op_.name, arguments, to_string(type_), form.name, size, have, want));
      return; // one a form
    }
  }

  const UserOp& op_;
  DType type_;
  std::mt19937_64 random_;
  std::vector<std::string>& failures_;
  Graph graph_;
  Dim n_;
  std::vector<Tensor> inputs_;
  std::vector<Form> forms_;
};

void try_derivatives(const UserOp& op, uint64_t seed, std::vector<std::string>& failures) {
  std::mt19937_64 random(seed);
  for (int d = 0; d < op.arity; d++) {
    if (op.derivative[d].empty()) continue;
    const Scalar program = parse_scalar(op.derivative[d], {"a", "b", "c", "out"});
    for (int point = 0; point < 16; point++) {
      double x[4] = {};
      for (int a = 0; a < 3; a++) x[a] = op.low + (op.high - op.low) * double(random() >> 11) * 0x1p-53;
      double before[3] = {x[0], x[1], x[2]}, after[3] = {x[0], x[1], x[2]};
      const double step = 1e-6 * std::fmax(1, std::fabs(x[d]));
      before[d] -= step, after[d] += step;
      x[3] = op.f64(x);
      const double stated = evaluate_f64(program, x),
                   found = (op.f64(after) - op.f64(before)) / (after[d] - before[d]);
      if (!(std::fabs(stated - found) <= 1e-4 * std::fmax(1, std::fabs(found)))) {
        failures.push_back(
            fmt::format("the derivative of {} by {} at {:.9g}, {:.9g}, {:.9g} is stated as {:.9g}, "
                        "differences give {:.9g}",
                        op.name, "abc"[d], x[0], x[1], x[2], stated, found));
        break;
      }
    }
  }
}

} // namespace

std::vector<std::string> registered_operations() {
  std::vector<std::string> names;
  for (const UserOp* op : user_ops()) names.push_back(op->name);
  return names;
}

std::vector<std::string> test_operation(const std::string& name, uint64_t seed, Where where) {
  const UserOp* op = find_user_op(name);
  if (!op)
    throw Error("test_operation",
                fmt::format("there is no operation '{}'; register_operation makes one known", name), where);
  std::vector<std::string> failures;
  for (DType type : argument_types(*op)) {
    if (bits(type) < 8) continue; // no tensor of the user is made of them
    try {
      Trial(*op, type, seed, failures).run();
    } catch (const Error& error) {
      failures.push_back(fmt::format("on {}: {}", to_string(type), error.what()));
    }
  }
  if (op->f64) try_derivatives(*op, seed, failures);
  if (const auto rules = rules_of(name))
    for (std::string& failure : rules->test(40, seed)) failures.push_back(std::move(failure));
  return failures;
}

void remember_rules(const std::string& operation, Rules rules) {
  RuleTable& table = rule_table();
  std::lock_guard lock(table.mutex);
  table.rules.insert_or_assign(operation, std::move(rules));
}
std::optional<Rules> rules_of(const std::string& operation) {
  RuleTable& table = rule_table();
  std::lock_guard lock(table.mutex);
  const auto found = table.rules.find(operation);
  return found == table.rules.end() ? std::nullopt : std::optional(found->second);
}
std::optional<Pass> pass_of_operations() {
  RuleTable& table = rule_table();
  std::lock_guard lock(table.mutex);
  std::vector<Pass> parts;
  for (const auto& [name, rules] : table.rules) parts.push_back(rules.pass("operations", Numerics::exact));
  if (parts.empty()) return {};
  return looped(sequence(std::move(parts)));
}

} // namespace luminal
