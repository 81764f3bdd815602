// models/speech_model.cpp -- loading a Whisper model and running its parts.
#include "models/speech_model.h"
#include "models/speech_file.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace luminal::models {
namespace {

constexpr int64_t sound_frames = 3000; // of the spectrum in one run

/// The weights of a module that `wanted` names, from the file.
void load_weights(const Whisper& module, const std::function<bool(const std::string&)>& wanted,
                  const SpeechFile& file) {
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : module.state_dict())
    if (wanted(name)) weights.emplace(name, tensor);
  file.load(weights);
}

/// Signs that whisper does not say: brackets, notes, dashes at a beginning.
constexpr std::string_view signs[] = {
    "\"",  "#",  "(",  ")",  "*",   "+",  "/",  ":",   ";",   "<",  "=",  ">",  "@",  "[",   "\\",  "]",
    "^",   "_",  "`",  "{",  "|",   "}",  "~",  "「",  "」",  "『", "』", "<<", ">>", "<<<", ">>>", "--",
    "---", "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪",  "♪♪♪"};
constexpr std::string_view notes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

} // namespace

SpeechTokens speech_tokens(const Tokenizer& tokenizer) {
  const auto find = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (const auto id = tokenizer.find(name)) return *id;
    throw Error(
        fmt::format("the tokenizer has no token {}: it is not that of a Whisper model", *names.begin()));
  };
  SpeechTokens t;
  t.end = find({"<|endoftext|>"});
  t.start = find({"<|startoftranscript|>"});
  t.previous = find({"<|startofprev|>"});
  t.no_speech = find({"<|nospeech|>", "<|nocaptions|>"});
  t.no_times = find({"<|notimestamps|>"});
  t.first_time = tokenizer.find("<|0.00|>").value_or(t.no_times + 1);
  t.transcribe = tokenizer.find("<|transcribe|>");
  t.translate = tokenizer.find("<|translate|>");
  // Languages stand between the beginning and what to do. Models of English alone have these tokens, too,
  // and do not use them: their end of text comes before id 50257.
  if (t.end != 50256)
    for (int32_t id = t.start + 1; id < t.translate.value_or(t.start); id++) {
      const std::string& text = tokenizer.token_text(id);
      if (text.size() > 4 && text.starts_with("<|") && text.ends_with("|>"))
        t.languages.emplace_back(text.substr(2, text.size() - 4), id);
    }
  const auto encode = [&](std::string_view text) { return tokenizer.encode(text, {.add_special = false}); };
  t.blank = encode(" ");
  t.blank.push_back(t.end);
  const auto silence = [&](std::string_view sign, bool always) {
    for (const std::string& text : {std::string(sign), " " + std::string(sign)}) {
      const auto ids = encode(text);
      if (!ids.empty() && (ids.size() == 1 || always)) t.silenced.push_back(ids[0]);
    }
  };
  for (const std::string_view sign : signs) silence(sign, false);
  for (const std::string_view note : notes) silence(note, true); // their first byte begins nothing else
  for (const char* dash : {" -", " '"})
    if (const auto ids = encode(dash); !ids.empty()) t.silenced.push_back(ids[0]);
  for (const auto id : {t.transcribe, t.translate, std::optional(t.start), std::optional(t.previous),
                        std::optional(t.no_speech), tokenizer.find("<|startoflm|>")})
    if (id) t.silenced.push_back(*id);
  std::ranges::sort(t.silenced);
  const auto again = std::ranges::unique(t.silenced);
  t.silenced.erase(again.begin(), again.end());
  return t;
}

SpeechModel::SpeechModel(const std::string& path, int64_t texts, int threads) {
  SpeechFile file = open_speech_file(path);
  config_ = file.config;
  tokenizer_ = std::move(file.tokenizer);
  tokens_ = speech_tokens(*tokenizer_);
  const int64_t last_time = tokens_.first_time + config_.audio_context; // 20 ms each
  if (tokenizer_->size() > config_.vocabulary || last_time >= config_.vocabulary)
    throw Error(fmt::format("{}: a tokenizer of {} tokens for a model of {}", path,
                            std::max<int64_t>(tokenizer_->size(), last_time + 1), config_.vocabulary));

  samples_ = sound_.tensor({(sound_frames - 1) * hop + 400}, DType::f32, "samples");
  frames_ = log_mel_frames(samples_, config_.mels).keep();
  sound_.compile({.threads = threads});

  mel_ = listener_.tensor({config_.mels, window()}, DType::f32, "mel");
  const Whisper listener(nn::Scope(listener_), config_);
  const auto for_listener = [](const std::string& name) {
    return name.starts_with("encoder.") || name.find(".cross_attn.key.") != std::string::npos ||
           name.find(".cross_attn.value.") != std::string::npos;
  };
  for (const Whisper::Heard& heard : listener.hear(listener.encode(mel_)))
    for (Tensor t : {heard.keys, heard.values}) heard_out_.push_back(t.keep());
  load_weights(listener, for_listener, file);
  listener_.compile({.threads = threads, .weights_id = file.identity + "listener"});

  const Whisper writer(nn::Scope(writer_), config_);
  const int64_t size = config_.width / config_.heads;
  std::vector<nn::KvCache> caches;
  std::vector<Whisper::Heard> heard;
  capacity_ = config_.text_context * (1 + (texts + 1) / 2); // texts are half of it, behind one beginning
  for (int64_t i = 0; i < config_.text_layers; i++) {
    caches.emplace_back(writer_, fmt::format("layer{}", i), config_.heads, capacity_, size, size);
    for (const char* what : {"keys", "values"})
      heard_in_.push_back(writer_.tensor({config_.heads, config_.audio_context, size}, DType::f32,
                                         fmt::format("heard{}.{}", i, what)));
    heard.push_back({heard_in_[size_t(2 * i)], heard_in_[size_t(2 * i + 1)]});
  }
  const Dim n = writer_.dim("n", 1, config_.text_context),
            m = writer_.dim("m", 1, std::max<int64_t>(texts, 2)),
            filled = writer_.dim("filled", 0, capacity_ - 1);
  tokens_in_ = writer_.tensor({n}, DType::i32, "tokens");
  positions_in_ = writer_.tensor({n}, DType::i32, "positions");
  seen_in_ = writer_.tensor({n, filled + n}, DType::boolean, "seen");
  rows_in_ = writer_.tensor({m}, DType::i32, "rows");
  const Tensor x = writer.step(tokens_in_, positions_in_, seen_in_, heard, caches, filled);
  logits_out_ = writer.logits(x.gather(rows_in_)).keep();
  load_weights(writer, [&](const std::string& name) { return !for_listener(name); }, file);
  writer_.compile({.threads = threads,
                   .weights_id = file.identity + "writer",
                   .sizes = {{"n", texts}, {"m", texts}, {"filled", config_.text_context / 2}}});
}

SpeechModel::Spectrum SpeechModel::spectrum(std::span<const float> samples) {
  constexpr int64_t half = 200; // of a frame: they are centred
  Spectrum out;
  out.content = (int64_t(samples.size()) + hop - 1) / hop;
  out.frames = out.content + window();
  out.values.resize(size_t(config_.mels * out.frames));
  // The first frame begins with samples from the other side of its middle.
  const auto sample = [&](int64_t at) {
    at = std::abs(at);
    return at < int64_t(samples.size()) ? samples[size_t(at)] : 0.0F;
  };
  std::vector<float> part(size_t((sound_frames - 1) * hop + 2 * half));
  float most = -INFINITY;
  for (int64_t first = 0; first < out.frames; first += sound_frames) {
    for (size_t i = 0; i < part.size(); i++) part[i] = sample(first * hop - half + int64_t(i));
    samples_.set(part);
    sound_.execute();
    const std::vector<float> got = frames_.data<float>();
    const int64_t count = std::min(sound_frames, out.frames - first);
    for (int64_t m = 0; m < config_.mels; m++)
      for (int64_t i = 0; i < count; i++) {
        const float value = got[size_t(m * sound_frames + i)];
        most = std::max(most, value);
        out.values[size_t(m * out.frames + first + i)] = value;
      }
  }
  for (float& value : out.values) value = (std::max(value, most - 8) + 4) / 4;
  return out;
}

void SpeechModel::listen(const Spectrum& spectrum, int64_t frame) {
  std::vector<float> part(size_t(config_.mels * window()));
  for (int64_t m = 0; m < config_.mels; m++)
    std::copy_n(spectrum.values.begin() + m * spectrum.frames + frame, window(), part.begin() + m * window());
  mel_.set(part);
  listener_.execute();
  for (size_t i = 0; i < heard_in_.size(); i++)
    heard_in_[i].set_bytes(heard_out_[i].bytes(), heard_out_[i].dtype());
  restart();
}

std::span<const float> SpeechModel::step(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                         std::span<const uint8_t> seen, std::span<const int32_t> rows) {
  writer_.set_dim("n", int64_t(tokens.size()));
  writer_.set_dim("m", int64_t(rows.size()));
  writer_.set_dim("filled", filled_);
  tokens_in_.set(tokens);
  positions_in_.set(positions);
  seen_in_.set(seen);
  rows_in_.set(rows);
  writer_.execute();
  filled_ += int64_t(tokens.size());
  logits_.resize(rows.size() * size_t(config_.vocabulary));
  logits_out_.read(logits_.data(), DType::f32);
  return logits_;
}

std::span<const float> SpeechModel::begin(std::span<const int32_t> tokens, std::span<const int32_t> rows,
                                          Places& text) {
  const size_t n = tokens.size(), all = size_t(filled_) + n;
  std::vector<int32_t> positions;
  std::vector<uint8_t> seen(n * all, 0);
  text.clear();
  for (size_t i = 0; i < n; i++) {
    positions.push_back(int32_t(i));
    text.push_back(int32_t(size_t(filled_) + i));
    for (const int32_t place : text) seen[i * all + size_t(place)] = 1;
  }
  return step(tokens, positions, seen, rows);
}

std::span<const float> SpeechModel::append(std::span<const int32_t> tokens, std::span<Places> texts) {
  const size_t n = tokens.size(), all = size_t(filled_) + n;
  std::vector<int32_t> positions, rows;
  std::vector<uint8_t> seen(n * all, 0);
  for (size_t i = 0; i < n; i++) {
    positions.push_back(int32_t(texts[i].size()));
    rows.push_back(int32_t(i));
    texts[i].push_back(int32_t(size_t(filled_) + i));
    for (const int32_t place : texts[i]) seen[i * all + size_t(place)] = 1;
  }
  return step(tokens, positions, seen, rows);
}

} // namespace luminal::models
