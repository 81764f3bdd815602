// cli/bench.cpp -- `luminal bench`: how fast a model reads a prompt and generates, against what the
// memory and the processor allow.
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "cli/announce.h"
#include "cli/common.h"
#include "cli/onnx_program.h"
#include "models/generator.h"
#include "models/random_model.h"
#include "search/machine_profile.h"
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <iostream>

namespace luminal::cli {
namespace {

using namespace models;

struct BenchArguments {
  std::string model, random, type = "bf16", save, threads, activations = "exact", cache_type = "f32",
                             max_memory;
  int64_t prompt = 512, generate = 128, depth = 0, chunk = 512, seed = 1;
  int repeats = 5;
  double tune = 0;
  std::vector<std::string> inputs, sizes;
  bool json = false, no_cache = false, report = false;
};

/// One row of the table.
struct Measured {
  std::string test;
  int threads = 1;
  int64_t tokens = 0;
  std::vector<double> seconds;
  double bytes = 0, flops = 0;    ///< read a token; of matrix products a token
  double streamed = 0;            ///< bytes of weights that each step reads
  double bandwidth = 0, peak = 0; ///< of the machine with these threads; 0: not known

  /// Tokens per second: mean and deviation over the repetitions.
  double mean() const {
    double sum = 0;
    for (double s : seconds) sum += double(tokens) / s;
    return sum / double(seconds.size());
  }
  double deviation() const {
    if (seconds.size() < 2) return 0;
    double sum = 0;
    for (double s : seconds) sum += std::pow(double(tokens) / s - mean(), 2);
    return std::sqrt(sum / double(seconds.size() - 1));
  }
  double bandwidth_fraction() const { return bandwidth > 0 ? mean() * bytes / bandwidth : 0; }
  double peak_fraction() const { return peak > 0 ? mean() * flops / peak : 0; }
};

std::vector<int> parse_threads(const std::string& text) {
  if (text.empty()) return {setting_threads()};
  std::vector<int> counts;
  for (std::string_view part : split(text, ',')) {
    const std::string word(part);
    char* end = nullptr;
    const long count = std::strtol(word.c_str(), &end, 10);
    if (end == word.c_str() || *end != 0 || count < 1 || count > 1024)
      throw UsageError(fmt::format(
          "--threads: \"{}\" is not a number of threads; write --threads 2 or --threads 1,2", word));
    counts.push_back(int(count));
  }
  return counts;
}

const ModelShape& shape_of(const BenchArguments& a) {
  const ModelShape* shape = find_model_shape(a.random);
  if (shape) return *shape;
  std::string names;
  for (const ModelShape& known : model_shapes())
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  throw UsageError(fmt::format("--random-weights: \"{}\" is not a known shape: {}", a.random, names));
}

StorageType type_of(const BenchArguments& a) {
  const auto type = storage_type_from_name(a.type);
  if (!type)
    throw UsageError(fmt::format("--type: \"{}\" is not a type; f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k "
                                 "q3_k q4_k q5_k q6_k can be made",
                                 a.type));
  return *type;
}

/// Weights of matrices, which each token multiplies once: two operations each.
double weights_multiplied(const ModelFile& file) {
  double weights = 0, embedding = 0;
  bool head = false;
  for (const TensorView& t : file.tensors) {
    if (t.shape.size() != 2) continue;
    const bool table = t.name == "token_embd.weight" || t.name == "model.embed_tokens.weight";
    (table ? embedding : weights) += double(t.elements());
    head |= t.name == "output.weight" || t.name == "lm_head.weight";
  }
  return weights + (head ? 0 : embedding);
}

class Bench {
public:
  Bench(const BenchArguments& a, const ModelFile& file, int threads)
      : a_(a), file_(file), threads_(threads), generator_(file, options(a, file, threads)) {
    const auto profile = search::MachineProfile::present(threads);
    if (profile.guessed) return;
    bandwidth_ = profile.read_bandwidth();
    peak_ = profile.fma_f32 * 1e9;
  }

  static GeneratorOptions options(const BenchArguments& a, const ModelFile& file, int threads) {
    GeneratorOptions o;
    o.model = model_options(a, file);
    o.compile.threads = threads;
    o.compile.cache = !a.no_cache;
    if (a.tune > 0) {
      o.compile.search.mode = SearchMode::budget;
      o.compile.search.seconds = a.tune;
    }
    return o;
  }
  static LlamaOptions model_options(const BenchArguments& a, const ModelFile& file) {
    LlamaOptions o;
    o.context = std::max<int64_t>(1, a.depth + std::max(a.prompt, a.generate));
    if (o.context > file.require_config().context_length)
      throw Error(fmt::format(
          "{}: {} positions are asked for (--depth and the longer of -p and -n), the model has {}", file.path,
          o.context, file.require_config().context_length));
    o.chunk = a.chunk;
    if (a.cache_type == "f16") o.cache_dtype = DType::f16;
    o.activations = models::activations_from_name(a.activations);
    return o;
  }

  Measured run(bool prompt, Progress& progress, double done, double share) {
    Measured m;
    m.tokens = prompt ? a_.prompt : a_.generate;
    m.test = fmt::format("{}{}", prompt ? "pp" : "tg", m.tokens);
    if (a_.depth > 0) m.test += fmt::format("@d{}", a_.depth);
    m.threads = threads_;
    const Llama& model = generator_.model();
    const double middle = double(a_.depth) + double(m.tokens) / 2;
    const double steps = prompt ? std::ceil(double(m.tokens) / double(model.chunk)) : double(m.tokens);
    m.bytes = double(model.step_weight_bytes) * steps / double(m.tokens) +
              double(model.cache_bytes) * middle / double(model.context);
    m.streamed = double(model.step_weight_bytes);
    m.flops = 2 * weights_multiplied(file_);
    if (prompt) { // of the prompt only the last token of a step meets the head
      const double head = double(model.config.vocab_size) * double(model.config.hidden_size);
      m.flops -= 2 * head * (1 - steps / double(m.tokens));
    }
    const ModelConfig& c = model.config;
    m.flops += 4 * middle * double(c.num_heads * c.head_dim * c.num_layers); // both products of attention
    m.bandwidth = bandwidth_;
    m.peak = peak_;
    for (int repeat = -1; repeat < a_.repeats; repeat++) { // the first one is not counted
      progress.update(done + share * double(repeat + 1) / double(a_.repeats + 1), m.test);
      const double seconds = once(m.tokens, prompt);
      if (repeat >= 0) m.seconds.push_back(seconds);
    }
    return m;
  }
  const Generator& generator() const { return generator_; }

private:
  double once(int64_t count, bool prompt) {
    generator_.reset();
    std::vector<int32_t> tokens(size_t(a_.depth + count));
    uint32_t state = uint32_t(a_.seed);
    for (int32_t& token : tokens) {
      state = state * 1664525u + 1013904223u;
      token = int32_t(int64_t(state >> 8) % generator_.model().config.vocab_size);
    }
    const std::span<const int32_t> all(tokens);
    generator_.feed(all.first(size_t(a_.depth)));
    const auto start = std::chrono::steady_clock::now();
    const auto timed = all.subspan(size_t(a_.depth));
    if (prompt)
      generator_.feed(timed);
    else
      for (size_t i = 0; i < timed.size(); i++) generator_.feed(timed.subspan(i, 1));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const BenchArguments& a_;
  const ModelFile& file_;
  int threads_;
  Generator generator_;
  double bandwidth_ = 0, peak_ = 0;
};

/// A rate above the machine's profile proves it wrong: it is raised for everybody. Where caches
/// hold the weights, or dot instructions multiply, nothing is proved.
void renew_profile(const BenchArguments& a, std::vector<Measured>& rows) {
  const auto tell = [](const std::string& changed) {
    if (!changed.empty()) print_stderr("{}\n", changed);
  };
  for (const Measured& m : rows) {
    if (m.streamed >= double(search::MachineProfile::present(m.threads).beyond_caches()))
      tell(search::MachineProfile::reached_rate(m.threads, "memory.read", m.mean() * m.bytes * 1e-9));
    if (a.activations == "exact")
      tell(search::MachineProfile::reached_rate(m.threads, "fma_f32", m.mean() * m.flops * 1e-9));
  }
  for (Measured& m : rows) {
    const auto known = search::MachineProfile::present(m.threads);
    if (m.bandwidth == 0 || known.guessed) continue;
    m.bandwidth = known.read_bandwidth();
    m.peak = known.fma_f32 * 1e9;
  }
}

std::string percent(double fraction) { return fraction > 0 ? fmt::format("{:.1f} %", 100 * fraction) : "-"; }

std::string type_name(const ModelFile& file) {
  std::map<std::string, uint64_t> bytes;
  for (const TensorView& t : file.tensors)
    if (t.shape.size() == 2) bytes[std::string(storage_name(t.type))] += t.bytes.size();
  std::string name = "?";
  uint64_t most = 0;
  for (const auto& [type, count] : bytes)
    if (count > most) most = count, name = type;
  return name;
}

void show(const std::vector<Measured>& rows, const std::string& model, const ModelFile& file) {
  const std::string name = printable(model);
  const std::string size = show_bytes(int64_t(file.tensor_bytes())),
                    parameters = fmt::format("{:.2f} M", double(file.parameters()) * 1e-6);
  const size_t width = std::max<size_t>(name.size(), 5);
  fmt::print("| {:<{}} | {:>10} | {:>10} | {:<5} | {:>7} | {:>11} | {:>18} | {:>12} | {:>12} | {:>9} |\n",
             "model", width, "size", "parameters", "type", "threads", "test", "tokens/s", "bytes/token",
             "of bandwidth", "of FMA");
  fmt::print(
      "| {:-<{}} | {:->10} | {:->10} | {:-<5} | {:->7} | {:->11} | {:->18} | {:->12} | {:->12} | {:->9} |\n",
      "", width, ":", ":", "", ":", ":", ":", ":", ":", ":");
  for (const Measured& m : rows)
    fmt::print("| {:<{}} | {:>10} | {:>10} | {:<5} | {:>7} | {:>11} | {:>18} | {:>12} | {:>12} | {:>9} |\n",
               name, width, size, parameters, type_name(file), m.threads, m.test,
               fmt::format("{:.2f} ± {:.2f}", m.mean(), m.deviation()), show_bytes(int64_t(m.bytes)),
               percent(m.bandwidth_fraction()), percent(m.peak_fraction()));
}

Json to_json(const std::vector<Measured>& rows, const std::string& name, const ModelFile& file,
             const BenchArguments& a) {
  Json out{{"model", name},
           {"type", type_name(file)},
           {"tensor_bytes", file.tensor_bytes()},
           {"parameters", file.parameters()},
           {"activations", a.activations},
           {"cache_type", a.cache_type},
           {"seed", a.seed},
           {"tests", Json::array()}};
  auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  for (const Measured& m : rows)
    out["tests"].push_back({{"test", m.test},
                            {"threads", m.threads},
                            {"tokens", m.tokens},
                            {"seconds", m.seconds},
                            {"tokens_per_second", m.mean()},
                            {"deviation", m.deviation()},
                            {"bytes_per_token", m.bytes},
                            {"flops_per_token", m.flops},
                            {"bandwidth_fraction", known(m.bandwidth_fraction())},
                            {"peak_fraction", known(m.peak_fraction())}});
  out["peak_memory_bytes"] = peak_memory();
  return out;
}

int bench(const BenchArguments& a) {
  end_on_interrupt();
  if (a.model.empty() == a.random.empty()) throw UsageError("give either a model or --random-weights SHAPE");
  if (!a.save.empty() && a.random.empty())
    throw UsageError("--save writes a random model; it needs --random-weights SHAPE");
  const std::vector<int> threads = parse_threads(a.threads);
  if (is_onnx(a.model)) {
    if (threads.size() != 1) throw UsageError("--threads: one count at a time for an ONNX model");
    return bench_onnx({.path = a.model,
                       .inputs = a.inputs,
                       .sizes = a.sizes,
                       .threads = threads[0],
                       .repeats = a.repeats,
                       .tune = a.tune,
                       .max_memory = a.max_memory.empty() ? 0 : parse_bytes(a.max_memory),
                       .json = a.json,
                       .no_cache = a.no_cache,
                       .report = a.report});
  }
  const bool runs = a.repeats > 0 && a.prompt + a.generate > 0;
  const auto announce = [&](const ModelFile& file) {
    announce_memory(file.path, Generator::estimate(file, Bench::model_options(a, file)), a.max_memory,
                    "A smaller shape or type, -p or -b needs less");
  };
  RandomModel random;
  std::optional<Result<ModelFile>> opened;
  if (a.random.empty()) {
    opened.emplace(open_model(a.model));
    if (!*opened) throw Error(opened->error());
  } else {
    const ModelShape& shape = shape_of(a);
    const StorageType type = type_of(a);
    if (runs) announce(model_without_values(shape, type));
    random = random_model(shape, type, uint64_t(a.seed));
    if (!a.save.empty()) {
      if (auto saved = save(random, a.save); !saved) throw Error(saved.error());
      print_stderr("{}: {}, {} tensors, {}\n", a.save, random.file.path, random.file.tensors.size(),
                   show_bytes(int64_t(random.file.tensor_bytes())));
    }
  }
  const ModelFile& file = opened ? **opened : random.file;
  const std::string name = opened
                               ? (file.require_config().name.empty() ? a.model : file.require_config().name)
                               : a.random + " (random)";
  std::vector<Measured> rows;
  if (runs) {
    if (opened) announce(file);
    Progress progress("bench");
    const double share = 1.0 / double(threads.size());
    for (size_t t = 0; t < threads.size(); t++) {
      progress.update(double(t) * share, fmt::format("compile for {} threads", threads[t]));
      Bench one(a, file, threads[t]);
      const double half = a.prompt > 0 && a.generate > 0 ? share / 2 : share;
      if (a.prompt > 0) rows.push_back(one.run(true, progress, double(t) * share, half));
      if (a.generate > 0) rows.push_back(one.run(false, progress, double(t + 1) * share - half, half));
      if (a.report) print_stderr("{}", one.generator().report());
    }
    progress.done(fmt::format("peak memory {}", show_bytes(peak_memory())));
    renew_profile(a, rows);
    if (rows.front().bandwidth == 0)
      print_stderr("note: this machine was not measured with so many threads: luminal devices does it\n");
  }
  if (a.json)
    std::cout << json_text(to_json(rows, name, file, a)) << std::endl;
  else if (!rows.empty())
    show(rows, name, file);
  return std::cout ? ok : failed;
}

} // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<BenchArguments>();
  auto* verb =
      app.add_subcommand("bench", "Measure a model: tokens per second of a prompt and of generation");
  verb->add_option("-m,--model,model", a->model, "GGUF, safetensors, a Hugging Face folder or ONNX");
  verb->add_option("--inputs,-i", a->inputs,
                   "Of an ONNX model: .safetensors, .npz, .npy; numbers from 0 to 1 otherwise")
      ->allow_extra_args(false);
  verb->add_option("--size", a->sizes, "NAME=SIZE of a dimension of an ONNX model")->allow_extra_args(false);
  std::string names;
  for (const ModelShape& shape : model_shapes())
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  verb->add_option("--random-weights", a->random,
                   "Instead of a model: random weights in the shape of " + names);
  verb->add_option("--type", a->type,
                   "Of random matrices: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k")
      ->capture_default_str();
  verb->add_option("--seed", a->seed, "Of random weights and tokens")
      ->check(whole(0, int64_t(1) << 62))
      ->capture_default_str();
  verb->add_option("--save", a->save, "Write the random model as a GGUF file; -r 0 does nothing else");
  verb->add_option("-p,--prompt,--n-prompt", a->prompt, "Tokens of the prompt; 0: no such test")
      ->check(whole(0, int64_t(1) << 30))
      ->capture_default_str();
  verb->add_option("-n,--predict,--n-gen", a->generate, "Tokens to generate one by one; 0: no such test")
      ->check(whole(0, int64_t(1) << 30))
      ->capture_default_str();
  verb->add_option("-d,--depth,--n-depth", a->depth, "Tokens that are in the cache before")
      ->check(whole(0, int64_t(1) << 30))
      ->capture_default_str();
  verb->add_option("-r,--repetitions", a->repeats, "After one that is not counted")
      ->check(whole(0, 1000))
      ->capture_default_str();
  verb->add_option("-t,--threads", a->threads,
                   "Worker threads, or several counts: 1,2 (default: LUMINAL_THREADS, or all cores)");
  verb->add_option("-b,--batch,--batch-size", a->chunk, "Most prompt tokens in one step")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--activations", a->activations, "As for luminal run: exact, bf16 or q8")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  verb->add_option("--cache-type", a->cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb->add_option("--max-memory", a->max_memory,
                   "Refuse to start if more may be needed (default: what is free): 512M, 8G")
      ->check(memory_amount());
  verb->add_option("--tune", a->tune, "First search faster kernels for so many seconds; see luminal tune")
      ->check(between(0, 1e7));
  verb->add_flag("--no-cache", a->no_cache, "Do not read or write machine code on disk");
  verb->add_flag("--report", a->report, "Print what was compiled and why");
  verb->add_flag("--json", a->json, "One JSON object; keys in docs/program.md");
  verb->callback([a, verb, &exit_code] {
    if (a->random.empty())
      refuse_options(*verb, {"--type"}, "it is for --random-weights; a file has its own types");
    if (is_onnx(a->model))
      refuse_options(*verb, {"--prompt", "--predict", "--depth", "--batch", "--cache-type", "--activations"},
                     "it is for language models, which " + a->model + " is not");
    else
      refuse_options(*verb, {"--inputs", "--size"}, "it is for ONNX models");
    exit_code = bench(*a);
  });
}

} // namespace luminal::cli
