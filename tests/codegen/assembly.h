// codegen/assembly.h -- the loops of an assembly text.
#pragma once
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace luminal::codegen {

struct Assembly {
  std::vector<std::string> lines;
  std::vector<std::pair<size_t, size_t>> loops; ///< lines: from a label to a jump back to it
};

inline Assembly read_assembly(const std::string& text) {
  Assembly result;
  std::istringstream lines(text);
  std::map<std::string, size_t> labels;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] == '.' && line.find(':') != std::string::npos)
      labels[line.substr(0, line.find(':'))] = result.lines.size();
    result.lines.push_back(line);
  }
  const std::regex jump(R"(^\s+(?:j\w+|b\.?\w*|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.LBB\w+))");
  for (size_t i = 0; i < result.lines.size(); ++i) {
    std::smatch m;
    if (!std::regex_search(result.lines[i], m, jump)) continue;
    if (const auto label = labels.find(m[1]); label != labels.end() && label->second <= i)
      result.loops.emplace_back(label->second, i);
  }
  return result;
}

} // namespace luminal::codegen
