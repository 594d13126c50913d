// Random arguments for the functions of a plugin: numbers that sit on edges, texts that sometimes mean something, live
// handles or NULL, arrays with real and with absurd contents. The same seed makes the same arguments.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/abi/stubs.hpp"

namespace crucible::fuzz {

class RandomArguments {
 public:
  explicit RandomArguments(std::uint64_t seed) : random_(seed), bytes_(kMostBytes) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  template <class T>
  T number() {
    static constexpr std::uint64_t kEdges[] = {0,
                                               1,
                                               2,
                                               3,
                                               7,
                                               16,
                                               63,
                                               64,
                                               65,
                                               99,
                                               256,
                                               4096,
                                               4097,
                                               65536,
                                               65537,
                                               std::uint64_t{1} << 62,
                                               std::uint64_t{1} << 63,
                                               ~std::uint64_t{0}};  // between: a plugin would really try
    const std::uint64_t value = one_in(2) ? kEdges[below(std::size(kEdges))] : below(1024);
    return static_cast<T>(value);
  }
  /// Never more than bytes() has.
  std::uint64_t size() { return one_in(4) ? below(kMostBytes) : below(300); }
  /// Nanoseconds: waits of a fuzzer are short.
  std::uint64_t time() { return below(2'000'000); }
  /// A scratch area of kMostBytes.
  void* bytes() { return bytes_.data(); }
  crucible_str text();
  template <class T>
  T* maybe_null(T* pointer) {
    return one_in(12) ? nullptr : pointer;
  }
  static crucible_kv_sink sink_function() {
    return [](void*, const crucible_kv* items, std::uint32_t count) {
      // Every byte that was promised is read: an address sanitizer sees a promise that is not kept.
      volatile char sum = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        for (std::uint64_t k = 0; k < items[i].key.size; ++k) sum = static_cast<char>(sum ^ items[i].key.data[k]);
        if (items[i].type != CRUCIBLE_V_STR && items[i].type != CRUCIBLE_V_TRISTATE) continue;
        for (std::uint64_t k = 0; k < items[i].s.size; ++k) sum = static_cast<char>(sum ^ items[i].s.data[k]);
      }
    };
  }
  crucible_kv_sink sink() { return one_in(12) ? nullptr : sink_function(); }

  template <class T>
  T* handle(std::string_view kind) {
    std::vector<void*>& all = live_[std::string(kind)];
    if (all.empty() || one_in(20)) return nullptr;
    return static_cast<T*>(all[below(all.size())]);
  }
  void born(std::string_view kind, void* handle) { live_[std::string(kind)].push_back(handle); }
  void died(std::string_view kind, const void* handle);
  const std::vector<void*>& live(std::string_view kind) { return live_[std::string(kind)]; }
  /// The function that succeeded last, "" when the last call failed.
  std::string_view last_success() const { return last_success_; }

  template <class T>
  T value();
  template <class T>
  std::vector<T> array(std::size_t length) {
    std::vector<T> elements;
    while (elements.size() < length) elements.push_back(value<T>());
    return elements;
  }
  template <class T>
  std::vector<T> array() {
    return array<T>(below(5));
  }
  template <class T>
  std::vector<T> out_array() {
    return std::vector<T>(below(6));
  }

  /// Counts the call and takes the error object apart.
  void done(const char* function, crucible_status status);

  struct Count {
    std::uint64_t succeeded = 0, failed = 0;
  };
  const std::map<std::string, Count>& counts() const { return counts_; }
  /// Every error whose text is empty or whose code is OK: a plugin must say what and why.
  const std::vector<std::string>& mute_errors() const { return mute_errors_; }
  /// Live buffers' addresses and sizes, for ops that stay inside them.
  struct Range {
    std::uint64_t address, size;
  };
  void set_ranges(std::vector<Range> ranges) { ranges_ = std::move(ranges); }

  static constexpr std::uint64_t kMostBytes = 1 << 16;

 private:
  crucible_op random_op();
  std::uint64_t* keep(std::vector<std::uint64_t> numbers);
  std::mt19937_64 random_;
  std::vector<std::byte> bytes_;
  std::map<std::string, std::vector<void*>> live_;
  std::vector<Range> ranges_;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> kept_;  // what ops point to
  std::vector<std::unique_ptr<crucible_scalar>> scalars_;
  std::vector<std::unique_ptr<crucible_library_desc>> descs_;
  std::map<std::string, Count> counts_;
  std::vector<std::string> mute_errors_;
  std::string last_success_;
};

template <>
std::uint64_t RandomArguments::value<std::uint64_t>();
template <>
crucible_str RandomArguments::value<crucible_str>();
template <>
crucible_kv RandomArguments::value<crucible_kv>();
template <>
crucible_point RandomArguments::value<crucible_point>();
template <>
crucible_rebinding RandomArguments::value<crucible_rebinding>();
template <>
crucible_kernel_source RandomArguments::value<crucible_kernel_source>();
template <>
crucible_library_desc RandomArguments::value<crucible_library_desc>();
template <>
crucible_op RandomArguments::value<crucible_op>();

}  // namespace crucible::fuzz
