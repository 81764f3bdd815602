// egraph/snapshot.cpp -- tables and classes as bytes and back.
//
// Layout (little endian): magic, sorts (name, kind), operators (name, columns), parents, then per
// operator its cells, subsumed bits, epochs and creators. Values of sorts with print and parse are
// written as texts in a pool, in the order of first use.
#include "egraph/state.h"
#include "egraph/trie.h"
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace luminal::egraph {

namespace {

constexpr std::string_view magic = "luminal e-graph 1\n";

class Writer {
public:
  std::string bytes;
  void word(uint64_t value) { raw(&value, sizeof value); }
  void text(std::string_view value) {
    word(value.size());
    bytes += value;
  }
  template <class T> void array(std::span<const T> values) {
    word(values.size());
    raw(values.data(), values.size_bytes());
  }
  void raw(const void* data, size_t size) {
    if (size != 0) bytes.append(static_cast<const char*>(data), size);
  }
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  [[noreturn]] static void fail(const std::string& text) {
    throw Error(fmt::format("e-graph snapshot: {}", text));
  }
  uint64_t word() {
    uint64_t value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t size = word();
    return {take(size), static_cast<size_t>(size)};
  }
  template <class T> Buffer<T> array() {
    const uint64_t count = word();
    if (count > bytes_.size() / sizeof(T)) fail("it ends within an array");
    const char* from = take(count * sizeof(T));
    Buffer<T> values;
    if (count != 0) std::memcpy(values.extend(count), from, count * sizeof(T));
    return values;
  }
  void expect(std::string_view text) {
    if (bytes_.size() < text.size() || bytes_.substr(0, text.size()) != text)
      fail("it does not begin like one");
    bytes_.remove_prefix(text.size());
  }
  bool at_end() const { return bytes_.empty(); }

private:
  const char* take(uint64_t size) {
    if (size > bytes_.size()) fail("it ends too early");
    const char* from = bytes_.data();
    bytes_.remove_prefix(size);
    return from;
  }
  std::string_view bytes_;
};

SortId sort_of(const OpSpec& spec, uint32_t col) {
  return col < spec.args.size() ? spec.args[col] : spec.out;
}

bool has_texts(const SortSpec& sort) {
  return (sort.kind == SortKind::value || sort.kind == SortKind::container) && sort.print && sort.parse;
}

/// Texts of values, numbered by first use.
struct Pool {
  std::map<std::pair<SortId, Value>, uint32_t> numbers;
  std::vector<std::pair<SortId, std::string>> texts;
  uint32_t number(const SortSpec& spec, SortId sort, Value value) {
    const auto [at, fresh] = numbers.try_emplace({sort, value}, static_cast<uint32_t>(texts.size()));
    if (fresh) texts.emplace_back(sort, spec.print(value));
    return at->second;
  }
};

void check_table(const State& s, OpId op, const Buffer<Value>& cells, size_t classes,
                 const Buffer<Table::EpochStart>& epochs, const Buffer<Table::CreatorStart>& creators,
                 uint32_t epoch) {
  const OpSpec& spec = s.ops[op];
  const uint32_t stride = s.tables[op].stride();
  if (cells.size() % stride != 0) Reader::fail(fmt::format("{} has an incomplete row", spec.name));
  const size_t rows = cells.size() / stride;
  if (rows >= absent) Reader::fail(fmt::format("{} has too many rows", spec.name));
  for (size_t i = 0; i < cells.size(); ++i)
    if (s.tables[op].eq_cols()[i % stride] != 0 && cells[i] >= classes &&
        !(i % stride == stride - 1 && cells[i] == absent))
      Reader::fail(fmt::format("{} names class {} of {}", spec.name, cells[i], classes));
  const auto runs = [&](const auto& list, const char* what) {
    if ((rows != 0) != !list.empty() || (rows != 0 && list[0].row != 0))
      Reader::fail(fmt::format("{}: {} do not begin at row 0", spec.name, what));
    for (size_t i = 1; i < list.size(); ++i)
      if (list[i].row <= list[i - 1].row || list[i].row >= rows)
        Reader::fail(fmt::format("{}: {} are not in order", spec.name, what));
  };
  runs(epochs, "epochs");
  runs(creators, "creators");
  for (size_t i = 0; i < epochs.size(); ++i)
    if (epochs[i].epoch > epoch || (i != 0 && epochs[i].epoch <= epochs[i - 1].epoch))
      Reader::fail(fmt::format("{}: epochs are not in order", spec.name));
}

} // namespace

std::string EGraph::save() {
  rebuild();
  State& s = *state_;
  Writer out;
  out.bytes = magic;
  out.word(s.sorts.size());
  for (const SortSpec& sort : s.sorts) {
    out.text(sort.name);
    out.word(static_cast<uint64_t>(sort.kind) | (has_texts(sort) ? 256 : 0));
  }
  out.word(s.ops.size());
  for (const OpSpec& op : s.ops) {
    out.text(op.name);
    out.array(std::span<const SortId>(op.args));
    out.word(op.out);
  }
  out.word(s.epoch);
  Buffer<ClassId> leaders;
  for (ClassId id = 0; id < s.classes.size(); ++id) leaders.push_back(s.classes.find_const(id));
  out.array(leaders.span());
  Pool pool;
  Writer tables;
  for (OpId op = 0; op < s.ops.size(); ++op) {
    const Table& table = s.tables[op];
    Buffer<Value> cells = table.cells();
    for (size_t i = 0; i < cells.size(); ++i) {
      const auto col = static_cast<uint32_t>(i % table.stride());
      const SortId sort = sort_of(s.ops[op], col);
      if (has_texts(s.sorts[sort]) && cells[i] != absent)
        cells[i] = pool.number(s.sorts[sort], sort, cells[i]);
    }
    tables.array(cells.span());
    Buffer<uint64_t> bits = table.subsumed_bits();
    while (!bits.empty() && bits.back() == 0) bits.truncate(bits.size() - 1);
    tables.array(bits.span());
    tables.array(table.epochs().span());
    tables.array(table.creators().span());
  }
  out.word(pool.texts.size());
  for (const auto& [sort, text] : pool.texts) {
    out.word(sort);
    out.text(text);
  }
  out.bytes += tables.bytes;
  return std::move(out.bytes);
}

void EGraph::load(std::string_view snapshot) {
  State& s = *state_;
  Reader in(snapshot);
  in.expect(magic);
  if (in.word() != s.sorts.size()) Reader::fail("it has other sorts");
  for (const SortSpec& sort : s.sorts)
    if (in.text() != sort.name ||
        in.word() != (static_cast<uint64_t>(sort.kind) | (has_texts(sort) ? 256 : 0)))
      Reader::fail(fmt::format("sort {} is not as in it", sort.name));
  if (in.word() != s.ops.size()) Reader::fail("it has other operators");
  for (const OpSpec& op : s.ops) {
    const bool same_name = in.text() == op.name;
    const Buffer<SortId> args = in.array<SortId>();
    if (in.word() != op.out || !same_name ||
        !std::equal(args.begin(), args.end(), op.args.begin(), op.args.end()))
      Reader::fail(fmt::format("operator {} is not as in it", op.name));
  }
  const uint64_t epoch = in.word();
  if (epoch >= absent) Reader::fail("its epoch is out of range");
  Buffer<ClassId> parents = in.array<ClassId>();
  for (const ClassId parent : parents)
    if (parent >= parents.size() || parents[parent] != parent) Reader::fail("a class has no leader");
  std::vector<std::pair<SortId, Value>> pool;
  const uint64_t pool_size = in.word();
  for (uint64_t i = 0; i < pool_size; ++i) {
    const uint64_t sort = in.word();
    if (sort >= s.sorts.size() || !has_texts(s.sorts[sort])) Reader::fail("a text has no sort");
    const std::string text = in.text();
    const std::optional<Value> value = s.sorts[sort].parse(text);
    if (!value) Reader::fail(fmt::format("'{}' is not a value of sort {}", text, s.sorts[sort].name));
    pool.emplace_back(static_cast<SortId>(sort), *value);
  }
  std::vector<Table> tables = s.tables;
  for (OpId op = 0; op < s.ops.size(); ++op) {
    Table& table = tables[op];
    Buffer<Value> cells = in.array<Value>();
    Buffer<uint64_t> bits = in.array<uint64_t>();
    Buffer<Table::EpochStart> epochs = in.array<Table::EpochStart>();
    Buffer<Table::CreatorStart> creators = in.array<Table::CreatorStart>();
    check_table(s, op, cells, parents.size(), epochs, creators, static_cast<uint32_t>(epoch));
    if (bits.size() > cells.size() / table.stride() / 64 + 1)
      Reader::fail(fmt::format("{} has too many subsumed bits", s.ops[op].name));
    for (const Table::CreatorStart& run : creators)
      if (run.rule != absent && run.rule >= s.rules.size() && !s.rules.empty())
        Reader::fail(fmt::format("{} names rule {}", s.ops[op].name, run.rule));
    for (size_t i = 0; i < cells.size(); ++i) {
      const SortId sort = sort_of(s.ops[op], static_cast<uint32_t>(i % table.stride()));
      if (!has_texts(s.sorts[sort]) || cells[i] == absent) continue;
      if (cells[i] >= pool.size() || pool[cells[i]].first != sort)
        Reader::fail(fmt::format("{} names text {}", s.ops[op].name, cells[i]));
      cells[i] = pool[cells[i]].second;
    }
    table.restore(std::move(cells), std::move(bits), std::move(epochs), std::move(creators));
    for (RowId row = 0; row < table.rows(); ++row) {
      if (table.is_dead(row)) continue;
      if (table.find(table.row(row)) != row)
        Reader::fail(fmt::format("{} holds a key twice", s.ops[op].name));
      for (uint32_t col = 0; col < table.stride(); ++col)
        if (table.eq_cols()[col] != 0 && parents[table.row(row)[col]] != table.row(row)[col])
          Reader::fail(fmt::format("{} names a class that has a leader", s.ops[op].name));
    }
  }
  if (!in.at_end()) Reader::fail("something follows it");
  s.tables = std::move(tables);
  s.classes.restore(std::move(parents));
  s.epoch = static_cast<uint32_t>(epoch);
  s.plans.tries.clear();
  s.substitutions.clear();
  ++s.generation;
  for (RuleProgress& progress : s.progress) progress = {};
}

} // namespace luminal::egraph
