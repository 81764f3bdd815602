// search/problem_support.h -- kernels to be tuned, from the texts of the golden cases and others;
// candidates that are wrong on purpose.
#pragma once
#include "search/problem.h"
#include "search/tuning_support.h"
#include <gtest/gtest.h>

namespace luminal::search {

// A sanitizer that watches threads refuses new ones after a fork.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool worker_processes = false;
#else
inline constexpr bool worker_processes = true;
#endif

inline KernelProblem problem_of(const std::string& text, std::map<std::string, int64_t> symbols = {},
                                bool in_place = false,
                                std::map<std::string, std::pair<int64_t, int64_t>> integers = {}) {
  KernelProblem problem{parse_module(text), {}, std::move(symbols), std::move(integers), 1};
  const Function& entry = problem.module.entry();
  std::vector<NodeId> roots;
  for (const auto& result : entry.results) roots.push_back(result.value);
  kernel::ConeOptions options;
  options.name = entry.name;
  options.in_place = in_place;
  problem.cone = kernel::build_cone(entry, roots, {}, options).value();
  return problem;
}

/// C = A B with these extents.
inline KernelProblem matmul(int64_t m, int64_t n, int64_t k) {
  return problem_of(fmt::format(R"(fn @matmul(%A: f32[{0}, {2}], %B: f32[{2}, {1}]) {{
  %a = view %A [m: {0}, n: {1}, k: {2}] -> [m, k]
  %b = view %B [m: {0}, n: {1}, k: {2}] -> [k, n]
  %ab = mul %a, %b
  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %ab[m, n, k] }}
  %C = get %f, 0
  return C = %C
}})",
                                m, n, k));
}
/// Panels of 32 columns, register tiles of 4 rows.
inline const std::string matmul_schedule = R"(stage B Bp
split * n nc nn 32
split * k ko ki 16
split * m mo mm 8
split f mm mt mi 4
split f nn nv nl 16
split Bp nn nv nl 16
order Bp nc ko ki nv nl
store Bp ko n/16 k n%16
order f nc ko mo mt ki mi nv nl
at f ko
parallel * nc
vector Bp nl
vector f nl
unroll Bp nv
unroll f mi nv
jam f ki 4
)";

inline Candidate candidate(const std::string& schedule) {
  return candidate_of(kernel::parse_schedule(schedule), {});
}

/// The kernel of a schedule with its text changed, at every size or at the true size only.
inline Candidate mutated(const KernelProblem& problem, const std::string& schedule, bool true_size_only,
                         const std::function<std::string(std::string)>& change) {
  Candidate made = candidate(schedule);
  made.lower = [=, right = made.lower, true_extent = problem.cone.axes.front().extent](
                   const kernel::Cone& cone, const kernel::Schedule& how) -> Result<kernel::Kernel> {
    auto kernel = right(cone, how);
    if (!kernel || (true_size_only && cone.axes.front().extent != true_extent)) return kernel;
    return kernel::parse_kernel(change(kernel::to_string(*kernel)));
  };
  return made;
}
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << "\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

} // namespace luminal::search
