// tests/models/stories_test.cpp -- a real Llama of 260 thousand parameters: file formats, plan and
// interpreter all give the reference's tokens and logits.
#include "formats/safetensors.h"
#include "ir/interp.h"
#include "models/data.h"
#include "models/generator.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace luminal::models::stories_test {
namespace {

struct Reference {
  std::vector<int32_t> tokens; // [201], from the begin token on: tokens[i + 1] follows tokens[0..i]
  std::vector<float> logits;   // [64, 512]
};

Reference load_reference(const std::string& data) {
  auto file = open_safetensors(data + "/llm/ref_stories260K.safetensors").value();
  Reference reference;
  for (const TensorView& t : file.tensors) {
    if (t.name == "greedy_tokens") {
      reference.tokens.resize(t.bytes.size() / 4);
      std::memcpy(reference.tokens.data(), t.bytes.data(), t.bytes.size());
    }
    if (t.name == "logits_first64") {
      reference.logits.resize(t.bytes.size() / 4);
      std::memcpy(reference.logits.data(), t.bytes.data(), t.bytes.size());
    }
  }
  return reference;
}

/// A Hugging Face folder made of links.
std::string hugging_face_folder(const std::string& data) {
  auto folder = std::filesystem::temp_directory_path() / ("luminal_stories_hf_" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(std::filesystem::absolute(data + "/llm/stories260K.hf.safetensors"),
                                  folder / "model.safetensors");
  std::filesystem::create_symlink(std::filesystem::absolute(data + "/llm/stories260K.config.json"),
                                  folder / "config.json");
  return folder;
}

/// The tokens from the begin token on (as the reference), and the logits after each of the first
/// 64.
Reference generate(const std::string& path, int threads, int64_t chunk) {
  ModelFile file = open_model(path).value();
  GeneratorOptions options;
  options.compile.threads = threads;
  options.model.chunk = chunk;
  options.model.context = 256; // the GGUF declares 128, the reference goes on to 201
  Generator generator(file, options);
  Reference out;
  int32_t token = 1;
  for (int i = 0; i < 201; i++) {
    out.tokens.push_back(token);
    auto logits = generator.feed({&token, 1});
    if (i < 64) out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    token = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  return out;
}

void expect_same(const Reference& got, const Reference& want) {
  size_t n = std::min(got.tokens.size(), want.tokens.size());
  ASSERT_GE(n, 200u);
  // The reference may or may not list the begin token first.
  bool begins = want.tokens[0] == 1;
  for (size_t i = 0; i + 1 < n; i++)
    ASSERT_EQ(got.tokens[begins ? i : i + 1], want.tokens[i]) << "token " << i;
  ASSERT_EQ(got.logits.size(), want.logits.size());
  float worst = 0;
  for (size_t i = 0; i < want.logits.size(); i++) {
    float error = std::abs(got.logits[i] - want.logits[i]);
    ASSERT_FALSE(std::isnan(error)) << i;
    worst = std::max(worst, error);
  }
  EXPECT_LE(worst, 1e-4f);
}

TEST(Stories, GgufGivesTheReference) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  expect_same(generate(data + "/llm/stories260K.gguf", 1, 64), load_reference(data));
}

TEST(Stories, HuggingFaceFolderGivesTheReference) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  std::string folder = hugging_face_folder(data);
  expect_same(generate(folder, 1, 64), load_reference(data));
  std::filesystem::remove_all(folder);
}

TEST(Stories, ThreadCountsAreBitIdentical) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  Reference one = generate(data + "/llm/stories260K.gguf", 1, 64),
            two = generate(data + "/llm/stories260K.gguf", 2, 64),
            three = generate(data + "/llm/stories260K.gguf", 3, 64);
  EXPECT_EQ(one.tokens, two.tokens);
  EXPECT_EQ(one.tokens, three.tokens);
  EXPECT_EQ(std::memcmp(one.logits.data(), two.logits.data(), one.logits.size() * 4), 0);
  EXPECT_EQ(std::memcmp(one.logits.data(), three.logits.data(), one.logits.size() * 4), 0);
}

TEST(Stories, PromptInChunksOfAnySizeGivesTheSameLogits) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  Reference reference = load_reference(data);
  std::vector<int32_t> prompt(reference.tokens.begin(), reference.tokens.begin() + 50);
  if (prompt[0] != 1) prompt.insert(prompt.begin(), 1), prompt.pop_back();
  ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  for (int64_t chunk : {1, 7, 16, 50, 64}) {
    GeneratorOptions options;
    options.compile.threads = 1;
    options.model.chunk = chunk;
    Generator generator(file, options);
    auto logits = generator.feed(prompt);
    for (size_t i = 0; i < logits.size(); i++)
      ASSERT_LE(std::abs(logits[i] - reference.logits[49 * 512 + i]), 1e-4f) << "chunk " << chunk;
  }
}

/// All 201 positions in one step: the most likely token after each is the next of the reference, so
/// greedy text is the reference's.
TEST(Stories, InterpreterGivesTheReference) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  Reference reference = load_reference(data);
  ASSERT_EQ(reference.tokens.size(), 201u);
  ASSERT_EQ(reference.tokens[0], 1);
  ASSERT_EQ(reference.logits.size(), 64u * 512);
  ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  constexpr int64_t length = 201;
  Llama model = make_llama(file, {.context = 256, .chunk = length, .all_logits = true});
  Module module = model.graph.state()->snapshot();
  Bindings bindings;
  bindings.symbols = {{"n", length}, {"past", 0}};
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value;
    value.dtype = input.type.dtype;
    for (Expr extent : input.type.shape)
      value.shape.push_back(extent.is_constant() ? extent.value() : length);
    value.data.resize(size_t(storage_bytes(value.dtype, value.count())));
    if (input.role == Role::weight) {
      auto bytes = model.graph.state()->data.at(input.name).bytes;
      value.data.assign(bytes.begin(), bytes.end());
    } else if (input.name == "tokens") {
      std::memcpy(value.data.data(), reference.tokens.data(), length * 4);
    }
    bindings.inputs[input.name] = std::move(value);
  }
  Interpreter interpreter(module, bindings);
  HostTensor logits = interpreter.result(module.entry().results[0].name);
  ASSERT_EQ(logits.count(), length * 512);
  for (int64_t i = 0; i < 64 * 512; i++)
    ASSERT_LE(std::abs(logits.at(i) - double(reference.logits[size_t(i)])), 1e-4) << i;
  for (int64_t position = 0; position + 1 < length; position++) {
    int64_t best = 0;
    for (int64_t i = 1; i < 512; i++)
      if (logits.at(position * 512 + i) > logits.at(position * 512 + best)) best = i;
    ASSERT_EQ(best, reference.tokens[size_t(position) + 1]) << "after position " << position;
  }
}

} // namespace
} // namespace luminal::models::stories_test
