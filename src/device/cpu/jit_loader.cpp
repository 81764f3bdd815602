// device/cpu/jit_loader.cpp -- objects through LLVM ORC, each in a library of its own. No compiler
// is involved.
#include "device/cpu/jit_loader.h"
#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>
#include <mutex>

namespace luminal::device {
namespace {

class OrcObjects : public JitObjects {
public:
  explicit OrcObjects(std::unique_ptr<llvm::orc::LLJIT> jit) : jit_(std::move(jit)) {}
  const std::vector<void*>& entries() const override { return entries_; }

  Result<void> add(const ElfObject& object) {
    auto text = [](llvm::Error error) { return Failure{llvm::toString(std::move(error))}; };
    auto library = jit_->createJITDylib("kernel" + std::to_string(entries_.size()));
    if (!library) return text(library.takeError());
    auto bytes = llvm::MemoryBuffer::getMemBufferCopy(
        llvm::StringRef(reinterpret_cast<const char*>(object.bytes.data()), object.bytes.size()), "kernel");
    if (auto error = jit_->addObjectFile(*library, std::move(bytes))) return text(std::move(error));
    auto address = jit_->lookup(*library, std::string(object.entry));
    if (!address) return text(address.takeError());
    entries_.push_back(address->toPtr<void*>());
    return {};
  }

private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<void*> entries_;
};

} // namespace

Result<std::unique_ptr<JitObjects>> load_with_llvm(std::span<const ElfObject> objects) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) return Failure{llvm::toString(jit.takeError())};
  auto result = std::make_unique<OrcObjects>(std::move(*jit));
  for (size_t i = 0; i < objects.size(); ++i)
    if (auto added = result->add(objects[i]); !added)
      return Failure{fmt::format("object {} cannot be loaded: {}", i, added.error())};
  return std::unique_ptr<JitObjects>(std::move(result));
}

} // namespace luminal::device
