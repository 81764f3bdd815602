// luminal/luminal.h -- everything a program includes.
#pragma once
#include "luminal/debug.h"
#include "luminal/dim.h"
#include "luminal/dtype.h"
#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/indexing.h"
#include "luminal/pass.h"
#include "luminal/pattern.h"
#include "luminal/random.h"
#include "luminal/lifetime.h"
#include "luminal/tensor.h"
#include "luminal/values.h"
