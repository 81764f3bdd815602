// bench/formats_bench.cpp -- reading and writing of formats: encoding of texts by the tokenizers in
// ../shared/data/tokenizers, on one core. `bytes_per_second` is the text's.
#include "formats/gguf.h"
#include "formats/tokenizer.h"
#include <benchmark/benchmark.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace {

using namespace luminal;

const std::string data = "../shared/data/";

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

/// What the tree says about itself: prose, and C++.
std::string text_of(const std::string& folder, const std::string& extension) {
  std::string out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == extension && out.size() < 4'000'000)
      out += content(entry.path().string());
  return out;
}

Tokenizer open(const std::string& name) {
  const std::string path = data + "tokenizers/" + name, bytes = content(path);
  if (name.ends_with(".gguf")) return tokenizer_from_gguf(open_gguf(path).value()).value();
  if (name.ends_with(".tiktoken")) return tokenizer_from_tiktoken(bytes, path).value();
  if (name.ends_with(".txt")) return tokenizer_from_vocabulary_lines(bytes, path).value();
  if (name.ends_with(".model")) return tokenizer_from_sentencepiece(bytes, path).value();
  return tokenizer_from_json(bytes, path).value();
}

void encode(benchmark::State& state, const std::string& name, const std::string& text) {
  const Tokenizer tokenizer = open(name);
  size_t tokens = 0;
  for ([[maybe_unused]] auto _ : state) tokens += tokenizer.encode(text).size();
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) *
                                      static_cast<double>(state.iterations()) / static_cast<double>(tokens);
}

const bool registered = [] {
  for (const char* name : {"cl100k_base.tiktoken", "ggml-vocab-gpt-2.gguf", "whisper-tiny.tokenizer.json",
                           "ggml-vocab-phi-3.gguf", "phi-3-mini.tokenizer.json", "mistral-v1.tokenizer.model",
                           "bert-base-uncased-vocab.txt"}) {
    if (!std::filesystem::exists(data + "tokenizers/" + name)) continue;
    for (const auto& [kind, text] :
         {std::pair("prose", text_of("docs", ".md")), std::pair("code", text_of("src", ".cpp"))})
      benchmark::RegisterBenchmark(
          fmt::format("encode/{}/{}", name, kind).c_str(),
          [name, text = text](benchmark::State& state) { encode(state, name, text); })
          ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

} // namespace
