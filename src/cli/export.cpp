// cli/export.cpp -- `luminal export MODEL|FILE.lum --out FOLDER`: a program as object code, a
// header, a weights file and a small C runtime.
#include "base/check.h"
#include "base/file.h"
#include "base/print.h"
#include "base/settings.h"
#include "cli/common.h"
#include "cli/onnx_program.h"
#include "cli/program_graph.h"
#include "cli/tensor_files.h"
#include "compile/target.h"
#include "formats/model_files.h"
#include "ir/trust.h"
#include "models/llama.h"
#include "runtime/export_plan.h"
#include "tensor/effects.h"
#include "tensor/graph_run.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct ExportArguments {
  std::string path, folder, target = "host", name, activations = "exact", cache_type = "f32";
  std::vector<std::string> inputs, sizes;
  int64_t context = 0, chunk = 128;
  int threads = 0;
  bool json = false, all_logits = false, report = false, allow_custom = false;
};

compile::Options options_for(const ExportArguments& a) {
  auto options = compile::options_for_target(a.target, a.threads > 0 ? a.threads : setting_threads());
  if (!options)
    throw Error(
        fmt::format("--target {}: {}. Known are host, x86-64-v3 (AVX2), x86-64-v4 (AVX-512), aarch64 (NEON) "
                    "and LLVM's names of processors, such as znver4 or neoverse-v1",
                    a.target, options.error()));
  options->pool = &shared_pool(setting_threads());
  if (a.target == "host") options->tuning = compile::usual_tuning_cache(false);
  return *options;
}

/// The last part of the path without its ending, as an identifier.
std::string name_of(const ExportArguments& a) {
  if (!a.name.empty()) return a.name;
  std::string path = a.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string stem = path.substr(path.rfind('/') + 1), name;
  if (const size_t dot = stem.rfind('.'); dot != std::string::npos && dot > 0) stem.resize(dot);
  for (char c : stem) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "model_" + name : name;
}

struct Program {
  Module module;
  std::map<std::string, int64_t> sizes;
  std::function<Result<std::span<const std::byte>>(const runtime::Slot&)> weight;
};

Program model_program(const ExportArguments& a, std::optional<ModelFile>& file, models::Llama& model) {
  auto opened = open_model(a.path);
  if (!opened) throw Error(opened.error());
  file.emplace(std::move(*opened));
  models::LlamaOptions how = llama_options(*file, a.context, a.chunk, a.cache_type, a.activations);
  how.all_logits = a.all_logits;
  model = models::make_llama(*file, how);
  auto state = model.graph.state();
  return {state->snapshot(), models::typical_sizes(model),
          [state](const runtime::Slot& slot) -> Result<std::span<const std::byte>> {
            load_deferred(state, slot.name);
            const auto found = state->data.find(slot.name);
            LUMINAL_CHECK(found != state->data.end() && found->second.given, "weight {} was never set",
                          slot.name);
            return found->second.bytes;
          }};
}

Program module_program(const ExportArguments& a, TensorFiles& files) {
  auto text = read_file(a.path);
  if (!text) throw Error(text.error());
  Program program;
  program.module = parse_module_from(*text, a.path, a.allow_custom);
  LUMINAL_CHECK(!program.module.functions.empty(), "the parser asks for a function");
  for (const std::string& path : a.inputs) files.add(path);
  program.weight = [&files](const runtime::Slot& slot) -> Result<std::span<const std::byte>> {
    const auto found = files.tensors.find(slot.name);
    if (found == files.tensors.end())
      return Failure{fmt::format("weight {} ({}) is missing: the files of --inputs have {}", slot.name,
                                 to_string(slot.type), files.names())};
    const TensorView& view = found->second.first;
    const auto dtype = dtype_of_storage(view.type);
    bool same = dtype == slot.type.dtype && view.shape.size() == slot.type.shape.size();
    for (size_t d = 0; same && d < view.shape.size(); d++)
      same = slot.type.shape[d].is_constant(view.shape[d]);
    if (!same)
      return Failure{fmt::format("{}: {} is {}, the module wants {}", found->second.second, slot.name,
                                 view.describe(), to_string(slot.type))};
    return view.bytes;
  };
  return program;
}

/// An ONNX model: its dimensions are fixed by --inputs and --size.
Program onnx_program(const ExportArguments& a, TensorFiles& files, std::optional<OnnxModel>& model) {
  for (const std::string& path : a.inputs) files.add(path);
  model.emplace(open_onnx_model(a.path, files, parse_sizes(a.sizes)));
  return {model->graph.state()->snapshot(),
          {},
          [&model](const runtime::Slot& slot) -> Result<std::span<const std::byte>> {
            return onnx_weight(*model, slot.name);
          }};
}

int export_program(const ExportArguments& a) {
  end_on_interrupt();
  compile::Options options = options_for(a);
  std::optional<ModelFile> file;
  models::Llama model;
  TensorFiles files;
  const bool terms = a.path.ends_with(".lum");
  std::optional<OnnxModel> onnx;
  Program program = terms             ? module_program(a, files)
                    : is_onnx(a.path) ? onnx_program(a, files, onnx)
                                      : model_program(a, file, model);
  options.sizes = program.sizes;
  if (!is_onnx(a.path))
    for (const auto& [name, size] : parse_sizes(a.sizes)) options.sizes[name] = size;
  Progress progress("export");
  progress.update(0.2, "compile for " + a.target);
  auto compiled = compile::compile(program.module, options);
  if (!compiled) throw Error(fmt::format("{}: {}", a.path, compiled.error()));
  if (a.report) print_stderr("{}", compiled->report());
  progress.update(0.8, "write");
  runtime::ExportOptions how{.folder = a.folder,
                             .name = name_of(a),
                             .target = a.target == "host" ? "this processor (" + options.target.cpu.cpu + ")"
                                                          : a.target,
                             .instructions = options.target.cpu.instructions(),
                             .output_names = {},
                             .weight = program.weight};
  auto exported = runtime::export_plan(*compiled->plan, how);
  if (!exported) throw Error(fmt::format("{}: {}", a.path, exported.error()));
  progress.done(fmt::format("{} kernels, {} of code, {} of weights", compiled->kernels,
                            show_bytes(exported->code_bytes), show_bytes(exported->weight_bytes)));
  std::vector<std::string> all{exported->header, exported->source, exported->library, exported->weights};
  all.insert(all.end(), exported->runtime.begin(), exported->runtime.end());
  if (a.json)
    std::cout << json_text(Json{{"name", how.name},
                                {"target", options.target.cpu.triple + " " + options.target.cpu.cpu},
                                {"instructions", how.instructions},
                                {"kernels", compiled->kernels},
                                {"code_bytes", exported->code_bytes},
                                {"weight_bytes", exported->weight_bytes},
                                {"memory_bytes", compiled->plan->memory_bytes()},
                                {"files", all}})
              << std::endl;
  else
    for (const std::string& path : all) std::cout << path << "\n";
  return std::cout.flush() ? ok : failed;
}

} // namespace

void add_export(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ExportArguments>();
  auto* verb = app.add_subcommand(
      "export", "A model, or a module of terms (.lum), as object code and C that run without Luminal");
  verb->footer("docs/export.md tells how to build and call what is written.");
  verb->add_option("file", a->path, "GGUF, safetensors, a Hugging Face folder, ONNX, or terms in text form")
      ->required();
  verb->add_option("-o,--out", a->folder, "The folder for the files; it is made")->required();
  verb->add_option(
          "--target", a->target,
          "host, x86-64-v3 (AVX2), x86-64-v4 (AVX-512), aarch64 (NEON), or LLVM's name of a processor")
      ->capture_default_str();
  verb->add_option("--name", a->name, "The beginning of all names, a C identifier (default: from the file)");
  verb->add_option(
          "--inputs,-i", a->inputs,
          "Weights of a module, or inputs that fix the shapes of an ONNX model: .safetensors, .npz or "
          ".npy; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--size", a->sizes,
                   "Typical size of a dynamic dimension, which schedules are made for: n=128")
      ->allow_extra_args(false);
  verb->add_option("-c,--ctx", a->context, "Positions of the context, as for luminal run")
      ->check(whole(0, int64_t(1) << 30));
  verb->add_option("-b,--batch", a->chunk, "Most tokens in one step")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--cache-type", a->cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb->add_option("--activations", a->activations, "As for luminal run: exact, bf16 or q8")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  verb->add_flag("--all-logits", a->all_logits, "Logits of every token of a step, not of the last one only");
  verb->add_option("-t,--threads", a->threads,
                   "Worker threads that schedules are made for; any number can run them")
      ->check(whole(0, 1024));
  verb->add_flag("--report", a->report, "Print what was compiled and why");
  add_allow_custom(*verb, a->allow_custom);
  verb->add_flag("--json", a->json, "One JSON object; keys in docs/program.md");
  verb->callback([a, verb, &exit_code] {
    if (a->path.ends_with(".lum") || is_onnx(a->path))
      refuse_options(*verb, {"--ctx", "--batch", "--cache-type", "--activations", "--all-logits"},
                     "it is for language models, which " + a->path + " is not");
    else
      refuse_options(*verb, {"--inputs"}, "it gives weights to a module of terms, and a model has its own");
    exit_code = export_program(*a);
  });
}

} // namespace luminal::cli
