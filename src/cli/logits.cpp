// cli/logits.cpp -- `luminal logits MODEL PROMPT`: what a model gives each token of a text;
// `luminal perplexity MODEL -f FILE`: how well it foretells one.
#include "base/file_draft.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/announce.h"
#include "cli/model_verbs.h"
#include "cli/program_graph.h"
#include "cli/prompt_tokens.h"
#include "formats/npy.h"
#include "luminal/device.h"
#include "models/generator.h"
#include "models/perplexity.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <numeric>

namespace luminal::cli {
namespace {

using models::Generator;

/// How the model of both verbs is made.
struct ModelArguments {
  std::string model, cache_type = "f32", activations = "exact", device, max_memory;
  int64_t context = 0, chunk = 128;
  int threads = 0;
  bool no_cache = false, json = false;
};

void add_model_options(CLI::App& verb, ModelArguments& a) {
  verb.add_option("-b,--batch,--batch-size", a.chunk, "Most tokens in one step")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb.add_option("-t,--threads", a.threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb.add_option("--cache-type", a.cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb.add_option("--activations", a.activations, "As of luminal run")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  verb.add_option("--device", a.device, "Where it runs: a name that `luminal devices` lists");
  verb.add_option("--max-memory", a.max_memory, "Refuse to start if more may be needed: 512M, 8G")
      ->check(memory_amount());
  verb.add_flag("--no-cache", a.no_cache, "Do not read or write machine code on disk");
}

ModelFile open_file(const ModelArguments& a) {
  end_on_interrupt(); // until there is something to show
  if (!a.device.empty()) set_default_device(Device(a.device));
  auto opened = open_model(a.model);
  if (!opened) throw Error(opened.error());
  return std::move(*opened);
}

std::unique_ptr<Generator> make_generator(const ModelArguments& a, const ModelFile& file,
                                          const models::LlamaOptions& how) {
  models::GeneratorOptions options{.model = how};
  options.compile.threads = a.threads;
  options.compile.cache = !a.no_cache;
  options.compile.stop = interrupt_requested;
  if (!a.max_memory.empty()) options.compile.max_memory = parse_bytes(a.max_memory);
  announce_memory(file.path, Generator::estimate(file, options.model), a.max_memory,
                  "A smaller --ctx or --batch, or --cache-type f16, needs less");
  auto generator = std::make_unique<Generator>(file, options);
  catch_interrupts();
  return generator;
}

/// False where Ctrl-C ended the step.
template <class F> bool unless_interrupted(F&& step) {
  try {
    step();
  } catch (const Error&) {
    if (!interrupt_requested()) throw;
  }
  return !interrupt_requested();
}

struct LogitsArguments {
  ModelArguments model;
  std::string prompt, file, tokens, out;
  int64_t top = 10;
  bool last = false, plain_prompt = false;
};

struct TopToken {
  int32_t id;
  std::string text; ///< empty without a tokenizer
  double logit, probability;
};

std::vector<TopToken> top_tokens(std::span<const float> logits, int64_t count, const ModelFile& file) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = size_t(std::min(count, int64_t(logits.size())));
  std::partial_sort(order.begin(), order.begin() + long(kept), order.end(), [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  });
  const double most = logits[size_t(order[0])];
  double total = 0;
  for (const float logit : logits) total += std::exp(double(logit) - most);
  if (std::isnan(total)) throw Error("a logit is NaN: the model's weights or the computation are broken");
  std::vector<TopToken> top;
  for (size_t i = 0; i < kept; i++) {
    const int32_t id = order[i];
    const bool spelled = file.tokenizer && id < file.tokenizer->size();
    const double logit = logits[size_t(id)];
    top.push_back({id, spelled ? file.tokenizer->token_text(id) : "", logit, std::exp(logit - most) / total});
  }
  return top;
}

int logits_of_text(LogitsArguments& a) {
  const ModelFile file = open_file(a.model);
  if (!a.file.empty()) a.prompt = read_prompt(a.file);
  models::LlamaOptions how =
      llama_options(file, a.model.context, a.model.chunk, a.model.cache_type, a.model.activations);
  const std::vector<int32_t> tokens = prompt_tokens(file, {a.prompt, a.tokens, a.plain_prompt}, how.context);
  const bool every = !a.out.empty() && !a.last;
  const int64_t vocabulary = file.require_config().vocab_size, rows = every ? int64_t(tokens.size()) : 1;
  if (every) how.rows = how.chunk;
  std::optional<FileDraft> out;
  const auto written = [&](const Result<void>& done) {
    if (!done) throw Error(done.error());
  };
  if (!a.out.empty()) { // a folder that is not there is told before the model loads
    auto draft = FileDraft::create(a.out);
    if (!draft) throw Error(draft.error());
    out.emplace(std::move(*draft));
    const std::string head = npy_head(StorageType::f32, std::vector<int64_t>{rows, vocabulary}).value();
    written(out->append(std::as_bytes(std::span(head))));
  }
  const auto generator = make_generator(a.model, file, how);
  std::vector<TopToken> top;
  const bool whole = unless_interrupted([&] {
    generator->feed(tokens, rows, [&](std::span<const float> part) {
      if (out) written(out->append(std::as_bytes(part)));
      top = top_tokens(part.last(size_t(vocabulary)), a.top, file);
    });
  });
  if (!whole) return interrupted;
  if (out) written(out->finish());
  if (a.model.json) {
    Json json{{"model", a.model.model}, {"prompt_tokens", tokens}};
    if (out) json["out"] = a.out, json["shape"] = {rows, vocabulary};
    Json list = Json::array();
    for (const TopToken& t : top)
      list.push_back({{"id", t.id}, {"text", t.text}, {"logit", t.logit}, {"probability", t.probability}});
    json["top"] = list;
    std::cout << json_text(json) << std::endl;
  } else if (out) {
    print_stderr("{}: f32 [{}, {}]\n", a.out, rows, vocabulary);
  } else {
    for (const TopToken& t : top)
      std::cout << fmt::format("{:>7}  {:<20} {:>12.5f} {:>10.6f}\n", t.id, printable(t.text), t.logit,
                               t.probability);
  }
  return std::cout ? ok : failed;
}

struct PerplexityArguments {
  ModelArguments model;
  std::string file;
  int64_t stride = 0;
};

int perplexity_of_text(PerplexityArguments& a) {
  const ModelFile file = open_file(a.model);
  const ModelConfig& config = file.require_config();
  const Tokenizer& tokenizer = file.require_tokenizer();
  const std::string text = read_prompt(a.file);
  const int64_t context =
      a.model.context > 0 ? a.model.context : std::min<int64_t>(512, config.context_length);
  if (a.stride >= context)
    throw UsageError(fmt::format("--stride {}: a window of {} tokens foretells at most {}", a.stride, context,
                                 context - 1));
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  const auto windows = models::perplexity_windows(int64_t(tokens.size()), context, a.stride);
  models::LlamaOptions how =
      llama_options(file, context, a.model.chunk, a.model.cache_type, a.model.activations);
  how.rows = how.chunk;
  const auto generator = make_generator(a.model, file, how);
  models::Perplexity perplexity;
  int64_t done = 0;
  const bool whole = unless_interrupted([&] {
    for (const auto& window : windows) {
      const auto here = std::span(tokens).subspan(size_t(window.begin), size_t(window.size));
      std::vector<int32_t> read(here.begin(), here.end() - 1); // nothing is foretold behind the last one
      if (tokenizer.adds_bos()) read[0] = *tokenizer.bos();
      models::Perplexity next = perplexity;
      size_t at = here.size() - size_t(window.scored);
      generator->reset();
      generator->feed(read, window.scored, [&](std::span<const float> rows) {
        for (; !rows.empty(); rows = rows.subspan(size_t(config.vocab_size)))
          next.add(rows.first(size_t(config.vocab_size)), here[at++]);
      });
      perplexity = next;
      done++;
      if (!a.model.json) std::cout << fmt::format("[{}]{:.4f},", done, perplexity.value()) << std::flush;
      if (interrupt_requested()) return;
    }
  });
  if (a.model.json) {
    Json json{{"model", a.model.model}, {"tokens", tokens.size()}, {"context", context},
              {"stride", a.stride},     {"windows", done},         {"scored", perplexity.count()}};
    json["loss"] = perplexity.loss(), json["perplexity"] = perplexity.value();
    json["standard_error"] = perplexity.standard_error();
    std::cout << json_text(json) << std::endl;
  } else if (done > 0) {
    std::cout << '\n';
    std::cout << fmt::format("perplexity {:.4f} +/- {:.5f}  ({} tokens in {} of {} windows)\n",
                             perplexity.value(), perplexity.standard_error(), perplexity.count(), done,
                             windows.size());
    std::cout.flush();
  }
  if (!whole) return interrupted;
  return std::cout ? ok : failed;
}

} // namespace

void add_logits(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<LogitsArguments>();
  auto* verb = app.add_subcommand("logits", "What a model gives each token of its vocabulary behind a text");
  verb->footer("Without --out: the likeliest tokens behind the text, one a line: id, spelling, logit, "
               "probability.");
  verb->add_option("model", a->model.model, "The file or folder")->required();
  auto* prompt = verb->add_option("prompt", a->prompt, "The text (empty: the model's begin token)");
  auto* from = verb->add_option("-f,--file", a->file,
                                "The text from a file (-: standard input), without the end of its last line");
  auto* tokens = verb->add_option("--tokens", a->tokens, "The text as token ids: 1,5,9");
  auto* plain =
      verb->add_flag("--no-parse-special", a->plain_prompt, "Names of special tokens are ordinary text");
  prompt->excludes(from, tokens);
  from->excludes(tokens);
  plain->excludes(tokens);
  auto* out = verb->add_option("-o,--out", a->out,
                               "Write the logits behind every token: f32 [tokens, vocabulary] (.npy)");
  verb->add_flag("--last", a->last, "With --out: behind the last token only, f32 [1, vocabulary]")
      ->needs(out);
  verb->add_option("--top", a->top, "How many tokens are printed")
      ->check(whole(1, 1 << 30))
      ->capture_default_str();
  verb->add_option("-c,--ctx,--ctx-size", a->model.context,
                   "Positions of the context (default: what the model declares, at most 4096)")
      ->check(whole(0, 1 << 30));
  add_model_options(*verb, a->model);
  verb->add_flag("--json", a->model.json,
                 "One JSON object: model, prompt_tokens, top; with --out: out, shape");
  verb->callback([a, verb, &exit_code] {
    if (!a->out.empty() && !a->model.json) refuse_options(*verb, {"--top"}, "with --out nothing is printed");
    exit_code = logits_of_text(*a);
  });
}

void add_perplexity(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<PerplexityArguments>();
  auto* verb = app.add_subcommand("perplexity", "How well a model foretells a text");
  verb->footer("Without --stride the windows are those of llama.cpp's llama-perplexity. [1]4.2,[2]4.5,..: "
               "the value behind each "
               "window; the last line has its standard error.");
  verb->add_option("model", a->model.model, "The file or folder")->required();
  verb->add_option("-f,--file", a->file, "The text (-: standard input), without the end of its last line")
      ->required();
  verb->add_option("-c,--ctx,--ctx-size,--context", a->model.context,
                   "Tokens of a window (default: 512, or what the model declares)")
      ->check(whole(4, 1 << 30));
  verb->add_option(
          "--stride", a->stride,
          "A window every so many tokens, which are foretold; 0: windows beside each other, of which "
          "the second half is")
      ->check(whole(0, 1 << 30))
      ->capture_default_str();
  add_model_options(*verb, a->model);
  verb->add_flag("--json", a->model.json,
                 "One JSON object: model, tokens, context, stride, windows, scored, loss, perplexity, "
                 "standard_error");
  verb->callback([a, &exit_code] { exit_code = perplexity_of_text(*a); });
}

} // namespace luminal::cli
