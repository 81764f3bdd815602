// formats/model_files.cpp -- recognises a model by its content and gives one view of it.
#include "formats/model_files.h"
#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>
#include <system_error>

namespace luminal {
namespace {

using namespace detail;
namespace fs = std::filesystem;

constexpr uint64_t max_config_bytes = 16'000'000;
constexpr uint64_t max_tokenizer_bytes = 400'000'000;

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && !error;
}

/// The text of a file that may be absent (then empty). A file that is there but cannot be read is
/// refused.
std::string optional_text(const std::string& path, uint64_t limit = max_config_bytes) {
  if (path.empty() || !is_file(path)) return {};
  auto text = read_file(path, limit);
  if (!text) throw ParseFailure{text.error()};
  return std::move(*text);
}

/// A template of tokenizer_config.json: a string, or a list of {name, template} of which "default"
/// counts.
std::optional<std::string> template_in_config(const Json& config, std::string_view file) {
  const Json* value = config.find("chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->as_string(file, "\"chat_template\"");
  for (const Json& entry : value->as_array(file, "\"chat_template\"")) {
    const Json* name = entry.find("name");
    const Json* source = entry.find("template");
    if (name == nullptr || source == nullptr)
      refuse_at(file, entry.offset, "an entry of \"chat_template\" has no \"name\" or no \"template\"");
    if (name->as_string(file, "the name of a template") == "default")
      return source->as_string(file, "a chat template");
  }
  return std::nullopt;
}

/// The files that stand beside the weights; empty paths where there are none.
struct Companions {
  std::string config, generation_config, tokenizer, sentencepiece, tokenizer_config, chat_template;
  std::string vocabulary, merges, vocabulary_lines; ///< of before tokenizer.json
};

/// The first of the files that is there; nothing where there is none.
std::optional<Result<Tokenizer>> read_tokenizer(const Companions& files, const std::string& config) {
  const auto read = [](const std::string& path) { return optional_text(path, max_tokenizer_bytes); };
  if (const std::string text = read(files.tokenizer); !text.empty())
    return tokenizer_from_json(text, files.tokenizer, config);
  if (const std::string bytes = read(files.sentencepiece); !bytes.empty())
    return is_tiktoken(bytes) ? tokenizer_from_tiktoken(bytes, files.sentencepiece, config)
                              : tokenizer_from_sentencepiece(bytes, files.sentencepiece, config);
  const std::string vocabulary = read(files.vocabulary), merges = read(files.merges);
  if (!vocabulary.empty() && !merges.empty())
    return tokenizer_from_vocabulary(vocabulary, merges, files.vocabulary, config);
  if (const std::string lines = read(files.vocabulary_lines); !lines.empty())
    return tokenizer_from_vocabulary_lines(lines, files.vocabulary_lines, config);
  return std::nullopt;
}

void read_companions(const Companions& files, ModelFile& model) {
  const std::string config = optional_text(files.config);
  if (config.empty()) {
    model.config_error =
        fmt::format("{}: no configuration beside it (NAME.config.json or config.json)", model.path);
  } else {
    auto parsed = parse_hf_config(config, files.config, optional_text(files.generation_config));
    if (parsed)
      model.config = std::move(*parsed);
    else
      model.config_error = parsed.error();
    if (const auto json = guarded(files.config, [&] { return parse_json(config, files.config); }); json)
      if (const Json* type = json->find("model_type"); type != nullptr && type->is_string())
        model.architecture = type->as_string(files.config, "\"model_type\"");
  }
  const std::string tokenizer_config = optional_text(files.tokenizer_config);
  if (auto parsed = read_tokenizer(files, tokenizer_config); !parsed)
    model.tokenizer_error =
        fmt::format("{}: no tokenizer beside it (tokenizer.json, tokenizer.model, vocab.json "
                    "with merges.txt, vocab.txt)",
                    model.path);
  else if (*parsed)
    model.tokenizer = model.config ? (*parsed)->with_eos(model.config->eos_tokens) : **parsed;
  else
    model.tokenizer_error = parsed->error();
  if (const std::string source = optional_text(files.chat_template); !source.empty()) {
    if (const auto bad = find_invalid_utf8(source)) refuse_at(files.chat_template, *bad, "not UTF-8");
    model.chat_template = source;
  } else if (!tokenizer_config.empty()) {
    model.chat_template =
        template_in_config(parse_json(tokenizer_config, files.tokenizer_config), files.tokenizer_config);
  }
}

/// A head that is not in the file can only be the embedding, whatever the configuration leaves
/// unsaid.
void settle_tied_head(ModelFile& model) {
  if (model.config && model.find("model.embed_tokens.weight") != nullptr &&
      model.find("lm_head.weight") == nullptr)
    model.config->tied_embeddings = true;
}

void take(Safetensors&& content, ModelFile& model) {
  model.tensors = std::move(content.tensors);
  model.files = std::move(content.files);
  for (const auto& [key, value] : content.metadata) model.metadata.emplace_back(key, in_quotes(value, 200));
}

ModelFile from_gguf(Result<Gguf> gguf, const std::string& path, ModelFile model = {}) {
  if (!gguf) throw ParseFailure{gguf.error()};
  model.kind = ModelFileKind::gguf;
  model.path = path;
  const auto architecture = gguf->string("general.architecture");
  if (architecture && *architecture) model.architecture = **architecture;
  auto config = config_from_gguf(*gguf);
  if (config)
    model.config = std::move(*config);
  else
    model.config_error = config.error();
  auto tokenizer = tokenizer_from_gguf(*gguf);
  if (tokenizer)
    model.tokenizer = std::move(*tokenizer);
  else
    model.tokenizer_error = tokenizer.error();
  if (auto source = gguf->string("tokenizer.chat_template"); source && *source) {
    if (find_invalid_utf8(**source)) refuse(path, "metadata \"tokenizer.chat_template\" is not UTF-8");
    model.chat_template = std::move(**source);
  }
  for (const auto& [key, value] : gguf->metadata) model.metadata.emplace_back(key, value.describe());
  model.tensors = std::move(gguf->tensors);
  model.index_names();
  return model;
}

ModelFile from_gguf(const std::string& path) {
  ModelFile model;
  auto gguf = open_gguf_parts(path, model.files);
  return from_gguf(std::move(gguf), path, std::move(model));
}

ModelFile from_safetensors(const std::string& path) {
  auto content = open_safetensors(path);
  if (!content) throw ParseFailure{content.error()};
  ModelFile model;
  model.kind = ModelFileKind::safetensors;
  model.path = path;
  take(std::move(*content), model);
  model.index_names();
  const fs::path file(path);
  // "x.hf.safetensors" goes with "x.hf.config.json" or "x.config.json".
  std::vector<std::string> prefixes;
  for (fs::path stem = file.stem(); !stem.empty(); stem = stem.stem()) {
    prefixes.push_back((file.parent_path() / stem).string() + ".");
    if (!stem.has_extension()) break;
  }
  prefixes.push_back(file.parent_path().empty() ? std::string() : file.parent_path().string() + "/");
  const auto beside = [&](const char* name) -> std::string {
    for (const auto& prefix : prefixes)
      if (is_file(prefix + name)) return prefix + name;
    return {};
  };
  read_companions({beside("config.json"), beside("generation_config.json"), beside("tokenizer.json"),
                   beside("tokenizer.model"), beside("tokenizer_config.json"), beside("chat_template.jinja"),
                   beside("vocab.json"), beside("merges.txt"), beside("vocab.txt")},
                  model);
  settle_tied_head(model);
  return model;
}

/// Names in a folder, sorted.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) refuse(folder, fmt::format("cannot be listed: {}", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

ModelFile from_folder(const std::string& path) {
  const std::string folder = path.ends_with('/') ? path : path + "/";
  const auto names = names_in(path);
  std::vector<std::string> ggufs, tensors, indices, pickles;
  for (const auto& name : names) {
    if (name.ends_with(".gguf")) ggufs.push_back(name);
    if (name.ends_with(".safetensors")) tensors.push_back(name);
    if (name.ends_with(".safetensors.index.json")) indices.push_back(name);
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) pickles.push_back(name);
  }
  if (!is_file(folder + "config.json")) {
    if (ggufs.size() == 1 || (!ggufs.empty() && ggufs[0].find("-00001-of-") != std::string::npos))
      return from_gguf(folder + ggufs[0]);
    if (!ggufs.empty())
      refuse(path, fmt::format("a folder with {} GGUF files, name one of them: {}", ggufs.size(),
                               join(ggufs, " ")));
    refuse(
        path,
        names.empty()
            ? "an empty folder, expected config.json and *.safetensors"
            : "a folder without config.json, expected a Hugging Face model (config.json and *.safetensors)");
  }
  std::string index, single;
  if (is_file(folder + "model.safetensors.index.json"))
    index = "model.safetensors.index.json";
  else if (is_file(folder + "model.safetensors"))
    single = "model.safetensors";
  else if (indices.size() == 1)
    index = indices[0];
  else if (tensors.size() == 1)
    single = tensors[0];
  else if (tensors.empty() && !pickles.empty())
    refuse(path, fmt::format("only PyTorch weights ({}), which can run code when loaded; convert: python -c "
                             "\"from transformers import AutoModel as A; "
                             "A.from_pretrained('{}').save_pretrained('{}', safe_serialization=True)\"",
                             pickles[0], path, path));
  else if (tensors.empty())
    refuse(path, "a folder with config.json and without weights, expected *.safetensors");
  else
    refuse(path, fmt::format("{} safetensors files and no model.safetensors.index.json that joins them",
                             tensors.size()));

  auto content = index.empty() ? open_safetensors(folder + single) : open_safetensors_index(folder + index);
  if (!content) throw ParseFailure{content.error()};
  ModelFile model;
  model.kind = ModelFileKind::hf_folder;
  model.path = path;
  take(std::move(*content), model);
  model.index_names();
  const auto beside = [&](const char* name) {
    return is_file(folder + name) ? folder + name : std::string();
  };
  read_companions({beside("config.json"), beside("generation_config.json"), beside("tokenizer.json"),
                   beside("tokenizer.model"), beside("tokenizer_config.json"), beside("chat_template.jinja"),
                   beside("vocab.json"), beside("merges.txt"), beside("vocab.txt")},
                  model);
  settle_tied_head(model);
  return model;
}

/// "file.bin" of PyTorch is a zip archive with a pickle (0x80) in it, older ones are the pickle.
bool looks_like_pickle(std::string_view head, const std::string& path) {
  if (head.starts_with("PK\x03\x04")) return true;
  const bool named = path.ends_with(".pt") || path.ends_with(".pth") || path.ends_with(".bin") ||
                     path.ends_with(".pkl") || path.ends_with(".ckpt");
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 && (named || head[2] == '\x8a');
}

/// A protobuf whose first field is ONNX's ir_version: tag 0x08, a small number, then another field
/// of ModelProto.
bool looks_like_onnx(std::string_view head, const std::string& path) {
  return path.ends_with(".onnx") || (head.size() > 3 && head[0] == '\x08' && head[1] >= 3 && head[1] <= 20 &&
                                     (head[2] == '\x12' || head[2] == '\x3a'));
}

ModelFile open(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) refuse(path, "no such file or folder");
  if (error) refuse(path, error.message());
  if (fs::is_directory(status)) return from_folder(path);
  if (fs::is_regular_file(status) && fs::file_size(path, error) == 0)
    refuse_at(path, 0, "an empty file, expected GGUF or safetensors");
  auto mapped = MappedFile::open(path);
  if (!mapped) throw ParseFailure{mapped.error()};
  const std::string head(as_text(mapped->bytes()).substr(0, 16));
  if (path.ends_with(".safetensors.index.json")) {
    const std::string folder = path.substr(0, path.find_last_of('/') + 1);
    return from_folder(folder.empty() ? "." : folder.substr(0, folder.size() - 1));
  }
  const std::string_view magic = std::string_view(head).substr(0, 4);
  if (magic == "lmgg" && path.ends_with(".bin"))
    refuse(path, "a ggml file of whisper.cpp: a Whisper model, which luminal transcribe reads");
  if (magic == "GGUF" || magic == "FUGG" || magic == "lmgg" || magic == "fmgg" || magic == "tjgg" ||
      magic == "algg")
    return from_gguf(path);
  if (head.size() > 8 && head[8] == '{') return from_safetensors(path);
  if (looks_like_pickle(head, path))
    refuse(path, fmt::format("a PyTorch or zip file, which can run code when loaded; convert: python -c "
                             "\"import torch, safetensors.torch as s; "
                             "s.save_file({{k: v.contiguous() for k, v in torch.load('{}', "
                             "weights_only=True).items()}}, 'model.safetensors')\"",
                             path));
  if (looks_like_onnx(head, path))
    refuse(path, "an ONNX file, which `luminal eval` runs; a GGUF file, a safetensors file or a Hugging Face "
                 "folder is expected");
  if (path.ends_with(".safetensors")) return from_safetensors(path); // its parser says what is wrong
  if (path.ends_with(".gguf")) return from_gguf(path);
  refuse_at(path, 0,
            fmt::format("begins with {}, expected a GGUF file, a safetensors file or a Hugging Face folder",
                        in_quotes(head.substr(0, 8))));
}

size_t common_prefix(std::string_view a, std::string_view b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

} // namespace

std::string_view model_file_kind_name(ModelFileKind kind) {
  switch (kind) {
  case ModelFileKind::gguf: return "GGUF file";
  case ModelFileKind::safetensors: return "safetensors file";
  case ModelFileKind::hf_folder: return "Hugging Face folder";
  }
  return "file";
}

void ModelFile::index_names() {
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0U);
  std::sort(by_name.begin(), by_name.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
}

const TensorView* ModelFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  return at != by_name.end() && tensors[*at].name == name ? &tensors[*at] : nullptr;
}

const TensorView& ModelFile::tensor(std::string_view name) const {
  if (const TensorView* found = find(name)) return *found;
  // The names around the place where it would stand share the longest beginnings.
  const auto at =
      std::lower_bound(by_name.begin(), by_name.end(), name,
                       [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  std::string near;
  size_t best = 0;
  for (auto it = at == by_name.begin() ? at : at - 1; it != by_name.end() && it <= at; ++it) {
    const size_t shared = common_prefix(tensors[*it].name, name);
    if (shared > best) best = shared, near = tensors[*it].name;
  }
  throw Error(
      fmt::format("{}: no tensor {} among its {}{}", path, in_quotes(name), tensors.size(),
                  near.empty() ? std::string() : fmt::format("; the nearest is {}", in_quotes(near))));
}

const ModelConfig& ModelFile::require_config() const {
  LUMINAL_CHECK(config || !config_error.empty(), "{}: no reason why there is no configuration", path);
  if (!config) throw Error(config_error);
  return *config;
}

const Tokenizer& ModelFile::require_tokenizer() const {
  LUMINAL_CHECK(tokenizer || !tokenizer_error.empty(), "{}: no reason why there is no tokenizer", path);
  if (!tokenizer) throw Error(tokenizer_error);
  return *tokenizer;
}

bool ModelFile::is_end(int32_t token) const {
  return (tokenizer && tokenizer->is_eos(token)) ||
         (config && std::ranges::find(config->eos_tokens, token) != config->eos_tokens.end());
}

std::string ModelFile::identity() const {
  std::string text;
  for (const auto& file : files) text += file->identity() + " ";
  return text + changes;
}

uint64_t ModelFile::tensor_bytes() const {
  uint64_t sum = 0;
  for (const auto& t : tensors) sum += t.bytes.size();
  return sum;
}

int64_t ModelFile::parameters() const {
  int64_t sum = 0;
  for (const auto& t : tensors) sum += t.elements();
  return sum;
}

Result<ModelFile> open_model_bytes(std::span<const std::byte> bytes, const std::string& name) {
  return guarded(name, [&] { return from_gguf(parse_gguf(bytes, name), name); });
}

Result<ModelFile> open_model(const std::string& path) {
  return guarded(path, [&] { return open(path); });
}

} // namespace luminal
