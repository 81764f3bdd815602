// bench/support/benchmark_main.cpp -- main() of Google Benchmark programs: --json FILE in place of
// its two options.
#include <benchmark/benchmark.h>
#include <string>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json" && i + 1 < argc) {
      words.push_back(std::string("--benchmark_out=") + argv[++i]);
      words.emplace_back("--benchmark_out_format=json");
    } else {
      words.emplace_back(argv[i]);
    }
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
