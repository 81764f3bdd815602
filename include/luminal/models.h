// luminal/models.h -- models that are not decoders, as modules: BERT, Whisper, ResNet-20, KWT-1, Silero
// VAD. Parameters have the names of the published weights, so that load takes their files.
#pragma once
#include "luminal/nn_attention.h"
#include "luminal/nn_recurrent.h"

namespace luminal::models {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

// ---- BERT (Devlin et al. 2018, arXiv:1810.04805), names of Hugging Face's BertModel ----
struct BertConfig {
  int64_t vocabulary = 30522, width = 768, layers = 12, heads = 12, inner = 3072, positions = 512, types = 2;
  double eps = 1e-12;
  std::string activation = "gelu";
};
struct BertResult {
  std::vector<Tensor> hidden; ///< [batch, n, width] of the embeddings and behind each layer
  Tensor pooled;              ///< [batch, width]
  const Tensor& last() const { return hidden.back(); }
};
class Bert : public nn::Module {
public:
  Bert(const nn::Scope& scope, const BertConfig& config = {}, LUMINAL_WHERE);
  /// ids [batch, n]; mask: bool [batch, n], false where there is padding (none: all are there); types:
  /// integers [batch, n] (none: zeros).
  BertResult operator()(const Tensor& ids, const Tensor& mask = {}, const Tensor& types = {},
                        LUMINAL_WHERE) const;
  /// The same from the embeddings of the words [batch, n, width].
  BertResult encode(const Tensor& words, const Tensor& mask = {}, const Tensor& types = {},
                    LUMINAL_WHERE) const;

private:
  struct Layer {
    nn::Linear query, key, value, attention_out;
    nn::LayerNorm attention_norm;
    nn::Linear up, down;
    nn::LayerNorm norm;
    Layer(const nn::Scope& scope, const BertConfig& config, std::source_location where);
  };
  BertConfig config_;
  nn::Embedding words_, positions_, types_;
  nn::LayerNorm norm_;
  std::vector<Layer> layers_;
  nn::Linear pooler_;
  nn::Activation activation_;
};
/// One vector for each text: the mean of hidden [batch, n, width] over what the mask (bool [batch, n]) has,
/// of length 1 (Reimers and Gurevych 2019).
Tensor sentence_embedding(const Tensor& hidden, const Tensor& mask, LUMINAL_WHERE);

// ---- Whisper (Radford et al. 2022, arXiv:2212.04356), names of openai/whisper ----
struct WhisperConfig { // tiny.en
  int64_t mels = 80, audio_context = 1500, width = 384, heads = 6, audio_layers = 4, text_layers = 4,
          text_context = 448, vocabulary = 51864;
};
/// f32 [mels, fft / 2 + 1]: triangles of equal area on Slaney's scale, what librosa.filters.mel gives.
std::vector<float> mel_filters(int64_t mels, int64_t rate = 16000, int64_t fft = 400);
/// Samples [160 (n - 1) + 400] at 16 kHz -> [mels, n]: log10 of the mel spectrum of n frames, 160 samples
/// apart.
Tensor log_mel_frames(const Tensor& samples, int64_t mels = 80, LUMINAL_WHERE);
/// Samples [n] at 16 kHz, n a multiple of 160 -> [mels, n / 160]: the same of centred frames, at most 8 below
/// its largest value, plus 4, over 4.
Tensor log_mel(const Tensor& samples, int64_t mels = 80, LUMINAL_WHERE);
class Whisper : public nn::Module {
public:
  Whisper(const nn::Scope& scope, const WhisperConfig& config = {}, LUMINAL_WHERE);
  /// mel [mels, 2 * audio_context] -> [audio_context, width].
  Tensor encode(const Tensor& mel, LUMINAL_WHERE) const;
  /// Tokens [n] from the beginning of the text, audio as encode gives it -> logits [n, vocabulary].
  Tensor decode(const Tensor& tokens, const Tensor& audio, LUMINAL_WHERE) const;
  /// The stack of the decoder: embeddings [n, width] (positions are added) -> [n, width].
  Tensor decode_embeddings(const Tensor& x, const Tensor& audio, LUMINAL_WHERE) const;

  /// What a block of the decoder attends to: [heads, n, width / heads] each.
  struct Heard {
    Tensor keys, values;
  };
  /// Of the audio, for each block of the decoder.
  std::vector<Heard> hear(const Tensor& audio, LUMINAL_WHERE) const;
  /// A step of the decoder behind `filled` tokens that its caches (one a block) hold: tokens and their
  /// positions (integers [n]), seen: bool [n, filled + n], which of the cache's tokens and of the step's
  /// own each of them sees -> [n, width]. Several texts with one beginning share a cache.
  Tensor step(const Tensor& tokens, const Tensor& positions, const Tensor& seen,
              const std::vector<Heard>& heard, std::vector<nn::KvCache>& caches, Dim filled,
              LUMINAL_WHERE) const;
  /// [n, width] of step -> logits [n, vocabulary].
  Tensor logits(const Tensor& x, LUMINAL_WHERE) const { return tokens_.logits(x, where); }
  const WhisperConfig& config() const { return config_; }

private:
  struct Attention {
    int64_t heads;
    nn::Linear query, key, value, out;
    Attention(const nn::Scope& scope, int64_t width, int64_t heads, std::source_location where);
    Heard keys_of(const Tensor& x, std::source_location where) const;
    Tensor operator()(const Tensor& x, const Heard& of, const AttentionOptions& options,
                      std::source_location where) const;
  };
  struct Block {
    Attention attn;
    nn::LayerNorm attn_ln;
    std::optional<Attention> cross_attn;
    std::optional<nn::LayerNorm> cross_attn_ln;
    nn::Linear up, down;
    nn::LayerNorm mlp_ln;
    Block(const nn::Scope& scope, int64_t width, int64_t heads, bool cross, std::source_location where);
    Tensor operator()(const Tensor& x, const Tensor* audio, std::source_location where) const;
    /// own: keys and values of the text so far, from x normalised; what is heard in the audio.
    Tensor operator()(const Tensor& x, const std::function<Heard(const Tensor& normalised)>& own,
                      const AttentionOptions& options, const Heard* heard, std::source_location where) const;
  };
  WhisperConfig config_;
  nn::Conv1d conv1_, conv2_;
  nn::Parameter audio_positions_, text_positions_;
  std::vector<Block> audio_blocks_, text_blocks_;
  nn::LayerNorm ln_post_, ln_;
  nn::Embedding tokens_;
};

// ---- ResNet-20 for CIFAR-10 (He et al. 2015, arXiv:1512.03385, section 4.2) ----
class CifarResNet : public nn::Module {
public:
  /// 6 * blocks + 2 layers; shortcuts have no parameters.
  explicit CifarResNet(const nn::Scope& scope, int64_t blocks = 3, int64_t classes = 10, LUMINAL_WHERE);
  /// Normalised images [batch, 3, 32, 32] -> logits [batch, classes].
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  struct Block {
    int64_t in, out, stride;
    nn::Conv2d conv1, conv2;
    nn::BatchNorm bn1, bn2;
    Block(const nn::Scope& scope, int64_t in, int64_t out, int64_t stride, std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  nn::Conv2d conv_;
  nn::BatchNorm bn_;
  std::vector<Block> blocks_;
  nn::Linear linear_;
};

// ---- Keyword Transformer, KWT-1 (Berg et al. 2021, arXiv:2104.00769) ----
class KeywordTransformer : public nn::Module {
public:
  explicit KeywordTransformer(const nn::Scope& scope, LUMINAL_WHERE);
  /// One second of samples at 16 kHz [16000] -> 40 coefficients of 98 frames [98, 40].
  Tensor mfcc(const Tensor& samples, LUMINAL_WHERE) const;
  /// [98, 40] -> logits of 12 words: silence, unknown, yes, no, up, down, left, right, on, off, stop, go.
  Tensor classify(const Tensor& coefficients, LUMINAL_WHERE) const;
  Tensor operator()(const Tensor& samples, LUMINAL_WHERE) const {
    return classify(mfcc(samples, where), where);
  }

private:
  struct Block {
    nn::Linear query, key, value, out, fc1, fc2;
    nn::LayerNorm ln1, ln2;
    Block(const nn::Scope& scope, std::source_location where);
  };
  nn::Parameter window_, real_, imaginary_, mel_, dct_, shift_, factor_, class_, positions_;
  nn::Linear patch_, head_;
  std::vector<Block> blocks_;
};

// ---- Silero VAD 6 (16 kHz): how likely each 32 ms are speech ----
class SileroVad : public nn::Module {
public:
  explicit SileroVad(const nn::Scope& scope, LUMINAL_WHERE);
  struct Result {
    Tensor speech;            ///< [chunks], probabilities
    nn::RecurrentState state; ///< [128], for what follows
  };
  /// Chunks of samples [chunks, 512], and the 64 samples before the first one.
  Result operator()(const Tensor& chunks, const Tensor& before, const nn::RecurrentState& state = {},
                    LUMINAL_WHERE) const;

private:
  nn::Conv1d stft_;
  std::vector<nn::Conv1d> convs_;
  nn::Parameter ih_, hh_, bias_ih_, bias_hh_;
  nn::Conv1d last_;
};

#undef LUMINAL_WHERE
} // namespace luminal::models
