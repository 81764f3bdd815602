// tests/models/prompt_cache_test.cpp -- a prompt that is restored from a file gives the tokens of one that is
// computed; files that are cut off, damaged, foreign or of another model.
#include "formats/util.h"
#include "models/lora.h"
#include "models/lora_support.h"
#include "models/prompt_cache.h"
#include "models/random_model.h"
#include "support/error_of.h"
#include <gmock/gmock.h>
#include <set>

namespace luminal::models::prompt_cache_test {
namespace {

using luminal::testing_formats::file_content;
using luminal::testing_formats::put_file;
using luminal::testing_formats::TemporaryFolder;

constexpr ModelShape small{.name = "small",
                           .what = "of tests",
                           .layers = 2,
                           .hidden = 32,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .inner = 64,
                           .vocabulary = 40,
                           .context = 64,
                           .rope_theta = 10000,
                           .tied = true};
const std::vector<int32_t> prompt{3, 9, 4, 11, 7, 30, 2, 2, 19};

GeneratorOptions options(int64_t context, DType cache = DType::f32) {
  return {.model = {.context = context, .chunk = 4, .cache_dtype = cache}};
}
std::vector<float> fed(Generator& generator, std::span<const int32_t> tokens) {
  const auto logits = generator.feed(tokens);
  return {logits.begin(), logits.end()};
}
std::vector<int32_t> history(const Generator& generator) {
  return {generator.history().begin(), generator.history().end()};
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), tolerance * (1 + std::abs(want[i]))) << i;
}

TEST(PromptCache, WhatIsRestoredGivesTheSameLogits) {
  const RandomModel model = random_model(small, StorageType::f32, 5);
  const ModelFile& file = model.file;
  for (const DType type : {DType::f32, DType::f16}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("c");
    const Hash128 key = prompt_cache_key(file, options(32, type).model);
    std::vector<float> want, further;
    {
      Generator generator(file, options(32, type));
      want = fed(generator, prompt);
      ASSERT_TRUE(save_prompt_cache(path, key, generator));
      further = fed(generator, std::vector<int32_t>{5, 6});
    }
    const PromptCache cache = open_prompt_cache(path).value();
    EXPECT_EQ(cache.tokens, prompt);
    EXPECT_EQ(cache.type, type);
    EXPECT_EQ(why_not(cache, key, options(32, type).model), "");
    EXPECT_EQ(cache.values.size(), 2U * 2 * 2 * 9 * 16 * (type == DType::f16 ? 2 : 4));

    // The whole prompt: the same bits in the same steps, and nearly so in a context of another size.
    for (const int64_t context : {32, 48}) {
      Generator generator(file, options(context, type));
      ASSERT_EQ(restore_prompt(generator, cache, prompt), 8);
      EXPECT_EQ(generator.position(), 8);
      EXPECT_EQ(history(generator), std::vector<int32_t>(prompt.begin(), prompt.end() - 1));
      const auto got = fed(generator, std::span(prompt).last(1));
      const auto got_further = fed(generator, std::vector<int32_t>{5, 6});
      expect_near(got, want, context == 32 ? 0 : 2e-5f);
      expect_near(got_further, further, context == 32 ? 0 : 2e-5f);
    }

    // What differs is computed: neither the file's tail nor what the generator held before counts.
    Generator generator(file, options(48, type));
    std::vector<int32_t> other = prompt;
    other[5] = 31;
    generator.reset();
    const auto computed = fed(generator, other);
    generator.reset();
    EXPECT_EQ(restore_prompt(generator, cache, other), 5);
    expect_near(fed(generator, std::span(other).subspan(5)), computed, 2e-5f);
    generator.reset();
    EXPECT_EQ(restore_prompt(generator, cache, std::vector<int32_t>{4, 9}), 0);
    EXPECT_EQ(restore_prompt(generator, cache, std::vector<int32_t>{3}), 0);
    EXPECT_EQ(generator.position(), 0);
    EXPECT_EQ(error_of([&] { generator.restore(std::vector<int32_t>(49, 1)); }),
              "49 tokens are restored, the context holds 48");
  }
}

TEST(PromptCache, TheKeyIsThatOfModelAndOptions) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save(random_model(small, StorageType::f32, 5), folder.file("m.gguf")));
  lora_support::save_adapter(
      folder.file("a.gguf"),
      {{"blk.0.attn_k.weight", lora_support::random_matrix(2, 32, 1), lora_support::random_matrix(32, 2, 2)}},
      {.alpha = 2});
  const ModelFile file = open_model(folder.file("m.gguf")).value();
  const LlamaOptions plain{.context = 32};
  const auto changed = [&](const std::function<void(ModelFile&)>& change) {
    ModelFile other = file;
    change(other);
    return prompt_cache_key(other, plain).hex();
  };
  LlamaOptions rounded = plain;
  rounded.activations = Activations::q8;
  const std::set<std::string> keys{
      prompt_cache_key(file, plain).hex(),
      prompt_cache_key(file, rounded).hex(),
      changed([](ModelFile& f) { f.config->rope_theta = 5000; }),
      changed([](ModelFile& f) { f.config->rms_norm_eps = 1e-6; }),
      changed([&](ModelFile& f) {
        const LoraChoice adapter{folder.file("a.gguf")};
        apply_lora(f, {&adapter, 1}, ChangedBlocks::beside);
      }),
      [&] {
        std::filesystem::last_write_time(
            folder.file("m.gguf"), std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
        return prompt_cache_key(open_model(folder.file("m.gguf")).value(), plain).hex();
      }()};
  EXPECT_EQ(keys.size(), 6U);
  LlamaOptions longer = plain;
  longer.context = 64;
  EXPECT_EQ(prompt_cache_key(file, longer), prompt_cache_key(file, plain)); // plain rotations
}

TEST(PromptCacheErrorTexts, FilesThatAreNotWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("c");
  const RandomModel random = random_model(small, StorageType::f32, 5);
  const ModelFile& file = random.file;
  const LlamaOptions model = options(32).model;
  const Hash128 key = prompt_cache_key(file, model);
  {
    Generator generator(file, options(32));
    fed(generator, prompt);
    ASSERT_TRUE(save_prompt_cache(path, key, generator));
    EXPECT_THAT(error_of(save_prompt_cache(folder.file("none/c"), key, generator)),
                ::testing::HasSubstr("No such file or directory"));
    EXPECT_FALSE(std::filesystem::exists(folder.file("none")));
  }
  const std::string good = file_content(path);
  const auto error_with = [&](const std::string& content) {
    put_file(path, content);
    return error_of(open_prompt_cache(path));
  };
  EXPECT_EQ(error_with(good), "accepted");
  EXPECT_EQ(error_with(""), path + ": is empty");
  EXPECT_EQ(error_with("GGUF\3 and more"), path +
                                               ": begins with \"GGUF\\x03 an\", expected a prompt cache of "
                                               "this program");
  EXPECT_EQ(error_with("LUMPROMP"),
            path + ": 8 bytes of a prompt cache, expected 48: the file is cut off or damaged");
  EXPECT_EQ(error_with(good.substr(0, good.size() - 1)),
            fmt::format("{}: {} bytes of a prompt cache, expected {}: the file is cut off or damaged", path,
                        good.size() - 1, good.size()));
  std::string other = good;
  other[8] = 1;
  EXPECT_EQ(error_with(other), path + ": a prompt cache of version 1, expected version 2");
  other = good;
  for (size_t i = 32; i < 48; i++) other[i] = '\xFF';
  EXPECT_EQ(error_with(other),
            fmt::format("{}: {} bytes of a prompt cache, expected fewer: the file is cut off "
                        "or damaged",
                        path, good.size()));
  // Every byte behind the sizes counts.
  for (size_t at = 16; at < good.size(); at += at < 32 || at > 48 ? 7 : 32) {
    if (at >= 32 && at < 48) continue;
    other = good;
    other[at] = static_cast<char>(other[at] ^ 4);
    ASSERT_EQ(error_with(other), path + ": a prompt cache whose content is not what was written, expected an "
                                        "intact file")
        << at;
  }
  put_file(path, good);
  const PromptCache cache = open_prompt_cache(path).value();
  EXPECT_EQ(why_not(cache, {1, 2}, model), "it is of another model, or of another way to compute it");
  LlamaOptions halves = model;
  halves.cache_dtype = DType::f16;
  EXPECT_EQ(why_not(cache, key, halves), "its keys and values are f32, those of this run f16");
}

} // namespace
} // namespace luminal::models::prompt_cache_test
