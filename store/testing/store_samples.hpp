// What the tests of the store share: a folder of their own, keys and answers, bytes changed at random.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "store/store.hpp"

namespace crucible::store::testing {

/// Bytes with one to four changes: a bit, a byte, a piece cut out, doubled or added.
inline std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  for (std::size_t change = 0, count = 1 + below(4); change < count; ++change) {
    if (bytes.empty()) return bytes;
    const std::size_t at = below(bytes.size()), size = 1 + below(16);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.erase(at, size);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 4:
        bytes.insert(at, std::string(size, static_cast<char>(below(256))));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

inline ActionKey numbered_key(std::uint32_t number, const std::string& kind = "kernel") {
  ActionKey key;
  key.kind = kind;
  key.target = "x86-64-v4";
  key.numerics = "fast";
  key.toolchain = "clang 19";
  key.specialisation = {{"n", number}};
  return key;
}

inline std::string numbered_bytes(std::uint32_t number, std::size_t size = 64) {
  std::minstd_rand random(number + 1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline ContentHash hash_of_bytes(std::string_view bytes) { return sha256(std::as_bytes(std::span(bytes))); }

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// A folder that goes with it, and what its store said.
class Place {
 public:
  Place() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-store-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path folder() const { return path_ / "store"; }
  std::filesystem::path blob_file(const ContentHash& hash) const {
    return folder() / "cas" / hash.hex().substr(0, 2) / hash.hex().substr(2);
  }
  std::filesystem::path entry_file(const ActionKey& key) const {
    const std::string name = hash_of(key).hex();
    return folder() / "ac" / name.substr(0, 2) / name.substr(2);
  }
  StoreOptions options() {
    StoreOptions options;
    options.folder = folder();
    options.tell = [this](const std::string& words) { said.push_back(words); };
    options.is_durable = false;
    return options;
  }
  std::vector<std::string> said;

 private:
  std::filesystem::path path_;
};

inline std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    count += entry.is_regular_file();
  return count;
}

}  // namespace crucible::store::testing
