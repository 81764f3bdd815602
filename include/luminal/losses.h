// luminal/losses.h -- losses, by PyTorch's names and conventions. Each is composed of primitives: a
// cross entropy stores neither probabilities nor one-hot targets. Floats narrower than f32 are
// computed in f32.
#pragma once
#include "luminal/operators.h"
#include <optional>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// What becomes of the losses of the elements (of the samples, for losses over classes).
enum class Reduction : uint8_t { mean, sum, none };

// ---- distances of equal shapes (they broadcast) ----
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, LUMINAL_WHERE);
Tensor rmse_loss(const Tensor& x, const Tensor& target, LUMINAL_WHERE); ///< sqrt of the mean square
Tensor mae_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, LUMINAL_WHERE);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean, LUMINAL_WHERE);
/// d^2 / 2 where |d| < delta, else delta (|d| - delta / 2).
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  Reduction reduction = Reduction::mean, LUMINAL_WHERE);
/// huber_loss / beta; beta = 0 is l1_loss.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::mean, LUMINAL_WHERE);

// ---- classes ----
struct ClassLossOptions {
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;        ///< this part of each target is spread over all classes
  int64_t ignore_index = -100;       ///< samples of this target take no part, in the mean neither
  std::optional<Tensor> weight = {}; ///< one for each class; a mean divides by the weights of the targets
  int axis = 1;                      ///< of the classes (0 where there is one axis only)
};
/// logits [n, classes, ..]; targets: class indices [n, ..] (integers), or probabilities in the shape
/// of the logits (floats; a mean is over the samples).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options = {},
                     LUMINAL_WHERE);
/// The same of logarithms of probabilities, and class indices.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const ClassLossOptions& options = {},
                LUMINAL_WHERE);
/// target (log target - x), x a logarithm; log_target: the target is one too.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
              bool log_target = false, LUMINAL_WHERE);
/// Of probabilities; logarithms are kept above -100.
Tensor binary_cross_entropy(const Tensor& probability, const Tensor& target,
                            Reduction reduction = Reduction::mean, LUMINAL_WHERE);
/// pos_weight multiplies the losses of the target 1.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        Reduction reduction = Reduction::mean,
                                        std::optional<Tensor> pos_weight = {}, LUMINAL_WHERE);
/// Binary cross entropy weighted by (1 - p of the truth)^gamma and alpha (1 - alpha where the target
/// is 0; a negative alpha: neither). Lin et al. 2017.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduction reduction = Reduction::none, LUMINAL_WHERE);

// ---- vectors along the last axis ----
/// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                             Reduction reduction = Reduction::mean, LUMINAL_WHERE);
/// max(0, |anchor - positive| - |anchor - negative| + margin) in the norm of order p; swap: the
/// distance of positive and negative counts where it is smaller than that of anchor and negative.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, bool swap = false,
                           Reduction reduction = Reduction::mean, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
