// device/known_devices.h -- the devices of this machine by their names.
#pragma once
#include "base/result.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::device {

struct KnownDevice {
  std::string name, description;
  int64_t memory_bytes = 0; ///< that a program can hope for
  bool executes = true;     ///< false: programs are compiled for it and not run
  std::string language;     ///< of its code: "opencl", ...; empty: machine code of the processor
  std::string architecture; ///< that the text is compiled for: "sm_90a"; empty: the device compiles it
};
/// The processor first. Looked for once in a process: drivers of GPUs are opened when this, or one of
/// their names, is asked for.
const std::vector<KnownDevice>& known_devices();
const KnownDevice* find_known_device(std::string_view name); ///< null: there is none
std::string known_device_names();                            ///< "cpu, null"
std::string no_such_device(std::string_view name);           ///< the message

class Device;
/// Opens a device that executes and is not the processor. Failure: why it cannot be used.
Result<std::unique_ptr<Device>> make_known_device(std::string_view name);

/// "AMD EPYC 9354"; "processor" where the system does not say.
std::string processor_name();

} // namespace luminal::device
