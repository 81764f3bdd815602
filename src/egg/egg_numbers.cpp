// egg/egg_numbers.cpp -- the sorts BigInt and BigRat, there for programs whose text names them.
#include "base/check.h"
#include "egg/egg_bignum.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <unordered_map>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;
using Args = std::span<const Value>;

constexpr uint64_t max_bits = uint64_t(1) << 16; ///< larger results are not defined
constexpr size_t max_digits = 20000;

/// Interned by their text.
template <class T> class Pool {
public:
  const T& operator[](Value v) const { return values_[v]; }
  Value intern(const T& value, const std::string& text) {
    const auto [at, fresh] = known_.try_emplace(text, static_cast<Value>(values_.size()));
    if (fresh) values_.push_back(value);
    return at->second;
  }

private:
  std::deque<T> values_;
  std::unordered_map<std::string, Value> known_;
};

struct Numbers {
  Pool<BigInt> ints;
  Pool<BigRational> rationals;

  bool give(const BigInt& x, Value& out) {
    if (bit_count(x) > max_bits) return false;
    out = ints.intern(x, x.str());
    return true;
  }
  bool give(const BigRational& x, Value& out) {
    if (bit_count(numerator(x)) > max_bits || bit_count(denominator(x)) > max_bits) return false;
    out = rationals.intern(x, x.str());
    return true;
  }
};

/// Registers primitives; F takes numbers and gives false where it is not defined.
struct NumberPrimitives {
  Impl& p;
  std::shared_ptr<Numbers> numbers = std::make_shared<Numbers>();
  SortId big = 0, rational = 0;

  void add(std::string_view name, std::vector<SortId> inputs, SortId output,
           std::function<bool(Args, Value&)> call) const {
    Overload overload;
    overload.inputs = std::move(inputs);
    overload.output = output;
    add_primitive(p, name, std::move(overload), std::move(call), false);
  }
  template <class F> void ints(std::string_view name, F f) const {
    add(name, {big, big}, big, [n = numbers, f](Args a, Value& out) {
      BigInt r;
      return f(n->ints[a[0]], n->ints[a[1]], r) && n->give(r, out);
    });
  }
  template <class F> void rationals(std::string_view name, F f) const {
    add(name, {rational, rational}, rational, [n = numbers, f](Args a, Value& out) {
      BigRational r;
      return f(n->rationals[a[0]], n->rationals[a[1]], r) && n->give(r, out);
    });
  }
  template <class F> void rational1(std::string_view name, F f) const {
    add(name, {rational}, rational, [n = numbers, f](Args a, Value& out) {
      BigRational r;
      return f(n->rationals[a[0]], r) && n->give(r, out);
    });
  }
  template <class F> void compare(const std::string& name, F f) const {
    add(name, {big, big}, BuiltinSort::unit,
        [n = numbers, f](Args a, Value& out) { return out = 0, f(n->ints[a[0]].compare(n->ints[a[1]])); });
    add("bool-" + name, {big, big}, BuiltinSort::boolean, [n = numbers, f](Args a, Value& out) {
      return out = f(n->ints[a[0]].compare(n->ints[a[1]])) ? 1 : 0, true;
    });
    add(name, {rational, rational}, BuiltinSort::unit, [n = numbers, f](Args a, Value& out) {
      return out = 0, f(n->rationals[a[0]].compare(n->rationals[a[1]]));
    });
  }
};

void add_ints(const NumberPrimitives& b) {
  b.ints("+", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x + y, true; });
  b.ints("-", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x - y, true; });
  b.ints("*", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x * y, true; });
  b.ints("/", [](const BigInt& x, const BigInt& y, BigInt& r) { return !y.is_zero() && (r = x / y, true); });
  b.ints("%", [](const BigInt& x, const BigInt& y, BigInt& r) { return !y.is_zero() && (r = x % y, true); });
  b.ints("&", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x & y, true; });
  b.ints("|", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x | y, true; });
  b.ints("^", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = x ^ y, true; });
  b.ints("min", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = std::min(x, y), true; });
  b.ints("max", [](const BigInt& x, const BigInt& y, BigInt& r) { return r = std::max(x, y), true; });
  ValuePool* pool = &b.p.pool;
  Impl* p = &b.p;
  for (const bool left : {true, false})
    b.add(left ? "<<" : ">>", {b.big, BuiltinSort::i64}, b.big,
          [n = b.numbers, pool, left](Args a, Value& out) {
            const int64_t bits = pool->integer_of(a[1]);
            const BigInt& x = n->ints[a[0]];
            if (bits < 0 || bits > int64_t(UINT32_MAX) ||
                (left && bit_count(x) + static_cast<uint64_t>(bits) > max_bits))
              return false;
            return n->give(left ? BigInt(x << bits) : BigInt(x >> bits), out);
          });
  b.add("not-Z", {b.big}, b.big,
        [n = b.numbers](Args a, Value& out) { return n->give(-n->ints[a[0]] - 1, out); });
  b.add("bits", {b.big}, b.big,
        [n = b.numbers](Args a, Value& out) { return n->give(BigInt(bit_count(n->ints[a[0]])), out); });
  b.add("bigint", {BuiltinSort::i64}, b.big,
        [n = b.numbers, pool](Args a, Value& out) { return n->give(BigInt(pool->integer_of(a[0])), out); });
  b.add("to-string", {b.big}, BuiltinSort::string, [n = b.numbers, p](Args a, Value& out) {
    return out = p->syntax.symbols().intern(n->ints[a[0]].str()), true;
  });
  b.add("from-string", {BuiltinSort::string}, b.big, [n = b.numbers, p](Args a, Value& out) {
    const std::string_view text = p->syntax.text(a[0]);
    const auto x = text.size() <= max_digits ? parse_big_int(text) : std::nullopt;
    return x && n->give(*x, out);
  });
  b.add("bool-=", {b.big, b.big}, BuiltinSort::boolean,
        [](Args a, Value& out) { return out = a[0] == a[1] ? 1 : 0, true; });
}

bool power(const BigRational& x, const BigRational& y, BigRational& r) {
  if (!is_integer(y)) return false;
  const auto exponent = to_int64(numerator(y));
  if (x.is_zero()) return y >= 0 && (r = y.is_zero() ? BigRational(1) : x, true);
  if (!exponent || *exponent < -int64_t(max_bits) || *exponent > int64_t(max_bits)) return false;
  BigRational base = *exponent < 0 ? fraction(denominator(x), numerator(x)) : x;
  auto left = static_cast<uint64_t>(*exponent < 0 ? -*exponent : *exponent);
  // The result has about `left` times as many bits; larger ones are not made.
  if ((bit_count(numerator(base)) - 1 + bit_count(denominator(base)) - 1) * left > 2 * max_bits) return false;
  for (r = 1; left != 0; left >>= 1) {
    if (left & 1) r = r * base;
    if (left > 1) base = base * base;
  }
  return true;
}

void add_rationals(const NumberPrimitives& b) {
  b.rationals("+",
              [](const BigRational& x, const BigRational& y, BigRational& r) { return r = x + y, true; });
  b.rationals("-",
              [](const BigRational& x, const BigRational& y, BigRational& r) { return r = x - y, true; });
  b.rationals("*",
              [](const BigRational& x, const BigRational& y, BigRational& r) { return r = x * y, true; });
  b.rationals("/", [](const BigRational& x, const BigRational& y, BigRational& r) {
    return !y.is_zero() && (r = x / y, true);
  });
  b.rationals("min", [](const BigRational& x, const BigRational& y, BigRational& r) {
    return r = std::min(x, y), true;
  });
  b.rationals("max", [](const BigRational& x, const BigRational& y, BigRational& r) {
    return r = std::max(x, y), true;
  });
  b.rationals("pow", power);
  b.rational1("neg", [](const BigRational& x, BigRational& r) { return r = -x, true; });
  b.rational1("abs", [](const BigRational& x, BigRational& r) { return r = abs(x), true; });
  b.rational1("floor", [](const BigRational& x, BigRational& r) { return r = floor_of(x), true; });
  b.rational1("ceil", [](const BigRational& x, BigRational& r) { return r = -floor_of(-x), true; });
  b.rational1("round", [](const BigRational& x, BigRational& r) { return r = round_of(x), true; });
  b.rational1("sqrt", [](const BigRational& x, BigRational& r) {
    if (x <= 0) return false;
    const BigInt n = sqrt(numerator(x)), d = sqrt(denominator(x));
    return n * n == numerator(x) && d * d == denominator(x) && (r = BigRational(n, d), true);
  });
  // Exact only at 1.
  b.rational1("log", [](const BigRational& x, BigRational& r) { return x == 1 && (r = 0, true); });
  b.rational1("cbrt", [](const BigRational& x, BigRational& r) { return x == 1 && (r = x, true); });
  ValuePool* pool = &b.p.pool;
  b.add("bigrat", {b.big, b.big}, b.rational, [n = b.numbers](Args a, Value& out) {
    return !n->ints[a[1]].is_zero() && n->give(fraction(n->ints[a[0]], n->ints[a[1]]), out);
  });
  b.add("numer", {b.rational}, b.big,
        [n = b.numbers](Args a, Value& out) { return n->give(numerator(n->rationals[a[0]]), out); });
  b.add("denom", {b.rational}, b.big,
        [n = b.numbers](Args a, Value& out) { return n->give(denominator(n->rationals[a[0]]), out); });
  b.add("to-f64", {b.rational}, BuiltinSort::f64, [n = b.numbers, pool](Args a, Value& out) {
    return out = pool->real(nearest_double(n->rationals[a[0]])), true;
  });
  b.add("to-i64", {b.rational}, BuiltinSort::i64, [n = b.numbers, pool](Args a, Value& out) {
    const BigRational& x = n->rationals[a[0]];
    const auto whole = is_integer(x) ? to_int64(numerator(x)) : std::nullopt;
    return whole && (out = pool->integer(*whole), true);
  });
}

SortId add_sort(Impl& p, const char* name, SortType type, std::function<std::string(Value)> print) {
  Sort sort;
  sort.name = p.syntax.symbols().intern(name);
  sort.type = type;
  SortSpec spec;
  spec.name = name;
  spec.kind = SortKind::value;
  spec.print = std::move(print);
  const SortId id = p.graph.add_sort(std::move(spec));
  LUMINAL_CHECK(id == p.schema.sorts.size(), "{}", name);
  p.schema.declare(sort.name, NameKind::sort, id, 0);
  p.schema.sorts.push_back(std::move(sort));
  return id;
}

} // namespace

void add_big_numbers(EggProgram::Impl& p) {
  static constexpr std::string_view words[] = {"BigInt", "BigRat", "bigint", "bigrat", "from-string"};
  const bool named = std::any_of(std::begin(words), std::end(words), [&](std::string_view word) {
    return p.syntax.symbols().find(word).has_value();
  });
  if (!named || p.schema.find_sort("BigInt") != no_sort || p.schema.find_sort("BigRat") != no_sort) return;
  NumberPrimitives b{p};
  const auto quoted = [](const BigInt& x) { return fmt::format("(from-string \"{}\")", x.str()); };
  b.big = add_sort(p, "BigInt", SortType::big_int,
                   [n = b.numbers, quoted](Value v) { return quoted(n->ints[v]); });
  b.rational = add_sort(p, "BigRat", SortType::big_rational, [n = b.numbers, quoted](Value v) {
    const BigRational& x = n->rationals[v];
    return fmt::format("(bigrat {} {})", quoted(numerator(x)), quoted(denominator(x)));
  });
  add_ints(b);
  add_rationals(b);
  b.compare("<", [](int o) { return o < 0; });
  b.compare(">", [](int o) { return o > 0; });
  b.compare("<=", [](int o) { return o <= 0; });
  b.compare(">=", [](int o) { return o >= 0; });
}

} // namespace luminal::egraph
