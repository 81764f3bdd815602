// formats/npy_test.cpp -- arrays that numpy wrote, and hostile ones.
#include "formats/npy.h"
#include "formats/quants.h"
#include "formats/util.h"
#include <gmock/gmock.h>

namespace luminal::npy_test {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

const std::string folder = LUMINAL_SOURCE_DIR "/tests/formats/golden/npy/";

Result<NpyArray> parse(std::string_view bytes) { return parse_npy(detail::as_bytes(bytes), "f.npy"); }
Result<NpyFile> parse_zip(std::string_view bytes) { return parse_npz(detail::as_bytes(bytes), "f.npz"); }

uint64_t touch(const NpyArray& array) {
  uint64_t sum = 0;
  for (const auto byte : array.tensor.bytes) sum += std::to_integer<uint64_t>(byte);
  EXPECT_EQ(storage_bytes(array.tensor.type, array.tensor.shape), array.tensor.bytes.size());
  return sum;
}

TEST(Npy, ReadsEveryOrderAndVersion) {
  std::vector<float> expected;
  for (int i = 0; i < 24; ++i) expected.push_back(static_cast<float>(i - 5));
  const std::pair<const char*, StorageType> files[] = {{"v1_f4.npy", StorageType::f32},
                                                       {"v2_f8_fortran.npy", StorageType::f64},
                                                       {"v3_big_endian_i2.npy", StorageType::i16},
                                                       {"big_endian_fortran_f2.npy", StorageType::f16}};
  for (const auto& [name, type] : files) {
    SCOPED_TRACE(name);
    const auto file = open_npy(folder + name);
    ASSERT_TRUE(file) << file.error();
    ASSERT_EQ(file->arrays.size(), 1U);
    const TensorView& tensor = file->arrays[0].tensor;
    EXPECT_EQ(tensor.type, type);
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3, 4}));
    const auto values = dequantize(tensor);
    ASSERT_TRUE(values) << values.error();
    EXPECT_EQ(*values, expected);
  }
  const auto boolean = open_npy(folder + "bool.npy");
  ASSERT_TRUE(boolean) << boolean.error();
  EXPECT_EQ(boolean->arrays[0].tensor.describe(), "BOOL [2, 3, 4]");
  EXPECT_EQ(touch(boolean->arrays[0]), 15U);
  const auto scalar = open_npy(folder + "scalar_u8.npy");
  ASSERT_TRUE(scalar) << scalar.error();
  EXPECT_TRUE(scalar->arrays[0].tensor.shape.empty());
  uint64_t value = 0;
  std::memcpy(&value, scalar->arrays[0].tensor.bytes.data(), 8);
  EXPECT_EQ(value, (uint64_t{1} << 63) + 1);
  const auto empty = open_npy(folder + "empty_i4.npy");
  ASSERT_TRUE(empty) << empty.error();
  EXPECT_EQ(empty->arrays[0].tensor.describe(), "I32 [3, 0, 2]");
}

TEST(Npy, ReadsArchives) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(name);
    const auto file = open_npy(folder + name);
    ASSERT_TRUE(file) << file.error();
    ASSERT_EQ(file->arrays.size(), 2U);
    const TensorView* a = file->find("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->describe(), "I32 [2, 3, 4]");
    EXPECT_EQ((*dequantize(*a))[23], 18.0F);
    EXPECT_EQ(file->find("c"), nullptr);
  }
  EXPECT_EQ((*dequantize(*open_npy(folder + "stored.npz")->find("b"))), (std::vector<float>{1.5F, -2.0F}));
  EXPECT_EQ(open_npy(folder + "deflated.npz")->find("z")->elements(), 4096);
}

TEST(Npy, ReadsRealArchives) {
  LUMINAL_NEEDS_DATA(path, "audio/mel_filters.npz");
  const auto file = open_npy(path);
  ASSERT_TRUE(file) << file.error();
  ASSERT_NE(file->find("mel_80"), nullptr);
  EXPECT_EQ(file->find("mel_80")->describe(), "F32 [80, 201]");
}

std::string npy(std::string_view header, std::string_view data, char version = 1) {
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  out += version == 1 ? le(static_cast<uint16_t>(header.size())) : le(static_cast<uint32_t>(header.size()));
  return out.append(header).append(data);
}

TEST(Npy, RefusesHostileFilesInOneClearLine) {
  const std::pair<std::string, const char*> files[] = {
      {"", "offset 0: begins with \"\" of 0 bytes, expected \"\\x93NUMPY\" and a version"},
      {"PK\3\4"
       "567890123",
       "offset 0: begins with \"PK\\x03\\x0456\" of 13 bytes, expected \"\\x93NUMPY\" and a version"},
      {npy("{}", "", 4), "offset 6: npy version 4, expected 1, 2 or 3"},
      {npy("{}", "", 0), "offset 6: npy version 0, expected 1, 2 or 3"},
      {std::string("\x93NUMPY\x02\0\x01\0\0", 11), "offset 8: the file ends in the header's length"},
      {std::string("\x93NUMPY\x01\0\xFF\xFF", 10), "offset 8: header length 65535, expected at most 0"},
      {std::string("\x93NUMPY\x02\0\xFF\xFF\xFF\xFF{}", 14),
       "offset 8: header length 4294967295, expected at most 2"},
      {npy("", ""), "offset 10: \"\", expected '{'"},
      {npy("{}", ""), "offset 12: a header without 'descr', 'fortran_order' or 'shape'"},
      {npy("{'descr': '<f4'}", ""), "offset 26: a header without 'descr', 'fortran_order' or 'shape'"},
      {npy("{'descr': '<f4', 'descr': '<f4'}", ""),
       "offset 35: key \"descr\", expected 'descr', 'fortran_order' and 'shape', once each"},
      {npy("{'x': 1}", ""), "offset 15: key \"x\", expected 'descr', 'fortran_order' and 'shape', once each"},
      {npy("{'descr': '<f4'", ""), "offset 25: \"\", expected '}'"},
      {npy("{'descr': '<f4", ""), "offset 20: a string without an end"},
      {npy("{'descr': 4, ", ""), "expected a string"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", ""),
       "offset 20: a structured type, expected numbers"},
      {npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", ""),
       "offset 10: type \"|O\", expected a boolean, an integer or a float (as in \"<f4\")"},
      {npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", ""),
       "offset 10: type \"<c8\", expected a boolean, an integer or a float (as in \"<f4\")"},
      {npy("{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", ""),
       "offset 10: type \"<U5\", expected a boolean, an integer or a float (as in \"<f4\")"},
      {npy("{'descr': '', 'fortran_order': False, 'shape': (1,), }", ""),
       "offset 10: type \"\", expected a boolean, an integer or a float (as in \"<f4\")"},
      {npy("{'descr': 'xf4', 'fortran_order': False, 'shape': (1,), }", "1234"),
       "offset 10: type \"xf4\", expected a boolean, an integer or a float (as in \"<f4\")"},
      {npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", ""),
       "offset 44: 'fortran_order', expected True or False"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", ""), "offset 60: \"1\", expected '('"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", ""),
       "offset 61: \"-\" in 'shape', expected a number"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", ""),
       "offset 63: \"2\", expected ')'"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", ""),
       "offset 79: a size that does not fit 63 bits"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""),
       "more than can be addressed"},
      {npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693951,), }", ""),
       "more than can be addressed"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"),
       "offset 67: 4 bytes of data, expected 8 for F32 [2]"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345"),
       "offset 67: 5 bytes of data, expected 4 for F32 [1]"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), } x", "1234"),
       "offset 66: text after the header's dictionary"},
  };
  for (const auto& [bytes, expected] : files) {
    SCOPED_TRACE(detail::in_quotes(bytes, 200));
    const auto result = parse(bytes);
    ASSERT_FALSE(result);
    expect_clear_line(result.error(), "f.npy: ");
    EXPECT_THAT(result.error(), HasSubstr(expected));
  }
}

TEST(Npy, RefusesHostileArchives) {
  const std::string stored = file_content(folder + "stored.npz"),
                    deflated = file_content(folder + "deflated.npz");
  const auto refused = [](const std::string& bytes, const char* expected) {
    const auto result = parse_zip(bytes);
    ASSERT_FALSE(result) << expected;
    expect_clear_line(result.error(), "f.npz: ");
    EXPECT_THAT(result.error(), HasSubstr(expected));
  };
  const auto with = [](std::string bytes, size_t at, const std::string& change) {
    return bytes.replace(at, change.size(), change);
  };
  refused("", "offset 0: 0 bytes, expected at least 22 (a zip archive)");
  refused(std::string(100, 'x'), "no zip directory at the end: not an .npz file, or cut short");
  refused(stored.substr(0, stored.size() - 1), "no zip directory at the end: not an .npz file, or cut short");
  const size_t end = stored.size() - 22, entry = stored.find("PK\1\2"), second = deflated.find("PK\1\2");
  refused(with(stored, end + 10, le<uint16_t>(60000)),
          "offset 572: 60000 members, expected at most 12 in a file of this size");
  refused(with(stored, end + 10, le<uint16_t>(0xFFFF)), "offset 572: a zip64 directory without its locator");
  refused(with(stored, end + 16, le<uint32_t>(0xFFFFFF00)),
          "offset 4294967040: a zip record ends behind the end of the file (594 bytes)");
  refused(with(stored, end + 16, le<uint32_t>(4)), "offset 4: no directory entry here, expected one");
  refused(with(stored, entry + 8, le<uint16_t>(1)), "offset 470: an encrypted member");
  refused(with(stored, entry + 10, le<uint16_t>(12)),
          "member \"a.npy\": offset 0: compression 12, expected stored (0) or deflated (8)");
  refused(with(stored, entry + 16, le<uint32_t>(1)),
          "member \"a.npy\": offset 0: checksum 10bb09f2, expected 00000001: the file is damaged");
  refused(with(stored, entry + 20, le<uint32_t>(0x7FFFFFFF)),
          "member \"a.npy\": offset 0: 2147483647 bytes from 55 on, expected them within the file of 594");
  refused(with(stored, entry + 24, le<uint32_t>(1)),
          "member \"a.npy\": offset 0: stored with 224 bytes of 1");
  refused(with(stored, entry + 28, le<uint16_t>(0xFFFF)),
          "offset 470: a directory entry ends behind the end of the file");
  refused(with(stored, entry + 42, le<uint32_t>(1)),
          "member \"a.npy\": offset 1: no member here, expected one");
  refused(with(deflated, second + 24, le<uint32_t>(0xFFFFFFF0)),
          "member \"a.npy\": offset 0: 131 bytes that would unpack to 4294967280, more than deflate can");
  refused(with(deflated, second + 24, le<uint32_t>(10)),
          "member \"a.npy\": offset 0: deflated data that is damaged after 10 bytes, expected 10");
  refused(with(deflated, deflated.find("PK\3\4") + 60, "\xFF\xFF\xFF\xFF\xFF\xFF"),
          "f.npz: member \"a.npy\"");
}

TEST(Npy, AMemberIsHeldAgainstItsHeaderBeforeItIsUnpacked) {
  // A header that says 24 bytes before three megabytes, in deflate's stored blocks; the checksum of
  // all would be wrong, too.
  std::string image = std::string("\x93NUMPY\1\0", 8),
              head = "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }";
  head.append(117 - head.size(), ' ');
  image += le<uint16_t>(uint16_t(head.size() + 1)) + head + "\n" + std::string(3 << 20, '\0');
  std::string packed;
  for (size_t at = 0; at < image.size(); at += 65535) {
    const std::string block = image.substr(at, 65535);
    packed += char(at + 65535 >= image.size());
    packed += le<uint16_t>(uint16_t(block.size())) + le<uint16_t>(uint16_t(~block.size())) + block;
  }
  const std::string sizes = le<uint32_t>(7) + le<uint32_t>(uint32_t(packed.size())) +
                            le<uint32_t>(uint32_t(image.size())) + le<uint16_t>(5) + le<uint16_t>(0),
                    common = le<uint16_t>(20) + le<uint16_t>(0) + le<uint16_t>(8) + le<uint32_t>(0) + sizes;
  std::string zip = "PK\3\4" + common + "a.npy" + packed;
  const size_t directory = zip.size();
  zip += "PK\1\2" + le<uint16_t>(20) + common + std::string(10, '\0') + le<uint32_t>(0) + "a.npy";
  const size_t end = zip.size();
  zip += "PK\5\6" + std::string(4, '\0') + le<uint16_t>(1) + le<uint16_t>(1) +
         le<uint32_t>(uint32_t(end - directory)) + le<uint32_t>(uint32_t(directory)) + le<uint16_t>(0);
  const auto result = parse_zip(zip);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error(),
              HasSubstr("member \"a.npy\": offset 128: 3145728 bytes of data, expected 24 for F32 [6]"));
}

TEST(Npy, SurvivesTruncationAndRandomChanges) {
  for (const char* name : {"v1_f4.npy", "v2_f8_fortran.npy", "big_endian_fortran_f2.npy"})
    mutate(file_content(folder + name), "f.npy: ", 5, 5000, parse, touch);
  for (const char* name : {"stored.npz", "deflated.npz"})
    mutate(file_content(folder + name), "f.npz: ", 6, 5000, parse_zip, [](const NpyFile& file) {
      for (const auto& array : file.arrays) touch(array);
    });
}

} // namespace
} // namespace luminal::npy_test
