// models/convert_plan.cpp -- the tensors of a model by the names and in the order of another format.
#include "models/convert_plan.h"
#include "formats/json.h"
#include "formats/quants.h"
#include "formats/tokenizer_save.h"
#include "luminal/error.h"
#include "models/decoder_weights.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace luminal::models {
namespace {

std::string bytes_of(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
}

std::string as_floats(const TensorView& view) {
  const auto values = dequantize(view);
  if (!values) throw Error(values.error());
  return {reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float)};
}

std::string as_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string moved(std::string floats, double by) {
  for (size_t i = 0; i < floats.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, floats.data() + i, sizeof(float));
    value = static_cast<float>(value + by);
    std::memcpy(floats.data() + i, &value, sizeof(float));
  }
  return floats;
}

std::string transposed(const std::string& bytes, int64_t rows, int64_t columns) {
  const size_t element = bytes.size() / size_t(rows * columns);
  std::string out(bytes.size(), '\0');
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      std::memcpy(out.data() + size_t(c * rows + r) * element,
                  bytes.data() + size_t(r * columns + c) * element, element);
  return out;
}

bool is_norm(std::string_view gguf_name) { return gguf_name.find("norm") != std::string_view::npos; }

/// GGUF's name of a family of Hugging Face.
std::string gguf_architecture(const ModelConfig& config, const std::string& file) {
  const std::string_view name = gguf_family(config);
  if (name.empty())
    throw Error(
        fmt::format("{}: models of the architecture {} are not written as GGUF", file, config.architecture));
  return std::string(name);
}

/// Tables that are computed, not read.
bool is_computed(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with(".masked_bias") ||
         (name.ends_with(".attn.bias")) || name.starts_with("rope_f");
}

void refuse_left(const ModelFile& file, const std::set<std::string>& used) {
  std::vector<std::string> left;
  for (const TensorView& view : file.tensors)
    if (!used.contains(view.name) && !is_computed(view.name)) left.push_back(view.name);
  if (left.empty()) return;
  const size_t shown = std::min<size_t>(left.size(), 8);
  throw Error(fmt::format("{}: {} tensors that a model of the architecture {} does not have: {}{}", file.path,
                          left.size(), file.require_config().architecture,
                          fmt::join(left.begin(), left.begin() + long(shown), ", "),
                          left.size() > shown ? ", .." : ""));
}

/// Factors of rotary frequencies, which GGUF has as tensors.
void add_rotary_factors(const ModelConfig& config, ConvertPlan& plan) {
  const auto add = [&](const char* name, const std::vector<float>& factors) {
    plan.tensors.push_back(
        {name, StorageType::f32, {int64_t(factors.size())}, [factors] { return as_floats(factors); }});
  };
  const RopeScaling& s = config.rope_scaling;
  if (s.kind == RopeScaling::Kind::longrope) {
    add("rope_factors_long.weight", s.long_factors);
    add("rope_factors_short.weight", s.short_factors);
  } else if (s.kind == RopeScaling::Kind::llama3) {
    ModelConfig plain = config;
    plain.rope_scaling = {};
    const auto before = rope_table(plain).inverse_frequencies,
               scaled = rope_table(config).inverse_frequencies;
    std::vector<float> factors;
    for (size_t i = 0; i < before.size(); i++) factors.push_back(float(before[i] / scaled[i]));
    add("rope_freqs.weight", factors);
  }
}

/// Rows of the table of embeddings that the tokenizer does not know are tokens without use.
void fill_up(std::vector<std::pair<std::string, GgufValue>>& metadata, int64_t rows,
             const std::string& file) {
  for (auto& [key, value] : metadata) {
    auto* const array = std::get_if<GgufArray>(&value.value);
    if (array == nullptr || key == "tokenizer.ggml.merges") continue;
    if (int64_t(array->size()) > rows)
      throw Error(fmt::format("{}: {} tokens for {} rows of embeddings", file, array->size(), rows));
    std::visit(
        [&](auto& items) {
          using Item = typename std::decay_t<decltype(items)>::value_type;
          for (int64_t i = int64_t(items.size()); i < rows; i++) {
            if constexpr (std::is_same_v<Item, std::string>)
              items.push_back(fmt::format("[PAD{}]", i));
            else if constexpr (std::is_same_v<Item, int64_t>)
              items.push_back(5); // unused
            else if constexpr (std::is_same_v<Item, double>)
              items.push_back(-1e9);
          }
        },
        array->items);
  }
}

} // namespace

std::string with_rotary_pairs(std::string_view bytes, int64_t rows, int64_t heads, bool back) {
  const int64_t head = rows / heads, half = head / 2;
  const size_t row = bytes.size() / size_t(rows);
  std::string out(bytes.size(), '\0');
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < half; i++)
      for (int64_t side = 0; side < 2; side++) {
        const auto apart = size_t(h * head + side * half + i), beside = size_t(h * head + 2 * i + side);
        std::memcpy(out.data() + (back ? apart : beside) * row, bytes.data() + (back ? beside : apart) * row,
                    row);
      }
  return out;
}

ConvertPlan plan_of_gguf(const ModelFile& opened) {
  ConvertPlan plan;
  auto gguf = open_gguf_parts(opened.path, plan.files);
  if (!gguf) throw Error(gguf.error());
  plan.changed_bytes = opened.changed_bytes;
  if (opened.config) {
    plan.config = *opened.config;
  } else { // not a decoder: the number of layers is all that a mixture asks for
    const auto architecture = gguf->string("general.architecture");
    if (architecture && *architecture)
      if (const auto layers = gguf->integer(**architecture + ".block_count"); layers && *layers)
        plan.config.num_layers = **layers;
  }
  for (auto& [key, value] : gguf->metadata)
    if (!key.starts_with("split.") && key != "general.alignment")
      plan.metadata.emplace_back(key, std::move(value));
  for (const TensorView& view : opened.tensors) {
    plan.bytes += view.bytes.size();
    plan.tensors.push_back({view.name, view.type, view.shape, [view] { return bytes_of(view); }});
  }
  return plan;
}

ConvertPlan plan_of_folder(const ModelFile& file) {
  const std::string& path = file.path;
  ConvertPlan plan;
  plan.config = file.require_config();
  plan.files = file.files;
  plan.changed_bytes = file.changed_bytes;
  const ModelConfig& c = plan.config;
  const std::string architecture = gguf_architecture(c, path);
  plan.metadata = metadata_of(c, architecture);
  if (!file.tokenizer)
    throw Error(fmt::format("{} (a GGUF file has its tokenizer inside)", file.tokenizer_error));
  auto tokens = tokenizer_metadata(*file.tokenizer, path);
  if (!tokens) throw Error(tokens.error());
  fill_up(*tokens, c.vocab_size, path);
  plan.metadata.insert(plan.metadata.end(), tokens->begin(), tokens->end());
  if (file.chat_template)
    plan.metadata.emplace_back("tokenizer.chat_template", GgufValue::of_string(*file.chat_template));
  const bool gpt2 = c.architecture == "gpt2", neighbours = architecture == "llama";
  const std::string inside = gpt2 ? "transformer." : "model.";
  const std::string prefix =
      file.find(part_name(c, false, Part::embedding, -1) + ".weight") == nullptr ? inside : "";
  std::set<std::string> used;
  each_part(c, [&](Part part, int64_t layer, const char* kind) {
    const std::string base = part_name(c, false, part, layer);
    if (base.empty()) return;
    const std::string name = (part == Part::head ? "" : prefix) + base + kind,
                      to = part_name(c, true, part, layer) + kind;
    if (is_experts(part)) {
      std::vector<TensorView> each;
      for (int64_t e = 0; e < c.num_experts; e++) {
        const TensorView* view = file.find(fmt::format(fmt::runtime(name), e));
        if (view == nullptr) return;
        used.insert(view->name);
        plan.bytes += view->bytes.size();
        each.push_back(*view);
      }
      if (each.empty()) return;
      std::vector<int64_t> shape = each[0].shape;
      shape.insert(shape.begin(), c.num_experts);
      plan.tensors.push_back({to, each[0].type, shape, [each] {
                                std::string bytes;
                                for (const TensorView& view : each) bytes += bytes_of(view);
                                return bytes;
                              }});
      return;
    }
    const TensorView* found = file.find(name);
    if (found == nullptr || (part == Part::head && c.tied_embeddings)) {
      if (found != nullptr) used.insert(name);
      return;
    }
    const TensorView& view = *found;
    used.insert(name);
    plan.bytes += view.bytes.size();
    PlannedTensor out{to, view.type, view.shape, [view] { return bytes_of(view); }};
    const int64_t heads = part == Part::q ? c.num_heads : part == Part::k ? c.num_kv_heads : 0;
    if (view.shape.size() == 1) { // norms and biases are f32 there
      out.type = StorageType::f32;
      const double offset = is_norm(to) ? c.norm_offset : 0;
      out.bytes = [view, offset] { return moved(as_floats(view), offset); };
    }
    if (gpt2 && view.shape.size() == 2 && is_transposed(part)) {
      std::swap(out.shape[0], out.shape[1]);
      out.bytes = [view] { return transposed(bytes_of(view), view.shape[0], view.shape[1]); };
    } else if (neighbours && heads > 0) {
      out.bytes = [bytes = out.bytes, rows = view.shape[0], heads] {
        return with_rotary_pairs(bytes(), rows, heads, false);
      };
    }
    plan.tensors.push_back(std::move(out));
  });
  refuse_left(file, used);
  add_rotary_factors(c, plan);
  return plan;
}

ConvertPlan plan_of_gguf_as_folder(const ModelFile& file) {
  ConvertPlan plan;
  plan.config = file.require_config();
  plan.files = file.files;
  plan.changed_bytes = file.changed_bytes;
  const ModelConfig of_file = plan.config;
  ModelConfig& c = plan.config;
  c.architecture = hugging_face_type(of_file);
  const bool gpt2 = c.architecture == "gpt2", gemma = c.architecture.starts_with("gemma");
  const std::string prefix = gpt2 ? "transformer." : "model.";
  std::set<std::string> used;
  each_part(c, [&](Part part, int64_t layer, const char* kind) {
    const std::string base = part_name(of_file, true, part, layer);
    const std::string to_base = part_name(c, false, part, layer);
    // One tensor of Phi-3 is gate and up, and has the name of the second.
    const bool has_gate = file.find(part_name(of_file, true, Part::gate, layer) + ".weight") != nullptr;
    if (base.empty() || to_base.empty() || (part == Part::gate_up && (has_gate || gpt2)) ||
        (part == Part::up && !has_gate && !gpt2))
      return;
    const TensorView* found = file.find(base + kind);
    if (found == nullptr) return;
    const TensorView& view = *found;
    used.insert(view.name);
    plan.bytes += view.bytes.size();
    const std::string to = (part == Part::head ? "" : prefix) + to_base + kind;
    if (is_experts(part)) {
      const std::vector<int64_t> shape(view.shape.begin() + 1, view.shape.end());
      const size_t part_bytes = view.bytes.size() / size_t(view.shape[0]);
      for (int64_t e = 0; e < view.shape[0]; e++)
        plan.tensors.push_back({fmt::format(fmt::runtime(to), e), view.type, shape, [view, e, part_bytes] {
                                  return bytes_of(view).substr(size_t(e) * part_bytes, part_bytes);
                                }});
      return;
    }
    PlannedTensor out{to, view.type, view.shape, [view] { return bytes_of(view); }};
    const int64_t heads = part == Part::q ? c.num_heads : part == Part::k ? c.num_kv_heads : 0;
    if (gemma && is_norm(base)) {
      out.type = StorageType::f32;
      out.bytes = [view] { return moved(as_floats(view), -1); };
    } else if (gpt2 && view.shape.size() == 2 && is_transposed(part)) {
      out.type = StorageType::f32; // blocks do not lie along columns
      std::swap(out.shape[0], out.shape[1]);
      out.bytes = [view] { return transposed(as_floats(view), view.shape[0], view.shape[1]); };
    } else if (of_file.rope_interleaved && !of_file.latent && heads > 0) {
      out.bytes = [view, heads] { return with_rotary_pairs(bytes_of(view), view.shape[0], heads, true); };
    }
    plan.tensors.push_back(std::move(out));
  });
  refuse_left(file, used);
  return plan;
}

std::string tokenizer_config_of(const ModelFile& file) {
  const Tokenizer& tokenizer = file.require_tokenizer();
  std::string out = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"";
  const auto put = [&](const char* key, const std::string& value) {
    out += fmt::format(",\n  \"{}\": {}", key, value);
  };
  const auto token = [&](const char* key, std::optional<int32_t> id) {
    if (id) put(key, detail::json_string(tokenizer.token_text(*id)));
  };
  token("bos_token", tokenizer.bos());
  if (!tokenizer.eos().empty()) token("eos_token", tokenizer.eos()[0]);
  token("unk_token", tokenizer.unknown());
  token("pad_token", tokenizer.pad());
  if (file.chat_template) put("chat_template", detail::json_string(*file.chat_template));
  return out + "\n}\n";
}

} // namespace luminal::models
