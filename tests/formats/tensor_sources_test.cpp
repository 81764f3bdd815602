// formats/tensor_sources_test.cpp -- files written piece by piece: the same bytes as in one piece, and
// nothing where it fails.
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/tensor_sources.h"
#include "formats/util.h"
#include <filesystem>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace luminal::testing_formats;

const std::string a_bytes(24, 'a'), b_bytes(2 * 34, 'b');

std::vector<TensorSource> sources(std::vector<std::string>* order = nullptr) {
  const auto made = [order](const char* name, const std::string& bytes) {
    return [=]() -> Result<std::string> {
      if (order != nullptr) order->emplace_back(name);
      return bytes;
    };
  };
  return {{"a", StorageType::f32, {2, 3}, made("a", a_bytes)},
          {"b", StorageType::q8_0, {2, 32}, made("b", b_bytes)}};
}

TEST(FileDraft, StreamsAreTheFilesThatWritingGives) {
  const TemporaryFolder folder;
  const std::vector<TensorView> views = {{"a", StorageType::f32, {2, 3}, detail::as_bytes(a_bytes)},
                                         {"b", StorageType::q8_0, {2, 32}, detail::as_bytes(b_bytes)}};
  const std::vector<std::pair<std::string, GgufValue>> metadata = {{"x", GgufValue::of_u32(7)}};
  std::vector<std::string> order;
  std::vector<size_t> places;
  ASSERT_TRUE(
      stream_gguf(folder.file("s.gguf"), metadata, sources(&order), [&](size_t i) { places.push_back(i); }));
  EXPECT_EQ(file_content(folder.file("s.gguf")), serialize_gguf(metadata, views).value());
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(places, (std::vector<size_t>{0, 1}));
  const std::vector<TensorView> plain = {
      {"h", StorageType::f16, {2}, detail::as_bytes(std::string_view(a_bytes).substr(0, 4))},
      {"a", StorageType::f32, {2, 3}, detail::as_bytes(a_bytes)}};
  const std::vector<TensorSource> plain_sources = {
      {"h", StorageType::f16, {2}, []() -> Result<std::string> { return a_bytes.substr(0, 4); }},
      {"a", StorageType::f32, {2, 3}, []() -> Result<std::string> { return a_bytes; }}};
  ASSERT_TRUE(stream_safetensors(folder.file("s.safetensors"), plain_sources, {{"format", "pt"}}));
  EXPECT_EQ(file_content(folder.file("s.safetensors")),
            serialize_safetensors(plain, {{"format", "pt"}}).value());
}

TEST(FileDraft, NothingIsLeftWhereItFails) {
  const TemporaryFolder folder;
  const std::string path = folder.file("s.gguf");
  auto wrong = sources();
  wrong[1].bytes = []() -> Result<std::string> { return std::string("short"); };
  auto done = stream_gguf(path, {}, wrong);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), path + ": tensor \"b\" has 5 bytes, expected 68");
  wrong[1].bytes = []() -> Result<std::string> { return Failure{"why"}; };
  done = stream_gguf(path, {}, wrong);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), "why");
  wrong[1].shape = {2, 33};
  done = stream_gguf(path, {}, wrong);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), path + ": GGUF: tensor \"b\" is Q8_0 [2, 33], expected a whole number of blocks");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const std::string absent = folder.path() + "/no/s.gguf";
  done = stream_gguf(absent, {}, sources());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), absent + ": there is no folder " + folder.path() + "/no");
  done = stream_gguf(folder.path(), {}, sources());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), folder.path() + ": Is a directory");
}

} // namespace
} // namespace luminal
