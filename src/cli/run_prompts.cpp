// cli/run_prompts.cpp -- prompts from a file through the batch of the server.
#include "cli/run_prompts.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/prompt_tokens.h"
#include "cli/run_draft.h"
#include "cli/serve_scheduler.h"
#include <fmt/format.h>
#include <iostream>
#include <optional>
#include <random>
#include <utility>

namespace luminal::cli {
namespace {

using models::StopReason;

struct Prompt {
  int64_t line = 0; ///< in the file, from 1
  Json id;          ///< null: it has none
  std::string text, error;
  std::shared_ptr<Generation> generation; ///< null where there is an error
};

void read_object(const std::string& line, Prompt& prompt) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) throw Error("the line is not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "id") {
      if (!value.is_string() && !value.is_number()) throw Error("\"id\" is not a text or a number");
      prompt.id = value;
    } else if (key == "prompt") {
      if (!value.is_string()) throw Error("\"prompt\" is not a text");
      prompt.text = value.get<std::string>();
    }
  }
  if (!json.contains("prompt")) throw Error("the line has no \"prompt\"");
  for (const auto& [key, value] : json.items()) // it might be meant to change the text
    if (key != "id" && key != "prompt")
      throw Error(fmt::format("\"{}\" is not known: a line has \"prompt\" and \"id\"", key));
}

/// Lines of objects where the first one begins with {, lines of text otherwise. Empty ones are passed over.
std::vector<Prompt> read_prompts(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<Prompt> prompts;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool objects = begin != std::string::npos && text[begin] == '{';
  int64_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    number++;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (trim(line).empty()) continue;
    Prompt prompt{.line = number};
    try {
      if (objects)
        read_object(std::string(line), prompt);
      else
        prompt.text = line;
    } catch (const Error& error) {
      prompt.error = error.what();
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) throw Error(fmt::format("{}: there is no prompt in it, one a line is expected", path));
  return prompts;
}

Generation::Wanted wanted(const ModelFile& file, const PromptsArguments& a, const Prompt& prompt) {
  Generation::Wanted w;
  w.prompt = prompt_tokens(file, {.text = prompt.text, .plain = a.plain}, a.model.context);
  w.most = a.count;
  w.stops = a.stops;
  w.sampling = a.sampler;
  w.sampling.seed = a.seed >= 0 ? uint64_t(a.seed) : std::random_device{}();
  w.ignore_end = a.ignore_end;
  w.grammar = a.grammar;
  w.continues = !file.require_tokenizer().decode(w.prompt).empty();
  return w;
}

/// All of the text; Ctrl-C ends it and all others early. Throws Error where the generation failed.
std::string whole_text(Generation& generation, const std::vector<Prompt>& all) {
  std::string text;
  for (bool cancelled = false;;) {
    const auto piece = generation.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    if (interrupt_requested() && !std::exchange(cancelled, true))
      for (const Prompt& prompt : all)
        if (prompt.generation) prompt.generation->cancel();
    if (!piece) continue;
    text += piece->text;
    if (!piece->more) return text;
  }
}

void print_line(const Json& line) {
  std::cout << json_text(line, -1) << std::endl;
  if (!std::cout) throw Error("stdout cannot be written");
}

} // namespace

int run_prompts(const ModelFile& file, const PromptsArguments& a) {
  std::vector<Prompt> prompts = read_prompts(a.file);
  file.require_tokenizer();
  for (Prompt& prompt : prompts) {
    if (!prompt.error.empty()) continue;
    try {
      prompt.generation = std::make_shared<Generation>(wanted(file, a, prompt));
    } catch (const Error& error) {
      prompt.error = error.what();
    }
  }
  models::BatchOptions options{.model = a.model, .compile = a.compile};
  options.model.slots = a.parallel;
  const auto draft = prepare_batch(
      file, {.draft = a.draft, .max_memory = a.max_memory, .draft_count = a.draft_count}, options);
  models::Batch batch(file, options);
  Scheduler scheduler(file, batch, prompts.size());
  catch_interrupts();
  const auto begin = std::chrono::steady_clock::now();
  for (const Prompt& prompt : prompts)
    if (prompt.generation) scheduler.submit(prompt.generation);
  int64_t wrong = 0;
  for (Prompt& prompt : prompts) {
    Json line;
    if (!prompt.id.is_null()) line["id"] = prompt.id;
    line["line"] = prompt.line;
    line["prompt"] = prompt.text;
    try {
      if (!prompt.generation) throw Error(prompt.error);
      Generation& g = *prompt.generation;
      line["text"] = whole_text(g, prompts);
      if (g.reason == StopReason::interrupted && g.tokens.empty()) continue; // it had not begun
      line["tokens"] = g.tokens;
      line["stop_reason"] = std::string(to_string(g.reason));
      line["seed"] = g.wanted.sampling.seed;
      line["timings"] = {{"wait_s", g.times.wait},
                         {"first_token_s", g.times.first_token},
                         {"generation_s", g.times.generation}};
      if (draft) line["draft"] = {{"proposed", g.proposed}, {"accepted", g.accepted}};
    } catch (const Error& error) {
      wrong++;
      line.erase("text");
      line["error"] = error.what();
    }
    print_line(line);
    prompt.generation.reset(); // its text is not needed any more
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Scheduler::Counts counts = scheduler.counts();
  print_stderr(
      "{} prompts, {} of them wrong  prompt {} tokens  generation {} tokens  {:.2f} s  {:.1f} tok/s\n",
      prompts.size(), wrong, counts.prompt_tokens, counts.generated_tokens, seconds,
      double(counts.generated_tokens) / seconds);
  if (draft)
    print_stderr("draft: {} of {} proposed tokens accepted\n", counts.accepted_tokens,
                 counts.proposed_tokens);
  if (interrupt_requested()) return interrupted;
  return wrong == 0 && std::cout ? ok : failed;
}

} // namespace luminal::cli
