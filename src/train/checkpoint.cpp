// train/checkpoint.cpp -- states to safetensors and back; the folder of checkpoints.
#include "train/checkpoint.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::train {
namespace {

constexpr std::string_view format_name = "luminal training 1";

std::vector<std::pair<std::string, NodeId>> states_of(const GraphState& g) {
  std::vector<std::pair<std::string, NodeId>> list;
  for (const auto& [name, id] : g.inputs)
    if (std::get<InputAttr>(g.builder[id].attr).role == Role::state) list.emplace_back(name, id);
  return list;
}

} // namespace

void save_states(const Graph& graph, const std::string& path, const Facts& facts, Where where) {
  const auto& state = graph.state("save", where);
  std::vector<TensorView> views;
  std::vector<std::shared_ptr<const void>> copies; // of values on a device, until they are written
  for (const auto& [name, id] : states_of(*state)) {
    const ReadableValue value = readable_value("save", wrap(state, id), where);
    copies.push_back(value.owner);
    TensorView view;
    view.name = name;
    view.type = storage_of_dtype(state->builder[id].type().dtype).value();
    view.shape = value.extents;
    view.bytes = value.bytes;
    views.push_back(std::move(view));
  }
  Facts all = facts;
  all["format"] = format_name;
  if (auto made = make_folder_of(path); !made) throw Error("save", made.error(), where);
  if (auto written = save_safetensors(path, views, all); !written)
    throw Error("save", written.error(), where);
}

void load_states(Graph& graph, const std::string& path, const std::function<void(const Facts&)>& check,
                 Where where) {
  constexpr std::string_view op = "resume";
  const auto& state = graph.state(op, where);
  auto file = open_safetensors(path);
  if (!file) throw Error(op, file.error(), where);
  const auto format = file->metadata.find("format");
  if (format == file->metadata.end() || format->second != format_name)
    throw Error(op, fmt::format("{} is not a checkpoint of a training", path), where);
  const auto states = states_of(*state);
  std::map<std::string, const TensorView*> by_name;
  for (const TensorView& view : file->tensors) by_name.emplace(view.name, &view);
  std::vector<std::pair<Tensor, const TensorView*>> found;
  for (const auto& [name, id] : states) {
    const Tensor tensor = wrap(state, id);
    const TensorType& type = type_of(tensor);
    const auto at = by_name.find(name);
    if (at == by_name.end())
      throw Error(op, fmt::format("{} has no {}, which this training has", path, name), where);
    if (dtype_of_storage(at->second->type) != type.dtype || at->second->shape != tensor.extents(where))
      throw Error(op,
                  fmt::format("{}: {} is {}, this training has {}", path, name, at->second->describe(),
                              to_string(type)),
                  where);
    found.emplace_back(tensor, at->second);
    by_name.erase(at);
  }
  if (!by_name.empty())
    throw Error(op, fmt::format("{} has {}, which this training does not have", path, by_name.begin()->first),
                where);
  check(file->metadata);
  for (auto& [tensor, view] : found) tensor.set_bytes(view->bytes, tensor.dtype(), where);
}

std::string CheckpointFolder::path(int64_t step) const {
  return fmt::format("{}/step-{:08}.safetensors", folder_, step);
}

std::map<int64_t, std::string> CheckpointFolder::files() const {
  std::map<int64_t, std::string> list;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    constexpr std::string_view before = "step-", after = ".safetensors";
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    int64_t step = 0;
    const char* first = name.data() + before.size();
    const auto [stop, mistake] = std::from_chars(first, name.data() + name.size() - after.size(), step);
    if (mistake == std::errc() && stop == name.data() + name.size() - after.size())
      list.emplace(step, at->path().string());
  }
  return list;
}

std::string CheckpointFolder::last() const {
  const auto list = files();
  return list.empty() ? std::string() : list.rbegin()->second;
}

void CheckpointFolder::note(int64_t step, bool best, int64_t keep) const {
  namespace fs = std::filesystem;
  std::error_code error; // links and old files are conveniences: a file system without links has none
  const auto link = [&](const std::string& name) {
    const std::string draft = fmt::format("{}/.{}.draft", folder_, name);
    fs::remove(draft, error);
    fs::create_symlink(fs::path(path(step)).filename(), draft, error);
    if (!error) fs::rename(draft, fmt::format("{}/{}.safetensors", folder_, name), error);
  };
  link("last");
  if (best) link("best");
  const fs::path kept = fs::read_symlink(folder_ + "/best.safetensors", error);
  const auto list = files();
  int64_t behind = int64_t(list.size());
  for (const auto& [_, file] : list)
    if (behind-- > std::max<int64_t>(1, keep) && fs::path(file).filename() != kept) fs::remove(file, error);
}

} // namespace luminal::train
