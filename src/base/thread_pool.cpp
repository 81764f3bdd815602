// base/thread_pool.cpp -- the pool.
#include "base/thread_pool.h"
#include "base/check.h"
#include "base/log.h"
#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <sched.h>
#include <system_error>
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

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Rounds of relax(), some tens of microseconds: longer waits mean that somebody is not on a core.
constexpr int yield_after = 1000;
// Between two looks at the clock a spinning member is away for so long only if its core was taken.
constexpr int64_t gap_ns = 20'000;
// A spinning member offers its core to others so often.
constexpr int64_t yield_every_ns = 20'000;
// A member that is awake comes within this time.
constexpr int64_t team_patience_ns = 2'000, team_wake_patience_ns = 50'000, team_most_patience_ns = 1'000'000;
// A wait for a member's task is a stall if it takes so long, and longer than twice what the caller
// itself did.
constexpr int64_t stall_ns = 200'000;
constexpr int64_t alone_least_ns = 1'000'000, alone_most_ns = 64'000'000;
constexpr int runs_to_trust = 200;
// Work that has to be missed before members are woken: some times what a wake costs. More, where
// the last wake was of no use.
constexpr double wake_least_us = 60, wake_most_us = 20'000;

constexpr uint64_t kind_tasks = 0, kind_all = 1, kind_team = 2;
constexpr int most_tasks = (1 << 15) - 1;
constexpr int next_of(uint64_t ticket) { return int(ticket & most_tasks); }
constexpr int count_of(uint64_t ticket) { return int(ticket >> 15 & most_tasks); }
constexpr uint64_t kind_of(uint64_t ticket) { return ticket >> 30 & 3; }
constexpr uint32_t run_of(uint64_t ticket) { return uint32_t(ticket >> 32); }

thread_local const ThreadPool* inside = nullptr;
thread_local int team_of_this = 1;

cpu_set_t cores_of_this_thread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) CPU_ZERO(&cores);
  return cores;
}

/// Keeps a thread that may run on `cores` off one of them. False: nothing was changed.
bool keep_off(pthread_t thread, int core, const cpu_set_t& cores) {
  if (core < 0 || !CPU_ISSET(size_t(core), &cores)) return false;
  cpu_set_t others = cores;
  CPU_CLR(size_t(core), &others);
  return CPU_COUNT(&others) > 0 && pthread_setaffinity_np(thread, sizeof others, &others) == 0;
}

/// What a thread is in while it does a task.
class Inside {
public:
  Inside(const ThreadPool* pool, int team)
      : pool_(std::exchange(inside, pool)), team_(std::exchange(team_of_this, team)) {}
  ~Inside() { inside = pool_, team_of_this = team_; }

private:
  const ThreadPool* pool_; // a run of one pool may use another pool
  int team_;
};

} // namespace

/// A member that is parked.
struct ThreadPool::Parked {
  pthread_t thread;
  int avoided;     // core on which it will not wake
  bool moved;      // it may not run everywhere that it may otherwise
  cpu_set_t cores; // otherwise
};

ThreadPool::ThreadPool(int size, int spin_us) : size_(size), spin_us_(spin_us), wake_us_(wake_least_us) {
  LUMINAL_CHECK(size >= 1, "a pool of {} members", size);
  const cpu_set_t cores = cores_of_this_thread();
  core_count_ = CPU_COUNT(&cores);
  if (size > core_count_) spin_us_ = 0; // they would spin on each other's cores
  threads_.reserve(size_t(size - 1));
  try {
    for (int member = 1; member < size; member++) threads_.emplace_back([this, member] { work(member); });
  } catch (const std::system_error& error) { // a limit of the system: on processes, or on address space
    size_ = int(threads_.size()) + 1;        // members read it in a run, and none has begun
    log_warning("{} threads were asked for, the system makes {}: {}", size, size_, error.what());
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  publish(kind_tasks, 0, 0);
  wake();
  for (auto& thread : threads_) thread.join();
}

ThreadPool::Counts ThreadPool::counts() const {
  Counts counts = counts_;
  counts.moves = moves_.load(std::memory_order_relaxed);
  return counts;
}

void ThreadPool::pause(int spins) { spins < yield_after ? relax() : std::this_thread::yield(); }

void ThreadPool::execute(int a, int b, int team) {
  const Inside here(this, team);
  try {
    call_(function_, a, b);
  } catch (...) {
    std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

// ---- members ----

/// Two threads that spin on one core hold each other up until the system moves one of them, which
/// may take long.
void ThreadPool::leave_core_of_caller() {
  const cpu_set_t cores = cores_of_this_thread();
  moves_.fetch_add(1, std::memory_order_relaxed);
  if (keep_off(pthread_self(), caller_core_.load(std::memory_order_relaxed), cores))
    sched_setaffinity(0, sizeof cores, &cores);
}

bool ThreadPool::has_work(uint64_t ticket, uint32_t seen) {
  return kind_of(ticket) == kind_tasks ? next_of(ticket) < count_of(ticket) : run_of(ticket) != seen;
}

/// Woken on the caller's core a member would have to wait until the caller, which waits for it or
/// works, leaves that core.
void ThreadPool::park(uint32_t seen) {
  const uint32_t word = wake_word_.load();
  Parked here{pthread_self(), caller_core_.load(std::memory_order_relaxed), false, cores_of_this_thread()};
  {
    const std::lock_guard lock(parked_mutex_);
    here.moved = keep_off(here.thread, here.avoided, here.cores);
    parked_members_.push_back(&here);
  }
  parked_.fetch_add(1);
  // Who publishes and needs all members reads parked_ after writing the ticket; the others need not
  // wake anybody.
  if (!has_work(ticket_.load(), seen) && !stop_.load()) wake_word_.wait(word);
  parked_.fetch_sub(1);
  const std::lock_guard lock(parked_mutex_);
  std::erase(parked_members_, &here);
  if (here.moved) sched_setaffinity(0, sizeof here.cores, &here.cores);
}

void ThreadPool::finish() {
  left_.fetch_sub(1, std::memory_order_release);
  left_.notify_one(); // a load where the caller is awake
}

/// Does what the ticket has for this member. False: nothing.
bool ThreadPool::take(int member, uint64_t& ticket) {
  if (kind_of(ticket) == kind_all) {
    execute(member, 0, size_);
    finish();
    return true;
  }
  bool took = false;
  while (next_of(ticket) < count_of(ticket)) {
    const int task = next_of(ticket);
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
      continue;
    took = true;
    if (kind_of(ticket) == kind_team) {
      wait([&] { return team_.load(std::memory_order_acquire) != 0; });
      const int count = team_.load(std::memory_order_relaxed);
      execute(task, count, count);
      finish();
      return true;
    }
    execute(task, member, 1);
    finish();
    ticket = ticket_.load(std::memory_order_acquire);
    if (kind_of(ticket) != kind_tasks) break;
  }
  return took;
}

void ThreadPool::work(int member) {
  uint32_t seen = 0; // run of which this member has done its part
  int64_t spin = spin_us_ * int64_t(1000);
  while (!stop_.load(std::memory_order_relaxed)) {
    const int64_t begin = now_ns();
    int64_t last = begin, yielded = begin, moved = 0;
    bool taken_away = false, found = false;
    for (;;) {
      for (int i = 0; i < 32 && !found; i++) {
        uint64_t ticket = ticket_.load(std::memory_order_acquire);
        if (stop_.load(std::memory_order_relaxed)) return;
        if (has_work(ticket, seen)) {
          const uint32_t run = run_of(ticket);
          found = take(member, ticket);
          if (kind_of(ticket) != kind_tasks && run_of(ticket) == run) seen = run;
        } else
          relax();
      }
      if (found) break;
      const int64_t time = now_ns();
      if (core_count_ > 1 && time - moved > 1'000'000 &&
          sched_getcpu() == caller_core_.load(std::memory_order_relaxed)) {
        leave_core_of_caller();
        last = moved = now_ns();
        continue;
      }
      taken_away = time - last > gap_ns;
      if (taken_away || time - begin > spin) break;
      last = time;
      if (time - yielded > yield_every_ns) std::this_thread::yield(), yielded = time;
    }
    if (found) { // nobody else wants this core
      spin = std::min<int64_t>(spin + spin / 8 + 1, spin_us_ * int64_t(1000));
      continue;
    }
    if (taken_away) spin = std::max<int64_t>(spin / 4, 1000);
    park(seen);
  }
}

// ---- callers ----

void ThreadPool::publish(uint64_t kind, int count, int next) {
  const uint64_t run = run_of(ticket_.load(std::memory_order_relaxed)) + uint64_t(1);
  ticket_.store((run & 0xffffffff) << 32 | kind << 30 | uint64_t(count) << 15 | uint64_t(next));
}

void ThreadPool::wake() {
  // The system may have moved the caller since the members parked, perhaps to where they would be
  // woken.
  if (const int core = sched_getcpu(); core >= 0) {
    const std::lock_guard lock(parked_mutex_);
    for (Parked* member : parked_members_) {
      if (member->avoided == core || !keep_off(member->thread, core, member->cores)) continue;
      member->avoided = core;
      member->moved = true;
      counts_.redirected++;
    }
  }
  wake_word_.fetch_add(1);
  wake_word_.notify_all();
}

/// After a stall the caller works alone for a while: a member that shares its core with others
/// costs more than it gives.
bool ThreadPool::in_penalty() {
  if (alone_until_ != 0 && now_ns() >= alone_until_) alone_until_ = 0;
  return alone_until_ != 0;
}

/// Members are parked. Waking costs the caller some microseconds, so that much work has to be
/// missed before; ever more where wakes were of no use.
bool ThreadPool::worth_waking(double work_us) {
  missed_us_ += work_us;
  if (missed_us_ < wake_us_) return false;
  wake_us_ = counts_.helped > helped_at_wake_ ? wake_least_us : std::min(2 * wake_us_, wake_most_us);
  helped_at_wake_ = counts_.helped;
  missed_us_ = 0;
  counts_.wakes++;
  return true;
}

/// Waits until so many tasks are counted as left; in the end asleep, since whoever has the others
/// needs a core.
void ThreadPool::sleep_until(int own) {
  int spins = 0;
  for (int left; (left = left_.load(std::memory_order_acquire)) != own;)
    if (spins < yield_after + 20)
      pause(spins++);
    else
      left_.wait(left, std::memory_order_acquire);
}

/// Waits until only the caller's own tasks are counted as left.
void ThreadPool::join(int own, int64_t begin) {
  if (left_.load(std::memory_order_acquire) != own) {
    int spins = 0;
    while (left_.load(std::memory_order_acquire) != own && spins < yield_after) pause(spins++);
    if (spins == yield_after) {
      const int64_t waits = now_ns();
      sleep_until(own);
      const int64_t waited = now_ns() - waits;
      if (waited > stall_ns && waited > 2 * (waits - begin)) {
        counts_.stalls++;
        good_runs_ = 0;
        alone_ns_ = std::clamp(2 * alone_ns_, alone_least_ns, alone_most_ns);
        alone_until_ = now_ns() + alone_ns_;
        return;
      }
    }
  }
  if (alone_ns_ != 0 && ++good_runs_ > runs_to_trust) {
    good_runs_ = 0;
    alone_ns_ /= 2;
  }
}

void ThreadPool::alone(int count, Erased call, void* function) {
  const Inside here(this, 1);
  for (int task = 0; task < count; task++) call(function, task, 0);
}

void ThreadPool::tasks_erased(int count, double work_us, Erased call, void* function) {
  LUMINAL_CHECK(inside != this, "ThreadPool::tasks inside a run of the same pool");
  LUMINAL_CHECK(count <= most_tasks, "{} tasks in one run", count);
  std::unique_lock turn(turn_, std::defer_lock);
  if (size_ == 1 || count <= 1 || core_count_ == 1 || !turn.try_lock()) return alone(count, call, function);
  counts_.runs++;
  const int parked = parked_.load(std::memory_order_relaxed);
  const bool waking = parked > 0 && worth_waking(work_us);
  if ((parked == size_ - 1 && !waking) || in_penalty()) {
    counts_.alone++;
    return alone(count, call, function);
  }
  const int64_t begin = now_ns();
  call_ = call;
  function_ = function;
  error_ = nullptr;
  left_.store(count, std::memory_order_relaxed);
  caller_core_.store(sched_getcpu(), std::memory_order_relaxed);
  publish(kind_tasks, count, 1);
  if (waking) wake();
  execute(0, 0, 1);
  int own = 1;
  for (uint64_t ticket = ticket_.load(std::memory_order_relaxed); next_of(ticket) < count_of(ticket);) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    execute(next_of(ticket), 0, 1);
    own++;
    ticket = ticket_.load(std::memory_order_relaxed);
  }
  counts_.helped += count - own;
  join(own, begin);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::team_erased(int most, double work_us, Erased call, void* function) {
  LUMINAL_CHECK(inside != this, "ThreadPool::team inside a run of the same pool");
  most = std::min(most, size_);
  std::unique_lock turn(turn_, std::defer_lock);
  const auto nobody_else = [&] {
    const Inside here(this, 1);
    call(function, 0, 1);
  };
  if (most <= 1 || core_count_ == 1 || !turn.try_lock()) return nobody_else();
  counts_.runs++;
  const int parked = parked_.load(std::memory_order_relaxed);
  const bool waking = parked > 0 && worth_waking(work_us);
  if ((parked == size_ - 1 && !waking) || in_penalty()) {
    counts_.alone++;
    return nobody_else();
  }
  const int64_t begin = now_ns();
  call_ = call;
  function_ = function;
  error_ = nullptr;
  left_.store(most, std::memory_order_relaxed);
  team_.store(0, std::memory_order_relaxed);
  caller_core_.store(sched_getcpu(), std::memory_order_relaxed);
  publish(kind_team, most, 1);
  if (waking) wake();
  // Waiting for a member is worth a small part of what it takes off.
  const int64_t patience = waking ? std::clamp(int64_t(std::min(work_us, 1e6) * 1000 / 16),
                                               team_wake_patience_ns, team_most_patience_ns)
                                  : team_patience_ns;
  const int expected = waking ? most : std::min(most, size_ - parked);
  uint64_t ticket = ticket_.load(std::memory_order_relaxed);
  for (int spins = 0; next_of(ticket) < expected; ticket = ticket_.load(std::memory_order_relaxed)) {
    relax();
    if (++spins % 8 == 0 && now_ns() - begin > patience) break;
  }
  const auto closed = [](uint64_t open) {
    return (open & ~(uint64_t(most_tasks) << 15)) | uint64_t(next_of(open)) << 15;
  };
  while (!ticket_.compare_exchange_weak(ticket, closed(ticket), std::memory_order_acq_rel)) {
  }
  const int count = next_of(ticket);
  team_.store(count, std::memory_order_release);
  execute(0, count, count);
  counts_.helped += count - 1;
  join(most - count + 1, begin);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::run_erased(Erased call, void* function) {
  LUMINAL_CHECK(inside != this, "ThreadPool::run inside a run of the same pool");
  std::lock_guard turn(turn_);
  call_ = call;
  function_ = function;
  error_ = nullptr;
  left_.store(size_, std::memory_order_relaxed);
  caller_core_.store(sched_getcpu(), std::memory_order_relaxed);
  if (size_ > 1) {
    publish(kind_all, 0, 0);
    if (parked_.load() > 0) wake();
  }
  execute(0, 0, size_);
  if (size_ > 1) sleep_until(1);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::barrier() {
  const int members = team_of_this;
  if (members == 1) return;
  const uint32_t generation = barrier_generation_.load(std::memory_order_acquire);
  if (at_barrier_.fetch_add(1, std::memory_order_acq_rel) == members - 1) {
    at_barrier_.store(0, std::memory_order_relaxed);
    barrier_generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  wait([&] { return barrier_generation_.load(std::memory_order_acquire) != generation; });
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t)>& f) {
  std::atomic<int64_t> next{0};
  tasks(int(std::min<int64_t>(size_, count)), 1e9, [&](int, int) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(i);
  });
}

} // namespace luminal
