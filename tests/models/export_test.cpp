// tests/models/export_test.cpp -- exported programs, built by the system's C compiler and run on
// their own, give what the plan gives; mistakes come back as codes.
#include "models/data.h"
#include "models/export_support.h"
#include "models/generator.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>

namespace luminal::models {
namespace {

using testing::HasSubstr;

// Four tokens at once, then six one by one; all logits of the last token each time.
const std::string stories_main = R"(
#include "stories.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static luminal_model* m;
static void must(luminal_error e) {
  if (e == LUMINAL_OK) return;
  printf("%s: %s\n", luminal_error_name(e), luminal_message(m));
  exit(1);
}
int main(int argc, char** argv) {
  char message[256] = "";
  static const int32_t tokens[] = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
  luminal_value in, out;
  luminal_error e = stories_open(argv[argc - 2], atoi(argv[argc - 1]), &m, message, sizeof message);
  if (e) { printf("%s: %s\n", luminal_error_name(e), message); return 1; }
  for (int turn = 0; turn < 2; turn++) { // the second one begins anew
    luminal_reset_states(m);
    for (int past = 0, n = 4; past < 10; past += n, n = 1) {
      must(luminal_set_dim(m, stories_dim_n, n));
      must(luminal_set_dim(m, stories_dim_past, past));
      must(luminal_input(m, stories_input_tokens, &in));
      memcpy(in.data, tokens + past, (size_t)in.bytes);
      must(luminal_run(m));
      must(luminal_output(m, stories_output_logits, &out));
      for (int64_t i = 0; turn == 1 && i < out.shape[0]; i++) printf("%a\n", (double)((const float*)out.data)[i]);
    }
  }
  luminal_close(m);
  return 0;
}
)";

class ExportedStories : public testing::Test {
protected:
  /// What the plan gives on this machine.
  static std::vector<float> expected(const ModelFile& file) {
    GeneratorOptions options;
    options.model = {.context = 64, .chunk = 8};
    options.compile = {.threads = 2, .cache = false};
    Generator generator(file, options);
    const std::vector<int32_t> tokens{1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
    const std::span<const int32_t> all(tokens);
    std::vector<float> logits;
    for (size_t past = 0, n = 4; past < 10; past += n, n = 1) {
      const auto last = generator.feed(all.subspan(past, n));
      logits.insert(logits.end(), last.begin(), last.end());
    }
    return logits;
  }
  static void export_to(const Folder& folder, const ModelFile& file, const char* target) {
    Llama model = make_llama(file, {.context = 64, .chunk = 8});
    const std::string kept = model.graph.state()->kept.at(node_id(model.logits));
    export_graph(model.graph, folder, target, "stories", {{kept, "logits"}}, {}, typical_sizes(model));
  }
  static void compare(const ModelFile& file, const std::string& text, double bound) {
    const std::vector<float> got = numbers(text), wanted = expected(file);
    ASSERT_EQ(got.size(), wanted.size()) << text.substr(0, 500);
    double largest = 0;
    for (size_t i = 0; i < got.size(); i++) {
      const double error = std::abs(double(got[i]) - double(wanted[i]));
      if (!(error <= largest)) largest = error;
    }
    EXPECT_LE(largest, bound);
  }
};

TEST_F(ExportedStories, OnThisProcessorBitByBit) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  NEEDS_COMPILER("cc");
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const Folder folder("host");
  export_to(folder, file, "host");
  ASSERT_EQ(build(folder, "stories", stories_main), "");
  const std::string run = "cd " + quoted(folder.path) + " && ./main stories.weights ";
  compare(file, output_of(run + "1"), 0);
  compare(file, output_of(run + "3"), 0);
  // Weights that are not of this export.
  EXPECT_THAT(output_of("cd " + quoted(folder.path) + " && ./main main.c 1"),
              HasSubstr("file: main.c: has another size"));
  EXPECT_THAT(output_of("cd " + quoted(folder.path) + " && ./main missing 1"),
              HasSubstr("file: missing: cannot be opened"));
  EXPECT_THAT(output_of(run + "0"), HasSubstr("argument: 0 threads"));
  std::fstream damaged(folder.path / "stories.weights", std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(9);
  damaged.put('x');
  damaged.close();
  EXPECT_THAT(output_of(run + "1"), HasSubstr("is not a weights file of this export"));
}

TEST_F(ExportedStories, ForOtherX86Processors) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  NEEDS_COMPILER("cc");
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    const Folder folder(target);
    export_to(folder, file, target);
#if !defined(__x86_64__)
    GTEST_SKIP() << "this is not a x86-64 processor; the code was made, and is not run";
#else
    ASSERT_EQ(build(folder, "stories", stories_main), "");
    const std::string text = output_of("cd " + quoted(folder.path) + " && ./main stories.weights 2");
    const bool can = std::string_view(target) == "x86-64-v3" ? __builtin_cpu_supports("avx2")
                                                             : __builtin_cpu_supports("avx512dq");
    if (can)
      compare(file, text, 1e-4);
    else
      EXPECT_THAT(text, HasSubstr("processor: stories was compiled for a processor with avx"));
#endif
  }
}

TEST_F(ExportedStories, ForAarch64UnderEmulation) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  NEEDS_COMPILER("aarch64-linux-gnu-gcc");
  if (!works("qemu-aarch64 --version")) GTEST_SKIP() << "there is no qemu-aarch64 (qemu-user) to run it";
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  struct Case {
    const char *target, *cpu, *old; // emulated; and what an older processor is told
  };
  const char* const lacks_dot = "processor: stories was compiled for a processor with ASIMDDP";
  for (const auto& [target, cpu, old] :
       {Case{"aarch64", "max", ""}, Case{"neoverse-n1", "max", lacks_dot},
        Case{"neoverse-v1", "max,sve-default-vector-length=32", lacks_dot},
        Case{"a64fx", "max,sve-default-vector-length=64", "a processor with SVE"}}) {
    const Folder folder(target);
    export_to(folder, file, target);
    ASSERT_EQ(build(folder, "stories", stories_main, "aarch64-linux-gnu-gcc -static"), "");
    const auto run = [&](const char* processor, int threads) {
      return output_of(fmt::format("cd {} && qemu-aarch64 -cpu {} ./main stories.weights {}",
                                   quoted(folder.path), processor, threads));
    };
    compare(file, run(cpu, 2), 1e-4);
    if (*old) {
      EXPECT_THAT(run("cortex-a57", 1), HasSubstr(old)) << target;
    } else {
      compare(file, run("cortex-a57", 1), 1e-4);
    }
    if (std::string_view(target) == "neoverse-v1") {
      EXPECT_THAT(run("max,sve-default-vector-length=64", 1), HasSubstr("a processor with SVE of 256 bits"));
    }
  }
}

TEST(Export, LoopsStatesChecksAndMistakes) {
  NEEDS_COMPILER("cc");
  Graph g;
  const Dim n = g.dim("n", 1, 300);
  Tensor x = g.tensor({n, 64}, DType::f32, "x"), rows = g.tensor({n}, DType::i32, "rows"),
         w = g.weight("w", {64, 64}), seen = g.state("seen", {64});
  std::vector<float> values(64 * 64);
  for (size_t i = 0; i < values.size(); i++) values[i] = float(int(i * 37 % 19) - 9) / 64;
  w.set(values);
  Tensor y =
      x.matmul((w * 2).transpose()).gelu().gather(rows).set_name("y").keep(); // w * 2 is computed at load
  g.update(seen, seen + y.sum(0));
  auto loop = g.loop(5, {y.sum(1)}, {}, {x},
                     [](Graph& body, Tensor step, const auto& carried, const auto&, const auto& invariants) {
                       (void)body;
                       return Graph::LoopResult{
                           {carried[0] * 0.5 + invariants[0].max(1) + step.cast(DType::f32)}, {}};
                     });
  Tensor z = loop.carried[0].set_name("z").keep();
  const Folder folder("small");
  const auto files =
      export_graph(g, folder, "host", "small",
                   {{g.state()->kept.at(node_id(y)), "y"}, {g.state()->kept.at(node_id(z)), "z"}},
                   {{1000, 1}, {10000, 2}, {200000, 3}}); // launches on any number of workers
  EXPECT_EQ(files.runtime.size(), 2u);
  const std::string main = R"(
#include "small.h"
#include <stdio.h>
#include <stdlib.h>
static luminal_model* m;
#define EXPECT(call, error) do { const luminal_error e_ = (call); if (e_ != (error)) { \
  printf("line %d: %s: %s\n", __LINE__, luminal_error_name(e_), luminal_message(m)); exit(1); } } while (0)
int main(int argc, char** argv) {
  luminal_value x, rows, y, z, seen;
  EXPECT(small_open("small.weights", argc > 1 ? atoi(argv[1]) : 1, &m, NULL, 0), LUMINAL_OK);
  const int64_t sizes[] = {3, 300, 1};
  for (int s = 0; s < 3; s++) {
    EXPECT(luminal_set_dim(m, small_dim_n, sizes[s]), LUMINAL_OK);
    EXPECT(luminal_input(m, small_input_x, &x), LUMINAL_OK);
    EXPECT(luminal_input(m, small_input_rows, &rows), LUMINAL_OK);
    if (x.rank != 2 || x.shape[0] != sizes[s] || x.shape[1] != 64 || x.bytes != sizes[s] * 256 || x.dtype != LUMINAL_F32) return 2;
    for (int64_t i = 0; i < x.shape[0] * 64; i++) ((float*)x.data)[i] = (float)(i * 31 % 23 - 11) / 16;
    for (int64_t i = 0; i < sizes[s]; i++) ((int32_t*)rows.data)[i] = (int32_t)(i * 7 % sizes[s]);
    EXPECT(luminal_run(m), LUMINAL_OK);
    EXPECT(luminal_output(m, small_output_y, &y), LUMINAL_OK);
    EXPECT(luminal_output(m, small_output_z, &z), LUMINAL_OK);
    EXPECT(luminal_state(m, small_state_seen, &seen), LUMINAL_OK);
    for (int64_t i = 0; i < sizes[s] * 64; i++) printf("%a\n", (double)((float*)y.data)[i]);
    for (int64_t i = 0; i < sizes[s]; i++) printf("%a\n", (double)((float*)z.data)[i]);
    for (int64_t i = 0; i < 64; i++) printf("%a\n", (double)((float*)seen.data)[i]);
  }
  ((int32_t*)rows.data)[0] = 1;
  EXPECT(luminal_run(m), LUMINAL_ERROR_INDEX);
  ((int32_t*)rows.data)[0] = 0;
  EXPECT(luminal_set_dim(m, small_dim_n, 301), LUMINAL_ERROR_ARGUMENT);
  EXPECT(luminal_set_dim(m, 1, 1), LUMINAL_ERROR_ARGUMENT);
  EXPECT(luminal_output(m, 3, &y), LUMINAL_ERROR_ARGUMENT); // y, z and the new state
  EXPECT(luminal_input(m, -1, &y), LUMINAL_ERROR_ARGUMENT);
  EXPECT(luminal_bind_input(m, small_input_rows, rows.data, 3), LUMINAL_ERROR_ARGUMENT);
  EXPECT(luminal_bind_input(m, small_input_rows, rows.data, 4), LUMINAL_OK);
  EXPECT(luminal_run(m), LUMINAL_OK);
  EXPECT(luminal_set_dim(m, small_dim_n, 2), LUMINAL_OK);
  EXPECT(luminal_run(m), LUMINAL_ERROR_ARGUMENT); // what is bound is too small now
  luminal_close(m);
  luminal_close(NULL);
  return 0;
}
)";
  ASSERT_EQ(build(folder, "small", main), "");
  std::vector<float> wanted;
  for (int64_t size : {3, 300, 1}) {
    g.set_dim("n", size);
    std::vector<float> input;
    std::vector<int32_t> index;
    for (int64_t i = 0; i < size * 64; i++) input.push_back(float(i * 31 % 23 - 11) / 16);
    for (int64_t i = 0; i < size; i++) index.push_back(int32_t(i * 7 % size));
    x.set(input);
    rows.set(index);
    g.execute();
    for (const auto& part : {y.data<float>(), z.data<float>(), seen.data<float>()})
      wanted.insert(wanted.end(), part.begin(), part.end());
  }
  for (const char* threads : {"1", "4"}) {
    const std::string text = output_of("cd " + quoted(folder.path) + " && ./main " + threads);
    const std::vector<float> got = numbers(text);
    ASSERT_EQ(got.size(), wanted.size()) << text.substr(text.size() - std::min<size_t>(text.size(), 200));
    for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], wanted[i]) << i;
  }
}

TEST(Export, RefusesWhatCannotRunInC) {
  Graph g;
  Tensor x = g.tensor({4}), y = (x * 2).keep();
  const Folder folder("refused");
  auto compiled = compile::compile(g.state()->snapshot(), compile::Options::host(1)).value();
  auto refused = [&](runtime::ExportOptions options) {
    auto done = runtime::export_plan(*compiled.plan, options);
    return done ? std::string("exported") : done.error();
  };
  EXPECT_THAT(refused({.folder = folder.path, .name = "no name"}), HasSubstr("is not a C identifier"));
  EXPECT_THAT(refused({.folder = "/proc/nowhere", .name = "fine"}), HasSubstr("/proc/nowhere"));
  EXPECT_FALSE(compile::options_for_target("pdp-11", 1));
  runtime::Plan plan = *compiled.plan;
  plan.steps.push_back(runtime::HostCall{.function = {.kind = "print"}});
  auto done = runtime::export_plan(plan, {.folder = folder.path, .name = "host"});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error(), HasSubstr("calls the host (print)"));
  EXPECT_FALSE(runtime::rename_symbol(*plan.kernels.front().object, "luminal_kernel", "short"));
  EXPECT_FALSE(runtime::rename_symbol(*plan.kernels.front().object, "luminal_nothin", "luminal_kernel"));
  EXPECT_FALSE(runtime::rename_symbol(std::span(*plan.kernels.front().object).first(70), "luminal_kernel",
                                      "luminal_nothin"));
}

} // namespace
} // namespace luminal::models
