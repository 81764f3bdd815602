// device/known_devices.h -- the devices of this machine by their names.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::device {

struct KnownDevice {
  std::string name, description;
  int64_t memory_bytes = 0; ///< that a program can hope for
  bool executes = true;     ///< false: programs are compiled for it and not run
};
/// The processor first. Looked for once in a process.
const std::vector<KnownDevice>& known_devices();
const KnownDevice* find_known_device(std::string_view name); ///< null: there is none
std::string known_device_names();                            ///< "cpu, null"
std::string no_such_device(std::string_view name);           ///< the message

/// "AMD EPYC 9354"; "processor" where the system does not say.
std::string processor_name();

} // namespace luminal::device
