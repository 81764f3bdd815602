// bench/decode.cpp -- Llama 3.2 1B with random weights, the same GGUF file for ours and llama.cpp
// by turns: tokens per second one by one and in a prompt of 512, every type of weights.
#include "base/settings.h"
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include "models/generator.h"
#include "models/random_model.h"
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

constexpr int64_t context = 1024, prompt = 512, decoded = 12, past = 64;

/// llama.cpp in a child process with one model (bench/peers/llama_peer.cpp).
class LlamaPeer {
public:
  LlamaPeer(const std::string& program, const std::string& file) {
    if (program.empty() || access(program.c_str(), X_OK) != 0) {
      absent_ = "llama.cpp is absent (./bench.sh peers builds it)";
      return;
    }
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return;
    std::signal(SIGPIPE, SIG_IGN);
    child_ = fork();
    if (child_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execl(program.c_str(), program.c_str(), file.c_str(), std::to_string(context).c_str(), nullptr);
      _exit(1);
    }
    close(in[0]);
    close(out[1]);
    write_ = fdopen(in[1], "w");
    read_ = fdopen(out[0], "r");
    const std::string answer = line();
    if (answer != "ready") {
      absent_ = fmt::format("llama.cpp is absent ({})", answer.empty() ? "it ended" : answer);
      stop();
    }
  }
  ~LlamaPeer() { stop(); }
  LlamaPeer(const LlamaPeer&) = delete;
  bool present() const { return write_ != nullptr; }
  const std::string& absent() const { return absent_; }

  std::string ask(const std::string& what) {
    fmt::print(write_, "{}\n", what);
    std::fflush(write_);
    return line();
  }
  double seconds(const std::string& what) {
    const std::string answer = ask(what);
    const double seconds = std::atof(answer.c_str());
    return seconds > 0 ? seconds : NAN;
  }
  std::vector<float> logits(const std::vector<int32_t>& tokens) {
    std::string list;
    for (int32_t token : tokens) list += (list.empty() ? "" : ",") + std::to_string(token);
    const std::string answer = ask("logits " + list);
    std::vector<float> values;
    for (const char* at = answer.c_str(); *at;) {
      char* end = nullptr;
      values.push_back(std::strtof(at, &end));
      if (end == at) break;
      at = end;
    }
    return values;
  }

private:
  std::string line() {
    std::string text;
    for (int c; (c = std::fgetc(read_)) != EOF && c != '\n';) text += char(c);
    return text;
  }
  void stop() {
    if (!write_) return;
    std::fclose(write_);
    std::fclose(read_);
    waitpid(child_, nullptr, 0);
    write_ = read_ = nullptr;
  }
  FILE *write_ = nullptr, *read_ = nullptr;
  pid_t child_ = -1;
  std::string absent_;
};

std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(int32_t((state >> 8) % uint32_t(vocabulary)));
  }
  return tokens;
}

/// Root mean square of the difference, in units of that of the second; infinite where anything is
/// NaN or a length differs.
double distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    size += double(b[i]) * double(b[i]);
  }
  const double ratio = std::sqrt(difference / size);
  return a.size() == b.size() && std::isfinite(ratio) ? ratio : INFINITY;
}

struct Bench {
  const Arguments& arguments;
  Machine& machine;
  Table& table;
  const ModelFile& file;
  LlamaPeer& peer;
  std::string type;
  std::map<std::string, double> reached = {}; // ours / llama.cpp of each work, for the marks

  void run(int threads, const std::string& activations) {
    const bool narrow = activations != "exact";
    const std::string name = narrow ? fmt::format("{} {} activations", type, activations) : type;
    auto wanted = [&](const char* work) {
      return fmt::format("{} {}", work, name).find(arguments.only) != std::string::npos;
    };
    if (!wanted("decode") && !wanted("prefill")) return;
    models::GeneratorOptions options;
    options.model = {.context = context, .chunk = prompt};
    options.model.activations = models::activations_from_name(activations);
    options.compile.threads = threads;
    models::Generator ours(file, options);
    if (arguments.report) fmt::print("{}", ours.report());
    const auto tokens = some_tokens(prompt, ours.model().config.vocab_size);
    const std::span<const int32_t> all(tokens);
    ours.reset();
    const auto last = ours.feed(all.first(24));
    const std::vector<float> logits(last.begin(), last.end());
    bool correct = std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
    if (peer.present()) {
      // llama.cpp keeps keys and values in f16, and rounds activations to the type of its dot
      // products.
      const double far = distance(logits, peer.logits({tokens.begin(), tokens.begin() + 24}));
      const double bound = type == "f32" ? 2e-3 : 5e-2;
      correct &= far < bound;
      table.note(fmt::format(
          "{}, {} threads: logits differ from llama.cpp's by {:.2g} of their size (below {} is right)", name,
          threads, far, bound));
    }
    const double bytes = double(ours.model().step_weight_bytes);
    if (wanted("decode")) {
      std::vector<Contender> race_of;
      race_of.push_back({"ours", {}, [&](double) {
                           ours.reset();
                           ours.feed(all.first(past));
                           return timed([&] {
                                    for (int64_t i = 0; i < decoded; i++)
                                      ours.feed(all.subspan(size_t(past + i), 1));
                                  }) /
                                  double(decoded);
                         }});
      race_of.push_back({"read", {}, [&](double) { return read_seconds(threads); }});
      if (peer.present() && arguments.peers)
        race_of.push_back({"llama.cpp", {}, [&](double) {
                             return peer.seconds(fmt::format("tg {} {} {}", decoded, past, threads)) /
                                    double(decoded);
                           }});
      race(race_of, arguments);
      add("decode", name, threads, 1, race_of, bytes / (read_bytes / race_of[1].low()), "read of the weights",
          correct);
    }
    if (wanted("prefill")) {
      std::vector<Contender> race_of;
      race_of.push_back({"ours", {}, [&](double) {
                           ours.reset();
                           return timed([&] { ours.feed(all); });
                         }});
      const auto peak = activations == "q8" && machine.probes->has(search::Peak::int8) ? search::Peak::int8
                        : activations == "bf16" && machine.probes->has(search::Peak::bf16)
                            ? search::Peak::bf16
                            : search::Peak::f32;
      race_of.push_back(
          {"peak", {}, [&](double seconds) { return 1 / machine.probes->peak(peak, threads, seconds); }});
      if (peer.present() && arguments.peers)
        race_of.push_back({"llama.cpp", {}, [&](double) {
                             return peer.seconds(fmt::format("pp {} {}", prompt, threads));
                           }});
      Arguments fewer = arguments; // a prompt takes seconds
      fewer.rounds = (arguments.rounds + 1) / 2;
      race(race_of, fewer);
      // Of the head only one row is needed.
      const double head = double(ours.model().config.vocab_size * ours.model().config.hidden_size);
      const double work = 2.0 * double(prompt) * (double(file.parameters()) - head);
      add("prefill", name, threads, prompt, race_of, work * race_of[1].low(),
          peak == search::Peak::f32 ? "f32 multiply-adds" : "dot instructions", correct);
    }
  }

  void add(const char* work, const std::string& name, int threads, int64_t tokens,
           const std::vector<Contender>& race_of, double limit_seconds, const char* limit, bool correct) {
    // The low percentile of few values is the best one: of all contenders alike.
    Row row{.work = fmt::format("{} {}", work, name), .threads = threads, .unit = "tok/s"};
    row.ours = double(tokens) / race_of[0].low();
    row.limit = double(tokens) / limit_seconds;
    row.limit_name = limit;
    row.goal = std::string_view(work) == "decode" ? 0.85 : 0.7;
    row.correct = correct;
    if (race_of.size() > 2) {
      row.peers["llama.cpp"] = double(tokens) / race_of[2].low();
      reached[row.work + fmt::format(", {} thr", threads)] = row.ours / row.peers["llama.cpp"];
    }
    table.add(row);
  }

  /// As many bytes as no cache holds, on large pages: the pages of a mapped file would make a lower
  /// limit than weights in memory of our own have.
  Array<float> walked = random_floats(int64_t(1) << 28, 1);
  double read_bytes = 0;
  double read_seconds(int threads) {
    constexpr int64_t elements = int64_t(1) << 28;
    read_bytes = double(machine.probes->stream_bytes(search::Stream::read, threads, elements));
    return machine.probes->stream_seconds(search::Stream::read, threads,
                                          {.x = &walked[0], .elements = elements});
  }
};

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv,
      "Llama 3.2 1B, random weights: decoding and a prompt of 512 against llama.cpp on the same file");
  Table table(arguments, "decode");
  Machine machine(arguments.threads.back());
  const char* program = std::getenv("LUMINAL_PEERS_LLAMA");
  const char* shape = std::getenv("LUMINAL_BENCH_SHAPE"); // another of models::model_shapes()
  const models::ModelShape* known = models::find_model_shape(shape ? shape : "llama-1b");
  if (!known) {
    fmt::print(stderr, "LUMINAL_BENCH_SHAPE: there is no shape {}\n", shape);
    return 2;
  }
  const char* kept = std::getenv("LUMINAL_BENCH_MODELS"); // a folder whose files stay for the next run
  const std::filesystem::path folder =
      kept ? std::filesystem::path(kept)
           : std::filesystem::temp_directory_path() / fmt::format("luminal_decode_{}", getpid());
  std::filesystem::create_directories(folder);
  bool said = false;
  for (const char* type : {"f32", "bf16", "q8_0", "q4_0", "q4_k"}) {
    const bool quantised = type[0] == 'q', rounds = quantised || std::string_view(type) == "bf16";
    const std::string how = quantised ? "q8" : "bf16"; // what llama.cpp's dot products read
    const std::string works =
        fmt::format("decode {0} {1} activations prefill {0} {1} activations", type, how);
    if (!arguments.only.empty() && works.find(arguments.only) == std::string::npos) continue;
    const std::string path = folder / fmt::format("{}-{}.gguf", known->name, type);
    try {
      if (!std::filesystem::exists(path)) {
        models::save(models::random_model(*known, *storage_type_from_name(type), 1), path + ".part").value();
        std::filesystem::rename(path + ".part", path);
      }
      auto opened = open_model(path);
      if (!opened) throw luminal::Error(opened.error());
      LlamaPeer peer(arguments.peers && program ? program : "", path);
      if (!peer.present() && !said) table.note(peer.absent());
      said = true;
      Bench bench{arguments, machine, table, *opened, peer, type};
      for (int threads : arguments.threads)
        for (const std::string& activations : {std::string("exact"), how})
          if (activations == "exact" || rounds) bench.run(threads, activations);
      for (const auto& [work, ratio] : bench.reached) {
        const double mark = work.starts_with("prefill") ? 1.3 : quantised ? 1.2 : 1.0;
        const bool counts = !rounds || work.find("activations") != std::string::npos;
        table.note(fmt::format(
            "{}: {:.2f} x llama.cpp{}", work, ratio,
            counts ? fmt::format(", mark {} {}", mark, ratio >= mark ? "reached" : "MISSED") : ""));
      }
    } catch (const std::exception& error) {
      table.note(fmt::format("{}: {}", type, error.what()));
    }
    if (!kept) std::filesystem::remove(path);
  }
  if (!kept) std::filesystem::remove_all(folder);
}
