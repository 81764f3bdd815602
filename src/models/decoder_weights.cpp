// models/decoder_weights.cpp -- names of weights in files, and products with them.
#include "models/decoder_weights.h"
#include "luminal/indexing.h"
#include "models/weights.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::models {
namespace {

/// What GGUF, Hugging Face (Llama's names, which most families took over) and GPT-2 call a part. Those of
/// layers stand behind "blk.N.", "layers.N." and "h.N.". Of experts Hugging Face has one each.
struct PartNames {
  Part part;
  const char *gguf, *hugging_face, *gpt2;
};
constexpr PartNames names[] = {
    {Part::embedding, "token_embd", "embed_tokens", "wte"},
    {Part::positions, "position_embd", "", "wpe"},
    {Part::final_norm, "output_norm", "norm", "ln_f"},
    {Part::head, "output", "lm_head", "lm_head"},
    {Part::attention_norm, "attn_norm", "input_layernorm", "ln_1"},
    {Part::q, "attn_q", "self_attn.q_proj", ""},
    {Part::k, "attn_k", "self_attn.k_proj", ""},
    {Part::v, "attn_v", "self_attn.v_proj", ""},
    {Part::qkv, "attn_qkv", "self_attn.qkv_proj", "attn.c_attn"},
    {Part::q_a, "attn_q_a", "self_attn.q_a_proj", ""},
    {Part::q_a_norm, "attn_q_a_norm", "self_attn.q_a_layernorm", ""},
    {Part::q_b, "attn_q_b", "self_attn.q_b_proj", ""},
    {Part::kv_a, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", ""},
    {Part::kv_a_norm, "attn_kv_a_norm", "self_attn.kv_a_layernorm", ""},
    {Part::kv_b, "attn_kv_b", "self_attn.kv_b_proj", ""},
    {Part::k_b, "attn_k_b", "", ""},
    {Part::v_b, "attn_v_b", "", ""},
    {Part::attention_out, "attn_output", "self_attn.o_proj", "attn.c_proj"},
    {Part::q_norm, "attn_q_norm", "self_attn.q_norm", ""},
    {Part::k_norm, "attn_k_norm", "self_attn.k_norm", ""},
    {Part::post_attention_norm, "post_attention_norm", "post_attention_layernorm", ""},
    {Part::feed_forward_norm, "ffn_norm", "post_attention_layernorm", "ln_2"},
    {Part::gate, "ffn_gate", "mlp.gate_proj", ""},
    {Part::up, "ffn_up", "mlp.up_proj", "mlp.c_fc"},
    {Part::gate_up, "ffn_up", "mlp.gate_up_proj", ""},
    {Part::down, "ffn_down", "mlp.down_proj", "mlp.c_proj"},
    {Part::post_feed_forward_norm, "post_ffw_norm", "post_feedforward_layernorm", ""},
    {Part::router, "ffn_gate_inp", "mlp.gate", ""},
    {Part::expert_gate, "ffn_gate_exps", "mlp.experts.{}.gate_proj", ""},
    {Part::expert_up, "ffn_up_exps", "mlp.experts.{}.up_proj", ""},
    {Part::expert_down, "ffn_down_exps", "mlp.experts.{}.down_proj", ""},
    {Part::router_bias, "exp_probs_b.bias", "mlp.gate.e_score_correction_bias", ""},
    {Part::shared_gate, "ffn_gate_shexp", "mlp.shared_experts.gate_proj", ""},
    {Part::shared_up, "ffn_up_shexp", "mlp.shared_experts.up_proj", ""},
    {Part::shared_down, "ffn_down_shexp", "mlp.shared_experts.down_proj", ""},
};
/// Mixtral has names of its own for its experts.
constexpr PartNames mixtral_names[] = {
    {Part::router, "", "block_sparse_moe.gate", ""},
    {Part::expert_gate, "", "block_sparse_moe.experts.{}.w1", ""},
    {Part::expert_up, "", "block_sparse_moe.experts.{}.w3", ""},
    {Part::expert_down, "", "block_sparse_moe.experts.{}.w2", ""},
};

constexpr int64_t widest_tile = 16; // of rows beside each other

bool is_norm(Part part) {
  switch (part) {
  case Part::final_norm:
  case Part::attention_norm:
  case Part::q_a_norm:
  case Part::kv_a_norm:
  case Part::q_norm:
  case Part::k_norm:
  case Part::post_attention_norm:
  case Part::feed_forward_norm:
  case Part::post_feed_forward_norm: return true;
  default: return false;
  }
}

} // namespace

DecoderWeights::DecoderWeights(const ModelFile& file, Graph& graph, Activations activations)
    : file_(file), config_(file.require_config()), graph_(graph), activations_(activations) {
  gguf_ = file.kind == ModelFileKind::gguf;
  gpt2_ = config_.architecture == "gpt2";
  // A bare model, without a head, is saved without the name of what it is in.
  const char* inside = gpt2_ ? "transformer." : "model.";
  const std::string table = name(Part::embedding, -1) + ".weight";
  prefix_ = !gguf_ && file.find(table) == nullptr ? inside : "";
}

std::vector<Part> all_parts() {
  std::vector<Part> out;
  for (const PartNames& row : names) out.push_back(row.part);
  return out;
}

std::string part_name(const ModelConfig& config, bool gguf, Part part, int64_t layer) {
  const bool gpt2 = config.architecture == "gpt2";
  const PartNames* row = std::ranges::find(names, part, &PartNames::part);
  if (!gguf && config.architecture == "mixtral")
    if (const auto* own = std::ranges::find(mixtral_names, part, &PartNames::part);
        own != std::end(mixtral_names))
      row = own;
  std::string text = gguf ? row->gguf : gpt2 ? row->gpt2 : row->hugging_face;
  // With norms on both sides the name of one moves to the other.
  if (!gguf && config.post_norms && part == Part::feed_forward_norm) text = "pre_feedforward_layernorm";
  if (layer < 0 || text.empty()) return text;
  return fmt::format("{}.{}.{}", gguf ? "blk" : gpt2 ? "h" : "layers", layer, text);
}

std::string_view gguf_family(const ModelConfig& config) {
  constexpr std::pair<std::string_view, std::string_view> families[] = {{"llama", "llama"},
                                                                        {"mistral", "llama"},
                                                                        {"mixtral", "llama"},
                                                                        {"qwen2", "qwen2"},
                                                                        {"qwen3", "qwen3"},
                                                                        {"phi3", "phi3"},
                                                                        {"qwen3_moe", "qwen3moe"},
                                                                        {"gemma", "gemma"},
                                                                        {"gemma2", "gemma2"},
                                                                        {"gemma3_text", "gemma3"},
                                                                        {"gpt2", "gpt2"},
                                                                        {"olmo2", "olmo2"},
                                                                        {"deepseek_v2", "deepseek2"},
                                                                        {"deepseek_v3", "deepseek2"}};
  for (const auto& [type, name] : families)
    if (config.architecture == type) return name;
  return {};
}

std::string hugging_face_type(const ModelConfig& config) {
  const std::string& name = config.architecture;
  if (name == "llama")
    return config.num_experts > 0 ? "mixtral" : config.sliding_window ? "mistral" : "llama";
  if (name == "qwen3moe") return "qwen3_moe";
  if (name == "gemma3") return "gemma3_text";
  if (name == "deepseek2") return config.sigmoid_router ? "deepseek_v3" : "deepseek_v2";
  return name;
}

bool is_transposed(Part part) {
  return part == Part::qkv || part == Part::attention_out || part == Part::up || part == Part::down;
}

bool is_experts(Part part) {
  return part == Part::expert_gate || part == Part::expert_up || part == Part::expert_down;
}

std::string DecoderWeights::name(Part part, int64_t layer) const {
  return (layer < 0 && part == Part::head ? "" : prefix_) + part_name(config_, gguf_, part, layer);
}

bool DecoderWeights::has(Part part, int64_t layer) const {
  const std::string base = name(part, layer);
  // Phi-3 in GGUF: gate and up are one tensor, which has the name of the second.
  if (gguf_ && part == Part::gate_up && has(Part::gate, layer)) return false;
  return base.size() > prefix_.size() && file_.find(base + ".weight") != nullptr;
}

bool DecoderWeights::has_bias(Part part, int64_t layer) const {
  return file_.find(name(part, layer) + ".bias") != nullptr;
}

const TensorView& DecoderWeights::find(const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView& view = file_.tensor(name);
  if (view.shape != shape)
    throw Error(fmt::format("{}: tensor {} is {}, the configuration asks for [{}]", file_.path, name,
                            view.describe(), fmt::join(shape, ", ")));
  return view;
}

Tensor DecoderWeights::weight(Part part, int64_t layer, std::vector<int64_t> shape, bool every_step) {
  const std::string full = name(part, layer) + ".weight";
  const TensorView& view = find(full, shape);
  if (every_step && read_every_step_.insert(full).second) step_bytes_ += int64_t(view.bytes.size());
  if (const auto made = made_.find(full); made != made_.end()) return made->second;
  const bool eight_bits = activations_ == Activations::q8;
  Tensor w;
  if (const int64_t unit = unit_beside(view)) {
    w = file_weight(graph_, file_, view);
    beside_.emplace(w.id(), unit);
  } else if (shape.size() != 2 || (!eight_bits && row_tile(shape[0]) < widest_tile)) {
    // Rows that fill no vector are unpacked as they stand in the file where activations are exact.
    w = file_weight(graph_, file_, view);
  } else {
    std::optional<QuantizedWeight> codes;
    w = file_weight(graph_, file_, view, &codes, eight_bits ? RowOrder::words : RowOrder::bytes);
    if (codes) packed_.emplace(w.id(), *codes);
  }
  return made_.emplace(full, w).first->second;
}

Tensor DecoderWeights::vector(Part part, int64_t layer, int64_t width, const char* kind) {
  const std::string full = fmt::format("{}.{}", name(part, layer), kind);
  if (const auto made = made_.find(full); made != made_.end()) return made->second;
  const TensorView& view = find(full, {width});
  step_bytes_ += int64_t(view.bytes.size());
  Tensor values = file_weight(graph_, file_, view).cast(DType::f32);
  if (is_norm(part) && config_.norm_offset != 0) values = values + config_.norm_offset;
  return made_.emplace(full, values).first->second;
}

Tensor DecoderWeights::linear(const Tensor& x, Part part, int64_t layer, int64_t out, int64_t in, bool bias) {
  const bool turned = gpt2_ && !gguf_; // GPT-2 stores [in, out]
  Tensor w = weight(part, layer, turned ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in});
  Tensor y = turned ? x.matmul(w.cast(DType::f32)) : product(x, w);
  y = adapted(y, x, part, layer);
  if (bias || has_bias(part, layer)) y = y + vector(part, layer, out, "bias");
  return y;
}

std::optional<std::pair<Tensor, Tensor>> DecoderWeights::low_rank(Part part, int64_t layer) {
  const std::string full = name(part, layer) + ".weight";
  const auto found = file_.low_rank.find(full);
  if (found == file_.low_rank.end()) return {};
  const LowRank& factors = *found->second;
  const auto make = [&](const char* kind, const std::vector<float>& values, bool rank_first) {
    const int64_t other = int64_t(values.size()) / factors.rank;
    Tensor t = graph_.weight(full + kind, rank_first ? Dims{factors.rank, other} : Dims{other, factors.rank},
                             DType::f32);
    t.borrow(values.data(), values.size() * sizeof(float), found->second);
    step_bytes_ += int64_t(values.size() * sizeof(float));
    return t;
  };
  return std::pair{make(".lora_b", factors.left, false), make(".lora_a", factors.right, true)};
}

Tensor DecoderWeights::adapted(const Tensor& y, const Tensor& x, Part part, int64_t layer) {
  const auto factors = low_rank(part, layer);
  if (!factors) return y;
  return y + x.matmul(factors->second.transpose()).matmul(factors->first.transpose());
}

Tensor DecoderWeights::adapted_rows(const Tensor& y, const Tensor& tokens, Part part) {
  const auto factors = low_rank(part, -1);
  return factors ? y + factors->first.gather(tokens).matmul(factors->second) : y;
}

Tensor DecoderWeights::experts(Part part, int64_t layer, int64_t count, int64_t out, int64_t in) {
  const std::string base = name(part, layer) + ".weight";
  if (gguf_) {
    TensorView view = find(base, {count, out, in});
    view.shape = {count * out, in}; // rows of all experts behind each other
    step_bytes_ += int64_t(view.bytes.size()) / count * config_.num_experts_used;
    Tensor rows = file_weight(graph_, file_, view).cast(DType::f32);
    made_.emplace(base, rows);
    return rows.reshape({count, out, in});
  }
  std::vector<Tensor> each;
  for (int64_t e = 0; e < count; e++) {
    const std::string full = fmt::format(fmt::runtime(base), e);
    const TensorView& view = find(full, {out, in});
    if (e < config_.num_experts_used) step_bytes_ += int64_t(view.bytes.size());
    each.push_back(file_weight(graph_, file_, view));
    made_.emplace(full, each.back());
  }
  return stack(each, 0).contiguous().cast(DType::f32); // put beside each other once, at load
}

Tensor DecoderWeights::stacked(Part part, int64_t layer, int64_t count, int64_t out, int64_t in) {
  const std::string full = name(part, layer) + ".weight";
  const TensorView* found = file_.find(full);
  TensorView view = found != nullptr && found->shape.size() == 3 ? find(full, {count, out, in})
                                                                 : find(full, {count * out, in});
  view.shape = {count * out, in};
  step_bytes_ += int64_t(view.bytes.size());
  Tensor rows = made_.emplace(full, file_weight(graph_, file_, view)).first->second.cast(DType::f32);
  if (const auto factors = low_rank(part, layer)) rows = rows + factors->first.matmul(factors->second);
  return rows.reshape({count, out, in});
}

std::pair<Tensor, Tensor> DecoderWeights::latent_heads(int64_t layer) {
  const LatentAttention& latent = *config_.latent;
  const int64_t heads = config_.num_heads, rank = latent.rank, plain = latent.plain_dim,
                value = latent.value_dim;
  if (has(Part::k_b, layer))
    return {stacked(Part::k_b, layer, heads, rank, plain), stacked(Part::v_b, layer, heads, value, rank)};
  const Tensor both = stacked(Part::kv_b, layer, heads, plain + value, rank);
  return {both.slice(1, 0, plain).transpose(), both.slice(1, plain, plain + value)};
}

bool DecoderWeights::has_router_bias(int64_t layer) const {
  return file_.find(name(Part::router_bias, layer)) != nullptr;
}
Tensor DecoderWeights::router_bias(int64_t layer) {
  const std::string full = name(Part::router_bias, layer);
  const TensorView& view = find(full, {config_.num_experts});
  step_bytes_ += int64_t(view.bytes.size());
  return made_.emplace(full, file_weight(graph_, file_, view).cast(DType::f32)).first->second;
}

/// How many neighbours of a row stay together where a matrix is read with its rows beside each
/// other: pairs of bf16, single f32. 0: it is read as it lies.
int64_t DecoderWeights::unit_beside(const TensorView& view) const {
  if (view.shape.size() != 2) return 0;
  if (view.type == StorageType::f32) return row_tile(view.shape[0]) == widest_tile ? 1 : 0;
  const bool pairs =
      activations_ == Activations::bf16 && view.type == StorageType::bf16 && view.shape[1] % 2 == 0;
  return pairs ? 2 : 0;
}

Tensor DecoderWeights::product(const Tensor& x, const Tensor& w) {
  const auto codes = packed_.find(w.id());
  if (const auto unit = beside_.find(w.id()); unit != beside_.end()) return linear_beside(x, w, unit->second);
  if (codes == packed_.end()) return x.matmul(w.cast(DType::f32).transpose());
  if (activations_ != Activations::q8) return matmul_transposed(x, codes->second);
  auto rows = quantized_rows_.find(x.id()); // once for all products that read it
  if (rows == quantized_rows_.end()) rows = quantized_rows_.emplace(x.id(), quantize_rows(x)).first;
  return matmul_transposed(rows->second, codes->second);
}

/// The same with rows of the weight beside each other, which lie on large pages and fill the
/// lanes for one token as for many.
Tensor DecoderWeights::linear_beside(const Tensor& x, const Tensor& w, int64_t unit) {
  const int64_t rows = w.shape()[0].value(), steps = w.shape()[1].value() / unit, tile = row_tile(rows);
  Tensor given = x;
  if (w.dtype() == DType::bf16) {
    auto rounded = rounded_.find(x.id()); // once for all products that read it
    if (rounded == rounded_.end()) rounded = rounded_.emplace(x.id(), x.cast(DType::bf16)).first;
    given = rounded->second;
  }
  Tensor weights = interleave_rows(w, tile, unit); // [rows / tile, steps, tile, unit]
  Tensor products = given.reshape({x.shape()[0], 1, steps, 1, unit}).cast(DType::f32) *
                    weights.unsqueeze(0).cast(DType::f32);
  return products.sum({2, 4}).reshape({x.shape()[0], rows});
}

void DecoderWeights::refuse_unused() const {
  std::vector<std::string> unused;
  for (const TensorView& view : file_.tensors) {
    const std::string_view n = view.name;
    // Tables that are computed, not read: rotary frequencies, masks of GPT-2; factors are in the
    // configuration.
    const bool known = n.ends_with("rotary_emb.inv_freq") || n.ends_with(".masked_bias") ||
                       (gpt2_ && n.ends_with(".attn.bias")) || n.starts_with("rope_f");
    if (!known && !made_.contains(view.name)) unused.push_back(view.name);
  }
  if (unused.empty()) return;
  const size_t shown = std::min<size_t>(unused.size(), 8);
  throw Error(fmt::format("{}: {} tensors that a model of the architecture {} does not have: {}{}",
                          file_.path, unused.size(), config_.architecture,
                          fmt::join(unused.begin(), unused.begin() + long(shown), ", "),
                          unused.size() > shown ? ", .." : ""));
}

} // namespace luminal::models
