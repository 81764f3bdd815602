// cli/common.h -- what the verbs share: results on stdout, everything else on stderr.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace luminal::cli {

using Json = nlohmann::ordered_json;

/// Exit codes, as `luminal --help` states them.
enum ExitCode : int { ok = 0, failed = 1, usage = 2, interrupted = 130 };

/// One file a verb: adds its subcommand; the callback sets `exit_code`.
void add_run(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_devices(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_egg(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_cache(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_help(CLI::App& app, int& exit_code);
int run_demo();

/// "512M", "8G", "1.5GiB", "4096": bytes. Throws Error naming the text.
int64_t parse_bytes(const std::string& text);
std::string show_bytes(int64_t bytes); // "1.50 GiB"
/// A number within bounds. (CLI::Range lets NaN pass.)
CLI::Validator between(double low, double high);
/// Peak resident memory of the process, in bytes.
int64_t peak_memory();
bool stderr_is_terminal();
bool colour(); // of stderr: a terminal, and NO_COLOR is not set

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

/// Ctrl-C asks to stop; the second one ends the program.
void catch_interrupts();
bool interrupt_requested();
/// Ctrl-C ends the program at once with the exit code of an interruption: for verbs with nothing to round off.
void end_on_interrupt();

} // namespace luminal::cli
