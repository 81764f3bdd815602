// ir/naive_interp.h -- the meaning of the terms, to be read: one node after the other, every value
// stored in full. The judge of the judge.
#pragma once
#include "ir/interp.h"

namespace luminal {

/// All results of the entry function by name, new states included. Values are rounded at every
/// node, and folds go row-major, as in the mode `rounded` of the Interpreter, whose bits these are.
/// Every value is computed, whether or not an element of it is read: an index that leaves its
/// bounds, a hole out of range or a `unique` scatter that writes twice is an Error wherever it
/// stands. Memory and time grow with the sizes of all values of the module. Host effects pass their
/// input on and do nothing; functions of the user run.
std::map<std::string, HostTensor> interpret_naively(const Module& module, const Bindings& bindings);

} // namespace luminal
