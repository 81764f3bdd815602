// luminal/models_vision.h -- models of pictures, and of pictures and texts, as modules: ViT, CLIP,
// MobileNetV2, ResNet. Parameters have the names of Hugging Face transformers; load takes their files.
#pragma once
#include "luminal/nn_attention.h"

namespace luminal::models {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

struct EncoderConfig {
  int64_t width = 768, layers = 12, heads = 12, inner = 3072;
  double eps = 1e-12;
  std::string activation = "gelu";
};
/// What the files call the parts of a layer.
struct EncoderNames {
  std::string query, key, value, out, first_norm, second_norm, up, down;
};
/// Layers of a transformer with norms before the parts (Xiong et al. 2020): x + attention(norm(x)), then x +
/// mlp(norm(x)). x [batch, n, width].
class PreNormEncoder : public nn::Module {
public:
  PreNormEncoder(const nn::Scope& scope, const EncoderConfig& config, const EncoderNames& names,
                 LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, bool causal = false, LUMINAL_WHERE) const;

private:
  struct Layer {
    nn::Linear query, key, value, out;
    nn::LayerNorm first_norm, second_norm;
    nn::Linear up, down;
    Layer(const nn::Scope& scope, const EncoderConfig& config, const EncoderNames& names,
          std::source_location where);
  };
  EncoderConfig config_;
  std::vector<Layer> layers_;
  /// "quick_gelu" is x sigmoid(1.702 x) (CLIP); others are names of nn::Activation.
  std::optional<nn::Activation> activation_;
};

// ---- ViT (Dosovitskiy et al. 2020, arXiv:2010.11929), names of ViTForImageClassification ----
struct VitConfig {
  EncoderConfig encoder;
  int64_t image = 224, patch = 16, classes = 1000;
};
class Vit : public nn::Module {
public:
  explicit Vit(const nn::Scope& scope, const VitConfig& config = {}, LUMINAL_WHERE);
  /// Normalised pictures [batch, 3, image, image] -> [batch, 1 + patches, width], the class token first.
  Tensor hidden(const Tensor& x, LUMINAL_WHERE) const;
  /// -> logits [batch, classes].
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  nn::Parameter class_, positions_;
  nn::Conv2d patches_;
  PreNormEncoder encoder_;
  nn::LayerNorm norm_;
  nn::Linear head_;
};

// ---- CLIP (Radford et al. 2021, arXiv:2103.00020), names of CLIPModel ----
struct ClipConfig {
  EncoderConfig vision{.eps = 1e-5, .activation = "quick_gelu"};
  EncoderConfig text{.width = 512, .heads = 8, .inner = 2048, .eps = 1e-5, .activation = "quick_gelu"};
  int64_t image = 224, patch = 32, vocabulary = 49408, positions = 77, projection = 512;
};
class Clip : public nn::Module {
public:
  explicit Clip(const nn::Scope& scope, const ClipConfig& config = {}, LUMINAL_WHERE);
  /// Normalised pictures [batch, 3, image, image] -> [batch, projection], of length 1.
  Tensor image(const Tensor& x, LUMINAL_WHERE) const;
  /// Tokens [batch, n], the largest id in each row where the text ends -> [batch, projection], of length 1.
  Tensor text(const Tensor& tokens, LUMINAL_WHERE) const;
  /// How well each picture fits each text: [pictures, texts], logits.
  Tensor operator()(const Tensor& pictures, const Tensor& texts, LUMINAL_WHERE) const;

private:
  nn::Parameter class_, scale_;
  nn::Conv2d patches_;
  nn::Embedding image_positions_, tokens_, text_positions_;
  nn::LayerNorm before_, after_, final_;
  PreNormEncoder vision_, text_;
  nn::Linear image_projection_, text_projection_;
};

// ---- MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), names of MobileNetV2ForImageClassification ----
struct MobileNetConfig {
  double multiplier = 1; ///< of the numbers of channels
  int64_t classes = 1001;
  bool same_padding = true; ///< as TensorFlow pads, the odd one behind; else as PyTorch does
  double eps = 0.001;
};
class MobileNetV2 : public nn::Module {
public:
  explicit MobileNetV2(const nn::Scope& scope, const MobileNetConfig& config = {}, LUMINAL_WHERE);
  /// Pictures in -1..1 [batch, 3, height, width] -> logits [batch, classes].
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  /// Convolution, batch norm, and perhaps ReLU6.
  struct Layer {
    int64_t kernel, stride;
    bool same_padding, activation;
    nn::Conv2d convolution;
    nn::BatchNorm normalization;
    Layer(const nn::Scope& scope, int64_t in, int64_t out, int64_t kernel, int64_t stride, bool depthwise,
          bool activation, const MobileNetConfig& config, std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  /// Figure 3: wider, a filter on each channel, narrower; and around it the block's own input.
  struct Block {
    std::optional<Layer> expand;
    Layer filter, reduce;
    bool around;
    Block(const nn::Scope& scope, int64_t in, int64_t out, int64_t stride, int64_t factor,
          const MobileNetConfig& config, std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  std::optional<Layer> first_, first_filter_, first_reduce_, last_;
  std::vector<Block> blocks_;
  std::optional<nn::Linear> head_;
};

// ---- ResNet (He et al. 2015, arXiv:1512.03385), names of ResNetForImageClassification ----
struct ResNetConfig {
  int64_t stem = 64, classes = 1000;
  std::vector<int64_t> widths{256, 512, 1024, 2048}, depths{3, 4, 6, 3}; ///< by stage
  bool bottleneck = true;   ///< three convolutions a block, those in the middle a quarter as wide; else two
  bool halve_first = false; ///< the first stage halves pictures, as the later ones do
  bool stride_in_front = false; ///< of a bottleneck: in its first convolution, not in the middle one
};
class ResNet : public nn::Module {
public:
  explicit ResNet(const nn::Scope& scope, const ResNetConfig& config = {}, LUMINAL_WHERE);
  /// Normalised pictures [batch, 3, height, width] -> logits [batch, classes].
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  struct Layer {
    nn::Conv2d convolution;
    nn::BatchNorm normalization;
    Layer(const nn::Scope& scope, int64_t in, int64_t out, int64_t kernel, int64_t stride,
          std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  struct Block {
    std::optional<Layer> shortcut;
    std::vector<Layer> layers;
  };
  Layer stem_;
  std::vector<Block> blocks_;
  nn::Linear head_;
};

#undef LUMINAL_WHERE
} // namespace luminal::models
