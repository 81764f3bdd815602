// models/perplexity.h -- how well a model foretells a text: the exponential of the mean of -log p over its
// tokens, in windows as llama.cpp's llama-perplexity takes them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace luminal::models {

/// Tokens [begin, begin + size) of a text, of which the last `scored` are foretold and counted.
struct TextWindow {
  int64_t begin = 0, size = 0, scored = 0;
};
/// stride 0: windows of `context` tokens, one behind the other, of each the second half without its first
/// token; what is left at the end is left out. stride > 0: a window every `stride` tokens, of each the last
/// `stride`. Throws Error where the text is shorter than two windows.
std::vector<TextWindow> perplexity_windows(int64_t tokens, int64_t context, int64_t stride = 0);

/// The running value.
class Perplexity {
public:
  /// logits [vocabulary] foretold `token`, which came. Throws Error where one of them is NaN.
  void add(std::span<const float> logits, int32_t token);
  int64_t count() const { return count_; }
  double loss() const;  ///< mean of -log p, in nats
  double value() const; ///< exp(loss)
  /// Standard error of the value, for tokens that are independent of each other; NaN for fewer than two.
  double standard_error() const;

private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

} // namespace luminal::models
