// ir/trust.cpp -- custom kernels and effects on files in the modules of others.
#include "ir/trust.h"
#include "ir/text_names.h"
#include "luminal/error.h"
#include <fmt/format.h>

namespace luminal {

std::optional<std::string> foreign_code(const Module& module) {
  for (const Function& f : module.functions)
    for (NodeId id : f.nodes.ids()) {
      std::string what;
      if (auto* custom = std::get_if<CustomAttr>(&f[id].attr))
        what = fmt::format("custom {} runs code of whoever wrote the module", custom->name);
      else if (auto* host = std::get_if<HostAttr>(&f[id].attr)) {
        if (host->kind == "dump")
          what = fmt::format("host dump writes the file {}", host->text);
        else if (host->kind == "compare")
          what = fmt::format("host compare reads the file {}", host->text);
        else if (host->kind != "print" && host->kind != "diff")
          what = fmt::format("host {} calls a function of the program", host->kind);
      }
      if (!what.empty()) return fmt::format("@{} {}: {}", f.name, node_names(f)[id], what);
    }
  return {};
}

Module parse_module_from(std::string_view text, std::string_view file_name, bool allow_custom) {
  Module module = parse_module(text, file_name);
  if (allow_custom) return module;
  if (auto what = foreign_code(module))
    throw Error(fmt::format("{}: {}, which is done only with --allow-custom", file_name, *what));
  return module;
}

} // namespace luminal
