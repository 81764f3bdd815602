// models/llama.h -- Llama and its relatives (Touvron et al. 2023, arXiv:2302.13971; grouped heads:
// arXiv:2307.09288) as a graph: one plan for every prompt chunk and every position.
#pragma once
#include "formats/model_files.h"
#include "luminal/graph.h"
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::models {

/// What products read of their activations; sums stay f32.
enum class Activations : uint8_t {
  exact,
  /// with bf16 weights: rounded to bf16 (a relative error of at most 2^-9 in each), which is what
  /// dot instructions read
  bf16,
  q8 ///< with quantised weights: eight bits (luminal/quantize.h states the error)
};
const std::vector<std::string>& activations_names(); ///< in the order of the enumerators
/// Throws Error where there is none of this name.
Activations activations_from_name(std::string_view name);

struct LlamaOptions {
  /// positions of the cache; 0: what the model declares (beyond it a model works, but worse)
  int64_t context = 0;
  int64_t chunk = 128;            ///< most tokens of one step
  DType cache_dtype = DType::f32; ///< f16 halves the cache
  Activations activations = Activations::exact;
  bool all_logits = false; ///< logits of every token of a step, not of the last one only
  /// Logits of several tokens of a step, at most so many: those at the places that the input `rows` names.
  /// 0: see all_logits; with slots at least one for each.
  int64_t rows = 0;
  /// Several texts at once, each in a slot of the cache: a step takes tokens of any of them. 0: one text.
  int64_t slots = 0;
  /// Rows of a picture that tokens may stand for: token vocab_size + i is row i of `image`. 0: none.
  int64_t image_rows = 0;
  /// So many tokens in front see each other, those behind them too, as all later ones do (a prefix language
  /// model). One step takes all of them: chunk is at least as large. With slots each token says what it sees.
  int64_t prefix = 0;
};

/// Inputs of a step: `tokens` i32 [n], dimensions n (tokens of the step) and past (positions in the
/// cache before it). Output: `logits` f32 [vocab], or [n, vocab] with all_logits, or [m, vocab] behind the
/// tokens at the places `rows` i32 [m].
/// With slots: tokens [n] stand in `slot` i32 [n] at `position` i32 [n], and see (with a prefix) up to `sees`
/// i32 [n]; the dimension filled is above every position; logits [m, vocab] behind the tokens `rows` i32 [m].
struct Llama {
  Graph graph;
  Tensor tokens, logits;
  Tensor slot, position; ///< with slots only
  Tensor sees;           ///< with slots and a prefix: the last position that a token sees
  Tensor rows;           ///< with slots, or LlamaOptions::rows
  Tensor image;          ///< with LlamaOptions::image_rows: f32 [image_rows, hidden], in place of embeddings
  /// Keys and values of each layer by turns, [kv_heads, context, head_dim]; with latent attention one for
  /// both, [1, context, rank + rope_dim]. With slots [slots, context, kv_heads, head_dim].
  std::vector<Tensor> caches;
  ModelConfig config;
  int64_t context = 0, chunk = 0;
  int64_t most_rows = 0;         ///< the largest m; 0: there is no `rows`
  int64_t cache_bytes = 0;       ///< keys and values at full context
  int64_t step_weight_bytes = 0; ///< weights that one token reads
};

/// Sizes of the model's dimensions that schedules are tuned for: one token, some way into the
/// context.
std::map<std::string, int64_t> typical_sizes(const Llama& model);
/// Compiles the graph for these sizes and as one of the weights of `file`, where `options` leave both open.
void compile_llama(Llama& model, const ModelFile& file, CompileOptions options);

/// From a file: GGUF or Hugging Face names. Throws Error for what the architecture has and this
/// graph does not (experts, sliding windows, biases...). `where`: the user's call, which errors of
/// its operations name; none: they name the operation only.
Llama make_llama(const ModelFile& file, const LlamaOptions& options, std::source_location where = {});

} // namespace luminal::models
