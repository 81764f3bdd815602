// tensor/files.cpp -- weights from files and back.
#include "luminal/files.h"
#include "formats/gguf.h"
#include "formats/npy.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ostream>
#include <set>

namespace luminal {
namespace {

/// A tensor of an open file, and what keeps its bytes alive.
struct FileTensorView {
  TensorView view;
  std::shared_ptr<const void> owner;
};

std::string_view without_folder(std::string_view path) { return path.substr(path.rfind('/') + 1); }

Result<std::vector<FileTensorView>> open_tensors(const std::string& path) {
  std::vector<FileTensorView> list;
  const auto add = [&](const std::vector<TensorView>& views,
                       const std::vector<std::shared_ptr<const MappedFile>>& files) {
    for (const TensorView& view : views) list.push_back({view, files.at(view.file_index)});
  };
  if (path.ends_with(".index.json")) {
    auto shards = open_safetensors_index(path);
    if (!shards) return shards.failure();
    add(shards->tensors, shards->files);
    return list;
  }
  auto file = MappedFile::open(path);
  if (!file) return file.failure();
  const auto head = file->bytes().first(std::min<size_t>(file->bytes().size(), 6));
  const std::string_view magic(reinterpret_cast<const char*>(head.data()), head.size());
  if (magic.starts_with("GGUF")) {
    std::vector<std::shared_ptr<const MappedFile>> files;
    auto opened = open_gguf_parts(path, files);
    if (!opened) return opened.failure();
    add(opened->tensors, files);
  } else if (magic.starts_with("\x93NUMPY") || magic.starts_with("PK")) {
    auto opened = open_npy(path);
    if (!opened) return opened.failure();
    const bool single = !magic.starts_with("PK");
    for (NpyArray& array : opened->arrays) {
      if (single) {
        const std::string_view name = without_folder(path);
        array.tensor.name = name.substr(0, name.rfind('.'));
      }
      list.push_back({array.tensor, array.owned ? std::shared_ptr<const void>(array.owned)
                                                : std::shared_ptr<const void>(opened->file)});
    }
  } else {
    auto opened = open_safetensors(path);
    if (!opened) return opened.failure();
    add(opened->tensors, opened->files);
  }
  return list;
}

bool same_extents(const Shape& shape, const std::vector<int64_t>& extents) {
  bool same = shape.size() == extents.size();
  for (size_t d = 0; same && d < extents.size(); d++)
    same = shape[d].is_constant() ? shape[d].value() == extents[d] : shape[d].range().contains(extents[d]);
  return same;
}

/// Blocks as they are: a row of the weight is the bytes of a row of the file's tensor.
bool takes_blocks(const TensorType& weight, const TensorView& view) {
  const StorageTypeInfo& info = storage_info(view.type);
  if (!info.quantized() || weight.dtype != DType::u8 || view.shape.empty()) return false;
  std::vector<int64_t> bytes = view.shape;
  bytes.back() = bytes.back() / info.block_elements * info.block_bytes;
  return same_extents(weight.shape, bytes);
}

/// Why the file's tensor cannot be the weight's value; empty where it can. `packed`: the type of
/// its blocks, empty where it has any or none.
std::string misfit(const TensorType& weight, const std::string& packed, const TensorView& view,
                   const LoadOptions& options) {
  const std::string both = fmt::format("the weight is {}{}, the file has {}", to_string(weight),
                                       packed.empty() ? "" : " of " + packed, view.describe());
  if (!packed.empty() && packed != storage_name(view.type)) return both;
  if (takes_blocks(weight, view)) return "";
  if (!same_extents(weight.shape, view.shape)) return both;
  if (dtype_of_storage(view.type) == weight.dtype) return "";
  if (!dtype_of_storage(view.type) && !can_dequantize(view.type)) return both + ", which cannot be unpacked";
  if (!options.convert) return both + " (LoadOptions::convert converts)";
  return bits(weight.dtype) < 8 ? both : "";
}

bool is_aligned(const void* address, DType type) {
  return reinterpret_cast<uintptr_t>(address) % size_t(std::max(1, bits(type) / 8)) == 0;
}

void give(Tensor weight, const FileTensorView& source, Where where) {
  const TensorView& view = source.view;
  const auto plain = dtype_of_storage(view.type);
  const DType type = weight.dtype(where);
  if (plain == type || (!plain && takes_blocks(type_of(weight), view))) {
    if (is_aligned(view.bytes.data(), type))
      weight.borrow(view.bytes.data(), view.bytes.size(), source.owner, where);
    else
      weight.set_bytes(view.bytes, type, where);
  } else if (plain) {
    weight.set_deferred(
        [source, stored = *plain, where](Tensor& t) { t.set_bytes(source.view.bytes, stored, where); },
        where);
  } else {
    weight.set_deferred(
        [source, where](Tensor& t) {
          const auto values = dequantize(source.view);
          if (!values) throw Error("load", values.error(), where);
          t.set_bytes(std::as_bytes(std::span(*values)), DType::f32, where);
        },
        where);
  }
}

std::string listed(std::string_view what, const std::vector<std::string>& names) {
  constexpr size_t most = 20;
  if (names.empty()) return "";
  const std::span<const std::string> shown(names.data(), std::min(names.size(), most));
  return fmt::format("; {} {}: {}{}", names.size(), what, fmt::join(shown, ", "),
                     names.size() > most ? ", .." : "");
}

const InputAttr& input_of(const GraphState& graph, NodeId id) {
  return std::get<InputAttr>(graph.builder[id].attr);
}

/// The inputs of the graph that are weights, and states where asked for.
std::map<std::string, Tensor> stored_inputs(const std::shared_ptr<GraphState>& graph, bool states) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, id] : graph->inputs) {
    const Role role = input_of(*graph, id).role;
    if (role == Role::weight || (role == Role::state && states)) tensors.emplace(name, wrap(graph, id));
  }
  return tensors;
}

} // namespace

std::string to_string(const LoadReport& report) {
  std::vector<std::string> reasons;
  for (const auto& [name, reason] : report.mismatching)
    reasons.push_back(fmt::format("{} ({})", name, reason));
  return fmt::format("{} loaded{}{}{}", report.loaded.size(), listed("missing in the file", report.missing),
                     listed("not in the graph", report.unused), listed("that do not fit", reasons));
}
std::ostream& operator<<(std::ostream& out, const LoadReport& report) { return out << to_string(report); }

LoadReport load(Graph& graph, const std::string& path, const LoadOptions& options, Where where) {
  return load(stored_inputs(graph.state("load", where), false), path, options, where);
}

LoadReport load(const std::map<std::string, Tensor>& tensors, const std::string& path,
                const LoadOptions& options, Where where) {
  auto opened = open_tensors(path);
  if (!opened) throw Error("load", opened.error(), where);
  std::map<std::string, const FileTensorView*> by_name;
  for (const FileTensorView& tensor : *opened) by_name.emplace(tensor.view.name, &tensor);
  LoadReport report;
  std::vector<std::pair<Tensor, const FileTensorView*>> found;
  std::set<std::string> used;
  for (const auto& [name, tensor] : tensors) {
    const auto graph = graph_of("load", {&tensor}, where);
    const InputAttr& input = input_attr(*graph, node_id(tensor), "load", where);
    const std::string wanted = options.name_in_file ? options.name_in_file(name) : name;
    const auto at = by_name.find(wanted);
    if (at == by_name.end()) {
      report.missing.push_back(name);
      continue;
    }
    used.insert(wanted);
    const auto packed = graph->packed_types.find(input.name);
    const std::string reason =
        misfit(type_of(tensor), packed == graph->packed_types.end() ? "" : packed->second, at->second->view,
               options);
    if (!reason.empty()) {
      report.mismatching.push_back({name, reason});
      continue;
    }
    report.loaded.push_back(name);
    found.emplace_back(tensor, at->second);
  }
  for (const auto& [name, _] : by_name)
    if (!used.contains(name)) report.unused.push_back(name);
  if (options.strict && !report.complete())
    throw Error("load",
                fmt::format("{}: {} (nothing was set: see LoadOptions::strict)", path, to_string(report)),
                where);
  for (const auto& [tensor, source] : found) give(tensor, *source, where);
  return report;
}

void save(const Graph& graph, const std::string& path, const SaveOptions& options, Where where) {
  save(stored_inputs(graph.state("save", where), options.states), path, options, where);
}

void save(const std::map<std::string, Tensor>& tensors, const std::string& path, const SaveOptions& options,
          Where where) {
  std::vector<TensorView> views;
  std::vector<std::shared_ptr<const void>> copies; // of values on a device, until they are written
  for (const auto& [name, tensor] : tensors) {
    const ReadableValue value = readable_value("save", tensor, where);
    copies.push_back(value.owner);
    const DType dtype = tensor.dtype();
    const auto type = storage_of_dtype(dtype);
    if (!type)
      throw Error("save", fmt::format("{}: no file holds {} ({})", path, to_string(dtype), name), where);
    TensorView view;
    view.name = name;
    view.type = *type;
    view.shape = value.extents;
    view.bytes = value.bytes;
    views.push_back(std::move(view));
  }
  Result<void> done;
  if (path.ends_with(".safetensors"))
    done = save_safetensors(path, views, options.metadata);
  else if (path.ends_with(".gguf")) {
    std::vector<std::pair<std::string, GgufValue>> metadata;
    for (const auto& [key, text] : options.metadata) metadata.emplace_back(key, GgufValue::of_string(text));
    done = save_gguf(path, metadata, views);
  } else if (path.ends_with(".npz"))
    done = save_npz(path, views);
  else if (path.ends_with(".npy") && views.size() == 1)
    done = save_npy(path, views[0]);
  else if (path.ends_with(".npy"))
    throw Error(
        "save",
        fmt::format("{}: an .npy file holds one array, {} tensors are to be saved", path, views.size()),
        where);
  else
    throw Error("save", fmt::format("{}: the name must end in .safetensors, .gguf, .npz or .npy", path),
                where);
  if (!done) throw Error("save", done.error(), where);
}

std::vector<StoredTensor> tensors_in(const std::string& path, Where where) {
  auto opened = open_tensors(path);
  if (!opened) throw Error("tensors_in", opened.error(), where);
  std::vector<StoredTensor> list;
  for (const FileTensorView& tensor : *opened)
    list.push_back({tensor.view.name, std::string(storage_name(tensor.view.type)), tensor.view.shape});
  return list;
}

} // namespace luminal
