// models/decoder_weights.h -- the weights of a decoder by the part they play, whatever the file calls them,
// and products with them in the form that reads them fastest.
#pragma once
#include "luminal/quantize.h"
#include "models/llama.h"
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace luminal::models {

/// What a tensor of a decoder is for.
enum class Part : uint8_t {
  embedding,
  positions,
  final_norm,
  head, // of the model
  attention_norm,
  q,
  k,
  v,
  qkv,
  q_a,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_norm,
  kv_b,
  k_b,
  v_b,
  attention_out,
  q_norm,
  k_norm,
  post_attention_norm, // of a layer
  feed_forward_norm,
  gate,
  up,
  gate_up,
  down,
  post_feed_forward_norm,
  router,
  expert_gate,
  expert_up,
  expert_down,
  router_bias,
  shared_gate,
  shared_up,
  shared_down,
};

std::vector<Part> all_parts();
/// What a file calls a part of a layer (-1: of the model), without its ending and without the prefix that
/// Hugging Face's names may have; of experts there `{}` stands for the number. Empty: it has none.
std::string part_name(const ModelConfig& config, bool gguf, Part part, int64_t layer);

/// GGUF's name of a family by Hugging Face's; empty: it has none.
std::string_view gguf_family(const ModelConfig& config);
/// Hugging Face's model_type of a GGUF file's configuration.
std::string hugging_face_type(const ModelConfig& config);
/// Whether Hugging Face's GPT-2 stores the matrix as [in, out].
bool is_transposed(Part part);
bool is_experts(Part part);

/// Goes through what a decoder may have: visit(part, layer, ".weight", ".bias" or "").
template <class Visit> void each_part(const ModelConfig& config, Visit visit) {
  for (int64_t layer = -1; layer < config.num_layers; layer++)
    for (const Part part : all_parts()) {
      const bool of_model = part == Part::embedding || part == Part::positions || part == Part::final_norm ||
                            part == Part::head;
      if (of_model != (layer < 0)) continue;
      // One name is that of two parts: with norms behind, it is the norm of what attention gives.
      if (!config.post_norms && (part == Part::post_attention_norm || part == Part::post_feed_forward_norm))
        continue;
      if (part == Part::router_bias)
        visit(part, layer, ""); // its name is whole
      else
        for (const char* kind : {".weight", ".bias"}) visit(part, layer, kind);
    }
}

class DecoderWeights {
public:
  DecoderWeights(const ModelFile& file, Graph& graph, Activations activations);

  /// Whether the file has the part (in its own or the fused form, as asked).
  bool has(Part part, int64_t layer = -1) const;
  bool has_bias(Part part, int64_t layer = -1) const; ///< NAME.bias
  /// The tensor NAME.weight as it is stored. Throws Error where it is missing or of another shape.
  Tensor weight(Part part, int64_t layer, std::vector<int64_t> shape, bool every_step = true);
  /// NAME.weight, or NAME.bias, [width] as f32.
  Tensor vector(Part part, int64_t layer, int64_t width, const char* kind = "weight");
  /// x [n, in] times NAME.weight [out, in], and NAME.bias where the file has one (`bias`: it must): [n, out].
  Tensor linear(const Tensor& x, Part part, int64_t layer, int64_t out, int64_t in, bool bias = false);
  /// The same with a weight that is there already (without a bias).
  Tensor product(const Tensor& x, const Tensor& weight);
  /// y, and what an adapter adds to the product of x [n, in] with NAME.weight (ModelFile::low_rank).
  Tensor adapted(const Tensor& y, const Tensor& x, Part part, int64_t layer);
  /// The same for the rows y of a table that i32 `tokens` [n] name.
  Tensor adapted_rows(const Tensor& y, const Tensor& tokens, Part part);
  /// All experts' matrices [experts, out, in].
  Tensor experts(Part part, int64_t layer, int64_t count, int64_t out, int64_t in);
  /// Of latent attention: what makes keys and values of the latent vector, [heads, rank, plain_dim] and
  /// [heads, value_dim, rank].
  std::pair<Tensor, Tensor> latent_heads(int64_t layer);
  /// What is added to the weights of experts when they are chosen: f32 [experts].
  bool has_router_bias(int64_t layer) const;
  Tensor router_bias(int64_t layer);
  /// Throws Error where the file has tensors that nothing asked for.
  void refuse_unused() const;
  /// Bytes that one token reads.
  int64_t step_bytes() const { return step_bytes_; }

private:
  std::string name(Part part, int64_t layer) const; // without the ending
  const TensorView& find(const std::string& name, const std::vector<int64_t>& shape);
  /// A matrix of each head as f32 [count, out, in]: stored so, or with the rows of all behind each other.
  Tensor stacked(Part part, int64_t layer, int64_t count, int64_t out, int64_t in);
  /// The factors left [rows, rank] and right [rank, columns] that are added to NAME.weight.
  std::optional<std::pair<Tensor, Tensor>> low_rank(Part part, int64_t layer);
  int64_t unit_beside(const TensorView& view) const;
  Tensor linear_beside(const Tensor& x, const Tensor& w, int64_t unit);

  const ModelFile& file_;
  const ModelConfig& config_;
  Graph& graph_;
  Activations activations_;
  bool gguf_ = false, gpt2_ = false;
  std::string prefix_; // of Hugging Face names: "model." or nothing
  std::map<std::string, Tensor> made_;
  std::set<std::string> read_every_step_;
  int64_t step_bytes_ = 0;
  std::map<uint32_t, QuantizedWeight> packed_;       // by the tensor of their values
  std::map<uint32_t, QuantizedRows> quantized_rows_; // by the tensor they are made of
  std::map<uint32_t, int64_t> beside_;               // unit_beside, by the weight
  std::map<uint32_t, Tensor> rounded_;               // to bf16, by the tensor they are made of
};

} // namespace luminal::models
