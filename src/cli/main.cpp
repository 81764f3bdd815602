// cli/main.cpp -- the program `luminal`.
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "build_info.h"
#include "cli/common.h"
#include "cli/model_verbs.h"
#include "cli/rule_options.h"
#include "codegen/codegen.h"
#include "luminal/error.h"
#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>

namespace {

/// The verb that was being read: "luminal cache ls".
std::string verb_path(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty(); path += " " + at->get_name())
    at = at->get_subcommands()[0];
  return path;
}

std::string no_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string_view> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.emplace_back(verb->get_name());
  const std::string_view meant = luminal::nearest_word(word, verbs);
  const std::string of = app.get_parent() ? fmt::format(" of luminal {}", app.get_name()) : "";
  if (word.empty()) return fmt::format("a verb{} is missing: {}", of, luminal::join(verbs));
  return fmt::format("no verb '{}'{}{}", word, of,
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

/// What nobody takes, in the order of the command line; before a verb, the verb that may be meant.
std::string what_is_left(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  if (app.get_subcommands().empty() && !left.empty()) {
    if (left[0].starts_with('-'))
      return fmt::format("{}: options follow a verb, as in luminal run MODEL --temp 0", left[0]);
    return no_verb(app, left[0]);
  }
  for (const std::string& word : left) {
    if (!word.starts_with("--")) continue;
    const CLI::App* verb = app.get_subcommands()[0];
    std::vector<std::string> names;
    for (const CLI::Option* option : verb->get_options())
      if (!option->get_group().empty())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string_view meant = luminal::nearest_word(
        word.substr(0, word.find('=')), std::vector<std::string_view>(names.begin(), names.end()));
    if (!meant.empty()) return fmt::format("no option {}; did you mean {}?", word, meant);
  }
  return fmt::format("not expected: {}", fmt::join(left, " "));
}

/// The library's words as ours.
std::string wording(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what(), name = text.substr(0, text.find(':'));
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands()[0];
  if (dynamic_cast<const CLI::ExtrasError*>(&error)) return what_is_left(app);
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    if (!at->get_require_subcommand_min()) {
      const std::string option = text.substr(0, text.find(' '));
      return fmt::format("{} is missing", option.starts_with('-') ? option : "the argument " + option);
    }
    const std::vector<std::string> left = at->remaining(true);
    return no_verb(*at, left.empty() ? "" : left[0]);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return name + ": one value is expected";
  return text;
}

/// Settings are read when they are needed; wrong ones are told before anything is done.
void check_settings() {
  using namespace luminal;
  for (const std::string& name : unknown_settings()) {
    constexpr std::string_view prefix = "LUMINAL_";
    std::vector<std::string_view> words;
    for (const Setting& setting : settings_table())
      if (setting.name.starts_with(prefix)) words.push_back(setting.name.substr(prefix.size()));
    const std::string_view meant = nearest_word(std::string_view(name).substr(prefix.size()), words);
    luminal::print_stderr("note: {} is not a setting{}; luminal help env has the list\n", printable(name),
                          meant.empty() ? "" : fmt::format(", did you mean {}{}?", prefix, meant));
  }
  try {
    for (const Setting& setting : settings_table())
      if (setting.type == SettingType::integer)
        setting_integer(setting.name);
      else if (setting.type == SettingType::flag)
        setting_flag(setting.name);
    setting_threads();
  } catch (const Error& error) {
    throw cli::UsageError(error.what());
  }
}

/// One line on stderr, and with --json an object on stdout: a program that reads it finds the
/// reason there, too.
int complain(const std::string& text, int code, bool json, const std::string& advice = "") {
  luminal::print_stderr("luminal: {}\n{}", luminal::cli::shown_lines(text), advice);
  if (json)
    std::cout << luminal::cli::json_text(luminal::cli::Json{{"error", text}, {"exit_code", code}})
              << std::endl;
  return code;
}

int run(int argc, char** argv, bool json) {
  using namespace luminal::cli;
  CLI::App app{"luminal: a deep-learning compiler. Without a verb it runs the model that is built in."};
  app.name("luminal");
  app.footer("Results go to stdout, everything else to stderr; every verb takes --json.\n"
             "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Settings: luminal help env.");
  app.set_version_flag("--version", [] {
    return fmt::format("luminal {} (commit {}, {}, LLVM {})", LUMINAL_VERSION, LUMINAL_COMMIT,
                       LUMINAL_COMPILER, luminal::codegen::llvm_version());
  });
  int exit_code = ok;
  add_run(app, exit_code);
  add_chat(app, exit_code);
  add_serve(app, exit_code);
  add_tokenize(app, exit_code);
  add_logits(app, exit_code);
  add_perplexity(app, exit_code);
  add_convert(app, exit_code);
  add_embed(app, exit_code);
  add_transcribe(app, exit_code);
  add_classify(app, exit_code);
  add_detect(app, exit_code);
  add_inspect(app, exit_code);
  add_devices(app, exit_code);
  add_doctor(app, exit_code);
  add_egg(app, exit_code);
  add_tune(app, exit_code);
  add_replay(app, exit_code);
  add_bench(app, exit_code);
  add_train(app, exit_code);
  add_eval(app, exit_code);
  add_export(app, exit_code);
  add_opt(app, exit_code);
  add_rules(app, exit_code);
  add_explain(app, exit_code);
  add_cache(app, exit_code);
  add_help(app, exit_code);
  for (const char* verb : {"run", "chat", "serve", "logits", "perplexity", "embed", "transcribe", "classify",
                           "detect", "tune", "bench", "train", "eval", "export", "opt", "explain"}) {
    add_rule_options(*app.get_subcommand(verb));
    if (const std::string_view name = verb; name != "tune" && name != "opt")
      add_plan_option(*app.get_subcommand(verb)); // one searches, the other chooses no schedules
  }
  app.require_subcommand(0, 1);
  app.parse_complete_callback([&app] {
    if (app.get_subcommands().empty() || app.get_subcommands()[0]->get_name() != "help") check_settings();
  });
  const auto advice = [&app] {
    return app.get_subcommands().empty()
               ? std::string("Try luminal --help.\n")
               : fmt::format("Try luminal help{}.\n", verb_path(app).substr(app.get_name().size()));
  };
  try {
    app.parse(spelled_out(argc, argv));
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return complain(wording(app, error), usage, json, advice());
  } catch (const UsageError& error) {
    return complain(error.what(), usage, json, advice());
  }
  if (app.get_subcommands().empty()) return run_demo();
  return exit_code;
}

} // namespace

/// Files that are opened must not take the place of a closed standard stream; what is written to
/// one still fails, and so does reading.
void hold_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 &&
        open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream)
      _exit(luminal::cli::failed);
}

int main(int argc, char** argv) {
  hold_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of that write, and caches do without
  bool json = false;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; i++)
    json |= std::string_view(argv[i]) == "--json";
  try {
    const int code = run(argc, argv, json);
    const bool written = bool(std::cout.flush()) && std::fflush(stdout) == 0 && !std::ferror(stdout);
    if (written) return code;
    luminal::print_stderr("luminal: stdout cannot be written\n");
    return code == luminal::cli::ok ? int(luminal::cli::failed) : code;
  } catch (const std::bad_alloc&) {
    return complain("out of memory", luminal::cli::failed, json);
  } catch (const std::exception& error) {
    return complain(error.what(), luminal::cli::failed, json);
  }
}
