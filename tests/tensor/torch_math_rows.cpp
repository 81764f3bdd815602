// tests/tensor/torch_math_rows.cpp -- arithmetic, functions of elements, reductions as PyTorch names them.
#include "torch_cases.h"

namespace luminal::test {
namespace {

const TorchOps elementwise_rows{
    {"add", [](const CaseCall& c) { return c[0] + c[1]; }},
    {"sub", [](const CaseCall& c) { return c[0] - c[1]; }},
    {"mul", [](const CaseCall& c) { return c[0] * c[1]; }},
    {"div", [](const CaseCall& c) { return c[0] / c[1]; }},
    {"maximum", [](const CaseCall& c) { return maximum(c[0], c[1]); }},
    {"minimum", [](const CaseCall& c) { return minimum(c[0], c[1]); }},
};

} // namespace
} // namespace luminal::test
