// cli/train_config.h -- the configuration of a training: TOML or JSON, each key checked.
#pragma once
#include "cli/common.h"
#include "luminal/train_models.h"
#include <set>

namespace luminal::cli {

/// A table of the configuration. Messages name the file and the whole key: "FILE: optimizer.rate: ..".
/// Keys that nobody asked for are mistakes: `finish` says so.
class ConfigTable {
public:
  ConfigTable(const Json& table, std::string file, std::string path);
  bool has(const std::string& key) const;
  double number(const std::string& key, double otherwise, double low, double high);
  int64_t whole(const std::string& key, int64_t otherwise, int64_t low, int64_t high);
  bool flag(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);
  std::string needed_text(const std::string& key);
  /// The first word is the default.
  std::string word(const std::string& key, const std::vector<std::string>& words);
  std::vector<int64_t> wholes(const std::string& key, const std::vector<int64_t>& otherwise, int64_t low,
                              int64_t high);
  std::vector<std::string> texts(const std::string& key);
  /// An empty table where the key is absent.
  ConfigTable table(const std::string& key);
  [[noreturn]] void mistake(const std::string& key, const std::string& text) const;
  void finish() const;

private:
  const Json* find(const std::string& key);
  std::string shown(const Json& value) const;
  Json table_;
  std::string file_, path_;
  std::set<std::string> asked_;
};

/// Reads .toml or .json; changes are KEY=VALUE ("optimizer.rate=0.01"), values as in the file.
Json read_config(const std::string& file, const std::vector<std::string>& changes);

struct TrainConfig {
  std::string name;
  TrainerOptions options;
  DataSetPtr data;
  ModelFunction model;
};
/// Everything but where it runs. Paths are relative to the folder of the configuration.
TrainConfig train_config(const Json& json, const std::string& file);
/// A configuration that `luminal train --example` prints.
std::string example_config();

} // namespace luminal::cli
