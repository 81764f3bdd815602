// tests/models/draft_batch_test.cpp -- speculative decoding for several texts at once: each text is what it
// is without a draft, and what it is alone.
#include "models/batch.h"
#include "models/data.h"
#include "models/draft_support.h"
#include <gmock/gmock.h>

namespace luminal::models::draft_test {
namespace {

/// What a batch makes of texts, and the proposals in it.
struct Made {
  std::vector<std::vector<int32_t>> tokens;
  int64_t proposed = 0, accepted = 0, steps = 0;
  std::string error;
};
/// All at once, `most` tokens each or until the context is full.
Made of_batch(Batch& batch, const std::vector<std::vector<int32_t>>& prompts, size_t most,
              const SamplerOptions& options, const std::shared_ptr<TokenGrammar>& grammar = nullptr,
              const std::function<bool(int32_t)>& is_end = {}) {
  Made made;
  std::map<Batch::Id, size_t> which;
  for (const auto& prompt : prompts) {
    which[batch.start(prompt, {options, grammar, int64_t(most), is_end})] = made.tokens.size();
    made.tokens.emplace_back();
  }
  while (batch.active() > 0) {
    made.steps++;
    for (const Batch::Next& next : batch.step()) {
      made.proposed += next.proposed, made.accepted += next.accepted;
      if (!which.contains(next.id)) continue; // it ended in this step
      auto& tokens = made.tokens[which[next.id]];
      if (next.error.empty()) tokens.push_back(next.token);
      made.error += next.error;
      if (next.error.empty() && !next.full && !next.done && tokens.size() < most &&
          !(is_end && is_end(next.token)))
        continue;
      batch.finish(next.id);
      which.erase(next.id);
    }
  }
  return made;
}

TEST(Drafts, OfABatchChangeNoText) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  ModelShape shape = small;
  shape.vocabulary = 512;
  const RandomModel random = random_model(shape, StorageType::f32, 3);
  const SamplerOptions greedy{.temperature = 0};
  const BatchOptions options{.model = {.context = 96, .chunk = 16, .slots = 2}, .compile = {}};
  Batch alone(file, options);
  const std::vector<int32_t> prompt = file.tokenizer->encode("Lily went to the park"),
                             second = file.tokenizer->encode("Once upon a time");
  const Made want = of_batch(alone, {prompt}, 40, greedy);
  for (const ModelFile* small_one : {&file, &random.file}) {
    DraftBatch draft(file, *small_one, {.model = {.context = 80, .chunk = 16, .slots = 2}}, 5);
    BatchOptions with = options;
    with.draft = &draft;
    Batch batch(file, with);
    for (int again = 0; again < 2; again++) { // the second time the prompt is in the cache
      const Made got = of_batch(batch, {prompt}, 40, greedy);
      EXPECT_EQ(got.tokens, want.tokens);
      EXPECT_GT(got.proposed, 0);
      if (small_one == &file) {
        EXPECT_EQ(got.accepted, got.proposed);
        EXPECT_LE(got.steps, 9);
      } else {
        EXPECT_LT(got.accepted, got.proposed / 4);
      }
    }
    // What was said goes on: nothing but what was accepted counts as being in the cache.
    std::vector<int32_t> longer = prompt;
    longer.insert(longer.end(), want.tokens[0].begin(), want.tokens[0].end());
    longer.insert(longer.end(), second.begin(), second.end());
    EXPECT_EQ(of_batch(batch, {longer}, 12, greedy).tokens, of_batch(alone, {longer}, 12, greedy).tokens);
    // To the end of the context, beyond that of the draft.
    EXPECT_EQ(of_batch(batch, {second}, 1000, greedy).tokens, of_batch(alone, {second}, 1000, greedy).tokens);
    // Two texts share the steps, and each has its own proposals. They end at different times.
    const Made two = of_batch(batch, {prompt, second}, 30, greedy),
               two_alone = of_batch(alone, {prompt, second}, 30, greedy);
    EXPECT_EQ(two.tokens, two_alone.tokens);
    EXPECT_GT(two.proposed, 30);
    if (small_one == &file) {
      EXPECT_EQ(two.accepted, two.proposed);
      EXPECT_LE(two.steps, 8) << "up to six tokens of both in a step";
    } else {
      EXPECT_LE(two.steps, two_alone.steps);
    }
    // A text that ends with an accepted token.
    const int32_t last = want.tokens[0][7];
    const auto is_last = [&](int32_t token) { return token == last; };
    EXPECT_EQ(of_batch(batch, {prompt}, 40, greedy, nullptr, is_last).tokens,
              of_batch(alone, {prompt}, 40, greedy, nullptr, is_last).tokens);
    // Nobody proposes the last token that is wanted.
    for (const int64_t most : {1, 2})
      EXPECT_LT(of_batch(batch, {second}, size_t(most), greedy).proposed, most);
  }
}

/// Texts come and go while others are written; prompts are longer than a step, which has no room for all
/// proposals.
TEST(Drafts, OfABatchWhoseTextsComeAndGo) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  ModelShape shape = small;
  shape.vocabulary = 512;
  const RandomModel random = random_model(shape, StorageType::f32, 3);
  const std::vector<std::string> texts{"Once upon a time there was a little girl who had a red ball",
                                       "Tim",
                                       "The dog ran to the big tree and saw a bird in it",
                                       "One day",
                                       "Lily and her mom went to the park to play with the new toy",
                                       "A"};
  const SamplerOptions greedy{.temperature = 0};
  const auto model = LlamaOptions{.context = 96, .chunk = 8, .slots = 3};
  const auto run = [&](DraftBatch* draft) {
    Batch batch(file, {.model = model, .compile = {}, .draft = draft});
    std::vector<std::vector<int32_t>> result(texts.size());
    std::map<Batch::Id, size_t> which;
    int64_t proposed = 0;
    for (size_t next = 0; next < texts.size() || batch.active() > 0;) {
      if (next < texts.size() && batch.has_room()) { // one in each step
        which[batch.start(file.tokenizer->encode(texts[next]), {greedy, nullptr, 12 + 5 * int64_t(next)})] =
            next;
        next++;
      }
      for (const Batch::Next& token : batch.step()) {
        proposed += token.proposed;
        if (!which.contains(token.id)) continue;
        const size_t text = which[token.id];
        result[text].push_back(token.token);
        if (result[text].size() < 12 + 5 * text) continue;
        batch.finish(token.id);
        which.erase(token.id);
      }
    }
    EXPECT_EQ(proposed > 0, draft != nullptr);
    return result;
  };
  const auto want = run(nullptr);
  for (const ModelFile* small_one : {&file, &random.file})
    for (const int64_t chunk : {3, 16}) { // of the draft
      DraftBatch draft(file, *small_one, {.model = {.context = 96, .chunk = chunk, .slots = 3}}, 4);
      EXPECT_EQ(run(&draft), want) << chunk;
    }
}

TEST(Drafts, OfABatchKeepTheDistribution) {
  const RandomModel model = random_model(small, StorageType::f32, 1),
                    other = random_model(small, StorageType::f32, 2);
  Generator generator(model.file, with_rows(3, 64));
  DraftBatch draft(model.file, other.file, {.model = {.context = 64, .chunk = 16, .slots = 3}}, 3);
  Batch batch(model.file,
              {.model = {.context = 64, .chunk = 16, .slots = 3}, .compile = {}, .draft = &draft});
  const std::vector<std::vector<int32_t>> prompts{{1, 4}, {2}, {5, 5, 0}};
  for (const size_t active : {1, 3}) {
    std::vector<std::array<std::vector<int64_t>, 3>> counts(active);
    for (auto& text : counts)
      for (auto& row : text) row.resize(6);
    SamplerOptions options = plain;
    int64_t proposed = 0, accepted = 0;
    for (int trial = 0; trial < 4000; trial++) {
      options.seed += 10;
      std::map<Batch::Id, size_t> which;
      std::vector<size_t> at(active);
      for (size_t text = 0; text < active; text++) {
        SamplerOptions own = options;
        own.seed += text;
        which[batch.start(prompts[text], {own, nullptr, 3})] = text;
      }
      while (batch.active() > 0)
        for (const Batch::Next& next : batch.step()) {
          proposed += next.proposed, accepted += next.accepted;
          const size_t text = which.at(next.id);
          ASSERT_LT(at[text], 3u) << "no more than is wanted";
          counts[text][at[text]++][size_t(next.token)]++;
          if (at[text] == 3) batch.finish(next.id);
        }
    }
    for (size_t text = 0; text < active; text++) {
      const auto expected = three_tokens(generator, prompts[text]);
      for (size_t i = 0; i < 3; i++)
        expect_frequencies(counts[text][i], expected[i],
                           fmt::format("token {} of text {} of {}", i, text, active));
    }
    EXPECT_GT(proposed, accepted);
    EXPECT_GT(accepted, 0);
  }
  const auto alone = of_batch(batch, {prompts[0]}, 30, plain).tokens[0];
  EXPECT_EQ(of_batch(batch, {prompts[0]}, 30, plain).tokens[0], alone) << "a seed gives a text";
  EXPECT_EQ(of_batch(batch, prompts, 30, plain).tokens[0], alone) << "beside others, too";
}

TEST(Drafts, OfABatchFollowAGrammar) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const auto rules = read_grammar("root ::= \"the \" (\"cat\" | \"dog\") \" sat.\"", "");
  DraftBatch draft(file, file, {.model = {.context = 64, .chunk = 16, .slots = 2}}, 4);
  Batch batch(file, {.model = {.context = 64, .chunk = 16, .slots = 2}, .compile = {}, .draft = &draft});
  for (const double temperature : {0.0, 1.0}) {
    const Made made =
        of_batch(batch, {file.tokenizer->encode("Lily saw")}, 40, {.temperature = temperature, .seed = 2},
                 std::make_shared<TokenGrammar>(rules, *file.tokenizer, file.config->eos_tokens),
                 [&](int32_t token) { return file.is_end(token); });
    StreamDecoder decoder(*file.tokenizer, false, true);
    std::string text;
    for (const int32_t token : made.tokens[0]) text += decoder.push(token);
    EXPECT_THAT(text, testing::AnyOf("the cat sat.", "the dog sat."));
    EXPECT_EQ(made.error, "");
    EXPECT_GT(made.proposed, 0);
  }
}

} // namespace
} // namespace luminal::models::draft_test
