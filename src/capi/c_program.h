// capi/c_program.h -- what a luminal_program of the C interface is: a module, its data, its compiled plan.
#pragma once
#include "compile/compile.h"
#include "device/device.h"
#include "formats/safetensors.h"
#include "ir/term.h"
#include "luminal/c.h"
#include "runtime/context.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace luminal::capi {

/// A value that was given for an input.
struct Given {
  std::vector<int64_t> shape;
  std::vector<std::byte> copy;      // where it is one
  std::span<const std::byte> bytes; // of `copy`, or the caller's
  bool fresh = true;                // of a state: not written to it yet
};

/// What the plan runs with; made by compile.
struct Running {
  std::shared_ptr<device::Device> device;
  std::shared_ptr<const runtime::Executable> executable;
  std::shared_ptr<runtime::Store> store;
  std::unique_ptr<runtime::Context> context;
};

class CProgram {
public:
  explicit CProgram(Module module);
  const std::vector<NodeId>& inputs() const { return module_.entry().params; }
  const std::vector<FunctionResult>& outputs() const { return module_.entry().results; }
  void describe_input(int index, luminal_value& value);
  void set_dim(const std::string& name, int64_t size);
  void set_input(const std::string& name, std::string_view dtype, std::vector<int64_t> shape,
                 const void* data, bool copy);
  void load_inputs(const std::string& path);
  void set_option(const std::string& name, const std::string& value);
  void compile();
  void execute();
  void output(const std::string& name, luminal_value& value);
  const char* report();

private:
  const InputAttr& input(const std::string& name, const char* operation) const;
  void store(const std::string& name, std::vector<int64_t> shape, std::span<const std::byte> bytes, bool copy,
             const char* operation);
  void give(const std::string& name);
  void make_context();
  double number_option(const char* name, double usual) const;
  void describe(luminal_value& value, std::string_view name, DType dtype, std::vector<int64_t> shape,
                std::span<const std::byte> bytes);

  Module module_;
  std::map<std::string, int64_t> dims_;
  std::map<std::string, Given> given_;
  std::map<std::string, std::string> options_;
  std::vector<Safetensors> files_; // what loaded values are read from
  std::optional<compile::Compiled> compiled_;
  Running running_;
  /// Weights, or the sizes of some, have changed: the next run has a context of its own, and the
  /// results of the last one can be read until then.
  bool renew_ = false;
  bool ran_ = false;
  // what the last luminal_value points to
  std::string name_, dtype_, report_;
  std::vector<int64_t> shape_;
};

} // namespace luminal::capi
