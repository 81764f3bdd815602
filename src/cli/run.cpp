// cli/run.cpp -- `luminal run MODEL [PROMPT]`, and the demonstration without arguments.
#include "base/embedded.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "cli/announce.h"
#include "cli/common.h"
#include "cli/lora_options.h"
#include "cli/program_graph.h"
#include "cli/prompt_cache_file.h"
#include "cli/prompt_tokens.h"
#include "cli/run_draft.h"
#include "cli/run_image.h"
#include "cli/run_prompts.h"
#include "device/host_memory.h"
#include "luminal/device.h"
#include "models/generator.h"
#include "search/machine_profile.h"
#include "tensor/search_between_steps.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <iostream>
#include <random>
#include <unistd.h>

LUMINAL_EMBEDDED(builtin_model)

namespace luminal::cli {
namespace {

using namespace models;

struct RunArguments {
  std::string model, prompt, tokens, cache_type = "f32", activations = "exact", max_memory, device, grammar,
                                     grammar_file, schema, schema_file;
  std::string model_option, prompt_option, prompt_file; ///< as llama.cpp spells them: -m, -p, -f
  std::string prompts;                                  ///< file of many
  std::string draft;                                    ///< a small model that proposes tokens
  std::vector<std::string> stops, adapters;
  std::string image, projector; ///< a picture in front of the prompt, the vision part of the model
  std::string prompt_cache;
  bool prompt_cache_read_only = false;
  int64_t count = -1, seed = -1, context = 0, chunk = 128, parallel = 8, draft_count = 4;
  int threads = 0;
  double tune = 0;
  bool json = false, no_cache = false, report = false, ignore_eos = false, plain_prompt = false,
       hide_prompt = false;
  SamplerOptions sampler;
};

/// One model and at most one prompt, whichever way they were given.
void settle(RunArguments& a, const CLI::App& verb) {
  const auto given = [&](const char* name) { return verb.get_option(name)->count() > 0; };
  bool positional_prompt = given("prompt");
  if (given("--model")) {
    if (given("model") && positional_prompt)
      throw UsageError(fmt::format("the model is given twice: {} and {}", a.model_option, a.model));
    if (given("model")) a.prompt = a.model, positional_prompt = true;
    a.model = a.model_option;
  }
  if (a.model.empty()) throw UsageError("the model is missing: luminal run MODEL [PROMPT]");
  std::vector<std::string> prompts;
  if (positional_prompt) prompts.push_back("behind the model");
  for (const char* name : {"--prompt", "--file", "--tokens", "--prompts"})
    if (given(name)) prompts.push_back("by " + std::string(name));
  if (prompts.size() > 1) throw UsageError("the prompt is given twice: " + join(prompts, " and "));
  if (given("--tokens"))
    refuse_options(verb, {"--no-parse-special"}, "the prompt is given as ids, there is no text to read");
  if (given("--prompts"))
    refuse_options(verb, {"--tune", "--report", "--no-display-prompt", "--prompt-cache", "--prompt-cache-ro"},
                   "it is not for --prompts");
  else
    refuse_options(verb, {"--parallel"}, "it is for --prompts");
  if (given("--image"))
    refuse_options(verb,
                   {"--tokens", "--prompts", "--prompt-cache", "--prompt-cache-ro", "--draft", "--lora",
                    "--no-parse-special"},
                   "it is not for --image");
  else
    refuse_options(verb, {"--mmproj"}, "it is for --image");
  if (!given("--draft")) refuse_options(verb, {"--draft-count"}, "it is for --draft");
  if (positional_prompt && a.prompt == "-") a.prompt_file = "-", a.prompt.clear();
  if (given("--prompt")) a.prompt = a.prompt_option;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Seconds that a search between two tokens has at least, and at most: else as long as the token took.
constexpr double least_turn = 0.01, most_turn = 0.2;

/// What the text must be like; nothing: anything.
std::shared_ptr<const Grammar> grammar_of(const RunArguments& a) {
  const std::string grammar = a.grammar_file.empty() ? a.grammar : read_text(a.grammar_file),
                    schema = a.schema_file.empty() ? a.schema : read_text(a.schema_file);
  return grammar.empty() && schema.empty() ? nullptr : read_grammar(grammar, schema);
}

struct Outcome {
  std::vector<int32_t> tokens;
  int64_t cached = 0; ///< tokens of the prompt that were not fed
  std::string text;
  StopReason reason = StopReason::length;
  uint64_t seed = 0; ///< of the sampling, drawn where none was given
};

/// Generates; text goes to stdout as it comes unless `quiet`.
Outcome generate_text(Generator& generator, const ModelFile& file, const RunArguments& arguments,
                      std::span<const int32_t> prompt, bool quiet, Draft* draft = nullptr,
                      PromptCacheFile* cache = nullptr, SearchBetweenSteps* search = nullptr) {
  Outcome outcome;
  if (cache != nullptr) outcome.cached = cache->restore(generator, prompt);
  SamplerOptions options = arguments.sampler;
  options.seed = arguments.seed >= 0 ? uint64_t(arguments.seed) : std::random_device{}();
  outcome.seed = options.seed;
  Sampler sampler(options);
  std::optional<StreamDecoder> decoder;
  if (file.tokenizer) {
    decoder.emplace(*file.tokenizer);
    for (int32_t token : prompt) // what follows a text keeps its leading space
      if (token < file.tokenizer->size()) decoder->push(token);
  }
  std::optional<TokenGrammar> grammar;
  if (const auto read = grammar_of(arguments))
    grammar.emplace(read, file.require_tokenizer(), file.require_config().eos_tokens);
  StopFinder finder(arguments.stops);
  bool answers = !arguments.image.empty(); // an answer stands alone: without the space in front
  auto show = [&](std::string text) {
    if (answers) text.erase(0, std::min(text.find_first_not_of(" \n"), text.size()));
    answers = answers && text.empty();
    outcome.text += text;
    if (quiet || text.empty()) return;
    std::cout << text << std::flush;
    if (!std::cout) throw Error("stdout cannot be written");
  };
  const auto is_end = [&](int32_t token) { return !arguments.ignore_eos && file.is_end(token); };
  bool stopped = false;
  auto token_begin = std::chrono::steady_clock::now();
  outcome.reason = generator.generate(
      prompt.subspan(size_t(outcome.cached)), arguments.count, sampler, is_end,
      [&](int32_t token) {
        outcome.tokens.push_back(token);
        if (decoder && token >= file.tokenizer->size()) // a row that only pads the model's table
          return !interrupt_requested();
        if (decoder)
          show(finder.push(decoder->push(token)));
        else if (!quiet)
          std::cout << (outcome.tokens.size() > 1 ? "," : "") << token << std::flush;
        stopped = finder.stopped();
        if (search != nullptr && !stopped) {
          search->turn(std::clamp(seconds_since(token_begin), least_turn, most_turn));
          token_begin = std::chrono::steady_clock::now();
        }
        return !stopped && !interrupt_requested();
      },
      grammar ? &*grammar : nullptr, draft);
  if (decoder) {
    show(finder.push(decoder->finish()));
    show(finder.finish());
  }
  if (stopped || finder.stopped()) outcome.reason = StopReason::stop_string;
  if (!quiet) std::cout << std::endl;
  return outcome;
}

/// Bytes that a generated token moves: weights once, and the filled part of the cache.
double bytes_per_token(const Generator& generator) {
  const Llama& model = generator.model();
  return double(model.step_weight_bytes) +
         double(model.cache_bytes) * double(generator.position()) / double(model.context);
}

/// The two times before the first token: all of compiling, and all the rest.
std::string ready_times(const GeneratorTimes& t) {
  return fmt::format("load {:.2f} s  compile {:.2f} s", t.build + t.load, t.compile);
}

/// Generated tokens that come faster than the profile's memory gives their weights prove it wrong:
/// it is raised for everybody.
void renew_profile(const Generator& generator, int threads) {
  const GeneratorTimes& t = generator.times();
  const double bytes = bytes_per_token(generator);
  if (t.generated_tokens < 2 || t.generation <= 0) return;
  if (double(generator.model().step_weight_bytes) <
      double(search::MachineProfile::present(threads).beyond_caches()))
    return;
  const double rate = double(t.generated_tokens - 1) / t.generation * bytes;
  const std::string changed = search::MachineProfile::reached_rate(threads, "memory.read", rate * 1e-9);
  if (!changed.empty()) print_stderr("{}\n", changed);
}

std::string closing_line(const Generator& generator, int threads, double read_bandwidth) {
  const GeneratorTimes& t = generator.times();
  double fed = double(std::max<int64_t>(0, t.generated_tokens - 1));
  double rate = fed > 0 && t.generation > 0 ? fed / t.generation : 0;
  std::string line = fmt::format(
      "{}  prompt {} tokens {:.1f} tok/s  generation {} tokens {:.1f} tok/s  "
      "first token {:.3f} s  peak {}  {} thread{}",
      ready_times(t), t.prompt_tokens, t.prompt > 0 ? double(t.prompt_tokens) / t.prompt : 0.0,
      t.generated_tokens, rate, t.first_token, show_bytes(peak_memory()), threads, threads == 1 ? "" : "s");
  if (rate > 0 && read_bandwidth > 0)
    line += fmt::format("  {:.1f} % of bandwidth", 100 * rate * bytes_per_token(generator) / read_bandwidth);
  return line;
}

Json timings(const Generator& generator, double read_bandwidth) {
  const GeneratorTimes& t = generator.times();
  double fed = double(std::max<int64_t>(0, t.generated_tokens - 1));
  double rate = fed > 0 && t.generation > 0 ? fed / t.generation : 0;
  Json json{{"build_s", t.build},   {"compile_s", t.compile},       {"load_s", t.load},
            {"prompt_s", t.prompt}, {"generation_s", t.generation}, {"first_token_s", t.first_token}};
  json["prompt_per_second"] = t.prompt > 0 ? double(t.prompt_tokens) / t.prompt : 0.0;
  json["generated_per_second"] = rate;
  json["peak_memory_bytes"] = peak_memory();
  json["bandwidth_fraction"] = rate > 0 && read_bandwidth > 0
                                   ? Json(rate * bytes_per_token(generator) / read_bandwidth)
                                   : Json(nullptr);
  return json;
}

int run_file_of_prompts(const RunArguments& a, const ModelFile& file, GeneratorOptions options) {
  options.compile.stop = {}; // texts are cancelled between steps
  return run_prompts(file, {.file = a.prompts,
                            .model = options.model,
                            .compile = options.compile,
                            .max_memory = a.max_memory,
                            .draft = a.draft,
                            .draft_count = a.draft_count,
                            .parallel = a.parallel,
                            .count = a.count,
                            .seed = a.seed,
                            .sampler = a.sampler,
                            .stops = a.stops,
                            .grammar = grammar_of(a),
                            .ignore_end = a.ignore_eos,
                            .plain = a.plain_prompt});
}

int run_model(RunArguments& arguments) {
  end_on_interrupt(); // until there is text
  if (!arguments.device.empty()) set_default_device(Device(arguments.device));
  auto opened = open_model(arguments.model);
  if (!opened) throw Error(opened.error());
  apply_adapters(*opened, arguments.adapters);
  if (arguments.image.empty()) *opened = text_part(std::move(*opened));
  if (!arguments.prompt_file.empty()) arguments.prompt = read_prompt(arguments.prompt_file);
  grammar_of(arguments); // a wrong one is told before the model loads
  GeneratorOptions options;
  options.model =
      llama_options(*opened, arguments.context, arguments.chunk, arguments.cache_type, arguments.activations);
  options.compile.threads = arguments.threads;
  options.compile.cache = !arguments.no_cache;
  options.compile.stop = interrupt_requested;
  if (!arguments.max_memory.empty()) options.compile.max_memory = parse_bytes(arguments.max_memory);
  if (!arguments.prompts.empty()) return run_file_of_prompts(arguments, *opened, options);
  std::optional<SeenImage> seen;
  if (!arguments.image.empty())
    seen = see_image(*opened,
                     {.picture = arguments.image,
                      .projector = arguments.projector,
                      .question = arguments.prompt,
                      .max_memory = arguments.max_memory,
                      .threads = arguments.threads,
                      .cache = !arguments.no_cache},
                     options.model);
  const ModelFile& file = seen ? seen->text : *opened;
  const ModelConfig& config = file.require_config();
  const std::vector<int32_t> prompt =
      seen ? seen->prompt
           : prompt_tokens(file, {arguments.prompt, arguments.tokens, arguments.plain_prompt},
                           options.model.context);
  if (options.model.context > config.context_length && config.rope_scaling.kind == RopeScaling::Kind::none)
    print_stderr("note: the model was trained for {} positions; beyond them its text gets worse\n",
                 config.context_length);
  PromptCacheFile cache(arguments.prompt_cache, arguments.prompt_cache_read_only, file, options.model);
  Generator::Estimate estimate = Generator::estimate(file, options.model);
  std::optional<RunDraft> draft;
  if (!arguments.draft.empty()) {
    draft.emplace(arguments.draft, arguments.draft_count, file, options);
    estimate = draft->estimate();
  }
  announce_memory(file.path, estimate, arguments.max_memory,
                  fmt::format("A smaller --ctx or --cache-type f16 needs less{}",
                              arguments.max_memory.empty() ? ", --max-memory allows more" : ""));

  std::unique_ptr<Generator> generator;
  {
    Progress progress("compile");
    progress.update(0.1, file.path);
    generator = std::make_unique<Generator>(file, options);
    progress.done(fmt::format(
        "{} in {:.2f} s, load in {:.2f} s", config.name.empty() ? file.path : printable(config.name),
        generator->times().compile, generator->times().build + generator->times().load));
    if (draft) draft->compile(arguments.sampler, arguments.seed);
  }
  if (seen) generator->set_image(seen->rows);
  catch_interrupts();
  if (arguments.report) print_stderr("{}", generator->report());
  if (!arguments.json && !arguments.hide_prompt && !seen && arguments.tokens.empty() &&
      !arguments.prompt.empty())
    std::cout << arguments.prompt << std::flush;
  std::optional<SearchBetweenSteps> search;
  if (arguments.tune > 0) search.emplace(generator->graph(), arguments.tune);
  Outcome outcome = generate_text(*generator, file, arguments, prompt, arguments.json,
                                  draft ? draft->get() : nullptr, &cache, search ? &*search : nullptr);
  const std::string searched = search ? search->told() : "";
  int threads = arguments.threads > 0 ? arguments.threads : setting_threads();
  // With a draft a step of the model gives several tokens: their rate says nothing of the memory's.
  if (default_device().name() == "cpu" && !draft) renew_profile(*generator, threads);
  const double bandwidth = draft ? 0.0 : search::MachineProfile::present(threads).read_bandwidth(); // bytes/s
  if (arguments.json) {
    Json json{{"model", arguments.model},
              {"architecture", config.architecture},
              {"prompt_tokens", prompt},
              {"cached_tokens", outcome.cached},
              {"tokens", outcome.tokens},
              {"text", outcome.text},
              {"stop_reason", std::string(to_string(outcome.reason))},
              {"seed", outcome.seed}};
    json["timings"] = timings(*generator, bandwidth);
    if (seen) json["timings"]["image_s"] = seen->seconds;
    if (draft) json["draft"] = draft->json();
    if (search)
      json["search"] = {{"over", search->over()}, {"exchanges", search->exchanges()}, {"told", searched}};
    std::cout << json_text(json) << std::endl;
  }
  const std::string seed =
      arguments.sampler.temperature > 0 ? fmt::format("  seed {}", outcome.seed) : std::string();
  print_stderr("{}{}\n", closing_line(*generator, threads, bandwidth), seed);
  if (draft) print_stderr("{}\n", draft->line());
  if (search) print_stderr("{}\n", searched);
  cache.finish();
  if (outcome.reason == StopReason::interrupted) return interrupted;
  if (outcome.reason == StopReason::context)
    print_stderr("the context of {} tokens is full; --ctx makes it larger\n", generator->model().context);
  return std::cout ? ok : failed;
}

} // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<RunArguments>();
  auto* run = app.add_subcommand(
      "run", "Generate text with a model: a GGUF file, a safetensors file or a Hugging Face folder");
  run->footer(
      "Special tokens in a prompt, such as <|im_start|>, are read as tokens. Spellings of llama.cpp are "
      "taken, or answered with the right one.");
  run->add_option("model", a->model, "The file or folder");
  run->add_option("prompt", a->prompt,
                  "The text to continue (empty: from the model's begin token; -: standard input)");
  run->add_option("-m,--model", a->model_option, "The model, in another place");
  run->add_option("-p,--prompt", a->prompt_option, "The prompt, in another place");
  run->add_option("-f,--file", a->prompt_file,
                  "The prompt from a file (-: standard input), without the end of its last line");
  run->add_option("--prompts", a->prompts,
                  "A file of prompts, one a line: texts, or JSON objects with prompt and id (-: standard "
                  "input); a JSON line for each is printed");
  run->add_option("--parallel,--np", a->parallel, "With --prompts: texts at once")
      ->check(whole(1, 256))
      ->capture_default_str();
  run->add_option(
      "--draft,--model-draft", a->draft,
      "A small model with the same tokenizer proposes tokens, which this one checks several at a time");
  run->add_option("--draft-count,--draft-max", a->draft_count, "With --draft: tokens in one proposal")
      ->check(whole(1, 64))
      ->capture_default_str();
  run->add_option("--image", a->image,
                  "A picture (PNG, JPEG, BMP, PNM, GIF) that the prompt asks about; without a prompt it is "
                  "described: Moondream 2");
  run->add_option("--mmproj", a->projector,
                  "With --image: the vision part of a text model in a GGUF file, as of llama.cpp");
  run->add_option("-n,--predict,--n-predict", a->count,
                  "Tokens to generate; -1: until the text ends or the context is full")
      ->check(whole(-1, 1 << 30))
      ->capture_default_str()
      ->envname("LUMINAL_PREDICT");
  run->add_option("--tokens", a->tokens, "The prompt as token ids: 1,5,9");
  run->add_flag("--no-parse-special", a->plain_prompt,
                "Special tokens in the prompt are ordinary text: for prompts from others");
  run->add_flag("--no-display-prompt", a->hide_prompt, "Print only what is generated");
  run->add_option("-c,--ctx,--ctx-size", a->context,
                  "Positions of the context (default: what the model declares, at most 4096)")
      ->check(whole(0, 1 << 30));
  run->add_option("-b,--batch,--batch-size", a->chunk, "Most prompt tokens in one step")
      ->check(whole(1, 4096))
      ->capture_default_str();
  run->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  run->add_option("-s,--seed", a->seed, "Seed of the sampling; -1: a random one")
      ->check(whole(-1, int64_t(1) << 62))
      ->capture_default_str();
  run->add_option("--temp,--temperature", a->sampler.temperature,
                  "Temperature; 0: always the likeliest token")
      ->check(between(0, 1000))
      ->capture_default_str();
  run->add_option("--top-k", a->sampler.top_k, "Only the k likeliest tokens; 0: all")
      ->check(whole(0, 1 << 30))
      ->capture_default_str();
  run->add_option("--top-p", a->sampler.top_p, "Only the likeliest that together reach p; 1: all")
      ->check(between(0, 1))
      ->capture_default_str();
  run->add_option("--min-p", a->sampler.min_p, "Only tokens at least this fraction of the likeliest")
      ->check(between(0, 1))
      ->capture_default_str();
  run->add_option("--repeat-penalty", a->sampler.repeat_penalty, "Penalty of recent tokens; 1: none")
      ->check(between(0.001, 1000))
      ->capture_default_str();
  run->add_option("--repeat-last-n", a->sampler.repeat_last, "How many tokens are recent; -1: all")
      ->check(whole(-1, 1 << 30))
      ->capture_default_str();
  run->add_option("--presence-penalty", a->sampler.presence_penalty, "Subtracted from tokens that occurred")
      ->check(between(-1000, 1000))
      ->capture_default_str();
  run->add_option("--frequency-penalty", a->sampler.frequency_penalty, "Subtracted for each occurrence")
      ->check(between(-1000, 1000))
      ->capture_default_str();
  run->add_option("--stop,-r,--reverse-prompt", a->stops,
                  "Stop where this text appears (may be given several times)")
      ->allow_extra_args(false);
  auto* grammar = run->add_option("--grammar", a->grammar, "The text fits this grammar (GBNF)");
  auto* grammar_file = run->add_option("--grammar-file", a->grammar_file, "The same from a file");
  auto* schema =
      run->add_option("-j,--json-schema", a->schema, "The text is JSON that fits this schema; {}: any JSON");
  auto* schema_file = run->add_option("--json-schema-file", a->schema_file, "The same from a file");
  grammar->excludes(grammar_file, schema, schema_file);
  grammar_file->excludes(schema, schema_file);
  schema->excludes(schema_file);
  run->add_flag("--ignore-eos", a->ignore_eos, "Go on after the end-of-text token");
  run->add_option("--cache-type", a->cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  run->add_option(
         "--activations", a->activations,
         "q8: products with quantised weights take activations in eight bits (less exact; rows of "
         "weights are interleaved at load); bf16: products with bf16 weights take them in bf16; exact: f32")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  add_lora_option(*run, a->adapters);
  run->add_option("--device", a->device, "Where it runs: a name that `luminal devices` lists");
  run->add_option("--max-memory", a->max_memory,
                  "Refuse to start if more may be needed (default: what is free): 512M, 8G")
      ->check(memory_amount());
  run->add_option("--tune", a->tune,
                  "Search faster kernels for so many seconds between the tokens; see luminal tune")
      ->check(between(0, 1e7));
  auto* prompt_cache = run->add_option(
      "--prompt-cache", a->prompt_cache,
      "A file that keeps keys and values of the prompt: what is equal in front is not computed again");
  run->add_flag("--prompt-cache-ro", a->prompt_cache_read_only, "That file is read, not written")
      ->needs(prompt_cache);
  run->add_flag("--no-cache", a->no_cache, "Do not read or write machine code on disk");
  run->add_flag("--report", a->report, "Print what was compiled and why");
  run->add_flag("--json", a->json,
                "One JSON object: model, architecture, prompt_tokens, cached_tokens, tokens, text, "
                "stop_reason, seed, timings");
  name_llama_cpp_options(*run);
  run->callback([a, run, &exit_code] {
    settle(*a, *run);
    exit_code = run_model(*a);
  });
}

int run_demo() {
  end_on_interrupt();
  auto embedded = embedded::builtin_model();
  auto opened = open_model_bytes(
      {reinterpret_cast<const std::byte*>(embedded[0].content.data()), embedded[0].content.size()},
      "builtin:" + std::string(embedded[0].name));
  if (!opened) throw Error(opened.error());
  const ModelFile& file = *opened;
  GeneratorOptions options;
  options.compile.stop = interrupt_requested;
  Generator generator(file, options);
  catch_interrupts();
  int threads = setting_threads();
  print_stderr("luminal {}: the built-in model, {} parameters, compiled for this machine in {:.2f} s\n\n",
               LUMINAL_VERSION, file.parameters(), generator.times().compile);
  RunArguments arguments;
  arguments.count = 400;
  arguments.seed = 5;
  const std::vector<int32_t> prompt = prompt_tokens(file, {}, generator.model().context);
  Outcome outcome = generate_text(generator, file, arguments, prompt, false);
  renew_profile(generator, threads);
  double bandwidth = search::MachineProfile::present(threads).read_bandwidth(); // bytes/s
  print_stderr("\n{}\n", closing_line(generator, threads, bandwidth));
  print_stderr("\nNext: luminal run MODEL.gguf \"Once upon a time\"   luminal inspect MODEL   luminal "
               "devices   luminal --help\n");
  return outcome.reason == StopReason::interrupted ? interrupted : ok;
}

} // namespace luminal::cli
