// cli/common.h -- what the verbs share: results on stdout, everything else on stderr.
#pragma once
#include "luminal/error.h"
#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace luminal::cli {

using Json = nlohmann::ordered_json;
/// `indent` -1: one line. What is not UTF-8 in a name or a text is replaced by U+FFFD.
inline std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Exit codes, as `luminal --help` states them.
enum ExitCode : int { ok = 0, failed = 1, usage = 2, interrupted = 130 };

/// The program was called in a wrong way: exit code `usage`.
class UsageError : public Error {
public:
  explicit UsageError(const std::string& text) : Error(text) {}
};

/// One file a verb: adds its subcommand; the callback sets `exit_code`.
void add_run(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_devices(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_egg(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_replay(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_train(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_opt(CLI::App& app, int& exit_code);
void add_rules(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_help(CLI::App& app, int& exit_code);
int run_demo();

/// "512M", "8G", "1.5GiB", "4096": bytes. Throws UsageError naming the text.
int64_t parse_bytes(const std::string& text);
std::string show_bytes(int64_t bytes); // "1.50 GiB"
/// --allow-custom, of verbs that run modules in text form: see ir/trust.h.
void add_allow_custom(CLI::App& verb, bool& allowed);
/// Memory that the system could give now; 0: not known.
int64_t available_memory();
/// What an option takes; the messages are ours. (CLI::Range lets NaN pass.)
CLI::Validator between(double low, double high); ///< a number
CLI::Validator whole(int64_t low, int64_t high); ///< a whole number
CLI::Validator one_of(std::vector<std::string> words);
CLI::Validator memory_amount(); ///< what parse_bytes reads
/// Throws UsageError for the first of these options that was given: they would be ignored.
void refuse_options(const CLI::App& verb, const std::vector<std::string>& names, const std::string& why);
/// NAME=SIZE of --size: {"n", 128}. Throws UsageError.
std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts);
/// A file's text; of "-" all of standard input. Throws Error.
std::string read_text(const std::string& path);

/// Options of llama.cpp that `verb` does not have, each with what to do instead: to use one is a
/// mistake that says so.
void name_llama_cpp_options(CLI::App& verb);
/// argv without the name of the program, CLI11's order (last one first). Words such as -ngl, which
/// CLI11 would read as -n gl, become their long spelling.
std::vector<std::string> spelled_out(int argc, const char* const* argv);
/// Peak resident memory of the process, in bytes.
int64_t peak_memory();
bool stderr_is_terminal();
/// Lines for a terminal: control characters as \xHH. Names of files, and what is in them, may hold
/// what a terminal obeys.
std::string shown_lines(std::string_view text);
bool colour();        // of stderr: a terminal, and NO_COLOR is not set
bool stdout_colour(); // the same of stdout

/// A line on stderr that is rewritten on a terminal and printed once, at the end, elsewhere.
class Progress {
public:
  explicit Progress(std::string title);
  ~Progress();
  void update(double fraction, const std::string& detail); // 0..1
  void done(const std::string& detail);

private:
  std::string title_;
  bool finished_ = false, shown_ = false;
};

/// Ctrl-C asks to stop from now on; the second one ends the program.
void catch_interrupts();
bool interrupt_requested();
/// Ctrl-C ends the program at once with the exit code of an interruption: while there is nothing to
/// round off.
void end_on_interrupt();

} // namespace luminal::cli
