// models/embedder.h -- texts to vectors by an encoder of the BERT family.
#pragma once
#include "formats/tokenizer.h"
#include "luminal/models.h"
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::models {

enum class Pooling : uint8_t {
  stated, ///< what 1_Pooling/config.json of the folder says (sentence-transformers), else the mean
  mean,   ///< of all tokens
  first   ///< the first token, [CLS]
};

struct EmbedderOptions {
  Pooling pooling = Pooling::stated;
  bool normalise = true; ///< vectors have the length 1
  int threads = 0;       ///< 0: LUMINAL_THREADS, or all cores
};

class Embedder {
public:
  /// `path`: a Hugging Face folder of a BERT model (MiniLM, BGE, E5 and their like) with its tokenizer.
  /// Throws Error for another model, naming its type.
  explicit Embedder(const std::string& path, const EmbedderOptions& options = {});
  struct Result {
    std::vector<float> vector;
    int64_t tokens = 0;
  };
  /// Throws Error where the text has more tokens than the model has positions: it is never cut.
  Result embed(std::string_view text);
  Result embed_tokens(std::span<const int32_t> ids);
  int64_t width() const { return config_.width; }
  int64_t positions() const { return config_.positions; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

private:
  BertConfig config_;
  std::optional<Tokenizer> tokenizer_;
  Graph graph_;
  Tensor ids_, out_;
};

} // namespace luminal::models
