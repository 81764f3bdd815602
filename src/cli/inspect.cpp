// cli/inspect.cpp -- `luminal inspect FILE`: what is in a model file.
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/onnx_program.h"
#include "formats/model_files.h"
#include "ir/term.h"
#include "luminal/pass.h"
#include "models/llama.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct InspectArguments {
  std::string path, dot, html, passes;
  bool json = false, terms = false;
};

Json config_json(const ModelConfig& c) {
  return {{"architecture", c.architecture},
          {"vocab_size", c.vocab_size},
          {"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"num_layers", c.num_layers},
          {"num_heads", c.num_heads},
          {"num_kv_heads", c.num_kv_heads},
          {"head_dim", c.head_dim},
          {"context_length", c.context_length},
          {"rms_norm_eps", c.rms_norm_eps},
          {"rope_theta", c.rope_theta},
          {"rope_scaling", std::string(rope_scaling_name(c.rope_scaling.kind))},
          {"tied_embeddings", c.tied_embeddings}};
}

void write_text(const std::string& path, const std::string& text) {
  if (const Result<void> written = write_file(path, text); !written) throw Error(written.error());
  print_stderr("wrote {}\n", path);
}

/// The passes that were asked for; their times go to stderr.
Pass chosen_passes(const InspectArguments& a, const std::shared_ptr<PassTable>& table) {
  return a.passes.empty() ? passes::none() : timed(checked(parse_passes(a.passes)), table);
}

Json passes_json(const PassTable& table) {
  Json rows = Json::array();
  for (const PassTime& row : table.rows)
    rows.push_back({{"name", row.name},
                    {"ms", row.ms},
                    {"nodes_before", row.nodes_before},
                    {"nodes_after", row.nodes_after},
                    {"changes", row.changes}});
  return rows;
}

std::string_view role_name(Role role) {
  switch (role) {
  case Role::argument: return "argument";
  case Role::weight: return "weight";
  case Role::state: return "state";
  }
  return "";
}

/// Dimensions and functions of a module.
Json module_json(const Module& module) {
  Json json{{"dimensions", Json::array()}, {"assumptions", Json::array()}, {"functions", Json::array()}};
  for (const Expr symbol : module.symbols)
    json["dimensions"].push_back({{"name", std::string(symbol.name())},
                                  {"low", symbol.range().low},
                                  {"high", symbol.range().high},
                                  {"multiple", symbol.multiple()}});
  for (const Expr condition : module.assumptions) json["assumptions"].push_back(to_string(condition));
  for (const Function& f : module.functions) {
    Json inputs = Json::array(), results = Json::array();
    for (const NodeId id : f.params) {
      const auto& input = std::get<InputAttr>(f[id].attr);
      inputs.push_back({{"name", input.name},
                        {"role", std::string(role_name(input.role))},
                        {"type", to_string(input.type)}});
    }
    for (const FunctionResult& result : f.results)
      results.push_back({{"name", result.name}, {"type", to_string(f[result.value].type())}});
    json["functions"].push_back(
        {{"name", f.name}, {"nodes", f.nodes.size()}, {"inputs", inputs}, {"results", results}});
  }
  return json;
}

void show_json(const Json& json) { std::cout << json_text(json) << std::endl; }

/// A module in text form: parsed, verified, shown.
int inspect_terms(const InspectArguments& a) {
  Module module = parse_module(read_text(a.path), a.path);
  auto mistakes = verify(module);
  for (const auto& mistake : mistakes) print_stderr("{}: {}\n", a.path, mistake);
  PassTable passes;
  if (mistakes.empty()) {
    auto table = std::make_shared<PassTable>();
    chosen_passes(a, table).run(module);
    passes = *table;
    if (!passes.rows.empty()) print_stderr("{}", passes.to_string());
  }
  if (!a.dot.empty()) write_text(a.dot, to_dot(module));
  if (!a.html.empty()) write_text(a.html, to_html(module));
  if (a.json) {
    Json json{{"path", a.path}, {"kind", "terms"}};
    json.update(module_json(module));
    json["mistakes"] = mistakes;
    if (!passes.rows.empty()) json["passes"] = passes_json(passes);
    if (a.terms) json["terms"] = to_string(module);
    show_json(json);
  } else
    std::cout << to_string(module);
  return mistakes.empty() ? ok : failed;
}

/// A model as terms: printed, drawn.
int inspect_graph(const InspectArguments& a, const Graph& graph, const std::string& path,
                  std::string_view kind) {
  if (!a.dot.empty()) write_text(a.dot, graph.to_dot());
  if (!a.html.empty()) write_text(a.html, graph.to_html());
  if (!a.terms && !a.json) return ok;
  auto table = std::make_shared<PassTable>();
  const std::string terms = a.terms ? graph.to_string(chosen_passes(a, table)) : std::string();
  if (!table->rows.empty()) print_stderr("{}", table->to_string());
  if (!a.json) {
    std::cout << terms;
    return ok;
  }
  Json json{{"path", path}, {"kind", std::string(kind)}};
  if (!table->rows.empty()) json["passes"] = passes_json(*table);
  if (a.terms) json["terms"] = terms;
  show_json(json);
  return ok;
}

int inspect(const InspectArguments& a) {
  if (a.path.ends_with(".lum")) return inspect_terms(a);
  const bool as_graph = a.terms || !a.dot.empty() || !a.html.empty();
  if (is_onnx(a.path)) {
    if (!as_graph) return inspect_onnx(a.path, a.json);
    return inspect_graph(a, open_onnx_model(a.path, {}, {}).graph, a.path, "ONNX");
  }
  auto opened = open_model(a.path);
  if (!opened) throw Error(opened.error());
  const ModelFile& file = *opened;
  if (as_graph)
    return inspect_graph(a, models::make_llama(file, {}).graph, file.path, model_file_kind_name(file.kind));
  if (a.json) {
    Json json{{"path", file.path},
              {"kind", std::string(model_file_kind_name(file.kind))},
              {"parameters", file.parameters()},
              {"tensor_bytes", file.tensor_bytes()}};
    json["config"] = file.config ? config_json(*file.config) : Json(nullptr);
    if (!file.config) json["config_error"] = file.config_error;
    json["tokenizer"] = file.tokenizer
                            ? Json{{"kind", file.tokenizer->description()}, {"size", file.tokenizer->size()}}
                            : Json(nullptr);
    if (!file.tokenizer) json["tokenizer_error"] = file.tokenizer_error;
    json["metadata"] = Json::object();
    for (const auto& [key, value] : file.metadata) json["metadata"][key] = value;
    json["tensors"] = Json::array();
    for (const auto& t : file.tensors)
      json["tensors"].push_back({{"name", t.name},
                                 {"type", std::string(storage_name(t.type))},
                                 {"shape", t.shape},
                                 {"offset", t.file_offset},
                                 {"bytes", t.bytes.size()}});
    show_json(json);
    return ok;
  }
  fmt::print("{}: {}, {} tensors, {} parameters, {}\n", file.path, model_file_kind_name(file.kind),
             file.tensors.size(), file.parameters(), show_bytes(int64_t(file.tensor_bytes())));
  if (file.config) {
    const Json values = config_json(*file.config);
    for (const auto& [key, value] : values.items())
      fmt::print("  {:<20} {}\n", key,
                 value.is_string() ? printable(value.get<std::string>(), 400) : value.dump());
  } else
    fmt::print("  no configuration: {}\n", file.config_error);
  if (file.tokenizer)
    fmt::print("  {:<20} {}, {} tokens\n", "tokenizer", file.tokenizer->description(),
               file.tokenizer->size());
  else
    fmt::print("  no tokenizer: {}\n", file.tokenizer_error);
  if (!file.metadata.empty()) fmt::print("metadata\n");
  for (const auto& [key, value] : file.metadata) fmt::print("  {} = {}\n", printable(key, 400), value);
  fmt::print("tensors\n");
  for (const auto& t : file.tensors)
    fmt::print("  {:<48} {:<24} at {}\n", t.name, t.describe(), t.file_offset);
  return std::cout ? ok : failed;
}

} // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<InspectArguments>();
  auto* inspect_app =
      app.add_subcommand("inspect", "Show what a model file holds; or a module of terms (.lum)");
  inspect_app
      ->add_option("file", a->path, "GGUF, safetensors, a Hugging Face folder, ONNX, or terms in text form")
      ->required();
  inspect_app->add_flag("--json", a->json,
                        "One JSON object: path, kind, and what is in the file; keys in docs/program.md");
  inspect_app->add_flag("--terms", a->terms, "Print the model as terms");
  std::string names;
  for (const Pass& pass : all_passes()) names += (names.empty() ? "" : ", ") + pass.name();
  inspect_app->add_option(
      "--passes", a->passes,
      "With --terms or a .lum file: print the terms after these passes, with commas between: " + names);
  inspect_app->add_option("--dot", a->dot, "Write the graph for Graphviz to this file");
  inspect_app->add_option("--html", a->html, "Write a page that shows the graph, offline, to this file");
  inspect_app->callback([a, inspect_app, &exit_code] {
    if (!a->path.ends_with(".lum") && !a->terms)
      refuse_options(*inspect_app, {"--passes"}, "it is for --terms, or a module of terms (.lum)");
    exit_code = inspect(*a);
  });
}

} // namespace luminal::cli
