// cli/search_program.cpp -- terms and models through the same search; their options as JSON.
#include "cli/search_program.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "compile/plan_file.h"
#include "compile/rule_set.h"
#include "compile/search_log.h"
#include "ir/trust.h"
#include "luminal/plan_file.h"
#include <filesystem>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

int threads_of(const GraphArguments& a) { return a.threads > 0 ? a.threads : setting_threads(); }

SearchedProgram search_terms(const GraphArguments& a, const SearchOptions& search, bool strict) {
  const Module module = parse_module_from(read_text(a.path), a.path, a.allow_custom);
  const int threads = threads_of(a);
  ThreadPool pool(threads);
  compile::Options options = compile::Options::host(threads);
  options.pool = &pool;
  options.tuning = compile::usual_tuning_cache(true);
  options.sizes = parse_sizes(a.sizes);
  check_sizes(options.sizes, module.symbols, a.path);
  options.strict = strict;
  options.search = search;
  compile::open_search_log(options).value();
  auto compiled = compile::compile(module, options);
  if (!compiled) throw Error(fmt::format("{}: {}", a.path, compiled.error()));
  compile::close_search_log(options).value();
  return {*compiled->search, compiled->report(), options.tuning, compile::export_plan({&*compiled})};
}

SearchedProgram search_graph(const GraphArguments& a, const SearchOptions& search, bool strict) {
  ProgramGraph program(a);
  program.options.strict = strict;
  program.options.search = search;
  auto cache = compile::usual_tuning_cache(true);
  program.graph().compile(program.options, std::source_location()); // errors are about the file
  return {*program.graph().search_summary(), program.graph().report(), std::move(cache),
          export_plan(program.graph())};
}

} // namespace

SearchedProgram search_program(const GraphArguments& a, const SearchOptions& search, bool strict) {
  return a.terms() ? search_terms(a, search, strict) : search_graph(a, search, strict);
}

std::string about_program(const GraphArguments& a) {
  const auto whole = [](const std::string& path) {
    std::error_code error;
    const auto made = std::filesystem::absolute(path, error);
    return error ? path : made.string();
  };
  const auto all_whole = [&](const std::vector<std::string>& paths) {
    std::vector<std::string> made;
    for (const std::string& path : paths) made.push_back(whole(path));
    return made;
  };
  const RuleChoice rules = compile::whole_choice({});
  return json_text(Json{{"model", whole(a.path)},
                        {"threads", threads_of(a)},
                        {"sizes", a.sizes},
                        {"inputs", all_whole(a.inputs)},
                        {"context", a.context},
                        {"batch", a.chunk},
                        {"cache_type", a.cache_type},
                        {"activations", a.activations},
                        {"allow_custom", a.allow_custom},
                        {"rules", all_whole(rules.files)},
                        {"forbidden", rules.forbidden}},
                   -1);
}

GraphArguments program_about(const std::string& about, RuleChoice& rules) {
  try {
    const Json json = Json::parse(about);
    GraphArguments a;
    a.path = json.at("model").get<std::string>();
    a.threads = json.at("threads").get<int>();
    a.sizes = json.at("sizes").get<std::vector<std::string>>();
    a.inputs = json.at("inputs").get<std::vector<std::string>>();
    a.context = json.at("context").get<int64_t>();
    a.chunk = json.at("batch").get<int64_t>();
    a.cache_type = json.at("cache_type").get<std::string>();
    a.activations = json.at("activations").get<std::string>();
    a.allow_custom = json.at("allow_custom").get<bool>();
    rules.files = json.at("rules").get<std::vector<std::string>>();
    rules.forbidden = json.at("forbidden").get<std::vector<std::string>>();
    return a;
  } catch (const Json::exception&) {
    throw Error("its head does not say what was searched: a program wrote it, which can replay it "
                "(SearchOptions::log)");
  }
}

} // namespace luminal::cli
