// The binary form: see binary.hpp. One list of fields for each structure (describe) serves both ways, so that what is
// written is what is read.
#include "core/graph/binary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "core/base/hash.hpp"
#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/opaque.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

constexpr std::string_view kMagic = "CRPROG\x1a\n";
constexpr std::uint64_t kVersion = 3;  // 2: slots have a type; 3: bounds of indices
constexpr std::size_t kChecksumBytes = 8;

/// Appends fields. Strings are kept once, in a table of their own.
class Writer {
 public:
  static constexpr bool kReads = false;

  void number(std::uint64_t& value) {
    std::uint64_t left = value;
    for (; left >= 0x80; left >>= 7) bytes_.push_back(static_cast<std::byte>(left | 0x80));
    bytes_.push_back(static_cast<std::byte>(left));
  }
  void real(double& value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void text(std::string& value) {
    auto [found, is_new] = numbers_.emplace(value, strings_.size());
    if (is_new) strings_.push_back(value);
    number(found->second);
  }
  void raw(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  bool count(std::size_t& size) {
    std::uint64_t items = size;
    number(items);
    return true;
  }
  void fail(const char*) {}

  const std::vector<std::string>& strings() const { return strings_; }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, std::uint64_t> numbers_;
};

/// Takes fields from bytes. After the first mistake everything is 0, and error() says what it was.
class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  void number(std::uint64_t& value) {
    value = 0;
    for (int shift = 0;; shift += 7) {
      if (at_ >= bytes_.size()) return fail("it ends early");
      const auto byte = static_cast<std::uint64_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) return fail("a number has more than 64 bits");
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return;
    }
  }
  void real(double& value) {
    if (bytes_.size() - at_ < 8) return fail("it ends early");
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= static_cast<std::uint64_t>(bytes_[at_++]) << (8 * i);
    value = std::bit_cast<double>(bits);
  }
  void text(std::string& value) {
    std::uint64_t index = 0;
    number(index);
    if (index >= strings_.size()) return fail("a string is not in the table");
    value = strings_[index];
  }
  /// How many items follow; each takes a byte at least, so that damage asks for no more memory than there are bytes.
  bool count(std::size_t& size) {
    std::uint64_t items = 0;
    number(items);
    if (items > bytes_.size() - at_) fail("it ends early");
    size = error_ == nullptr ? items : 0;
    return error_ == nullptr;
  }
  void strings() {
    std::size_t size = 0;
    if (!count(size)) return;
    strings_.reserve(size);
    for (std::size_t i = 0; i < size && error_ == nullptr; ++i) {
      std::size_t length = 0;
      if (!count(length)) return;
      const auto* begin = reinterpret_cast<const char*>(bytes_.data() + at_);
      strings_.emplace_back(begin, length);
      at_ += length;
    }
  }
  void fail(const char* what) {
    if (error_ == nullptr) error_ = what;
    at_ = bytes_.size();
  }
  const char* error() const { return error_; }
  bool is_at_end() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::vector<std::string> strings_;
  const char* error_ = nullptr;
};

/// Numbers below 2^64; signed ones so that small magnitudes stay short.
template <class Archive, class T>
void put(Archive& a, T& value) {
  if constexpr (std::is_same_v<T, double>) {
    a.real(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    a.text(value);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    std::uint64_t folded = static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
    a.number(folded);
    if constexpr (Archive::kReads) value = static_cast<std::int64_t>(folded >> 1 ^ (~(folded & 1) + 1));
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {  // ids: kNone is 0
    std::uint64_t shifted = static_cast<std::uint32_t>(value + 1);
    a.number(shifted);
    if (shifted > 0xffffffffu) a.fail("an id has more than 32 bits");
    if constexpr (Archive::kReads) value = static_cast<std::uint32_t>(shifted) - 1;
  } else if constexpr (std::is_same_v<T, bool>) {
    std::uint64_t bit = value;
    a.number(bit);
    if (bit > 1) a.fail("a flag is neither 0 nor 1");
    value = bit == 1;
  } else {
    describe(a, value);
  }
}

template <class Archive, class... Fields>
void fields(Archive& a, Fields&... each) {
  (put(a, each), ...);
}

template <class Archive, class T>
void list(Archive& a, std::vector<T>& items) {
  std::size_t size = items.size();
  if (!a.count(size)) return;
  if constexpr (Archive::kReads) {
    // One by one: damage must not ask for the memory of as many items as there are bytes.
    for (std::size_t i = 0; i < size && a.error() == nullptr; ++i) put(a, items.emplace_back());
  } else {
    for (T& item : items) put(a, item);
  }
}

template <class Archive, class Enum>
void choice(Archive& a, Enum& value, Enum last) {
  auto number = static_cast<std::uint64_t>(value);
  a.number(number);
  if (number > static_cast<std::uint64_t>(last)) a.fail("an enumeration has no such value");
  if constexpr (Archive::kReads) value = static_cast<Enum>(std::min(number, static_cast<std::uint64_t>(last)));
}

/// Most views are dense and row-major from the first element on.
template <class Archive>
void describe(Archive& a, View& view) {
  std::uint64_t how = 0;
  if constexpr (!Archive::kReads) {
    how = static_cast<std::uint64_t>(view.offset != 0) |
          static_cast<std::uint64_t>(view.strides != View::contiguous(view.sizes).strides) << 1;
  }
  a.number(how);
  if (how > 3) a.fail("a view has unknown flags");
  list(a, view.sizes);
  if ((how & 1) != 0) put(a, view.offset);
  if ((how & 2) != 0) {
    list(a, view.strides);
  } else if constexpr (Archive::kReads) {
    if (!checked_elements(view.sizes)) return a.fail("sizes are negative or too large");
    view.strides = View::contiguous(view.sizes).strides;
  }
}

template <class Archive>
void describe(Archive& a, Scalar& scalar) {
  put(a, scalar.slot);
  put(a, scalar.is_integer);
  put(a, scalar.integer);
  put(a, scalar.real);
}

/// A tensor has no number, a number no view; what the other half of an operand holds means nothing and is not kept.
template <class Archive>
void describe(Archive& a, Operand& operand) {
  put(a, operand.value);
  operand.is_scalar() ? put(a, operand.scalar) : put(a, operand.view);
}

template <class Archive>
void describe(Archive& a, Value& value) {
  choice(a, value.kind, ValueKind::kConstant);
  choice(a, value.dtype, DType::kOther);
  fields(a, value.elements, value.name, value.producer);
}

/// Each field with its bit, where it is not as it was made.
template <class Archive>
void describe(Archive& a, Attributes& attributes) {
  const Attributes plain;
  std::uint64_t given = 0, bit = 1;
  const auto note = [&](bool differs) {
    given |= differs ? bit : 0;
    bit <<= 1;
  };
  const auto each = [&](auto visit) {
    visit(attributes.dims, plain.dims);
    visit(attributes.index, plain.index);
    visit(attributes.alpha, plain.alpha);
    visit(attributes.region, plain.region);
    visit(attributes.kernel, plain.kernel);
    visit(attributes.stride, plain.stride);
    visit(attributes.padding, plain.padding);
    visit(attributes.dilation, plain.dilation);
    visit(attributes.groups, plain.groups);
    visit(attributes.pieces, plain.pieces);
  };
  if constexpr (!Archive::kReads) {
    each([&](const auto& field, const auto& usual) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (std::is_array_v<Field>) {
        note(!std::ranges::equal(field, usual));
      } else if constexpr (std::is_same_v<Field, double>) {
        note(std::bit_cast<std::uint64_t>(field) != std::bit_cast<std::uint64_t>(usual));
      } else {
        note(field != usual);
      }
    });
  }
  a.number(given);
  each([&](auto& field, const auto&) {
    const bool is_given = (given & 1) != 0;
    given >>= 1;
    if (!is_given) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_array_v<Field>) {
      fields(a, field[0], field[1]);
    } else if constexpr (std::is_same_v<Field, std::vector<std::int64_t>>) {
      list(a, field);
    } else {
      put(a, field);
    }
  });
  if (given != 0) a.fail("an op has attributes that this version does not know");
}

/// By name, so that a version that numbers kinds anew reads the same file.
template <class Archive>
void describe(Archive& a, OpKind& kind) {
  if constexpr (Archive::kReads) {
    static const auto kKinds = [] {
      std::map<std::string_view, OpKind> kinds;
      for (int k = 0; k <= static_cast<int>(OpKind::kComposite); ++k)
        kinds.emplace(name(static_cast<OpKind>(k)), static_cast<OpKind>(k));
      return kinds;
    }();
    std::string text;
    put(a, text);
    const auto found = kKinds.find(text);
    if (found == kKinds.end()) return a.fail("an op is of a kind that this version does not know");
    kind = found->second;
  } else {
    std::string text(name(kind));
    put(a, text);
  }
}

template <class Archive>
void describe(Archive& a, Op& op) {
  put(a, op.kind);
  list(a, op.inputs);
  list(a, op.outputs);
  fields(a, op.attributes, op.source);
}

template <class Archive>
void describe(Archive& a, Source& source) {
  fields(a, source.op, source.module, source.site, source.trace_op);
  choice(a, source.phase, Phase::kOptimizer);
}

template <class Archive>
void describe(Archive& a, Slot& slot) {
  fields(a, slot.name, slot.is_integer);
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  for (const Number& number : slot.values)
    slot.is_integer ? integers.push_back(number.integer()) : reals.push_back(number.real());
  slot.is_integer ? list(a, integers) : list(a, reals);
  if constexpr (Archive::kReads) {
    slot.values.assign(integers.begin(), integers.end());
    slot.values.insert(slot.values.end(), reals.begin(), reals.end());
  }
}

template <class Archive>
void describe(Archive& a, State& state) {
  fields(a, state.start, state.end, state.initial_blob, state.final_blob);
}

template <class Archive>
void describe(Archive& a, Input& input) {
  fields(a, input.value, input.is_draw);
  list(a, input.blobs);
}

template <class Archive>
void describe(Archive& a, Constant& constant) {
  fields(a, constant.value, constant.blob);
}

template <class Archive>
void describe(Archive& a, Bound& bound) {
  fields(a, bound.low, bound.high, bound.source);
}

template <class Archive>
void describe(Archive& a, Output& output) {
  fields(a, output.name, output.operand);
  list(a, output.recorded);
  list(a, output.blobs);
  list(a, output.bounds);
}

/// Arguments hold arguments; a file cannot make the reader's stack overflow.
constexpr int kDeepestArgument = 32;

template <class Archive>
void describe(Archive& a, OpaqueArg& arg, int depth = 0) {
  choice(a, arg.kind, OpaqueArg::Kind::kList);
  fields(a, arg.integer, arg.real, arg.imaginary, arg.text, arg.operand);
  std::size_t size = arg.items.size();
  if (!a.count(size)) return;
  if (depth == kDeepestArgument && size != 0) return a.fail("arguments hold arguments too deeply");
  if constexpr (Archive::kReads) {
    // One by one, as list() has it: each level of nesting could ask for as much again.
    for (std::size_t i = 0; i < size && a.error() == nullptr; ++i) describe(a, arg.items.emplace_back(), depth + 1);
  } else {
    for (OpaqueArg& item : arg.items) describe(a, item, depth + 1);
  }
}

template <class Archive>
void describe(Archive& a, OpaqueResult& result) {
  fields(a, result.written, result.returned);
}

template <class Archive>
void describe(Archive& a, Opaque& opaque) {
  fields(a, opaque.schema, opaque.reason);
  list(a, opaque.args);
  list(a, opaque.results);
  choice(a, opaque.effect, OpaqueEffect::kUnknown);
}

/// A copy of the entry is written, and read into a new one: entries are shared and never change.
template <class Archive>
void describe(Archive& a, std::shared_ptr<const Opaque>& entry) {
  Opaque opaque = entry != nullptr ? *entry : Opaque{};
  describe(a, opaque);
  if constexpr (Archive::kReads) entry = std::make_shared<const Opaque>(std::move(opaque));
}

template <class Archive>
void describe(Archive& a, CompositeAttribute& attribute) {
  fields(a, attribute.name, attribute.is_list);
  list(a, attribute.numbers);
}

template <class Archive>
void describe(Archive& a, Program& program) {
  list(a, program.values);
  list(a, program.ops);
  list(a, program.sources);
  list(a, program.slots);
  list(a, program.states);
  list(a, program.inputs);
  list(a, program.constants);
  list(a, program.outputs);
  list(a, program.opaques);
  list(a, program.left_out);
  put(a, program.iterations);
}

/// As of an opaque op. A body has no composites of its own.
template <class Archive>
void describe(Archive& a, std::shared_ptr<const Composite>& entry) {
  Composite composite = entry != nullptr ? *entry : Composite{};
  put(a, composite.name);
  list(a, composite.attributes);
  describe(a, composite.body);
  if constexpr (Archive::kReads) entry = std::make_shared<const Composite>(std::move(composite));
}

template <class Archive>
void describe(Archive& a, Role& role) {
  fields(a, role.name, role.operand);
}

template <class Archive>
void describe(Archive& a, Meaning& meaning) {
  put(a, meaning.name);
  list(a, meaning.attributes);
  list(a, meaning.inputs);
  list(a, meaning.outputs);
}

/// Composites and meanings: behind everything else, and only where there are some. Programs without them are what they
/// were before there were any.
template <class Archive>
void describe_names(Archive& a, Program& program) {
  if constexpr (Archive::kReads) {
    if (a.is_at_end()) return;
    list(a, program.composites);
    const bool has_more = a.error() == nullptr && !a.is_at_end();
    if (has_more) list(a, program.meanings);
    if (has_more ? program.meanings.empty() : program.composites.empty()) a.fail("more follows behind its end");
  } else {
    if (!program.composites.empty() || !program.meanings.empty()) list(a, program.composites);
    if (!program.meanings.empty()) list(a, program.meanings);
  }
}

std::uint64_t stored_checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum |= static_cast<std::uint64_t>(bytes[static_cast<std::size_t>(i)]) << (8 * i);
  return sum;
}

Error bad(std::string_view what) { return {ErrorCode::kBadInput, fmt::format("the program cannot be read: {}", what)}; }

}  // namespace

bool is_binary_program(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::ranges::equal(bytes.first(kMagic.size()), std::as_bytes(std::span(kMagic)));
}

std::vector<std::byte> to_binary(const Program& program) {
  Writer body;
  auto& unchanged = const_cast<Program&>(program);  // a writer changes nothing
  describe(body, unchanged);
  describe_names(body, unchanged);
  Writer file;
  file.raw(kMagic);
  std::uint64_t version = kVersion;
  file.number(version);
  std::size_t strings = body.strings().size();
  file.count(strings);
  for (const std::string& text : body.strings()) {
    std::size_t length = text.size();
    file.count(length);
    file.raw(text);
  }
  std::vector<std::byte>& bytes = file.bytes();
  bytes.insert(bytes.end(), body.bytes().begin(), body.bytes().end());
  const std::uint64_t sum = checksum64(bytes);
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(sum >> (8 * i)));
  return std::move(bytes);
}

Result<Program> from_binary(std::span<const std::byte> bytes) {
  if (!is_binary_program(bytes)) return bad("it does not begin as one in binary form");
  if (bytes.size() < kMagic.size() + kChecksumBytes) return bad("it ends early");
  const auto content = bytes.first(bytes.size() - kChecksumBytes);
  Reader reader(content.subspan(kMagic.size()));
  std::uint64_t version = 0;
  reader.number(version);
  if (reader.error() == nullptr && version != kVersion) {
    return bad(fmt::format(
        "it is of version {} of the binary form, this crucible reads version {}; write it again from its recording",
        version, kVersion));
  }
  if (stored_checksum(bytes.last(kChecksumBytes)) != checksum64(content))
    return bad("its checksum does not fit, so it is damaged or cut off");
  reader.strings();
  Program program;
  describe(reader, program);
  if (reader.error() == nullptr) describe_names(reader, program);
  if (reader.error() != nullptr) return bad(reader.error());
  if (!reader.is_at_end()) return bad("more follows behind its end");
  if (auto valid = verify(program); !valid) return bad(valid.error().message);
  return program;
}

}  // namespace crucible::graph
