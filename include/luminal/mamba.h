// luminal/mamba.h -- Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) as a module, names of Mamba2ForCausalLM: a
// language model whose layers carry a state from token to token.
#pragma once
#include "luminal/nn_layers.h"

namespace luminal::models {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

struct MambaConfig {
  int64_t vocabulary = 32768, width = 4096, layers = 64, heads = 128, head_size = 64, state = 128, groups = 8,
          kernel = 4;
  double eps = 1e-5;
  bool tied = false; ///< the head is the embedding
  int64_t inner() const { return heads * head_size; }
};
class Mamba2 : public nn::Module {
public:
  explicit Mamba2(const nn::Scope& scope, const MambaConfig& config = {}, LUMINAL_WHERE);
  /// Tokens (integers [n]) from the beginning of a text -> logits [n, vocabulary].
  Tensor operator()(const Tensor& tokens, LUMINAL_WHERE) const;

private:
  struct Layer {
    nn::RmsNorm norm;
    nn::Linear in;
    nn::Conv1d convolution;
    nn::Parameter decay, skip, step_bias; // A_log, D, dt_bias
    nn::Parameter gated_norm;             // mixer.norm.weight
    nn::Linear out;
    Layer(const nn::Scope& scope, const MambaConfig& config, std::source_location where);
  };
  Tensor mix(const Layer& layer, const Tensor& x, std::source_location where) const;
  MambaConfig config_;
  nn::Embedding embeddings_;
  std::vector<Layer> layers_;
  nn::RmsNorm norm_;
  std::optional<nn::Linear> head_;
};

#undef LUMINAL_WHERE
} // namespace luminal::models
