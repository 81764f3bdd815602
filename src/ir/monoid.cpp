// ir/monoid.cpp -- interned monoids: what they read, their identities, their text.
#include "ir/monoid.h"
#include "base/check.h"
#include "ir/identity.h"
#include <array>
#include <atomic>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <shared_mutex>

namespace luminal {
namespace {

/// Ids are positions in the order of creation: they serve equality only and are never printed.
struct Interner {
  std::shared_mutex mutex;
  std::deque<std::vector<MonoidComponent>> lists{{}}; // id 0: the empty list
  std::map<std::string, uint32_t> ids;                // by text, which is complete
};
Interner& interner() {
  static Interner instance;
  return instance;
}

int component_of_leaf(int leaf) { return (leaf - 1) / 2; }

std::string text_of(const std::vector<MonoidComponent>& components) {
  std::string text, types;
  for (size_t i = 0; i < components.size(); ++i) {
    const MonoidComponent& c = components[i];
    text += fmt::format("{}{}({})", i ? ", " : "", row(c.op).monoid,
                        to_string(c.transform, monoid_leaf_names(int(i))));
    types += fmt::format("{}{}", i ? ", " : "", to_string(c.dtype));
  }
  return text + " : " + types;
}

/// Operations that fold: what a component may be made of, and on which types.
void check_component(const std::vector<MonoidComponent>& components, size_t i) {
  const MonoidComponent& c = components[i];
  const OpRow& r = row(c.op);
  auto fail = [&](std::string_view text) { throw Error("monoid", fmt::format("component {}: {}", i, text)); };
  if (r.monoid.empty())
    fail(fmt::format("'{}' does not fold; the words are sum, prod, max, min, any, all", r.name));
  DType same[2] = {c.dtype, c.dtype};
  std::string why;
  if (!result_type(r, same, &why)) fail(fmt::format("{}: {}", r.monoid, why));
  std::vector<DType> leaves{c.dtype};
  for (size_t j = 0; j < i; ++j) leaves.insert(leaves.end(), 2, components[j].dtype);
  for (const ScalarNode& node : c.transform.nodes())
    if (node.kind == ScalarNode::Kind::leaf && size_t(node.leaf) >= leaves.size())
      fail(fmt::format("it reads component {}, only earlier ones can be read", component_of_leaf(node.leaf)));
  try {
    typed(c.transform, leaves, c.dtype);
  } catch (const Error& error) {
    fail(error.what());
  }
}

} // namespace

std::vector<std::string> monoid_leaf_names(int component) {
  std::vector<std::string> names{"self"};
  for (int j = 0; j < component; ++j) {
    names.push_back(fmt::format("old{}", j));
    names.push_back(fmt::format("new{}", j));
  }
  return names;
}

Monoid Monoid::intern(std::vector<MonoidComponent> components) {
  for (size_t i = 0; i < components.size(); ++i) check_component(components, i);
  std::string key = text_of(components);
  Interner& all = interner();
  Monoid result;
  if (components.empty()) return result;
  std::unique_lock lock(all.mutex);
  auto [at, fresh] = all.ids.try_emplace(key, uint32_t(all.lists.size()));
  if (fresh) all.lists.push_back(std::move(components));
  result.id_ = at->second;
  return result;
}
Monoid Monoid::plain(Op op, DType dtype) {
  static std::array<std::atomic<uint32_t>, size_t(op_count * dtype_count)>
      known; // asked for by every fold; 0: not yet
  std::atomic<uint32_t>& id = known[size_t(op) * dtype_count + size_t(dtype)];
  Monoid result;
  if (id == 0) id = intern({{op, dtype, Scalar::leaf(0)}}).id_;
  result.id_ = id;
  return result;
}

const std::vector<MonoidComponent>& Monoid::components() const {
  Interner& all = interner();
  std::shared_lock lock(all.mutex);
  return all.lists[id_]; // elements of a deque stay where they are
}

std::vector<int> Monoid::dependencies(int i) const {
  const auto& list = components();
  std::vector<bool> needed(list.size(), false);
  for (int j = i; j >= 0; --j) {
    if (j != i && !needed[size_t(j)]) continue;
    for (const ScalarNode& node : list[size_t(j)].transform.nodes())
      if (node.kind == ScalarNode::Kind::leaf && node.leaf > 0)
        needed[size_t(component_of_leaf(node.leaf))] = true;
  }
  std::vector<int> result;
  for (int j = 0; j < i; ++j)
    if (needed[size_t(j)]) result.push_back(j);
  return result;
}

double Monoid::identity(int i) const {
  const MonoidComponent& c = components()[size_t(i)];
  return is_float(c.dtype) ? identity_f64(c.op, c.dtype) : integer_to_f64(c.dtype, identity_integer(i));
}
int64_t Monoid::identity_integer(int i) const {
  const MonoidComponent& c = components()[size_t(i)];
  return luminal::identity_i64(c.op, c.dtype);
}

std::string to_string(const Monoid& monoid) { return text_of(monoid.components()); }

} // namespace luminal
