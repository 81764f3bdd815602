// models/speech_file.cpp -- sizes, tokens and weights of Whisper models.
#include "models/speech_file.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/quants.h"
#include "formats/whisper_file.h"
#include "models/weights.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <memory>
#include <utility>

namespace luminal::models {
namespace {

using detail::Json;

/// What the configuration of transformers says.
WhisperConfig read_whisper_config(const std::string& file) {
  const auto text = read_file(file);
  if (!text) throw Error(text.error());
  WhisperConfig c;
  const auto read = detail::guarded(file, [&] {
    const Json json = detail::parse_json(*text, file);
    json.as_object(file, "the configuration");
    const Json* type = json.find("model_type");
    const std::string name = type == nullptr ? "?" : type->as_string(file, "\"model_type\"");
    if (name != "whisper")
      detail::refuse(file, fmt::format("a model of type {}, expected \"whisper\"", detail::in_quotes(name)));
    const auto integer = [&](const char* key) {
      const Json* found = json.find(key);
      if (found == nullptr) detail::refuse(file, fmt::format("{} is missing", detail::in_quotes(key)));
      const int64_t value = found->as_int(file, detail::in_quotes(key));
      if (value < 1 || value > int64_t(1) << 24)
        detail::refuse_at(file, found->offset,
                          fmt::format("{} is {}, expected 1 to {}", detail::in_quotes(key), value, 1 << 24));
      return value;
    };
    c = {.mels = integer("num_mel_bins"),
         .audio_context = integer("max_source_positions"),
         .width = integer("d_model"),
         .heads = integer("encoder_attention_heads"),
         .audio_layers = integer("encoder_layers"),
         .text_layers = integer("decoder_layers"),
         .text_context = integer("max_target_positions"),
         .vocabulary = integer("vocab_size")};
    if (integer("decoder_attention_heads") != c.heads)
      detail::refuse(file, "encoder and decoder have different numbers of heads, which is not supported");
    for (const char* key : {"encoder_ffn_dim", "decoder_ffn_dim"})
      if (integer(key) != 4 * c.width)
        detail::refuse(file, fmt::format("{} is not four times \"d_model\", which is not supported",
                                         detail::in_quotes(key)));
  });
  if (!read) throw Error(read.error());
  return c;
}

/// The name in the files of transformers for one of openai/whisper.
std::string transformers_name(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"token_embedding", "embed_tokens"},
      {"positional_embedding", "embed_positions.weight"},
      {".blocks.", ".layers."},
      {"cross_attn_ln", "encoder_attn_layer_norm"},
      {"attn_ln", "self_attn_layer_norm"},
      {"cross_attn.", "encoder_attn."},
      {".attn.", ".self_attn."},
      {"mlp_ln", "final_layer_norm"},
      {"mlp.0", "fc1"},
      {"mlp.2", "fc2"},
      {"ln_post", "layer_norm"},
      {"decoder.ln.", "decoder.layer_norm."},
      {".query.", ".q_proj."},
      {".key.", ".k_proj."},
      {".value.", ".v_proj."},
      {"attn.out.", "attn.out_proj."}};
  for (const auto& [from, to] : parts)
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  return name;
}

/// Of a folder, or of a safetensors file with its companions beside it.
SpeechFile of_transformers(const std::string& path) {
  auto opened = open_model(path);
  if (!opened) throw Error(opened.error());
  if (opened->kind == ModelFileKind::gguf)
    throw Error(fmt::format("{}: a GGUF file; a Whisper model is read from a Hugging Face folder or from a "
                            "file of whisper.cpp",
                            path));
  const std::string folder =
      opened->kind == ModelFileKind::hf_folder ? path : path.substr(0, path.find_last_of('/') + 1);
  SpeechFile out;
  out.config =
      read_whisper_config((folder.empty() || folder.ends_with('/') ? folder : folder + "/") + "config.json");
  out.tokenizer = opened->require_tokenizer();
  out.identity = opened->identity();
  out.load = [file = std::make_shared<const ModelFile>(std::move(*opened))](
                 const std::map<std::string, Tensor>& weights) {
    const bool openai = file->find("decoder.blocks.0.attn_ln.weight") != nullptr;
    const std::string inside = !openai && file->find("model.encoder.conv1.weight") != nullptr ? "model." : "";
    load_all(weights, *file,
             [&](const std::string& name) { return openai ? name : inside + transformers_name(name); });
  };
  return out;
}

/// Before graphs of these sizes are built: each is that of a tensor, whose bytes are there.
void check_sizes(const WhisperFile& file) {
  if (file.audio_width != file.text_width || file.audio_heads != file.text_heads)
    throw Error(fmt::format("{}: encoder and decoder have different widths or numbers of heads, which is not "
                            "supported",
                            file.file_name));
  if (file.audio_width % file.audio_heads != 0)
    throw Error(fmt::format("{}: a width of {}, which is not a multiple of {} heads", file.file_name,
                            file.audio_width, file.audio_heads));
  if (file.audio_layers + file.text_layers > int64_t(file.tensors.size()))
    throw Error(fmt::format("{}: {} and {} layers, {} tensors", file.file_name, file.audio_layers,
                            file.text_layers, file.tensors.size()));
  const auto expect = [&](const char* name, const std::vector<int64_t>& shape) {
    const TensorView* view = file.find(name);
    if (view == nullptr) throw Error(fmt::format("{}: no tensor {}", file.file_name, name));
    if (view->shape != shape)
      throw Error(fmt::format("{}: tensor {} is {}, expected [{}]", file.file_name, name, view->describe(),
                              fmt::join(shape, ", ")));
  };
  expect("encoder.conv1.weight", {file.audio_width, file.mels, 3});
  expect("encoder.positional_embedding", {file.audio_context, file.audio_width});
  expect("decoder.positional_embedding", {file.text_context, file.text_width});
  expect("decoder.token_embedding.weight", {file.vocabulary, file.text_width});
}

/// Those of the model in its file are what the spectrum is made with, up to rounding.
void check_filters(const WhisperFile& file) {
  const std::vector<float> ours = mel_filters(file.mels);
  const bool equal =
      file.filters.size() == ours.size() &&
      std::ranges::equal(file.filters, ours, [](float a, float b) { return std::abs(a - b) < 1e-5F; });
  if (!equal)
    throw Error(
        fmt::format("{}: its mel filters are not those of Whisper, which is not supported", file.file_name));
}

void load_values(const WhisperFile& file, const std::map<std::string, Tensor>& weights) {
  std::map<std::string_view, const TensorView*> views;
  for (const TensorView& view : file.tensors) views.emplace(view.name, &view);
  size_t missing = 0;
  std::string first;
  for (const auto& [name, tensor] : weights)
    if (!views.contains(name) && missing++ == 0) first = name;
  if (missing > 0)
    throw Error(fmt::format("{}: no tensor {} ({} of {} are missing)", file.file_name, first, missing,
                            weights.size()));
  for (const auto& [name, weight] : weights) {
    const TensorView& view = *views.at(name);
    std::vector<int64_t> shape = view.shape, wanted;
    for (const Dim& extent : weight.shape()) wanted.push_back(extent.value());
    if (shape.size() == 2 && wanted.size() == 1 && shape[1] == 1) shape.pop_back(); // biases of convolutions
    if (shape != wanted)
      throw Error(fmt::format("{}: tensor {} is {}, expected [{}]", file.file_name, name, view.describe(),
                              fmt::join(wanted, ", ")));
    const auto values = dequantize(view);
    if (!values) throw Error(fmt::format("{}: tensor {}: {}", file.file_name, name, values.error()));
    Tensor into = weight;
    into.set(*values);
  }
}

SpeechFile of_whisper_cpp(const std::string& path) {
  auto opened = open_whisper_file(path);
  if (!opened) throw Error(opened.error());
  const WhisperFile& file = *opened;
  check_sizes(file);
  check_filters(file);
  SpeechFile out;
  out.config = {.mels = file.mels,
                .audio_context = file.audio_context,
                .width = file.audio_width,
                .heads = file.audio_heads,
                .audio_layers = file.audio_layers,
                .text_layers = file.text_layers,
                .text_context = file.text_context,
                .vocabulary = file.vocabulary};
  out.tokenizer = whisper_tokenizer(file).value();
  out.identity = file.file->identity();
  out.load = [file = std::make_shared<const WhisperFile>(std::move(*opened))](
                 const std::map<std::string, Tensor>& weights) { load_values(*file, weights); };
  return out;
}

} // namespace

SpeechFile open_speech_file(const std::string& path) {
  std::string head(4, '\0');
  if (std::ifstream in(path, std::ios::binary); in.read(head.data(), 4) && is_whisper_file(head))
    return of_whisper_cpp(path);
  return of_transformers(path);
}

} // namespace luminal::models
