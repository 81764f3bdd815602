// runtime/plan_bytes.cpp -- one list of fields for each part of a plan, which the writer and the reader walk.
#include "runtime/plan_bytes.h"
#include "luminal/error.h"
#include <algorithm>
#include <concepts>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

namespace luminal::runtime {
namespace {

template <class T, class Of>
concept Either = std::same_as<std::remove_const_t<T>, Of>;

// The structured bindings name every member: a new one does not compile until it stands here.
template <class A, Either<Interval> T> void fields(A& a, T& interval) {
  auto& [low, high] = interval;
  a(low, high);
}
template <class A, Either<TensorType> T> void fields(A& a, T& type) {
  auto& [dtype, shape] = type;
  a(dtype, shape);
}
template <class A, Either<Slot> T> void fields(A& a, T& slot) {
  auto& [name, kind, type, bytes, max_bytes, offset, pinned, used, key, data] = slot;
  a(name, kind, type, bytes, max_bytes, offset, pinned, used, key, data);
}
template <class A, Either<WorkerCap> T> void fields(A& a, T& cap) {
  auto& [points, workers] = cap;
  a(points, workers);
}
template <class A, Either<device::Threads> T> void fields(A& a, T& threads) {
  auto& [lanes, phases, grouped, one_group, shared, group_bytes] = threads;
  a(lanes, phases, grouped, one_group, shared, group_bytes);
}
template <class A, Either<KernelCode> T> void fields(A& a, T& code) {
  auto& [name, entry, object, symbols, shared_bytes, local_bytes, points, caps, point_ns, barriers, writes,
         note, threads] = code;
  a(name, entry, object, symbols, shared_bytes, local_bytes, points, caps, point_ns, barriers, writes, note,
    threads);
}
template <class A, Either<Launch> T> void fields(A& a, T& step) {
  auto& [kernel, slots] = step;
  a(kernel, slots);
}
template <class A, Either<Copy> T> void fields(A& a, T& step) {
  auto& [to, from] = step;
  a(to, from);
}
template <class A, Either<Zero> T> void fields(A& a, T& step) {
  auto& [slot] = step;
  a(slot);
}
template <class A, Either<RangeCheck> T> void fields(A& a, T& step) {
  auto& [slot, range, limit, text] = step;
  a(slot, range, limit, text);
}
template <class A, Either<AccessCheck> T> void fields(A& a, T& step) {
  auto& [enough, violation, body, text] = step;
  a(enough, violation, body, text);
}
template <class A, Either<Loop> T> void fields(A& a, T& step) {
  auto& [count, counter, body, test, condition, taken] = step;
  a(count, counter, body, test, condition, taken);
}
template <class A, Either<Cond> T> void fields(A& a, T& step) {
  auto& [condition, then, otherwise] = step;
  a(condition, then, otherwise);
}
template <class A, Either<HostCall> T> void fields(A& /*a*/, T& /*step*/) {} // to_bytes refuses them
template <class A, Either<PlanResult> T> void fields(A& a, T& result) {
  auto& [name, slot] = result;
  a(name, slot);
}
template <class A, Either<Plan> T> void fields(A& a, T& plan) {
  auto& [name, symbols, assumptions, conditions, slots, kernels, load_steps, steps, results, arena_bytes,
         load_arena_bytes, devices, notes] = plan;
  a(name, symbols, assumptions, conditions, slots, kernels, load_steps, steps, results, arena_bytes,
    load_arena_bytes, devices, notes);
}

using Bytes = std::vector<std::byte>;
using SharedBytes = std::shared_ptr<const Bytes>;

class Writer {
public:
  template <class... T> void operator()(const T&... values) { (put(values), ...); }
  std::string out;
  bool failed = false;

private:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    out += text;
  }
  template <class Tag> void put(Id<Tag> id) { put(int32_t(id.number())); }
  void put(const std::vector<bool>& list) {
    put(list.size());
    for (const bool value : list) put(value);
  }
  template <class T> void put(const std::vector<T>& list) {
    put(list.size());
    for (const T& element : list) put(element);
  }
  template <class Tag, class T> void put(const IdVector<Tag, T>& list) {
    put(static_cast<const std::vector<T>&>(list));
  }
  void put(const SharedBytes& data) {
    put(bool(data));
    if (!data) return;
    put(data->size());
    out.append(reinterpret_cast<const char*>(data->data()), data->size());
  }
  void put(const Expr& e) {
    const auto [at, made] = known_.try_emplace(e, uint32_t(known_.size()));
    put(at->second);
    if (!made) return;
    std::vector<Expr> symbols;
    for (const Expr symbol : symbols_of(e)) {
      const auto [named, is_new] = scope_.try_emplace(std::string(symbol.name()), symbol);
      if (is_new) symbols.push_back(symbol);
      failed |= named->second != symbol;
    }
    put(symbols.size());
    for (const Expr symbol : symbols) {
      put(std::string(symbol.name()));
      (*this)(symbol.range().low, symbol.range().high, symbol.multiple());
    }
    const std::string text = to_string(e);
    const auto read = Expr::parse(text, scope_);
    failed |= !read || *read != e;
    put(text);
  }
  void put(const Step& step) {
    put(uint8_t(step.index()));
    visit(step, [&](const auto& kind) { put(kind); });
  }
  template <class T>
    requires std::is_class_v<T>
  void put(const T& part) {
    fields(*this, part);
  }

  ExprMap<uint32_t> known_;
  SymbolScope scope_;
};

struct Truncated {};

class Reader {
public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class... T> void operator()(T&... values) { (get(values), ...); }
  bool at_end() const { return rest_.empty(); }

private:
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) throw Truncated();
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void get(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void get(bool& value) { value = take(1)[0] != 0; }
  /// An element takes at least a byte.
  size_t length() {
    size_t count = 0;
    get(count);
    if (count > rest_.size()) throw Truncated();
    return count;
  }
  void get(std::string& text) { text = take(length()); }
  template <class Tag> void get(Id<Tag>& id) {
    int32_t number = -1;
    get(number);
    id = Id<Tag>(number);
  }
  void get(std::vector<bool>& list) {
    list.resize(length());
    for (size_t k = 0; k < list.size(); ++k) {
      bool value = false;
      get(value);
      list[k] = value;
    }
  }
  template <class T> void get(std::vector<T>& list) {
    list.clear(); // of what new parts begin with
    for (size_t count = length(); count > 0; --count) get(list.emplace_back());
  }
  template <class Tag, class T> void get(IdVector<Tag, T>& list) { get(static_cast<std::vector<T>&>(list)); }
  void get(SharedBytes& data) {
    bool there = false;
    get(there);
    if (!there) return;
    const std::string_view bytes = take(length());
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    data = std::make_shared<const Bytes>(first, first + bytes.size());
  }
  void get(Expr& e) {
    uint32_t number = 0;
    get(number);
    if (number > known_.size()) throw Truncated();
    if (number < known_.size()) {
      e = known_[number];
      return;
    }
    for (size_t symbols = length(); symbols > 0; --symbols) {
      std::string name;
      Interval range;
      int64_t multiple = 1;
      (*this)(name, range.low, range.high, multiple);
      const Expr symbol = Expr::symbol(name, range, multiple);
      scope_.emplace(std::move(name), symbol);
    }
    std::string text;
    get(text);
    const auto read = Expr::parse(text, scope_);
    if (!read) throw Truncated();
    known_.push_back(e = *read);
  }
  template <size_t... Kind> void get_kind(Step& step, size_t index, std::index_sequence<Kind...> /*kinds*/) {
    if (index >= sizeof...(Kind)) throw Truncated();
    ((index == Kind ? get(step.emplace<Kind>()) : void()), ...);
  }
  void get(Step& step) {
    uint8_t index = 0;
    get(index);
    get_kind(step, index, std::make_index_sequence<std::variant_size_v<Step::variant>>());
  }
  template <class T>
    requires std::is_class_v<T>
  void get(T& part) {
    fields(*this, part);
  }

  std::string_view rest_;
  std::vector<Expr> known_;
  SymbolScope scope_;
};

bool has_host_steps(const Steps& steps) {
  bool found = false;
  for_each_step(steps, [&](const Step& step) { found |= step.is<HostCall>(); });
  return found;
}

bool ids_fit(const Plan& plan, const Steps& steps) {
  bool fit = true;
  const auto has = [&](SlotId slot) { return plan.slots.has(slot); };
  for_each_step(steps, [&](const Step& step) {
    fit &= visit(
        step,
        [&](const Launch& s) { return plan.kernels.has(s.kernel) && std::ranges::all_of(s.slots, has); },
        [&](const Copy& s) { return has(s.to) && has(s.from); }, [&](const Zero& s) { return has(s.slot); },
        [&](const RangeCheck& s) { return has(s.slot); },
        [&](const AccessCheck& s) {
          return plan.conditions.has(s.enough) && (s.violation ? has(s.violation) : s.body.empty());
        },
        [&](const Loop& s) { return (!s.condition || has(s.condition)) && (!s.taken || has(s.taken)); },
        [&](const Cond& s) { return has(s.condition); }, [](const HostCall&) { return false; });
  });
  return fit;
}

} // namespace

std::optional<std::string> to_bytes(const Plan& plan) {
  if (has_host_steps(plan.load_steps) || has_host_steps(plan.steps)) return {};
  Writer writer;
  writer(plan);
  if (writer.failed) return {};
  return std::move(writer.out);
}

Result<Plan> plan_of_bytes(std::string_view bytes) {
  const Failure wrong{"these bytes are not a plan"};
  try {
    Plan plan;
    Reader reader(bytes);
    reader(plan);
    if (!reader.at_end() || !ids_fit(plan, plan.load_steps) || !ids_fit(plan, plan.steps)) return wrong;
    for (const PlanResult& result : plan.results)
      if (!plan.slots.has(result.slot)) return wrong;
    return plan;
  } catch (const Truncated&) {
    return wrong;
  } catch (const Error&) { // a symbol that cannot be
    return wrong;
  }
}

} // namespace luminal::runtime
