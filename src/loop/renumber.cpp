// loop/renumber.cpp -- statements with other numbers of buffers and lets.
#include "loop/renumber.h"
#include <map>

namespace luminal::kernel {
namespace {

class Renumber {
public:
  Renumber(IdVector<BufferId, BufferId> buffers, int lets) : buffers_(std::move(buffers)), lets_(lets) {}

  Body operator()(const Body& body) {
    Body out;
    for (const StmtRef& s : body) out.push_back(statement(*s));
    return out;
  }

private:
  BufferId buffer(BufferId b) const { return b ? buffers_[b] : b; }
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
        [&](const AsyncCopy& s) {
          return async_copy(operand(s.to), operand(s.from), s.count, s.token, s.fill);
        },
        [&](const AsyncUnit& s) { return std::make_shared<const Stmt>(AsyncUnit{call(s.call), s.token}); },
        [&](const AsyncWait& s) { return async_wait(s.token, s.behind); },
        [&](const Exchange& s) {
          return exchange(buffer(s.to), s.to_offset, buffer(s.from), s.from_offset, s.mask);
        });
  }

  IdVector<BufferId, BufferId> buffers_;
  int lets_;
  std::map<const Value*, ValueRef> made_;
};

} // namespace

Body renumbered(const Body& body, IdVector<BufferId, BufferId> buffers, int lets) {
  return Renumber(std::move(buffers), lets)(body);
}

} // namespace luminal::kernel
