// luminal/random.h -- tensors from nothing: ranges, constants of a shape, and random numbers from
// explicit keys. A key is u32[2]. Philox4x32-10 makes the numbers (docs/terms.md, section 3): equal
// key and shape give equal numbers, bit for bit, on every device and in the interpreter, for no
// more than additions, products, quotients and roots are used. A key is to be used once: split it
// for more.
#pragma once
#include "luminal/graph.h"
#include <type_traits>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

// ---- generators ----
/// start, start + step, .. before end; the step may be negative. Start and end may be expressions.
Tensor arange(Graph& graph, Dim start, Dim end, int64_t step, DType dtype = DType::i64, LUMINAL_WHERE);
Tensor arange_float(Graph& graph, double start, double end, double step, DType dtype,
                    std::source_location where);
/// The same with a fraction among the numbers: start + i * step, computed in f64 and rounded once.
template <class A, class B, class C>
  requires(std::is_floating_point_v<A> || std::is_floating_point_v<B> || std::is_floating_point_v<C>)
Tensor arange(Graph& graph, A start, B end, C step, DType dtype = DType::f32, LUMINAL_WHERE) {
  return arange_float(graph, double(start), double(end), double(step), dtype, where);
}
/// `count` numbers from start to end, both included; computed in f64 from both ends and rounded
/// once.
Tensor linspace(Graph& graph, double start, double end, int64_t count, DType dtype = DType::f32,
                LUMINAL_WHERE);
/// base to the power of linspace(start, end, count).
Tensor logspace(Graph& graph, double start, double end, int64_t count, double base = 10,
                DType dtype = DType::f32, LUMINAL_WHERE);
Tensor full(Graph& graph, Dims shape, double value, DType dtype = DType::f32, LUMINAL_WHERE);
Tensor zeros(Graph& graph, Dims shape, DType dtype = DType::f32, LUMINAL_WHERE);
Tensor ones(Graph& graph, Dims shape, DType dtype = DType::f32, LUMINAL_WHERE);
/// In shape and dtype of x.
Tensor full_like(const Tensor& x, double value, LUMINAL_WHERE);
Tensor zeros_like(const Tensor& x, LUMINAL_WHERE);
Tensor ones_like(const Tensor& x, LUMINAL_WHERE);
/// 1 where row == column, in [rows, columns].
Tensor eye(Graph& graph, Dim rows, Dim columns, DType dtype = DType::f32, LUMINAL_WHERE);
/// 1 where column - row <= diagonal: NumPy's tri.
Tensor tri(Graph& graph, Dim rows, Dim columns, Dim diagonal = 0, DType dtype = DType::f32, LUMINAL_WHERE);

// ---- keys ----
/// A key that is the same in every execute.
Tensor random_key(Graph& graph, uint64_t seed, LUMINAL_WHERE);
/// A key that is another one in every execute: a state of that name goes on from step to step.
/// Graph::reset_states goes back to the seed.
Tensor random_state_key(Graph& graph, std::string name, uint64_t seed, LUMINAL_WHERE);
/// Independent keys made of one.
std::vector<Tensor> split_key(const Tensor& key, int64_t count = 2, LUMINAL_WHERE);
/// The key that split_key gives at that place; the place may be an expression.
Tensor child_key(const Tensor& key, Dim place, LUMINAL_WHERE);

// ---- random numbers ----
Tensor random_bits(const Tensor& key, Dims shape, LUMINAL_WHERE); ///< u32
/// In [low, high): multiples of 2^-24 (f64: 2^-53; narrower types: as many bits as they hold) of
/// the range.
Tensor random_uniform(const Tensor& key, Dims shape, double low = 0, double high = 1,
                      DType dtype = DType::f32, LUMINAL_WHERE);
/// Of the normal distribution, by its inverse function in f32 (within 1e-6 of it, no further than
/// 6.4 deviations from the mean).
Tensor random_normal(const Tensor& key, Dims shape, double mean = 0, double deviation = 1,
                     DType dtype = DType::f32, LUMINAL_WHERE);
Tensor random_exponential(const Tensor& key, Dims shape, double rate = 1, DType dtype = DType::f32,
                          LUMINAL_WHERE);
/// bool: true with probability p.
Tensor random_bernoulli(const Tensor& key, Dims shape, double p, LUMINAL_WHERE);
/// bool in the shape of p: true with that probability.
Tensor random_bernoulli(const Tensor& key, const Tensor& p, LUMINAL_WHERE);
/// low .. high-1, all equally likely.
Tensor random_int(const Tensor& key, Dims shape, int64_t low, int64_t high, DType dtype = DType::i64,
                  LUMINAL_WHERE);
/// 0 .. count-1 in random order, i64.
Tensor random_permutation(const Tensor& key, Dim count, LUMINAL_WHERE);
/// x with the slices along the axis in random order.
Tensor shuffle(const Tensor& key, const Tensor& x, int axis = 0, LUMINAL_WHERE);
/// Indices (i64) along `axis`, which goes away, each with probability softmax(logits).
Tensor random_categorical(const Tensor& key, const Tensor& logits, int axis = -1, LUMINAL_WHERE);
/// Weights [.., n] (not negative, their sum need not be 1) -> i64 [.., count]: indices with
/// probability in proportion; without replacement all are different, and at least `count` weights
/// must not be 0.
Tensor random_multinomial(const Tensor& key, const Tensor& weights, int64_t count, bool replacement = false,
                          LUMINAL_WHERE);
/// softmax((logits + Gumbel noise) / temperature); `hard`: 1 at its largest element, 0 elsewhere.
Tensor gumbel_softmax(const Tensor& key, const Tensor& logits, double temperature = 1, bool hard = false,
                      int axis = -1, LUMINAL_WHERE);
/// Each element is 0 with probability p, else multiplied by 1 / (1 - p).
Tensor dropout(const Tensor& key, const Tensor& x, double p, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
