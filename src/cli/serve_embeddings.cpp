// cli/serve_embeddings.cpp -- bodies of /v1/embeddings and their answers.
#include "cli/serve_embeddings.h"
#include "base/text.h"
#include "cli/serve_api.h"
#include <cstring>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

constexpr size_t most_texts = 2048; // as OpenAI has it

[[noreturn]] void refuse_input(const std::string& parameter, const std::string& message) {
  throw ApiError{.message = message, .parameter = parameter};
}

std::string base64(const std::vector<float>& values) {
  constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < count ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; k++) out += k <= count ? letters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

/// Texts, or tokens of them.
std::vector<Json> inputs_of(const Json& body) {
  const auto input = body.find("input");
  if (input == body.end()) refuse_input("input", "input is missing: a text, a list of texts or of tokens");
  if (input->is_string()) return {*input};
  if (!input->is_array() || input->empty())
    refuse_input("input", "input is not a text, a list of texts or of tokens");
  if (input->front().is_number_integer()) return {*input};
  return {input->begin(), input->end()};
}

} // namespace

EmbeddingService::EmbeddingService(const std::string& folder, int threads)
    : name_(printable(folder.substr(folder.find_last_not_of('/') == std::string::npos
                                        ? 0
                                        : folder.rfind('/', folder.find_last_not_of('/')) + 1))),
      embedder_(folder, {.threads = threads}) {
  while (name_.ends_with('/')) name_.pop_back();
}

Json EmbeddingService::answer(const std::string& text) {
  const Json body = Json::parse(text, nullptr, false);
  if (!body.is_object()) refuse_input("", "the body is not a JSON object");
  const auto format = body.find("encoding_format");
  const bool in_base64 = format != body.end() && *format == "base64";
  if (format != body.end() && !in_base64 && *format != "float")
    refuse_input("encoding_format", "encoding_format is not \"float\" or \"base64\"");
  const auto wanted = body.find("dimensions");
  if (wanted != body.end() && *wanted != embedder_.width())
    refuse_input("dimensions", fmt::format("dimensions is {}, vectors of this model have {}", wanted->dump(),
                                           embedder_.width()));
  const std::vector<Json> inputs = inputs_of(body);
  if (inputs.size() > most_texts)
    refuse_input("input", fmt::format("input has {} texts, at most {} are taken", inputs.size(), most_texts));
  Json data = Json::array();
  int64_t tokens = 0;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < inputs.size(); i++) {
    models::Embedder::Result result;
    try {
      if (inputs[i].is_string()) {
        result = embedder_.embed(inputs[i].get<std::string>());
      } else {
        std::vector<int32_t> ids;
        if (!inputs[i].is_array()) refuse_input("input", "input is not a text, a list of texts or of tokens");
        for (const Json& id : inputs[i]) {
          if (!id.is_number_integer() || id.get<double>() < 0 ||
              id.get<double>() >= embedder_.tokenizer().size())
            refuse_input("input", "input is not a text, a list of texts or of tokens");
          ids.push_back(id.get<int32_t>());
        }
        result = embedder_.embed_tokens(ids);
      }
    } catch (const Error& error) {
      refuse_input("input", error.what());
    }
    tokens += result.tokens;
    Json row{{"object", "embedding"}, {"index", i}};
    if (in_base64)
      row["embedding"] = base64(result.vector);
    else
      row["embedding"] = result.vector;
    data.push_back(std::move(row));
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", name_},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

} // namespace luminal::cli
