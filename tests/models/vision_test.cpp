// models/vision_test.cpp -- classes out of what a model answers; presets of pixels. What models make of
// pictures is in tests/tree/program_media_test.py.
#include "models/vision.h"
#include <cmath>
#include <gtest/gtest.h>

namespace luminal::models {
namespace {

TEST(Vision, ClassesAreInOrder) {
  const auto logits = classes_of({1, 3, -2, 3}, 3); // of equal ones the first
  ASSERT_EQ(logits.size(), 3U);
  EXPECT_EQ(logits[0].index, 1);
  EXPECT_EQ(logits[1].index, 3);
  EXPECT_EQ(logits[2].index, 0);
  const double all = 2 + std::exp(-2.0) + std::exp(-5.0);
  EXPECT_NEAR(logits[0].score, 1 / all, 1e-12);
  const auto probabilities = classes_of({0.25F, 0.75F}, 9); // they stay what they are
  ASSERT_EQ(probabilities.size(), 2U);
  EXPECT_EQ(probabilities[0].score, 0.75);
}

TEST(Vision, PresetsByName) {
  EXPECT_EQ(pixel_preset("yolox").scale, 1);
  try {
    (void)pixel_preset("odd");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "preset odd: imagenet, unit, yolox, yolov8, ultraface are known");
  }
}

} // namespace
} // namespace luminal::models
