// tests/models/draft_test.cpp -- speculative decoding: what comes with a draft is what comes without one.
#include "models/data.h"
#include "models/draft_support.h"
#include "support/error_of.h"
#include <gmock/gmock.h>

namespace luminal::models::draft_test {
namespace {

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
} // namespace luminal::models::draft_test
