// formats/lora_file.cpp -- names, ranks and factors of adapters.
#include "formats/lora_file.h"
#include "base/hash.h"
#include "formats/json.h"
#include "formats/quants.h"
#include "formats/regex.h"
#include <cmath>
#include <filesystem>
#include <map>

namespace luminal {
namespace {

using namespace detail;
namespace fs = std::filesystem;

constexpr uint64_t max_adapter_config_bytes = 16'000'000;
constexpr int64_t max_rank = 1 << 20;

bool is_real(StorageType type) { return storage_info(type).quantized() || storage_info(type).floating(); }

Result<std::vector<float>> transposed(const Result<std::vector<float>>& values, int64_t rows,
                                      int64_t columns) {
  if (!values) return values.failure();
  std::vector<float> out(values->size());
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) out[size_t(c * rows + r)] = (*values)[size_t(r * columns + c)];
  return out;
}

/// The two tensors of a pair while a file is read.
struct Halves {
  std::optional<TensorView> a, b;
  bool table = false; ///< of embeddings
};
using Pairs = std::map<std::string, Halves>; // by the name of the weight

void take_half(Pairs& pairs, const std::string& name, const TensorView& view, bool first, bool table,
               const std::string& path) {
  if (!is_real(view.type) || !can_dequantize(view.type))
    refuse(path, fmt::format("tensor {} is stored as {}, expected floating-point values",
                             in_quotes(view.name, 200), storage_name(view.type)));
  Halves& halves = pairs[name];
  halves.table |= table;
  (first ? halves.a : halves.b) = view;
}

/// Sizes of a pair of matrices. Refuses what does not multiply.
LoraPair pair_of(const std::string& name, const TensorView& a, const TensorView& b, LoraPair::Left left,
                 const std::string& path) {
  LoraPair pair{.name = name, .a = a, .b = b, .left = left};
  if (a.shape.size() == 2 && b.shape.size() == 2) {
    pair.rank = b.shape[1];
    if (left == LoraPair::Left::b)
      pair.rows = b.shape[0], pair.columns = a.shape[1];
    else
      pair.rows = a.shape[left == LoraPair::Left::a ? 0 : 1], pair.columns = b.shape[0];
  }
  const size_t rank_axis = left == LoraPair::Left::a ? 1 : 0; // of the first tensor
  if (pair.rank < 1 || pair.rank > max_rank || a.shape[rank_axis] != pair.rank)
    refuse(path, fmt::format("tensors {}, {}, and {}, {}, are not the two factors of a matrix",
                             in_quotes(a.name, 200), a.describe(), in_quotes(b.name, 200), b.describe()));
  return pair;
}

void refuse_single(const std::string& name, const Halves& halves, const std::string& path) {
  if (halves.a && halves.b) return;
  const TensorView& there = halves.a ? *halves.a : *halves.b;
  refuse(path, fmt::format("tensor {} has no {} for {}", in_quotes(there.name, 200), halves.a ? "B" : "A",
                           in_quotes(name, 200)));
}

/// One expert's part of a tensor [experts, ..].
TensorView expert_of(const TensorView& all, int64_t expert) {
  TensorView view = all;
  const size_t bytes = all.bytes.size() / size_t(all.shape[0]);
  view.shape.erase(view.shape.begin());
  view.bytes = all.bytes.subspan(size_t(expert) * bytes, bytes);
  return view;
}

LoraFile read_gguf(const Gguf& gguf, const std::string& path) {
  LoraFile out;
  out.path = path;
  out.gguf = true;
  out.file = gguf.file;
  if (out.file) out.identity = out.file->identity();
  const auto text = [&](const char* key) {
    auto value = gguf.string(key);
    if (!value) throw ParseFailure{value.error()};
    return value->value_or("");
  };
  const auto expect = [&](const char* key, const char* wanted) {
    if (const std::string found = text(key); found != wanted)
      refuse(path, fmt::format("metadata \"{}\" is {}, expected \"{}\"", key, in_quotes(found), wanted));
  };
  expect("general.type", "adapter");
  expect("adapter.type", "lora");
  out.architecture = text("general.architecture");
  if (gguf.find("adapter.alora.invocation_tokens") != nullptr)
    refuse(path, "metadata \"adapter.alora.invocation_tokens\": an adapter that begins within the text is "
                 "not supported");
  const auto stated = gguf.real("adapter.lora.alpha");
  if (!stated) throw ParseFailure{stated.error()};
  const double alpha = stated->value_or(0); // none, and 0, say that the factor is 1
  if (!std::isfinite(alpha))
    refuse(path, fmt::format("metadata \"adapter.lora.alpha\" is {}, expected a finite number", alpha));

  Pairs pairs;
  for (const TensorView& view : gguf.tensors) {
    std::string_view name = view.name;
    const bool first = name.ends_with(".weight.lora_a");
    if (first || name.ends_with(".weight.lora_b")) {
      name.remove_suffix(std::string_view(".weight.lora_a").size());
      take_half(pairs, std::string(name), view, first, name == "token_embd", path);
    } else if (name.ends_with(".weight") || name.ends_with(".bias")) {
      out.values.push_back({view.name, view});
    } else {
      refuse(path, fmt::format("tensor {}: expected names that end in .weight.lora_a, .weight.lora_b, "
                               ".weight or .bias",
                               in_quotes(name, 200)));
    }
  }
  for (const auto& [name, halves] : pairs) {
    refuse_single(name, halves, path);
    const TensorView &a = *halves.a, &b = *halves.b;
    const auto left = halves.table ? LoraPair::Left::a : LoraPair::Left::b;
    const auto add = [&](const TensorView& first, const TensorView& second, int64_t expert) {
      LoraPair pair = pair_of(name, first, second, left, path);
      pair.expert = expert;
      pair.factor = alpha == 0 ? 1 : alpha / double(pair.rank);
      out.pairs.push_back(std::move(pair));
    };
    if (a.shape.size() != 3 || b.shape.size() != 3 || a.shape[0] != b.shape[0]) {
      add(a, b, -1);
      continue;
    }
    for (int64_t e = 0; e < a.shape[0]; e++) add(expert_of(a, e), expert_of(b, e), e);
  }
  return out;
}

/// What of adapter_config.json counts.
struct PeftConfig {
  int64_t rank = 0;
  double alpha = 0;
  bool stabilised = false;
  /// Names of modules, or their ends, or regular expressions of either, with what holds for them.
  std::vector<std::pair<Regex, double>> ranks, alphas;
};

/// The value of the first pattern that the whole name, or what stands behind one of its dots, fits.
double by_pattern(const std::vector<std::pair<Regex, double>>& patterns, std::string_view name,
                  double otherwise) {
  std::vector<std::pair<size_t, size_t>> found;
  for (const auto& [pattern, value] : patterns) {
    found.clear();
    pattern.find_all(name, found);
    if (!found.empty()) return value;
  }
  return otherwise;
}

bool says_something(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_bool()) return value->as_bool("", "");
  if (value->is_array()) return !value->as_array("", "").empty();
  return !value->is_object() || !value->as_object("", "").empty();
}

PeftConfig read_config(std::string_view text, const std::string& path) {
  const Json json = parse_json(text, path);
  if (!json.is_object()) json.mismatch(path, "the configuration", "an object");
  const auto required = [&](const char* key) -> const Json& {
    const Json* value = json.find(key);
    if (value == nullptr) refuse(path, fmt::format("no \"{}\"", key));
    return *value;
  };
  if (const std::string& type = required("peft_type").as_string(path, "\"peft_type\""); type != "LORA")
    refuse(path, fmt::format("\"peft_type\" is {}, expected \"LORA\"", in_quotes(type)));
  // What changes the result and is not here.
  for (const char* key :
       {"use_dora", "lora_bias", "use_qalora", "layer_replication", "target_parameters",
        "trainable_token_indices", "alora_invocation_tokens", "ensure_weight_tying", "arrow_config"})
    if (says_something(json.find(key)))
      refuse(path, fmt::format("\"{}\" is set, which is not supported", key));
  if (const Json* start = json.find("init_lora_weights"); start != nullptr && start->is_string()) {
    const std::string& how = start->as_string(path, "\"init_lora_weights\"");
    for (const char* own : {"pissa", "olora", "loftq", "corda", "lora_ga"})
      if (how.starts_with(own))
        refuse(path, fmt::format("\"init_lora_weights\" is {}, which changes the weights of the model, too; "
                                 "convert the adapter to plain LoRA where it is saved",
                                 in_quotes(how)));
  }
  PeftConfig out;
  const auto rank_of = [&](const Json& value, const std::string& what) {
    const int64_t rank = value.as_int(path, what);
    if (rank < 1 || rank > max_rank) refuse(path, fmt::format("{} is {}, expected a rank", what, rank));
    return rank;
  };
  out.rank = rank_of(required("r"), "\"r\"");
  out.alpha = required("lora_alpha").as_real(path, "\"lora_alpha\"");
  if (const Json* value = json.find("use_rslora")) out.stabilised = value->as_bool(path, "\"use_rslora\"");
  const auto patterns = [&](const char* key, auto read) {
    std::vector<std::pair<Regex, double>> found;
    if (const Json* all = json.find(key))
      for (const auto& [name, value] : all->as_object(path, fmt::format("\"{}\"", key)))
        found.emplace_back(Regex(fmt::format("^(?:.*\\.)?(?:{})$", name), path, fmt::format("\"{}\"", key)),
                           read(value, fmt::format("\"{}\" of {}", key, in_quotes(name))));
    return found;
  };
  out.ranks = patterns("rank_pattern", rank_of);
  out.alphas = patterns("alpha_pattern",
                        [&](const Json& v, const std::string& what) { return v.as_real(path, what); });
  return out;
}

/// Takes the end off a name that has it.
bool cut(std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.resize(name.size() - end.size());
  return true;
}

/// The name of a module without what it is in.
std::string inner_name(std::string_view module) {
  for (const std::string_view outer : {"model.", "transformer."})
    if (module.starts_with(outer)) return std::string(module.substr(outer.size()));
  return std::string(module);
}

/// A saved module is the model's own, or a copy inside of the adapter's.
std::string without_wrapper(std::string name) {
  for (const std::string_view wrapper : {".base_layer.", ".modules_to_save."})
    if (const size_t at = name.rfind(wrapper); at != std::string::npos) name.replace(at, wrapper.size(), ".");
  return name;
}

LoraFile read_peft(std::string_view config_json, const std::string& config_path, const Safetensors& tensors,
                   const std::string& path) {
  const PeftConfig config = read_config(config_json, config_path);
  LoraFile out;
  out.path = path;
  if (!tensors.files.empty()) out.file = tensors.files[0];
  out.identity = fmt::format("{}:{}", out.file ? out.file->identity() : "", hash128(config_json).hex());
  constexpr std::string_view prefix = "base_model.model.";
  Pairs pairs; // by the module's whole name
  for (const TensorView& view : tensors.tensors) {
    if (!view.name.starts_with(prefix))
      refuse(path, fmt::format("tensor {}: expected a name that begins with {}", in_quotes(view.name, 200),
                               prefix));
    std::string name = view.name.substr(prefix.size());
    if (cut(name, ".lora_A.weight"))
      take_half(pairs, name, view, true, false, path);
    else if (cut(name, ".lora_B.weight"))
      take_half(pairs, name, view, false, false, path);
    else if (cut(name, ".lora_embedding_A"))
      take_half(pairs, name, view, true, true, path);
    else if (cut(name, ".lora_embedding_B"))
      take_half(pairs, name, view, false, true, path);
    else if (name.find("lora_") == std::string::npos &&
             (name.ends_with(".weight") || name.ends_with(".bias")))
      out.values.push_back({inner_name(without_wrapper(name)), view});
    else
      refuse(path, fmt::format("tensor {}: expected names that end in .lora_A.weight, .lora_B.weight, "
                               ".lora_embedding_A, .lora_embedding_B, .weight or .bias",
                               in_quotes(view.name, 200)));
  }
  for (const auto& [name, halves] : pairs) {
    refuse_single(name, halves, path);
    LoraPair pair = pair_of(inner_name(name), *halves.a, *halves.b,
                            halves.table ? LoraPair::Left::a_transposed : LoraPair::Left::b, path);
    const auto rank = int64_t(by_pattern(config.ranks, name, double(config.rank)));
    if (pair.rank != rank)
      refuse(path, fmt::format("tensor {} is {}, the configuration says rank {}", in_quotes(pair.a.name, 200),
                               pair.a.describe(), rank));
    const double alpha = by_pattern(config.alphas, name, config.alpha);
    pair.factor = alpha / (config.stabilised ? std::sqrt(double(rank)) : double(rank));
    out.pairs.push_back(std::move(pair));
  }
  return out;
}

LoraFile adapter_of_folder(const std::string& folder) {
  const std::string config = folder + "/adapter_config.json", weights = folder + "/adapter_model.safetensors";
  if (!file_exists(config))
    refuse(folder, "a folder without adapter_config.json, expected an adapter of PEFT");
  if (!file_exists(weights))
    refuse(folder, file_exists(folder + "/adapter_model.bin")
                       ? "only PyTorch weights (adapter_model.bin), which can run code when loaded; save the "
                         "adapter with safe_serialization=True"
                       : "no adapter_model.safetensors beside adapter_config.json");
  const auto text = read_file(config, max_adapter_config_bytes);
  if (!text) throw ParseFailure{text.error()};
  const auto tensors = open_safetensors(weights);
  if (!tensors) throw ParseFailure{tensors.error()};
  return read_peft(*text, config, *tensors, weights);
}

LoraFile adapter_of(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) refuse(path, "no such file or folder");
  if (fs::is_directory(status)) return adapter_of_folder(path);
  auto mapped = MappedFile::open(path);
  if (!mapped) throw ParseFailure{mapped.error()};
  const auto bytes = mapped->bytes();
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 8));
  if (head.starts_with("GGUF")) {
    const auto gguf = open_gguf(path);
    if (!gguf) throw ParseFailure{gguf.error()};
    return read_gguf(*gguf, path);
  }
  if (fs::path(path).filename() == "adapter_model.safetensors") {
    const std::string folder = fs::path(path).parent_path().string();
    return adapter_of_folder(folder.empty() ? "." : folder);
  }
  refuse(path, fmt::format("begins with {}, expected a GGUF adapter or a folder of PEFT", in_quotes(head)));
}

} // namespace

Result<std::vector<float>> LoraPair::left_values() const {
  if (left == Left::b) return dequantize(b);
  return left == Left::a ? dequantize(a) : transposed(dequantize(a), rank, rows);
}
Result<std::vector<float>> LoraPair::right_values() const {
  return left == Left::b ? dequantize(a) : transposed(dequantize(b), columns, rank);
}

Result<LoraFile> lora_from_gguf(const Gguf& gguf, const std::string& path) {
  return guarded(path, [&] { return read_gguf(gguf, path); });
}
Result<LoraFile> lora_from_peft(std::string_view config_json, const std::string& config_path,
                                const Safetensors& tensors, const std::string& path) {
  return guarded(path, [&] { return read_peft(config_json, config_path, tensors, path); });
}
Result<LoraFile> open_lora(const std::string& path) {
  return guarded(path, [&] { return adapter_of(path); });
}

} // namespace luminal
