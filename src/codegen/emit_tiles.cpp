// codegen/emit_tiles.cpp -- units whose operands lie in tile registers (Intel's AMX): eight registers of 16
// rows of 64 bytes. Accumulators of a loop that does nothing else stay in registers 0 to 3 while it runs.
// What its steps read comes into registers 4 and 5 (a), 6 and 7 (b), once for all steps of a trip.
// Accumulators that begin from zeros are set to zero in their registers.
#include "codegen/emitter.h"
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace luminal::codegen {
using kernel::LoopKind;
using llvm::Value;

namespace {
constexpr int accumulator_tiles = 4, operand_tiles = 2, tile_rows = 16, most_unrolled = 64;
constexpr uint64_t all_heights = 0x1010101010101010;
constexpr size_t most_zeros = size_t(accumulator_tiles) * tile_rows * tile_rows;

struct Zeros {
  kernel::BufferId buffer;
  std::set<int64_t> elements;
};
/// The elements of a buffer that a statement sets to zero, where it does nothing else.
template <class Resolve> std::optional<Zeros> zeroed(const kernel::Stmt& stmt, const Resolve& resolve) {
  ExprMap<Expr> first;                         // variables of the loops around
  std::vector<std::pair<Expr, int64_t>> loops; // and their trips
  const kernel::Stmt* inside = &stmt;
  while (const auto* loop = inside->as<kernel::Loop>()) {
    const Expr begin = resolve(loop->begin), end = resolve(loop->end);
    if (loop->body.size() != 1 || loop->lanes_active || !begin.is_constant(0) || !end.is_constant())
      return {};
    loops.emplace_back(loop->variable, end.value());
    first[loop->variable] = 0;
    inside = loop->body[0].get();
  }
  const auto* store = inside->as<kernel::Store>();
  const auto* zero = store ? store->value->as<kernel::Constant>() : nullptr;
  if (!zero || zero->value != 0 || std::signbit(zero->value)) return {};
  const Expr offset = resolve(store->offset), start = resolve(substitute(offset, first));
  if (!start.is_constant()) return {};
  Zeros zeros{store->buffer, {start.value()}};
  for (const auto& [variable, trips] : loops) {
    const std::optional<Expr> step = coefficient_of(offset, variable);
    if (!step || !step->is_constant()) return {};
    const std::set<int64_t> before = zeros.elements;
    for (int64_t i = 1; i < trips; ++i)
      for (int64_t element : before) zeros.elements.insert(element + i * step->value());
    if (trips <= 0 || zeros.elements.size() > most_zeros) return {};
  }
  return zeros;
}
} // namespace

/// Every tile as large as it can be; all others of the function's workers do the same.
void Emitter::configure_tiles() {
  if (!uses_tiles_) return;
  constexpr uint64_t palette = 1, widths = 0x0040004000400040;
  constexpr uint64_t words[] = {palette, 0, widths, widths, 0, 0, all_heights, 0};
  auto* type = llvm::ArrayType::get(b_.getInt64Ty(), std::size(words));
  tile_table_ = b_.CreateAlloca(type, nullptr, "tiles");
  tile_table_->setAlignment(llvm::Align(64));
  for (size_t i = 0; i < std::size(words); ++i)
    b_.CreateStore(b_.getInt64(words[i]), b_.CreateConstInBoundsGEP2_64(type, tile_table_, 0, i));
  call_intrinsic("llvm.x86.ldtilecfg", b_.getVoidTy(), {tile_table_});
}

/// So many rows of accumulators and of a; none: all. What registers held is lost.
void Emitter::set_tile_rows(std::optional<Expr> rows) {
  constexpr uint64_t of_rows = 0x0000010101010101, of_b = 0x1010000000000000;
  static_assert(of_rows * tile_rows + of_b == all_heights && accumulator_tiles + operand_tiles == 6);
  Value* heights = b_.getInt64(all_heights);
  if (rows) heights = b_.CreateAdd(b_.CreateMul(scalar_index(resolve(*rows)), i64(of_rows)), i64(of_b));
  b_.CreateStore(heights, b_.CreateConstInBoundsGEP2_64(tile_table_->getAllocatedType(), tile_table_, 0, 6));
  call_intrinsic("llvm.x86.ldtilecfg", b_.getVoidTy(), {tile_table_});
  forget_tiles();
}

void Emitter::release_tiles() {
  if (uses_tiles_) call_intrinsic("llvm.x86.tilerelease", b_.getVoidTy(), {});
}

/// Rows that are contiguous, one stride apart.
Emitter::TileAddress Emitter::tile_address(const kernel::UnitCall& s, const kernel::Unit& unit, int operand) {
  const kernel::UnitOperand& o = s.operands[static_cast<size_t>(operand)];
  const kernel::Buffer& buffer = kernel_.buffers[o.buffer];
  const std::string axes = unit.operand(operand).axes_in(buffer.dtype);
  if (axes.empty()) fail("an operand of a unit has another type than its buffer " + buffer.name);
  if (buffer.space == kernel::Space::registers || o.strides.size() != axes.size())
    fail("the unit " + s.unit + " takes its operands from memory");
  int64_t run = 1;
  for (size_t d = axes.size(); d-- > 1;) {
    if (!resolve(o.strides[d]).is_constant(run))
      fail(fmt::format("the rows that the unit {} takes from {} are not contiguous", s.unit, buffer.name));
    run *= unit.extent(axes[d]);
  }
  return {o.buffer, resolve(o.offset), resolve(o.strides[0])};
}

void Emitter::move_tile(const char* intrinsic, int tile, const TileAddress& at) {
  const int bytes = bits(kernel_.buffers[at.buffer].dtype) / 8;
  Value* first = address(at.buffer, at.offset, bytes);
  Value* step = b_.CreateNSWMul(scalar_index(at.rows), i64(bytes));
  call_intrinsic(intrinsic, b_.getVoidTy(), {b_.getInt8(static_cast<uint8_t>(tile)), first, step});
}

/// The register that holds an operand, loaded unless this trip has it already.
int Emitter::tile_operand(const TileAddress& at, int operand) {
  const int first = accumulator_tiles + operand_tiles * (operand - 1);
  std::vector<int> in_use;
  for (const LoadedTile& loaded : loaded_tiles_) {
    if (loaded.at == at && loaded.tile >= first && loaded.tile < first + operand_tiles) return loaded.tile;
    if (loaded.tile >= first && loaded.tile < first + operand_tiles) in_use.push_back(loaded.tile);
  }
  int tile = first;
  if (in_use.size() < operand_tiles) {
    while (std::ranges::find(in_use, tile) != in_use.end()) ++tile;
  } else { // the one that was loaded first
    tile = in_use.front();
    std::erase_if(loaded_tiles_, [&](const LoadedTile& loaded) { return loaded.tile == tile; });
  }
  move_tile("llvm.x86.tileloadd64", tile, at);
  loaded_tiles_.push_back({at, tile});
  return tile;
}

void Emitter::tile_unit(const kernel::UnitCall& s, const kernel::Unit& unit) {
  const TileAddress sum = tile_address(s, unit, 0);
  const auto kept = std::ranges::find(kept_tiles_, sum);
  const bool stays = kept != kept_tiles_.end();
  const int tile = stays ? static_cast<int>(kept - kept_tiles_.begin()) : 0;
  if (!stays) {
    if (!kept_tiles_.empty()) fail("an accumulator of the unit " + s.unit + " does not stay in its register");
    forget_tiles(); // memory may have changed since
    if (s.rows) set_tile_rows(s.rows);
    move_tile("llvm.x86.tileloadd64", tile, sum);
  }
  const int a = tile_operand(tile_address(s, unit, 1), 1), b = tile_operand(tile_address(s, unit, 2), 2);
  const char* step = unit.name == "amx.dpbf16"   ? "llvm.x86.tdpbf16ps"
                     : unit.name == "amx.dpbusd" ? "llvm.x86.tdpbusd"
                                                 : "llvm.x86.tdpbssd";
  const auto number = [&](int x) { return b_.getInt8(static_cast<uint8_t>(x)); };
  call_intrinsic(step, b_.getVoidTy(), {number(tile), number(a), number(b)});
  if (!stays) move_tile("llvm.x86.tilestored64", tile, sum);
  if (!stays && s.rows) set_tile_rows({});
}

/// The accumulators of a loop that does nothing but steps of tile units, of as many rows each: they stay in
/// tile registers.
Emitter::KeptTiles Emitter::tile_accumulators(const kernel::Loop& s) {
  KeptTiles kept;
  std::vector<TileAddress>& tiles = kept.tiles;
  ExprMap<Expr> fixed;       // variables of unrolled loops
  std::vector<Expr> varying; // of those that are run
  const auto walk = [&](const auto& self, const kernel::Stmt& stmt) -> bool {
    if (const auto* call = stmt.as<kernel::UnitCall>()) {
      const auto unit = kernel::find_unit(call->unit, kernel_.lanes);
      if (!unit || !unit->tiles) return false;
      TileAddress at = tile_address(*call, *unit, 0);
      if (kernel_.buffers[at.buffer].space != kernel::Space::local) return false;
      at.offset = resolve(substitute(at.offset, fixed));
      at.rows = resolve(substitute(at.rows, fixed));
      if (std::ranges::any_of(varying, [&](Expr v) {
            return depends_on(at.offset, v) || depends_on(at.rows, v) ||
                   (call->rows && depends_on(*call->rows, v));
          }))
        return false;
      if (!tiles.empty() && kept.rows != call->rows) return false;
      kept.rows = call->rows;
      if (std::ranges::find(tiles, at) == tiles.end()) tiles.push_back(at);
      return tiles.size() <= accumulator_tiles;
    }
    if (stmt.is<kernel::Prefetch>()) return true;
    const auto* loop = stmt.as<kernel::Loop>();
    if (!loop) return false;
    const auto inside = [&] {
      return std::ranges::all_of(loop->body,
                                 [&](const kernel::StmtRef& inner) { return self(self, *inner); });
    };
    if (loop->kind == LoopKind::serial) {
      varying.push_back(loop->variable);
      return inside();
    }
    const Expr begin = resolve(loop->begin), end = resolve(loop->end);
    if (loop->kind != LoopKind::unrolled || !begin.is_constant() || !end.is_constant() ||
        end.value() - begin.value() > most_unrolled)
      return false;
    for (int64_t i = begin.value(); i < end.value(); ++i) {
      fixed[loop->variable] = i;
      if (!inside()) return false;
    }
    fixed.erase(loop->variable);
    return true;
  };
  varying.push_back(s.variable);
  const bool only_units =
      std::ranges::all_of(s.body, [&](const kernel::StmtRef& inner) { return walk(walk, *inner); });
  return only_units ? kept : KeptTiles();
}

/// Are the accumulators of the statement after this one, a loop around steps of tile units, zeros that this
/// one stores? Then their registers are set to zero before the loop, and what the loop stores need not be
/// stored here.
bool Emitter::zeros_of_tiles(const kernel::Body& statements, size_t i) {
  const auto* loop = i + 1 < statements.size() ? statements[i + 1]->as<kernel::Loop>() : nullptr;
  if (!uses_tiles_ || !kept_tiles_.empty() || !loop || loop->kind != LoopKind::serial ||
      prove(lt(resolve(loop->begin), resolve(loop->end))) != Truth::yes)
    return false;
  const std::optional<Zeros> zeros = zeroed(*statements[i], [&](Expr e) { return resolve(e); });
  if (!zeros) return false;
  std::set<int64_t> rest = zeros->elements;
  const std::vector<TileAddress> tiles = tile_accumulators(*loop).tiles;
  for (const TileAddress& tile : tiles) {
    if (tile.buffer != zeros->buffer || !tile.offset.is_constant() || !tile.rows.is_constant()) return false;
    for (int64_t row = 0; row < tile_rows; ++row)
      for (int64_t column = 0; column < tile_rows; ++column) {
        const int64_t element = tile.offset.value() + row * tile.rows.value() + column;
        if (!zeros->elements.contains(element)) return false;
        rest.erase(element);
      }
  }
  tiles_begin_from_zero_ = !tiles.empty();
  return tiles_begin_from_zero_ && rest.empty();
}

/// A loop around steps of tile units: their accumulators are loaded before it and stored behind it.
void Emitter::loop_of_tiles(const kernel::Loop& s) {
  const bool opens = uses_tiles_ && s.kind == LoopKind::serial && kept_tiles_.empty();
  const auto [kept, rows] = opens ? tile_accumulators(s) : KeptTiles();
  if (rows) set_tile_rows(rows);
  const auto move_all = [&](const char* intrinsic) {
    for (size_t i = 0; i < kept.size(); ++i) move_tile(intrinsic, static_cast<int>(i), kept[i]);
  };
  if (std::exchange(tiles_begin_from_zero_, false))
    for (size_t i = 0; i < kept.size(); ++i)
      call_intrinsic("llvm.x86.tilezero", b_.getVoidTy(), {b_.getInt8(static_cast<uint8_t>(i))});
  else
    move_all("llvm.x86.tileloadd64");
  if (opens) kept_tiles_ = kept;
  loop(s);
  if (opens) kept_tiles_.clear();
  move_all("llvm.x86.tilestored64");
  if (rows) set_tile_rows({});
}

} // namespace luminal::codegen
