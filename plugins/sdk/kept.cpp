// Keys and bytes across the boundary: see kept.hpp.
#include "plugins/sdk/kept.hpp"

#include <cstdint>
#include <cstdio>
#include <map>

#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

crucible_kept_key borrow_key(const KeptKey& key) {
  return {borrow(key.kind), borrow(key.content), borrow(key.target), borrow(key.toolchain), borrow(key.options)};
}

std::vector<crucible_kept_key> borrow_keys(std::span<const KeptKey> keys) {
  std::vector<crucible_kept_key> all;
  all.reserve(keys.size());
  for (const KeptKey& key : keys) all.push_back(borrow_key(key));
  return all;
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

bool keeps() { return host_services().keep != nullptr; }

std::vector<std::shared_ptr<const std::string>> find_kept(std::span<const KeptKey> keys) {
  std::vector<std::shared_ptr<const std::string>> all(keys.size());
  const crucible_host_api& host = host_services();
  if (keys.empty() || host.find_kept == nullptr || host.free_kept == nullptr) return all;
  const std::vector<crucible_kept_key> theirs = borrow_keys(keys);
  std::vector<crucible_kept_bytes> found(keys.size());
  const auto count = static_cast<std::uint32_t>(keys.size());
  host.find_kept(host.ctx, theirs.data(), count, found.data());
  std::map<const void*, std::shared_ptr<const std::string>> copies;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (found[i].data == nullptr) continue;
    std::shared_ptr<const std::string>& copy = copies[found[i].data];
    if (!copy) copy = std::make_shared<const std::string>(static_cast<const char*>(found[i].data), found[i].size);
    all[i] = copy;
  }
  host.free_kept(host.ctx, found.data(), count);
  return all;
}

std::string find_kept(const KeptKey& key) {
  const auto found = find_kept(std::span(&key, 1));
  return found[0] ? *found[0] : std::string();
}

bool keep(std::span<const KeptKey> keys, std::string_view bytes) {
  const crucible_host_api& host = host_services();
  if (keys.empty() || host.keep == nullptr) return false;
  const std::vector<crucible_kept_key> theirs = borrow_keys(keys);
  return host.keep(host.ctx, theirs.data(), static_cast<std::uint32_t>(keys.size()), bytes.data(), bytes.size()) != 0;
}

bool keep(const KeptKey& key, std::string_view bytes) { return keep(std::span(&key, 1), bytes); }

bool KeptClaims::claim(const KeptKey& key) {
  const crucible_host_api& host = host_services();
  if (host.claim_kept == nullptr) return true;
  const crucible_kept_key theirs = borrow_key(key);
  if (host.claim_kept(host.ctx, &theirs) == 0) return false;
  held_.push_back(&key);
  return true;
}

void KeptClaims::release_all() {
  const crucible_host_api& host = host_services();
  for (const KeptKey* key : held_) {
    const crucible_kept_key theirs = borrow_key(*key);
    if (host.unclaim_kept != nullptr) host.unclaim_kept(host.ctx, &theirs);
  }
  held_.clear();
}

std::string binary_id(std::string_view bytes) {
  if (bytes.empty()) return "";
  char text[40];
  std::snprintf(text, sizeof(text), "%016llx-%zu", static_cast<unsigned long long>(hash_of(bytes)), bytes.size());
  return text;
}

}  // namespace crucible::sdk
