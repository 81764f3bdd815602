// codegen/emit_kernel.cpp -- the function, its buffers, and the statements of the loop IR.
#include "base/contains.h"
#include "codegen/emitter.h"
#include <algorithm>
#include <llvm/IR/MDBuilder.h>
#include <numeric>

namespace luminal::codegen {
using kernel::LoopKind;
using kernel::Space;
using llvm::BasicBlock;
using llvm::Value;

Emitter::Emitter(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options,
                 llvm::Module& module)
    : kernel_(kernel), target_(target), options_(options), module_(module), context_(module.getContext()),
      b_(context_), math_(b_, target) {}

void Emitter::fail(const std::string& why) const {
  throw EmitFailure{fmt::format("kernel {}: {}", kernel_.name, why)};
}

BasicBlock* Emitter::block(const char* name) { return BasicBlock::Create(context_, name, function_); }

void Emitter::attributes(llvm::Function* f) {
  f->addFnAttr("target-cpu", target_.cpu);
  if (!target_.features.empty()) f->addFnAttr("target-features", target_.features);
  if (target_.sve) {
    const auto granules = static_cast<unsigned>(target_.vector_bits / 128);
    f->addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(context_, granules, granules));
  }
  f->addFnAttr(llvm::Attribute::NoUnwind);
}

// ---- scratch ----

ScratchBytes scratch_bytes(const kernel::Kernel& kernel) {
  ScratchBytes total{0, 0};
  for (const kernel::Buffer& b : kernel.buffers) {
    if (b.space != Space::shared && b.space != Space::local && b.space != Space::group)
      continue; // a group is a worker
    Expr& top = b.space == Space::shared ? total.shared : total.local;
    top = top + scratch_size(b);
  }
  return total;
}

/// Bytes that a scratch buffer takes: whole cache lines, so that workers share none.
Expr scratch_size(const kernel::Buffer& b) {
  Expr bytes = bits(b.dtype) == 4 ? ceildiv(b.size, 2) : b.size * Expr(bits(b.dtype) / 8);
  return ceildiv(bytes, 64) * Expr(64);
}

void Emitter::declare_function(const std::string& name) {
  // The body takes every buffer as an argument of its own: scratch is known to overlap nothing.
  // Inlined, that would have to become metadata.
  llvm::Type *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
  std::vector<llvm::Type*> types;
  std::vector<kernel::BufferId> memory;
  for (const kernel::BufferId i : kernel_.buffers.ids())
    if (kernel_.buffers[i].space != Space::registers) {
      memory.push_back(i);
      types.push_back(pointer);
    }
  types.insert(types.end(), kernel_.symbols.size(), word);
  types.insert(types.end(), {word, word, pointer, pointer});
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
  function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name + ".body", module_);
  attributes(function_);
  function_->addFnAttr(llvm::Attribute::NoInline);

  auto* entry_type = llvm::FunctionType::get(
      b_.getVoidTy(), {pointer, pointer, pointer, pointer, word, word, pointer, pointer}, false);
  auto* entry = llvm::Function::Create(entry_type, llvm::Function::ExternalLinkage, name, module_);
  attributes(entry);
  b_.SetInsertPoint(BasicBlock::Create(context_, "entry", entry));
  std::vector<Value*> arguments;
  std::vector<Value*> symbols;
  llvm::MDBuilder metadata(context_);
  for (size_t i = 0; i < kernel_.symbols.size(); ++i) {
    auto* load = b_.CreateLoad(word, b_.CreateConstInBoundsGEP1_64(word, entry->getArg(1), i));
    symbols.push_back(load);
    bind(kernel_.symbols[i], {load, 0}, 0);
  }
  unsigned global = 0;
  Expr top[2] = {0, 0};
  for (const kernel::BufferId i : memory) {
    const kernel::Buffer& buffer = kernel_.buffers[i];
    auto position = static_cast<unsigned>(arguments.size());
    int64_t known = std::max<int64_t>(buffer.alignment, 1);
    switch (buffer.space) {
    case Space::global:
      arguments.push_back(
          b_.CreateLoad(pointer, b_.CreateConstInBoundsGEP1_64(pointer, entry->getArg(0), global++)));
      break;
    case Space::shared:
    case Space::group:
    case Space::local: {
      bool shared = buffer.space == Space::shared;
      arguments.push_back(
          b_.CreateInBoundsGEP(b_.getInt8Ty(), entry->getArg(shared ? 2 : 3), scalar_index(top[shared])));
      top[shared] = top[shared] + scratch_size(buffer);
      known = 64;
      function_->addParamAttr(position, llvm::Attribute::NoAlias);
      break;
    }
    default: fail("the buffer " + buffer.name + " lies in a space that a CPU does not have");
    }
    if (known > 1 && (known & (known - 1)) == 0)
      function_->addParamAttr(
          position, llvm::Attribute::getWithAlignment(context_, llvm::Align(static_cast<uint64_t>(known))));
    function_->getArg(position)->setName(buffer.name);
  }
  arguments.insert(arguments.end(), symbols.begin(), symbols.end());
  for (unsigned i = 4; i < 8; ++i) arguments.push_back(entry->getArg(i));
  b_.CreateCall(function_, arguments);
  b_.CreateRetVoid();
  memo_.clear();
  log_.clear();

  b_.SetInsertPoint(block("entry"));
  pointers_.assign(kernel_.buffers.size(), nullptr);
  unsigned next = 0;
  for (const kernel::BufferId i : memory) pointers_[i] = function_->getArg(next++);
  on_lines_.assign(kernel_.buffers.size(), nullptr);
  for (const kernel::BufferId i : memory)
    if (kernel_.buffers[i].streaming)
      on_lines_[i] =
          b_.CreateICmpEQ(b_.CreateAnd(b_.CreatePtrToInt(pointers_[i], b_.getInt64Ty()), i64(63)), i64(0));
  for (Expr s : kernel_.symbols) {
    function_->getArg(next)->setName(std::string(s.name()));
    bind(s, {function_->getArg(next++), 0}, 0);
  }
  worker_ = function_->getArg(next++);
  workers_ = function_->getArg(next++);
  barrier_context_ = function_->getArg(next++);
  barrier_ = function_->getArg(next);
}

// ---- registers: how each buffer is cut into vectors ----

void Emitter::note_register_access(kernel::BufferId buffer, Expr offset, Expr lane, int64_t lanes) {
  if (!buffer || kernel_.buffers[buffer].space != Space::registers) return;
  if (lanes <= 1 || !depends_on(offset, lane)) return;
  auto stride = coefficient_of(offset, lane);
  if (!stride || !stride->is_constant(1)) return;
  // Chunks must divide both the lanes of every access and the place where it begins.
  Expr first = offset - lane;
  int64_t& width = registers_[buffer].width;
  width = std::gcd(std::gcd(width, lanes), first.multiple());
}

void Emitter::scan_value(const kernel::Value& v, Expr lane, int64_t lanes) {
  if (const auto* load = v.as<kernel::Load>()) note_register_access(load->buffer, load->offset, lane, lanes);
  for (const auto& a : args_of(v)) scan_value(*a, lane, lanes);
}

void Emitter::scan(const kernel::Body& statements, Expr lane, int64_t lanes) {
  for (const kernel::StmtRef& s : statements) {
    if (const auto* store = s->as<kernel::Store>())
      note_register_access(store->buffer, store->offset, lane, lanes);
    if (const kernel::Value* value = value_of(*s)) scan_value(*value, lane, lanes);
    const auto* loop = s->as<kernel::Loop>();
    const bool vector = loop && loop->kind == LoopKind::vector;
    if (const Expr trips = vector ? loop->end - loop->begin : Expr(1); vector && trips.is_constant())
      scan(loop->body, loop->variable, trips.value());
    else
      for (const kernel::Body* inside : bodies_of(*s)) scan(*inside, lane, lanes);
    if (const auto* unit = s->as<kernel::UnitCall>()) scan_unit(*unit);
    if (const auto* unit = s->as<kernel::AsyncUnit>()) scan_unit(unit->call);
  }
}

void Emitter::declare_scratch() {
  registers_.assign(kernel_.buffers.size(), {});
  scan(kernel_.body, 0, 1);
  for (const kernel::BufferId i : kernel_.buffers.ids()) {
    const kernel::Buffer& buffer = kernel_.buffers[i];
    if (buffer.space != Space::registers) continue;
    if (!buffer.size.is_constant()) fail("the register buffer " + buffer.name + " has no constant size");
    RegisterBuffer& r = registers_[i];
    r.width = std::max<int64_t>(r.width, 1);
    llvm::Type* type = register_type(buffer.dtype);
    if (r.width > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(r.width));
    int64_t chunks = (buffer.size.value() + r.width - 1) / r.width;
    if (chunks > 4096)
      fail("the register buffer " + buffer.name + " has " + std::to_string(chunks) + " vectors");
    for (int64_t k = 0; k < chunks; ++k) r.chunks.push_back(b_.CreateAlloca(type, nullptr, buffer.name));
  }
}

void Emitter::run(const std::string& entry) {
  if (!target_.fma) fail(fmt::format("the processor {} has no fused multiply-add", target_.cpu));
  open_scope();
  declare_function(entry);
  declare_scratch();
  lets_.assign(static_cast<size_t>(kernel_.lets), nullptr);
  find_flushed();
  configure_tiles();
  body(kernel_.body);
  release_tiles();
  store_fence();
  b_.CreateRetVoid();
  close_scope();
}

// ---- statements ----

void Emitter::body(const kernel::Body& statements) {
  for (size_t i = 0; i < statements.size(); ++i)
    if (!zeros_of_tiles(statements, i)) statement(*statements[i]);
}

void Emitter::statement(const kernel::Stmt& stmt) {
  kernel::visit(
      stmt, [&](const kernel::Loop& s) { loop_of_tiles(s); }, [&](const kernel::Store& s) { store(s); },
      [&](const kernel::LetValue& s) { lets_.at(s.let) = value(s.value); },
      [&](const kernel::LetIndex& s) { let_index(s); }, [&](const kernel::If& s) { if_statement(s); },
      [&](const kernel::Barrier& s) {
        // Level 1 concerns the lanes of a group, and a group is one worker here.
        if (s.level != 0) return;
        store_fence();
        b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false), barrier_,
                      {barrier_context_});
      },
      [&](const kernel::Prefetch& s) { prefetch(s); }, [&](const kernel::UnitCall& s) { unit(s); },
      [&](const kernel::AsyncCopy& s) { async_copy(s); },
      [&](const kernel::AsyncUnit& s) { unit(s.call); }, // begins and ends here
      [&](const kernel::AsyncWait&) {},
      [&](const kernel::Exchange&) {
        fail("lanes of a group exchange values: a group has one lane on a CPU");
      },
      [&](const kernel::Roles&) {
        LUMINAL_CHECK(false, "{}: roles are expanded before code is emitted", kernel_.name);
      });
}

void Emitter::count_loop(Value* begin, Value* end, int64_t step, bool guard,
                         const std::function<void(Value*)>& body) {
  BasicBlock *before = b_.GetInsertBlock(), *head = block("loop"), *exit = block("exit");
  Value* last = step == 1 ? end : b_.CreateNSWSub(end, i64(step - 1));
  if (guard)
    b_.CreateCondBr(b_.CreateICmpSLT(begin, last), head, exit);
  else
    b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  body(i);
  Value* next = b_.CreateNSWAdd(i, i64(step));
  i->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, last), head, exit);
  b_.SetInsertPoint(exit);
}

void Emitter::guarded(Value* condition, const std::function<void()>& then,
                      const std::function<void()>& otherwise) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne())
      then();
    else if (otherwise)
      otherwise();
    return;
  }
  BasicBlock *yes = block("then"), *end = block("end"), *no = otherwise ? block("else") : end;
  b_.CreateCondBr(condition, yes, no);
  b_.SetInsertPoint(yes);
  open_scope();
  then();
  close_scope();
  b_.CreateBr(end);
  if (otherwise) {
    b_.SetInsertPoint(no);
    open_scope();
    otherwise();
    close_scope();
    b_.CreateBr(end);
  }
  b_.SetInsertPoint(end);
}

void Emitter::loop(const kernel::Loop& s) {
  if (s.kind == LoopKind::vector) return vector_loop(s);
  if (s.level == 1 && kernel::meets_inside(s))
    fail(fmt::format("the lanes of the loop {} wait for each other: a group has one lane on a CPU",
                     s.variable.name()));
  if (varying(s.begin) || varying(s.end))
    fail("the bounds of the loop " + std::string(s.variable.name()) + " depend on the lane");
  Int begin = integer(s.begin), end = integer(s.end);
  ++depth_;
  auto one = [&](Int at) {
    open_scope();
    bind(s.variable, at, depth_);
    body(s.body);
    close_scope(&s.variable);
  };
  Expr trips = resolve(s.end - s.begin);
  if (s.kind == LoopKind::unrolled) {
    if (!trips.is_constant())
      fail("the unrolled loop " + std::string(s.variable.name()) + " has no constant number of steps");
    bool owner = options_.transpose && !lane_ && !column_variable_;
    if (owner) transpose(s, s.body);
    const bool transposes = transposes_stores(s);
    for (int64_t i = 0; i < trips.value(); ++i) {
      if (transposes) next_transposed_ = 0;
      one({begin.v, begin.k + i});
    }
    if (transposes) write_transposed();
    if (owner && column_variable_) {
      columns_.clear();
      column_variable_.reset();
    }
    variables_.erase(s.variable);
    --depth_;
    return;
  }
  bool shares = s.kind == LoopKind::parallel && s.level == 0;
  if (shares && in_parallel_) fail("a parallel loop stands in another one");
  Truth runs = prove(lt(s.begin, s.end));
  if (runs == Truth::no || (!begin.v && !end.v && begin.k >= end.k)) {
    --depth_;
    return;
  }
  if (!shares && !begin.v && !end.v &&
      end.k - begin.k <= s.jam) { // written out: the variable is a constant in each body
    for (int64_t i = begin.k; i < end.k; ++i) {
      repeats_.emplace_back(s.variable, i - begin.k);
      one({nullptr, i});
      repeats_.pop_back();
    }
    variables_.erase(s.variable);
    --depth_;
    return;
  }
  Value *first = materialize(begin), *last = materialize(end);
  bool guard = runs != Truth::yes;
  auto looped = [&](Value* from, Value* to, int64_t step, bool guard_it, int64_t bodies) {
    count_loop(from, to, step, guard_it, [&](Value* i) {
      open_scope();
      for (int64_t j = 0; j < bodies; ++j) {
        repeats_.emplace_back(s.variable, j);
        one({i, j});
        repeats_.pop_back();
      }
      close_scope();
    });
  };
  if (shares) { // contiguous shares of the steps
    Value* length = b_.CreateNSWSub(last, first);
    if (guard) length = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, length, i64(0));
    Value* from = b_.CreateNSWAdd(first, b_.CreateUDiv(b_.CreateNUWMul(length, worker_), workers_));
    Value* next_worker = b_.CreateNSWAdd(worker_, i64(1));
    Value* to = b_.CreateNSWAdd(first, b_.CreateUDiv(b_.CreateNUWMul(length, next_worker), workers_));
    in_parallel_ = true;
    looped(from, to, 1, true, 1);
    in_parallel_ = false;
  } else if (s.jam > 1) {
    int64_t jam = s.jam;
    bool constant = trips.is_constant();
    if (constant && trips.value() < jam) {
      looped(first, last, 1, guard, 1);
    } else {
      bool whole = prove(eq(mod(trips, jam), 0)) == Truth::yes;
      looped(first, last, jam, guard || (!constant && prove(le(jam, s.end - s.begin)) != Truth::yes), jam);
      if (!whole) {
        Value* done =
            b_.CreateNSWSub(b_.CreateNSWSub(last, first), integer_mod(b_.CreateNSWSub(last, first), jam));
        looped(b_.CreateNSWAdd(first, done), last, 1, true, 1);
      }
    }
  } else {
    looped(first, last, 1, guard, 1);
  }
  variables_.erase(s.variable);
  --depth_;
}

Value* Emitter::integer_mod(Value* length, int64_t divisor) {
  // A negative length means no step at all; any result >= it keeps the second loop empty.
  Value* safe = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, length, i64(0));
  return b_.CreateURem(safe, i64(divisor));
}

void Emitter::vector_loop(const kernel::Loop& s) {
  if (lane_) fail("a vector loop stands in another one");
  Expr trips = resolve(s.end - s.begin);
  if (!trips.is_constant())
    fail("the vector loop " + std::string(s.variable.name()) + " has no constant number of steps");
  int64_t n = trips.value();
  if (n <= 0) return;
  if (n > 1024) fail("a vector loop has " + std::to_string(n) + " steps");
  ++depth_;
  open_scope();
  bind(s.variable, integer(s.begin), depth_);
  Value* tail = nullptr;
  std::optional<int64_t> live; // lanes, where that is known
  if (s.lanes_active && prove(le(n, *s.lanes_active)) != Truth::yes) {
    Int active = integer(*s.lanes_active);
    // What is left over, where that is known, in vectors that are no longer than it needs.
    if (!active.v && active.k >= 1 && active.k < n && !column_variable_ && narrows(s.body)) {
      n = std::min(n, int64_t(std::bit_ceil(uint64_t(active.k))));
      narrowed_ = true;
    }
    lanes_ = n;
    if (active.v || active.k < n) {
      if (!active.v) live = active.k;
      Value* count = materialize(active);
      Interval range = s.lanes_active->range();
      if (range.low < 0) count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, count, i64(0));
      if (range.high > INT32_MAX) count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, i64(n));
      tail = b_.CreateICmpULT(
          lane_numbers(b_.getInt32Ty()),
          b_.CreateVectorSplat(static_cast<unsigned>(n), b_.CreateTrunc(count, b_.getInt32Ty())));
    }
  }
  lanes_ = n;
  if (n == 1 && !tail) { // a scalar
    body(s.body);
  } else {
    lane_ = s.variable;
    tail_mask_ = tail;
    varying_.clear();
    patterns_.clear();
    find_rows(s, tail ? live : std::optional<int64_t>(n));
    body(s.body);
    row_of_.clear();
    lane_.reset();
    tail_mask_ = nullptr;
    varying_.clear();
    patterns_.clear();
    lane_variables_.clear();
  }
  lanes_ = 1;
  narrowed_ = false;
  close_scope();
  variables_.erase(s.variable);
  --depth_;
}

namespace {
/// What is computed in the same way however many lanes are contiguous.
constexpr Op alike[] = {Op::add, Op::sub, Op::mul, Op::fma, Op::max, Op::min, Op::bit_or, Op::shl};
} // namespace

// Sums and the like in accumulators whose dead lanes nobody reads: no lane needs another one, and
// no operation is computed otherwise where fewer lanes are contiguous.
bool Emitter::narrows(const kernel::Body& statements) {
  const auto plain = [&](const auto& self, const kernel::Value& v) -> bool {
    const bool suits = kernel::visit(
        v,
        [&](const kernel::Load& x) {
          return bits(v.dtype) >= 8 && bits(kernel_.buffers[x.buffer].dtype) >= 8;
        },
        [](const kernel::Apply& x) { return contains(alike, x.op); },
        // Instructions whose lanes act alone are among them.
        [](const kernel::ApplyUser& x) { return kernel::find_lane_unit(x.name) != nullptr; },
        [](const kernel::Index&) { return false; }, [](const kernel::ReduceLanes&) { return false; },
        [](const auto&) { return true; });
    return suits && std::ranges::all_of(args_of(v), [&](const auto& a) { return self(self, *a); });
  };
  bool accumulates = false;
  const auto suits = [&](const auto& self, const kernel::Body& body) -> bool {
    return std::ranges::all_of(body, [&](const kernel::StmtRef& s) {
      if (const auto* loop = s->as<kernel::Loop>()) return self(self, loop->body);
      if (const auto* let = s->as<kernel::LetValue>()) return plain(plain, *let->value);
      const auto* store = s->as<kernel::Store>();
      if (!store || !plain(plain, *store->value)) return false;
      const kernel::Buffer& buffer = kernel_.buffers[store->buffer];
      accumulates |= buffer.space == Space::registers;
      return bits(buffer.dtype) >= 8 && (buffer.space != Space::registers || buffer.padded);
    });
  };
  return suits(suits, statements) && accumulates;
}

void Emitter::if_statement(const kernel::If& s) {
  Value* c = condition(s.condition);
  if (varying(s.condition)) return lane_if(s, splat(c));
  // (What one of them loads into tile registers is there in neither the other one nor behind both.)
  const auto part = [&](const kernel::Body& statements) {
    forget_tiles();
    body(statements);
    forget_tiles();
  };
  if (s.otherwise.empty())
    guarded(c, [&] { part(s.then); });
  else
    guarded(c, [&] { part(s.then); }, [&] { part(s.otherwise); });
}

// A condition that differs between lanes: both bodies under masks, each skipped where no lane takes
// it.
void Emitter::lane_if(const kernel::If& s, Value* condition) {
  Value* outer = if_mask_;
  auto under = [&](Value* taken, const kernel::Body& statements) {
    if (statements.empty()) return;
    Value* mask = outer ? b_.CreateAnd(outer, taken) : taken;
    Value* live = tail_mask_ ? b_.CreateAnd(tail_mask_, mask) : mask;
    if_mask_ = mask;
    guarded(b_.CreateOrReduce(live), [&] { body(statements); });
    if_mask_ = outer;
  };
  under(condition, s.then);
  under(b_.CreateNot(condition), s.otherwise);
}

void Emitter::let_index(const kernel::LetIndex& s) {
  Value* x = value(s.value);
  DType type = s.value->dtype;
  if (!is_integer(type) && type != DType::boolean)
    fail("an index is made from a value that is not an integer");
  x = cast(x, type, DType::i64);
  forget(s.symbol);
  if (x->getType()->isVectorTy()) {
    lane_variables_[s.symbol] = b_.CreateFreeze(x); // of dead lanes too: conditions are made of it
    varying_.clear();
    depths_[s.symbol] = depth_;
  } else {
    bind(s.symbol, {x, 0}, depth_);
  }
}

/// Whether an earlier body of a jammed loop reaches for the same cache line.
bool Emitter::line_is_known(Expr offset, DType type) {
  constexpr int64_t line_bits = 512;
  return std::ranges::any_of(repeats_, [&](const auto& repeat) {
    const auto& [variable, body] = repeat;
    if (body == 0) return false;
    std::optional<Expr> step = coefficient_of(offset, variable);
    if (!step || !step->is_constant()) return !step;
    const int64_t apart = std::min(std::abs(step->value()), line_bits) * bits(type);
    return apart * body / line_bits == apart * (body - 1) / line_bits;
  });
}

void Emitter::prefetch(const kernel::Prefetch& s) {
  if (pointers_[s.buffer] == nullptr) return;
  const kernel::Buffer& buffer = kernel_.buffers[s.buffer];
  if (line_is_known(s.offset, buffer.dtype)) return;
  if (varying(s.offset) && !coefficient_of(s.offset, *lane_)) return;
  bool halves = bits(buffer.dtype) == 4;
  Value* p =
      address(s.buffer, halves ? floordiv(s.offset, 2) : s.offset, halves ? 1 : bits(buffer.dtype) / 8);
  // Into the second level: the first one can wait for few lines at a time, and would be full of
  // what is needed later.
  constexpr int second_level = 2, data = 1;
  const int written = buffer.access == kernel::Access::out || buffer.access == kernel::Access::inout ? 1 : 0;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {p, b_.getInt32(written), b_.getInt32(second_level), b_.getInt32(data)});
}

// A plain copy: it begins and ends here.
void Emitter::async_copy(const kernel::AsyncCopy& s) {
  const kernel::UnitOperand &to = s.to, &from = s.from;
  DType type = kernel_.buffers[to.buffer].dtype;
  DType source_type = kernel_.buffers[from.buffer].dtype;
  if (bits(type) < 8 || bits(source_type) != bits(type))
    fail("an asynchronous copy changes the type of its elements");
  if (!pointers_[to.buffer] || !pointers_[from.buffer]) fail("an asynchronous copy from or to registers");
  auto bytes = static_cast<int64_t>(bits(type) / 8);
  Value *target = address(to.buffer, to.offset, static_cast<int>(bytes)),
        *source = address(from.buffer, from.offset, static_cast<int>(bytes));
  Value* count = b_.CreateNSWMul(scalar_index(s.count), i64(bytes));
  // Own loops: a call of memcpy would be a reference to the outside.
  int64_t wide = target_.vector_bits / 8;
  llvm::Type* vector = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(wide));
  auto copy = [&](llvm::Type* t, Value* at) {
    Value* x = b_.CreateAlignedLoad(t, b_.CreateInBoundsGEP(b_.getInt8Ty(), source, at), llvm::Align(1));
    b_.CreateAlignedStore(x, b_.CreateInBoundsGEP(b_.getInt8Ty(), target, at), llvm::Align(1));
  };
  count_loop(i64(0), count, wide, true, [&](Value* i) { copy(vector, i); });
  Value* done = b_.CreateNSWSub(count, integer_mod(count, wide));
  count_loop(done, count, bytes, true,
             [&](Value* i) { copy(b_.getIntNTy(static_cast<unsigned>(bytes * 8)), i); });
  if (s.fill.is_constant(0)) return;
  count_loop(count, b_.CreateNSWMul(scalar_index(s.fill), i64(bytes)), 1, true, [&](Value* i) {
    b_.CreateAlignedStore(b_.getInt8(0), b_.CreateInBoundsGEP(b_.getInt8Ty(), target, i), llvm::Align(1));
  });
}

} // namespace luminal::codegen
