// luminal/train_models.h -- models to train as they are: what `luminal train` offers by name. Each is a
// function of luminal/train.h; its parameters have the names that PyTorch's or Hugging Face's models
// have, so that saved ones load elsewhere.
#pragma once
#include "luminal/train.h"

namespace luminal::train_models {

/// Pictures "x" [channels, height, width] or [height, width] of u8 are divided by 255, floats are
/// taken as they are. Targets "y": class numbers (cross entropy, metric "accuracy") or floats (mean
/// squared error).
struct MlpOptions {
  std::vector<int64_t> hidden = {128};
  int64_t outputs = 10; ///< classes, or numbers of a float target
  double dropout = 0;
};
/// Linear layers with relu between them, over all numbers of a sample.
ModelFunction mlp(const MlpOptions& options = {});

struct CnnOptions {
  std::vector<int64_t> channels = {16, 32}; ///< of 3 x 3 convolutions, each with relu and a pool of 2
  int64_t classes = 10;
  double dropout = 0;
};
ModelFunction cnn(const CnnOptions& options = {});

struct ResNetOptions {
  int64_t width = 64; ///< channels of the first of four stages; each next one has twice as many
  std::vector<int64_t> blocks = {2, 2, 2, 2};
  int64_t classes = 10;
  double momentum = 0.1; ///< of the running statistics
};
/// ResNet-18 with the stem for small pictures: 3 x 3, no pool (He et al. 2016, section 4.2).
ModelFunction resnet(const ResNetOptions& options = {});

struct GptOptions {
  int64_t vocabulary = 0, context = 64;
  int64_t layers = 4, heads = 4, width = 128;
  double dropout = 0;
};
/// GPT-2: learned positions, layer norms in front, gelu (tanh), the head tied to the embedding.
/// Fields "tokens" and "targets" [context].
ModelFunction gpt(const GptOptions& options);

struct LlamaOptions {
  int64_t vocabulary = 0;
  int64_t layers = 4, heads = 4, kv_heads = 4, width = 128, hidden = 344,
          head_width = 0; ///< 0: width / heads
  double rope_theta = 10000, eps = 1e-5;
  bool tied = true;
  /// Low-rank changes of the projections of queries and values alone are trained (Hu et al. 2021);
  /// all else comes frozen from TrainerOptions::weights. 0: everything is trained.
  int64_t lora_rank = 0;
  double lora_alpha = 16;
  bool checkpoint_layers = false; ///< layers are computed again for their gradient
};
/// Llama with the names of Hugging Face's files ("model.layers.0.self_attn.q_proj.weight").
ModelFunction llama(const LlamaOptions& options);

struct DiffusionOptions {
  int64_t width = 32; ///< channels at full size; twice as many at half of it
  int64_t steps = 1000;
};
/// A small U-Net that says which noise was added to a picture "x" (values 0..1 or u8), by the time of
/// the cosine schedule (Nichol and Dhariwal 2021). Even heights and widths.
ModelFunction diffusion(const DiffusionOptions& options = {});
/// The network alone: noisy pictures [n, channels, height, width] in -1..1 and their times [n] -> noise.
Tensor diffusion_noise(ModelScope& scope, const Tensor& noisy, const Tensor& time,
                       const DiffusionOptions& options);
/// What is left of the picture at a time of 0 .. steps, squared: alpha bar.
Tensor diffusion_signal(const Tensor& time, const DiffusionOptions& options);

} // namespace luminal::train_models
