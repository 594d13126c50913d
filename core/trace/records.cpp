// Encoders and decoders of the records. Each pair stands together so that they are changed together; a change of either
// is a new major version, a new table is a new section.
#include "core/trace/records.hpp"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>
#include <utility>

namespace crucible::trace {

namespace {

/// A `list of` something inside a record.
template <class Record, class Write>
void write_list(ByteWriter& out, const std::vector<Record>& records, Write write) {
  out.varint(records.size());
  for (const Record& record : records) write(out, record);
}

template <class Record, class Read>
void read_list(ByteReader& in, std::vector<Record>& records, std::size_t min_bytes, Read read) {
  const std::size_t count = in.count(min_bytes);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    records.emplace_back();
    read(in, records.back());
  }
}

template <class Enum>
Enum read_enum(ByteReader& in, Enum last, const char* what) {
  const std::uint8_t number = in.u8();
  if (number > static_cast<std::uint8_t>(last)) in.fail(fmt::format("{} {} is not known", what, number));
  return static_cast<Enum>(number);
}

bool read_flag(ByteReader& in) {
  const std::uint8_t number = in.u8();
  if (number > 1) in.fail(fmt::format("a flag is {}, not 0 or 1", number));
  return number == 1;
}

template <class Number>
void read_number(ByteReader& in, std::string_view name, std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    in.fail(fmt::format("{} is not a number that fits: '{}'", name, text.substr(0, 40)));
  }
}

void read_arg(ByteReader& in, Arg& arg, int depth) {
  arg.kind = read_enum(in, Arg::Kind::kOpaque, "argument kind");
  if (!in.ok()) return;
  switch (arg.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      break;
    case Arg::Kind::kBool:
    case Arg::Kind::kInt:
    case Arg::Kind::kDType:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
      arg.integer = in.zigzag();
      break;
    case Arg::Kind::kDouble:
      arg.real = in.f64();
      break;
    case Arg::Kind::kComplex:
      arg.real = in.f64();
      arg.imaginary = in.f64();
      break;
    case Arg::Kind::kString:
    case Arg::Kind::kDevice:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      arg.text = in.text();
      break;
    case Arg::Kind::kTensor:
      arg.tensor = in.id();
      break;
    case Arg::Kind::kList:
      if (depth == kMaxListDepth) return in.fail(fmt::format("lists are nested deeper than {}", kMaxListDepth));
      read_list(in, arg.list, 1, [depth](ByteReader& from, Arg& element) { read_arg(from, element, depth + 1); });
      break;
  }
}

void write_args(ByteWriter& out, const std::vector<Arg>& args) {
  write_list(out, args, [](ByteWriter& to, const Arg& arg) { encode(to, arg); });
}

void read_args(ByteReader& in, std::vector<Arg>& args) {
  read_list(in, args, 1, [](ByteReader& from, Arg& arg) { read_arg(from, arg, 0); });
}

}  // namespace

void encode(ByteWriter& out, const Metadata& metadata) {
  std::vector<std::pair<std::string_view, std::string>> pairs = {
      {"framework", metadata.framework},
      {"frontend", metadata.frontend},
      {"device", metadata.device},
      {"command", metadata.command},
      {"created", metadata.created},
      {"incomplete_reason", metadata.incomplete_reason},
      {"warmup_iterations", std::to_string(metadata.warmup_iterations)},
      {"overhead_ns_per_op", std::to_string(metadata.overhead_ns_per_op)},
  };
  if (metadata.rank) pairs.emplace_back("rank", std::to_string(*metadata.rank));
  if (metadata.world_size) pairs.emplace_back("world_size", std::to_string(*metadata.world_size));
  if (!metadata.blob_folder.empty()) pairs.emplace_back("blob_folder", metadata.blob_folder);
  out.varint(pairs.size());
  for (const auto& [name, text] : pairs) {
    out.text(name);
    out.text(text);
  }
}

void decode(ByteReader& in, Metadata& metadata) {
  const std::size_t count = in.count(2);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    const std::string name = in.text();
    std::string text = in.text();
    if (!in.ok()) return;
    if (name == "framework")
      metadata.framework = std::move(text);
    else if (name == "frontend")
      metadata.frontend = std::move(text);
    else if (name == "device")
      metadata.device = std::move(text);
    else if (name == "command")
      metadata.command = std::move(text);
    else if (name == "created")
      metadata.created = std::move(text);
    else if (name == "incomplete_reason")
      metadata.incomplete_reason = std::move(text);
    else if (name == "warmup_iterations")
      read_number(in, name, text, metadata.warmup_iterations);
    else if (name == "overhead_ns_per_op")
      read_number(in, name, text, metadata.overhead_ns_per_op);
    else if (name == "rank")
      read_number(in, name, text, metadata.rank.emplace());
    else if (name == "world_size")
      read_number(in, name, text, metadata.world_size.emplace());
    else if (name == "blob_folder")
      metadata.blob_folder = std::move(text);
  }
}

void encode(ByteWriter& out, const Schema& schema) {
  out.text(schema.name);
  out.text(schema.overload);
  out.text(schema.text);
}

void decode(ByteReader& in, Schema& schema) {
  schema.name = in.text();
  schema.overload = in.text();
  schema.text = in.text();
}

void encode(ByteWriter& out, const Site& site) {
  out.text(site.file);
  out.varint(site.line);
  out.text(site.function);
}

void decode(ByteReader& in, Site& site) {
  site.file = in.text();
  site.line = in.varint32();
  site.function = in.text();
}

void encode(ByteWriter& out, const Storage& storage) {
  out.varint(storage.size_bytes);
  out.text(storage.device);
}

void decode(ByteReader& in, Storage& storage) {
  storage.size_bytes = in.varint();
  storage.device = in.text();
}

void encode(ByteWriter& out, const Tensor& tensor) {
  out.id(tensor.storage);
  out.u8(static_cast<std::uint8_t>(tensor.dtype));
  out.u8(static_cast<std::uint8_t>(tensor.requires_grad | tensor.is_wrapped_number << 1));
  out.zigzag(tensor.offset);
  out.varint(tensor.sizes.size());
  for (const std::int64_t size : tensor.sizes) out.zigzag(size);
  for (const std::int64_t stride : tensor.strides) out.zigzag(stride);
}

void decode(ByteReader& in, Tensor& tensor) {
  tensor.storage = in.id();
  const std::uint8_t dtype = in.u8();
  if (dtype > static_cast<std::uint8_t>(DType::kC128) && dtype != static_cast<std::uint8_t>(DType::kOther)) {
    in.fail(fmt::format("element type {} is not known", dtype));
  }
  tensor.dtype = static_cast<DType>(dtype);
  const std::uint8_t flags = in.u8();
  if (flags > 3) in.fail(fmt::format("tensor flags {} are not known", flags));
  tensor.requires_grad = (flags & 1) != 0;
  tensor.is_wrapped_number = (flags & 2) != 0;
  tensor.offset = in.zigzag();
  const std::size_t rank = in.count(2);
  tensor.sizes.resize(rank);
  tensor.strides.resize(rank);
  for (std::int64_t& size : tensor.sizes) size = in.zigzag();
  for (std::int64_t& stride : tensor.strides) stride = in.zigzag();
}

void encode(ByteWriter& out, const Arg& arg) {
  out.u8(static_cast<std::uint8_t>(arg.kind));
  switch (arg.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      break;
    case Arg::Kind::kBool:
    case Arg::Kind::kInt:
    case Arg::Kind::kDType:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
      out.zigzag(arg.integer);
      break;
    case Arg::Kind::kDouble:
      out.f64(arg.real);
      break;
    case Arg::Kind::kComplex:
      out.f64(arg.real);
      out.f64(arg.imaginary);
      break;
    case Arg::Kind::kString:
    case Arg::Kind::kDevice:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      out.text(arg.text);
      break;
    case Arg::Kind::kTensor:
      out.id(arg.tensor);
      break;
    case Arg::Kind::kList:
      write_args(out, arg.list);
      break;
  }
}

void encode(ByteWriter& out, const Op& op) {
  out.id(op.schema);
  out.id(op.site);
  out.id(op.module);
  out.u8(static_cast<std::uint8_t>(op.phase));
  out.varint(op.thread);
  write_args(out, op.args);
  write_args(out, op.outputs);
}

void decode(ByteReader& in, Op& op) {
  op.schema = in.id();
  op.site = in.id();
  op.module = in.id();
  op.phase = read_enum(in, Phase::kOptimizer, "phase");
  op.thread = in.varint32();
  read_args(in, op.args);
  read_args(in, op.outputs);
}

void encode(ByteWriter& out, const Iteration& iteration) {
  out.varint(iteration.first_op);
  out.varint(iteration.op_count);
  out.u8(iteration.complete);
  write_list(out, iteration.losses, [](ByteWriter& to, const Loss& loss) {
    to.id(loss.tensor);
    to.f64(loss.value);
  });
}

void decode(ByteReader& in, Iteration& iteration) {
  iteration.first_op = in.varint32();
  iteration.op_count = in.varint32();
  iteration.complete = read_flag(in);
  read_list(in, iteration.losses, 9, [](ByteReader& from, Loss& loss) {
    loss.tensor = from.id();
    loss.value = from.f64();
  });
}

void encode(ByteWriter& out, const External& external) {
  out.id(external.storage);
  out.varint(external.iteration);
  out.varint(external.op);
  out.u8(static_cast<std::uint8_t>(external.role));
  out.text(external.name);
  out.id(external.blob);
}

void decode(ByteReader& in, External& external) {
  external.storage = in.id();
  external.iteration = in.varint32();
  external.op = in.varint32();
  external.role = read_enum(in, Role::kInput, "role");
  external.name = in.text();
  external.blob = in.id();
}

void encode(ByteWriter& out, const Draw& draw) {
  out.varint(draw.op);
  out.varint(draw.output);
  out.id(draw.blob);
}

void decode(ByteReader& in, Draw& draw) {
  draw.op = in.varint32();
  draw.output = in.varint32();
  draw.blob = in.id();
}

void encode(ByteWriter& out, const FinalState& state) {
  out.id(state.storage);
  out.u8(static_cast<std::uint8_t>(state.role));
  out.text(state.name);
  out.id(state.blob);
}

void decode(ByteReader& in, FinalState& state) {
  state.storage = in.id();
  state.role = read_enum(in, Role::kInput, "role");
  state.name = in.text();
  state.blob = in.id();
}

void encode(ByteWriter& out, const NotRecorded& item) {
  out.text(item.what);
  out.varint(item.count);
  out.id(item.site);
}

void decode(ByteReader& in, NotRecorded& item) {
  item.what = in.text();
  item.count = in.varint();
  item.site = in.id();
}

void encode(ByteWriter& out, const std::string& path) { out.text(path); }

void decode(ByteReader& in, std::string& path) { path = in.text(); }

void encode(ByteWriter& out, const GeneratorState& state) {
  out.varint(state.iteration);
  out.text(state.device);
  out.id(state.blob);
}

void decode(ByteReader& in, GeneratorState& state) {
  state.iteration = in.varint32();
  state.device = in.text();
  state.blob = in.id();
}

void encode(ByteWriter& out, const Output& output) {
  out.varint(output.iteration);
  out.text(output.name);
  out.id(output.tensor);
  out.id(output.blob);
}

void decode(ByteReader& in, Output& output) {
  output.iteration = in.varint32();
  output.name = in.text();
  output.tensor = in.id();
  output.blob = in.id();
}

void encode(ByteWriter& out, const CompoundTensor& compound) {
  out.id(compound.tensor);
  out.text(compound.kind);
  write_list(out, compound.parts, [](ByteWriter& to, const std::pair<std::string, Arg>& part) {
    to.text(part.first);
    encode(to, part.second);
  });
}

void decode(ByteReader& in, CompoundTensor& compound) {
  compound.tensor = in.id();
  compound.kind = in.text();
  read_list(in, compound.parts, 2, [](ByteReader& from, std::pair<std::string, Arg>& part) {
    part.first = from.text();
    read_arg(from, part.second, 0);
  });
}

void encode(ByteWriter& out, const OpHashes& hashes) {
  write_list(out, hashes, [](ByteWriter& to, std::uint64_t hash) { to.u64(hash); });
}

void decode(ByteReader& in, OpHashes& hashes) {
  read_list(in, hashes, 8, [](ByteReader& from, std::uint64_t& hash) { hash = from.u64(); });
}

void encode(ByteWriter& out, const BlobEntry& entry) {
  out.raw(std::as_bytes(std::span(entry.blob.hash.bytes)));
  out.varint(entry.blob.size_bytes);
  out.varint(entry.place.offset);
  out.varint(entry.place.stored_bytes);
  out.u8(static_cast<std::uint8_t>(entry.place.codec));
  out.u64(entry.place.checksum);
}

void decode(ByteReader& in, BlobEntry& entry) {
  in.raw(std::as_writable_bytes(std::span(entry.blob.hash.bytes)));
  entry.blob.size_bytes = in.varint();
  entry.place.offset = in.varint();
  entry.place.stored_bytes = in.varint();
  entry.place.codec = read_enum(in, Codec::kFolder, "codec");
  if (entry.place.codec == Codec::kIndexed) in.fail("codec 2 is not one of a blob");
  entry.place.checksum = in.u64();
}

}  // namespace crucible::trace
