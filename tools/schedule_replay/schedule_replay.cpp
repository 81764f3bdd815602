// tools/schedule_replay/schedule_replay.cpp -- the default schedules of a corpus of terms for four
// processors, beside those on record.
//
//   schedule_replay RECORD TERMS...            compares; prints what differs and how many schedules
//                                              changed; exit code 1 where one did
//   schedule_replay --update RECORD TERMS...   writes the record anew
//
// TERMS are files of terms, or folders whose .lum files are read, in alphabetical order. Of each
// kernel that the plan of a module has, the record holds the schedule as text and a hash of the
// loops that it lowers to. Nothing is compiled to machine code and nothing depends on the processor
// that the tool runs on.
#include "base/hash.h"
#include "compile/builder.h"
#include "compile/target.h"
#include "ir/term.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace luminal;

namespace {

constexpr std::string_view targets[] = {"haswell", "skylake-avx512", "neoverse-n1", "neoverse-v1"};

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error("cannot read " + path.string());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> files_of(const std::vector<std::string>& places) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path place : places) {
    if (!std::filesystem::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    std::vector<std::filesystem::path> inside;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place))
      if (entry.path().extension() == ".lum") inside.push_back(entry.path());
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// "attention" of attention.lum and of attention/term.lum.
std::string name_of(const std::filesystem::path& file) {
  return file.stem() == "term" ? file.parent_path().filename().string() : file.stem().string();
}

/// Schedules and hashes of the kernels of one module, a block of lines each.
std::string schedules_of(const Module& module, std::string_view target) {
  auto options = compile::options_for_target(target, 2);
  if (!options) return options.error() + "\n";
  Module work = module;
  passes::defaults().run(work);
  compile::KernelPlanner chooser({.limits = options->limits, .target = options->target});
  compile::PlanBuilder builder(work, chooser);
  if (auto plan = builder.build(); !plan) return "no plan: " + plan.error() + "\n";
  std::string text;
  for (const compile::PlannedKernel& kernel : builder.kernels())
    text += fmt::format("{} loops {}\n{}", kernel.report.name,
                        hash128(kernel::to_string(kernel.loops)).hex().substr(0, 16), kernel.schedule);
  return text;
}

/// Blocks of a record by their heading, "attention for haswell".
using Record = std::vector<std::pair<std::string, std::string>>;

Record replay(const std::vector<std::filesystem::path>& files) {
  Record record;
  for (const auto& file : files) {
    const Module module = parse_module(read_text(file), file.string());
    for (const std::string_view target : targets)
      record.emplace_back(fmt::format("{} for {}", name_of(file), target), schedules_of(module, target));
  }
  return record;
}

/// A block that is that of the same module and an earlier processor says so instead.
std::string to_string(const Record& record) {
  std::string text;
  for (size_t i = 0; i < record.size(); i++) {
    text += fmt::format("== {}\n", record[i].first);
    size_t same = i / std::size(targets) * std::size(targets);
    while (same < i && record[same].second != record[i].second) same++;
    text += same < i ? fmt::format("as {}\n", record[same].first) : record[i].second;
  }
  return text;
}

Record parse_record(const std::string& text) {
  Record record;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("== ")) {
      record.emplace_back(line.substr(3), "");
    } else if (record.empty()) {
      throw Error("a record begins with `== MODULE for PROCESSOR`");
    } else if (line.starts_with("as ")) {
      const auto earlier = std::ranges::find(record, line.substr(3), &Record::value_type::first);
      if (earlier == record.end()) throw Error("nothing is called " + line.substr(3));
      record.back().second = earlier->second;
    } else {
      record.back().second += line + '\n';
    }
  }
  return record;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Lines that only one of the texts has, between what both begin and end with.
std::string difference(const std::string& before, const std::string& now) {
  auto old_lines = lines_of(before), new_lines = lines_of(now);
  size_t begin = 0, end = 0;
  const size_t least = std::min(old_lines.size(), new_lines.size());
  while (begin < least && old_lines[begin] == new_lines[begin]) begin++;
  while (end < least - begin &&
         old_lines[old_lines.size() - 1 - end] == new_lines[new_lines.size() - 1 - end])
    end++;
  std::string text;
  for (size_t i = begin; i < old_lines.size() - end; i++) text += "  - " + old_lines[i] + '\n';
  for (size_t i = begin; i < new_lines.size() - end; i++) text += "  + " + new_lines[i] + '\n';
  return text;
}

int compare(const Record& before, const Record& now) {
  int changed = 0;
  for (const auto& [name, text] : now) {
    const auto old = std::ranges::find(before, name, &Record::value_type::first);
    if (old != before.end() && old->second == text) continue;
    changed++;
    fmt::print("{}{}\n{}", name, old == before.end() ? " is not on record" : "",
               old == before.end() ? "" : difference(old->second, text));
  }
  for (const auto& [name, text] : before)
    if (std::ranges::find(now, name, &Record::value_type::first) == now.end()) {
      changed++;
      fmt::print("{} is on record only\n", name);
    }
  fmt::print("{} of {} schedules changed\n", changed, now.size());
  return changed;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool update = std::erase(words, "--update") > 0;
  if (words.size() < 2) {
    fmt::print(stderr, "usage: schedule_replay [--update] RECORD TERMS...\n");
    return 2;
  }
  try {
    const Record now = replay(files_of({words.begin() + 1, words.end()}));
    if (update) {
      std::ofstream file(words[0]);
      file << to_string(now);
      if (!file.flush()) throw Error("cannot write " + words[0]);
      return 0;
    }
    return compare(parse_record(read_text(words[0])), now) > 0 ? 1 : 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
