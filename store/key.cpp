// One layout for everything: a name with its length, a type, a length, the bytes. Numbers are little-endian.
#include "store/key.hpp"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

namespace crucible::store {
namespace {

constexpr std::string_view kMagic = "crucible action key";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kFields = 7;

enum class Type : std::uint8_t { kText = 1, kHash = 2, kU32 = 3, kI32 = 4, kF32 = 5, kBool = 6, kDType = 7, kMap = 8 };

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
}

std::string u32_bytes(std::uint32_t value) {
  std::string out;
  put_u32(out, value);
  return out;
}

void put_field(std::string& out, std::string_view name, Type type, std::string_view bytes) {
  put_u32(out, static_cast<std::uint32_t>(name.size()));
  out += name;
  out += static_cast<char>(type);
  put_u32(out, static_cast<std::uint32_t>(bytes.size()));
  out += bytes;
}

std::pair<Type, std::string> encoded(const Value& value) {
  struct Visitor {
    std::pair<Type, std::string> operator()(std::uint32_t v) const { return {Type::kU32, u32_bytes(v)}; }
    std::pair<Type, std::string> operator()(std::int32_t v) const {
      return {Type::kI32, u32_bytes(static_cast<std::uint32_t>(v))};
    }
    std::pair<Type, std::string> operator()(Float32 v) const { return {Type::kF32, u32_bytes(v.bits)}; }
    std::pair<Type, std::string> operator()(bool v) const { return {Type::kBool, std::string(1, v ? '\1' : '\0')}; }
    std::pair<Type, std::string> operator()(DType v) const {
      return {Type::kDType, std::string(1, static_cast<char>(v))};
    }
    std::pair<Type, std::string> operator()(const std::string& v) const { return {Type::kText, v}; }
  };
  return std::visit(Visitor{}, value);
}

std::string encoded(const Values& values) {
  std::string out;
  put_u32(out, static_cast<std::uint32_t>(values.size()));
  for (const auto& [name, value] : values) {
    const auto [type, bytes] = encoded(value);
    put_field(out, name, type, bytes);
  }
  return out;
}

struct Field {
  std::string_view name, bytes;
  Type type = Type::kText;
};

/// Reads what put_u32() and put_field() wrote; nothing once it ran over the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::optional<std::uint32_t> u32() {
    const auto bytes = take(4);
    if (!bytes) return std::nullopt;
    std::uint32_t value = 0;
    for (int at = 3; at >= 0; --at) value = value << 8 | static_cast<std::uint8_t>((*bytes)[static_cast<size_t>(at)]);
    return value;
  }
  std::optional<std::string_view> take(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  std::optional<std::string_view> sized() {
    const auto size = u32();
    return size ? take(*size) : std::nullopt;
  }
  std::optional<Field> field() {
    const auto name = sized();
    const auto type = name ? take(1) : std::nullopt;
    const auto bytes = type ? sized() : std::nullopt;
    if (!bytes) return std::nullopt;
    return Field{*name, *bytes, static_cast<Type>((*type)[0])};
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<Value> decoded(const Field& field) {
  Reader reader(field.bytes);
  const bool is_byte = field.bytes.size() == 1;
  const std::optional<std::uint32_t> word = field.bytes.size() == 4 ? reader.u32() : std::nullopt;
  switch (field.type) {
    case Type::kText:
      return std::string(field.bytes);
    case Type::kU32:
      if (word) return *word;
      return std::nullopt;
    case Type::kI32:
      if (word) return static_cast<std::int32_t>(*word);
      return std::nullopt;
    case Type::kF32:
      if (word) return Float32(std::bit_cast<float>(*word));
      return std::nullopt;
    case Type::kBool:
      if (is_byte && (field.bytes[0] == '\0' || field.bytes[0] == '\1')) return field.bytes[0] == '\1';
      return std::nullopt;
    case Type::kDType:
      if (is_byte && (field.bytes[0] == '\xff' || name(static_cast<DType>(field.bytes[0])) != name(DType::kOther))) {
        return static_cast<DType>(field.bytes[0]);
      }
      return std::nullopt;
    case Type::kHash:
    case Type::kMap:
      break;
  }
  return std::nullopt;
}

std::optional<Values> decoded_map(const Field& field) {
  if (field.type != Type::kMap) return std::nullopt;
  Reader reader(field.bytes);
  const auto count = reader.u32();
  if (!count) return std::nullopt;
  Values values;
  for (std::uint32_t at = 0; at < *count; ++at) {
    const std::optional<Field> entry = reader.field();
    std::optional<Value> value = entry ? decoded(*entry) : std::nullopt;
    if (!value || (!values.empty() && values.rbegin()->first >= entry->name)) return std::nullopt;
    values.emplace_hint(values.end(), entry->name, std::move(*value));
  }
  return reader.is_at_end() ? std::optional(std::move(values)) : std::nullopt;
}

Error not_a_key(std::string_view why) {
  return {ErrorCode::kBadInput, fmt::format("this is not an action key of version {}: {}", kVersion, why)};
}

void compare(const std::string& field, const std::string& a, const std::string& b, std::vector<Difference>& out) {
  if (a != b) out.push_back({field, a, b});
}

void compare(const std::string& field, const Values& a, const Values& b, std::vector<Difference>& out) {
  const auto words = [](const Values& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string()
                                 : fmt::format("{} {}", type_name(found->second), in_words(found->second));
  };
  Values all = a;
  all.insert(b.begin(), b.end());
  for (const auto& [name, value] : all) {
    const auto in_a = a.find(name), in_b = b.find(name);
    if (in_a != a.end() && in_b != b.end() && in_a->second == in_b->second) continue;
    out.push_back({field + "." + name, words(a, name), words(b, name)});
  }
}

}  // namespace

std::string encode(const ActionKey& key) {
  std::string out(kMagic);
  put_u32(out, kVersion);
  put_u32(out, kFields);
  put_field(out, "kind", Type::kText, key.kind);
  put_field(out, "region", Type::kHash,
            {reinterpret_cast<const char*>(key.region.bytes.data()), key.region.bytes.size()});
  put_field(out, "target", Type::kText, key.target);
  put_field(out, "numerics", Type::kText, key.numerics);
  put_field(out, "toolchain", Type::kText, key.toolchain);
  put_field(out, "options", Type::kMap, encoded(key.options));
  put_field(out, "specialisation", Type::kMap, encoded(key.specialisation));
  return out;
}

ContentHash hash_of(const ActionKey& key) {
  const std::string bytes = encode(key);
  return sha256(std::as_bytes(std::span(bytes)));
}

Result<ActionKey> decode(std::string_view bytes) {
  Reader reader(bytes);
  if (reader.take(kMagic.size()) != kMagic) return not_a_key("it does not begin as one");
  if (reader.u32() != kVersion) return not_a_key("it is of another version");
  if (reader.u32() != kFields) return not_a_key("it has another number of fields");
  ActionKey key;
  const std::pair<std::string_view, std::string*> texts[] = {
      {"kind", &key.kind}, {"target", &key.target}, {"numerics", &key.numerics}, {"toolchain", &key.toolchain}};
  for (std::size_t at = 0; at < kFields; ++at) {
    static constexpr std::string_view kNames[] = {"kind",      "region",  "target",        "numerics",
                                                  "toolchain", "options", "specialisation"};
    const std::optional<Field> field = reader.field();
    if (!field || field->name != kNames[at]) return not_a_key(fmt::format("its field {} is not {}", at, kNames[at]));
    bool is_good = false;
    if (field->name == "region") {
      is_good = field->type == Type::kHash && field->bytes.size() == key.region.bytes.size();
      if (is_good) std::copy(field->bytes.begin(), field->bytes.end(), key.region.bytes.begin());
    } else if (field->type == Type::kMap) {
      std::optional<Values> values = decoded_map(*field);
      is_good = values && at >= 5;
      if (is_good) (at == 5 ? key.options : key.specialisation) = std::move(*values);
    } else {
      for (const auto& [name, text] : texts) {
        if (name != field->name || field->type != Type::kText) continue;
        *text = field->bytes;
        is_good = true;
      }
    }
    if (!is_good) return not_a_key(fmt::format("its field {} has a value of another kind", field->name));
  }
  if (!reader.is_at_end()) return not_a_key("it has bytes after its end");
  return key;
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"u32", "i32", "f32", "bool", "dtype", "text"};
  return kNames[value.index()];
}

std::string in_words(const Value& value) {
  struct Visitor {
    std::string operator()(std::uint32_t v) const { return fmt::format("{}", v); }
    std::string operator()(std::int32_t v) const { return fmt::format("{}", v); }
    std::string operator()(Float32 v) const {
      return fmt::format("{} (0x{:08x})", std::bit_cast<float>(v.bits), v.bits);
    }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(DType v) const { return std::string(name(v)); }
    std::string operator()(const std::string& v) const { return v; }
  };
  return std::visit(Visitor{}, value);
}

std::vector<Difference> differences(const ActionKey& a, const ActionKey& b) {
  std::vector<Difference> out;
  compare("kind", a.kind, b.kind, out);
  compare("region", a.region.hex(), b.region.hex(), out);
  compare("target", a.target, b.target, out);
  compare("numerics", a.numerics, b.numerics, out);
  compare("toolchain", a.toolchain, b.toolchain, out);
  compare("options", a.options, b.options, out);
  compare("specialisation", a.specialisation, b.specialisation, out);
  return out;
}

Result<ContentHash> parse_hash(std::string_view hex) {
  ContentHash hash;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
  };
  bool is_good = hex.size() == 2 * hash.bytes.size();
  for (std::size_t at = 0; is_good && at < hash.bytes.size(); ++at) {
    const int high = digit(hex[2 * at]), low = digit(hex[2 * at + 1]);
    is_good = high >= 0 && low >= 0;
    if (is_good) hash.bytes[at] = static_cast<std::uint8_t>(high << 4 | low);
  }
  if (!is_good) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("'{}' is not a SHA-256 of 64 hexadecimal digits", hex.substr(0, 80))};
  }
  return hash;
}

}  // namespace crucible::store
