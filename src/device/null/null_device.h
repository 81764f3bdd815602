// device/null/null_device.h -- a device that loads and launches nothing, but accepts all that a
// device accepts: plans can be made, printed and checked for a language whose hardware is absent.
#pragma once
#include "device/device.h"

namespace luminal::device {

/// language: "cpu", "cuda", "hip", "metal", "opencl". Memory is host memory (zero pages until
/// touched); launches are checked.
std::unique_ptr<Device> make_null_device(std::string_view language);

} // namespace luminal::device
