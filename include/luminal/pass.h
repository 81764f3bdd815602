// luminal/pass.h -- passes: named, composable rewrites of a module that never change a result.
//
// A pass works on terms (docs/terms.md), not on handles: a graph hands a copy of its terms to the
// passes when it is compiled, and kept values, states and inputs are found again by name. So every
// Tensor stays valid after any pass, and there is no list of handles to remap. docs/passes.md has
// examples.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct Module; // terms; see docs/terms.md

/// What a rewrite may change. `exact`: nothing, bit for bit (a NaN for a NaN). `reassoc`: the order
/// of sums and products of one accumulator type. `range`: it holds over the reals; intermediate
/// magnitudes, zeros' signs and last bits may differ. Each includes those before it.
enum class Numerics : uint8_t { exact, reassoc, range };

/// One row of a table of times: a pass, and the module before and after it.
struct PassTime {
  std::string name;
  double ms = 0;
  int64_t nodes_before = 0, nodes_after = 0;
  int64_t changes = 0; ///< nodes rewritten or removed
};
struct PassTable {
  std::vector<PassTime> rows;
  /// A line a row: name, time, nodes before and after, changes.
  std::string to_string() const;
};

/// A value: cheap to copy, immutable, may be used by several threads at once.
class Pass {
public:
  /// Edits the module in place and returns the number of changes; 0 only when nothing has changed.
  using Work = std::function<int64_t(Module&)>;
  /// `name`: letters, digits, `-`; it is what tables and the program's --passes show. Throws Error
  /// for another name.
  Pass(std::string name, std::string description, Work work);

  const std::string& name() const;
  const std::string& description() const;
  /// Throws Error where the pass refuses; the module is then of no further use.
  int64_t run(Module& module) const;
  /// The passes that a sequence runs; empty for others.
  const std::vector<Pass>& parts() const;
  friend bool operator==(const Pass& a, const Pass& b) { return a.data_ == b.data_; } ///< copies of one pass

private:
  struct Data;
  friend Pass sequence(std::vector<Pass> parts, std::string name);
  explicit Pass(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

/// One after the other.
Pass sequence(std::vector<Pass> parts, std::string name = "");
Pass operator|(const Pass& first, const Pass& second);
/// Again and again until nothing changes, at most `most` times.
Pass looped(const Pass& pass, int most = 16);
/// Appends a row to the table at each run; of a sequence, a row for each part. Not for several
/// threads at once.
Pass timed(const Pass& pass, std::shared_ptr<PassTable> table);
/// Verifies the module after the pass, and that its inputs, results, states and dimensions are as
/// before; throws Error that names the pass and the mistake.
Pass checked(const Pass& pass);
/// A pass of the user over the text form. The text that comes back is parsed and verified; inputs,
/// results and states must keep their names and types.
Pass text_pass(std::string name, std::string description,
               std::function<std::string(const std::string& module)> edit);

namespace passes {
/// Equal values become one: within a function, with commuted operands where that gives the same
/// bits, functions that are equal, results of a function that are.
Pass common_subexpressions();
/// What no result of the entry needs: nodes, functions, and results, parameters and carried values
/// of functions that are called or looped over.
Pass dead_code();
/// Values that depend on constants only are computed by the interpreter's own functions. No result
/// of more than `limit` elements is made.
Pass constants(int64_t limit = 4096);
/// x * 1, -(-x), min(x, inf), floor(round(x)), i * 0 ...; with `range` also x + 0, 1 / (1 / x),
/// log2(exp2(x)) ...
Pass arithmetic(Numerics allowed = Numerics::exact);
/// Folds over axes of extent 1 and of values that do not vary; folds of folds with one monoid
/// (floating sums and products of them: `reassoc`).
Pass reductions(Numerics allowed = Numerics::exact);
/// A view of a view is one view; a view that changes nothing goes; a view of an iota is an iota.
Pass views();
/// Nodes in an order of less memory; stays as it is where another order would not need less.
Pass depth_first();
/// The exact ones in one walk, then equal functions, then dead code: what Graph::compile runs
/// unless told otherwise.
Pass defaults();
/// Nothing.
Pass none();
} // namespace passes

/// Every pass that has a name: those above, and variants such as arithmetic-range.
const std::vector<Pass>& all_passes();
/// "views,arithmetic-range,dead-code". Throws Error that lists the names where one is unknown.
Pass parse_passes(std::string_view names);

/// Nodes of all functions.
int64_t node_count(const Module& module);
/// The most bytes of values alive at once, dynamic dimensions at their greatest, in the order of
/// the nodes: an estimate that compares orders. Views, casts and constants take nothing.
double peak_bytes(const Module& module);

} // namespace luminal
