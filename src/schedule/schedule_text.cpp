// schedule/schedule_text.cpp -- schedules as text: one directive a line; print and parse invert
// each other.
#include "base/hash.h"
#include "base/text_reader.h"
#include "schedule/schedule.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

/// What stands on a directive's line: words, then numbers. `more`: any number of further words.
struct Form {
  DirectiveKind kind;
  std::string_view name;
  int words; // at least
  bool more;
  int numbers;      // exactly, or
  int last_numbers; // at most
  std::string_view usage;
};

constexpr Form forms[] = {
    {DirectiveKind::split, "split", 4, false, 1, 1, "split STAGE LOOP OUTER INNER FACTOR"},
    {DirectiveKind::order, "order", 1, true, 0, 0, "order STAGE LOOP..."},
    {DirectiveKind::merge, "merge", 4, false, 0, 0, "merge STAGE OUTER INNER NAME"},
    {DirectiveKind::parallel, "parallel", 2, false, 0, 1, "parallel STAGE LOOP [LEVEL]"},
    {DirectiveKind::vector, "vector", 2, true, 0, 0, "vector STAGE LOOP..."},
    {DirectiveKind::unroll, "unroll", 2, true, 0, 0, "unroll STAGE LOOP..."},
    {DirectiveKind::jam, "jam", 2, false, 1, 1, "jam STAGE LOOP COUNT"},
    {DirectiveKind::at, "at", 2, false, 0, 0, "at STAGE LOOP"},
    {DirectiveKind::store, "store", 2, true, 0, 0, "store VALUE LOOP DIM... [in SPACE]"},
    {DirectiveKind::stage, "stage", 2, true, 0, 0, "stage VALUE COPY [AXIS...]"},
    {DirectiveKind::materialize, "materialize", 2, false, 0, 0, "materialize NODE VALUE"},
    {DirectiveKind::inline_, "inline", 1, false, 0, 0, "inline VALUE"},
    {DirectiveKind::fuse, "fuse", 2, false, 0, 0, "fuse STAGE NEXT"},
    {DirectiveKind::cascade, "cascade", 2, false, 0, 0, "cascade STAGE LOOP"},
    {DirectiveKind::split_reduction, "split_reduction", 2, true, 1, 2,
     "split_reduction STAGE AXIS [serial|pairs] COUNT [BLOCK]"},
    {DirectiveKind::predicate_split, "predicate_split", 1, false, 0, 0, "predicate_split LOOP"},
    {DirectiveKind::predicate_bound, "predicate_bound", 2, false, 0, 0, "predicate_bound STAGE LOOP"},
    {DirectiveKind::prefetch, "prefetch", 3, true, 1, 1, "prefetch STAGE VALUE LOOP [[ALL] INNER] DISTANCE"},
    {DirectiveKind::stream, "stream", 1, false, 0, 0, "stream VALUE"},
    {DirectiveKind::unit, "unit", 2, true, 0, 0, "unit STAGE DESCRIPTOR [COPY...]"},
    {DirectiveKind::unit_of_values, "unit_of_values", 3, true, 0, 0,
     "unit_of_values STAGE DESCRIPTOR COPY [COPY]"},
    {DirectiveKind::matrix, "matrix", 2, false, 1, 1, "matrix STAGE COPY SIZE"},
    {DirectiveKind::roles, "roles", 2, false, 1, 1, "roles STAGE LOOP DEPTH"},
    {DirectiveKind::serial, "serial", 0, false, 1, 2, "serial POINTS [WORKERS]"},
    {DirectiveKind::segments, "segments", 2, false, 0, 1, "segments STAGE AXIS [1|2]"},
    {DirectiveKind::padded_copy, "padded_copy", 2, true, 0, 1, "padded_copy VALUE COPY [AXIS SIZE]"},
    {DirectiveKind::split_at, "split_at", 2, false, 1, 1, "split_at STAGE AXIS COUNT"},
    {DirectiveKind::operand, "operand", 3, false, 0, 0, "operand STAGE AXIS VALUE"},
    {DirectiveKind::from, "from", 1, false, 1, 1, "from AXIS COUNT"},
    {DirectiveKind::before, "before", 2, false, 0, 0, "before STAGE NEXT"},
    {DirectiveKind::rolling, "rolling", 1, false, 0, 0, "rolling STAGE"},
    {DirectiveKind::lanes, "lanes", 2, true, 0, 0, "lanes STAGE LOOP..."},
    {DirectiveKind::group_copy, "group_copy", 3, false, 0, 1, "group_copy STAGE VALUE LOOP [TILES]"},
    {DirectiveKind::lane_unit, "lane_unit", 5, false, 0, 0, "lane_unit STAGE DESCRIPTOR M N K"},
    {DirectiveKind::unfold, "unfold", 1, false, 0, 0, "unfold STAGE"},
    {DirectiveKind::blocked_sum, "blocked_sum", 2, false, 1, 1, "blocked_sum STAGE LOOP COUNT"},
    {DirectiveKind::block_mask, "block_mask", 3, true, 1, 8, "block_mask STAGE MASK AXIS... SIZE..."},
};

const Form& form_of(DirectiveKind kind) { return forms[int(kind)]; }

/// Names that directives had before, which texts on disk may hold.
constexpr std::pair<std::string_view, DirectiveKind> old_names[] = {{"frame", DirectiveKind::padded_copy},
                                                                    {"pieces", DirectiveKind::segments},
                                                                    {"cut", DirectiveKind::split_at}};

const Form* find_form(std::string_view name) {
  for (const Form& form : forms)
    if (form.name == name) return &form;
  for (const auto& [old, kind] : old_names)
    if (old == name) return &form_of(kind);
  return nullptr;
}

} // namespace

void Schedule::add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers) {
  directives.push_back({kind, std::move(words), std::move(numbers)});
}

std::string to_string(const Directive& directive) {
  std::string s(form_of(directive.kind).name);
  for (auto& word : directive.words) s += " " + word;
  for (int64_t number : directive.numbers) s += " " + std::to_string(number);
  return s;
}

std::string to_string(const Schedule& schedule) {
  std::string s;
  for (auto& directive : schedule.directives) s += to_string(directive) + "\n";
  return s;
}

Schedule parse_schedule(std::string_view text, std::string_view file_name) {
  Schedule schedule;
  uint32_t line = 0;
  while (!text.empty()) {
    line++;
    size_t end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    TextReader::Options options;
    options.value_names = false;
    options.first_line = line;
    TextReader reader(row, std::string(file_name), options);
    if (reader.at_end()) continue;
    Token head = reader.next();
    const Form* form = head.kind == TokenKind::identifier ? find_form(head.text) : nullptr;
    if (!form) reader.fail_at(head, fmt::format("there is no directive '{}'", head.text));
    Directive directive{form->kind, {}, {}};
    while (!reader.at_end()) {
      Token token = reader.peek();
      if (token.kind == TokenKind::integer || reader.at("-")) {
        directive.numbers.push_back(reader.expect_integer());
        continue;
      }
      if (!directive.numbers.empty()) reader.fail_expected("the end of the line");
      // Words are names, `*`, and dimensions of layouts such as n/64, n%64, k+16.
      std::string word;
      if (reader.accept("*")) {
        word = "*";
      } else {
        word = std::string(reader.expect_identifier("a name"));
        for (std::string_view sign : {"/", "%", "+"})
          while (reader.accept(sign)) word += std::string(sign) + std::to_string(reader.expect_integer());
      }
      directive.words.push_back(std::move(word));
    }
    int words = int(directive.words.size()), numbers = int(directive.numbers.size());
    if (words < form->words || (words > form->words && !form->more) || numbers < form->numbers ||
        numbers > form->last_numbers)
      reader.fail_at(head, fmt::format("expected `{}`", form->usage));
    schedule.directives.push_back(std::move(directive));
  }
  return schedule;
}

uint64_t structural_hash(const Schedule& schedule) {
  Hasher h;
  for (auto& d : schedule.directives) {
    h.add(d.kind).add(d.words.size());
    for (auto& w : d.words) h.add(std::string_view(w));
    h.add(d.numbers.size());
    for (int64_t n : d.numbers) h.add(n);
  }
  return h.value64();
}

} // namespace luminal::kernel
