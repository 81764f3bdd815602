// models/onnx/ops_rnn.cpp -- RNN, GRU and LSTM: a loop over time for each direction.
#include "luminal/random.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include <fmt/ranges.h>

namespace luminal::onnx::ops {
namespace {

/// Activation functions by name, three gates or fewer; alpha and beta as the node has them.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
  Tensor operator()(const Tensor& x) const {
    if (name == "Sigmoid") return x.sigmoid();
    if (name == "Tanh") return x.tanh();
    if (name == "Relu") return x.relu();
    if (name == "Affine") return x * alpha.value_or(1) + beta.value_or(0);
    if (name == "LeakyRelu") return x.leaky_relu(alpha.value_or(0.01));
    if (name == "ThresholdedRelu") return select(x > alpha.value_or(1), x, zeros_like(x));
    if (name == "ScaledTanh") return (x * beta.value_or(1)).tanh() * alpha.value_or(1);
    if (name == "HardSigmoid") return clip(x * alpha.value_or(0.2) + beta.value_or(0.5), 0, 1);
    if (name == "Elu") return x.elu(alpha.value_or(1));
    if (name == "Softsign") return x.softsign();
    return x.softplus();
  }
};
std::vector<Activation> activations(Node& n, std::vector<std::string> usual, size_t directions) {
  const size_t each = usual.size();
  std::vector<std::string> names;
  for (size_t d = 0; d < directions; d++) names.insert(names.end(), usual.begin(), usual.end());
  if (const Attribute* a = n.attribute("activations")) names = a->texts;
  if (names.size() != each * directions)
    n.refuse(fmt::format("names {} activations, {} are expected", names.size(), each * directions));
  const auto alpha = n.reals("activation_alpha"), beta = n.reals("activation_beta");
  std::vector<Activation> list;
  for (size_t i = 0; i < names.size(); i++) {
    static const std::set<std::string> known{
        "Sigmoid",    "Tanh",        "Relu", "Affine",   "LeakyRelu", "ThresholdedRelu",
        "ScaledTanh", "HardSigmoid", "Elu",  "Softsign", "Softplus"};
    if (!known.contains(names[i]))
      n.refuse(fmt::format("has the activation '{}', expected one of {}", names[i], fmt::join(known, ", ")));
    Activation a{names[i], {}, {}};
    if (i < alpha.size()) a.alpha = alpha[i];
    if (i < beta.size()) a.beta = beta[i];
    list.push_back(a);
  }
  return list;
}

/// What one step makes of the state (h, and c of LSTM).
using Cell = std::function<std::vector<Tensor>(const Tensor& gates_of_x, const std::vector<Tensor>& state,
                                               const std::vector<Tensor>& weights)>;

struct Sequence {
  Node& n;
  Tensor x; // [time, batch, in]
  int64_t directions = 1, hidden = 0;
  bool batch_first = false, backward_only = false;
  double clip_at = 0;
};
Sequence sequence_of(Node& n) {
  Sequence s{n, n.in(0)};
  const std::string way = n.one_of("direction", "forward", {"forward", "reverse", "bidirectional"});
  s.directions = way == "bidirectional" ? 2 : 1;
  s.backward_only = way == "reverse";
  s.batch_first = n.integer("layout", 0) != 0;
  if (s.batch_first) s.x = s.x.transpose(0, 1);
  s.hidden = n.integer("hidden_size", n.extents(n.in(2)).at(2));
  s.clip_at = n.number("clip", 0);
  return s;
}
Tensor limited(const Sequence& s, const Tensor& x) {
  return s.clip_at > 0 ? clip(x, -s.clip_at, s.clip_at) : x;
}

/// Runs the cell over time in each direction. `weights` of direction d are invariants of the loop.
void run(const Sequence& s, size_t states, const std::vector<size_t>& initial,
         const std::function<Tensor(int64_t d)>& gates,
         const std::function<std::vector<Tensor>(int64_t d)>& weights,
         const std::function<Cell(int64_t d)>& cell) {
  Node& n = s.n;
  const Dim time = s.x.dim(0), batch = s.x.dim(1);
  const bool masked = n.has(4);
  std::vector<Tensor> outputs;
  std::vector<std::vector<Tensor>> last(states);
  for (int64_t d = 0; d < s.directions; d++) {
    const bool back = s.backward_only || d == 1;
    Tensor gate = gates(d); // [time, batch, gates * hidden]
    Tensor place = n.graph().arange(time);
    if (back) gate = gate.flip({0}), place = place.flip({0});
    std::vector<Tensor> start;
    for (size_t i = 0; i < states; i++) {
      if (n.has(initial[i])) {
        const Tensor all = n.in(initial[i]);
        start.push_back((s.batch_first ? all.transpose(0, 1) : all).select(0, d));
      } else
        start.push_back(zeros(n.graph(), {batch, s.hidden}, s.x.dtype()));
    }
    std::vector<Tensor> invariants = weights(d), stepped{gate};
    if (masked) {
      invariants.push_back(n.in(4).cast(DType::i64).reshape({batch, 1}));
      stepped.push_back(place);
    }
    const Cell step = cell(d);
    const auto made =
        n.graph().loop(time, start, stepped, invariants,
                       [&](Graph&, Tensor, const std::vector<Tensor>& carried,
                           const std::vector<Tensor>& slices, const std::vector<Tensor>& inner) {
                         std::vector<Tensor> next = step(slices[0], carried, inner);
                         Tensor y = next[0];
                         if (masked) { // beyond the end of a sequence the state stays and the result is 0
                           const Tensor inside = slices[1] < inner.back();
                           y = select(inside, y, zeros_like(y));
                           for (size_t i = 0; i < next.size(); i++)
                             next[i] = select(inside, next[i], carried[i]);
                         }
                         return Graph::LoopResult{next, {y}};
                       });
    outputs.push_back(back ? made.stacked[0].flip({0}) : made.stacked[0]);
    for (size_t i = 0; i < states; i++) last[i].push_back(made.carried[i]);
  }
  const Tensor y = stack(outputs, 1); // [time, directions, batch, hidden]
  n.out(0, s.batch_first ? y.permute({2, 0, 1, 3}) : y);
  for (size_t i = 0; i < states; i++) n.out(i + 1, stack(last[i], s.batch_first ? 1 : 0));
}
/// x rounded to the bytes that its least and largest element give.
Tensor as_dynamic_bytes(const Tensor& x) {
  const DynamicBytes y = dynamic_bytes(x);
  return (y.x.cast(DType::f32) - y.zero.cast(DType::f32)) * y.scale;
}
/// x W^T + bias for all steps at once.
Tensor input_gates(const Sequence& s, int64_t d, bool with_recurrent_bias, int64_t gates,
                   const Tensor& transposed = {}) {
  Node& n = s.n;
  Tensor y =
      transposed.defined() ? as_dynamic_bytes(s.x).matmul(transposed) : s.x.matmul(n.in(1).select(0, d).t());
  if (!n.has(3)) return y;
  const Tensor bias = n.in(3).select(0, d);
  y = y + bias.slice(0, 0, gates * s.hidden);
  return with_recurrent_bias ? y + bias.slice(0, gates * s.hidden, 2 * gates * s.hidden) : y;
}
Tensor part(const Tensor& x, int64_t i, int64_t hidden) { return x.slice(-1, i * hidden, (i + 1) * hidden); }

} // namespace

void RNN(Node& n) {
  const Sequence s = sequence_of(n);
  const auto f = activations(n, {"Tanh"}, size_t(s.directions));
  run(
      s, 1, {5}, [&](int64_t d) { return input_gates(s, d, true, 1); },
      [&](int64_t d) { return std::vector<Tensor>{n.in(2).select(0, d)}; },
      [&](int64_t d) {
        return [&, d](const Tensor& x, const std::vector<Tensor>& state, const std::vector<Tensor>& w) {
          return std::vector<Tensor>{f[size_t(d)](limited(s, x + state[0].matmul(w[0].t())))};
        };
      });
}
void GRU(Node& n) {
  const Sequence s = sequence_of(n);
  const int64_t h = s.hidden;
  const bool before = n.integer("linear_before_reset", 0) != 0;
  const auto f = activations(n, {"Sigmoid", "Tanh"}, size_t(s.directions));
  run(
      s, 1, {5}, [&](int64_t d) { return input_gates(s, d, false, 3); },
      [&](int64_t d) {
        std::vector<Tensor> list{n.in(2).select(0, d)};
        list.push_back(n.has(3) ? n.in(3).select(0, d).slice(0, 3 * h, 6 * h)
                                : zeros(n.graph(), {3 * h}, s.x.dtype()));
        return list;
      },
      [&](int64_t d) {
        return [&, d](const Tensor& x, const std::vector<Tensor>& state, const std::vector<Tensor>& w) {
          const auto &gate = f[size_t(2 * d)], &last = f[size_t(2 * d + 1)];
          const Tensor &old = state[0], &weight = w[0], &bias = w[1];
          const auto rows = [&](int64_t i) { return weight.slice(0, i * h, (i + 1) * h).t(); };
          const auto shift = [&](int64_t i) { return bias.slice(0, i * h, (i + 1) * h); };
          const Tensor z = gate(limited(s, part(x, 0, h) + old.matmul(rows(0)) + shift(0)));
          const Tensor r = gate(limited(s, part(x, 1, h) + old.matmul(rows(1)) + shift(1)));
          const Tensor inner =
              before ? r * (old.matmul(rows(2)) + shift(2)) : (r * old).matmul(rows(2)) + shift(2);
          const Tensor fresh = last(limited(s, part(x, 2, h) + inner));
          return std::vector<Tensor>{(1 - z) * fresh + z * old};
        };
      });
}
namespace {
/// `bytes`: weights of bytes, [directions, in, gates], with scales and zero points behind the other inputs;
/// inputs and states are rounded to bytes before each product.
void lstm(Node& n, bool bytes) {
  Sequence s = sequence_of(n);
  if (bytes) s.hidden = n.integer("hidden_size", n.extents(n.in(2)).at(1));
  const int64_t h = s.hidden;
  const auto weight = [&](size_t i, size_t scale, int64_t d) { // [in, gates]
    if (!bytes) return n.in(i).select(0, d).t();
    Tensor w = n.in(i).select(0, d).cast(DType::f32);
    if (n.has(scale + 1)) w = w - n.in(scale + 1).select(0, d).cast(DType::f32);
    return w * n.in(scale).select(0, d);
  };
  const bool coupled = n.integer("input_forget", 0) != 0;
  const auto f = activations(n, {"Sigmoid", "Tanh", "Tanh"}, size_t(s.directions));
  run(
      s, 2, {5, 6}, [&](int64_t d) { return input_gates(s, d, true, 4, bytes ? weight(1, 8, d) : Tensor()); },
      [&](int64_t d) {
        std::vector<Tensor> list{weight(2, 10, d)};
        if (n.has(7)) list.push_back(n.in(7).select(0, d));
        return list;
      },
      [&](int64_t d) {
        return [&, d](const Tensor& x, const std::vector<Tensor>& state, const std::vector<Tensor>& w) {
          const auto &gate = f[size_t(3 * d)], &fresh = f[size_t(3 * d + 1)], &result = f[size_t(3 * d + 2)];
          const Tensor all = x + (bytes ? as_dynamic_bytes(state[0]) : state[0]).matmul(w[0]),
                       &c = state[1]; // input, output, forget, cell
          const auto peep = [&](int64_t i, const Tensor& cell) {
            const Tensor g = part(all, i < 3 ? i : i, h);
            return n.has(7) ? g + w[1].slice(0, i * h, (i + 1) * h) * cell : g;
          };
          const Tensor in = gate(limited(s, peep(0, c)));
          const Tensor forget = coupled ? 1 - in : gate(limited(s, peep(2, c)));
          const Tensor cell = forget * c + in * fresh(limited(s, part(all, 3, h)));
          const Tensor out = gate(limited(s, peep(1, cell)));
          return std::vector<Tensor>{out * result(cell), cell};
        };
      });
}
} // namespace
void LSTM(Node& n) { lstm(n, false); }
void DynamicQuantizeLSTM(Node& n) { lstm(n, true); }

} // namespace luminal::onnx::ops
