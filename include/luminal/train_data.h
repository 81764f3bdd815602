// luminal/train_data.h -- samples for training: files of arrays, tokens, text, pictures, tables; in a
// seeded random order, batch by batch, read ahead on a thread.
//
//   auto mnist = datasets::from_files({{"x", "train-images-idx3-ubyte.gz"},
//                                      {"y", "train-labels-idx1-ubyte.gz"}});
//   DataLoader loader(mnist, {.batch = 64, .seed = 1});
//   while (..) { const auto batch = loader.next(); give(batch, "x", x); give(batch, "y", y); .. }
#pragma once
#include "luminal/graph.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// One of the tensors that a sample consists of.
struct DataField {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape = {}; ///< of one sample
};

/// Samples by number. Reading changes nothing: several threads may read at once.
class DataSet {
public:
  virtual ~DataSet() = default;
  virtual int64_t size() const = 0;
  virtual const std::vector<DataField>& fields() const = 0;
  /// Writes the sample, each field row-major to its own address. Throws Error, naming the file, for
  /// data that cannot be read.
  virtual void read(int64_t index, std::span<std::byte* const> into) const = 0;
  /// What the numbers of a field stand for (names of folders, say); empty where they are numbers.
  virtual std::vector<std::string> classes(const std::string& field) const;
};
using DataSetPtr = std::shared_ptr<const DataSet>;

/// Text as token ids.
class Vocabulary {
public:
  /// The characters (code points) of a text, in rising order.
  static Vocabulary characters(std::string_view text, LUMINAL_WHERE);
  static Vocabulary bytes();
  /// Of a tokenizer.json, a GGUF file, or a folder with a tokenizer.json.
  static Vocabulary tokenizer(const std::string& path, LUMINAL_WHERE);
  int64_t size() const;
  /// Throws Error for a character that it does not have.
  std::vector<int32_t> encode(std::string_view text, LUMINAL_WHERE) const;
  std::string decode(std::span<const int32_t> ids, LUMINAL_WHERE) const;
  struct State;
  explicit Vocabulary(std::shared_ptr<const State> state) : state_(std::move(state)) {}

private:
  std::shared_ptr<const State> state_;
};

struct TokenOptions {
  int64_t context = 64; ///< tokens of a sample
  int64_t stride = 0;   ///< between the begins of samples; 0: context. 1: every place of the text
};
struct ImageFolderOptions {
  int64_t height = 0, width = 0; ///< pictures are brought to this size; 0: all must have the first one's
  int channels = 3;              ///< 1 or 3
};
struct CsvOptions {
  std::vector<std::string> inputs = {}; ///< columns of the field "x"; empty: all but the target
  std::string target;                   ///< column of the field "y"
  char separator = ',';
  bool header = true; ///< else columns are numbers from 0
};

namespace datasets {
/// Arrays with the samples along their first axis. A file is .npy, .npz (`file.npz:name` where it has
/// several arrays), .safetensors (the same) or IDX (.gz too).
DataSetPtr from_files(const std::vector<std::pair<std::string, std::string>>& field_and_file, LUMINAL_WHERE);
/// The same from memory; each value has its shape: the samples are its first axis.
DataSetPtr from_values(const std::vector<std::pair<DataField, HostValues>>& fields, LUMINAL_WHERE);
/// Fields "tokens" and "targets" (i32 [context]): the targets are the tokens one place further.
DataSetPtr from_tokens(std::vector<int32_t> tokens, const TokenOptions& options = {}, LUMINAL_WHERE);
/// The same from a file of numbers: .npy, or raw little-endian ones of this type (u16 as a rule).
DataSetPtr token_file(const std::string& path, const TokenOptions& options = {}, DType type = DType::u16,
                      LUMINAL_WHERE);
DataSetPtr text_file(const std::string& path, const Vocabulary& vocabulary, const TokenOptions& options = {},
                     LUMINAL_WHERE);
/// A folder with a folder for each class. Fields "x" (u8 [channels, height, width]) and "y" (i64).
DataSetPtr image_folder(const std::string& path, const ImageFolderOptions& options = {}, LUMINAL_WHERE);
/// Fields "x" (f32 [inputs]) and "y": i64 where the target's column holds words (classes in the order
/// of the alphabet) or whole numbers, else f32.
DataSetPtr csv_file(const std::string& path, const CsvOptions& options, LUMINAL_WHERE);
/// One JSON object a line with numbers, or lists of numbers, of equal shape in each line, under the
/// names of the fields. Whole numbers are i64 where all of them are.
DataSetPtr jsonl_file(const std::string& path, const std::vector<std::string>& fields, LUMINAL_WHERE);
/// The text under `key` of each line, one after the other, each ended by `end`.
std::string jsonl_text(const std::string& path, const std::string& key, std::string_view end = "\n",
                       LUMINAL_WHERE);

/// Samples first .. first + count - 1.
DataSetPtr part(DataSetPtr data, int64_t first, int64_t count, LUMINAL_WHERE);
/// A random part of the samples (`fraction` of them, at least one) and the others.
std::pair<DataSetPtr, DataSetPtr> split(DataSetPtr data, double fraction, uint64_t seed = 0, LUMINAL_WHERE);
} // namespace datasets

/// Samples of one step. Field k lies in bytes[k], [count, shape..].
struct Batch {
  std::vector<DataField> fields;
  std::vector<std::vector<std::byte>> bytes;
  int64_t count = 0;
};
/// Gives an input the batch's field, without a copy where the types are equal.
void give(const std::shared_ptr<const Batch>& batch, const std::string& field, Tensor input, LUMINAL_WHERE);

struct LoaderOptions {
  int64_t batch = 32;
  uint64_t seed = 0;
  bool shuffle = true;  ///< another order in each epoch: a pseudo-random permutation of seed and epoch
  bool endless = true;  ///< epoch after epoch, and the samples that fill no batch are left out
  int64_t prefetch = 2; ///< batches that are read ahead
};

/// Batches of a data set, read on a thread of its own. What comes next depends on the position only.
class DataLoader {
public:
  DataLoader(DataSetPtr data, const LoaderOptions& options = {}, LUMINAL_WHERE);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  /// The next batch; nullptr after the last one where it is not endless (whose last batch may be
  /// smaller). Throws what reading threw.
  std::shared_ptr<const Batch> next();
  int64_t position() const; ///< batches that were handed out
  void seek(int64_t position);
  int64_t batches_per_epoch() const;
  const DataSet& data() const;
  const LoaderOptions& options() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

#undef LUMINAL_WHERE
} // namespace luminal
