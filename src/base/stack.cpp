// base/stack.cpp -- where the stack of a thread ends.
#include "base/stack.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <pthread.h>

namespace luminal {
namespace {

/// The lowest address that recursion may come to.
uintptr_t lowest_address() {
#ifdef __linux__
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* base = nullptr;
  size_t bytes = 0, guard = 0;
  const bool known = pthread_attr_getstack(&attributes, &base, &bytes) == 0;
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  if (!known) return 0;
  return reinterpret_cast<uintptr_t>(base) + guard + std::min<size_t>(bytes / 8, 256 << 10);
#else
  auto* const self = pthread_self();
  const size_t bytes = pthread_get_stacksize_np(self);
  return reinterpret_cast<uintptr_t>(pthread_get_stackaddr_np(self)) - bytes +
         std::min<size_t>(bytes / 8, 256 << 10);
#endif
}

} // namespace

bool stack_is_low() {
  thread_local const uintptr_t lowest = lowest_address();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < lowest;
}

} // namespace luminal
