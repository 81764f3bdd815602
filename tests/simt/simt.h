// simt/simt.h -- runs the text of GPU kernels on the processor: every thread of a block is a fiber, blocks
// run one after the other, in hostile orders. Included by the programs that the tests make; knows nothing
// of Luminal.
//
// A fiber gives up the processor only at a barrier, so the order in which threads run between two
// barriers is the scheduler's choice:
//   0 forward   1 reverse   2 random, another order in each round   3 one warp until it blocks, forward
//   4 the same from the last warp on   5 and more: random seeds
// Memory of a group is poisoned before each block. Accesses to it through Shared<T> are checked: two
// threads that touch the same byte between two barriers, one of them writing, are a race.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <vector>

// What preludes define where nobody else has.
#define lum_group_load(T, p, at) (p).template load<T>(size_t(at))
#define lum_shuffle_u32(x, mask) simt::shuffle_xor<uint32_t>(x, unsigned(mask))
#define lum_shuffle_u64(x, mask) simt::shuffle_xor<uint64_t>(x, unsigned(mask))
#define lum_copy4(to, from, bytes) simt::begin_copy(to, from, 4, int(bytes))
#define lum_copy8(to, from, bytes) simt::begin_copy(to, from, 8, int(bytes))
#define lum_copy16(to, from, bytes) simt::begin_copy(to, from, 16, int(bytes))
#define lum_copy_none() simt::no_copy()
#define lum_copy_wait(n) simt::wait_copies(n)
#define lum_mfma_32x32x8_bf16(c, a, b) simt::mfma(c, a, b, 32, true)
#define lum_mfma_16x16x16_bf16(c, a, b) simt::mfma(c, a, b, 16, true)
#define lum_mfma_32x32x8_f16(c, a, b) simt::mfma(c, a, b, 32, false)
#define lum_mfma_16x16x16_f16(c, a, b) simt::mfma(c, a, b, 16, false)
#define lum_mma_m16n8k16_bf16(c, a, b) simt::mma_m16n8k16(c, a, b, true)
#define lum_mma_m16n8k16_f16(c, a, b) simt::mma_m16n8k16(c, a, b, false)

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace simt {

struct Three {
  unsigned x, y, z;
};
enum class State { runnable, at_barrier, at_warp, done };

/// A copy that has begun; it lands when it is awaited, or has landed.
struct Copy {
  unsigned char* to = nullptr;
  const unsigned char* from = nullptr;
  size_t at = 0;
  int bytes = 0, copied = 0;
};

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  unsigned number = 0; // in the block
  State state = State::runnable;
  std::vector<Copy> copies; // in flight, in order
  unsigned char given[64];  // to the other threads of the warp
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t context;
#endif
};

struct Block {
  std::vector<Fiber> fibers;
  Fiber* current = nullptr;
  void* scheduler = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
  ucontext_t scheduler_context;
#endif
  unsigned group = 0, groups = 1, threads = 1, warp = 32;
  uint32_t epoch = 0; // barriers so far
  int order = 0;
  std::function<void()> body;
};
inline Block* block = nullptr;
inline std::string findings; // races, accesses outside, deadlocks: the first of each block

inline void found(const std::string& text) {
  if (findings.size() < 4000) findings += text + "\n";
}

// ---- the switch from one stack to another: registers that a call preserves, and the stack pointer ----
#if defined(__x86_64__)
extern "C" void simt_switch(void** save, void* load);
asm(R"(
.text
.globl simt_switch
.type simt_switch,@function
simt_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size simt_switch,.-simt_switch
)");
inline constexpr int saved_words = 6;
#elif defined(__aarch64__)
extern "C" void simt_switch(void** save, void* load);
asm(R"(
.text
.globl simt_switch
.type simt_switch,@function
simt_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size simt_switch,.-simt_switch
)");
#endif

inline void to_scheduler() {
#if defined(__x86_64__) || defined(__aarch64__)
  simt_switch(&block->current->stack_pointer, block->scheduler);
#else
  swapcontext(&block->current->context, &block->scheduler_context);
#endif
}
inline void to_fiber(Fiber& f) {
  block->current = &f;
#if defined(__x86_64__) || defined(__aarch64__)
  simt_switch(&block->scheduler, f.stack_pointer);
#else
  swapcontext(&block->scheduler_context, &f.context);
#endif
}
inline void entry() {
  block->body();
  if (!block->current->copies.empty()) found("a thread ends with copies in flight");
  block->current->state = State::done;
  to_scheduler();
  std::abort(); // nobody returns to a thread that has ended
}
inline void prepare(Fiber& f) {
  constexpr size_t bytes = 256 << 10;
  if (!f.stack) {
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    f.stack = static_cast<char*>(memory);
  }
  f.state = State::runnable;
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(f.stack + bytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < saved_words; ++i) *--top = nullptr;
  f.stack_pointer = top;
#elif defined(__aarch64__)
  void** top = reinterpret_cast<void**>(f.stack + bytes - 64 - 160);
  std::memset(top, 0, 160);
  top[11] = reinterpret_cast<void*>(entry);
  f.stack_pointer = top;
#else
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = bytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, entry, 0);
#endif
}

/// The threads of a warp wait for each other.
inline void warp_barrier() {
  block->current->state = State::at_warp;
  to_scheduler();
}

inline void barrier() {
  block->current->state = State::at_barrier;
  to_scheduler();
}

/// Runs one block to its end, or to where its threads wait for ever.
inline void run_block(Block& b) {
  block = &b;
  b.fibers.resize(b.threads);
  std::vector<unsigned> order(b.threads);
  for (unsigned i = 0; i < b.threads; ++i) {
    b.fibers[i].number = order[i] = i;
    prepare(b.fibers[i]);
    b.fibers[i].copies.clear();
  }
  if (b.order == 1) std::reverse(order.begin(), order.end());
  uint64_t random = 88172645463325252ull * uint64_t(b.order + 1) + b.group;
  while (true) {
    if (b.order == 2 || b.order >= 5)
      for (unsigned i = b.threads - 1; i > 0; --i) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        std::swap(order[i], order[random % (i + 1)]);
      }
    // In the greedy orders one warp runs as long as it can.
    const unsigned warps = (b.threads + b.warp - 1) / b.warp;
    unsigned only = warps;
    for (unsigned k = 0; (b.order == 3 || b.order == 4) && k < warps && only == warps; ++k) {
      const unsigned w = b.order == 3 ? k : warps - 1 - k;
      for (unsigned i = w * b.warp; i < std::min(b.threads, (w + 1) * b.warp); ++i)
        if (b.fibers[i].state == State::runnable) only = w;
    }
    bool ran = false;
    for (const unsigned i : order) {
      if (b.fibers[i].state != State::runnable || (only < warps && i / b.warp != only)) continue;
      ran = true;
      to_fiber(b.fibers[i]);
    }
    bool met = false; // a warp
    for (unsigned w = 0; w < warps; ++w) {
      unsigned there = 0;
      const unsigned first = w * b.warp, end = std::min(b.threads, (w + 1) * b.warp);
      for (unsigned i = first; i < end; ++i) there += b.fibers[i].state == State::at_warp;
      if (there != end - first) continue;
      met = true;
      for (unsigned i = first; i < end; ++i) b.fibers[i].state = State::runnable;
    }
    unsigned waiting = 0, done = 0;
    for (const Fiber& f : b.fibers) {
      waiting += f.state == State::at_barrier;
      done += f.state == State::done;
    }
    if (done == b.threads) return;
    if (waiting + done < b.threads) {
      if (ran || met) continue;
      return found("deadlock: threads of a warp wait for others of it");
    }
    if (done > 0)
      return found("divergence: " + std::to_string(waiting) + " threads wait at a barrier, " +
                   std::to_string(done) + " have ended");
    for (Fiber& f : b.fibers) f.state = State::runnable;
    b.epoch++;
  }
}

/// All blocks of a launch. `memory`: of a group, poisoned before each block.
template <class Body>
void launch(unsigned groups, unsigned threads, unsigned warp, int order, void* memory, size_t bytes,
            Body body) {
  static Block b;
  b.groups = groups, b.threads = threads, b.warp = warp, b.order = order;
  b.body = body;
  for (unsigned k = 0; k < groups; ++k) {
    b.group = order % 2 ? groups - 1 - k : k;
    b.epoch++;
    if (bytes) std::memset(memory, 0xA5, bytes);
    run_block(b);
  }
}

// ---- checked memory of a group ----
struct Shadow {
  uint32_t written = 0, read = 0; // epochs
  unsigned writer = 0, reader = 0;
  bool readers = false; // more than one in that epoch
};
inline Shadow shadow[232448]; // by byte

inline void touch(size_t byte, size_t bytes, bool writes) {
  const unsigned me = block->current->number;
  const uint32_t now = block->epoch;
  for (size_t at = byte; at < byte + bytes; ++at) {
    Shadow& s = shadow[at];
    const bool after_write = s.written == now && s.writer != me;
    const bool after_read = writes && s.read == now && (s.reader != me || s.readers);
    if (after_write || after_read)
      found("race: byte " + std::to_string(at) + " is " + (writes ? "written" : "read") + " by thread " +
            std::to_string(me) + " and " +
            (after_write ? "written by thread " + std::to_string(s.writer) : "read by another thread") +
            " without a barrier between");
    if (writes) {
      s.written = now, s.writer = me;
    } else if (s.read == now) {
      s.readers |= s.reader != me;
    } else {
      s.read = now, s.reader = me, s.readers = false;
    }
  }
}

/// Stands for T* into the memory of a group: offset `base`, `bytes` of the buffer.
template <class T> struct Shared {
  unsigned char* memory;
  size_t base, bytes;
  struct Element {
    const Shared& of;
    size_t at;
    bool inside() const {
      if (at >= of.base && at + sizeof(T) <= of.base + of.bytes) return true;
      found("outside: byte " + std::to_string(long(at) - long(of.base)) + " of " + std::to_string(of.bytes));
      return false;
    }
    operator T() const {
      T value{};
      if (!inside()) return value;
      touch(at, sizeof(T), false);
      std::memcpy(&value, of.memory + at, sizeof(T));
      return value;
    }
    Element& operator=(T value) {
      if (!inside()) return *this;
      touch(at, sizeof(T), true);
      std::memcpy(of.memory + at, &value, sizeof(T));
      return *this;
    }
    Element& operator=(const Element& other) { return *this = T(other); }
  };
  Element operator[](long i) const { return {*this, base + size_t(i) * sizeof(T)}; }
  /// A place in it: what copies write to.
  struct Place {
    const Shared& of;
    size_t at;
  };
  Place operator+(long i) const { return {*this, base + size_t(i) * sizeof(T)}; }
  /// Bytes as another type.
  template <class As> As load(size_t byte) const {
    return typename Shared<As>::Element{Shared<As>{memory, base, bytes}, base + byte};
  }
};

// ---- copies that go on beside the threads ----
inline void land(const Copy& c) {
  if (!c.to) return;
  touch(c.at, size_t(c.bytes), true);
  std::memset(c.to, 0, size_t(c.bytes));
  std::memcpy(c.to, c.from, size_t(c.copied));
}
/// In odd orders it lands as late as it may, and what was there before is gone.
template <class Place> void begin_copy(const Place& to, const void* from, int bytes, int copied) {
  if (to.at < to.of.base || to.at + size_t(bytes) > to.of.base + to.of.bytes)
    return found("outside: a copy to byte " + std::to_string(long(to.at) - long(to.of.base)) + " of " +
                 std::to_string(to.of.bytes));
  if (to.at % size_t(bytes) != 0 || (copied && reinterpret_cast<uintptr_t>(from) % size_t(bytes) != 0))
    return found("unaligned: a copy of " + std::to_string(bytes) + " bytes");
  if (copied != 0 && copied != bytes) return found("a copy of a part");
  const Copy c{to.of.memory + to.at, static_cast<const unsigned char*>(from), to.at, bytes, copied};
  touch(to.at, size_t(bytes), true);
  if (block->order % 2) {
    std::memset(c.to, 0xA5, size_t(bytes));
    block->current->copies.push_back(c);
  } else {
    land(c);
    block->current->copies.push_back({});
  }
}
inline void no_copy() { block->current->copies.push_back({}); }
inline void wait_copies(size_t left) {
  std::vector<Copy>& copies = block->current->copies;
  while (copies.size() > left) {
    land(copies.front());
    copies.erase(copies.begin());
  }
}

// ---- what the threads of a warp do together ----
template <class T> T shuffle_xor(T x, unsigned mask) {
  std::memcpy(block->current->given, &x, sizeof x);
  warp_barrier();
  const unsigned other = block->current->number ^ mask;
  T result{};
  if (other / block->warp != block->current->number / block->warp || other >= block->threads)
    found("a thread exchanges with one that is not in its warp");
  else
    std::memcpy(&result, block->fibers[other].given, sizeof result);
  warp_barrier();
  return result;
}

/// A number of 16 bits.
inline double narrow(uint16_t word, bool brain) {
  float f;
  if (brain) {
    const uint32_t bits = uint32_t(word) << 16;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }
  const int exponent = word >> 10 & 31, fraction = word & 1023;
  double x = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-10;
  for (int e = exponent; exponent && e < 15; ++e) x /= 2;
  for (int e = exponent; exponent && e > 15; --e) x *= 2;
  if (exponent == 31) x = fraction ? 0.0 / 0.0 : 1.0 / 0.0;
  return word >> 15 ? -x : x;
}
/// V_MFMA_F32_*: lane l holds four k of row (column) l mod `tile`.
inline void mfma(float* c, const uint32_t* a, const uint32_t* b, unsigned tile, bool brain) {
  unsigned char* given = block->current->given;
  std::memcpy(given, a, 8);
  std::memcpy(given + 8, b, 8);
  warp_barrier();
  const unsigned warp = block->current->number / block->warp * block->warp,
                 lane = block->current->number % 64;
  const auto word = [&](unsigned line, unsigned k, unsigned operand) {
    uint16_t x;
    std::memcpy(&x, block->fibers[warp + line + tile * (k / 4)].given + 8 * operand + 2 * (k % 4), sizeof x);
    return narrow(x, brain);
  };
  for (unsigned i = 0; i < tile * tile / 64; ++i) {
    const unsigned part = lane / tile, row = tile == 32 ? 8 * (i / 4) + 4 * part + i % 4 : 4 * part + i;
    double sum = double(c[i]);
    for (unsigned k = 0; k < 256 / tile; ++k) sum += word(row, k, 0) * word(lane % tile, k, 1);
    c[i] = float(sum);
  }
  warp_barrier();
}
/// mma.m16n8k16 of the PTX ISA, as its figures place the fragments.
inline void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b, bool brain) {
  unsigned char* given = block->current->given;
  std::memcpy(given, a, 16);
  std::memcpy(given + 16, b, 8);
  warp_barrier();
  const unsigned warp = block->current->number / block->warp * block->warp,
                 lane = block->current->number % 32;
  const auto word = [&](unsigned from, unsigned place) {
    uint16_t x;
    std::memcpy(&x, block->fibers[warp + from].given + 2 * place, sizeof x);
    return narrow(x, brain);
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
    double sum = double(c[i]);
    for (unsigned k = 0; k < 16; ++k)
      sum += word(row % 8 * 4 + k % 8 / 2, (row / 8 + 2 * (k / 8)) * 2 + k % 2) *
             word(column * 4 + k % 8 / 2, 8 + k / 8 * 2 + k % 2);
    c[i] = float(sum);
  }
  warp_barrier();
}

/// An argument of a kernel, whatever its type.
struct Argument {
  void* address;
  template <class T> operator T*() const { return static_cast<T*>(address); }
};

} // namespace simt
