// cli/convert_files.cpp -- luminal quantize, luminal convert: models in fewer bits, and in other formats.
#include "base/file.h"
#include "cli/convert_onnx.h"
#include "cli/lora_options.h"
#include "cli/model_verbs.h"
#include "models/convert.h"
#include <fmt/format.h>
#include <iostream>
#include <memory>

namespace luminal::cli {
namespace {

struct ConvertArguments {
  std::string from, to, type, head;
  std::vector<std::string> adapters;
  int threads = 0;
  bool pure = false, json = false;
};

models::ConvertOptions options_of(const ConvertArguments& a, Progress& progress) {
  models::ConvertOptions options;
  options.threads = a.threads;
  options.adapters = lora_choices(a.adapters);
  if (!a.type.empty()) options.mixture = models::weight_mixture(a.type);
  if (options.mixture) {
    options.mixture->pure = a.pure;
    if (!a.head.empty()) options.mixture->head = models::weight_mixture(a.head).type;
  }
  options.progress = [&progress](size_t i, size_t count, const std::string& name) {
    progress.update(double(i) / double(count), name);
  };
  return options;
}

int report(const ConvertArguments& a, const models::ConvertReport& r) {
  std::string types;
  for (const auto& [type, count] : r.types)
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, type);
  if (a.json) {
    Json counts = Json::object();
    for (const auto& [type, count] : r.types) counts[type] = count;
    std::cout << json_text(Json{{"path", a.to},
                                {"tensors", r.tensors},
                                {"bytes_before", r.bytes_before},
                                {"bytes_after", r.bytes_after},
                                {"types", counts},
                                {"fallbacks", r.fallbacks}})
              << std::endl;
  } else {
    fmt::print("{}: {} tensors ({}), {} from {}\n", a.to, r.tensors, types,
               show_bytes(int64_t(r.bytes_after)), show_bytes(int64_t(r.bytes_before)));
    if (!r.fallbacks.empty())
      fmt::print(
          "  rows that do not divide into the blocks wanted, in a type with smaller ones: {} tensors, the "
          "first {}\n",
          r.fallbacks.size(), r.fallbacks[0]);
    std::fflush(stdout);
  }
  return std::cout ? ok : failed;
}

int run(const ConvertArguments& a, bool folder) {
  end_on_interrupt();
  Progress progress(folder ? "convert" : "write");
  const models::ConvertOptions options = options_of(a, progress);
  const models::ConvertReport r = folder ? models::convert_to_folder(a.from, a.to, options)
                                         : models::convert_to_gguf(a.from, a.to, options);
  progress.done(fmt::format("{} tensors", r.tensors));
  return report(a, r);
}

void add_common(CLI::App& verb, ConvertArguments& a) {
  verb.add_option("-t,--threads", a.threads, "Threads (0: all cores)")->check(whole(0, 1024));
  add_lora_option(verb, a.adapters);
  verb.add_flag("--json", a.json, "The result as JSON on standard output");
}

} // namespace

void add_convert(CLI::App& app, int& exit_code) {
  auto q = std::make_shared<ConvertArguments>();
  auto* quantize = app.add_subcommand("quantize", "Write a model in fewer bits, as a GGUF file");
  quantize->footer("Types: " + models::weight_mixture_names() +
                   "\nThe _S, _M and _L are llama.cpp's mixtures: more bits where the error is felt most.");
  quantize->add_option("from", q->from, "A GGUF file, a safetensors file or a Hugging Face folder")
      ->required();
  quantize->add_option("to", q->to, "The GGUF file to write")->required();
  quantize->add_option("type", q->type, "What the matrices become: Q4_K_M, Q8_0, ..")->required();
  quantize->add_flag("--pure", q->pure, "All matrices in the type itself, none in a better one");
  quantize->add_option("--output-tensor-type", q->head, "The type of the head in place of the mixture's own");
  add_common(*quantize, *q);
  quantize->callback([q, &exit_code] {
    if (!q->to.ends_with(".gguf"))
      throw UsageError(fmt::format("{}: the name of a GGUF file is expected, NAME.gguf", q->to));
    exit_code = run(*q, false);
  });

  auto c = std::make_shared<ConvertArguments>();
  auto o = std::make_shared<OnnxConversion>();
  auto* convert =
      app.add_subcommand("convert", "Write a model in another format: GGUF, a Hugging Face folder, ONNX");
  convert->footer(
      "A name that ends in .gguf becomes a GGUF file, one that ends in .onnx an ONNX file, another "
      "one a folder with model.safetensors.");
  convert
      ->add_option("from", c->from,
                   "A GGUF file, a safetensors file or a Hugging Face folder; for ONNX also an ONNX file or "
                   "terms in text form (.lum)")
      ->required();
  convert->add_option("to", c->to, "The GGUF file, the ONNX file or the folder to write")->required();
  convert->add_option("--type", c->type,
                      "What the matrices become (default: as they are; blocks become BF16 in a folder)");
  convert
      ->add_option(
          "--inputs,-i", o->inputs,
          "For ONNX: weights of terms, or inputs that fix the shapes of an ONNX model: .safetensors, "
          ".npz or .npy; may be repeated")
      ->allow_extra_args(false);
  convert->add_option("--size", o->sizes, "For ONNX: a size of a dimension of an ONNX model: batch=1")
      ->allow_extra_args(false);
  convert->add_option("-c,--ctx", o->context, "For ONNX: positions of the context, as for luminal run")
      ->check(whole(0, int64_t(1) << 30));
  add_common(*convert, *c);
  convert->callback([c, o, convert, &exit_code] {
    if (!c->to.ends_with(".onnx")) {
      refuse_options(*convert, {"--inputs", "--size", "--ctx"}, "it is for ONNX, and " + c->to + " is not");
      exit_code = run(*c, !c->to.ends_with(".gguf"));
      return;
    }
    refuse_options(*convert, {"--type", "--lora", "--threads"}, "it is not for ONNX");
    o->from = c->from;
    o->to = c->to;
    o->json = c->json;
    exit_code = convert_to_onnx(*o);
  });
}

} // namespace luminal::cli
