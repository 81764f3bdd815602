// egg/egg_containers.cpp -- containers as interned sequences: vectors, sets, multisets, maps,
// pairs, and their primitives.
#include "base/check.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace luminal::egraph {
namespace {

using Impl = EggProgram::Impl;
using Args = std::span<const Value>;
using Items = std::vector<Value>;

constexpr int64_t max_items = int64_t(1) << 20; ///< of a container that a number makes, or others joined

void make_set(Items& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

/// Sorts pairs of key and value by key; of equal keys the last one stays.
void make_map(Items& items) {
  std::vector<std::pair<Value, Value>> pairs;
  for (size_t i = 0; i + 1 < items.size(); i += 2) pairs.emplace_back(items[i], items[i + 1]);
  std::stable_sort(pairs.begin(), pairs.end(), [](auto& a, auto& b) { return a.first < b.first; });
  items.clear();
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i + 1 < pairs.size() && pairs[i + 1].first == pairs[i].first) continue;
    items.push_back(pairs[i].first);
    items.push_back(pairs[i].second);
  }
}

void normalize(SortType type, Items& items) {
  if (type == SortType::set) make_set(items);
  if (type == SortType::multiset) std::sort(items.begin(), items.end());
  if (type == SortType::map) make_map(items);
}

/// The order of sets and maps depends on numbers of values: their hashes are sums.
Hash128 hash_items(const Sort& sort, Args items, const std::function<Hash128(SortId, Value)>& of) {
  const size_t step = sort.type == SortType::map ? 2 : 1;
  const bool ordered = sort.type == SortType::vec || sort.type == SortType::pair;
  Hasher all(items.size());
  Hash128 sum;
  for (size_t i = 0; i < items.size(); i += step) {
    Hasher one(1);
    for (size_t k = 0; k < step; ++k)
      one.add(of(sort.parts[sort.parts.size() == 2 ? (i + k) % 2 : 0], items[i + k]));
    const Hash128 h = one.value128();
    if (ordered) all.add(h);
    sum = {sum.low + h.low, sum.high + h.high};
  }
  return all.add(sum).value128();
}

/// Where `key` stands in a map, or the size.
size_t map_find(const Items& items, Value key) {
  for (size_t i = 0; i < items.size(); i += 2)
    if (items[i] == key) return i;
  return items.size();
}

/// Registers the primitives of one container sort.
struct ContainerPrimitives {
  Impl& p;
  SortId sort;
  SortType type;
  std::vector<SortId> parts;

  Items items(Value v) const {
    const auto s = p.pool.sequence_of(v);
    return Items(s.begin(), s.end());
  }
  /// A primitive that makes a container of this sort from items; F fills them and gives false where
  /// it is not defined.
  template <class F>
  void make(std::string_view name, std::vector<SortId> inputs, F f, bool variadic = false) const {
    Overload overload;
    overload.inputs = std::move(inputs);
    overload.output = sort;
    overload.variadic = variadic;
    add_primitive(
        p, name, std::move(overload),
        [self = *this, f](Args a, Value& out) {
          Items made;
          if (!f(self, a, made) || made.size() > 2 * size_t(max_items))
            return false; // a map has two items a key
          normalize(self.type, made);
          out = self.p.pool.sequence(made);
          return true;
        },
        false);
  }
  template <class F> void ask(std::string_view name, std::vector<SortId> inputs, SortId output, F f) const {
    Overload overload;
    overload.inputs = std::move(inputs);
    overload.output = output;
    add_primitive(
        p, name, std::move(overload),
        [self = *this, f](Args a, Value& out) { return f(self, self.items(a[0]), a, out); }, false);
  }
  void length(std::string_view name, size_t step = 1) const {
    ask(name, {sort}, BuiltinSort::i64,
        [step](const ContainerPrimitives& b, const Items& x, Args, Value& out) {
          return out = b.p.pool.integer(static_cast<int64_t>(x.size() / step)), true;
        });
  }
  void contains(const std::string& prefix) const {
    for (const bool wanted : {true, false})
      ask(prefix + (wanted ? "-contains" : "-not-contains"), {sort, parts[0]}, BuiltinSort::unit,
          [wanted](const ContainerPrimitives& b, const Items& x, Args a, Value& out) {
            out = 0;
            const bool found = b.type == SortType::map ? map_find(x, a[1]) < x.size()
                                                       : std::find(x.begin(), x.end(), a[1]) != x.end();
            return found == wanted;
          });
  }
  /// The index that an integer gives; false where there is no such item.
  bool index(Value v, size_t size, size_t& at) const {
    const int64_t i = p.pool.integer_of(v);
    at = static_cast<size_t>(i);
    return i >= 0 && at < size;
  }
};

bool all_items(const ContainerPrimitives&, Args a, Items& out) {
  out.assign(a.begin(), a.end());
  return true;
}
bool no_items(const ContainerPrimitives&, Args, Items&) { return true; }

void add_vec(const ContainerPrimitives& b) {
  b.make("vec-empty", {}, no_items);
  b.make("vec-of", {b.parts[0]}, all_items, true);
  b.make(
      "vec-append", {b.sort},
      [](const ContainerPrimitives& self, Args a, Items& out) {
        for (const Value v : a) {
          const Items x = self.items(v);
          if (out.size() + x.size() > size_t(max_items)) return false;
          out.insert(out.end(), x.begin(), x.end());
        }
        return true;
      },
      true);
  b.make("vec-push", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    out.push_back(a[1]);
    return true;
  });
  b.make("vec-pop", {b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    if (!out.empty()) out.pop_back();
    return true;
  });
  b.make("vec-set", {b.sort, BuiltinSort::i64, b.parts[0]},
         [](const ContainerPrimitives& self, Args a, Items& out) {
           out = self.items(a[0]);
           size_t at = 0;
           if (!self.index(a[1], out.size(), at)) return false;
           out[at] = a[2];
           return true;
         });
  b.make("vec-remove", {b.sort, BuiltinSort::i64}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    size_t at = 0;
    if (!self.index(a[1], out.size(), at)) return false;
    out.erase(out.begin() + static_cast<ptrdiff_t>(at));
    return true;
  });
  if (b.parts[0] == BuiltinSort::i64)
    b.make("vec-range", {BuiltinSort::i64}, [](const ContainerPrimitives& self, Args a, Items& out) {
      const int64_t end = self.p.pool.integer_of(a[0]);
      if (end > max_items) return false;
      for (int64_t i = 0; i < end; ++i) out.push_back(self.p.pool.integer(i));
      return true;
    });
  b.ask("vec-get", {b.sort, BuiltinSort::i64}, b.parts[0],
        [](const ContainerPrimitives& self, const Items& x, Args a, Value& out) {
          size_t at = 0;
          return self.index(a[1], x.size(), at) && (out = x[at], true);
        });
  if (b.p.schema.sorts[b.parts[0]].type == SortType::classes) {
    // Unites what stands at equal places; an action.
    Overload overload;
    overload.inputs = {b.sort, b.sort};
    overload.output = b.sort;
    overload.writes = true;
    overload.id = static_cast<uint32_t>(b.p.host_actions.size());
    b.p.schema.add_primitive("vec-union", std::move(overload));
    b.p.host_actions.push_back({"vec-union", {}, {}, [self = b](EGraph& graph, Args a, Value& out) {
                                  const Items x = self.items(a[0]), y = self.items(a[1]);
                                  if (x.size() != y.size()) return false;
                                  for (size_t i = 0; i < x.size(); ++i) graph.unite(x[i], y[i]);
                                  out = a[0];
                                  return true;
                                }});
  }
  b.length("vec-length");
  b.contains("vec");
}

void add_set(const ContainerPrimitives& b) {
  b.make("set-empty", {}, no_items);
  b.make("set-of", {b.parts[0]}, all_items, true);
  b.make("set-insert", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    out.push_back(a[1]);
    return true;
  });
  b.make("set-remove", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    std::erase(out, a[1]);
    return true;
  });
  b.make("set-union", {b.sort, b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    const Items more = self.items(a[1]);
    out.insert(out.end(), more.begin(), more.end());
    return true;
  });
  const auto filter = [&b](std::string_view name, bool keep) {
    b.make(name, {b.sort, b.sort}, [keep](const ContainerPrimitives& self, Args a, Items& out) {
      const Items other = self.items(a[1]);
      for (const Value v : self.items(a[0]))
        if (std::binary_search(other.begin(), other.end(), v) == keep) out.push_back(v);
      return true;
    });
  };
  filter("set-intersect", true);
  filter("set-diff", false);
  b.ask("set-get", {b.sort, BuiltinSort::i64}, b.parts[0],
        [](const ContainerPrimitives& self, const Items& x, Args a, Value& out) {
          size_t at = 0;
          return self.index(a[1], x.size(), at) && (out = x[at], true);
        });
  b.length("set-length");
  b.contains("set");
}

void add_multiset(const ContainerPrimitives& b) {
  b.make("multiset-of", {b.parts[0]}, all_items, true);
  b.make("multiset-insert", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    out.push_back(a[1]);
    return true;
  });
  b.make("multiset-remove", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    const auto at = std::find(out.begin(), out.end(), a[1]);
    if (at == out.end()) return false;
    out.erase(at);
    return true;
  });
  b.make("multiset-single", {b.parts[0], BuiltinSort::i64},
         [](const ContainerPrimitives& self, Args a, Items& out) {
           const int64_t n = self.p.pool.integer_of(a[1]);
           if (n < 0 || n > max_items) return false;
           out.assign(static_cast<size_t>(n), a[0]);
           return true;
         });
  b.make("multiset-subtract", {b.sort, b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    const Items all = self.items(a[0]), less = self.items(a[1]);
    if (!std::includes(all.begin(), all.end(), less.begin(), less.end())) return false;
    std::set_difference(all.begin(), all.end(), less.begin(), less.end(), std::back_inserter(out));
    return true;
  });
  b.make("multiset-intersection", {b.sort, b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    const Items x = self.items(a[0]), y = self.items(a[1]);
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(out));
    return true;
  });
  b.make("multiset-reset-counts", {b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    make_set(out);
    return true;
  });
  b.ask("multiset-count", {b.sort, b.parts[0]}, BuiltinSort::i64,
        [](const ContainerPrimitives& self, const Items& x, Args a, Value& out) {
          return out = self.p.pool.integer(std::count(x.begin(), x.end(), a[1])), true;
        });
  // The element that is there most often, of several the one with the largest number.
  b.ask("multiset-pick-max", {b.sort}, b.parts[0],
        [](const ContainerPrimitives&, const Items& x, Args, Value& out) {
          size_t most = 0;
          for (size_t i = 0, end = 0; i < x.size(); i = end) {
            while (end < x.size() && x[end] == x[i]) ++end;
            if (end - i < most) continue;
            most = end - i;
            out = x[i];
          }
          return most > 0;
        });
  b.ask("multiset-pick", {b.sort}, b.parts[0],
        [](const ContainerPrimitives&, const Items& x, Args, Value& out) {
          return !x.empty() && (out = x[0], true);
        });
  b.make("multiset-sum", {b.sort, b.sort}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    const Items more = self.items(a[1]);
    out.insert(out.end(), more.begin(), more.end());
    return true;
  });
  b.length("multiset-length");
  b.contains("multiset");
}

void add_map(const ContainerPrimitives& b) {
  b.make("map-empty", {}, no_items);
  b.make("map-insert", {b.sort, b.parts[0], b.parts[1]},
         [](const ContainerPrimitives& self, Args a, Items& out) {
           out = self.items(a[0]);
           out.push_back(a[1]);
           out.push_back(a[2]);
           return true;
         });
  b.make("map-remove", {b.sort, b.parts[0]}, [](const ContainerPrimitives& self, Args a, Items& out) {
    out = self.items(a[0]);
    const size_t at = map_find(out, a[1]);
    if (at < out.size())
      out.erase(out.begin() + static_cast<ptrdiff_t>(at), out.begin() + static_cast<ptrdiff_t>(at + 2));
    return true;
  });
  b.ask("map-get", {b.sort, b.parts[0]}, b.parts[1],
        [](const ContainerPrimitives&, const Items& x, Args a, Value& out) {
          const size_t at = map_find(x, a[1]);
          return at < x.size() && (out = x[at + 1], true);
        });
  b.length("map-length", 2);
  b.contains("map");
}

void add_pair(const ContainerPrimitives& b) {
  b.make("pair", {b.parts[0], b.parts[1]}, all_items);
  for (const size_t i : {0, 1})
    b.ask(i == 0 ? "pair-first" : "pair-second", {b.sort}, b.parts[i],
          [i](const ContainerPrimitives&, const Items& x, Args, Value& out) { return out = x[i], true; });
}

} // namespace

void add_container_primitives(EggProgram::Impl& program, SortId id) {
  const Sort sort = program.schema.sorts[id];
  SortSpec spec;
  spec.name = std::string(program.syntax.text(sort.name));
  spec.kind = sort.holds_classes ? SortKind::container : SortKind::value;
  EggProgram::Impl* p = &program;
  if (sort.holds_classes)
    spec.rebuild = [p, sort](Value value, const Finder& find) {
      const auto span = p->pool.sequence_of(value);
      Items items(span.begin(), span.end());
      bool changed = false;
      for (size_t i = 0; i < items.size(); ++i) {
        const SortId part = sort.parts[sort.parts.size() == 2 ? i % 2 : 0];
        const Sort& s = p->schema.sorts[part];
        Value now = items[i];
        if (s.type == SortType::classes)
          now = find(items[i]);
        else if (s.holds_classes)
          now = p->graph.sort(part).rebuild(items[i], find);
        changed = changed || now != items[i];
        items[i] = now;
      }
      if (!changed) return value;
      normalize(sort.type, items);
      return p->pool.sequence(items);
    };
  spec.hash = [p, sort](Value value, const std::function<Hash128(SortId, Value)>& of) {
    return hash_items(sort, p->pool.sequence_of(value), of);
  };
  const SortId engine = program.graph.add_sort(std::move(spec));
  LUMINAL_CHECK(engine == id, "container {}", program.syntax.text(sort.name));
  const ContainerPrimitives b{program, id, sort.type, sort.parts};
  switch (sort.type) {
  case SortType::vec: add_vec(b); break;
  case SortType::set: add_set(b); break;
  case SortType::multiset: add_multiset(b); break;
  case SortType::map: add_map(b); break;
  case SortType::pair: add_pair(b); break;
  default: LUMINAL_CHECK(false, "no container");
  }
}

} // namespace luminal::egraph
