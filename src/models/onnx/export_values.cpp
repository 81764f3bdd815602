// models/onnx/export_values.cpp -- elementwise operations, casts, scalar programs.
#include "base/check.h"
#include "ir/ops.h"
#include "ir/scalar.h"
#include "models/onnx/exporter.h"
#include "models/onnx/importer.h"
#include <cmath>
#include <limits>

namespace luminal::onnx_export {

using onnx::element_type_of;
namespace {

bool narrow_float(DType type) { return is_float(type) && bits(type) <= 16 && type != DType::f16; }

} // namespace

DType held_as(DType type) {
  if (narrow_float(type)) return DType::f32;
  if (type == DType::boolean || is_float(type)) return type;
  return bits(type) < 32 ? DType::i32 : type == DType::i32 ? DType::i32 : DType::i64;
}

Shape broadcast_of(const std::vector<Held>& x) {
  Shape shape;
  for (const Held& each : x) {
    if (each.shape.size() > shape.size())
      shape.insert(shape.begin(), each.shape.size() - shape.size(), Expr(1));
    for (size_t k = 1; k <= each.shape.size(); k++)
      if (shape[shape.size() - k].is_constant(1)) shape[shape.size() - k] = each.shape[each.shape.size() - k];
  }
  return shape;
}

Held Exporter::number(DType dtype, double value) {
  const DType held = held_as(dtype);
  std::vector<std::byte> bytes(size_t(storage_bytes(held, 1)));
  if (is_float(held))
    store_f64(held, bytes.data(), 0, value);
  else
    store_i64(held, bytes.data(), 0, truncate_to(dtype, value));
  return {graph_.constant(held, {}, std::move(bytes)), dtype, {}};
}
Held Exporter::integer_of(DType dtype, int64_t value) {
  const DType held = held_as(dtype);
  std::vector<std::byte> bytes(size_t(storage_bytes(held, 1)));
  store_i64(held, bytes.data(), 0, value);
  return {graph_.constant(held, {}, std::move(bytes)), dtype, {}};
}

Held Exporter::apply(const std::string& op, const std::vector<Held>& x, std::optional<DType> type,
                     std::vector<Attribute> attributes) {
  std::vector<std::string> names;
  for (const Held& each : x) {
    names.push_back(each.name);
    note(each);
  }
  Held result{graph_.node(op, std::move(names), std::move(attributes)), type.value_or(x[0].dtype),
              broadcast_of(x)};
  note(result);
  return result;
}

std::string Exporter::cast_name(const std::string& name, DType to) {
  std::vector<Attribute> attributes{attribute("to", int64_t(element_type_of(to)))};
  if (is_float(to) && bits(to) == 8) attributes.push_back(attribute("saturate", int64_t(0)));
  return graph_.node("Cast", {name}, std::move(attributes));
}
Held Exporter::reinterpret_u64(const Held& x) { return with(x, cast_name(x.name, DType::u64)); }

Held Exporter::enter(const std::string& name, DType dtype, Shape shape) {
  const DType held = held_as(dtype);
  return {held == dtype ? name : cast_name(name, held), dtype, std::move(shape)};
}
std::string Exporter::leave(const Held& x) {
  return held_as(x.dtype) == x.dtype ? x.name : cast_name(x.name, x.dtype);
}

Held Exporter::rounded(Held x) {
  switch (x.dtype) {
  case DType::bf16:
  case DType::f8e4m3:
  case DType::f8e5m2:
  case DType::u32:
  case DType::i16:
  case DType::u16:
  case DType::i8:
  case DType::u8: x.name = cast_name(cast_name(x.name, x.dtype), held_as(x.dtype)); break;
  case DType::u4: x = apply("BitwiseAnd", {x, number(DType::i32, 15)}); break;
  case DType::i4: {
    const Held eight = number(DType::i32, 8);
    x = apply("Sub", {apply("BitwiseAnd", {apply("Add", {x, eight}), number(DType::i32, 15)}), eight});
    break;
  }
  default: break;
  }
  return x;
}

Held Exporter::select(const Held& condition, const Held& a, const Held& b) {
  if (a.dtype != DType::boolean) return apply("Where", {condition, a, b}, a.dtype);
  return apply("Or", {apply("And", {condition, a}), apply("And", {apply("Not", {condition}), b})});
}

Held Exporter::compare(Op op, const Held& a, const Held& b) {
  Held x = a, y = b;
  if (a.dtype == DType::boolean && (op == Op::lt || op == Op::le)) {
    x.name = cast_name(a.name, DType::i32);
    y.name = cast_name(b.name, DType::i32);
  } else if (a.dtype == DType::u64) {
    x = reinterpret_u64(a);
    y = reinterpret_u64(b);
  }
  switch (op) {
  case Op::lt: return apply("Less", {x, y}, DType::boolean);
  case Op::le: return apply("LessOrEqual", {x, y}, DType::boolean);
  case Op::eq: return apply("Equal", {x, y}, DType::boolean);
  default: return apply("Not", {apply("Equal", {x, y}, DType::boolean)});
  }
}

Held Exporter::bool_op(Op op, const std::vector<Held>& x) {
  switch (op) {
  case Op::bit_and: return apply("And", x);
  case Op::bit_or: return apply("Or", x);
  case Op::bit_xor: return apply("Xor", x);
  default:
    LUMINAL_CHECK(op == Op::bit_not, "no operation on bool: {}", to_string(op));
    return apply("Not", x);
  }
}

Held Exporter::integer_op(Op op, const std::vector<Held>& x) {
  const Held& a = x[0];
  const DType type = a.dtype;
  const auto as_unsigned = [&](const std::string& name) {
    std::vector<Held> wide;
    for (const Held& each : x) wide.push_back(reinterpret_u64(each));
    Held result = apply(name, wide);
    result.name = cast_name(result.name, DType::i64);
    return result;
  };
  switch (op) {
  case Op::add: return rounded(apply("Add", x));
  case Op::sub: return rounded(apply("Sub", x));
  case Op::mul: return rounded(apply("Mul", x));
  case Op::neg: return rounded(apply("Neg", x));
  case Op::abs: return is_signed(type) ? rounded(apply("Abs", x)) : a;
  case Op::min: return type == DType::u64 ? as_unsigned("Min") : apply("Min", x);
  case Op::max: return type == DType::u64 ? as_unsigned("Max") : apply("Max", x);
  case Op::sign: {
    const Held sign = apply("Sign", {type == DType::u64 ? reinterpret_u64(a) : a});
    return type == DType::u64 ? with(sign, cast_name(sign.name, DType::i64)) : sign;
  }
  case Op::bit_and: return apply("BitwiseAnd", x);
  case Op::bit_or: return apply("BitwiseOr", x);
  case Op::bit_xor: return apply("BitwiseXor", x);
  case Op::bit_not: return rounded(apply("BitwiseNot", x));
  case Op::shl:
  case Op::shr: return shift(op, a, x[1]);
  default: break;
  }
  LUMINAL_CHECK(op == Op::div || op == Op::rem, "no operation on integers: {}", to_string(op));
  // ONNX's Div truncates, and neither it nor Mod has a meaning for 0 and for the least number by -1.
  Held b = x[1];
  const auto known = graph_.known(b.name);
  const bool plain = known && *known != 0 && *known != -1;
  const Held zero = number(type, 0), one = number(type, 1);
  Held is_zero, is_minus_one;
  if (!plain) {
    is_zero = compare(Op::eq, b, zero);
    b = select(is_zero, one, b);
    if (is_signed(type)) {
      is_minus_one = compare(Op::eq, b, number(type, -1));
      b = select(is_minus_one, one, b);
    }
  }
  Held quotient;
  if (type == DType::u64) {
    quotient = apply("Div", {reinterpret_u64(a), reinterpret_u64(b)});
    quotient.name = cast_name(quotient.name, DType::i64);
  } else {
    quotient = apply("Div", {a, b});
  }
  Held rest = apply("Sub", {a, apply("Mul", {quotient, b})});
  if (is_signed(type)) {
    const Held below = apply(
        "And",
        {compare(Op::ne, rest, zero), compare(Op::ne, compare(Op::lt, rest, zero), compare(Op::lt, b, zero))},
        DType::boolean);
    quotient = select(below, apply("Sub", {quotient, one}), quotient);
    rest = select(below, apply("Add", {rest, b}), rest);
  }
  if (op == Op::rem) {
    return plain ? rest : select(is_zero, a, rest); // by -1 the rest of a division by 1 is right
  }
  if (plain) return rounded(quotient);
  if (is_signed(type)) quotient = select(is_minus_one, apply("Neg", {a}), quotient);
  return rounded(select(is_zero, zero, quotient));
}

Held Exporter::float_op(Op op, const std::vector<Held>& x) {
  const Held& a = x[0];
  const DType type = a.dtype;
  const bool wide = held_as(type) == DType::f64;
  const auto defined = [&] { return scalar(*definition(op), x, type); };
  const auto negative = [&](const Held& value) { return compare(Op::lt, value, number(type, 0)); };
  switch (op) {
  case Op::add: return rounded(apply("Add", x));
  case Op::sub: return rounded(apply("Sub", x));
  case Op::mul: return rounded(apply("Mul", x));
  case Op::div: return rounded(apply("Div", x));
  case Op::neg: return apply("Neg", x);
  case Op::abs: return apply("Abs", x);
  case Op::min: return apply("Min", x);
  case Op::max: {
    const auto left = graph_.known(a.name), right = graph_.known(x[1].name);
    if (right && *right == 0) return apply("Relu", {a});
    return left && *left == 0 ? apply("Relu", {x[1]}) : apply("Max", x);
  }
  case Op::floor: return rounded(apply("Floor", x));
  case Op::ceil: return rounded(apply("Ceil", x));
  case Op::round: return rounded(apply("Round", x));
  case Op::trunc: return rounded(select(negative(a), apply("Ceil", x), apply("Floor", x)));
  case Op::rem: { // Mod has the sign of the dividend
    const Held rest = apply("Mod", x, {}, {attribute("fmod", int64_t(1))});
    const Held other = apply(
        "And", {compare(Op::ne, rest, number(type, 0)), compare(Op::ne, negative(rest), negative(x[1]))},
        DType::boolean);
    return rounded(select(other, apply("Add", {rest, x[1]}), rest));
  }
  case Op::fma: {
    if (wide) return apply("Add", {apply("Mul", {a, x[1]}), x[2]});
    std::vector<Held> doubles; // the product of two f32 is exact in f64
    for (const Held& each : x) doubles.push_back({cast_name(each.name, DType::f64), type, each.shape});
    const Held sum = apply("Add", {apply("Mul", {doubles[0], doubles[1]}), doubles[2]});
    return rounded(with(sum, cast_name(sum.name, held_as(type))));
  }
  case Op::ldexp: {
    // In two steps: a power of two beyond the type is in range when half of it is.
    const Held power = apply("Round", {x[1]}),
               half = apply("Floor", {apply("Mul", {power, number(type, 0.5)})});
    const Held two = number(type, 2);
    const Held once = apply("Mul", {a, apply("Pow", {two, half})});
    return rounded(apply("Mul", {once, apply("Pow", {two, apply("Sub", {power, half})})}));
  }
  case Op::is_nan: return apply("IsNaN", x, DType::boolean);
  case Op::sqrt: return rounded(apply("Sqrt", x));
  case Op::recip: return rounded(apply("Reciprocal", x));
  case Op::exp2: return rounded(apply("Pow", {number(type, 2), a}));
  case Op::log2: return rounded(apply("Mul", {apply("Log", x), number(type, 1.4426950408889634)}));
  case Op::sin: return rounded(apply("Sin", x));
  case Op::cos: return rounded(apply("Cos", x));
  case Op::tan: return wide ? defined() : rounded(apply("Tan", x));
  case Op::tanh: return rounded(apply("Tanh", x));
  case Op::exp: return rounded(apply("Exp", x));
  case Op::log: return rounded(apply("Log", x));
  case Op::sigmoid: return rounded(apply("Sigmoid", x));
  case Op::erf: return rounded(apply("Erf", x));
  case Op::silu: return rounded(apply("Mul", {a, apply("Sigmoid", {a})}));
  case Op::gelu: return wide ? defined() : rounded(apply("Gelu", x));
  case Op::gelu_tanh:
    return wide ? defined() : rounded(apply("Gelu", x, {}, {attribute("approximate", std::string("tanh"))}));
  case Op::softplus: return wide ? defined() : rounded(apply("Softplus", x));
  case Op::rsqrt: return rounded(apply("Reciprocal", {apply("Sqrt", x)}));
  case Op::pow: {
    const Held power = rounded(apply("Pow", x));
    const auto known = graph_.known(x[1].name);
    if (known && *known != 0 && !std::isnan(*known)) return power;
    const Held lost = apply(
        "Or", {apply("IsNaN", {a}, DType::boolean), apply("IsNaN", {x[1]}, DType::boolean)}, DType::boolean);
    return select(lost, number(type, std::numeric_limits<double>::quiet_NaN()), power);
  }
  case Op::sign:
  case Op::log1p:
  case Op::expm1: return defined();
  default: LUMINAL_CHECK(false, "no operation on floats: {}", to_string(op));
  }
  return {};
}

Held Exporter::op(Op op, std::vector<Held> x) {
  if (op == Op::select) return select(x[0], x[1], x[2]);
  if (op == Op::lt || op == Op::le || op == Op::eq || op == Op::ne) return compare(op, x[0], x[1]);
  if (x[0].dtype == DType::boolean) return bool_op(op, x);
  if (auto made = of_channels(op, x)) return *made;
  return is_float(x[0].dtype) ? float_op(op, x) : integer_op(op, x);
}

Held Exporter::scalar(const Scalar& program, const std::vector<Held>& leaves, DType result) {
  std::vector<DType> types;
  for (const Held& leaf : leaves) types.push_back(leaf.dtype);
  const TypedScalar steps = typed(program, types, result);
  std::vector<Held> values;
  for (const TypedScalar::Step& step : steps.steps) {
    std::vector<Held> x;
    for (const int arg : step.args)
      if (arg >= 0) x.push_back(values[size_t(arg)]);
    switch (step.kind) {
    case ScalarNode::Kind::constant:
      values.push_back(is_float(step.result) ? number(step.result, step.value)
                                             : integer_of(step.result, step.integer));
      break;
    case ScalarNode::Kind::leaf: values.push_back(leaves[size_t(step.leaf)]); break;
    case ScalarNode::Kind::op: values.push_back(op(step.op, std::move(x))); break;
    case ScalarNode::Kind::cast: values.push_back(cast(x[0], step.result)); break;
    }
  }
  return values.back();
}

Held Exporter::float_to_integer(const Held& x, DType to) {
  Held a = x;
  if (x.dtype == DType::f16) a = {cast_name(x.name, DType::f32), DType::f32, x.shape};
  const DType held = held_as(to);
  // Saturated: Cast says nothing of what is out of range, nor of NaN.
  const int width = bits(to);
  const double beyond = std::ldexp(1.0, is_signed(to) ? width - 1 : width);
  const Held above = number(a.dtype, beyond), below = number(a.dtype, is_signed(to) ? -beyond : 0);
  const int64_t greatest = to == DType::u64 ? -1
                           : is_signed(to)  ? int64_t(~uint64_t(0) >> (65 - width))
                                            : int64_t(~uint64_t(0) >> (64 - width));
  const int64_t least = is_signed(to) ? -greatest - 1 : 0;
  const Held too_large = compare(Op::le, above, a), too_small = compare(Op::le, a, below);
  const Held inside = apply("And", {compare(Op::lt, below, a), compare(Op::lt, a, above)}, DType::boolean);
  Held result = select(inside, a, number(a.dtype, 0));
  result = {to == DType::u64 ? cast_name(cast_name(result.name, DType::u64), DType::i64)
                             : cast_name(result.name, held),
            to, result.shape};
  result = select(too_large, integer_of(to, greatest), result);
  return select(too_small, integer_of(to, least), result);
}

Held Exporter::cast(const Held& x, DType to) {
  const DType from = x.dtype, held = held_as(to);
  if (from == to) return x;
  if (const auto known = graph_.known(x.name); known && from == DType::i64 && is_float(to))
    if (const Held value = number(to, *known); held_as(to) == to) return value;
  if (to == DType::boolean) return {cast_name(x.name, to), to, x.shape};
  if (is_float(from) && !is_float(to)) return float_to_integer(x, to);
  std::string name = from == DType::u64 && is_float(to) ? reinterpret_u64(x).name : x.name;
  if (held != held_as(from) || name != x.name) name = cast_name(name, held);
  Held result{name, to, x.shape};
  const bool exact = from == DType::boolean || (is_float(from) == is_float(to) && promote(from, to) == to);
  return exact ? result : rounded(result);
}

} // namespace luminal::onnx_export
