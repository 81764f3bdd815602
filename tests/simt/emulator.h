// simt/emulator.h -- kernels as text of a language, compiled for the processor with simt.h and run in
// several orders of their threads.
#pragma once
#include "codegen/c_like/c_like.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <regex>
#include <string>
#include <unistd.h>
#include <vector>

namespace luminal::simt {

using Bytes = std::vector<std::byte>;

inline bool has_compiler() { return std::system("command -v c++ > /dev/null 2>&1") == 0; }

/// Several kernels in one program: compiling is what takes time.
class Emulator {
public:
  explicit Emulator(std::string language) : language_(std::move(language)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "luminal-simt-XXXXXX").string();
    folder_ = mkdtemp(pattern.data()) ? pattern : "";
  }
  Emulator(const Emulator&) = delete;
  ~Emulator() { std::filesystem::remove_all(folder_); }

  /// A kernel with its arguments; `change` is applied to its text: for planted mistakes. Its number.
  int add(const kernel::Kernel& kernel, std::vector<Bytes> arguments, std::vector<int64_t> symbols,
          int lanes = 64, int groups = 3, const std::function<std::string(std::string)>& change = {}) {
    const int number = int(cases_.size());
    auto emitted = codegen::emit_c_like(kernel, *codegen::find_dialect(language_),
                                        {.lanes = lanes, .entry = fmt::format("k{}", number)});
    if (!emitted) throw std::runtime_error(emitted.error());
    if (change) emitted->text = change(std::move(emitted->text));
    ExprMap<int64_t> bound;
    for (size_t i = 0; i < symbols.size(); ++i) bound[kernel.symbols[i]] = symbols[i];
    Bytes shared(size_t(evaluate(emitted->shared_bytes, bound).value()));
    cases_.push_back(
        {std::move(*emitted), std::move(arguments), std::move(symbols), std::move(shared), groups});
    return number;
  }

  /// Compiles and runs everything in these orders. What went wrong, empty: nothing.
  std::string run(const std::vector<int>& orders) {
    std::string source = fmt::format("#include <fstream>\n#include \"{}.h\"\n", language_), calls;
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Case& c = cases_[i];
      source += fmt::format("namespace case{} {{\nalignas(16) unsigned long lum_words[29056];\n{}}}\n", i,
                            checked(c.emitted));
      std::ofstream data(file(i, "in"), std::ios::binary);
      for (const Bytes& b : c.arguments) data.write(reinterpret_cast<const char*>(b.data()), long(b.size()));
      std::string arguments, sizes;
      for (size_t a = 0; a < c.arguments.size(); ++a) {
        arguments += fmt::format("{}simt::Argument{{p[{}]}}", a ? ", " : "", a);
        sizes += fmt::format("{}, ", c.arguments[a].size());
      }
      if (!c.emitted.shared_bytes.is_constant(0)) arguments += ", simt::Argument{shared}";
      for (const int64_t s : c.symbols) arguments += fmt::format(", {}l", s);
      if (language_ == "metal") {
        if (!c.emitted.group_bytes.is_constant(0)) arguments += fmt::format(", case{}::lum_words", i);
        arguments += ", simt::block->group, simt::block->groups, simt::block->current->number";
      }
      for (const int order : orders) {
        calls += fmt::format(
            "  {{ Data d(\"{}\", {{{}}}); auto p = d.addresses(); static unsigned char shared[{}];\n",
            file(i, "in"), sizes, c.shared.size() + 64);
        for (const std::string& phase : c.emitted.phases)
          calls += fmt::format(
              "    simt::launch({}, {}, {}, {}, case{}::lum_words, {}, [&] {{ case{}::{}({}); }});\n",
              c.emitted.one_group ? 1 : c.groups, c.emitted.lanes, language_ == "hip" ? 64 : 32, order, i,
              c.emitted.group_bytes.value(), i, phase, arguments);
        calls += fmt::format("    d.write(\"{}\"); }}\n", file(i, fmt::format("out{}", order)));
      }
    }
    source +=
        "struct Data {\n  std::vector<std::vector<char>> parts;\n  Data(const char* name, "
        "std::vector<size_t> sizes) {\n"
        "    std::ifstream in(name, std::ios::binary);\n    for (size_t n : sizes) { parts.emplace_back(n + "
        "128, char(0x5c)); in.read(parts.back().data() + 64, long(n)); }\n  }\n"
        "  std::vector<void*> addresses() { std::vector<void*> p; for (auto& b : parts) p.push_back(b.data() "
        "+ 64); return p; }\n"
        "  void write(const char* name) {\n    std::ofstream out(name, std::ios::binary);\n    for (auto& b "
        ": parts) {\n"
        "      for (int i = 0; i < 64; ++i) if (b[i] != 0x5c || b[b.size() - 1 - i] != 0x5c) { "
        "simt::found(\"outside: beside an argument\"); break; }\n"
        "      out.write(b.data() + 64, long(b.size() - 128));\n    }\n    std::ofstream(std::string(name) + "
        "\".findings\") << simt::findings;\n    simt::findings.clear();\n  }\n};\nint main() {\n" +
        calls + "}\n";
    std::ofstream(folder_ + "/kernels.cpp") << source;
    const std::string command =
        fmt::format("cd {0} && c++ -std=c++17 -O1 -w -ffp-contract=off -I{1} kernels.cpp -o kernels > log "
                    "2>&1 && timeout 120 ./kernels >> log 2>&1",
                    folder_, LUMINAL_SOURCE_DIR "/tests/simt");
    if (std::system(command.c_str()) == 0) return "";
    std::ifstream log(folder_ + "/log");
    return "the program fails: " + std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 3000);
  }

  std::vector<Bytes> results(int number, int order) const {
    std::ifstream in(file(size_t(number), fmt::format("out{}", order)), std::ios::binary);
    std::vector<Bytes> parts;
    for (const Bytes& b : cases_[size_t(number)].arguments) {
      parts.emplace_back(b.size());
      in.read(reinterpret_cast<char*>(parts.back().data()), long(b.size()));
    }
    return parts;
  }
  std::string findings(int number, int order) const {
    std::ifstream in(file(size_t(number), fmt::format("out{}", order)) + ".findings");
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  const std::string& text(int number) const { return cases_[size_t(number)].emitted.text; }

private:
  struct Case {
    codegen::CLikeKernel emitted;
    std::vector<Bytes> arguments;
    std::vector<int64_t> symbols;
    Bytes shared;
    int groups;
  };
  std::string file(size_t number, const std::string& ending) const {
    return fmt::format("{}/{}.{}", folder_, number, ending);
  }

  /// Pointers into the memory of a group become checked ones.
  static std::string checked(const codegen::CLikeKernel& emitted) {
    static const std::regex pointer(
        R"(  (?:threadgroup )?(\w+)\* (\w+) = \((?:threadgroup )?\w+\*\)\(\(\((?:threadgroup )?u8\*\)lum_words\) \+ (\d+)\);)");
    std::string whole = emitted.text;
    for (const std::string attribute = " [[threadgroup(0)]]"; whole.find(attribute) != std::string::npos;)
      whole.erase(whole.find(attribute), attribute.size()); // `threadgroup` is a macro here
    std::string text = std::regex_replace(
        whole, pointer, "  simt::Shared<$1> $2{(unsigned char*)lum_words, $3, simt_end($2, $3)};");
    // A buffer ends where the next one begins.
    std::vector<size_t> begins;
    static const std::regex begin(R"(simt_end\(\w+, (\d+)\))");
    for (std::sregex_iterator it(text.begin(), text.end(), begin), end; it != end; ++it)
      begins.push_back(size_t(std::stoul((*it)[1])));
    begins.push_back(size_t(emitted.group_bytes.value()));
    std::sort(begins.begin(), begins.end());
    std::string out;
    std::smatch found;
    while (std::regex_search(text, found, begin)) {
      const size_t from = std::stoul(found[1]);
      out +=
          found.prefix().str() + std::to_string(*std::upper_bound(begins.begin(), begins.end(), from) - from);
      text = found.suffix();
    }
    return out + text;
  }

  std::string language_, folder_;
  std::vector<Case> cases_;
};

} // namespace luminal::simt
