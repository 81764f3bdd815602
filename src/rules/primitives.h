// rules/primitives.h -- how the host gives the rules their functions.
#pragma once
#include "rules/region_terms.h"

namespace luminal::rules {

/// Functions of values in facts and actions; sorts by their names.
class Primitives {
public:
  using Args = std::span<const Value>;
  explicit Primitives(RegionTerms& terms) : t_(terms) {}
  /// A question; as a fact it fails where the answer is no.
  void guard(const char* name, std::vector<std::string> inputs, std::function<bool(Args)> test) {
    t_.program().add_primitive({name, std::move(inputs), "Unit", [test](Args args, Value& out) {
                                  out = 0;
                                  return test(args);
                                }});
  }
  /// A partial function.
  void make(const char* name, std::vector<std::string> inputs, std::string output,
            std::function<std::optional<Value>(Args)> f) {
    t_.program().add_primitive({name, std::move(inputs), std::move(output), [f](Args args, Value& out) {
                                  const auto value = f(args);
                                  if (value) out = *value;
                                  return value.has_value();
                                }});
  }
  /// An action that makes terms.
  void act(const char* name, std::vector<std::string> inputs, std::string output,
           std::function<Value(Args)> f) {
    t_.program().add_action(
        {name, std::move(inputs), std::move(output), [f](egraph::EGraph&, Args args, Value& out) {
           out = f(args);
           return true;
         }});
  }

  std::string_view text(Value v) const { return t_.program().string_of(v); }
  int64_t integer(Value v) const { return t_.integer_of(v); }
  double real(Value v) const { return t_.program().values().real_of(v); }
  /// A copy: interning moves the pool.
  std::vector<Value> items(Value vector) const {
    const auto s = t_.items(vector);
    return {s.begin(), s.end()};
  }

protected:
  RegionTerms& t_;
};

} // namespace luminal::rules
