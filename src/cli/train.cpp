// cli/train.cpp -- `luminal train`: a configuration, a run in a folder, Ctrl-C that saves.
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/train_config.h"
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct TrainArguments {
  std::string config, folder, resume, max_memory;
  std::vector<std::string> changes;
  int threads = 0;
  bool json = false, example = false, check = false, no_cache = false;
};

std::string resume_line(const TrainArguments& a, const std::string& folder) {
  std::string line = fmt::format("luminal train {} --folder {} --resume auto", a.config, folder);
  if (!a.max_memory.empty()) line += fmt::format(" --max-memory {}", a.max_memory);
  for (const std::string& change : a.changes) line += fmt::format(" --set '{}'", change);
  return line;
}

/// Lines of a model are kept, those of this program say nothing to its users.
std::string without_own_line(const std::string& text) {
  const size_t at = text.rfind(" at ");
  const bool own = at != std::string::npos && (text.compare(at + 4, 10, "train.cpp:") == 0 ||
                                               text.compare(at + 4, 17, "train_tables.cpp:") == 0);
  return own ? text.substr(0, at) : text;
}

int train(const TrainArguments& a) {
  if (a.example) {
    std::cout << example_config() << std::flush;
    return ok;
  }
  const Json json = read_config(a.config, a.changes);
  TrainConfig config = train_config(json, a.config);
  TrainerOptions& o = config.options;
  o.folder = a.folder.empty() ? "runs/" + config.name : a.folder;
  o.progress = true;
  o.compile.threads = a.threads;
  o.compile.cache = !a.no_cache;
  if (!a.max_memory.empty()) o.compile.max_memory = parse_bytes(a.max_memory);
  o.stop = [] { return interrupt_requested(); };
  const auto begin = std::chrono::steady_clock::now();
  Trainer trainer(config.model, config.data, o);
  int64_t parameters = 0;
  for (const std::string& name : trainer.parameter_names())
    parameters += trainer.parameter(name).element_count();
  print_stderr("{}: {} parameters, {} samples{}, {} a step\n", config.name, human_count(double(parameters)),
               config.data->size(),
               o.validation ? fmt::format(" and {} to validate", o.validation->size()) : "",
               o.batch * o.accumulate);
  if (trainer.segments() > 1)
    print_stderr("{}: values of {} segments are computed again for their gradient\n", config.name,
                 trainer.segments());
  if (a.check) {
    print_stderr("{}: the configuration is right\n", a.config);
    return ok;
  }
  if (a.resume == "auto") {
    if (is_directory(o.folder + "/checkpoints") && !std::filesystem::is_empty(o.folder + "/checkpoints"))
      trainer.resume(o.folder);
  } else if (!a.resume.empty()) {
    trainer.resume(a.resume);
  }
  if (trainer.steps_done() > 0) print_stderr("{}: goes on from step {}\n", config.name, trainer.steps_done());
  if (trainer.steps_done() > 0 || !file_exists(o.folder + "/metrics.csv")) { // else run() says what is wrong
    const std::string kept = o.folder + "/config.json";
    if (auto made = make_folder_of(kept); !made) throw Error(made.error());
    if (auto written = write_file(kept, json.dump(2) + "\n"); !written) throw Error(written.error());
  }
  catch_interrupts();
  std::signal(SIGTERM, [](int) { std::raise(SIGINT); });
  const TrainSummary summary = trainer.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (summary.stopped)
    print_stderr("stopped at step {}, saved in {}\ngo on with: {}\n", summary.steps, summary.checkpoint,
                 resume_line(a, o.folder));
  else
    print_stderr("{}: {} steps in {}, the model is {}/model.safetensors\n", config.name, summary.steps,
                 human_time(seconds), o.folder);
  if (a.json) {
    Json out{{"name", config.name},    {"folder", o.folder},
             {"steps", summary.steps}, {"stopped", summary.stopped},
             {"loss", summary.loss},   {"parameters", parameters},
             {"seconds", seconds},     {"checkpoint", summary.checkpoint}};
    if (summary.validation_loss) out["validation_loss"] = *summary.validation_loss;
    if (summary.best_validation_loss) out["best_validation_loss"] = *summary.best_validation_loss;
    std::cout << json_text(out) << std::endl;
  }
  return summary.stopped ? interrupted : ok;
}

} // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TrainArguments>();
  auto* verb = app.add_subcommand("train", "Train a model as a configuration says: data, model, optimizer");
  verb->footer("The folder of a run has metrics.csv, metrics.jsonl, TensorBoard's events, loss.svg, "
               "checkpoints/ and, at the end, "
               "model.safetensors.\nCtrl-C finishes the step and saves. docs/training.md has all keys.");
  verb->add_option("CONFIG", a->config, "A .toml or .json file; --example prints one");
  verb->add_option("--set", a->changes, "KEY=VALUE in place of what the file says: optimizer.rate=0.01")
      ->allow_extra_args(false);
  verb->add_option("--folder,-o", a->folder, "Of the run (default: runs/NAME)");
  verb->add_option(
      "--resume", a->resume,
      "A checkpoint or the folder of a run; auto: the last one in the run's folder, if there is one");
  verb->add_option("-t,--threads", a->threads, "Worker threads (default: LUMINAL_THREADS, or all cores)")
      ->check(whole(1, 1024));
  verb->add_option("--max-memory", a->max_memory,
                   "Of a step: values are computed again where more would be needed, and what cannot be met "
                   "is refused: 512M, 8G")
      ->check(memory_amount());
  verb->add_flag("--check", a->check, "Read everything, build the model, and end");
  verb->add_flag("--example", a->example, "Print a configuration");
  verb->add_flag("--no-cache", a->no_cache, "Do not read or write machine code on disk");
  verb->add_flag("--json", a->json, "One JSON object at the end; keys in docs/training.md");
  verb->callback([a, &exit_code] {
    if (a->config.empty() && !a->example)
      throw UsageError("a configuration is missing: luminal train --example prints one");
    try {
      exit_code = train(*a);
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      throw Error(without_own_line(error.what()));
    }
  });
}

} // namespace luminal::cli
