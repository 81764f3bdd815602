// models/convert.cpp -- writing a model in another format or in fewer bits.
#include "models/convert.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_save.h"
#include "luminal/error.h"
#include "models/convert_plan.h"
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <thread>

namespace luminal::models {
namespace {

constexpr int64_t chunk_elements = int64_t(1) << 18; // of one job of a thread

/// `bytes` of one type as another: chunks side by side, so that only they are unpacked.
Result<std::string> converted(const PlannedTensor& tensor, StorageType to, int threads) {
  std::string bytes = tensor.bytes();
  if (tensor.type == to) return bytes;
  const StorageTypeInfo &old = storage_info(tensor.type), &wanted = storage_info(to);
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) elements *= size;
  const int64_t chunks = (elements + chunk_elements - 1) / chunk_elements;
  std::string out(size_t(elements / wanted.block_elements * wanted.block_bytes), '\0');
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::string error;
  const auto work = [&] {
    std::vector<float> values;
    for (int64_t c; (c = next++) < chunks;) {
      const int64_t begin = c * chunk_elements, count = std::min(chunk_elements, elements - begin);
      values.resize(size_t(count));
      const auto part = std::as_bytes(std::span(bytes))
                            .subspan(size_t(begin / old.block_elements * old.block_bytes),
                                     size_t(count / old.block_elements * old.block_bytes));
      std::string why;
      if (const auto done = dequantize(tensor.type, part, values); !done)
        why = done.error();
      else if (const auto packed = quantize(to, values); !packed)
        why = packed.error();
      else
        packed->copy(out.data() + begin / wanted.block_elements * wanted.block_bytes, packed->size());
      if (why.empty()) continue;
      const std::lock_guard lock(mutex);
      error = why;
      next = chunks;
    }
  };
  {
    std::vector<std::jthread> others;
    const int64_t count = threads > 0 ? threads : int64_t(std::max(1u, std::thread::hardware_concurrency()));
    for (int64_t t = 1; t < std::min(count, chunks); t++) others.emplace_back(work);
    work();
  }
  if (!error.empty()) return Failure{fmt::format("tensor {}: {}", tensor.name, error)};
  return out;
}

/// The tensors of a plan as they will be written, in the types that `type_of` says.
template <class TypeOf>
std::vector<TensorSource> sources_of(const ConvertPlan& plan, const ConvertOptions& options,
                                     ConvertReport& report, TypeOf type_of) {
  std::vector<TensorSource> sources;
  report.tensors = plan.tensors.size();
  report.bytes_before = plan.bytes;
  for (const PlannedTensor& tensor : plan.tensors) {
    const StorageType type = type_of(tensor);
    if (type != tensor.type && !can_dequantize(tensor.type))
      throw Error(fmt::format("tensor {} is stored as {}, which cannot be unpacked", tensor.name,
                              storage_name(tensor.type)));
    report.types[std::string(storage_name(type))]++;
    report.bytes_after += storage_bytes(type, tensor.shape).value_or(0);
    sources.push_back({tensor.name, type, tensor.shape, [&tensor, type, threads = options.threads] {
                         return converted(tensor, type, threads);
                       }});
  }
  return sources;
}

SourceProgress progress_of(const ConvertPlan& plan, const ConvertOptions& options) {
  if (!options.progress) return {};
  return [&plan, &options](size_t i) { options.progress(i, plan.tensors.size(), plan.tensors[i].name); };
}

void refuse_same(const std::string& from, const std::string& to) {
  std::error_code error;
  if (std::filesystem::equivalent(from, to, error) && !error)
    throw Error(fmt::format("{}: a model is not written over itself", to));
}

void set(std::vector<std::pair<std::string, GgufValue>>& metadata, const std::string& key, GgufValue value) {
  for (auto& [name, old] : metadata)
    if (name == key) {
      old = std::move(value);
      return;
    }
  metadata.emplace_back(key, std::move(value));
}

/// llama_ftype of llama.h: what programs show of a file.
uint32_t file_type(const WeightMixture& mixture) {
  constexpr std::pair<std::string_view, uint32_t> types[] = {
      {"F32", 0},     {"F16", 1},     {"Q4_0", 2},    {"Q4_1", 3},    {"Q8_0", 7},
      {"Q5_0", 8},    {"Q5_1", 9},    {"Q2_K", 10},   {"Q3_K_S", 11}, {"Q3_K_M", 12},
      {"Q3_K", 12},   {"Q3_K_L", 13}, {"Q4_K_S", 14}, {"Q4_K_M", 15}, {"Q4_K", 15},
      {"Q5_K_S", 16}, {"Q5_K_M", 17}, {"Q5_K", 17},   {"Q6_K", 18},   {"IQ4_NL", 25},
      {"IQ4_XS", 30}, {"BF16", 32},   {"TQ1_0", 36},  {"TQ2_0", 37},  {"MXFP4", 38}};
  for (const auto& [name, number] : types)
    if (mixture.name == name) return number;
  return 1024; // guessed
}

} // namespace

ConvertReport convert_to_gguf(const std::string& from, const std::string& to, const ConvertOptions& options) {
  refuse_same(from, to);
  auto opened = open_model(from); // says why a file is not a model
  if (!opened) throw Error(opened.error());
  if (!options.adapters.empty())
    apply_lora(*opened, options.adapters, options.mixture ? ChangedBlocks::f32 : ChangedBlocks::same);
  ConvertPlan plan = opened->kind == ModelFileKind::gguf ? plan_of_gguf(*opened) : plan_of_folder(*opened);
  ConvertReport report;
  const auto sources = sources_of(plan, options, report, [&](const PlannedTensor& tensor) {
    if (!options.mixture) return tensor.type;
    bool fell_back = false;
    const StorageType type =
        type_of_tensor(*options.mixture, tensor.name, tensor.shape, plan.config, fell_back);
    if (fell_back) report.fallbacks.push_back(tensor.name);
    return type;
  });
  if (options.mixture) {
    set(plan.metadata, "general.file_type", GgufValue::of_u32(file_type(*options.mixture)));
    set(plan.metadata, "general.quantization_version", GgufValue::of_u32(2));
  }
  if (const auto done = stream_gguf(to, plan.metadata, sources, progress_of(plan, options)); !done)
    throw Error(done.error());
  return report;
}

ConvertReport convert_to_folder(const std::string& from, const std::string& to,
                                const ConvertOptions& options) {
  namespace fs = std::filesystem;
  auto opened = open_model(from);
  if (!opened) throw Error(opened.error());
  if (opened->kind != ModelFileKind::gguf)
    throw Error(
        fmt::format("{}: a {} already, expected a GGUF file", from, model_file_kind_name(opened->kind)));
  std::error_code error;
  if (fs::exists(to, error) && (!fs::is_directory(to, error) || !fs::is_empty(to, error)))
    throw Error(fmt::format("{}: is there already, expected a folder that is new or empty", to));
  const StorageType matrices = options.mixture ? options.mixture->type : StorageType::bf16;
  if (storage_info(matrices).safetensors_name.empty())
    throw Error(fmt::format("{} is a type of GGUF alone, expected F32, F16 or BF16", storage_name(matrices)));
  if (!options.adapters.empty())
    apply_lora(*opened, options.adapters, options.mixture ? ChangedBlocks::f32 : ChangedBlocks::bf16);
  const ConvertPlan plan = plan_of_gguf_as_folder(*opened);
  // Everything that may be refused comes before the first byte.
  const std::string config = config_json_of(plan.config, from);
  std::string tokenizer, tokenizer_config;
  if (opened->tokenizer) {
    auto text = tokenizer_json(*opened->tokenizer, from);
    if (!text) throw Error(text.error());
    tokenizer = std::move(*text);
    tokenizer_config = tokenizer_config_of(*opened);
  }
  ConvertReport report;
  const auto sources = sources_of(plan, options, report, [&](const PlannedTensor& tensor) {
    if (options.mixture) return tensor.shape.size() >= 2 ? matrices : StorageType::f32;
    return storage_info(tensor.type).quantized() ? matrices : tensor.type;
  });
  fs::create_directories(to, error);
  if (error) throw Error(fmt::format("{}: {}", to, error.message()));
  const auto put = [&](const char* name, const std::string& text) {
    if (text.empty()) return;
    if (const auto done = write_file(to + "/" + name, text); !done) throw Error(done.error());
  };
  if (const auto done = stream_safetensors(to + "/model.safetensors", sources, {{"format", "pt"}},
                                           progress_of(plan, options));
      !done)
    throw Error(done.error());
  put("tokenizer.json", tokenizer);
  put("tokenizer_config.json", tokenizer_config);
  put("config.json", config); // last: with it a folder is a model
  return report;
}

} // namespace luminal::models
