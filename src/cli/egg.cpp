// cli/egg.cpp -- `luminal egg FILE...`: runs rule programs and prints what they ask for.
#include "base/file.h"
#include "base/print.h"
#include "cli/common.h"
#include "egg/egg_program.h"
#include "egg/egg_view.h"
#include "rules/region_program.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct EggArguments {
  std::vector<std::string> files;
  bool stats = false, json = false, format = false;
  uint64_t rows = 0, iterations = 0, nodes = 0;
  std::string bytes, focus, dot, html;
  double seconds = 0;
  int threads = 1;
};

void write_view(const std::string& path, const std::string& text) {
  const Result<void> written = write_file(path, text);
  if (!written.ok()) throw Error(written.error());
  print_stderr("wrote {}\n", path);
}

/// Runs one file; a program that fails has printed its outputs up to the mistake.
int run_egg(const EggArguments& a, const std::string& path, Json& all) {
  if (a.format) {
    const std::string text = egraph::format_egg(read_text(path), path == "-" ? "<stdin>" : path);
    if (a.json)
      all.push_back({{"file", path}, {"text", text}});
    else
      std::cout << text;
    return ok;
  }
  Json outputs = Json::array();
  egraph::EggOptions options;
  options.limits.rows = a.rows;
  if (!a.bytes.empty()) options.limits.bytes = static_cast<uint64_t>(parse_bytes(a.bytes));
  options.iterations = a.iterations;
  options.seconds = a.seconds;
  options.threads = a.threads;
  options.warning = [](const std::string& text) { print_stderr("warning: {}\n", shown_lines(text)); };
  options.output = [&](const egraph::EggOutput& out) {
    if (a.json) {
      Json entry{{"command", out.command}, {"place", out.place}, {"text", out.text}};
      if (out.command == "extract") entry["cost"] = out.cost;
      outputs.push_back(std::move(entry));
    } else {
      std::cout << out.text;
    }
  };
  const std::string text = read_text(path);
  const auto region = rules::terms_of_program(text, options); // of luminal opt --emit-egg
  std::optional<egraph::EggProgram> own;
  egraph::EggProgram& program = region ? region->program() : own.emplace(options);
  std::string error;
  try {
    if (region || path == "-")
      program.run(text, path == "-" ? "<stdin>" : path);
    else
      program.run_file(path);
  } catch (const Error& failure) {
    error = failure.what();
  }
  if (!error.empty() && !a.json) {
    std::cout.flush();
    print_stderr("{}\n", shown_lines(error));
  }
  if (a.stats && !a.json) std::cout << program.stats_table();
  if (a.json) {
    Json entry{{"file", path}, {"outputs", std::move(outputs)}};
    entry["error"] = error.empty() ? Json(nullptr) : Json(error);
    if (a.stats) entry["stats"] = Json::parse(program.stats_json());
    all.push_back(std::move(entry));
  }
  if (error.empty() && (!a.dot.empty() || !a.html.empty())) {
    const egraph::EggValue focus = a.focus.empty() ? program.last_class() : program.evaluate(a.focus);
    if (!a.dot.empty()) write_view(a.dot, egraph::view_dot(program, focus, a.nodes ? a.nodes : 200));
    if (!a.html.empty()) write_view(a.html, egraph::view_html(program, focus, a.nodes ? a.nodes : 5000));
  }
  return error.empty() ? ok : failed;
}

int egg(const EggArguments& a) {
  if ((!a.dot.empty() || !a.html.empty()) && a.files.size() != 1)
    throw UsageError("--dot and --html draw the e-graph of one file");
  int code = ok;
  Json all = Json::array();
  for (const std::string& path : a.files) code = std::max(code, run_egg(a, path, all));
  if (a.json) std::cout << json_text(all) << "\n";
  return code;
}

} // namespace

void add_egg(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<EggArguments>();
  auto* command = app.add_subcommand("egg", "Run rule programs over an e-graph (.egg, an egglog dialect)");
  command->add_option("files", a->files, "Programs, each on an e-graph of its own; - is standard input")
      ->required();
  command->add_flag("--stats", a->stats, "A table of the rules: time, steps, matches, new rows, unions");
  command->add_flag("--json", a->json,
                    "One JSON array: file, outputs, error of each program, and with --stats its stats");
  command->add_flag("--format", a->format, "Print the programs in their normal form instead of running them");
  command->add_option("--limit-rows", a->rows, "Stop with an error at this many rows")
      ->check(whole(1, int64_t(1) << 62));
  command
      ->add_option("--limit-bytes", a->bytes,
                   "Stop with an error at this much memory of the e-graph, such as 512M")
      ->check(memory_amount());
  command->add_option("--limit-iterations", a->iterations, "Stop with an error after this many iterations")
      ->check(whole(1, int64_t(1) << 62));
  command->add_option("--limit-seconds", a->seconds, "Stop with an error after this time")
      ->check(between(0, 1e9));
  command->add_option("--threads", a->threads, "Threads for matching; results do not depend on it")
      ->check(whole(1, 1024));
  command->add_option("--dot", a->dot, "Draw a class and what lies below it for Graphviz, to this file");
  command->add_option("--html", a->html,
                      "A page to click through the e-graph from a class, offline, to this file");
  command->add_option("--class", a->focus,
                      "The class to draw, as an expression; default: the last global that is a class");
  command->add_option("--nodes", a->nodes, "Most rows in a drawing (200 in --dot, 5000 in --html)")
      ->check(whole(1, 1000000));
  command->callback([a, command, &exit_code] {
    if (a->dot.empty() && a->html.empty())
      refuse_options(*command, {"--class", "--nodes"}, "it is for the drawings of --dot and --html");
    if (a->format) refuse_options(*command, {"--stats", "--dot", "--html"}, "with --format nothing is run");
    exit_code = egg(*a);
  });
}

} // namespace luminal::cli
