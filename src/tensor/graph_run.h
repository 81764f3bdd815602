// tensor/graph_run.h -- for the files that compile and run a graph, or hand its memory over.
#pragma once
#include "compile/compile.h"
#include "device/device.h"
#include "runtime/context.h"
#include "tensor/graph_state.h"

namespace luminal {

/// Memory of a device that outlives the graph it comes from.
struct OwnedBuffer {
  std::shared_ptr<device::Device> device;
  runtime::DeviceBuffer buffer; // goes before the device
};

/// The graph compiled for some of its typical sizes: all those at which its kernels have the same
/// schedules.
struct Program {
  std::vector<std::map<std::string, int64_t>> sizes; // schedules were made for the first
  compile::Compiled compiled;
  std::shared_ptr<const runtime::Executable> executable;
  std::unique_ptr<runtime::Context> context; // made when it first runs
};

/// For one of the typical sizes, which are left open; the graph must outlive them.
compile::Options compile_options(const GraphState& graph, const CompileOptions& options);

/// The program for the typical sizes that are nearest to the present ones runs from now on.
Program& choose_program(GraphState& graph);

/// Everything that an execute needs but the memory of arguments: program, weights, context, sizes,
/// states.
void prepare_program(const std::shared_ptr<GraphState>& graph, std::source_location where);
/// Throws Error where a run failed.
void check_run(const GraphState& graph, const Result<void>& done, std::source_location where);

/// For the whole process, made at the first call. 0 threads: LUMINAL_THREADS, or all cores.
ThreadPool& shared_pool(int threads);
std::shared_ptr<device::Device> shared_device(int threads);
/// The device of that name (device/known_devices.h). Throws Error where it cannot be used.
std::shared_ptr<device::Device> shared_device(const std::string& name, int threads);
/// A store that keeps its device.
std::shared_ptr<runtime::Store> store_on(std::shared_ptr<device::Device> device);

} // namespace luminal
