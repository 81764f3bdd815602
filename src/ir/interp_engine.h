// ir/interp_engine.h -- runs compiled functions in one domain of values, element by element as they
// are asked for.
//
// What is kept. Inputs and constants are read where they lie. Results of folds, scans, sorts,
// scatters, calls, loops, conditionals and host functions are kept, and so is what a function
// returns, what such a node reads, and a chain of maps and views that costs more than 256
// operations an element; each element is computed when it is first asked for. Everything else (the
// input of a fold above all) is computed anew wherever it is looked at.
#pragma once
#include "ir/domains.h"
#include "ir/interp_program.h"
#include <bit>
#include <cmath>
#include <limits>
#include <memory>

namespace luminal::interp {

/// What the frames of one run share.
struct Run {
  const Module& module;
  const Bindings& bindings;
  std::map<std::string, std::unique_ptr<CompiledFunction>> functions = {}; // by name
  std::map<std::string_view, int> depths = function_depths(module);

  CompiledFunction& compiled(const std::string& name);
};

/// Runs host and custom nodes; the same for every domain.
std::vector<HostTensor> run_host(const Run& run, const Node& node, const std::vector<HostTensor>& inputs,
                                 const std::vector<Extents>& results);
/// Axis values of a flat row-major position.
void unflatten(int64_t flat, const Extents& extents, int64_t* out);

template <class D> class Frame {
public:
  using Value = typename D::Value;

  /// Where an argument's elements come from: packed data, or a kept value of another frame from
  /// element `first` on, or owned values.
  struct Argument {
    const std::byte* packed = nullptr;
    DType dtype = DType::f32;
    Frame* frame = nullptr;
    Source source;
    int64_t first = 0;
    std::shared_ptr<const std::vector<Value>> values;
  };

  Frame(Run& run, CompiledFunction& function, std::vector<Argument> arguments);

  /// All elements of a value that is kept.
  void complete(Source s);
  /// One element of a value that is kept.
  Value element(Source s, int64_t flat);
  std::vector<Value> values(Source s);
  /// Runs the host nodes below this one: their effects come first.
  void effects_before(NodeId id);
  CompiledFunction& function() { return f_; }

private:
  static constexpr int lanes = sizeof(Value) > 32 ? 16 : 64;

  /// A kept result: its elements, and which of them are there.
  struct Store {
    enum class State : uint8_t { untouched, partial, whole, forwarded } state = State::untouched;
    std::vector<Value> values;
    std::vector<uint8_t> done;
    Argument forward; // forwarded: where to look instead
  };
  /// Registers of one run of a program, taken from a stack.
  struct Registers {
    int64_t* indices;
    Value* values;
    uint8_t* masks;
    int64_t* index(IndexRegister r) const { return indices + ptrdiff_t(r) * lanes; }
    Value* value(ValueRegister r) const { return values + ptrdiff_t(r) * lanes; }
    /// Null where every lane counts.
    uint8_t* mask(MaskRegister r) const {
      return r == MaskRegister::all ? nullptr : masks + ptrdiff_t(r) * lanes;
    }
  };

  Store& store(Source s);
  /// Makes elements `flat` of a source readable and fetches them.
  void fetch(Source s, const int64_t* flat, const uint8_t* mask, int n, Value* out);
  void fetch(const Argument& a, const int64_t* flat, const uint8_t* mask, int n, Value* out);
  void compute(Source s, const int64_t* missing, int n);

  void compute_values(Source s, const int64_t* flat, int n);
  void compute_fold(Source s, int64_t flat);
  void compute_scan(Source s, int64_t flat);
  void compute_sort(Source s, int64_t flat);
  void compute_scatter(Source s);
  void forward_call(Source s);
  void run_loop(NodeId id);
  static void without_bound(std::vector<Value>& values, int64_t first);
  void run_host_node(NodeId id);
  HostTensor host_tensor(NodeId id);
  Argument argument_of(NodeId id);
  Frame& callee(NodeId id, const std::string& name, size_t first_input);

  void run(const Program& program, const Registers& r, int n);
  void step(const AffineIndex& i, const Registers& r, int n);
  void step(const GeneralIndex& i, const Registers& r, int n);
  void step(const CheckBounds& i, const Registers& r, int n);
  void step(const NarrowMask& i, const Registers& r, int n);
  void step(const LoadValue& i, const Registers& r, int n);
  void step(const IndexValue& i, const Registers& r, int n);
  void step(const RandomValue& i, const Registers& r, int n);
  void step(const MapValues& i, const Registers& r, int n);
  void step(const CastValue& i, const Registers& r, int n);
  void step(const BitcastValues& i, const Registers& r, int n);
  void step(const FillValue& i, const Registers& r, int n);
  void step(const OpenHole& i, const Registers& r, int n);
  void step(const TaintValue& i, const Registers& r, int n);
  [[noreturn]] void fail(NodeId id, const std::string& text) const;

  /// RegisterFile for the registers of a program; given back when the object dies.
  class RegisterFile {
  public:
    RegisterFile(Frame& frame, const Program& program);
    ~RegisterFile();
    Registers registers;

  private:
    std::vector<std::vector<std::byte>>& pool_;
    std::vector<std::byte> memory_;
  };

  Run& run_;
  CompiledFunction& f_;
  std::vector<Argument> arguments_;
  IdVector<NodeId, std::vector<Store>> stores_;
  std::map<NodeId, std::unique_ptr<Frame>> callees_;
  std::vector<std::vector<std::byte>> pool_;
};

/// Folds elements one after the other; in the bounded domain it adds what another order could
/// change.
template <class D> class Accumulator {
public:
  using Value = typename D::Value;
  explicit Accumulator(const TypedMonoid& monoid) : monoid_(monoid), work_(combine_work<D>(monoid)) {
    reset();
  }
  void reset() {
    state_.clear();
    for (const auto& c : monoid_.components) state_.push_back(identity_value<D>(c.op, c.dtype));
    if constexpr (std::is_same_v<D, BoundedDomain>) {
      magnitude_.assign(state_.size(), 0);
      input_error_.assign(state_.size(), 0);
      large_.assign(state_.size(), 1);
      small_.assign(state_.size(), 1);
      open_.assign(state_.size(), 0);
      nan_.assign(state_.size(), 0);
    }
    count_ = 0;
  }
  void add(const Value* element) {
    if constexpr (std::is_same_v<D, BoundedDomain>) track(element);
    combine<D>(monoid_, state_.data(), element, work_.data());
    ++count_;
  }
  /// Elements of a monoid with one component.
  void add_lanes(const Value* elements, int n) {
    const auto& only = monoid_.components[0];
    if constexpr (std::is_same_v<D, RoundedDomain>)
      if (only.plain && only.op == Op::add && only.dtype == DType::f32) {
        auto sum = float(state_[0].f);
        for (int k = 0; k < n; ++k) sum += float(elements[k].f);
        state_[0].f = sum;
        return;
      }
    for (int k = 0; k < n; ++k) add(elements + k);
  }
  Value result(size_t c) const {
    Value v = state_[c];
    if constexpr (std::is_same_v<D, BoundedDomain>) widen(v, c);
    return v;
  }

private:
  /// Sums: the magnitude of what is added and the errors that came in, moved along with the state.
  /// Products: of the factors above 1, and of those below.
  void track(const Value* element) {
    std::vector<double> moved(magnitude_);
    for (size_t c = 0; c < magnitude_.size(); ++c) {
      const auto& component = monoid_.components[c];
      const double x = std::fabs(element[c].f);
      // What is certainly infinite is so in every order: the others are tracked.
      if (element[c].e == 0 && element[c].factors == 0 && !std::isfinite(x) && component.plain) {
        // A derived form may have a value where infinities make a NaN: sums of exp(x - max x) over -inf.
        if (std::isnan(x)) (element[c].i ? open_ : nan_)[c] = 1;
        continue;
      }
      if (component.op == Op::mul && is_float(component.dtype)) {
        large_[c] *= x + element[c].e > 1 ? x + element[c].e : 1;
        small_[c] *= x > element[c].e && x - element[c].e < 1 ? x - element[c].e : 1;
      }
      if (component.op != Op::add || !is_float(component.dtype)) continue;
      // A plan multiplies by a factor that all of T makes: 0 where T selects 0, and 0 * inf is NaN.
      if (!component.plain && !std::isfinite(x)) open_[c] = 1;
      if (component.plain) {
        moved[c] = magnitude_[c] + x + element[c].e;
        input_error_[c] += element[c].e + element[c].factors;
        continue;
      }
      moved[c] = moved_magnitude(c, state_.data(), magnitude_[c], element) +
                 moved_magnitude(c, element, x + element[c].e, element);
    }
    magnitude_ = std::move(moved);
  }
  /// |T(magnitude)| for a partial state `from` on its way into combine(state, element).
  double moved_magnitude(size_t c, const Value* from, double magnitude, const Value* element) const {
    std::vector<Value> combined = state_, work(work_.size());
    combine<D>(monoid_, combined.data(), element, work.data());
    using V = F64Domain::Value;
    std::vector<V> frame(2 * c + 1), scratch(monoid_.scratch + 1);
    frame[0].f = magnitude;
    for (size_t j = 0; j < c; ++j) {
      bool real = is_float(monoid_.components[j].dtype);
      frame[1 + 2 * j] = real ? V{.f = from[j].f} : V{.i = from[j].i};
      frame[2 + 2 * j] = real ? V{.f = combined[j].f} : V{.i = combined[j].i};
    }
    double value =
        std::fabs(run_scalar<F64Domain>(monoid_.components[c].transform, frame.data(), scratch.data()).f);
    return std::isnan(value) ? 0 : value;
  }
  /// Any order of n additions errs by at most (n - 1) u times the sum of magnitudes. Another order
  /// of factors may overflow or vanish on the way.
  void widen(Value& v, size_t c) const {
    const auto& component = monoid_.components[c];
    if (nan_[c]) return void(v.e = 0);
    if (component.op == Op::mul && is_float(component.dtype) && count_ > 1 &&
        (large_[c] > largest(component.dtype) / 2 ||
         small_[c] < least_subnormal(component.dtype) / unit_roundoff(component.dtype)))
      v.e = std::numeric_limits<double>::infinity();
    if (open_[c]) v.e = std::numeric_limits<double>::infinity();
    if (component.op != Op::add || !is_float(component.dtype) || count_ < 2 || open_[c]) return;
    if (!component.plain && std::isnan(v.f)) return;
    double order =
        double(count_ - 1) * (unit_roundoff(component.dtype) + 0x1p-53) * magnitude_[c] * (1 + 1e-6) +
        (magnitude_[c] == 0 ? 0 : double(count_) * least_subnormal(component.dtype));
    const double error = (component.plain ? input_error_[c] : v.e) + order;
    const bool held = magnitude_[c] + error <= largest(component.dtype); // another order may overflow
    v.e = !held ? std::numeric_limits<double>::infinity() : std::isfinite(v.f) ? error : 0;
  }
  const TypedMonoid& monoid_;
  std::vector<Value> state_, work_;
  std::vector<double> magnitude_, input_error_, large_, small_; // bounded
  std::vector<uint8_t> open_, nan_; // bounded: nothing can be said; an element is NaN
  int64_t count_ = 0;
};

} // namespace luminal::interp
