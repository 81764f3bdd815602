// models/onnx_export_refusals_test.cpp -- what save_onnx says of graphs that ONNX has no operators for.
#include "formats/util.h"
#include "luminal/custom.h"
#include "luminal/indexing.h"
#include "luminal/onnx.h"
#include "luminal/random.h"
#include "luminal/terms.h"
#include "models/onnx/exporter.h"
#include "support/error_of.h"
#include <filesystem>
#include <gmock/gmock.h>

namespace luminal::onnx_export_refusals {
namespace {

using namespace luminal::testing_formats;
using ::testing::EndsWith;

class OnnxExportRefusals : public ::testing::Test {
protected:
  /// The message without the line of this file behind it.
  std::string refusal(const Graph& g, const std::string& file = "none.onnx") const {
    const std::string path = folder_.file(file);
    std::string text = error_of([&] { save_onnx(g, path); });
    EXPECT_FALSE(std::filesystem::exists(path));
    const size_t place = text.rfind(" at onnx_export_refusals_test.cpp:");
    return place == std::string::npos ? "not with the line of the caller: " + text : text.substr(0, place);
  }
  TemporaryFolder folder_;
};

TEST_F(OnnxExportRefusals, GraphsThatAreNotComplete) {
  Graph g;
  Tensor w = g.weight("w", {2});
  EXPECT_EQ(refusal(g), "[save_onnx] nothing is kept: call keep() on what the model gives back");
  (w + 1).keep();
  EXPECT_EQ(refusal(g), "[save_onnx] weight w has no value: set it, or load it from a file");
  w.set({1, 2});
  EXPECT_EQ(refusal(g, "none.txt"),
            "[save_onnx] " + folder_.file("none.txt") + ": the name must end in .onnx");
}

TEST_F(OnnxExportRefusals, NamesOfDimensions) {
  Graph g;
  const Dim n = g.dim("n", 1, 8);
  g.arange(n).set_name("n").keep();
  EXPECT_EQ(refusal(g),
            "[save_onnx] dimension n is not an extent of an input, and another value has its name: "
            "rename one of them");
}

TEST_F(OnnxExportRefusals, WhatIsNotAnOperator) {
  Graph g;
  random_uniform(random_key(g, 1), {4}).keep();
  EXPECT_THAT(refusal(g),
              EndsWith(" cannot be written: ONNX's random numbers are not these: make them an input"));

  register_host("onnx_refusals_same",
                [](std::span<const HostArray> in) { return std::vector<HostArray>{in.begin(), in.end()}; });
  Graph h;
  host_call("onnx_refusals_same", {h.tensor({2}, DType::f32, "x")}, {{DType::f32, {2}}})[0].keep();
  EXPECT_THAT(refusal(h), EndsWith(" cannot be written: it runs on the host: make its result an input"));

  Graph k;
  custom_kernel(k, {.name = "onnx_refusals_same", .outputs = {{DType::f32, {2}}}},
                {k.tensor({2}, DType::f32, "x")})[0]
      .keep();
  EXPECT_THAT(refusal(k), EndsWith(" cannot be written: it is a custom kernel: make its result an input"));
}

TEST_F(OnnxExportRefusals, OperationsWithoutADefinition) {
  register_operation({.name = "onnx_refusals_twice",
                      .f64 = [](const double* x) { return 2 * x[0]; },
                      .text = {{"c", "(2 * {a})"}}});
  Graph g;
  apply_operation("onnx_refusals_twice", {g.tensor({2}, DType::f32, "x")}).keep();
  EXPECT_THAT(refusal(g),
              EndsWith(" cannot be written: operation onnx_refusals_twice has no definition in other "
                       "operations (Operation::definition)"));
}

/// A module as `luminal convert FROM.lum TO.onnx` has it.
TEST_F(OnnxExportRefusals, OperatorsBetweenDevices) {
  const Module module = parse_module(
      "fn @main(%x: f32[8]) {\n  %y = collective all_gather \"tp:4\" axis 0 %x\n  return y = %y\n}\n");
  const std::string text =
      error_without_place([&] { onnx_export::Exporter(module, {}, std::source_location::current()).run(); });
  EXPECT_EQ(text,
            "[save_onnx] collective y (f32[32]) cannot be written: ONNX has no operators between devices: "
            "make its result an input");
}

TEST_F(OnnxExportRefusals, TypesThatAnOperatorLacks) {
  Graph bits;
  bits.tensor({2}, DType::u8, "x").bitcast(DType::f8e5m2).keep();
  EXPECT_THAT(refusal(bits), EndsWith(" cannot be written: ONNX has no operator that reads the bits of u8 as "
                                      "f8e5m2: make the result an input"));
  Graph folds;
  const Tensor x = folds.tensor({2, 3}, DType::i32, "x");
  terms::fold({2, 3}, {1}, {{"any", x, {0, 1}}})[0].keep();
  EXPECT_THAT(
      refusal(folds),
      EndsWith(" cannot be written: ONNX has no reduction by bit_or of i32: make the result an input"));
  Graph scatters;
  scatters.tensor({4}, DType::u64, "x")
      .scatter(0, scatters.tensor({2}, DType::i64, "at"), scatters.tensor({2}, DType::u64, "v"),
               ScatterOp::max)
      .keep();
  EXPECT_THAT(refusal(scatters),
              EndsWith(" cannot be written: ONNX has no scatter by max of u64: make the result an input"));
}

} // namespace
} // namespace luminal::onnx_export_refusals
