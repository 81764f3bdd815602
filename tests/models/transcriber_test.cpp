// models/transcriber_test.cpp -- speech to text: a small Whisper gives what Hugging Face transformers gives
// (tests/models/whisper/, made by tools/whisper_goldens.py); the rules of its tokens; windows and segments;
// what tiny.en hears in a recording.
#include "formats/audio.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"
#include "models/data.h"
#include "models/token_grammar.h"
#include "models/transcriber.h"
#include "support/error_of.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal::models::transcriber_test {
namespace {

namespace fs = std::filesystem;
const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/whisper";

template <class T> std::vector<T> stored(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view == nullptr) throw Error("no golden " + name);
  std::vector<T> values(view->bytes.size() / sizeof(T));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}
template <class T> std::vector<T> golden(const std::string& name) {
  static const Safetensors file = open_safetensors(folder + "/golden.safetensors").value();
  return stored<T>(file, name);
}
SpeechModel::Spectrum golden_spectrum() {
  SpeechModel::Spectrum spectrum{golden<float>("mel"), 0, 0};
  spectrum.frames = spectrum.content = int64_t(spectrum.values.size()) / 8;
  return spectrum;
}
std::vector<float> tone(double seconds) {
  std::vector<float> samples(size_t(seconds * 16000));
  for (size_t i = 0; i < samples.size(); i++)
    samples[i] = float(0.4 * std::sin(double(i) * (0.1 + double(i) * 3e-6)));
  return samples;
}

TEST(Transcriber, StepsGiveTheLogitsOfTransformers) {
  SpeechModel model(folder, 3);
  model.listen(golden_spectrum(), 0);
  const auto tokens = golden<int32_t>("tokens");
  const auto want = golden<float>("logits");
  const size_t vocabulary = want.size() / tokens.size();
  const auto expect_row = [&](std::span<const float> got, size_t row) {
    for (size_t i = 0; i < vocabulary; i++)
      ASSERT_NEAR(got[i], want[row * vocabulary + i], 2e-4 * (1 + std::abs(want[row * vocabulary + i])))
          << row << " " << i;
  };
  // A beginning, then three texts that go on from it; the one that is compared has its own tokens.
  SpeechModel::Places text;
  const int32_t rows[] = {0, 3};
  const auto first = model.begin(std::span(tokens).first(4), rows, text);
  expect_row(first, 0);
  expect_row(first.subspan(vocabulary), 3);
  std::vector<SpeechModel::Places> texts(3, text);
  for (size_t i = 4; i < tokens.size(); i++) {
    const int32_t next[] = {7, tokens[i], int32_t(20 + i)};
    const size_t at = i % 2; // texts change places, as they do in a search
    const std::vector<int32_t> given = at ? std::vector<int32_t>{next[0], next[1], next[2]}
                                          : std::vector<int32_t>{next[1], next[0], next[2]};
    if (i > 4) std::swap(texts[0], texts[1]);
    if (i == 4) texts = {text, text, text};
    const auto logits = model.append(given, texts);
    expect_row(logits.subspan(at * vocabulary), i);
  }
}

TEST(Transcriber, GreedyTokensAreThoseOfTransformers) {
  SpeechModel model(folder, 2);
  model.listen(golden_spectrum(), 0);
  SpeechTokens tokens = model.tokens();
  const int32_t german = tokens.languages.at(1).second;
  EXPECT_EQ(tokens.languages.at(1).first, "de");
  tokens.blank.clear(), tokens.silenced.clear(); // as the golden was made
  const int32_t begin[] = {tokens.start, german, *tokens.transcribe}, row = 2;
  SpeechModel::Places text;
  std::vector<float> logits;
  const auto take = [&](std::span<const float> row_of) { logits.assign(row_of.begin(), row_of.end()); };
  take(model.begin(begin, {&row, 1}, text));
  std::vector<int32_t> said;
  const auto want = golden<int32_t>("greedy");
  while (said.size() < want.size()) {
    apply_speech_rules(logits, said, tokens, true);
    said.push_back(int32_t(std::ranges::max_element(logits) - logits.begin()));
    take(model.append({&said.back(), 1}, {&text, 1}));
  }
  EXPECT_EQ(said, want);
}

TEST(Transcriber, RulesOfTokens) {
  SpeechTokens t{.end = 4, .start = 5, .previous = 6, .no_speech = 7, .no_times = 8, .first_time = 9};
  t.blank = {0, 4}, t.silenced = {1, 5, 6, 7};
  const auto allowed = [&](const std::vector<int32_t>& said, bool times = true, int32_t likely = 2) {
    std::vector<float> logits(80, -1);
    logits[size_t(likely)] = 30;
    apply_speech_rules(logits, said, t, times);
    std::vector<int32_t> left;
    for (int32_t i = 0; i < 80; i++)
      if (logits[size_t(i)] > -INFINITY) left.push_back(i);
    return left;
  };
  const auto range = [](int32_t from, int32_t to, std::vector<int32_t> before = {}) {
    for (int32_t i = from; i < to; i++) before.push_back(i);
    return before;
  };
  EXPECT_EQ(allowed({}), range(9, 60));                         // a time of at most one second begins
  EXPECT_EQ(allowed({9}), (std::vector<int32_t>{0, 2, 3, 4}));  // behind it words, or nothing
  EXPECT_EQ(allowed({12, 2}), range(13, 80, {0, 2, 3, 4}));     // later times only
  EXPECT_EQ(allowed({12, 2, 20}, true, 4), range(20, 80, {4})); // behind the end of a segment, or nothing
  EXPECT_EQ(allowed({12, 2, 20, 20}), (std::vector<int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(allowed({12, 2}, true, 33), range(13, 80)); // times together are likelier than each word
  EXPECT_EQ(allowed({}, false), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(allowed({2}, false), (std::vector<int32_t>{0, 2, 3, 4}));
}

TEST(Transcriber, WindowsFollowEachOther) {
  for (const int64_t beams : {1, 4}) {
    Transcriber transcriber(folder,
                            {.beams = beams, .best_of = 2, .temperature_step = 0, .no_speech_limit = 1});
    size_t seen = 0;
    const auto count = [&](const SpeechSegment&) { return ++seen > 0; };
    const Transcript got = transcriber.transcribe(tone(3.3), count);
    ASSERT_FALSE(got.segments.empty());
    EXPECT_EQ(seen, got.segments.size());
    EXPECT_NEAR(got.seconds, 3.3, 1e-9);
    double before = 0;
    for (const SpeechSegment& s : got.segments) {
      EXPECT_GE(s.line.start, before - 1e-9);
      EXPECT_GT(s.line.end, s.line.start);
      EXPECT_LE(s.line.end, double(s.frame) * 0.01 + 1 + 1e-9) << "a segment ends behind its window";
      EXPECT_FALSE(s.line.text.empty());
      before = s.line.start;
    }
    EXPECT_GE(got.segments.back().frame, 200);
    const Transcript again = transcriber.transcribe(tone(3.3));
    EXPECT_EQ(again.text(), got.text());
    const Transcript stopped = transcriber.transcribe(tone(3.3), [](const SpeechSegment&) { return false; });
    EXPECT_TRUE(stopped.stopped);
    EXPECT_EQ(stopped.segments.size(), 1U);
  }
}

/// A wider search finds a text that is at least as likely; sampled texts differ by seed, and repeat with it.
TEST(Transcriber, SearchAndSampling) {
  double likelihood = -INFINITY;
  for (const int64_t beams : {1, 8}) {
    SpeechModel model(folder, 8);
    SpeechDecoder decoder(model, {.beams = beams, .best_of = 1, .temperature_step = 0});
    model.listen(golden_spectrum(), 0);
    const SpeechText text = decoder.decode({}, "de");
    EXPECT_GE(text.likelihood, likelihood - 1e-9);
    likelihood = text.likelihood;
    EXPECT_EQ(decoder.decode({}, "de").tokens, text.tokens);
  }
  std::vector<std::vector<int32_t>> texts;
  for (const uint64_t seed : {1, 1, 2}) {
    SpeechModel model(folder, 5);
    SpeechDecoder decoder(model, {.temperature = 0.8, .temperature_step = 0, .seed = seed});
    model.listen(golden_spectrum(), 0);
    const SpeechText text = decoder.decode({}, "de");
    EXPECT_EQ(text.temperature, 0.8);
    texts.push_back(text.tokens);
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0], texts[2]);
}

TEST(Transcriber, MistakesAreNamed) {
  EXPECT_EQ(error_of([] { Transcriber(folder, {.language = "xx"}); }),
            "language xx: the model knows en de fr");
  EXPECT_NE(error_of([] { Transcriber("/no/such/model", {}); }).find("no such file or folder"),
            std::string::npos);
  const fs::path copy = fs::temp_directory_path() / ("luminal-whisper-" + std::to_string(getpid()));
  fs::remove_all(copy);
  fs::copy(folder, copy);
  const auto config = [&](const std::string& from, const std::string& to) {
    std::ifstream in(folder + "/config.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(copy / "config.json") << text.replace(at, from.size(), to);
  };
  const auto refused = [&] { return error_of([&] { Transcriber(copy.string(), {}); }); };
  const std::string file = copy.string() + "/config.json: ";
  config("\"model_type\": \"whisper\"", "\"model_type\": \"bert\"");
  EXPECT_EQ(refused(), file + "a model of type \"bert\", expected \"whisper\"");
  config("\"d_model\": 16", "\"d_modal\": 16");
  EXPECT_EQ(refused(), file + "\"d_model\" is missing");
  config("\"encoder_ffn_dim\": 64", "\"encoder_ffn_dim\": 32");
  EXPECT_EQ(refused(), file + "\"encoder_ffn_dim\" is not four times \"d_model\", which is not supported");
  config("\"decoder_attention_heads\": 2", "\"decoder_attention_heads\": 4");
  EXPECT_EQ(refused(), file + "encoder and decoder have different numbers of heads, which is not supported");
  config("\"encoder_layers\": 2", "\"encoder_layers\": 3");
  EXPECT_EQ(refused(), copy.string() + ": no tensor model.encoder.layers.2.self_attn.k_proj.weight" +
                           " (15 of 58 are missing)");
  fs::copy(folder + "/config.json", copy / "config.json", fs::copy_options::overwrite_existing);
  const auto tokens = [&](const std::string& from, const std::string& to) {
    std::ifstream in(folder + "/tokenizer.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(copy / "tokenizer.json") << text.replace(at, from.size(), to);
  };
  tokens("<|startofprev|>", "<|startofpref|>");
  EXPECT_EQ(refused(), "the tokenizer has no token <|startofprev|>: it is not that of a Whisper model");
  tokens("<|translate|>", "<|translite|>");
  EXPECT_EQ(error_of([&] { Transcriber(copy.string(), {.translate = true}); }),
            "the model does not translate");
  fs::remove_all(copy);
  Graph g;
  const Whisper whisper(nn::Scope(g), {.mels = 4,
                                       .audio_context = 4,
                                       .width = 8,
                                       .heads = 2,
                                       .audio_layers = 1,
                                       .text_layers = 2,
                                       .text_context = 4,
                                       .vocabulary = 8});
  std::vector<nn::KvCache> caches;
  const Tensor one = g.tensor({1}, DType::i32);
  const std::string text = error_of([&] { whisper.step(one, one, one, {}, caches, 0); });
  EXPECT_EQ(text.substr(0, text.rfind(" at ")),
            "[Whisper] 2 blocks of the decoder, 0 of the audio and 0 caches");
}

TEST(TokenGrammar, WhatMayFollow) {
  const Tokenizer tokenizer = open_model(folder).value().require_tokenizer();
  TokenGrammar grammar(read_grammar("root ::= \"a\"", ""), tokenizer);
  const int32_t a = tokenizer.encode("a", {.add_special = false}).at(0),
                end = tokenizer.find("<|endoftext|>").value();
  EXPECT_TRUE(grammar.allows(a) && !grammar.allows(a + 1) && !grammar.allows(end));
  EXPECT_EQ(error_of([&] { grammar.push(a + 1); }), fmt::format("token {} does not fit the grammar", a + 1));
  Sampler sampler({.temperature = 0});
  std::vector<float> logits(size_t(a), 1);
  EXPECT_EQ(error_of([&] { sample(sampler, logits, {}, &grammar); }),
            "no token of the vocabulary may follow: the grammar leaves none");
  logits.resize(size_t(tokenizer.size()), 0);
  EXPECT_EQ(sample(sampler, logits, {}, &grammar), a);
  EXPECT_TRUE(grammar.done() && !grammar.allows(a));
}

/// The spectrum of a recording, from its file on, is the reference's, and so is that made part by part.
TEST(Transcriber, SpectrumOfAFile) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Safetensors want = open_safetensors(data + "/audio/ref_whisper_tiny_en_jfk.safetensors").value();
  const auto mel = stored<float>(want, "log_mel");
  Graph g;
  const Audio audio = open_audio(data + "/audio/jfk.wav").value();
  std::vector<float> samples = resampled(audio.samples, audio.rate, 16000);
  // The whole spectrum in parts of 3000 frames, as `spectrum` makes it, against that of 30 seconds at once.
  SpeechModel small(folder, 1); // 8 filters: the frames are what is tested
  const SpeechModel::Spectrum parts = small.spectrum(samples);
  samples.resize(480000);
  Tensor given = g.tensor({480000});
  given.set(samples);
  Tensor whole = log_mel(given, 8).keep(), full = log_mel(given).keep();
  g.execute();
  const auto frames = whole.data<float>(), all = full.data<float>();
  ASSERT_EQ(parts.frames, 1100 + 100);
  for (int64_t m = 0; m < 8; m++)
    for (int64_t i = 0; i < 1100; i++)
      ASSERT_NEAR(parts.values[size_t(m * parts.frames + i)], frames[size_t(m * 3000 + i)], 1e-4)
          << m << " " << i;
  for (size_t i = 0; i < mel.size(); i++) ASSERT_NEAR(all[i], mel[i], 1e-4) << i;
}

} // namespace
} // namespace luminal::models::transcriber_test
