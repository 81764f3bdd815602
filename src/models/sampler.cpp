// models/sampler.cpp -- sampling.
#include "models/sampler.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace luminal::models {

void Sampler::penalize(std::span<const int32_t> recent) {
  if (options_.repeat_last >= 0 && recent.size() > size_t(options_.repeat_last))
    recent = recent.last(size_t(options_.repeat_last));
  if (options_.repeat_penalty == 1 && options_.frequency_penalty == 0 && options_.presence_penalty == 0)
    return;
  std::map<int32_t, int> times;
  for (int32_t token : recent) times[token]++;
  for (Candidate& c : candidates_) {
    auto found = times.find(c.token);
    if (found == times.end()) continue;
    c.logit = c.logit > 0 ? c.logit / options_.repeat_penalty : c.logit * options_.repeat_penalty;
    c.logit -= found->second * options_.frequency_penalty + options_.presence_penalty;
  }
}

/// In order. Whether a token is allowed is asked from the likeliest one on, until enough are found.
void Sampler::keep_likeliest(size_t count, const Allowed& allowed) {
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  if (!allowed) {
    count = std::min(count, candidates_.size());
    std::partial_sort(candidates_.begin(), candidates_.begin() + long(count), candidates_.end(), likelier);
    candidates_.resize(count);
    return;
  }
  const auto later = [&](const Candidate& a, const Candidate& b) { return likelier(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), later);
  std::vector<Candidate> kept;
  for (auto end = candidates_.end(); end != candidates_.begin() && kept.size() < count;) {
    std::pop_heap(candidates_.begin(), end--, later);
    if (allowed(end->token)) kept.push_back(*end);
  }
  candidates_ = std::move(kept);
  if (candidates_.empty()) throw Error("no token of the vocabulary may follow: the grammar leaves none");
}

/// Those that are left, with their probabilities.
void Sampler::choose_candidates(std::span<const float> logits, std::span<const int32_t> recent,
                                const Allowed& allowed) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); i++)
    if (!std::isnan(logits[i])) candidates_.push_back({int32_t(i), logits[i], 0});
  if (candidates_.empty())
    throw Error("every logit is NaN: the model's weights or the computation are broken");
  for (auto at = candidates_.begin(); const auto& [token, bias] : options_.logit_bias) { // both in order
    at = std::lower_bound(at, candidates_.end(), token,
                          [](const Candidate& c, int32_t wanted) { return c.token < wanted; });
    if (at == candidates_.end()) break;
    if (at->token == token) at->logit += bias;
  }
  penalize(recent);
  if (options_.temperature <= 0) {
    keep_likeliest(1, allowed);
    candidates_[0].probability = 1;
    return;
  }
  keep_likeliest(options_.top_k > 0 ? size_t(options_.top_k) : candidates_.size(), allowed);

  auto normalize = [&](double temperature) {
    double total = 0, most = candidates_[0].logit;
    for (Candidate& c : candidates_)
      total += c.probability = c.logit == most ? 1 : std::exp((c.logit - most) / temperature);
    for (Candidate& c : candidates_) c.probability /= total;
  };
  normalize(1);
  if (options_.top_p < 1) {
    double sum = 0;
    size_t n = 0;
    while (n < candidates_.size() && sum < options_.top_p) sum += candidates_[n++].probability;
    candidates_.resize(std::max<size_t>(n, 1));
  }
  if (options_.min_p > 0) {
    double least = options_.min_p * candidates_[0].probability;
    while (candidates_.size() > 1 && candidates_.back().probability < least) candidates_.pop_back();
  }
  normalize(options_.temperature);
}

namespace {

/// `at`: in [0, 1).
template <class Shares> int32_t token_at(double at, const Shares& shares) {
  for (const auto& share : shares) {
    if (at < share.probability) return share.token;
    at -= share.probability;
  }
  return shares.back().token;
}

} // namespace

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> recent,
                        const Allowed& allowed) {
  choose_candidates(logits, recent, allowed);
  return options_.temperature <= 0 ? candidates_[0].token : token_at(uniform(), candidates_);
}

std::vector<TokenShare> Sampler::distribution(std::span<const float> logits, std::span<const int32_t> recent,
                                              const Allowed& allowed) {
  choose_candidates(logits, recent, allowed);
  std::vector<TokenShare> shares;
  shares.reserve(candidates_.size());
  for (const Candidate& c : candidates_) shares.push_back({c.token, c.probability});
  return shares;
}

int32_t Sampler::draw(std::span<const TokenShare> from) {
  return from.size() == 1 ? from[0].token : token_at(uniform(), from);
}

TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, size_t likeliest) {
  double most = -INFINITY, total = 0;
  for (const float x : logits)
    if (x > most) most = x;
  for (const float x : logits)
    if (!std::isnan(x)) total += std::exp(double(x) - most);
  const auto of = [&](int32_t which) {
    const double x = double(logits[size_t(which)]) - most - std::log(total);
    return std::isfinite(x) ? x : std::numeric_limits<double>::lowest();
  };
  TokenLogprobs result{token, of(token), {}};
  std::vector<int32_t> order(likeliest > 0 ? logits.size() : 0);
  std::iota(order.begin(), order.end(), 0);
  likeliest = std::min(likeliest, order.size());
  std::partial_sort(order.begin(), order.begin() + long(likeliest), order.end(), [&](int32_t a, int32_t b) {
    const double x = of(a), y = of(b);
    return x != y ? x > y : a < b;
  });
  for (size_t i = 0; i < likeliest; i++) result.likeliest.emplace_back(order[i], of(order[i]));
  return result;
}

} // namespace luminal::models
