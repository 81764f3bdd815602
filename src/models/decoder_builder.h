// models/decoder_builder.h -- the graph of a decoder in the making: its parts as the papers draw them. Parts
// in files of their own: llama.cpp (the frame), decoder_attention.cpp, decoder_experts.cpp.
#pragma once
#include "models/decoder_weights.h"
#include "models/llama.h"
#include <array>
#include <memory>
#include <optional>
#include <string>

namespace luminal::models {

class DecoderBuilder {
public:
  DecoderBuilder(const ModelFile& file, const LlamaOptions& options, std::source_location where);
  Llama build();

private:
  void refuse_what_is_not_known() const;
  Tensor embedding();
  /// Rows of a table [context, ..] at the positions of the step's tokens.
  Tensor rows_of_step(const Tensor& table) const;
  Tensor head(const Tensor& h);
  Tensor block(const Tensor& h, int64_t layer);
  Tensor norm(const Tensor& x, Part part, int64_t layer = -1);

  // ---- decoder_attention.cpp ----
  /// cos and sin of position * frequency: [context, rope_dim / 2], computed once at load; the rows of
  /// this step.
  struct Angles {
    Tensor cos, sin; // [n, 1, pairs]
  };
  Angles make_angles(const ModelConfig& config, const char* name);
  void make_rotary_tables();
  /// Turns the pairs of x [n, heads, rope_dim or more] by the angles of their positions.
  Tensor rotate(const Tensor& x, int64_t layer);
  /// A cache [heads, context, width] with the step's rows [n, heads, width], and its filled part as f32
  /// [heads, past + n, width].
  Tensor remember(const std::string& name, const Tensor& rows);
  /// The same of several texts: a cache [slots, context, heads, width], and for each token the filled part of
  /// its text [n, filled, heads, width].
  Tensor remember_in_slots(const std::string& name, const Tensor& rows);
  /// Attention over the text so far. q [n, heads, width], k [n, kv_heads, width], v [n, kv_heads, value];
  /// without v the first `value` elements of the keys are the values: [n, heads * value].
  Tensor attend(const Tensor& q, const Tensor& k, const std::optional<Tensor>& v, int64_t value,
                int64_t layer);
  Tensor attend_in_slots(const Tensor& q, const Tensor& k, const std::optional<Tensor>& v, int64_t value,
                         double scale, int64_t layer);
  /// Queries, keys and values of x [n, hidden], each [n, heads of its own * head_dim].
  std::array<Tensor, 3> projections(const Tensor& x, int64_t layer);
  Tensor attention(const Tensor& x, int64_t layer);
  Tensor latent_attention(const Tensor& x, int64_t layer);

  // ---- decoder_experts.cpp ----
  Tensor activated(const Tensor& x) const;
  /// down(activation(gate) * up), or down(activation(up)).
  Tensor feed_forward(const Tensor& x, int64_t layer);
  Tensor gated(const Tensor& x, Part gate, Part up, Part down, int64_t inner, int64_t layer);
  struct Routes {
    Tensor share, chosen; // [n, used]: weights of experts, and which
  };
  Routes route(const Tensor& x, int64_t layer);
  Tensor experts(const Tensor& x, int64_t layer);

  const ModelFile& file_;
  const ModelConfig& config_;
  LlamaOptions options_;
  Llama model_;
  std::unique_ptr<DecoderWeights> weights_;
  std::unique_ptr<Dim> n_, past_, filled_;
  Angles angles_;
  std::optional<Angles> local_angles_;
};

/// Activations by the names of configurations.
using Activation = Tensor (*)(const Tensor&);
const std::map<std::string, Activation>& decoder_activations();
/// cap * tanh(x / cap)
Tensor capped(const Tensor& x, const std::optional<double>& cap);

} // namespace luminal::models
