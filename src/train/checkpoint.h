// train/checkpoint.h -- files of a run in training: all states of a graph, and where it stands.
#pragma once
#include "luminal/graph.h"
#include <map>
#include <string>

namespace luminal::train {

/// What else a checkpoint says, as text by name.
using Facts = std::map<std::string, std::string>;

/// All states, as they are after the last execute, in one safetensors file that appears complete or
/// not at all.
void save_states(const Graph& graph, const std::string& path, const Facts& facts, std::source_location where);
/// Gives all states their values. Throws Error, before anything is changed, for a file that cannot be
/// read or does not fit; `check` may throw, too, for facts that do not.
void load_states(Graph& graph, const std::string& path, const std::function<void(const Facts&)>& check,
                 std::source_location where);

/// The checkpoints of a run: FOLDER/step-00000100.safetensors and links `last`, `best`.
class CheckpointFolder {
public:
  explicit CheckpointFolder(std::string folder) : folder_(std::move(folder)) {}
  std::string path(int64_t step) const;
  /// Of the complete files, that of the last step; empty where there is none.
  std::string last() const;
  /// After a file was written: links, and all but the last `keep` files and the best one are removed.
  void note(int64_t step, bool best, int64_t keep) const;

private:
  std::map<int64_t, std::string> files() const;
  std::string folder_;
};

} // namespace luminal::train
