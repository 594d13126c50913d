// What plugins keep: each key of theirs is an action of the store, with the bytes as its one output.
#include "plugins/loader/kept.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/terminal.hpp"
#include "plugins/loader/library.hpp"
#include "store/store.hpp"

namespace crucible::backend {
namespace {

constexpr const char* kOutput = "bytes";

std::string text(crucible_str value) { return value.data == nullptr ? "" : std::string(value.data, value.size); }

store::ActionKey action_of(const Library& library, const crucible_kept_key& key) {
  const auto content = std::as_bytes(std::span(key.content.data, key.content.data == nullptr ? 0 : key.content.size));
  return {.kind = text(key.kind),
          .region = sha256(content),
          .target = text(key.target),
          .numerics = "",  // the content has it
          .toolchain = text(key.toolchain),
          .options = {{"flags", text(key.options)}, {"plugin", library.name}},
          .specialisation = {}};
}

void find_kept(void* ctx, const crucible_kept_key* keys, std::uint32_t count, crucible_kept_bytes* found) {
  const auto* library = static_cast<const Library*>(ctx);
  if (library->store) {
    std::vector<store::ActionKey> wanted;
    for (std::uint32_t i = 0; i < count; ++i) wanted.push_back(action_of(*library, keys[i]));
    library->store->prefetch(wanted);
  }
  std::map<ContentHash, crucible_kept_bytes> read;
  for (std::uint32_t i = 0; i < count; ++i) {
    found[i] = {nullptr, 0};
    if (!library->store) continue;
    const std::optional<store::Statement> entry = library->store->get(action_of(*library, keys[i]));
    if (!entry || entry->outputs.size() != 1 || entry->outputs[0].name != kOutput) continue;
    const store::Output& output = entry->outputs[0];
    if (const auto earlier = read.find(output.blob); earlier != read.end()) {
      found[i] = earlier->second;
      continue;
    }
    const std::optional<std::string> bytes = library->store->read(output);
    void* const memory = bytes && !bytes->empty() ? std::malloc(bytes->size()) : nullptr;
    if (memory == nullptr) continue;
    std::memcpy(memory, bytes->data(), bytes->size());
    found[i] = {memory, bytes->size()};
    read.emplace(output.blob, found[i]);
  }
}

void free_kept(void*, const crucible_kept_bytes* found, std::uint32_t count) {
  std::set<const void*> all;
  for (std::uint32_t i = 0; i < count; ++i) all.insert(found[i].data);
  for (const void* memory : all) std::free(const_cast<void*>(memory));
}

std::uint32_t keep(void* ctx, const crucible_kept_key* keys, std::uint32_t count, const void* data,
                   std::uint64_t size) {
  auto* library = static_cast<Library*>(ctx);
  if (!library->store) return 0;
  const std::string_view bytes(static_cast<const char*>(data), size);
  const std::string maker = fmt::format("plugin {} {}", library->name, library->version);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Result<void> kept = library->store->put(action_of(*library, keys[i]), {{kOutput, bytes}}, maker);
    if (kept) continue;
    if (!library->is_told_of_store.exchange(true))
      tell("crucible: warning: {} (compile): compiled kernels are not kept: {}\n", library->name, kept.error().message);
    return 0;
  }
  return 1;
}

std::uint32_t claim_kept(void* ctx, const crucible_kept_key* key) {
  auto* library = static_cast<Library*>(ctx);
  return !library->store || library->store->claims().claim(store::hash_of(action_of(*library, *key))) ? 1 : 0;
}

void unclaim_kept(void* ctx, const crucible_kept_key* key) {
  auto* library = static_cast<Library*>(ctx);
  if (library->store) library->store->claims().release(store::hash_of(action_of(*library, *key)));
}

}  // namespace

void set_store(Library& library, std::shared_ptr<store::Store> store) {
  // Its bytes are executed.
  library.store = store && store->is_executable() ? std::move(store) : nullptr;
  library.is_told_of_store = false;
  crucible_host_api& host = library.host;
  host.find_kept = library.store ? find_kept : nullptr;
  host.free_kept = library.store ? free_kept : nullptr;
  host.keep = library.store ? keep : nullptr;
  host.claim_kept = library.store ? claim_kept : nullptr;
  host.unclaim_kept = library.store ? unclaim_kept : nullptr;
}

}  // namespace crucible::backend
