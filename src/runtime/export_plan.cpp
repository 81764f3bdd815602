// runtime/export_plan.cpp -- the tables of a plan as C, its weights as a file.
#include "runtime/export_plan.h"
#include "base/check.h"
#include "base/embedded.h"
#include "base/file.h"
#include "base/hash.h"
#include "ir/access.h"
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fmt/format.h>
#include <set>

LUMINAL_EMBEDDED(exported_runtime)

namespace luminal::runtime {
namespace {

constexpr std::string_view entry_name = "luminal_kernel";

struct Refused {
  std::string text;
};
template <class... Args> [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw Refused{fmt::format(text, std::forward<Args>(args)...)};
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 32 || c == '?') // no trigraphs
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    else
      out += c;
  return out + "\"";
}

/// Names of values as C identifiers, each once.
class Identifiers {
public:
  std::string make(std::string_view name) {
    std::string word;
    for (char c : name) word += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    std::string unique = word;
    for (int n = 2; !taken_.insert(unique).second; n++) unique = fmt::format("{}_{}", word, n);
    return unique;
  }

private:
  std::set<std::string> taken_;
};

class Exporter {
public:
  Exporter(const Plan& plan, const ExportOptions& options) : plan_(plan), options_(options) {}

  ExportedFiles run() {
    if (!is_identifier(options_.name))
      refuse("\"{}\" is not a C identifier; it becomes the beginning of all names (--name)", options_.name);
    for (const PlanResult& result : plan_.results) { // a state's new value is in the state
      if (plan_.slots[result.slot].kind == SlotKind::state) continue;
      const auto other = options_.output_names.find(result.name);
      results_.push_back({other == options_.output_names.end() ? result.name : other->second, result.slot});
    }
    dims_ = plan_.symbols;
    find_counters(plan_.steps);
    find_counters(plan_.load_steps);
    std::erase_if(dims_, [&](Expr s) { return counters_.contains(s); });
    order_ = dims_; // dimensions first
    for (Expr symbol : plan_.symbols)
      if (counters_.contains(symbol)) order_.push_back(symbol);
    for (size_t i = 0; i < order_.size(); i++) position_[order_[i]] = int(i);
    place_file();
    write_slots();
    write_kernels();
    load_first_ = write_steps(plan_.load_steps);
    run_first_ = write_steps(plan_.steps);
    const int assumptions = int(sizes_.size());
    for (Expr assumption : plan_.assumptions) size(assumption);
    return save(assumptions);
  }

private:
  static bool is_identifier(std::string_view name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
    return std::ranges::all_of(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  }

  void find_counters(const Steps& steps) {
    for_each_step(steps, [&](const Step& step) {
      if (const HostCall* call = step.as<HostCall>())
        refuse("the program calls the host ({}), which an export cannot do", call->function.kind);
      if (const Loop* loop = step.as<Loop>()) counters_[loop->counter] = true;
    });
  }

  /// The index of an expression's value among the sizes.
  int size(Expr e) {
    check_divisors(e);
    sizes_.push_back(to_c(
        e, {.name_of = [&](Expr s) { return fmt::format("s[{}]", position_.at(s)); }, .type = "int64_t"}));
    return int(sizes_.size()) - 1;
  }
  void check_divisors(Expr e) {
    if (e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod)
      if (e.args()[1].range().contains(0))
        refuse("the size {} may divide by zero, which an export cannot tell at run time", to_string(e));
    for (Expr arg : e.args()) check_divisors(arg);
  }

  /// Where weights and constants lie in the weights file.
  void place_file() {
    Hasher hash;
    hash.add("luminal export 1").add(options_.name);
    int64_t at = 64;
    offsets_.assign(plan_.slots.size(), -1);
    bytes_.resize(plan_.slots.size());
    for (const SlotId i : plan_.slots.ids()) {
      const Slot& slot = plan_.slots[i];
      if (slot.kind == SlotKind::constant) {
        bytes_[i] = *slot.data;
      } else if (slot.kind == SlotKind::weight && slot.used) {
        auto bytes = options_.weight(slot);
        if (!bytes) refuse("{}", bytes.error());
        if (int64_t(bytes->size()) < slot.max_bytes)
          refuse("weight {} is {}, {} bytes; {} were given", slot.name, to_string(slot.type), slot.max_bytes,
                 bytes->size());
        bytes_[i] = bytes->first(size_t(slot.max_bytes));
      } else {
        continue;
      }
      offsets_[i] = at;
      hash.add(slot.name).add(at).add(int64_t(bytes_[i].size()));
      // A part of the content: files of equally shaped models are told from each other.
      const size_t some = std::min<size_t>(bytes_[i].size(), 4096);
      hash.add(std::string_view(reinterpret_cast<const char*>(bytes_[i].data()), some));
      at += (int64_t(bytes_[i].size()) + 63) / 64 * 64;
    }
    file_bytes_ = at;
    file_hash_ = hash.value64();
  }

  void write_slots() {
    for (const SlotId i : plan_.slots.ids()) {
      const Slot& slot = plan_.slots[i];
      const char* kind = nullptr;
      int64_t offset = 0;
      switch (slot.kind) {
      case SlotKind::argument:
        kind = "ARGUMENT";
        inputs_.push_back(i);
        break;
      case SlotKind::state:
        kind = "STATE";
        states_.push_back(i);
        break;
      case SlotKind::weight:
      case SlotKind::constant:
        kind = "FILE";
        offset = offsets_[i];
        break;
      case SlotKind::loaded: kind = "LOADED"; break;
      case SlotKind::arena:
        kind = "ARENA";
        offset = slot.offset;
        break;
      }
      int first = int(sizes_.size());
      for (Expr extent : slot.type.shape) size(extent);
      size(slot.bytes);
      slots_ += fmt::format("  {{{}, LUMINAL_SLOT_{}, {}, {}, {}, {}, {}}},\n", quoted(slot.name), kind,
                            int(slot.type.dtype), slot.type.shape.size(), first, offset, slot.max_bytes);
    }
  }

  void write_kernels() {
    uint64_t name_hash = Hasher().add(options_.name).add(file_hash_).value64();
    for (const CodeId k : plan_.kernels.ids()) {
      const KernelCode& kernel = plan_.kernels[k];
      const int first = int(kernel_symbols_.size());
      for (Expr symbol : kernel.symbols) kernel_symbols_.push_back(position_.at(symbol));
      // The length of the entry's usual name, so that it can take its place in the object.
      const std::string symbol = fmt::format("k{:04}_{:08x}", k, uint32_t(name_hash));
      LUMINAL_CHECK(kernel.entry == entry_name && symbol.size() == entry_name.size(), "entry {}",
                    kernel.entry);
      auto object = rename_symbol(*kernel.object, kernel.entry, symbol);
      if (!object) refuse("{}", object.error());
      objects_.push_back(std::move(*object));
      symbols_.push_back(symbol);
      kernels_ += fmt::format("  {{{}, {}, {}, {}, {}, {}}}, // {}\n", symbol, first, kernel.symbols.size(),
                              size(kernel.points), cap_count_, kernel.caps.size(), kernel.name);
      for (const WorkerCap& cap : kernel.caps)
        caps_ += fmt::format("  {{{}, {}}},\n", integer(cap.points), cap.workers);
      cap_count_ += kernel.caps.size();
      const Interval shared = kernel.shared_bytes.range(), local = kernel.local_bytes.range();
      if (!shared.is_bounded() || !local.is_bounded())
        refuse("scratch of kernel {} has no bound", kernel.name);
      shared_bytes_ = std::max(shared_bytes_, shared.high);
      local_bytes_ = std::max(local_bytes_, local.high);
      most_symbols_ = std::max(most_symbols_, kernel.symbols.size());
    }
  }

  /// Steps of one sequence stand one after the other, behind those that are inside them. Gives the
  /// first one's index.
  int write_steps(const Steps& steps) {
    std::vector<std::string> rows;
    for (const Step& step : steps) {
      StepRow row = row_of(step);
      std::string parts;
      for (const Steps* part : row.bodies) parts += fmt::format("{}, {}, ", write_steps(*part), part->size());
      rows.push_back(fmt::format("{{LUMINAL_STEP_{}, {}, {}, {}, {}{}, {}, {}, {}, {}, {}, {}, {}, {}}}",
                                 row.kind, row.kernel, step_slots_.size(), row.slots.size(), parts, row.count,
                                 row.counter, row.condition, row.taken, row.limit, row.enough,
                                 integer(row.range.low), integer(row.range.high), quoted(row.text)));
      step_slots_.insert(step_slots_.end(), row.slots.begin(), row.slots.end());
      most_buffers_ = std::max(most_buffers_, row.slots.size());
    }
    const int first = step_count_;
    for (const std::string& row : rows) steps_ += "  " + row + ",\n";
    step_count_ += int(rows.size());
    return first;
  }

  /// A step as the table in C has it: a column for each field of each kind.
  struct StepRow {
    std::string_view kind;
    CodeId kernel = {};
    std::vector<SlotId> slots = {};
    std::array<const Steps*, 2> bodies = {&no_steps, &no_steps};
    int count = 0, counter = 0; // of a loop: among the sizes, among the symbols
    SlotId condition = {}, taken = {};
    int limit = -1, enough = -1; // among the sizes
    Interval range = {};
    std::string_view text = {};
    static inline const Steps no_steps;
  };
  StepRow row_of(const Step& step) {
    const auto sized = [&](Expr e) { return size(e); };
    return visit(
        step, [](const Launch& s) { return StepRow{.kind = "LAUNCH", .kernel = s.kernel, .slots = s.slots}; },
        [](const Copy& s) { return StepRow{.kind = "COPY", .slots = {s.to, s.from}}; },
        [](const Zero& s) { return StepRow{.kind = "ZERO", .slots = {s.slot}}; },
        [&](const RangeCheck& s) {
          return StepRow{.kind = "CHECK",
                         .slots = {s.slot},
                         .limit = s.limit.is_constant(0) ? -1 : sized(s.limit),
                         .range = s.range,
                         .text = s.text};
        },
        [&](const AccessCheck& s) {
          StepRow row{.kind = "CHECK", .bodies = {&s.body, &StepRow::no_steps}, .enough = enough(s)};
          row.text = s.text;
          if (s.violation) row.slots = {s.violation}, row.range = {0, 0};
          return row;
        },
        [&](const Loop& s) {
          return StepRow{.kind = "LOOP",
                         .bodies = {&s.body, &s.test},
                         .count = sized(s.count),
                         .counter = position_.at(s.counter),
                         .condition = s.condition,
                         .taken = s.taken};
        },
        [](const Cond& s) {
          return StepRow{.kind = "COND", .slots = {s.condition}, .bodies = {&s.then, &s.otherwise}};
        },
        [](const HostCall&) -> StepRow { LUMINAL_CHECK(false, "find_counters refuses them"); });
  }

  /// The index of a check's condition among the sizes.
  int enough(const AccessCheck& check) {
    const Expr condition = plan_.conditions[check.enough];
    if (!always_computable(condition))
      refuse("{}: whether {} cannot be computed in 64 bits by an export", check.text, to_string(condition));
    return size(condition);
  }
  static std::string integer(int64_t value) {
    return value == INT64_MIN ? "INT64_MIN" : fmt::format("INT64_C({})", value);
  }
  template <class List> static std::string numbers(const List& list) {
    std::string out;
    for (size_t i = 0; i < list.size(); i++)
      out += fmt::format("{}{}", i ? (i % 20 ? ", " : ",\n  ") : "", list[i]);
    return out.empty() ? "0" : out; // C has no empty arrays
  }

  std::string header() const {
    const std::string& name = options_.name;
    std::string guard;
    for (char c : name) guard += char(std::toupper(static_cast<unsigned char>(c)));
    std::string out = fmt::format("// {0}.h -- {0}, compiled ahead of time by Luminal for {1}. Numbers for "
                                  "the functions of luminal_runtime.h.\n"
                                  "#ifndef LUMINAL_EXPORT_{2}_H\n#define LUMINAL_EXPORT_{2}_H\n#include "
                                  "\"luminal_runtime.h\"\n#ifdef __cplusplus\n"
                                  "extern \"C\" {{\n#endif\n\n",
                                  name, options_.target, guard);
    auto list = [&](const char* what, const char* kind,
                    const std::vector<std::pair<std::string, std::string>>& rows) {
      if (rows.empty()) return;
      Identifiers identifiers;
      out += fmt::format("// {}\nenum {{\n", what);
      for (size_t i = 0; i < rows.size(); i++)
        out += fmt::format("  {}_{}_{} = {}, // {}\n", name, kind, identifiers.make(rows[i].first), i,
                           rows[i].second);
      out += "};\n";
    };
    std::vector<std::pair<std::string, std::string>> dims, inputs, outputs, states;
    for (Expr dim : dims_)
      dims.emplace_back(dim.name(), fmt::format("{}..{}", dim.range().low, dim.range().high));
    auto slot_row = [&](SlotId slot) {
      return std::pair(plan_.slots[slot].name, to_string(plan_.slots[slot].type));
    };
    for (SlotId slot : inputs_) inputs.push_back(slot_row(slot));
    for (SlotId slot : states_) states.push_back(slot_row(slot));
    for (const PlanResult& result : results_)
      outputs.emplace_back(result.name, to_string(plan_.slots[result.slot].type));
    list("Dimensions.", "dim", dims);
    list("Inputs.", "input", inputs);
    list("Outputs.", "output", outputs);
    list("States: zero at first, kept from run to run.", "state", states);
    return out +
           fmt::format(
               "\n// weights: the path of {0}.weights. message: gets a text where it fails; may be NULL.\n"
               "luminal_error {0}_open(const char* weights, int threads, luminal_model** model, char* "
               "message, "
               "size_t message_bytes);\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n",
               name);
  }

  std::string missing_instructions() const {
    std::string x86, arm, includes, out = "static const char* missing_instructions(void) {\n";
    constexpr std::string_view width = "SVE_BITS ";
    for (const std::string& word : options_.instructions)
      if (word.starts_with(width)) {
        includes += "#include <sys/prctl.h>\n";
        arm += fmt::format(
            "  if ((prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK) * 8 != {0}) return \"SVE of {0} bits\";\n",
            word.substr(width.size()));
      } else if (word.starts_with("HWCAP"))
        arm += fmt::format("  if (!(getauxval({}) & {})) return {};\n",
                           word.starts_with("HWCAP2") ? "AT_HWCAP2" : "AT_HWCAP", word,
                           quoted(word.substr(word.find('_') + 1)));
      else
        x86 += fmt::format("  if (!__builtin_cpu_supports({0})) return {0};\n", quoted(word));
    if (!x86.empty()) out += "  __builtin_cpu_init();\n" + x86;
    if (!arm.empty()) includes += "#include <sys/auxv.h>\n";
    return includes + out + arm + "  return NULL;\n}\n\n";
  }

  std::string source(int assumptions) const {
    const std::string& name = options_.name;
    std::string out = fmt::format("// {0}.c -- the plan of {0}; see {0}.h.\n#include \"{0}.h\"\n", name);
    out += missing_instructions();
    for (const std::string& symbol : symbols_)
      out += fmt::format(
          "void {}(void* const*, const int64_t*, char*, char*, int64_t, int64_t, void*, void (*)(void*));\n",
          symbol);
    out += "\nstatic const luminal_plan_symbol symbols[] = {\n";
    for (Expr symbol : order_)
      out += fmt::format("  {{{}, {}, {}, {}}},\n", quoted(symbol.name()), integer(symbol.range().low),
                         integer(symbol.range().high), std::max<int64_t>(1, symbol.multiple()));
    out += fmt::format("  {{\"\", 0, 0, 1}}}};\nstatic const luminal_plan_slot slots[] = {{\n{}  {{\"\", 0, "
                       "0, 0, 0, 0, 0}}}};\n",
                       slots_);
    out += fmt::format("static const luminal_plan_cap caps[] = {{\n{}  {{0, 0}}}};\n", caps_);
    out += fmt::format("static const luminal_plan_kernel kernels[] = {{\n{}  {{0, 0, 0, 0, 0, 0}}}};\n",
                       kernels_);
    out += fmt::format("static const int kernel_symbols[] = {{\n  {}}};\n", numbers(kernel_symbols_));
    out += fmt::format("static const luminal_plan_step steps[] = {{\n{}  {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
                       "0, 0, 0, 0, 0, \"\"}}}};\n",
                       steps_);
    out += fmt::format("static const int step_slots[] = {{\n  {}}};\n", numbers(step_slots_));
    std::vector<SlotId> outputs;
    std::string output_names, assumption_texts;
    for (const PlanResult& result : results_) {
      outputs.push_back(result.slot);
      output_names += quoted(result.name) + ", ";
    }
    for (Expr assumption : plan_.assumptions) assumption_texts += quoted(to_string(assumption)) + ", ";
    out += fmt::format("static const int inputs[] = {{{}}};\nstatic const int outputs[] = {{{}}};\nstatic "
                       "const int states[] = {{{}}};\n",
                       numbers(inputs_), numbers(outputs), numbers(states_));
    out += fmt::format("static const char* const output_names[] = {{{}0}};\nstatic const char* const "
                       "assumption_texts[] = {{{}0}};\n\n",
                       output_names, assumption_texts);
    out += "static void sizes(const int64_t* s, int64_t* size) {\n  (void)s;\n";
    for (size_t i = 0; i < sizes_.size(); i++) out += fmt::format("  size[{}] = {};\n", i, sizes_[i]);
    // As Context does it: scratch of a launch, of each worker; workers' blocks do not meet in one
    // cache set.
    const int64_t shared = (shared_bytes_ + 127) / 64 * 64,
                  stride = ((local_bytes_ + 127) / 64 * 64 + 3 * 64 + 63) / 64 * 64;
    out += "}\n\nstatic const luminal_plan plan = {\n";
    auto field = [&](const char* field_name, const std::string& value) {
      out += fmt::format("  .{} = {},\n", field_name, value);
    };
    auto number = [&](const char* field_name, int64_t value) { field(field_name, fmt::format("{}", value)); };
    field("name", quoted(name));
    field("file_hash", fmt::format("UINT64_C(0x{:016x})", file_hash_));
    number("file_bytes", file_bytes_);
    number("dims", int64_t(dims_.size()));
    number("symbol_count", int64_t(order_.size()));
    number("slot_count", int64_t(plan_.slots.size()));
    number("kernel_count", int64_t(plan_.kernels.size()));
    number("input_count", int64_t(inputs_.size()));
    number("output_count", int64_t(results_.size()));
    number("state_count", int64_t(states_.size()));
    number("size_count", int64_t(sizes_.size()));
    number("assumption_count", int64_t(plan_.assumptions.size()));
    for (const char* table : {"symbols", "slots", "kernels", "caps", "kernel_symbols", "steps", "step_slots",
                              "inputs", "outputs", "output_names", "states", "sizes", "assumption_texts"})
      field(table, table);
    number("load_steps", load_first_);
    number("load_step_count", int64_t(plan_.load_steps.size()));
    number("run_steps", run_first_);
    number("run_step_count", int64_t(plan_.steps.size()));
    number("assumptions", assumptions);
    number("arena_bytes", plan_.arena_bytes);
    number("load_arena_bytes", plan_.load_arena_bytes);
    number("shared_bytes", shared);
    number("local_stride", stride);
    number("most_buffers", int64_t(most_buffers_));
    number("most_symbols", int64_t(most_symbols_));
    field("missing_instructions", "missing_instructions");
    return out +
           fmt::format(
               "}};\n\nluminal_error {}_open(const char* weights, int threads, luminal_model** model, char* "
               "message,\n    size_t message_bytes) {{\n  return luminal_open(&plan, weights, threads, "
               "model, message, message_bytes);\n}}\n",
               name);
  }

  void write(const std::string& path, std::span<const std::span<const std::byte>> parts) const {
    if (auto done = make_folder_of(path); !done) refuse("{}", done.error()); // --out is made
    if (auto done = write_file(path, parts); !done) refuse("{}", done.error());
  }
  void write(const std::string& path, std::string_view text) const {
    write(path, std::array{std::as_bytes(std::span<const char>(text.data(), text.size()))});
  }

  ExportedFiles save(int assumptions) {
    const std::string base = options_.folder + "/" + options_.name;
    ExportedFiles files{base + ".h",
                        base + ".c",
                        options_.folder + "/lib" + options_.name + "_kernels.a",
                        base + ".weights",
                        {},
                        file_bytes_,
                        0};
    std::vector<std::byte> head(64);
    std::memcpy(head.data(), "LUMWGT1\n", 8);
    std::memcpy(head.data() + 8, &file_hash_, 8);
    std::memcpy(head.data() + 16, &file_bytes_, 8);
    static constexpr std::byte zeros[64] = {};
    std::vector<std::span<const std::byte>> parts{head};
    for (const SlotId i : plan_.slots.ids()) {
      if (offsets_[i] < 0) continue;
      parts.push_back(bytes_[i]);
      parts.push_back(std::span(zeros).first((64 - bytes_[i].size() % 64) % 64));
    }
    write(files.weights, parts);
    std::vector<ArchiveMember> members;
    for (size_t k = 0; k < objects_.size(); k++) {
      members.push_back({symbols_[k] + ".o", symbols_[k], objects_[k]});
      files.code_bytes += int64_t(objects_[k].size());
    }
    const std::vector<std::byte> library = static_library(members);
    const std::span<const std::byte> whole(library);
    write(files.library, std::span(&whole, 1));
    write(files.header, header());
    write(files.source, source(assumptions));
    for (const EmbeddedFile& file : embedded::exported_runtime()) {
      files.runtime.push_back(options_.folder + "/" + std::string(file.name));
      write(files.runtime.back(), file.content);
    }
    return files;
  }

  const Plan& plan_;
  const ExportOptions& options_;
  std::vector<Expr> dims_, order_;
  std::vector<PlanResult> results_; // outputs
  ExprMap<bool> counters_;
  ExprMap<int> position_;             // in order_
  IdVector<SlotId, int64_t> offsets_; // in the file
  IdVector<SlotId, std::span<const std::byte>> bytes_;
  int64_t file_bytes_ = 0, shared_bytes_ = 0, local_bytes_ = 0;
  uint64_t file_hash_ = 0;
  std::vector<std::string> sizes_, symbols_;
  std::vector<std::vector<std::byte>> objects_;
  std::vector<SlotId> inputs_, states_, step_slots_;
  std::vector<int> kernel_symbols_;
  std::string slots_, kernels_, caps_, steps_;
  size_t most_buffers_ = 1, most_symbols_ = 1, cap_count_ = 0;
  int step_count_ = 0, load_first_ = 0, run_first_ = 0;
};

} // namespace

Result<ExportedFiles> export_plan(const Plan& plan, const ExportOptions& options) {
  try {
    return Exporter(plan, options).run();
  } catch (const Refused& refused) {
    return Failure{refused.text};
  }
}

} // namespace luminal::runtime
