// models/onnx/ops_training.cpp -- steps of optimizers (ai.onnx.preview.training), counts of n-grams.
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::onnx::ops {
namespace {

/// Inputs are a rate, the count of steps, and lists of as many tensors each: values, gradients, states.
struct Step {
  Tensor rate, count;
  size_t tensors;
  Node& n;
  Tensor operator()(size_t list, size_t i) const { return n.in(2 + list * tensors + i); }
  void out(size_t list, size_t i, const Tensor& value) const {
    n.out(list * tensors + i, value.cast((*this)(0, i).dtype()));
  }
};
Step step_of(Node& n, size_t lists) {
  if (n.inputs() < 2 + lists || (n.inputs() - 2) % lists)
    n.refuse(fmt::format("has {} inputs: a rate, a count and {} tensors for each value are expected",
                         n.inputs(), lists));
  return {n.in(0).reshape({}), n.in(1).reshape({}), (n.inputs() - 2) / lists, n};
}

} // namespace

void Adagrad(Node& n) {
  const Step step = step_of(n, 3);
  const Tensor rate = step.rate / (step.count.cast(DType::f32) * n.number("decay_factor", 0) + 1);
  for (size_t i = 0; i < step.tensors; i++) {
    const Tensor x = step(0, i), gradient = x * n.number("norm_coefficient", 0) + step(1, i);
    const Tensor squares = step(2, i) + gradient.square();
    step.out(0, i, x - rate * gradient / (squares.sqrt() + n.number("epsilon", 0)));
    step.out(1, i, squares);
  }
}
void Adam(Node& n) {
  const Step step = step_of(n, 4);
  const double alpha = n.number("alpha", double(0.9F)), beta = n.number("beta", double(0.999F));
  const Tensor t = step.count.cast(DType::f64);
  const Tensor corrected = (step.rate.cast(DType::f64) * (1 - pow(full_like(t, beta), t)).sqrt() /
                            (1 - pow(full_like(t, alpha), t)))
                               .cast(DType::f32);
  const Tensor rate = select(t > 0, corrected, step.rate.cast(DType::f32));
  for (size_t i = 0; i < step.tensors; i++) {
    const Tensor x = step(0, i), gradient = x * n.number("norm_coefficient", 0) + step(1, i);
    const Tensor first = step(2, i) * alpha + gradient * (1 - alpha);
    const Tensor second = step(3, i) * beta + gradient.square() * (1 - beta);
    const Tensor next = x - rate * (first / (second.sqrt() + n.number("epsilon", 0)));
    step.out(0, i, next * (1 - n.number("norm_coefficient_post", 0)));
    step.out(1, i, first);
    step.out(2, i, second);
  }
}
void Momentum(Node& n) {
  const Step step = step_of(n, 3);
  const double alpha = n.number("alpha"), beta = n.number("beta");
  const bool nesterov = n.one_of("mode", "standard", {"standard", "nesterov"}) == "nesterov";
  const Tensor weight = select(step.count > 0, beta, 1.0);
  for (size_t i = 0; i < step.tensors; i++) {
    const Tensor x = step(0, i), gradient = x * n.number("norm_coefficient", 0) + step(1, i);
    const Tensor moved = step(2, i) * alpha + weight * gradient;
    step.out(0, i, x - step.rate * (nesterov ? gradient + moved * alpha : moved));
    step.out(1, i, moved);
  }
}

void TfIdfVectorizer(Node& n) {
  if (!n.attribute("pool_int64s")) n.refuse("has no pool_int64s: pools of strings are not supported");
  const auto pool = n.integers("pool_int64s"), counts = n.integers("ngram_counts"),
             index = n.integers("ngram_indexes");
  const int64_t least = n.integer("min_gram_length"), most = n.integer("max_gram_length"),
                skips = n.integer("max_skip_count");
  if (index.empty() || counts.empty()) n.refuse("has no ngram_counts or no ngram_indexes");
  Tensor x = n.in(0);
  const bool line = x.rank() < 2;
  if (line) x = x.reshape({1, -1});
  const int64_t size = n.extents(x)[1], results = *std::max_element(index.begin(), index.end()) + 1;
  Tensor y = zeros(n.graph(), {x.dim(0), results}, DType::i64);
  size_t id = 0;
  for (size_t k = 0; k < counts.size(); k++) {
    const auto length = int64_t(k) + 1, begin = counts[k],
               end = k + 1 < counts.size() ? counts[k + 1] : int64_t(pool.size());
    if (begin < 0 || end < begin || end > int64_t(pool.size()))
      n.refuse(fmt::format("has ngram_counts that do not fit its pool of {} words", pool.size()));
    const int64_t grams = (end - begin) / length;
    if (id + size_t(grams) > index.size())
      n.refuse(fmt::format("has {} ngram_indexes, one is expected for each n-gram", index.size()));
    const std::vector<int64_t> places(index.begin() + std::ptrdiff_t(id),
                                      index.begin() + std::ptrdiff_t(id) + grams);
    id += size_t(grams);
    if (grams == 0 || length < least || length > most) continue;
    const std::vector<int64_t> words(pool.begin() + begin, pool.begin() + begin + grams * length);
    const Tensor wanted = n.graph().constant(words, {grams, length}, DType::i64);
    // A gram of one word has no gaps.
    for (int64_t gap = 1; gap <= (length == 1 ? 1 : skips + 1); gap++) {
      if ((length - 1) * gap >= size) break;
      const Tensor windows = x.cast(DType::i64).windows(1, length, 1, gap); // [rows, windows, length]
      const Tensor found = equal(windows.unsqueeze(2), wanted).all(-1).sum(1);
      y = index_add(y, 1, n.graph().constant(places, {grams}, DType::i64), found);
    }
  }
  const std::string mode = n.one_of("mode", "TF", {"TF", "IDF", "TFIDF"});
  Tensor value = y.cast(DType::f32);
  if (mode == "IDF") value = (y > 0).cast(DType::f32);
  if (const auto weights = n.reals("weights"); mode != "TF" && !weights.empty())
    value = value * n.graph().constant(weights, {int64_t(weights.size())}, DType::f32);
  n.out(line ? value.squeeze({0}) : value);
}

} // namespace luminal::onnx::ops
