// What an answer depends on, as one hash: the key of an action. Every part is typed, named and length-prefixed, so that
// no two different keys have the same bytes; a key of another version never equals one of this version.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/hash.hpp"
#include "core/base/result.hpp"

namespace crucible::store {

/// A float by its bits: 0.0 and -0.0 differ, and a NaN equals itself.
struct Float32 {
  std::uint32_t bits = 0;
  Float32() = default;
  explicit Float32(float value) : bits(std::bit_cast<std::uint32_t>(value)) {}
  auto operator<=>(const Float32&) const = default;
};

/// A value of an option or of a specialisation. 1u, 1, 1.0f, true and "1" are five different values.
using Value = std::variant<std::uint32_t, std::int32_t, Float32, bool, DType, std::string>;
/// Ordered by name; a name is there once.
using Values = std::map<std::string, Value, std::less<>>;

/// What makes an answer: the same key, the same answer.
struct ActionKey {
  std::string kind;       // of the answer: "kernel", "schedule", "plan", "choice", ...
  ContentHash region;     // of what is computed (core/merkle)
  std::string target;     // capability of the device, as its plugin words it: "sm_90", "x86-64-v4"
  std::string numerics;   // "fast", "strict"
  std::string toolchain;  // what compiled or planned, with its version
  Values options;         // of that toolchain
  Values specialisation;  // the numbers that the answer was made for
  bool operator==(const ActionKey&) const = default;
};

/// The bytes whose SHA-256 is the key: docs/store.md has the layout. Threads: any.
std::string encode(const ActionKey& key);
ContentHash hash_of(const ActionKey& key);
/// What encode() wrote. Errors: kBadInput for everything else, such as names out of order or bytes too many.
Result<ActionKey> decode(std::string_view bytes);

/// "u32", "i32", "f32", "bool", "dtype", "text".
std::string_view type_name(const Value& value);
/// "4", "-1", "0.5 (0x3f000000)", "true", "f16", "text".
std::string in_words(const Value& value);

/// A part in which two keys differ: "options.unroll" with both values in words, "" where one of them has none.
struct Difference {
  std::string field, a, b;
  bool operator==(const Difference&) const = default;
};
std::vector<Difference> differences(const ActionKey& a, const ActionKey& b);

/// 64 hexadecimal digits of either case. Errors: kBadInput.
Result<ContentHash> parse_hash(std::string_view hex);

}  // namespace crucible::store
