// tensor/graph_run.h -- for the files that compile and run a graph, or hand its memory over.
#pragma once
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "runtime/context.h"
#include "tensor/graph_state.h"

namespace luminal {

/// Memory of a device that outlives the graph it comes from.
struct OwnedBuffer {
  std::shared_ptr<device::Device> device;
  runtime::DeviceBuffer buffer; // goes before the device
};

/// For the whole process, made at the first call. 0 threads: LUMINAL_THREADS, or all cores.
ThreadPool& shared_pool(int threads);
std::shared_ptr<device::CpuDevice> shared_device(int threads);

} // namespace luminal
