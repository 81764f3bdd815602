// luminal/nn.h -- modules: parts of a network with named parameters. A module is made in a scope, which
// gives its parameters their names, and called on tensors; what it computes is composed of the same
// operations as everything else.
//
//   struct Net : nn::Module {
//     nn::Linear hidden, out;
//     explicit Net(const nn::Scope& s)
//         : Module(s), hidden(s / "hidden", 784, 128), out(s / "out", 128, 10) {}
//     Tensor operator()(const Tensor& x) const { return out(hidden(x).relu()); }
//   };
//   Net net(nn::Scope(g));                 // parameters hidden.weight, hidden.bias, out.weight, out.bias
//   net.load("net.safetensors");           // names and shapes are those of PyTorch's state_dict
#pragma once
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/nn_init.h"
#include "luminal/quantize.h"
#include <concepts>
#include <map>
#include <ranges>
#include <tuple>

namespace luminal::nn {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

using StateDict = std::map<std::string, Tensor>;
struct Registry; // of all modules made from one scope
struct Entry;

/// A named parameter of a module. Copies are the same parameter.
class Parameter {
public:
  Parameter() = default;
  bool defined() const { return entry_ != nullptr; }
  /// Of the parameter's shape; a quantised one is unpacked (which fuses into what reads it).
  Tensor value() const;
  operator Tensor() const { return value(); }
  std::vector<int64_t> shape() const;
  /// x [.., in] times the transpose of this [out, in]; of a quantised one the codes are read.
  Tensor linear(const Tensor& x, const Tensor& bias = {}, LUMINAL_WHERE) const;

private:
  friend class Scope;
  std::shared_ptr<Entry> entry_;
};

struct ScopeOptions {
  /// Parameters and buffers are states, which optimizers change; else weights, which are read only.
  bool trained = false;
  /// Of initial values: those of a parameter depend on the seed and its name only.
  uint64_t seed = 0;
  DType dtype = DType::f32;
};

/// A place in the tree of modules: a prefix of names in a graph. Copies and children share what was made.
class Scope {
public:
  explicit Scope(Graph& graph, const ScopeOptions& options = {});
  Scope operator/(std::string_view name) const;
  Scope operator/(int64_t index) const { return *this / std::string_view(std::to_string(index)); }

  /// A parameter of floating-point numbers, with these initial values until others are set or loaded. A
  /// name that is there already gives the same parameter: that is how modules share one. Throws Error
  /// where its shape is another.
  Parameter parameter(std::string_view name, std::vector<int64_t> shape, Init initial, LUMINAL_WHERE) const;
  /// A value that is saved with the parameters and that no optimizer changes.
  Tensor buffer(std::string_view name, std::vector<int64_t> shape, double initial, DType dtype = DType::f32,
                LUMINAL_WHERE) const;
  /// What the buffer becomes at the end of a step, from its value so far in the step (several calls in
  /// one step follow each other). Does nothing where the scope is not trained.
  void update(const Tensor& buffer, const std::function<Tensor(const Tensor& old)>& next,
              LUMINAL_WHERE) const;

  /// What modules of this tree compute from now on: dropout and batch statistics, or not. At first as
  /// ScopeOptions::trained.
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool training() const;
  /// A key of its own for each call, and another one in every execute.
  Tensor random_key(LUMINAL_WHERE) const;

  /// Below this place, by names from here on, in alphabetical order; state_dict: both of them. Of a
  /// quantised parameter its codes, scales and offsets.
  StateDict parameters() const, buffers() const, state_dict() const;
  /// The values in parameters(), in their order: what gradients and optimizers take.
  std::vector<Tensor> parameter_list() const;
  /// state_dict from and to a file (luminal/files.h), by names from here on.
  LoadReport load(const std::string& path, const LoadOptions& options = {}, LUMINAL_WHERE) const;
  void save(const std::string& path, const SaveOptions& options = {}, LUMINAL_WHERE) const;
  /// Parameters of two and more axes below this place in 8 or 4 bits, from their present values: what is
  /// computed from now on reads the codes. Rows are the first axis, groups run along the others.
  void quantize(const WeightFormat& format = {}, LUMINAL_WHERE) const;

  const std::string& prefix() const { return prefix_; } ///< "encoder.layers.0", or empty
  Graph graph() const;
  DType dtype() const;

private:
  Scope(std::shared_ptr<Registry> registry, std::string prefix);
  std::shared_ptr<Registry> registry_;
  std::string prefix_;
};

/// What all modules have: the state of their scope.
class Module {
public:
  const Scope& scope() const { return scope_; }
  StateDict parameters() const { return scope_.parameters(); }
  StateDict buffers() const { return scope_.buffers(); }
  StateDict state_dict() const { return scope_.state_dict(); }
  std::vector<Tensor> parameter_list() const { return scope_.parameter_list(); }
  void train(bool on = true) const { scope_.train(on); }
  void eval() const { scope_.eval(); }
  LoadReport load(const std::string& path, const LoadOptions& options = {}, LUMINAL_WHERE) const {
    return scope_.load(path, options, where);
  }
  void save(const std::string& path, const SaveOptions& options = {}, LUMINAL_WHERE) const {
    scope_.save(path, options, where);
  }
  void quantize(const WeightFormat& format = {}, LUMINAL_WHERE) const { scope_.quantize(format, where); }

protected:
  explicit Module(Scope scope) : scope_(std::move(scope)) {}

private:
  Scope scope_;
};

struct LinearOptions {
  bool bias = true;
  bool transposed = false; ///< the weight is stored as [in, out]
};
/// x [.., in] -> x weight^T + bias [.., out]; weight [out, in], bias [out].
class Linear : public Module {
public:
  Linear(const Scope& scope, int64_t in, int64_t out, const LinearOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;
  const Parameter& weight() const { return weight_; }

private:
  LinearOptions options_;
  Parameter weight_, bias_;
};

/// a [.., m], b [.., n] -> [.., out]; weight [out, m, n], bias [out].
class Bilinear : public Module {
public:
  Bilinear(const Scope& scope, int64_t m, int64_t n, int64_t out, bool bias = true, LUMINAL_WHERE);
  Tensor operator()(const Tensor& a, const Tensor& b, LUMINAL_WHERE) const;

private:
  Parameter weight_, bias_;
};

struct EmbeddingOptions {
  std::optional<int64_t> padding_index = {}; ///< a row of zeros at first, which training leaves alone
  bool transposed = false;                   ///< the table is stored as [width, rows]
};
/// Integer ids [..] -> rows of a table: [.., width]; weight [rows, width].
class Embedding : public Module {
public:
  Embedding(const Scope& scope, int64_t rows, int64_t width, const EmbeddingOptions& options = {},
            LUMINAL_WHERE);
  Tensor operator()(const Tensor& ids, LUMINAL_WHERE) const;
  /// x [.., width] -> [.., rows]: products with all rows, the head of a model whose embeddings are tied.
  Tensor logits(const Tensor& x, LUMINAL_WHERE) const;
  const Parameter& weight() const { return weight_; }

private:
  EmbeddingOptions options_;
  Parameter weight_;
};

/// While the scope trains: elements are 0 with probability p, the others times 1 / (1 - p).
class Dropout : public Module {
public:
  explicit Dropout(const Scope& scope, double p = 0.5) : Module(scope), p_(p) {}
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  double p_;
};

/// x itself.
struct Identity {
  Tensor operator()(const Tensor& x) const { return x; }
};
/// A function of one tensor by its PyTorch name in lower case with underscores ("relu", "gelu",
/// "gelu_tanh", "silu", "leaky_relu", "log_softmax", ...). Throws Error with all names for another one.
class Activation {
public:
  explicit Activation(std::string_view name, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const { return function_(x, where); }
  static std::vector<std::string> names();

private:
  Tensor (*function_)(const Tensor&, std::source_location);
};
/// x > 0 ? x : weight x; weight [channels], channels at axis 1, or one for all.
class PRelu : public Module {
public:
  explicit PRelu(const Scope& scope, int64_t channels = 1, double initial = 0.25, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  Parameter weight_;
};

/// Each module in turn: of a tuple, an array or a vector. What one gives the next one takes.
template <class Modules, class X> auto chain(const Modules& modules, X x) {
  if constexpr (std::ranges::range<const Modules>) {
    for (const auto& module : modules) x = module(x);
    return x;
  } else {
    return std::apply(
        [&](const auto&... module) {
          const auto next = [](const auto& self, auto value, const auto& first, const auto&... rest) {
            if constexpr (sizeof...(rest) == 0)
              return first(value);
            else
              return self(self, first(value), rest...);
          };
          if constexpr (sizeof...(module) == 0)
            return x;
          else
            return next(next, x, module...);
        },
        modules);
  }
}

/// Modules and functions of one tensor, called in turn; they are named "0", "1", .. in its scope.
class Sequential : public Module {
public:
  using Part = std::function<Tensor(const Tensor&)>;
  explicit Sequential(Scope scope) : Module(std::move(scope)) {}
  /// net.add<Linear>(784, 128): Linear(scope / place, 784, 128).
  template <class M, class... Args>
    requires std::invocable<const M&, const Tensor&>
  Sequential& add(Args&&... args) {
    if constexpr (std::constructible_from<M, const Scope&, Args...>)
      parts_.emplace_back(M(scope() / int64_t(parts_.size()), std::forward<Args>(args)...));
    else
      parts_.emplace_back(M(std::forward<Args>(args)...));
    return *this;
  }
  Sequential& add(Part part) {
    parts_.push_back(std::move(part));
    return *this;
  }
  Tensor operator()(const Tensor& x) const { return chain(parts_, x); }
  size_t size() const { return parts_.size(); }

private:
  std::vector<Part> parts_;
};

#undef LUMINAL_WHERE
} // namespace luminal::nn
