// cli/options.cpp -- what options take, with messages of our own; spellings of llama.cpp.
#include "base/file.h"
#include "base/text.h"
#include "cli/common.h"
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <unistd.h>

namespace luminal::cli {
namespace {

std::string expected(const std::string& what, const std::string& text) {
  return fmt::format("{} is expected, not {}", what, text.empty() ? "nothing" : printable(text));
}

/// Options of llama.cpp with what this program does about the same wish.
struct Foreign {
  const char* names; // as CLI11 takes them; words with one dash are spelled out before
  bool takes_value;
  const char* advice;
};
constexpr Foreign foreign_options[] = {
    {"--gpu-layers,--n-gpu-layers", true, "all layers run on one device: --device names it"},
    {"--interactive,--conversation,--interactive-first", false,
     "there is no conversation here, one prompt is continued: luminal chat MODEL holds one"},
    {"--chat-template,--system-prompt", true,
     "templates are not applied here: luminal chat MODEL applies them"},
    {"--jinja", false, "templates are not applied here: luminal chat MODEL applies them"},
    {"--flash-attn", false, "attention never stores its scores; leave the option out"},
    {"--mlock,--no-mmap", false,
     "files are mapped, and weights that are repacked are in memory; leave it out"},
    {"--cache-type-k,--cache-type-v", true, "--cache-type f16 is the type of keys and values"},
    {"--threads-batch", true, "--threads is for prompt and generation"},
    {"--ubatch-size", true, "--batch is the most prompt tokens in one step"},
    {"--keep", true, "a full context ends the text; --ctx makes it larger"},
    {"--mirostat,--typical,--tfs,--xtc-probability,--dry-multiplier,--logit-bias", true,
     "this way of sampling is not there; --temp, --top-k, --top-p, --min-p and penalties are"},
    {"--lora,--model-draft,--rope-freq-base,--rope-freq-scale,--split-mode,--tensor-split,--main-gpu", true,
     "not supported"},
    {"--hf-repo,--hf-file,--model-url", true, "nothing is downloaded; give a file or a folder"},
};

/// One dash, several letters: the long spelling of each.
constexpr std::pair<std::string_view, std::string_view> short_words[] = {
    {"-ngl", "--gpu-layers"},       {"-i", "--interactive"},    {"-cnv", "--conversation"},
    {"-if", "--interactive-first"}, {"-fa", "--flash-attn"},    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},     {"-tb", "--threads-batch"}, {"-ub", "--ubatch-size"},
    {"-sys", "--system-prompt"},    {"-sm", "--split-mode"},    {"-ts", "--tensor-split"},
    {"-mg", "--main-gpu"},          {"-md", "--model-draft"},   {"-hf", "--hf-repo"},
    {"-hff", "--hf-file"},          {"-mu", "--model-url"},     {"-jf", "--json-schema-file"},
    {"-no-cnv", "--single"},        {"-st", "--single"},
};

} // namespace

CLI::Validator between(double low, double high) {
  return CLI::Validator(
      [=](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool number = end != text.c_str() && *end == 0;
        return number && value >= low && value <= high
                   ? std::string()
                   : expected(fmt::format("a number from {} to {}", low, high), text);
      },
      "");
}

CLI::Validator whole(int64_t low, int64_t high) {
  return CLI::Validator(
      [=](const std::string& text) {
        char* end = nullptr;
        errno = 0;
        const long long value = std::strtoll(text.c_str(), &end, 10);
        const bool number = end != text.c_str() && *end == 0 && errno == 0;
        return number && value >= low && value <= high
                   ? std::string()
                   : expected(fmt::format("a whole number from {} to {}", low, high), text);
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](const std::string& text) {
        for (const std::string& word : words)
          if (word == text) return std::string();
        return expected(join(words, ", "), text);
      },
      "");
}

CLI::Validator memory_amount() {
  return CLI::Validator(
      [](const std::string& text) {
        try {
          (void)parse_bytes(text);
        } catch (const UsageError& mistake) {
          return std::string(mistake.what());
        }
        return std::string();
      },
      "");
}

void refuse_options(const CLI::App& verb, const std::vector<std::string>& names, const std::string& why) {
  for (const std::string& name : names)
    if (verb.get_option(name)->count() > 0) throw UsageError(fmt::format("{}: {}", name, why));
}

std::map<std::string, int64_t> parse_sizes(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> sizes;
  for (const std::string& text : texts) {
    const size_t cut = text.find('=');
    const std::string number = cut == std::string::npos ? "" : text.substr(cut + 1);
    char* end = nullptr;
    errno = 0;
    const int64_t value = std::strtoll(number.c_str(), &end, 10);
    if (cut == 0 || number.empty() || *end || errno)
      throw UsageError(fmt::format("--size {}: NAME=SIZE is expected, such as --size n=128", text));
    if (!sizes.emplace(text.substr(0, cut), value).second)
      throw UsageError(fmt::format("--size {}: {} has a size already", text, text.substr(0, cut)));
  }
  return sizes;
}

std::string read_text(const std::string& path) {
  if (path != "-") {
    Result<std::string> text = read_file(path);
    if (!text.ok()) throw Error(text.error());
    return std::move(*text);
  }
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, part, sizeof part);
    if (count < 0 && errno == EINTR && interrupt_requested()) _exit(interrupted); // nothing was begun
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(fmt::format("standard input cannot be read: {}", std::strerror(errno)));
    if (count == 0) return text;
    text.append(part, size_t(count));
  }
}

void name_llama_cpp_options(CLI::App& verb) {
  for (const Foreign& option : foreign_options) {
    for (const std::string_view name : split(option.names, ',')) {
      const std::string spelling(name);
      if (verb.get_option_no_throw(spelling)) continue;
      const auto refuse = [spelling, &option] {
        throw UsageError(fmt::format("{}: {}", spelling, option.advice));
      };
      if (option.takes_value)
        verb.add_option_function<std::string>(spelling, [refuse](const std::string&) { refuse(); })
            ->group("");
      else
        verb.add_flag_callback(spelling, refuse)->group("");
    }
  }
  // Of a program that converses these say to do what this one does anyway.
  verb.add_flag("--single,--no-conversation,--single-turn")->group("");
}

std::vector<std::string> spelled_out(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool generates = !words.empty() && words[0] == "run";
  for (size_t i = 1; generates && i < words.size() && words[i] != "--"; i++)
    for (const auto& [word, spelling] : short_words)
      if (words[i] == word) {
        words[i] = spelling;
        break;
      }
  return {words.rbegin(), words.rend()};
}

} // namespace luminal::cli
