// formats/onnx_test.cpp -- reading and refusing ONNX files.
#include "formats/onnx.h"
#include "formats/util.h"
#include "support/onnx_writer.h"
#include <cstring>
#include <gmock/gmock.h>

namespace luminal::onnx_test {
namespace {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
using ::testing::HasSubstr;

Result<onnx::ModelData> parse(std::string_view bytes) {
  return onnx::parse_onnx(detail::as_bytes(bytes), "f.onnx");
}
Result<onnx::TensorData> parse_one(std::string_view bytes) {
  return onnx::parse_onnx_tensor(detail::as_bytes(bytes), "f.pb");
}
std::string refusal(std::string_view bytes) {
  const auto model = parse(bytes);
  return model ? "accepted" : model.error();
}
std::string tensor_refusal(std::string_view bytes) {
  const auto tensor = parse_one(bytes);
  return tensor ? "accepted" : tensor.error();
}

GraphText example() {
  GraphText g;
  g.nodes = {node("Mul", {"x", "w"}, {"y"}), node("Flatten", {"y"}, {"z"}, {integer("axis", -1)})};
  g.initializers = {tensor("w", 1, {2}, raw<float>({1.5F, -2}))};
  g.inputs = {value("x", 1, {"n", 2})};
  g.outputs = {value("z", 1, {"n", 2})};
  return g;
}

TEST(Onnx, ReadsGraphNodesAndWeights) {
  const std::string bytes = model(example());
  const auto m = parse(bytes);
  ASSERT_TRUE(m) << m.error();
  EXPECT_EQ(m->opsets.at(""), 17);
  ASSERT_EQ(m->graph.nodes.size(), 2U);
  EXPECT_EQ(m->graph.nodes[1].op_type, "Flatten");
  EXPECT_EQ(m->graph.nodes[1].attributes[0].integer, -1);
  const auto& w = m->graph.initializers[0];
  EXPECT_EQ(w.describe(), "FLOAT [2]");
  EXPECT_GE(w.bytes.data(), detail::as_bytes(bytes).data()) << "raw data is not copied";
  EXPECT_LT(w.bytes.data(), detail::as_bytes(bytes).data() + bytes.size());
  EXPECT_EQ(m->graph.inputs[0].shape[0].name, "n");
  EXPECT_EQ(m->graph.inputs[0].shape[1].value, 2);
}

TEST(Onnx, ReadsElementsOfTheirOwnFields) {
  const auto half =
      parse_one(field(1, int64_t(2)) + field(2, int64_t(10)) + field(5, varint(15360) + varint(16384)));
  ASSERT_TRUE(half) << half.error();
  uint16_t words[2];
  std::memcpy(words, half->bytes.data(), 4);
  EXPECT_EQ(words[0], 15360);
  EXPECT_EQ(words[1], 16384);
  const auto long_one = parse_one(field(1, int64_t(1)) + field(2, int64_t(7)) + field(7, int64_t(-3)));
  ASSERT_TRUE(long_one) << long_one.error();
  int64_t number;
  std::memcpy(&number, long_one->bytes.data(), 8);
  EXPECT_EQ(number, -3);
  const auto nibbles =
      parse_one(field(1, int64_t(3)) + field(2, int64_t(22)) + field(5, varint(0x21) + varint(3)));
  ASSERT_TRUE(nibbles) << nibbles.error();
  EXPECT_EQ(nibbles->bytes.size(), 2U);
}

TEST(Onnx, RefusesTensorsThatDoNotFit) {
  const std::string eight = std::string(8, '\0');
  EXPECT_THAT(tensor_refusal(tensor("w", 1, {3}, eight)),
              HasSubstr("tensor \"w\" has 8 bytes, FLOAT [3] needs 12"));
  EXPECT_THAT(tensor_refusal(tensor("w", 99, {2}, eight)),
              HasSubstr("tensor \"w\" has the type 99, which is not known"));
  EXPECT_THAT(tensor_refusal(tensor("w", 1, {int64_t(1) << 40, int64_t(1) << 40}, "")),
              HasSubstr("tensor \"w\" has more than 2^48 elements"));
  EXPECT_THAT(tensor_refusal(tensor("w", 1, {-1}, "")),
              HasSubstr("tensor \"w\" has the extent -1, which is negative"));
  EXPECT_THAT(tensor_refusal(tensor("w", 9, {1}, "\2")),
              HasSubstr("tensor \"w\" has a bool that is 2, expected 0 or 1"));
  EXPECT_THAT(tensor_refusal(field(1, int64_t(1)) + field(2, int64_t(9)) + field(5, varint(2))),
              HasSubstr("tensor \"\" has a bool that is 2, expected 0 or 1"));
  EXPECT_THAT(tensor_refusal(tensor("w", 1, {2}, eight) + field(9, eight)),
              HasSubstr("tensor \"w\" has its data twice"));
  EXPECT_THAT(tensor_refusal(field(3, "x")),
              HasSubstr("a tensor is cut into segments, which is not supported"));
  EXPECT_THAT(tensor_refusal(field(1, int64_t(2)) + field(2, int64_t(8)) + field(6, "a")),
              HasSubstr("tensor \"\" has 1 strings for STRING [2]"));
  std::string axes;
  for (int i = 0; i < 65; i++) axes += field(1, int64_t(1));
  EXPECT_THAT(tensor_refusal(axes), HasSubstr("tensor \"\" has 65 axes, at most 64 are read"));
}

TEST(Onnx, RefusesWhatIsNotAModel) {
  EXPECT_THAT(refusal("GGUF and more"), HasSubstr("f.onnx: offset"));
  EXPECT_THAT(refusal(""), HasSubstr("this is not an ONNX model: it has no graph"));
  EXPECT_THAT(refusal(field(7, "")), HasSubstr("this is not an ONNX model: it names no set of operators"));
  EXPECT_THAT(refusal(field(7, "") + field(7, "")), HasSubstr("the model has two graphs"));
  EXPECT_THAT(refusal("\x0F"), HasSubstr("a field has the wire type 7"));
  EXPECT_THAT(refusal(std::string("\x02\x00", 2)), HasSubstr("a field has the number 0"));
  EXPECT_THAT(refusal("\x3A\x7F"), HasSubstr("127 bytes are announced, 0 are left"));
  EXPECT_THAT(refusal("\x08\xFF"), HasSubstr("a number has no end"));
  EXPECT_THAT(refusal("\x08" + std::string(11, '\xFF')), HasSubstr("a number has more than 64 bits"));
  EXPECT_THAT(refusal(field(7, int64_t(3))), HasSubstr("field 7 has the wire type 0 in place of 2"));
  GraphText empty_node;
  empty_node.nodes = {field(1, "x")};
  EXPECT_THAT(refusal(model(empty_node)), HasSubstr("a node has no operator"));
  GraphText odd;
  odd.nodes = {node("If", {"c"}, {"y"}, {field(1, "then_branch") + field(20, int64_t(5))})};
  EXPECT_THAT(refusal(model(odd)), HasSubstr("attribute \"then_branch\" has 0 values in place of one"));
  odd.nodes = {node("If", {"c"}, {"y"}, {field(1, "a") + field(20, int64_t(77))})};
  EXPECT_THAT(refusal(model(odd)), HasSubstr("attribute \"a\" has the type 77, expected 0 to 14"));
}

TEST(Onnx, RefusesGraphsThatAreNestedTooDeep) {
  std::string inner = node("Relu", {"x"}, {"y"});
  for (int i = 0; i < 40; i++) inner = node("Loop", {}, {}, {graph_attribute("body", field(1, inner))});
  GraphText g;
  g.nodes = {inner};
  EXPECT_THAT(refusal(model(g)), HasSubstr("messages are nested more than 64 deep"));
}

std::string external(const std::string& location, const std::string& more = "") {
  GraphText g;
  g.initializers = {field(1, int64_t(2)) + field(2, int64_t(1)) + field(8, "w") + field(14, int64_t(1)) +
                    field(13, field(1, "location") + field(2, location)) + more};
  return model(g);
}
std::string entry(const std::string& key, const std::string& value) {
  return field(13, field(1, key) + field(2, value));
}

TEST(Onnx, ReadsTensorsInOtherFilesOfTheFolder) {
  const TemporaryFolder folder;
  put_file(folder.file("w.bin"), std::string(4, 'x') + raw<float>({3, 4}));
  put_file(folder.file("m.onnx"), external("w.bin", entry("offset", "4") + entry("length", "8")));
  const auto m = onnx::open_onnx(folder.file("m.onnx"));
  ASSERT_TRUE(m) << m.error();
  float values[2];
  std::memcpy(values, m->graph.initializers[0].bytes.data(), 8);
  EXPECT_EQ(values[1], 4);
  const auto refused = [&](const std::string& text) {
    put_file(folder.file("m.onnx"), text);
    const auto read = onnx::open_onnx(folder.file("m.onnx"));
    return read ? std::string("accepted") : read.error();
  };
  EXPECT_THAT(refused(external("../w.bin")),
              HasSubstr("external data at \"../w.bin\", outside of the model's folder"));
  EXPECT_THAT(refused(external("/etc/hostname")),
              HasSubstr("external data at \"/etc/hostname\": a relative path is expected"));
  EXPECT_EQ(refused("hello there"), folder.file("m.onnx") + ": this is a text file, expected an ONNX model");
  EXPECT_EQ(refused(std::string("PK\3\4 and more")),
            folder.file("m.onnx") + ": this is a zip archive (.npz, .pt), expected an ONNX model");
  EXPECT_THAT(refused(external("absent.bin")), HasSubstr("absent.bin: No such file"));
  EXPECT_THAT(refused(external("w.bin", entry("offset", "8") + entry("length", "8"))),
              HasSubstr("external data ends at byte 16 of \"w.bin\", which has 12 bytes"));
  EXPECT_THAT(refused(external("w.bin", entry("offset", "-1"))),
              HasSubstr("the offset of external data is \"-1\", expected 1 to 18 digits"));
  std::filesystem::create_symlink("/etc/hostname", folder.file("link"));
  EXPECT_THAT(refused(external("link")),
              HasSubstr("external data at \"link\", outside of the model's folder"));
  EXPECT_THAT(refusal(external("w.bin")),
              HasSubstr("a tensor lies in another file, \"w.bin\", and the place of this one is not known"));
}

TEST(Onnx, DamagedFilesAreRefusedInALine) {
  mutate(
      model(example()), "f.onnx", 11, 3000, [](std::string_view bytes) { return parse(bytes); },
      [](const onnx::ModelData& m) {
        for (const auto& t : m.graph.initializers)
          EXPECT_EQ(t.bytes.size(), (size_t(t.elements()) * size_t(onnx::element_bits(t.type)) + 7) / 8);
      });
}

} // namespace
} // namespace luminal::onnx_test
