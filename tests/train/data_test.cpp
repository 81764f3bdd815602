// tests/train/data_test.cpp -- data sets of every kind, their order, the thread that reads ahead.
#include "formats/npy.h"
#include "formats/util.h"
#include "luminal/luminal.h"
#include "tensor/support.h"
#include "train/permutation.h"
#include <atomic>
#include <cstring>
#include <gmock/gmock.h>
#include <numeric>
#include <set>

namespace luminal::data_test {
namespace {

using luminal::testing_formats::put_file;
using luminal::testing_formats::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Field `name` of sample i, as numbers of type T.
template <class T> std::vector<T> sample(const DataSet& data, const std::string& name, int64_t i) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> into;
  size_t place = 0;
  for (size_t k = 0; k < data.fields().size(); ++k) {
    const DataField& field = data.fields()[k];
    int64_t count = 1;
    for (int64_t extent : field.shape) count *= extent;
    bytes.emplace_back(size_t(count) * 8);
    if (field.name == name) {
      EXPECT_EQ(field.dtype, dtype_of<T>);
      place = k;
      bytes.back().resize(size_t(count) * sizeof(T));
    }
  }
  for (auto& one : bytes) into.push_back(one.data());
  data.read(i, into);
  std::vector<T> values(bytes[place].size() / sizeof(T));
  std::memcpy(values.data(), bytes[place].data(), bytes[place].size());
  return values;
}

template <class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind(" at "));
  }
  return "no error";
}

TEST(DataSets, ArraysFromFilesOfEveryKind) {
  const TemporaryFolder folder;
  Graph g;
  Tensor w = g.weight("w", {3, 2}), v = g.weight("v", {3}, DType::i64);
  w.set({{1, 2}, {3, 4}, {5, 6}});
  v.set({7, 8, 9});
  save(g, folder.file("both.npz"));
  save(g, folder.file("both.safetensors"));
  put_file(folder.file("x.idx"), std::string("\0\0\x08\2\0\0\0\3\0\0\0\2", 12) + "abcdef");
  for (const char* kind : {"both.npz", "both.safetensors"}) {
    const auto data = datasets::from_files(
        {{"x", folder.file(kind) + ":w"}, {"y", folder.file(kind) + ":v"}, {"z", folder.file("x.idx")}});
    EXPECT_EQ(data->size(), 3);
    EXPECT_THAT(sample<float>(*data, "x", 1), ElementsAre(3, 4));
    EXPECT_THAT(sample<int64_t>(*data, "y", 2), ElementsAre(9));
    EXPECT_THAT(sample<uint8_t>(*data, "z", 2), ElementsAre('e', 'f'));
  }
  const std::string npz = folder.file("both.npz");
  EXPECT_EQ(message_of([&] { datasets::from_files({{"x", npz}}); }),
            "[from_files] " + npz + " holds several arrays: write " + npz + ":NAME, one of v, w");
  EXPECT_EQ(message_of([&] { datasets::from_files({{"x", npz + ":u"}}); }),
            "[from_files] " + npz + " holds no array u; it has v, w");
  EXPECT_EQ(message_of([&] { datasets::from_files({{"x", "x.txt"}}); }),
            "[from_files] x.txt: the name must end in .npy, .npz, .safetensors, .idx or -ubyte (and .gz)");
  put_file(folder.file("two.idx"), std::string("\0\0\x08\1\0\0\0\2ab", 10));
  EXPECT_EQ(message_of([&] { datasets::from_files({{"x", npz + ":w"}, {"y", folder.file("two.idx")}}); }),
            "[from_files] " + folder.file("two.idx") + " has 2 samples, " + npz + ":w has 3");
  EXPECT_EQ(message_of([&] { datasets::from_files({}); }), "[from_files] there is no file");
}

TEST(DataSets, ValuesInMemory) {
  const auto data =
      datasets::from_values({{{"x", DType::f32, {2}}, {{1, 2}, {3, 4}}}, {{"y", DType::i64}, {5, 6}}});
  EXPECT_EQ(data->size(), 2);
  EXPECT_THAT(sample<float>(*data, "x", 1), ElementsAre(3, 4));
  EXPECT_THAT(sample<int64_t>(*data, "y", 0), ElementsAre(5));
  EXPECT_ERROR(datasets::from_values({{{"x", DType::f32, {2}}, {1, 2, 3}}}),
               "[from_values] 3 values of x are no whole number of samples f32[2]");
  EXPECT_ERROR(datasets::from_values({{{"x"}, {1, 2, 3}}, {{"y"}, {1, 2}}}),
               "[from_values] y has 2 samples, x has 3");
}

TEST(DataSets, TokensAndText) {
  const TemporaryFolder folder;
  const auto data = datasets::from_tokens({0, 1, 2, 3, 4, 5, 6}, {.context = 2});
  EXPECT_EQ(data->size(), 3); // 0 1, 2 3, 4 5, each with one behind it
  EXPECT_THAT(sample<int32_t>(*data, "tokens", 2), ElementsAre(4, 5));
  EXPECT_THAT(sample<int32_t>(*data, "targets", 2), ElementsAre(5, 6));
  EXPECT_EQ(datasets::from_tokens({0, 1, 2, 3, 4, 5, 6}, {.context = 2, .stride = 1})->size(), 5);
  EXPECT_EQ(datasets::from_tokens({0, 1, 2}, {.context = 2})->size(), 1);
  EXPECT_ERROR(datasets::from_tokens({0, 1}, {.context = 2}),
               "[from_tokens] 2 tokens are too few for a context of 2 and the token behind it");
  EXPECT_ERROR(datasets::from_tokens({0, 1}, {.context = 0}),
               "[from_tokens] context 0 and stride 0: at least 1 and 0 are expected");
  put_file(folder.file("t.bin"), std::string("\1\0\2\0\xFF\xFF", 6));
  EXPECT_THAT(sample<int32_t>(*datasets::token_file(folder.file("t.bin"), {.context = 2}), "targets", 0),
              ElementsAre(2, 65535));
  put_file(folder.file("odd.bin"), "abc");
  EXPECT_ERROR(datasets::token_file(folder.file("odd.bin")),
               "[token_file] " + folder.file("odd.bin") + ": 3 bytes are no whole number of u16");
  EXPECT_ERROR(datasets::token_file(folder.file("odd.bin"), {}, DType::f32),
               "[token_file] f32 is not a type of tokens");

  const std::string text = "caf\xC3\xA9 face";
  const Vocabulary letters = Vocabulary::characters(text);
  EXPECT_EQ(letters.size(), 6);
  EXPECT_THAT(letters.encode("ca\xC3\xA9"), ElementsAre(2, 1, 5));
  EXPECT_EQ(letters.decode(letters.encode(text)), text);
  EXPECT_ERROR(letters.encode("x"), "[encode] the vocabulary has no character \"x\"");
  EXPECT_ERROR(letters.decode(std::vector<int32_t>{6}), "[decode] token 6 of 6");
  EXPECT_EQ(Vocabulary::bytes().decode(Vocabulary::bytes().encode(text)), text);
  put_file(folder.file("t.txt"), text);
  EXPECT_EQ(datasets::text_file(folder.file("t.txt"), letters, {.context = 4})->size(), 2);
  const Vocabulary tales = Vocabulary::tokenizer(LUMINAL_SOURCE_DIR "/models/builtin/hf");
  EXPECT_EQ(tales.size(), 1024);
  EXPECT_EQ(tales.decode(tales.encode("The cat sat.")), "The cat sat.");
}

TEST(DataSets, TablesOfNumbersAndWords) {
  const TemporaryFolder folder;
  put_file(folder.file("t.csv"), "a,b,kind\n1,2.5,wolf\n-3,+4e1,cat\n");
  const auto data = datasets::csv_file(folder.file("t.csv"), {.target = "kind"});
  EXPECT_THAT(sample<float>(*data, "x", 1), ElementsAre(-3, 40));
  EXPECT_THAT(sample<int64_t>(*data, "y", 0), ElementsAre(1));
  EXPECT_THAT(data->classes("y"), ElementsAre("cat", "wolf"));
  EXPECT_THAT(
      sample<float>(*datasets::csv_file(folder.file("t.csv"), {.inputs = {"a"}, .target = "b"}), "y", 1),
      ElementsAre(40));
  EXPECT_THAT(
      sample<int64_t>(*datasets::csv_file(folder.file("t.csv"), {.inputs = {"b"}, .target = "a"}), "y", 1),
      ElementsAre(-3));
  EXPECT_ERROR(datasets::csv_file(folder.file("t.csv"), {.target = "c"}),
               "[csv_file] " + folder.file("t.csv") + ": no column c; there are a, b, kind");
  EXPECT_ERROR(datasets::csv_file(folder.file("t.csv"), {.target = "a"}),
               "[csv_file] " + folder.file("t.csv") + ": line 2: wolf is not a number");
  EXPECT_ERROR(datasets::csv_file(folder.file("t.csv"), {.target = "9", .header = false}),
               "[csv_file] " + folder.file("t.csv") + ": no column 9: they are numbered from 0 to 2");

  put_file(folder.file("t.jsonl"), "{\"x\": [[1, 2], [3, 4]], \"y\": 1, \"text\": \"one\"}\n\n{\"y\": 2, "
                                   "\"x\": [[5, 6], [7, 8.5]], \"text\": \"two\"}\n");
  const auto lines = datasets::jsonl_file(folder.file("t.jsonl"), {"x", "y"});
  EXPECT_THAT(lines->fields()[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(sample<float>(*lines, "x", 1), ElementsAre(5, 6, 7, 8.5));
  EXPECT_THAT(sample<int64_t>(*lines, "y", 1), ElementsAre(2));
  EXPECT_EQ(datasets::jsonl_text(folder.file("t.jsonl"), "text"), "one\ntwo\n");
  EXPECT_THAT(message_of([&] { datasets::jsonl_file(folder.file("t.jsonl"), {"z"}); }),
              HasSubstr("line 1: z is missing"));
  for (const char* wrong :
       {"{\"x\": [1, [2]]}", "{\"x\": [[1], 2]}", "{\"x\": [[1, 2], [3]]}", "{\"x\": 1}\n{\"x\": [1]}",
        "{\"x\": [1]}\n{\"x\": 1}", "{\"x\": [1]}\n{\"x\": [[1]]}"}) {
    put_file(folder.file("w.jsonl"), wrong);
    EXPECT_THAT(message_of([&] { datasets::jsonl_file(folder.file("w.jsonl"), {"x"}); }),
                HasSubstr("x: the lists before have shape"))
        << wrong;
  }
}

TEST(DataSets, FoldersOfPictures) {
  const TemporaryFolder folder;
  for (const char* kind : {"cat", "wolf", "empty"}) std::filesystem::create_directory(folder.file(kind));
  put_file(folder.file("cat/b.pgm"), "P5 2 2 255\nabcd");
  put_file(folder.file("cat/a.pgm"), "P5 2 2 255\nefgh");
  put_file(folder.file("wolf/a.ppm"), "P6 2 2 255\nABCDEFGHIJKL");
  put_file(folder.file("wolf/notes.txt"), "no picture");
  const auto data = datasets::image_folder(folder.path());
  EXPECT_EQ(data->size(), 3);
  EXPECT_THAT(data->classes("y"), ElementsAre("cat", "wolf"));
  EXPECT_THAT(sample<uint8_t>(*data, "x", 0),
              ElementsAre('e', 'f', 'g', 'h', 'e', 'f', 'g', 'h', 'e', 'f', 'g', 'h'));
  EXPECT_THAT(sample<uint8_t>(*data, "x", 2),
              ElementsAre('A', 'D', 'G', 'J', 'B', 'E', 'H', 'K', 'C', 'F', 'I', 'L'));
  EXPECT_THAT(sample<int64_t>(*data, "y", 2), ElementsAre(1));
  EXPECT_EQ(sample<uint8_t>(*datasets::image_folder(folder.path(), {.height = 3, .width = 5, .channels = 1}),
                            "x", 0)
                .size(),
            15U);
  put_file(folder.file("wolf/b.pgm"), "P5 1 2 255\nab");
  EXPECT_ERROR(datasets::image_folder(folder.path()), "[image_folder] " + folder.file("wolf/b.pgm") +
                                                          " is 2 x 1, " + folder.file("cat/a.pgm") +
                                                          " is 2 x 2: give height and width");
  EXPECT_ERROR(
      datasets::image_folder(folder.path(), {.height = 3}),
      "[image_folder] height 3, width 0, 3 channels: both sizes or none, and 1 or 3 channels are expected");
  EXPECT_ERROR(datasets::image_folder(folder.file("empty")),
               "[image_folder] " + folder.file("empty") +
                   ": no picture in a folder below it; there must be a folder for each class");
}

TEST(Loader, OrderIsAPermutationOfSeedAndEpoch) {
  for (int64_t n : {1, 2, 3, 7, 64, 1000}) {
    std::set<int64_t> seen;
    const train::Permutation order(n, 5);
    for (int64_t i = 0; i < n; ++i) seen.insert(order(i));
    EXPECT_EQ(int64_t(seen.size()), n);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
  std::vector<int64_t> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto data = datasets::from_values({{{"x", DType::i64}, numbers}});
  const auto first = [&](const std::shared_ptr<const Batch>& batch) {
    std::vector<int64_t> values(size_t(batch->count));
    std::memcpy(values.data(), batch->bytes[0].data(), values.size() * 8);
    return values;
  };
  DataLoader a(data, {.batch = 30, .seed = 1}), b(data, {.batch = 30, .seed = 1, .prefetch = 5}),
      c(data, {.batch = 30, .seed = 2});
  EXPECT_EQ(a.batches_per_epoch(), 3);
  std::vector<std::vector<int64_t>> list;
  for (int i = 0; i < 7; ++i) {
    list.push_back(first(a.next()));
    EXPECT_EQ(first(b.next()), list.back());
    EXPECT_NE(first(c.next()), list.back());
  }
  EXPECT_NE(list[0], list[3]); // another epoch, another order
  std::set<int64_t> epoch;
  for (int i = 0; i < 3; ++i) epoch.insert(list[size_t(i)].begin(), list[size_t(i)].end());
  EXPECT_EQ(epoch.size(), 90U);
  for (int64_t at : {5, 0, 6, 3}) {
    a.seek(at);
    EXPECT_EQ(first(a.next()), list[size_t(at)]);
    EXPECT_EQ(a.position(), at + 1);
  }
  // Not endless and not shuffled: every sample once, the last batch is smaller.
  DataLoader once(data, {.batch = 30, .shuffle = false, .endless = false});
  std::vector<int64_t> all;
  while (const auto batch = once.next()) {
    const auto part = first(batch);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(all, numbers);
  EXPECT_ERROR(DataLoader(data, {.batch = 101}), "[DataLoader] 100 samples do not fill a batch of 101");
  EXPECT_ERROR(DataLoader(data, {.batch = 0}), "[DataLoader] batches of 0: at least 1 is expected");
  EXPECT_ERROR(DataLoader(nullptr), "[DataLoader] there is no data set");
}

TEST(Loader, SplitsAndParts) {
  std::vector<int64_t> numbers(10);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto data = datasets::from_values({{{"x", DType::i64}, numbers}});
  const auto [most, rest] = datasets::split(data, 0.8, 3);
  EXPECT_EQ(most->size(), 8);
  EXPECT_EQ(rest->size(), 2);
  std::set<int64_t> seen;
  for (const auto& part : {most, rest})
    for (int64_t i = 0; i < part->size(); ++i) seen.insert(sample<int64_t>(*part, "x", i)[0]);
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_THAT(sample<int64_t>(*datasets::part(data, 4, 2), "x", 1), ElementsAre(5));
  EXPECT_ERROR(datasets::part(data, 4, 7), "[part] 7 samples from 4 on, of 10");
  EXPECT_ERROR(datasets::split(data, 1), "[split] a fraction of 1 of 10 samples does not leave two parts");
}

/// Reads slowly, counts, and fails at one sample.
class Watched : public DataSet {
public:
  int64_t size() const override { return 100; }
  const std::vector<DataField>& fields() const override { return fields_; }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    if (index == 42) throw Error("sample 42 is broken");
    std::memcpy(into[0], &index, 8);
    ++count;
  }
  mutable std::atomic<int> count{0};

private:
  std::vector<DataField> fields_{{"x", DType::i64}};
};

TEST(Loader, ReadsAheadAndHandsErrorsOver) {
  const auto data = std::make_shared<Watched>();
  DataLoader loader(data, {.batch = 10, .shuffle = false, .prefetch = 2});
  for (int i = 0; i < 200 && data->count < 20; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(data->count, 20); // two batches, without being asked, and no more
  for (int i = 0; i < 4; ++i) loader.next();
  EXPECT_EQ(message_of([&] { loader.next(); }), "sample 42 is broken");
  EXPECT_EQ(message_of([&] { loader.next(); }), "sample 42 is broken");
  loader.seek(5);
  EXPECT_EQ(loader.next()->count, 10);
  Graph g;
  Tensor x = g.tensor({10}, DType::i64, "x");
  const auto batch = loader.next();
  give(batch, "x", x);
  EXPECT_EQ(x.data<int64_t>()[0], 60);
  EXPECT_ERROR(give(batch, "z", x), "[give] the data set has no field z; it has x");
}

} // namespace
} // namespace luminal::data_test
