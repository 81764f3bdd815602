// tests/tensor/support.h -- what the tests of graphs share.
#pragma once
#include "luminal/luminal.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

namespace luminal::testing_tensor {

/// The text of the Error that f throws.
template <class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// " at FILE:LINE" with the file's own name: what ends an error's text.
inline std::string at(const char* file, int line) {
  std::string name = file;
  return " at " + name.substr(name.rfind('/') + 1) + ":" + std::to_string(line);
}

template <class T> std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

} // namespace luminal::testing_tensor

/// EXPECT_ERROR(x.set({1.f}), "[set] ..."): the whole text, without the place, which must be this
/// line.
#define EXPECT_ERROR(statement, text)                                                                        \
  EXPECT_EQ(luminal::testing_tensor::error_of([&] { statement; }),                                           \
            std::string(text) + luminal::testing_tensor::at(__FILE__, __LINE__))
