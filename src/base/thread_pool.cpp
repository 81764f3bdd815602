// base/thread_pool.cpp -- the pool.
#include "base/thread_pool.h"
#include "base/check.h"
#include <chrono>
#include <utility>

namespace luminal {
namespace {

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Rounds of relax(), some tens of microseconds: longer waits mean that there are more threads than cores.
constexpr int yield_after = 1000;

thread_local const ThreadPool* inside = nullptr;

} // namespace

ThreadPool::ThreadPool(int size, int spin_us) : size_(size), spin_us_(spin_us) {
  LUMINAL_CHECK(size >= 1, "a pool of {} members", size);
  for (int member = 1; member < size; member++) threads_.emplace_back([this, member] { work(member); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::execute(int member) {
  const ThreadPool* const outer = std::exchange(inside, this); // a run of one pool may use another pool
  try {
    call_(function_, member);
  } catch (...) {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
  inside = outer;
}

void ThreadPool::work(int member) {
  uint32_t seen = 0;
  for (;;) {
    auto start = std::chrono::steady_clock::now();
    while (generation_.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 64 && generation_.load(std::memory_order_relaxed) == seen; i++) relax();
      if (generation_.load(std::memory_order_relaxed) != seen) continue;
      if (std::chrono::steady_clock::now() - start > std::chrono::microseconds(spin_us_))
        generation_.wait(seen, std::memory_order_acquire);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    execute(member);
    left_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run_erased(Erased call, void* function) {
  LUMINAL_CHECK(inside != this, "ThreadPool::run inside a run of the same pool");
  std::lock_guard turn(turn_);
  call_ = call;
  function_ = function;
  error_ = nullptr;
  if (size_ > 1) {
    left_.store(size_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all(); // cheap when nobody is parked
  }
  execute(0);
  // A member that was descheduled may take long: let it have this core.
  for (int spins = 0; left_.load(std::memory_order_acquire) != 0; spins++)
    spins < yield_after ? relax() : std::this_thread::yield();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::barrier() {
  if (size_ == 1) return;
  uint32_t generation = barrier_generation_.load(std::memory_order_acquire);
  if (at_barrier_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    at_barrier_.store(0, std::memory_order_relaxed);
    barrier_generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; barrier_generation_.load(std::memory_order_acquire) == generation; spins++)
    spins < yield_after ? relax() : std::this_thread::yield();
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t)>& f) {
  std::atomic<int64_t> next{0};
  run([&](int) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(i);
  });
}

} // namespace luminal
