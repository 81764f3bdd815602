// base/thread_pool.h -- a persistent pool: all members run the same function (SPMD), with barriers; they spin for a while between runs, then park.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace luminal {

class ThreadPool {
public:
  /// The caller of `run` is member 0, so size - 1 threads are made. spin_us: how long a member without work stays awake.
  explicit ThreadPool(int size, int spin_us = 100);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// Calls f(member) on every member and returns when all are done. Runs of several callers take turns. The first exception of a member is thrown here; a function
  /// that throws must not use barriers. Not to be called from inside a run. Allocates nothing.
  template <class F> void run(F&& f) {
    using Callable = std::remove_reference_t<F>;
    run_erased([](void* function, int member) { (*static_cast<Callable*>(function))(member); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }
  /// Waits until all members of the present run are here.
  void barrier();
  /// f(i) for i in 0..count-1, dealt out one by one as members become free: for work of uneven size, such as compiling.
  void parallel_for(int64_t count, const std::function<void(int64_t)>& f);

private:
  using Erased = void (*)(void* function, int member);
  void run_erased(Erased call, void* function);
  void work(int member);
  void execute(int member);

  int size_, spin_us_;
  std::vector<std::thread> threads_;
  std::mutex turn_;
  Erased call_ = nullptr;
  void* function_ = nullptr;
  std::exception_ptr error_;
  std::mutex error_mutex_;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int> left_{0};
  alignas(64) std::atomic<int> at_barrier_{0};
  alignas(64) std::atomic<uint32_t> barrier_generation_{0};
  std::atomic<bool> stop_{false};
};

} // namespace luminal
