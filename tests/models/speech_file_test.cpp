// models/speech_file_test.cpp -- a Whisper model from a file of whisper.cpp says what the same model says
// from a Hugging Face folder; files whose sizes do not fit.
#include "base/file.h"
#include "formats/audio.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/whisper_file.h"
#include "models/data.h"
#include "models/transcriber.h"
#include "support/error_of.h"
#include "support/whisper_bytes.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal::models {
namespace {

namespace fs = std::filesystem;
using Values = std::function<std::vector<float>(const std::string& name, size_t count)>;
constexpr WhisperConfig tiny_shape{.mels = 8,
                                   .audio_context = 50,
                                   .width = 64,
                                   .heads = 2,
                                   .audio_layers = 1,
                                   .text_layers = 1,
                                   .text_context = 48,
                                   .vocabulary = 51865};

/// Uniform numbers, the same on every machine.
std::vector<float> random_values(const std::string& name, size_t count) {
  uint64_t state = 7;
  for (const char c : name) state = state * 31 + uint64_t(c);
  const bool norm = name.find("ln") != std::string::npos && name.ends_with("weight");
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = float(norm) + 0.3F * (float(state >> 40) * 0x1p-24F - 0.5F);
  }
  return values;
}

/// One model as a folder and as a file, both gone with the last owner.
struct Both {
  fs::path folder, file;
  Both(const Both&) = delete;
  ~Both() { fs::remove_all(folder); }

  /// type: of matrices in the file; the folder has the same values as f32.
  Both(const WhisperConfig& c, StorageType type, const std::string& tokenizer_json, const Values& values)
      : folder(fs::temp_directory_path() / fmt::format("luminal-speech-{}", getpid())),
        file(folder / "ggml-model.bin") {
    fs::remove_all(folder);
    fs::create_directories(folder);
    fs::copy(tokenizer_json, folder / "tokenizer.json");
    std::string config = R"({"model_type": "whisper")";
    for (const auto& [key, value] : {std::pair("num_mel_bins", c.mels),
                                     {"max_source_positions", c.audio_context},
                                     {"d_model", c.width},
                                     {"encoder_attention_heads", c.heads},
                                     {"decoder_attention_heads", c.heads},
                                     {"encoder_layers", c.audio_layers},
                                     {"decoder_layers", c.text_layers},
                                     {"max_target_positions", c.text_context},
                                     {"encoder_ffn_dim", 4 * c.width},
                                     {"decoder_ffn_dim", 4 * c.width},
                                     {"vocab_size", c.vocabulary}})
      config += fmt::format(", \"{}\": {}", key, value);
    write_file((folder / "config.json").string(), config + "}").value();

    WhisperBytes out;
    out.sizes({c.vocabulary, c.audio_context, c.width, c.heads, c.audio_layers, c.text_context, c.width,
               c.heads, c.text_layers, c.mels, 1});
    out.filters(c.mels, mel_filters(c.mels));
    const Tokenizer tokenizer =
        tokenizer_from_json(read_file(tokenizer_json).value(), tokenizer_json).value();
    std::vector<std::string> tokens;
    for (int32_t id = 0; id < 50257; id++) tokens.push_back(tokenizer.token_bytes(id));
    out.tokens(tokens);
    Graph g;
    const Whisper module(nn::Scope(g), c);
    std::deque<std::vector<float>> kept;
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : module.state_dict()) {
      std::vector<int64_t> shape;
      for (const Dim& extent : tensor.shape()) shape.push_back(extent.value());
      const TensorView sized{.name = name, .shape = shape, .bytes = {}};
      const bool plain = shape.size() < 2 || name.ends_with("positional_embedding");
      const bool conv = shape.size() == 3 && type != StorageType::f32;
      const StorageType stored = plain ? StorageType::f32 : conv ? StorageType::f16 : type;
      const std::string bytes = quantize(stored, values(name, size_t(sized.elements()))).value();
      const bool column = name.find("conv") != std::string::npos && shape.size() == 1;
      std::vector<int64_t> written(shape.size() + size_t(column), 1);
      std::ranges::copy(shape, written.begin());
      out.tensor(name, storage_info(stored).ggml_id, written, bytes);
      kept.emplace_back(size_t(sized.elements()));
      dequantize(stored, std::as_bytes(std::span(bytes)), kept.back()).value();
      views.push_back({.name = name, .shape = shape, .bytes = std::as_bytes(std::span(kept.back()))});
    }
    write_file(file.string(), out.bytes).value();
    save_safetensors((folder / "model.safetensors").string(), views).value();
  }
};

TEST(SpeechFile, OfWhisperCppSaysTheSame) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  std::vector<float> samples(16000 * 2);
  for (size_t i = 0; i < samples.size(); i++)
    samples[i] = float(0.4 * std::sin(double(i) * (0.1 + double(i) * 3e-6)));
  const SpeechOptions options{.beams = 1, .best_of = 1, .temperature_step = 0, .no_speech_limit = 1};
  for (const StorageType type : {StorageType::f32, StorageType::f16, StorageType::q5_0}) {
    const Both both(tiny_shape, type, data + "/tokenizers/whisper-tiny.tokenizer.json", random_values);
    Transcriber folder(both.folder.string(), options), file(both.file.string(), options);
    EXPECT_EQ(file.model().config().vocabulary, 51865);
    const Transcript want = folder.transcribe(samples), got = file.transcribe(samples);
    EXPECT_EQ(got.language, want.language);
    EXPECT_EQ(got.text(), want.text());
    ASSERT_EQ(got.segments.size(), want.segments.size());
    ASSERT_FALSE(got.segments.empty());
    for (size_t i = 0; i < got.segments.size(); i++) {
      EXPECT_EQ(got.segments[i].tokens, want.segments[i].tokens);
      EXPECT_EQ(got.segments[i].window.likelihood, want.segments[i].window.likelihood);
    }
    if (type != StorageType::f32) continue;
    // The tokens are those of the folder, by their ids.
    const Tokenizer &ours = file.model().tokenizer(), &theirs = folder.model().tokenizer();
    EXPECT_EQ(ours.size(), 51865);
    for (int32_t id = 0; id < theirs.size(); id++) {
      if (id == file.model().tokens().no_speech) continue; // <|nocaptions|> in older files
      ASSERT_EQ(ours.token_text(id), theirs.token_text(id)) << id;
    }
    for (const char* text : {"Hello, world.", " an example  of 12,345 words", "Zürich \xE6\x97\xA5"})
      EXPECT_EQ(ours.encode(text, {.add_special = false}), theirs.encode(text, {.add_special = false}));
    EXPECT_EQ(file.model().tokens().silenced, folder.model().tokens().silenced);
  }
}

/// The weights of tiny.en in either form hear the same in a recording. The table of tokens is made up.
TEST(SpeechFile, RealWeightsHearTheSame) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Safetensors real =
      open_safetensors(data + "/audio/whisper-tiny.en.no_token_embedding.f16.safetensors").value();
  const WhisperConfig c{.vocabulary = 51865};
  const Both both(c, StorageType::f16, data + "/tokenizers/whisper-tiny.tokenizer.json",
                  [&](const std::string& name, size_t count) {
                    const TensorView* view = real.find(name);
                    return view == nullptr ? random_values(name, count) : dequantize(*view).value();
                  });
  const Audio audio = open_audio(data + "/audio/jfk.wav").value();
  std::vector<std::vector<float>> logits;
  for (const fs::path& path : {both.folder, both.file}) {
    SpeechModel model(path.string(), 1);
    model.listen(model.spectrum(resampled(audio.samples, audio.rate, SpeechModel::rate)), 0);
    const int32_t begin[] = {model.tokens().start, model.tokens().languages.at(0).second}, row = 1;
    SpeechModel::Places text;
    const auto first = model.begin(begin, {&row, 1}, text);
    logits.emplace_back(first.begin(), first.end());
    const int32_t next = *model.tokens().transcribe;
    const auto second = model.append({&next, 1}, {&text, 1});
    logits.back().insert(logits.back().end(), second.begin(), second.end());
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_NE(logits[0][7], 0);
}

TEST(SpeechFile, MistakesAreNamed) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Both both(tiny_shape, StorageType::f16, data + "/tokenizers/whisper-tiny.tokenizer.json",
                  random_values);
  const std::string whole = read_file(both.file.string()).value(), path = both.file.string();
  const auto refused = [&](const std::string& bytes) {
    write_file(path, bytes).value();
    return error_of([&] { Transcriber(path, {}); });
  };
  const auto with = [&](size_t word, char value) { // the sizes behind "lmgg", from 0
    std::string bytes = whole;
    bytes[4 + 4 * word] = value;
    return refused(bytes);
  };
  EXPECT_EQ(with(2, 32), path +
                             ": encoder and decoder have different widths or numbers of heads, which is not "
                             "supported");
  std::string heads = whole;
  heads[4 + 4 * 3] = heads[4 + 4 * 7] = 5;
  EXPECT_EQ(refused(heads), path + ": a width of 64, which is not a multiple of 5 heads");
  EXPECT_EQ(with(1, 51), path + ": tensor encoder.positional_embedding is F32 [50, 64], expected [51, 64]");
  EXPECT_EQ(with(4, 2), path + ": no tensor encoder.blocks.1.attn.key.weight (15 of 40 are missing)");
  EXPECT_EQ(with(4, 100), path + ": 100 and 1 layers, 50 tensors");
  EXPECT_NE(refused(whole.substr(0, whole.size() - 1)).find("that are left in the file"), std::string::npos);
  std::string filters = whole;
  filters[4 + 44 + 8 + 4 * 3 + 3] = 64; // a value of 2 and more
  EXPECT_EQ(refused(filters), path + ": its mel filters are not those of Whisper, which is not supported");
  EXPECT_NE(refused("lmgg").find("n_vocab takes 4 bytes, expected at most the 0 that are left in the file"),
            std::string::npos);
}

} // namespace
} // namespace luminal::models
