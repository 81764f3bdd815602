// models/onnx/export_channels.cpp -- one number for each channel: the bias of a convolution, normalisation
// by statistics that are known.
#include "models/onnx/exporter.h"
#include <algorithm>

namespace luminal::onnx_export {
namespace {

/// [channels, 1, ..] beside [batch, channels, ..].
bool is_of_channels(const Held& v, const Held& x) {
  const size_t rank = x.shape.size();
  if (rank < 3 || v.shape.size() + 1 < rank || v.shape.size() > rank) return false;
  if (!x.shape[1].is_constant() || x.shape[1].is_constant(1)) return false;
  for (size_t k = 1; k <= v.shape.size(); k++)
    if (v.shape[v.shape.size() - k] != (k == rank - 1 ? x.shape[1] : Expr(1))) return false;
  return true;
}

} // namespace

std::optional<Held> Exporter::of_channels(Op op, const std::vector<Held>& x) {
  if (x.size() != 2 || (op != Op::add && op != Op::sub && op != Op::mul)) return {};
  const DType type = x[0].dtype;
  if (!is_float(type) || held_as(type) != type) return {};
  size_t side = 0;
  if (!is_of_channels(x[1], x[0])) {
    if (op == Op::sub || !is_of_channels(x[0], x[1])) return {};
    side = 1;
  }
  const Held &value = x[side], &given = x[1 - side];
  const Shape line{value.shape[1]};
  const auto found = scaled_.find(value.name);
  if (op == Op::add) {
    if (const auto conv = convolutions_.find(value.name); conv != convolutions_.end()) {
      std::vector<std::string> inputs = conv->second.first;
      inputs.push_back(reshape(given, line).name);
      return with(value, graph_.node("Conv", std::move(inputs), conv->second.second));
    }
    if (found == scaled_.end() || !found->second.times || found->second.base.shape != value.shape) return {};
    const Scaled& scaled = found->second;
    const Held zeros = full(number(type, 0), line), ones = full(number(type, 1), line);
    return with(value, graph_.node("BatchNormalization",
                                   {scaled.base.name, scaled.times->name, reshape(given, line).name,
                                    scaled.minus ? scaled.minus->name : zeros.name, ones.name},
                                   {attribute("epsilon", 0.0F)}));
  }
  Scaled next{value, {}, {}};
  if (op == Op::sub) {
    next.minus = reshape(given, line);
  } else {
    if (found != scaled_.end()) next = found->second;
    const Held times = reshape(given, line);
    next.times = next.times ? apply("Mul", {*next.times, times}) : times;
  }
  const Held result = apply(op == Op::sub ? "Sub" : "Mul", x);
  scaled_[result.name] = std::move(next);
  return result;
}

} // namespace luminal::onnx_export
