// tests/train/checkpoint_test.cpp -- runs in folders: records, checkpoints that are kept, resumed,
// refused; a full disk; kill -9.
#include "base/file.h"
#include "base/text.h"
#include "formats/util.h"
#include "luminal/luminal.h"
#include "tensor/support.h"
#include "trainer_support.h"
#include <chrono>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace luminal {
namespace {

using namespace testing_train;
using luminal::testing_formats::put_file;
using luminal::testing_formats::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}
int64_t lines_in(const std::string& path) {
  const std::string text = *read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

TEST(Runs, LeaveRecordsAndTheLastCheckpoints) {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  TrainerOptions options{.folder = run,
                         .steps = 12,
                         .batch = 16,
                         .validation = spirals(32),
                         .validate_every = 4,
                         .save_every = 2,
                         .keep_checkpoints = 2};
  std::vector<std::string> written;
  options.on_checkpoint = [&](const std::string& file) {
    EXPECT_TRUE(file_exists(file));
    written.push_back(file);
  };
  bool stop = false;
  options.on_step = [&](const StepRecord& r) { stop = r.step == 7; };
  options.stop = [&] { return stop; };
  {
    Trainer trainer(small_model(0.1), spirals(64), options);
    const TrainSummary summary = trainer.run();
    EXPECT_TRUE(summary.stopped);
    EXPECT_EQ(summary.steps, 7);
    EXPECT_EQ(summary.checkpoint, run + "/checkpoints/step-00000007.safetensors");
  }
  EXPECT_EQ(written.size(), 4U); // 2, 4, 6, 7
  EXPECT_EQ(lines_in(run + "/metrics.csv"), 1 + 7 + 2);
  EXPECT_FALSE(file_exists(run + "/model.safetensors")); // not ended
  EXPECT_EQ(message_of([&] {
              Trainer again(small_model(0.1), spirals(64), options);
              again.run();
            }),
            "[Trainer] " + run + " holds a run already: resume it, or choose another folder");
  // Rows behind the checkpoint are done again; the curve goes on.
  put_file(run + "/metrics.csv", *read_file(run + "/metrics.csv") + "8,0.1,0.1,0.1,0.1,0.1,,\n9,0.");
  options.on_step = {};
  options.stop = {};
  Trainer trainer(small_model(0.1), spirals(64), options);
  trainer.resume(run);
  EXPECT_EQ(trainer.steps_done(), 7);
  const TrainSummary summary = trainer.run();
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(lines_in(run + "/metrics.csv"), 1 + 12 + 4);
  EXPECT_EQ(lines_in(run + "/metrics.jsonl"), 12 + 4);
  EXPECT_THAT(*read_file(run + "/metrics.csv"),
              HasSubstr("step,loss,learning_rate,gradient_norm,milliseconds,accuracy,validation_loss,"
                        "validation_accuracy\n"));
  EXPECT_THAT(*read_file(run + "/loss.svg"), HasSubstr("<polyline"));
  const std::vector<std::string> names = files_in(run + "/checkpoints");
  EXPECT_THAT(names, ::testing::IsSupersetOf({"last.safetensors", "step-00000010.safetensors",
                                              "step-00000012.safetensors", "best.safetensors"}));
  EXPECT_LE(names.size(), 5U);
  EXPECT_EQ(std::filesystem::read_symlink(run + "/checkpoints/last.safetensors"),
            "step-00000012.safetensors");
  // The same as a run that was not interrupted.
  Trainer whole(small_model(0.1), spirals(64), {.steps = 12, .batch = 16});
  whole.run();
  EXPECT_EQ(all_bits(whole), all_bits(trainer));
  // The model is for anybody who reads safetensors.
  Graph g;
  Tensor w = g.weight("w1", {2, 16});
  load(g, run + "/model.safetensors", {.strict = false});
  EXPECT_EQ(w.data<float>(), whole.parameter("w1").data<float>());
}

TEST(Runs, CheckpointsThatDoNotFit) {
  const TemporaryFolder folder;
  const std::string file = folder.file("a.safetensors");
  const auto data = spirals(64);
  Trainer trainer(small_model(0), data, {.batch = 16});
  trainer.step();
  trainer.save(file);
  const auto refused = [&](const ModelFunction& model, const DataSetPtr& set, const TrainerOptions& options,
                           const std::string& path) {
    Trainer other(model, set, options);
    const std::string before = all_bits(other), text = message_of([&] { other.resume(path); });
    EXPECT_EQ(all_bits(other), before);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  };
  const ModelFunction wide = [](ModelScope& m) {
    const Tensor h = m.input("x").matmul(m.parameter("w1", {2, 17})).mean();
    return StepResults{h};
  };
  EXPECT_EQ(refused(wide, data, {.batch = 16}, file),
            "[resume] " + file + ": w1 is F32 [2, 16], this training has f32[2, 17]");
  const ModelFunction more = [](ModelScope& m) { return StepResults{m.parameter("v", {2}).sum()}; };
  EXPECT_THAT(refused(more, data, {.batch = 16}, file), HasSubstr("has no v, which this training has"));
  const ModelFunction fewer = [](ModelScope& m) { return StepResults{m.parameter("w1", {2, 16}).sum()}; };
  EXPECT_THAT(refused(fewer, data, {.batch = 16}, file), HasSubstr(", which this training does not have"));
  EXPECT_EQ(refused(small_model(0), spirals(66), {.batch = 16}, file),
            "[resume] " + file + " was written with 64 samples, now there are 66");
  EXPECT_EQ(refused(small_model(0), data, {.batch = 8}, file),
            "[resume] " + file + " was written with 16 samples a batch, now there are 8");
  EXPECT_EQ(refused(small_model(0), data, {.batch = 16, .seed = 4}, file),
            "[resume] " + file + " was written with seed 0, now it is 4");
  EXPECT_THAT(refused(small_model(0), data, {.batch = 16}, folder.file("none.safetensors")),
              HasSubstr("none.safetensors"));
  EXPECT_EQ(refused(small_model(0), data, {.batch = 16}, folder.path()),
            "[resume] there is no checkpoint in " + folder.path());
  trainer.save_model(folder.file("model.safetensors"));
  EXPECT_EQ(refused(small_model(0), data, {.batch = 16}, folder.file("model.safetensors")),
            "[resume] " + folder.file("model.safetensors") + " is not a checkpoint of a training");
  const std::string whole = *read_file(file);
  put_file(folder.file("cut.safetensors"), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refused(small_model(0), data, {.batch = 16}, folder.file("cut.safetensors")),
              HasSubstr("cut.safetensors"));
}

TEST(Runs, AFullDiskIsOneLineAndLeavesTheLastCheckpoint) {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  TrainerOptions options{.folder = run, .steps = 6, .batch = 16, .save_every = 2};
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  options.on_step = [before](const StepRecord& r) { // files of more than 2,000 bytes fail from step 3 on
    const rlimit limit{2000, before.rlim_max};
    if (r.step == 3) setrlimit(RLIMIT_FSIZE, &limit);
  };
  Trainer limited(small_model(0), spirals(64), options);
  const std::string text = message_of([&] { limited.run(); });
  setrlimit(RLIMIT_FSIZE, &before);
  options.on_step = {};
  EXPECT_THAT(text, HasSubstr(run));
  EXPECT_THAT(text, HasSubstr("File too large"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  Trainer again(small_model(0), spirals(64), options);
  again.resume(run);
  EXPECT_EQ(again.steps_done(), 2);
}

/// What the test below starts and kills: saves at each step and says so, until it is killed.
TEST(Runs, DISABLED_SaveUntilKilled) {
  const char* run = std::getenv("LUMINAL_TEST_RUN");
  if (!run) GTEST_SKIP();
  TrainerOptions options{.folder = run, .steps = 100000, .batch = 16, .save_every = 1, .keep_checkpoints = 2};
  options.on_checkpoint = [](const std::string& file) {
    const std::string line = file + "\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
  };
  Trainer trainer(small_model(0), spirals(64), options);
  if (is_directory(std::string(run) + "/checkpoints") && !files_in(std::string(run) + "/checkpoints").empty())
    trainer.resume(run);
  trainer.run();
}

TEST(Runs, KillsLoseNothingThatWasAnnounced) {
  const char* wanted = std::getenv("LUMINAL_TEST_KILLS"); // 100 in the slow tests
  const int kills = wanted ? std::atoi(wanted) : 6;
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  setenv("LUMINAL_TEST_RUN", run.c_str(), 1);
  int64_t announced = 0;
  for (int i = 0; i < kills; ++i) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", "test_train", "--gtest_also_run_disabled_tests",
            "--gtest_filter=Runs.DISABLED_SaveUntilKilled", nullptr);
      _exit(127);
    }
    close(pipe_ends[1]);
    std::string text;
    char block[4096];
    ssize_t n = 0;
    const int64_t before = announced;
    bool killed = false;
    while ((n = read(pipe_ends[0], block, sizeof block)) > 0) {
      text.append(block, size_t(n));
      if (!killed && text.find(".safetensors\n") != std::string::npos) { // somewhere within the next ones
        std::this_thread::sleep_for(std::chrono::microseconds(211 * (i * 7 % 50)));
        kill(child, SIGKILL);
        killed = true;
      }
    }
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << text;
    for (const std::string_view line : split(text.substr(0, text.rfind('\n') + 1), '\n'))
      if (const size_t at = line.rfind("step-"); at != std::string_view::npos)
        announced = std::max<int64_t>(announced, std::atoll(std::string(line.substr(at + 5, 8)).c_str()));
    EXPECT_GT(announced, before);
    Trainer trainer(small_model(0), spirals(64), {.folder = run, .steps = 100000, .batch = 16});
    trainer.resume(run);
    ASSERT_GE(trainer.steps_done(), announced);
    announced = trainer.steps_done();
  }
}

} // namespace
} // namespace luminal
