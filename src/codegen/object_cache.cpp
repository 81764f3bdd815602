// codegen/object_cache.cpp -- reading, writing and bounding the folder of objects.
#include "codegen/object_cache.h"
#include "base/file.h"
#include "base/log.h"
#include "base/settings.h"
#include "codegen/version.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace luminal::codegen {
namespace fs = std::filesystem;
namespace {

struct Header {
  char magic[8];
  uint64_t key_low, key_high;
  uint64_t object_bytes;
  uint32_t entry_bytes, reserved;
  uint64_t check_low, check_high; // of the fields above, the entry and the object
};
constexpr char magic[8] = {'L', 'U', 'M', 'O', 'B', 'J', '0', '1'};
constexpr const char* extension = ".object";

class File { // closed at the end
public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool read(void* to, size_t bytes) {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      ssize_t n = ::read(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }
  bool write(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
      ssize_t n = ::write(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }

private:
  int descriptor_;
};

Hash128 check(const Header& h, std::string_view entry, std::span<const std::byte> object) {
  Hasher hasher;
  hasher.bytes(&h, offsetof(Header, check_low))
      .bytes(entry.data(), entry.size())
      .bytes(object.data(), object.size());
  return hasher.value128();
}

void say_once(const std::string& text) {
  static std::once_flag once;
  std::call_once(once, [&] { log_info("{}", text); });
}

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
    : folder_(std::move(folder)), max_bytes_(max_bytes) {}

std::string ObjectCache::default_folder() {
  std::string folder = cache_folder();
  return folder.empty() ? "" : folder + "/objects";
}

std::string ObjectCache::path(const Hash128& key) const {
  std::string name = key.hex();
  return folder_ + "/" + name.substr(0, 2) + "/" + name.substr(2) + extension;
}

std::optional<CompiledKernel> ObjectCache::find(const Hash128& key) {
  if (folder_.empty()) return {};
  std::string name = path(key);
  File file(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe does not keep us waiting
  if (file.get() < 0) return {};
  struct stat status;
  Header h;
  CompiledKernel result;
  auto sound = [&] {
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !file.read(&h, sizeof h)) return false;
    if (std::memcmp(h.magic, magic, sizeof magic) != 0 || h.key_low != key.low || h.key_high != key.high)
      return false;
    auto total = uint64_t(status.st_size);
    if (h.entry_bytes > 4096 || h.object_bytes > total || total != sizeof h + h.entry_bytes + h.object_bytes)
      return false;
    result.entry.resize(h.entry_bytes);
    result.object.resize(h.object_bytes);
    if (!file.read(result.entry.data(), h.entry_bytes) || !file.read(result.object.data(), h.object_bytes))
      return false;
    return check(h, result.entry, result.object) == Hash128{h.check_low, h.check_high};
  };
  if (!sound()) {
    ++counts_.damaged;
    std::error_code error;
    fs::remove_all(name, error); // a folder of that name, too
    log_info("object cache: {} is damaged and is made again", name);
    return {};
  }
  // What is used stays: the time of use is its age. Once a day is often enough.
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec - status.st_mtime > 86400) futimens(file.get(), nullptr);
  return result;
}

void ObjectCache::store(const Hash128& key, const CompiledKernel& kernel) {
  if (folder_.empty()) return;
  static std::atomic<uint64_t> serial{0};
  std::string name = path(key), draft = fmt::format("{}.{}.{}.tmp", name, getpid(), serial++);
  auto give_up = [&](std::string_view why) {
    ++counts_.unwritable;
    unlink(draft.c_str());
    say_once(
        fmt::format("object cache: {} cannot be written ({}); kernels are compiled each time", folder_, why));
  };
  std::error_code error;
  fs::create_directories(fs::path(name).parent_path(), error);
  if (error) return give_up(error.message());
  Header h{};
  std::memcpy(h.magic, magic, sizeof magic);
  h.key_low = key.low;
  h.key_high = key.high;
  h.object_bytes = kernel.object.size();
  h.entry_bytes = uint32_t(kernel.entry.size());
  Hash128 sum = check(h, kernel.entry, kernel.object);
  h.check_low = sum.low;
  h.check_high = sum.high;
  {
    File file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return give_up(std::strerror(errno));
    bool written = file.write(&h, sizeof h) && file.write(kernel.entry.data(), kernel.entry.size()) &&
                   file.write(kernel.object.data(), kernel.object.size());
    if (!written) return give_up(std::strerror(errno));
  }
  if (rename(draft.c_str(), name.c_str()) != 0) return give_up(std::strerror(errno));
  ++counts_.written;
  if (stores_++ % 256 == 0) trim();
}

void ObjectCache::trim() { counts_.removed += trim_folder(folder_, extension, max_bytes_); }

Result<ObjectCache::Compiled> ObjectCache::compile(const kernel::Kernel& kernel, const CpuTarget& target,
                                                   const CodegenOptions& options) {
  if (folder_.empty()) {
    auto made = codegen::compile(kernel, target, options);
    if (!made) return made.failure();
    return Compiled{std::move(*made), false};
  }
  Hash128 key = object_key(kernel, target, options);
  if (auto found = find(key)) {
    ++counts_.hits;
    ScratchBytes scratch = scratch_bytes(kernel);
    found->shared_bytes = scratch.shared;
    found->local_bytes = scratch.local;
    return Compiled{std::move(*found), true};
  }
  ++counts_.misses;
  auto made = codegen::compile(kernel, target, options);
  if (!made) return made.failure();
  store(key, *made);
  return Compiled{std::move(*made), false};
}

} // namespace luminal::codegen
