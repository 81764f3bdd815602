// models/embedder.cpp -- loading an encoder of the BERT family and running it.
#include "models/embedder.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/model_files.h"
#include "models/weights.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::models {
namespace {

using detail::Json;

/// What config.json says of a BERT model.
BertConfig read_config(const std::string& file) {
  const auto text = read_file(file);
  if (!text) throw Error(text.error());
  BertConfig c;
  const auto read = detail::guarded(file, [&] {
    const Json json = detail::parse_json(*text, file);
    json.as_object(file, "the configuration");
    const Json* type = json.find("model_type");
    const std::string name = type == nullptr ? "?" : type->as_string(file, "\"model_type\"");
    if (name != "bert")
      detail::refuse(file, fmt::format("a model of type {}, expected \"bert\" (also MiniLM, BGE and E5)",
                                       detail::in_quotes(name)));
    const auto integer = [&](const char* key, int64_t& value) {
      const Json* found = json.find(key);
      if (found == nullptr) return;
      value = found->as_int(file, detail::in_quotes(key));
      if (value < 1 || value > int64_t(1) << 24)
        detail::refuse_at(file, found->offset,
                          fmt::format("{} is {}, expected 1 to {}", detail::in_quotes(key), value, 1 << 24));
    };
    integer("vocab_size", c.vocabulary);
    integer("hidden_size", c.width);
    integer("num_hidden_layers", c.layers);
    integer("num_attention_heads", c.heads);
    integer("intermediate_size", c.inner);
    integer("max_position_embeddings", c.positions);
    integer("type_vocab_size", c.types);
    if (const Json* eps = json.find("layer_norm_eps")) c.eps = eps->as_real(file, "\"layer_norm_eps\"");
    if (const Json* act = json.find("hidden_act")) c.activation = act->as_string(file, "\"hidden_act\"");
    if (const Json* kind = json.find("position_embedding_type");
        kind != nullptr && kind->as_string(file, "\"position_embedding_type\"") != "absolute")
      detail::refuse_at(file, kind->offset, "positions of another kind than \"absolute\" are not supported");
  });
  if (!read) throw Error(read.error());
  return c;
}

/// Whether the folder says that the first token stands for the text.
bool first_token_stated(const std::string& folder) {
  const std::string file = folder + "/1_Pooling/config.json";
  if (!file_exists(file)) return false;
  const auto text = read_file(file);
  if (!text) throw Error(text.error());
  const auto stated = detail::guarded(file, [&] {
    const Json json = detail::parse_json(*text, file);
    json.as_object(file, "the configuration");
    const auto on = [&](const char* key) {
      const Json* value = json.find(key);
      return value != nullptr && value->as_bool(file, detail::in_quotes(key));
    };
    const bool first = on("pooling_mode_cls_token"), mean = on("pooling_mode_mean_tokens");
    if (first == mean) detail::refuse(file, "neither the mean nor the first token alone is not supported");
    return first;
  });
  if (!stated) throw Error(stated.error());
  return *stated;
}

} // namespace

Embedder::Embedder(const std::string& path, const EmbedderOptions& options) {
  if (!is_directory(path))
    throw Error(fmt::format("{}: a Hugging Face folder of a BERT model is expected (config.json, "
                            "model.safetensors, tokenizer)",
                            path));
  config_ = read_config(path + "/config.json");
  auto opened = open_model(path);
  if (!opened) throw Error(opened.error());
  tokenizer_ = opened->require_tokenizer();
  if (tokenizer_->size() > config_.vocabulary)
    throw Error(fmt::format("{}: a tokenizer of {} tokens for a model of {}", path, tokenizer_->size(),
                            config_.vocabulary));
  const Bert bert(nn::Scope(graph_), config_);
  // A model with a head for another task has the encoder inside.
  const bool inside = opened->find("bert.embeddings.word_embeddings.weight") != nullptr;
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : bert.state_dict())
    if (!name.starts_with("pooler.")) weights.emplace(name, tensor);
  const auto in_file = [&](const std::string& name) { return inside ? "bert." + name : name; };
  load_all(weights, *opened, in_file);
  const Dim n = graph_.dim("n", 1, config_.positions);
  ids_ = graph_.tensor({1, n}, DType::i32, "ids");
  const Tensor hidden = bert(ids_).last().squeeze(0); // [n, width]
  const bool first =
      options.pooling == Pooling::first || (options.pooling == Pooling::stated && first_token_stated(path));
  Tensor pooled = first ? hidden.select(0, 0) : hidden.mean({0});
  out_ = (options.normalise ? pooled.normalize(2, {0}) : pooled).keep();
  graph_.compile({.threads = options.threads, .sizes = {{"n", std::min<int64_t>(32, config_.positions)}}});
}

Embedder::Result Embedder::embed(std::string_view text) { return embed_tokens(tokenizer_->encode(text)); }

Embedder::Result Embedder::embed_tokens(std::span<const int32_t> ids) {
  if (ids.empty()) throw Error("a text without a token has no vector");
  if (int64_t(ids.size()) > config_.positions)
    throw Error(fmt::format("the text has {} tokens, the model takes {}", ids.size(), config_.positions));
  graph_.set_dim("n", int64_t(ids.size()));
  ids_.set(ids);
  graph_.execute();
  return {out_.data<float>(), int64_t(ids.size())};
}

} // namespace luminal::models
