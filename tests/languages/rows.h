// languages/rows.h -- kernels that hold every row of the op table, every cast and every bitcast of one
// element type, with what they must give: for whoever runs the text of a language.
#pragma once
#include "ir/ops.h"
#include "loop/loop.h"
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace luminal::languages {

using Bytes = std::vector<std::byte>;

/// A kernel with its arguments, in order, and what each of them must hold afterwards.
struct Case {
  kernel::Kernel kernel;
  std::vector<Bytes> arguments, expected;
  std::vector<int64_t> symbols;
  struct Part { // of an argument: elements begin .. end-1 within `ulp` units of the last place
    std::string name;
    size_t argument;
    DType type;
    int64_t begin, end;
    double ulp = 0, scale = 0;
  };
  std::vector<Part> parts;
};

inline double drawn_real(std::mt19937_64& random, double low, double high) {
  static constexpr double special[] = {0.0,       -0.0, 1,     -1,     0.5,  -0.5,  1.5,    2.5,
                                       -2.5,      2,    3,     -3,     0.1,  1e-3,  100.25, INFINITY,
                                       -INFINITY, NAN,  1e-40, -1e-40, 3e38, 65504, 7,      448,
                                       1e-8,      2e-5, 88.5,  -88.5,  -104, 1e5,   1e10};
  if (random() % 3 == 0) return special[random() % std::size(special)];
  return low + (high - low) * double(random() >> 11) * 0x1p-53;
}
inline int64_t drawn_integer(std::mt19937_64& random, DType type) {
  const auto x = int64_t(random());
  switch (random() % 4) {
  case 0: return x % 7;
  case 1: return random() % 2 ? INT64_MIN >> (64 - bits(type)) : int64_t(uint64_t(-1) >> (65 - bits(type)));
  default: return x;
  }
}
inline Bytes drawn(DType type, int64_t count, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size_t(storage_bytes(type, count)));
  for (int64_t i = 0; i < count; ++i)
    if (is_float(type))
      store_f64(type, bytes.data(), i, drawn_real(random, low, high));
    else
      store_i64(type, bytes.data(), i, drawn_integer(random, type));
  return bytes;
}

inline std::vector<Op> rows_of(DType type) {
  std::vector<Op> rows;
  for (int o = 0; o < op_count; ++o) {
    DType args[3] = {type, type, type};
    if (row(Op(o)).signature == Signature::choice) args[0] = DType::boolean;
    if (result_type(row(Op(o)), args)) rows.push_back(Op(o));
  }
  return rows;
}

/// All rows of a type: a kernel of one parallel loop over n elements. Row r has inputs of its own.
inline Case rows_case(DType type, int64_t n = 64) {
  using namespace kernel;
  const std::vector<Op> rows = rows_of(type);
  Case made;
  Kernel& k = made.kernel;
  k.name = "rows";
  const Expr size = Expr::symbol("n", {1, 1 << 16});
  const auto count = int64_t(rows.size());
  k.symbols = {size};
  made.symbols = {n};
  const BufferId truth = add_buffer(k, {"truth", Space::global, Access::in, DType::boolean, size});
  BufferId in[3];
  for (int a = 0; a < 3; ++a)
    in[a] = add_buffer(k, {std::string(1, char('a' + a)), Space::global, Access::in, type, size * count});
  const BufferId y = add_buffer(k, {"y", Space::global, Access::out, type, size * count});
  const BufferId z = add_buffer(k, {"z", Space::global, Access::out, DType::boolean, size * count});
  Bytes inputs[3], values(size_t(storage_bytes(type, n * count)), std::byte{0xA7}),
      truths(size_t(n * count), std::byte{0xA7});
  for (Bytes& b : inputs) b.resize(values.size());
  const Bytes condition = drawn(DType::boolean, n, 0, 1, 5);
  Body body;
  const Expr i = Expr::symbol("i", {0, (1 << 16) - 1});
  for (int64_t r = 0; r < count; ++r) {
    const OpRow& own = row(rows[size_t(r)]);
    const bool choice = own.signature == Signature::choice;
    std::vector<ValueRef> args;
    if (choice) args.push_back(load(k, truth, i));
    for (int a = choice ? 1 : 0; a < own.arity; ++a) args.push_back(load(k, in[a], i + size * r));
    const ValueRef value = apply(own.op, args);
    const bool to_truth = own.signature == Signature::comparison || own.signature == Signature::test;
    body.push_back(store(to_truth ? z : y, i + size * r, value));
    made.parts.push_back({std::string(own.name), to_truth ? size_t(5) : size_t(4),
                          to_truth ? DType::boolean : type, r * n, (r + 1) * n, own.ulp <= 0.5 ? 0 : own.ulp,
                          own.ulp_scale});
    for (int a = 0; a < 3; ++a) {
      const Bytes part = drawn(type, n, own.low, own.high, uint64_t(r * 3 + a + 1));
      for (int64_t e = 0; e < n; ++e)
        if (is_float(type))
          store_f64(type, inputs[a].data(), r * n + e, load_f64(type, part.data(), e));
        else
          store_i64(type, inputs[a].data(), r * n + e, load_i64(type, part.data(), e));
    }
    for (int64_t e = 0; e < n; ++e) {
      double x[3] = {};
      int64_t w[3] = {};
      for (int a = 0; a < own.arity; ++a) {
        x[a] = choice && a == 0 ? double(load_i64(DType::boolean, condition.data(), e))
                                : load_f64(type, inputs[a].data(), r * n + e);
        w[a] = choice && a == 0 ? load_i64(DType::boolean, condition.data(), e)
                                : load_i64(type, inputs[a].data(), r * n + e);
      }
      if (is_float(type)) {
        const double out = apply_f64(own.op, type, x);
        if (to_truth)
          store_i64(DType::boolean, truths.data(), r * n + e, int64_t(out));
        else
          store_f64(type, values.data(), r * n + e, out);
      } else
        store_i64(to_truth ? DType::boolean : type, to_truth ? truths.data() : values.data(), r * n + e,
                  apply_i64(own.op, type, w));
    }
  }
  k.body.push_back(parallel_loop(i, 0, size, std::move(body)));
  Bytes nothing_y(values.size(), std::byte{0xA7}), nothing_z(truths.size(), std::byte{0xA7});
  made.arguments = {condition, inputs[0], inputs[1], inputs[2], nothing_y, nothing_z};
  made.expected = {condition, inputs[0], inputs[1], inputs[2], values, truths};
  return made;
}

/// Casts of a type to all types that the language has, and bitcasts to those of the same width.
inline Case casts_case(DType from, const std::function<bool(DType)>& has, int64_t n = 256) {
  using namespace kernel;
  Case made;
  Kernel& k = made.kernel;
  k.name = "casts";
  const Expr size = Expr::symbol("n", {1, 1 << 16}), i = Expr::symbol("i", {0, (1 << 16) - 1});
  k.symbols = {size};
  made.symbols = {n};
  const BufferId x = add_buffer(k, {"x", Space::global, Access::in, from, size});
  const Bytes input = drawn(from, n, -300, 300, 99);
  made.arguments = made.expected = {input};
  Body body;
  const auto add = [&](const std::string& name, DType to, const ValueRef& value,
                       const std::function<void(Bytes&, int64_t)>& expect) {
    const BufferId y = add_buffer(k, {name, Space::global, Access::out, to, size});
    body.push_back(store(y, i, value));
    Bytes bytes(size_t(storage_bytes(to, n)), std::byte{0xA7});
    made.arguments.push_back(bytes);
    for (int64_t e = 0; e < n; ++e) expect(bytes, e);
    made.expected.push_back(bytes);
    made.parts.push_back({name, made.arguments.size() - 1, to, 0, n, 0, 0});
  };
  for (int t = 0; t < dtype_count; ++t) {
    const auto to = DType(t);
    if (!has(to)) continue;
    add("to_" + std::string(to_string(to)), to, cast(to, load(k, x, i)), [&](Bytes& bytes, int64_t e) {
      if (is_float(to))
        store_f64(to, bytes.data(), e,
                  is_float(from) ? round_to(to, load_f64(from, input.data(), e))
                                 : integer_to_float(to, from, load_i64(from, input.data(), e)));
      else
        store_i64(to, bytes.data(), e,
                  is_float(from) ? truncate_to(to, load_f64(from, input.data(), e))
                                 : wrap(to, load_i64(from, input.data(), e)));
    });
    if (bits(from) != bits(to) || from == to || from == DType::boolean || to == DType::boolean) continue;
    add("as_" + std::string(to_string(to)), to, bitcast(to, load(k, x, i)), [&](Bytes& bytes, int64_t e) {
      if (bits(from) == 4)
        store_i64(to, bytes.data(), e, wrap(to, load_i64(from, input.data(), e)));
      else
        std::copy_n(input.begin() + e * bits(from) / 8, bits(from) / 8, bytes.begin() + e * bits(from) / 8);
    });
  }
  k.body.push_back(parallel_loop(i, 0, size, std::move(body)));
  return made;
}

/// The first element of a part that is wrong, told; empty where none is. NaN equals NaN only, zeros of
/// either sign are equal.
inline std::string first_mistake(const Case::Part& part, const Bytes& got, const Bytes& want) {
  for (int64_t i = part.begin; i < part.end; ++i) {
    if (!is_float(part.type)) {
      const int64_t g = load_i64(part.type, got.data(), i), w = load_i64(part.type, want.data(), i);
      if (g != w)
        return part.name + " element " + std::to_string(i - part.begin) + " is " + std::to_string(g) +
               ", not " + std::to_string(w);
      continue;
    }
    const double g = load_f64(part.type, got.data(), i), w = load_f64(part.type, want.data(), i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double magnitude = std::fmax(std::fabs(w), part.scale);
    const double place = std::isfinite(magnitude) && magnitude > 0
                             ? std::fmax(std::ldexp(2 * unit_roundoff(part.type), std::ilogb(magnitude)),
                                         least_subnormal(part.type))
                             : least_subnormal(part.type);
    if (part.ulp > 0 && std::fabs(g - w) <= part.ulp * place) continue;
    char text[200];
    std::snprintf(text, sizeof text, "%s element %d is %.17g, not %.17g (%.2f units)", part.name.c_str(),
                  int(i - part.begin), g, w, std::fabs(g - w) / place);
    return text;
  }
  return "";
}
inline std::string mistakes(const Case& tested, const std::vector<Bytes>& got) {
  std::string text;
  for (const Case::Part& part : tested.parts)
    if (const std::string one = first_mistake(part, got[part.argument], tested.expected[part.argument]);
        !one.empty())
      text += one + "\n";
  return text;
}

} // namespace luminal::languages
