// simt/metal.h -- what Metal's compiler knows by itself, on the processor.
#pragma once
#include "metal_stdlib"
