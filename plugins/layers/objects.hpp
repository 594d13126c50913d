// The objects of one plugin that are alive, as the host sees them: which kind, made by which call, from what. Used to
// name misuse (a stale handle, a device closed too early) and leaks. Addresses become numbers, so that two runs read
// alike.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace crucible::layers {

struct Object {
  std::string_view kind;  // of static storage: "device", "buffer", ...
  std::uint64_t number = 0;
  std::string_view made_by;  // the call, of static storage
  const void* parent = nullptr;
  std::thread::id user;  // the thread that is in a call which must be alone with it
  bool in_use = false;
};

/// "buffer #12": what a message calls it.
std::string describe(const Object& object);

/// Threads: any. Owns nothing: the objects are the plugin's.
class Objects {
 public:
  void add(std::string_view kind, const void* address, std::string_view made_by, const void* parent);
  /// Forgets it, and what is borrowed from it (kernels of a module).
  void remove(const void* address);
  /// False when nothing of that address lives.
  bool find(const void* address, Object& out) const;
  /// Marks it as used by this thread; false and the present user when another thread is.
  bool enter(const void* address, Object& out);
  void leave(const void* address);
  /// Everything that was made from it and lives, but for what is borrowed.
  std::vector<Object> children(const void* address) const;
  /// All that lives, but for what is borrowed, in the order in which it was made.
  std::vector<Object> all() const;

 private:
  static bool is_borrowed(std::string_view kind) { return kind == "kernel"; }
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Object> live_;
  std::uint64_t made_ = 0;
};

}  // namespace crucible::layers
