// train/table_data.cpp -- samples from CSV and JSONL files.
#include "base/file.h"
#include "base/text.h"
#include "formats/csv.h"
#include "formats/json.h"
#include "tensor/graph_state.h"
#include "train/array_data.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace luminal::datasets {
namespace {

using train::ArrayField;

std::string text_of_file(std::string_view op, const std::string& path, Where where) {
  auto text = read_file(path, uint64_t{1} << 34);
  if (!text) throw Error(op, text.error(), where);
  return std::move(*text);
}

template <class T>
ArrayField field_of(std::string name, DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return {{std::move(name), dtype, std::move(shape)}, std::as_bytes(std::span<const T>(*owner)), owner};
}

std::optional<double> number_in(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool all_whole(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return v == std::floor(v) && std::fabs(v) <= 0x1p53; });
}
ArrayField numbers_of(std::string name, std::vector<int64_t> shape, const std::vector<double>& values,
                      bool whole) {
  if (whole)
    return field_of(std::move(name), DType::i64, std::move(shape),
                    std::vector<int64_t>(values.begin(), values.end()));
  return field_of(std::move(name), DType::f32, std::move(shape),
                  std::vector<float>(values.begin(), values.end()));
}

} // namespace

DataSetPtr csv_file(const std::string& path, const CsvOptions& options, Where where) {
  constexpr std::string_view op = "csv_file";
  auto read = parse_csv(text_of_file(op, path, where), path, {options.separator, options.header});
  if (!read) throw Error(op, read.error(), where);
  const Csv& csv = *read;
  const auto place = [&](const std::string& name) {
    if (const auto column = csv.column(name)) return *column;
    throw Error(op,
                csv.header.empty()
                    ? fmt::format("{}: no column {}: they are numbered from 0 to {}", path, printable(name),
                                  csv.rows[0].size() - 1)
                    : fmt::format("{}: no column {}; there are {}", path, printable(name), join(csv.header)),
                where);
  };
  const size_t target = place(options.target);
  std::vector<size_t> inputs;
  for (const std::string& name : options.inputs) inputs.push_back(place(name));
  for (size_t k = 0; options.inputs.empty() && k < csv.rows[0].size(); ++k)
    if (k != target) inputs.push_back(k);
  std::vector<float> x;
  std::vector<double> y;
  std::set<std::string> words;
  for (size_t i = 0; i < csv.rows.size(); ++i) {
    for (size_t k : inputs) {
      const auto number = number_in(csv.rows[i][k]);
      if (!number)
        throw Error(
            op, fmt::format("{}: line {}: {} is not a number", path, csv.lines[i], printable(csv.rows[i][k])),
            where);
      x.push_back(float(*number));
    }
    if (const auto number = number_in(csv.rows[i][target])) y.push_back(*number);
    words.insert(csv.rows[i][target]);
  }
  std::vector<ArrayField> fields{field_of("x", DType::f32, {int64_t(inputs.size())}, std::move(x))};
  if (y.size() == csv.rows.size()) {
    fields.push_back(numbers_of("y", {}, y, all_whole(y)));
  } else {
    const std::vector<std::string> names(words.begin(), words.end());
    std::vector<int64_t> classes;
    for (const auto& row : csv.rows)
      classes.push_back(std::lower_bound(names.begin(), names.end(), row[target]) - names.begin());
    fields.push_back(field_of("y", DType::i64, {}, std::move(classes)));
    fields.back().classes = names;
  }
  return train::array_data(std::move(fields), int64_t(csv.rows.size()));
}

namespace {

/// Calls f(object, line number) for each line that is not empty.
template <class F> void for_each_line(std::string_view op, const std::string& path, Where where, F&& f) {
  const std::string text = text_of_file(op, path, where);
  auto done = detail::guarded(path, [&] {
    int64_t number = 0;
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = trim(std::string_view(text).substr(begin, end - begin));
      ++number;
      if (!line.empty()) f(detail::parse_json(line, path, begin), number);
      begin = end + 1;
    }
  });
  if (!done) throw Error(op, done.error(), where);
}

/// What the lines have under one key: the first one says the shape.
class Column {
public:
  void append(const detail::Json& json, const std::string& path, const std::string& what) {
    add(json, path, what, 0);
    known_ = true;
  }
  ArrayField field(const std::string& name) const {
    return numbers_of(name, shape_, values_, all_whole(values_));
  }

private:
  void add(const detail::Json& json, const std::string& path, const std::string& what, size_t depth) {
    if (!json.is_array()) {
      known_ = true;
      if (depth != shape_.size()) refuse(json, path, what);
      values_.push_back(json.as_real(path, what));
      return;
    }
    const auto& list = json.as_array(path, what);
    if (depth == shape_.size() && !known_) shape_.push_back(int64_t(list.size()));
    if (depth >= shape_.size() || shape_[depth] != int64_t(list.size())) refuse(json, path, what);
    for (const detail::Json& value : list) add(value, path, what, depth + 1);
  }
  [[noreturn]] void refuse(const detail::Json& json, const std::string& path, const std::string& what) const {
    detail::refuse_at(path, json.offset,
                      fmt::format("{}: the lists before have shape [{}]", what, fmt::join(shape_, ", ")));
  }
  std::vector<double> values_;
  std::vector<int64_t> shape_;
  bool known_ = false;
};

} // namespace

DataSetPtr jsonl_file(const std::string& path, const std::vector<std::string>& names, Where where) {
  constexpr std::string_view op = "jsonl_file";
  if (names.empty()) throw Error(op, "there is no field", where);
  std::vector<Column> columns(names.size());
  int64_t count = 0;
  for_each_line(op, path, where, [&](const detail::Json& line, int64_t number) {
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string what = fmt::format("line {}: {}", number, printable(names[k]));
      const detail::Json* value = line.is_object() ? line.find(names[k]) : nullptr;
      if (!value) detail::refuse(path, what + " is missing");
      columns[k].append(*value, path, what);
    }
    ++count;
  });
  if (count == 0) throw Error(op, fmt::format("{}: there are no lines", path), where);
  std::vector<ArrayField> fields;
  for (size_t k = 0; k < names.size(); ++k) fields.push_back(columns[k].field(names[k]));
  return train::array_data(std::move(fields), count);
}

std::string jsonl_text(const std::string& path, const std::string& key, std::string_view end, Where where) {
  std::string text;
  for_each_line("jsonl_text", path, where, [&](const detail::Json& line, int64_t number) {
    const std::string what = fmt::format("line {}: {}", number, printable(key));
    const detail::Json* value = line.is_object() ? line.find(key) : nullptr;
    if (!value) detail::refuse(path, what + " is missing");
    text += value->as_string(path, what);
    text += end;
  });
  if (text.empty()) throw Error("jsonl_text", fmt::format("{}: there is no text", path), where);
  return text;
}

} // namespace luminal::datasets
