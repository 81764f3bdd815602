// schedule/versions.cpp -- several schedules of one cone in one kernel: which of them runs is told
// by the sizes of a launch.
#include "base/check.h"
#include "base/contains.h"
#include "schedule/nest.h"
#include <algorithm>
#include <map>

namespace luminal::kernel {
namespace {

/// Statements with their buffers and lets numbered anew. Values that are shared stay shared.
class Renumber {
public:
  Renumber(std::vector<BufferId> buffers, int lets) : buffers_(std::move(buffers)), lets_(lets) {}

  Body operator()(const Body& body) {
    Body out;
    for (const StmtRef& s : body) out.push_back(statement(*s));
    return out;
  }

private:
  BufferId buffer(BufferId b) const { return b < 0 ? b : buffers_[size_t(b)]; }
  ValueRef value(const ValueRef& v) {
    if (!v) return v;
    if (const auto known = made_.find(v.get()); known != made_.end()) return known->second;
    ValueRef made;
    if (const auto* load = v->as<Load>())
      made = load_as(v->dtype, buffer(load->buffer), load->offset, load->guard);
    else if (const auto* named = v->as<Let>())
      made = let_value(v->dtype, named->number + lets_);
    else
      made = with_args(*v, [&](const ValueRef& arg) { return value(arg); });
    return made_[v.get()] = made;
  }
  UnitOperand operand(UnitOperand o) const {
    o.buffer = buffer(o.buffer);
    return o;
  }
  UnitCall call(UnitCall c) const {
    for (UnitOperand& o : c.operands) o = operand(o);
    return c;
  }
  StmtRef statement(const Stmt& stmt) {
    const auto inside = [&] { return with_bodies(stmt, [&](const Body& b) { return (*this)(b); }); };
    return visit(
        stmt, [&](const Loop&) { return inside(); }, [&](const If&) { return inside(); },
        [&](const Roles&) { return inside(); },
        [&](const Store& s) { return store(buffer(s.buffer), s.offset, value(s.value)); },
        [&](const LetValue& s) { return let(s.let + lets_, value(s.value)); },
        [&](const LetIndex& s) { return let_index(s.symbol, value(s.value)); },
        [&](const Barrier& s) { return barrier(s.level); },
        [&](const Prefetch& s) { return prefetch(buffer(s.buffer), s.offset); },
        [&](const UnitCall& s) { return std::make_shared<const Stmt>(call(s)); },
        [&](const AsyncCopy& s) { return async_copy(operand(s.to), operand(s.from), s.count, s.token); },
        [&](const AsyncUnit& s) { return std::make_shared<const Stmt>(AsyncUnit{call(s.call), s.token}); },
        [&](const AsyncWait& s) { return async_wait(s.token); });
  }

  std::vector<BufferId> buffers_;
  int lets_;
  std::map<const Value*, ValueRef> made_;
};

} // namespace

std::vector<Version> versions_of(const Cone& cone, const Schedule& schedule) {
  std::vector<Version> versions{{1, {}}};
  for (const Directive& d : schedule.directives) {
    if (d.kind != DirectiveKind::from) {
      versions.back().schedule.directives.push_back(d);
      continue;
    }
    const auto axis = std::ranges::find(cone.axes, d.words[0], &ConeAxis::name);
    if (axis == cone.axes.end()) refuse("`{}`: there is no axis {}", to_string(d), d.words[0]);
    versions.push_back({le(d.numbers[0], axis->extent), {}});
  }
  for (size_t v = versions.size(); v-- > 1;)
    if (prove(versions[v].condition) == Truth::yes) {
      versions.erase(versions.begin(), versions.begin() + std::ptrdiff_t(v));
      versions[0].condition = 1;
      break;
    }
  std::erase_if(versions, [](const Version& v) { return prove(v.condition) == Truth::no; });
  return versions;
}

Kernel with_version(Kernel kernel, Expr condition, Kernel next) {
  std::vector<BufferId> buffers;
  for (size_t b = 0; b < next.buffers.size(); b++) {
    Buffer& buffer = next.buffers[b];
    if (buffer.space == Space::global) { // the arguments are those of the cone
      LUMINAL_CHECK(b < kernel.buffers.size() && kernel.buffers[b].name == buffer.name,
                    "versions of {} have other arguments", kernel.name);
      kernel.buffers[b].streaming |= buffer.streaming;
      buffers.push_back(BufferId(b));
      continue;
    }
    const std::string name = buffer.name;
    for (int n = 2; contains(kernel.buffers, buffer.name, &Buffer::name); n++)
      buffer.name = name + ".v" + std::to_string(n);
    buffers.push_back(add_buffer(kernel, std::move(buffer)));
  }
  Body body = Renumber(std::move(buffers), kernel.lets)(next.body);
  kernel.lets += next.lets;
  kernel.notes.insert(kernel.notes.end(), next.notes.begin(), next.notes.end());
  kernel.body = {if_then(condition, std::move(body), std::move(kernel.body))};
  return kernel;
}

} // namespace luminal::kernel
