// cli/program_graph.cpp -- from a file and its options to a graph.
#include "cli/program_graph.h"
#include "base/text.h"
#include "cli/onnx_program.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal::cli {

void add_graph_options(CLI::App& verb, GraphArguments& a, const std::string& sizes_for) {
  verb.add_option("file", a.path, "GGUF, safetensors, a Hugging Face folder, ONNX, or terms in text form")
      ->required();
  verb.add_option("-t,--threads", a.threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb.add_option("--size", a.sizes, sizes_for)->allow_extra_args(false);
  verb.add_option("--inputs,-i", a.inputs,
                  "Of an ONNX model: inputs whose shapes and values fix its dimensions; may be repeated")
      ->allow_extra_args(false);
  verb.add_option("-c,--ctx", a.context, "Positions of the context, as for luminal run")
      ->check(whole(0, int64_t(1) << 30));
  verb.add_option("-b,--batch", a.chunk, "Most prompt tokens in one step, as for luminal run")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb.add_option("--cache-type", a.cache_type, "Type of the key-value cache, as for luminal run")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb.add_option("--activations", a.activations, "As for luminal run: exact, bf16 or q8")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  add_allow_custom(verb, a.allow_custom);
}

void refuse_other_options(const CLI::App& verb, const GraphArguments& a) {
  if (!is_onnx(a.path)) refuse_options(verb, {"--inputs"}, "it is for ONNX models");
  if (a.terms() || is_onnx(a.path))
    refuse_options(verb, {"--ctx", "--batch", "--cache-type", "--activations"},
                   "it is for language models, which " + a.path + " is not");
}

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

models::LlamaOptions llama_options(const ModelFile& file, int64_t context, int64_t chunk,
                                   const std::string& cache_type, const std::string& activations) {
  models::LlamaOptions how;
  how.context = context > 0 ? context : std::min<int64_t>(file.require_config().context_length, 4096);
  how.chunk = chunk;
  if (cache_type == "f16") how.cache_dtype = DType::f16;
  how.activations = models::activations_from_name(activations);
  return how;
}

namespace {
/// Dimensions that are the first one of each input that has them: one picture or text at a time is typical.
std::set<std::string> batches_of(const OnnxModel& model) {
  std::set<std::string> first, others;
  for (const OnnxValue& input : model.inputs) {
    const Dims shape = input.tensor.shape();
    for (size_t d = 0; d < shape.size(); d++)
      if (!shape[d].is_constant()) (d == 0 && shape.size() > 1 ? first : others).insert(shape[d].to_string());
  }
  for (const std::string& name : others) first.erase(name);
  return first;
}
} // namespace

ProgramGraph::ProgramGraph(const GraphArguments& a) {
  options.threads = a.threads;
  const auto sizes = parse_sizes(a.sizes);
  if (is_onnx(a.path)) {
    TensorFiles files;
    for (const std::string& path : a.inputs) files.add(path);
    onnx_.emplace(open_onnx_model(a.path, files, sizes));
    for (const std::string& name : batches_of(*onnx_)) options.sizes[name] = 1;
    return;
  }
  auto opened = open_model(a.path);
  if (!opened) throw Error(opened.error());
  file_.emplace(std::move(*opened));
  llama_.emplace(
      models::make_llama(*file_, llama_options(*file_, a.context, a.chunk, a.cache_type, a.activations)));
  for (const auto& [name, size] : models::typical_sizes(*llama_)) options.sizes[name] = size;
  check_sizes(sizes, llama_->graph.state()->module.symbols, a.path);
  for (const auto& [name, size] : sizes) options.sizes[name] = size;
}

} // namespace luminal::cli
