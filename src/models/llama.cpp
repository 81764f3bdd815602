// models/llama.cpp -- the graph of a decoder: Llama, and what its relatives do otherwise.
#include "models/llama.h"
#include "base/check.h"
#include "models/decoder_builder.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <map>

namespace luminal::models {
namespace {

using Norm = ModelConfig::Norm;

const std::vector<std::string> architectures{
    "deepseek2", "deepseek_v2", "deepseek_v3", "gemma",    "gemma2", "gemma3",  "gemma3_text",
    "gpt2",      "llama",       "mistral",     "mixtral",  "olmo2",  "phi2",    "phi3",
    "qwen2",     "qwen3",       "qwen3_moe",   "qwen3moe", "smollm", "smollm2", "tinyllama"};

} // namespace

Tensor capped(const Tensor& x, const std::optional<double>& cap) {
  return cap ? (x / *cap).tanh() * *cap : x;
}

DecoderBuilder::DecoderBuilder(const ModelFile& file, const LlamaOptions& options, std::source_location where)
    : file_(file), config_(file.require_config()), options_(options) {
  model_.graph.state()->made_at = where;
  refuse_what_is_not_known();
  model_.config = config_;
  model_.context = options.context > 0 ? options.context : config_.context_length;
  if (config_.learned_positions && model_.context > config_.context_length)
    throw Error(fmt::format("{}: a context of {}, the model has {} positions", file.path, model_.context,
                            config_.context_length));
  model_.chunk = std::min(options.chunk, model_.context);
  LUMINAL_CHECK(options.prefix <= model_.chunk, "{} tokens in front see each other, a step takes {}",
                options.prefix, model_.chunk);
}

Llama DecoderBuilder::build() {
  Graph& g = model_.graph;
  weights_ = std::make_unique<DecoderWeights>(file_, g, options_.activations);
  n_ = std::make_unique<Dim>(g.dim("n", 1, model_.chunk));
  model_.tokens = g.tensor({*n_}, DType::i32, "tokens");
  if (options_.slots > 0) {
    filled_ = std::make_unique<Dim>(g.dim("filled", 1, model_.context));
    model_.slot = g.tensor({*n_}, DType::i32, "slot");
    model_.position = g.tensor({*n_}, DType::i32, "position");
    if (options_.prefix > 0) model_.sees = g.tensor({*n_}, DType::i32, "sees");
  } else {
    past_ = std::make_unique<Dim>(g.dim("past", 0, model_.context - 1));
  }
  model_.most_rows = std::max(options_.slots, std::min(options_.rows, model_.chunk));
  if (model_.most_rows > 0) model_.rows = g.tensor({g.dim("m", 1, model_.most_rows)}, DType::i32, "rows");
  if (!config_.learned_positions) make_rotary_tables();

  Tensor h = embedding().set_name("embedding"); // [n, hidden]
  for (int64_t layer = 0; layer < config_.num_layers; layer++) h = block(h, layer);
  if (model_.most_rows > 0)
    h = h.gather(model_.rows);
  else if (!options_.all_logits)
    h = h.slice(0, *n_ - 1, *n_);
  Tensor logits = capped(head(norm(h, Part::final_norm)), config_.logit_softcap); // [n or 1, vocab]
  model_.logits = options_.all_logits || model_.most_rows > 0 ? logits : logits.squeeze(0);
  model_.logits.set_name("logits").keep();
  weights_->refuse_unused();
  model_.step_weight_bytes = weights_->step_bytes();
  return std::move(model_);
}

void DecoderBuilder::refuse_what_is_not_known() const {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: {} (architecture {})", file_.path, what, config_.architecture));
  };
  if (config_.architecture == "moondream1")
    refuse("a model of pictures and texts, which luminal run --image takes, and luminal serve");
  if (std::ranges::find(architectures, config_.architecture) == architectures.end())
    refuse(fmt::format("this architecture cannot be run yet, expected one of {}",
                       fmt::join(architectures, ", ")));
  if (!decoder_activations().contains(config_.activation)) {
    std::vector<std::string> known;
    for (const auto& [name, _] : decoder_activations()) known.push_back(name);
    refuse(fmt::format("activation {} cannot be run yet, expected one of {}", config_.activation,
                       fmt::join(known, ", ")));
  }
  LUMINAL_CHECK(config_.rope_dim % 2 == 0, "{} rotating elements are not pairs", config_.rope_dim);
  if (config_.rope_scaling.kind == RopeScaling::Kind::dynamic)
    refuse("dynamic rotary scaling cannot be run yet");
}

Tensor DecoderBuilder::embedding() {
  Tensor table = weights_->weight(Part::embedding, -1, {config_.vocab_size, config_.hidden_size}, false);
  const Tensor tokens =
      options_.image_rows > 0 ? minimum(model_.tokens, config_.vocab_size - 1) : model_.tokens;
  Tensor h = table.gather(tokens).cast(DType::f32);
  h = weights_->adapted_rows(h, tokens, Part::embedding);
  if (config_.embedding_scale != 1) h = h * config_.embedding_scale;
  if (options_.image_rows > 0) {
    model_.image = model_.graph.tensor({options_.image_rows, config_.hidden_size}, DType::f32, "image");
    const Tensor row = model_.tokens - config_.vocab_size; // of the picture, from 0 on
    h = select((row >= 0).unsqueeze(1), model_.image.gather(maximum(row, 0)), h);
  }
  if (!config_.learned_positions) return h;
  const Tensor positions =
      weights_->weight(Part::positions, -1, {config_.context_length, config_.hidden_size}, false);
  return h + rows_of_step(positions.cast(DType::f32));
}

Tensor DecoderBuilder::rows_of_step(const Tensor& table) const {
  return options_.slots > 0 ? table.gather(model_.position) : table.slice(0, *past_, *past_ + *n_);
}

Tensor DecoderBuilder::head(const Tensor& h) {
  const int64_t vocabulary = config_.vocab_size, hidden = config_.hidden_size;
  if (weights_->has(Part::head)) {
    const Tensor y = weights_->adapted(
        weights_->product(h, weights_->weight(Part::head, -1, {vocabulary, hidden})), h, Part::head, -1);
    return weights_->has_bias(Part::head) ? y + weights_->vector(Part::head, -1, vocabulary, "bias") : y;
  }
  LUMINAL_CHECK(config_.tied_embeddings || file_.kind == ModelFileKind::gguf,
                "{}: no head, and it is not tied", file_.path);
  return weights_->product(h, weights_->weight(Part::embedding, -1, {vocabulary, hidden}));
}

Tensor DecoderBuilder::block(const Tensor& h, int64_t layer) {
  const auto before = [&](const Tensor& x, Part part) {
    return config_.pre_norms ? norm(x, part, layer) : x;
  };
  const auto behind = [&](const Tensor& x, Part part) {
    return config_.post_norms ? norm(x, part, layer) : x;
  };
  if (config_.parallel) { // attention and the feed-forward part read the same
    const Tensor x = before(h, Part::attention_norm);
    return h + attention(x, layer) + feed_forward(x, layer);
  }
  const Tensor mixed =
      h + behind(attention(before(h, Part::attention_norm), layer), Part::post_attention_norm);
  const Tensor x = before(mixed, Part::feed_forward_norm);
  return mixed + behind(config_.has_experts(layer) ? experts(x, layer) : feed_forward(x, layer),
                        Part::post_feed_forward_norm);
}

Tensor DecoderBuilder::norm(const Tensor& x, Part part, int64_t layer) {
  const int64_t width = x.shape().back().value();
  const Tensor w = weights_->vector(part, layer, width);
  if (config_.norm == Norm::rms) return x.rms_norm(config_.rms_norm_eps) * w;
  return x.layer_norm(-1, config_.rms_norm_eps) * w + weights_->vector(part, layer, width, "bias");
}

Llama make_llama(const ModelFile& file, const LlamaOptions& options, std::source_location where) {
  return DecoderBuilder(file, options, where).build();
}

const std::vector<std::string>& activations_names() {
  static const std::vector<std::string> names{"exact", "bf16", "q8"};
  return names;
}

Activations activations_from_name(std::string_view name) {
  const auto& names = activations_names();
  const auto at = std::ranges::find(names, name);
  if (at == names.end())
    throw Error(fmt::format("activations {}: {} are known", name, fmt::join(names, ", ")));
  return Activations(at - names.begin());
}

std::map<std::string, int64_t> typical_sizes(const Llama& model) {
  if (model.slot.defined()) return {{"n", 1}, {"m", 1}, {"filled", model.context / 4}};
  if (model.most_rows > 0) // as many tokens as logits: what is asked of several rows at once
    return {{"n", model.most_rows},
            {"m", model.most_rows},
            {"past", std::min(model.context / 4, model.context - model.most_rows)}};
  return {{"n", 1}, {"past", model.context / 4}};
}

void compile_llama(Llama& model, const ModelFile& file, CompileOptions options) {
  if (options.weights_id.empty()) options.weights_id = file.identity();
  if (options.sizes.empty())
    for (const auto& [name, size] : typical_sizes(model)) options.sizes[name] = size;
  model.graph.compile(options);
}

} // namespace luminal::models
