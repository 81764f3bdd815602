// codegen/c_like/c_kernel.cpp -- functions, buffers, and the statements of the loop IR as C-like text.
#include "base/overloaded.h"
#include "codegen/c_like/c_emitter.h"
#include <algorithm>

namespace luminal::codegen {
using kernel::Body;
using kernel::LoopKind;
using kernel::Space;

namespace {

constexpr int64_t most_private_bytes = 16384; // arrays of one thread

bool visits(const Body& body, const std::function<bool(const kernel::Stmt&)>& found) {
  return std::ranges::any_of(body, [&](const kernel::StmtRef& s) {
    return found(*s) ||
           std::ranges::any_of(bodies_of(*s), [&](const Body* inside) { return visits(*inside, found); });
  });
}

bool has_roles(const Body& body) {
  return visits(body, [](const kernel::Stmt& s) { return s.is<kernel::Roles>(); });
}
bool is_barrier(const kernel::Stmt& stmt, int level) {
  const auto* barrier = stmt.as<kernel::Barrier>();
  return barrier && barrier->level == level;
}
bool has_deep_barrier(const Body& body) {
  return std::ranges::any_of(body, [](const kernel::StmtRef& s) {
    return std::ranges::any_of(bodies_of(*s), [](const Body* inside) {
      return visits(*inside, [](const kernel::Stmt& t) { return is_barrier(t, 0); });
    });
  });
}

/// Lets and private buffers that a part of the body names.
struct Names {
  std::set<kernel::LetId> lets;
  std::set<kernel::BufferId> buffers;
};
void collect(const kernel::Value& v, Names& names) {
  if (const auto* let = v.as<kernel::Let>()) names.lets.insert(let->number);
  if (const auto* load = v.as<kernel::Load>()) names.buffers.insert(load->buffer);
  for (const kernel::ValueRef& a : args_of(v)) collect(*a, names);
}
void collect(const Body& body, Names& names) {
  visits(body, [&](const kernel::Stmt& s) {
    if (const kernel::Value* value = value_of(s)) collect(*value, names);
    if (const auto* let = s.as<kernel::LetValue>()) names.lets.insert(let->let);
    if (const auto written = written_by(s)) names.buffers.insert(*written);
    return false;
  });
}

/// The body cut at its outermost barriers; one part where something private lives across one.
std::vector<Body> phases_of(const kernel::Kernel& kernel) {
  std::vector<Body> parts(1);
  for (const kernel::StmtRef& s : kernel.body)
    if (is_barrier(*s, 0))
      parts.emplace_back();
    else
      parts.back().push_back(s);
  std::erase_if(parts, [](const Body& part) { return part.empty(); });
  Names before;
  for (const Body& part : parts) {
    Names here;
    collect(part, here);
    const auto shared = [](const auto& a, const auto& b, auto counts) {
      return std::ranges::any_of(a, [&](auto x) { return b.contains(x) && counts(x); });
    };
    const bool crosses = shared(before.lets, here.lets, [](kernel::LetId) { return true; }) ||
                         shared(before.buffers, here.buffers, [&](kernel::BufferId b) {
                           const Space space = kernel.buffers[b].space;
                           return space != Space::global && space != Space::shared;
                         });
    if (crosses) return {kernel.body};
    before.lets.merge(here.lets);
    before.buffers.merge(here.buffers);
  }
  return parts;
}

Expr bytes_of(const kernel::Buffer& b) {
  return bits(b.dtype) == 4 ? ceildiv(b.size, 2) : b.size * Expr(bits(b.dtype) / 8);
}

std::string filled(std::string_view text,
                   std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string result(text);
  for (const auto& [name, by] : values) {
    const std::string word = fmt::format("{{{}}}", name);
    for (size_t at = result.find(word); at != std::string::npos; at = result.find(word, at + by.size()))
      result.replace(at, word.size(), by);
  }
  return result;
}

} // namespace

CEmitter::CEmitter(const kernel::Kernel& kernel, const Dialect& dialect, const CLikeOptions& options)
    : kernel_(has_roles(kernel.body) ? kernel::expand_roles(kernel) : kernel), dialect_(dialect),
      options_(options) {}

void CEmitter::line(const std::string& text) { out_ += std::string(size_t(2 * indent_), ' ') + text + "\n"; }

std::string CEmitter::unique(std::string name) {
  for (char& c : name)
    if (c == '.') c = '_';
  std::string made = name;
  for (int i = 1; !names_.insert(made).second; ++i) made = fmt::format("{}_{}", name, i);
  return made;
}

void CEmitter::note(Expr e) { exprs_.push_back(e); }

void CEmitter::scan_value(const kernel::Value& v) {
  if (const auto* load = v.as<kernel::Load>()) {
    const kernel::Buffer& b = kernel_.buffers[load->buffer];
    note(load->offset * Expr(std::max(1, bits(b.dtype) / 8)));
    note(load->guard);
  }
  if (const auto* at = v.as<kernel::Index>()) note(at->value);
  for (const kernel::ValueRef& a : args_of(v)) scan_value(*a);
}

/// Expressions, for the width of indices, and whether a worker is a group.
void CEmitter::scan(const Body& statements, int depth) {
  const auto operand = [&](const kernel::UnitOperand& o) {
    note(o.offset);
    for (Expr stride : o.strides) note(stride);
  };
  for (const kernel::StmtRef& s : statements) {
    if (const kernel::Value* value = value_of(*s)) scan_value(*value);
    kernel::visit(
        *s,
        [&](const kernel::Loop& l) {
          // Threads step beyond the end by as many as there are.
          note(l.begin), note(l.end + Expr(l.kind == LoopKind::parallel ? 1 << 24 : 1));
          if (l.lanes_active) note(*l.lanes_active);
          if (l.kind != LoopKind::parallel || l.level == 0) return;
          if (l.level > 1)
            fail(fmt::format("parallel loops of level {}: there are groups and their lanes", l.level));
          result_.grouped = true;
        },
        [&](const kernel::Store& t) {
          note(t.offset * Expr(std::max(1, bits(kernel_.buffers[t.buffer].dtype) / 8)));
        },
        [&](const kernel::If& i) { note(i.condition); },
        [&](const kernel::Barrier& b) { result_.grouped |= b.level > 0; },
        [&](const kernel::UnitCall& u) {
          for (const kernel::UnitOperand& o : u.operands) operand(o);
        },
        [&](const kernel::AsyncUnit& u) {
          for (const kernel::UnitOperand& o : u.call.operands) operand(o);
        },
        [&](const kernel::AsyncCopy& c) {
          tokens_.insert(c.token);
          operand(c.to), operand(c.from), note(c.count), note(c.fill);
        },
        [&](const kernel::Exchange& e) { note(e.to_offset), note(e.from_offset); }, [](const auto&) {});
    for (const Body* inside : bodies_of(*s)) scan(*inside, depth + 1);
  }
}

std::string CEmitter::name_of(Expr symbol) {
  const auto found = symbols_.find(symbol);
  if (found == symbols_.end()) fail(fmt::format("{} has no value here", symbol.name()));
  return lane_symbols_.contains(symbol) ? fmt::format("{}[{}]", found->second, index(*lane_ - *first_lane_))
                                        : found->second;
}

std::string CEmitter::index(Expr e) {
  return to_c(e, {.name_of = [&](Expr s) { return name_of(s); }, .bits = index_bits_, .type = "idx"});
}
std::string CEmitter::condition(Expr e) {
  std::string text = index(e);
  return e.is_condition() ? text : fmt::format("({} != 0)", text);
}

// ---- the head of a function ----

std::string CEmitter::arguments() {
  std::string text;
  int n = 0;
  const auto add = [&](std::string_view shape, std::string type, const std::string& name) {
    text += (text.empty() ? "" : ", ") +
            filled(shape, {{"type", std::move(type)}, {"name", name}, {"n", std::to_string(n++)}});
  };
  for (const kernel::BufferId i : kernel_.buffers.ids()) {
    const kernel::Buffer& b = kernel_.buffers[i];
    if (b.space != Space::global) continue;
    add(dialect_.pointer_argument, (b.access == kernel::Access::in ? "const " : "") + memory_type(b.dtype),
        buffers_[i]);
  }
  if (!result_.shared_bytes.is_constant(0)) add(dialect_.pointer_argument, "u8", "lum_shared");
  for (Expr s : kernel_.symbols) add(dialect_.integer_argument, "i64", symbols_.at(s) + "_");
  if (!result_.group_bytes.is_constant(0) && !dialect_.group_argument.empty())
    text += (text.empty() ? "" : ", ") + filled(dialect_.group_argument, {{"n", "0"}});
  if (dialect_.most_arguments > 0 && n > dialect_.most_arguments)
    fail(fmt::format("it takes {} arguments, {} allows {}", n, dialect_.name, dialect_.most_arguments));
  if (!dialect_.built_in_arguments.empty())
    text += (text.empty() ? "" : ", ") + std::string(dialect_.built_in_arguments);
  return text;
}

std::string CEmitter::scratch_declarations() {
  std::string text;
  Expr shared = 0;
  int64_t group = 0;
  for (const kernel::BufferId i : kernel_.buffers.ids()) {
    const kernel::Buffer& b = kernel_.buffers[i];
    const std::string& name = buffers_[i];
    const Expr bytes = bytes_of(b);
    switch (b.space) {
    case Space::global: break;
    case Space::shared:
      text += fmt::format("  {0}{1}* {2} = ({0}{1}*)(lum_shared + {3});\n", dialect_.global_space,
                          memory_type(b.dtype), name, index(shared));
      shared = shared + ceildiv(bytes, 64) * Expr(64);
      break;
    case Space::group:
      text += fmt::format("  {0}{1}* {2} = ({0}{1}*)((({0}u8*)lum_words) + {3});\n", dialect_.group_space,
                          memory_type(b.dtype), name, group);
      group += (bytes.value() + 15) / 16 * 16;
      break;
    case Space::local:
    case Space::registers: {
      if (!b.size.is_constant())
        fail(fmt::format("the buffer {} of each worker has no constant size", b.name));
      if (bytes.value() > most_private_bytes)
        fail(fmt::format("the buffer {} takes {} bytes of each thread", b.name, bytes.value()));
      const bool memory = b.space == Space::local;
      const int64_t count = memory && bits(b.dtype) == 4 ? bytes.value() : b.size.value();
      text += fmt::format("  {} {}[{}];\n", memory ? memory_type(b.dtype) : held_type(b.dtype), name,
                          std::max<int64_t>(count, 1));
      break;
    }
    case Space::tensor_memory: fail("tensor memory: " + std::string(dialect_.name) + " has none");
    }
  }
  return text;
}

CLikeKernel CEmitter::run() {
  Expr shared = 0;
  int64_t group = 0;
  for (const kernel::Buffer& b : kernel_.buffers) {
    note(bytes_of(b));
    if (b.dtype == DType::f64 && (dialect_.f64_prelude.empty() || !options_.f64))
      fail(fmt::format("{} has no f64, which the buffer {} holds",
                       dialect_.f64_prelude.empty() ? dialect_.name : "the device", b.name));
    if (b.space == Space::shared) shared = shared + ceildiv(bytes_of(b), 64) * Expr(64);
    if (b.space != Space::group) continue;
    result_.grouped = true;
    if (!b.size.is_constant()) fail(fmt::format("the buffer {} of a group has no constant size", b.name));
    group += (bytes_of(b).value() + 15) / 16 * 16;
  }
  if (dialect_.group_bytes > 0 && group > dialect_.group_bytes)
    fail(fmt::format("a group takes {} bytes of memory, {} has {}", group, dialect_.name,
                     dialect_.group_bytes));
  result_.shared_bytes = shared;
  result_.group_bytes = group;
  note(shared);
  scan(kernel_.body, 0);
  for (Expr s : kernel_.symbols) note(s);
  index_bits_ = needed_bits(exprs_);
  const int64_t lanes = lanes_of_group(kernel_);
  if (lanes > 1024) fail(fmt::format("its groups have {} lanes, 1024 are allowed", lanes));
  result_.lanes = lanes ? int(lanes) : options_.lanes;

  std::vector<Body> parts = phases_of(kernel_);
  result_.one_group =
      parts.size() == 1 && visits(parts[0], [](const kernel::Stmt& s) { return is_barrier(s, 0); });
  for (const Body& part : parts)
    if (has_deep_barrier(part)) result_.one_group = true;
  if (result_.one_group) parts = {kernel_.body};

  for (std::string_view word :
       {"idx", "lum_shared", "lum_words", "lum_worker", "lum_workers", "lum_lane", "lum_lanes"})
    names_.insert(std::string(word));
  for (const kernel::Buffer& b : kernel_.buffers) buffers_.push_back(unique("b_" + b.name));
  for (Expr s : kernel_.symbols) symbols_[s] = unique("n_" + std::string(s.name()));

  std::string functions;
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::string entry = p ? fmt::format("{}_{}", options_.entry, p) : options_.entry;
    result_.phases.push_back(entry);
    out_.clear();
    lets_.clear();
    if (group > 0) line(filled(dialect_.group_begin, {{"words", std::to_string((group + 7) / 8)}}));
    for (Expr s : kernel_.symbols) line(fmt::format("const idx {0} = (idx){0}_;", symbols_.at(s)));
    const std::string lane(dialect_.lane), count = std::to_string(result_.lanes);
    if (result_.grouped) {
      line(fmt::format("const idx lum_worker = {}, lum_workers = {};",
                       result_.one_group ? "0" : dialect_.group, result_.one_group ? "1" : dialect_.groups));
      line(fmt::format("const idx lum_lane = {}, lum_lanes = {};", lane, count));
    } else if (result_.one_group)
      line(fmt::format("const idx lum_worker = {}, lum_workers = {};", lane, count));
    else
      line(fmt::format("const idx lum_worker = {0} * {1} + {2}, lum_workers = {3} * {1};", dialect_.group,
                       count, lane, dialect_.groups));
    out_ += scratch_declarations();
    body(parts[p]);
    functions +=
        filled(dialect_.kernel_head, {{"name", entry}, {"lanes", count}, {"arguments", arguments()}}) +
        " {\n" + out_ + "}\n";
  }
  const bool f64 = functions.find("f64") != std::string::npos;
  if (f64 && (dialect_.f64_prelude.empty() || !options_.f64))
    fail(fmt::format("{} has no f64", dialect_.f64_prelude.empty() ? dialect_.name : "the device"));
  const auto prelude = prelude_functions(dialect_, used_, f64);
  if (!prelude) fail(prelude.error());
  result_.text = *prelude;
  if (functions.find("lum_shuffle_") != std::string::npos ||
      functions.find("lum_copy") != std::string::npos || !units_.empty())
    result_.text += dialect_.lanes_prelude;
  if (group_loads_)
    result_.text += fmt::format("#ifndef lum_group_load\n#define lum_group_load(T, p, at) "
                                "(*({0}const T*)(({0}const u8*)(p) + (at)))\n#endif\n",
                                dialect_.group_space);
  for (const DialectUnit& unit : dialect_.units)
    if (units_.contains(unit.unit))
      result_.text += fmt::format("#ifndef {0}\n{1}#endif\n", unit.function, unit.text);
  result_.text += fmt::format("typedef {} idx;\n", index_bits_ == 32 ? "i32" : "i64") + functions;
  return std::move(result_);
}

// ---- statements ----

void CEmitter::body(const Body& statements) {
  for (const kernel::StmtRef& s : statements) statement(*s);
}

void CEmitter::statement(const kernel::Stmt& stmt) {
  kernel::visit(
      stmt, [&](const kernel::Loop& s) { loop(s); },
      [&](const kernel::If& s) {
        if (by_statement_ && varies(s.condition)) {
          conditions_.push_back(s.condition);
          body(s.then);
          conditions_.back() = logical_not(s.condition);
          body(s.otherwise);
          conditions_.pop_back();
          return;
        }
        block(fmt::format("if ({})", condition(s.condition)), [&] { body(s.then); });
        if (!s.otherwise.empty()) block("else", [&] { body(s.otherwise); });
      },
      [&](const kernel::Barrier& s) {
        if (s.level > 1) fail("a barrier of a level above that of the lanes");
        line(std::string(dialect_.group_barrier));
      },
      [&](const kernel::Prefetch&) {}, [&](const kernel::UnitCall& s) { unit(s); },
      [&](const kernel::AsyncCopy& s) { async_copy(s); },
      [&](const kernel::AsyncUnit& s) { unit(s.call); }, // begins and ends here
      [&](const kernel::AsyncWait& s) { async_wait(s); }, [&](const kernel::Exchange& s) { exchange(s); },
      [&](const kernel::Roles&) { fail("roles are not written out"); },
      [&](const auto&) { lane_statement(stmt); });
}

void CEmitter::loop(const kernel::Loop& s) {
  if (s.kind == LoopKind::vector) return vector_loop(s);
  const std::string begin = index(s.begin), end = index(s.end);
  const std::string name = symbols_[s.variable] = unique("i_" + std::string(s.variable.name()));
  std::string head = fmt::format("for (idx {0} = {1}; {0} < {2}; ++{0})", name, begin, end);
  const bool lanes = s.kind == LoopKind::parallel && s.level == 1;
  if (s.kind == LoopKind::parallel)
    head = fmt::format("for (idx {0} = {1} + {3}; {0} < {2}; {0} += {4})", name, begin, end,
                       lanes ? "lum_lane" : "lum_worker", lanes ? "lum_lanes" : "lum_workers");
  if (lanes && meets_inside(s)) { // a group has as many lanes: each does one iteration
    inside_level1_ = true;
    line(fmt::format("const idx {} = lum_lane;", name));
    body(s.body);
    inside_level1_ = false;
    return;
  }
  if (s.kind == LoopKind::unrolled && !dialect_.unroll.empty()) line(std::string(dialect_.unroll));
  const bool outer = inside_level1_;
  inside_level1_ |= lanes;
  block(head, [&] { body(s.body); });
  inside_level1_ = outer;
}

// ---- vector loops ----

/// Does no lane read or write what another one writes, so that the lanes may run one after the other?
bool CEmitter::lanes_are_apart(const Body& statements, Expr lane) {
  std::map<kernel::BufferId, std::vector<Expr>> stored, touched;
  std::vector<Expr> inner;
  bool apart = true;
  const std::function<void(const kernel::Value&)> of_value = [&](const kernel::Value& v) {
    if (v.is<kernel::ReduceLanes>()) apart = false;
    if (const auto* load = v.as<kernel::Load>()) touched[load->buffer].push_back(load->offset);
    for (const kernel::ValueRef& a : args_of(v)) of_value(*a);
  };
  visits(statements, [&](const kernel::Stmt& s) {
    kernel::visit(
        s,
        [&](const kernel::Loop& l) {
          inner.push_back(l.variable);
          apart &= l.kind != LoopKind::vector && l.kind != LoopKind::parallel;
        },
        [&](const kernel::Store& t) {
          stored[t.buffer].push_back(t.offset);
          touched[t.buffer].push_back(t.offset);
        },
        [](const kernel::LetValue&) {}, [](const kernel::If&) {}, [](const kernel::Prefetch&) {},
        [&](const auto&) { apart = false; });
    if (const kernel::Value* value = value_of(s)) of_value(*value);
    return false;
  });
  if (!apart) return false;
  for (const auto& [buffer, offsets] : stored)
    for (const Expr offset : touched[buffer]) {
      if (offset != offsets[0]) return false;
      const auto step = coefficient_of(offset, lane);
      if (!step || !step->is_constant() || step->is_constant(0)) return false;
      const int64_t span = std::abs(step->value()) * lanes_;
      for (Expr variable : inner) {
        if (!depends_on(offset, variable)) continue;
        const auto c = coefficient_of(offset, variable);
        if (!c || !c->is_constant() || c->value() % span != 0) return false;
      }
    }
  return true;
}

void CEmitter::vector_loop(const kernel::Loop& s) {
  const Expr count = s.end - s.begin;
  if (!count.is_constant())
    fail(fmt::format("the vector loop {} has no constant number of steps", s.variable.name()));
  if (lane_) fail("a vector loop stands in another one");
  lanes_ = count.value();
  lane_ = s.variable;
  first_lane_ = s.begin;
  active_ = s.lanes_active;
  symbols_[s.variable] = unique("i_" + std::string(s.variable.name()));
  by_statement_ = !lanes_are_apart(s.body, s.variable);
  if (by_statement_)
    block("", [&] { body(s.body); });
  else
    each_lane([&] { body(s.body); }, true);
  lane_.reset();
  active_.reset();
  by_statement_ = false;
  for (Expr symbol : lane_symbols_) symbols_.erase(symbol);
  lane_symbols_.clear();
  lanes_ = 1;
}

void CEmitter::each_lane(const std::function<void()>& inside, bool masked) {
  std::string end = index(*first_lane_ + Expr(lanes_)), guard;
  std::vector<Expr> guards = conditions_;
  if (active_) guards.insert(guards.begin(), lt(*lane_ - *first_lane_, *active_));
  if (masked)
    for (Expr g : guards) guard += (guard.empty() ? "" : " && ") + condition(g);
  const std::string name = symbols_.at(*lane_);
  const auto outer = known_;
  block(fmt::format("for (idx {0} = {1}; {0} < {2}; ++{0})", name, index(*first_lane_), end), [&] {
    if (guard.empty())
      inside();
    else
      block(fmt::format("if ({})", guard), inside);
  });
  known_ = outer;
}

/// Assignments: at each lane where they differ between lanes, else once.
void CEmitter::lane_statement(const kernel::Stmt& stmt) {
  uses_.clear();
  known_.clear();
  const auto* let = stmt.as<kernel::LetValue>();
  const auto* at = stmt.as<kernel::LetIndex>();
  const auto* to = stmt.as<kernel::Store>();
  const kernel::ValueRef& v = let ? let->value : at ? at->value : to->value;
  count_uses(v);
  if (!by_statement_) {
    if (let) {
      const std::string text = value(v);
      line(fmt::format("const {} {} = {};", held_type(v->dtype),
                       lets_[let->let] = unique(fmt::format("t{}", let->let)), text));
      let_varies_[let->let] = let_by_lane_[let->let] = false;
    } else if (at) {
      const std::string text = value(v);
      line(fmt::format("const idx {} = (idx){};",
                       symbols_[at->symbol] = unique("i_" + std::string(at->symbol.name())), text));
    } else
      store(*to);
    return;
  }
  const std::function<void(const kernel::ValueRef&)> reductions = [&](const kernel::ValueRef& x) {
    for (const kernel::ValueRef& a : args_of(*x)) reductions(a);
    if (const auto* r = x->as<kernel::ReduceLanes>()) known_[x.get()] = reduce(*r, x->dtype);
  };
  reductions(v);
  const bool apart = varies(*v) || (to && varies(to->offset));
  const auto assign = [&](const std::string& declared, const std::string& target) {
    line(fmt::format("{}{};", declared, apart ? fmt::format("[{}]", lanes_) : ""));
    const auto one = [&] {
      const std::string text = value(v);
      line(fmt::format("{}{} = {};", target, apart ? fmt::format("[{}]", index(*lane_ - *first_lane_)) : "",
                       at ? "(idx)" + text : text));
    };
    if (apart)
      each_lane(one, true);
    else
      one();
  };
  if (let) {
    const std::string name = unique(fmt::format("t{}", let->let));
    assign(fmt::format("{} {}", held_type(v->dtype), name), name);
    lets_[let->let] = name;
    let_varies_[let->let] = let_by_lane_[let->let] = apart;
  } else if (at) {
    const std::string name = unique("i_" + std::string(at->symbol.name()));
    assign("idx " + name, name);
    symbols_[at->symbol] = name;
    if (apart) lane_symbols_.insert(at->symbol);
  } else if (apart)
    each_lane([&] { store(*to); }, true);
  else
    store(*to);
}

void CEmitter::store(const kernel::Store& s) {
  const kernel::Buffer& b = kernel_.buffers[s.buffer];
  const std::string& name = buffers_[s.buffer];
  const std::string x = value(s.value);
  if (b.space == Space::registers) {
    line(fmt::format("{}[{}] = {};", name, index(s.offset), x));
  } else if (bits(b.dtype) != 4) {
    line(fmt::format("{}[{}] = {};", name, index(s.offset), pack(x, b.dtype)));
  } else if (b.space == Space::local) {
    const std::string half = index(mod(s.offset, 2) * Expr(4)), at = index(floordiv(s.offset, 2));
    line(fmt::format("{0}[{1}] = (u8)(({0}[{1}] & ~(15 << {2})) | (({3}) & 15) << {2});", name, at, half, x));
  } else if (b.space == Space::group) {
    fail(fmt::format("the buffer {} of a group holds 4-bit numbers", b.name));
  } else {
    line(fmt::format("lum_store_nibble({}, {}, {});", name, index(s.offset), x));
  }
}

Result<CLikeKernel> emit_c_like(const kernel::Kernel& kernel, const Dialect& dialect,
                                const CLikeOptions& options) {
  try {
    return CEmitter(kernel, dialect, options).run();
  } catch (const CLikeFailure& failure) {
    return Failure{failure.text};
  }
}

} // namespace luminal::codegen
