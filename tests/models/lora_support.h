// models/lora_support.h -- adapters as files, and weights changed by hand.
#pragma once
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/util.h"
#include "models/llama.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <random>

namespace luminal::models::lora_support {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  bool one_axis = false; ///< a vector of `columns`
  float& at(int64_t r, int64_t c) { return values[size_t(r * columns + c)]; }
  float at(int64_t r, int64_t c) const { return values[size_t(r * columns + c)]; }
};
using Tensors = std::map<std::string, Matrix>;

inline Matrix random_matrix(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  Matrix out{rows, columns, std::vector<float>(size_t(rows * columns))};
  for (float& value : out.values) value = float(int32_t(random() % 2001) - 1000) * 3e-4f;
  return out;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out{a.rows, b.columns, std::vector<float>(size_t(a.rows * b.columns))};
  for (int64_t r = 0; r < a.rows; r++)
    for (int64_t c = 0; c < b.columns; c++) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; k++) sum += double(a.at(r, k)) * double(b.at(k, c));
      out.at(r, c) = float(sum);
    }
  return out;
}

inline Matrix transposed(const Matrix& a) {
  Matrix out{a.columns, a.rows, a.values};
  for (int64_t r = 0; r < a.rows; r++)
    for (int64_t c = 0; c < a.columns; c++) out.at(c, r) = a.at(r, c);
  return out;
}

inline void add(Matrix& to, const Matrix& what, double factor) {
  ASSERT_EQ(to.values.size(), what.values.size());
  for (size_t i = 0; i < to.values.size(); i++)
    to.values[i] = float(double(to.values[i]) + factor * double(what.values[i]));
}

/// All tensors of a file as f32; those of more axes than two by rows.
inline Tensors values_of(const ModelFile& file) {
  Tensors out;
  for (const TensorView& view : file.tensors) {
    const int64_t columns = view.shape.empty() ? 1 : view.shape.back();
    out[view.name] = {view.elements() / columns, columns, dequantize(view).value(), view.shape.size() == 1};
  }
  return out;
}

inline TensorView view_of(const std::string& name, const Matrix& m) {
  TensorView view;
  view.name = name;
  view.shape = m.one_axis ? std::vector<int64_t>{m.columns} : std::vector<int64_t>{m.rows, m.columns};
  view.bytes = std::as_bytes(std::span(m.values));
  return view;
}

inline void save_tensors(const std::string& path, const Tensors& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) views.push_back(view_of(name, tensor));
  ASSERT_TRUE(save_safetensors(path, views));
}

/// B A of a module (PEFT) or weight (GGUF).
struct Pair {
  std::string module;
  Matrix a, b;
};

struct PeftOptions {
  int64_t rank = 2;
  double alpha = 2;
  bool tables = false; ///< pairs are of tables of embeddings
  std::string more;    ///< of the configuration
  std::vector<std::pair<std::string, Matrix>> values = {};
};
/// As PEFT saves an adapter.
inline void save_peft(const std::string& folder, const std::vector<Pair>& pairs, const PeftOptions& options) {
  std::filesystem::create_directories(folder);
  Tensors tensors;
  for (const Pair& pair : pairs) {
    const std::string name = "base_model.model." + pair.module;
    tensors[name + (options.tables ? ".lora_embedding_A" : ".lora_A.weight")] = pair.a;
    tensors[name + (options.tables ? ".lora_embedding_B" : ".lora_B.weight")] = pair.b;
  }
  for (const auto& [name, value] : options.values) tensors["base_model.model." + name] = value;
  save_tensors(folder + "/adapter_model.safetensors", tensors);
  ASSERT_TRUE(write_file(folder + "/adapter_config.json",
                         fmt::format(R"({{"peft_type":"LORA","r":{},"lora_alpha":{}{}}})", options.rank,
                                     options.alpha, options.more)));
}

struct AdapterOptions {
  double alpha = 2;
  std::string architecture = "llama";
  int64_t experts = 0; ///< of which the matrices hold all rows
};
/// As llama.cpp's convert_lora_to_gguf.py writes one.
inline void save_adapter(const std::string& path, const std::vector<Pair>& pairs,
                         const AdapterOptions& options) {
  std::vector<TensorView> views;
  for (const Pair& pair : pairs)
    for (const auto& [ending, matrix] : {std::pair{".lora_a", &pair.a}, std::pair{".lora_b", &pair.b}}) {
      views.push_back(view_of(pair.module + ending, *matrix));
      if (options.experts > 0)
        views.back().shape = {options.experts, matrix->rows / options.experts, matrix->columns};
    }
  const std::vector<std::pair<std::string, GgufValue>> metadata{
      {"general.architecture", GgufValue::of_string(options.architecture)},
      {"general.type", GgufValue::of_string("adapter")},
      {"adapter.type", GgufValue::of_string("lora")},
      {"adapter.lora.alpha", GgufValue::of_f32(float(options.alpha))}};
  ASSERT_TRUE(save_gguf(path, metadata, views));
}

} // namespace luminal::models::lora_support
