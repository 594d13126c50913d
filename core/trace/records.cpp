// The records as bytes. One list of fields for each record serves both ways, so that what is written is what is read; a
// change of one is a new major version, a new table is a new section.
#include "core/trace/records.hpp"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace crucible::trace {

namespace {

/// Appends fields.
class Writer {
 public:
  static constexpr bool kReads = false;

  explicit Writer(ByteWriter& out) : out_(out) {}
  bool ok() const { return true; }
  void fail(const std::string&) {}
  void byte(std::uint8_t value) { out_.u8(value); }
  void number(std::uint64_t value) { out_.varint(value); }
  void signed_number(std::int64_t value) { out_.zigzag(value); }
  void id(std::uint32_t value) { out_.id(value); }
  void hash(std::uint64_t value) { out_.u64(value); }
  void real(double value) { out_.f64(value); }
  void text(const std::string& value) { out_.text(value); }
  void raw(std::span<const std::byte> bytes) { out_.raw(bytes); }
  std::size_t count(std::size_t size, std::size_t) {
    out_.varint(size);
    return size;
  }

 private:
  ByteWriter& out_;
};

/// Takes fields.
class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(ByteReader& in) : in_(in) {}
  bool ok() const { return in_.ok(); }
  void fail(std::string problem) { in_.fail(std::move(problem)); }
  void byte(std::uint8_t& value) { value = in_.u8(); }
  void number(std::uint64_t& value) { value = in_.varint(); }
  void number(std::uint32_t& value) { value = in_.varint32(); }
  void signed_number(std::int64_t& value) { value = in_.zigzag(); }
  void id(std::uint32_t& value) { value = in_.id(); }
  void hash(std::uint64_t& value) { value = in_.u64(); }
  void real(double& value) { value = in_.f64(); }
  void text(std::string& value) { value = in_.text(); }
  void raw(std::span<std::byte> bytes) { in_.raw(bytes); }
  /// How many items follow, of `min_bytes` each at least.
  std::size_t count(std::size_t, std::size_t min_bytes) { return in_.count(min_bytes); }

 private:
  ByteReader& in_;
};

/// A record that the archive fills, or one that it only looks at.
template <class Archive, class Record>
using Of = std::conditional_t<Archive::kReads, Record, const Record>;

/// A `list of` something inside a record: each(item).
template <class Archive, class Items, class Each>
void list(Archive& a, Items& items, std::size_t min_bytes, Each each) {
  const std::size_t count = a.count(items.size(), min_bytes);
  for (std::size_t i = 0; i < count && a.ok(); ++i) {
    if constexpr (Archive::kReads) items.emplace_back();
    each(items[i]);
  }
}

template <class Archive, class Enum>
void choice(Archive& a, Enum& value, std::remove_const_t<Enum> last, const char* what) {
  auto number = static_cast<std::uint8_t>(value);
  a.byte(number);
  if constexpr (Archive::kReads) {
    if (number > static_cast<std::uint8_t>(last)) a.fail(fmt::format("{} {} is not known", what, number));
    value = static_cast<Enum>(number);
  }
}

template <class Archive>
void fields(Archive& a, Of<Archive, std::string>& module_path) {
  a.text(module_path);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Schema>& schema) {
  a.text(schema.name);
  a.text(schema.overload);
  a.text(schema.text);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Site>& site) {
  a.text(site.file);
  a.number(site.line);
  a.text(site.function);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Storage>& storage) {
  a.number(storage.size_bytes);
  a.text(storage.device);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Tensor>& tensor) {
  a.id(tensor.storage);
  auto dtype = static_cast<std::uint8_t>(tensor.dtype);
  a.byte(dtype);
  if (dtype > static_cast<std::uint8_t>(DType::kC128) && dtype != static_cast<std::uint8_t>(DType::kOther)) {
    a.fail(fmt::format("element type {} is not known", dtype));
  }
  auto flags = static_cast<std::uint8_t>(tensor.requires_grad | tensor.is_wrapped_number << 1);
  a.byte(flags);
  if (flags > 3) a.fail(fmt::format("tensor flags {} are not known", flags));
  a.signed_number(tensor.offset);
  const std::size_t rank = a.count(tensor.sizes.size(), 2);
  if constexpr (Archive::kReads) {
    tensor.dtype = static_cast<DType>(dtype);
    tensor.requires_grad = (flags & 1) != 0;
    tensor.is_wrapped_number = (flags & 2) != 0;
    tensor.sizes.resize(rank);
    tensor.strides.resize(rank);
  }
  for (auto& size : tensor.sizes) a.signed_number(size);
  for (auto& stride : tensor.strides) a.signed_number(stride);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Arg>& arg, int depth = 0) {
  choice(a, arg.kind, Arg::Kind::kOpaque, "argument kind");
  if (!a.ok()) return;
  switch (arg.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      break;
    case Arg::Kind::kBool:
    case Arg::Kind::kInt:
    case Arg::Kind::kDType:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
      a.signed_number(arg.integer);
      break;
    case Arg::Kind::kDouble:
      a.real(arg.real);
      break;
    case Arg::Kind::kComplex:
      a.real(arg.real);
      a.real(arg.imaginary);
      break;
    case Arg::Kind::kString:
    case Arg::Kind::kDevice:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      a.text(arg.text);
      break;
    case Arg::Kind::kTensor:
      a.id(arg.tensor);
      break;
    case Arg::Kind::kList:
      if (Archive::kReads && depth == kMaxListDepth) {
        return a.fail(fmt::format("lists are nested deeper than {}", kMaxListDepth));
      }
      list(a, arg.list, 1, [&a, depth](auto& element) { fields(a, element, depth + 1); });
      break;
  }
}

template <class Archive>
void fields(Archive& a, Of<Archive, Op>& op) {
  a.id(op.schema);
  a.id(op.site);
  a.id(op.module);
  choice(a, op.phase, Phase::kOptimizer, "phase");
  a.number(op.thread);
  list(a, op.args, 1, [&a](auto& arg) { fields(a, arg); });
  list(a, op.outputs, 1, [&a](auto& arg) { fields(a, arg); });
}

template <class Archive>
void fields(Archive& a, Of<Archive, Iteration>& iteration) {
  a.number(iteration.first_op);
  a.number(iteration.op_count);
  std::uint8_t complete = iteration.complete;
  a.byte(complete);
  if constexpr (Archive::kReads) {
    if (complete > 1) a.fail(fmt::format("a flag is {}, not 0 or 1", complete));
    iteration.complete = complete == 1;
  }
  list(a, iteration.losses, 9, [&a](auto& loss) {
    a.id(loss.tensor);
    a.real(loss.value);
  });
}

template <class Archive>
void fields(Archive& a, Of<Archive, External>& external) {
  a.id(external.storage);
  a.number(external.iteration);
  a.number(external.op);
  choice(a, external.role, Role::kInput, "role");
  a.text(external.name);
  a.id(external.blob);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Draw>& draw) {
  a.number(draw.op);
  a.number(draw.output);
  a.id(draw.blob);
}

template <class Archive>
void fields(Archive& a, Of<Archive, FinalState>& state) {
  a.id(state.storage);
  choice(a, state.role, Role::kInput, "role");
  a.text(state.name);
  a.id(state.blob);
}

template <class Archive>
void fields(Archive& a, Of<Archive, NotRecorded>& item) {
  a.text(item.what);
  a.number(item.count);
  a.id(item.site);
}

template <class Archive>
void fields(Archive& a, Of<Archive, GeneratorState>& state) {
  a.number(state.iteration);
  a.text(state.device);
  a.id(state.blob);
}

template <class Archive>
void fields(Archive& a, Of<Archive, Output>& output) {
  a.number(output.iteration);
  a.text(output.name);
  a.id(output.tensor);
  a.id(output.blob);
}

template <class Archive>
void fields(Archive& a, Of<Archive, CompoundTensor>& compound) {
  a.id(compound.tensor);
  a.text(compound.kind);
  list(a, compound.parts, 2, [&a](auto& part) {
    a.text(part.first);
    fields(a, part.second);
  });
}

template <class Archive>
void fields(Archive& a, Of<Archive, OpHashes>& hashes) {
  list(a, hashes, 8, [&a](auto& hash) { a.hash(hash); });
}

template <class Archive>
void fields(Archive& a, Of<Archive, BlobEntry>& entry) {
  if constexpr (Archive::kReads) {
    a.raw(std::as_writable_bytes(std::span(entry.blob.hash.bytes)));
  } else {
    a.raw(std::as_bytes(std::span(entry.blob.hash.bytes)));
  }
  a.number(entry.blob.size_bytes);
  a.number(entry.place.offset);
  a.number(entry.place.stored_bytes);
  choice(a, entry.place.codec, Codec::kLeftOut, "codec");
  if (entry.place.codec == Codec::kIndexed) a.fail("codec 2 is not one of a blob");
  a.hash(entry.place.checksum);
}

/// visit(name, the field, whether it is left out) for each of the metadata.
template <class AnyMetadata, class Visit>
void each_entry(AnyMetadata& metadata, Visit visit) {
  visit("framework", metadata.framework, false);
  visit("frontend", metadata.frontend, false);
  visit("device", metadata.device, false);
  visit("command", metadata.command, false);
  visit("created", metadata.created, false);
  visit("incomplete_reason", metadata.incomplete_reason, false);
  visit("warmup_iterations", metadata.warmup_iterations, false);
  visit("overhead_ns_per_op", metadata.overhead_ns_per_op, false);
  visit("rank", metadata.rank, !metadata.rank);
  visit("world_size", metadata.world_size, !metadata.world_size);
  visit("precision", metadata.precision, metadata.precision.empty());
  visit("blob_folder", metadata.blob_folder, metadata.blob_folder.empty());
}

std::string text_of(const std::string& text) { return text; }
std::string text_of(std::uint64_t number) { return std::to_string(number); }
std::string text_of(const std::optional<std::uint32_t>& number) { return std::to_string(*number); }

void set(Reader&, std::string_view, std::string& text, std::string& field) { field = std::move(text); }

template <class Number>
void set(Reader& a, std::string_view name, const std::string& text, Number& field) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
  if (error != std::errc{} || end != text.data() + text.size()) {
    a.fail(fmt::format("{} is not a number that fits: '{}'", name, text.substr(0, 40)));
  }
}

template <class Number>
void set(Reader& a, std::string_view name, const std::string& text, std::optional<Number>& field) {
  set(a, name, text, field.emplace());
}

void fields(Writer& a, const Metadata& metadata) {
  std::vector<std::pair<std::string, std::string>> pairs;
  each_entry(metadata, [&pairs](const char* name, const auto& field, bool is_left_out) {
    if (!is_left_out) pairs.emplace_back(name, text_of(field));
  });
  list(a, pairs, 2, [&a](const auto& pair) {
    a.text(pair.first);
    a.text(pair.second);
  });
}

void fields(Reader& a, Metadata& metadata) {
  std::vector<std::pair<std::string, std::string>> pairs;
  list(a, pairs, 2, [&](auto& pair) {
    auto& [name, text] = pair;
    a.text(name);
    a.text(text);
    if (!a.ok()) return;
    each_entry(metadata, [&](std::string_view known, auto& field, bool) {
      if (name == known) set(a, name, text, field);
    });
  });
}

}  // namespace

template <Record Type>
void encode(ByteWriter& out, const Type& record) {
  Writer to(out);
  fields(to, record);
}

template <Record Type>
void decode(ByteReader& in, Type& record) {
  Reader from(in);
  fields(from, record);
}

#define CRUCIBLE_RECORD(Type)                     \
  template void encode(ByteWriter&, const Type&); \
  template void decode(ByteReader&, Type&);
CRUCIBLE_RECORD(Metadata)
CRUCIBLE_RECORD(Schema)
CRUCIBLE_RECORD(Site)
CRUCIBLE_RECORD(std::string)
CRUCIBLE_RECORD(Storage)
CRUCIBLE_RECORD(Tensor)
CRUCIBLE_RECORD(Op)
CRUCIBLE_RECORD(Iteration)
CRUCIBLE_RECORD(External)
CRUCIBLE_RECORD(Draw)
CRUCIBLE_RECORD(FinalState)
CRUCIBLE_RECORD(NotRecorded)
CRUCIBLE_RECORD(GeneratorState)
CRUCIBLE_RECORD(Output)
CRUCIBLE_RECORD(CompoundTensor)
CRUCIBLE_RECORD(OpHashes)
CRUCIBLE_RECORD(BlobEntry)
#undef CRUCIBLE_RECORD

}  // namespace crucible::trace
