// egg/egg_builtins.cpp -- the built-in sorts and primitives: integers, floats, strings, booleans,
// comparisons of any values.
#include "base/check.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;
using Args = std::span<const Value>;

constexpr SortId unit = BuiltinSort::unit, boolean = BuiltinSort::boolean, i64 = BuiltinSort::i64,
                 f64 = BuiltinSort::f64, text = BuiltinSort::string;

/// Floats in a total order: NaN equals itself and is above everything.
bool below(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

/// As a conversion in C with saturation; NaN gives 0.
int64_t saturated(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

/// Shortest decimal text; with an exponent where the number is very large or small.
std::string real_text(double x) {
  if (std::isnan(x) || std::isinf(x)) return egg_float_text(x);
  const double size = std::fabs(x);
  if (x == 0 || (size >= 1e-4 && size < 1e16)) return egg_float_text(x);
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), x, std::chars_format::scientific);
  std::string out(buffer.data(), end.ptr);
  const size_t e = out.find('e');
  const int exponent = std::atoi(out.c_str() + e + 1);
  return out.substr(0, e + 1) + std::to_string(exponent);
}

std::string replaced(std::string_view in, std::string_view from, std::string_view to) {
  std::string out;
  if (from.empty()) { // between all characters
    out += to;
    for (size_t i = 0; i < in.size();) {
      const size_t length = utf8_length(static_cast<unsigned char>(in[i]));
      out += in.substr(i, length);
      out += to;
      i += length;
    }
    return out;
  }
  for (size_t i = 0;;) {
    const size_t found = in.find(from, i);
    out += in.substr(i, found - i);
    if (found == std::string_view::npos) return out;
    out += to;
    i = found + from.size();
  }
}

int64_t count_of(std::string_view in, std::string_view what) {
  if (what.empty()) return static_cast<int64_t>(utf8_count(in)) + 1;
  int64_t n = 0;
  for (size_t i = in.find(what); i != std::string_view::npos; i = in.find(what, i + what.size())) ++n;
  return n;
}

constexpr size_t max_string = size_t(1) << 24; ///< a program cannot make longer strings

/// Registers primitives of one sort; F takes plain C++ values and gives false where it is not
/// defined.
struct ScalarPrimitives {
  Impl& p;

  void add(std::string_view name, std::vector<SortId> inputs, SortId output,
           std::function<bool(Args, Value&)> call, bool interns) {
    Overload overload;
    overload.inputs = std::move(inputs);
    overload.output = output;
    add_primitive(p, name, std::move(overload), std::move(call), !interns);
  }

  // integers
  template <class F> void integer(std::string_view name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {i64, i64}, i64,
        [pool, f](Args a, Value& out) {
          int64_t r = 0;
          if (!f(pool->integer_of(a[0]), pool->integer_of(a[1]), r)) return false;
          out = pool->integer(r);
          return true;
        },
        true);
  }
  template <class F> void integer1(std::string_view name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {i64}, i64,
        [pool, f](Args a, Value& out) {
          int64_t r = 0;
          if (!f(pool->integer_of(a[0]), r)) return false;
          out = pool->integer(r);
          return true;
        },
        true);
  }
  /// A comparison twice: as a premise, and as a boolean.
  template <class F> void compare_integers(const char* name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {i64, i64}, unit,
        [pool, f](Args a, Value& out) { return out = 0, f(pool->integer_of(a[0]), pool->integer_of(a[1])); },
        false);
    truth(std::string("bool-") + name, f);
  }
  template <class F> void truth(const std::string& name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {i64, i64}, boolean,
        [pool, f](Args a, Value& out) {
          return out = f(pool->integer_of(a[0]), pool->integer_of(a[1])) ? 1 : 0, true;
        },
        false);
  }

  // floats
  template <class F> void real(std::string_view name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {f64, f64}, f64,
        [pool, f](Args a, Value& out) {
          double r = 0;
          if (!f(pool->real_of(a[0]), pool->real_of(a[1]), r)) return false;
          out = pool->real(r);
          return true;
        },
        true);
  }
  template <class F> void real1(std::string_view name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {f64}, f64,
        [pool, f](Args a, Value& out) {
          double r = 0;
          if (!f(pool->real_of(a[0]), r)) return false;
          out = pool->real(r);
          return true;
        },
        true);
  }
  template <class F> void compare_reals(std::string_view name, F f) {
    ValuePool* pool = &p.pool;
    add(
        name, {f64, f64}, unit,
        [pool, f](Args a, Value& out) { return out = 0, f(pool->real_of(a[0]), pool->real_of(a[1])); },
        false);
  }

  // booleans
  template <class F> void logic(std::string_view name, F f) {
    add(
        name, {boolean, boolean}, boolean,
        [f](Args a, Value& out) { return out = f(a[0] != 0, a[1] != 0) ? 1 : 0, true; }, false);
  }
};

void add_integers(ScalarPrimitives b) {
  b.integer("+", [](int64_t x, int64_t y, int64_t& r) { return !__builtin_add_overflow(x, y, &r); });
  b.integer("-", [](int64_t x, int64_t y, int64_t& r) { return !__builtin_sub_overflow(x, y, &r); });
  b.integer("*", [](int64_t x, int64_t y, int64_t& r) { return !__builtin_mul_overflow(x, y, &r); });
  const auto divides = [](int64_t x, int64_t y) {
    return y != 0 && !(y == -1 && x == std::numeric_limits<int64_t>::min());
  };
  b.integer("/", [divides](int64_t x, int64_t y, int64_t& r) { return divides(x, y) && (r = x / y, true); });
  b.integer("%", [divides](int64_t x, int64_t y, int64_t& r) { return divides(x, y) && (r = x % y, true); });
  b.integer("&", [](int64_t x, int64_t y, int64_t& r) { return r = x & y, true; });
  b.integer("|", [](int64_t x, int64_t y, int64_t& r) { return r = x | y, true; });
  b.integer("^", [](int64_t x, int64_t y, int64_t& r) { return r = x ^ y, true; });
  b.integer("<<", [](int64_t x, int64_t y, int64_t& r) {
    return y >= 0 && y < 64 && (r = static_cast<int64_t>(static_cast<uint64_t>(x) << y), true);
  });
  b.integer(">>", [](int64_t x, int64_t y, int64_t& r) { return y >= 0 && y < 64 && (r = x >> y, true); });
  b.integer("min", [](int64_t x, int64_t y, int64_t& r) { return r = std::min(x, y), true; });
  b.integer("max", [](int64_t x, int64_t y, int64_t& r) { return r = std::max(x, y), true; });
  b.integer1("not-i64", [](int64_t x, int64_t& r) { return r = ~x, true; });
  b.integer1("log2", [](int64_t x, int64_t& r) {
    return x > 0 && (r = 63 - std::countl_zero(static_cast<uint64_t>(x)), true);
  });
  b.integer1("abs", [](int64_t x, int64_t& r) {
    return x != std::numeric_limits<int64_t>::min() && (r = x < 0 ? -x : x, true);
  });
  b.compare_integers("<", [](int64_t x, int64_t y) { return x < y; });
  b.compare_integers(">", [](int64_t x, int64_t y) { return x > y; });
  b.compare_integers("<=", [](int64_t x, int64_t y) { return x <= y; });
  b.compare_integers(">=", [](int64_t x, int64_t y) { return x >= y; });
  b.truth("bool-=", [](int64_t x, int64_t y) { return x == y; });
}

void add_reals(ScalarPrimitives b) {
  b.real("+", [](double x, double y, double& r) { return r = x + y, true; });
  b.real("-", [](double x, double y, double& r) { return r = x - y, true; });
  b.real("*", [](double x, double y, double& r) { return r = x * y, true; });
  b.real("/", [](double x, double y, double& r) { return y != 0 && (r = x / y, true); });
  b.real("%", [](double x, double y, double& r) { return y != 0 && (r = std::fmod(x, y), true); });
  b.real("^", [](double x, double y, double& r) { return r = std::pow(x, y), true; });
  b.real("min", [](double x, double y, double& r) { return r = below(y, x) ? y : x, true; });
  b.real("max", [](double x, double y, double& r) { return r = below(x, y) ? y : x, true; });
  b.real1("neg", [](double x, double& r) { return r = -x, true; });
  b.real1("abs", [](double x, double& r) { return r = std::fabs(x), true; });
  b.real1("exp", [](double x, double& r) { return r = std::exp(x), true; });
  b.real1("log", [](double x, double& r) { return below(0, x) && (r = std::log(x), true); });
  b.real1("sqrt", [](double x, double& r) { return !below(x, 0) && (r = std::sqrt(x), true); });
  b.compare_reals("<", [](double x, double y) { return below(x, y); });
  b.compare_reals(">", [](double x, double y) { return below(y, x); });
  b.compare_reals("<=", [](double x, double y) { return !below(y, x); });
  b.compare_reals(">=", [](double x, double y) { return !below(x, y); });
  ValuePool* pool = &b.p.pool;
  b.add(
      "to-f64", {i64}, f64,
      [pool](Args a, Value& out) {
        return out = pool->real(static_cast<double>(pool->integer_of(a[0]))), true;
      },
      true);
  b.add(
      "to-i64", {f64}, i64,
      [pool](Args a, Value& out) { return out = pool->integer(saturated(pool->real_of(a[0]))), true; }, true);
}

void add_texts(ScalarPrimitives b) {
  Impl* p = &b.p;
  const auto read = [p](Value v) { return p->syntax.text(v); };
  const auto give = [p](const std::string& s, Value& out) {
    if (s.size() > max_string) return false;
    out = p->syntax.symbols().intern(s);
    return true;
  };
  Overload join;
  join.inputs = {text};
  join.output = text;
  join.variadic = true;
  add_primitive(
      b.p, "+", join,
      [read, give](Args a, Value& out) {
        std::string s;
        for (const Value v : a) {
          s += read(v);
          if (s.size() > max_string) return false;
        }
        return give(s, out);
      },
      false);
  b.add(
      "replace", {text, text, text}, text,
      [read, give](Args a, Value& out) {
        // The result is not made where it would be too long.
        const size_t most = static_cast<size_t>(count_of(read(a[0]), read(a[1])));
        if (!read(a[2]).empty() && most > max_string / read(a[2]).size()) return false;
        return give(replaced(read(a[0]), read(a[1]), read(a[2])), out);
      },
      true);
  ValuePool* pool = &b.p.pool;
  b.add(
      "count-matches", {text, text}, i64,
      [pool, read](Args a, Value& out) {
        return out = pool->integer(count_of(read(a[0]), read(a[1]))), true;
      },
      true);
  b.add(
      "to-string", {i64}, text,
      [pool, give](Args a, Value& out) { return give(std::to_string(pool->integer_of(a[0])), out); }, true);
  b.add(
      "to-string", {f64}, text,
      [pool, give](Args a, Value& out) { return give(real_text(pool->real_of(a[0])), out); }, true);
}

void add_truths(ScalarPrimitives b) {
  b.logic("and", [](bool x, bool y) { return x && y; });
  b.logic("xor", [](bool x, bool y) { return x != y; });
  b.logic("=>", [](bool x, bool y) { return !x || y; });
  b.add("not", {boolean}, boolean, [](Args a, Value& out) { return out = a[0] == 0 ? 1 : 0, true; }, false);
  b.add("guard", {boolean}, unit, [](Args a, Value& out) { return out = 0, a[0] != 0; }, false);
  Overload any;
  any.inputs = {boolean};
  any.output = boolean;
  any.variadic = true;
  add_primitive(
      b.p, "or", any,
      [](Args a, Value& out) {
        out = 0;
        for (const Value v : a) out |= v;
        return true;
      },
      true);
}

void add_comparisons(ScalarPrimitives b) {
  b.add("!=", {any_sort, any_sort}, unit, [](Args a, Value& out) { return out = 0, a[0] != a[1]; }, false);
  b.add(
      "value-eq", {any_sort, any_sort}, unit, [](Args a, Value& out) { return out = 0, a[0] == a[1]; },
      false);
  b.add(
      "bool-!=", {any_sort, any_sort}, boolean,
      [](Args a, Value& out) { return out = a[0] != a[1] ? 1 : 0, true; }, false);
  // By number: the order in which values and classes were made.
  b.add(
      "ordering-min", {any_sort, any_sort}, any_sort,
      [](Args a, Value& out) { return out = std::min(a[0], a[1]), true; }, false);
  b.add(
      "ordering-max", {any_sort, any_sort}, any_sort,
      [](Args a, Value& out) { return out = std::max(a[0], a[1]), true; }, false);
}

void add_sorts(Impl& p) {
  struct Builtin {
    const char* name;
    SortType type;
    std::function<std::string(Value)> print;
    std::function<std::optional<Value>(std::string_view)> parse;
  };
  Impl* impl = &p;
  const auto node = [impl](std::string_view s, NodeKind kind) -> std::optional<Value> {
    Syntax syntax;
    const auto nodes = syntax.parse("<value>", std::string(s));
    if (nodes.size() != 1 || syntax[nodes[0]].kind != kind) return std::nullopt;
    const Node& n = syntax[nodes[0]];
    if (kind == NodeKind::integer) return impl->pool.integer(n.integer);
    if (kind == NodeKind::floating) return impl->pool.real(n.floating);
    if (kind == NodeKind::string) return impl->syntax.symbols().intern(syntax.text(n.symbol));
    return static_cast<Value>(n.integer);
  };
  const Builtin builtins[] = {
      {"Unit", SortType::unit, [](Value) { return std::string("()"); },
       [](std::string_view) { return Value(0); }},
      {"bool", SortType::boolean, [](Value v) { return std::string(v != 0 ? "true" : "false"); },
       [node](std::string_view s) { return node(s, NodeKind::boolean); }},
      {"i64", SortType::i64, [impl](Value v) { return std::to_string(impl->pool.integer_of(v)); },
       [node](std::string_view s) { return node(s, NodeKind::integer); }},
      {"f64", SortType::f64, [impl](Value v) { return egg_float_text(impl->pool.real_of(v)); },
       [node](std::string_view s) { return node(s, NodeKind::floating); }},
      {"String", SortType::string, [impl](Value v) { return egg_string_text(impl->syntax.text(v)); },
       [node](std::string_view s) { return node(s, NodeKind::string); }},
  };
  for (const Builtin& builtin : builtins) {
    Sort sort;
    sort.name = p.syntax.symbols().intern(builtin.name);
    sort.type = builtin.type;
    const auto index = static_cast<uint32_t>(p.schema.sorts.size());
    if (builtin.type != SortType::unit) {
      SortSpec spec;
      spec.name = builtin.name;
      spec.kind = SortKind::value;
      spec.print = builtin.print;
      spec.parse = builtin.parse;
      const SortId id = p.graph.add_sort(std::move(spec));
      LUMINAL_CHECK(id == index, "{}", builtin.name);
    }
    LUMINAL_CHECK(index == static_cast<uint32_t>(builtin.type), "{}", builtin.name);
    p.schema.declare(sort.name, NameKind::sort, index, 0); // the first names: they cannot be taken
    p.schema.sorts.push_back(std::move(sort));
  }
}

} // namespace

void add_primitive(EggProgram::Impl& program, std::string_view name, Overload overload,
                   std::function<bool(std::span<const Value>, Value&)> call, bool thread_safe) {
  PrimitiveSpec spec;
  spec.name = std::string(name);
  const bool any = overload.output == any_sort || std::find(overload.inputs.begin(), overload.inputs.end(),
                                                            any_sort) != overload.inputs.end();
  if (!any && !overload.variadic) spec.args = overload.inputs;
  spec.out = overload.output == any_sort ? 0 : overload.output;
  spec.call = std::move(call);
  spec.thread_safe = thread_safe;
  overload.id = program.graph.add_primitive(std::move(spec));
  program.schema.add_primitive(name, std::move(overload));
}

void add_builtins(EggProgram::Impl& program) {
  add_sorts(program);
  const ScalarPrimitives b{program};
  add_integers(b);
  add_reals(b);
  add_texts(b);
  add_truths(b);
  add_comparisons(b);
  program.rulesets.push_back({program.graph.add_ruleset(""), {}, false, {}});
}

} // namespace luminal::egraph
