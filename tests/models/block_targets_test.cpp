// models/block_targets_test.cpp -- products with weights in blocks, one, few and many rows, on
// processors other than this one: AVX2 in this process, AArch64 under emulation.
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "formats/quants.h"
#include "models/export_support.h"
#include "models/weights.h"
#include "runtime/context.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <list>
#include <random>

namespace luminal::models {
namespace {

constexpr int64_t rows = 48, columns = 512; // of the weights
constexpr StorageType types[] = {StorageType::q8_0, StorageType::q4_0, StorageType::q5_0, StorageType::q5_1,
                                 StorageType::q4_k, StorageType::q5_k, StorageType::q6_k};
constexpr int64_t sizes[] = {1, 3, 33};

/// Products of one x with a weight of each type: with x as it is, and with x in eight bits.
class Products {
public:
  Products() {
    std::mt19937 random(7);
    const Dim m = graph.dim("m", 1, 40);
    Tensor x = graph.tensor({m, columns}, DType::f32, "x");
    for (const StorageType type : types) {
      std::vector<float> values(size_t(rows * columns));
      for (float& v : values) v = float(int(random() % 20001) - 10000) / 3000;
      packed_.push_back(quantize(type, values).value());
      const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(packed_.back().data()),
                                             packed_.back().size());
      dequantize(type, bytes, values).value();
      weights_.push_back(std::move(values));
      const std::string name(storage_name(type));
      for (const RowOrder order : {RowOrder::bytes, RowOrder::words}) {
        const TensorView view{.name = name + (order == RowOrder::bytes ? "_bytes" : "_words"),
                              .type = type,
                              .shape = {rows, columns},
                              .bytes = bytes,
                              .file_offset = 0,
                              .file_index = 0};
        std::optional<QuantizedWeight> weight;
        file_weight(graph, file_, view, &weight, order);
        Tensor y = order == RowOrder::bytes ? matmul_transposed(x, *weight)
                                            : matmul_transposed(quantize_rows(x), *weight);
        outputs.push_back(view.name);
        names[graph.state()->kept.at(node_id(y.keep()))] = view.name;
      }
    }
  }

  static std::vector<float> inputs(int64_t m) {
    std::mt19937 random{unsigned(m)};
    std::vector<float> x(size_t(m * columns));
    for (float& v : x) v = float(int(random() % 2001) - 1000) / 1000;
    return x;
  }

  /// Results in the order of `outputs`.
  void expect_near(const std::vector<float>& got, int64_t m) const {
    ASSERT_EQ(got.size(), size_t(m * rows) * outputs.size());
    const std::vector<float> x = inputs(m);
    for (size_t o = 0; o < outputs.size(); o++)
      for (int64_t i = 0; i < m; i++)
        for (int64_t n = 0; n < rows; n++) {
          double sum = 0, size = 0, rounding = 0;
          for (int64_t k = 0; k < columns; k++) {
            const double w = weights_[o / 2][size_t(n * columns + k)],
                         term = double(x[size_t(i * columns + k)]) * w;
            sum += term, size += std::abs(term);
            rounding += std::abs(w) / 127 * 0.5001; // activations of at most 1
          }
          // Offsets are taken from the sums of blocks, whose terms are larger than what is left: up
          // to 16 times.
          const double bound = o % 2 == 0 ? 5e-6 * size : rounding + 1e-5 * size;
          ASSERT_LE(std::abs(double(got[o * size_t(m * rows) + size_t(i * rows + n)]) - sum), bound)
              << outputs[o] << ", " << m << " rows: " << i << ", " << n;
        }
  }

  Graph graph;
  std::vector<std::string> outputs;
  std::map<std::string, std::string> names; // of the plan's results: those of outputs

private:
  ModelFile file_;
  std::list<std::string> packed_;
  std::vector<std::vector<float>> weights_;
};

TEST(BlockTargets, X86ProcessorsInThisProcess) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "this is not a x86-64 processor";
#else
  Products products;
  ThreadPool pool(2);
  const auto device = device::make_cpu_device(pool);
  for (const char* target : {"host", "x86-64-v3"}) {
    SCOPED_TRACE(target);
    if (std::string_view(target) == "x86-64-v3" && !__builtin_cpu_supports("avx2")) continue;
    compile::Options options = compile::options_for_target(target, 2).value();
    options.cache = false;
    const auto compiled = compile::compile(products.graph.state()->snapshot(), options);
    ASSERT_TRUE(compiled) << compiled.error();
    auto store = std::make_shared<runtime::Store>(*device);
    for (const runtime::Slot& slot : compiled->plan->slots)
      if (slot.kind == runtime::SlotKind::weight)
        store->copy_weight(slot.name, products.graph.state()->data.at(slot.name).bytes).value();
    const auto context =
        runtime::Context::create(runtime::Executable::load(compiled->plan, *device).value(), store).value();
    for (const int64_t m : sizes) {
      context->set_symbol("m", m).value();
      const std::vector<float> x = Products::inputs(m);
      const auto memory = context->argument("x").value();
      ASSERT_EQ(memory.size(), x.size() * 4);
      std::memcpy(memory.data(), x.data(), memory.size());
      context->run().value();
      std::vector<float> got;
      for (const std::string& output : products.outputs)
        for (const auto& [result, name] : products.names) {
          if (name != output) continue;
          const auto y = context->result(result).value();
          got.resize(got.size() + y.bytes.size() / 4);
          std::memcpy(got.data() + got.size() - y.bytes.size() / 4, y.bytes.data(), y.bytes.size());
        }
      products.expect_near(got, m);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
#endif
}

TEST(BlockTargets, Aarch64UnderEmulation) {
  NEEDS_COMPILER("aarch64-linux-gnu-gcc");
  if (!works("qemu-aarch64 --version")) GTEST_SKIP() << "there is no qemu-aarch64 (qemu-user) to run it";
  Products products;
  std::string outputs;
  for (const std::string& name : products.outputs)
    outputs += (outputs.empty() ? "" : ", ") + ("blocks_output_" + name);
  const std::string main = fmt::format(R"(
#include "blocks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static luminal_model* m;
static void must(luminal_error e) {{
  if (e == LUMINAL_OK) return;
  printf("%s: %s\n", luminal_error_name(e), luminal_message(m));
  exit(1);
}}
int main(int argc, char** argv) {{
  static const int64_t sizes[] = {{{}}};
  static const int outputs[] = {{{}}};
  char message[256] = "";
  luminal_value x, y;
  FILE* inputs = fopen(argv[1], "rb");
  if (argc < 2 || !inputs || blocks_open("blocks.weights", 2, &m, message, sizeof message)) {{
    printf("%s\n", message);
    return 1;
  }}
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {{
    must(luminal_set_dim(m, blocks_dim_m, sizes[s]));
    must(luminal_input(m, blocks_input_x, &x));
    if (fread(x.data, 1, (size_t)x.bytes, inputs) != (size_t)x.bytes) return 2;
    must(luminal_run(m));
    for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++) {{
      must(luminal_output(m, outputs[o], &y));
      for (int64_t i = 0; i < y.bytes / 4; i++) printf("%a\n", (double)((const float*)y.data)[i]);
    }}
  }}
  luminal_close(m);
  return 0;
}}
)",
                                       fmt::join(sizes, ", "), outputs);
  for (const auto& [target, cpu] :
       {std::pair{"aarch64", "max"}, std::pair{"neoverse-v1", "max,sve-default-vector-length=32"}}) {
    SCOPED_TRACE(target);
    const Folder folder(target);
    export_graph(products.graph, folder, target, "blocks", products.names);
    ASSERT_EQ(build(folder, "blocks", main, "aarch64-linux-gnu-gcc -static"), "");
    std::ofstream inputs(folder.path / "inputs", std::ios::binary);
    for (const int64_t m : sizes) {
      const std::vector<float> x = Products::inputs(m);
      inputs.write(reinterpret_cast<const char*>(x.data()), std::streamsize(x.size() * 4));
    }
    inputs.close();
    const std::string text =
        output_of(fmt::format("cd {} && qemu-aarch64 -cpu {} ./main inputs", quoted(folder.path), cpu));
    const std::vector<float> got = numbers(text);
    ASSERT_EQ(got.size(), size_t((1 + 3 + 33) * rows) * products.outputs.size()) << text.substr(0, 500);
    auto at = got.begin();
    for (const int64_t m : sizes) {
      const auto end = at + std::ptrdiff_t(size_t(m * rows) * products.outputs.size());
      products.expect_near({at, end}, m);
      if (testing::Test::HasFatalFailure()) return;
      at = end;
    }
  }
}

} // namespace
} // namespace luminal::models
