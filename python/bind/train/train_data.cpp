// python/bind/train/train_data.cpp -- samples for training: arrays, files, sequences of Python;
// vocabularies, batches in a random order.
#include "training.h"
#include <cstring>

namespace luminal::python {
namespace {

std::vector<int64_t> behind_first(const std::vector<int64_t>& shape) {
  return {shape.begin() + 1, shape.end()};
}

/// Of one sample. Data sets have no types narrower than a byte.
size_t bytes_of(const DataField& field) {
  size_t count = 1;
  for (int64_t extent : field.shape) count *= size_t(extent);
  switch (field.dtype) {
  case DType::f64:
  case DType::i64:
  case DType::u64: return 8 * count;
  case DType::f32:
  case DType::i32:
  case DType::u32: return 4 * count;
  case DType::f16:
  case DType::bf16:
  case DType::i16:
  case DType::u16: return 2 * count;
  default: return count;
  }
}

nb::tuple shape_of(const std::vector<int64_t>& shape) { return nb::tuple(nb::cast(shape)); }

/// Arrays of numpy and its kin, where they lie.
class Arrays : public DataSet {
public:
  Arrays(const nb::dict& arrays, std::source_location where) {
    if (nb::len(arrays) == 0) throw Error("from_arrays", "there is no array", where);
    for (auto [key, value] : arrays) {
      const auto name = nb::cast<std::string>(key);
      HostData data = read_data(value, "from_arrays", where);
      if (data.shape.empty())
        throw Error("from_arrays", name + " is one number; the first axis must be that of the samples",
                    where);
      if (data.weak && data.dtype == DType::f64)
        data =
            read_data(nb::module_::import_("numpy").attr("asarray")(value, "float32"), "from_arrays", where);
      if (arrays_.empty()) {
        count_ = data.shape[0];
        first_ = name;
      }
      if (data.shape[0] != count_ || count_ == 0)
        throw Error("from_arrays",
                    name + " has " + std::to_string(data.shape[0]) + " samples, " + first_ + " has " +
                        std::to_string(count_),
                    where);
      fields_.push_back({name, data.dtype, behind_first(data.shape)});
      arrays_.push_back(std::move(data));
    }
  }
  int64_t size() const override { return count_; }
  const std::vector<DataField>& fields() const override { return fields_; }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    for (size_t k = 0; k < arrays_.size(); k++) {
      const size_t bytes = bytes_of(fields_[k]);
      if (bytes > 0)
        std::memcpy(into[k], static_cast<const std::byte*>(arrays_[k].data) + size_t(index) * bytes, bytes);
    }
  }

private:
  std::vector<DataField> fields_;
  std::vector<HostData> arrays_;
  std::string first_;
  int64_t count_ = 0;
};

/// An object of Python with len() and [i], which gives {field: array}: data sets of other frameworks.
class Sequence : public DataSet {
public:
  Sequence(nb::handle samples, std::source_location where)
      : samples_(keep_object(nb::borrow(samples))), where_(where), count_(int64_t(nb::len(samples))) {
    if (count_ == 0) throw Error("from_samples", "there is no sample", where);
    for (auto [key, value] : sample(0)) {
      const HostData data = read_data(value, "from_samples", where);
      const DType type = data.weak && data.dtype == DType::f64 ? DType::f32 : data.dtype;
      fields_.push_back({nb::cast<std::string>(key), type, data.shape});
    }
    if (fields_.empty()) throw Error("from_samples", "sample 0 has no field", where);
  }
  int64_t size() const override { return count_; }
  const std::vector<DataField>& fields() const override { return fields_; }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    const nb::gil_scoped_acquire lock;
    const nb::dict given = sample(index);
    for (size_t k = 0; k < fields_.size(); k++) {
      const DataField& field = fields_[k];
      const auto refuse = [&](const std::string& text) {
        throw Error("from_samples", "sample " + std::to_string(index) + " " + text, where_);
      };
      if (!given.contains(field.name.c_str())) refuse("has no field " + field.name);
      HostData data = read_data(given[field.name.c_str()], "from_samples", where_);
      if (data.weak && data.dtype != field.dtype)
        data = read_data(nb::module_::import_("numpy").attr("asarray")(given[field.name.c_str()],
                                                                       std::string(numpy_name(field.dtype))),
                         "from_samples", where_);
      if (data.dtype != field.dtype || data.shape != field.shape)
        refuse("has another type or shape of " + field.name + " than sample 0");
      if (data.bytes > 0) std::memcpy(into[k], data.data, data.bytes);
    }
  }

private:
  static const char* numpy_name(DType type) {
    return type == DType::f32 ? "float32" : type == DType::boolean ? "bool" : "int64";
  }
  nb::dict sample(int64_t index) const {
    const nb::object made = nb::handle(static_cast<PyObject*>(const_cast<void*>(samples_.get())))[index];
    if (!nb::isinstance<nb::dict>(made))
      throw Error("from_samples", "a sample is a dict of arrays: {\"x\": .., \"y\": ..}", where_);
    return nb::borrow<nb::dict>(made);
  }
  std::shared_ptr<const void> samples_;
  std::source_location where_;
  std::vector<DataField> fields_;
  int64_t count_;
};

nb::dict sample_of(const DataObject& self, int64_t index) {
  const int64_t count = self.data->size(), place = index < 0 ? index + count : index;
  if (place < 0 || place >= count)
    throw nb::index_error(("sample " + std::to_string(index) + " of " + std::to_string(count)).c_str());
  const auto& fields = self.data->fields();
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::byte*> into;
  for (const DataField& field : fields) bytes.emplace_back(bytes_of(field));
  for (auto& one : bytes) into.push_back(one.data());
  self.data->read(place, into);
  nb::dict arrays;
  for (size_t k = 0; k < fields.size(); k++)
    arrays[fields[k].name.c_str()] = numpy_array(fields[k].dtype, fields[k].shape, std::move(bytes[k]));
  return arrays;
}

/// The loader's thread may wait for the interpreter lock while it is ended.
struct LoaderObject {
  std::unique_ptr<DataLoader> loader;
  explicit LoaderObject(std::unique_ptr<DataLoader> made) : loader(std::move(made)) {}
  ~LoaderObject() {
    const nb::gil_scoped_release released;
    loader.reset();
  }
  LoaderObject(const LoaderObject&) = delete;
};

void bind_vocabulary(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Vocabulary", "Text as token ids.")
      .def_static(
          "characters", [](const std::string& text) { return Vocabulary::characters(text, here()); },
          nb::arg("text"), "The characters of a text, in rising order.")
      .def_static("bytes", [] { return Vocabulary::bytes(); })
      .def_static(
          "tokenizer", [](nb::handle path) { return Vocabulary::tokenizer(text_of_path(path), here()); },
          nb::arg("path"), nb::sig("def tokenizer(path: str | os.PathLike[str]) -> Vocabulary"),
          "Of a tokenizer.json, a GGUF file, or a folder with a tokenizer.json.")
      .def("__len__", &Vocabulary::size)
      .def(
          "encode", [](const Vocabulary& self, const std::string& text) { return self.encode(text, here()); },
          nb::arg("text"))
      .def(
          "decode",
          [](const Vocabulary& self, const std::vector<int32_t>& ids) { return self.decode(ids, here()); },
          nb::arg("ids"));
}

void bind_files_of_data(nb::module_& d) {
  d.def(
      "from_files",
      [](const nb::dict& files) {
        std::vector<std::pair<std::string, std::string>> list;
        for (auto [field, path] : files) list.emplace_back(nb::cast<std::string>(field), text_of_path(path));
        return DataObject{datasets::from_files(list, here())};
      },
      nb::arg("files"),
      nb::sig("def from_files(files: dict[str, str | os.PathLike[str]]) -> luminal._core.DataSet"),
      "{field: file}, with the samples along the first axis: .npy, .npz (file.npz:name), .safetensors, IDX "
      "(.gz too).");
  d.def(
      "from_tokens",
      [](std::vector<int32_t> tokens, int64_t context, int64_t stride) {
        return DataObject{datasets::from_tokens(std::move(tokens), {context, stride}, here())};
      },
      nb::arg("tokens"), nb::kw_only(), nb::arg("context") = 64, nb::arg("stride") = 0,
      "Fields tokens and targets (i32 [context]): the targets are the tokens one place further. stride: "
      "between the begins of samples; 0: context.");
  d.def(
      "token_file",
      [](nb::handle path, int64_t context, int64_t stride, Type dtype) {
        return DataObject{datasets::token_file(text_of_path(path), {context, stride}, dtype, here())};
      },
      nb::arg("path"), nb::kw_only(), nb::arg("context") = 64, nb::arg("stride") = 0,
      nb::arg("dtype") = "u16",
      nb::sig("def token_file(path: str | os.PathLike[str], *, context: int = 64, stride: int = 0, dtype: "
              "luminal.typing.DTypeLike = 'u16') -> luminal._core.DataSet"),
      "The same from a file of numbers: .npy, or raw little-endian ones of this type.");
  d.def(
      "text_file",
      [](nb::handle path, const Vocabulary& vocabulary, int64_t context, int64_t stride) {
        return DataObject{datasets::text_file(text_of_path(path), vocabulary, {context, stride}, here())};
      },
      nb::arg("path"), nb::arg("vocabulary"), nb::kw_only(), nb::arg("context") = 64, nb::arg("stride") = 0,
      nb::sig("def text_file(path: str | os.PathLike[str], vocabulary: luminal._core.Vocabulary, *, context: "
              "int = 64, "
              "stride: int = 0) -> luminal._core.DataSet"));
  d.def(
      "image_folder",
      [](nb::handle path, int64_t height, int64_t width, int channels) {
        return DataObject{datasets::image_folder(text_of_path(path), {height, width, channels}, here())};
      },
      nb::arg("path"), nb::kw_only(), nb::arg("height") = 0, nb::arg("width") = 0, nb::arg("channels") = 3,
      nb::sig("def image_folder(path: str | os.PathLike[str], *, height: int = 0, width: int = 0, channels: "
              "int = 3) -> luminal._core.DataSet"),
      "A folder with a folder for each class. Fields x (u8 [channels, height, width]) and y (i64).");
  d.def(
      "csv_file",
      [](nb::handle path, const std::string& target, const std::vector<std::string>& inputs,
         const std::string& separator, bool header) {
        if (separator.size() != 1) throw Error("csv_file", "the separator is one character", here());
        return DataObject{
            datasets::csv_file(text_of_path(path), {inputs, target, separator[0], header}, here())};
      },
      nb::arg("path"), nb::arg("target"), nb::kw_only(), nb::arg("inputs") = nb::make_tuple(),
      nb::arg("separator") = ",", nb::arg("header") = true,
      nb::sig("def csv_file(path: str | os.PathLike[str], target: str, *, inputs: "
              "collections.abc.Sequence[str] = (), separator: str = ',', header: bool = True) -> "
              "luminal._core.DataSet"),
      "Fields x (f32 [inputs]) and y: i64 where the target's column holds words or whole numbers, else f32.");
  d.def(
      "jsonl_file",
      [](nb::handle path, const std::vector<std::string>& fields) {
        return DataObject{datasets::jsonl_file(text_of_path(path), fields, here())};
      },
      nb::arg("path"), nb::arg("fields"),
      nb::sig("def jsonl_file(path: str | os.PathLike[str], fields: collections.abc.Sequence[str]) -> "
              "luminal._core.DataSet"),
      "One JSON object a line with numbers, or lists of numbers, under the names of the fields.");
  d.def(
      "jsonl_text",
      [](nb::handle path, const std::string& key, const std::string& end) {
        return datasets::jsonl_text(text_of_path(path), key, end, here());
      },
      nb::arg("path"), nb::arg("key") = "text", nb::arg("end") = "\n",
      nb::sig("def jsonl_text(path: str | os.PathLike[str], key: str = 'text', end: str = '\\n') -> str"),
      "The text under `key` of each line, one after the other.");
}

} // namespace

std::string text_of_path(nb::handle path) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(path));
}

nb::dict arrays_of(const Batch& batch) {
  nb::dict arrays;
  for (size_t k = 0; k < batch.fields.size(); k++) {
    std::vector<int64_t> shape{batch.count};
    shape.insert(shape.end(), batch.fields[k].shape.begin(), batch.fields[k].shape.end());
    arrays[batch.fields[k].name.c_str()] = numpy_array(batch.fields[k].dtype, shape, batch.bytes[k]);
  }
  return arrays;
}

void bind_train_data(nb::module_& m) {
  bind_vocabulary(m);
  nb::class_<DataObject>(m, "DataSet", "Samples by number, each of some fields. luminal.datasets makes them.")
      .def("__len__", [](const DataObject& self) { return self.data->size(); })
      .def("__getitem__", &sample_of, nb::arg("index"),
           nb::sig("def __getitem__(self, index: int) -> dict[str, luminal.typing.NumpyArray]"),
           "One sample: {field: array}.")
      .def_prop_ro(
          "fields",
          [](const DataObject& self) {
            nb::dict fields;
            for (const DataField& field : self.data->fields())
              fields[field.name.c_str()] = nb::make_tuple(field.dtype, shape_of(field.shape));
            return fields;
          },
          nb::sig("def fields(self) -> dict[str, tuple[DType, tuple[int, ...]]]"),
          "{name: (type, shape of one sample)}.")
      .def(
          "classes",
          [](const DataObject& self, const std::string& field) { return self.data->classes(field); },
          nb::arg("field"), "What the numbers of a field stand for; empty where they are numbers.");
  nb::module_ d = m.def_submodule("datasets", "Samples for training, from arrays and files.");
  d.def(
      "from_arrays",
      [](const nb::kwargs& arrays) { return DataObject{std::make_shared<Arrays>(arrays, here())}; },
      nb::arg("arrays"),
      nb::sig("def from_arrays(**arrays: luminal.typing.ArrayLike) -> luminal._core.DataSet"),
      "field=array, the samples along the first axis. Arrays are read where they lie, numbers with a "
      "fraction in lists become f32.");
  d.def(
      "from_samples",
      [](nb::handle samples) { return DataObject{std::make_shared<Sequence>(samples, here())}; },
      nb::arg("samples"),
      nb::sig("def from_samples(samples: collections.abc.Sequence[dict[str, luminal.typing.ArrayLike]]) -> "
              "luminal._core.DataSet"),
      "An object with len() and [i], which gives {field: array}, read when it is needed; types and shapes "
      "are those of sample 0.");
  bind_files_of_data(d);
  d.def(
      "part",
      [](const DataObject& data, int64_t first, int64_t count) {
        return DataObject{datasets::part(data.data, first, count, here())};
      },
      nb::arg("data"), nb::arg("first"), nb::arg("count"), "Samples first .. first + count - 1.");
  d.def(
      "split",
      [](const DataObject& data, double fraction, uint64_t seed) {
        auto [one, other] = datasets::split(data.data, fraction, seed, here());
        return std::pair(DataObject{std::move(one)}, DataObject{std::move(other)});
      },
      nb::arg("data"), nb::arg("fraction"), nb::arg("seed") = 0,
      "A random part of the samples (`fraction` of them, at least one) and the others.");
  nb::class_<LoaderObject>(m, "DataLoader",
                           "Batches of a data set in a seeded random order, read ahead on a thread.")
      .def(
          "__init__",
          [](LoaderObject* self, const DataObject& data, int64_t batch, uint64_t seed, bool shuffle,
             bool endless, int64_t prefetch) {
            new (self) LoaderObject(std::make_unique<DataLoader>(
                data.data, LoaderOptions{batch, seed, shuffle, endless, prefetch}, here()));
          },
          nb::arg("data"), nb::kw_only(), nb::arg("batch") = 32, nb::arg("seed") = 0,
          nb::arg("shuffle") = true, nb::arg("endless") = true, nb::arg("prefetch") = 2,
          "endless: epoch after epoch, each in another order, and samples that fill no batch are left out; "
          "else one epoch, whose last batch may be smaller.")
      .def(
          "__iter__", [](nb::handle_t<LoaderObject> self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> DataLoader"))
      .def(
          "__next__",
          [](LoaderObject& self) {
            std::shared_ptr<const Batch> batch;
            {
              const nb::gil_scoped_release released;
              batch = self.loader->next();
            }
            if (!batch) throw nb::stop_iteration();
            return arrays_of(*batch);
          },
          nb::sig("def __next__(self) -> dict[str, luminal.typing.NumpyArray]"))
      .def_prop_ro(
          "position", [](const LoaderObject& self) { return self.loader->position(); },
          "Batches that were handed out.")
      .def(
          "seek", [](LoaderObject& self, int64_t position) { self.loader->seek(position); },
          nb::arg("position"), "What comes next depends on the position only.")
      .def_prop_ro("batches_per_epoch",
                   [](const LoaderObject& self) { return self.loader->batches_per_epoch(); });
}

} // namespace luminal::python
