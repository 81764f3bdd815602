// cli/serve_embeddings.h -- OpenAI's /v1/embeddings by a model of the BERT family.
#pragma once
#include "cli/common.h"
#include "models/embedder.h"
#include <mutex>
#include <string>

namespace luminal::cli {

class EmbeddingService {
public:
  EmbeddingService(const std::string& folder, int threads);
  /// The answer to the body of a request. Throws ApiError. One request at a time computes.
  Json answer(const std::string& body);
  const std::string& name() const { return name_; }

private:
  std::string name_;
  models::Embedder embedder_;
  std::mutex mutex_;
};

} // namespace luminal::cli
