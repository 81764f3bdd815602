// tensor/random.cpp -- random numbers from explicit keys. Logarithms and the inverse of the normal
// distribution are written in operations that are rounded exactly, so that every device and the
// interpreter give the same bits.
#include "luminal/random.h"
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>
#include <bit>

namespace luminal {
namespace {

void check_key(std::string_view op, const Tensor& key, Where where) {
  graph_of(op, {&key}, where);
  if (type_of(key) == TensorType{DType::u32, {2}}) return;
  throw Error(op,
              fmt::format("the key is {}, expected u32[2] (see random_key, split_key)",
                          luminal::to_string(type_of(key))),
              where);
}

/// Row-major number of an element.
Expr flat_index(const Shape& shape) {
  Expr flat = 0;
  for (size_t d = 0; d < shape.size(); d++) flat = flat * shape[d] + axis_symbol(int(d), shape[d]);
  return flat;
}

/// The leaf, with the user's line for messages.
NodeId random_leaf(FunctionBuilder& b, std::string_view op, const Tensor& key, RandomAttr attr, Where where) {
  const NodeId made = b.add(std::move(attr), {node_id(key)}, {}, where);
  b.origin(made, std::string(op) + maker_text(*key.graph(), where));
  return made;
}

/// Word `word` of `words` for each element: u32, or f32 in [0, 1).
Tensor draw(std::string_view op, const Tensor& key, const Shape& shape, DType type, int words, int word,
            Where where) {
  return build(op, key.graph(), where, [&](FunctionBuilder& b) {
    return random_leaf(b, op, key, {flat_index(shape) * words + word, {type, shape}}, where);
  });
}

Shape shape_for(std::string_view op, const Tensor& key, const Dims& dims, Where where) {
  check_key(op, key, where);
  Shape shape = to_shape(dims);
  for (Expr extent : shape)
    if (prove(ge(extent, 0)) != Truth::yes)
      throw Error(op, fmt::format("a shape of {}: an extent may be negative", text_of(shape)), where);
  return shape;
}

Tensor choose(const Tensor& condition, Operand a, Operand b) {
  return elementwise(Op::select, "select", {Operand(condition), a, b}, condition.graph() ? a.where : b.where);
}

Tensor polynomial(const Tensor& x, std::initializer_list<double> highest_first) {
  Tensor sum;
  for (double c : highest_first) sum = sum.defined() ? sum * x + c : x * 0 + c;
  return sum;
}

/// log((1 + s) / (1 - s)) for |s| < 0.18: the series of the inverse hyperbolic tangent, twice.
Tensor log_of_ratio(const Tensor& s) {
  Tensor z = s * s, twice = s + s;
  return twice + twice * (z * polynomial(z, {1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3}));
}

/// Natural logarithm of normal positive f32 numbers, within 1e-6 relative or 1e-7 absolute.
Tensor portable_log(const Tensor& x) {
  constexpr int root_half = 0x3f3504f3; // the bits of sqrt(0.5): mantissas lie between it and its double
  Tensor bits = x.bitcast(DType::i32);
  Tensor exponent = (bits - root_half) >> 23;
  Tensor mantissa = (bits - (exponent << 23)).bitcast(DType::f32);
  Tensor log_mantissa = log_of_ratio((mantissa - 1) / (mantissa + 1));
  Tensor e = exponent.cast(DType::f32);
  return e * 0.693359375 + (log_mantissa + e * -2.12194440e-4); // log 2 in two parts, the first one short
}

/// The middle of the cell of a word: in (0, 1], with full relative precision near 0.
Tensor open_unit(const Tensor& word, double cells) { return (word.cast(DType::f32) + 0.5) * (1 / cells); }

/// -log(1 - v): of the exponential distribution, with full precision at both ends.
Tensor unit_exponential(const Tensor& word) {
  Tensor v = open_unit(word, 0x1p32), rest = open_unit(word ^ 4294967295u, 0x1p32); // 1 - v
  return choose(v < 0.25, log_of_ratio(v / (2 - v)), -portable_log(rest));
}

/// The inverse of the normal distribution: M. Giles, Approximating the erfinv function (GPU
/// Computing Gems, 2011), single precision.
Tensor unit_normal(const Tensor& word) {
  Tensor p = open_unit(word >> 1, 0x1p31); // twice the probability of the tail
  Tensor x = 1 - p, w = -portable_log(p * (2 - p));
  Tensor middle =
      polynomial(w - 2.5, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  Tensor tail =
      polynomial(w.sqrt() - 3, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                -0.0076224613, 0.00943887047, 1.00167406, 2.83297682});
  Tensor size = choose(w < 5, middle, tail) * x * 1.4142135623730951;
  return choose(equal(word & 1, 0), size, -size);
}

Tensor gumbel(std::string_view op, const Tensor& key, const Shape& shape, Where where) {
  return -portable_log(unit_exponential(draw(op, key, shape, DType::u32, 1, 0, where)));
}

/// Two words as one integer of 64 bits.
Tensor wide_word(std::string_view op, const Tensor& key, const Shape& shape, Where where) {
  Tensor high = draw(op, key, shape, DType::u32, 2, 0, where).cast(DType::u64, where),
         low = draw(op, key, shape, DType::u32, 2, 1, where).cast(DType::u64, where);
  return (high << 32) | low;
}

/// Uniform in [0, 1) with as many bits as the type holds, in f32 or f64.
Tensor unit_uniform(std::string_view op, const Tensor& key, const Shape& shape, DType dtype, Where where) {
  if (dtype == DType::f64) return (wide_word(op, key, shape, where) >> 11).cast(DType::f64, where) * 0x1p-53;
  Tensor u = draw(op, key, shape, DType::f32, 1, 0, where);
  const double cells = 1 / (2 * unit_roundoff(dtype)) * 2; // 2^24, 2^11, 2^8, ..
  return cells >= 0x1p24 ? u : (u * cells).floor(where) * (1 / cells);
}

void float_only(std::string_view op, DType dtype, Where where) {
  if (!is_float(dtype))
    throw Error(op, fmt::format("the numbers are not {}: a float type is needed", luminal::to_string(dtype)),
                where);
}

Tensor key_of_words(const std::shared_ptr<GraphState>& graph, uint64_t seed, std::string_view op,
                    Where where) {
  return build(op, graph, where, [&](FunctionBuilder& b) {
    const uint32_t words[2] = {uint32_t(seed), uint32_t(seed >> 32)};
    auto bytes = std::as_bytes(std::span(words));
    return b.constant(TensorType{DType::u32, {2}}, {bytes.begin(), bytes.end()});
  });
}

} // namespace

Tensor random_key(Graph& graph, uint64_t seed, Where where) {
  return key_of_words(graph.state("random_key", where), seed, "random_key", where);
}

Tensor random_state_key(Graph& graph, std::string name, uint64_t seed, Where where) {
  // The state begins with zeros, so it holds what the key differs by from the seed.
  Tensor state = graph.state(std::move(name), {2}, DType::u32, where);
  Tensor start = key_of_words(graph.state("random_state_key", where), seed, "random_state_key", where);
  std::vector<Tensor> keys = split_key(state ^ start, 2, where);
  graph.update(state, keys[0] ^ start, where);
  return keys[1];
}

Tensor child_key(const Tensor& key, Dim place, Where where) {
  check_key("child_key", key, where);
  if (prove(ge(to_expr(place), 0)) != Truth::yes)
    throw Error("child_key", fmt::format("place {} may be negative", place.to_string()), where);
  return build("child_key", key.graph(), where, [&](FunctionBuilder& b) {
    const Expr word = axis_symbol(0, 2);
    return random_leaf(b, "child_key", key,
                       {Expr(int64_t(1) << 62) + to_expr(place) * 4 + word, {DType::u32, {2}}}, where);
  });
}

std::vector<Tensor> split_key(const Tensor& key, int64_t count, Where where) {
  check_key("split_key", key, where);
  if (count < 0)
    throw Error("split_key", fmt::format("{} keys: the count may not be negative", count), where);
  std::vector<Tensor> keys;
  for (int64_t i = 0; i < count; i++) keys.push_back(child_key(key, i, where));
  return keys;
}

Tensor random_bits(const Tensor& key, Dims dims, Where where) {
  return draw("random_bits", key, shape_for("random_bits", key, dims, where), DType::u32, 1, 0, where);
}

Tensor random_uniform(const Tensor& key, Dims dims, double low, double high, DType dtype, Where where) {
  const Shape shape = shape_for("random_uniform", key, dims, where);
  float_only("random_uniform", dtype, where);
  if (!(low <= high))
    throw Error("random_uniform",
                fmt::format("{}..{} is not a range: the first must not be greater", low, high), where);
  Tensor u = unit_uniform("random_uniform", key, shape, dtype, where);
  if (low == 0 && high == 1) return u.cast(dtype, where);
  Tensor value = (u * (high - low) + low).cast(dtype, where);
  return choose(value < high, value, low); // rounding may not reach what is excluded
}

Tensor random_normal(const Tensor& key, Dims dims, double mean, double deviation, DType dtype, Where where) {
  const Shape shape = shape_for("random_normal", key, dims, where);
  float_only("random_normal", dtype, where);
  if (!(deviation >= 0))
    throw Error("random_normal", fmt::format("a deviation of {}: it may not be negative", deviation), where);
  Tensor unit = unit_normal(draw("random_normal", key, shape, DType::u32, 1, 0, where));
  if (dtype == DType::f64) unit = unit.cast(dtype, where);
  return (unit * deviation + mean).cast(dtype, where);
}

Tensor random_exponential(const Tensor& key, Dims dims, double rate, DType dtype, Where where) {
  const Shape shape = shape_for("random_exponential", key, dims, where);
  float_only("random_exponential", dtype, where);
  if (!(rate > 0))
    throw Error("random_exponential", fmt::format("a rate of {}: it must be positive", rate), where);
  Tensor unit = unit_exponential(draw("random_exponential", key, shape, DType::u32, 1, 0, where));
  if (dtype == DType::f64) unit = unit.cast(dtype, where);
  return (unit * (1 / rate)).cast(dtype, where);
}

Tensor random_bernoulli(const Tensor& key, Dims dims, double p, Where where) {
  const Shape shape = shape_for("random_bernoulli", key, dims, where);
  if (!(p >= 0 && p <= 1))
    throw Error("random_bernoulli", fmt::format("{} is not a probability: it lies in 0..1", p), where);
  return draw("random_bernoulli", key, shape, DType::f32, 1, 0, where) < p;
}
Tensor random_bernoulli(const Tensor& key, const Tensor& p, Where where) {
  check_key("random_bernoulli", key, where);
  graph_of("random_bernoulli", {&key, &p}, where);
  float_only("random_bernoulli", p.dtype(), where);
  return draw("random_bernoulli", key, type_of(p).shape, DType::f32, 1, 0, where) < p;
}

Tensor random_int(const Tensor& key, Dims dims, int64_t low, int64_t high, DType dtype, Where where) {
  const Shape shape = shape_for("random_int", key, dims, where);
  if (!is_integer(dtype))
    throw Error("random_int",
                fmt::format("the numbers are not {}: an integer type is needed", luminal::to_string(dtype)),
                where);
  if (low >= high)
    throw Error("random_int", fmt::format("{}..{} is not a range: the first must be less", low, high), where);
  const uint64_t range = uint64_t(high) - uint64_t(low);
  return build("random_int", key.graph(), where, [&](FunctionBuilder& b) {
    auto number = [&](uint64_t value) { return integer(b, DType::u64, int64_t(value), shape); };
    NodeId offset;
    if (range <= uint64_t(1) << 32) { // the upper half of (64 random bits) * range
      auto word = [&](int w) {
        return b.cast(
            random_leaf(b, "random_int", key, {flat_index(shape) * 2 + w, {DType::u32, shape}}, where),
            DType::u64);
      };
      NodeId low_part = b.map(Op::shr, {b.map(Op::mul, {word(1), number(range)}), number(32)});
      offset =
          b.map(Op::shr, {b.map(Op::add, {b.map(Op::mul, {word(0), number(range)}), low_part}), number(32)});
    } else {
      offset = b.map(Op::rem, {node_id(wide_word("random_int", key, shape, where)), number(range)});
    }
    NodeId value = b.map(Op::add, {offset, number(uint64_t(low))});
    return b.cast(b.bitcast(value, DType::i64), dtype);
  });
}

Tensor random_permutation(const Tensor& key, Dim count, Where where) {
  const Shape shape = shape_for("random_permutation", key, {count}, where);
  return wide_word("random_permutation", key, shape, where).argsort(0, false, where);
}
Tensor shuffle(const Tensor& key, const Tensor& x, int axis, Where where) {
  check_key("shuffle", key, where);
  graph_of("shuffle", {&key, &x}, where);
  axis = axis_of("shuffle", axis, x.rank(), where);
  return gather_axis("shuffle", x, axis, random_permutation(key, x.shape()[size_t(axis)], where),
                     OutOfRange::clamp, 0, where);
}

Tensor random_categorical(const Tensor& key, const Tensor& logits, int axis, Where where) {
  check_key("random_categorical", key, where);
  graph_of("random_categorical", {&key, &logits}, where);
  float_only("random_categorical", logits.dtype(), where);
  axis = axis_of("random_categorical", axis, logits.rank(), where);
  // The largest of the logits plus noise of the Gumbel distribution.
  Tensor noise = gumbel("random_categorical", key, type_of(logits).shape, where);
  return (logits.cast(DType::f32, where) + noise).argmax(axis, false, where);
}

Tensor gumbel_softmax(const Tensor& key, const Tensor& logits, double temperature, bool hard, int axis,
                      Where where) {
  check_key("gumbel_softmax", key, where);
  graph_of("gumbel_softmax", {&key, &logits}, where);
  float_only("gumbel_softmax", logits.dtype(), where);
  if (!(temperature > 0))
    throw Error("gumbel_softmax", fmt::format("the temperature {} must be positive", temperature), where);
  axis = axis_of("gumbel_softmax", axis, logits.rank(), where);
  Tensor noisy = logits.cast(DType::f32, where) + gumbel("gumbel_softmax", key, type_of(logits).shape, where);
  if (!hard) return (noisy * (1 / temperature)).softmax(axis, where).cast(logits.dtype(), where);
  Tensor places = build("gumbel_softmax", key.graph(), where, [&](FunctionBuilder& b) {
    const Shape shape = type_of(noisy).shape;
    return b.iota(shape, axis_symbol(axis, shape[size_t(axis)]), DType::i64);
  });
  return equal(places, noisy.argmax(axis, true, where)).cast(logits.dtype(), where);
}

Tensor random_multinomial(const Tensor& key, const Tensor& weights, int64_t count, bool replacement,
                          Where where) {
  check_key("random_multinomial", key, where);
  graph_of("random_multinomial", {&key, &weights}, where);
  float_only("random_multinomial", weights.dtype(), where);
  if (weights.rank() < 1 || count < 1)
    throw Error("random_multinomial",
                fmt::format("{} indices of weights {}: at least one of an axis is drawn", count,
                            text_of(type_of(weights).shape)),
                where);
  Tensor w = weights.cast(DType::f32, where);
  // The least normal number stands in for what has no logarithm here: it is chosen over, not
  // computed with.
  Tensor logits = choose(w > 0, portable_log(maximum(w, 0x1p-126)), -INFINITY);
  if (!replacement) {
    Tensor noise = gumbel("random_multinomial", key, type_of(w).shape, where);
    return (logits + noise).topk(count, -1, true, where).indices;
  }
  Shape shape = type_of(w).shape;
  shape.insert(shape.end() - 1, Expr(count));
  Tensor noise = gumbel("random_multinomial", key, shape, where);
  return (logits.unsqueeze(-2, where) + noise).argmax(-1, false, where);
}

Tensor dropout(const Tensor& key, const Tensor& x, double p, Where where) {
  check_key("dropout", key, where);
  graph_of("dropout", {&key, &x}, where);
  float_only("dropout", x.dtype(), where);
  if (!(p >= 0 && p <= 1))
    throw Error("dropout", fmt::format("{} is not a probability: it lies in 0..1", p), where);
  if (p == 0) return x;
  Tensor dropped = draw("dropout", key, type_of(x).shape, DType::f32, 1, 0, where) < p;
  return choose(dropped, Operand(0, where), Operand(p == 1 ? x : x * (1 / (1 - p)), where));
}

} // namespace luminal
