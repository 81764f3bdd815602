// codegen/emitter.h -- loop IR -> LLVM IR. Internal to codegen: the rest of the compiler sees
// codegen.h.
//
// Values in registers: bool is i1; i4, u4 and 8-bit integers are i8 (4-bit ones hold the extended
// value); f8, bf16 and f16 are held as the f32 of the same value and rounded after every operation;
// the rest is itself. Inside a vector loop of N steps a value that depends on the lane is a vector
// of N elements, any other is a scalar and is spread where a vector is needed.
#pragma once
#include "base/check.h"
#include "codegen/codegen.h"
#include "codegen/llvm_compat.h"
#include "codegen/math.h"
#include "ir/ops.h"
#include "loop/unit.h"
#include <bit>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

namespace luminal::codegen {

/// Thrown inside codegen only: the kernel asks for what the target cannot do.
struct EmitFailure {
  std::string text;
};

Expr scratch_size(const kernel::Buffer& buffer);

class Emitter {
public:
  Emitter(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options,
          llvm::Module& module);
  /// Defines the function `entry` and all that it needs.
  void run(const std::string& entry);

private:
  using LV = llvm::Value;
  /// An integer: v + k. v is null for a constant. The constant is kept apart because addresses want
  /// it last.
  struct Int {
    LV* v = nullptr;
    int64_t k = 0;
  };

  // ---- emit_kernel.cpp: entry, loops, statements ----
  void declare_function(const std::string& name);
  void declare_scratch();
  void scan(const kernel::Body& body, Expr lane, int64_t lanes);
  void scan_value(const kernel::Value& value, Expr lane, int64_t lanes);
  void note_register_access(kernel::BufferId buffer, Expr offset, Expr lane, int64_t lanes);
  void body(const kernel::Body& statements);
  void statement(const kernel::Stmt& stmt);
  void loop(const kernel::Loop& s);
  void vector_loop(const kernel::Loop& s);
  bool narrows(const kernel::Body& statements); // may fewer lanes do what its live lanes do?
  void if_statement(const kernel::If& s);
  void lane_if(const kernel::If& s, LV* condition);
  void let_index(const kernel::LetIndex& s);
  void prefetch(const kernel::Prefetch& s);
  bool line_is_known(Expr offset, DType type);
  void async_copy(const kernel::AsyncCopy& s);
  void count_loop(LV* begin, LV* end, int64_t step, bool guard, const std::function<void(LV*)>& body);
  void guarded(LV* condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  llvm::BasicBlock* block(const char* name);
  void bind(Expr variable, Int value, int depth);
  void attributes(llvm::Function* function);
  LV* integer_mod(LV* length, int64_t divisor);

  // ---- emit_unit.cpp ----
  void unit(const kernel::UnitCall& s);
  void scan_unit(const kernel::UnitCall& s);
  LV* unit_operand(const kernel::UnitOperand& operand, DType type, llvm::ArrayRef<int64_t> extents);
  bool has_unit(std::string_view name) const;

  // ---- emit_tiles.cpp: units whose operands lie in tile registers ----
  struct TileAddress {
    kernel::BufferId buffer;
    Expr offset, rows; ///< of the first element, from row to row; in elements
    bool operator==(const TileAddress&) const = default;
  };
  struct KeptTiles {
    std::vector<TileAddress> tiles;
    std::optional<Expr> rows; ///< of each; none: all
  };
  void configure_tiles();
  void release_tiles();
  void tile_unit(const kernel::UnitCall& s, const kernel::Unit& unit);
  void set_tile_rows(std::optional<Expr> rows);
  TileAddress tile_address(const kernel::UnitCall& s, const kernel::Unit& unit, int operand);
  int tile_operand(const TileAddress& at, int operand);
  void move_tile(const char* intrinsic, int tile, const TileAddress& at);
  KeptTiles tile_accumulators(const kernel::Loop& s);
  bool zeros_of_tiles(const kernel::Body& statements, size_t i);
  void loop_of_tiles(const kernel::Loop& s);
  void forget_tiles() { loaded_tiles_.clear(); }
  LV* dot(std::string_view unit, LV* c, LV* x, LV* y, int64_t lanes);
  LV* widened_dot(const kernel::Unit& unit, LV* c, LV* x, LV* y);
  LV* lane_unit(const kernel::Unit& unit, llvm::ArrayRef<LV*> args);
  void find_flushed();
  bool flushed(const kernel::Value& v) const; // never a subnormal number
  LV* bf16_bits(const kernel::Value& v, LV* x);
  LV* call_intrinsic(const char* name, llvm::Type* result, llvm::ArrayRef<LV*> arguments);

  // ---- emit_index.cpp: expressions ----
  Int integer(Expr e);
  LV* scalar_index(Expr e);         // i64
  LV* lane_index(Expr e, int bits); // one integer of that width for each lane
  Expr what_is_left(
      // what is not known to hold with the variables' present values and ranges; 0: it does not
      Expr condition);
  LV* condition(Expr e); // i1, or one for each lane where it depends on the lane
  LV* floor_div(LV* a, LV* b, Interval ra, Interval rb, bool remainder);
  bool varying(Expr e); // depends on the lane
  LV* materialize(Int x) { return x.v ? x.k ? b_.CreateNSWAdd(x.v, i64(x.k)) : x.v : i64(x.k); }
  Int add(Int x, Int y);
  Int scale(Int x, int64_t c);
  Expr resolve(Expr e);                             // variables with constant values replaced
  const std::vector<int64_t>* lane_pattern(Expr e); // e(lane) - e(lane 0), where all of these are constants
  int depth_of(Expr e);

  // Expressions emitted so far, valid as long as the scope in which they were emitted.
  void open_scope() { marks_.push_back(log_.size()); }
  /// repeated: the scope was one of several bodies in a row: what does not depend on the variable
  /// stays.
  void close_scope(const Expr* repeated = nullptr);
  void forget(Expr variable); // it gets another value

  // ---- emit_memory.cpp ----
  LV* load(const kernel::Value& v);
  LV* guarded_load(const kernel::Value& v);
  LV* guarded_blocks(const kernel::Value& v, Expr guard); // or null
  LV* zeros(unsigned bytes);                              // address of so many bytes of zeros
  void store(const kernel::Store& s);
  struct Access {
    enum class Kind { uniform, contiguous, pattern, indexed } kind = Kind::uniform;
    LV* base = nullptr;           // address of lane 0
    LV* indices = nullptr;        // indexed: element offsets from base, i64 or i32
    std::vector<int64_t> pattern; // pattern: element offsets from base
    int64_t phase = 0;            // pattern: of the base, of which the constant is known
    int64_t inside_begin = 0,
            inside_end = 0; // pattern: elements around the base that surely lie in the buffer
  };
  Access access(kernel::BufferId buffer, Expr offset, int element_bytes, int offset_bytes);
  LV* address(kernel::BufferId buffer, Expr offset, int offset_bytes, bool skip_varying = false);
  LV* step(LV* base, LV* index, int64_t bytes);
  LV* masked_load(llvm::Type* type, LV* p, LV* mask);
  LV* load_memory(const Access& a, llvm::Type* element, LV* mask);
  void store_memory(const Access& a, LV* value, LV* mask);
  bool fills_lines(const kernel::Store& s, int element_bytes); // from one to the next boundary of a vector
  void store_fence(); // what went past the caches arrives before what follows
  LV* load_blocks(const Access& a, llvm::Type* element, LV* mask, LV* holds = nullptr); // or null
  LV* load_pattern(LV* base, const std::vector<int64_t>& offsets, llvm::Type* element, LV* mask);
  LV* byte_of_words(kernel::BufferId buffer, Expr offset); // or null
  LV* low_nibble(LV* x, DType type);
  LV* load_nibbles(kernel::BufferId buffer, Expr offset, DType type, LV* mask);
  void store_nibbles(kernel::BufferId buffer, Expr offset, LV* value, LV* mask);
  int64_t register_index(kernel::BufferId buffer, Expr e);
  std::vector<int64_t> register_places(kernel::BufferId buffer, Expr offset); // of each lane
  llvm::AllocaInst* register_chunk(kernel::BufferId buffer, int64_t chunk);
  LV* read_registers(kernel::BufferId buffer, llvm::ArrayRef<int64_t> places); // a vector, also of one
  void write_registers(kernel::BufferId buffer, llvm::ArrayRef<int64_t> places, LV* value);
  LV* load_register(kernel::BufferId buffer, Expr offset);
  void store_register(const kernel::Store& s, LV* value);
  bool adds_zeros(const kernel::Store& s, const LV* value, const LV* mask);
  LV* mask_for(kernel::BufferId buffer); // live lanes, or null for all

  // ---- emit_transpose.cpp ----
  void transpose(const kernel::Loop& unrolled, const kernel::Body& statements);
  void transpose(std::vector<LV*>& rows); // as many lanes as rows
  LV* opaque(LV* x);
  void transpose_vector_loop(const kernel::Loop& unrolled, const kernel::Loop& vector);
  bool stores_to(const kernel::Body& statements, kernel::BufferId buffer);
  // stores of an unrolled loop that are written when it ends: the addresses in its first step, one
  // vector for each step
  struct TransposedStore {
    Access to;
    std::vector<LV*> steps;
    int64_t live = -1; // lanes; below 0: all
  };
  bool transposes_stores(const kernel::Loop& unrolled); // notes which, if any
  bool writes_each_once(const kernel::Store& store, std::span<const kernel::Loop* const> loops);
  void transpose_lanes(const Access& to, LV* value);
  void write_transposed();
  void write_transposed(const TransposedStore& t);
  void find_rows(const kernel::Loop& loop, std::optional<int64_t> live);
  void store_in_row(const kernel::Store& s, const Access& to, LV* value);
  std::vector<LV*> deinterleaved(const std::vector<LV*>& vectors);
  std::vector<LV*> dealt_one_by_one(const std::vector<LV*>& vectors);

  // ---- emit_value.cpp ----
  LV* value(const kernel::ValueRef& v);
  llvm::SmallVector<LV*, 3> values(std::span<const kernel::ValueRef> args);
  LV* operation(DType result, const kernel::Apply& v);
  LV* bitcast(DType to, const kernel::Bitcast& b);
  LV* nibble_function(const kernel::Value& v); // or null
  LV* words(const kernel::Value& v);           // or null
  LV* low_bits(LV* x, unsigned count);
  LV* apply_row(Op op, DType type, llvm::ArrayRef<LV*> x); // type: of the arguments; choice: of the last two
  LV* apply_float(Op op, DType type, llvm::ArrayRef<LV*> x);
  LV* apply_integer(Op op, DType type, llvm::ArrayRef<LV*> x);
  LV* apply_user(const std::string& name, DType type, llvm::ArrayRef<LV*> x);
  LV* integer_division(bool remainder, bool is_signed_type, LV* a, LV* b);
  LV* cast(LV* x, DType from, DType to);
  LV* saturated(LV* x, llvm::Type* t, bool with_sign);
  LV* bitcast(LV* x, DType from, DType to);
  LV* reduce(Op op, DType type, LV* x);
  LV* scan_lanes(Op op, DType type, LV* x);
  LV* last_lane(LV* x);
  LV* live_lanes(); // a mask; null: all
  LV* identity_lanes(Op op, DType type);
  LV* live_or_identity(Op op, DType type, LV* x);
  LV* constant(DType type, double x);
  LV* unpack(LV* memory, DType type); // as it lies in memory -> as it is held in registers
  LV* pack(LV* x, DType type);
  LV* splat(LV* x) {
    return x->getType()->isVectorTy() ? x : b_.CreateVectorSplat(static_cast<unsigned>(lanes_), x);
  }
  llvm::Type* register_type(DType type);
  llvm::Type* memory_type(DType type); // not for 4-bit types
  llvm::Type* with_lanes(llvm::Type* element) {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
  }
  llvm::ConstantInt* i64(int64_t x) {
    return llvm::cast<llvm::ConstantInt>(int_constant(b_.getInt64Ty(), x));
  }
  LV* lane_numbers(llvm::Type* element); // 0, 1, 2, ...
  /// Elements picked from two vectors or one.
  LV* shuffle(LV* x, LV* y, llvm::ArrayRef<int> mask) { return b_.CreateShuffleVector(x, y, mask); }

  [[noreturn]] void fail(const std::string& why) const;

  const kernel::Kernel& kernel_;
  const CpuTarget& target_;
  const CodegenOptions& options_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  MathEmitter math_;
  llvm::Function* function_ = nullptr;

  // arguments
  IdVector<kernel::BufferId, LV*> pointers_; // null for registers
  IdVector<kernel::BufferId, LV*>
      on_lines_; // of each streaming buffer: does it begin on a cache line? Else null
  LV *worker_ = nullptr, *workers_ = nullptr, *barrier_context_ = nullptr, *barrier_ = nullptr;
  // registers: chunks of `width` elements, each one alloca that SROA turns into values
  struct RegisterBuffer {
    int64_t width = 0;
    std::vector<llvm::AllocaInst*> chunks;
  };
  IdVector<kernel::BufferId, RegisterBuffer> registers_;

  llvm::AllocaInst* tile_table_ = nullptr;                  // what the tile registers are set to
  bool uses_tiles_ = false, tiles_begin_from_zero_ = false; // tile registers; those of the next loop
  std::vector<TileAddress> kept_tiles_; // accumulators of the open loop, in registers 0, 1, ...
  struct LoadedTile {
    TileAddress at;
    int tile;
  };
  std::vector<LoadedTile> loaded_tiles_; // operands that the present trip has loaded

  // index values
  std::unordered_map<Expr, Int> variables_;
  std::unordered_map<Expr, int> depths_;
  std::unordered_map<Expr, LV*> lane_variables_; // let_index inside a vector loop: one i64 for each lane
  struct StepKey {
    LV *base, *index;
    int64_t bytes;
    bool operator==(const StepKey&) const = default;
  };
  struct StepHash {
    size_t operator()(const StepKey& k) const noexcept {
      return std::hash<LV*>()(k.base) * 31 + std::hash<LV*>()(k.index) * 17 + std::hash<int64_t>()(k.bytes);
    }
  };
  std::unordered_map<Expr, Int> memo_;
  std::unordered_map<StepKey, LV*, StepHash> steps_;
  struct LogEntry {
    std::optional<Expr> expr;
    StepKey step{};
  };
  std::vector<LogEntry> log_;
  std::vector<size_t> marks_;
  int depth_ = 0;

  // the open vector loop
  std::optional<Expr> lane_;
  int64_t lanes_ = 1;
  LV* tail_mask_ = nullptr; // of the loop
  bool narrowed_ =
      false; // it has fewer lanes than it says: the others are dead, and nobody reads what they hold
  LV* if_mask_ = nullptr; // of conditions that depend on the lane
  std::unordered_map<Expr, bool> varying_;
  std::unordered_map<Expr, std::optional<std::vector<int64_t>>> patterns_;

  IdVector<kernel::LetId, LV*> lets_;
  IdVector<kernel::LetId, const kernel::Value*> let_values_;
  IdVector<kernel::BufferId, bool> flushed_; // scratch that no subnormal number is written to
  bool in_parallel_ = false;
  std::vector<std::pair<Expr, int64_t>> repeats_; // jammed loops around, and which of their bodies it is

  // columns of transposed loads: one vector for each step of the unrolled loop
  std::unordered_map<const kernel::Value*, std::vector<LV*>> columns_;
  std::optional<Expr> column_variable_;

  std::unordered_set<const kernel::Store*> transposed_;
  std::vector<TransposedStore> transposed_stores_;
  size_t next_transposed_ = 0; // in this step

  // stores of the open vector loop that are contiguous in each lane: row and place
  std::vector<TransposedStore> rows_;
  std::unordered_map<const kernel::Store*, std::pair<size_t, size_t>> row_of_;
};

} // namespace luminal::codegen
