// runtime/context.cpp -- running a plan.
#include "runtime/context.h"
#include "base/check.h"
#include "base/pages.h"
#include "base/thread_pool.h"
#include "device/known_devices.h"
#include "runtime/arena.h"
#include "runtime/place_present.h"
#include "runtime/task_graph.h"
#include "runtime/trace_file.h"
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace luminal::runtime {
namespace {

/// A result of so many bytes has memory of its own: cheaper to hand over than to copy.
constexpr int64_t own_result_bytes = int64_t(1) << 16;

} // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

luminal::Result<std::shared_ptr<const Executable>> Executable::load(std::shared_ptr<const Plan> plan,
                                                                    device::Device& device) {
  std::shared_ptr<Executable> executable(new Executable(std::move(plan), device));
  std::vector<device::Code> code;
  for (const KernelCode& kernel : executable->plan_->kernels)
    code.push_back({*kernel.object, kernel.entry, kernel.threads});
  auto loaded = device.load(code);
  if (!loaded) return loaded.failure();
  executable->modules_.push_back(loaded->module);
  executable->kernels_.assign(loaded->kernels.begin(), loaded->kernels.end());
  return std::shared_ptr<const Executable>(std::move(executable));
}

Executable::~Executable() {
  for (auto module : modules_) device_.unload(module);
}

Context::Context(std::shared_ptr<const Executable> executable, std::shared_ptr<Store> store,
                 ContextOptions options)
    : executable_(std::move(executable)), store_(std::move(store)), options_(std::move(options)) {}

Context::~Context() = default;

luminal::Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Executable> executable,
                                                          std::shared_ptr<Store> store,
                                                          ContextOptions options) {
  for (const std::string& name : executable->plan().devices) {
    const device::KnownDevice* known = device::find_known_device(name);
    if (!known || !known->executes)
      return Failure{
          fmt::format("plan {} has values on the device {}, which runs nothing: it can be looked at only",
                      executable->plan().name, name)};
  }
  std::unique_ptr<Context> context(new Context(std::move(executable), std::move(store), std::move(options)));
  if (auto done = context->prepare(); !done) return done.failure();
  // sizes that no dimension changes are known at once; what assumptions say is for the first step
  // to tell
  (void)context->refresh();
  return context;
}

luminal::Result<void> Context::prepare() {
  const Plan& plan = executable_->plan();
  device::Device& device = executable_->device();
  if (auto fits = check_memory_limit(plan, options_.max_memory); !fits) return fits;
  if (const int64_t needed = plan.load_arena_bytes, there = device.limits().memory_bytes;
      there > 0 && needed > there)
    return Failure{
        fmt::format("plan {} needs {} to compute what depends on weights only, this machine has {}: "
                    "weights of a narrower dtype need less",
                    plan.name, memory_text(needed), memory_text(there)),
        MemoryShortage{.needed = needed, .available = there}};

  if (const int64_t needed = plan.memory_bytes(), there = device.limits().memory_bytes;
      plan.symbols.empty() && there > 0 && needed > there) // sizes that refresh() need not wait for
    return Failure{fmt::format("plan {} needs {}, this machine has {}: {}", plan.name, memory_text(needed),
                               memory_text(there), needs_less(plan)),
                   MemoryShortage{.needed = needed, .available = there}};

  symbols_.assign(plan.symbols.size(), 0);
  symbol_set_.assign(plan.symbols.size(), false);
  for (size_t i = 0; i < plan.symbols.size(); i++) symbols_[i] = plan.symbols[i].range().low;

  size_t most_buffers = 0, most_symbols = 0;
  ExprMap<int> position;
  for (size_t i = 0; i < plan.symbols.size(); i++) position[plan.symbols[i]] = int(i);
  int64_t local_bytes = 0;
  for (const KernelCode& kernel : plan.kernels) {
    auto& map = kernel_symbols_.emplace_back();
    for (Expr symbol : kernel.symbols) {
      LUMINAL_CHECK(position.contains(symbol), "kernel {} needs symbol {}", kernel.name, to_string(symbol));
      map.push_back(position.at(symbol));
    }
    most_symbols = std::max(most_symbols, map.size());
    Interval shared = kernel.shared_bytes.range(), local = kernel.local_bytes.range();
    LUMINAL_CHECK(shared.high != unbounded_high && local.high != unbounded_high,
                  "scratch of kernel {} has no bound", kernel.name);
    shared_bytes_ = std::max(shared_bytes_, shared.high);
    local_bytes = std::max(local_bytes, local.high);
  }
  for (const Steps* steps : {&plan.load_steps, &plan.steps})
    for_each_step(*steps, [&](const Step& step) {
      if (const Launch* launch = step.as<Launch>())
        most_buffers = std::max(most_buffers, launch->slots.size());
    });
  // Launches that run side by side are made by as many members of the pool.
  const bool is_processor = dynamic_cast<const device::CpuDevice*>(&device) != nullptr;
  const size_t members = is_processor ? size_t(device.limits().workers) : 1;
  most_buffers_ = most_buffers, most_symbols_ = most_symbols;
  buffers_.resize(most_buffers * members);
  values_.resize(most_symbols * members);

  shared_bytes_ = (shared_bytes_ + 127) / 64 * 64;
  local_stride_ =
      (local_bytes + 127) / 64 * 64 + 4096 / 64 * 3; // workers' blocks do not meet in one cache set
  local_stride_ = (local_stride_ + 63) / 64 * 64;
  auto scratch = DeviceBuffer::allocate(device, shared_bytes_ + local_stride_ * int64_t(members), true);
  if (!scratch) return scratch.failure();
  scratch_ = std::move(*scratch);
  // Where so much cannot be reserved, refresh() makes an arena for the present sizes. Memory of a device is
  // taken when it is reserved: the largest sizes may have a small part of it only.
  constexpr int64_t part = 16;
  const bool present = places_at_present(plan);
  const bool by_need = present && !plan.symbols.empty() && !device.limits().host_visible &&
                       plan.arena_bytes > device.limits().memory_bytes / part;
  if (!by_need) {
    if (auto arena = DeviceBuffer::allocate(device, plan.arena_bytes, true))
      arena_ = std::move(*arena);
    else if (!present)
      return arena.failure();
  }

  std::map<uint64_t, int64_t> loaded;
  for (const Slot& slot : plan.slots)
    if (slot.kind == SlotKind::loaded) loaded[slot.key] = slot.max_bytes;
  if (auto reserved = store_->reserve_loaded(loaded); !reserved) return reserved.failure();

  addresses_.assign(plan.slots.size(), nullptr);
  bytes_.assign(plan.slots.size(), 0);
  shapes_.resize(plan.slots.size());
  std::vector<Expr> extents;
  for (const SlotId i : plan.slots.ids()) {
    const Slot& slot = plan.slots[i];
    shapes_[i].resize(slot.type.shape.size());
    extents.insert(extents.end(), slot.type.shape.begin(), slot.type.shape.end());
    extents.push_back(slot.bytes);
    switch (slot.kind) {
    case SlotKind::arena:
      if (slot.offset >= 0) addresses_[i] = arena_.data() + slot.offset;
      if (slot.offset >= 0 && slot.pinned && slot.max_bytes >= own_result_bytes &&
          (!by_need || slot.bytes.is_constant())) { // its part of the arena is never touched
        auto memory = DeviceBuffer::allocate(device, slot.max_bytes, in_huge_pages(slot.max_bytes));
        if (!memory && present) break; // or it lies in the arena
        if (!memory) return memory.failure();
        addresses_[i] = memory->data();
        results_[i] = std::move(*memory);
      }
      break;
    case SlotKind::constant: {
      addresses_[i] = const_cast<std::byte*>(slot.data->data());
      if (device.limits().reads_host) break;
      auto copy = DeviceBuffer::allocate(device, slot.max_bytes, false);
      if (!copy) return copy.failure();
      if (auto done = device.copy_in(copy->data(), *slot.data); !done) return done;
      addresses_[i] = copy->data();
      constants_.push_back(std::move(*copy));
      break;
    }
    case SlotKind::weight: {
      if (!store_->has_weight(slot.name) && slot.max_bytes > 0 && slot.used)
        return Failure{fmt::format("weight {} ({}) was never set", slot.name, to_string(slot.type))};
      auto memory = store_->weight_on_device(slot.name);
      if (!memory) return memory.failure();
      // A weight without elements has no memory of its own.
      addresses_[i] = *memory ? const_cast<std::byte*>(*memory) : scratch_.data();
      break;
    }
    case SlotKind::state: {
      auto memory = store_->state(slot.name, slot.max_bytes);
      if (!memory) return memory.failure();
      addresses_[i] = *memory;
      break;
    }
    case SlotKind::loaded: {
      auto memory = store_->loaded(slot.key, slot.max_bytes);
      if (!memory) return memory.failure();
      addresses_[i] = *memory;
      break;
    }
    case SlotKind::argument: {
      if (!device.limits().reads_host) break; // copy_arguments() makes it, at the present sizes
      auto memory = DeviceBuffer::allocate(device, slot.max_bytes, false);
      if (!memory && present) break; // argument() makes it
      if (!memory) return memory.failure();
      addresses_[i] = memory->data();
      arguments_[slot.name] = std::move(*memory);
      break;
    }
    }
  }
  for (const KernelCode& kernel : plan.kernels) extents.push_back(kernel.points);
  workers_.assign(plan.kernels.size(), device.limits().workers);
  work_us_.assign(plan.kernels.size(), 0);
  extents.insert(extents.end(), plan.assumptions.begin(), plan.assumptions.end());
  state_version_ = store_->state_version();
  make_graphs();
  sizes_ = std::make_unique<ExprProgram>(extents, plan.symbols);
  size_values_.resize(extents.size());
  for (const Expr& condition : plan.conditions)
    conditions_.emplace_back(std::span<const Expr>(&condition, 1), plan.symbols);
  condition_holds_.assign(plan.conditions.size(), false);
  return load();
}

luminal::Result<void> Context::load() {
  const Plan& plan = executable_->plan();
  std::vector<uint64_t> missing;
  // other contexts may be reading these: what the load steps write again goes elsewhere
  std::vector<SlotId> there;
  for (const SlotId s : plan.slots.ids())
    if (plan.slots[s].kind == SlotKind::loaded) {
      if (store_->is_loaded(plan.slots[s].key))
        there.push_back(s);
      else
        missing.push_back(plan.slots[s].key);
    }
  if (missing.empty() || plan.load_steps.empty()) return {};
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t worked = std::clock();
  std::vector<DeviceBuffer> copies;
  for (SlotId s : there) {
    auto copy = DeviceBuffer::allocate(executable_->device(), plan.slots[s].max_bytes, false);
    if (!copy) return copy.failure();
    addresses_[s] = copy->data();
    copies.push_back(std::move(*copy));
  }
  auto arena = DeviceBuffer::allocate(executable_->device(), plan.load_arena_bytes, false);
  if (!arena) return arena.failure();
  std::vector<SlotId> placed;
  for_each_step(plan.load_steps, [&](const Step& step) {
    for (const SlotId s : slots_of(step))
      if (plan.slots[s].kind == SlotKind::arena) {
        addresses_[s] = arena->data() + plan.slots[s].offset;
        placed.push_back(s);
      }
  });
  loading_ = true;
  auto done = refresh();
  if (done) done = run_steps(plan.load_steps, arena->data());
  if (done) done = executable_->device().synchronize();
  loading_ = false;
  stale_ = true; // what assumptions say is for the first step to tell
  if (!done) return done;
  for (SlotId s : placed) addresses_[s] = nullptr;
  for (SlotId s : there) {
    auto memory = store_->loaded(plan.slots[s].key, plan.slots[s].max_bytes);
    if (!memory) return memory.failure();
    addresses_[s] = *memory;
  }
  // What the workers wait for a disk that brings the weights would be waited for again by a reader
  // of the results.
  store_->finish_load(
      missing, std::min(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
                        double(std::clock() - worked) / CLOCKS_PER_SEC));
  return {};
}

/// Weights in mapped files that the step reads.
std::vector<std::span<const std::byte>> Context::file_weights(const Launch& launch) const {
  std::vector<std::span<const std::byte>> files;
  for (const SlotId s : launch.slots) {
    const Slot& slot = executable_->plan().slots[s];
    if (slot.kind != SlotKind::weight) continue;
    if (const auto bytes = store_->weight(slot.name); is_mapped_file(bytes)) files.push_back(bytes);
  }
  return files;
}

luminal::Result<void> Context::find_states() {
  const Plan& plan = executable_->plan();
  for (const SlotId i : plan.slots.ids()) {
    if (plan.slots[i].kind != SlotKind::state) continue;
    auto memory = store_->state(plan.slots[i].name, plan.slots[i].max_bytes);
    if (!memory) return memory.failure();
    addresses_[i] = *memory;
  }
  state_version_ = store_->state_version();
  return {};
}

luminal::Result<void> Context::refresh() {
  const Plan& plan = executable_->plan();
  if (!sizes_->run(symbols_, size_values_))
    return Failure{"a size cannot be computed: " + sizes_->why(symbols_)};
  size_t at = 0;
  for (const SlotId i : plan.slots.ids()) {
    for (auto& extent : shapes_[i]) extent = size_values_[at++];
    bytes_[i] = size_values_[at++];
  }
  // Pages that nobody has are given away when they are touched, and the system then ends this
  // process, or another one.
  const int64_t there = executable_->device().limits().memory_bytes;
  if (there > 0 && plan.memory_bytes() > there)
    if (const int64_t needed = plan.memory_bytes(bytes_); needed > there) {
      const std::string values = symbol_values(0);
      return Failure{fmt::format("plan {} needs {}{}, this machine has {}: take smaller sizes or a narrower "
                                 "dtype",
                                 plan.name, memory_text(needed),
                                 values.empty() ? "" : fmt::format(" ({})", values), memory_text(there)),
                     MemoryShortage{.needed = needed, .available = there}};
    }
  if (!loading_ && arena_.bytes() < plan.arena_bytes) {
    const PresentPlaces places = present_places(plan, bytes_);
    if (arena_.bytes() < places.bytes) {
      const int64_t room = executable_->device().limits().host_visible ? 0 : arena_.bytes() / 2 * 3;
      const int64_t bytes = std::max(places.bytes, std::min(room, plan.arena_bytes)); // a step may grow often
      arena_ = {};
      auto arena = DeviceBuffer::allocate(executable_->device(), bytes, true);
      if (!arena) { // address space, or memory of a device
        Failure failure = arena.failure();
        failure.text = fmt::format("plan {}: {}: {}", plan.name, failure.text, needs_less(plan));
        return failure;
      }
      arena_ = std::move(*arena);
    }
    for (const SlotId i : plan.slots.ids())
      if (places.offsets[i] && !results_.contains(i)) addresses_[i] = arena_.data() + *places.offsets[i];
  }
  for (const SlotId i : plan.slots.ids())
    if (plan.slots[i].kind == SlotKind::weight && plan.slots[i].used &&
        int64_t(store_->weight(plan.slots[i].name).size()) < bytes_[i])
      return Failure{fmt::format("weight {} is {}, {} bytes; {} were given", plan.slots[i].name,
                                 to_string(plan.slots[i].type), bytes_[i],
                                 store_->weight(plan.slots[i].name).size())};
  for (const CodeId k : plan.kernels.ids()) {
    const int64_t points = size_values_[at++];
    workers_[k] = plan.kernels[k].workers_at(points, executable_->device().limits().workers);
    if (!executable_->device().limits().reads_host) // a thread for each point, as far as there are threads
      workers_[k] = int(std::clamp<int64_t>(points, 1, executable_->device().limits().workers));
    work_us_[k] = double(points) * plan.kernels[k].point_ns * 1e-3;
  }
  for (Expr assumption : plan.assumptions)
    if (size_values_[at++] == 0 && !loading_) // nobody has chosen the dimensions yet when weights are loaded
      return Failure{fmt::format("the dimensions break what the plan was made for: {} ({})",
                                 to_string(assumption), symbol_values(assumption))};
  for (const ConditionId c : conditions_.ids()) { // one that cannot be computed does not hold
    int64_t holds = 0;
    condition_holds_[c] = conditions_[c].run(symbols_, std::span(&holds, 1)) && holds != 0;
  }
  stale_ = false;
  arrange_graphs();
  choose_pace();
  return {};
}

luminal::Result<void> Context::set_symbol(std::string_view name, int64_t value) {
  const Plan& plan = executable_->plan();
  for (size_t i = 0; i < plan.symbols.size(); i++) {
    if (plan.symbols[i].name() != name) continue;
    Interval range = plan.symbols[i].range();
    if (!range.contains(value) || value % std::max<int64_t>(1, plan.symbols[i].multiple()) != 0)
      return Failure{
          fmt::format("dimension {} is declared {}..{}, {} was given", name, range.low, range.high, value)};
    stale_ |= symbols_[i] != value;
    symbols_[i] = value;
    symbol_set_[i] = true;
    return {};
  }
  return Failure{fmt::format("plan {} has no dimension {}", plan.name, name)};
}

luminal::Result<int64_t> Context::symbol(std::string_view name) const {
  const Plan& plan = executable_->plan();
  for (size_t i = 0; i < plan.symbols.size(); i++)
    if (plan.symbols[i].name() == name) return symbols_[i];
  return Failure{fmt::format("plan {} has no dimension {}", plan.name, name)};
}

luminal::Result<std::span<std::byte>> Context::argument(std::string_view name) {
  SlotId slot = executable_->plan().find_slot(name, SlotKind::argument);
  if (!slot) return Failure{fmt::format("plan {} has no argument {}", executable_->plan().name, name)};
  if (stale_)
    if (auto done = refresh(); !done) return done.failure();
  if (!executable_->device().limits().host_visible) {
    std::vector<std::byte>& copy = host_copies_[slot];
    copy.resize(size_t(bytes_[slot]));
    if (auto done = use_argument(slot, copy); !done) return done.failure();
    return std::span<std::byte>(copy);
  }
  bound_.erase(slot);
  std::byte*& address = addresses_[slot];
  DeviceBuffer& own = arguments_[std::string(name)];
  if (address == own.data() && own.bytes() < bytes_[slot]) { // so many could not be reserved
    auto memory = DeviceBuffer::allocate(executable_->device(), bytes_[slot], false);
    if (!memory) return memory.failure();
    own = std::move(*memory);
    address = own.data();
  }
  return std::span<std::byte>(address, size_t(bytes_[slot]));
}

luminal::Result<void> Context::bind_argument(std::string_view name, std::span<const std::byte> bytes) {
  SlotId slot = executable_->plan().find_slot(name, SlotKind::argument);
  if (!slot) return Failure{fmt::format("plan {} has no argument {}", executable_->plan().name, name)};
  if (stale_)
    if (auto done = refresh(); !done) return done;
  if (int64_t(bytes.size()) < bytes_[slot])
    return Failure{fmt::format("argument {} is {}, {} bytes; {} were given", name,
                               to_string(executable_->plan().slots[slot].type), bytes_[slot], bytes.size())};
  return use_argument(slot, bytes.first(size_t(bytes_[slot])));
}

luminal::Result<void> Context::use_argument(SlotId slot, std::span<const std::byte> bytes) {
  device::Device& device = executable_->device();
  if (device.limits().reads_host || (!bytes.empty() && device.holds(bytes.data()))) {
    addresses_[slot] = const_cast<std::byte*>(bytes.data());
    bound_.erase(slot);
    return {};
  }
  DeviceBuffer& own = arguments_[executable_->plan().slots[slot].name];
  if (!own.data() || own.bytes() < int64_t(bytes.size())) { // room for the largest was not reserved
    own = {};
    auto memory = DeviceBuffer::allocate(device, int64_t(bytes.size()), false);
    if (!memory) return memory.failure();
    own = std::move(*memory);
  }
  addresses_[slot] = own.data();
  bound_.insert_or_assign(slot, bytes);
  return {};
}

/// What the caller keeps in memory that the device cannot read, as it is now. Zeros where nothing was given.
luminal::Result<void> Context::copy_arguments() {
  const Plan& plan = executable_->plan();
  for (const SlotId i : plan.slots.ids()) {
    if (executable_->device().limits().reads_host) break;
    if (plan.slots[i].kind != SlotKind::argument || !plan.slots[i].used || bound_.contains(i)) continue;
    DeviceBuffer& own = arguments_[plan.slots[i].name];
    if (addresses_[i] != own.data() || (own.data() && own.bytes() >= bytes_[i])) continue;
    own = {};
    auto memory = DeviceBuffer::allocate(executable_->device(), bytes_[i], false);
    if (!memory) return memory.failure();
    own = std::move(*memory);
    addresses_[i] = own.data();
  }
  for (auto& [slot, bytes] : bound_) {
    const auto wanted = size_t(bytes_[slot]);
    const auto own = host_copies_.find(slot);
    if (bytes.size() < wanted && own != host_copies_.end() && own->second.data() == bytes.data()) {
      own->second.resize(wanted); // sizes have grown since argument()
      if (auto done = use_argument(slot, own->second); !done) return done;
    }
    if (bytes.size() < wanted)
      return Failure{fmt::format("argument {} is {}, {} bytes; {} were given", plan.slots[slot].name,
                                 to_string(plan.slots[slot].type), wanted, bytes.size())};
    if (auto done = executable_->device().copy_in(addresses_[slot], bytes.first(wanted)); !done) return done;
  }
  return {};
}

luminal::Result<void> Context::bind_argument_slot(SlotId slot, const void* memory) {
  if (stale_)
    if (auto done = refresh(); !done) return done;
  if (!memory && bytes_[slot] > 0)
    return Failure{fmt::format("argument {} takes {} bytes; none were given",
                               executable_->plan().slots[slot].name, bytes_[slot])};
  return use_argument(slot, {static_cast<const std::byte*>(memory), size_t(bytes_[slot])});
}

luminal::Result<void> Context::run() {
  if (state_version_ != store_->state_version())
    if (auto done = find_states(); !done) return done;
  if (stale_)
    if (auto done = refresh(); !done) return done;
  if (auto done = copy_arguments(); !done) return done;
  return TraceFile::of_process() ? run_recorded() : run_at_pace();
}

luminal::Result<void> Context::run_recorded() {
  const bool tracing = std::exchange(tracing_, true);
  const size_t before = events_.size();
  const int64_t begin = now_ns();
  auto done = run_at_pace();
  TraceFile::of_process()->add(std::span(events_).subspan(before), begin, now_ns());
  tracing_ = tracing;
  if (!tracing) events_.clear();
  return done;
}

luminal::Result<void> Context::run_at_pace() {
  WorkerCount* const worker_count = worker_count_; // loops inside the plan change sizes
  if (!worker_count) {
    auto done = run_plan();
    auto finished = executable_->device().synchronize(); // the host may look at results and states
    return done ? finished : done;
  }
  alone_ = worker_count->alone();
  const int64_t begin = now_ns();
  auto done = run_plan();
  worker_count->took(now_ns() - begin);
  alone_ = false;
  return done;
}

luminal::Result<void> Context::run_plan() {
  const Steps& steps = executable_->plan().steps;
  int at = 0;
  for (const auto& graph : graphs_) {
    if (alone_ || !graph->concurrent()) continue;
    for (; at < graph->begin(); at++)
      if (auto done = run_step(steps[size_t(at)], arena_.data()); !done) return done;
    if (auto done = run_graph(*graph); !done) return done;
    at = graph->end();
  }
  for (; at < int(steps.size()); at++)
    if (auto done = run_step(steps[size_t(at)], arena_.data()); !done) return done;
  return {};
}

} // namespace luminal::runtime
