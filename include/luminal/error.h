// luminal/error.h -- the exceptions of the library.
#pragma once
#include <cstdint>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace luminal {

/// A mistake of the caller, or a file or machine that cannot serve. The text names the operation,
/// what was found, what was expected and, where an operation of a graph is concerned, the caller's
/// source line:
///   [matmul] inner sizes differ: [4, 3] x [5, 2] at train.cpp:41
class Error : public std::runtime_error {
public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  /// "[operation] text at file:line"; the file is printed without its folders.
  Error(std::string_view operation, std::string_view text,
        std::source_location where = std::source_location::current());
};

/// Memory that is not there, in bytes.
struct MemoryShortage {
  int64_t needed = 0;
  /// What the machine or the device has, or the limit. None where the system does not say.
  std::optional<int64_t> available;
};

/// Memory that a device cannot give, or that a limit forbids. The text holds both numbers and says what
/// needs less.
class OutOfMemoryError : public Error {
public:
  OutOfMemoryError(const std::string& text, MemoryShortage shortage) : Error(text), shortage_(shortage) {}
  OutOfMemoryError(std::string_view operation, std::string_view text, MemoryShortage shortage,
                   std::source_location where = std::source_location::current())
      : Error(operation, text, where), shortage_(shortage) {}
  const MemoryShortage& shortage() const { return shortage_; }

private:
  MemoryShortage shortage_;
};

/// A mistake of ours. Thrown by LUMINAL_CHECK; the text holds the condition, the place and the IR
/// concerned.
class InternalError : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

} // namespace luminal
