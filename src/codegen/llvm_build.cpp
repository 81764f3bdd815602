// codegen/llvm_build.cpp -- target, passes, LLVM's code generator.
#include "codegen/llvm_build.h"
#include "base/check.h"
#include "codegen/llvm_compat.h"
#include "codegen/llvm_target.h"
#include <algorithm>
#include <cstring>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>

namespace luminal::codegen {
namespace {

/// The passes of LLVM's code generator that run. Processors that reorder instructions gain nothing
/// from a second scheduler, which is a tenth of the time.
bool runs(llvm::StringRef pass) { return pass != "Post RA top-down list latency scheduler"; }

/// The gate of a context. It is asked through a member that is const in newer versions.
template <class Gate, class Question = decltype(&Gate::shouldRunPass)> class Passes;
template <class Gate>
class Passes<Gate, bool (Gate::*)(llvm::StringRef, llvm::StringRef)> final : public Gate {
public:
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) override { return runs(name); }
  bool isEnabled() const override { return true; }
};
template <class Gate>
class Passes<Gate, bool (Gate::*)(llvm::StringRef, llvm::StringRef) const> final : public Gate {
public:
  bool shouldRunPass(llvm::StringRef name, llvm::StringRef) const override { return runs(name); }
  bool isEnabled() const override { return true; }
};

} // namespace

Result<void> Build::start(const CpuTarget& target, int level) {
  auto made = make_target_machine(target, level);
  if (!made) return made.failure();
  machine = std::move(*made);
  static Passes<llvm::OptPassGate> passes; // without a state
  context.setOptPassGate(passes);
  take(std::make_unique<llvm::Module>("luminal", context), target);
  return {};
}

void Build::take(std::unique_ptr<llvm::Module> other, const CpuTarget& target) {
  module = std::move(other);
#if LLVM_VERSION_MAJOR >= 21
  module->setTargetTriple(llvm::Triple(target.triple));
#else
  module->setTargetTriple(target.triple);
#endif
  module->setDataLayout(machine->createDataLayout());
}

void Build::optimise(const char* passes) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(machine.get());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager manager;
  if (auto error = builder.parsePassPipeline(manager, passes))
    LUMINAL_CHECK(false, "LLVM {} refuses the list of passes: {}", llvm_version(),
                  llvm::toString(std::move(error)));
  manager.run(*module, modules);
}

void Build::hide_displacements() {
  constexpr int worthwhile = 3; // a few are cheap, and stay open to alias analysis
  std::vector<llvm::GetElementPtrInst*> bases;
  for (llvm::Function& function : *module)
    for (llvm::Instruction& i : llvm::instructions(function)) {
      auto* base = llvm::dyn_cast<llvm::GetElementPtrInst>(&i);
      if (!base || base->hasAllConstantIndices() || !base->getType()->isPointerTy()) continue;
      const auto displaced = [](const llvm::User* user) {
        auto* at = llvm::dyn_cast<llvm::GetElementPtrInst>(user);
        return at && at->getType()->isPointerTy() && at->hasAllConstantIndices();
      };
      if (std::ranges::count_if(base->users(), displaced) >= worthwhile) bases.push_back(base);
    }
  for (llvm::GetElementPtrInst* base : bases) {
    llvm::Value* opaque = llvm::IRBuilder<>(base->getNextNode()).CreateFreeze(base);
    base->replaceUsesWithIf(opaque, [&](const llvm::Use& use) {
      auto* further = llvm::dyn_cast<llvm::GetElementPtrInst>(use.getUser());
      return use.getUser() != opaque && !llvm::isa<llvm::PHINode>(use.getUser()) &&
             (!further || further->hasAllConstantIndices());
    });
  }
}

void Build::produce(bool text, llvm::SmallVectorImpl<char>& out) {
#if LLVM_VERSION_MAJOR >= 18
  auto kind = text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
#else
  auto kind = text ? llvm::CGFT_AssemblyFile : llvm::CGFT_ObjectFile;
#endif
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager manager;
  bool refused = machine->addPassesToEmitFile(manager, stream, nullptr, kind);
  LUMINAL_CHECK(!refused, "LLVM emits no file for this target");
  manager.run(*module);
}

std::vector<std::byte> Build::object() {
  llvm::SmallVector<char, 0> bytes;
  produce(false, bytes);
  std::vector<std::byte> object(bytes.size());
  std::memcpy(object.data(), bytes.data(), bytes.size());
  return object;
}
std::string Build::assembly() {
  llvm::SmallVector<char, 0> text;
  produce(true, text);
  return {text.begin(), text.end()};
}
std::string Build::ir() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, nullptr);
  return stream.str();
}

} // namespace luminal::codegen
