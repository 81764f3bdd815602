// tests/train/trainer_support.h -- small data sets and models for tests of the loop.
#pragma once
#include "luminal/luminal.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <gtest/gtest.h>
#include <numbers>
#include <string>

namespace luminal::testing_train {

/// The text of an Error without its place.
template <class F> std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind(" at "));
  }
  return "no error";
}
inline std::string fmt_place(const std::string& before, int line) { return before + std::to_string(line); }

/// Points of two spirals: "x" f32 [2], "y" i64.
inline DataSetPtr spirals(int points) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (int i = 0; i < points; ++i) {
    const double turn = std::sqrt(double(i / 2) / points * 2) * 1.5 * std::numbers::pi,
                 side = i % 2 == 0 ? 1 : -1;
    x.push_back(float(side * turn * std::cos(turn) / 4));
    x.push_back(float(side * turn * std::sin(turn) / 4));
    y.push_back(i % 2);
  }
  return datasets::from_values({{{"x", DType::f32, {2}}, x}, {{"y", DType::i64}, y}});
}

/// Pictures "x" u8 [8, 8] of three kinds "y": stripes one way, the other way, and a checkerboard.
inline DataSetPtr pictures(int count) {
  std::vector<uint8_t> x;
  std::vector<int64_t> y;
  for (int i = 0; i < count; ++i) {
    const int kind = i % 3, shift = i / 3 % 4;
    for (int r = 0; r < 8; ++r)
      for (int c = 0; c < 8; ++c) {
        const int at = kind == 0 ? r + shift : kind == 1 ? c + shift : r + c + shift;
        x.push_back(uint8_t(at / 2 % 2 == 0 ? 20 + i % 7 : 220 - i % 5));
      }
    y.push_back(kind);
  }
  return datasets::from_values({{{"x", DType::u8, {8, 8}}, x}, {{"y", DType::i64}, y}});
}

inline ModelFunction small_model(double dropout) {
  return [dropout](ModelScope& m) {
    const Tensor w1 = m.parameter("w1", {2, 16}, init::normal(1)),
                 b1 = m.parameter("b1", {16}, init::normal(0.5));
    const Tensor w2 = m.parameter("w2", {16, 16}, init::normal(0.25)),
                 w3 = m.parameter("w3", {16, 2}, init::normal(0.1));
    Tensor h = m.dropout((m.input("x").cast(w1.dtype()).matmul(w1) + b1).tanh(), dropout);
    const Tensor logits = h.matmul(w2).tanh().matmul(w3);
    return StepResults{cross_entropy(logits, m.input("y")), {{"accuracy", accuracy(logits, m.input("y"))}}};
  };
}

/// All states, by name.
inline std::string all_bits(Trainer& trainer) {
  std::string bits;
  const auto state = trainer.graph().state();
  for (const auto& [name, id] : state->inputs) {
    if (std::get<InputAttr>(state->builder[id].attr).role != Role::state) continue;
    const auto bytes = wrap(state, id).bytes();
    bits += name + ":" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_FALSE(bits.empty());
  return bits;
}

} // namespace luminal::testing_train
