// formats/safetensors_test.cpp -- reading, refusing, joining shards and writing safetensors.
#include "formats/safetensors.h"
#include "formats/util.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>

namespace luminal::safetensors_test {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

std::string image(std::string_view header, std::string_view data) {
  return le<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

Result<Safetensors> parse(std::string_view bytes) {
  return parse_safetensors(detail::as_bytes(bytes), "f.safetensors");
}

/// One sum over everything a caller may touch.
uint64_t touch(const Safetensors& content) {
  uint64_t sum = 0;
  for (const auto& tensor : content.tensors) {
    for (const auto byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
    sum += static_cast<uint64_t>(tensor.elements()) + tensor.name.size();
    EXPECT_EQ(storage_bytes(tensor.type, tensor.shape), tensor.bytes.size());
  }
  return sum;
}

const char* const two_tensors =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("a":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]}}  )";

TEST(Safetensors, ReadsTensorsInDataOrder) {
  const std::string bytes = image(two_tensors, std::string("\0\0\x80\x3F\0\0\0\x40\1\0\1", 11));
  const auto content = parse(bytes);
  ASSERT_TRUE(content) << content.error();
  ASSERT_EQ(content->tensors.size(), 2U);
  const auto& b = content->tensors[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.type, StorageType::f32);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 1}));
  float values[2];
  std::memcpy(values, b.bytes.data(), 8);
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], 2.0F);
  EXPECT_EQ(b.file_offset, 8 + std::strlen(two_tensors));
  EXPECT_EQ(content->find("a")->elements(), 3);
  EXPECT_EQ(content->find("c"), nullptr);
  EXPECT_EQ(content->metadata.at("format"), "pt");
}

TEST(Safetensors, ReadsScalarsEmptyTensorsAndEmptyFiles) {
  EXPECT_TRUE(parse(image("{}", "")));
  const auto content = parse(image(R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                   R"("e":{"dtype":"F16","shape":[4,0,2],"data_offsets":[0,0]},)"
                                   R"("z":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
                                   std::string(8, '\1')));
  ASSERT_TRUE(content) << content.error();
  ASSERT_EQ(content->tensors.size(), 3U);
  EXPECT_EQ(content->tensors[0].name, "e");
  EXPECT_EQ(content->tensors[0].elements(), 0);
  EXPECT_EQ(content->tensors[1].elements(), 1);
  EXPECT_TRUE(content->tensors[1].shape.empty());
}

struct Hostile {
  const char* name;
  std::string bytes;
  const char* expected; // part of the message
};

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

TEST(Safetensors, RefusesHostileFilesInOneClearLine) {
  const std::string deep = "{\"t\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  const Hostile files[] = {
      {"empty", "", "offset 0: 0 bytes in the file, expected at least 8 (the header's length)"},
      {"seven bytes", std::string(7, '\0'),
       "offset 0: 7 bytes in the file, expected at least 8 (the header's length)"},
      {"zero header", le<uint64_t>(0), "offset 8: header begins with \"\", expected \"{\""},
      {"header over the cap", le<uint64_t>(100'000'001) + "{}",
       "offset 0: header length 100000001, expected at most 100000000"},
      {"header 2^63", le<uint64_t>(uint64_t{1} << 63) + "{}",
       "offset 0: header length 9223372036854775808, expected at most 100000000"},
      {"header beyond the end", le<uint64_t>(3) + "{}",
       "offset 0: header length 3, expected at most the 2 bytes that follow"},
      {"a text", "fn @main(%x: f32[3]) {", "offset 0: this is a text file, expected a safetensors file"},
      {"an npy array", "\x93NUMPY\x01 ..",
       "offset 0: this is an array of NumPy (.npy), expected a safetensors"},
      {"a zip archive", std::string("PK\x03\x04\x14\0\0\0\0", 9),
       "offset 0: this is a zip archive (.npz, .pt), expected a safetensors file"},
      {"a GGUF file", std::string("GGUF\x03\0\0\0", 8),
       "offset 0: this is a GGUF file, expected a safetensors"},
      {"array header", image("[]", ""), "offset 8: header begins with \"[\", expected \"{\""},
      {"not JSON", image("{\"a\":}", ""),
       "offset 13: not JSON: syntax error while parsing value - unexpected '}'; expected '[', '{', or a "
       "literal"},
      {"offset 66: text after the header's dictionary", image("{}x", ""), "not JSON"},
      {"truncated JSON", image("{\"a\":{\"dtype\"", ""), "not JSON"},
      {"deep", image(deep, ""), "offset 77: JSON nested deeper than 64 levels"},
      {"tensor name \"\\xFF\" is not UTF-8", image("{\"\xC3\x28\":{}}", ""),
       "offset 11: not JSON: syntax error while parsing object key - invalid string: ill-formed UTF-8 byte; "
       "last read: '\\\"\\xC3('; expected string literal"},
      {"tensor is a number", image("{\"a\":1}", ""),
       "offset 15: tensor \"a\" is an integer, expected an object"},
      {"no dtype", image(R"({"a":{"shape":[],"data_offsets":[0,0]}})", ""),
       "offset 14: tensor \"a\" has no dtype"},
      {"unknown field", image(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"strides":[1]}})", ""),
       "offset 72: tensor \"a\" has the unknown field \"strides\", expected dtype, shape, data_offsets"},
      {"unknown dtype", image(one("C64", "[1]", "[0,8]"), std::string(8, 0)),
       "offset 27: dtype of tensor \"t\" is \"C64\", expected one of F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 "
       "I32 I16 I8 U64 U32 U16 U8 BOOL"},
      {"dtype is a list", image(R"({"t":{"dtype":["F32"],"shape":[0],"data_offsets":[0,0]}})", ""),
       "expected a string"},
      {"negative size", image(one("F32", "[-1]", "[0,4]"), std::string(4, 0)),
       "offset 40: a size in the shape of tensor \"t\" is -1, expected 0 or more"},
      {"fractional size", image(one("F32", "[1.5]", "[0,4]"), std::string(4, 0)),
       "offset 41: a size in the shape of tensor \"t\" is a number, expected an integer"},
      {"size over int64", image(one("U8", "[18446744073709551615]", "[0,4]"), std::string(4, 0)),
       "offset 57: a size in the shape of tensor \"t\" is 18446744073709551615, expected at most "
       "9223372036854775807"},
      {"size over uint64", image(one("U8", "[99999999999999999999]", "[0,4]"), std::string(4, 0)),
       "offset 57: a size in the shape of tensor \"t\" is a number, expected an integer"},
      {"product overflows", image(one("U8", "[4294967296,4294967296]", "[0,0]"), ""),
       "more than can be addressed"},
      {"product overflows behind a zero", image(one("U8", "[4294967296,4294967296,0]", "[0,0]"), ""),
       "more than can be addressed"},
      {"bytes overflow", image(one("F64", "[4611686018427387904]", "[0,0]"), ""),
       "more than can be addressed"},
      {"wrong span", image(one("F32", "[2]", "[0,4]"), std::string(4, 0)),
       "offset 56: data_offsets of tensor \"t\" span 4 bytes, expected 8 for F32 [2]"},
      {"reversed span", image(one("F32", "[1]", "[4,0]"), std::string(4, 0)),
       "offset 56: data_offsets of tensor \"t\" are [4, 0], expected 0 <= begin <= end"},
      {"negative span", image(one("F32", "[1]", "[-4,0]"), std::string(4, 0)),
       "offset 56: data_offsets of tensor \"t\" are [-4, 0], expected 0 <= begin <= end"},
      {"three offsets", image(one("F32", "[1]", "[0,4,8]"), std::string(4, 0)),
       "offset 56: data_offsets of tensor \"t\" has 3 numbers, expected 2"},
      {"beyond the end", image(one("F32", "[2]", "[0,8]"), std::string(4, 0)), "(the end of the file)"},
      {"far beyond the end", image(one("U8", "[1]", "[9223372036854775806,9223372036854775807]"), "x"),
       "(the end of the file)"},
      {"bytes after", image(one("F32", "[1]", "[0,4]"), std::string(5, 0)),
       "offset 66: 1 bytes after the last tensor, expected the end of the file"},
      {"hole", image(one("F32", "[1]", "[4,8]"), std::string(8, 0)),
       "offset 62: 4 bytes that belong to no tensor, expected tensor \"t\" here"},
      {"overlap",
       image(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           std::string(8, 0)),
       "tensor \"b\" overlaps tensor \"a\""},
      {"same name twice",
       image(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           "xx"),
       "key \"a\" stands twice"},
      {"same field twice",
       image(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x"),
       "offset 73: key \"dtype\" stands twice in one object"},
      {"metadata is a list", image(R"({"__metadata__":[]})", ""),
       "offset 25: __metadata__ is an array, expected an object"},
      {"metadata of numbers", image(R"({"__metadata__":{"a":1}})", ""), "expected a string"},
      {"too many axes",
       image(one(
                 "U8",
                 "[" +
                     [] {
                       std::string s = "1";
                       for (int i = 0; i < 64; ++i) s += ",1";
                       return s;
                     }() +
                     "]",
                 "[0,1]"),
             "x"),
       "offset 36: shape of tensor \"t\" has 65 axes, expected at most 64"},
      {"newline in the name", image("{\"a\\nb\":3}", ""),
       "offset 18: tensor \"a\\nb\" is an integer, expected an object"},
      {"huge number", image(one("U8", "[1e999]", "[0,1]"), "x"), "not JSON"},
  };
  for (const auto& file : files) {
    SCOPED_TRACE(file.name);
    const auto result = parse(file.bytes);
    ASSERT_FALSE(result);
    expect_clear_line(result.error(), "f.safetensors: ");
    EXPECT_THAT(result.error(), HasSubstr(file.expected));
  }
}

TEST(Safetensors, SurvivesTruncationAndRandomChanges) {
  const std::string valid = image(two_tensors, std::string("\0\0\x80\x3F\0\0\0\x40\1\0\1", 11));
  mutate(valid, "f.safetensors: ", 1, 20000, parse, touch);
}

TEST(Safetensors, RefusesEveryProperPrefix) {
  const std::string valid = image(two_tensors, std::string(11, '\1'));
  for (size_t n = 0; n < valid.size(); ++n) EXPECT_FALSE(parse(std::string_view(valid).substr(0, n))) << n;
}

TEST(Safetensors, WritesWhatItReads) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<TensorView> tensors;
    std::vector<std::string> data;
    const size_t count = random() % 6;
    data.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      TensorView tensor;
      tensor.name = fmt::format("layer.{}.\"w\" \n é {}", random() % 100, i);
      tensor.type = static_cast<StorageType>(random() % (static_cast<unsigned>(StorageType::boolean) + 1));
      for (size_t axis = random() % 4; axis > 0; --axis)
        tensor.shape.push_back(static_cast<int64_t>(random() % 5));
      std::string& bytes = data.emplace_back(*storage_bytes(tensor.type, tensor.shape), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      tensor.bytes = detail::as_bytes(bytes);
      tensors.push_back(tensor);
    }
    const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"кто", "\\ \"x\" \x01"}};
    const auto written = serialize_safetensors(tensors, metadata);
    ASSERT_TRUE(written) << written.error();
    EXPECT_EQ((*written)[8], '{');
    const auto read = parse(*written);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(read->metadata, metadata);
    ASSERT_EQ(read->tensors.size(), tensors.size());
    for (const auto& tensor : tensors) {
      const TensorView* again = read->find(tensor.name);
      ASSERT_NE(again, nullptr) << tensor.name;
      EXPECT_EQ(again->type, tensor.type);
      EXPECT_EQ(again->shape, tensor.shape);
      EXPECT_EQ(detail::as_text(again->bytes), detail::as_text(tensor.bytes));
      EXPECT_EQ(again->file_offset % storage_info(tensor.type).block_bytes, 0U) << "element alignment";
    }
  }
}

TEST(Safetensors, RefusesToWriteWhatItCannot) {
  const std::string data(34, '\0');
  const auto expect_refused = [&](std::vector<TensorView> tensors, const char* expected) {
    const auto result = serialize_safetensors(tensors);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(expected));
  };
  const auto bytes = [&](size_t n) { return detail::as_bytes(std::string_view(data).substr(0, n)); };
  expect_refused({{"q", StorageType::q8_0, {32}, bytes(34)}},
                 "tensor \"q\" has type Q8_0, which safetensors does not have");
  expect_refused({{"a", StorageType::f32, {2}, bytes(4)}},
                 "tensor \"a\" is F32 [2] with 4 bytes, expected 8");
  expect_refused({{"a", StorageType::u8, {1}, bytes(1)}, {"a", StorageType::u8, {1}, bytes(1)}},
                 "two tensors are named \"a\"");
  expect_refused({{"__metadata__", StorageType::u8, {1}, bytes(1)}},
                 "a tensor cannot be named \"__metadata__\"");
  expect_refused({{"\xFF", StorageType::u8, {1}, bytes(1)}}, "tensor name \"\\xFF\" is not UTF-8");
}

TEST(Safetensors, OpensAFileAndSaysWhatIsWrongWithThePath) {
  const TemporaryFolder folder;
  const std::string data("\1\2\3\4", 4);
  const TensorView tensor{"x", StorageType::u8, {2, 2}, detail::as_bytes(data)};
  const std::string path = folder.file("x.safetensors");
  ASSERT_TRUE(save_safetensors(path, {&tensor, 1}));
  const auto content = open_safetensors(path);
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(detail::as_text(content->find("x")->bytes), data);
  ASSERT_EQ(content->files.size(), 1U);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().string(), path) << "no temporary file is left";

  for (const std::string& bad : {folder.file("absent"), folder.path()}) {
    const auto result = open_safetensors(bad);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(bad));
  }
  put_file(folder.file("empty"), "");
  EXPECT_FALSE(open_safetensors(folder.file("empty")));
  EXPECT_FALSE(save_safetensors(folder.file("no/such/folder"), {&tensor, 1}));
}

TEST(Safetensors, JoinsShards) {
  const TemporaryFolder folder;
  const std::string data(8, '\5');
  const auto save = [&](const char* file, std::vector<TensorView> tensors) {
    ASSERT_TRUE(save_safetensors(folder.file(file), tensors, {{"format", "pt"}}));
  };
  const auto view = [&](const char* name) {
    return TensorView{name, StorageType::f32, {2}, detail::as_bytes(data)};
  };
  save("m-1.safetensors", {view("a"), view("b")});
  save("m-2.safetensors", {view("c")});
  const std::string index = folder.file("model.safetensors.index.json");
  const auto open = [&](std::string_view text) {
    put_file(index, text);
    return open_safetensors_index(index);
  };
  const auto good = open(
      R"({"metadata":{"total_size":24},"weight_map":{"c":"m-2.safetensors","a":"m-1.safetensors","b":"m-1.safetensors"}})");
  ASSERT_TRUE(good) << good.error();
  ASSERT_EQ(good->tensors.size(), 3U);
  EXPECT_EQ(good->tensors[0].name, "a");
  EXPECT_EQ(good->tensors[2].name, "c");
  EXPECT_EQ(good->tensors[2].file_index, 1U);
  EXPECT_EQ(good->files[1]->path(), folder.file("m-2.safetensors"));
  EXPECT_EQ(good->metadata.at("format"), "pt");

  const std::pair<const char*, const char*> bad[] = {
      {R"({"weight_map":{"a":"../m-1.safetensors"}})", "expected a plain file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "expected a plain file name"},
      {R"({"weight_map":{"a":""}})", "expected a plain file name"},
      {R"({"weight_map":{"a":"m-2.safetensors"}})", "offset 36: tensor \"a\" is not in m-2.safetensors"},
      {R"({"weight_map":{"x":"m-1.safetensors"}})", "offset 36: tensor \"x\" is not in m-1.safetensors"},
      {R"({"weight_map":{"a":"absent.safetensors"}})", "absent.safetensors"},
      {R"({"weight_map":{"a":1}})", "expected a string"},
      {R"({"weight_map":[]})", "expected an object"},
      {R"({})", "offset 1: no \"weight_map\", expected one from tensor names to files"},
      {R"([1])", "expected an object"},
      {"", "not JSON"},
  };
  for (const auto& [text, expected] : bad) {
    SCOPED_TRACE(text);
    const auto result = open(text);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(expected));
    expect_clear_line(result.error(), folder.path());
  }
  save("m-3.safetensors", {view("a")});
  const auto twice = open(R"({"weight_map":{"a":"m-1.safetensors","b":"m-3.safetensors"}})");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error(), HasSubstr("is also in"));
}

TEST(Safetensors, ReadsRealModels) {
  LUMINAL_NEEDS_DATA(path, "llm/stories260K.hf.safetensors");
  const auto content = open_safetensors(path);
  ASSERT_TRUE(content) << content.error();
  EXPECT_EQ(content->tensors.size(), 47U);
  const TensorView* embedding = content->find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->describe(), "F32 [512, 64]");
  // Written again and read again, every tensor keeps its bytes.
  const auto again = serialize_safetensors(content->tensors, content->metadata);
  ASSERT_TRUE(again);
  const auto read = parse(*again);
  ASSERT_TRUE(read) << read.error();
  for (const auto& tensor : content->tensors)
    EXPECT_EQ(detail::as_text(read->find(tensor.name)->bytes), detail::as_text(tensor.bytes)) << tensor.name;
}

} // namespace
} // namespace luminal::safetensors_test
