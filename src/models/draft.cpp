// models/draft.cpp -- proposing tokens, and accepting them.
#include "models/draft.h"
#include "base/check.h"
#include "base/text.h"
#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace luminal::models {
namespace {

double share_of(std::span<const TokenShare> shares, int32_t token) {
  const auto at = std::ranges::find(shares, token, &TokenShare::token);
  return at == shares.end() ? 0 : at->probability;
}

/// The positive part of p - q, with the sum 1. Where rounding leaves nothing of it both are equal: p.
std::vector<TokenShare> residual(const std::vector<TokenShare>& p, const std::vector<TokenShare>& q) {
  std::unordered_map<int32_t, double> taken;
  for (const TokenShare& share : q) taken[share.token] = share.probability;
  std::vector<TokenShare> left;
  double total = 0;
  for (const TokenShare& share : p) {
    const auto at = taken.find(share.token);
    const double more = share.probability - (at == taken.end() ? 0 : at->second);
    if (more <= 0) continue;
    left.push_back({share.token, more});
    total += more;
  }
  if (left.empty()) return p;
  for (TokenShare& share : left) share.probability /= total;
  return left;
}

} // namespace

Accepted accept_proposals(std::span<const Proposal> proposals, std::span<const float> logits,
                          std::span<const int32_t> text, Sampler& sampler,
                          const std::function<bool(int32_t)>& is_end, TokenGrammar* grammar) {
  LUMINAL_CHECK(logits.size() % (proposals.size() + 1) == 0 && text.size() >= proposals.size(),
                "{} logits behind {} proposals", logits.size(), proposals.size());
  const size_t vocabulary = logits.size() / (proposals.size() + 1), begin = text.size() - proposals.size();
  Sampler::Allowed allowed;
  if (grammar != nullptr) allowed = [&](int32_t token) { return grammar->allows(token); };
  Accepted result;
  for (size_t i = 0; i < proposals.size(); i++) {
    const auto& [token, q] = proposals[i];
    const auto p =
        sampler.distribution(logits.subspan(i * vocabulary, vocabulary), text.first(begin + i), allowed);
    const bool accepted = sampler.uniform() * share_of(q, token) < share_of(p, token);
    result.tokens.push_back(accepted ? token : sampler.draw(residual(p, q)));
    if (grammar != nullptr) grammar->push(result.tokens.back());
    if (!accepted) return result;
    result.proposals++;
    if (is_end(token) || (grammar != nullptr && grammar->done())) return result;
  }
  result.tokens.push_back(sample(sampler, logits.last(vocabulary), text, grammar));
  return result;
}

SamplerOptions Draft::drawing_options(SamplerOptions sampling) {
  sampling.seed ^= 0x9e3779b97f4a7c15;
  return sampling;
}

void Draft::check_vocabulary(const ModelFile& target, const ModelFile& file) {
  const int64_t here = file.require_config().vocab_size, there = target.require_config().vocab_size;
  if (!target.tokenizer || !file.tokenizer) {
    if (here != there)
      throw Error(fmt::format("{}: a draft has the vocabulary of its model: {} tokens, {} has {}", file.path,
                              here, target.path, there));
    return;
  }
  const Tokenizer &ours = *file.tokenizer, &theirs = *target.tokenizer;
  if (ours.size() != theirs.size())
    throw Error(fmt::format("{}: a draft has the tokenizer of its model: {} tokens, {} has {}", file.path,
                            ours.size(), target.path, theirs.size()));
  for (int32_t token = 0; token < ours.size(); token++)
    if (ours.token_text(token) != theirs.token_text(token))
      throw Error(fmt::format("{}: a draft has the tokenizer of its model: token {} is \"{}\", in {} it is "
                              "\"{}\"",
                              file.path, token, printable(ours.token_text(token)), target.path,
                              printable(theirs.token_text(token))));
}

Draft::Draft(const ModelFile& target, const ModelFile& file, const GeneratorOptions& options, int64_t count,
             const SamplerOptions& sampling)
    : file_((check_vocabulary(target, file), file)), generator_(file, options),
      sampler_(drawing_options(sampling)), count_(count),
      vocabulary_(std::min(target.require_config().vocab_size, file.require_config().vocab_size)) {}

bool Draft::follow(std::span<const int32_t> text) {
  if (int64_t(text.size()) > generator_.model().context) return false;
  const auto history = generator_.history();
  auto shared = std::ranges::mismatch(text, history).in1 - text.begin();
  shared =
      std::min(shared, std::max<long>(0, long(text.size()) - 1)); // the logits of the last one are wanted
  const auto rest = text.subspan(size_t(shared));
  if (std::ranges::any_of(rest, [&](int32_t token) { return token >= vocabulary_; })) return false;
  generator_.rewind(shared);
  const auto logits = generator_.feed(rest);
  logits_.assign(logits.begin(), logits.begin() + vocabulary_);
  return true;
}

void Draft::read(std::span<const int32_t> text) {
  if (!text.empty()) follow(text);
}

std::vector<Proposal> Draft::propose(std::span<const int32_t> text, int32_t last, int64_t most) {
  most = std::min({most, count_, generator_.model().context - int64_t(text.size())});
  std::vector<Proposal> proposals;
  std::vector<int32_t> all(text.begin(), text.end());
  all.push_back(last);
  while (int64_t(proposals.size()) < most && follow(all)) {
    std::vector<TokenShare> from = sampler_.distribution(logits_, all);
    all.push_back(sampler_.draw(from));
    proposals.push_back({all.back(), std::move(from)});
    if (file_.is_end(all.back())) break;
  }
  return proposals;
}

} // namespace luminal::models
