// tensor/effects.cpp -- print, diff, dump, compare: in plans, in the interpreter, and the nodes
// that ask for them.
#include "tensor/effects.h"
#include "base/check.h"
#include "base/file.h"
#include "base/settings.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "ir/host_text.h"
#include "ir/interp.h"
#include "tensor/graph_run.h"
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <unistd.h>

namespace luminal {
namespace {

struct Sink {
  std::mutex mutex;
  std::function<void(std::string_view)> function;
};
Sink& sink() {
  static Sink* const instance = new Sink; // never destroyed: a graph may run while the program ends
  return *instance;
}

bool coloured() {
  std::lock_guard lock(sink().mutex);
  return !sink().function && isatty(STDERR_FILENO) == 1 && setting_text("NO_COLOR").empty();
}

constexpr std::pair<DType, StorageType> stored_types[] = {
    {DType::boolean, StorageType::boolean}, {DType::i8, StorageType::i8},
    {DType::u8, StorageType::u8},           {DType::i16, StorageType::i16},
    {DType::u16, StorageType::u16},         {DType::i32, StorageType::i32},
    {DType::u32, StorageType::u32},         {DType::i64, StorageType::i64},
    {DType::u64, StorageType::u64},         {DType::f8e4m3, StorageType::f8_e4m3},
    {DType::f8e5m2, StorageType::f8_e5m2},  {DType::bf16, StorageType::bf16},
    {DType::f16, StorageType::f16},         {DType::f32, StorageType::f32},
    {DType::f64, StorageType::f64}};

/// "file\nname\nrelative\nabsolute": the text of a compare node.
struct CompareText {
  std::string file, tensor, name;
  DiffOptions options;
};
Result<CompareText> parse_compare_text(const std::string& text) {
  std::vector<std::string> lines(1);
  for (char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  CompareText out;
  out.file = lines[0];
  if (lines.size() == 1) return out; // a file alone: default tolerances
  auto number = [](const std::string& word, double& to) {
    char* end = nullptr;
    to = std::strtod(word.c_str(), &end);
    return !word.empty() && !*end && to >= 0;
  };
  if (lines.size() != 5 || !number(lines[3], out.options.relative) || !number(lines[4], out.options.absolute))
    return Failure{
        "[compare] the text must be a file, or five lines: file, tensor, name in the file, relative and "
        "absolute tolerance"};
  out.tensor = lines[1];
  out.options.name = lines[2];
  return out;
}

Result<void> compare_with_file(const std::string& text, DType dtype, std::span<const int64_t> shape,
                               const std::byte* data) {
  auto parsed = parse_compare_text(text);
  if (!parsed) return parsed.failure();
  auto file = read_tensor(parsed->file, parsed->options.name, parsed->tensor, shape);
  if (!file) return file.failure();
  if (!std::equal(shape.begin(), shape.end(), file->shape.begin(), file->shape.end()))
    return Failure{fmt::format("[compare] {} has shape [{}], the tensor [{}]", parsed->file,
                               fmt::join(file->shape, ", "), fmt::join(shape, ", "))};
  DiffReport report = difference(dtype, data, file->dtype, file->bytes.data(), shape, parsed->options);
  report.label = fmt::format("{}{}{}", parsed->tensor, parsed->tensor.empty() ? "" : " and ", parsed->file);
  write_printed(to_string(report, coloured()));
  return {};
}

/// "file" or "file\nname".
Result<void> dump_to_file(const std::string& text, DType dtype, std::span<const int64_t> shape,
                          std::span<const std::byte> bytes) {
  const size_t cut = text.find('\n');
  return write_tensor(text.substr(0, cut), cut == std::string::npos ? "value" : text.substr(cut + 1), dtype,
                      shape, bytes);
}

} // namespace

void set_print_sink(std::function<void(std::string_view)> function) {
  std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}
void write_printed(std::string_view text) {
  std::lock_guard lock(sink().mutex);
  if (sink().function) return sink().function(text);
  const std::string line = std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool is_raw_file(std::string_view path) { return path.ends_with(".f32"); }

std::optional<DType> dtype_of_storage(StorageType type) {
  for (auto [dtype, storage] : stored_types)
    if (storage == type) return dtype;
  return {};
}
std::optional<StorageType> storage_of_dtype(DType type) {
  for (auto [dtype, storage] : stored_types)
    if (dtype == type) return storage;
  return {};
}

Result<FileTensor> read_tensor(const std::string& path, const std::string& name,
                               const std::string& fallback_name, std::span<const int64_t> shape) {
  if (is_raw_file(path)) {
    auto file = MappedFile::open(path);
    if (!file) return file.failure();
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    if (int64_t(file->bytes().size()) != 4 * count)
      return Failure{
          fmt::format("{}: {} bytes, the tensor has {} elements of 4", path, file->bytes().size(), count)};
    return FileTensor{{file->bytes().begin(), file->bytes().end()}, DType::f32, {shape.begin(), shape.end()}};
  }
  std::vector<TensorView> views;
  Safetensors tensors;
  NpyFile arrays;
  if (path.ends_with(".safetensors")) {
    auto opened = open_safetensors(path);
    if (!opened) return opened.failure();
    tensors = std::move(*opened);
    views = tensors.tensors;
  } else {
    auto opened = open_npy(path);
    if (!opened) return opened.failure();
    arrays = std::move(*opened);
    for (const NpyArray& array : arrays.arrays) views.push_back(array.tensor);
  }
  const TensorView* found = nullptr;
  for (const std::string& wanted : {name, fallback_name})
    for (const TensorView& view : views)
      if (!found && !wanted.empty() && view.name == wanted) found = &view;
  if (!found && name.empty() && views.size() == 1) found = &views[0];
  if (!found) {
    std::string names;
    for (const TensorView& view : views) names += (names.empty() ? "" : ", ") + view.name;
    return Failure{fmt::format("{}: there is no tensor {}; there are {}", path,
                               name.empty() ? fallback_name : name, names.empty() ? "none" : names)};
  }
  const auto dtype = dtype_of_storage(found->type);
  LUMINAL_CHECK(dtype, "{}: {}", path, found->describe()); // these files hold types of tensors alone
  return FileTensor{{found->bytes.begin(), found->bytes.end()}, *dtype, found->shape};
}

Result<void> write_tensor(const std::string& path, const std::string& name, DType dtype,
                          std::span<const int64_t> shape, std::span<const std::byte> bytes) {
  if (is_raw_file(path)) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::vector<std::byte> numbers(size_t(4 * count));
    convert_elements(DType::f32, numbers.data(), dtype, bytes.data(), count);
    return write_file(path, std::span<const std::byte>(numbers));
  }
  auto type = storage_of_dtype(dtype);
  if (!type) return Failure{fmt::format("{}: no file holds {}", path, to_string(dtype))};
  TensorView view;
  view.name = name;
  view.type = *type;
  view.shape.assign(shape.begin(), shape.end());
  view.bytes = bytes;
  if (path.ends_with(".npy")) return save_npy(path, view);
  return save_safetensors(path, std::span<const TensorView>(&view, 1));
}

Result<void> run_host_effect(const HostAttr& effect, std::span<const runtime::HostValue> inputs,
                             std::span<runtime::HostValue> results) {
  const runtime::HostValue& x = inputs[0];
  if (effect.kind == "print") {
    write_printed(printed_values(effect.text, x.dtype, x.shape, x.bytes.data()));
    return {};
  }
  if (effect.kind == "diff") {
    int64_t count = 1;
    for (int64_t extent : x.shape) count *= extent;
    write_printed(printed_difference(effect.text, x.dtype, count, x.bytes.data(), inputs[1].bytes.data()));
    return {};
  }
  if (effect.kind == "dump") return dump_to_file(effect.text, x.dtype, x.shape, x.bytes);
  if (effect.kind == "compare") return compare_with_file(effect.text, x.dtype, x.shape, x.bytes.data());
  const HostFunction* function = find_host_function(effect.kind);
  if (!function)
    return Failure{
        fmt::format("[host] '{}' is not registered: register_host_function gives it a meaning", effect.kind)};
  std::vector<HostTensor> values;
  for (const auto& input : inputs)
    values.push_back({input.dtype, input.shape, {input.bytes.begin(), input.bytes.end()}});
  std::vector<HostTensor> made;
  try {
    made = (*function)(effect.text, values);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  bool fits = made.size() == results.size();
  for (size_t i = 0; fits && i < made.size(); i++)
    fits = made[i].dtype == results[i].dtype && made[i].shape == results[i].shape &&
           made[i].data.size() == results[i].bytes.size();
  if (!fits)
    return Failure{fmt::format("[host] '{}' gave results of other types than declared", effect.kind)};
  for (size_t i = 0; i < made.size(); i++)
    std::copy(made[i].data.begin(), made[i].data.end(), results[i].bytes.begin());
  return {};
}

void register_file_effects() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_host_function("dump", [](const std::string& text, std::span<const HostTensor> in) {
      dump_to_file(text, in[0].dtype, in[0].shape, in[0].data).value();
      return std::vector<HostTensor>{};
    });
    register_host_function("compare", [](const std::string& text, std::span<const HostTensor> in) {
      compare_with_file(text, in[0].dtype, in[0].shape, in[0].data.data()).value();
      return std::vector<HostTensor>{};
    });
  });
}

namespace {

Tensor add_effect(std::string_view op, const Tensor& x, HostAttr attr, Where where) {
  const auto graph = graph_of(op, {&x}, where);
  register_file_effects();
  if (graph->outer)
    throw Error(op, "inside of a loop or function nothing can be shown: give the value out of it", where);
  Tensor shown = build(op, graph, where, [&](FunctionBuilder& b) {
    const NodeId made = b.add(std::move(attr), {node_id(x)}, {}, where);
    b.origin(made, std::string(op) + maker_text(*graph, where));
    return b.get(made, 0);
  });
  graph->effects.push_back(node_id(shown));
  return shown;
}

std::string name_of(const Tensor& x) {
  const Node& node = x.graph()->builder[node_id(x)];
  return node.kind == NodeKind::input ? std::get<InputAttr>(node.attr).name : node.name;
}

std::string one_line(std::string_view op, const std::string& text, Where where) {
  if (text.find('\n') != std::string::npos) throw Error(op, "a name with a line break", where);
  return text;
}

} // namespace

Tensor print(const Tensor& x, std::string label, Where where) {
  graph_of("print", {&x}, where);
  return add_effect("print", x, {"print", label.empty() ? name_of(x) : std::move(label), {}}, where);
}

Tensor dump(const Tensor& x, std::string file, Where where) {
  graph_of("dump", {&x}, where);
  const bool npy = file.ends_with(".npy"), raw = is_raw_file(file);
  if (!npy && !raw && !file.ends_with(".safetensors"))
    throw Error("dump", fmt::format("{}: the name must end in .npy, .safetensors or .f32", file), where);
  const DType type = x.dtype();
  if ((!storage_of_dtype(type) && !raw) ||
      (npy && (type == DType::bf16 || type == DType::f8e4m3 || type == DType::f8e5m2)))
    throw Error("dump",
                fmt::format("{}: {} has no {}; cast the tensor first", file, npy ? "NumPy" : "safetensors",
                            to_string(type)),
                where);
  const std::string name = name_of(x);
  return add_effect(
      "dump", x,
      {"dump",
       one_line("dump", file, where) + "\n" + one_line("dump", name.empty() ? "value" : name, where),
       {}},
      where);
}

std::string compare_text(const std::string& file, const std::string& tensor, const DiffOptions& options) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", file, tensor, options.name, options.relative, options.absolute);
}

Tensor diff(const Tensor& x, std::string file, DiffOptions options, Where where) {
  graph_of("diff", {&x}, where);
  const std::string text =
      compare_text(one_line("diff", file, where), one_line("diff", name_of(x), where), options);
  return add_effect("diff", x, {"compare", text, {}}, where);
}

DiffReport compare(const Tensor& x, const std::string& file, DiffOptions options, Where where) {
  const ReadableValue value = readable_value("compare", x, where);
  auto expected = read_tensor(file, options.name, name_of(x), value.extents);
  if (!expected) throw Error("compare", expected.error(), where);
  if (expected->shape != value.extents)
    throw Error("compare",
                fmt::format("{} has shape [{}], the tensor [{}]", file, fmt::join(expected->shape, ", "),
                            fmt::join(value.extents, ", ")),
                where);
  DiffReport report = difference(x.dtype(), value.bytes.data(), expected->dtype, expected->bytes.data(),
                                 value.extents, options);
  report.label = fmt::format("{}{}{}", name_of(x), name_of(x).empty() ? "" : " and ", file);
  return report;
}

} // namespace luminal
