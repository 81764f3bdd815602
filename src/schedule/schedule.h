// schedule/schedule.h -- a schedule: plain data, a list of directives on named loops of named
// stages and on named values. One directive a line of text.
//
//   split STAGE LOOP OUTER INNER FACTOR any factor; a remainder gets its own body
//   order STAGE LOOP...                 names every loop of the stage, outermost first
//   merge STAGE OUTER INNER NAME        two neighbouring loops become one
//   parallel STAGE LOOP [LEVEL]         distributes the iterations: level 0 over workers (threads,
//                                       blocks), level 1 over the lanes of a group, ...
//   vector|unroll STAGE LOOP...         lanes (a power of two: with fewer trips the last lanes are
//                                       idle); bodies written out one after the other (register tiles)
//   jam STAGE LOOP COUNT                COUNT bodies in each trip of a serial loop
//   at STAGE LOOP                       the stage runs inside LOOP of the nest that is open before it
//                                       (compute_at); root: a nest of its own
//   store VALUE LOOP DIM... [in SPACE]  the storage of VALUE begins a new life in each trip of LOOP
//                                       (store_at); DIM: axis[/N|%N|+PAD]; SPACE: shared, local
//   stage VALUE COPY [AXIS...]          readers read a packed copy, a stage; these axes are one dimension
//   padded_copy VALUE COPY [AXIS SIZE]  readers read a zero-padded copy (halo) of all that windows
//                                       reach; one for each SIZE elements of AXIS (AXIS.b, AXIS.r)
//   materialize NODE VALUE              a map that is inlined at its readers becomes a stage and a
//                                       value of its own; where VALUE is an output that a map makes of
//                                       the same formula, later readers read that
//   inline VALUE                        the inverse: readers compute a value that is a plain map
//   fuse STAGE NEXT                     one nest with the results of both; a fold and the maps on its
//                                       results become one stage (epilogue)
//   cascade STAGE LOOP                  a tuple fold returns to plain folds inside each trip of LOOP:
//                                       see cascade.cpp; plain folds carry their states in scratch from
//                                       trip to trip, and write results at the end
//   before STAGE NEXT                   the stage moves in front of NEXT, an earlier one that it does not
//                                       read: a copy that all tiles share is made before their loop
//   rolling STAGE                       of a scan the results for one element of its axis are kept:
//                                       stages that read them, at that element only, run in the loop
//                                       along it. Before all splits
//   split_reduction STAGE AXIS [TREE] COUNT [BLOCK]
//                                       partial states of COUNT parts in scratch, combined by the stage
//                                       STAGE.combine in a fixed order (TREE: serial, pairs); parts are
//                                       contiguous, or distributed in blocks of BLOCK
//   predicate_split LOOP                full, partial and empty tiles of the domains below LOOP
//   predicate_bound STAGE LOOP          the loop ends where the domain of the fold does; a serial one of
//                                       a sum does not run where no result is read
//   prefetch STAGE VALUE LOOP [[ALL] INNER] DISTANCE
//                                       touches what LOOP will read or write of VALUE DISTANCE trips
//                                       later; each trip of INNER a share, the trips of ALL together
//                                       each line once (both of any stage in LOOP)
//   stream VALUE                        an output of the kernel is written past the caches
//   unit STAGE DESCRIPTOR [COPY [COPY]] the dot instruction (loop/unit.h) that computes the sum, on
//                                       operands packed along K in words of several elements; a sum of
//                                       few steps becomes a plain map. The axis that it takes in words
//                                       is called AXIS.words. An operand that is not packed so is
//                                       packed by a new stage COPY; zeros fill the last word of an
//                                       axis. A unit with tile registers may read the operand along
//                                       which the results are contiguous from a COPY
//   unit_of_values STAGE DESCRIPTOR COPY [COPY]
//                                       the same, but a COPY holds the value that an operand reads,
//                                       each element once: windows of it are read from there
//   matrix STAGE COPY SIZE              copies the operand along which the results of a sum of products are
//                                       contiguous: a row for each point of the sum, a column for each
//                                       place of the results that it alone varies with. The sum goes over
//                                       COPY.k in the order of the other operand, its results along COPY.n,
//                                       filled up to a multiple of SIZE by zeros. Before all splits
//   block_mask STAGE MASK AXIS... SIZE...
//                                       stage MASK finds in which blocks of so many elements a condition
//                                       of data lets any count; others make a tuple its identity. A
//                                       cascade of STAGE leaves out their tiles. Before all splits
//   serial POINTS [WORKERS]             a launch of at most POINTS points runs on at most WORKERS
//                                       workers, or on one; of several such directives the least number
//                                       of workers counts
//   segments STAGE AXIS [1|2]           index-set splitting: a map is split along a constant axis where
//                                       its index expressions change (with 1: where its conditions
//                                       change): stages STAGE.p0, ... over axes AXIS.p0, ..., each
//                                       without what never happens there; with 2: the parts, of one
//                                       length, are results of one body, which computes once what they
//                                       share, over AXIS.part. Before all splits
//   split_at STAGE AXIS COUNT           two stages STAGE.p0 and STAGE.p1, of the first COUNT elements
//                                       of a constant axis (of a fold: one that it keeps) and of the
//                                       rest, over axes AXIS.p0 and AXIS.p1. Before all splits
//   operand STAGE AXIS VALUE            of the two factors that a sum of products multiplies, the one
//                                       that does not vary with AXIS becomes a stage and a value of its
//                                       own (a weight that is unpacked once for many rows)
//   from AXIS COUNT                     begins another version, from the cone as it was, which runs
//                                       where AXIS has at least COUNT elements: what stands before it
//                                       is for fewer. One kernel holds all versions
//   lanes STAGE LOOP...                 the trips of these loops go to the lanes of a group (the
//                                       threads of a block), outermost loop first: lane = the place in
//                                       all of them. Every stage runs in one parallel loop, whose trips
//                                       are the groups; what a stage stores for later ones lies in the
//                                       group's memory; lanes that reduce are combined by a tree
//   group_copy STAGE VALUE LOOP [TILES] in each trip of LOOP, which all lanes run together, they copy
//                                       what STAGE reads of VALUE there into the group's memory; with
//                                       TILES into one of so many, TILES - 1 trips ahead
//   lane_unit STAGE DESCRIPTOR M N K    neighbouring lanes, inside of those of `lanes`, do the trips of
//                                       M, N and K together: the unit of several lanes (loop/unit.h)
//                                       that computes the sum of products, on copies of its operands
//   blocked_sum STAGE LOOP COUNT        every COUNT trips of LOOP, a serial loop of the sum, begin from
//                                       the identity, and their sum is added to that of the trips
//                                       before: errors grow with COUNT plus the number of blocks. COUNT
//                                       is 1 where the sum goes on in memory (LOOP is outside of the
//                                       register tile)
//   unfold STAGE                        a fold over a few points becomes a map that combines them one
//                                       after the other; conditions of its domain become choices
//   roles STAGE LOOP DEPTH              producers fill a ring of DEPTH tiles for consumers; on a CPU
//                                       the parts run one after the other
//
// Where a directive says so, STAGE may be *: every stage that has the loop. Loops start as the axes
// of the stage, by name. Directives act in order. Earlier names of directives (frame, pieces, cut)
// are still read.
#pragma once
#include "base/result.h"
#include "cone/cone.h"
#include <string>
#include <string_view>
#include <vector>

namespace luminal::kernel {

enum class DirectiveKind : uint8_t {
  split,
  order,
  merge,
  parallel,
  vector,
  unroll,
  jam,
  at,
  store,
  stage,
  materialize,
  inline_,
  fuse,
  cascade,
  split_reduction,
  predicate_split,
  predicate_bound,
  prefetch,
  stream,
  unit,
  unit_of_values,
  matrix,
  roles,
  serial,
  segments,
  padded_copy,
  split_at,
  operand,
  from,
  before,
  rolling,
  lanes,
  group_copy,
  lane_unit,
  unfold,
  blocked_sum,
  block_mask
};

/// kind, and what stands on the line: words in order, numbers apart.
struct Directive {
  DirectiveKind kind;
  std::vector<std::string> words;
  std::vector<int64_t> numbers;
  bool operator==(const Directive&) const = default;
};

struct Schedule {
  std::vector<Directive> directives;
  bool operator==(const Schedule&) const = default;
  void add(DirectiveKind kind, std::vector<std::string> words, std::vector<int64_t> numbers = {});
};

std::string to_string(const Directive& directive);
std::string to_string(const Schedule& schedule);
/// Throws Error "file:line:column: ..." for what is not a directive; whether it is legal is for
/// `lower` to say.
Schedule parse_schedule(std::string_view text, std::string_view file_name = "<schedule>");
uint64_t structural_hash(const Schedule& schedule);

} // namespace luminal::kernel
