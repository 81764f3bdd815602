// models/prompt_cache.h -- keys and values of a prompt in a file, so that a later run begins behind it.
#pragma once
#include "base/hash.h"
#include "models/generator.h"
#include <memory>
#include <string>

namespace luminal::models {

/// What keys and values depend on beside the tokens: the weights' files and adapters (ModelFile::identity),
/// the configuration, how the model computes. Another value for a copy of the same file.
Hash128 prompt_cache_key(const ModelFile& file, const LlamaOptions& options);

/// A prompt cache that was read: magic, version, key and shape of the cache, tokens, then of each layer keys
/// and values [heads, tokens, width], and a hash of all of it.
struct PromptCache {
  std::string path;
  Hash128 key;
  DType type = DType::f32; ///< of keys and values: f32 or f16
  int64_t caches = 0, heads = 0, width = 0;
  std::vector<int32_t> tokens;
  std::span<const std::byte> values; ///< of all layers
  std::shared_ptr<const MappedFile> file;
};

/// Fails for a file that is not a prompt cache, of another version, cut off or damaged.
Result<PromptCache> open_prompt_cache(const std::string& path);

/// Why the cache does not fit a model with this key and these options; empty: it does.
std::string why_not(const PromptCache& cache, const Hash128& key, const LlamaOptions& options);

/// Gives a generator that has no text yet the tokens in front that the cache and the prompt have in common,
/// but not the prompt's last one, whose logits are wanted. Returns how many these are. Keys and values are
/// copied when the rest is fed, one layer at a time. The cache must fit (why_not).
int64_t restore_prompt(Generator& generator, const PromptCache& cache, std::span<const int32_t> prompt);

/// Writes keys and values of the generator's text so far. The file appears complete or not at all.
Result<void> save_prompt_cache(const std::string& path, const Hash128& key, const Generator& generator);

} // namespace luminal::models
