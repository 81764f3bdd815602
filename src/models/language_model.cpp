// models/language_model.cpp -- the public face of a generator: file, tokenizer, graph and sampler
// in one.
#include "luminal/llama.h"
#include "models/generator.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

using namespace models;
using Where = std::source_location;

struct LanguageModel::State {
  ModelFile file;
  SamplerOptions sampling;
  Generator generator;
  Sampler sampler;
  bool stepped = false;

  State(ModelFile opened, const GeneratorOptions& options, const SamplerOptions& how, Where where)
      : file(std::move(opened)), sampling(how), generator(file, options, where), sampler(how) {}
};

namespace {

/// Errors of what lies below get the caller's line.
template <class F> auto at_line(std::string_view op, Where where, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    throw Error(op, error.what(), where);
  }
}

GeneratorOptions generator_options(const ModelFile& file, const LanguageModelOptions& options) {
  GeneratorOptions out;
  out.model.context =
      options.context > 0 ? options.context : std::min<int64_t>(file.require_config().context_length, 4096);
  out.model.chunk = options.chunk;
  if (options.cache_type != DType::f32 && options.cache_type != DType::f16)
    throw Error(fmt::format("cache_type {}: f32 and f16 are expected", to_string(options.cache_type)));
  if (options.context < 0 || options.chunk < 1)
    throw Error(fmt::format("context = {}, chunk = {}: sizes are expected", options.context, options.chunk));
  out.model.cache_dtype = options.cache_type;
  out.model.activations = activations_from_name(options.activations);
  out.compile = options.compile;
  return out;
}

} // namespace

LanguageModel::LanguageModel(const std::string& path, const LanguageModelOptions& options, Where where) {
  auto opened = open_model(path);
  if (!opened) throw Error("LanguageModel", opened.error(), where);
  state_ = at_line("LanguageModel", where, [&] {
    const GeneratorOptions how = generator_options(*opened, options);
    return std::make_unique<State>(std::move(*opened), how, options.sampler, where);
  });
}
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;
LanguageModel::~LanguageModel() = default;

std::vector<int32_t> LanguageModel::encode(std::string_view text, bool parse_special, Where where) const {
  return at_line("encode", where, [&] {
    return state_->file.require_tokenizer().encode(text, {.parse_special = parse_special});
  });
}
std::string LanguageModel::decode(std::span<const int32_t> tokens, Where where) const {
  return at_line("decode", where, [&] { return state_->file.require_tokenizer().decode(tokens); });
}
bool LanguageModel::is_end(int32_t token) const { return state_->file.is_end(token); }

std::span<const float> LanguageModel::step(std::span<const int32_t> tokens, Where where) {
  for (int32_t token : tokens)
    if (token < 0 || token >= vocabulary())
      throw Error("step", fmt::format("token {} is outside the vocabulary of {}", token, vocabulary()),
                  where);
  if (position() + int64_t(tokens.size()) > context())
    throw Error(
        "step",
        fmt::format("{} tokens behind {} do not fit the context of {} (LanguageModelOptions::context)",
                    tokens.size(), position(), context()),
        where);
  if (tokens.empty() && !state_->stepped) throw Error("step", "there are no tokens to begin with", where);
  return at_line("step", where, [&] {
    const auto logits = state_->generator.feed(tokens);
    state_->stepped = true;
    return logits;
  });
}

int32_t LanguageModel::sample(Where where) {
  if (!state_->stepped) throw Error("sample", "there are no logits yet: step comes first", where);
  return state_->generator.sample(state_->sampler);
}

void LanguageModel::reset() {
  state_->generator.reset();
  state_->sampler = Sampler(state_->sampling);
  state_->stepped = false;
}

std::string LanguageModel::generate(std::string_view prompt, int64_t count, const OnText& on_text,
                                    Where where) {
  State& s = *state_;
  const auto& tokenizer = at_line("generate", where, [&] { return s.file.require_tokenizer(); });
  std::vector<int32_t> tokens =
      at_line("generate", where, [&] { return tokenizer.encode(prompt, {.add_special = !s.stepped}); });
  if (tokens.empty() && !s.stepped && tokenizer.bos()) tokens.push_back(*tokenizer.bos());
  if (tokens.empty() && !s.stepped)
    throw Error("generate", "the prompt is empty, and the model names no token to begin with; give a prompt",
                where);
  StreamDecoder decoder(tokenizer, false, true);
  std::string text;
  const auto show = [&](const std::string& piece) {
    text += piece;
    return piece.empty() || !on_text || on_text(piece);
  };
  step(tokens, where);
  for (int64_t n = 0; count < 0 || n < count; n++) {
    const int32_t token = sample(where);
    const bool text_of_it = token < tokenizer.size(); // rows that only pad the model's table have none
    if (is_end(token) || !show(text_of_it ? decoder.push(token) : "") || position() == context()) break;
    step({token}, where);
  }
  show(decoder.finish());
  return text;
}

int64_t LanguageModel::vocabulary() const { return state_->generator.model().config.vocab_size; }
int64_t LanguageModel::context() const { return state_->generator.model().context; }
int64_t LanguageModel::position() const { return state_->generator.position(); }
const std::string& LanguageModel::name() const { return state_->file.require_config().name; }
Graph& LanguageModel::graph() { return state_->generator.graph(); }

} // namespace luminal
