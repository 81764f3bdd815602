// models/moondream.h -- Moondream 2 (https://github.com/vikhyat/moondream): a picture and a question give an
// answer. A vision transformer sees the whole picture and tiles of it; a small network makes of each of its
// patches a row that stands in a text model of Phi's kind as the embedding of a token does.
#pragma once
#include "formats/image.h"
#include "formats/moondream_config.h"
#include "models/llama.h"
#include <array>

namespace luminal::models {

/// Tiles down and across of a picture of so many pixels (margins not counted), each `window` wide: about
/// `most`, as near to the picture's form as they get.
std::array<int64_t, 2> picture_tiles(int64_t height, int64_t width, int64_t window, int64_t most);

class Moondream {
public:
  /// A Hugging Face folder, with the names of tensors of 2025 or of 2024.
  static bool is_one(const ModelFile& file) { return file.architecture == "moondream1"; }
  /// `projector`: the path of the vision part where `file` is a GGUF of the text model (architecture phi2),
  /// as for llama.cpp; else empty. Throws Error where the file has another architecture, or something is
  /// missing or of another shape. The bytes of `file` are shared.
  Moondream(const ModelFile& file, const std::string& projector);

  /// The text model by the names of GGUF, architecture phi2.
  const ModelFile& text() const { return text_; }
  const MoondreamConfig& config() const { return config_; }
  /// Rows of a picture: LlamaOptions::image_rows.
  int64_t rows() const { return config_.side() * config_.side(); }
  /// Sets in the options of the text model what a picture needs. Throws Error where the context is too short.
  void prepare(LlamaOptions& options) const;
  /// The prompt: the begin token, the picture, the question (empty: a description is asked for).
  std::vector<int32_t> prompt(const std::string& question) const;
  /// Several questions about a picture (false: about none), each but the last with the answer that was given.
  struct Turn {
    std::string question, answer;
  };
  std::vector<int32_t> prompt(std::span<const Turn> turns, bool picture) const;

  /// Makes the program of the vision part.
  void compile(int threads, bool cache = true);
  /// The rows [rows(), hidden size of the text model] of a picture of 3 channels. After compile().
  std::vector<float> rows_of(const Image& picture);
  /// What the transformer sees of normalised pixels f32 [3, crop, crop]: [rows(), width].
  std::vector<float> features(std::span<const float> pixels);
  int64_t vision_bytes() const; ///< of its weights

private:
  void open_folder(const ModelFile& file);
  void open_projector(const std::string& path);
  Tensor weight(const std::string& name, std::vector<int64_t> shape);
  Tensor linear(const Tensor& x, const std::string& name, int64_t out);
  Tensor norm(const Tensor& x, const std::string& name);
  Tensor attention(const Tensor& x, const std::string& block);
  void make_transformer();
  void make_projection();
  std::vector<float> pooled_tiles(const Image& picture, const std::vector<float>& whole);

  ModelFile text_, vision_; ///< both by the names of GGUF
  MoondreamConfig config_;
  Graph graph_, projection_; ///< pixels to features; features to rows
  Graph* graph_of_weights_ = nullptr;
  Tensor pixels_, features_, joined_, rows_;
  bool joins_ = true; ///< the projection reads features of the whole and of the tiles
};

} // namespace luminal::models
