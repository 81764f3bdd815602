// train/data_sets.cpp -- samples from arrays in memory and in files.
#include "base/text.h"
#include "formats/idx.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include "train/array_data.h"
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal {
namespace train {
namespace {

class ArrayData : public DataSet {
public:
  ArrayData(std::vector<ArrayField> arrays, int64_t count) : arrays_(std::move(arrays)), count_(count) {
    for (const ArrayField& array : arrays_) {
      fields_.push_back(array.field);
      sample_bytes_.push_back(size_t(storage_bytes(array.field.dtype, elements(array.field.shape))));
    }
  }
  int64_t size() const override { return count_; }
  const std::vector<DataField>& fields() const override { return fields_; }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    for (size_t k = 0; k < arrays_.size(); ++k)
      if (sample_bytes_[k] > 0) // no elements may come with no address
        std::memcpy(into[k], arrays_[k].bytes.data() + size_t(index) * sample_bytes_[k], sample_bytes_[k]);
  }
  std::vector<std::string> classes(const std::string& field) const override {
    for (const ArrayField& array : arrays_)
      if (array.field.name == field) return array.classes;
    return {};
  }

private:
  std::vector<ArrayField> arrays_;
  std::vector<DataField> fields_;
  std::vector<size_t> sample_bytes_;
  int64_t count_;
};

} // namespace

DataSetPtr array_data(std::vector<ArrayField> fields, int64_t count) {
  return std::make_shared<ArrayData>(std::move(fields), count);
}

} // namespace train

namespace datasets {
namespace {

using train::ArrayField;

/// An array of a file, whose first axis is that of the samples.
struct FileArray {
  StorageType type;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
FileArray array_of(const TensorView& view, std::shared_ptr<const void> owner) {
  return {view.type, view.shape, view.bytes, std::move(owner)};
}

/// The array of this name, or the only one.
const TensorView& chosen(const std::vector<TensorView>& arrays, const std::string& file,
                         const std::string& name, Where where) {
  std::vector<std::string> names;
  for (const TensorView& view : arrays) {
    if (view.name == name || (name.empty() && arrays.size() == 1)) return view;
    names.push_back(view.name);
  }
  throw Error("from_files",
              name.empty()
                  ? fmt::format("{} holds several arrays: write {}:NAME, one of {}", file, file, join(names))
                  : fmt::format("{} holds no array {}; it has {}", file, printable(name), join(names)),
              where);
}

FileArray opened(const std::string& text, Where where) {
  const size_t colon = text.rfind(':');
  const bool named = colon != std::string::npos && colon > 0 && text.find('/', colon) == std::string::npos;
  const std::string file = named ? text.substr(0, colon) : text, name = named ? text.substr(colon + 1) : "";
  const auto checked = [&](auto&& result) {
    if (!result) throw Error("from_files", result.error(), where);
    return std::move(*result);
  };
  if (file.ends_with(".npy") || file.ends_with(".npz")) {
    auto read = std::make_shared<NpyFile>(checked(open_npy(file)));
    std::vector<TensorView> views;
    for (const NpyArray& array : read->arrays) views.push_back(array.tensor);
    return array_of(chosen(views, file, name, where), read);
  }
  if (file.ends_with(".safetensors")) {
    auto read = std::make_shared<Safetensors>(checked(open_safetensors(file)));
    return array_of(chosen(read->tensors, file, name, where), read);
  }
  const std::string_view plain =
      file.ends_with(".gz") ? std::string_view(file).substr(0, file.size() - 3) : file;
  if (!plain.ends_with("ubyte") && !plain.ends_with(".idx"))
    throw Error("from_files",
                fmt::format("{}: the name must end in .npy, .npz, .safetensors, .idx or -ubyte (and .gz)",
                            printable(file)),
                where);
  auto read = std::make_shared<IdxArray>(checked(open_idx(file)));
  return {read->type, read->shape, read->bytes, read};
}

} // namespace

DataSetPtr from_files(const std::vector<std::pair<std::string, std::string>>& field_and_file, Where where) {
  constexpr std::string_view op = "from_files";
  if (field_and_file.empty()) throw Error(op, "there is no file", where);
  std::vector<ArrayField> fields;
  std::optional<int64_t> count;
  for (const auto& [name, file] : field_and_file) {
    FileArray array = opened(file, where);
    const auto dtype = dtype_of_storage(array.type);
    if (!dtype || bits(*dtype) < 8)
      throw Error(op, fmt::format("{}: {} is not a type of tensors", file, storage_name(array.type)), where);
    if (array.shape.empty())
      throw Error(op, fmt::format("{}: one number; the first axis must be that of the samples", file), where);
    if (count && array.shape[0] != *count)
      throw Error(
          op,
          fmt::format("{} has {} samples, {} has {}", file, array.shape[0], field_and_file[0].second, *count),
          where);
    count = array.shape[0];
    fields.push_back(
        {{name, *dtype, {array.shape.begin() + 1, array.shape.end()}}, array.bytes, array.owner});
  }
  if (*count < 1) throw Error(op, fmt::format("{} has no samples", field_and_file[0].second), where);
  return train::array_data(std::move(fields), *count);
}

DataSetPtr from_values(const std::vector<std::pair<DataField, HostValues>>& given, Where where) {
  constexpr std::string_view op = "from_values";
  if (given.empty()) throw Error(op, "there is no field", where);
  std::vector<ArrayField> fields;
  std::optional<int64_t> count;
  for (const auto& [field, values] : given) {
    const int64_t one = elements(field.shape);
    if (bits(field.dtype) < 8 || one < 1 || values.count() < one || values.count() % one != 0)
      throw Error(op,
                  fmt::format("{} values of {} are no whole number of samples {}[{}]", values.count(),
                              field.name, to_string(field.dtype), fmt::join(field.shape, ", ")),
                  where);
    if (count && values.count() / one != *count)
      throw Error(op,
                  fmt::format("{} has {} samples, {} has {}", field.name, values.count() / one,
                              given[0].first.name, *count),
                  where);
    count = values.count() / one;
    auto bytes = std::make_shared<std::vector<std::byte>>(size_t(storage_bytes(field.dtype, values.count())));
    convert_elements(field.dtype, bytes->data(), values.dtype(), values.bytes().data(), values.count());
    fields.push_back({field, *bytes, bytes});
  }
  return train::array_data(std::move(fields), *count);
}

} // namespace datasets
} // namespace luminal
