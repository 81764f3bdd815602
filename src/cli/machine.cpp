// cli/machine.cpp -- `luminal devices`, `luminal doctor`, `luminal help env`.
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "cli/common.h"
#include "codegen/codegen.h"
#include "codegen/object_cache.h"
#include "device/known_devices.h"
#include "formats/model_files.h"
#include "luminal/luminal.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

int devices(bool json, bool fresh, int threads) {
  threads = threads > 0 ? threads : setting_threads();
  end_on_interrupt();
  Progress progress("measuring");
  progress.update(0.2, "FMA, bandwidth, fork-join");
  auto profile = search::MachineProfile::measured(threads, fresh);
  if (!profile) throw Error(profile.error());
  progress.done("done");
  if (json)
    std::cout << profile->to_json() << std::endl;
  else
    std::cout << profile->to_string();
  if (!json)
    for (const device::KnownDevice& other : device::known_devices())
      if (other.executes && other.name != "cpu") fmt::print("device {}: {}\n", other.name, other.description);
  return std::cout ? ok : failed;
}

/// Each check: what, whether it holds, what to do where it does not.
struct Check {
  std::string name, detail;
  bool good;
};

int doctor(bool json) {
  std::vector<Check> checks;
  const auto target = codegen::Target::host().cpu;
  checks.push_back({"LLVM", codegen::llvm_version(), true});
  checks.push_back({"processor",
                    fmt::format("{}, vectors of {} bits, {} registers", target.cpu, target.vector_bits,
                                target.vector_registers),
                    target.vector_bits >= 128});
  checks.push_back({"threads", fmt::format("{}", setting_threads()), true});
  std::string folder = codegen::ObjectCache::default_folder();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  bool writable = !folder.empty() && !error;
  checks.push_back({"code cache",
                    folder.empty() ? "off"
                    : writable     ? folder
                               : fmt::format("{}: {} (set LUMINAL_CACHE_DIR to a folder that can be written)",
                                             folder, error.message()),
                    folder.empty() || writable});
  std::string failure;
  bool computes = false;
  try { // a small program through every part
    Graph g;
    Tensor x = g.tensor({2, 3}), y = x.matmul(x.transpose()).exp().keep();
    x.set({0.5f, -1.0f, 2.0f, 1.0f, 0.0f, -0.5f});
    g.execute();
    auto values = y.data<float>();
    computes = std::abs(values[0] - std::exp(5.25f)) < 1e-2f && std::abs(values[3] - std::exp(1.25f)) < 1e-5f;
    if (!computes) failure = "wrong numbers";
  } catch (const std::exception& e) {
    failure = e.what();
  }
  checks.push_back({"compile and run", computes ? "right" : failure, computes});
  bool all = true;
  Json out = Json::array();
  for (const Check& check : checks) {
    all &= check.good;
    out.push_back({{"check", check.name}, {"good", check.good}, {"detail", check.detail}});
    if (!json) fmt::print("{} {:<18} {}\n", check.good ? "ok  " : "BAD ", check.name, check.detail);
  }
  if (json) std::cout << Json{{"good", all}, {"checks", out}}.dump(2) << std::endl;
  return all ? ok : failed;
}

} // namespace

void add_devices(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false), fresh = std::make_shared<bool>(false);
  auto threads = std::make_shared<int>(0);
  auto* verb = app.add_subcommand("devices", "This machine: peaks and bandwidths, measured once and kept");
  verb->add_flag("--json", *json, "One JSON object");
  verb->add_flag("--measure", *fresh, "Measure again");
  verb->add_option("-t,--threads", *threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->callback([=, &exit_code] { exit_code = devices(*json, *fresh, *threads); });
}

void add_doctor(CLI::App& app, int& exit_code) {
  auto json = std::make_shared<bool>(false);
  auto* verb =
      app.add_subcommand("doctor", "Check that everything works here, and say what to do where it does not");
  verb->add_flag("--json", *json, "One JSON object: good, checks");
  verb->callback([=, &exit_code] { exit_code = doctor(*json); });
}

void add_help(CLI::App& app, int& exit_code) {
  auto* help = app.add_subcommand("help", "help VERB: its options; help env: the environment variables");
  auto topics = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  help->add_option("topic", *topics, "env, or a verb");
  help->add_flag("--json", *json, "One JSON array: name, default, doc; of verbs an object: topic, text");
  help->callback([=, &app, &exit_code] {
    if (topics->size() == 1 && (*topics)[0] == "env") {
      Json rows = Json::array();
      for (const auto& setting : settings_table()) {
        rows.push_back({{"name", std::string(setting.name)},
                        {"default", std::string(setting.default_text)},
                        {"doc", std::string(setting.doc)}});
        if (!*json) fmt::print("{:<20} {:<10} {}\n", setting.name, setting.default_text, setting.doc);
      }
      if (*json) std::cout << rows.dump(2) << std::endl;
      return;
    }
    const CLI::App* about = &app;
    std::string path = app.get_name(); // "luminal cache"
    for (const std::string& word : *topics) {
      const auto verbs = about->get_subcommands([](const CLI::App*) { return true; });
      const auto verb =
          std::find_if(verbs.begin(), verbs.end(), [&](const CLI::App* v) { return v->get_name() == word; });
      if (verb == verbs.end())
        throw UsageError(fmt::format("there is no \"{}\"; topics are env and the verbs", word));
      if (about != &app) path += " " + about->get_name();
      about = *verb;
    }
    const std::string text = about == &app ? about->help() : about->help(path);
    if (*json)
      std::cout << Json{{"topic", join(*topics, " ")}, {"text", text}}.dump(2) << std::endl;
    else
      std::cout << text;
  });
}

} // namespace luminal::cli
