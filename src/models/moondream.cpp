// models/moondream.cpp -- Moondream's files by one set of names, its prompt, its vision transformer.
#include "models/moondream.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "models/weights.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::models {
namespace {

/// What files call a part: GGUF (of llama.cpp), folders of 2025, folders of 2024. {}: the number of a layer.
struct Name {
  std::string_view gguf, now, before;
};
constexpr Name text_names[] = {
    {"token_embd.weight", "text.wte", "text_model.transformer.embd.wte.weight"},
    {"output_norm", "text.post_ln", "text_model.lm_head.ln"},
    {"output", "text.lm_head", "text_model.lm_head.linear"},
    {"blk.{}.attn_norm", "text.blocks.{}.ln", "text_model.transformer.h.{}.ln"},
    {"blk.{}.attn_qkv", "text.blocks.{}.attn.qkv", "text_model.transformer.h.{}.mixer.Wqkv"},
    {"blk.{}.attn_output", "text.blocks.{}.attn.proj", "text_model.transformer.h.{}.mixer.out_proj"},
    {"blk.{}.ffn_up", "text.blocks.{}.mlp.fc1", "text_model.transformer.h.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "text.blocks.{}.mlp.fc2", "text_model.transformer.h.{}.mlp.fc2"},
};
#define VISUAL "vision_encoder.encoder.model.visual."
constexpr Name vision_names[] = {
    {"v.patch_embd", "vision.patch_emb", VISUAL "patch_embed.linear"},
    {"v.position_embd.weight", "vision.pos_emb", VISUAL "pos_embed"},
    {"v.post_ln", "vision.post_ln", VISUAL "norm"},
    {"mm.0", "vision.proj_mlp.fc1", "vision_encoder.projection.mlp.fc1"},
    {"mm.2", "vision.proj_mlp.fc2", "vision_encoder.projection.mlp.fc2"},
    {"v.blk.{}.ln1", "vision.blocks.{}.ln1", VISUAL "blocks.{}.norm1"},
    {"v.blk.{}.ln2", "vision.blocks.{}.ln2", VISUAL "blocks.{}.norm2"},
    {"v.blk.{}.attn_qkv", "vision.blocks.{}.attn.qkv", VISUAL "blocks.{}.attn.qkv"},
    {"v.blk.{}.attn_out", "vision.blocks.{}.attn.proj", VISUAL "blocks.{}.attn.proj"},
    {"v.blk.{}.ffn_up", "vision.blocks.{}.mlp.fc1", VISUAL "blocks.{}.mlp.fc1"},
    {"v.blk.{}.ffn_down", "vision.blocks.{}.mlp.fc2", VISUAL "blocks.{}.mlp.fc2"},
};
#undef VISUAL

std::string numbered(std::string_view name, int64_t layer) {
  std::string text(name);
  if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, std::to_string(layer));
  return text;
}

/// The tensors of `file` that have a name in the table, by GGUF's. `before`: the names of 2024.
ModelFile renamed(const ModelFile& file, std::span<const Name> names, int64_t layers, bool before,
                  const std::map<std::string, const TensorView*>& by_name) {
  ModelFile out;
  out.kind = ModelFileKind::gguf;
  out.path = file.path;
  out.files = file.files;
  for (const Name& name : names) {
    const std::string_view theirs = before ? name.before : name.now;
    const bool numbers = name.gguf.find("{}") != std::string_view::npos;
    const bool whole = name.gguf.ends_with(".weight"); // a parameter, not a module with a weight and a bias
    for (int64_t layer = 0; layer < (numbers ? layers : 1); layer++)
      for (const char* kind : {".weight", ".bias"}) {
        const auto at = by_name.find(numbered(theirs, layer) + (whole ? "" : kind));
        if (at == by_name.end() || (whole && kind == std::string_view(".bias"))) continue;
        TensorView view = *at->second;
        view.name = numbered(name.gguf, layer) + (whole ? "" : kind);
        out.tensors.push_back(std::move(view));
      }
  }
  out.index_names();
  return out;
}

/// The index of the pixel rows of a picture [height, width, 3] as the transformer reads them, -1..1.
std::vector<float> normalised(const Image& picture, int64_t top, int64_t left, int64_t size) {
  std::vector<float> out(size_t(3 * size * size), -1.0f); // what lies outside is black
  for (int64_t y = 0; y < std::min(size, picture.height - top); y++)
    for (int64_t x = 0; x < std::min(size, picture.width - left); x++)
      for (int64_t c = 0; c < 3; c++)
        out[size_t((c * size + y) * size + x)] =
            (float(picture.pixels[size_t(((top + y) * picture.width + left + x) * 3 + c)]) / 255 - 0.5f) /
            0.5f;
  return out;
}

} // namespace

std::array<int64_t, 2> picture_tiles(int64_t height, int64_t width, int64_t window, int64_t most) {
  if (height <= window || width <= window) return {1, 1};
  const int64_t least_down = (height + window - 1) / window, least_across = (width + window - 1) / window;
  if (least_down * least_across > most) {
    const double share = std::sqrt(double(most) / double(least_down * least_across));
    return {std::max<int64_t>(1, int64_t(double(least_down) * share)),
            std::max<int64_t>(1, int64_t(double(least_across) * share))};
  }
  int64_t down = std::max(least_down, int64_t(std::sqrt(double(most) * double(height) / double(width)))),
          across = std::max(least_across, int64_t(std::sqrt(double(most) * double(width) / double(height))));
  if (down * across > most) (across > down ? across : down) = most / std::min(down, across);
  return {std::max<int64_t>(1, down), std::max<int64_t>(1, across)};
}

Moondream::Moondream(const ModelFile& file, const std::string& projector) {
  if (is_one(file)) {
    if (!projector.empty())
      throw Error(fmt::format("{}: the folder has the vision part, {} is one more", file.path, projector));
    open_folder(file);
  } else if (file.architecture == "phi2") {
    if (projector.empty())
      throw Error(fmt::format("{}: the text model alone; --mmproj FILE names the vision part, a GGUF file "
                              "(moondream2-mmproj-f16.gguf)",
                              file.path));
    text_ = file;
    text_.require_config();
    text_.require_tokenizer();
    open_projector(projector);
  } else {
    throw Error(fmt::format("{}: a model of the architecture {}, which takes no pictures here; expected "
                            "Moondream 2: its Hugging Face folder, or its text model as GGUF (phi2) with "
                            "--mmproj",
                            file.path, file.architecture.empty() ? "?" : file.architecture));
  }
  make_transformer();
  make_projection();
}

void Moondream::open_folder(const ModelFile& file) {
  const ModelConfig& config = file.require_config();
  const Tokenizer& tokenizer = file.require_tokenizer();
  // The tokenizer of 2025 ("starmie") has its end of text as token 0, that of before behind GPT-2's words.
  const bool starmie = tokenizer.size() > 0 && tokenizer.token_text(0) == "<|endoftext|>";
  const std::string path = file.path + "/config.json";
  const auto json = read_file(path);
  if (!json) throw Error(json.error());
  auto parsed = parse_moondream_config(*json, path, starmie);
  if (!parsed) throw Error(parsed.error());
  config_ = *parsed;

  std::map<std::string, const TensorView*> by_name;
  for (const TensorView& view : file.tensors) {
    std::string name = view.name;
    if (name.starts_with("model.")) name.erase(0, 6);
    if (const size_t at = name.find("._orig_mod"); at != std::string::npos) name.erase(at, 10);
    by_name.emplace(std::move(name), &view);
  }
  const bool before = by_name.contains("text_model.transformer.embd.wte.weight");
  text_ = renamed(file, text_names, config.num_layers, before, by_name);
  vision_ = renamed(file, vision_names, config_.layers, before, by_name);
  text_.architecture = "phi2";
  text_.config = config;
  text_.config->architecture = "phi2";
  text_.config->bos_tokens = {config_.begin};
  if (starmie) text_.config->eos_tokens = {config_.begin};
  text_.tokenizer = tokenizer;
  text_.changes = "moondream text"; // the identity of a part of the files
  vision_.changes = "moondream vision";
}

void Moondream::open_projector(const std::string& path) {
  auto opened = open_model(path);
  if (!opened) throw Error(opened.error());
  vision_ = std::move(*opened);
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}, expected the vision part of Moondream 2", path, what));
  };
  if (vision_.architecture != "clip")
    refuse(fmt::format("a file of the architecture {}", vision_.architecture));
  const auto gguf = open_gguf(path);
  if (!gguf) throw Error(gguf.error());
  const auto value = [&]<class T>(Result<std::optional<T>> found, T otherwise) {
    if (!found) throw Error(found.error());
    return found->value_or(otherwise);
  };
  const std::string kind = value(gguf->string("clip.projector_type"), std::string("mlp"));
  if (kind != "mlp") refuse(fmt::format("a projector of the type {}", kind));
  if (!value(gguf->boolean("clip.use_gelu"), false)) refuse("an activation that is not GELU");
  for (const char* name : {"v.class_embd", "v.pre_ln.weight", "model.image_newline"})
    if (vision_.find(name) != nullptr) refuse(fmt::format("tensor {}, as LLaVA has it", name));
  const TensorView &patch = vision_.tensor("v.patch_embd.weight"),
                   &positions = vision_.tensor("v.position_embd.weight");
  if (patch.shape.size() != 4 || patch.shape[1] != 3 || patch.shape[2] != patch.shape[3] ||
      positions.shape.size() != 2)
    refuse(fmt::format("patches {} and positions {}", patch.describe(), positions.describe()));
  config_.width = patch.shape[0];
  config_.patch = patch.shape[2];
  config_.crop = config_.patch * int64_t(std::lround(std::sqrt(double(positions.shape[0]))));
  config_.heads = value(gguf->integer("clip.vision.attention.head_count"), config_.heads);
  config_.eps = value(gguf->real("clip.vision.attention.layer_norm_epsilon"), 1e-6);
  config_.layers = 0;
  while (vision_.find(fmt::format("v.blk.{}.ln1.weight", config_.layers)) != nullptr) config_.layers++;
  if (config_.heads < 1 || config_.width % config_.heads != 0 || config_.layers < 1 || config_.side() < 1)
    refuse(fmt::format("{} layers of width {} with {} heads", config_.layers, config_.width, config_.heads));
  // Files of 2024 call the first matrix down and the second up.
  const TensorView& up = vision_.tensor("v.blk.0.ffn_up.weight");
  if (up.shape.size() == 2 && up.shape[0] == config_.width && up.shape[1] != config_.width) {
    for (TensorView& view : vision_.tensors)
      for (const auto& [from, to] :
           {std::pair{".ffn_up.", ".ffn_down."}, std::pair{".ffn_down.", ".ffn_up."}})
        if (const size_t at = view.name.find(from); at != std::string::npos) {
          view.name.replace(at, std::string_view(from).size(), to);
          break;
        }
    vision_.index_names();
  }
  config_.inner = vision_.tensor("v.blk.0.ffn_up.weight").shape[0];
  config_.overlap = std::min(config_.overlap, (config_.side() - 1) / 2);
  const Tokenizer& tokenizer = *text_.tokenizer;
  const auto ids = [&](const char* text) { return tokenizer.encode(text, {.add_special = false}); };
  config_.question = ids("\n\nQuestion:");
  config_.answer = ids("\n\nAnswer:");
  config_.caption = ids("\n\nLong caption:");
  config_.begin =
      tokenizer.bos().value_or(text_.config->eos_tokens.empty() ? 0 : text_.config->eos_tokens[0]);
}

void Moondream::prepare(LlamaOptions& options) const {
  options.image_rows = rows();
  options.prefix = 1 + rows();
  if (options.context <= options.prefix)
    throw Error(fmt::format("a picture takes {} tokens, the context holds {}: raise --ctx", options.prefix,
                            options.context));
  options.chunk = std::max(options.chunk, options.prefix);
}

std::vector<int32_t> Moondream::prompt(const std::string& question) const {
  const Turn turn{question, ""};
  return prompt({&turn, 1}, true);
}

std::vector<int32_t> Moondream::prompt(std::span<const Turn> turns, bool picture) const {
  std::vector<int32_t> tokens{config_.begin};
  for (int64_t i = 0; picture && i < rows(); i++) tokens.push_back(int32_t(text_.config->vocab_size + i));
  const auto append = [&](const std::vector<int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  const auto append_text = [&](const std::string& text) {
    append(text_.tokenizer->encode(text, {.add_special = false, .parse_special = false}));
  };
  // Behind "Question:" stands a space.
  const std::string space = text_.tokenizer->decode(config_.question).ends_with(":") ? " " : "";
  for (size_t i = 0; i < turns.size(); i++) {
    if (turns[i].question.empty()) {
      append(config_.caption);
    } else {
      append(config_.question);
      append_text(space + turns[i].question);
      append(config_.answer);
    }
    if (i + 1 < turns.size())
      append_text(turns[i].answer.starts_with(' ') ? turns[i].answer : space + turns[i].answer);
  }
  return tokens;
}

Tensor Moondream::weight(const std::string& name, std::vector<int64_t> shape) {
  TensorView view = vision_.tensor(name);
  int64_t elements = 1, wanted = 1;
  for (const int64_t extent : view.shape) elements *= extent;
  for (const int64_t extent : shape) wanted *= extent;
  if (elements != wanted ||
      (view.shape.size() > 1 && shape.size() > 1 && view.shape.size() == shape.size() && view.shape != shape))
    throw Error(fmt::format("{}: tensor {} is {}, the configuration asks for [{}]", vision_.path, name,
                            view.describe(), fmt::join(shape, ", ")));
  view.shape = std::move(shape);
  return file_weight(*graph_of_weights_, vision_, view).cast(DType::f32);
}

Tensor Moondream::linear(const Tensor& x, const std::string& name, int64_t out) {
  const int64_t in = x.shape().back().value();
  return x.matmul(weight(name + ".weight", {out, in}).transpose()) + weight(name + ".bias", {out});
}

Tensor Moondream::norm(const Tensor& x, const std::string& name) {
  const int64_t width = x.shape().back().value();
  return x.layer_norm(-1, config_.eps) * weight(name + ".weight", {width}) + weight(name + ".bias", {width});
}

Tensor Moondream::attention(const Tensor& x, const std::string& block) {
  const int64_t width = config_.width, heads = config_.heads, n = rows();
  Tensor parts[3];
  if (vision_.find(block + "attn_qkv.weight") != nullptr) {
    const Tensor all = linear(x, block + "attn_qkv", 3 * width);
    for (int64_t i = 0; i < 3; i++) parts[i] = all.slice(1, i * width, (i + 1) * width);
  } else {
    for (int i = 0; i < 3; i++) parts[i] = linear(x, fmt::format("{}attn_{}", block, "qkv"[i]), width);
  }
  for (Tensor& part : parts) part = part.reshape({n, heads, width / heads}).transpose(0, 1);
  const double scale = 1 / std::sqrt(double(width) / double(heads));
  const Tensor mixed = (parts[0].matmul(parts[1].transpose()) * scale).softmax(-1).matmul(parts[2]);
  return linear(mixed.transpose(0, 1).reshape({n, width}), block + "attn_out", width);
}

void Moondream::make_transformer() {
  graph_of_weights_ = &graph_;
  const int64_t side = config_.side(), patch = config_.patch, width = config_.width, n = rows();
  pixels_ = graph_.tensor({3, config_.crop, config_.crop}, DType::f32, "pixels");
  const Tensor patches =
      pixels_.reshape({3, side, patch, side, patch}).permute({1, 3, 0, 2, 4}).reshape({n, 3 * patch * patch});
  Tensor x = linear(patches, "v.patch_embd", width) + weight("v.position_embd.weight", {n, width});
  for (int64_t layer = 0; layer < config_.layers; layer++) {
    const std::string block = fmt::format("v.blk.{}.", layer);
    x = x + attention(norm(x, block + "ln1"), block);
    const Tensor inner = linear(norm(x, block + "ln2"), block + "ffn_up", config_.inner).gelu_tanh();
    x = x + linear(inner, block + "ffn_down", width);
  }
  features_ = norm(x, "v.post_ln").set_name("features").keep();
}

void Moondream::make_projection() {
  graph_of_weights_ = &projection_;
  const TensorView &first = vision_.tensor("mm.0.weight"), &second = vision_.tensor("mm.2.weight");
  const int64_t hidden = text_.config->hidden_size;
  if (first.shape.size() != 2 || (first.shape[1] != config_.width && first.shape[1] != 2 * config_.width) ||
      second.shape.size() != 2 || second.shape[0] != hidden)
    throw Error(fmt::format("{}: the projection is {} and {}, expected one from {} or {} to {} elements",
                            vision_.path, first.describe(), second.describe(), config_.width,
                            2 * config_.width, hidden));
  joins_ = first.shape[1] == 2 * config_.width;
  joined_ = projection_.tensor({rows(), first.shape[1]}, DType::f32, "features");
  rows_ = linear(linear(joined_, "mm.0", first.shape[0]).gelu_tanh(), "mm.2", hidden).set_name("rows").keep();
}

void Moondream::compile(int threads, bool cache) {
  CompileOptions options;
  options.threads = threads;
  options.cache = cache;
  options.weights_id = vision_.identity();
  graph_.compile(options);
  projection_.compile(options);
}

int64_t Moondream::vision_bytes() const { return 4 * vision_.parameters(); }

std::vector<float> Moondream::features(std::span<const float> pixels) {
  pixels_.set(pixels);
  graph_.execute();
  std::vector<float> out(size_t(rows() * config_.width));
  features_.read(out.data(), DType::f32);
  return out;
}

/// The features of the tiles put together without their margins, and the means of areas of them, as many as
/// the whole picture has patches: [rows, width], those of `whole` where there is one tile.
std::vector<float> Moondream::pooled_tiles(const Image& picture, const std::vector<float>& whole) {
  const int64_t side = config_.side(), overlap = config_.overlap, patch = config_.patch,
                width = config_.width, window = side - 2 * overlap, margins = 2 * overlap * patch;
  const auto [down, across] =
      picture_tiles(picture.height - margins, picture.width - margins, window * patch, config_.most_tiles);
  if (down == 1 && across == 1) return whole; // the tile is the whole picture
  const int64_t height = down * window + 2 * overlap, length = across * window + 2 * overlap; // in patches
  const Image fitted = resized_lanczos(picture, height * patch, length * patch);
  std::vector<float> all(size_t(height * length * width));
  for (int64_t i = 0; i < down; i++)
    for (int64_t j = 0; j < across; j++) {
      const auto tile = features(normalised(fitted, i * window * patch, j * window * patch, config_.crop));
      // Inner edges are those of the neighbour.
      for (int64_t y = i == 0 ? 0 : overlap; y < (i == down - 1 ? side : side - overlap); y++)
        for (int64_t x = j == 0 ? 0 : overlap; x < (j == across - 1 ? side : side - overlap); x++)
          std::copy_n(tile.begin() + (y * side + x) * width, width,
                      all.begin() + ((i * window + y) * length + j * window + x) * width);
    }
  std::vector<float> out(size_t(rows() * width));
  for (int64_t i = 0; i < side; i++)
    for (int64_t j = 0; j < side; j++) {
      const int64_t top = i * height / side, bottom = ((i + 1) * height + side - 1) / side,
                    left = j * length / side, right = ((j + 1) * length + side - 1) / side;
      std::vector<double> sum(size_t(width), 0.0);
      for (int64_t y = top; y < bottom; y++)
        for (int64_t x = left; x < right; x++)
          for (int64_t c = 0; c < width; c++) sum[size_t(c)] += all[size_t((y * length + x) * width + c)];
      for (int64_t c = 0; c < width; c++)
        out[size_t((i * side + j) * width + c)] =
            float(sum[size_t(c)] / double((bottom - top) * (right - left)));
    }
  return out;
}

std::vector<float> Moondream::rows_of(const Image& picture) {
  const int64_t width = config_.width;
  const std::vector<float> whole =
      features(normalised(resized_lanczos(picture, config_.crop, config_.crop), 0, 0, config_.crop));
  std::vector<float> joined = whole;
  if (joins_) {
    const std::vector<float> tiles = pooled_tiles(picture, whole);
    joined.resize(2 * whole.size());
    for (int64_t row = 0; row < rows(); row++) {
      std::copy_n(whole.begin() + row * width, width, joined.begin() + 2 * row * width);
      std::copy_n(tiles.begin() + row * width, width, joined.begin() + (2 * row + 1) * width);
    }
  }
  joined_.set(joined);
  projection_.execute();
  std::vector<float> out(size_t(rows() * text_.config->hidden_size));
  rows_.read(out.data(), DType::f32);
  return out;
}

} // namespace luminal::models
