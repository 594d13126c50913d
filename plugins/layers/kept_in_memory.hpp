// A host that keeps compiled programs for as long as the process lives: for tests that are the host themselves.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "plugins/abi/crucible_plugin.h"

namespace crucible::layers::kept_in_memory {

struct Memory {
  std::mutex mutex;
  std::map<std::string, std::string> kept;
  std::set<std::string> claimed;
};
inline Memory& memory() {
  static Memory* const all = new Memory;  // plugins may call their host until the process is over
  return *all;
}

inline std::string name_of(const crucible_kept_key& key) {
  std::string name;
  for (const crucible_str& part : {key.kind, key.content, key.target, key.toolchain, key.options})
    name += std::to_string(part.size) + ":" + std::string(part.data == nullptr ? "" : part.data, part.size);
  return name;
}

inline void find(void*, const crucible_kept_key* keys, std::uint32_t count, crucible_kept_bytes* found) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto at = all.kept.find(name_of(keys[i]));
    found[i] = {nullptr, 0};
    if (at == all.kept.end()) continue;
    void* const copy = std::malloc(at->second.size() + 1);
    std::memcpy(copy, at->second.data(), at->second.size());
    found[i] = {copy, at->second.size()};
  }
}

inline void give_back(void*, const crucible_kept_bytes* found, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) std::free(const_cast<void*>(found[i].data));
}

inline std::uint32_t keep(void*, const crucible_kept_key* keys, std::uint32_t count, const void* data,
                          std::uint64_t size) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (std::uint32_t i = 0; i < count; ++i)
    all.kept[name_of(keys[i])] = std::string(static_cast<const char*>(data), size);
  return 1;
}

inline std::uint32_t claim(void*, const crucible_kept_key* key) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  return all.claimed.insert(name_of(*key)).second ? 1 : 0;
}

inline void unclaim(void*, const crucible_kept_key* key) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  all.claimed.erase(name_of(*key));
}

}  // namespace crucible::layers::kept_in_memory
