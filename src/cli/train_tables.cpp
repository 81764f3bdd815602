// cli/train_tables.cpp -- the tables of a training's configuration: run, data, model, optimizer.
#include "base/file.h"
#include "base/text.h"
#include "cli/train_config.h"
#include "luminal/optimizers.h"
#include <filesystem>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

constexpr int64_t many = int64_t{1} << 40;

/// What the tables say to each other.
struct Reader {
  std::string folder;                   // of the file
  std::optional<Vocabulary> vocabulary; // of the text
  int64_t context = 0;

  std::string path(const std::string& text) const {
    return text.empty() || text[0] == '/' ? text : (std::filesystem::path(folder) / text).string();
  }
  DataSetPtr data(ConfigTable t);
  DataSetPtr text(ConfigTable& t, const std::string& content);
  ModelFunction model(ConfigTable t, TrainerOptions& options);
};

DataSetPtr Reader::text(ConfigTable& t, const std::string& content) {
  const std::string which = t.text("vocabulary", "characters");
  context = t.whole("context", context > 0 ? context : 64, 1, 1 << 20);
  const int64_t stride = t.whole("stride", 0, 0, many);
  if (!vocabulary)
    vocabulary = which == "characters" ? Vocabulary::characters(content)
                 : which == "bytes"    ? Vocabulary::bytes()
                                       : Vocabulary::tokenizer(path(which));
  return datasets::from_tokens(vocabulary->encode(content), {.context = context, .stride = stride});
}

std::string content_of(const std::string& path) {
  auto text = read_file(path, uint64_t{1} << 34);
  if (!text) throw Error(text.error());
  return std::move(*text);
}

DataSetPtr Reader::data(ConfigTable t) {
  const std::string kind = t.word("kind", {"arrays", "text", "tokens", "jsonl", "csv", "images"});
  DataSetPtr set;
  if (kind == "arrays") {
    std::vector<std::pair<std::string, std::string>> files{{"x", path(t.needed_text("x"))}};
    if (t.has("y")) files.emplace_back("y", path(t.text("y", "")));
    set = datasets::from_files(files);
  } else if (kind == "text") {
    set = text(t, content_of(path(t.needed_text("file"))));
  } else if (kind == "tokens") {
    context = t.whole("context", context > 0 ? context : 64, 1, 1 << 20);
    const std::string type = t.word("type", {"u16", "u8", "i32", "u32", "i64"});
    const DType dtype = type == "u16"   ? DType::u16
                        : type == "u8"  ? DType::u8
                        : type == "i32" ? DType::i32
                        : type == "u32" ? DType::u32
                                        : DType::i64;
    set = datasets::token_file(path(t.needed_text("file")),
                               {.context = context, .stride = t.whole("stride", 0, 0, many)}, dtype);
  } else if (kind == "jsonl") {
    const std::string file = path(t.needed_text("file"));
    const std::vector<std::string> fields = t.texts("fields");
    set = fields.empty() ? text(t, datasets::jsonl_text(file, t.text("key", "text")))
                         : datasets::jsonl_file(file, fields);
  } else if (kind == "csv") {
    CsvOptions options;
    options.inputs = t.texts("inputs");
    options.target = t.needed_text("target");
    const std::string separator = t.text("separator", ",");
    if (separator.size() != 1) t.mistake("separator", "one character is expected");
    options.separator = separator[0];
    options.header = t.flag("header", true);
    set = datasets::csv_file(path(t.needed_text("file")), options);
  } else {
    ImageFolderOptions options;
    options.height = t.whole("height", 0, 0, 16384);
    options.width = t.whole("width", options.height, 0, 16384);
    options.channels = int(t.whole("channels", 3, 1, 3));
    set = datasets::image_folder(path(t.needed_text("folder")), options);
  }
  t.finish();
  return set;
}

ModelFunction Reader::model(ConfigTable t, TrainerOptions& options) {
  const std::string kind = t.word("kind", {"mlp", "cnn", "resnet", "gpt", "llama", "diffusion"});
  const auto sizes = [&](const char* key, const std::vector<int64_t>& otherwise) {
    return t.wholes(key, otherwise, 1, 1 << 20);
  };
  const auto size = [&](const char* key, int64_t otherwise) { return t.whole(key, otherwise, 1, 1 << 24); };
  const auto vocabulary_size = [&] {
    if (vocabulary) return t.whole("vocabulary", vocabulary->size(), vocabulary->size(), 1 << 24);
    if (!t.has("vocabulary")) t.mistake("vocabulary", "it is missing: the data are numbers without one");
    return size("vocabulary", 0);
  };
  ModelFunction made;
  if (kind == "mlp") {
    made = train_models::mlp({sizes("hidden", {128}), size("outputs", 10), t.number("dropout", 0, 0, 0.99)});
  } else if (kind == "cnn") {
    made = train_models::cnn(
        {sizes("channels", {16, 32}), size("classes", 10), t.number("dropout", 0, 0, 0.99)});
  } else if (kind == "resnet") {
    made = train_models::resnet({size("width", 64), sizes("blocks", {2, 2, 2, 2}), size("classes", 10)});
  } else if (kind == "gpt") {
    train_models::GptOptions o;
    o.vocabulary = vocabulary_size();
    o.context = size("context", context);
    o.layers = size("layers", o.layers);
    o.heads = size("heads", o.heads);
    o.width = size("width", o.width);
    o.dropout = t.number("dropout", 0, 0, 0.99);
    made = train_models::gpt(o);
  } else if (kind == "llama") {
    train_models::LlamaOptions o;
    options.weights = path(t.text("weights", ""));
    if (is_directory(options.weights)) options.weights += "/model.safetensors";
    o.vocabulary = vocabulary_size();
    o.layers = size("layers", o.layers);
    o.heads = size("heads", o.heads);
    o.kv_heads = size("kv_heads", o.heads);
    o.width = size("width", o.width);
    o.hidden = size("hidden", o.width * 8 / 3);
    o.head_width = t.whole("head_width", 0, 0, 1 << 16);
    o.rope_theta = t.number("rope_theta", o.rope_theta, 1, 1e12);
    o.eps = t.number("eps", o.eps, 0, 1);
    o.tied = t.flag("tied", true);
    o.lora_rank = t.whole("lora_rank", 0, 0, 1 << 16);
    o.lora_alpha = t.number("lora_alpha", o.lora_alpha, 0, 1e6);
    o.checkpoint_layers = t.flag("checkpoint_layers", false);
    made = train_models::llama(o);
  } else {
    train_models::DiffusionOptions o;
    o.width = size("width", o.width);
    o.steps = size("steps", o.steps);
    made = train_models::diffusion(o);
  }
  t.finish();
  return made;
}

Schedule schedule(ConfigTable t, double rate, int64_t steps) {
  const std::string kind =
      t.word("kind", {"constant", "cosine", "linear", "step", "exponential", "one_cycle"});
  const int64_t warm_up = t.whole("warm_up", 0, 0, many), rest = std::max<int64_t>(1, steps - warm_up);
  Schedule made;
  if (kind == "constant") made = schedules::constant(rate);
  if (kind == "cosine") made = schedules::cosine(rate, rest, t.number("least", 0, 0, 1e6));
  if (kind == "linear") made = schedules::linear(rate, t.number("least", 0, 0, 1e6), rest);
  if (kind == "step")
    made = schedules::step(rate, t.whole("every", 1000, 1, many), t.number("gamma", 0.1, 0, 1));
  if (kind == "exponential") made = schedules::exponential(rate, t.number("gamma", 0.999, 0, 1));
  if (kind == "one_cycle") made = schedules::one_cycle(rate, std::max<int64_t>(1, steps));
  t.finish();
  return warm_up > 0 ? schedules::warm_up(warm_up, made) : made;
}

std::function<Optimizer(Graph&)> optimizer(ConfigTable t, ConfigTable schedule_table, int64_t steps) {
  const std::string kind =
      t.word("kind", {"adamw", "adam", "sgd", "rmsprop", "adagrad", "adadelta", "lamb", "lion"});
  const double otherwise = kind == "sgd" ? 0.1 : kind == "adadelta" ? 1 : kind == "lion" ? 1e-4 : 1e-3;
  const Schedule rate = schedule(std::move(schedule_table), t.number("rate", otherwise, 0, 1e6), steps);
  const double decay = t.number("weight_decay", kind == "adamw" ? 0.01 : 0, 0, 1e6);
  const DType memory = t.word("memory", {"f32", "bf16"}) == "f32" ? DType::f32 : DType::bf16;
  const auto beta = [&](const char* key, double value) { return t.number(key, value, 0, 0.999999); };
  std::function<Optimizer(Graph&)> made;
  if (kind == "adamw" || kind == "adam") {
    const AdamOptions o{beta("beta1", 0.9),          beta("beta2", 0.999),
                        t.number("eps", 1e-8, 0, 1), decay,
                        t.flag("amsgrad", false),    memory};
    made = [=](Graph& g) { return kind == "adam" ? adam(g, rate, o) : adamw(g, rate, o); };
  } else if (kind == "sgd") {
    const SgdOptions o{beta("momentum", 0), t.number("dampening", 0, 0, 1), decay, t.flag("nesterov", false),
                       memory};
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
      t.mistake("nesterov", "it needs a momentum, and no dampening");
    made = [=](Graph& g) { return sgd(g, rate, o); };
  } else if (kind == "rmsprop") {
    const RmsPropOptions o{beta("alpha", 0.99), t.number("eps", 1e-8, 0, 1), decay,
                           beta("momentum", 0), t.flag("centered", false),   memory};
    made = [=](Graph& g) { return rmsprop(g, rate, o); };
  } else if (kind == "adagrad") {
    const AdagradOptions o{t.number("rate_decay", 0, 0, 1), decay, t.number("initial_accumulator", 0, 0, 1e6),
                           t.number("eps", 1e-10, 0, 1), memory};
    made = [=](Graph& g) { return adagrad(g, rate, o); };
  } else if (kind == "adadelta") {
    const AdadeltaOptions o{beta("rho", 0.9), t.number("eps", 1e-6, 0, 1), decay, memory};
    made = [=](Graph& g) { return adadelta(g, rate, o); };
  } else if (kind == "lamb") {
    const LambOptions o{beta("beta1", 0.9), beta("beta2", 0.999), t.number("eps", 1e-6, 0, 1), decay, memory};
    made = [=](Graph& g) { return lamb(g, rate, o); };
  } else {
    const LionOptions o{beta("beta1", 0.9), beta("beta2", 0.99), decay, memory};
    made = [=](Graph& g) { return lion(g, rate, o); };
  }
  t.finish();
  return made;
}

} // namespace

TrainConfig train_config(const Json& json, const std::string& file) {
  ConfigTable t(json, file, "");
  Reader reader;
  reader.folder = std::filesystem::path(file).parent_path().string();
  TrainConfig c;
  TrainerOptions& o = c.options;
  c.name = t.text("name", std::filesystem::path(file).stem().string());
  o.steps = t.whole("steps", 1000, 0, many);
  o.batch = t.whole("batch", 32, 1, 1 << 24);
  o.accumulate = t.whole("accumulate", 1, 1, 1 << 20);
  o.seed = uint64_t(t.whole("seed", 0, 0, int64_t(1) << 62));
  o.recompute = t.whole("recompute", 0, 0, 1024);
  o.clip_norm = t.number("clip_norm", 0, 0, 1e9);
  o.ema = t.number("ema", 0, 0, 0.9999999);
  const std::string precision = t.word("precision", {"f32", "bf16", "f16"});
  o.precision = precision == "f32" ? DType::f32 : precision == "bf16" ? DType::bf16 : DType::f16;
  o.log_every = t.whole("log_every", 10, 1, many);
  o.validate_every = t.whole("validate_every", 0, 0, many);
  o.save_every = t.whole("save_every", 0, 0, many);
  o.keep_checkpoints = t.whole("keep_checkpoints", 3, 1, 1 << 20);
  o.on_nonfinite = t.word("on_nonfinite", {"stop", "skip"}) == "stop" ? OnNonFinite::stop : OnNonFinite::skip;
  o.shuffle = t.flag("shuffle", true);
  const double fraction = t.number("validation_fraction", 0, 0, 0.9);
  if (!t.has("data")) t.mistake("data", "it is missing");
  if (t.has("validation") && fraction > 0)
    t.mistake("validation_fraction", "there is a table validation already");
  c.data = reader.data(t.table("data"));
  if (t.has("validation"))
    o.validation = reader.data(t.table("validation"));
  else if (fraction > 0)
    std::tie(c.data, o.validation) = datasets::split(c.data, 1 - fraction, o.seed);
  if (!t.has("model")) t.mistake("model", "it is missing");
  c.model = reader.model(t.table("model"), o);
  o.optimizer = optimizer(t.table("optimizer"), t.table("schedule"), o.steps);
  t.finish();
  return c;
}

std::string example_config() {
  return R"(# luminal train FILE: trains a small GPT on the characters of a text.
name = "tales"
steps = 2000
batch = 16
clip_norm = 1.0
validation_fraction = 0.05
validate_every = 200
save_every = 500

[data]
kind = "text"
file = "input.txt"
vocabulary = "characters"   # or "bytes", or a tokenizer.json
context = 64
stride = 1                  # every place of the text begins a sample

[model]
kind = "gpt"
layers = 4
heads = 4
width = 128
dropout = 0.1

[optimizer]
kind = "adamw"
rate = 1e-3
weight_decay = 0.1

[schedule]
kind = "cosine"
warm_up = 100
least = 1e-4
)";
}

} // namespace luminal::cli
