// rules/region_program.cpp -- the head of a region's program, its terms, rules and schedule.
#include "rules/region_program.h"
#include "base/text.h"
#include "egraph/types.h"
#include "luminal/error.h"
#include "rules/rule_book.h"
#include "rules/saturate.h"
#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::rules {
namespace {

constexpr std::string_view first_line = "; A region of terms", text_mark = ";| ", note_mark = ";- ";

/// What is known of a region beside its terms, by node of its function.
struct Head {
  Module module;
  egraph::NumericClass numeric = egraph::NumericClass::range;
  std::vector<uint32_t> roots, kinds, fixed;
};

/// The module as its text has it: nodes have the numbers that the parser gives them.
Head head_of(const RegionTerms& terms, const Entered& entered) {
  const Function& f = entered.flat->function;
  Module named{entered.flat->module.symbols, entered.flat->module.assumptions, {f}};
  for (NodeId id : f.nodes.ids()) {
    Node& node = named.functions[0].nodes[id];
    node.axis_names.clear();
    node.name = fmt::format("n{}", id);
  }
  Head out;
  out.numeric = terms.options().numeric;
  try {
    out.module = parse_module(to_string(named));
  } catch (const Error& error) {
    throw Error(fmt::format("the region alone is not a program: {}", error.what()));
  }
  const Function& read = out.module.entry();
  IdVector<NodeId, NodeId> number(f.nodes.size());
  for (NodeId id : read.nodes.ids()) {
    const auto from = NodeId(std::stoul(read[id].name.substr(1)));
    number[from] = id;
    out.kinds.push_back(uint32_t(entered.flat->kinds[from]));
    out.fixed.push_back(entered.flat->fixed[from]);
  }
  for (const NodeId root : entered.roots) out.roots.push_back(uint32_t(number[root].index()));
  return out;
}

std::string text_of(const Head& head) {
  std::string out =
      fmt::format("{}. `luminal egg` runs this program to the e-graph that its search makes.\n", first_line);
  const std::string terms = to_string(head.module);
  for (const std::string_view line : split(terms, '\n'))
    if (!line.empty()) out += fmt::format("{}{}\n", text_mark, line);
  out += fmt::format("{}class {}\n", note_mark, to_string(head.numeric));
  const std::pair<const char*, const std::vector<uint32_t>*> lists[] = {
      {"roots", &head.roots}, {"kinds", &head.kinds}, {"fixed", &head.fixed}};
  for (const auto& [name, list] : lists)
    out += fmt::format("{}{} {}\n", note_mark, name, fmt::join(*list, " "));
  return out;
}

std::vector<uint32_t> numbers_of(std::string_view line, size_t count, size_t most, std::string_view what) {
  std::vector<uint32_t> out;
  for (const std::string_view word : split(line, ' ')) {
    uint32_t n = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
    if (error != std::errc() || end != word.data() + word.size() || n >= most)
      throw Error(fmt::format("the head of a region's program: {} '{}' is not a number below {}", what,
                              printable(word), most));
    out.push_back(n);
  }
  if (count != 0 && out.size() != count)
    throw Error(fmt::format("the head of a region's program: {} has {} numbers, the function {} nodes", what,
                            out.size(), count));
  return out;
}

Head read_head(std::string_view text) {
  Head out;
  std::string module;
  std::vector<std::string_view> notes;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(text_mark)) module += fmt::format("{}\n", line.substr(text_mark.size()));
    if (line.starts_with(note_mark)) notes.push_back(line.substr(note_mark.size()));
  }
  out.module = parse_module(module, "the region's terms");
  const size_t nodes = out.module.entry().nodes.size();
  for (const std::string_view note : notes) {
    const size_t space = std::min(note.find(' '), note.size());
    const std::string_view word = note.substr(0, space), rest = note.substr(std::min(space + 1, note.size()));
    if (word == "roots") out.roots = numbers_of(rest, 0, nodes, word);
    if (word == "kinds") out.kinds = numbers_of(rest, nodes, term_kinds, word);
    if (word == "fixed") out.fixed = numbers_of(rest, nodes, 2, word);
    if (word == "class") {
      const auto classes = {egraph::NumericClass::exact, egraph::NumericClass::reassociate,
                            egraph::NumericClass::range, egraph::NumericClass::approximate};
      const auto* at = std::ranges::find_if(classes, [&](auto c) { return to_string(c) == rest; });
      if (at == classes.end())
        throw Error(fmt::format("the head of a region's program: there is no class '{}'", printable(rest)));
      out.numeric = *at;
    }
  }
  if (out.roots.empty() || out.kinds.empty() || out.fixed.empty())
    throw Error("the head of a region's program lacks roots, kinds or fixed");
  return out;
}

/// Enters the region of the head.
Entered enter_head(RegionTerms& terms, const Head& head, FlatFunction& flat) {
  for (const NodeId id : flat.kinds.ids()) {
    flat.kinds[id] = TermKind(head.kinds[id.index()]);
    flat.fixed[id] = head.fixed[id.index()] != 0;
  }
  std::vector<NodeId> roots;
  for (const uint32_t root : head.roots) roots.push_back(NodeId(root));
  auto entered = enter(terms, flat, {std::move(roots), {}});
  if (!entered) throw Error(entered.error());
  return std::move(*entered);
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Payloads as globals: $place3.
std::string payload_name(std::string_view sort, Value value) {
  return fmt::format("${}{}", lower(sort), value);
}

/// How many payloads there are of each sort.
std::vector<std::pair<const char*, size_t>> payload_counts(const RegionTerms& t) {
  return {{"Leaf", t.leaves.size()},      {"Number", t.numbers.size()}, {"Iota", t.iotas.size()},
          {"Along", t.alongs.size()},     {"Axes", t.sets.size()},      {"Place", t.places.size()},
          {"Payload", t.payloads.size()}, {"Monoid", t.monoid_count()}, {"DType", size_t(dtype_count)}};
}

class TermWriter {
public:
  explicit TermWriter(RegionTerms& terms) : t_(terms), graph_(terms.graph()) {}

  /// A line a term, operands first: classes are numbered in the order in which they are made.
  std::string run() {
    std::vector<std::pair<ClassId, std::string>> lines;
    for (egraph::OpId op = 0; op < graph_.op_count(); ++op)
      if (graph_.op(op).constructor)
        graph_.for_each_row(op, [&](const egraph::RowView& row) {
          lines.emplace_back(row.out(), line(row));
          return true;
        });
    std::ranges::sort(lines);
    std::string out;
    for (const auto& [id, text] : lines) out += text;
    return out;
  }

private:
  std::string line(const egraph::RowView& row) {
    const egraph::OpSpec& op = graph_.op(row.op);
    std::string out = fmt::format("(let $c{} ({}", row.out(), op.name), about;
    for (size_t k = 0; k < op.args.size(); ++k) {
      const std::string_view sort = t_.program().sort_name(op.args[k]);
      const Value v = row.args()[k];
      if (sort == "V" || sort == "F") {
        out += fmt::format(" $c{}", v);
      } else if (sort == "Vs") {
        std::vector<std::string> names;
        for (const Value item : t_.items(v)) names.push_back(fmt::format("$c{}", item));
        out += names.empty() ? " (vec-empty)" : fmt::format(" (vec-of {})", fmt::join(names, " "));
      } else if (sort == "i64") {
        out += fmt::format(" {}", t_.integer_of(v));
      } else {
        out += " " + payload_name(sort, v);
        about += " " + t_.program().print({op.args[k], v});
      }
    }
    std::ranges::replace(about, '\n', ' ');
    out += "))";
    return about.empty() ? out + "\n" : fmt::format("{:<44};{}\n", out, about);
  }

  RegionTerms& t_;
  egraph::EGraph& graph_;
};

} // namespace

std::string region_program(RegionTerms& terms, const Entered& entered) {
  const Head head = head_of(terms, entered);
  TheoryOptions language = terms.options();
  language.rules = false;
  RegionTerms own(language);
  FlatFunction flat(head.module, head.module.entry());
  (void)enter_head(own, head, flat);
  std::string out = text_of(head);
  const std::vector<std::string>& without = terms.options().without;
  if (!without.empty()) out += "(ruleset parked)\n";
  std::vector<bool> found(without.size());
  for (const auto& [file, text] : terms.texts()) {
    if (file == "terms.egg") continue;
    out += fmt::format("\n; ---- {}\n{}", file,
                       without.empty() ? text : parked_rules(text, file, without, found));
  }
  return out + "\n; ---- the region\n" + TermWriter(own).run() + "\n; ---- the search\n" + schedule_text() +
         "(print-size)\n";
}

std::unique_ptr<RegionTerms> terms_of_program(std::string_view text, const egraph::EggOptions& options) {
  if (!text.starts_with(first_line)) return nullptr;
  const Head head = read_head(text);
  auto terms = std::make_unique<RegionTerms>(TheoryOptions{.numeric = head.numeric, .rules = false}, options);
  FlatFunction flat(head.module, head.module.entry());
  (void)enter_head(*terms, head, flat);
  terms->graph().clear();
  for (const auto& [sort, count] : payload_counts(*terms))
    for (Value v = 0; v < count; ++v)
      terms->program().define(payload_name(sort, v), {terms->program().sort(sort), v});
  return terms;
}

} // namespace luminal::rules
