// base/thread_pool.h -- a persistent pool. Work is taken, not assigned: whoever is free takes the
// next task, and the caller takes what nobody has begun.
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

/// Members spin for a while between runs, then park. How long they spin, and whether they are asked
/// at all, follows what they see: a core that other processes use, a member that was taken off its
/// core in the middle of a task, pauses that are longer than a spin.
class ThreadPool {
public:
  /// The caller of a run is member 0, so size - 1 threads are made; fewer, with a warning, where
  /// the system makes no more. spin_us: how long a member without work stays awake where nobody
  /// else wants its core.
  explicit ThreadPool(int size, int spin_us = 300);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// f(task, member) for task in 0..count-1, in this order, each once: members take them one after
  /// the other, the caller too. Never waits for a member that has not begun: where no member is
  /// free, or another caller has them, the caller does everything. A task may wait for an earlier
  /// one (`wait`), never for a later one. work_us: what the tasks take together, as far as it is
  /// known; members that are parked are not woken for little. The first exception of a task is
  /// thrown here. Not to be called from inside a run. count < 65535. Allocates nothing.
  template <class F> void tasks(int count, double work_us, F&& f) {
    using Callable = std::remove_reference_t<F>;
    tasks_erased(
        count, work_us,
        [](void* function, int task, int member) { (*static_cast<Callable*>(function))(task, member); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  /// f(index, count): a team of those members that come at once, at least the caller (index 0).
  /// Inside, `barrier` waits for the whole team.
  template <class F> void team(int most, double work_us, F&& f) {
    using Callable = std::remove_reference_t<F>;
    team_erased(
        most, work_us,
        [](void* function, int index, int count) { (*static_cast<Callable*>(function))(index, count); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  /// Calls f(member) on every member and returns when all are done, however long some take to come:
  /// for measuring and first touches. A function that throws must not use barriers. Runs of several
  /// callers take turns.
  template <class F> void run(F&& f) {
    using Callable = std::remove_reference_t<F>;
    run_erased([](void* function, int member, int) { (*static_cast<Callable*>(function))(member); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }
  /// Waits until all members of the present run or team are here.
  void barrier();
  /// Spins, then yields, until done() holds: for tasks that need earlier ones.
  template <class Done> void wait(Done&& done) {
    for (int spins = 0; !done(); spins++) pause(spins);
  }
  /// f(i) for i in 0..count-1, distributed one by one as members become free: for work of uneven
  /// size, such as compiling.
  void parallel_for(int64_t count, const std::function<void(int64_t)>& f);

  /// What has happened since the pool was made: to be read while nothing runs.
  struct Counts {
    int64_t runs = 0;   ///< of `tasks`
    int64_t helped = 0; ///< tasks of these that other members did
    int64_t alone = 0;  ///< runs that were not offered to anybody
    int64_t wakes = 0;  ///< calls to the system that woke parked members
    int64_t stalls = 0; ///< times that a member was away from its core in the middle of a task
    int64_t moves = 0;  ///< times that a member left the caller's core
    /// Parked members that were kept off another core than before, to which the caller had moved.
    int64_t redirected = 0;
  };
  Counts counts() const;

private:
  using Erased = void (*)(void* function, int, int);
  void tasks_erased(int count, double work_us, Erased call, void* function);
  void team_erased(int most, double work_us, Erased call, void* function);
  void run_erased(Erased call, void* function);
  void work(int member);
  bool take(int member, uint64_t& ticket);
  void execute(int a, int b, int team);
  void finish();
  static bool has_work(uint64_t ticket, uint32_t seen);
  void park(uint32_t seen);
  void sleep_until(int own);
  void wake();
  bool in_penalty();
  bool worth_waking(double work_us);
  void leave_core_of_caller();
  void join(int own, int64_t begin);
  void alone(int count, Erased call, void* function);
  void publish(uint64_t kind, int count, int next);
  static void pause(int spins);

  int size_, spin_us_;
  std::vector<std::thread> threads_;
  int core_count_ = 0; // that the process may use

  // Of the caller that has the turn.
  std::mutex turn_;
  Counts counts_;
  double missed_us_ = 0;                   // work that was done alone while members were parked
  double wake_us_ = 0;                     // as much of it is worth waking them
  int64_t helped_at_wake_ = 0;             // counts_.helped
  int64_t alone_until_ = 0, alone_ns_ = 0; // after a stall
  int good_runs_ = 0;
  std::exception_ptr error_;
  std::mutex error_mutex_;

  /// number of the run: 32 bits, kind: 2, tasks: 15, next task: 15. A member that takes a task has
  /// the function of this very run, since the run does not end before the task.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  Erased call_ = nullptr;
  void* function_ = nullptr;
  std::atomic<int> caller_core_{-1};
  alignas(64) std::atomic<int> left_{0};
  alignas(64) std::atomic<int> at_barrier_{0};
  std::atomic<int> team_{0}; // members of the present run or team; 0: still open
  alignas(64) std::atomic<uint32_t> barrier_generation_{0};
  alignas(64) std::atomic<int> parked_{0};
  struct Parked;
  std::mutex parked_mutex_;
  std::vector<Parked*> parked_members_;
  std::atomic<uint32_t> wake_word_{0};
  std::atomic<int64_t> moves_{0};
  std::atomic<bool> stop_{false};
};

} // namespace luminal
