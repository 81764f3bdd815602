// ir/passes/rule_test.cpp -- a rule is tried on random small instances: both sides in the
// interpreter.
#include "base/hash.h"
#include "ir/interp.h"
#include "ir/passes/rules.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace luminal {
namespace {

class Trial {
public:
  Trial(const RuleInstance& rule, uint64_t seed) : rule_(rule), state_(seed) {}

  /// A counterexample; `tried` tells whether an instance could be made at all.
  std::optional<std::string> run(bool exact, bool& tried) {
    ExprMap<int64_t> sizes;
    if (!choose(sizes)) return {};
    Module module;
    module.symbols = rule_.symbols;
    module.functions.push_back(rule_.function);
    Bindings bindings;
    for (Expr s : rule_.symbols) bindings.symbols[std::string(s.name())] = sizes[s];
    for (NodeId p : rule_.function.params) {
      const auto& input = std::get<InputAttr>(rule_.function[p].attr);
      bindings.inputs[input.name] = data(input.type, sizes, exact);
    }
    try {
      Interpreter interpreter(module, bindings, exact ? InterpMode::rounded : InterpMode::exact);
      const auto left = interpreter.values("left"), right = interpreter.values("right");
      tried = true;
      for (size_t i = 0; i < left.size(); ++i)
        if (!equal(left[i], right[i], exact)) {
          std::string text = fmt::format("element {}: {} and {} where", i, left[i].value, right[i].value);
          for (const auto& [name, size] : bindings.symbols) text += fmt::format(" {} = {}", name, size);
          for (const auto& [name, tensor] : bindings.inputs) {
            text += fmt::format(" %{} = {{", name);
            for (int64_t k = 0; k < std::min<int64_t>(tensor.count(), 8); ++k)
              text += fmt::format("{}{}", k ? ", " : "", tensor.at(k));
            text += tensor.count() > 8 ? ", ..}" : "}";
          }
          return text;
        }
    } catch (const Error&) { // an index that is out of range for these integers
    }
    return {};
  }

private:
  uint64_t below(uint64_t n) {
    state_ = hash_mix(state_, 0x9E3779B97F4A7C15u);
    return state_ % n;
  }
  bool choose(ExprMap<int64_t>& sizes) {
    for (int attempt = 0; attempt < 200; ++attempt) {
      for (Expr s : rule_.symbols) {
        const Interval range = s.range();
        const int64_t step = std::max<int64_t>(s.multiple(), 1);
        const int64_t high = std::min(range.high, range.low + step * (attempt < 100 ? 4 : 16));
        sizes[s] = range.low + int64_t(below(uint64_t((high - range.low) / step + 1))) * step;
      }
      bool holds = true;
      for (Expr condition : rule_.conditions) {
        auto value = evaluate(condition, sizes);
        holds &= value && *value != 0;
      }
      if (holds) return true;
    }
    return false;
  }
  HostTensor data(const TensorType& type, const ExprMap<int64_t>& sizes, bool special) {
    HostTensor t;
    t.dtype = type.dtype;
    for (Expr e : type.shape) t.shape.push_back(*evaluate(e, sizes));
    t.data.resize(size_t(storage_bytes(type.dtype, t.count())));
    constexpr double infinity = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < t.count(); ++i) {
      if (!is_float(type.dtype)) {
        store_i64(type.dtype, t.data.data(), i,
                  wrap(type.dtype, below(3) ? int64_t(below(7)) - 3 : int64_t(below(~0ull))));
        continue;
      }
      const double specials[] = {
          std::nan(""), infinity, -infinity, -0.0, 0.0, largest(type.dtype), least_subnormal(type.dtype)};
      const double value = special && below(4) == 0 ? specials[below(7)] : (double(below(2001)) - 1000) / 256;
      store_f64(type.dtype, t.data.data(), i, value);
    }
    return t;
  }
  static bool equal(const InterpValue& a, const InterpValue& b, bool exact) {
    if (!exact)
      return a.exact.doubtful || b.exact.doubtful || exact_equal(a.exact, b.exact) || std::isnan(a.value);
    if (std::isnan(a.value) || std::isnan(b.value)) return std::isnan(a.value) && std::isnan(b.value);
    return a.value == b.value && std::signbit(a.value) == std::signbit(b.value) && a.integer == b.integer;
  }
  const RuleInstance& rule_;
  uint64_t state_;
};

} // namespace

std::vector<std::string> Rules::test(int instances, uint64_t seed) const {
  std::vector<std::string> mistakes;
  std::vector<DType> types;
  for (int t = 0; t < dtype_count; ++t) types.push_back(DType(t));
  for (size_t k = 0; k < data_->file.rules.size(); ++k) {
    const RuleHead& head = data_->file.rules[k];
    bool tried = false;
    std::optional<std::string> counterexample;
    for (const TypeChoice& choice : data_->choices(k, types, {0, 1, 2}))
      if (auto instance = data_->instance(k, choice))
        for (int n = 0; n < instances && !counterexample; ++n)
          counterexample =
              Trial(*instance, seed + uint64_t(n) * 7919).run(head.numerics == Numerics::exact, tried);
    if (counterexample) mistakes.push_back(fmt::format("rule {}: {}", head.name, *counterexample));
    if (!tried) mistakes.push_back(fmt::format("rule {}: no instance could be made", head.name));
  }
  return mistakes;
}

} // namespace luminal
