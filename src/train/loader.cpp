// train/loader.cpp -- batches in a random order, read ahead on a thread.
#include "luminal/train_data.h"
#include "tensor/graph_state.h"
#include "train/permutation.h"
#include <condition_variable>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <thread>

namespace luminal {

std::vector<std::string> DataSet::classes(const std::string&) const { return {}; }

struct DataLoader::State {
  DataSetPtr data;
  LoaderOptions options;
  std::vector<int64_t> sample_bytes; // of each field

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<const Batch>> ready;
  std::exception_ptr failure; // of the batch behind those that are ready
  int64_t position = 0;       // of the first batch in `ready`
  int64_t wanted = 0;         // the batch that the thread reads next
  uint64_t generation = 0;    // a seek begins another one
  bool ended = false;
  std::thread thread;

  int64_t per_epoch() const {
    return options.endless ? data->size() / options.batch
                           : (data->size() + options.batch - 1) / options.batch;
  }
  std::shared_ptr<const Batch> read(int64_t number) const {
    const int64_t epoch = number / per_epoch(), first = number % per_epoch() * options.batch;
    const train::Permutation order(data->size(), train::scrambled(options.seed) + uint64_t(epoch));
    auto batch = std::make_shared<Batch>();
    batch->fields = data->fields();
    batch->count = std::min(options.batch, data->size() - first);
    for (int64_t bytes : sample_bytes) batch->bytes.emplace_back(size_t(bytes * batch->count));
    std::vector<std::byte*> into(sample_bytes.size());
    for (int64_t i = 0; i < batch->count; ++i) {
      for (size_t k = 0; k < into.size(); ++k) into[k] = batch->bytes[k].data() + i * sample_bytes[k];
      data->read(options.shuffle ? order(first + i) : first + i, into);
    }
    return batch;
  }
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] {
        return ended || (!failure && int64_t(ready.size()) < std::max<int64_t>(1, options.prefetch) &&
                         !finished(wanted));
      });
      if (ended) return;
      const int64_t number = wanted++;
      const uint64_t begun = generation;
      lock.unlock();
      std::shared_ptr<const Batch> batch;
      std::exception_ptr thrown;
      try {
        batch = read(number);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (begun != generation) continue;
      if (batch)
        ready.push_back(std::move(batch));
      else
        failure = thrown;
      changed.notify_all();
    }
  }
  bool finished(int64_t number) const { return !options.endless && number >= per_epoch(); }
};

DataLoader::DataLoader(DataSetPtr data, const LoaderOptions& options, Where where)
    : state_(std::make_unique<State>()) {
  constexpr std::string_view op = "DataLoader";
  if (!data) throw Error(op, "there is no data set", where);
  if (options.batch < 1)
    throw Error(op, fmt::format("batches of {}: at least 1 is expected", options.batch), where);
  const int64_t least = options.endless ? options.batch : 1;
  if (data->size() < least)
    throw Error(op, fmt::format("{} samples do not fill a batch of {}", data->size(), options.batch), where);
  state_->data = std::move(data);
  state_->options = options;
  for (const DataField& field : state_->data->fields())
    state_->sample_bytes.push_back(storage_bytes(field.dtype, elements(field.shape)));
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}
DataLoader::~DataLoader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

std::shared_ptr<const Batch> DataLoader::next() {
  std::unique_lock lock(state_->mutex);
  if (state_->finished(state_->position)) return nullptr;
  state_->changed.wait(lock, [&] { return !state_->ready.empty() || state_->failure; });
  if (state_->ready.empty()) std::rethrow_exception(state_->failure);
  auto batch = std::move(state_->ready.front());
  state_->ready.pop_front();
  ++state_->position;
  state_->changed.notify_all();
  return batch;
}
int64_t DataLoader::position() const { return state_->position; }
void DataLoader::seek(int64_t position) {
  const std::lock_guard lock(state_->mutex);
  state_->ready.clear();
  state_->failure = nullptr;
  state_->position = state_->wanted = position;
  ++state_->generation;
  state_->changed.notify_all();
}
int64_t DataLoader::batches_per_epoch() const { return state_->per_epoch(); }
const DataSet& DataLoader::data() const { return *state_->data; }
const LoaderOptions& DataLoader::options() const { return state_->options; }

void give(const std::shared_ptr<const Batch>& batch, const std::string& field, Tensor input, Where where) {
  if (!batch) throw Error("give", "there is no batch", where);
  for (size_t k = 0; k < batch->fields.size(); ++k) {
    if (batch->fields[k].name != field) continue;
    if (batch->fields[k].dtype == input.dtype(where))
      input.borrow(batch->bytes[k].data(), batch->bytes[k].size(), batch, where);
    else
      input.set_bytes(batch->bytes[k], batch->fields[k].dtype, where);
    return;
  }
  std::string names;
  for (const DataField& f : batch->fields) names += (names.empty() ? "" : ", ") + f.name;
  throw Error("give", fmt::format("the data set has no field {}; it has {}", field, names), where);
}

namespace datasets {
namespace {

class Chosen : public DataSet {
public:
  Chosen(DataSetPtr data, int64_t count, std::function<int64_t(int64_t)> place)
      : data_(std::move(data)), count_(count), place_(std::move(place)) {}
  int64_t size() const override { return count_; }
  const std::vector<DataField>& fields() const override { return data_->fields(); }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    data_->read(place_(index), into);
  }
  std::vector<std::string> classes(const std::string& field) const override { return data_->classes(field); }

private:
  DataSetPtr data_;
  int64_t count_;
  std::function<int64_t(int64_t)> place_;
};

} // namespace

DataSetPtr part(DataSetPtr data, int64_t first, int64_t count, Where where) {
  if (!data || first < 0 || count < 1 || first + count > data->size())
    throw Error("part", fmt::format("{} samples from {} on, of {}", count, first, data ? data->size() : 0),
                where);
  return std::make_shared<Chosen>(std::move(data), count, [first](int64_t i) { return first + i; });
}

std::pair<DataSetPtr, DataSetPtr> split(DataSetPtr data, double fraction, uint64_t seed, Where where) {
  if (!data || !(fraction > 0 && fraction < 1) || data->size() < 2)
    throw Error("split",
                fmt::format("a fraction of {} of {} samples does not leave two parts", fraction,
                            data ? data->size() : 0),
                where);
  const int64_t all = data->size();
  const int64_t count = std::clamp<int64_t>(int64_t(double(all) * fraction + 0.5), 1, all - 1);
  const train::Permutation order(all, train::scrambled(seed ^ 0x5bd1e995));
  return {
      std::make_shared<Chosen>(data, count, order),
      std::make_shared<Chosen>(data, all - count, [order, count](int64_t i) { return order(count + i); })};
}

} // namespace datasets
} // namespace luminal
