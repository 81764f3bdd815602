// formats/moondream_config.cpp -- the object "config" in the config.json of a Moondream; what it leaves out
// has the value of the published models.
#include "formats/moondream_config.h"
#include "formats/json.h"
#include "formats/model_config_check.h"

namespace luminal {
namespace {

using namespace detail;

/// Members of an object in "config"; an object that is not there has none.
class MoondreamPart {
public:
  MoondreamPart(const Json& json, std::string_view name, std::string_view file) : file_(file) {
    json.as_object(file, "the configuration");
    if (const Json* inner = json.find("config")) part_ = inner->find(name);
    if (part_ != nullptr) part_->as_object(file, in_quotes(name));
  }
  const Json* find(std::string_view key) const { return part_ == nullptr ? nullptr : part_->find(key); }
  int64_t integer(std::string_view key, int64_t otherwise, int64_t most = 1 << 24) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    const int64_t number = value->as_int(file_, in_quotes(key));
    if (number < 0 || number > most)
      refuse_at(file_, value->offset,
                fmt::format("{} is {}, expected 0 to {}", in_quotes(key), number, most));
    return number;
  }
  static void tokens(const Json* value, std::string_view key, std::string_view file,
                     std::vector<int32_t>& out) {
    if (value == nullptr) return;
    out.clear();
    for (const Json& item : value->as_array(file, in_quotes(key))) {
      const int64_t id = item.as_int(file, in_quotes(key));
      if (id < 0 || id > INT32_MAX)
        refuse_at(file, item.offset, fmt::format("{} has {}, expected token ids", in_quotes(key), id));
      out.push_back(int32_t(id));
    }
  }

private:
  const Json* part_ = nullptr;
  std::string_view file_;
};

ModelConfig text_of(const Json& json, std::string_view file) {
  const MoondreamPart in(json, "text", file), tokenizer(json, "tokenizer", file);
  ModelConfig c;
  c.architecture = "phi2"; // what it is; the name of the whole follows
  if (const Json* group = in.find("group_size"))
    refuse_at(file, group->offset, "text weights in four bits of torchao, expected the plain ones (or GGUF)");
  c.hidden_size = in.integer("dim", 2048);
  c.intermediate_size = in.integer("ff_dim", 8192, 1 << 26);
  c.num_layers = in.integer("n_layers", 24, 1 << 14);
  c.num_heads = in.integer("n_heads", 32, 1 << 16);
  c.num_kv_heads = in.integer("n_kv_heads", c.num_heads, 1 << 16);
  c.vocab_size = in.integer("vocab_size", 51200, 1 << 30);
  c.context_length = in.integer("max_context", 2048, 1 << 30);
  settle_architecture(c, true);
  if (c.num_heads < 1 || c.hidden_size % c.num_heads != 0)
    refuse(file, fmt::format("hidden size {} and {} heads, expected a multiple", c.hidden_size, c.num_heads));
  c.head_dim = c.hidden_size / c.num_heads;
  c.rope_dim = c.head_dim / 2;
  c.rms_norm_eps = 1e-5;
  c.attention_bias = c.mlp_bias = true;
  const int64_t end = tokenizer.integer("eos_id", 50256, INT32_MAX);
  c.bos_tokens = {int32_t(tokenizer.integer("bos_id", end, INT32_MAX))};
  c.eos_tokens = {int32_t(end)};
  c.dtype = StorageType::bf16;
  check_model_config(c, file);
  if (const Json* type = json.find("model_type")) c.architecture = type->as_string(file, "\"model_type\"");
  return c;
}

MoondreamConfig whole_of(const Json& json, std::string_view file, bool starmie) {
  const MoondreamPart in(json, "vision", file), tokenizer(json, "tokenizer", file);
  MoondreamConfig c;
  c.width = in.integer("enc_dim", c.width);
  c.layers = in.integer("enc_n_layers", c.layers, 1 << 10);
  c.heads = in.integer("enc_n_heads", c.heads, 1 << 12);
  c.inner = in.integer("enc_ff_dim", c.inner);
  c.patch = in.integer("enc_patch_size", c.patch, 1 << 10);
  c.crop = in.integer("crop_size", c.crop, 1 << 12);
  c.most_tiles = in.integer("max_crops", c.most_tiles, 1 << 8);
  c.overlap = in.integer("overlap_margin", c.overlap, 1 << 10);
  if (in.integer("in_channels", 3) != 3) refuse(file, "pictures without 3 channels");
  if (c.width < 1 || c.layers < 1 || c.heads < 1 || c.inner < 1 || c.width % c.heads != 0)
    refuse(file, fmt::format("a vision transformer of {} layers, width {}, {} heads, {} inner elements",
                             c.layers, c.width, c.heads, c.inner));
  if (c.patch < 1 || c.crop < c.patch || c.crop % c.patch != 0 || 2 * c.overlap >= c.side() ||
      c.most_tiles < 1)
    refuse(file, fmt::format("pictures of {} pixels a side in patches of {}, up to {} tiles that overlap by "
                             "{} patches",
                             c.crop, c.patch, c.most_tiles, c.overlap));
  if (starmie) {
    c.begin = 0;
    c.question = {1, 15381, 2};
    c.answer = {3};
    c.caption = {1, 32708, 2, 6382, 3};
  }
  c.begin = int32_t(tokenizer.integer("bos_id", c.begin, INT32_MAX));
  const Json* templates = tokenizer.find("templates");
  if (templates == nullptr) return c;
  templates->as_object(file, "\"templates\"");
  if (const Json* query = templates->find("query")) {
    query->as_object(file, "\"query\"");
    MoondreamPart::tokens(query->find("prefix"), "prefix", file, c.question);
    MoondreamPart::tokens(query->find("suffix"), "suffix", file, c.answer);
  }
  if (const Json* caption = templates->find("caption")) {
    caption->as_object(file, "\"caption\"");
    MoondreamPart::tokens(caption->find("normal"), "normal", file, c.caption);
  }
  return c;
}

} // namespace

Result<ModelConfig> parse_moondream_text(std::string_view config_json, std::string_view file_name) {
  return guarded(file_name, [&] { return text_of(parse_json(config_json, file_name), file_name); });
}

Result<MoondreamConfig> parse_moondream_config(std::string_view config_json, std::string_view file_name,
                                               bool starmie) {
  return guarded(file_name, [&] { return whole_of(parse_json(config_json, file_name), file_name, starmie); });
}

} // namespace luminal
