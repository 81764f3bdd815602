// search/measurer_log.cpp -- measurers whose times a log gets, or gives.
#include "search/measure_log.h"
#include "search/measurer.h"
#include <utility>

namespace luminal::search {
namespace {

class Logged final : public Measurer {
public:
  Logged(std::unique_ptr<Measurer> measurer, MeasureLog& log) : measurer_(std::move(measurer)), log_(log) {}
  Result<int> add(CandidateCode code) override { return measurer_->add(std::move(code)); }
  Result<double> time(int candidate, int launches) override {
    return log_.sample(candidate, [&] { return measurer_->time(candidate, launches); });
  }
  Result<Outputs> run(int candidate, std::byte poison) override { return measurer_->run(candidate, poison); }

private:
  std::unique_ptr<Measurer> measurer_;
  MeasureLog& log_;
};

class Replaying final : public Measurer {
public:
  explicit Replaying(MeasureLog& log) : log_(log) {}
  Result<int> add(CandidateCode) override { return count_++; }
  Result<double> time(int candidate, int) override {
    return log_.sample(candidate, [] { return Failure{"nothing is measured"}; });
  }
  Result<Outputs> run(int, std::byte) override { return Failure{"nothing is run"}; }

private:
  MeasureLog& log_;
  int count_ = 0;
};

} // namespace

std::unique_ptr<Measurer> make_logged_measurer(std::unique_ptr<Measurer> measurer, MeasureLog& log) {
  return std::make_unique<Logged>(std::move(measurer), log);
}
std::unique_ptr<Measurer> make_replaying_measurer(MeasureLog& log) {
  return std::make_unique<Replaying>(log);
}

} // namespace luminal::search
