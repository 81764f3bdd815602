// expr/interner.cpp -- the process-wide store of nodes. Looking a node up takes no lock; adding one
// locks one shard.
#include "expr/interner.h"
#include "base/check.h"
#include "base/hash.h"
#include "expr/interval.h"
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace luminal {
namespace expr_detail {

std::atomic<Node*> chunks[chunk_count];

namespace {

constexpr uint32_t shard_count = 32;
// Small constants have fixed ids, so that the commonest expressions need no lookup.
constexpr int64_t small_low = -256, small_high = 2048;

// Slots hold the upper half of the hash and the id + 1; 0 is empty. A full table is replaced by a
// larger one and kept, since readers may still be in it.
struct Table {
  explicit Table(size_t size) : mask(size - 1), slots(new std::atomic<uint64_t>[size]()) {}
  size_t mask;
  std::unique_ptr<std::atomic<uint64_t>[]> slots;
};

struct alignas(64) Shard {
  std::atomic<Table*> table{nullptr};
  std::mutex mutex;
  std::vector<std::unique_ptr<Table>> tables; // the current one last
  size_t used = 0;
  std::vector<std::unique_ptr<char[]>> blocks; // arguments and names
  size_t block_left = 0;
  char* block_next = nullptr;

  void* allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > block_left) {
      const size_t size = std::max<size_t>(bytes, 16 << 10);
      blocks.emplace_back(new char[size]);
      block_next = blocks.back().get();
      block_left = size;
    }
    void* out = block_next;
    block_next += bytes;
    block_left -= bytes;
    return out;
  }
};

struct Store {
  std::atomic<uint32_t> next_id{0};
  std::mutex chunk_mutex;
  Shard shards[shard_count];

  Store() {
    for (Shard& shard : shards) {
      shard.tables.push_back(std::make_unique<Table>(256));
      shard.table.store(shard.tables.back().get(), std::memory_order_release);
    }
  }
  Node& at(uint32_t id) {
    return chunks[id >> chunk_bits].load(std::memory_order_acquire)[id & (chunk_size - 1)];
  }

  uint32_t take_id() {
    const uint32_t id = next_id.fetch_add(1, std::memory_order_relaxed);
    if (id >> chunk_bits >= chunk_count)
      throw Error(
          fmt::format("[expr] more than {} different expressions", uint64_t{chunk_count} * chunk_size));
    std::atomic<Node*>& chunk = chunks[id >> chunk_bits];
    if (!chunk.load(std::memory_order_acquire)) {
      const std::lock_guard lock(chunk_mutex);
      if (!chunk.load(std::memory_order_acquire))
        chunk.store(new Node[chunk_size], std::memory_order_release);
    }
    return id;
  }
};

void add_small_constants(Store& store);

// Never destroyed: expressions may be used until the very end of the process.
Store& store() {
  static Store* const instance = [] {
    auto* made = new Store;
    add_small_constants(*made);
    return made;
  }();
  return *instance;
}

// What identifies a node; `args` and `name` point to the caller's memory during a lookup.
bool same(const Node& a, const Node& b) {
  if (a.hash != b.hash || a.kind != b.kind || a.value != b.value || a.arg_count != b.arg_count) return false;
  if (a.kind == ExprKind::symbol)
    return a.range == b.range && a.multiple == b.multiple && a.name_view() == b.name_view();
  return std::equal(a.args, a.args + a.arg_count, b.args);
}

uint32_t find(const Table& table, Store& in, const Node& wanted) {
  const uint64_t tag = wanted.hash >> 32;
  for (size_t i = wanted.hash & table.mask;; i = (i + 1) & table.mask) {
    const uint64_t slot = table.slots[i].load(std::memory_order_acquire);
    if (slot == 0) return UINT32_MAX;
    if (slot >> 32 == tag) {
      const auto id = static_cast<uint32_t>(slot) - 1;
      if (same(in.at(id), wanted)) return id;
    }
  }
}

void put(const Table& table, uint64_t hash, uint32_t id) {
  size_t i = hash & table.mask;
  while (table.slots[i].load(std::memory_order_relaxed) != 0) i = (i + 1) & table.mask;
  table.slots[i].store((hash >> 32 << 32) | (id + 1), std::memory_order_release);
}

// Range, divisor, depth: all that follows from the arguments.
void derive(Node& n) {
  const auto args = n.arg_span();
  for (const Expr arg : args) n.depth = std::max(n.depth, node(arg).depth + 1);
  if (n.depth > max_depth)
    throw Error(fmt::format("[expr] an expression is nested deeper than {}", max_depth));
  switch (n.kind) {
  case ExprKind::constant:
    n.range = point(n.value);
    n.multiple = n.value == INT64_MIN ? int64_t{1} << 62 : n.value < 0 ? -n.value : n.value;
    break;
  case ExprKind::symbol: break;
  case ExprKind::add: {
    n.range = point(0);
    n.multiple = 0;
    for (const Expr arg : args) {
      n.range = n.range + node(arg).range;
      n.multiple = common_divisor(n.multiple, node(arg).multiple);
    }
    break;
  }
  case ExprKind::mul: {
    n.range = point(1);
    n.multiple = 1;
    for (size_t i = 0; i < args.size();) {
      size_t end = i + 1;
      while (end < args.size() && args[end] == args[i]) ++end;
      const Node& factor = node(args[i]);
      n.range = n.range * interval_power(factor.range, static_cast<uint32_t>(end - i));
      // A product of divisors that does not fit is left out: any divisor is right.
      for (; i < end; ++i)
        if (int64_t product; !__builtin_mul_overflow(n.multiple, factor.multiple, &product))
          n.multiple = product;
      n.is_division |= factor.is_division;
    }
    break;
  }
  case ExprKind::floordiv: {
    const Node &a = node(args[0]), &b = node(args[1]);
    n.is_division = true;
    n.range = interval_floordiv(a.range, b.range);
    if (b.kind == ExprKind::constant && b.value != INT64_MIN && a.multiple % b.value == 0)
      n.multiple = a.multiple / (b.value < 0 ? -b.value : b.value);
    break;
  }
  case ExprKind::mod: {
    const Node &a = node(args[0]), &b = node(args[1]);
    n.is_division = true;
    n.range = interval_mod(a.range, b.range);
    n.multiple = common_divisor(a.multiple, b.multiple);
    break;
  }
  case ExprKind::min:
  case ExprKind::max:
    n.range = node(args[0]).range;
    n.multiple = 0;
    for (const Expr arg : args) {
      n.range = n.kind == ExprKind::min ? interval_min(n.range, node(arg).range)
                                        : interval_max(n.range, node(arg).range);
      n.multiple = common_divisor(n.multiple, node(arg).multiple);
    }
    break;
  case ExprKind::lt:
  case ExprKind::eq:
  case ExprKind::ne:
  case ExprKind::logical_and:
  case ExprKind::logical_or: n.range = {0, 1}; break;
  }
  if (n.kind != ExprKind::symbol && n.kind != ExprKind::constant && n.multiple > 1)
    n.range = interval_of_multiples(n.range, n.multiple);
}

void add_small_constants(Store& into) {
  // Id 0 is the constant 0, then 1 .. small_high - 1, then -1 .. small_low. No node but these has a
  // value that small.
  const auto add = [&](int64_t value) {
    Node& n = into.at(into.take_id());
    n.value = value;
    n.hash =
        hash_mix(hash_mix(0x6C756D, static_cast<uint64_t>(ExprKind::constant)), static_cast<uint64_t>(value));
    derive(n);
    n.base = ExprAccess::from_id(into.next_id.load() - 1);
  };
  for (int64_t value = 0; value < small_high; ++value) add(value);
  for (int64_t value = -1; value >= small_low; --value) add(value);
}

uint32_t find_or_add(Node& wanted, bool has_base) {
  Store& in = store();
  Shard& shard = in.shards[wanted.hash >> 40 & (shard_count - 1)];
  uint32_t id = find(*shard.table.load(std::memory_order_acquire), in, wanted);
  if (id != UINT32_MAX) return id;

  if (wanted.kind != ExprKind::symbol) derive(wanted); // may throw: nothing is added yet
  const std::lock_guard lock(shard.mutex);
  Table* table = shard.table.load(std::memory_order_relaxed);
  id = find(*table, in, wanted);
  if (id != UINT32_MAX) return id;
  if (2 * (shard.used + 1) > table->mask + 1) {
    shard.tables.push_back(std::make_unique<Table>(2 * (table->mask + 1)));
    Table* bigger = shard.tables.back().get();
    for (size_t i = 0; i <= table->mask; ++i) {
      const uint64_t slot = table->slots[i].load(std::memory_order_relaxed);
      if (slot != 0)
        put(*bigger, in.at(static_cast<uint32_t>(slot) - 1).hash, static_cast<uint32_t>(slot) - 1);
    }
    shard.table.store(bigger, std::memory_order_release);
    table = bigger;
  }
  if (wanted.kind == ExprKind::symbol) {
    auto* name = static_cast<char*>(shard.allocate(wanted.arg_count));
    std::copy(wanted.name, wanted.name + wanted.arg_count, name);
    wanted.name = name;
  } else if (wanted.arg_count > 0) {
    auto* args = static_cast<Expr*>(shard.allocate(wanted.arg_count * sizeof(Expr)));
    std::copy(wanted.args, wanted.args + wanted.arg_count, args);
    wanted.args = args;
  }
  id = in.take_id();
  if (!has_base) wanted.base = ExprAccess::from_id(id);
  in.at(id) = wanted;
  ++shard.used;
  put(*table, wanted.hash, id);
  return id;
}

} // namespace

const Node& first_node(Expr e) {
  store();
  return chunks[e.id() >> chunk_bits].load(std::memory_order_acquire)[e.id() & (chunk_size - 1)];
}

Expr intern_constant(int64_t value) {
  if (value >= 0 && value < small_high) return ExprAccess::from_id(static_cast<uint32_t>(value));
  if (value < 0 && value >= small_low)
    return ExprAccess::from_id(static_cast<uint32_t>(small_high - 1 - value));
  Node wanted;
  wanted.value = value;
  wanted.hash =
      hash_mix(hash_mix(0x6C756D, static_cast<uint64_t>(ExprKind::constant)), static_cast<uint64_t>(value));
  return ExprAccess::from_id(find_or_add(wanted, false));
}

Expr intern_symbol(std::string_view name, Interval range, int64_t multiple_of) {
  Node wanted;
  wanted.kind = ExprKind::symbol;
  wanted.name = name.data();
  wanted.arg_count = static_cast<uint32_t>(name.size());
  wanted.range = range;
  wanted.multiple = multiple_of;
  uint64_t hash = hash_mix(0x6C756D, static_cast<uint64_t>(ExprKind::symbol));
  hash = hash_mix(hash_mix(hash, hash64(name)), static_cast<uint64_t>(range.low));
  wanted.hash =
      hash_mix(hash_mix(hash, static_cast<uint64_t>(range.high)), static_cast<uint64_t>(multiple_of));
  return ExprAccess::from_id(find_or_add(wanted, false));
}

Expr intern(ExprKind kind, std::span<const Expr> args, int64_t value, Expr base) {
  Node wanted;
  wanted.kind = kind;
  wanted.value = value;
  wanted.args = args.data();
  wanted.arg_count = static_cast<uint32_t>(args.size());
  wanted.base = base;
  uint64_t hash = hash_mix(0x6C756D, static_cast<uint64_t>(kind));
  for (const Expr arg : args) hash = hash_mix(hash, node(arg).hash);
  wanted.hash = hash;
  const Expr e = ExprAccess::from_id(find_or_add(wanted, kind == ExprKind::mul && value != 1));
  const Interval range = node(e).range;
  return range.is_point() ? intern_constant(range.low) : e;
}

int compare(Expr a, Expr b) {
  if (a == b) return 0;
  const Node &x = node(a), &y = node(b);
  // Symbols first, then products, divisions, ...: sums and constants last.
  static constexpr int ranks[] = {/*constant*/ 99, 0,
                                  /*add*/ 98,
                                  /*mul*/ 1,
                                  /*floordiv*/ 2,
                                  /*mod*/ 3,       4, 5, 6, 7, 8, 9, 10};
  if (x.kind != y.kind) return ranks[static_cast<int>(x.kind)] - ranks[static_cast<int>(y.kind)];
  const auto three_way = [](auto p, auto q) { return p < q ? -1 : p > q ? 1 : 0; };
  switch (x.kind) {
  case ExprKind::constant: return three_way(x.value, y.value);
  case ExprKind::symbol: {
    if (const int order = x.name_view().compare(y.name_view())) return order;
    if (const int order = three_way(x.range.low, y.range.low)) return order;
    if (const int order = three_way(x.range.high, y.range.high)) return order;
    return three_way(x.multiple, y.multiple);
  }
  default: {
    const size_t common = std::min(x.arg_count, y.arg_count);
    for (size_t i = 0; i < common; ++i)
      if (const int order = compare(x.args[i], y.args[i])) return order;
    return three_way(x.arg_count, y.arg_count);
  }
  }
}

} // namespace expr_detail

using expr_detail::node;

bool ExprLess::operator()(Expr a, Expr b) const { return expr_detail::compare(a, b) < 0; }

uint32_t Expr::constant_id(int64_t value) {
  // The id of 0 stands before the store does: a default Expr must not touch it.
  return value == 0 ? 0 : expr_detail::intern_constant(value).id();
}
void Expr::throw_constant_overflow() { throw Error("[expr] a constant does not fit 64 bits with sign"); }

ExprKind Expr::kind() const { return node(*this).kind; }
std::span<const Expr> Expr::args() const { return node(*this).arg_span(); }
bool Expr::is_constant() const { return kind() == ExprKind::constant; }
bool Expr::is_constant(int64_t value) const { return is_constant() && node(*this).value == value; }
bool Expr::is_condition() const { return Interval{0, 1}.contains(node(*this).range); }
int64_t Expr::value() const {
  LUMINAL_CHECK(is_constant(), "value() of {}", to_string(*this));
  return node(*this).value;
}
std::string_view Expr::name() const {
  LUMINAL_CHECK(is_symbol(), "name() of {}", to_string(*this));
  return node(*this).name_view();
}
Interval Expr::range() const { return node(*this).range; }
int64_t Expr::multiple() const { return node(*this).multiple; }
uint64_t Expr::hash() const { return node(*this).hash; }
uint32_t Expr::depth() const { return node(*this).depth; }

Expr Expr::symbol(std::string_view name, Interval range, int64_t multiple_of) {
  const auto is_head = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  bool good = !name.empty() && (is_head(name[0]) || name[0] == '_') && name.back() != '.';
  for (size_t i = 0; i < name.size(); ++i)
    good &= is_head(name[i]) || (name[i] >= '0' && name[i] <= '9') || name[i] == '_' ||
            (name[i] == '.' && i > 0 && name[i - 1] != '.');
  for (const std::string_view keyword : {"min", "max", "ceildiv", "and", "or", "not"})
    good &= name != keyword;
  if (!good)
    throw Error(fmt::format(
        "[expr] '{}' cannot name a symbol: a letter or _, then letters, digits, _ and inner dots are "
        "allowed, and min, max, ceildiv, and, or, not have a meaning",
        name));
  if (multiple_of < 1)
    throw Error(fmt::format("[expr] symbol {}: a multiple of {} is not positive", name, multiple_of));
  const Interval tight = expr_detail::interval_of_multiples(range, multiple_of);
  if (tight.low > tight.high) {
    const std::string of = multiple_of > 1 ? fmt::format(" that is a multiple of {}", multiple_of) : "";
    throw Error(fmt::format("[expr] symbol {}: no value{} in {}..{}", name, of, range.low, range.high));
  }
  return expr_detail::intern_symbol(name, tight, multiple_of);
}

} // namespace luminal
