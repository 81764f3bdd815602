// cli/chat.cpp -- `luminal chat MODEL`: a conversation on the terminal; `luminal tokenize MODEL TEXT`.
#include "base/print.h"
#include "base/text.h"
#include "cli/announce.h"
#include "cli/common.h"
#include "cli/lora_options.h"
#include "cli/program_graph.h"
#include "cli/run_draft.h"
#include "models/chat_format.h"
#include "models/generator.h"
#include <algorithm>
#include <fmt/format.h>
#include <iostream>
#include <optional>
#include <random>
#include <unistd.h>

namespace luminal::cli {
namespace {

using namespace models;

struct ChatArguments {
  std::string model, system, message, chat_template, cache_type = "f32", activations = "exact", draft;
  std::vector<std::string> adapters;
  int64_t count = -1, context = 0, seed = -1, draft_count = 4;
  int threads = 0;
  bool json = false, no_cache = false, show_prompt = false;
  SamplerOptions sampler;
};

class Conversation {
public:
  /// draft: proposes tokens, or null.
  Conversation(const ModelFile& file, Generator& generator, const ChatArguments& a, Draft* draft)
      : file_(file), generator_(generator), a_(a), draft_(draft), format_(file, a.chat_template),
        sampler_(a.sampler) {
    if (!a.system.empty()) messages_.push_back(chat_message("system", a.system));
  }

  /// The answer, which is shown as it comes unless `quiet`.
  std::string ask(const std::string& text, bool quiet) {
    messages_.push_back(chat_message("user", text));
    if (a_.show_prompt) print_stderr("{}\n", format_.text(messages_));
    const std::vector<int32_t> prompt = format_.tokens(messages_);
    if (int64_t(prompt.size()) >= generator_.model().context)
      throw Error(fmt::format(
          "the conversation has {} tokens, the context holds {}: raise --ctx or begin anew (/new)",
          prompt.size(), generator_.model().context));
    // What agrees with the tokens of before stays in the cache.
    const auto history = generator_.history();
    auto shared = int64_t(std::mismatch(prompt.begin(), prompt.end(), history.begin(), history.end()).first -
                          prompt.begin());
    shared = std::min(shared, int64_t(prompt.size()) - 1);
    generator_.rewind(shared);
    StreamDecoder decoder(file_.require_tokenizer(), false, true);
    std::string answer;
    const auto show = [&](const std::string& piece) {
      answer += piece;
      if (!quiet) std::cout << piece << std::flush;
    };
    reason_ = generator_.generate(
        std::span(prompt).subspan(size_t(shared)), a_.count, sampler_,
        [&](int32_t token) { return file_.is_end(token); },
        [&](int32_t token) {
          // Rows that only pad the model's table have no text.
          if (token < file_.require_tokenizer().size()) show(decoder.push(token));
          return !interrupt_requested();
        },
        nullptr, draft_);
    show(decoder.finish());
    if (!quiet) std::cout << std::endl;
    messages_.push_back(chat_message("assistant", answer));
    return answer;
  }
  void begin_anew() {
    messages_.resize(a_.system.empty() ? 0 : 1);
    generator_.reset();
  }
  StopReason reason() const { return reason_; }

private:
  const ModelFile& file_;
  Generator& generator_;
  const ChatArguments& a_;
  Draft* draft_;
  ChatFormat format_;
  Sampler sampler_;
  jinja::List messages_;
  StopReason reason_ = StopReason::length;
};

int chat(ChatArguments& a) {
  end_on_interrupt();
  auto opened = open_model(a.model);
  if (!opened) throw Error(opened.error());
  apply_adapters(*opened, a.adapters);
  const ModelFile& file = *opened;
  const ModelConfig& config = file.require_config();
  const ChatFormat checked(file, a.chat_template); // a faulty template is refused before anything is compiled
  GeneratorOptions options;
  options.model = llama_options(file, a.context, options.model.chunk, a.cache_type, a.activations);
  options.compile.threads = a.threads;
  options.compile.cache = !a.no_cache;
  options.compile.stop = interrupt_requested;
  a.sampler.seed = a.seed >= 0 ? uint64_t(a.seed) : std::random_device{}();
  Generator::Estimate estimate = Generator::estimate(file, options.model);
  std::optional<RunDraft> draft;
  if (!a.draft.empty()) {
    draft.emplace(a.draft, a.draft_count, file, options);
    estimate = draft->estimate();
  }
  announce_memory(file.path, estimate, "", "A smaller --ctx or --cache-type f16 needs less");
  Generator generator(file, options);
  if (draft) draft->compile(a.sampler, int64_t(a.sampler.seed >> 1));
  catch_interrupts();
  Conversation conversation(file, generator, a, draft ? draft->get() : nullptr);
  if (!a.message.empty()) {
    const std::string text = conversation.ask(a.message, a.json);
    if (a.json) {
      Json json{{"model", a.model},
                {"text", text},
                {"stop_reason", std::string(to_string(conversation.reason()))},
                {"seed", a.sampler.seed}};
      if (draft) json["draft"] = draft->json();
      std::cout << json_text(json) << std::endl;
    } else if (draft) {
      print_stderr("{}\n", draft->line());
    }
    return conversation.reason() == StopReason::interrupted ? interrupted : ok;
  }
  if (a.json) throw UsageError("--json needs a message: luminal chat MODEL MESSAGE --json");
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal)
    print_stderr("{}: /new begins anew, /bye or Ctrl-D ends\n",
                 config.name.empty() ? a.model : printable(config.name));
  for (std::string line;;) {
    if (terminal) print_stderr("> ");
    if (!std::getline(std::cin, line) || line == "/bye" || line == "/exit") break;
    if (line == "/new") {
      conversation.begin_anew();
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    conversation.ask(line, false);
    if (conversation.reason() == StopReason::interrupted) return interrupted;
    if (conversation.reason() == StopReason::context)
      print_stderr("the context of {} tokens is full; --ctx makes it larger, /new begins anew\n",
                   generator.model().context);
  }
  if (draft) print_stderr("{}\n", draft->line());
  return std::cout ? ok : failed;
}

struct TokenizeArguments {
  std::string model, text;
  bool ids = false, plain = false, no_special = false, json = false;
};

int tokenize(const TokenizeArguments& a) {
  auto opened = open_model(a.model);
  if (!opened) throw Error(opened.error());
  const Tokenizer& tokenizer = opened->require_tokenizer();
  const std::string text = a.text == "-" ? read_text("-") : a.text;
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special = !a.no_special, .parse_special = !a.plain});
  if (a.json) {
    Json tokens = Json::array();
    for (const int32_t id : ids) tokens.push_back({{"id", id}, {"text", tokenizer.token_text(id)}});
    std::cout << json_text(Json{{"tokens", tokens}, {"count", ids.size()}}) << std::endl;
  } else if (a.ids) {
    std::cout << fmt::format("{}", fmt::join(ids, ",")) << std::endl;
  } else {
    for (const int32_t id : ids)
      std::cout << fmt::format("{:>7}  {}\n", id, printable(tokenizer.token_text(id)));
  }
  return std::cout ? ok : failed;
}

} // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ChatArguments>();
  auto* verb = app.add_subcommand("chat", "Talk with a model, by its chat template");
  verb->footer(
      "Without a message it reads one a line from standard input. The conversation stays in the cache.");
  verb->add_option("model", a->model, "The file or folder")->required();
  verb->add_option("message", a->message, "One message; the program ends behind its answer");
  verb->add_option("--system", a->system, "What the model is told first");
  verb->add_option("--chat-template", a->chat_template,
                   "chatml, or a file with a template, in place of the model's own");
  verb->add_flag("--show-prompt", a->show_prompt, "Print what the template makes of the conversation");
  verb->add_option("-n,--predict", a->count, "Most tokens of an answer; -1: until it ends")
      ->check(whole(-1, 1 << 30))
      ->capture_default_str();
  verb->add_option("-c,--ctx,--ctx-size", a->context,
                   "Positions of the context (default: what the model declares, at most 4096)")
      ->check(whole(0, 1 << 30));
  verb->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->add_option("-s,--seed", a->seed, "Seed of the sampling; -1: a random one")
      ->check(whole(-1, int64_t(1) << 62))
      ->capture_default_str();
  verb->add_option("--temp,--temperature", a->sampler.temperature,
                   "Temperature; 0: always the likeliest token")
      ->check(between(0, 1000))
      ->capture_default_str();
  verb->add_option("--top-k", a->sampler.top_k, "Only the k likeliest tokens; 0: all")
      ->check(whole(0, 1 << 30))
      ->capture_default_str();
  verb->add_option("--top-p", a->sampler.top_p, "Only the likeliest that together reach p; 1: all")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->add_option("--min-p", a->sampler.min_p, "Only tokens at least this fraction of the likeliest")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->add_option("--repeat-penalty", a->sampler.repeat_penalty, "Penalty of recent tokens; 1: none")
      ->check(between(0.001, 1000))
      ->capture_default_str();
  verb->add_option("--cache-type", a->cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb->add_option("--activations", a->activations, "As of luminal run")
      ->check(one_of(activations_names()))
      ->capture_default_str();
  add_lora_option(*verb, a->adapters);
  verb->add_option(
      "--draft,--model-draft", a->draft,
      "A small model with the same tokenizer proposes tokens, which this one checks several at a time");
  verb->add_option("--draft-count,--draft-max", a->draft_count, "With --draft: tokens in one proposal")
      ->check(whole(1, 64))
      ->capture_default_str();
  verb->add_flag("--no-cache", a->no_cache, "Do not read or write machine code on disk");
  verb->add_flag("--json", a->json, "One JSON object: model, text, stop_reason, seed, draft");
  verb->callback([a, verb, &exit_code] {
    if (a->draft.empty()) refuse_options(*verb, {"--draft-count"}, "it is for --draft");
    exit_code = chat(*a);
  });
}

void add_tokenize(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TokenizeArguments>();
  auto* verb = app.add_subcommand("tokenize", "The tokens of a text, one a line: id and spelling");
  verb->add_option("model", a->model, "A GGUF file, a safetensors file or a Hugging Face folder")->required();
  verb->add_option("text", a->text, "The text (-: standard input)")->required();
  verb->add_flag("--ids", a->ids, "Only the ids, in one line: 1,5,9");
  verb->add_flag("--no-special", a->no_special, "Without what the model wants around a text");
  verb->add_flag("--no-parse-special", a->plain, "Names of special tokens are ordinary text");
  verb->add_flag("--json", a->json, "One JSON object: tokens, count");
  verb->callback([a, &exit_code] { exit_code = tokenize(*a); });
}

} // namespace luminal::cli
