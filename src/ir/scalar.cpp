// ir/scalar.cpp -- building, typing and evaluating scalar programs.
#include "ir/scalar.h"
#include "base/check.h"
#include "ir/exact.h"
#include "ir/identity.h"
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <mutex>

namespace luminal {

using Kind = ScalarNode::Kind;

bool ScalarNode::operator==(const ScalarNode& o) const {
  bool same_value = std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(o.value) ||
                    (std::isnan(value) && std::isnan(o.value));
  return kind == o.kind && op == o.op && dtype == o.dtype && same_value && leaf == o.leaf &&
         std::equal(args, args + 3, o.args);
}

int Scalar::append(const ScalarNode& node) {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i] == node) return int(i);
  nodes_.push_back(node);
  return int(nodes_.size()) - 1;
}
int Scalar::append(const Scalar& other) {
  std::vector<int> at;
  for (ScalarNode node : other.nodes_) {
    for (int& arg : node.args)
      if (arg >= 0) arg = at[size_t(arg)];
    at.push_back(append(node));
  }
  return at.back();
}

Scalar Scalar::constant(double value) {
  Scalar s;
  ScalarNode node{.kind = Kind::constant};
  node.value = value;
  s.append(node);
  return s;
}
Scalar Scalar::leaf(int number) {
  Scalar s;
  ScalarNode node{.kind = Kind::leaf};
  node.leaf = number;
  s.append(node);
  return s;
}
Scalar Scalar::apply(Op op, const std::vector<Scalar>& args) {
  LUMINAL_CHECK(int(args.size()) == row(op).arity, "{} with {} arguments", row(op).name, args.size());
  Scalar s;
  ScalarNode node{.kind = Kind::op};
  node.op = op;
  for (size_t i = 0; i < args.size(); ++i) node.args[i] = s.append(args[i]);
  s.append(node);
  return s;
}
Scalar Scalar::cast(DType to, const Scalar& x) {
  Scalar s;
  ScalarNode node{.kind = Kind::cast};
  node.dtype = to;
  node.args[0] = s.append(x);
  s.append(node);
  return s;
}

bool Scalar::is_leaf(int number) const {
  return nodes_.size() == 1 && nodes_[0].kind == Kind::leaf && nodes_[0].leaf == number;
}
bool Scalar::reads(int leaf) const {
  for (const ScalarNode& node : nodes_)
    if (node.kind == Kind::leaf && node.leaf == leaf) return true;
  return false;
}

namespace {
/// Rebuilds a program from its leaves and operations.
Scalar rebuild(const Scalar& program, const std::function<Scalar(int)>& leaf,
               const std::function<Scalar(Op, const std::vector<Scalar>&)>& op) {
  std::vector<Scalar> done;
  for (const ScalarNode& node : program.nodes()) {
    switch (node.kind) {
    case Kind::constant: done.push_back(Scalar::constant(node.value)); break;
    case Kind::leaf: done.push_back(leaf(node.leaf)); break;
    case Kind::cast: done.push_back(Scalar::cast(node.dtype, done[size_t(node.args[0])])); break;
    case Kind::op: {
      std::vector<Scalar> args;
      for (int i = 0; i < row(node.op).arity; ++i) args.push_back(done[size_t(node.args[i])]);
      done.push_back(op(node.op, args));
      break;
    }
    }
  }
  return done.back();
}
} // namespace

Scalar Scalar::substitute(const std::vector<Scalar>& leaves) const {
  return rebuild(
      *this,
      [&](int number) {
        LUMINAL_CHECK(size_t(number) < leaves.size(), "leaf {} of {}", number, leaves.size());
        return leaves[size_t(number)];
      },
      Scalar::apply);
}

namespace {
struct Texts {
  std::array<std::optional<Scalar>, op_count> definitions;
  std::array<std::array<std::optional<Scalar>, 3>, op_count> derivatives;
  Texts() {
    const std::vector<std::string> names = {"a", "b", "c", "out"};
    for (int i = 0; i < op_count; ++i) {
      const OpRow& r = row(Op(i));
      if (!r.definition.empty())
        definitions[size_t(i)] = parse_scalar(r.definition, {names.begin(), names.begin() + r.arity});
      for (int k = 0; k < 3; ++k)
        if (!r.derivative[k].empty())
          derivatives[size_t(i)][size_t(k)] = parse_scalar(r.derivative[k], names);
    }
  }
};
const Texts& texts() {
  static const Texts instance;
  return instance;
}
} // namespace

const Scalar* definition(Op op) {
  const auto& d = texts().definitions[size_t(op)];
  return d ? &*d : nullptr;
}
const Scalar* derivative(Op op, int argument) {
  const auto& d = texts().derivatives[size_t(op)][size_t(argument)];
  return d ? &*d : nullptr;
}

Scalar unfold(const Scalar& program, double error) {
  return rebuild(program, Scalar::leaf, [&](Op op, const std::vector<Scalar>& args) {
    const Scalar* d = definition(op);
    return d && row(op).definition_error <= error ? unfold(*d, error).substitute(args)
                                                  : Scalar::apply(op, args);
  });
}

double evaluate_f64(const Scalar& program, const double* leaves) {
  std::vector<double> values;
  for (const ScalarNode& node : program.nodes()) {
    switch (node.kind) {
    case Kind::constant: values.push_back(node.value); break;
    case Kind::leaf: values.push_back(leaves[node.leaf]); break;
    case Kind::cast: {
      double x = values[size_t(node.args[0])];
      values.push_back(is_float(node.dtype) ? x : integer_to_f64(node.dtype, truncate_to(node.dtype, x)));
      break;
    }
    case Kind::op: {
      const OpRow& r = row(node.op);
      if (!r.f64) throw Error("scalar", "operation " + std::string(r.name) + " has no value on floats");
      double x[3] = {};
      for (int i = 0; i < r.arity; ++i) x[i] = values[size_t(node.args[i])];
      values.push_back(r.f64(x));
      break;
    }
    }
  }
  return values.back();
}

Exact apply_exact(Op op, const Exact* args) {
  const OpRow& r = row(op);
  if (r.exact) return r.exact(args);
  if (const Scalar* d = definition(op)) return evaluate_exact(*d, args);
  double x[3] = {};
  for (int i = 0; i < r.arity; ++i) x[i] = args[i].shadow;
  return exact_opaque(uint64_t(op), args, r.arity, r.f64(x));
}

Exact evaluate_exact(const Scalar& program, const Exact* leaves) {
  std::vector<Exact> values;
  for (const ScalarNode& node : program.nodes()) {
    switch (node.kind) {
    case Kind::constant: values.push_back(exact_from(node.value)); break;
    case Kind::leaf: values.push_back(leaves[node.leaf]); break;
    case Kind::cast: {
      const Exact& x = values[size_t(node.args[0])];
      values.push_back(is_float(node.dtype) ? x : exact_from_int(truncate_to(node.dtype, x.shadow)));
      break;
    }
    case Kind::op: {
      Exact x[3];
      for (int i = 0; i < row(node.op).arity; ++i) x[i] = values[size_t(node.args[i])];
      values.push_back(apply_exact(node.op, x));
      break;
    }
    }
  }
  return values.back();
}

namespace {

/// Gives every node the type of its use. A node made of constants only has none of its own.
class Typing {
public:
  Typing(const Scalar& program, std::span<const DType> leaves) : program_(program), leaves_(leaves) {
    for (const ScalarNode& node : program.nodes()) own_.push_back(own_type(node));
  }
  TypedScalar run(DType result) {
    int last = emit(int(own_.size()) - 1, result);
    LUMINAL_CHECK(last + 1 == int(out_.steps.size()));
    if (out_.result() != result)
      throw Error("scalar", fmt::format("the program gives {}, expected {}", to_string(out_.result()),
                                        to_string(result)));
    return std::move(out_);
  }

private:
  static int first_value(Op op) { return op == Op::select ? 1 : 0; }
  static bool gives_bool(Op op) {
    return row(op).signature == Signature::comparison || row(op).signature == Signature::test;
  }
  /// The type of the values an op works on, from those arguments that have one.
  std::optional<DType> argument_type(const ScalarNode& node) const {
    for (int i = first_value(node.op); i < row(node.op).arity; ++i)
      if (own_[size_t(node.args[i])]) return own_[size_t(node.args[i])];
    return {};
  }
  std::optional<DType> own_type(const ScalarNode& node) const {
    switch (node.kind) {
    case Kind::constant: return {};
    case Kind::leaf: {
      if (size_t(node.leaf) >= leaves_.size())
        throw Error("scalar", fmt::format("the program reads leaf {} of {}", node.leaf, leaves_.size()));
      return leaves_[size_t(node.leaf)];
    }
    case Kind::cast: return node.dtype;
    case Kind::op: return gives_bool(node.op) ? DType::boolean : argument_type(node);
    }
    return {};
  }

  /// The step that computes `node`, as `want` if its type is open.
  int emit(int index, DType want) {
    const ScalarNode& node = program_.nodes()[size_t(index)];
    DType type = own_[size_t(index)].value_or(want);
    if (auto at = done_.find({index, type}); at != done_.end()) return at->second;
    TypedScalar::Step step{.kind = node.kind,
                           .op = node.op,
                           .type = type,
                           .result = type,
                           .value = node.value,
                           .leaf = node.leaf};
    switch (node.kind) {
    case Kind::leaf: break;
    case Kind::constant:
      if (!is_float(type)) {
        step.integer = truncate_to(type, node.value);
        if (std::isnan(node.value) ||
            (std::isfinite(node.value) && integer_to_f64(type, step.integer) != node.value))
          throw Error("scalar", fmt::format("{} is not a value of {}", node.value, to_string(type)));
      }
      step.value = !is_float(type)          ? integer_to_f64(type, step.integer)
                   : std::isinf(node.value) ? std::copysign(greatest(type), node.value)
                                            : round_to(type, node.value);
      break;
    case Kind::cast:
      step.args[0] = emit(node.args[0], own_[size_t(node.args[0])].value_or(DType::f64));
      step.type = out_.steps[size_t(step.args[0])].result;
      break;
    case Kind::op: {
      const OpRow& r = row(node.op);
      DType values = argument_type(node).value_or(gives_bool(node.op) ? DType::f64 : type);
      DType types[3];
      for (int i = 0; i < r.arity; ++i) {
        step.args[i] = emit(node.args[i], i < first_value(node.op) ? DType::boolean : values);
        types[i] = out_.steps[size_t(step.args[i])].result;
      }
      std::string why;
      auto result = result_type(r, types, &why);
      if (!result) throw Error("scalar", fmt::format("{}: {}", r.name, why));
      step.type = values, step.result = *result;
      break;
    }
    }
    out_.steps.push_back(step);
    int at = int(out_.steps.size()) - 1;
    done_[{index, type}] = at;
    return at;
  }

  const Scalar& program_;
  std::span<const DType> leaves_;
  std::vector<std::optional<DType>> own_;
  std::map<std::pair<int, DType>, int> done_;
  TypedScalar out_;
};

} // namespace

TypedScalar typed(const Scalar& program, std::span<const DType> leaves, DType result) {
  return Typing(program, leaves).run(result);
}

} // namespace luminal
