// luminal/nn_recurrent.h -- recurrent networks: a loop over time whose body is compiled once. Parameters
// have PyTorch's names: weight_ih_l0 [gates * hidden, in], weight_hh_l0 [gates * hidden, hidden], bias_ih_l0,
// bias_hh_l0, and the same with _reverse for the other direction.
#pragma once
#include "luminal/nn.h"

namespace luminal::nn {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

enum class RecurrentKind : uint8_t { rnn_tanh, rnn_relu, lstm, gru };

struct RecurrentOptions {
  int64_t layers = 1;
  bool bias = true;
  bool batch_first = false; ///< x is [batch, time, in], not [time, batch, in]
  bool bidirectional = false;
  double dropout = 0; ///< between layers, while the scope trains
};
/// Of all layers and directions: [layers * directions, batch, hidden]. `c` of an LSTM only.
struct RecurrentState {
  Tensor h = {}, c = {};
};
struct RecurrentResult {
  Tensor output; ///< [time, batch, directions * hidden], or batch first
  RecurrentState state;
};
/// x [time, batch, in]; states that are not given are zero.
class Recurrent : public Module {
public:
  Recurrent(const Scope& scope, RecurrentKind kind, int64_t in, int64_t hidden,
            const RecurrentOptions& options = {}, LUMINAL_WHERE);
  RecurrentResult operator()(const Tensor& x, const RecurrentState& start = {}, LUMINAL_WHERE) const;

private:
  struct Weights {
    Parameter ih, hh, bias_ih, bias_hh;
  };
  RecurrentKind kind_;
  int64_t in_, hidden_;
  RecurrentOptions options_;
  std::vector<Weights> weights_; // by layer, then direction
};
template <RecurrentKind kind> struct RecurrentOf : Recurrent {
  RecurrentOf(const Scope& scope, int64_t in, int64_t hidden, const RecurrentOptions& options = {},
              LUMINAL_WHERE)
      : Recurrent(scope, kind, in, hidden, options, where) {}
};
/// h' = tanh(W x + b + V h + c) (Elman 1990).
using Rnn = RecurrentOf<RecurrentKind::rnn_tanh>;
using ReluRnn = RecurrentOf<RecurrentKind::rnn_relu>;
/// Gates in the order input, forget, cell, output (Hochreiter and Schmidhuber 1997).
using Lstm = RecurrentOf<RecurrentKind::lstm>;
/// Gates in the order reset, update, new (Cho et al. 2014); reset acts behind the product with h.
using Gru = RecurrentOf<RecurrentKind::gru>;

/// One step: x [batch, in], states [batch, hidden] -> the next ones. Parameters weight_ih, weight_hh,
/// bias_ih, bias_hh.
class RecurrentCell : public Module {
public:
  RecurrentCell(const Scope& scope, RecurrentKind kind, int64_t in, int64_t hidden, bool bias = true,
                LUMINAL_WHERE);
  RecurrentState operator()(const Tensor& x, const RecurrentState& state = {}, LUMINAL_WHERE) const;

private:
  RecurrentKind kind_;
  int64_t hidden_;
  Parameter ih_, hh_, bias_ih_, bias_hh_;
};

#undef LUMINAL_WHERE
} // namespace luminal::nn
