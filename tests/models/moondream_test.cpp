// tests/models/moondream_test.cpp -- Moondream gives what modules of transformers give of the same weights
// (tests/models/moondream/, made by tools/moondream_goldens.py), from a folder and from a pair of GGUF files.
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_save.h"
#include "models/batch.h"
#include "models/generator.h"
#include "models/moondream.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal::models::moondream_test {
namespace {

const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/moondream";

std::string temporary(const std::string& name) {
  return fmt::format("{}moondream_{}_{}", ::testing::TempDir(), getpid(), name);
}

template <class T> std::vector<T> golden(const std::string& name, std::vector<int64_t>* shape = nullptr) {
  static const Safetensors file = open_safetensors(folder + "/golden.safetensors").value();
  const TensorView* view = file.find(name);
  if (view == nullptr) throw Error("no golden " + name);
  if (shape != nullptr) *shape = view->shape;
  std::vector<T> values(view->bytes.size() / sizeof(T));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}
Image golden_picture(const std::string& name) {
  std::vector<int64_t> shape;
  auto pixels = golden<uint8_t>(name, &shape);
  return {shape.at(0), shape.at(1), shape.at(2), std::move(pixels)};
}

void expect_near(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), 2e-4f * (1 + std::abs(want[i]))) << what << " element " << i;
}

TEST(Moondream, PicturesAreTiledAsTheAuthorsTileThem) {
  using Tiles = std::array<int64_t, 2>;
  EXPECT_EQ(picture_tiles(266, 1000, 266, 12), (Tiles{1, 1})) << "not above the window in both";
  EXPECT_EQ(picture_tiles(-20, 5, 266, 12), (Tiles{1, 1}));
  EXPECT_EQ(picture_tiles(488, 688, 266, 12), (Tiles{2, 4})) << "600 x 800: sqrt(8.5), sqrt(16.9)";
  EXPECT_EQ(picture_tiles(968, 1808, 266, 12), (Tiles{2, 4})) << "1080 x 1920: 4 x 7 are too many";
  EXPECT_EQ(picture_tiles(300, 1500, 266, 12), (Tiles{2, 6})) << "2 x 7 at least, which are too many";
  EXPECT_EQ(picture_tiles(600, 600, 266, 12), (Tiles{3, 3}));
  EXPECT_EQ(picture_tiles(267, 10000, 266, 12), (Tiles{1, 15})) << "proportional, as the authors have it";
}

TEST(Moondream, PicturesAreResizedAsByPillow) {
  const Image picture = golden_picture("picture.pixels");
  for (const char* name : {"picture.small", "picture.large"}) {
    const Image want = golden_picture(name), got = resized_lanczos(picture, want.height, want.width);
    ASSERT_EQ(got.pixels.size(), want.pixels.size());
    int64_t other = 0;
    for (size_t i = 0; i < want.pixels.size(); i++) {
      ASSERT_LE(std::abs(int(got.pixels[i]) - int(want.pixels[i])), 1) << name << " " << i;
      other += got.pixels[i] != want.pixels[i] ? 1 : 0;
    }
    EXPECT_LE(other * 100, int64_t(want.pixels.size())) << name;
  }
}

void check_vision(Moondream& model) {
  model.compile(0);
  const Image whole = golden_picture("whole.pixels");
  std::vector<float> pixels(whole.pixels.size());
  for (int64_t y = 0; y < whole.height; y++)
    for (int64_t x = 0; x < whole.width; x++)
      for (int64_t c = 0; c < 3; c++)
        pixels[size_t((c * whole.height + y) * whole.width + x)] =
            float(whole.pixels[size_t((y * whole.width + x) * 3 + c)]) / 127.5f - 1;
  expect_near(model.features(pixels), golden<float>("whole.features"), "features");
  expect_near(model.rows_of(whole), golden<float>("whole.rows"), "rows");
}

/// Logits behind the question and greedy tokens, with the rows of the golden picture.
void check_text(const Moondream& model) {
  GeneratorOptions options{.model = {.context = 128, .chunk = 16, .rows = 40}, .compile = {}};
  model.prepare(options.model);
  EXPECT_EQ(options.model.chunk, 37);
  Generator generator(model.text(), options);
  generator.set_image(golden<float>("picture.rows"));
  const auto prompt = model.prompt("Is it red?");
  const auto tokens = golden<int32_t>("tokens");
  const auto asked = int64_t(tokens.size()) - 12;
  ASSERT_EQ(int64_t(prompt.size()), 37 + asked);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + asked, prompt.begin() + 37));
  std::vector<float> logits;
  generator.feed(prompt, asked,
                 [&](std::span<const float> part) { logits.insert(logits.end(), part.begin(), part.end()); });
  expect_near(logits, golden<float>("logits"), "logits");
  generator.reset();
  Sampler greedy({.temperature = 0});
  std::vector<int32_t> got;
  generator.generate(
      prompt, 12, greedy, [](int32_t) { return false; },
      [&](int32_t token) {
        got.push_back(token);
        return true;
      });
  EXPECT_EQ(got, std::vector<int32_t>(tokens.end() - 12, tokens.end()));
}

TEST(Moondream, AFolderGivesWhatTransformersGives) {
  const ModelFile file = open_model(folder).value();
  ASSERT_TRUE(Moondream::is_one(file));
  Moondream model(file, "");
  EXPECT_EQ(model.rows(), 36);
  check_vision(model);
  expect_near(model.rows_of(open_image(folder + "/picture.png", 3).value()), golden<float>("picture.rows"),
              "rows of two tiles");
  check_text(model);
  const auto described = model.prompt("");
  EXPECT_EQ(model.text().tokenizer->decode(std::span(described).subspan(37)), "\n\nLong caption:");
}

/// Texts about several pictures, and about none, share steps and give what each gives alone.
TEST(Moondream, ABatchHasAPictureForEachText) {
  const ModelFile file = open_model(folder).value();
  Moondream model(file, "");
  BatchOptions options{.model = {.context = 96, .chunk = 8, .slots = 3}, .compile = {}};
  model.prepare(options.model);
  Batch batch(model.text(), options);
  ASSERT_EQ(batch.image_rows(), 36);
  GeneratorOptions one{.model = {.context = 96, .chunk = 8}, .compile = {}};
  model.prepare(one.model);
  Generator generator(model.text(), one);
  const auto rows = golden<float>("picture.rows");
  auto other = rows;
  for (size_t i = 0; i < other.size(); i++) other[i] = rows[other.size() - 1 - i];
  using Picture = std::shared_ptr<const std::vector<float>>;
  const Picture first = std::make_shared<std::vector<float>>(rows),
                second = std::make_shared<std::vector<float>>(other);
  struct Asked {
    Picture picture;
    std::string question;
  };
  // The last three take the places of the first ones.
  const Asked texts[] = {{first, "Is it red?"}, {second, "Is it red?"}, {first, "Why?"},
                         {first, "Is it so?"},  {second, "Is it red?"}, {first, "Is it red?"}};
  std::map<Batch::Id, size_t> which;
  std::vector<std::vector<int32_t>> got(std::size(texts));
  for (size_t next = 0; next < std::size(texts) || batch.active() > 0;) {
    for (; next < std::size(texts) && batch.has_room(); next++) {
      const Moondream::Turn turn{texts[next].question, ""};
      const auto id = batch.start(model.prompt({&turn, 1}, true),
                                  {.sampling = {.temperature = 0}, .picture = texts[next].picture});
      // All three slots hold the tokens of pictures, of which only those of the same picture count.
      const int64_t reused = batch.reused(id);
      EXPECT_TRUE(reused == 0 || (next >= 3 && reused >= 37)) << next << ": " << reused;
      which[id] = next;
    }
    for (const Batch::Next& made : batch.step()) {
      auto& tokens = got[which.at(made.id)];
      tokens.push_back(made.token);
      if (tokens.size() == 6) batch.finish(made.id);
    }
  }
  for (size_t i = 0; i < std::size(texts); i++) {
    generator.reset();
    generator.set_image(*texts[i].picture);
    Sampler greedy({.temperature = 0});
    std::vector<int32_t> alone;
    generator.generate(
        model.prompt(texts[i].question), 6, greedy, [](int32_t) { return false; },
        [&](int32_t token) { return alone.push_back(token), true; });
    EXPECT_EQ(got[i], alone) << "text " << i;
  }
  // The same picture with another question computes the question only; a text without one nothing of it.
  const Moondream::Turn turn{"Is it red?", ""};
  const auto again = batch.start(model.prompt({&turn, 1}, true), {.sampling = {}, .picture = first});
  EXPECT_GE(batch.reused(again), 37);
  EXPECT_EQ(batch.reused(batch.start(model.prompt({&turn, 1}, false), {.sampling = {}})), 0);
}

TEST(Moondream, SeveralQuestionsStandOneBehindTheOther) {
  const ModelFile file = open_model(folder).value();
  const Moondream model(file, "");
  const std::vector<Moondream::Turn> turns{{"Is it red?", "no"}, {"Why?", ""}};
  const auto tokens = model.prompt(turns, false);
  EXPECT_EQ(model.text().tokenizer->decode(std::span(tokens).subspan(1)),
            "\n\nQuestion: Is it red?\n\nAnswer: no\n\nQuestion: Why?\n\nAnswer:");
}

/// The folder under the names of 2024.
TEST(Moondream, OldFoldersHaveOtherNames) {
  const ModelFile now = open_model(folder).value();
  ModelFile before = now;
  const std::pair<std::string, std::string> names[] = {
      {"model.text.wte", "text_model.transformer.embd.wte.weight"},
      {"model.text.post_ln", "text_model.lm_head.ln"},
      {"model.text.lm_head", "text_model.lm_head.linear"},
      {"model.text.blocks", "text_model.transformer.h"},
      {"model.vision.patch_emb", "vision_encoder.encoder.model.visual.patch_embed.linear"},
      {"model.vision.pos_emb", "vision_encoder.encoder.model.visual.pos_embed"},
      {"model.vision.post_ln", "vision_encoder.encoder.model.visual.norm"},
      {"model.vision.proj_mlp", "vision_encoder.projection.mlp"},
      {"model.vision.blocks", "vision_encoder.encoder.model.visual.blocks"}};
  for (TensorView& view : before.tensors) {
    for (const auto& [from, to] : names)
      if (view.name.starts_with(from)) {
        view.name.replace(0, from.size(), to);
        break;
      }
    const bool text = view.name.starts_with("text_model.transformer.h");
    const std::pair<std::string, std::string> inner[] = {{".attn.qkv.", ".mixer.Wqkv."},
                                                         {".attn.proj.", ".mixer.out_proj."}};
    for (const auto& [from, to] : inner)
      if (const size_t at = view.name.find(from); text && at != std::string::npos)
        view.name.replace(at, from.size(), to);
    for (const auto& [from, to] : {std::pair{".ln1.", ".norm1."}, std::pair{".ln2.", ".norm2."}})
      if (const size_t at = view.name.find(from); at != std::string::npos)
        view.name.replace(at, std::string_view(from).size(), to);
  }
  before.index_names();
  Moondream model(before, "");
  check_vision(model);
  check_text(model);
}

/// The same model as llama.cpp has it: text and vision in files of their own. `swapped`: as files of 2024
/// name the two matrices of the feed-forward part.
void write_pair(const std::string& text, const std::string& vision, bool swapped) {
  const ModelFile file = open_model(folder).value();
  const Moondream model(file, "");
  std::vector<std::pair<std::string, GgufValue>> facts{
      {"general.architecture", GgufValue::of_string("phi2")},
      {"phi2.context_length", GgufValue::of_u32(128)},
      {"phi2.embedding_length", GgufValue::of_u32(32)},
      {"phi2.feed_forward_length", GgufValue::of_u32(64)},
      {"phi2.block_count", GgufValue::of_u32(2)},
      {"phi2.attention.head_count", GgufValue::of_u32(2)},
      {"phi2.attention.head_count_kv", GgufValue::of_u32(2)},
      {"phi2.attention.layer_norm_epsilon", GgufValue::of_f32(1e-5f)},
      {"phi2.rope.dimension_count", GgufValue::of_u32(8)}};
  const auto tokens = tokenizer_metadata(*file.tokenizer, "tokenizer").value();
  facts.insert(facts.end(), tokens.begin(), tokens.end());
  ASSERT_TRUE(save_gguf(text, facts, model.text().tensors));
  std::vector<std::pair<std::string, GgufValue>> clip{
      {"general.architecture", GgufValue::of_string("clip")},
      {"clip.projector_type", GgufValue::of_string("mlp")},
      {"clip.use_gelu", GgufValue::of_bool(true)},
      {"clip.vision.attention.head_count", GgufValue::of_u32(2)},
      {"clip.vision.attention.layer_norm_epsilon", GgufValue::of_f32(1e-5f)}};
  // Queries, keys and values apart, the patches as the weights of a convolution.
  std::vector<TensorView> views;
  const std::map<std::string, std::string> names{{"vision.patch_emb", "v.patch_embd"},
                                                 {"vision.post_ln", "v.post_ln"},
                                                 {"vision.proj_mlp.fc1", "mm.0"},
                                                 {"vision.proj_mlp.fc2", "mm.2"},
                                                 {"attn.proj", "attn_out"},
                                                 {"ln1", "ln1"},
                                                 {"ln2", "ln2"},
                                                 {"mlp.fc1", swapped ? "ffn_down" : "ffn_up"},
                                                 {"mlp.fc2", swapped ? "ffn_up" : "ffn_down"}};
  for (const TensorView& view : file.tensors) {
    if (!view.name.starts_with("model.vision.")) continue;
    TensorView next = view;
    std::string name = view.name.substr(6), block;
    if (name == "vision.pos_emb") {
      next.name = "v.position_embd.weight";
      next.shape = {36, 24};
      views.push_back(next);
      continue;
    }
    if (name.starts_with("vision.blocks."))
      block = "v.blk." + name.substr(14, 2), name = name.substr(16); // one digit
    const std::string kind_of = name.substr(name.rfind('.'));
    name.resize(name.rfind('.'));
    if (name == "attn.qkv") {
      for (size_t i = 0; i < 3; i++) {
        next.name = block + "attn_" + "qkv"[i] + kind_of;
        next.shape[0] = 24;
        next.bytes = view.bytes.subspan(i * view.bytes.size() / 3, view.bytes.size() / 3);
        views.push_back(next);
      }
      continue;
    }
    if (name == "vision.patch_emb" && kind_of == ".weight") next.shape = {24, 3, 4, 4};
    next.name = block + names.at(name) + kind_of;
    views.push_back(next);
  }
  ASSERT_TRUE(save_gguf(vision, clip, views));
}

TEST(Moondream, APairOfGgufFilesGivesTheSame) {
  for (const bool swapped : {false, true}) {
    const std::string text = temporary("text.gguf"), vision = temporary("mmproj.gguf");
    write_pair(text, vision, swapped);
    const ModelFile file = open_model(text).value();
    Moondream model(file, vision);
    check_vision(model);
    check_text(model);
  }
}

/// What is said of a folder or a file that is not as it should be.
std::string refused(const ModelFile& model, const std::string& projector) {
  return error_of([&] { Moondream(model, projector); });
}

TEST(Moondream, OtherModelsAreRefusedByName) {
  const std::string text = temporary("refused_text.gguf"), vision = temporary("refused.gguf");
  write_pair(text, vision, false);
  const ModelFile file = open_model(text).value(), whole = open_model(folder).value();
  EXPECT_EQ(refused(file, ""), text + ": the text model alone; --mmproj FILE names the vision part, a GGUF "
                                      "file (moondream2-mmproj-f16.gguf)");
  EXPECT_EQ(refused(file, text),
            text + ": a file of the architecture phi2, expected the vision part of Moondream 2");
  EXPECT_EQ(refused(file, "/none.gguf"), "/none.gguf: no such file or folder");
  EXPECT_EQ(refused(whole, vision), folder + ": the folder has the vision part, " + vision + " is one more");
  ModelFile other = file;
  other.architecture = "llama";
  EXPECT_EQ(refused(other, vision),
            text + ": a model of the architecture llama, which takes no pictures here; expected Moondream 2: "
                   "its Hugging Face folder, or its text model as GGUF (phi2) with --mmproj");
  ModelFile lacking = whole;
  std::erase_if(lacking.tensors, [](const TensorView& v) { return v.name == "model.vision.post_ln.bias"; });
  lacking.index_names();
  EXPECT_THAT(refused(lacking, ""), testing::HasSubstr("no tensor \"v.post_ln.bias\""));
  const Moondream model(whole, "");
  LlamaOptions options{.context = 37};
  EXPECT_EQ(error_of([&] { model.prepare(options); }),
            "a picture takes 37 tokens, the context holds 37: raise --ctx");
}

TEST(Moondream, OtherProjectorsAreRefusedByName) {
  const std::string text = temporary("other_text.gguf"), path = temporary("other.gguf"),
                    end = ", expected the vision part of Moondream 2";
  write_pair(text, path, false);
  const ModelFile file = open_model(text).value();
  const Gguf good = open_gguf(path).value();
  const auto with = [&](const std::function<void(Gguf&)>& change) {
    Gguf changed = good;
    change(changed);
    const std::string name = temporary("changed.gguf");
    EXPECT_TRUE(save_gguf(name, changed.metadata, changed.tensors));
    std::string error = refused(file, name);
    return error.starts_with(name + ": ") ? "f" + error.substr(name.size()) : error;
  };
  const auto fact = [](const char* key, const GgufValue& value) {
    return [=](Gguf& g) {
      for (auto& [name, old] : g.metadata)
        if (name == key) old = value;
    };
  };
  const auto tensor = [](const char* name, const std::function<void(TensorView&)>& change) {
    return [=](Gguf& g) {
      for (TensorView& view : g.tensors)
        if (view.name == name) change(view);
    };
  };
  EXPECT_EQ(with([](Gguf&) {}), "no error");
  EXPECT_EQ(with(fact("clip.projector_type", GgufValue::of_string("ldp"))),
            "f: a projector of the type ldp" + end);
  EXPECT_EQ(with(fact("clip.use_gelu", GgufValue::of_bool(false))),
            "f: an activation that is not GELU" + end);
  EXPECT_EQ(with(fact("clip.vision.attention.head_count", GgufValue::of_u32(5))),
            "f: 2 layers of width 24 with 5 heads" + end);
  EXPECT_EQ(with(tensor("v.post_ln.bias", [](TensorView& v) { v.name = "v.class_embd"; })),
            "f: tensor v.class_embd, as LLaVA has it" + end);
  EXPECT_EQ(with(tensor("v.patch_embd.weight", [](TensorView& v) { v.shape = {24, 48}; })),
            "f: patches F16 [24, 48] and positions F16 [36, 24]" + end);
  EXPECT_EQ(with(tensor("mm.0.weight", [](TensorView& v) { v.shape = {96, 24}; })),
            "f: tensor mm.0.bias is F16 [48], the configuration asks for [96]")
      << "a projection of the whole picture alone";
  EXPECT_EQ(with(tensor("mm.0.weight", [](TensorView& v) { v.shape = {64, 36}; })),
            "f: the projection is F16 [64, 36] and F16 [32, 48], expected one from 24 or 48 to 32 "
            "elements");
}

TEST(Moondream, ConfigurationsThatDoNotFit) {
  const auto text = [](const std::string& json) {
    const auto read = parse_moondream_text(json, "c");
    return read ? std::string() : read.error();
  };
  const auto vision = [](const std::string& json) {
    const auto read = parse_moondream_config(json, "c", false);
    return read ? std::string() : read.error();
  };
  EXPECT_EQ(text("{}"), "") << "as the published one";
  EXPECT_EQ(vision(R"({"config": {}})"), "");
  EXPECT_EQ(parse_moondream_config("{}", "c", true)->question, (std::vector<int32_t>{1, 15381, 2}));
  EXPECT_THAT(text(R"({"config": {"text": {"group_size": 128}}})"),
              testing::EndsWith("text weights in four bits of torchao, expected the plain ones (or GGUF)"));
  EXPECT_EQ(text(R"({"config": {"text": {"n_heads": 3}}})"),
            "c: hidden size 2048 and 3 heads, expected a multiple");
  EXPECT_THAT(text(R"({"config": {"text": {"dim": -1}}})"),
              testing::EndsWith("\"dim\" is -1, expected 0 to 16777216"));
  EXPECT_EQ(vision(R"({"config": {"vision": {"in_channels": 4}}})"), "c: pictures without 3 channels");
  EXPECT_EQ(vision(R"({"config": {"vision": {"enc_n_heads": 5}}})"),
            "c: a vision transformer of 27 layers, width 1152, 5 heads, 4304 inner elements");
  EXPECT_EQ(vision(R"({"config": {"vision": {"overlap_margin": 14}}})"),
            "c: pictures of 378 pixels a side in patches of 14, up to 12 tiles that overlap by 14 patches");
  EXPECT_THAT(vision(R"({"config": {"tokenizer": {"templates": {"query": {"prefix": [1, -2]}}}}})"),
              testing::EndsWith("\"prefix\" has -2, expected token ids"));
}

} // namespace
} // namespace luminal::models::moondream_test
