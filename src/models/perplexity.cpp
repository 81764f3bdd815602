// models/perplexity.cpp -- windows of a text, and the mean of what its tokens cost.
#include "models/perplexity.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::models {

std::vector<TextWindow> perplexity_windows(int64_t tokens, int64_t context, int64_t stride) {
  if (tokens < 2 * context)
    throw Error(fmt::format("the text has {} tokens; two windows of {} are needed at least: a longer text or "
                            "a smaller --context",
                            tokens, context));
  std::vector<TextWindow> windows;
  const int64_t step = stride > 0 ? stride : context,
                scored = stride > 0 ? stride : context - context / 2 - 1;
  for (int64_t begin = 0; begin + context <= tokens; begin += step)
    windows.push_back({begin, context, scored});
  return windows;
}

void Perplexity::add(std::span<const float> logits, int32_t token) {
  double most = -INFINITY, total = 0;
  for (const float logit : logits) most = std::max(most, double(logit));
  for (const float logit : logits) total += std::exp(double(logit) - most);
  const double cost = most + std::log(total) - double(logits[size_t(token)]);
  if (std::isnan(cost)) throw Error("a logit is NaN: the model's weights or the computation are broken");
  count_++;
  sum_ += cost;
  squares_ += cost * cost;
}

double Perplexity::loss() const { return sum_ / double(count_); }
double Perplexity::value() const { return std::exp(loss()); }

double Perplexity::standard_error() const {
  if (count_ < 2) return NAN;
  const double variance = std::max(0.0, squares_ / double(count_) - loss() * loss());
  return value() * std::sqrt(variance / double(count_ - 1));
}

} // namespace luminal::models
