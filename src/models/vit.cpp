// models/vit.cpp -- ViT and CLIP: pictures as words of 16 x 16 pixels.
#include "luminal/indexing.h"
#include "luminal/models_vision.h"
#include <fmt/format.h>

namespace luminal::models {
namespace {

const EncoderNames vit_names{"attention.attention.query", "attention.attention.key",
                             "attention.attention.value", "attention.output.dense",
                             "layernorm_before",          "layernorm_after",
                             "intermediate.dense",        "output.dense"};
const EncoderNames clip_names{
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj",
    "layer_norm1",      "layer_norm2",      "mlp.fc1",          "mlp.fc2"};

/// [batch, width, rows, columns] -> [batch, rows * columns, width], with the class token in front.
Tensor words_of(const Tensor& patches, const Tensor& class_token) {
  const Tensor words = patches.flatten(2, 3).transpose(1, 2);
  return concat({class_token.reshape({1, 1, -1}).expand({words.dim(0), 1, -1}), words}, 1);
}

int64_t patches_of(const char* what, int64_t image, int64_t patch, std::source_location where) {
  if (patch < 1 || image < patch || image % patch)
    throw Error(what, fmt::format("pictures of {} pixels are not whole patches of {}", image, patch), where);
  return (image / patch) * (image / patch);
}

} // namespace

PreNormEncoder::Layer::Layer(const nn::Scope& s, const EncoderConfig& c, const EncoderNames& n,
                             std::source_location where)
    : query(s / n.query, c.width, c.width, {}, where), key(s / n.key, c.width, c.width, {}, where),
      value(s / n.value, c.width, c.width, {}, where), out(s / n.out, c.width, c.width, {}, where),
      first_norm(s / n.first_norm, c.width, {.eps = c.eps}, where),
      second_norm(s / n.second_norm, c.width, {.eps = c.eps}, where),
      up(s / n.up, c.width, c.inner, {}, where), down(s / n.down, c.inner, c.width, {}, where) {}

PreNormEncoder::PreNormEncoder(const nn::Scope& s, const EncoderConfig& c, const EncoderNames& n,
                               std::source_location where)
    : Module(s), config_(c) {
  if (c.heads < 1 || c.width % c.heads)
    throw Error("PreNormEncoder", fmt::format("width {} is not a multiple of {} heads", c.width, c.heads),
                where);
  if (c.activation != "quick_gelu") activation_.emplace(c.activation, where);
  for (int64_t i = 0; i < c.layers; i++) layers_.emplace_back(s / i, c, n, where);
}

Tensor PreNormEncoder::operator()(const Tensor& given, bool causal, std::source_location where) const {
  const auto split = [&](const Tensor& t) { return t.unflatten(-1, {config_.heads, -1}).transpose(1, 2); };
  Tensor x = given;
  for (const Layer& layer : layers_) {
    const Tensor a = layer.first_norm(x, where);
    const Tensor mixed =
        scaled_dot_product_attention(split(layer.query(a, where)), split(layer.key(a, where)),
                                     split(layer.value(a, where)), {.causal = causal}, where);
    x = x + layer.out(mixed.transpose(1, 2).flatten(2, 3), where);
    const Tensor wide = layer.up(layer.second_norm(x, where), where);
    x = x + layer.down(activation_ ? (*activation_)(wide, where) : wide * (wide * 1.702).sigmoid(), where);
  }
  return x;
}

Vit::Vit(const nn::Scope& s, const VitConfig& c, std::source_location where)
    : Module(s), patches_(s / "vit.embeddings.patch_embeddings.projection", 3, c.encoder.width, c.patch,
                          {.stride = c.patch}, where),
      encoder_(s / "vit.encoder.layer", c.encoder, vit_names, where),
      norm_(s / "vit.layernorm", c.encoder.width, {.eps = c.encoder.eps}, where),
      head_(s / "classifier", c.encoder.width, c.classes, {}, where) {
  const int64_t patches = patches_of("Vit", c.image, c.patch, where);
  class_ = (s / "vit.embeddings").parameter("cls_token", {1, 1, c.encoder.width}, nn::init::zeros(), where);
  positions_ = (s / "vit.embeddings")
                   .parameter("position_embeddings", {1, 1 + patches, c.encoder.width},
                              nn::init::normal(0, 0.02), where);
}
Tensor Vit::hidden(const Tensor& x, std::source_location where) const {
  return norm_(encoder_(words_of(patches_(x, where), class_) + positions_.value(), false, where), where);
}
Tensor Vit::operator()(const Tensor& x, std::source_location where) const {
  return head_(hidden(x, where).select(1, 0), where);
}

Clip::Clip(const nn::Scope& s, const ClipConfig& c, std::source_location where)
    : Module(s), patches_(s / "vision_model.embeddings.patch_embedding", 3, c.vision.width, c.patch,
                          {.stride = c.patch, .bias = false}, where),
      image_positions_(s / "vision_model.embeddings.position_embedding",
                       1 + patches_of("Clip", c.image, c.patch, where), c.vision.width, {}, where),
      tokens_(s / "text_model.embeddings.token_embedding", c.vocabulary, c.text.width, {}, where),
      text_positions_(s / "text_model.embeddings.position_embedding", c.positions, c.text.width, {}, where),
      before_(s / "vision_model.pre_layrnorm", c.vision.width, {.eps = c.vision.eps}, where),
      after_(s / "vision_model.post_layernorm", c.vision.width, {.eps = c.vision.eps}, where),
      final_(s / "text_model.final_layer_norm", c.text.width, {.eps = c.text.eps}, where),
      vision_(s / "vision_model.encoder.layers", c.vision, clip_names, where),
      text_(s / "text_model.encoder.layers", c.text, clip_names, where),
      image_projection_(s / "visual_projection", c.vision.width, c.projection, {.bias = false}, where),
      text_projection_(s / "text_projection", c.text.width, c.projection, {.bias = false}, where) {
  class_ = (s / "vision_model.embeddings")
               .parameter("class_embedding", {c.vision.width}, nn::init::normal(0, 0.02), where);
  scale_ = s.parameter("logit_scale", {}, nn::init::constant(2.6592), where); // of temperature 0.07
}
Tensor Clip::image(const Tensor& x, std::source_location where) const {
  const Tensor words = words_of(patches_(x, where), class_) + image_positions_.weight().value();
  const Tensor hidden = vision_(before_(words, where), false, where);
  return image_projection_(after_(hidden.select(1, 0), where), where).normalize(2, -1);
}
Tensor Clip::text(const Tensor& tokens, std::source_location where) const {
  const Tensor words = tokens_(tokens, where) + text_positions_.weight().value().slice(0, 0, tokens.dim(1));
  const Tensor hidden = final_(text_(words, true, where), where);
  const Tensor last = tokens.argmax(1).reshape({-1, 1, 1}); // where the text ends
  const Tensor pooled = hidden.take_along(last.expand({hidden.dim(0), 1, hidden.dim(2)}), 1).squeeze(1);
  return text_projection_(pooled, where).normalize(2, -1);
}
Tensor Clip::operator()(const Tensor& pictures, const Tensor& texts, std::source_location where) const {
  return image(pictures, where).matmul(text(texts, where).t()) * scale_.value().exp();
}

} // namespace luminal::models
