// search/part.cpp -- shortening outer loops.
#include "search/part.h"
#include "search/bound.h"
#include <algorithm>
#include <cmath>
#include <functional>

namespace luminal::search {
namespace {

using kernel::Body;
using kernel::If;
using kernel::Loop;
using kernel::LoopKind;
using kernel::Stmt;
using kernel::StmtRef;

bool steps(const Loop& s) { return s.kind == LoopKind::serial || s.kind == LoopKind::parallel; }
bool holds(const Body& body, const std::function<bool(const Stmt&)>& wanted) {
  return std::ranges::any_of(body, [&](const StmtRef& s) {
    return wanted(*s) ||
           std::ranges::any_of(bodies_of(*s), [&](const Body* inside) { return holds(*inside, wanted); });
  });
}
bool holds_loop(const Body& body) {
  return holds(body, [](const Stmt& s) {
    const auto* loop = s.as<Loop>();
    return loop && steps(*loop);
  });
}

class Shortener {
public:
  Shortener(const std::map<std::string, int64_t>& sizes, const std::vector<Expr>& symbols, int threads)
      : threads_(threads) {
    for (const Expr symbol : symbols)
      if (const auto found = sizes.find(std::string(symbol.name())); found != sizes.end())
        bound_[symbol] = found->second;
  }

  Body shorten(const Body& body, double share, bool outermost) {
    Body made;
    for (const StmtRef& s : body) made.push_back(shorten(s, share, outermost));
    return made;
  }
  bool changed() const { return changed_; }

private:
  StmtRef shorten(const StmtRef& stmt, double share, bool outermost) {
    if (stmt->is<If>())
      return with_bodies(*stmt, [&](const Body& body) { return shorten(body, share, outermost); });
    const auto* s = stmt->as<Loop>();
    if (!s || !steps(*s) || share > 0.7) return stmt;
    const bool inner = !holds_loop(s->body);
    if (inner && !outermost) return stmt;
    const auto begin = evaluate(s->begin, bound_), end = evaluate(s->end, bound_);
    if (!begin || !end || *end <= *begin) return stmt;
    const int64_t count = *end - *begin;
    const bool distributed = is_distributed(*stmt) && threads_ > 1;
    int64_t kept = std::max<int64_t>(1, std::llround(std::ceil(double(count) * share)));
    if (distributed) kept = std::min(count, (kept + threads_ - 1) / threads_ * threads_);
    const int64_t from = (count - kept + 1) / 2;
    Loop copy = *s;
    if (kept < count) {
      // Where the end hangs on loops around it the middle may lie behind it.
      copy.begin = s->begin + from;
      copy.end = s->end.is_constant() ? s->begin + from + kept : min(s->end, s->begin + from + kept);
      changed_ = true;
    }
    if (!inner) {
      bound_[s->variable] = *begin + from + kept / 2;
      // What one iteration takes on each worker is the same for all numbers of them.
      const double rounds = distributed ? std::ceil(double(count) / threads_) : double(count);
      const double left = distributed ? std::ceil(double(kept) / threads_) : double(kept);
      copy.body = shorten(s->body, std::min(1.0, share * rounds / left), false);
      bound_.erase(s->variable);
    }
    return std::make_shared<const Stmt>(std::move(copy));
  }

  int threads_;
  ExprMap<int64_t> bound_;
  bool changed_ = false;
};

} // namespace

std::optional<Part> part_of(const kernel::Kernel& kernel, const std::map<std::string, int64_t>& sizes,
                            int threads, double share, const MachineProfile& profile) {
  // Rings of copies count on one step after the other.
  if (holds(kernel.body, [](const Stmt& s) {
        return s.is<kernel::Roles>() || s.is<kernel::AsyncCopy>() || s.is<kernel::AsyncUnit>() ||
               s.is<kernel::AsyncWait>() || is_collective(s);
      }))
    return {};
  const auto all = least_work(kernel, sizes, threads);
  if (!all) return {};
  Part part{kernel, 1};
  Shortener shortener(sizes, kernel.symbols, threads);
  part.kernel.body = shortener.shorten(kernel.body, share, true);
  if (!shortener.changed()) return {};
  const auto some = least_work(part.kernel, sizes, threads);
  if (!some) return {};
  const double of_all = weight(*all, profile), of_part = weight(*some, profile);
  if (!(of_part > 0) || !(of_all > of_part)) return {};
  part.whole = of_all / of_part;
  return part;
}

} // namespace luminal::search
