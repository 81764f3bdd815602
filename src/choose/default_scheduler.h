// choose/default_scheduler.h -- private: the state of default_schedule, shared by its files.
#pragma once
#include "choose/axis_use.h"
#include "choose/blocking.h"
#include "choose/decisions.h"
#include "choose/default_schedule.h"
#include <array>

namespace luminal::kernel {

struct Unit;

struct WindowedProduct; // choose_windows.h

inline int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

constexpr StageId first_stage(0);

class DefaultScheduler {
public:
  DefaultScheduler(const Cone& cone, const MachineLimits& limits, Decisions& decisions)
      : original_(cone), nests_(cone), limits_(limits), decisions_(decisions) {}
  Schedule run(Fallback fallback);
  /// Instead of `run`: for at least so many rows, of the axis (choose_rows.cpp). Nothing where the
  /// cone is not a product with transposed weights.
  struct ForRows {
    Schedule schedule;
    std::string axis;
    int64_t fewest = 0; // rows_on_tiles()
  };
  std::optional<ForRows> many_rows(int64_t fewest);
  /// Instead of `run`: products on tile registers (choose_units.cpp), for at least `fewest` rows of an axis
  /// of no known extent. An empty axis: always.
  std::optional<ForRows> rows_on_tiles();
  /// Instead of `run`: for one row of the axis. Nothing where that is not another schedule.
  std::optional<ForRows> one_row();
  /// Instead of `run`: for fewer than `most` elements along the lanes of a tuple fold's tiles.
  /// Nothing where there are never so few.
  std::optional<ForRows> few_lanes(int64_t most);
  /// Does a unit with tile registers do some of its sums?
  static bool takes_tiles(const Schedule& schedule);
  /// The same machine without such units.
  static MachineLimits without_tiles(MachineLimits limits);

private:
  /// Adds a directive that is legal by construction; try_add: one that may be refused.
  void add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {});
  bool try_add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {});
  std::pair<std::string, std::string> split(StageId s, const std::string& loop, int64_t factor);
  /// What can be taken back as a whole.
  struct Attempt {
    Nests nests;
    size_t directives;
  };
  Attempt begin() const { return {nests_, schedule_.directives.size()}; }
  void undo(Attempt attempt) {
    nests_ = std::move(attempt.nests);
    schedule_.directives.resize(attempt.directives);
  }
  const ConeAxis& axis_at(AxisId axis) const { return nests_.cone.axes[axis]; }
  const ConeValue& value_at(ValueId value) const { return nests_.cone.values[value]; }
  const Stage& stage(StageId s) const { return nests_.cone.stages[s]; }
  const StageNest& nest(StageId s) const { return nests_.stages[s]; }
  int64_t trips(const StageLoop& l) const; // at most
  int64_t ask(StageId s, const char* what, int64_t usual, std::vector<int64_t> options) {
    return decisions_.ask(stage(s).name + "." + what, usual, std::move(options));
  }
  bool loop_reduces(StageId s, const StageLoop& l) const;

  // Axes cut where the index expressions change (choose_segments.cpp).
  void cut_into_segments();
  bool worth_segments(StageId s, const ConeAxis& axis, bool conditions_only) const;
  bool one_body(StageId s, const ConeAxis& axis, bool shares = true);
  bool rows_in_one_body(StageId s, const ConeAxis& axis);
  bool lies_along(StageId s, const ConeAxis& axis) const;
  void elements_in_one_body();
  void units(bool copies = true);
  bool copied_words(const std::string& name, const std::string& unit, bool windows);
  bool overlapping_words(StageId s) const;
  AxisId columns_apart(StageId s) const;
  bool sum_of_few_words(StageId s) const;
  bool words_of_sum(const std::string& name, const std::string& unit, bool windows, bool moves);
  bool pays_for_words(StageId s, bool windows) const;
  void words_in_runs(const WindowedProduct& product);
  bool words_of_values(const std::string& name, const std::string& unit);
  bool is_image(const WindowedProduct& product) const;
  bool has_panels(StageId s, const WindowedProduct& product) const;
  bool lies_beside(StageId s, const WindowedProduct& product) const;
  static bool is_tile_unit(const std::string& unit);
  bool words_in_tiles(const std::string& name, const std::string& unit, int copies,
                      const std::string& framed = {});
  bool frame_in_tiles(const std::string& name, const std::string& unit);
  void transpose_rows(StageId s);
  bool matrix_in_tiles(const std::string& name, const std::string& unit);
  bool on_tiles(StageId s) const; // a unit with tile registers does its sum
  bool copies_words(StageId s) const;
  void cascades();
  // Tuple folds in tiles of their reduction (choose_cascade.cpp).
  struct Tuple {
    StageId stage;                  // the first of `folds`
    std::vector<std::string> folds; // the tuple, or plain folds over computed operands
    AxisId reduced, wide, lanes;    // wide: only some components have it
    std::vector<AxisId> common;     // kept axes of all stages, but for the lanes'
  };
  struct TileLoops {
    std::string blocks, vectors, lanes, tiles; // of the lanes' axis; of the reduced one
  };
  std::optional<Tuple> tuple() const;
  std::vector<std::pair<std::string, std::vector<std::string>>> copies_for(const Tuple& tuple);
  bool lies_across(const FormulaLoad& f, const Tuple& t) const;
  void transpose_tiles(const Tuple& t);
  std::set<std::string> transposed_; // copies of tiles, made in the loops of what reads them
  struct TupleTile {
    int64_t vectors, rows, block; // block: steps of the reduction
  };
  TupleTile tuple_tile(const Tuple& t);
  void store_tiles(const Tuple& t,
                   const std::vector<std::pair<std::string, std::vector<std::string>>>& copies,
                   const TileLoops& loops, AxisId words);
  void finish_sums(const Tuple& tuple);
  std::string mask_blocks(const Tuple& tuple);
  std::string block_mask_; // the stage that finds which tiles count, in a nest of its own; or none
  bool cascade_tiles();
  struct WordProduct {
    AxisId axis;         // of the words
    bool copies = false; // the first stage copies the second operand
    bool inside = false; // in the loops that all stages share
  };
  WordProduct product_in_words(const Tuple& tuple, const TileLoops& loops, int64_t vectors, bool enough);
  struct Far {                       // what a stage touches in memory that no other block does
    std::string stage, value, inner; // its loop for that
    bool written = false;
  };
  Far tile_stage(StageId s, const Tuple& tuple, const TileLoops& loops, int64_t rows);
  void prefetch_tiles(const std::vector<Far>& far, const TileLoops& loops, int64_t rows);
  // Blocks that stages share (choose_nest.cpp).
  std::optional<Tuple> folds_of_products() const;
  bool read_again(StageId s, AxisId reduced, AxisId axis) const;
  void keep_weights(const Tuple& tuple);
  void copies_first(const Tuple& tuple,
                    const std::vector<std::pair<std::string, std::vector<std::string>>>& copies);
  void tiles_together(const std::string& tiles);
  Result<Blocking> row_statistic();
  void add_directives(const Blocking& blocking);
  bool statistic_tiles();
  // Folds with constant matrices (choose_transforms.cpp).
  AxisId matrix_axis(StageId s) const;
  bool transforms();
  void transform_loops(StageId s, const std::vector<std::string>& common);
  void blocks_of_rows(std::vector<std::string>& common);
  Result<std::vector<std::string>> rolled_scans();
  // Weights that pass by once for few rows (choose_streams.cpp).
  struct ColumnStream {
    AxisId columns, depth;    // of the results side by side, of the sum
    std::vector<AxisId> rows; // the other kept axes
    int64_t all_rows = 1;
    std::string one_of; // one_row() is running: the axis of which there is one row
    ValueId weight;
  };
  Result<ColumnStream> column_stream(StageId s) const;
  StageId maps_behind(StageId s, StageId end, const ColumnStream& stream) const;
  void find_column_streams();
  void column_stream_loops(StageId s);
  // Sums of many elements into few results, and errors of long ones (choose_sums.cpp).
  struct LongSum {
    AxisId axis;            // of the sum
    int64_t parts = 1;      // that are summed by themselves
    int64_t neighbours = 1; // elements of the axis beside each other that fill the lanes together
    std::string columns;    // the loop that is contiguous with them; empty: the sum's own
  };
  Result<LongSum> long_sum(StageId s) const;
  bool sum_in_parts();
  void blocked_sums(StageId s);
  void skip_hidden_tiles(StageId s);
  void read_results();
  bool read_together(const std::vector<std::string>& stages) const;
  bool products_apart(const std::vector<std::string>& stages) const;
  void epilogues();
  void windows();
  bool copy_windows(StageId s, const WindowedProduct& p, bool across);
  bool copy_padded(StageId s, const WindowedProduct& product, bool across);
  bool images_inside(StageId s, const WindowedProduct& product, int64_t bytes);
  AxisId run_of_reader(StageId s) const;
  bool lanes_by_copy(StageId s);
  bool sums_rows(const WindowedProduct& product) const;
  bool sums_rows_of_groups(const WindowedProduct& product) const;
  bool along_rows(StageId s, const WindowedProduct& product) const;
  void whole_copy(const WindowedProduct& product, int64_t apart = 1);
  static constexpr int64_t fewest_transposed = 16; // rows that pay for transposing what they share
  // Products with an operand that is transposed as panels of it are copied (choose_transposed.cpp).
  struct OperandLoops {
    std::array<const FormulaLoad*, 2> loads;
    std::array<std::vector<Expr>, 2> index;
    std::vector<StageLoop> depth;
    std::array<std::vector<StageLoop>, 2> kept; // that one operand varies with, and the other one does not
    bool contiguous(const Cone& cone, int load, const StageLoop& l) const;
  };
  std::optional<OperandLoops> operand_loops(StageId s, const std::vector<std::string>& common) const;
  bool lanes_of_channels(StageId s, const std::vector<std::string>& common);
  struct PanelProduct {
    StageLoop columns;           // along which the panels' operand alone moves, and
    AxisId axis;                 // their axis
    const FormulaLoad* load;     // of that operand
    std::vector<StageLoop> rows; // along which the other one moves
    int64_t uses = 1, deep = 1;  // rows; elements of the sum
  };
  struct PanelTile {               // of registers
    int64_t vectors = 1, part = 1; // part: of the next loop of rows
    size_t whole = 0;              // of the inner loops of rows
    double cost = 0;               // 0: none fits
  };
  struct PanelLoops {
    std::string copy, panels, vectors, lanes; // the stage of the copy, loops
  };
  std::optional<PanelProduct> panel_product(StageId s, const std::vector<std::string>& common) const;
  PanelTile panel_tile(const PanelProduct& p) const;
  bool copy_panels(StageId& s, const PanelProduct& p, int64_t columns, PanelLoops& l);
  bool transposed_panels(StageId s, const std::vector<std::string>& common);
  bool computed_again(StageId s, const Formula& f) const;
  void keep_costly(); // what several stages would compute again and again
  std::vector<std::string> common_loops();
  bool takes_lanes(const std::vector<std::string>& common) const;
  void lanes_of_common(std::vector<std::string>& common);
  void streams();
  void sums_inside(StageId s);
  std::pair<int64_t, int64_t> bytes_read(StageId s, ValueId value, const std::string& loop);
  std::string innermost(StageId s) const;
  void prefetch_value(StageId s, ValueId value, const std::vector<std::string>& loops, int64_t usual,
                      std::vector<int64_t> options);
  void prefetch_reads(const std::string& shared);
  bool reads_fields(StageId s) const;
  void prefetch_stream(StageId s, const std::string& lanes, const std::vector<std::string>& reduced,
                       bool row);

  // ---- one stage (choose_loops.cpp, choose_tiles.cpp) ----
  void loops(StageId s, const std::vector<std::string>& common);
  void split_blocks(StageId s, const std::vector<std::string>& common, bool uneven = false);
  void split_panels(StageId s);
  void merge_neighbours(StageId s, const std::vector<std::string>& common = {});
  std::optional<std::string> vector_loop(StageId s, const std::vector<std::string>& common);
  std::optional<std::string> lanes_apart(StageId s, const std::vector<std::string>& common);
  std::string strided_lanes(StageId s) const;
  bool deinterleaved(StageId s, const std::vector<std::string>& common);
  bool uneven_blocks(StageId s, const std::vector<std::string>& common);
  bool lines_at_once(StageId s, const std::vector<std::string>& common);
  bool few_rows_transposed(StageId s, const std::vector<std::string>& common);
  bool transposed(StageId s, const std::vector<std::string>& common);
  // Elements that share what they compute (choose_shared.cpp).
  bool blocks_in_lanes(StageId s, const std::vector<std::string>& common);
  // Large matrix products (choose_matmul.cpp).
  bool matmul(StageId s, const std::vector<std::string>& common);
  bool product_of_any_size(StageId s);
  int64_t prefetch_batches(StageId s, const std::vector<ValueId>& values, const std::string& batch,
                           const std::string& inner);
  void next_batches(const std::string& batch);
  std::vector<ValueId> inputs_of(StageId s) const;
  void prefetch_results(StageId s, const std::string& tiles);
  // sum of a product of two loads; one of them, the panels, is contiguous along n, the other does
  // not move there
  struct Product {
    std::string m, n;
    std::vector<std::string> depth;     // summed loops
    std::vector<std::string> sums;      // on tiles: those around the loop over words, the only one of `depth`
    std::vector<std::string> more_rows; // along which only the other operand moves
    std::vector<std::string> outer;     // all other loops that are kept: batches
    std::vector<std::string> joint;     // axes of which n is one run, where it is not one of them
    std::string panels; // the loop over the panels where the operand is made of them; n runs inside of one
    int64_t rows = 0, columns = 0, deep = 1;
    ValueId value, other;               // the panels, the other operand
    bool packable = false, open = true; // open: nothing happens to the finished sums
    bool cut = false;                   // a domain leaves points of the sum out
    bool across = false;                // the results are not contiguous along n
    // Nor is the operand: its rows are contiguous along the sum, and it is transposed as it is copied.
    bool transposed = false;
    bool any_size = false; // how many rows or columns there are is not known
  };
  struct ProductBlocks {
    bool small = false;       // in batches that the first caches hold
    bool reads_words = false; // of a copy, which in_words makes panels of
    bool in_words = false;
    bool tiled = false; // rows and vectors of two by two tiles of a unit
    bool once = false;  // a tile has all rows
    bool pack = false, by_rows = false;
    bool divisible = false;                  // the sum in parts
    int64_t rows = 0, vectors = 0;           // of a register tile
    int64_t columns = 0, all_columns = 0;    // of a panel, of all
    int64_t of_panels = 0;                   // bytes
    int64_t share = 0, depth = 0, block = 0; // columns, steps of the sum, rows
    std::string outer_parallel;              // what workers share, where it is not columns or rows
  };
  struct ProductLoops { // blocks, panels or tiles, vectors, lanes; inner_depth and chunk: of the sum
    std::string nc, np, nv, nlane, kc, ki, mc, mt, mi;
    std::string copy; // the stage, where there is one
    std::vector<std::string> inner_depth, chunk, outer;
    bool words_follow = false; // those of the copy are contiguous along the sum
  };
  void merge_rows(StageId s);
  std::string axis_in_loop(StageId s, const std::string& loop) const;
  struct TilePanels { // loops; of `count` panels, of words of the sum, of at most so many rows
    std::string rows, panels, words, lanes;
    ValueId value;                   // the operand that lies in panels
    std::vector<std::string> single; // of one trip
    int64_t count = 0, deep = 0, most_rows = 0;
    bool open = true; // nothing happens to the finished sums: they may go on in memory
  };
  std::optional<TilePanels> tile_panels(StageId s, const Unit& tile) const;
  void panels_on_tiles(StageId s, const TilePanels& p, const Unit& tile);
  bool panels_in_tiles(const std::string& name, const std::string& unit);
  std::string words_of_tiles(const Product& p) const;
  void note_tile_rows(StageId s, ValueId columns);
  std::optional<ProductBlocks> worth_blocks(StageId s, const Product& p,
                                            const std::vector<std::string>& common);
  void tile_product(StageId s, Product& p, ProductBlocks& b, const std::vector<std::string>& common);
  void cache_blocks(StageId s, const Product& p, ProductBlocks& b, const std::vector<std::string>& common);
  ProductLoops split_product(StageId& s, Product& p, const ProductBlocks& b);
  void order_loops(const std::string& stage_name, std::initializer_list<std::vector<std::string>> loops);
  void pack_product(StageId s, const Product& p, const ProductBlocks& b, const ProductLoops& l,
                    const std::vector<std::string>& common);
  void prefetch_product(StageId s, const Product& p, const ProductBlocks& b, const ProductLoops& l,
                        const std::vector<std::string>& common);
  std::vector<const Formula*> factors(StageId s) const;
  std::optional<Product> product(StageId s, const std::vector<std::string>& common) const;
  // Products with what copy_padded() copied (choose_padded.cpp).
  struct PaddedProduct {
    std::string panel, nv, lane, mt, mi; // loops: panels, their vectors, lanes; tiles, columns of a tile
    std::string row, rt, ri;         // rows of an image, their tiles, rows of a tile; empty: there is one row
    std::vector<std::string> images; // loops outside of the rows
    int64_t vectors = 1, panels = 1, tile_rows = 1, tile_columns = 1;
    Expr domain, column; // over loops; the loop over columns before it was split
  };
  PaddedProduct padded_panels(StageId s, const Product& p);
  bool cuts_windows(const PaddedProduct& t, Expr loop) const;
  void split_padded_tile(StageId s, const Product& p, PaddedProduct& t);
  void order_padded(StageId s, const Product& p, const PaddedProduct& t,
                    const std::vector<std::string>& common);
  bool too_many_sums(StageId s, const PaddedProduct& t, const StageLoop& window) const;
  void write_out_windows(StageId s, const Product& p, const PaddedProduct& t);
  bool padded_tile(StageId s, const std::vector<std::string>& common);
  void prefetch_tiles(StageId s, ValueId value, const std::string& tiles, const std::string& inner);
  void prefetch_panels(StageId s, const Product& p, const std::string& panels, const std::string& depth);
  void prefetch_next_panel(StageId s, ValueId value, const std::string& panels, const std::string& inner);
  void columns_apart();
  bool columns_apart_tile(StageId s, const std::vector<std::string>& common);
  bool words_follow(StageId s, const std::string& loop) const;
  static bool of_small(const Product& p); // matrices that the first caches hold
  static double tile_cost(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns,
                          int64_t vectors, bool streamed = false);
  bool tile_fits(int64_t rows, int64_t vectors) const;
  int64_t rows_in_sets(const Product& p) const;
  std::vector<std::string> axes_of_run(StageId s, const FormulaLoad& load, const StageLoop& l) const;
  std::string joint_dimension(const std::string& copy) const;
  bool panels_pay(const Product& p, int64_t few_rows) const;
  std::pair<int64_t, int64_t> register_tile(StageId s, int64_t rows, int64_t columns, double parts_cost,
                                            bool streamed);
  // Products of many rows with weights whose rows run along the sum (choose_rows.cpp).
  struct RowProduct {
    StageId stage;
    AxisId m, n, k;
    ValueId x, w; // w: where the weight is read as it lies
    bool plain = false;
    std::vector<int64_t> blocks; // of the sum
  };
  enum class ByPanel { no, parts, whole }; // of the sum in each panel
  struct RowLoops {                        // names of axes and of the loops that they are split into
    std::string nname, mname, nc, nn, np, ni, nv, nl, mc, mm, mt, mi;
    int64_t share; // columns
    ByPanel by;
  };
  int64_t block_of_panels(const RowProduct& p) const {
    return p.blocks.empty() ? limits_.lanes : std::max<int64_t>(p.blocks.back(), limits_.lanes);
  }
  int64_t depth_of_panels(const RowProduct& p) const;
  int64_t rows_of_panels(int64_t depth) const;
  ByPanel by_panel(const std::vector<RowProduct>& products) const;
  std::optional<RowProduct> row_product(StageId s) const;
  std::vector<RowProduct> row_products(int64_t fewest, StageId& map) const;
  int64_t panel_columns() const { return (limits_.vector_registers >= 32 ? 4 : 2) * limits_.lanes; }
  void panels_of_rows(const RowProduct& p, const std::string& name, const RowLoops& r, bool first);
  std::optional<std::string> row_panels(int64_t fewest);
  struct Tile {
    std::vector<std::string> unrolled; // in order
    std::vector<std::string> jammed;
    // Of a tile with rows on both sides: the rows of one side run over all tiles of the other while
    // a block of those stays in the second cache.
    std::string outer, inner, blocks;
    std::string parts;     // of the sum, outside of the rows that all go through one after the other
    bool streamed = false; // what varies with `outer` comes from memory
    // parts of the rows, far from each other, between which the sum goes forward and backward by
    // turns
    std::string far;
    int64_t row_bytes = 0; // of what varies with them
  };
  // The usual loops of a stage (choose_order.cpp).
  struct StageLoops {
    bool folds = false;
    std::optional<std::string> lanes;
    int64_t vectors = 1; // of lanes, at once
    Tile tile;
    std::vector<std::string> kept, reduced; // beside lanes, tile and common loops
  };
  bool choose_lanes(StageId s, const std::vector<std::string>& common, StageLoops& l);
  bool takes_turns(StageId s, const StageLoop& loop) const;
  void sort_loops(StageId s, const std::vector<std::string>& common, StageLoops& l);
  void order_stage(StageId s, const std::vector<std::string>& common, StageLoops& l);
  void write_out_reduced(StageId s, const StageLoops& l);
  void write_out_lanes(StageId s, const std::vector<std::string>& common, const StageLoops& l);
  void write_out_elements(StageId s, const std::vector<std::string>& common, const StageLoops& l);
  void share_out(StageId s, const std::vector<std::string>& common, const StageLoops& l);
  static bool transcendental(const Formula& f);
  int64_t vectors_at_once(StageId s, const std::string& loop, const std::vector<std::string>& common);
  std::string split_lanes(StageId s, const std::string& loop, int64_t vectors = 1);
  std::optional<std::string> gathered_lanes(StageId s, const std::vector<std::string>& common, Tile& tile);
  std::string rows_of_index(StageId s, const std::vector<std::string>& common) const;
  std::string few_rows(StageId s, const std::string& row, int64_t most);
  void updates_in_rows(StageId s, const std::vector<std::string>& common, Tile& tile);
  void scan_rows(StageId s, const std::vector<std::string>& common, Tile& tile);
  Tile choose_tile(StageId s, const std::string& lanes, const std::vector<std::string>& common);
  bool reads_windows(StageId s) const;
  bool reads_steps(StageId s, const std::string& lanes) const;
  void prefetch_windows(StageId s, const std::string& lanes, const std::string& tiles,
                        const std::string& inner);
  struct Row { // a kept loop along which one operand of a fold does not move
    std::string loop;
    int64_t trips;
    bool constant;
    int64_t bytes = 0;     // of what varies with it
    int64_t step = 0;      // bytes of that for each trip
    int loads = 0;         // loads that vary with it
    bool vectors = false;  // one of them varies with the lanes as well
    bool overlaps = false; // what it reads for one trip it reads in part for the next: windows
    int64_t shared = 0;    // bytes of what does not vary with it
    int values = 0;        // whose elements vary with it
    size_t inner = 0;      // of a number of trips that is not known: its place among the loops
  };
  std::vector<Row> rows_of(StageId s, const std::string& lanes, const std::vector<std::string>& common) const;
  void dot_tile(StageId s, const std::string& lanes, std::vector<Row> rows, int64_t budget, Tile& tile);
  void weight_tile(StageId s, const Row* other, const Row& vectors, int64_t budget, Tile& tile);
  bool sum_in_parts(StageId s, int64_t bytes, Tile& tile);
  void to_and_fro(StageId s, const Tile& tile, std::vector<std::string>& kept,
                  std::vector<std::string>& reduced);

  // Sums over blocks of sums within blocks (choose_blocks.cpp).
  struct BlockSums {
    // Loops: of both stages, summed by the outer one, summed by the inner one.
    std::vector<std::string> kept, blocks, within;
    std::string lanes, rows; // rows: the other operand's; empty where there is one
    int64_t steps = 1;       // of one block
  };
  std::optional<BlockSums> block_sums(StageId s) const;
  std::pair<std::string, std::string> split_both(StageId s, const std::string& loop, int64_t factor);
  void cut_at_blocks(StageId s, std::vector<std::string>& loops, bool shared);
  std::pair<std::string, int64_t> sum_chains(StageId s, BlockSums& b, int64_t width, int64_t budget);
  void jam_blocks(StageId s, const BlockSums& b, const std::vector<std::string>& part_blocks, int64_t width);
  void block_tiles(StageId s, BlockSums sums);
  void prefetch_blocks(StageId s, const BlockSums& sums, bool several_rows);

  const Cone& original_;
  Nests nests_;
  MachineLimits limits_;
  Decisions& decisions_;
  Schedule schedule_;
  Fallback fallback_ = Fallback::full;
  bool windowed_ = false; // windows() made a copy
  // of copies and their readers, by stage: the loops that they share
  std::map<std::string, std::vector<std::string>> block_loops_;
  // of segments, by stage: the loops around the cut
  std::map<std::string, std::vector<std::string>> piece_loops_;
  std::set<std::string> joined_; // segments that run in the loops of the segment before
  std::map<std::string, ValueId>
      padded_products_; // products of panels with what copy_padded() copied, and that value
  // columns_apart() made the product, a copy, and the product of that: the axes of its rows and of
  // the sum
  std::vector<std::string> apart_;
  std::set<std::string> batched_;                  // small products in the loops over all batches
  std::set<std::string> column_streams_;           // stages, by name
  std::set<std::string> row_sums_;                 // products whose lanes go along rows of the sum
  std::set<std::string> summed_;                   // whose loops sum_in_parts() chose
  std::string rolled_;                             // the loop along which scans keep one state
  StageId done_{0};                                // the last stage that matmul() scheduled
  bool one_row_ = false;                           // one_row() is running
  std::string row_axis_;                           // whose one row it found
  bool any_rows_ = false;                          // rows_on_tiles() is running: products have dynamic rows,
  int64_t tile_rows_ = 0;                          // known ones,
  std::string tile_axis_;                          // and those of this axis,
  int64_t tiles_from_ = 0;                         // from so many on
  static constexpr int64_t fewest_of_panels = 8;   // rows that tiles of panels pay for
  std::map<std::string, std::string> panel_units_; // by stage: what is multiplied by panels_on_tiles()
  std::set<std::string> transposed_rows_;          // stages of copies whose reads run across their words
  std::string few_axis_;                           // few_lanes() is running: the axis,
  int64_t few_ = 0;                                // and its elements at most
};

} // namespace luminal::kernel
