// nn/recurrent.cpp -- RNN, LSTM and GRU.
#include "luminal/indexing.h"
#include "luminal/nn_recurrent.h"
#include "luminal/random.h"
#include "nn/scope.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::nn {
namespace {

int64_t gates_of(RecurrentKind kind) {
  return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1;
}

/// The states after a step. `x`: what the input adds to the gates, its bias included; `h`: what the last
/// state adds, the same.
std::vector<Tensor> step(RecurrentKind kind, const Tensor& x, const Tensor& h, int64_t hidden,
                         const std::vector<Tensor>& state) {
  const auto gate = [&](const Tensor& all, int64_t i) { return all.slice(-1, i * hidden, (i + 1) * hidden); };
  switch (kind) {
  case RecurrentKind::rnn_tanh: return {(x + h).tanh()};
  case RecurrentKind::rnn_relu: return {(x + h).relu()};
  case RecurrentKind::gru: {
    const Tensor reset = (gate(x, 0) + gate(h, 0)).sigmoid(), update = (gate(x, 1) + gate(h, 1)).sigmoid();
    const Tensor fresh = (gate(x, 2) + reset * gate(h, 2)).tanh();
    return {(1 - update) * fresh + update * state[0]};
  }
  case RecurrentKind::lstm: {
    const Tensor all = x + h;
    const Tensor cell = gate(all, 1).sigmoid() * state[1] + gate(all, 0).sigmoid() * gate(all, 2).tanh();
    return {gate(all, 3).sigmoid() * cell.tanh(), cell};
  }
  }
  return {};
}

Init within(int64_t hidden) {
  const double bound = 1 / std::sqrt(double(hidden));
  return init::uniform(-bound, bound);
}

void need_last(std::string_view op, const Tensor& x, int rank, int64_t in, std::source_location where) {
  const Dims shape = x.shape(where);
  if (int(shape.size()) != rank || !(shape.back() == Dim(in)))
    throw Error(
        op, fmt::format("x must have {} axes, the last of {}; it is {}", rank, in, luminal::to_string(shape)),
        where);
}

} // namespace

Recurrent::Recurrent(const Scope& scope, RecurrentKind kind, int64_t in, int64_t hidden,
                     const RecurrentOptions& options, std::source_location where)
    : Module(scope), kind_(kind), in_(in), hidden_(hidden), options_(options) {
  need_sizes("Recurrent", {{"in", in}, {"hidden", hidden}, {"layers", options.layers}}, where);
  const int64_t directions = options.bidirectional ? 2 : 1, rows = gates_of(kind) * hidden;
  for (int64_t layer = 0; layer < options.layers; layer++)
    for (int64_t d = 0; d < directions; d++) {
      const std::string end = fmt::format("_l{}{}", layer, d == 1 ? "_reverse" : "");
      const auto parameter = [&](const char* name, std::vector<int64_t> shape) {
        return scope.parameter(name + end, std::move(shape), within(hidden), where);
      };
      Weights w;
      w.ih = parameter("weight_ih", {rows, layer == 0 ? in : directions * hidden});
      w.hh = parameter("weight_hh", {rows, hidden});
      if (options.bias) w.bias_ih = parameter("bias_ih", {rows}), w.bias_hh = parameter("bias_hh", {rows});
      weights_.push_back(std::move(w));
    }
}

RecurrentResult Recurrent::operator()(const Tensor& input, const RecurrentState& start,
                                      std::source_location where) const {
  need_last("Recurrent", input, 3, in_, where);
  Graph graph = scope().graph();
  Tensor x = options_.batch_first ? input.transpose(0, 1, where) : input;
  const Dim time = x.dim(0), batch = x.dim(1);
  const int64_t directions = options_.bidirectional ? 2 : 1;
  const size_t states = kind_ == RecurrentKind::lstm ? 2 : 1;
  std::vector<std::vector<Tensor>> last(states);
  for (int64_t layer = 0; layer < options_.layers; layer++) {
    if (layer > 0 && options_.dropout > 0 && scope().training())
      x = dropout(scope().random_key(where), x, options_.dropout, where);
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions; d++) {
      const int64_t place = layer * directions + d;
      const Weights& w = weights_[size_t(place)];
      std::vector<Tensor> carried;
      for (const Tensor* given : {&start.h, &start.c})
        if (carried.size() < states)
          carried.push_back(given->defined() ? given->select(0, place, where)
                                             : zeros(graph, {batch, hidden_}, x.dtype(), where));
      Tensor gates = w.ih.linear(x, w.bias_ih, where); // of all steps at once
      if (d == 1) gates = gates.flip(0);
      std::vector<Tensor> invariants{w.hh};
      if (w.bias_hh.defined()) invariants.push_back(w.bias_hh);
      const auto made = graph.loop(
          time, carried, {gates}, invariants,
          [&](Graph&, const Tensor&, const std::vector<Tensor>& state, const std::vector<Tensor>& slices,
              const std::vector<Tensor>& inner) {
            const Tensor h = linear(state[0], inner[0], inner.size() > 1 ? inner[1] : Tensor());
            std::vector<Tensor> next = step(kind_, slices[0], h, hidden_, state);
            return Graph::LoopResult{next, {next[0]}};
          },
          where);
      outputs.push_back(d == 1 ? made.stacked[0].flip(0) : made.stacked[0]);
      for (size_t i = 0; i < states; i++) last[i].push_back(made.carried[i]);
    }
    x = outputs.size() == 1 ? outputs[0] : concat(outputs, -1, where);
  }
  RecurrentResult result{options_.batch_first ? x.transpose(0, 1) : x, {stack(last[0], 0, where)}};
  if (states == 2) result.state.c = stack(last[1], 0, where);
  return result;
}

RecurrentCell::RecurrentCell(const Scope& scope, RecurrentKind kind, int64_t in, int64_t hidden, bool bias,
                             std::source_location where)
    : Module(scope), kind_(kind), hidden_(hidden) {
  need_sizes("RecurrentCell", {{"in", in}, {"hidden", hidden}}, where);
  const int64_t rows = gates_of(kind) * hidden;
  ih_ = scope.parameter("weight_ih", {rows, in}, within(hidden), where);
  hh_ = scope.parameter("weight_hh", {rows, hidden}, within(hidden), where);
  if (!bias) return;
  bias_ih_ = scope.parameter("bias_ih", {rows}, within(hidden), where);
  bias_hh_ = scope.parameter("bias_hh", {rows}, within(hidden), where);
}

RecurrentState RecurrentCell::operator()(const Tensor& x, const RecurrentState& state,
                                         std::source_location where) const {
  need_last("RecurrentCell", x, 2, ih_.shape()[1], where);
  Graph graph = scope().graph();
  std::vector<Tensor> old;
  for (const Tensor* given : {&state.h, &state.c})
    old.push_back(given->defined() ? *given : zeros(graph, {x.dim(0), hidden_}, x.dtype(), where));
  const auto next =
      step(kind_, ih_.linear(x, bias_ih_, where), hh_.linear(old[0], bias_hh_, where), hidden_, old);
  return {next[0], kind_ == RecurrentKind::lstm ? next[1] : Tensor()};
}

} // namespace luminal::nn
