// formats/error_texts_test.cpp -- messages word for word: GGUF, arrays, quantisation, safetensors.
// tools/check_error_texts.py lists those that no test names.
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/npy.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/util.h"
#include "support/error_of.h"
#include <functional>
#include <gtest/gtest.h>
#include <limits>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using Metadata = std::vector<std::pair<std::string, GgufValue>>;

/// A tensor of zeros whose bytes live as long as the program.
TensorView zeros(const std::string& name, StorageType type, std::vector<int64_t> shape) {
  static const std::vector<std::byte> bytes(4096);
  const uint64_t size = storage_bytes(type, shape).value();
  return {name, type, std::move(shape), std::span(bytes).first(size)};
}

TEST(FormatErrorTexts, GgufThatIsWritten) {
  const GgufArray array{GgufType::u8, std::vector<uint64_t>{1}};
  struct Row {
    GgufValue value;
    std::string expected;
  };
  const Row rows[] = {
      {{GgufType::u8, uint64_t{256}}, "metadata \"k\": 256 does not fit u8"},
      {{GgufType::i8, int64_t{-129}}, "metadata \"k\": -129 does not fit i8"},
      {{GgufType::f32, uint64_t{1}}, "metadata \"k\" is an integer with type f32"},
      {{GgufType::u32, 1.5}, "metadata \"k\" is a float with type u32"},
      {{GgufType::u32, true}, "metadata \"k\" is a bool with type u32"},
      {{GgufType::u32, std::string("x")}, "metadata \"k\" is a string with type u32"},
      {{GgufType::u32, array}, "metadata \"k\" is an array with type u32"},
  };
  for (const auto& [value, expected] : rows)
    EXPECT_EQ(error_of(serialize_gguf(Metadata{{"k", value}}, {})), "GGUF: " + expected);
  EXPECT_EQ(error_of(serialize_gguf({}, {}, 48)),
            "GGUF: alignment 48, expected a power of two up to 1048576");
  EXPECT_EQ(error_of(serialize_gguf(Metadata{{"", GgufValue::of_u32(1)}}, {})),
            "GGUF: metadata key \"\" is not UTF-8 of 1 to 65535 bytes");
  EXPECT_EQ(error_of(serialize_gguf(Metadata{{"general.alignment", GgufValue::of_u32(64)}}, {})),
            "GGUF: metadata general.alignment is 64, expected u32 32");
  const auto refused = [](const TensorView& tensor) { return error_of(serialize_gguf({}, {{tensor}})); };
  EXPECT_EQ(refused(zeros("t", StorageType::boolean, {1})),
            "GGUF: tensor \"t\" has type BOOL, which GGUF does not have");
  EXPECT_EQ(refused(zeros("t", StorageType::f32, {1, 1, 1, 1, 1})),
            "GGUF: tensor \"t\" has 5 axes, expected at most 4");
  EXPECT_EQ(refused(zeros("\xFF", StorageType::f32, {1})),
            "GGUF: tensor name \"\\xFF\" is not UTF-8 of at most 65535 bytes");
  TensorView cut = zeros("t", StorageType::f32, {2});
  cut.bytes = cut.bytes.first(4);
  EXPECT_EQ(refused(cut), "GGUF: tensor \"t\" is F32 [2] with 4 bytes, expected 8");
}

TEST(FormatErrorTexts, GgufThatIsRead) {
  const auto file_of = [](uint64_t tensors, const std::string& body) {
    return "GGUF" + le(uint32_t{3}) + le(tensors) + le(uint64_t{0}) + body;
  };
  const std::string wide = le(uint64_t{1}) + "t" + le(uint32_t{2}) + le(uint64_t{1} << 32) +
                           le(uint64_t{1} << 32) + le(uint32_t{0}) + le(uint64_t{0});
  EXPECT_EQ(error_of(parse_gguf(detail::as_bytes(file_of(1, wide)), "f.gguf")),
            "f.gguf: offset 33: tensor \"t\" is F32 [4294967296, 4294967296], more than can be addressed");
  Gguf gguf;
  gguf.file_name = "f.gguf";
  gguf.metadata = {
      {"ids", {GgufType::array, GgufArray{GgufType::u64, std::vector<uint64_t>{1, UINT64_MAX}}}}};
  EXPECT_EQ(error_of(gguf.integers("ids")), "f.gguf: metadata \"ids\" has element 18446744073709551615, "
                                            "expected at most 9223372036854775807");
  const TemporaryFolder folder;
  const std::string path = folder.file("m-00001-of-00002.gguf");
  const GgufValue five{GgufType::u16, uint64_t{5}}, two{GgufType::u16, uint64_t{2}};
  ASSERT_TRUE(save_gguf(path, Metadata{{"split.no", five}, {"split.count", two}}, {}));
  std::vector<std::shared_ptr<const MappedFile>> files;
  EXPECT_EQ(error_of(open_gguf_parts(path, files)),
            path + ": part 5 of 2 of a model, expected at most 99999 parts, counted from 0");
}

TEST(FormatErrorTexts, Quantisation) {
  const std::vector<float> line(32, 1);
  EXPECT_EQ(error_of(quantize(StorageType::i32, line)), "quantize: no encoder for I32");
  EXPECT_EQ(error_of(quantize(StorageType::q8_0, std::span(line).first(31))),
            "quantize: 31 values for Q8_0, expected a multiple of 32");
  std::vector<float> wrong = line;
  wrong[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(quantize(StorageType::q4_0, wrong)), "quantize: value 7 is inf, expected a finite one");
  EXPECT_EQ(error_of(quantize(StorageType::q8_0, std::vector<float>(32, 1e38F))),
            "quantize: scale 7.874016e+35 does not fit f16, expected values of smaller magnitude");
  EXPECT_EQ(error_of(dequantize(zeros("t", StorageType::iq2_xxs, {256}))),
            "tensor \"t\": dequantize: no decoder for IQ2_XXS");
  std::vector<float> out(31);
  const TensorView block = zeros("t", StorageType::q8_0, {32});
  EXPECT_EQ(error_of(dequantize(StorageType::q8_0, block.bytes, out)),
            "dequantize: 34 bytes of Q8_0 for 31 values, expected whole blocks of 34 bytes for 32 values");
}

TEST(FormatErrorTexts, Json) {
  const auto read = [](const std::string& text) {
    return error_of(detail::guarded("f.json", [&] { return detail::parse_json(text, "f.json"); }));
  };
  EXPECT_EQ(read("[1e999]"), "f.json: offset 5: not JSON: number overflow parsing '1e999'");
  std::string many = "[";
  for (size_t i = 0; i < detail::max_json_values; ++i) many += "0,";
  EXPECT_EQ(read(many + "0]"), "f.json: offset 16777217: more than 8388608 JSON values");
}

/// An archive of the arrays a and b, each of one float.
std::string archive() {
  const TemporaryFolder folder;
  const TensorView arrays[] = {zeros("a", StorageType::f32, {1}), zeros("b", StorageType::f32, {1})};
  EXPECT_TRUE(save_npz(folder.file("f.npz"), arrays));
  return file_content(folder.file("f.npz"));
}

TEST(FormatErrorTexts, Archives) {
  const std::string plain = archive();
  const size_t first = plain.find("PK\1\2"), second = plain.find("PK\1\2", first + 4),
               end = plain.size() - 22;
  const auto error = [](const std::string& bytes) {
    return error_of(parse_npz(detail::as_bytes(bytes), "f.npz"));
  };
  const auto with = [&](size_t at, const std::string& change) {
    std::string bytes = plain;
    return bytes.replace(at, change.size(), change);
  };
  ASSERT_EQ(error(plain), "accepted");
  EXPECT_EQ(error(with(second + 46, "a")),
            "f.npz: offset " + std::to_string(first) + ": member \"a\" stands twice");
  EXPECT_EQ(error(with(second + 46, "\xFF")),
            "f.npz: offset " + std::to_string(second + 46) + ": a member's name is not UTF-8");
  std::string large = with(end + 10, le<uint16_t>(0xFFFF));
  large.insert(end, "PK\x06\x07" + le(uint32_t{0}) + le(uint64_t{8}) + le(uint32_t{1}));
  EXPECT_EQ(error(large), "f.npz: offset 8: no zip64 directory record here, expected one");

  // One deflated member: 5 stored bytes of data, or 5 MB of zeros that would become more than 4 GiB.
  const auto deflated = [](const std::string& packed, uint64_t size) {
    const std::string extra = le<uint16_t>(1) + le<uint16_t>(8) + le(size),
                      common = le<uint16_t>(0) + le<uint16_t>(8) + le(uint32_t{0}) + le(uint32_t{0}) +
                               le(static_cast<uint32_t>(packed.size())) + le(UINT32_MAX) + le<uint16_t>(5);
    std::string zip = "PK\3\4" + le<uint16_t>(45) + common + le<uint16_t>(0) + "a.npy" + packed;
    const size_t directory = zip.size();
    zip += "PK\1\2" + le<uint16_t>(45) + le<uint16_t>(45) + common + le(static_cast<uint16_t>(extra.size())) +
           std::string(10, '\0') + le(uint32_t{0}) + "a.npy" + extra;
    const size_t tail = zip.size();
    return zip + "PK\5\6" + le(uint32_t{0}) + le<uint16_t>(1) + le<uint16_t>(1) +
           le(static_cast<uint32_t>(tail - directory)) + le(static_cast<uint32_t>(directory)) +
           le<uint16_t>(0);
  };
  const std::string stored = std::string("\x01\x05\x00\xFA\xFF", 5) + "hello";
  EXPECT_EQ(error(deflated(stored, 6)),
            "f.npz: member \"a.npy\": offset 0: deflated data that ends after 5 bytes, expected 6");
  EXPECT_EQ(error(deflated("\x07", 6)),
            "f.npz: member \"a.npy\": offset 0: deflated data that is damaged after 0 bytes, expected 6");
  EXPECT_EQ(error(deflated(std::string(5 << 20, '\0'), (uint64_t{1} << 32) + 1)),
            "f.npz: member \"a.npy\": offset 0: a deflated member of 4294967297 bytes, expected at most "
            "4294967296 (numpy.savez stores it)");
}

TEST(FormatErrorTexts, Arrays) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }";
  const std::string image =
      std::string("\x93NUMPY\x01\0", 8) + le(static_cast<uint16_t>(header.size())) + header;
  EXPECT_EQ(error_of(parse_npy(detail::as_bytes(image), "f.npy")),
            "f.npy: offset 10: F32 [4294967296, 4294967296] is more than can be addressed");
  const TemporaryFolder folder;
  const std::string path = folder.file("f.npz"), lost = folder.file("no/f.npy");
  EXPECT_EQ(error_of(save_npz(path, {{zeros("\xFF", StorageType::f32, {1})}})),
            path + ": tensor name \"\\xFF\" is not UTF-8 of at most 65000 bytes");
  const TensorView twice[] = {zeros("a", StorageType::f32, {1}), zeros("a", StorageType::f32, {1})};
  EXPECT_EQ(error_of(save_npz(path, twice)), path + ": two tensors are named \"a\"");
  EXPECT_EQ(error_of(save_npy(lost, twice[0])), lost + ": there is no folder " + folder.file("no"));
  TensorView cut = zeros("a", StorageType::f32, {2});
  cut.bytes = cut.bytes.first(4);
  EXPECT_EQ(error_of(save_npz(path, {{cut}})), path + ": tensor \"a\": F32 [2] with 4 bytes, expected 8");
  EXPECT_EQ(error_of(save_npz(path, {{zeros("a", StorageType::bf16, {2})}})),
            path + ": tensor \"a\": NumPy has no BF16");
}

std::string safetensors(const std::string& header, size_t bytes = 0) {
  return le(uint64_t{header.size()}) + header + std::string(bytes, '\0');
}

TEST(FormatErrorTexts, Safetensors) {
  const auto error = [](const std::string& bytes) {
    return error_of(parse_safetensors(detail::as_bytes(bytes), "f"));
  };
  EXPECT_EQ(
      error(safetensors(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")),
      "f: offset 36: shape of tensor \"t\": U8 [4294967296, 4294967296] is more than can be addressed");
  EXPECT_EQ(error(safetensors(R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 4)),
            "f: offset 61: tensor \"t\" ends at offset 69, expected at most 65 (the end of the file)");
  const auto refused = [](const TensorView& tensor) {
    return error_of(serialize_safetensors({{tensor}}, {}));
  };
  EXPECT_EQ(refused(zeros("t", StorageType::q8_0, {32})),
            "safetensors: tensor \"t\" has type Q8_0, which safetensors does not have");
  EXPECT_EQ(refused(zeros("__metadata__", StorageType::f32, {1})),
            "safetensors: a tensor cannot be named \"__metadata__\"");
  TensorView cut = zeros("t", StorageType::f32, {2});
  cut.bytes = cut.bytes.first(4);
  EXPECT_EQ(refused(cut), "safetensors: tensor \"t\" is F32 [2] with 4 bytes, expected 8");
}

TEST(FormatErrorTexts, Shards) {
  const TemporaryFolder folder;
  const std::string index = folder.file("model.safetensors.index.json"), first = folder.file("m-1");
  put_file(index, R"({"weight_map":{"a":"/etc/passwd"}})");
  EXPECT_EQ(error_of(open_safetensors_index(index)),
            index + ": offset 32: tensor \"a\" is in file \"/etc/passwd\", expected a plain file name");
  for (const char* name : {"m-1", "m-2"})
    ASSERT_TRUE(save_safetensors(folder.file(name), {{zeros("a", StorageType::f32, {1})}}, {}));
  put_file(index, R"({"weight_map":{"a":"m-1","b":"m-2"}})");
  EXPECT_EQ(error_of(open_safetensors_index(index)),
            folder.file("m-2") +
                ": offset 64: " + ("tensor \"a\" is also in " + first + ", expected in one shard"));
}

} // namespace
} // namespace luminal
