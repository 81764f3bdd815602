// cli/tune.cpp -- `luminal tune MODEL|FILE.lum`: measures until the budget is spent; what it finds
// is what every later run uses.
#include "base/file.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "cli/common.h"
#include "cli/onnx_program.h"
#include "compile/compile.h"
#include "ir/trust.h"
#include "models/llama.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct TuneArguments {
  std::string path, mode = "budget", filter, cache_type = "f32", activations = "exact";
  double budget = 60;
  int threads = 0;
  int64_t context = 0, chunk = 128;
  std::vector<std::string> sizes, inputs;
  bool json = false, strict = false, report = false, allow_custom = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string gain(double before, double after) {
  return before > 0 && after > 0 ? fmt::format("{:.2f}x", before / after) : std::string();
}

/// Where the search stands, on stderr: some lines that are drawn again on a terminal, a plain line
/// every few seconds elsewhere.
class TuneDisplay {
public:
  ~TuneDisplay() { clear(); }
  void show(const SearchProgress& p) {
    const double time = now();
    const bool live = stderr_is_terminal();
    if (time - last_ < (live ? 0.1 : 3.0) && p.kernel == kernel_) return;
    if (!live && time - last_ < 1.0) return;
    last_ = time;
    kernel_ = p.kernel;
    std::vector<std::string> lines = live ? tall(p) : std::vector<std::string>{flat(p)};
    clear();
    for (const std::string& line : lines) print_stderr("{}\n", line);
    std::fflush(stderr);
    if (live) drawn_ = int(lines.size());
  }
  void clear() {
    if (drawn_ > 0) print_stderr("\033[{}A\033[J", drawn_);
    drawn_ = 0;
  }

private:
  static std::string head(const SearchProgress& p) {
    switch (p.phase) {
    case SearchProgress::Phase::measuring:
      return fmt::format("measuring {}/{}  {}", p.number, p.kernels, p.kernel);
    case SearchProgress::Phase::tuning: return fmt::format("tuning {}/{}  {}", p.number, p.kernels, p.kernel);
    case SearchProgress::Phase::confirming: return "confirming the whole program";
    }
    return "";
  }
  static std::string kernel_line(const SearchProgress& p) {
    if (p.phase != SearchProgress::Phase::tuning) return "";
    std::string line = p.usual > 0 ? fmt::format("default {}", human_time(p.usual)) : "default ...";
    if (p.best > 0) line += fmt::format("  best {}  {}", human_time(p.best), gain(p.usual, p.best));
    return line + fmt::format("  {} tried", p.tried);
  }
  static std::string rejected_line(const SearchProgress& p) {
    std::string line;
    for (const auto& [cause, count] : p.rejected)
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, cause);
    return line;
  }
  static std::string program_line(const SearchProgress& p) {
    if (!(p.program_before > 0)) return "";
    if (!(p.program > 0)) return fmt::format("kernels of a step {} so far", human_time(p.program_before));
    return fmt::format("kernels of a step {} -> {}", human_time(p.program_before), human_time(p.program));
  }
  static std::string left_text(const SearchProgress& p) {
    return p.left >= 0 ? fmt::format("{:.0f} s left", p.left) : std::string("until nothing is left to try");
  }
  static std::string flat(const SearchProgress& p) {
    std::string line = "tune: " + head(p);
    for (const std::string& part : {kernel_line(p), program_line(p), rejected_line(p), left_text(p)})
      if (!part.empty()) line += "; " + part;
    return line;
  }
  static std::vector<std::string> tall(const SearchProgress& p) {
    const std::string bold = colour() ? "\033[1m" : "", plain = colour() ? "\033[0m" : "";
    std::vector<std::string> lines{bold + head(p).substr(0, 100) + plain};
    if (const std::string kernel = kernel_line(p); !kernel.empty()) lines.push_back("  " + kernel);
    if (const std::string program = program_line(p); !program.empty()) lines.push_back("  " + program);
    if (const std::string rejected = rejected_line(p); !rejected.empty())
      lines.push_back("  rejected: " + rejected);
    lines.push_back(fmt::format("  {}   (Ctrl-C keeps the best)", left_text(p)));
    return lines;
  }

  double last_ = 0;
  int drawn_ = 0;
  std::string kernel_ = "-";
};

/// Sizes that the program can have; a misspelt or impossible one would be tuned for nothing.
void check_sizes(const std::map<std::string, int64_t>& sizes, const std::vector<Expr>& symbols,
                 const std::string& path) {
  for (const auto& [name, size] : sizes) {
    const auto symbol =
        std::find_if(symbols.begin(), symbols.end(), [&](Expr s) { return s.name() == name; });
    if (symbol == symbols.end()) {
      std::vector<std::string> names;
      for (const Expr s : symbols) names.emplace_back(s.name());
      throw UsageError(fmt::format("--size {}={}: {} has no dimension {}; {}", name, size, path, name,
                                   names.empty() ? "its sizes are all fixed" : "there is " + join(names)));
    }
    const Interval range = symbol->range();
    if (!range.contains(size) || size % symbol->multiple() != 0)
      throw UsageError(fmt::format(
          "--size {}={}: {} is {}..{}{}", name, size, name, range.low, range.high,
          symbol->multiple() > 1 ? fmt::format(", a multiple of {}", symbol->multiple()) : std::string()));
  }
}

SearchOptions search_options(const TuneArguments& a, TuneDisplay& display) {
  SearchOptions search;
  search.mode = a.mode == "optimal" ? SearchMode::optimal : SearchMode::budget;
  search.seconds = a.budget;
  search.filter = a.filter;
  search.stop = [] { return interrupt_requested(); };
  search.progress = [&display](const SearchProgress& p) { display.show(p); };
  return search;
}

struct Outcome {
  SearchSummary summary;
  std::string report;
  std::shared_ptr<search::TuningCache> cache; // that results went to
};

Outcome tune_terms(const TuneArguments& a, TuneDisplay& display) {
  const Module module = parse_module_from(read_text(a.path), a.path, a.allow_custom);
  const int threads = a.threads > 0 ? a.threads : setting_threads();
  ThreadPool pool(threads);
  compile::Options options = compile::Options::host(threads);
  options.pool = &pool;
  options.tuning = compile::usual_tuning_cache(true);
  options.sizes = parse_sizes(a.sizes);
  check_sizes(options.sizes, module.symbols, a.path);
  options.strict = a.strict;
  options.search = search_options(a, display);
  auto compiled = compile::compile(module, options);
  if (!compiled) throw Error(fmt::format("{}: {}", a.path, compiled.error()));
  return {*compiled->search, compiled->report(), options.tuning};
}

Outcome tune_model(const TuneArguments& a, TuneDisplay& display) {
  auto opened = open_model(a.path);
  if (!opened) throw Error(opened.error());
  const ModelConfig& config = opened->require_config();
  models::LlamaOptions how; // as `luminal run` with the same options
  how.context = a.context > 0 ? a.context : std::min<int64_t>(config.context_length, 4096);
  how.chunk = a.chunk;
  if (a.cache_type == "f16") how.cache_dtype = DType::f16;
  how.activations = models::activations_from_name(a.activations);
  models::Llama model = models::make_llama(*opened, how);
  CompileOptions options;
  options.threads = a.threads;
  for (const auto& [name, size] : models::typical_sizes(model)) options.sizes[name] = size;
  const auto sizes = parse_sizes(a.sizes);
  check_sizes(sizes, model.graph.state()->module.symbols, a.path);
  for (const auto& [name, size] : sizes) options.sizes[name] = size;
  options.strict = a.strict;
  options.search = search_options(a, display);
  auto cache = compile::usual_tuning_cache(true);
  model.graph.compile(options);
  return {*model.graph.search_summary(), model.graph.report(), std::move(cache)};
}

Outcome tune_onnx(const TuneArguments& a, TuneDisplay& display) {
  TensorFiles files;
  for (const std::string& path : a.inputs) files.add(path);
  OnnxModel model = open_onnx_model(a.path, files, parse_sizes(a.sizes));
  CompileOptions options;
  options.threads = a.threads;
  options.strict = a.strict;
  options.search = search_options(a, display);
  auto cache = compile::usual_tuning_cache(true);
  model.graph.compile(options);
  return {*model.graph.search_summary(), model.graph.report(), std::move(cache)};
}

int tune(const TuneArguments& a) {
  catch_interrupts();
  Outcome outcome;
  {
    TuneDisplay display;
    outcome = a.path.ends_with(".lum") ? tune_terms(a, display)
              : is_onnx(a.path)        ? tune_onnx(a, display)
                                       : tune_model(a, display);
  }
  const SearchSummary& s = outcome.summary;
  const auto& cache = outcome.cache;
  const auto table = [&] {
    if (s.changed.empty()) return std::string("no kernel has a new schedule: what was there is as fast\n");
    std::string text = fmt::format("{:<8}{:>8}{:>12}{:>12}{:>8}{:>9}  {}\n", "kernel", "launches", "before",
                                   "after", "gain", "of limit", "computes");
    for (const ChangedKernel& k : s.changed)
      text += fmt::format("{:<8}{:>8.4g}{:>12}{:>12}{:>8}{:>9}  {}\n", k.name, k.launches,
                          human_time(k.before), human_time(k.after), gain(k.before, k.after),
                          k.limit_fraction > 0 ? fmt::format("{:.0f} %", 100 * k.limit_fraction) : "",
                          k.about.empty() ? k.computes : fmt::format("{} ({})", k.computes, k.about));
    if (s.program_before > 0)
      text += fmt::format("{:<8}{:>8}{:>12}{:>12}{:>8}\n", "a step", "", human_time(s.program_before),
                          human_time(s.program_after), gain(s.program_before, s.program_after));
    return text;
  };
  const std::string lost = cache ? cache->memory_reason() : "there is no folder for the cache";
  const std::string path = lost.empty() ? cache->path() : "";
  if (a.json) {
    Json out{{"path", a.path},
             {"kernels", s.kernels},
             {"searched", s.searched},
             {"improved", s.improved},
             {"tried", s.tried},
             {"rejected", Json::object()},
             {"mismatches", s.mismatches},
             {"kernels_before_s", s.kernels_before},
             {"kernels_after_s", s.kernels_after},
             {"program_before_s", s.program_before},
             {"program_after_s", s.program_after},
             {"complete", s.complete},
             {"interrupted", interrupt_requested()},
             {"seconds", s.seconds},
             {"notes", s.notes},
             {"workers", s.workers},
             {"changed", Json::array()},
             {"cache", path}};
    for (const ChangedKernel& k : s.changed)
      out["changed"].push_back({{"name", k.name},
                                {"computes", k.computes},
                                {"about", k.about},
                                {"launches", k.launches},
                                {"before_s", k.before},
                                {"after_s", k.after},
                                {"limit_fraction", k.limit_fraction}});
    if (a.report) out["report"] = outcome.report;
    for (const auto& [cause, count] : s.rejected) out["rejected"][cause] = count;
    std::cout << out.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else
    std::cout << (a.report ? outcome.report : "") << table() << std::flush;
  print_stderr("{}", compile::to_string(s));
  print_stderr("{}\n", path.empty() ? "nothing is kept: " + lost : "kept in " + path);
  if (interrupt_requested()) return interrupted;
  return std::cout ? ok : failed;
}

} // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TuneArguments>();
  auto* verb =
      app.add_subcommand("tune", "Search faster kernels for a model, or for a module of terms (.lum)");
  verb->footer(
      "What is found is checked, kept in the tuning cache and used by every later run on this machine.\n"
      "Ctrl-C ends early and keeps the best so far.");
  verb->add_option("file", a->path, "GGUF, safetensors, a Hugging Face folder, ONNX, or terms in text form")
      ->required();
  verb->add_option("--budget", a->budget, "Seconds")->check(between(0.1, 1e7))->capture_default_str();
  verb->add_option("--mode", a->mode, "budget, or optimal: until nothing near the best is left to try")
      ->check(one_of({"budget", "optimal"}))
      ->capture_default_str();
  verb->add_option("--kernel", a->filter, "Only kernels whose name, results or weights have this in them");
  verb->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->add_option("--size", a->sizes,
                   "Tune for this size of a dynamic dimension: n=128 (several times for several)")
      ->allow_extra_args(false);
  verb->add_option("--inputs,-i", a->inputs,
                   "Of an ONNX model: inputs whose shapes and values fix its dimensions; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("-c,--ctx", a->context, "Positions of the context, as for luminal run")
      ->check(whole(0, int64_t(1) << 30));
  verb->add_option("-b,--batch", a->chunk, "Most prompt tokens in one step, as for luminal run")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--cache-type", a->cache_type, "Type of the key-value cache, as for luminal run")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb->add_option("--activations", a->activations, "As for luminal run: exact, bf16 or q8")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  verb->add_flag("--strict", a->strict, "A schedule that gives wrong results is a failure");
  verb->add_flag("--report", a->report, "The whole report, too: plan, schedule of every kernel");
  add_allow_custom(*verb, a->allow_custom);
  verb->add_flag("--json", a->json, "One JSON object instead of the table; keys in docs/program.md");
  verb->callback([a, verb, &exit_code] {
    if (!is_onnx(a->path)) refuse_options(*verb, {"--inputs"}, "it is for ONNX models");
    if (a->path.ends_with(".lum") || is_onnx(a->path))
      refuse_options(*verb, {"--ctx", "--batch", "--cache-type", "--activations"},
                     "it is for language models, which " + a->path + " is not");
    exit_code = tune(*a);
  });
}

} // namespace luminal::cli
