// rules/batch_axes.h -- batches of cascades: axes that get dimensions of their own.
//
// A batched product has its batches in one dimension, where a value that is read or asked for has them
// in several. What rules make of such values would have stages without a common loop: [b] in one,
// [i, j] in another.
#pragma once
#include "rules/region_terms.h"
#include <functional>

namespace luminal::rules {

/// Of the chosen terms with a fold or scan of a tuple: the axes that nothing folds or scans, that both
/// factors of each product that is summed have or both lack, and that are a dimension in one of the forms.
/// None without such a tuple. `axes_of`: of the term that is chosen for a class.
AxisSet batch_axes(RegionTerms& terms, std::span<const egraph::RowView> chosen, std::span<const Form> forms,
                   const std::function<egraph::RowView(ClassId)>& row_of,
                   const std::function<const AxisSet&(ClassId)>& axes_of);

/// Dimensions made of axes of the set alone are one for each of them.
Form opened(const Form& form, const AxisSet& axes);

} // namespace luminal::rules
