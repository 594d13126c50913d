// What a plugin compiled, kept by the host from one run to the next and shared with others: a plugin has no cache of
// its own. A host before 0.6, or one that keeps nothing, finds nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace crucible::sdk {

/// All that the bytes depend on, in the plugin's own words; the plugin's name is part of it without being said. What
/// differs in any part is another key, and `crucible store explain` says in which.
struct KeptKey {
  std::string content = {};    // the text that is compiled
  std::string target = {};     // the device's capability: "sm_90"
  std::string toolchain = {};  // compiler and driver, with their versions
  std::string options = {};    // flags
  std::string kind = "kernel";
};

/// Whether the host keeps anything: what would only be kept need not be made. Threads: any.
bool keeps();

/// What is kept, checked; "" where nothing is. Threads: any.
std::string find_kept(const KeptKey& key);
/// The same for many keys, in their order, null where nothing is; keys whose bytes were kept together share them.
std::vector<std::shared_ptr<const std::string>> find_kept(std::span<const KeptKey> keys);

/// Keeps the bytes under every key. False: they are not kept, of which the host told the user. Threads: any.
bool keep(std::span<const KeptKey> keys, std::string_view bytes);
bool keep(const KeptKey& key, std::string_view bytes);

/// Who makes what keys stand for, among all threads and processes with the same store; gives all back at its end.
class KeptClaims {
 public:
  KeptClaims() = default;
  KeptClaims(const KeptClaims&) = delete;
  KeptClaims& operator=(const KeptClaims&) = delete;
  ~KeptClaims() { release_all(); }
  /// False while another one makes it. Does not wait. The key outlives this object.
  bool claim(const KeptKey& key);
  void release_all();

 private:
  std::vector<const KeptKey*> held_;
};

/// What machine code is known by (key binary of compile.kernel_info): another text for other bytes; "" for none.
std::string binary_id(std::string_view bytes);

}  // namespace crucible::sdk
