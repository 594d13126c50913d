// NaN is told by its bits, in integers, so that no compiler's idea of floating point comes in: see nan_bits.hpp.
#include "core/base/nan_bits.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

namespace crucible {
namespace {

/// Numbers of `Word`: above the infinity, the sign left out, is NaN.
template <class Word>
struct Format {
  Word infinity, canonical;

  static Word load(const std::byte* at) {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }
  static constexpr Word kMagnitude = std::numeric_limits<Word>::max() >> 1;
  bool is_nan(Word word) const { return (word & kMagnitude) > infinity; }
  Word named(Word word) const { return is_nan(word) ? canonical : word; }

  bool canonicalize(std::span<std::byte> elements) const {
    bool is_changed = false;
    for (std::size_t at = 0; at + sizeof(Word) <= elements.size(); at += sizeof(Word)) {
      const Word word = load(&elements[at]);
      if (!is_nan(word) || word == canonical) continue;
      std::memcpy(&elements[at], &canonical, sizeof canonical);
      is_changed = true;
    }
    return is_changed;
  }
  bool is_changing(std::span<const std::byte> elements) const {
    for (std::size_t at = 0; at + sizeof(Word) <= elements.size(); at += sizeof(Word)) {
      const Word word = load(&elements[at]);
      if (named(word) != word) return true;
    }
    return false;
  }
  bool same(std::span<const std::byte> a, std::span<const std::byte> b) const {
    for (std::size_t at = 0; at + sizeof(Word) <= a.size(); at += sizeof(Word)) {
      if (named(load(&a[at])) != named(load(&b[at]))) return false;
    }
    return true;
  }
};

/// What `use` gives of the dtype's format; `otherwise` where its elements have no NaN.
template <class Use>
bool with_format(DType dtype, bool otherwise, const Use& use) {
  switch (dtype) {
    case DType::kF16:
      return use(Format<std::uint16_t>{0x7c00, 0x7e00});
    case DType::kBF16:
      return use(Format<std::uint16_t>{0x7f80, 0x7fc0});
    case DType::kF32:
    case DType::kC64:
      return use(Format<std::uint32_t>{0x7f800000, 0x7fc00000});
    case DType::kF64:
    case DType::kC128:
      return use(Format<std::uint64_t>{0x7ff0000000000000, 0x7ff8000000000000});
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kOther:
      break;
  }
  return otherwise;
}

}  // namespace

bool canonicalize_nan(DType dtype, std::span<std::byte> elements) {
  return with_format(dtype, false, [&](const auto& format) { return format.canonicalize(elements); });
}

std::span<const std::byte> with_canonical_nan(DType dtype, std::span<const std::byte> elements,
                                              std::vector<std::byte>& storage) {
  if (!with_format(dtype, false, [&](const auto& format) { return format.is_changing(elements); })) return elements;
  storage.assign(elements.begin(), elements.end());
  canonicalize_nan(dtype, storage);
  return storage;
}

bool same_bits(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return true;
  return with_format(dtype, false, [&](const auto& format) { return format.same(a, b); });
}

}  // namespace crucible
