// codegen/c_like/c_value.cpp -- values as C-like text: constants, loads, the rows of the op table, casts.
#include "base/check.h"
#include "codegen/c_like/c_emitter.h"
#include "ir/identity.h"
#include "ir/scalar.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace luminal::codegen {
using kernel::Space;

namespace {

bool held_as_f32(DType type) { return is_float(type) && type != DType::f32 && type != DType::f64; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
/// May it stand twice without being computed twice?
bool is_simple(const std::string& text) { return text.size() <= 24 && std::ranges::all_of(text, is_name); }

} // namespace

std::string CEmitter::held_type(DType type) {
  if (type == DType::boolean) return "bool";
  if (type == DType::i4) return "i8";
  if (type == DType::u4) return "u8";
  return held_as_f32(type) ? "f32" : std::string(to_string(type));
}

std::string CEmitter::memory_type(DType type) {
  if (type == DType::boolean || bits(type) == 4) return "u8";
  if (held_as_f32(type)) return bits(type) == 8 ? "u8" : "u16";
  return std::string(to_string(type));
}

std::string CEmitter::unpack(const std::string& memory, DType type) {
  if (type == DType::boolean) return fmt::format("({} != 0)", memory);
  if (!held_as_f32(type)) return memory;
  const std::string function = fmt::format("lum_widen_{}", to_string(type));
  used_.insert(function);
  return fmt::format("{}({})", function, memory);
}

std::string CEmitter::pack(const std::string& x, DType type) {
  if (type == DType::boolean) return fmt::format("(u8)({})", x);
  if (!held_as_f32(type)) return x;
  const std::string function = fmt::format("lum_narrow_{}", to_string(type));
  used_.insert(function);
  return fmt::format("{}({})", function, x);
}

bool CEmitter::varies(Expr e) {
  return by_statement_ && (depends_on(e, *lane_) ||
                           std::ranges::any_of(lane_symbols_, [&](Expr s) { return depends_on(e, s); }));
}
bool CEmitter::varies(const kernel::Value& v) {
  if (const auto* lanes = v.as<kernel::ReduceLanes>())
    return by_statement_ && lanes->form == kernel::LanesForm::scanned;
  if (const auto* load = v.as<kernel::Load>()) return varies(load->offset) || varies(load->guard);
  if (const auto* at = v.as<kernel::Index>()) return varies(at->value);
  if (const auto* let = v.as<kernel::Let>()) return let_varies_[let->number];
  return std::ranges::any_of(args_of(v), [&](const kernel::ValueRef& a) { return varies(*a); });
}

void CEmitter::count_uses(const kernel::ValueRef& v) {
  if (uses_[v.get()]++ > 0) return;
  for (const kernel::ValueRef& a : args_of(*v)) count_uses(a);
}

/// A constant with this value, computed once.
std::string CEmitter::named(const std::string& text, std::string_view type) {
  if (is_simple(text)) return text;
  std::string name = unique(fmt::format("v{}", temporaries_++));
  line(fmt::format("const {} {} = {};", type, name, text));
  return name;
}

std::string CEmitter::value(const kernel::ValueRef& v) {
  if (const auto found = known_.find(v.get()); found != known_.end()) return found->second;
  std::string text = compute(*v);
  constexpr size_t long_text = 160;
  const bool plain = v->is<kernel::Constant>() || v->is<kernel::Let>();
  if (plain || (uses_[v.get()] <= 1 && text.size() <= long_text)) return text;
  return known_[v.get()] = named(text, held_type(v->dtype));
}

std::string CEmitter::compute(const kernel::Value& v) {
  return kernel::visit(
      v, [&](const kernel::Constant& x) { return constant(v.dtype, x.value); },
      [&](const kernel::Load&) { return load(v); },
      [&](const kernel::Index& x) {
        return cast(fmt::format("((i64){})", index(x.value)), DType::i64, v.dtype);
      },
      [&](const kernel::Let& x) {
        const auto found = lets_.find(x.number);
        LUMINAL_CHECK(found != lets_.end(), "{}: let {} is read before it is defined", kernel_.name,
                      x.number);
        return let_by_lane_[x.number] && by_statement_
                   ? fmt::format("{}[{}]", found->second, index(*lane_ - *first_lane_))
                   : found->second;
      },
      [&](const kernel::Apply& x) {
        std::vector<std::string> args;
        for (const kernel::ValueRef& a : x.args) args.push_back(value(a));
        return apply(x.op, x.args.empty() ? v.dtype : x.args.back()->dtype, std::move(args));
      },
      [&](const kernel::ApplyUser& x) {
        std::vector<std::string> args;
        for (const kernel::ValueRef& a : x.args) args.push_back(value(a));
        return apply_user(x.name, x.args.empty() ? v.dtype : x.args.back()->dtype, args);
      },
      [&](const kernel::Cast& x) { return cast(value(x.x), x.x->dtype, v.dtype); },
      [&](const kernel::Bitcast& x) { return bitcast(x.x, v.dtype); },
      [&](const kernel::ReduceLanes& x) { return lane_ ? reduce(x, v.dtype) : value(x.x); });
}

std::string CEmitter::constant(DType type, double x) {
  if (type == DType::boolean) return x != 0 ? "true" : "false";
  if (type == DType::f64) {
    if (!std::isfinite(x))
      return fmt::format("lum_f64_of_bits(0x{:x}ul)", std::bit_cast<uint64_t>(std::isnan(x) ? NAN : x));
    std::string text = fmt::format("{:.17g}", x);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return x < 0 || std::signbit(x) ? fmt::format("({})", text) : text;
  }
  if (is_float(type)) {
    const auto f = float(round_to(type, x));
    if (!std::isfinite(f))
      return fmt::format("lum_f32_of_bits(0x{:x}u)", std::bit_cast<uint32_t>(std::isnan(f) ? float(NAN) : f));
    std::string text = fmt::format("{:.9g}", f);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return std::signbit(f) ? fmt::format("({}f)", text) : text + "f";
  }
  const auto whole = std::isinf(x)                ? truncate_to(type, x)
                     : x >= 9223372036854775808.0 ? int64_t(uint64_t(x))
                                                  : int64_t(x);
  const int64_t wrapped = wrap(type, whole);
  const std::string t = held_type(type);
  if (type == DType::u64) return fmt::format("{}ul", uint64_t(wrapped));
  if (type == DType::i64)
    return wrapped == INT64_MIN ? "(-9223372036854775807l - 1)" : fmt::format("({}l)", wrapped);
  if (type == DType::u32) return fmt::format("{}u", uint32_t(wrapped));
  if (type == DType::i32 && wrapped == INT32_MIN) return "(-2147483647 - 1)";
  return fmt::format("(({}){})", t, wrapped);
}

// ---- memory ----

/// The bytes from element `offset` of a buffer on, as a word: assembled where it may not lie on a
/// multiple of its size.
std::string CEmitter::loaded_words(const kernel::Buffer& b, const std::string& name, Expr offset, DType as) {
  const int own = bits(b.dtype) == 4 ? 1 : bits(b.dtype) / 8, wanted = std::max(1, bits(as) / 8);
  const Expr element = bits(b.dtype) == 4 ? floordiv(offset, 2) : offset;
  const Expr byte = element * Expr(own);
  const std::string_view space = b.space == Space::global || b.space == Space::shared ? dialect_.global_space
                                 : b.space == Space::group                            ? dialect_.group_space
                                                                                      : "";
  const std::string type = memory_type(as);
  if (b.space == Space::group && (wanted <= own || byte.multiple() % wanted == 0)) {
    group_loads_ = true;
    return fmt::format("lum_group_load({}, {}, {})", type, name, index(byte));
  }
  if (wanted <= own || byte.multiple() % wanted == 0)
    return fmt::format("(*(const {0}{1}*)((const {0}u8*){2} + {3}))", space, type, name, index(byte));
  const std::string word = fmt::format("u{}", 8 * wanted), wide = wanted <= 4 ? "u32" : "u64";
  std::string text;
  group_loads_ |= b.space == Space::group;
  for (int part = 0; part < wanted && b.space == Space::group; part += own)
    text += fmt::format("{}({})lum_group_load(u{}, {}, {}){}", part ? " | " : "", wide, 8 * own, name,
                        index(byte + Expr(part)), part ? fmt::format(" << {}", 8 * part) : "");
  for (int part = 0; part < wanted && b.space != Space::group; part += own)
    text +=
        fmt::format("{0}({1})(*(const {2}u{3}*)((const {2}u8*){4} + {5})){6}", part ? " | " : "", wide, space,
                    8 * own, name, index(byte + Expr(part)), part ? fmt::format(" << {}", 8 * part) : "");
  text = fmt::format("({})({})", word, text);
  if (type == word) return text;
  if (as == DType::f32) return fmt::format("lum_f32_of_bits({})", text);
  if (as == DType::f64) return fmt::format("lum_f64_of_bits({})", text);
  return fmt::format("({})({})", type, text);
}

std::string CEmitter::load(const kernel::Value& v) {
  const auto& from = *v.as<kernel::Load>();
  const kernel::Buffer& b = kernel_.buffers[from.buffer];
  const std::string& name = buffers_[from.buffer];
  if (b.space == Space::registers) return fmt::format("{}[{}]", name, index(from.offset));
  std::string text;
  if (v.dtype != b.dtype)
    text = bits(v.dtype) == 4 ? fmt::format("(u8)({} & 15)", loaded_words(b, name, from.offset, DType::u8))
                              : loaded_words(b, name, from.offset, v.dtype);
  else if (bits(b.dtype) == 4)
    text = fmt::format("({}[{}] >> {} & 15)", name, index(floordiv(from.offset, 2)),
                       index(mod(from.offset, 2) * Expr(4)));
  else
    text = fmt::format("{}[{}]", name, index(from.offset));
  if (v.dtype == DType::i4) {
    used_.insert("lum_wrap_i4");
    text = fmt::format("lum_wrap_i4({})", text);
  } else if (v.dtype == DType::u4)
    text = fmt::format("(u8){}", text);
  else
    text = unpack(text, v.dtype);
  if (from.guard.is_constant() && from.guard.value() != 0) return text;
  return fmt::format("({} ? {} : ({})0)", condition(from.guard), text, held_type(v.dtype));
}

// ---- operations ----

/// A text of the op table: {t}, {u} and arguments filled in, functions named with the type.
std::string CEmitter::apply(Op op, DType type, std::vector<std::string> args) {
  const OpRow& r = row(op);
  const bool real = is_float(type);
  const std::string held = held_type(type), suffix = real ? held : std::string(to_string(type));
  std::string_view text = real ? r.c_float : r.c_int;
  if (!real && op == Op::fma) text = "({t})(({u}){a} * ({u}){b} + ({u}){c})";
  if (op == Op::fma && held_as_f32(type)) text = "lum_fma_odd({a}, {b}, {c})";
  if (text.empty()) fail(fmt::format("there is no {} of {}", r.name, to_string(type)));
  for (size_t a = 0; a < args.size(); ++a) {
    const std::string place = fmt::format("{{{}}}", char('a' + a));
    const size_t first = text.find(place);
    if (first != std::string_view::npos && text.find(place, first + 1) != std::string_view::npos)
      args[a] = named(args[a], held);
  }
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '{') {
      const char name = text[i + 1];
      out += name == 't' ? held : name == 'u' ? (bits(type) == 64 ? "u64" : "u32") : args[size_t(name - 'a')];
      i += 3;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_name(text[end])) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    std::string word(text.substr(i, end - i));
    if (end < text.size() && text[end] == '(') {
      word = fmt::format("{}{}_{}", word.starts_with("lum_") ? "" : "lum_", word, suffix);
      used_.insert(word);
    }
    out += word;
    i = end;
  }
  const bool truth = r.signature == Signature::comparison || r.signature == Signature::test;
  if (truth || r.signature == Signature::choice) return out;
  if (held_as_f32(type) && r.ulp != 0) {
    const std::string function = fmt::format("lum_round_{}", to_string(type));
    used_.insert(function);
    return fmt::format("{}({})", function, out);
  }
  if (real || bits(type) >= 32) return out;
  if (bits(type) == 4) {
    const std::string function = fmt::format("lum_wrap_{}", to_string(type));
    used_.insert(function);
    return fmt::format("{}({})", function, out);
  }
  return fmt::format("({}){}", held, out);
}

std::string CEmitter::apply_user(const std::string& name, DType type, const std::vector<std::string>& args) {
  if (kernel::find_lane_unit(name))
    fail(fmt::format("the unit {} does not exist in {}", name, dialect_.name));
  const UserOp* user = find_user_op(name);
  if (!user) fail("the operation " + name + " is not registered");
  if (const auto own = user->text.find(std::string(dialect_.name)); own != user->text.end()) {
    std::string text = own->second;
    for (size_t a = 0; a < args.size(); ++a) {
      const std::string place = fmt::format("{{{}}}", char('a' + a)), by = named(args[a], held_type(type));
      for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + by.size()))
        text.replace(at, place.size(), by);
    }
    text = fmt::format("({})", text);
    return held_as_f32(type) ? (used_.insert(fmt::format("lum_round_{}", to_string(type))),
                                fmt::format("lum_round_{}{}", to_string(type), text))
                             : text;
  }
  if (user->definition.empty())
    fail(fmt::format("the operation {} has neither a definition nor a text for {}", name, dialect_.name));
  std::vector<std::string> names{"a", "b", "c"};
  names.resize(size_t(user->arity));
  const Scalar program = parse_scalar(user->definition, names);
  struct Typed {
    std::string text; // empty: a constant, whose type its user decides
    DType type = DType::f32;
    double number = 0;
  };
  std::vector<Typed> nodes;
  const auto as = [&](const Typed& t, DType wanted) {
    return t.text.empty() ? constant(wanted, t.number) : t.text;
  };
  for (const ScalarNode& n : program.nodes()) {
    Typed made;
    const auto arg = [&](int i) -> const Typed& { return nodes[size_t(n.args[i])]; };
    switch (n.kind) {
    case ScalarNode::Kind::constant: made.number = n.value; break;
    case ScalarNode::Kind::leaf: made = {named(args[size_t(n.leaf)], held_type(type)), type, 0}; break;
    case ScalarNode::Kind::cast: {
      const DType from = arg(0).text.empty() ? type : arg(0).type;
      made = {named(cast(as(arg(0), from), from, n.dtype), held_type(n.dtype)), n.dtype, 0};
      break;
    }
    case ScalarNode::Kind::op: {
      const OpRow& r = row(n.op);
      const int first = r.signature == Signature::choice ? 1 : 0;
      DType shared = type;
      for (int i = first; i < r.arity; ++i)
        if (!arg(i).text.empty()) shared = arg(i).type;
      std::vector<std::string> given;
      for (int i = 0; i < r.arity; ++i) given.push_back(as(arg(i), i < first ? DType::boolean : shared));
      const bool truth = r.signature == Signature::comparison || r.signature == Signature::test;
      made.type = truth ? DType::boolean : shared;
      made.text = named(apply(n.op, shared, std::move(given)), held_type(made.type));
      break;
    }
    }
    nodes.push_back(std::move(made));
  }
  return as(nodes.back(), type);
}

// ---- conversions ----

std::string CEmitter::cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  const std::string t = held_type(to);
  const auto call = [&](const std::string& function, const std::string& argument) {
    used_.insert(function);
    return fmt::format("{}({})", function, argument);
  };
  if (to == DType::boolean) return fmt::format("({} != 0)", x);
  if (is_float(from) && is_float(to)) {
    if (to == DType::f64) return fmt::format("((f64){})", x);
    if (to == DType::f32) return from == DType::f64 ? fmt::format("((f32){})", x) : x;
    return call(fmt::format("lum_round_{}", to_string(to)),
                from == DType::f64 ? call("lum_odd_f32_f64", x) : x);
  }
  if (is_float(from))
    return call(fmt::format("lum_of_{}_{}", from == DType::f64 ? "f64" : "f32", to_string(to)), x);
  if (is_float(to)) {
    if (!held_as_f32(to)) return fmt::format("(({}){})", t, x);
    const std::string narrow = fmt::format("lum_round_{}", to_string(to));
    if (bits(from) <= 16) return call(narrow, fmt::format("(f32){}", x));
    return call(narrow, call(fmt::format("lum_odd_f32_{}", to_string(from)), x));
  }
  if (bits(to) == 4) return call(fmt::format("lum_wrap_{}", to_string(to)), fmt::format("(i32){}", x));
  return fmt::format("(({}){})", t, x);
}

std::string CEmitter::bits_as(const std::string& x, DType from, DType to) {
  const auto call = [&](const std::string& function, const std::string& argument) {
    used_.insert(function);
    return fmt::format("{}({})", function, argument);
  };
  if (bits(from) == 4) return call(fmt::format("lum_wrap_{}", to_string(to)), fmt::format("(i32){}", x));
  std::string word = x; // an integer of that width
  if (is_float(from))
    word = bits(from) >= 32 ? fmt::format("lum_bits_of_{}({})", to_string(from), x) : pack(x, from);
  if (!is_float(to)) return fmt::format("(({}){})", held_type(to), word);
  const std::string plain = fmt::format("(u{}){}", bits(to), word);
  return bits(to) >= 32 ? fmt::format("lum_{}_of_bits({})", to_string(to), plain) : unpack(plain, to);
}

std::string CEmitter::bitcast(const kernel::ValueRef& x, DType to) {
  if (x->dtype == to) return value(x);
  if (bits(x->dtype) != bits(to)) fail("a bitcast between types of different width");
  // Memory is read as the other type at once: a narrow float that is held as f32 would lose the
  // payload of a NaN.
  const auto* load = x->as<kernel::Load>();
  if (load && kernel_.buffers[load->buffer].space != Space::registers && bits(to) >= 8 &&
      to != DType::boolean && x->dtype != DType::boolean)
    return this->load(kernel::Value{to, *load});
  return bits_as(value(x), x->dtype, to);
}

/// Lane l is combined with lane l + h for h = n/2, n/4, ..., 1; of a scan with lane l - h for h = 1, 2, ...;
/// dead lanes are the identity, and 0 where the last live lane is meant.
std::string CEmitter::reduce(const kernel::ReduceLanes& v, DType type) {
  if ((lanes_ & (lanes_ - 1)) != 0) fail("reduce_lanes over a number of lanes that is not a power of two");
  const std::string held = held_type(type), all = unique("r");
  const bool last = v.form == kernel::LanesForm::last;
  const double identity = is_float(type) && !last ? identity_f64(v.op, type) : 0;
  const std::string nothing =
      is_float(type) ? constant(type, identity)
                     : cast(fmt::format("((i64)({}))",
                                        [&] {
                                          const int64_t whole = last ? 0 : identity_i64(v.op, type);
                                          return whole == INT64_MIN ? std::string("-9223372036854775807l - 1")
                                                                    : fmt::format("{}l", whole);
                                        }()),
                            DType::i64, type);
  line(fmt::format("{} {}[{}];", held, all, lanes_));
  const std::string place = index(*lane_ - *first_lane_);
  if (active_ || !conditions_.empty())
    each_lane([&] { line(fmt::format("{}[{}] = {};", all, place, nothing)); }, false);
  each_lane(
      [&] {
        const std::string x = value(v.x);
        line(fmt::format("{}[{}] = {};", all, place, x));
      },
      true);
  const std::string h = unique("h"), l = unique("l");
  if (last) { // lanes that live come before those that do not, or lie among them under a condition
    const std::string at = unique("last");
    line(fmt::format("i32 {} = -1;", at));
    each_lane([&] { line(fmt::format("{} = (i32)({});", at, place)); }, true);
    return fmt::format("({0} < 0 ? {1}[0] : {1}[{0}])", at, all);
  }
  if (v.form == kernel::LanesForm::scanned) {
    block(fmt::format("for (i32 {0} = 1; {0} < {1}; {0} *= 2)", h, lanes_), [&] {
      block(fmt::format("for (i32 {0} = {1} - 1; {0} >= {2}; --{0})", l, lanes_, h), [&] {
        const std::string a = named(fmt::format("{}[{} - {}]", all, l, h), held),
                          b = named(fmt::format("{}[{}]", all, l), held);
        const std::string x = apply(v.op, type, {a, b});
        line(fmt::format("{}[{}] = {};", all, l, x));
      });
    });
    return fmt::format("{}[{}]", all, place);
  }
  block(fmt::format("for (i32 {0} = {1}; {0} > 0; {0} /= 2)", h, lanes_ / 2), [&] {
    block(fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0})", l, h), [&] {
      const std::string a = named(fmt::format("{}[{}]", all, l), held),
                        b = named(fmt::format("{}[{} + {}]", all, l, h), held);
      const std::string x = apply(v.op, type, {a, b});
      line(fmt::format("{}[{}] = {};", all, l, x));
    });
  });
  return fmt::format("{}[0]", all);
}

} // namespace luminal::codegen
