// search/part.cpp -- shortening outer loops.
#include "search/part.h"
#include "search/bound.h"
#include <algorithm>
#include <cmath>

namespace luminal::search {
namespace {

using kernel::Body;
using kernel::LoopKind;
using kernel::Stmt;
using kernel::StmtKind;
using kernel::StmtRef;

bool steps(const Stmt& s) {
  return s.kind == StmtKind::loop && (s.loop == LoopKind::serial || s.loop == LoopKind::parallel);
}
bool holds_loop(const Body& body) {
  return std::ranges::any_of(
      body, [](const StmtRef& s) { return steps(*s) || holds_loop(s->body) || holds_loop(s->otherwise); });
}
bool holds(const Body& body, auto&& wanted) {
  return std::ranges::any_of(body, [&](const StmtRef& s) {
    return wanted(*s) || holds(s->body, wanted) || holds(s->otherwise, wanted);
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
  StmtRef shorten(const StmtRef& s, double share, bool outermost) {
    if (s->kind == StmtKind::if_) {
      Stmt copy = *s;
      copy.body = shorten(s->body, share, outermost);
      copy.otherwise = shorten(s->otherwise, share, outermost);
      return std::make_shared<const Stmt>(std::move(copy));
    }
    if (!steps(*s) || share > 0.7) return s;
    const bool inner = !holds_loop(s->body);
    if (inner && !outermost) return s;
    const auto begin = evaluate(s->begin, bound_), end = evaluate(s->end, bound_);
    if (!begin || !end || *end <= *begin) return s;
    const int64_t count = *end - *begin;
    const bool distributed = s->loop == LoopKind::parallel && s->level == 0 && threads_ > 1;
    int64_t kept = std::max<int64_t>(1, std::llround(std::ceil(double(count) * share)));
    if (distributed) kept = std::min(count, (kept + threads_ - 1) / threads_ * threads_);
    const int64_t from = (count - kept + 1) / 2;
    Stmt copy = *s;
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
        return s.kind == StmtKind::roles || s.kind == StmtKind::async_copy ||
               s.kind == StmtKind::async_unit || s.kind == StmtKind::async_wait;
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
