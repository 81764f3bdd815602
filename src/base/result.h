// base/result.h -- Result<T>: a value or the reason why there is none. For failures that are
// expected (files, drivers, candidates of a search); a mistake of the caller is luminal::Error, a
// mistake of ours LUMINAL_CHECK.
#pragma once
#include "luminal/error.h"
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace luminal {

/// Why something did not work: one line, complete in itself (it names the file, offset, device, ...
/// concerned).
struct Failure {
  std::string text;
  std::optional<MemoryShortage> shortage = {}; // of memory: a caller may try smaller sizes
};

/// The way from the inside to the caller: luminal::Error, or OutOfMemoryError.
[[noreturn]] void throw_failure(const Failure& failure);
/// "[operation] text at file:line".
[[noreturn]] void throw_failure(std::string_view operation, const Failure& failure,
                                std::source_location where);

template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return failure().text; }
  const Failure& failure() const { return std::get<1>(state_); }

  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  /// The value, or the failure thrown (see throw_failure).
  T& value() & {
    if (!ok()) throw_failure(failure());
    return std::get<0>(state_);
  }
  T&& value() && {
    if (!ok()) throw_failure(failure());
    return std::get<0>(std::move(state_));
  }

private:
  std::variant<T, Failure> state_;
};

template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}
  bool ok() const { return !failure_; }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return failure_->text; }
  const Failure& failure() const { return *failure_; }
  void value() const {
    if (!ok()) throw_failure(failure());
  }

private:
  std::optional<Failure> failure_;
};

} // namespace luminal
