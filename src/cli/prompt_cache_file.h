// cli/prompt_cache_file.h -- --prompt-cache FILE of luminal run.
#pragma once
#include "models/prompt_cache.h"
#include <optional>

namespace luminal::cli {

/// Reads the file before a model is compiled and writes it when the prompt has been fed. Without a path it
/// does nothing.
class PromptCacheFile {
public:
  /// Throws Error where the file is there and is not an intact prompt cache, or has no folder. One of another
  /// model, or of another type, is a note on stderr: the prompt is read anew and the file replaced.
  PromptCacheFile(const std::string& path, bool read_only, const ModelFile& file,
                  const models::LlamaOptions& options);
  /// How many tokens of the prompt need not be fed; from then on `generate` writes the file, where it does
  /// not hold the whole prompt already.
  int64_t restore(models::Generator& generator, std::span<const int32_t> prompt);
  /// Throws Error where the file could not be written.
  void finish() const;

private:
  std::string path_, failure_;
  bool read_only_;
  Hash128 key_;
  std::optional<models::PromptCache> cache_;
};

} // namespace luminal::cli
