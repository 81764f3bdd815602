// support/error_of.h -- the message of what fails, as a string to compare.
#pragma once
#include "base/result.h"
#include <concepts>
#include <string>

namespace luminal {

/// The message of the Error that f throws.
template <class F>
  requires std::invocable<F&>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
/// The same without the caller's line behind it.
template <class F> std::string error_without_place(F&& f) {
  const std::string text = error_of(f);
  return text.substr(0, text.rfind(" at "));
}
template <class T> std::string error_of(const Result<T>& result) {
  return result ? "accepted" : result.error();
}

} // namespace luminal
