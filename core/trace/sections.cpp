// Encoders and decoders of the tables. Each pair stands together so that they are changed together; a change of either
// is a new major version, a new table is a new section.
#include "core/trace/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/trace/byte_stream.hpp"

namespace crucible::trace {

namespace {

/// Count, then each record; `min_bytes` is the least that a record can take, which bounds what a false count can cost.
template <class Record, class Write>
void write_records(ByteWriter& out, const std::vector<Record>& records, Write write) {
  out.varint(records.size());
  for (const Record& record : records) write(out, record);
}

template <class Record, class Read>
void read_records(ByteReader& in, std::vector<Record>& records, std::size_t min_bytes, Read read) {
  const std::size_t count = in.count(min_bytes);
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    records.emplace_back();
    read(in, records.back());
    if (!in.ok()) in.prefix(fmt::format("record {}: ", i));
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

// metadata: pairs of name and text, so that a reader passes over names that it does not know.

void write_metadata(ByteWriter& out, const Metadata& metadata) {
  const std::pair<std::string_view, std::string> pairs[] = {
      {"framework", metadata.framework},
      {"frontend", metadata.frontend},
      {"device", metadata.device},
      {"command", metadata.command},
      {"created", metadata.created},
      {"incomplete_reason", metadata.incomplete_reason},
      {"warmup_iterations", std::to_string(metadata.warmup_iterations)},
      {"overhead_ns_per_op", std::to_string(metadata.overhead_ns_per_op)},
  };
  out.varint(std::size(pairs));
  for (const auto& [name, text] : pairs) {
    out.text(name);
    out.text(text);
  }
}

template <class Number>
void read_number(ByteReader& in, std::string_view name, std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    in.fail(fmt::format("{} is not a number that fits: '{}'", name, text.substr(0, 40)));
  }
}

void read_metadata(ByteReader& in, Metadata& metadata) {
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
  }
}

void write_schema(ByteWriter& out, const Schema& schema) {
  out.text(schema.name);
  out.text(schema.overload);
  out.text(schema.text);
}

void read_schema(ByteReader& in, Schema& schema) {
  schema.name = in.text();
  schema.overload = in.text();
  schema.text = in.text();
}

void write_site(ByteWriter& out, const Site& site) {
  out.text(site.file);
  out.varint(site.line);
  out.text(site.function);
}

void read_site(ByteReader& in, Site& site) {
  site.file = in.text();
  site.line = in.varint32();
  site.function = in.text();
}

void write_storage(ByteWriter& out, const Storage& storage) {
  out.varint(storage.size_bytes);
  out.text(storage.device);
}

void read_storage(ByteReader& in, Storage& storage) {
  storage.size_bytes = in.varint();
  storage.device = in.text();
}

void write_tensor(ByteWriter& out, const Tensor& tensor) {
  out.id(tensor.storage);
  out.u8(static_cast<std::uint8_t>(tensor.dtype));
  out.u8(static_cast<std::uint8_t>(tensor.requires_grad | tensor.is_wrapped_number << 1));
  out.zigzag(tensor.offset);
  out.varint(tensor.sizes.size());
  for (const std::int64_t size : tensor.sizes) out.zigzag(size);
  for (const std::int64_t stride : tensor.strides) out.zigzag(stride);
}

void read_tensor(ByteReader& in, Tensor& tensor) {
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

void write_arg(ByteWriter& out, const Arg& arg) {
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
      write_records(out, arg.list, write_arg);
      break;
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
      read_records(in, arg.list, 1, [depth](ByteReader& from, Arg& element) { read_arg(from, element, depth + 1); });
      break;
  }
}

void write_op(ByteWriter& out, const Op& op) {
  out.id(op.schema);
  out.id(op.site);
  out.id(op.module);
  out.u8(static_cast<std::uint8_t>(op.phase));
  out.varint(op.thread);
  write_records(out, op.args, write_arg);
  write_records(out, op.outputs, write_arg);
}

void read_op(ByteReader& in, Op& op) {
  op.schema = in.id();
  op.site = in.id();
  op.module = in.id();
  op.phase = read_enum(in, Phase::kOptimizer, "phase");
  op.thread = in.varint32();
  const auto read_top = [](ByteReader& from, Arg& arg) { read_arg(from, arg, 0); };
  read_records(in, op.args, 1, read_top);
  read_records(in, op.outputs, 1, read_top);
}

void write_iteration(ByteWriter& out, const Iteration& iteration) {
  out.varint(iteration.first_op);
  out.varint(iteration.op_count);
  out.u8(iteration.complete);
  write_records(out, iteration.losses, [](ByteWriter& to, const Loss& loss) {
    to.id(loss.tensor);
    to.f64(loss.value);
  });
}

void read_iteration(ByteReader& in, Iteration& iteration) {
  iteration.first_op = in.varint32();
  iteration.op_count = in.varint32();
  iteration.complete = read_flag(in);
  read_records(in, iteration.losses, 9, [](ByteReader& from, Loss& loss) {
    loss.tensor = from.id();
    loss.value = from.f64();
  });
}

void write_external(ByteWriter& out, const External& external) {
  out.id(external.storage);
  out.varint(external.iteration);
  out.varint(external.op);
  out.u8(static_cast<std::uint8_t>(external.role));
  out.text(external.name);
  out.id(external.blob);
}

void read_external(ByteReader& in, External& external) {
  external.storage = in.id();
  external.iteration = in.varint32();
  external.op = in.varint32();
  external.role = read_enum(in, Role::kInput, "role");
  external.name = in.text();
  external.blob = in.id();
}

void write_draw(ByteWriter& out, const Draw& draw) {
  out.varint(draw.op);
  out.varint(draw.output);
  out.id(draw.blob);
}

void read_draw(ByteReader& in, Draw& draw) {
  draw.op = in.varint32();
  draw.output = in.varint32();
  draw.blob = in.id();
}

void write_final_state(ByteWriter& out, const FinalState& state) {
  out.id(state.storage);
  out.u8(static_cast<std::uint8_t>(state.role));
  out.text(state.name);
  out.id(state.blob);
}

void read_final_state(ByteReader& in, FinalState& state) {
  state.storage = in.id();
  state.role = read_enum(in, Role::kInput, "role");
  state.name = in.text();
  state.blob = in.id();
}

void write_not_recorded(ByteWriter& out, const NotRecorded& item) {
  out.text(item.what);
  out.varint(item.count);
  out.id(item.site);
}

void read_not_recorded(ByteReader& in, NotRecorded& item) {
  item.what = in.text();
  item.count = in.varint();
  item.site = in.id();
}

void write_module(ByteWriter& out, const std::string& path) { out.text(path); }

void read_module(ByteReader& in, std::string& path) { path = in.text(); }

Result<void> finish(const ByteReader& in, SectionId id) {
  if (!in.ok()) return section_error(id, in.problem());
  if (in.remaining() > 0)
    return section_error(id, fmt::format("{} bytes are left after its last record", in.remaining()));
  return {};
}

}  // namespace

std::vector<std::byte> encode_section(const Trace& trace, SectionId id) {
  ByteWriter out;
  switch (id) {
    case SectionId::kMetadata:
      write_metadata(out, trace.metadata);
      break;
    case SectionId::kSchemas:
      write_records(out, trace.schemas, write_schema);
      break;
    case SectionId::kSites:
      write_records(out, trace.sites, write_site);
      break;
    case SectionId::kModules:
      write_records(out, trace.modules, write_module);
      break;
    case SectionId::kStorages:
      write_records(out, trace.storages, write_storage);
      break;
    case SectionId::kTensors:
      write_records(out, trace.tensors, write_tensor);
      break;
    case SectionId::kOps:
      write_records(out, trace.ops, write_op);
      break;
    case SectionId::kIterations:
      write_records(out, trace.iterations, write_iteration);
      break;
    case SectionId::kExternals:
      write_records(out, trace.externals, write_external);
      break;
    case SectionId::kDraws:
      write_records(out, trace.draws, write_draw);
      break;
    case SectionId::kFinalStates:
      write_records(out, trace.final_states, write_final_state);
      break;
    case SectionId::kNotRecorded:
      write_records(out, trace.not_recorded, write_not_recorded);
      break;
    case SectionId::kBlobIndex:
    case SectionId::kBlobs:
      break;  // need the places: encode_blob_index, trace_writer.cpp
  }
  return out.take();
}

Result<void> decode_section(std::span<const std::byte> content, SectionId id, Trace& trace) {
  ByteReader in(content);
  switch (id) {
    case SectionId::kMetadata:
      read_metadata(in, trace.metadata);
      break;
    case SectionId::kSchemas:
      read_records(in, trace.schemas, 3, read_schema);
      break;
    case SectionId::kSites:
      read_records(in, trace.sites, 3, read_site);
      break;
    case SectionId::kModules:
      read_records(in, trace.modules, 1, read_module);
      break;
    case SectionId::kStorages:
      read_records(in, trace.storages, 2, read_storage);
      break;
    case SectionId::kTensors:
      read_records(in, trace.tensors, 5, read_tensor);
      break;
    case SectionId::kOps:
      read_records(in, trace.ops, 7, read_op);
      break;
    case SectionId::kIterations:
      read_records(in, trace.iterations, 4, read_iteration);
      break;
    case SectionId::kExternals:
      read_records(in, trace.externals, 6, read_external);
      break;
    case SectionId::kDraws:
      read_records(in, trace.draws, 3, read_draw);
      break;
    case SectionId::kFinalStates:
      read_records(in, trace.final_states, 4, read_final_state);
      break;
    case SectionId::kNotRecorded:
      read_records(in, trace.not_recorded, 3, read_not_recorded);
      break;
    case SectionId::kBlobIndex:
    case SectionId::kBlobs:
      return {};  // decode_blob_index, trace_reader.cpp
  }
  return finish(in, id);
}

std::vector<std::byte> encode_blob_index(std::span<const Blob> blobs, std::span<const BlobPlace> places) {
  ByteWriter out;
  out.varint(blobs.size());
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    out.raw(std::as_bytes(std::span(blobs[i].hash.bytes)));
    out.varint(blobs[i].size_bytes);
    out.varint(places[i].offset);
    out.varint(places[i].stored_bytes);
    out.u8(static_cast<std::uint8_t>(places[i].codec));
    out.u64(places[i].checksum);
  }
  return out.take();
}

Result<std::vector<BlobPlace>> decode_blob_index(std::span<const std::byte> content, std::uint64_t area_bytes,
                                                 std::vector<Blob>& blobs) {
  ByteReader in(content);
  std::vector<BlobPlace> places;
  std::uint64_t free_from = 0;
  read_records(in, places, 32 + 3 + 1 + 8, [&](ByteReader& from, BlobPlace& place) {
    Blob blob;
    from.raw(std::as_writable_bytes(std::span(blob.hash.bytes)));
    blob.size_bytes = from.varint();
    place.offset = from.varint();
    place.stored_bytes = from.varint();
    place.codec = read_enum(from, Codec::kZstd, "codec");
    place.checksum = from.u64();
    if (!from.ok()) return;
    if (place.offset < free_from || place.offset > area_bytes || place.offset % kAlignment != 0 ||
        place.stored_bytes > area_bytes - place.offset) {
      return from.fail(fmt::format("{} bytes at byte {} are not inside the bytes {} to {} of section 'blobs'",
                                   place.stored_bytes, place.offset, free_from, area_bytes));
    }
    if (place.codec == Codec::kRaw && place.stored_bytes != blob.size_bytes) {
      return from.fail(fmt::format("it is not compressed, but has {} bytes stored and {} uncompressed",
                                   place.stored_bytes, blob.size_bytes));
    }
    free_from = place.offset + place.stored_bytes;
    blobs.push_back(blob);
  });
  CRUCIBLE_TRY_VOID(finish(in, SectionId::kBlobIndex));
  return places;
}

}  // namespace crucible::trace
