// tests/train/trainer_test.cpp -- the loop: steps, validation, mixed precision, numbers that are not
// finite; what is bit-equal, and what a run leaves behind.
#include "formats/util.h"
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include "tensor/support.h"
#include "train/run_files.h"
#include "trainer_support.h"
#include <cmath>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/resource.h>

namespace luminal {
namespace {

using namespace testing_train;
using luminal::testing_formats::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Trainer, LearnsAndValidates) {
  const auto [train, test] = datasets::split(spirals(256), 0.75, 1);
  std::vector<ValidationRecord> validations;
  Trainer trainer(small_model(0), train,
                  {.steps = 150,
                   .batch = 32,
                   .seed = 3,
                   .optimizer = [](Graph& g) { return adamw(g, 0.02); },
                   .clip_norm = 1,
                   .validation = test,
                   .validate_every = 50,
                   .on_validation = [&](const ValidationRecord& r) { validations.push_back(r); }});
  const TrainSummary summary = trainer.run();
  ASSERT_EQ(validations.size(), 4U); // at the begin, too
  EXPECT_EQ(validations[0].step, 0);
  EXPECT_NEAR(validations[0].loss, std::log(2), 0.2);
  EXPECT_LT(*summary.validation_loss, 0.6 * validations[0].loss);
  EXPECT_GT(validations.back().metrics[0].second, 0.8);
  EXPECT_EQ(validations.back().metrics[0].first, "accuracy");
  EXPECT_EQ(summary.steps, 150);
  // Five samples in batches of two, of which the last is smaller: the mean of one sample at a time.
  double one_by_one = 0;
  for (int64_t i = 0; i < 5; ++i) {
    Trainer single(small_model(0), train, {.batch = 1, .seed = 3, .validation = datasets::part(test, i, 1)});
    one_by_one += single.validate().loss / 5;
  }
  Trainer five(small_model(0), train, {.batch = 2, .seed = 3, .validation = datasets::part(test, 0, 5)});
  EXPECT_NEAR(five.validate().loss, one_by_one, 1e-6);
}

TEST(Trainer, FirstValuesAreThoseOfTheKeyOfTheirPlace) {
  Trainer trainer(
      [](ModelScope& m) {
        const Tensor w = m.parameter("w", {2, 2}, init::normal(0.5)),
                     a = m.parameter("a", {2}, init::constant(0)),
                     b = m.parameter("b", {2}, init::constant(0)); // as the one before
        const Tensor y = m.input("x").matmul(w) + a * 2 + b;
        return StepResults{.loss = cross_entropy(y, m.input("y")), .metrics = {}};
      },
      spirals(16), {.batch = 4, .seed = 9});
  Graph g;
  Tensor expected = random_normal(child_key(random_key(g, 9), 0), {2, 2}, 0, 0.5).keep();
  g.execute();
  const auto of = [&](const char* name) { return find(trainer.graph(), name).data<float>(); };
  EXPECT_EQ(of("w"), expected.data<float>());
  EXPECT_THAT(of("a"), ElementsAre(0, 0));
  EXPECT_THAT(of("b"), ElementsAre(0, 0));
  EXPECT_THAT(of("a.adam_m"), ElementsAre(0, 0)); // what the optimizer remembers
  trainer.step();
  for (const char* name : {"a", "b"}) // once by the rate: each has memory of its own
    EXPECT_NEAR(std::abs(of(name)[0]), 1e-3, 1e-5);
}

TEST(Trainer, TenAndTenStepsAreTwenty) {
  const TemporaryFolder folder;
  const auto data = spirals(100);
  for (const bool rich : {false, true}) {
    TrainerOptions options{.steps = 20, .batch = 16, .accumulate = rich ? 3 : 1, .seed = 7};
    if (rich) {
      options.optimizer = [](Graph& g) {
        return adamw(g, schedules::warm_up(5, schedules::cosine(0.01, 15)), {.amsgrad = true});
      };
      options.clip_norm = 0.5;
      options.ema = 0.9;
    }
    const ModelFunction model = small_model(rich ? 0.3 : 0);
    Trainer whole(model, data, options);
    std::vector<double> losses;
    for (int i = 0; i < 20; ++i) losses.push_back(whole.step().loss);
    Trainer first(model, data, options);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(first.step().loss, losses[size_t(i)]);
    first.save(folder.file("at10.safetensors"));
    Trainer second(model, data, options);
    second.resume(folder.file("at10.safetensors"));
    EXPECT_EQ(second.steps_done(), 10);
    for (int i = 10; i < 20; ++i) EXPECT_EQ(second.step().loss, losses[size_t(i)]) << i;
    EXPECT_EQ(all_bits(second), all_bits(whole));
    first.step();
    EXPECT_NE(all_bits(first), all_bits(whole));
  }
}

TEST(Trainer, OneAndTwoWorkersGiveTheSameBits) {
  const auto data = pictures(64);
  std::vector<std::string> bits;
  for (int threads : {1, 2}) {
    Trainer trainer(train_models::cnn({.channels = {4, 8}, .classes = 3, .dropout = 0.1}), data,
                    {.batch = 16, .seed = 1, .compile = {.threads = threads}});
    for (int i = 0; i < 5; ++i) trainer.step();
    bits.push_back(all_bits(trainer));
  }
  EXPECT_EQ(bits[0], bits[1]);
}

TEST(Trainer, FourBatchesOfSixteenAreOneOfSixtyFour) {
  const auto data = spirals(64);
  std::vector<std::vector<float>> parameters;
  for (const int64_t parts : {1, 4}) {
    Trainer trainer(small_model(0), data,
                    {.batch = 64 / parts,
                     .accumulate = parts,
                     .seed = 1,
                     .optimizer = [](Graph& g) { return sgd(g, 0.1, {.momentum = 0.9}); },
                     .shuffle = false});
    for (int i = 0; i < 10; ++i) trainer.step();
    parameters.push_back(trainer.parameter("w1").data<float>());
  }
  for (size_t i = 0; i < parameters[0].size(); ++i)
    EXPECT_NEAR(parameters[0][i], parameters[1][i], 1e-5) << i;
}

TEST(Trainer, MixedPrecisionKeepsParametersInF32) {
  const auto data = spirals(128);
  for (const DType precision : {DType::bf16, DType::f16}) {
    Trainer trainer(small_model(0), data,
                    {.batch = 32,
                     .seed = 3,
                     .optimizer = [](Graph& g) { return adamw(g, 0.02); },
                     .precision = precision});
    double first = 0, last = 0;
    for (int i = 0; i < 100; ++i) {
      const StepRecord record = trainer.step();
      if (i == 0) first = record.loss;
      last = record.loss;
    }
    EXPECT_LT(last, 0.6 * first) << int(precision);
    EXPECT_EQ(trainer.parameter("w1").dtype(), DType::f32);
    // Updates smaller than a step of the narrow type are not lost.
    const std::vector<float> w = trainer.parameter("w1").data<float>();
    EXPECT_TRUE(std::any_of(w.begin(), w.end(), [&](float x) {
      return (std::bit_cast<uint32_t>(x) & (precision == DType::bf16 ? 0xFFFFU : 0x1FFFU)) != 0;
    }));
  }
}

TEST(Trainer, FrozenValuesAndFirstValuesFromAFile) {
  const TemporaryFolder folder;
  Graph g;
  Tensor w = g.weight("w1", {2, 16}), f = g.weight("fixed", {16});
  w.set(std::vector<float>(32, 0.25F));
  f.set(std::vector<float>(16, 2));
  save(g, folder.file("w.safetensors"));
  const ModelFunction model = [](ModelScope& m) {
    const Tensor h = m.input("x").matmul(m.parameter("w1", {2, 16})) * m.frozen("fixed", {16});
    return StepResults{h.mean().square()};
  };
  Trainer trainer(model, spirals(32), {.batch = 8, .weights = folder.file("w.safetensors")});
  EXPECT_EQ(trainer.parameter("w1").data<float>()[3], 0.25F);
  trainer.step();
  EXPECT_THAT(trainer.parameter_names(), ElementsAre("w1"));
  EXPECT_THAT(message_of([&] { Trainer(model, spirals(32), {.batch = 8}); }),
              HasSubstr("the model has frozen values (fixed, ..): TrainerOptions::weights names their file"));
}

TEST(Trainer, ANumberThatIsNotFiniteStopsWithItsLine) {
  const int line = __LINE__ + 3;
  const ModelFunction model = [](ModelScope& m) {
    const Tensor h = m.input("x").matmul(m.parameter("w", {2, 1}, init::constant(0)));
    return StepResults{h.log().mean()}; // the logarithm of 0
  };
  Trainer trainer(model, spirals(32), {.batch = 8});
  EXPECT_THAT(
      message_of([&] { trainer.step(); }),
      HasSubstr(
          fmt_place("step 1: the loss is -inf; the first infinite number comes from log at trainer_test.cpp:",
                    line) +
          " (f32[8, 1])"));
  EXPECT_THAT(trainer.parameter("w").data<float>(), ElementsAre(0, 0)); // nothing was updated

  const int root = __LINE__ + 4;
  const ModelFunction slope = [](ModelScope& m) {
    const Tensor w = m.parameter("w", {2, 1}, init::constant(0));
    const Tensor h = m.input("x").matmul(w);
    return StepResults{(h * h).sqrt().mean()}; // finite, but its slope at 0 is not
  };
  Trainer second(slope, spirals(32), {.batch = 8});
  const std::string text = message_of([&] { second.step(); });
  EXPECT_THAT(text, HasSubstr("step 1: the loss is 0, but the norm of its gradients is nan; the first "
                              "infinite number comes from "));
  EXPECT_THAT(text, HasSubstr("; the first NaN comes from mul at"));
  EXPECT_THAT(text, HasSubstr(fmt_place("trainer_test.cpp:", root)));
  EXPECT_THAT(text, HasSubstr("its gradient"));

  const auto broken = datasets::from_values(
      {{{"x", DType::f32, {2}}, std::vector<float>{1, NAN, 1, 1}}, {{"y", DType::i64}, {0, 1}}});
  Trainer third(small_model(0), broken, {.batch = 2});
  EXPECT_THAT(message_of([&] { third.step(); }),
              HasSubstr("step 1: the loss is nan; the first NaN comes from the input x (f32[2, 2])"));
}

TEST(Trainer, SkipsWhereAsked) {
  // Every second batch has a sample that is infinite: it changes nothing.
  const auto data = datasets::from_values(
      {{{"x", DType::f32, {2}}, std::vector<float>{1, 2, INFINITY, 1}}, {{"y", DType::i64}, {0, 1}}});
  Trainer trainer(small_model(0), data, {.batch = 1, .on_nonfinite = OnNonFinite::skip, .shuffle = false});
  EXPECT_FALSE(trainer.step().skipped);
  const std::string before = all_bits(trainer);
  EXPECT_TRUE(trainer.step().skipped);
  EXPECT_EQ(all_bits(trainer), before);
  EXPECT_FALSE(trainer.step().skipped);
  EXPECT_NE(all_bits(trainer), before);
}

TEST(Trainer, OptionsAndModelsThatCannotBe) {
  const auto data = spirals(32);
  const auto text = [&](const ModelFunction& model, const TrainerOptions& options) {
    return message_of([&] { Trainer(model, data, options); });
  };
  const ModelFunction good = small_model(0);
  EXPECT_EQ(text(good, {.accumulate = 0}),
            "[Trainer] steps, accumulate and log_every must be at least 0, 1 and 1");
  EXPECT_EQ(text(good, {.keep_checkpoints = 0}),
            "[Trainer] validate_every, save_every and keep_checkpoints must be at least 0, 0 and 1");
  EXPECT_EQ(text(good, {.ema = 1}), "[Trainer] clip_norm must be at least 0, ema lie in 0..1");
  EXPECT_EQ(text(good, {.precision = DType::f64}), "[Trainer] the precision is f32, bf16 or f16");
  EXPECT_EQ(text([](ModelScope& m) { return StepResults{m.input("x").mean()}; }, {}),
            "[Trainer] the model has no parameters");
  EXPECT_EQ(text([](ModelScope& m) { return StepResults{m.parameter("w", {2})}; }, {}),
            "[Trainer] the loss is f32[2]: one floating-point number [] is expected");
  EXPECT_EQ(text([](ModelScope& m) { return StepResults{m.parameter("w", {2}, init::xavier()).sum()}; }, {}),
            "[xavier] it is for weights of two axes or more");
  EXPECT_EQ(text([](ModelScope& m) { return StepResults{m.input("z")}; }, {}),
            "[input] the data set has no field z; it has x, y");
  EXPECT_EQ(text(
                [](ModelScope& m) {
                  m.group({"v"}, {});
                  return StepResults{};
                },
                {}),
            "[group] there is no parameter v");
  Trainer trainer(good, data);
  EXPECT_ERROR(trainer.validate(), "[validate] there is no data set for it: TrainerOptions::validation");
  EXPECT_ERROR((void)trainer.parameter("v"), "[parameter] there is no parameter v");
}

TEST(RunFiles, EventsOfTensorBoard) {
  // Bytes that TensorBoard's own writer makes of the same events (CRC-32C masked).
  const std::string event = train::event_scalar(1.5, 3, "loss", 0.25);
  const std::string body =
      std::string("\x09\0\0\0\0\0\0\xF8\x3F\x10\x03\x2A\x0D\x0A\x0B\x0A\x04loss\x15\0\0\x80\x3E", 26);
  ASSERT_EQ(event.size(), 8 + 4 + body.size() + 4);
  EXPECT_EQ(event.substr(0, 8), std::string("\x1A\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(event.substr(12, body.size()), body);
  EXPECT_THAT(train::event_version(0), HasSubstr("brain.Event:2"));
}

TEST(RunFiles, TheLineAndThePicture) {
  StepRecord record{
      .step = 120, .loss = 1.23412, .learning_rate = 3e-4, .gradient_norm = 0.912, .milliseconds = 41.2};
  EXPECT_THAT(
      train::progress_line(record, 2000, 64),
      HasSubstr("step 120/2000 loss 1.234 lr 3.00e-04 gnorm 0.912 41.2 ms/step 1.55 K samples/s mem "));
  std::vector<std::pair<double, double>> loss;
  for (int i = 1; i <= 5000; ++i) loss.emplace_back(i, 3.0 / i);
  loss.emplace_back(5001, NAN);
  const std::string svg = train::loss_svg(loss, {{0, 3}, {5000, 0.1}});
  EXPECT_THAT(svg, HasSubstr("validation loss"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_LT(svg.size(), 20000U);
  EXPECT_THAT(train::loss_svg({}, {}), HasSubstr("</svg>"));
  EXPECT_THAT(train::loss_svg({{1, 2}}, {}), HasSubstr("</svg>"));
}

} // namespace
} // namespace luminal
