// onnx/backend_tests.cpp -- runs ONNX's backend tests: a folder each, with model.onnx and sets of
// inputs and outputs. Usage: onnx_backend_tests FOLDER [--shard I/N] [--only TEXT] [--interpret]
// [--seconds S]. A line a test: "pass NAME", "fixed NAME" (passes; an input that shapes depend on
// is fixed), or "fail NAME: why". Each test has a process of its own.
#include "formats/onnx.h"
#include "luminal/inspect.h"
#include "luminal/onnx.h"
#include "models/onnx/importer.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace luminal;
namespace fs = std::filesystem;

namespace {

struct Options {
  std::string folder, only;
  int shard = 0, shards = 1, seconds = 60;
  bool interpret = false, times = false;
};

onnx::TensorData read_tensor(const fs::path& path, std::vector<MappedFile>& files) {
  auto mapped = MappedFile::open(path.string());
  if (!mapped) throw Error(mapped.error());
  files.push_back(std::move(*mapped));
  auto tensor = onnx::parse_onnx_tensor(files.back().bytes(), path.string());
  if (!tensor) throw Error(tensor.error());
  return std::move(*tensor);
}

struct Numbers {
  DType dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Empty, or how they differ: the tolerances are those of ONNX's own runner.
std::string difference(const Numbers& got, const HostTensor& expected) {
  if (got.dtype != expected.dtype)
    return fmt::format("the type is {} in place of {}", to_string(got.dtype), to_string(expected.dtype));
  if (got.shape != expected.shape)
    return fmt::format("the shape is [{}] in place of [{}]", fmt::join(got.shape, ", "),
                       fmt::join(expected.shape, ", "));
  const double relative = got.dtype == DType::bf16 ? std::ldexp(1.0, -6) : 1e-3, absolute = 1e-7;
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < expected.count(); i++) {
    const double a = load_f64(got.dtype, got.bytes.data(), i), b = expected.at(i);
    const bool same =
        (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= absolute + relative * std::fabs(b);
    if (!same && wrong++ == 0) first = i;
  }
  if (!wrong) return "";
  return fmt::format("{} of {} elements differ, element {} is {} in place of {}", wrong, expected.count(),
                     first, load_f64(got.dtype, got.bytes.data(), first), expected.at(first));
}

/// "pass" or "fixed"; throws Error otherwise.
std::string run_set(const fs::path& model_path, const fs::path& set, const Options& o) {
  std::vector<MappedFile> files;
  files.reserve(64);
  const auto file = onnx::open_onnx(model_path.string());
  if (!file) throw Error(file.error());
  std::map<std::string, HostTensor> inputs;
  OnnxOptions options;
  std::vector<std::string> names;
  for (const auto& input : file->graph.inputs) {
    const bool weight = std::any_of(file->graph.initializers.begin(), file->graph.initializers.end(),
                                    [&](const auto& t) { return t.name == input.name; });
    if (!weight) names.push_back(input.name);
    if (input.kind != onnx::ValueData::Kind::tensor || !onnx::carrier(input.type)) {
      load_onnx(model_path.string()); // says why
      throw Error("an input is not numeric");
    }
  }
  for (size_t i = 0; i < names.size(); i++) {
    const fs::path path = set / fmt::format("input_{}.pb", i);
    if (!fs::exists(path)) throw Error(fmt::format("there is no {}", path.string()));
    const HostTensor numbers = onnx::decode(read_tensor(path, files));
    options.shapes[names[i]] = numbers.shape;
    options.values[names[i]] = {numbers.dtype, numbers.shape, numbers.data};
    inputs[names[i]] = numbers;
  }
  OnnxModel model = load_onnx(model_path.string(), options);
  for (auto& [name, tensor] : model.inputs) tensor.set_bytes(inputs.at(name).data, inputs.at(name).dtype);
  std::vector<ReferenceValue> reference;
  std::vector<Tensor> outputs;
  for (const auto& output : model.outputs) outputs.push_back(output.tensor);
  if (o.interpret) {
    reference = interpret(outputs);
  } else {
    CompileOptions how;
    how.threads = 1;
    how.cache = false;
    model.graph.compile(how);
    model.graph.execute();
  }
  for (size_t i = 0; i < outputs.size(); i++) {
    const fs::path path = set / fmt::format("output_{}.pb", i);
    const HostTensor expected = onnx::decode(read_tensor(path, files));
    const Numbers got = o.interpret ? Numbers{reference[i].dtype, reference[i].shape, reference[i].bytes}
                                    : Numbers{outputs[i].dtype(), outputs[i].extents(), outputs[i].bytes()};
    if (const std::string text = difference(got, expected); !text.empty())
      throw Error(fmt::format("{}: output {}: {}", set.filename().string(), model.outputs[i].name, text));
  }
  return model.fixed.empty() ? "pass" : "fixed";
}

std::string run_test(const fs::path& folder, const Options& o) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  const std::string name = folder.filename().string();
  try {
    std::string verdict = "pass";
    if (sets.empty()) throw Error("there is no data");
    for (const fs::path& set : sets)
      if (run_set(folder / "model.onnx", set, o) == "fixed") verdict = "fixed";
    return verdict + " " + name;
  } catch (const std::exception& error) {
    std::string text = error.what();
    const std::string prefix = (folder / "model.onnx").string() + ": ";
    if (const size_t at = text.find(prefix); at != std::string::npos) text.erase(at, prefix.size());
    std::replace(text.begin(), text.end(), '\n', ' ');
    return "fail " + name + ": " + text;
  }
}

/// The test in a process of its own: a crash or a hang is a failure of this test only.
std::string run_apart(const fs::path& folder, const Options& o) {
  int ends[2];
  if (pipe(ends) != 0) return "fail " + folder.filename().string() + ": no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(unsigned(o.seconds));
    const std::string line = run_test(folder, o);
    const bool written = write(ends[1], line.data(), line.size()) == ssize_t(line.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string line;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) line.append(buffer, size_t(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return fmt::format("fail {}: {}", folder.filename().string(),
                       WTERMSIG(status) == SIGALRM ? "it takes too long"
                                                   : fmt::format("signal {}", WTERMSIG(status)));
  return line.empty() ? "fail " + folder.filename().string() + ": no answer" : line;
}

} // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word == "--interpret")
      o.interpret = true;
    else if (word == "--times")
      o.times = true;
    else if (word == "--only" && i + 1 < argc)
      o.only = argv[++i];
    else if (word == "--seconds" && i + 1 < argc)
      o.seconds = std::atoi(argv[++i]);
    else if (word == "--shard" && i + 1 < argc)
      std::sscanf(argv[++i], "%d/%d", &o.shard, &o.shards);
    else
      o.folder = word;
  }
  std::vector<fs::path> tests;
  for (const auto& entry : fs::recursive_directory_iterator(o.folder))
    if (entry.path().filename() == "model.onnx") tests.push_back(entry.path().parent_path());
  std::sort(tests.begin(), tests.end());
  int failed = 0;
  for (size_t i = 0; i < tests.size(); i++) {
    if (int(i) % std::max(1, o.shards) != o.shard || tests[i].string().find(o.only) == std::string::npos)
      continue;
    const auto start = std::chrono::steady_clock::now();
    std::string line = run_apart(tests[i], o);
    failed += line.starts_with("fail");
    if (o.times)
      line =
          fmt::format("{:8.3f} {}",
                      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), line);
    std::puts(line.c_str());
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}
