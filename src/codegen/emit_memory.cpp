// codegen/emit_memory.cpp -- loads and stores: addresses, masks, lanes that are not contiguous,
// 4-bit elements.
#include "codegen/emitter.h"
#include <algorithm>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>
#include <numeric>

namespace luminal::codegen {
using kernel::Space;
using llvm::Align;
using llvm::Constant;
using llvm::Value;

// One step for each term, outermost loop first, and the constant last: the outer steps are loop
// invariant, the constant becomes the displacement of the instruction, and equal steps are emitted
// once.
Value* Emitter::step(Value* base, Value* index, int64_t bytes) {
  StepKey key{base, index, bytes};
  auto [it, fresh] = steps_.try_emplace(key, nullptr);
  if (fresh) {
    Value* offset = index ? bytes == 1 ? index : b_.CreateNSWMul(index, i64(bytes)) : i64(bytes);
    it->second = b_.CreateInBoundsGEP(b_.getInt8Ty(), base, offset);
    log_.push_back({{}, key});
  }
  return it->second;
}

Value* Emitter::address(kernel::BufferId buffer, Expr offset, int offset_bytes, bool skip_varying) {
  Affine form = affine_terms(offset);
  int64_t constant = form.constant;
  struct Term {
    int depth;
    Value* v;
    int64_t bytes;
  };
  llvm::SmallVector<Term, 8> terms;
  for (auto& [e, coefficient] : form.terms) {
    bool lane_term = varying(e);
    if (lane_term && skip_varying && e != *lane_) continue;
    Int x = integer(e); // of the lane itself: the first lane
    constant += coefficient * x.k;
    if (x.v) terms.push_back({depth_of(e), x.v, coefficient * offset_bytes});
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.depth < b.depth; });
  Value* p = pointers_[buffer];
  for (const Term& t : terms) p = step(p, t.v, t.bytes);
  return constant ? step(p, nullptr, constant * offset_bytes) : p;
}

Value* Emitter::mask_for(kernel::BufferId buffer) {
  Value* tail = kernel_.buffers[buffer].padded ? nullptr : tail_mask_;
  if (!tail || !if_mask_) return tail ? tail : if_mask_;
  return b_.CreateAnd(tail, if_mask_);
}

// offset is in units of offset_bytes; a lane's element has element_bytes.
Emitter::Access Emitter::access(kernel::BufferId buffer, Expr offset, int element_bytes, int offset_bytes) {
  Access a;
  if (!varying(offset)) {
    a.base = address(buffer, offset, offset_bytes);
    return a;
  }
  std::optional<Expr> stride = coefficient_of(offset, *lane_);
  bool affine = stride && !varying(*stride);
  if (affine) { // the rest must not depend on the lane through another symbol
    for (Expr s : symbols_of(offset)) affine = affine && (s == *lane_ || !varying(s));
  }
  if (affine && stride->is_constant() && stride->value() * offset_bytes == element_bytes) {
    a.kind = Access::Kind::contiguous;
    a.base = address(buffer, offset, offset_bytes);
    return a;
  }
  // Terms that depend on the lane, alone.
  Affine form = affine_terms(offset);
  std::vector<Expr> parts;
  for (auto& [e, coefficient] : form.terms)
    if (varying(e)) parts.push_back(e * Expr(coefficient));
  Expr part = resolve(sum(parts));
  if (const std::vector<int64_t>* pattern = lane_pattern(part)) {
    bool scaled = false;
    if (offset_bytes != element_bytes) { // in units of elements, where that is possible
      scaled = std::all_of(pattern->begin(), pattern->end(),
                           [&](int64_t o) { return o * offset_bytes % element_bytes == 0; });
    }
    if (offset_bytes == element_bytes || scaled) {
      a.kind = Access::Kind::pattern;
      a.pattern = *pattern;
      for (int64_t& o : a.pattern) o = o * offset_bytes / element_bytes;
      Int first = variables_.at(*lane_);
      Expr at_first = part;
      if (!first.v) at_first = substitute(part, {{*lane_, Expr(first.k)}});
      Expr uniform = offset - sum(parts) + at_first;
      a.base = address(buffer, uniform, offset_bytes);
      const kernel::Buffer& b = kernel_.buffers[buffer];
      const Interval at = resolve(uniform).range();
      if (offset_bytes == element_bytes && b.size.is_constant() && at.is_bounded()) {
        a.phase = affine_terms(resolve(uniform)).constant;
        a.inside_begin = -at.low, a.inside_end = b.size.value() - at.high;
      }
      return a;
    }
  }
  a.kind = Access::Kind::indexed;
  a.base = address(buffer, offset - sum(parts), offset_bytes);
  Expr in_bytes = part * Expr(offset_bytes);
  a.indices = lane_index(in_bytes, needed_bits(in_bytes));
  return a;
}

/// Lanes a few elements apart, which others read in between (windows with steps): blocks of whole
/// vectors that begin at a multiple of the step, so that all of them share the same loads. What
/// lies between the lanes is read, too, where that surely is in the buffer. `holds`: where it does not, all
/// lanes are 0 and the buffer is not read.
Value* Emitter::load_blocks(const Access& a, llvm::Type* element, Value* mask, Value* holds) {
  const auto n = static_cast<int64_t>(a.pattern.size());
  const int64_t stride = n > 1 ? a.pattern[1] - a.pattern[0] : 0;
  auto* live = mask ? llvm::dyn_cast<Constant>(mask) : nullptr;
  if (stride < 2 || stride > 4 || n < 4 || (mask && !live)) return nullptr;
  std::optional<int64_t> first_live;
  int64_t last = 0;
  for (int64_t l = 0; l < n; l++) {
    if (a.pattern[size_t(l)] != a.pattern[0] + l * stride) return nullptr;
    if (live) {
      const Constant* lane = live->getAggregateElement(unsigned(l));
      if (!lane || !lane->isOneValue()) continue;
    }
    if (!first_live) first_live = a.pattern[size_t(l)];
    last = a.pattern[size_t(l)];
  }
  if (!first_live) return nullptr;
  const int64_t first = *first_live;
  // What lies between two elements of the buffer does, too.
  const int64_t inside_begin = std::min(a.inside_begin, first), inside_end = std::max(a.inside_end, last + 1);
  if (inside_end - inside_begin < n) return nullptr;
  const int64_t over = (a.phase + first) % stride, start = first - (over < 0 ? over + stride : over);
  llvm::Type* type = with_lanes(element);
  std::vector<int64_t> begins;
  for (int64_t at = start; at <= last; at += n)
    begins.push_back(std::clamp(at, inside_begin, inside_end - n));
  if (first < begins.front() || last >= begins.back() + n) return nullptr;
  const auto bytes = int64_t(element->getScalarSizeInBits() / 8);
  Value* base = step(a.base, nullptr, begins[0] * bytes);
  if (holds) // (Of one size, so that equal addresses are known to be equal.)
    base = b_.CreateSelect(
        holds, base,
        zeros(std::bit_ceil(unsigned(std::max<int64_t>(5 * n, begins.back() + n - begins[0]) * bytes))));
  Value* result = nullptr;
  for (size_t b = 0; b < begins.size(); b++) {
    Value* block = b_.CreateAlignedLoad(type, step(base, nullptr, (begins[b] - begins[0]) * bytes), Align(1));
    llvm::SmallVector<int, 64> pick(static_cast<size_t>(n));
    for (int64_t l = 0; l < n; l++) {
      const int64_t at = a.pattern[size_t(l)] - begins[b];
      const bool here = at >= 0 && at < n, before = b > 0 && a.pattern[size_t(l)] < begins[b - 1] + n;
      // (The second block's lanes and the first one's are one shuffle.)
      pick[size_t(l)] = before ? int(l) : here ? int(at + (b > 0 ? n : 0)) : -1;
    }
    result = b > 0 ? shuffle(result, block, pick) : shuffle(block, block, pick);
  }
  // (What lanes behind the end hold is nobody's.)
  return if_mask_ ? b_.CreateSelect(if_mask_, result, Constant::getNullValue(type)) : result;
}

/// Lanes that are not live are 0. Where LLVM finds out late that none of a register's lanes is
/// live, it takes its mask away and loads them all (19, AVX2: its masks are vectors of integers; no
/// code is made for AVX alone, which lacks multiply-adds). The instruction itself keeps its mask.
Value* Emitter::masked_load(llvm::Type* type, Value* p, Value* mask) {
  const unsigned bits = type->getScalarSizeInBits(),
                 lanes = llvm::cast<llvm::FixedVectorType>(type)->getNumElements(),
                 width = std::min(256U, lanes * bits), share = width / bits;
  const bool avx = target_.vector_bits == 256 && target_.triple.starts_with("x86_64");
  if (!avx || llvm::isa<Constant>(mask) || (bits != 32 && bits != 64) || width < 128 || lanes % share != 0)
    return b_.CreateMaskedLoad(type, p, Align(1), mask, Constant::getNullValue(type));
  const auto id = bits == 32     ? width == 256 ? llvm::Intrinsic::x86_avx_maskload_ps_256
                                                : llvm::Intrinsic::x86_avx_maskload_ps
                  : width == 256 ? llvm::Intrinsic::x86_avx_maskload_pd_256
                                 : llvm::Intrinsic::x86_avx_maskload_pd;
  llvm::Type* integers = llvm::FixedVectorType::get(b_.getIntNTy(bits), share);
  // The highest bit tells; with all of them set LLVM would make a load of its own again.
  Constant* live = llvm::ConstantInt::get(integers, llvm::APInt::getSignMask(bits));
  std::vector<Value*> parts;
  for (unsigned first = 0; first < lanes; first += share) {
    llvm::SmallVector<int, 64> own(share);
    std::iota(own.begin(), own.end(), int(first));
    Value* bit = b_.CreateSelect(shuffle(mask, mask, own), live, Constant::getNullValue(integers));
    parts.push_back(b_.CreateIntrinsic(id, {}, {step(p, nullptr, int64_t(first) * bits / 8), bit}));
  }
  return b_.CreateBitCast(llvm::concatenateVectors(b_, parts), type);
}

Value* Emitter::load_pattern(Value* base, const std::vector<int64_t>& offsets, llvm::Type* element,
                             Value* mask) {
  auto n = static_cast<int64_t>(offsets.size());
  auto [low, high] = std::minmax_element(offsets.begin(), offsets.end());
  int64_t first = *low, span = *high - *low + 1;
  auto bytes = static_cast<int64_t>(element->getScalarSizeInBits() / 8);
  if (span > 4 * n) { // too far apart: a gather
    std::vector<Constant*> at;
    for (int64_t o : offsets) at.push_back(i64(o));
    Value* pointers = b_.CreateGEP(element, base, llvm::ConstantVector::get(at));
    return b_.CreateMaskedGather(with_lanes(element), pointers, Align(1), mask,
                                 mask ? Constant::getNullValue(with_lanes(element)) : nullptr);
  }
  if (span == 1) {
    // Every lane reads one place, of which lane 0 is the first to read it.
    Value* at = step(base, nullptr, first * bytes);
    if (!mask) return splat(b_.CreateAlignedLoad(element, at, Align(1)));
  }
  // Contiguous pieces that cover the span and no more, then shuffles.
  int64_t width = 1;
  while (width * 2 <= std::min(span, n)) width *= 2;
  llvm::Type* piece_type = llvm::FixedVectorType::get(element, static_cast<unsigned>(width));
  Value* result = nullptr;
  for (int64_t start = 0; start < span; start += width) {
    int64_t at = std::min(start, span - width), from = first + at;
    Value *p = step(base, nullptr, from * bytes), *piece;
    if (mask) {
      // An element is touched where a live lane reads it. Lanes of a tail are live from the first
      // on, so one reader decides where the pattern ascends.
      llvm::SmallVector<int, 64> reader(static_cast<size_t>(width), -1);
      bool single = true;
      for (int64_t l = 0; l < n; ++l) {
        int64_t j = offsets[static_cast<size_t>(l)] - from;
        if (j < 0 || j >= width) continue;
        int& r = reader[static_cast<size_t>(j)];
        if (r < 0)
          r = static_cast<int>(l);
        else
          single = single && !if_mask_;
      }
      if (!single) {
        std::vector<Constant*> all;
        for (int64_t o : offsets) all.push_back(i64(o));
        Value* pointers = b_.CreateGEP(element, base, llvm::ConstantVector::get(all));
        return b_.CreateMaskedGather(with_lanes(element), pointers, Align(1), mask,
                                     Constant::getNullValue(with_lanes(element)));
      }
      Value* none = Constant::getNullValue(mask->getType());
      for (int& r : reader)
        if (r < 0) r = static_cast<int>(n); // nobody
      Value* live = shuffle(mask, none, reader);
      piece = masked_load(piece_type, p, live);
    } else {
      piece = b_.CreateAlignedLoad(piece_type, p, Align(1));
    }
    // Spread the piece over the lanes that read it; the others keep what they have.
    llvm::SmallVector<int, 64> pick(static_cast<size_t>(n), -1), merge(static_cast<size_t>(n));
    for (int64_t l = 0; l < n; ++l) {
      int64_t j = offsets[static_cast<size_t>(l)] - from;
      bool here = offsets[static_cast<size_t>(l)] - first >= start && j >= 0 && j < width;
      auto lane = static_cast<size_t>(l);
      pick[lane] = here ? static_cast<int>(j) : -1;
      merge[lane] = static_cast<int>(here ? n + l : l);
    }
    Value* spread = shuffle(piece, llvm::PoisonValue::get(piece_type), pick);
    result = result ? shuffle(result, spread, merge) : spread;
  }
  return result;
}

Value* Emitter::load_memory(const Access& a, llvm::Type* element, Value* mask) {
  if (a.kind == Access::Kind::uniform) return b_.CreateAlignedLoad(element, a.base, Align(1));
  llvm::Type* type = with_lanes(element);
  Constant* zero = Constant::getNullValue(type);
  switch (a.kind) {
  case Access::Kind::contiguous:
    if (mask) return masked_load(type, a.base, mask);
    return b_.CreateAlignedLoad(type, a.base, Align(1));
  case Access::Kind::pattern:
    if (Value* shared = load_blocks(a, element, mask)) return shared;
    return load_pattern(a.base, a.pattern, element, mask);
  default: {
    Value* pointers = b_.CreateGEP(b_.getInt8Ty(), a.base, a.indices);
    return b_.CreateMaskedGather(type, pointers, Align(1), mask, mask ? zero : nullptr);
  }
  }
}

void Emitter::store_memory(const Access& a, Value* value, Value* mask) {
  llvm::Type* element = value->getType()->getScalarType();
  if (a.kind == Access::Kind::uniform) {
    b_.CreateAlignedStore(value, a.base, Align(1));
    return;
  }
  value = splat(value);
  if (a.kind == Access::Kind::contiguous) {
    if (mask)
      b_.CreateMaskedStore(value, a.base, Align(1), mask);
    else
      b_.CreateAlignedStore(value, a.base, Align(1));
    return;
  }
  Value* pointers;
  const auto backwards = [&] {
    for (size_t l = 1; l < a.pattern.size(); l++)
      if (a.pattern[l] != a.pattern[0] - int64_t(l)) return false;
    return a.pattern.size() > 1 && element->getPrimitiveSizeInBits() % 8 == 0;
  };
  if (a.kind == Access::Kind::pattern && backwards()) { // exchanged in registers, then one store
    llvm::SmallVector<int, 64> turned(a.pattern.size());
    for (size_t l = 0; l < turned.size(); l++) turned[l] = int(turned.size() - 1 - l);
    const int64_t bytes = int64_t(element->getPrimitiveSizeInBits()) / 8;
    Value* first = step(a.base, nullptr, a.pattern.back() * bytes);
    value = shuffle(value, value, turned);
    if (mask)
      b_.CreateMaskedStore(value, first, Align(1), shuffle(mask, mask, turned));
    else
      b_.CreateAlignedStore(value, first, Align(1));
    return;
  }
  if (a.kind == Access::Kind::pattern) {
    std::vector<Constant*> at;
    for (int64_t o : a.pattern) at.push_back(i64(o));
    pointers = b_.CreateGEP(element, a.base, llvm::ConstantVector::get(at));
  } else {
    pointers = b_.CreateGEP(b_.getInt8Ty(), a.base, a.indices);
  }
  if (!mask) mask = llvm::ConstantInt::getTrue(with_lanes(b_.getInt1Ty()));
  b_.CreateMaskedScatter(value, pointers, Align(1), mask);
}

Value* Emitter::load(const kernel::Value& v) {
  if (auto it = columns_.find(&v); it != columns_.end())
    return unpack(it->second[static_cast<size_t>(variables_.at(*column_variable_).k)], v.dtype);
  const auto& from = *v.as<kernel::Load>();
  const kernel::Buffer& buffer = kernel_.buffers[from.buffer];
  if (buffer.space == Space::registers) return load_register(from.buffer, from.offset);
  if (!from.guard.is_constant(1)) return guarded_load(v);
  Value* mask = varying(from.offset) ? mask_for(from.buffer) : nullptr;
  if (bits(v.dtype) == 4 && v.dtype == buffer.dtype)
    return load_nibbles(from.buffer, from.offset, v.dtype, mask);
  // Another type than the buffer's: the bytes from the element's first one on.
  llvm::Type* element = bits(v.dtype) == 4 ? b_.getInt8Ty() : memory_type(v.dtype);
  bool halves = bits(buffer.dtype) == 4;
  Access a = access(from.buffer, halves ? floordiv(from.offset, 2) : from.offset,
                    std::max(bits(v.dtype), 8) / 8, halves ? 1 : bits(buffer.dtype) / 8);
  Value* memory = mask || element != b_.getInt8Ty() ? nullptr : byte_of_words(from.buffer, from.offset);
  if (!memory) memory = load_memory(a, element, mask);
  return bits(v.dtype) == 4 ? low_nibble(memory, v.dtype) : unpack(memory, v.dtype);
}

/// Bytes four apart are read as one byte of each lane's word: all four of them share one load. Null
/// where they are something else.
Value* Emitter::byte_of_words(kernel::BufferId buffer, Expr offset) {
  constexpr int64_t word = 4;
  const kernel::Buffer& b = kernel_.buffers[buffer];
  if (!lane_ || !varying(offset) || bits(b.dtype) != 8) return nullptr;
  const std::optional<Expr> stride = coefficient_of(offset, *lane_);
  if (!stride || !stride->is_constant(word)) return nullptr;
  for (Expr s : symbols_of(offset))
    if (s != *lane_ && varying(s)) return nullptr;
  const Expr place = resolve(mod(substitute(offset, {{*lane_, Expr(0)}}), word));
  // The whole word must lie inside of the buffer.
  if (!place.is_constant() || !b.size.is_constant() || b.size.value() % word != 0) return nullptr;
  Value* words =
      b_.CreateAlignedLoad(with_lanes(b_.getInt32Ty()), address(buffer, offset - place, 1), Align(1));
  return b_.CreateTrunc(b_.CreateLShr(words, int_constant(words->getType(), 8 * place.value())),
                        with_lanes(b_.getInt8Ty()));
}

// Lanes whose guard does not hold are like lanes of a branch that is not taken: masked loads give 0
// there. What all lanes read together is read through a pointer to zeros instead.
Value* Emitter::guarded_load(const kernel::Value& v) {
  const auto& from = *v.as<kernel::Load>();
  const kernel::Value plain{v.dtype, kernel::Load{from.buffer, from.offset}};
  const Expr guard = what_is_left(from.guard);
  if (guard.is_constant())
    return guard.value() != 0 ? load(plain) : Constant::getNullValue(register_type(v.dtype));
  if (Value* blocks = guarded_blocks(v, guard)) return blocks;
  Value* holds = condition(guard);
  const bool by_lane = varying(guard);
  if (varying(from.offset)) {
    Value* outer = if_mask_;
    holds = splat(holds);
    if_mask_ = outer ? b_.CreateAnd(outer, holds) : holds;
    Value* loaded = load(plain);
    if_mask_ = outer;
    return loaded;
  }
  const kernel::Buffer& buffer = kernel_.buffers[from.buffer];
  const bool halves = bits(buffer.dtype) == 4, nibble = halves && v.dtype == buffer.dtype;
  llvm::Type* element = bits(v.dtype) == 4 ? b_.getInt8Ty() : memory_type(v.dtype);
  Value* at = address(from.buffer, halves ? floordiv(from.offset, 2) : from.offset,
                      halves ? 1 : bits(buffer.dtype) / 8);
  Value* any = by_lane ? b_.CreateOrReduce(holds) : holds;
  Value* memory = b_.CreateAlignedLoad(element, b_.CreateSelect(any, at, zeros(16)), Align(1));
  if (nibble) {
    Value* odd = b_.CreateTrunc(scalar_index(mod(from.offset, 2)), element);
    memory = b_.CreateLShr(memory, b_.CreateShl(odd, int_constant(element, 2)));
  }
  Value* x = bits(v.dtype) == 4 ? low_nibble(memory, v.dtype) : unpack(memory, v.dtype);
  return by_lane ? b_.CreateSelect(holds, splat(x), Constant::getNullValue(with_lanes(x->getType()))) : x;
}

/// Lanes a few elements apart under a guard of which each part is one for all lanes or known for each: those
/// that do not hold for the lanes make a constant mask, and where the others fail the blocks are read from
/// zeros. So are contiguous lanes under guards of several dimensions. Null for all else.
Value* Emitter::guarded_blocks(const kernel::Value& v, Expr guard) {
  const auto& from = *v.as<kernel::Load>();
  const kernel::Buffer& buffer = kernel_.buffers[from.buffer];
  if (!varying(from.offset) || if_mask_ || bits(v.dtype) < 8 || v.dtype != buffer.dtype) return nullptr;
  std::vector<Expr> for_all, by_lane;
  const bool several = guard.kind() == ExprKind::logical_and;
  for (Expr e :
       several ? std::vector<Expr>(guard.args().begin(), guard.args().end()) : std::vector<Expr>{guard})
    (varying(e) ? by_lane : for_all).push_back(e);
  Value* mask = mask_for(from.buffer);
  if (!by_lane.empty()) {
    Value* live = splat(condition(logical_and(by_lane)));
    mask = mask ? b_.CreateAnd(mask, live) : live;
  }
  if (mask && !llvm::isa<Constant>(mask)) return nullptr;
  const int bytes = bits(buffer.dtype) / 8;
  Access a = access(from.buffer, from.offset, bytes, bytes);
  Value* holds = for_all.empty() ? nullptr : condition(logical_and(for_all));
  // (Guards of one dimension are a mask for many loads; those of several are one for each.)
  std::vector<std::vector<Expr>> dimensions;
  if (from.guard.kind() == ExprKind::logical_and)
    for (Expr e : from.guard.args())
      if (!varying(e) && !std::ranges::count(dimensions, symbols_of(e))) dimensions.push_back(symbols_of(e));
  if (a.kind == Access::Kind::contiguous && by_lane.empty() && dimensions.size() > 1) {
    a.base = b_.CreateSelect(holds, a.base, zeros(std::bit_ceil(unsigned(lanes_ * bytes))));
    return unpack(load_memory(a, memory_type(v.dtype), mask), v.dtype);
  }
  if (a.kind != Access::Kind::pattern) return nullptr;
  Value* loaded = load_blocks(a, memory_type(v.dtype), mask, holds);
  if (!loaded) return nullptr;
  loaded = unpack(loaded, v.dtype);
  // (Lanes whose guard fails are read by others.)
  return by_lane.empty() ? loaded : b_.CreateSelect(mask, loaded, Constant::getNullValue(loaded->getType()));
}

Value* Emitter::zeros(unsigned bytes) {
  const std::string name = fmt::format("zeros{}", bytes);
  if (auto* known = module_.getGlobalVariable(name, true)) return known;
  llvm::Type* type = llvm::ArrayType::get(b_.getInt8Ty(), bytes);
  auto* zero = new llvm::GlobalVariable(module_, type, true, llvm::GlobalValue::PrivateLinkage,
                                        Constant::getNullValue(type), name);
  zero->setAlignment(Align(bytes < 64 ? 16 : 64));
  return zero;
}

void Emitter::store(const kernel::Store& s) {
  const kernel::Buffer& buffer = kernel_.buffers[s.buffer];
  // Numbers that are rounded as they are stored need not become f32 again in between.
  const auto* cast = s.value->as<kernel::Cast>();
  const bool rounds = cast && s.value->dtype == DType::bf16 && cast->x->dtype == DType::f32 &&
                      buffer.dtype == DType::bf16 && buffer.space != Space::registers;
  Value* value = this->value(rounds ? cast->x : s.value);
  if (buffer.space == Space::registers) return store_register(s, value);
  forget_tiles(); // they may hold what is written
  bool lanes_apart = varying(s.offset);
  if (!lanes_apart && value->getType()->isVectorTy())
    fail("all lanes store to one element of " + buffer.name);
  Value* mask = lanes_apart ? mask_for(s.buffer) : nullptr;
  if (bits(buffer.dtype) == 4) return store_nibbles(s.buffer, s.offset, value, mask);
  int bytes = bits(buffer.dtype) / 8;
  Value* packed = rounds ? bf16_bits(*cast->x, value) : pack(value, buffer.dtype);
  const Access to = access(s.buffer, s.offset, bytes, bytes);
  if (transposed_.contains(&s)) return transpose_lanes(to, splat(packed));
  if (row_of_.contains(&s)) return store_in_row(s, to, splat(packed));
  Value* on_line = on_lines_[s.buffer];
  if (!on_line || mask || to.kind != Access::Kind::contiguous || !fills_lines(s, bytes))
    return store_memory(to, packed, mask);
  packed = splat(packed);
  guarded(
      on_line,
      [&] {
        auto* past =
            b_.CreateAlignedStore(packed, to.base, Align(uint64_t(std::min<int64_t>(lanes_ * bytes, 64))));
        past->setMetadata(llvm::LLVMContext::MD_nontemporal,
                          llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(b_.getInt32(1))));
      },
      [&] { store_memory(to, packed, nullptr); });
}

bool Emitter::fills_lines(const kernel::Store& s, int element_bytes) {
  const int64_t width = lanes_ * element_bytes;
  const Int& first = variables_.at(*lane_);
  if (width < 16 || width % 16 != 0 || first.v != nullptr) return false;
  const Expr begin = substitute(resolve(s.offset), {{*lane_, Expr(first.k)}}) * Expr(element_bytes);
  return begin.multiple() % std::min<int64_t>(width, 64) == 0;
}

// x86 keeps no order between stores past the caches and others.
void Emitter::store_fence() {
  const bool x86 = llvm::Triple(target_.triple).isX86();
  if (x86 && std::ranges::any_of(on_lines_, [](Value* v) { return v != nullptr; }))
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

// ---- 4-bit elements: two a byte, the even one in the low half ----
Value* Emitter::low_nibble(Value* x, DType type) {
  llvm::Type* t = x->getType();
  if (type == DType::u4) return b_.CreateAnd(x, int_constant(t, 15));
  return b_.CreateAShr(b_.CreateShl(x, int_constant(t, 4)), int_constant(t, 4));
}

Value* Emitter::load_nibbles(kernel::BufferId buffer, Expr offset, DType type, Value* mask) {
  llvm::Type* i8 = b_.getInt8Ty();
  if (!varying(offset)) {
    Value* byte = b_.CreateAlignedLoad(i8, address(buffer, floordiv(offset, 2), 1), Align(1));
    Value* odd = b_.CreateTrunc(scalar_index(mod(offset, 2)), i8);
    return low_nibble(b_.CreateLShr(byte, b_.CreateShl(odd, int_constant(i8, 2))), type);
  }
  Expr byte_offset = floordiv(offset, 2);
  Access a = access(buffer, byte_offset, 1, 1);
  Value* bytes = load_memory(a, i8, mask);
  Value* odd = b_.CreateTrunc(lane_index(resolve(mod(offset, 2)), 32), with_lanes(i8));
  return low_nibble(b_.CreateLShr(splat(bytes), b_.CreateShl(odd, int_constant(odd->getType(), 2))), type);
}

void Emitter::store_nibbles(kernel::BufferId buffer, Expr offset, Value* value, Value* mask) {
  llvm::Type* i8 = b_.getInt8Ty();
  auto write = [&](Value* pointer, Value* odd, Value* x) {
    Value* shift = b_.CreateShl(odd, int_constant(i8, 2));
    Value* old = b_.CreateAlignedLoad(i8, pointer, Align(1));
    Value* keep = b_.CreateAnd(old, b_.CreateNot(b_.CreateShl(int_constant(i8, 15), shift)));
    Value* put = b_.CreateShl(b_.CreateAnd(x, int_constant(i8, 15)), shift);
    b_.CreateAlignedStore(b_.CreateOr(keep, put), pointer, Align(1));
  };
  if (!varying(offset)) {
    write(address(buffer, floordiv(offset, 2), 1), b_.CreateTrunc(scalar_index(mod(offset, 2)), i8), value);
    return;
  }
  value = splat(value);
  std::optional<Expr> stride = coefficient_of(offset, *lane_);
  Int first = variables_.at(*lane_);
  if (!mask && !first.v && stride && stride->is_constant(1) && lanes_ % 2 == 0 &&
      prove(eq(mod(substitute(offset, {{*lane_, Expr(first.k)}}), 2), 0)) == Truth::yes) { // whole bytes
    llvm::SmallVector<int, 64> even, odd;
    for (int l = 0; l < lanes_; l += 2) even.push_back(l), odd.push_back(l + 1);
    Value *low = shuffle(value, value, even), *high = shuffle(value, value, odd);
    Value* bytes = b_.CreateOr(b_.CreateAnd(low, int_constant(low->getType(), 15)),
                               b_.CreateShl(high, int_constant(high->getType(), 4)));
    Expr at = floordiv(substitute(offset, {{*lane_, Expr(first.k)}}), 2);
    b_.CreateAlignedStore(bytes, address(buffer, at, 1), Align(1));
    return;
  }
  // One lane after the other: two of them may share a byte.
  int width = needed_bits(offset);
  Value *at = lane_index(floordiv(offset, 2), width),
        *odd = b_.CreateTrunc(lane_index(mod(offset, 2), width), with_lanes(i8));
  Value* pointers = b_.CreateGEP(i8, pointers_[buffer], at);
  for (int64_t l = 0; l < lanes_; ++l) {
    auto n = static_cast<uint64_t>(l);
    auto one = [&] {
      write(b_.CreateExtractElement(pointers, n), b_.CreateExtractElement(odd, n),
            b_.CreateExtractElement(value, n));
    };
    if (mask)
      guarded(b_.CreateExtractElement(mask, n), one);
    else
      one();
  }
}

} // namespace luminal::codegen
