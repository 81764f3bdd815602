// device/known_devices.cpp -- the processor, devices that run nothing, and those of OpenCL, CUDA and HIP.
#include "device/known_devices.h"
#include "device/gpu/gpu_device.h"
#include "device/host_memory.h"
#include "device/opencl/opencl_device.h"
#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <utility>

namespace luminal::device {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "processor";
}

namespace {

/// The devices of one language.
struct Family {
  std::vector<KnownDevice> devices; ///< that can be used
  std::vector<int> places;          ///< of these, in the driver's order
  std::string why;                  ///< some, or all, cannot be used
};
constexpr std::string_view languages[] = {"opencl", "cuda", "hip"};

template <class Infos, class Describe>
Family family(std::string_view language, const Infos& infos, const Describe& describe) {
  Family made;
  if (!infos) {
    made.why = infos.error();
    return made;
  }
  for (size_t i = 0; i < infos->size(); ++i) {
    const auto& info = (*infos)[i];
    if (!info.unusable.empty()) {
      made.why += (made.why.empty() ? "" : "; ") + info.unusable;
      continue;
    }
    const std::string name = i == 0 ? std::string(language) : fmt::format("{}:{}", language, i);
    made.devices.push_back({name, describe(info), info.memory_bytes, true, std::string(language), ""});
    made.places.push_back(int(i));
  }
  return made;
}

/// Its driver is opened when this is called first.
const Family& family(std::string_view language) {
  const auto gpu = [](const GpuInfo& i) {
    return fmt::format("{}, {}, {}", i.name, i.architecture, i.driver);
  };
  if (language == "cuda") {
    static const Family cuda = family("cuda", gpu_devices(gpu::cuda), gpu);
    return cuda;
  }
  if (language == "hip") {
    static const Family hip = family("hip", gpu_devices(gpu::hip), gpu);
    return hip;
  }
  static const Family opencl = family("opencl", opencl_devices(), [](const OpenClInfo& i) {
    return fmt::format("{}, {}", i.name, i.version);
  });
  return opencl;
}

/// "cuda" of "cuda:1"; empty: the name is of no family.
std::string_view language_of(std::string_view name) {
  name = name.substr(0, name.find(':'));
  return std::ranges::find(languages, name) == std::end(languages) ? "" : name;
}

/// What is there without any driver.
const std::vector<KnownDevice>& own_devices() {
  static const std::vector<KnownDevice> devices = [] {
    const int64_t memory = usable_memory();
    std::vector<KnownDevice> list = {
        {"cpu", processor_name(), memory, true, "", ""},
        {"null", "no device: programs are compiled for the processor and not run", memory, false, "", ""}};
    constexpr std::pair<const char*, const char*> texts[] = {
        {"opencl", "OpenCL C"}, {"cuda", "CUDA C++"}, {"hip", "HIP C++"}};
    for (const auto& [language, title] : texts)
      list.push_back({fmt::format("null:{}", language),
                      fmt::format("no device: programs are written in {} and not run", title), memory, false,
                      language, ""});
    return list;
  }();
  return devices;
}

const KnownDevice* find(const std::vector<KnownDevice>& devices, std::string_view name) {
  const auto found = std::ranges::find(devices, name, &KnownDevice::name);
  return found == devices.end() ? nullptr : &*found;
}

} // namespace

const std::vector<KnownDevice>& known_devices() {
  static const std::vector<KnownDevice> all = [] {
    std::vector<KnownDevice> devices = own_devices();
    for (const std::string_view language : languages)
      devices.insert(devices.end(), family(language).devices.begin(), family(language).devices.end());
    return devices;
  }();
  return all;
}
const KnownDevice* find_known_device(std::string_view name) {
  if (const KnownDevice* own = find(own_devices(), name)) return own;
  const std::string_view language = language_of(name);
  return language.empty() ? nullptr : find(family(language).devices, name);
}
std::string known_device_names() {
  std::string names;
  for (const KnownDevice& device : known_devices()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}
std::string no_such_device(std::string_view name) {
  std::string text =
      fmt::format("there is no device '{}' on this machine; there are {}", name, known_device_names());
  if (const std::string_view language = language_of(name); !language.empty())
    if (const std::string& why = family(language).why; !why.empty()) text += fmt::format(" ({})", why);
  return text;
}

Result<std::unique_ptr<Device>> make_known_device(std::string_view name) {
  if (const KnownDevice* own = find(own_devices(), name); own && !own->executes)
    return Failure{fmt::format("the device {} runs nothing: programs are compiled for it and not run", name)};
  const std::string_view language = language_of(name);
  if (language.empty()) return Failure{no_such_device(name)};
  const Family& known = family(language);
  const KnownDevice* device = find(known.devices, name);
  if (!device) return Failure{no_such_device(name)};
  const int place = known.places[size_t(device - known.devices.data())];
  if (language == "opencl") return make_opencl_device(place);
  return make_gpu_device(language == "hip" ? gpu::hip : gpu::cuda, place);
}

} // namespace luminal::device
