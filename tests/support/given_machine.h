// tests/support/given_machine.h -- compilations for one machine, whatever the test runs on: for tests of what
// is chosen, which varies with lanes and caches.
#pragma once
#include "base/file.h"
#include "search/machine_profile.h"
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

namespace luminal::test {

/// While it lives, LUMINAL_MACHINE names a processor with vectors of 512 bits, 32 registers and caches of
/// 32 KiB, 1 MiB (or as given) and 32 MiB that nobody has measured.
class GivenMachine {
public:
  explicit GivenMachine(int64_t l2 = 1 << 20)
      : file_(std::filesystem::temp_directory_path() / ("luminal_machine_" + std::to_string(getpid()))) {
    search::MachineProfile p = search::MachineProfile::guess(1);
    p.vector_bits = 512, p.vector_registers = 32;
    p.l1 = 32 << 10, p.l2 = l2, p.l3 = 32 << 20;
    if (auto written = write_file(file_.string(), std::string_view(p.to_json())); !written)
      throw std::runtime_error(written.error());
    setenv("LUMINAL_MACHINE", file_.c_str(), 1);
  }
  ~GivenMachine() {
    unsetenv("LUMINAL_MACHINE");
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }
  GivenMachine(const GivenMachine&) = delete;
  GivenMachine& operator=(const GivenMachine&) = delete;

private:
  std::filesystem::path file_;
};

} // namespace luminal::test
