// models/random_model.cpp -- shapes by name, random blocks of every type that is run, as GGUF.
#include "models/random_model.h"
#include "base/check.h"
#include "base/pages.h"
#include "formats/quants.h"
#include "luminal/error.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <thread>

namespace luminal::models {
namespace {

// Configurations as their publishers state them on huggingface.co; tiny and llama-1b-24 are ours.
// clang-format off
constexpr std::array<ModelShape, 9> shapes{{
    {.name = "tiny", .what = "for trying things out",
     .layers = 2, .hidden = 256, .heads = 4, .kv_heads = 2, .head_dim = 64,
     .inner = 512, .vocabulary = 512, .context = 2048, .rope_theta = 10000, .tied = true},
    {.name = "smollm2-135m", .what = "SmolLM2 135M",
     .layers = 30, .hidden = 576, .heads = 9, .kv_heads = 3, .head_dim = 64,
     .inner = 1536, .vocabulary = 49152, .context = 8192, .rope_theta = 100000, .tied = true},
    {.name = "smollm2-360m", .what = "SmolLM2 360M",
     .layers = 32, .hidden = 960, .heads = 15, .kv_heads = 5, .head_dim = 64,
     .inner = 2560, .vocabulary = 49152, .context = 8192, .rope_theta = 100000, .tied = true},
    {.name = "tinyllama-1.1b", .what = "TinyLlama 1.1B",
     .layers = 22, .hidden = 2048, .heads = 32, .kv_heads = 4, .head_dim = 64,
     .inner = 5632, .vocabulary = 32000, .context = 2048, .rope_theta = 10000, .tied = false},
    {.name = "llama-1b", .what = "Llama 3.2 1B",
     .layers = 16, .hidden = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64,
     .inner = 8192, .vocabulary = 128256, .context = 131072, .rope_theta = 500000, .tied = true},
    {.name = "llama-1b-24", .what = "1B in 24 layers: what compiling is measured with",
     .layers = 24, .hidden = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64,
     .inner = 5120, .vocabulary = 32000, .context = 4096, .rope_theta = 500000, .tied = true},
    {.name = "llama-3b", .what = "Llama 3.2 3B",
     .layers = 28, .hidden = 3072, .heads = 24, .kv_heads = 8, .head_dim = 128,
     .inner = 8192, .vocabulary = 128256, .context = 131072, .rope_theta = 500000, .tied = true},
    {.name = "mistral-7b", .what = "Mistral 7B v0.3",
     .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128,
     .inner = 14336, .vocabulary = 32768, .context = 32768, .rope_theta = 1000000, .tied = false},
    {.name = "llama-8b", .what = "Llama 3.1 8B",
     .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128,
     .inner = 14336, .vocabulary = 128256, .context = 131072, .rope_theta = 500000, .tied = false},
}};
// clang-format on

/// SplitMix64 (Steele, Lea, Flood 2014): any position of the sequence at once.
struct Random {
  uint64_t state;
  uint64_t operator()() {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Sum of four uniforms: near enough to normal; mean 0, deviation 1.
  float normal() {
    const uint64_t x = (*this)();
    const auto sum = int((x & 0xFFFF) + (x >> 16 & 0xFFFF) + (x >> 32 & 0xFFFF) + (x >> 48));
    return float(sum - 2 * 0xFFFF) * float(1.7320508 / 65536);
  }
  /// low..high - 1
  uint32_t below(uint32_t low, uint32_t high) { return low + uint32_t((*this)() >> 33) % (high - low); }
  void bytes(uint8_t* out, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
      const uint64_t x = (*this)();
      std::memcpy(out + i, &x, std::min<size_t>(8, count - i));
    }
  }
};

void put_half(uint8_t* out, float value) {
  const uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, 2);
}

/// Eight 6-bit scales and eight 6-bit minima, the same numbers, in the 12 bytes of Q4_K and Q5_K.
void put_scales(uint8_t* out, Random& random) {
  std::array<uint8_t, 8> s{};
  for (uint8_t& scale : s) scale = uint8_t(random.below(32, 64));
  for (size_t i = 0; i < 4; i++) {
    out[i] = out[i + 4] = uint8_t(s[i] | (s[i + 4] >> 4) << 6);
    out[i + 8] = uint8_t((s[i + 4] & 15) * 0x11);
  }
}

/// One block; codes are uniform, so their deviation is steps / sqrt(12).
void random_block(StorageType type, uint8_t* out, float deviation, Random& random) {
  const float uneven =
      0.75f + 0.5f * float(random.below(0, 1024)) / 1024; // scales differ from block to block
  const float d = deviation * uneven / 1.01f;             // of which the mean square is this much above 1
  switch (type) {
  case StorageType::q8_0:
    put_half(out, d / 73.6f);
    random.bytes(out + 2, 32);
    for (int i = 2; i < 34; i++)
      if (out[i] == 0x80) out[i] = 0x81; // -128 is in no file
    return;
  case StorageType::q4_0:
    put_half(out, d / 4.61f);
    random.bytes(out + 2, 16);
    return;
  case StorageType::q5_0:
    put_half(out, d / 9.23f);
    random.bytes(out + 2, 20);
    return;
  case StorageType::q4_1:
  case StorageType::q5_1: { // scale * code + least: the least is below by the mean
    const bool five = type == StorageType::q5_1;
    put_half(out, d / (five ? 9.23f : 4.61f));
    put_half(out + 2, -d / (five ? 9.23f : 4.61f) * (five ? 15.5f : 7.5f));
    random.bytes(out + 4, five ? 20 : 16);
    return;
  }
  case StorageType::q2_k: // scale * code - minimum: the minimum is the mean
    for (int i = 0; i < 16; i++) out[i] = uint8_t(random.below(8, 16) * 0x11);
    random.bytes(out + 16, 64);
    put_half(out + 80, d / (11.7f * 1.12f)); // scales of 8..15
    put_half(out + 82, d / (11.7f * 1.12f) * 1.5f);
    return;
  case StorageType::q3_k:
    // Codes of -4..3 have a mean below 0: scales of both signs, -32..-17 and 16..31, take it away.
    random.bytes(out, 108);
    for (int i = 104; i < 108; i++) out[i] = uint8_t((out[i] & 0x55) * 3); // upper bits of the scales: 0 or 3
    put_half(out + 108, d / (24.4f * 2.35f));
    return;
  case StorageType::q4_k:
  case StorageType::q5_k: { // scale * code - minimum: the minimum is the mean
    const bool five = type == StorageType::q5_k;
    put_half(out, d / (48.4f * (five ? 9.23f : 4.61f))); // scales of 32..63
    put_half(out + 2, d / (48.4f * (five ? 9.23f : 4.61f)) * (five ? 15.5f : 7.5f));
    put_scales(out + 4, random);
    random.bytes(out + 16, five ? 160 : 128);
    return;
  }
  case StorageType::q6_k:
    random.bytes(out, 192);
    for (int i = 192; i < 208; i++) out[i] = uint8_t(random.below(64, 128));
    put_half(out + 208, d / (97.3f * 18.5f)); // scales of 64..127
    return;
  default: LUMINAL_CHECK(false, "random blocks of {}", storage_name(type));
  }
}

bool can_make(StorageType type) {
  switch (type) {
  case StorageType::f32:
  case StorageType::f16:
  case StorageType::bf16:
  case StorageType::q8_0:
  case StorageType::q4_0:
  case StorageType::q4_1:
  case StorageType::q5_0:
  case StorageType::q5_1:
  case StorageType::q2_k:
  case StorageType::q3_k:
  case StorageType::q4_k:
  case StorageType::q5_k:
  case StorageType::q6_k: return true;
  default: return false;
  }
}

/// Blocks begin .. end of a tensor.
void fill(const TensorView& tensor, int64_t begin, int64_t end, float deviation, Random random) {
  auto* bytes = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(tensor.bytes.data()));
  const auto& info = storage_info(tensor.type);
  const bool norm = tensor.shape.size() == 1;
  for (int64_t i = begin; i < end; i++) {
    uint8_t* out = bytes + i * info.block_bytes;
    if (info.quantized()) {
      random_block(tensor.type, out, deviation, random);
      continue;
    }
    const float value = norm ? 1.0f : deviation * random.normal();
    if (tensor.type == StorageType::f32) {
      std::memcpy(out, &value, 4);
    } else {
      const uint16_t bits =
          tensor.type == StorageType::bf16 ? float_to_bfloat16(value) : float_to_half(value);
      std::memcpy(out, &bits, 2);
    }
  }
}

/// Every part has a seed of its own, so the bytes do not depend on the number of threads.
void fill_all(const std::vector<TensorView>& tensors, uint64_t seed) {
  constexpr int64_t part = 1 << 16;
  struct Part {
    size_t tensor;
    int64_t begin;
  };
  std::vector<Part> parts;
  for (size_t t = 0; t < tensors.size(); t++)
    for (int64_t i = 0; i < tensors[t].elements() / storage_info(tensors[t].type).block_elements; i += part)
      parts.push_back({t, i});
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t p; (p = next++) < parts.size();) {
      const TensorView& tensor = tensors[parts[p].tensor];
      const int64_t blocks = tensor.elements() / storage_info(tensor.type).block_elements;
      Random of_part{seed * 0x2545F4914F6CDD1Du + p};
      of_part.state = of_part(); // neighbours begin far from each other
      fill(tensor, parts[p].begin, std::min(parts[p].begin + part, blocks),
           float(1 / std::sqrt(double(tensor.shape.back()))), of_part);
      if (p + 1 == parts.size() || parts[p + 1].tensor != parts[p].tensor) drop_pages(tensor.bytes);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < std::min(16u, std::thread::hardware_concurrency()); t++)
    threads.emplace_back(work);
  work();
}

} // namespace

std::span<const ModelShape> model_shapes() { return shapes; }

const ModelShape* find_model_shape(std::string_view name) {
  for (const ModelShape& shape : shapes)
    if (shape.name == name) return &shape;
  return nullptr;
}

std::vector<TensorView> model_tensors(const ModelShape& shape, StorageType matrices) {
  if (!can_make(matrices))
    throw Error(
        fmt::format("random weights are not made in {}: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K "
                    "Q4_K Q5_K Q6_K are known",
                    storage_name(matrices)));
  std::vector<TensorView> tensors;
  auto add = [&](std::string name, std::vector<int64_t> extents) {
    TensorView view;
    view.name = std::move(name);
    view.type = extents.size() == 1 ? StorageType::f32 : matrices;
    if (extents.back() % storage_info(view.type).block_elements != 0)
      throw Error(fmt::format("{} in {}: rows of {} ({}) are not a whole number of its blocks of {}",
                              shape.name, storage_name(view.type), extents.back(), view.name,
                              storage_info(view.type).block_elements));
    view.shape = std::move(extents);
    tensors.push_back(std::move(view));
  };
  add("token_embd.weight", {shape.vocabulary, shape.hidden});
  add("output_norm.weight", {shape.hidden});
  if (!shape.tied) add("output.weight", {shape.vocabulary, shape.hidden});
  const int64_t queries = shape.heads * shape.head_dim, keys = shape.kv_heads * shape.head_dim;
  for (int64_t layer = 0; layer < shape.layers; layer++) {
    auto of_layer = [&](const char* what) { return fmt::format("blk.{}.{}.weight", layer, what); };
    add(of_layer("attn_norm"), {shape.hidden});
    add(of_layer("attn_q"), {queries, shape.hidden});
    add(of_layer("attn_k"), {keys, shape.hidden});
    add(of_layer("attn_v"), {keys, shape.hidden});
    add(of_layer("attn_output"), {shape.hidden, queries});
    add(of_layer("ffn_norm"), {shape.hidden});
    add(of_layer("ffn_gate"), {shape.inner, shape.hidden});
    add(of_layer("ffn_up"), {shape.inner, shape.hidden});
    add(of_layer("ffn_down"), {shape.hidden, shape.inner});
  }
  return tensors;
}

namespace {

std::vector<std::pair<std::string, GgufValue>> metadata_of(const ModelShape& shape) {
  auto u32 = [](int64_t value) { return GgufValue::of_u32(uint32_t(value)); };
  return {
      {"general.architecture", GgufValue::of_string("llama")},
      {"general.name", GgufValue::of_string(fmt::format("{} with random weights", shape.what))},
      {"llama.vocab_size", u32(shape.vocabulary)},
      {"llama.context_length", u32(shape.context)},
      {"llama.embedding_length", u32(shape.hidden)},
      {"llama.block_count", u32(shape.layers)},
      {"llama.feed_forward_length", u32(shape.inner)},
      {"llama.attention.head_count", u32(shape.heads)},
      {"llama.attention.head_count_kv", u32(shape.kv_heads)},
      {"llama.attention.key_length", u32(shape.head_dim)},
      {"llama.attention.value_length", u32(shape.head_dim)},
      {"llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(1e-5f)},
      {"llama.rope.dimension_count", u32(shape.head_dim)},
      {"llama.rope.freq_base", GgufValue::of_f32(float(shape.rope_theta))},
      {"tokenizer.ggml.model", GgufValue::of_string("none")},
  };
}

} // namespace

ModelFile model_without_values(const ModelShape& shape, StorageType matrices) {
  Gguf gguf;
  gguf.file_name = fmt::format("{} ({}, random weights)", shape.name, storage_name(matrices));
  gguf.metadata = metadata_of(shape);
  gguf.tensors = model_tensors(shape, matrices);
  auto config = config_from_gguf(gguf);
  if (!config) throw Error(config.error());
  ModelFile file;
  file.kind = ModelFileKind::gguf;
  file.path = gguf.file_name;
  file.architecture = "llama";
  file.config = *config;
  file.tensors = std::move(gguf.tensors);
  for (TensorView& tensor : file.tensors)
    tensor.bytes = {static_cast<const std::byte*>(nullptr), storage_bytes(tensor.type, tensor.shape).value()};
  file.tokenizer_error = "random weights have no tokenizer";
  file.index_names();
  return file;
}

RandomModel random_model(const ModelShape& shape, StorageType matrices, uint64_t seed) {
  RandomModel model{model_without_values(shape, matrices), metadata_of(shape), nullptr};
  std::vector<TensorView>& tensors = model.file.tensors;
  uint64_t total = 0;
  std::vector<uint64_t> offsets;
  for (const TensorView& tensor : tensors) {
    offsets.push_back(total);
    total += (tensor.bytes.size() + 63) / 64 * 64;
  }
  auto memory = unnamed_file(total);
  if (!memory)
    throw Error(fmt::format("{} in {}: no place for {} bytes of weights: {}", shape.name,
                            storage_name(matrices), total, memory.error()));
  model.memory = *memory;
  for (size_t i = 0; i < tensors.size(); i++)
    tensors[i].bytes = {memory->get() + offsets[i], tensors[i].bytes.size()};
  fill_all(tensors, seed);
  return model;
}

Result<void> save(const RandomModel& model, const std::string& path) {
  return save_gguf(path, model.metadata, model.file.tensors);
}

} // namespace luminal::models
