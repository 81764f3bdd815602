// device/known_devices.cpp -- the processor, devices that run nothing, and those of OpenCL.
#include "device/known_devices.h"
#include "device/host_memory.h"
#include "device/opencl/opencl_device.h"
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

namespace {

std::string opencl_name(size_t number) { return number == 0 ? "opencl" : fmt::format("opencl:{}", number); }

/// What is there without any driver.
const std::vector<KnownDevice>& own_devices() {
  static const std::vector<KnownDevice> devices = {
      {"cpu", processor_name(), usable_memory(), true, "", ""},
      {"null", "no device: programs are compiled for the processor and not run", usable_memory(), false, "",
       ""},
      {"null:opencl", "no device: programs are written in OpenCL C and not run", usable_memory(), false,
       "opencl", ""}};
  return devices;
}

const KnownDevice* find(const std::vector<KnownDevice>& devices, std::string_view name) {
  for (const KnownDevice& device : devices)
    if (device.name == name) return &device;
  return nullptr;
}

} // namespace

const std::vector<KnownDevice>& known_devices() {
  static const std::vector<KnownDevice> all = [] {
    std::vector<KnownDevice> devices = own_devices();
    const auto& opencl = opencl_devices();
    for (size_t i = 0; opencl && i < opencl->size(); ++i)
      if (const OpenClInfo& info = (*opencl)[i]; info.unusable.empty())
        devices.push_back({opencl_name(i), fmt::format("{}, {}", info.name, info.version), info.memory_bytes,
                           true, "opencl", ""});
    return devices;
  }();
  return all;
}
const KnownDevice* find_known_device(std::string_view name) {
  const KnownDevice* own = find(own_devices(), name);
  return own ? own : find(known_devices(), name);
}
std::string known_device_names() {
  std::string names;
  for (const KnownDevice& device : known_devices()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}
std::string no_such_device(std::string_view name) {
  std::string text =
      fmt::format("there is no device '{}' on this machine; there are {}", name, known_device_names());
  if (!name.starts_with("opencl")) return text;
  const auto& opencl = opencl_devices();
  if (!opencl) return fmt::format("{} ({})", text, opencl.error());
  for (const OpenClInfo& info : *opencl)
    if (!info.unusable.empty()) text += fmt::format(" ({})", info.unusable);
  return text;
}

Result<std::unique_ptr<Device>> make_known_device(std::string_view name) {
  const auto& opencl = opencl_devices();
  for (size_t i = 0; opencl && i < opencl->size(); ++i)
    if (opencl_name(i) == name) return make_opencl_device(int(i));
  return Failure{no_such_device(name)};
}

} // namespace luminal::device
