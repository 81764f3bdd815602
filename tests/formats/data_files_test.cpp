// formats/data_files_test.cpp -- IDX arrays, comma-separated values, pictures: right and broken ones.
#include "formats/csv.h"
#include "formats/idx.h"
#include "formats/image.h"
#include "formats/parse.h"
#include "formats/util.h"
#include <gmock/gmock.h>
#include <numeric>
#include <zlib.h>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string idx(int type, const std::vector<int>& sizes, const std::string& data) {
  std::string bytes{0, 0, char(type), char(sizes.size())};
  for (int size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += char(size >> shift);
  return bytes + data;
}
Result<IdxArray> parsed(const std::string& bytes) { return parse_idx(detail::as_bytes(bytes), "f.idx"); }
std::string zipped(const std::string& text) {
  std::string out(compressBound(uLong(text.size())) + 64, 0);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Idx, ReadsNumbersOfEveryWidthPlainAndCompressed) {
  const auto small = parsed(idx(0x08, {2, 3}, "\1\2\3\4\5\6"));
  ASSERT_TRUE(small) << small.error();
  EXPECT_EQ(small->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(small->type, StorageType::u8);
  EXPECT_EQ(small->bytes[5], std::byte{6});
  for (const std::string& bytes : {idx(0x0C, {2}, std::string("\0\0\1\2\xFF\xFF\xFF\xFE", 8)),
                                   zipped(idx(0x0C, {2}, std::string("\0\0\1\2\xFF\xFF\xFF\xFE", 8)))}) {
    const auto wide = parsed(bytes);
    ASSERT_TRUE(wide) << wide.error();
    int32_t values[2];
    std::memcpy(values, wide->bytes.data(), 8);
    EXPECT_THAT(values, ElementsAre(258, -2));
  }
}

TEST(Idx, RefusesWhatIsBroken) {
  const auto error = [](const std::string& bytes) {
    const auto result = parsed(bytes);
    return result ? std::string("accepted") : result.error();
  };
  EXPECT_EQ(error("\1"),
            "f.idx: offset 0: not an IDX file: it must begin with two zero bytes, a type and the "
            "number of axes");
  EXPECT_EQ(error(idx(0x0A, {1}, "x")), "f.idx: offset 2: type 0x0A is unknown");
  EXPECT_EQ(error(std::string("\0\0\x08\3\0\0", 6)),
            "f.idx: offset 4: 3 axes, but the file ends after 6 bytes");
  EXPECT_EQ(error(idx(0x08, {2, 3}, "12345")), "f.idx: offset 12: 5 bytes of data, the sizes say 6");
  EXPECT_EQ(error(idx(0x08, {2}, "123")), "f.idx: offset 8: 3 bytes of data, the sizes say 2");
  const std::string whole = zipped(idx(0x08, {200}, std::string(200, 'x')));
  EXPECT_THAT(error(whole.substr(0, whole.size() - 9)),
              HasSubstr("the gzip stream is broken or ends too early"));
  std::string flipped = whole;
  flipped[flipped.size() - 6] = char(flipped[flipped.size() - 6] ^ 1); // of the checksum
  EXPECT_THAT(error(flipped), HasSubstr("the gzip stream is broken or ends too early"));
}

TEST(Csv, ReadsQuotesLinesAndHeaders) {
  const auto csv = parse_csv("\xEF\xBB\xBF"
                             "name,size\r\n\"a, \"\"b\"\"\nc\",1\n\n d ,2",
                             "f.csv");
  ASSERT_TRUE(csv) << csv.error();
  EXPECT_THAT(csv->header, ElementsAre("name", "size"));
  EXPECT_THAT(csv->rows, ElementsAre(ElementsAre("a, \"b\"\nc", "1"), ElementsAre(" d ", "2")));
  EXPECT_THAT(csv->lines, ElementsAre(2, 5));
  EXPECT_EQ(csv->column("size"), 1U);
  EXPECT_EQ(csv->column("Size"), std::nullopt);
  const auto bare = parse_csv("1;2\n3;\n", "f.csv", {.separator = ';', .header = false});
  ASSERT_TRUE(bare) << bare.error();
  EXPECT_THAT(bare->rows, ElementsAre(ElementsAre("1", "2"), ElementsAre("3", "")));
  EXPECT_EQ(bare->column("1"), 1U);
  EXPECT_EQ(bare->column("2"), std::nullopt);
}

TEST(Csv, RefusesWithTheLine) {
  const auto error = [](std::string_view text) {
    const auto result = parse_csv(text, "f.csv");
    return result ? std::string("accepted") : result.error();
  };
  EXPECT_EQ(error("a,b\n1,2\n1,2,3\n"), "f.csv: line 3: 3 fields, the lines before have 2");
  EXPECT_EQ(error("a,b\n\"1,2\n"), "f.csv: line 2: a quote does not end");
  EXPECT_EQ(error("a,b\n\"1\"x,2\n"), "f.csv: line 2: text behind a quoted field");
  EXPECT_EQ(error("a,b\n"), "f.csv: there are no rows");
}

TEST(Image, ReadsPnmAndChangesItsSize) {
  const std::string grey = "P5 4 2 255\n" + std::string({0, 10, 20, 30, 40, 50, 60, 70});
  const auto image = parse_image(detail::as_bytes(grey), "f.pgm");
  ASSERT_TRUE(image) << image.error();
  EXPECT_EQ(image->height, 2);
  EXPECT_EQ(image->width, 4);
  EXPECT_EQ(image->channels, 1);
  EXPECT_THAT(image->pixels, ElementsAre(0, 10, 20, 30, 40, 50, 60, 70));
  EXPECT_THAT(resized(*image, 1, 2).pixels, ElementsAre(25, 45)); // means of squares of four
  EXPECT_THAT(resized(*image, 2, 8).pixels,
              ElementsAre(0, 3, 8, 13, 18, 23, 28, 30, 40, 43, 48, 53, 58, 63, 68, 70));
  const auto colour = parse_image(detail::as_bytes(grey), "f.pgm", 3);
  ASSERT_TRUE(colour) << colour.error();
  EXPECT_EQ(colour->channels, 3);
  EXPECT_EQ(colour->pixels[3], 10);
  // A constant picture stays constant at every size.
  Image flat{5, 7, 2, std::vector<uint8_t>(70, 93)};
  for (int64_t size : {1, 2, 3, 5, 8, 13})
    EXPECT_THAT(resized(flat, size, size + 1).pixels, ::testing::Each(93));
}

TEST(Image, RefusesWhatIsNone) {
  const std::string text = "this is not a picture";
  const auto result = parse_image(detail::as_bytes(text), "f.png");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error(),
              HasSubstr("f.png: not a picture that can be read (PNG, JPEG, BMP, PNM, GIF): "));
  EXPECT_FALSE(open_image("/nowhere.png"));
}

} // namespace
} // namespace luminal
