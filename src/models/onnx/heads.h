// models/onnx/heads.h -- what operators of attention share.
#pragma once
#include "models/onnx/importer.h"

namespace luminal::onnx::ops {

/// [batch, n, heads * size] -> [batch, heads, n, size], and back.
Tensor heads_apart(const Tensor& x, int64_t heads);
Tensor heads_together(const Tensor& x);
/// Keys or values [batch, groups, n, size], each head as often as groups of queries read it.
Tensor for_queries(Node& n, const Tensor& x, const Tensor& query);
/// x [batch, n, heads, size] with the first 2 * (last extent of cosine) elements turned in pairs: neighbours,
/// or elements of both halves. cosine, sine: [batch or 1, n, pairs].
Tensor turned(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool neighbours);

} // namespace luminal::onnx::ops
