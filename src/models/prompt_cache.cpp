// models/prompt_cache.cpp -- the file of a prompt's keys and values.
#include "models/prompt_cache.h"
#include "base/check.h"
#include "base/file.h"
#include "base/file_draft.h"
#include "base/text.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace luminal::models {
namespace {

constexpr std::string_view magic = "LUMPROMP";
constexpr uint32_t version = 2;

/// The beginning of the file, as it lies there (little endian).
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t type; // 0: f32, 1: f16
  uint64_t key_low, key_high;
  uint32_t caches, heads, width, tokens;
};
static_assert(sizeof(Header) == 48);
constexpr size_t hash_bytes = 16; // behind everything

/// Bytes of the whole file; nullopt where they are more than 64 bits hold.
std::optional<uint64_t> file_bytes(const Header& h) {
  uint64_t values = h.type == 1 ? 2 : 4;
  for (const uint64_t factor : {uint64_t(h.caches), uint64_t(h.heads), uint64_t(h.tokens), uint64_t(h.width)})
    if (__builtin_mul_overflow(values, factor, &values)) return {};
  uint64_t all = 0;
  if (__builtin_add_overflow(values, sizeof(Header) + hash_bytes + uint64_t(h.tokens) * sizeof(int32_t),
                             &all))
    return {};
  return all;
}

void add_to(Hasher& hasher, const ModelConfig& c, int64_t context) {
  hasher.add(c.architecture).add(c.activation);
  for (const int64_t n : {c.vocab_size, c.hidden_size, c.intermediate_size, c.num_layers, c.num_heads,
                          c.num_kv_heads, c.head_dim, c.rope_dim, c.num_experts, c.num_experts_used,
                          c.expert_size, c.sliding_window.value_or(0), c.expert_groups, c.expert_groups_used,
                          c.shared_expert_size, c.dense_layers, c.cache_width()})
    hasher.add(n);
  for (const double x : {c.rms_norm_eps, c.norm_offset, c.embedding_scale, c.attention_scale.value_or(0),
                         c.attention_softcap.value_or(0), c.local_rope_theta.value_or(0), c.expert_scale})
    hasher.add(x);
  for (const bool b : {c.sigmoid_router, c.rope_interleaved, c.gated, c.norm == ModelConfig::Norm::rms,
                       c.pre_norms, c.post_norms, c.learned_positions, c.normalised_experts})
    hasher.add(b);
  hasher.add(c.qk_norm);
  for (int64_t layer = 0; layer < c.num_layers; layer++) hasher.add(c.windowed(layer));
  // Some models turn by other angles in a long context.
  if (c.learned_positions) return;
  const RopeTable table = rope_table(c, context);
  hasher.add(std::span<const double>(table.inverse_frequencies)).add(table.magnitude);
}

} // namespace

Hash128 prompt_cache_key(const ModelFile& file, const LlamaOptions& options) {
  const ModelConfig& config = file.require_config();
  Hasher hasher;
  hasher.add(file.identity()).add(options.activations);
  add_to(hasher, config, options.context > 0 ? options.context : config.context_length);
  return hasher.value128();
}

Result<PromptCache> open_prompt_cache(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  PromptCache cache;
  cache.path = path;
  cache.file = std::make_shared<const MappedFile>(std::move(*mapped));
  const auto bytes = cache.file->bytes();
  Header h{};
  std::memcpy(&h, bytes.data(), std::min(bytes.size(), sizeof h));
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 8));
  if (begin != magic)
    return Failure{fmt::format("{}: begins with \"{}\", expected a prompt cache of this program", path,
                               printable(begin))};
  if (bytes.size() >= 12 && h.version != version)
    return Failure{
        fmt::format("{}: a prompt cache of version {}, expected version {}", path, h.version, version)};
  const auto wanted = bytes.size() < sizeof h ? std::optional<uint64_t>(sizeof h) : file_bytes(h);
  if (!wanted || h.type > 1 || bytes.size() != *wanted)
    return Failure{fmt::format("{}: {} bytes of a prompt cache, expected {}: the file is cut off or damaged",
                               path, bytes.size(), wanted ? fmt::format("{}", *wanted) : "fewer")};
  Hash128 stated;
  std::memcpy(&stated.low, bytes.data() + bytes.size() - hash_bytes, 8);
  std::memcpy(&stated.high, bytes.data() + bytes.size() - 8, 8);
  Hasher hasher;
  if (hasher.bytes(bytes.data(), bytes.size() - hash_bytes).value128() != stated)
    return Failure{fmt::format("{}: a prompt cache whose content is not what was written, expected an intact "
                               "file",
                               path)};
  cache.key = {h.key_low, h.key_high};
  cache.type = h.type == 1 ? DType::f16 : DType::f32;
  cache.caches = h.caches, cache.heads = h.heads, cache.width = h.width;
  cache.tokens.resize(h.tokens);
  std::memcpy(cache.tokens.data(), bytes.data() + sizeof h, h.tokens * sizeof(int32_t));
  const size_t at = sizeof h + h.tokens * sizeof(int32_t);
  cache.values = bytes.subspan(at, bytes.size() - hash_bytes - at);
  return cache;
}

std::string why_not(const PromptCache& cache, const Hash128& key, const LlamaOptions& options) {
  if (cache.key != key) return "it is of another model, or of another way to compute it";
  if (cache.type != options.cache_dtype)
    return fmt::format("its keys and values are {}, those of this run {}", to_string(cache.type),
                       to_string(options.cache_dtype));
  return {};
}

int64_t restore_prompt(Generator& generator, const PromptCache& cache, std::span<const int32_t> prompt) {
  const Llama& model = generator.model();
  LUMINAL_CHECK(int64_t(model.caches.size()) == cache.caches, "{} caches, {} in the file",
                model.caches.size(), cache.caches);
  const auto last = prompt.empty() ? prompt.begin() : prompt.end() - 1;
  const auto shared =
      std::mismatch(prompt.begin(), last, cache.tokens.begin(), cache.tokens.end()).first - prompt.begin();
  if (shared == 0) return 0;
  const int64_t row = cache.width * (cache.type == DType::f16 ? 2 : 4),
                of_head = int64_t(cache.tokens.size()) * row, of_cache = cache.heads * of_head;
  for (size_t i = 0; i < model.caches.size(); i++) {
    Tensor tensor = model.caches[i];
    tensor.set_deferred([=, values = cache.values.subspan(i * size_t(of_cache), size_t(of_cache)),
                         file = cache.file, type = cache.type, heads = cache.heads,
                         context = model.context](Tensor& state) {
      std::vector<std::byte> all(size_t(heads * context * row));
      for (int64_t h = 0; h < heads; h++)
        std::memcpy(all.data() + h * context * row, values.data() + h * of_head, size_t(shared * row));
      file->forget(values);
      state.set_bytes(all, type);
    });
  }
  generator.restore(prompt.first(size_t(shared)));
  return shared;
}

Result<void> save_prompt_cache(const std::string& path, const Hash128& key, const Generator& generator) {
  const Llama& model = generator.model();
  const ModelConfig& config = model.config;
  const auto tokens = generator.history();
  const bool half = model.caches.at(0).dtype() == DType::f16;
  Header h{.magic = {},
           .version = version,
           .type = half ? 1U : 0U,
           .key_low = key.low,
           .key_high = key.high,
           .caches = uint32_t(model.caches.size()),
           .heads = uint32_t(config.cache_heads()),
           .width = uint32_t(config.cache_width()),
           .tokens = uint32_t(tokens.size())};
  std::ranges::copy(magic, h.magic);
  auto draft = FileDraft::create(path);
  if (!draft) return draft.failure();
  Hasher hasher;
  const auto put = [&](std::span<const std::byte> bytes) -> Result<void> {
    hasher.bytes(bytes.data(), bytes.size());
    return draft->append(bytes);
  };
  if (auto done = put(std::as_bytes(std::span(&h, 1))); !done) return done;
  if (auto done = put(std::as_bytes(tokens)); !done) return done;
  const size_t row = size_t(config.cache_width()) * (half ? 2 : 4);
  for (const Tensor& cache : model.caches) {
    const auto all = cache.bytes();
    for (int64_t head = 0; head < config.cache_heads(); head++)
      if (auto done = put(all.subspan(size_t(head * model.context) * row, tokens.size() * row)); !done)
        return done;
  }
  const Hash128 hash = hasher.value128();
  const uint64_t words[2] = {hash.low, hash.high};
  if (auto done = draft->append(std::as_bytes(std::span(words))); !done) return done;
  return draft->finish();
}

} // namespace luminal::models
