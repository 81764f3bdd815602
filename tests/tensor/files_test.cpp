// tests/tensor/files_test.cpp -- weights from files and back: every kind of file and every dtype,
// names that do not fit, damaged files.
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/npy.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "ir/dtype.h"
#include "support.h"
#include "tensor/graph_state.h"
#include <filesystem>
#include <random>
#include <unistd.h>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Files : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("luminal_files_" + std::to_string(getpid()));
};

std::vector<std::byte> some_bytes(DType type, int64_t count) {
  std::vector<std::byte> bytes(size_t(storage_bytes(type, count)));
  for (int64_t i = 0; i < count; i++)
    if (is_float(type))
      store_f64(type, bytes.data(), i, round_to(type, double(i) * 0.25 - 1));
    else
      store_i64(type, bytes.data(), i, type == DType::boolean ? i % 2 : i * 3 % 100);
  return bytes;
}
std::vector<std::byte> bytes_of(const Tensor& t) {
  const auto bytes = t.bytes();
  return {bytes.begin(), bytes.end()};
}

const std::vector<DType> all_types = {DType::boolean, DType::i8,   DType::u8,  DType::i16, DType::u16,
                                      DType::i32,     DType::u32,  DType::i64, DType::u64, DType::f8e4m3,
                                      DType::f8e5m2,  DType::bf16, DType::f16, DType::f32, DType::f64};

/// A weight of each dtype in each of these shapes: scalars and empty ones included.
std::vector<Tensor> weights_of(Graph& g, const std::vector<DType>& types) {
  std::vector<Tensor> list;
  const std::vector<Dims> shapes = {{2, 3}, {}, {0}, {5}};
  for (DType type : types)
    for (size_t s = 0; s < shapes.size(); s++)
      list.push_back(
          g.weight("layer." + std::to_string(s) + "." + std::string(to_string(type)), shapes[s], type));
  return list;
}

TEST_F(Files, EveryKindGivesBackEveryTypeAndShape) {
  const auto without = [&](std::vector<DType> gone) {
    std::vector<DType> left;
    for (DType type : all_types)
      if (std::find(gone.begin(), gone.end(), type) == gone.end()) left.push_back(type);
    return left;
  };
  const std::vector<std::pair<std::string, std::vector<DType>>> kinds = {
      {"all.safetensors", all_types},
      {"all.npz", without({DType::bf16, DType::f8e4m3, DType::f8e5m2})},
      {"all.gguf",
       {DType::i8, DType::i16, DType::i32, DType::i64, DType::bf16, DType::f16, DType::f32, DType::f64}}};
  for (const auto& [name, types] : kinds) {
    Graph from, to;
    const std::vector<Tensor> given = weights_of(from, types), got = weights_of(to, types);
    for (Tensor t : given) t.set_bytes(some_bytes(t.dtype(), t.numel()), t.dtype());
    save(from, path(name));
    const LoadReport report = load(to, path(name));
    EXPECT_TRUE(report.complete()) << report;
    EXPECT_EQ(report.loaded.size(), got.size());
    EXPECT_EQ(tensors_in(path(name)).size(), got.size());
    for (size_t i = 0; i < got.size(); i++)
      EXPECT_EQ(bytes_of(got[i]), bytes_of(given[i])) << name << " " << got[i].name();
  }
}

TEST_F(Files, AnArrayAloneHasTheNameOfItsFile) {
  Graph g, h;
  Tensor w = g.weight("w", {3}), loaded = h.weight("w", {3});
  w.set({1.f, 2.f, 3.f});
  save(g, path("w.npy"));
  load(h, path("w.npy"));
  EXPECT_THAT(loaded.data<float>(), ElementsAre(1, 2, 3));
  g.weight("v", {1}).set({1.f});
  EXPECT_ERROR(save(g, path("w.npy")),
               "[save] " + path("w.npy") + ": an .npy file holds one array, 2 tensors are to be saved");
}

TEST_F(Files, ValuesOutliveTheFileAndTheGraphObject) {
  Tensor y;
  {
    Graph from;
    from.weight("w", {2, 2}).set({{1, 2}, {3, 4}});
    save(from, path("w.safetensors"));
  }
  Graph g;
  Tensor w = g.weight("w", {2, 2});
  y = (w * 2).keep();
  load(g, path("w.safetensors"));
  std::filesystem::remove(path("w.safetensors"));
  Graph moved = std::move(g);
  moved.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(w.data<float>(), ElementsAre(1, 2, 3, 4));
}

TEST_F(Files, NamesThatDoNotFitAreListed) {
  Graph from, to;
  from.weight("both", {2}).set({1.f, 2.f});
  from.weight("only_file", {2}).set({1.f, 2.f});
  from.weight("shape", {2}).set({1.f, 2.f});
  from.weight("type", {2}, DType::f16).set({1.5f, 2.f});
  save(from, path("w.safetensors"));
  Tensor both = to.weight("both", {2}), missing = to.weight("only_graph", {2}),
         shape = to.weight("shape", {3}), type = to.weight("type", {2});
  EXPECT_ERROR(
      load(to, path("w.safetensors")),
      "[load] " + path("w.safetensors") +
          ": 1 loaded; 1 missing in the file: only_graph; 1 not in the graph: only_file; 2 that do not "
          "fit: shape (the weight is f32[3], the file has F32 [2]), type (the weight is f32[2], the "
          "file has F16 [2] (LoadOptions::convert converts)) (nothing was set: see LoadOptions::strict)");
  EXPECT_THAT(error_of([&] { (void)both.data<float>(); }), HasSubstr("it was never set"));
  const LoadReport report = load(to, path("w.safetensors"), {.strict = false, .convert = true});
  EXPECT_FALSE(report.complete());
  EXPECT_THAT(report.loaded, ElementsAre("both", "type"));
  EXPECT_THAT(report.missing, ElementsAre("only_graph"));
  EXPECT_THAT(report.unused, ElementsAre("only_file"));
  ASSERT_EQ(report.mismatching.size(), 1u);
  EXPECT_EQ(report.mismatching[0].name, "shape");
  EXPECT_THAT(printed(report), HasSubstr("2 loaded; 1 missing in the file: only_graph"));
  EXPECT_THAT(both.data<float>(), ElementsAre(1, 2));
  EXPECT_THAT(type.data<float>(), ElementsAre(1.5, 2));
  Graph other;
  Tensor renamed = other.weight("here", {2});
  load(other, path("w.safetensors"), {.strict = false, .name_in_file = [](const auto&) { return "both"; }});
  EXPECT_THAT(renamed.data<float>(), ElementsAre(1, 2));
}

TEST_F(Files, QuantisedOnesAreUnpackedOrStayPacked) {
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); i++) values[i] = float(i) / 16 - 2;
  const std::string packed = quantize(StorageType::q8_0, values).value();
  TensorView view;
  view.name = "w";
  view.type = StorageType::q8_0;
  view.shape = {2, 32};
  view.bytes = std::as_bytes(std::span(packed));
  ASSERT_TRUE(save_gguf(path("w.gguf"), {}, std::span(&view, 1)));
  EXPECT_EQ(tensors_in(path("w.gguf"))[0].type, "Q8_0");
  Graph g;
  Tensor w = g.weight("w", {2, 32});
  EXPECT_THAT(
      error_of([&] { load(g, path("w.gguf")); }),
      HasSubstr("the weight is f32[2, 32], the file has Q8_0 [2, 32] (LoadOptions::convert converts)"));
  load(g, path("w.gguf"), {.convert = true});
  EXPECT_EQ(w.data<float>(), dequantize(view).value());
  Graph raw;
  Tensor blocks = raw.weight("w", {2, 34}, DType::u8);
  load(raw, path("w.gguf"));
  EXPECT_EQ(bytes_of(blocks), std::vector<std::byte>(view.bytes.begin(), view.bytes.end()));
}

TEST_F(Files, PackedMatricesStayPackedInProducts) {
  constexpr int64_t rows = 24, columns = 256;
  std::mt19937 random(5);
  std::vector<float> values(rows * columns), input(columns);
  for (float& v : values) v = float(int(random() % 2001) - 1000) / 500;
  for (float& v : input) v = float(int(random() % 2001) - 1000) / 500;
  for (const char* type : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    SCOPED_TRACE(type);
    TensorView view;
    view.name = "blk.0.ffn_up.weight";
    view.type = storage_type_from_name(type).value();
    view.shape = {rows, columns};
    const std::string packed = quantize(view.type, values).value();
    view.bytes = std::as_bytes(std::span(packed));
    ASSERT_TRUE(save_gguf(path("w.gguf"), {}, std::span(&view, 1)));
    for (const RowOrder order : {RowOrder::apart, RowOrder::bytes}) {
      Graph g;
      Tensor x = g.tensor({1, columns});
      const QuantizedWeight w =
          quantized_weight(g, view.name, tensors_in(path("w.gguf"))[0].type, rows, columns, order);
      Tensor y = matmul_transposed(x, w).keep(), all = linear(x, dequantize(w)).keep();
      load(g, path("w.gguf"));
      x.set(input);
      g.execute();
      EXPECT_EQ(g.memory().weights, int64_t(packed.size()));
      const auto exact = dequantize(view).value();
      for (int64_t r = 0; r < rows; r++) {
        double sum = 0, size = 0;
        for (int64_t c = 0; c < columns; c++) {
          const double product = double(exact[size_t(r * columns + c)]) * double(input[size_t(c)]);
          sum += product, size += std::abs(product);
        }
        EXPECT_NEAR(y.data<float>()[size_t(r)], sum, size * 1e-5) << r;
        EXPECT_NEAR(all.data<float>()[size_t(r)], sum, size * 1e-5) << r;
      }
    }
  }
  // Blocks of another type may have as many bytes.
  Graph g;
  quantized_weight(g, "blk.0.ffn_up.weight", "Q8_0", rows, columns).codes.keep();
  EXPECT_THAT(error_of([&] { load(g, path("w.gguf")); }),
              HasSubstr("the weight is u8[24, 272] of Q8_0, the file has Q6_K [24, 256]"));
  TensorView view;
  view.name = "w";
  view.type = StorageType::q4_k;
  view.shape = {rows, columns};
  const std::string packed = quantize(view.type, values).value();
  view.bytes = std::as_bytes(std::span(packed));
  ASSERT_TRUE(save_gguf(path("same.gguf"), {}, std::span(&view, 1)));
  Graph h;
  quantized_weight(h, "w", "q4_0", rows, columns).codes.keep();
  EXPECT_THAT(error_of([&] { load(h, path("same.gguf")); }),
              HasSubstr("the weight is u8[24, 144] of Q4_0, the file has Q4_K [24, 256]"));
  EXPECT_ERROR(quantized_weight(h, "v", "IQ2_XS", 2, 32),
               "[quantized_weight] v: IQ2_XS is not a packed type: Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K "
               "Q5_K Q6_K Q8_K IQ4_NL IQ4_XS MXFP4 TQ1_0 TQ2_0 are known");
  EXPECT_ERROR(quantized_weight(h, "v", "Q4_K", 2, 32),
               "[quantized_weight] v: [2, 32] as Q4_K: a row is a multiple of 256 elements");
}

TEST_F(Files, DataThatAreNotAlignedAreCopied) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (int spaces = 0; spaces < 4; spaces++) {
    std::string text = header + std::string(size_t(spaces), ' '), file;
    for (int i = 0; i < 8; i++) file += char(text.size() >> (8 * i) & 0xFF);
    const float values[] = {1.5f, -2};
    file += text + std::string(reinterpret_cast<const char*>(values), 8);
    ASSERT_TRUE(write_file(path("w.safetensors"), file));
    Graph g;
    Tensor w = g.weight("w", {2}), y = (w + 1).keep();
    load(g, path("w.safetensors"));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(w.bytes().data()) % 4, 0u);
    g.execute();
    EXPECT_THAT(y.data<float>(), ElementsAre(2.5, -1));
  }
}

TEST_F(Files, ShardsAreOneFile) {
  Graph a, b, both;
  a.weight("a", {1}).set({1.f});
  b.weight("b", {1}).set({2.f});
  save(a, path("m-1.safetensors"));
  save(b, path("m-2.safetensors"));
  ASSERT_TRUE(write_file(path("m.safetensors.index.json"),
                         R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})"));
  Tensor x = both.weight("a", {1}), y = both.weight("b", {1});
  load(both, path("m.safetensors.index.json"));
  EXPECT_EQ(x.item<float>(), 1);
  EXPECT_EQ(y.item<float>(), 2);
}

TEST_F(Files, StatesAndMetadataAreWrittenWhereAskedFor) {
  Graph g;
  Tensor w = g.weight("w", {1}), s = g.state("s", {1});
  g.update(s, s + w);
  w.set({3.f});
  g.execute();
  save(g, path("w.safetensors"), {.states = true, .metadata = {{"step", "7"}}});
  const auto read = open_safetensors(path("w.safetensors"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->metadata.at("step"), "7");
  ASSERT_TRUE(read->find("s"));
  EXPECT_EQ(*reinterpret_cast<const float*>(read->find("s")->bytes.data()), 3);
  save(g, path("w.gguf"), {.metadata = {{"general.name", "test"}}});
  EXPECT_EQ(open_gguf(path("w.gguf"))->string("general.name").value(), "test");
}

TEST_F(Files, WhatCannotBeWrittenIsNamed) {
  Graph g;
  Tensor w = g.weight("w", {2}, DType::bf16);
  EXPECT_ERROR(save(g, path("w.npz")), "[save] w (bf16[2]) has no value yet: it was never set");
  w.set({1.f, 2.f});
  EXPECT_ERROR(save(g, path("w.txt")),
               "[save] " + path("w.txt") + ": the name must end in .safetensors, .gguf, .npz or .npy");
  EXPECT_ERROR(save(g, path("w.npz")), "[save] " + path("w.npz") + ": tensor \"w\": NumPy has no BF16");
  g.weight("i", {2}, DType::i4).set({1, 2});
  EXPECT_ERROR(save(g, path("w.safetensors")), "[save] " + path("w.safetensors") + ": no file holds i4 (i)");
  EXPECT_THAT(error_of([&] { load(g, path("nothing.npz")); }), HasSubstr("[load] "));
  EXPECT_THAT(error_of([&] { tensors_in(path("nothing.npz")); }), HasSubstr("[tensors_in] "));
}

/// Whatever the bytes are: a report or an Error.
TEST_F(Files, DamagedFilesAreRefusedOrRead) {
  Graph from;
  for (Tensor t : weights_of(from, {DType::f32, DType::f16, DType::i32, DType::i8}))
    t.set_bytes(some_bytes(t.dtype(), t.numel()), t.dtype());
  std::mt19937_64 random(7);
  for (const std::string name : {"w.safetensors", "w.gguf", "w.npz"}) {
    save(from, path(name));
    const std::string whole = read_file(path(name)).value();
    for (int n = 0; n < 150; n++) {
      std::string damaged = whole;
      if (n % 3 == 0) damaged.resize(random() % whole.size());
      for (int k = 0; k < 1 + n % 4 && !damaged.empty(); k++)
        damaged[random() % std::min<size_t>(damaged.size(), n % 2 ? damaged.size() : 200)] = char(random());
      ASSERT_TRUE(write_file(path("damaged"), damaged));
      Graph to;
      const std::vector<Tensor> got = weights_of(to, {DType::f32, DType::f16, DType::i32, DType::i8});
      const std::string error = error_of([&] {
        load(to, path("damaged"), {.strict = false, .convert = true});
        for (const Tensor& t : got) (void)t.data<double>();
      });
      EXPECT_TRUE(error == "no error" || error[0] == '[') << error;
    }
  }
}

/// NumPy's own layout of the zip: what save_npz writes is read back by parse_npz, whatever the
/// sizes.
TEST_F(Files, ArchivesOfManyMembersAreReadBack) {
  std::vector<float> values(3);
  std::vector<TensorView> views(300);
  for (size_t i = 0; i < views.size(); i++) {
    views[i].name = "w" + std::string(i % 70, 'x') + std::to_string(i);
    views[i].shape = {int64_t(i % 4)};
    views[i].bytes = std::as_bytes(std::span(values)).first(4 * (i % 4));
  }
  ASSERT_TRUE(save_npz(path("many.npz"), views));
  const auto read = open_npy(path("many.npz"));
  ASSERT_TRUE(read) << read.error();
  ASSERT_EQ(read->arrays.size(), views.size());
  for (size_t i = 0; i < views.size(); i++) {
    EXPECT_EQ(read->arrays[i].tensor.name, views[i].name);
    EXPECT_EQ(read->arrays[i].tensor.file_offset % 64, 0u) << i;
  }
  views[1].name = views[0].name;
  EXPECT_THAT(save_npz(path("twice.npz"), views).error(), HasSubstr("two tensors are named \"w0\""));
}

} // namespace
} // namespace luminal
