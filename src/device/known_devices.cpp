// device/known_devices.cpp -- the processor, and the device that runs nothing.
#include "device/known_devices.h"
#include "device/host_memory.h"
#include <fmt/format.h>
#include <fstream>

namespace luminal::device {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "processor";
}

const std::vector<KnownDevice>& known_devices() {
  static const std::vector<KnownDevice> devices = {
      {"cpu", processor_name(), usable_memory(), true},
      {"null", "no device: programs are compiled for the processor and not run", usable_memory(), false}};
  return devices;
}
const KnownDevice* find_known_device(std::string_view name) {
  for (const KnownDevice& device : known_devices())
    if (device.name == name) return &device;
  return nullptr;
}
std::string known_device_names() {
  std::string names;
  for (const KnownDevice& device : known_devices()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}
std::string no_such_device(std::string_view name) {
  return fmt::format("there is no device '{}' on this machine; there are {}", name, known_device_names());
}

} // namespace luminal::device
