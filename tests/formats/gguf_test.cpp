// formats/gguf_test.cpp -- reading, refusing and writing GGUF.
#include "formats/gguf.h"
#include "formats/quants.h"
#include "formats/util.h"
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

using Metadata = std::vector<std::pair<std::string, GgufValue>>;

std::string text(std::string_view s) { return le<uint64_t>(s.size()).append(s); }
std::string pair(std::string_view key, uint32_t type, std::string_view value) {
  return text(key).append(le(type)).append(value);
}
std::string tensor(std::string_view name, const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset) {
  std::string out = text(name) + le(static_cast<uint32_t>(ne.size()));
  for (const uint64_t n : ne) out += le(n);
  return out + le(type) + le(offset);
}
std::string file(uint64_t tensors, uint64_t pairs, std::string_view body, uint32_t version = 3) {
  std::string out = "GGUF";
  return out.append(le(version)).append(le(tensors)).append(le(pairs)).append(body);
}
/// The table's bytes, padded, then `data_bytes` of data.
std::string with_data(std::string bytes, size_t data_bytes, size_t alignment = 32) {
  bytes.append((alignment - bytes.size() % alignment) % alignment, '\0');
  for (size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

Result<Gguf> parse(std::string_view bytes) { return parse_gguf(detail::as_bytes(bytes), "f.gguf"); }

uint64_t touch(const Gguf& content) {
  uint64_t sum = content.data_offset;
  for (const auto& t : content.tensors) {
    for (const auto byte : t.bytes) sum += std::to_integer<uint64_t>(byte);
    EXPECT_EQ(storage_bytes(t.type, t.shape), t.bytes.size());
    EXPECT_EQ(t.file_offset % content.alignment, 0U);
  }
  for (const auto& [key, value] : content.metadata) {
    EXPECT_FALSE(detail::find_invalid_utf8(value.describe())) << key;
    (void)content.integer(key);
    (void)content.real(key);
    (void)content.boolean(key);
    (void)content.string(key);
    (void)content.strings(key);
    (void)content.integers(key);
    (void)content.reals(key);
  }
  return sum;
}

Metadata every_type() {
  const GgufArray inner{GgufType::i16, std::vector<int64_t>{-1, 2}};
  return {
      {"general.architecture", GgufValue::of_string("llama")},
      {"u8", {GgufType::u8, uint64_t{255}}},
      {"i8", {GgufType::i8, int64_t{-128}}},
      {"u16", {GgufType::u16, uint64_t{65535}}},
      {"i16", {GgufType::i16, int64_t{-32768}}},
      {"u32", GgufValue::of_u32(4294967295U)},
      {"i32", GgufValue::of_i32(-2147483648)},
      {"f32", GgufValue::of_f32(1e-5F)},
      {"yes", GgufValue::of_bool(true)},
      {"no", GgufValue::of_bool(false)},
      {"u64", GgufValue::of_u64(UINT64_MAX)},
      {"i64", {GgufType::i64, INT64_MIN}},
      {"f64", {GgufType::f64, 0.1}},
      {"strings", GgufValue::of_strings({"a", "", "\xFF raw", "кот"})},
      {"floats", GgufValue::of_f32s({0.5, -0.0, 3})},
      {"ints", GgufValue::of_i32s({1, -2, 3, 4, 5, 6, 7, 8})},
      {"bools", {GgufType::array, GgufArray{GgufType::boolean, std::vector<uint64_t>{1, 0}}}},
      {"bytes", {GgufType::array, GgufArray{GgufType::u8, std::vector<uint64_t>{}}}},
      {"nested", {GgufType::array, GgufArray{GgufType::array, std::vector<GgufArray>{inner, inner}}}},
  };
}

TEST(Gguf, WritesAndReadsEveryTypeOfValueAndTensor) {
  std::mt19937 random(11);
  for (const uint32_t alignment : {32U, 1U, 8U, 64U, 4096U}) {
    SCOPED_TRACE(alignment);
    std::vector<TensorView> tensors;
    std::vector<std::string> data;
    data.reserve(storage_types().size());
    for (const auto& row : storage_types()) {
      if (row.ggml_id < 0) continue;
      TensorView t;
      t.name = "blk.0." + std::string(row.name);
      t.type = row.type;
      for (size_t axis = random() % 4; axis > 0; --axis)
        t.shape.push_back(static_cast<int64_t>(random() % 3));
      t.shape.push_back(static_cast<int64_t>(row.block_elements * (1 + random() % 2)));
      if (row.block_elements == 1 && random() % 3 == 0) t.shape.clear();
      std::string& bytes = data.emplace_back(*storage_bytes(t.type, t.shape), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      t.bytes = detail::as_bytes(bytes);
      tensors.push_back(t);
    }
    const auto written = serialize_gguf(every_type(), tensors, alignment);
    ASSERT_TRUE(written) << written.error();
    const auto read = parse(*written);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->alignment, alignment);
    Metadata expected = every_type();
    if (alignment != 32) expected.emplace_back("general.alignment", GgufValue::of_u32(alignment));
    EXPECT_TRUE(read->metadata == expected);
    ASSERT_EQ(read->tensors.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(read->tensors[i].name, tensors[i].name);
      EXPECT_EQ(read->tensors[i].type, tensors[i].type);
      EXPECT_EQ(read->tensors[i].shape, tensors[i].shape);
      EXPECT_EQ(detail::as_text(read->tensors[i].bytes), detail::as_text(tensors[i].bytes));
    }
    EXPECT_EQ(touch(*read), touch(*read));
    // Version 2 has the same layout.
    std::string second = *written;
    second[4] = 2;
    EXPECT_TRUE(parse(second));
  }
}

TEST(Gguf, ReversesTheOrderOfAxes) {
  const auto content = parse(with_data(file(1, 0, tensor("t", {4, 3, 2}, 0, 0)), 96));
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(content->tensors[0].shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(content->tensors[0].describe(), "F32 [2, 3, 4]");
  EXPECT_EQ(content->tensors[0].file_offset, content->data_offset);
}

TEST(Gguf, TypedAccessConvertsOrSaysWhatItFound) {
  const auto written = serialize_gguf(every_type(), {});
  const auto content = parse(*written);
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(**content->integer("u8"), 255);
  EXPECT_EQ(**content->integer("i64"), INT64_MIN);
  EXPECT_FALSE((*content->integer("absent")).has_value());
  EXPECT_EQ(**content->real("f32"), static_cast<double>(1e-5F));
  EXPECT_EQ(**content->boolean("yes"), true);
  EXPECT_EQ(**content->string("general.architecture"), "llama");
  EXPECT_EQ((*content->strings("strings"))->size(), 4U);
  EXPECT_EQ(*content->strings("absent"), nullptr);
  EXPECT_EQ((**content->integers("ints"))[1], -2);
  EXPECT_EQ((**content->reals("floats"))[0], 0.5);
  EXPECT_EQ(content->integer("u64").error(),
            "f.gguf: metadata \"u64\" is 18446744073709551615, expected at most 9223372036854775807");
  EXPECT_EQ(content->integer("f32").error(), "f.gguf: metadata \"f32\" is f32, expected an integer");
  EXPECT_EQ(content->integer("yes").error(), "f.gguf: metadata \"yes\" is bool, expected an integer");
  EXPECT_EQ(content->strings("ints").error(),
            "f.gguf: metadata \"ints\" is array of i32, expected array of string");
  EXPECT_EQ(content->integers("bools").error(),
            "f.gguf: metadata \"bools\" is array of bool, expected array of integers");
  EXPECT_FALSE(content->real("u8"));
  EXPECT_FALSE(content->boolean("u8"));
  EXPECT_FALSE(content->string("u8"));
  EXPECT_FALSE(content->reals("ints"));
  EXPECT_EQ(content->find("ints")->describe(), "[1, -2, 3, 4, 5, 6, ... 8 in all]");
  EXPECT_EQ(content->find("strings")->describe(), "[\"a\", \"\", \"\\xFF raw\", \"кот\"]");
  EXPECT_EQ(content->find("nested")->describe(), "[[-1, 2], [-1, 2]]");
  EXPECT_EQ(content->find("f32")->describe(), "1e-05");
  EXPECT_EQ(content->find("bools")->describe(), "[true, false]");
}

struct Hostile {
  const char* name;
  std::string bytes;
  const char* expected;
};

TEST(Gguf, RefusesHostileFilesInOneClearLine) {
  constexpr uint64_t huge = uint64_t{1} << 60;
  const auto array = [](uint32_t element, uint64_t count, std::string_view items) {
    return pair("a", 9, le(element).append(le(count)).append(items));
  };
  std::string nested = pair("a", 9, "");
  for (int i = 0; i < 20; ++i) nested += le<uint32_t>(9) + le<uint64_t>(1);
  const std::string f32_4 = tensor("t", {4}, 0, 0);
  const Hostile files[] = {
      {"empty", "", "offset 0: 0 bytes in the file, expected the magic \"GGUF\""},
      {"half a magic", "GG", "offset 0: 2 bytes in the file, expected the magic \"GGUF\""},
      {"other magic", "PK\3\4aaaaaaaaaaaaaaaaaaaa", "offset 0: magic \"PK\\x03\\x04\", expected \"GGUF\""},
      {"old GGML", "tjgg\3\0\0\0",
       "offset 0: magic \"tjgg\" of the GGML formats before GGUF; convert the file to GGUF"},
      {"big-endian magic", "FUGG", "offset 0: a big-endian GGUF file, expected a little-endian one"},
      {"big-endian version", "GGUF" + std::string("\0\0\0\3", 4) + std::string(16, '\0'),
       "offset 4: a big-endian GGUF file, expected a little-endian one"},
      {"version 1", file(0, 0, "", 1), "offset 4: GGUF version 1, expected 2 or 3"},
      {"version 4", file(0, 0, "", 4), "offset 4: GGUF version 4, expected 2 or 3"},
      {"version 0", file(0, 0, "", 0), "offset 4: GGUF version 0, expected 2 or 3"},
      {"no counts", "GGUF" + le<uint32_t>(3),
       "offset 8: the number of tensors takes 8 bytes, expected at most the 0 that are left in the file"},
      {"2^60 tensors", file(huge, 0, std::string(100, 0)),
       "offset 8: 1152921504606846976 tensors, expected at most 4 in the 100 bytes that follow"},
      {"2^60 pairs", file(0, huge, std::string(100, 0)),
       "offset 16: 1152921504606846976 metadata pairs, expected at most 7 in the 100 bytes that follow"},
      {"2^64-1 pairs", file(0, UINT64_MAX, std::string(100, 0)),
       "offset 16: 18446744073709551615 metadata pairs, expected at most 7 in the 100 bytes that follow"},
      {"key beyond the end", file(0, 1, le(huge) + std::string(40, 'x')),
       "offset 24: a metadata key is a string of 1152921504606846976 bytes, expected at most the 40 that are "
       "left in the file"},
      {"key of 2^64-1", file(0, 1, le(UINT64_MAX) + std::string(40, 'x')),
       "offset 24: a metadata key is a string of 18446744073709551615 bytes, expected at most the 40 that "
       "are left in the file"},
      {"key too long", file(0, 1, text(std::string(70000, 'k')) + std::string(40, 'x')),
       "offset 24: a metadata key has 70000 bytes, expected at most 65535"},
      {"key not UTF-8", file(0, 1, pair("k\xFF", 0, "x")),
       "offset 33: a metadata key \"k\\xFF\" is not UTF-8"},
      {"unknown value type", file(0, 1, pair("k", 13, "12345678")),
       "offset 33: the type of \"k\" is 13, expected 0 to 12"},
      {"value cut", file(0, 1, pair("key", 10, "1234")),
       "offset 39: \"key\" takes 8 bytes, expected at most the 4 that are left in the file"},
      {"bool of 2", file(0, 1, pair("k", 7, "\2")), "offset 37: boolean \"k\" is 2, expected 0 or 1"},
      {"string beyond the end", file(0, 1, pair("k", 8, le(huge))),
       "offset 37: \"k\" is a string of 1152921504606846976 bytes, expected at most the 0 that are left in "
       "the file"},
      {"array of 2^60", file(0, 1, array(0, huge, "xx")),
       "offset 41: \"a\" has 1152921504606846976 elements of type u8, expected at most 2 in the 2 bytes that "
       "follow"},
      {"array whose bytes overflow", file(0, 1, array(10, uint64_t{1} << 61, "xxxxxxxx")),
       "offset 41: \"a\" has 2305843009213693952 elements of type u64, expected at most 1 in the 8 bytes "
       "that follow"},
      {"array of strings 2^60", file(0, 1, array(8, huge, "xx")),
       "offset 41: \"a\" has 1152921504606846976 elements of type string, expected at most 0 in the 2 bytes "
       "that follow"},
      {"array of unknown", file(0, 1, array(77, 1, "xx")),
       "offset 37: the element type of an array is 77, expected 0 to 12"},
      {"arrays too deep", file(0, 1, nested), "offset 133: \"a\" has arrays nested deeper than 8 levels"},
      {"key twice", file(0, 2, pair("k", 0, "x") + pair("k", 0, "y")),
       "offset 52: metadata key \"k\" stands twice"},
      {"alignment 0", file(0, 1, pair("general.alignment", 4, le<uint32_t>(0))),
       "offset 57: general.alignment is 0, expected a power of two up to 1048576"},
      {"alignment 48", file(0, 1, pair("general.alignment", 4, le<uint32_t>(48))),
       "offset 57: general.alignment is 48, expected a power of two up to 1048576"},
      {"alignment 2^31", file(0, 1, pair("general.alignment", 4, le<uint32_t>(1U << 31))),
       "offset 57: general.alignment is 2147483648, expected a power of two up to 1048576"},
      {"alignment is text", file(0, 1, pair("general.alignment", 8, text("32"))),
       "is string, expected an integer"},
      {"five axes", with_data(file(1, 0, tensor("t", {1, 1, 1, 1, 1}, 0, 0)), 32),
       "offset 33: tensor \"t\" has 5 axes, expected at most 4"},
      {"2^32-1 axes", with_data(file(1, 0, text("t") + le(UINT32_MAX) + std::string(20, 0)), 32),
       "offset 33: tensor \"t\" has 4294967295 axes, expected at most 4"},
      {"size 2^63", with_data(file(1, 0, tensor("t", {uint64_t{1} << 63}, 0, 0)), 32),
       "offset 37: tensor \"t\" has size 9223372036854775808, expected at most 9223372036854775807"},
      {"product overflows",
       with_data(file(1, 0, tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0)), 32),
       "more than can be addressed"},
      {"product overflows behind a zero",
       with_data(file(1, 0, tensor("t", {0, uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0)), 32),
       "more than can be addressed"},
      {"bytes overflow", with_data(file(1, 0, tensor("t", {uint64_t{1} << 61}, 0, 0)), 32),
       "more than can be addressed"},
      {"removed type", with_data(file(1, 0, tensor("t", {32}, 4, 0)), 32),
       "offset 45: tensor \"t\" has ggml type 4 (Q4_2, which GGUF no longer has)"},
      {"repacked type", with_data(file(1, 0, tensor("t", {32}, 31, 0)), 32),
       "offset 45: tensor \"t\" has ggml type 31 (Q4_0_4_4, which GGUF no longer has (convert the file to "
       "Q4_0))"},
      {"unknown type", with_data(file(1, 0, tensor("t", {32}, 999, 0)), 32),
       "offset 45: tensor \"t\" has ggml type 999 (unknown)"},
      {"not whole blocks", with_data(file(1, 0, tensor("t", {33}, 2, 0)), 64),
       "offset 45: tensor \"t\" is Q4_0 [33], expected a last axis that is a multiple of 32"},
      {"scalar of blocks", with_data(file(1, 0, tensor("t", {}, 2, 0)), 64),
       "offset 37: tensor \"t\" is Q4_0 [], expected a last axis that is a multiple of 32"},
      {"unaligned", with_data(file(1, 0, tensor("t", {4}, 0, 8)), 64),
       "offset 49: tensor \"t\" begins at 8 of the data, expected a multiple of 32"},
      {"no data", file(1, 0, f32_4), "offset 57: the file ends at 57, expected tensor data from 64 on"},
      {"data cut", with_data(file(1, 0, f32_4), 15),
       "tensor \"t\" (F32 [4], 16 bytes) begins at 0 of the data, which has 15 bytes: the file is truncated "
       "or not what its table says"},
      {"offset beyond", with_data(file(1, 0, tensor("t", {4}, 0, 1 << 20)), 64),
       "tensor \"t\" (F32 [4], 16 bytes) begins at 1048576 of the data, which has 64 bytes: the file is "
       "truncated or not what its table says"},
      {"offset wraps", with_data(file(1, 0, tensor("t", {4}, 0, UINT64_MAX - 31)), 64),
       "tensor \"t\" (F32 [4], 16 bytes) begins at 18446744073709551584 of the data, which has 64 bytes: the "
       "file is truncated or not what its table says"},
      {"overlap", with_data(file(2, 0, tensor("a", {16}, 0, 0) + tensor("b", {4}, 0, 32)), 64),
       "tensor \"b\" overlaps tensor \"a\""},
      {"same place", with_data(file(2, 0, tensor("a", {4}, 0, 0) + tensor("b", {4}, 0, 0)), 64),
       "offset 96: tensor \"b\" overlaps tensor \"a\", which ends at offset 112"},
      {"hole", with_data(file(2, 0, tensor("a", {4}, 0, 0) + tensor("b", {4}, 0, 64)), 128),
       "offset 112: 48 bytes that belong to no tensor, expected tensor \"b\" here"},
      {"hole in front", with_data(file(1, 0, tensor("a", {4}, 0, 32)), 128),
       "offset 64: 32 bytes that belong to no tensor, expected tensor \"a\" here"},
      {"tensor twice", with_data(file(2, 0, tensor("a", {8}, 0, 0) + tensor("a", {8}, 0, 32)), 64),
       "offset 90: tensor \"a\" stands twice"},
      {"tensor name not UTF-8", with_data(file(1, 0, tensor("\xC0", {8}, 0, 0)), 64),
       "offset 32: a tensor's name \"\\xC0\" is not UTF-8"},
      {"name with a newline", with_data(file(1, 0, tensor("a\nb", {8}, 999, 0)), 64),
       "offset 47: tensor \"a\\nb\" has ggml type 999 (unknown)"},
  };
  for (const auto& f : files) {
    SCOPED_TRACE(f.name);
    const auto result = parse(f.bytes);
    ASSERT_FALSE(result);
    expect_clear_line(result.error(), "f.gguf: ");
    EXPECT_THAT(result.error(), HasSubstr(f.expected));
  }
}

std::string small_file() {
  static const std::string data(64, '\x11');
  const TensorView tensors[] = {
      {"a", StorageType::f32, {2, 3}, detail::as_bytes(std::string_view(data).substr(0, 24))},
      {"empty", StorageType::f16, {0, 4}, {}},
      {"b", StorageType::q8_0, {32}, detail::as_bytes(std::string_view(data).substr(0, 34))},
      {"s", StorageType::f32, {}, detail::as_bytes(std::string_view(data).substr(0, 4))}};
  return *serialize_gguf(every_type(), tensors);
}

TEST(Gguf, SurvivesTruncationAndRandomChanges) { mutate(small_file(), "f.gguf: ", 2, 20000, parse, touch); }

TEST(Gguf, RefusesEveryPrefixThatLosesData) {
  const std::string valid = small_file();
  ASSERT_TRUE(parse(valid));
  // The last tensor has 4 bytes and 28 of padding, which a file may lack.
  for (size_t n = 0; n + 28 < valid.size(); ++n)
    EXPECT_FALSE(parse(std::string_view(valid).substr(0, n))) << n;
  EXPECT_TRUE(parse(std::string_view(valid).substr(0, valid.size() - 28)));
}

TEST(Gguf, RefusesToWriteWhatItCannot) {
  const std::string data(64, '\0');
  const auto bytes = [&](size_t n) { return detail::as_bytes(std::string_view(data).substr(0, n)); };
  const auto refused = [](const Metadata& metadata, std::vector<TensorView> tensors, const char* expected,
                          uint32_t alignment = 32) {
    const auto result = serialize_gguf(metadata, tensors, alignment);
    ASSERT_FALSE(result) << expected;
    EXPECT_THAT(result.error(), HasSubstr(expected));
  };
  refused({}, {{"a", StorageType::u32, {1}, bytes(4)}},
          "tensor \"a\" has type U32, which GGUF does not have");
  refused({}, {{"a", StorageType::q4_0, {2, 16}, bytes(18)}},
          "tensor \"a\" is Q4_0 [2, 16] with 18 bytes, expected a whole number of blocks");
  refused({}, {{"a", StorageType::f32, {2}, bytes(4)}}, "tensor \"a\" is F32 [2] with 4 bytes, expected 8");
  refused({}, {{"a", StorageType::f32, {1, 1, 1, 1, 1}, bytes(4)}},
          "tensor \"a\" has 5 axes, expected at most 4");
  refused({}, {{"a", StorageType::f32, {1}, bytes(4)}, {"a", StorageType::f32, {1}, bytes(4)}},
          "two tensors are named \"a\"");
  refused({{"k", GgufValue::of_u32(1)}, {"k", GgufValue::of_u32(1)}}, {}, "metadata key \"k\" stands twice");
  refused({{"", GgufValue::of_u32(1)}}, {}, "metadata key \"\" is not UTF-8 of 1 to 65535 bytes");
  refused({{"k", {GgufType::u8, uint64_t{256}}}}, {}, "metadata \"k\": 256 does not fit u8");
  refused({{"k", {GgufType::u8, int64_t{-1}}}}, {}, "metadata \"k\": -1 does not fit u8");
  refused({{"k", {GgufType::f32, uint64_t{1}}}}, {}, "metadata \"k\" is an integer with type f32");
  refused({{"k", {GgufType::string, true}}}, {}, "metadata \"k\" is a bool with type string");
  refused({{"general.alignment", GgufValue::of_u32(64)}}, {},
          "metadata general.alignment is 64, expected u32 32");
  refused({}, {}, "alignment 24, expected a power of two up to 1048576", 24);
}

TEST(Gguf, OpensAFileAndSaysWhatIsWrongWithThePath) {
  const TemporaryFolder folder;
  const std::string data(24, '\x22');
  const TensorView t{"a", StorageType::f32, {2, 3}, detail::as_bytes(data)};
  const std::string path = folder.file("m.gguf");
  ASSERT_TRUE(save_gguf(path, every_type(), {&t, 1}));
  const auto content = open_gguf(path);
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(detail::as_text(content->find_tensor("a")->bytes), data);
  EXPECT_EQ(content->file->path(), path);
  for (const std::string& bad : {folder.file("absent"), folder.path()}) {
    const auto result = open_gguf(bad);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(bad));
  }
}

TEST(Gguf, ReadsRealModels) {
  LUMINAL_NEEDS_DATA(path, "llm/stories260K.gguf");
  const auto content = open_gguf(path);
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(content->tensors.size(), 48U);
  EXPECT_EQ(content->find_tensor("token_embd.weight")->describe(), "F32 [512, 64]");
  EXPECT_EQ(**content->integer("llama.block_count"), 5);
  EXPECT_EQ((*content->strings("tokenizer.ggml.tokens"))->size(), 512U);
  const auto again = serialize_gguf(content->metadata, content->tensors);
  ASSERT_TRUE(again) << again.error();
  const auto read = parse(*again);
  ASSERT_TRUE(read) << read.error();
  EXPECT_TRUE(read->metadata == content->metadata);
  for (size_t i = 0; i < read->tensors.size(); ++i)
    EXPECT_EQ(detail::as_text(read->tensors[i].bytes), detail::as_text(content->tensors[i].bytes));
}

TEST(Gguf, ReadsVocabularies) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-gpt-2.gguf");
  const auto content = open_gguf(path);
  ASSERT_TRUE(content) << content.error();
  EXPECT_TRUE(content->tensors.empty());
  EXPECT_EQ((*content->strings("tokenizer.ggml.merges"))->size(), 50000U);
}

} // namespace
} // namespace luminal
