// codegen/object_cache.cpp -- keys of kernels, objects as contents of files.
#include "codegen/object_cache.h"
#include "base/settings.h"
#include "codegen/version.h"
#include <cstring>
#include <set>

namespace luminal::codegen {
namespace {

void user_operations(const kernel::Value& v, std::set<std::string>& names) {
  if (const auto* user = v.as<kernel::ApplyUser>()) names.insert(user->name);
  for (const auto& a : args_of(v)) user_operations(*a, names);
}
void user_operations(const kernel::Body& body, std::set<std::string>& names) {
  for (const kernel::StmtRef& s : body) {
    if (const kernel::Value* value = value_of(*s)) user_operations(*value, names);
    for (const kernel::Body* inside : bodies_of(*s)) user_operations(*inside, names);
  }
}

} // namespace

Hash128 object_key(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options) {
  Hasher h;
  h.add("object")
      .add(codegen_version)
      .add(llvm_version())
      .add(kernel::structural_hash128(kernel))
      .add(target.hash())
      .add(options.hash());
  std::set<std::string> names; // what an operation of the user means is not in the kernel
  user_operations(kernel.body, names);
  for (const std::string& name : names)
    if (const UserOp* user = find_user_op(name)) h.add(name).add(user->definition);
  return h.value128();
}

ObjectCache::ObjectCache(std::string folder, int64_t max_bytes)
    : files_(std::move(folder), ".object", max_bytes) {}

std::string ObjectCache::default_folder() {
  std::string folder = cache_folder();
  return folder.empty() ? "" : folder + "/objects";
}

// A content is the length of the entry's name, that name, the object.
std::optional<CompiledKernel> ObjectCache::find(const Hash128& key) {
  const std::optional<std::string> content = files_.find(key);
  uint32_t entry = 0;
  if (!content || content->size() < sizeof entry) return {};
  std::memcpy(&entry, content->data(), sizeof entry);
  if (entry > content->size() - sizeof entry) return {};
  CompiledKernel result;
  result.entry = content->substr(sizeof entry, entry);
  const auto* object = reinterpret_cast<const std::byte*>(content->data()) + sizeof entry + entry;
  result.object.assign(object, reinterpret_cast<const std::byte*>(content->data()) + content->size());
  return result;
}

void ObjectCache::store(const Hash128& key, const CompiledKernel& kernel) {
  const auto entry = uint32_t(kernel.entry.size());
  const std::string_view parts[] = {
      {reinterpret_cast<const char*>(&entry), sizeof entry},
      kernel.entry,
      {reinterpret_cast<const char*>(kernel.object.data()), kernel.object.size()}};
  files_.store(key, parts);
}

Result<ObjectCache::Compiled> ObjectCache::compile(const kernel::Kernel& kernel, const CpuTarget& target,
                                                   const CodegenOptions& options) {
  if (files_.off()) {
    auto made = codegen::compile(kernel, target, options);
    if (!made) return made.failure();
    return Compiled{std::move(*made), false};
  }
  Hash128 key = object_key(kernel, target, options);
  if (auto found = find(key)) {
    ScratchBytes scratch = scratch_bytes(kernel);
    found->shared_bytes = scratch.shared;
    found->local_bytes = scratch.local;
    return Compiled{std::move(*found), true};
  }
  auto made = codegen::compile(kernel, target, options);
  if (!made) return made.failure();
  store(key, *made);
  return Compiled{std::move(*made), false};
}

} // namespace luminal::codegen
