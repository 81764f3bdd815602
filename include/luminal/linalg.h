// luminal/linalg.h -- products of matrices and vectors beyond matmul and einsum (functions.h),
// distances. PyTorch's names and behaviour.
#pragma once
#include "luminal/operators.h"

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// beta x + alpha a b; x broadcasts. Where beta is 0, x is not looked at (its NaN do not spread).
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
             LUMINAL_WHERE); ///< [n, m] x [m, p]
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
             LUMINAL_WHERE); ///< [n, m] x [m]
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
            LUMINAL_WHERE); ///< [n] x [m]
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
               LUMINAL_WHERE); ///< [b, n, m] x [b, m, p]
/// Sum over the batch of beta x + alpha a b.
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
              LUMINAL_WHERE);
/// From left to right.
Tensor multi_dot(const std::vector<Tensor>& matrices, LUMINAL_WHERE);
/// [.., n, n]; the power is not negative.
Tensor matrix_power(const Tensor& x, int64_t power, LUMINAL_WHERE);
Tensor vecdot(const Tensor& a, const Tensor& b, int axis = -1, LUMINAL_WHERE); ///< sum of a b
/// Every element of a times all of b: extents are multiplied.
Tensor kron(const Tensor& a, const Tensor& b, LUMINAL_WHERE);
/// Along an axis of 3; the others broadcast.
Tensor cross(const Tensor& a, const Tensor& b, int axis = -1, LUMINAL_WHERE);
/// [n] -> [n, columns]: powers, falling to 0 unless `increasing`. columns: n where it is 0.
Tensor vander(const Tensor& x, int64_t columns = 0, bool increasing = false, LUMINAL_WHERE);
/// Distances of order p between rows: [.., m, k], [.., n, k] -> [.., m, n].
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2, LUMINAL_WHERE);
/// Norm of a - b + eps along the last axis.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keep_dims = false, LUMINAL_WHERE);
/// The matrices along a diagonal; a line is one row.
Tensor block_diag(const std::vector<Tensor>& matrices, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
