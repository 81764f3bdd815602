// models/whisper.cpp -- Whisper: the spectrum of speech, its encoder, the decoder of text.
#include "luminal/models.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace luminal::models {
namespace {

/// Slaney's scale: linear to 1 kHz, logarithmic above.
double mel_of(double hertz) {
  return hertz < 1000 ? hertz * 3 / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
double hertz_of(double mel) {
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

constexpr int64_t fft_size = 400, hop = 160; // samples of a frame, and between two

Dim sample_count(const Tensor& samples, std::source_location where) {
  const Dims shape = samples.shape(where);
  if (shape.size() != 1)
    throw Error("log_mel", fmt::format("samples [n] are expected, not {}", luminal::to_string(shape)), where);
  return shape[0];
}

} // namespace

std::vector<float> mel_filters(int64_t mels, int64_t rate, int64_t fft) {
  if (mels < 1 || rate < 2 || fft < 2)
    throw Error(
        fmt::format("[mel_filters] {} filters, {} samples a second, {} in a frame: all must be above 1", mels,
                    rate, fft));
  const int64_t bins = fft / 2 + 1;
  std::vector<double> edges; // of triangle i: edges i, i + 1, i + 2
  const double top = mel_of(double(rate) / 2);
  for (int64_t i = 0; i < mels + 2; i++) edges.push_back(hertz_of(top * double(i) / double(mels + 1)));
  std::vector<float> filters(size_t(mels * bins));
  for (int64_t m = 0; m < mels; m++) {
    const double low = edges[size_t(m)], middle = edges[size_t(m) + 1], high = edges[size_t(m) + 2];
    for (int64_t b = 0; b < bins; b++) {
      const double hertz = double(b) * double(rate) / double(fft);
      const double side = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      filters[size_t(m * bins + b)] = float(std::max(side, 0.0) * 2 / (high - low));
    }
  }
  return filters;
}

Tensor log_mel_frames(const Tensor& samples, int64_t mels, std::source_location where) {
  sample_count(samples, where);
  Graph g(samples.graph(where));
  std::vector<float> window(fft_size); // Hann, periodic
  for (int64_t i = 0; i < fft_size; i++)
    window[size_t(i)] = float(0.5 - 0.5 * std::cos(2 * std::numbers::pi * double(i) / double(fft_size)));
  const Tensor frames = samples.windows(0, fft_size, hop);                      // [frames, fft_size]
  const Tensor spectrum = rfft(frames * g.constant(window, {fft_size}), where); // [frames, bins, 2]
  const Tensor power = spectrum.square().sum(-1);
  const Tensor filters = g.constant(mel_filters(mels), {mels, fft_size / 2 + 1});
  return maximum(filters.matmul(power.t()), 1e-10).log10(); // [mels, frames]
}

Tensor log_mel(const Tensor& samples, int64_t mels, std::source_location where) {
  const Dim count = sample_count(samples, where);
  // Frames are centred: the first one begins with samples from the other side of its middle.
  const Tensor padded = samples.pad({{0, fft_size / 2, fft_size / 2}}, PadMode::reflect, 0, where);
  const Tensor log = log_mel_frames(padded, mels, where).slice(1, 0, count / hop);
  return (maximum(log, log.max() - 8) + 4) / 4;
}

Whisper::Attention::Attention(const nn::Scope& s, int64_t width, int64_t count, std::source_location where)
    : heads(count), query(s / "query", width, width, {}, where),
      key(s / "key", width, width, {.bias = false}, where), value(s / "value", width, width, {}, where),
      out(s / "out", width, width, {}, where) {}
Whisper::Heard Whisper::Attention::keys_of(const Tensor& x, std::source_location where) const {
  const auto split = [&](const Tensor& t) { return t.unflatten(-1, {heads, -1}).transpose(0, 1); };
  return {split(key(x, where)), split(value(x, where))};
}
Tensor Whisper::Attention::operator()(const Tensor& x, const Heard& of, const AttentionOptions& options,
                                      std::source_location where) const {
  const Tensor queries = query(x, where).unflatten(-1, {heads, -1}).transpose(0, 1);
  const Tensor mixed = scaled_dot_product_attention(queries, of.keys, of.values, options, where);
  return out(mixed.transpose(0, 1).flatten(1, 2), where);
}

Whisper::Block::Block(const nn::Scope& s, int64_t width, int64_t heads, bool cross,
                      std::source_location where)
    : attn(s / "attn", width, heads, where), attn_ln(s / "attn_ln", width, {}, where),
      up(s / "mlp" / 0, width, 4 * width, {}, where), down(s / "mlp" / 2, 4 * width, width, {}, where),
      mlp_ln(s / "mlp_ln", width, {}, where) {
  if (!cross) return;
  cross_attn.emplace(s / "cross_attn", width, heads, where);
  cross_attn_ln.emplace(s / "cross_attn_ln", width, nn::NormOptions{}, where);
}
Tensor Whisper::Block::operator()(const Tensor& given,
                                  const std::function<Heard(const Tensor& normalised)>& own,
                                  const AttentionOptions& options, const Heard* heard,
                                  std::source_location where) const {
  Tensor x = attn_ln(given, where);
  x = given + attn(x, own(x), options, where);
  if (heard) x = x + (*cross_attn)((*cross_attn_ln)(x, where), *heard, {}, where);
  return x + down(up(mlp_ln(x, where), where).gelu(), where);
}
Tensor Whisper::Block::operator()(const Tensor& x, const Tensor* audio, std::source_location where) const {
  const auto own = [&](const Tensor& normalised) { return attn.keys_of(normalised, where); };
  if (audio == nullptr) return (*this)(x, own, {}, nullptr, where);
  const Heard heard = cross_attn->keys_of(*audio, where);
  return (*this)(x, own, {.causal = true}, &heard, where);
}

Whisper::Whisper(const nn::Scope& s, const WhisperConfig& c, std::source_location where)
    : Module(s), config_(c), conv1_(s / "encoder" / "conv1", c.mels, c.width, 3, {.padding = 1}, where),
      conv2_(s / "encoder" / "conv2", c.width, c.width, 3, {.stride = 2, .padding = 1}, where),
      ln_post_(s / "encoder" / "ln_post", c.width, {}, where), ln_(s / "decoder" / "ln", c.width, {}, where),
      tokens_(s / "decoder" / "token_embedding", c.vocabulary, c.width, {}, where) {
  if (c.heads < 1 || c.width % c.heads)
    throw Error("Whisper", fmt::format("width {} is not a multiple of {} heads", c.width, c.heads), where);
  audio_positions_ =
      (s / "encoder")
          .parameter("positional_embedding", {c.audio_context, c.width}, nn::init::normal(0, 0.02), where);
  text_positions_ =
      (s / "decoder")
          .parameter("positional_embedding", {c.text_context, c.width}, nn::init::normal(0, 0.02), where);
  for (int64_t i = 0; i < c.audio_layers; i++)
    audio_blocks_.emplace_back(s / "encoder" / "blocks" / i, c.width, c.heads, false, where);
  for (int64_t i = 0; i < c.text_layers; i++)
    text_blocks_.emplace_back(s / "decoder" / "blocks" / i, c.width, c.heads, true, where);
}

Tensor Whisper::encode(const Tensor& mel, std::source_location where) const {
  Tensor x = conv2_(conv1_(mel.unsqueeze(0, where), where).gelu(), where).gelu().squeeze(0).t();
  x = x + audio_positions_.value();
  for (const Block& block : audio_blocks_) x = block(x, nullptr, where);
  return ln_post_(x, where);
}
Tensor Whisper::decode_embeddings(const Tensor& embeddings, const Tensor& audio,
                                  std::source_location where) const {
  Tensor x = embeddings + text_positions_.value().slice(0, 0, embeddings.dim(0, where), 1, where);
  for (const Block& block : text_blocks_) x = block(x, &audio, where);
  return ln_(x, where);
}
Tensor Whisper::decode(const Tensor& tokens, const Tensor& audio, std::source_location where) const {
  return tokens_.logits(decode_embeddings(tokens_(tokens, where), audio, where), where);
}

std::vector<Whisper::Heard> Whisper::hear(const Tensor& audio, std::source_location where) const {
  std::vector<Heard> heard;
  for (const Block& block : text_blocks_) heard.push_back(block.cross_attn->keys_of(audio, where));
  return heard;
}
Tensor Whisper::step(const Tensor& tokens, const Tensor& positions, const Tensor& seen,
                     const std::vector<Heard>& heard, std::vector<nn::KvCache>& caches, Dim filled,
                     std::source_location where) const {
  if (heard.size() != text_blocks_.size() || caches.size() != text_blocks_.size())
    throw Error("Whisper",
                fmt::format("{} blocks of the decoder, {} of the audio and {} caches", text_blocks_.size(),
                            heard.size(), caches.size()),
                where);
  Tensor x = tokens_(tokens, where) + text_positions_.value().gather(positions, where);
  for (size_t i = 0; i < text_blocks_.size(); i++) {
    const auto own = [&](const Tensor& normalised) {
      const Heard now = text_blocks_[i].attn.keys_of(normalised, where);
      const auto all = caches[i].append(now.keys, now.values, filled, where);
      return Heard{all.keys, all.values};
    };
    x = text_blocks_[i](x, own, {.mask = seen}, &heard[i], where);
  }
  return ln_(x, where);
}

} // namespace luminal::models
