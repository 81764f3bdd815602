// codegen/c_like/c_emitter.h -- loop IR -> C-like text. Internal to codegen/c_like.
//
// Values are held as the LLVM emitter holds them: bool as bool; 4-bit integers as 8-bit ones with
// the extended value; f8, bf16 and f16 as the f32 of the same value, rounded after every operation;
// the rest is itself. Memory holds words: u8 for bool, f8 and two 4-bit numbers, u16 for bf16 and f16.
//
// A vector loop becomes a loop over its lanes, around all of its body where no lane reads what
// another one wrote, else around each statement, with one value of a let for each lane.
#pragma once
#include "codegen/c_like/c_like.h"
#include "codegen/c_like/prelude.h"
#include "loop/unit.h"
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

namespace luminal::codegen {

/// Thrown inside codegen/c_like only: the kernel asks for what the language cannot do.
struct CLikeFailure {
  std::string text;
};

class CEmitter {
public:
  CEmitter(const kernel::Kernel& kernel, const Dialect& dialect, const CLikeOptions& options);
  CLikeKernel run();

private:
  // ---- c_kernel.cpp: functions, buffers, statements ----
  void scan(const kernel::Body& body, int depth);
  void scan_value(const kernel::Value& value);
  void note(Expr e);
  std::string arguments();
  std::string scratch_declarations();
  void body(const kernel::Body& statements);
  void statement(const kernel::Stmt& stmt);
  void loop(const kernel::Loop& s);
  void vector_loop(const kernel::Loop& s);
  bool lanes_are_apart(const kernel::Body& statements, Expr lane);
  void each_lane(const std::function<void()>& inside, bool masked);
  void lane_statement(const kernel::Stmt& stmt);
  void store(const kernel::Store& s);
  void let_index(const kernel::LetIndex& s);
  void unit(const kernel::UnitCall& s);
  void async_copy(const kernel::AsyncCopy& s);
  void async_wait(const kernel::AsyncWait& s);
  void fragments(const kernel::UnitCall& s);
  void exchange(const kernel::Exchange& s);
  void line(const std::string& text);
  template <class Inside> void block(const std::string& head, const Inside& inside) {
    line(head + " {");
    ++indent_;
    inside();
    --indent_;
    line("}");
  }

  // ---- c_value.cpp ----
  std::string value(const kernel::ValueRef& v);
  std::string compute(const kernel::Value& v);
  std::string load(const kernel::Value& v);
  std::string loaded_words(const kernel::Buffer& buffer, const std::string& pointer, Expr offset, DType as);
  std::string constant(DType type, double x);
  std::string apply(Op op, DType type, std::vector<std::string> args);
  std::string apply_user(const std::string& name, DType type, const std::vector<std::string>& args);
  std::string cast(const std::string& x, DType from, DType to);
  std::string bitcast(const kernel::ValueRef& x, DType to);
  std::string bits_as(const std::string& x, DType from, DType to);
  std::string reduce(const kernel::ReduceLanes& v, DType type);
  std::string unpack(const std::string& memory, DType type);
  std::string pack(const std::string& x, DType type);
  std::string named(const std::string& text, std::string_view type);
  void count_uses(const kernel::ValueRef& v);
  bool varies(const kernel::Value& v);
  std::string held_type(DType type);
  std::string memory_type(DType type);
  std::string index(Expr e);
  std::string condition(Expr e);
  bool varies(Expr e);
  std::string name_of(Expr symbol);
  std::string unique(std::string name);

  [[noreturn]] void fail(const std::string& why) const {
    throw CLikeFailure{fmt::format("kernel {}: {}", kernel_.name, why)};
  }

  kernel::Kernel kernel_;
  const Dialect& dialect_;
  const CLikeOptions& options_;
  CLikeKernel result_;
  PreludeUse used_; // common functions that the text calls
  std::string out_;
  int indent_ = 1;
  int index_bits_ = 32;
  std::vector<Expr> exprs_; // all that occur, for the width of indices
  bool writes_out_ = false;

  std::set<std::string> names_;
  std::unordered_map<Expr, std::string> symbols_;
  IdVector<kernel::BufferId, std::string> buffers_; // names
  std::map<kernel::LetId, std::string> lets_;
  std::map<kernel::LetId, bool> let_varies_;
  std::map<kernel::LetId, bool> let_by_lane_; // one value for each lane
  int temporaries_ = 0;
  std::set<std::string_view> units_; // whose functions are called
  std::set<kernel::TokenId> tokens_;
  bool group_loads_ = false;
  bool inside_level1_ = false;
  std::vector<size_t> deep_barriers_;

  // the open vector loop
  std::optional<Expr> lane_;
  int64_t lanes_ = 1;
  std::optional<Expr> active_;
  std::optional<Expr> first_lane_;
  bool by_statement_ = false;
  std::set<Expr, ExprLess> lane_symbols_; // let_index inside a vector loop: one integer for each lane
  std::vector<Expr> conditions_;          // of branches that differ between lanes

  std::map<const kernel::Value*, int> uses_;
  std::map<const kernel::Value*, std::string> known_; // values of this statement that have a name
};

} // namespace luminal::codegen
