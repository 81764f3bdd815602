// tests/models/draft_test.cpp -- speculative decoding: what comes with a draft is what comes without one.
#include "models/batch.h"
#include "models/data.h"
#include "models/random_model.h"
#include "support/error_of.h"
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::models {
namespace {

constexpr SamplerOptions plain{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 11};
const auto no_end = [](int32_t) { return false; };

constexpr ModelShape small{.name = "small",
                           .what = "of tests",
                           .layers = 1,
                           .hidden = 32,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .inner = 32,
                           .vocabulary = 6,
                           .context = 64,
                           .rope_theta = 10000,
                           .tied = true};

std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> p;
  double total = 0;
  for (const float logit : logits) total += p.emplace_back(std::exp(double(logit)));
  for (double& x : p) x /= total;
  return p;
}

/// Every frequency within 4.5 standard deviations of what is expected.
void expect_frequencies(const std::vector<int64_t>& counts, const std::vector<double>& expected,
                        const std::string& what) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  for (size_t i = 0; i < counts.size(); i++) {
    const double mean = double(total) * expected[i], deviation = std::sqrt(mean * (1 - expected[i]));
    EXPECT_LE(std::abs(double(counts[i]) - mean), 4.5 * deviation + 1e-9)
        << what << ": token " << i << " came " << counts[i] << " times of " << total << ", expected " << mean;
  }
}

/// Rows of logits that differ much from those of the draft.
TEST(AcceptProposals, KeepTheDistributionOfTheModel) {
  const std::vector<float> model{0,    1, 2, -1, 0.5f, //
                                 1,    1, 0, 3,  -2,   //
                                 0.2f, 2, 1, 1,  0};
  const std::vector<std::vector<float>> draft{{2, 0, 1, 1, 0}, {0, 1, 1, 1, 2}};
  Sampler sampler(plain), proposer({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 5});
  std::array<std::vector<int64_t>, 3> counts;
  for (auto& row : counts) row.resize(5);
  int64_t accepted = 0;
  constexpr int64_t trials = 40000;
  for (int64_t trial = 0; trial < trials; trial++) {
    std::vector<int32_t> text{4};
    std::vector<Proposal> proposals;
    for (const auto& logits : draft) {
      std::vector<TokenShare> from = proposer.distribution(logits, text);
      text.push_back(proposer.draw(from));
      proposals.push_back({text.back(), std::move(from)});
    }
    const Accepted got = accept_proposals(proposals, model, text, sampler, no_end);
    ASSERT_EQ(int64_t(got.tokens.size()), got.proposals + 1);
    for (int64_t i = 0; i < got.proposals; i++) ASSERT_EQ(got.tokens[size_t(i)], proposals[size_t(i)].token);
    for (size_t i = 0; i < got.tokens.size(); i++) counts[i][size_t(got.tokens[i])]++;
    accepted += got.proposals;
  }
  // Rows do not depend on the tokens before them, so each has its distribution alone.
  double share = 0, reached = 1;
  for (size_t row = 0; row < 3; row++) {
    const auto p = probabilities(std::span(model).subspan(row * 5, 5));
    expect_frequencies(counts[row], p, fmt::format("row {}", row));
    if (row == 2) break;
    const auto q = probabilities(draft[row]);
    double both = 0;
    for (size_t i = 0; i < 5; i++) both += std::min(p[i], q[i]);
    share += reached *= both;
  }
  EXPECT_NEAR(double(accepted) / trials, share, 0.02) << "sum of min(p, q), and of those that follow";
}

TEST(AcceptProposals, GreedyTakesTheModelsToken) {
  Sampler greedy({.temperature = 0});
  const std::vector<float> model{0, 3, 1, /**/ 5, 0, 0, /**/ 0, 0, 2};
  const auto accept = [&](int32_t a, int32_t b, const std::function<bool(int32_t)>& ends) {
    const std::vector<Proposal> proposals{{a, {{a, 1}}}, {b, {{b, 1}}}};
    return accept_proposals(proposals, model, std::vector<int32_t>{0, a, b}, greedy, ends).tokens;
  };
  EXPECT_EQ(accept(1, 0, no_end), (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(accept(1, 2, no_end), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(accept(2, 0, no_end), (std::vector<int32_t>{1}));
  EXPECT_EQ(accept(1, 0, [](int32_t token) { return token == 1; }), (std::vector<int32_t>{1}))
      << "nothing follows the end";
  EXPECT_EQ(accept_proposals({}, std::span(model).first(3), std::vector<int32_t>{0}, greedy, no_end).tokens,
            (std::vector<int32_t>{1}));
}

std::vector<int32_t> generated(Generator& generator, std::span<const int32_t> prompt, int64_t count,
                               const SamplerOptions& options, Draft* draft, StopReason* reason = nullptr) {
  generator.reset();
  Sampler sampler(options);
  std::vector<int32_t> tokens;
  const StopReason why = generator.generate(
      prompt, count, sampler, no_end,
      [&](int32_t token) {
        tokens.push_back(token);
        return true;
      },
      nullptr, draft);
  if (reason != nullptr) *reason = why;
  return tokens;
}

GeneratorOptions with_rows(int64_t count, int64_t context) {
  GeneratorOptions options;
  options.model = {.context = context, .chunk = 16, .rows = count + 1};
  return options;
}

/// How the three tokens behind a prompt are distributed, by a model whose vocabulary is small enough to sum
/// over all texts.
std::array<std::vector<double>, 3> three_tokens(Generator& generator, const std::vector<int32_t>& prompt) {
  const auto follows = [&](std::vector<int32_t> more) {
    generator.reset();
    std::vector<int32_t> text = prompt;
    text.insert(text.end(), more.begin(), more.end());
    return probabilities(generator.feed(text));
  };
  std::array<std::vector<double>, 3> expected;
  for (auto& row : expected) row.resize(6);
  const auto first = follows({});
  for (int32_t a = 0; a < 6; a++) {
    expected[0][size_t(a)] += first[size_t(a)];
    const auto second = follows({a});
    for (int32_t b = 0; b < 6; b++) {
      const double here = first[size_t(a)] * second[size_t(b)];
      expected[1][size_t(b)] += here;
      const auto third = follows({a, b});
      for (size_t c = 0; c < 6; c++) expected[2][c] += here * third[c];
    }
  }
  return expected;
}

TEST(Drafts, SampledTextsKeepTheDistributionOfTheModel) {
  const RandomModel model = random_model(small, StorageType::f32, 1),
                    other = random_model(small, StorageType::f32, 2);
  Generator generator(model.file, with_rows(3, 64));
  Draft draft(model.file, other.file, {.model = {.context = 64, .chunk = 16}}, 3, plain);
  const std::vector<int32_t> prompt{1, 4};
  const auto expected = three_tokens(generator, prompt);
  std::array<std::vector<int64_t>, 3> counts;
  for (auto& row : counts) row.resize(6);
  Sampler sampler(plain);
  for (int trial = 0; trial < 4000; trial++) {
    generator.reset();
    size_t at = 0;
    generator.generate(
        prompt, 3, sampler, no_end,
        [&](int32_t token) {
          counts[at++][size_t(token)]++;
          return true;
        },
        nullptr, &draft);
    ASSERT_EQ(at, 3u);
  }
  for (size_t i = 0; i < 3; i++) expect_frequencies(counts[i], expected[i], fmt::format("token {}", i));
  EXPECT_GT(draft.proposed, draft.accepted);
  EXPECT_GT(draft.accepted, 0);
}

TEST(Drafts, ThatEqualTheModelAreAccepted) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const std::vector<int32_t> prompt = file.tokenizer->encode("Once upon a time");
  const SamplerOptions greedy{.temperature = 0};
  Generator alone(file, {.model = {.context = 128, .chunk = 16}});
  const auto want = generated(alone, prompt, 100, greedy, nullptr);
  ASSERT_EQ(want.size(), 100u);
  for (const int64_t count : {1, 4, 7}) {
    Generator generator(file, with_rows(count, 128));
    Draft draft(file, file, {.model = {.context = 128, .chunk = 16}}, count, greedy);
    EXPECT_EQ(generated(generator, prompt, 100, greedy, &draft), want) << count;
    EXPECT_EQ(draft.accepted, draft.proposed) << count;
    EXPECT_GE(draft.proposed, 99 * count / (count + 1) - 1);
    EXPECT_EQ(generator.position(), int64_t(prompt.size()) + 99);
    // Sampled, p and q are the same numbers up to rounding.
    const SamplerOptions sampled{.temperature = 1, .seed = 3};
    Draft equal(file, file, {.model = {.context = 128, .chunk = 16}}, count, sampled);
    generated(generator, prompt, 100, sampled, &equal);
    EXPECT_GE(equal.accepted, equal.proposed - 1) << count;
    EXPECT_GT(equal.proposed, 40);
  }
}

TEST(Drafts, ThatKnowNothingChangeNothing) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  ModelShape shape = small;
  shape.vocabulary = 512;
  const RandomModel random = random_model(shape, StorageType::f32, 3);
  const std::vector<int32_t> prompt = file.tokenizer->encode("Lily went to the park");
  const SamplerOptions greedy{.temperature = 0};
  Generator alone(file, {.model = {.context = 64, .chunk = 16}});
  Generator generator(file, with_rows(4, 64));
  StopReason why = StopReason::length, why_alone = StopReason::length;
  for (const int64_t context : {64, 20}) { // of the draft: a shorter one proposes nothing in the end
    Draft draft(file, random.file, {.model = {.context = context, .chunk = 16}}, 4, greedy);
    const auto want = generated(alone, prompt, -1, greedy, nullptr, &why_alone);
    EXPECT_EQ(generated(generator, prompt, -1, greedy, &draft, &why), want) << context;
    EXPECT_EQ(why, why_alone);
    EXPECT_EQ(why, StopReason::context);
    EXPECT_GT(draft.proposed, 0);
    EXPECT_LT(draft.accepted, draft.proposed / 4);
    EXPECT_LE(draft.generator().position(), context);
  }
  // A text that is stopped among accepted tokens is in the cache as far as it was given out.
  Draft same(file, file, {.model = {.context = 64, .chunk = 16}}, 4, greedy);
  Sampler sampler(greedy);
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  generator.reset();
  generator.generate(
      prompt, -1, sampler, no_end,
      [&](int32_t token) {
        tokens.push_back(token);
        return tokens.size() < prompt.size() + 3;
      },
      nullptr, &same);
  const auto history = generator.history();
  ASSERT_GE(history.size(), tokens.size() - 1);
  ASSERT_LE(history.size(), tokens.size());
  EXPECT_TRUE(std::equal(history.begin(), history.end(), tokens.begin()));
}

TEST(Drafts, FollowAGrammar) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const auto rules = read_grammar("root ::= \"the \" (\"cat\" | \"dog\") \" sat.\"", "");
  Generator generator(file, with_rows(4, 64));
  Draft draft(file, file, {.model = {.context = 64, .chunk = 16}}, 4, {});
  for (const double temperature : {0.0, 1.0}) {
    generator.reset();
    TokenGrammar grammar(rules, *file.tokenizer, file.config->eos_tokens);
    Sampler sampler({.temperature = temperature, .seed = 2});
    StreamDecoder decoder(*file.tokenizer, false, true);
    std::string text;
    const auto why = generator.generate(
        file.tokenizer->encode("Lily saw"), -1, sampler, [&](int32_t token) { return file.is_end(token); },
        [&](int32_t token) {
          text += decoder.push(token);
          return true;
        },
        &grammar, &draft);
    EXPECT_EQ(why, StopReason::end_of_text);
    EXPECT_THAT(text, testing::AnyOf("the cat sat.", "the dog sat."));
  }
}

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
    which[batch.start(prompt, options, grammar, int64_t(most), is_end)] = made.tokens.size();
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
    Draft draft(file, *small_one, {.model = {.context = 80, .chunk = 16}}, 5, greedy);
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
    // Two texts go without; the longer one has a draft again when the other has ended.
    const Made two = of_batch(batch, {prompt, second}, 30, greedy);
    EXPECT_EQ(two.tokens, of_batch(alone, {prompt, second}, 30, greedy).tokens);
    EXPECT_EQ(two.proposed, 0) << "both end in one step";
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

TEST(Drafts, OfABatchKeepTheDistribution) {
  const RandomModel model = random_model(small, StorageType::f32, 1),
                    other = random_model(small, StorageType::f32, 2);
  Generator generator(model.file, with_rows(3, 64));
  Draft draft(model.file, other.file, {.model = {.context = 64, .chunk = 16}}, 3, plain);
  Batch batch(model.file,
              {.model = {.context = 64, .chunk = 16, .slots = 1}, .compile = {}, .draft = &draft});
  const std::vector<int32_t> prompt{1, 4};
  const auto expected = three_tokens(generator, prompt);
  std::array<std::vector<int64_t>, 3> counts;
  for (auto& row : counts) row.resize(6);
  SamplerOptions options = plain;
  int64_t proposed = 0, accepted = 0;
  for (int trial = 0; trial < 4000; trial++) {
    options.seed++;
    const Made made = of_batch(batch, {prompt}, 3, options);
    ASSERT_EQ(made.tokens[0].size(), 3u);
    for (size_t i = 0; i < 3; i++) counts[i][size_t(made.tokens[0][i])]++;
    proposed += made.proposed, accepted += made.accepted;
  }
  for (size_t i = 0; i < 3; i++) expect_frequencies(counts[i], expected[i], fmt::format("token {}", i));
  EXPECT_GT(proposed, accepted);
  EXPECT_GT(accepted, 0);
  EXPECT_EQ(of_batch(batch, {prompt}, 3, options).tokens, of_batch(batch, {prompt}, 3, options).tokens)
      << "a seed gives a text";
}

TEST(Drafts, OfABatchFollowAGrammar) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const auto rules = read_grammar("root ::= \"the \" (\"cat\" | \"dog\") \" sat.\"", "");
  Draft draft(file, file, {.model = {.context = 64, .chunk = 16}}, 4, {});
  Batch batch(file, {.model = {.context = 64, .chunk = 16, .slots = 1}, .compile = {}, .draft = &draft});
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

TEST(Drafts, OfAnotherVocabularyAreRefused) {
  ModelShape shape = small;
  shape.vocabulary = 7;
  RandomModel seven = random_model(shape, StorageType::f32, 1),
              six = random_model(small, StorageType::f32, 1);
  seven.file.path = "seven", six.file.path = "six";
  EXPECT_EQ(error_of([&] { Draft::check_vocabulary(six.file, seven.file); }),
            "seven: a draft has the vocabulary of its model: 7 tokens, six has 6");
  const auto tokenizer = [](const std::string& words, size_t count) {
    std::string json = R"({"model":{"type":"BPE","vocab":{)";
    for (size_t i = 0; i < count; i++) json += fmt::format("{}\"{}\":{}", i > 0 ? "," : "", words[i], i);
    return tokenizer_from_json(json + R"(},"merges":[]},"decoder":{"type":"Fuse"}})", "tokenizer.json")
        .value();
  };
  six.file.tokenizer = tokenizer("abcdef", 6);
  seven.file.tokenizer = tokenizer("abcdefg", 7);
  EXPECT_EQ(error_of([&] { Draft::check_vocabulary(six.file, seven.file); }),
            "seven: a draft has the tokenizer of its model: 7 tokens, six has 6");
  seven.file.tokenizer = tokenizer("abxdef", 6);
  EXPECT_EQ(error_of([&] { Draft::check_vocabulary(six.file, seven.file); }),
            "seven: a draft has the tokenizer of its model: token 2 is \"x\", in six it is \"c\"");
  // One tokenizer, and a table with a row more: the tokens that both know are proposed.
  seven.file.tokenizer = six.file.tokenizer;
  const SamplerOptions greedy{.temperature = 0};
  Draft draft(six.file, seven.file, {.model = {.context = 32, .chunk = 16}}, 3, greedy);
  Generator generator(six.file, with_rows(3, 32)), alone(six.file, {.model = {.context = 32, .chunk = 16}});
  const std::vector<int32_t> prompt{2, 3};
  EXPECT_EQ(generated(generator, prompt, 20, greedy, &draft), generated(alone, prompt, 20, greedy, nullptr));
}

} // namespace
} // namespace luminal::models
