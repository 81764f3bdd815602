// cli/main.cpp -- the program `luminal`.
#include "base/settings.h"
#include "base/text.h"
#include "build_info.h"
#include "cli/common.h"
#include "codegen/codegen.h"
#include "luminal/error.h"
#include <csignal>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <iostream>

namespace {

/// What nobody takes, in the order of the command line; before a verb, the verb that may be meant.
std::string what_is_left(CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  if (!app.get_subcommands().empty() || left.empty())
    return fmt::format("not expected: {}", fmt::join(left, " "));
  if (left[0].starts_with('-'))
    return fmt::format("{}: options follow a verb, as in luminal run MODEL --temp 0", left[0]);
  std::vector<std::string_view> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) verbs.emplace_back(verb->get_name());
  const std::string_view meant = luminal::nearest_word(left[0], verbs);
  return fmt::format("no verb '{}'{}", left[0],
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

int run(int argc, char** argv) {
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
  add_inspect(app, exit_code);
  add_devices(app, exit_code);
  add_doctor(app, exit_code);
  add_egg(app, exit_code);
  add_tune(app, exit_code);
  add_bench(app, exit_code);
  add_eval(app, exit_code);
  add_export(app, exit_code);
  add_cache(app, exit_code);
  add_help(app, exit_code);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ExtrasError&) {
    fmt::print(stderr, "luminal: {}\nTry luminal --help.\n", what_is_left(app));
    return usage;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "luminal: {}\nTry luminal --help.\n", error.what());
    return usage;
  }
  if (app.get_subcommands().empty()) return run_demo();
  return exit_code;
}

} // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error of that write, and caches do without
  try {
    const int code = run(argc, argv);
    const bool written = bool(std::cout.flush()) && std::fflush(stdout) == 0;
    if (written || code != luminal::cli::ok) return code;
    fmt::print(stderr, "luminal: stdout cannot be written\n");
  } catch (const luminal::Error& error) {
    fmt::print(stderr, "luminal: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "luminal: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "luminal: {}\n", error.what());
  }
  return luminal::cli::failed;
}
