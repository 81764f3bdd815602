// tests/backend/small_divisors_test.cpp -- what is finite at every node is finite in every plan, however
// small divisors are and however large what they divide: random formulas with quotients, by terms that the
// search finds and by drawn ones.
#include "plans.h"
#include "random_regions.h"
#include "support/seeds.h"
#include <fmt/format.h>
#include <span>

namespace luminal {
namespace {

/// A text of rows %x that quotients change, and its inputs.
class QuotientModule {
public:
  explicit QuotientModule(uint64_t seed) : random_(seed) {
    is_large_ = below(2);
    static constexpr DType types[] = {DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
    type_ = types[below(std::size(types))];
    rows_ = int64_t(1 + below(6)), columns_ = int64_t(2 + below(40));
    params_ = fmt::format("%x: {}[{}, {}]", type(), rows_, columns_);
    input("x", {rows_, columns_});
    std::string x = "%x";
    for (uint64_t steps = 1 + below(3); steps > 0; --steps) x = changed(x);
    if (below(2)) x = folded(x);
    module = parse_module(fmt::format("fn @main({}) {{\n{}  return y = {}\n}}\n", params_, text_, x));
  }
  /// Factors that are not statistics may come in any order: ordinary ones, but for small divisors.
  double most() const { return largest(type_) / (is_large_ || type_ == DType::f16 ? 64 : 0x1p32); }
  Module module;
  Bindings bindings;

private:
  uint64_t below(uint64_t n) { return random_() % n; }
  std::string_view type() const { return to_string(type_); }
  std::string made(const std::string& operation) {
    text_ += fmt::format("  %v{} = {}\n", count_, operation);
    return fmt::format("%v{}", count_++);
  }
  std::string space() const { return fmt::format("[i: {}, k: {}]", rows_, columns_); }
  std::string spread(const std::string& row) { return made(fmt::format("view {} {} -> [i]", row, space())); }
  std::string folded(const char* word, const std::string& x) {
    return made(
        fmt::format("get {}, 0", made(fmt::format("fold {} over [k] {{ {} {}[i, k] }}", space(), word, x))));
  }
  std::string folded(const std::string& x) { return folded(below(3) == 0 ? "max" : "sum", x); }
  /// Magnitudes of one kind for each row: ordinary ones, those whose reciprocals overflow or nearly do, and
  /// those whose squares nearly do, or their products with ordinary ones.
  void input(const std::string& name, std::vector<int64_t> shape, bool small = true) {
    HostTensor t{type_, std::move(shape), {}};
    t.data.resize(size_t(storage_bytes(type_, t.count())));
    const double normal = least_normal(), step = normal * 2 * unit_roundoff(type_);
    const double ordinary[] = {1, 1, 100, normal * 8, normal, normal / 8, step * 8};
    const double large[] = {1, 100, 100, std::sqrt(normal) / 64,
                            largest(type_) / (type_ == DType::f16 ? 0x1p8 : 0x1p40)};
    const std::span<const double> kinds = is_large_ ? std::span<const double>(large) : ordinary;
    const int64_t row = t.shape.size() > 1 ? columns_ : 1;
    double kind = 1;
    for (int64_t i = 0; i < t.count(); ++i) {
      if (i % row == 0) kind = kinds[below(small ? kinds.size() : 3)];
      store_f64(type_, t.data.data(), i, kind * double(1 + below(16)) / 8);
    }
    bindings.inputs[name] = std::move(t);
  }
  double least_normal() const {
    return type_ == DType::f64 ? 0x1p-1022 : type_ == DType::f16 ? 0x1p-14 : 0x1p-126;
  }
  std::string parameter(bool of_rows, bool small = true) {
    const std::string name = fmt::format("p{}", count_++);
    params_ += fmt::format(", {}%{}: {}[{}]", below(3) ? "" : "weight ", name, type(),
                           of_rows ? fmt::format("{}", rows_) : fmt::format("{}, {}", rows_, columns_));
    input(name, of_rows ? std::vector{rows_} : std::vector{rows_, columns_}, small);
    return "%" + name;
  }
  std::string number(double value) {
    return made(fmt::format("view {} {} -> []", made(fmt::format("const {} {}", type(), value)), space()));
  }
  std::string binary(const char* op, const std::string& a, const std::string& b) {
    return made(fmt::format("{} {}, {}", op, a, b));
  }
  std::string changed(const std::string& x) {
    // Factors that are not statistics leave products whatever their size: beside large numbers they are
    // ordinary ones.
    static constexpr int of_statistics[] = {2, 3, 4, 6, 7, 7, 7, 9};
    switch (is_large_ ? of_statistics[below(std::size(of_statistics))] : int(below(10))) {
    case 0: return binary("div", x, spread(parameter(true)));
    case 1: return binary("div", x, parameter(false));
    case 2: return binary("mul", x, spread(parameter(true, false)));
    case 3: return binary("div", x, spread(folded(x)));
    case 4: return binary("mul", binary("div", x, spread(folded(x))), number(127));
    case 5:
      return binary("div", x,
                    spread(made(fmt::format("mul {}, {}", parameter(true), parameter(true, false)))));
    case 6: { // a length, without an overflow of squares
      const std::string m = folded("max", made("abs " + x)), r = binary("div", x, spread(m));
      return binary("div", r, spread(made("sqrt " + folded("sum", binary("mul", r, r)))));
    }
    case 7: { // a part of the whole
      const std::string w = parameter(false);
      return binary("mul", x, binary("div", w, spread(folded("sum", w))));
    }
    case 8: { // two quotients of one product, where a mask lets them through
      const std::string q = binary("div", x, spread(parameter(true)));
      const std::string p = binary("div", parameter(false, false), spread(parameter(true)));
      const std::string mask = made(fmt::format("iota bool {} -> k <= i", space()));
      return made(fmt::format("select {}, {}, {}", mask, binary("mul", q, p), number(0)));
    }
    default: {
      const std::string d = binary("sub", x, spread(folded(x))), e = made("exp " + d);
      return binary("div", e, spread(folded("sum", e)));
    }
    }
  }

  std::mt19937_64 random_;
  bool is_large_ = false; ///< its numbers
  DType type_ = DType::f32;
  int64_t rows_ = 1, columns_ = 1;
  int count_ = 0;
  std::string params_, text_;
};

/// Is every value of the function finite, and far from an overflow?
bool stays_finite(const QuotientModule& m) {
  Module all = m.module;
  Function& f = all.functions.back();
  f.results.clear();
  for (size_t k = 0; k < f.nodes.size(); ++k)
    if (const Node& node = f.nodes[NodeId(k)]; !node.is_tuple())
      f.results.push_back({fmt::format("r{}", k), NodeId(k), {}, {}});
  Interpreter interpreter(all, m.bindings);
  for (const FunctionResult& r : f.results) {
    const HostTensor value = interpreter.result(r.name);
    for (int64_t i = 0; i < value.count(); ++i)
      if (!(std::fabs(value.at(i)) <= m.most())) return false;
  }
  return true;
}

void expect_finite(const QuotientModule& m, compile::RuleOptions rules, int64_t& compared) {
  Running running(m.module, 1, 0, passes::defaults(), {}, std::move(rules));
  auto context = running.start(m.module, m.bindings);
  context->run().value();
  const auto got = context->result("y").value();
  const HostTensor want = Interpreter(m.module, m.bindings).result("y");
  for (int64_t i = 0; i < want.count(); ++i) {
    const double value = load_f64(got.dtype, got.bytes.data(), i);
    ASSERT_TRUE(std::isfinite(value)) << "element " << i << " is " << value << " for " << want.at(i) << "\n"
                                      << running.report;
    compared++;
  }
}

TEST(SmallDivisors, LeaveFiniteWhatIsFinite) {
  const auto [first, count, own] = test::seeds(1, 200);
  int64_t compared = 0, modules = 0;
  for (uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
    const QuotientModule m(seed);
    if (!stays_finite(m)) continue;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_string(m.module)));
    modules++;
    expect_finite(m, {}, compared);
    for (uint64_t drawn = 0; drawn < 2 && !HasFatalFailure(); ++drawn)
      expect_finite(m, testing_plans::random_regions(seed * 2 + drawn), compared);
  }
  if (!own) EXPECT_GT(modules, 40);
  EXPECT_GT(compared, 0);
}

} // namespace
} // namespace luminal
