// luminal/device.h -- where tensors lie and kernels run: which devices there are, the default, the
// graph's, a group's, one tensor's.
//
//   Graph g;                                  // on default_device()
//   Tensor x = g.tensor({2});                 // on the graph's device
//   Tensor y = (x * 2).to("cpu");             // an explicit transfer; to the device where it lies
//                                             it is the tensor itself
//   { DeviceScope here(g, "null"); w = g.weight("w", {2}); }  // a group of tensors elsewhere
//
// Nothing moves by itself: an operation whose operands lie on two devices is an Error. What is made
// from constants only lies anywhere.
#pragma once
#include "luminal/graph.h"
#include <optional>
#include <string>
#include <vector>

namespace luminal {

/// A device by its name; cheap to copy. "cpu": this machine's processors. "null": programs are
/// compiled for it and looked at (report(), memory()), nothing is allocated, and execute is an
/// Error.
class Device {
public:
  /// Throws Error that lists the devices where there is none of this name.
  Device(const std::string& name, std::source_location where = std::source_location::current());
  Device(const char* name, std::source_location where = std::source_location::current())
      : Device(std::string(name), where) {}
  const std::string& name() const { return name_; }
  std::string description() const; ///< "AMD EPYC 9354"
  int64_t memory_bytes() const;    ///< that a program can hope for
  bool executes() const;           ///< false: it is compiled for only
  friend bool operator==(const Device&, const Device&) = default;

private:
  std::string name_;
};
/// The devices of this machine, the processor first.
std::vector<Device> devices();
/// Where graphs lie that say nothing else: LUMINAL_DEVICE, or the processor.
Device default_device();
/// Of graphs that are made afterwards, in the whole process; none: as LUMINAL_DEVICE says again.
/// Thread-safe.
void set_default_device(const std::optional<Device>& device);

/// While it lives, inputs, weights and states that are made for the graph lie on the device; scopes
/// nest. One thread at a time, as the graph itself.
class DeviceScope {
public:
  DeviceScope(Graph& graph, const Device& device,
              std::source_location where = std::source_location::current());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

private:
  std::shared_ptr<GraphState> graph_;
};

} // namespace luminal
