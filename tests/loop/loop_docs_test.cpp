// loop/loop_docs_test.cpp -- every kernel of docs/loops.md does what the page says.
#include "loop_support.h"
#include <fstream>
#include <sstream>

namespace luminal::kernel {
namespace {

struct Example {
  int line = 0;
  std::string kernel, run;
};

/// The blocks "```loop" and "```run" in order.
std::vector<Example> examples(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<Example> out;
  std::string line, *open = nullptr;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line == "```loop") {
      out.push_back({number, {}, {}});
      open = &out.back().kernel;
    } else if (line == "```run") {
      open = &out.back().run;
    } else if (line.starts_with("```")) {
      open = nullptr;
    } else if (open) {
      *open += line + "\n";
    }
  }
  return out;
}

std::vector<std::byte> packed(DType type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(size_t(storage_bytes(type, int64_t(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) store_f64(type, bytes.data(), int64_t(i), values[i]);
  return bytes;
}

TEST(LoopDocs, EveryExampleRuns) {
  const auto all = examples(std::string(LUMINAL_SOURCE_DIR) + "/docs/loops.md");
  ASSERT_GT(all.size(), 10u);
  for (const Example& example : all) {
    SCOPED_TRACE("docs/loops.md:" + std::to_string(example.line));
    ASSERT_FALSE(example.run.empty());
    const Kernel kernel = checked(example.kernel);
    LoopRunOptions options;
    std::map<std::string, std::vector<double>> in, out;
    std::map<std::string, int64_t> symbols;
    std::string finds;
    std::istringstream lines(example.run);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, sign;
      words >> name >> sign;
      if (name == "finds") {
        finds = line.substr(6);
        continue;
      }
      std::vector<double> values;
      for (double v; words >> v;) values.push_back(v);
      ASSERT_TRUE(words.eof()) << line;
      const bool buffer = std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                                      [&](const Buffer& b) { return b.name == name; });
      if (sign == "->")
        out[name] = values;
      else if (buffer)
        in[name] = values;
      else if (name == "workers")
        options.workers = int(values.at(0));
      else if (name == "lanes")
        options.lanes = int(values.at(0));
      else
        symbols[name] = int64_t(values.at(0));
    }
    std::vector<int64_t> symbol_values;
    for (const Expr s : kernel.symbols) symbol_values.push_back(symbols.at(std::string(s.name())));
    std::vector<std::vector<std::byte>> data;
    for (const Buffer& b : kernel.buffers) {
      if (b.space != Space::global) continue;
      ExprMap<int64_t> at;
      for (size_t i = 0; i < kernel.symbols.size(); ++i) at[kernel.symbols[i]] = symbol_values[i];
      const int64_t size = evaluate(b.size, at).value();
      std::vector<double> values = in.contains(b.name) ? in[b.name] : std::vector<double>(size_t(size));
      ASSERT_EQ(int64_t(values.size()), size) << b.name;
      data.push_back(packed(b.dtype, values));
    }
    std::vector<std::span<std::byte>> globals(data.begin(), data.end());
    const LoopRun run = run_kernel(kernel, globals, symbol_values, options);
    if (!finds.empty()) {
      ASSERT_EQ(run.findings.empty(), false);
      const Finding& f = run.findings.front();
      const std::string kind = finds.substr(0, finds.find(": ")), text = finds.substr(finds.find(": ") + 2);
      EXPECT_EQ(to_string(f.kind), kind);
      EXPECT_TRUE(f.text.ends_with(text)) << f.text;
      continue;
    }
    EXPECT_TRUE(run.ok()) << run.text();
    ASSERT_FALSE(out.empty());
    for (const auto& [name, expected] : out)
      for (size_t g = 0; const Buffer& buffer : kernel.buffers) {
        if (buffer.name == name) {
          EXPECT_EQ(data[g], packed(buffer.dtype, expected)) << name;
        }
        g += buffer.space == Space::global;
      }
  }
}

} // namespace
} // namespace luminal::kernel
