// luminal/tensor_functions.h -- members of Tensor as free functions, where PyTorch has both:
// exp(x), sum(x, 1), softmax(x, -1), matmul(a, b). What each does stands beside the member
// (tensor.h, unary.h). (std has none: the name is that of the standard library; see std_mean.)
#pragma once
#include "luminal/operators.h"

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

#define LUMINAL_FREE_FUNCTION(name)                                                                          \
  inline Tensor name(const Tensor& x, LUMINAL_WHERE) { return x.name(where); }
LUMINAL_UNARY_FUNCTIONS(LUMINAL_FREE_FUNCTION)
#undef LUMINAL_FREE_FUNCTION

inline Tensor leaky_relu(const Tensor& x, double slope = 0.01, LUMINAL_WHERE) {
  return x.leaky_relu(slope, where);
}
inline Tensor elu(const Tensor& x, double alpha = 1, LUMINAL_WHERE) { return x.elu(alpha, where); }
inline Tensor celu(const Tensor& x, double alpha = 1, LUMINAL_WHERE) { return x.celu(alpha, where); }
inline Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20, LUMINAL_WHERE) {
  return x.softplus(beta, threshold, where);
}
inline Tensor hardtanh(const Tensor& x, double low = -1, double high = 1, LUMINAL_WHERE) {
  return x.hardtanh(low, high, where);
}
inline Tensor threshold(const Tensor& x, double limit, double value, LUMINAL_WHERE) {
  return x.threshold(limit, value, where);
}
inline Tensor glu(const Tensor& x, int axis = -1, LUMINAL_WHERE) { return x.glu(axis, where); }

inline Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.sum(axes, keep_dims, where);
}
inline Tensor prod(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.prod(axes, keep_dims, where);
}
inline Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.mean(axes, keep_dims, where);
}
inline Tensor max(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.max(axes, keep_dims, where);
}
inline Tensor min(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.min(axes, keep_dims, where);
}
inline Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_dims = false,
                  LUMINAL_WHERE) {
  return x.var(axes, correction, keep_dims, where);
}
inline Tensor all(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.all(axes, keep_dims, where);
}
inline Tensor any(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.any(axes, keep_dims, where);
}
inline Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.count_nonzero(axes, keep_dims, where);
}
inline Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.logsumexp(axes, keep_dims, where);
}
inline Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keep_dims = false,
                   LUMINAL_WHERE) {
  return x.norm(p, axes, keep_dims, where);
}
inline Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.argmax(axis, keep_dims, where);
}
inline Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keep_dims = false, LUMINAL_WHERE) {
  return x.argmin(axis, keep_dims, where);
}
inline Tensor softmax(const Tensor& x, int axis = -1, LUMINAL_WHERE) { return x.softmax(axis, where); }
inline Tensor log_softmax(const Tensor& x, int axis = -1, LUMINAL_WHERE) {
  return x.log_softmax(axis, where);
}
inline Tensor normalize(const Tensor& x, double p = 2, const Axes& axes = 1, double eps = 1e-12,
                        LUMINAL_WHERE) {
  return x.normalize(p, axes, eps, where);
}

inline Tensor matmul(const Tensor& a, const Tensor& b, LUMINAL_WHERE) { return a.matmul(b, where); }
inline Tensor permute(const Tensor& x, std::vector<int> order, LUMINAL_WHERE) {
  return x.permute(std::move(order), where);
}
inline Tensor transpose(const Tensor& x, int a = -2, int b = -1, LUMINAL_WHERE) {
  return x.transpose(a, b, where);
}
inline Tensor movedim(const Tensor& x, std::vector<int> from, std::vector<int> to, LUMINAL_WHERE) {
  return x.movedim(std::move(from), std::move(to), where);
}
inline Tensor reshape(const Tensor& x, Dims shape, LUMINAL_WHERE) {
  return x.reshape(std::move(shape), where);
}
inline Tensor flatten(const Tensor& x, int first = 0, int last = -1, LUMINAL_WHERE) {
  return x.flatten(first, last, where);
}
inline Tensor unsqueeze(const Tensor& x, int axis, LUMINAL_WHERE) { return x.unsqueeze(axis, where); }
inline Tensor squeeze(const Tensor& x, LUMINAL_WHERE) { return x.squeeze(where); }
inline Tensor squeeze(const Tensor& x, std::integral auto axis, LUMINAL_WHERE) {
  return x.squeeze(axis, where);
}
inline Tensor narrow(const Tensor& x, int axis, Dim start, Dim length, LUMINAL_WHERE) {
  return x.narrow(axis, start, length, where);
}
inline Tensor flip(const Tensor& x, std::vector<int> axes, LUMINAL_WHERE) {
  return x.flip(std::move(axes), where);
}
inline Tensor flip(const Tensor& x, std::integral auto axis, LUMINAL_WHERE) { return x.flip(axis, where); }
inline Tensor roll(const Tensor& x, Dim shift, std::integral auto axis, LUMINAL_WHERE) {
  return x.roll(shift, axis, where);
}
inline Tensor roll(const Tensor& x, Dims shifts, std::vector<int> axes, LUMINAL_WHERE) {
  return x.roll(std::move(shifts), std::move(axes), where);
}
inline Tensor tile(const Tensor& x, Dims times, LUMINAL_WHERE) { return x.tile(std::move(times), where); }
inline Tensor repeat_interleave(const Tensor& x, Dim times, int axis, LUMINAL_WHERE) {
  return x.repeat_interleave(times, axis, where);
}
inline std::vector<Tensor> chunk(const Tensor& x, int64_t parts, int axis = 0, LUMINAL_WHERE) {
  return x.chunk(parts, axis, where);
}
inline std::vector<Tensor> split(const Tensor& x, int64_t size, int axis = 0, LUMINAL_WHERE) {
  return x.split(size, axis, where);
}
inline std::vector<Tensor> unbind(const Tensor& x, int axis = 0, LUMINAL_WHERE) {
  return x.unbind(axis, where);
}
inline Tensor tril(const Tensor& x, Dim diagonal = 0, LUMINAL_WHERE) { return x.tril(diagonal, where); }
inline Tensor triu(const Tensor& x, Dim diagonal = 0, LUMINAL_WHERE) { return x.triu(diagonal, where); }
inline Tensor diagonal(const Tensor& x, int64_t offset = 0, int a = 0, int b = 1, LUMINAL_WHERE) {
  return x.diagonal(offset, a, b, where);
}

inline Tensor gather(const Tensor& x, int axis, const Tensor& index, LUMINAL_WHERE) {
  return x.gather(axis, index, where);
}
inline Tensor index_select(const Tensor& x, int axis, const Tensor& ids, LUMINAL_WHERE) {
  return x.index_select(axis, ids, where);
}
inline Tensor scatter(const Tensor& x, int axis, const Tensor& index, Operand values,
                      ScatterOp how = ScatterOp::set, LUMINAL_WHERE) {
  return x.scatter(axis, index, values, how, where);
}
inline Indexed cummax(const Tensor& x, int axis, LUMINAL_WHERE) { return x.cummax(axis, where); }
inline Indexed cummin(const Tensor& x, int axis, LUMINAL_WHERE) { return x.cummin(axis, where); }
inline Tensor logcumsumexp(const Tensor& x, int axis, LUMINAL_WHERE) { return x.logcumsumexp(axis, where); }
inline Indexed sort(const Tensor& x, int axis = -1, bool descending = false, LUMINAL_WHERE) {
  return x.sort(axis, descending, where);
}
inline Tensor argsort(const Tensor& x, int axis = -1, bool descending = false, LUMINAL_WHERE) {
  return x.argsort(axis, descending, where);
}
inline Indexed topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true, LUMINAL_WHERE) {
  return x.topk(k, axis, largest, where);
}

#undef LUMINAL_WHERE
} // namespace luminal
