// The file of a capsule: a magic number, the version, then pieces (the origin, the program in its binary form, each
// blob), every one with its sizes and an XXH3-64 of what is stored. docs/replay.md has the bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/hash.hpp"
#include "core/graph/binary.hpp"
#include "runtime/run/capsule.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/compression.hpp"
#include "core/trace/mapped_file.hpp"
#include "core/trace/output_file.hpp"

namespace crucible::runtime {
namespace {

constexpr std::string_view kMagic = "CRCAPS\x1a\n";
constexpr std::uint32_t kVersion = 1;

Result<void> add_piece(trace::ByteWriter& out, std::span<const std::byte> bytes) {
  CRUCIBLE_TRY(const std::vector<std::byte> packed, trace::compress_if_smaller(bytes));
  const std::span<const std::byte> stored = packed.empty() ? bytes : packed;
  out.u64(bytes.size());
  out.u64(stored.size());
  out.u64(checksum64(stored));
  out.raw(stored);
  return {};
}

/// Takes pieces until one does not fit.
class PieceReader {
 public:
  PieceReader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Error error(const std::string& what) const {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{}: {}; make the capsule again with crucible compare --capsule", name_, what)};
  }

  Result<std::uint64_t> number(int width, const char* what) {
    if (bytes_.size() < static_cast<std::size_t>(width)) return error(fmt::format("it ends within {}", what));
    trace::ByteReader reader(bytes_.first(static_cast<std::size_t>(width)));
    const std::uint64_t number = width == 4 ? reader.u32() : reader.u64();
    bytes_ = bytes_.subspan(static_cast<std::size_t>(width));
    return number;
  }

  Result<std::vector<std::byte>> piece(const std::string& what) {
    CRUCIBLE_TRY(const std::uint64_t raw, number(8, what.c_str()));
    CRUCIBLE_TRY(const std::uint64_t stored, number(8, what.c_str()));
    CRUCIBLE_TRY(const std::uint64_t checksum, number(8, what.c_str()));
    if (stored > bytes_.size()) return error(fmt::format("it ends within {}", what));
    const std::span<const std::byte> content = bytes_.first(stored);
    bytes_ = bytes_.subspan(stored);
    if (checksum64(content) != checksum) return error(fmt::format("the checksum of {} does not fit", what));
    if (stored == raw) return std::vector<std::byte>(content.begin(), content.end());
    Result<std::vector<std::byte>> unpacked = trace::decompress(content, raw);
    if (!unpacked) return error(fmt::format("{}: {}", what, unpacked.error().message));
    return unpacked;
  }

  bool skip_magic() {
    if (bytes_.size() < kMagic.size() || std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) return false;
    bytes_ = bytes_.subspan(kMagic.size());
    return true;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
};

/// What a capsule promises beyond graph::verify(): one iteration without states, and a blob of the right size wherever
/// one is named.
Result<void> check(const Capsule& capsule, const PieceReader& reader) {
  const graph::Program& program = capsule.program;
  if (program.iterations != 1 || !program.states.empty() || !program.constants.empty()) {
    return reader.error("its program is not one iteration of inputs and outputs");
  }
  const std::vector<trace::Blob> blobs = capsule.blobs->blobs();
  const auto fits = [&](const std::vector<std::uint32_t>& of, graph::ValueId value) {
    const std::uint64_t size =
        static_cast<std::uint64_t>(program.values[value].elements) * size_bytes(program.values[value].dtype);
    return of.size() == 1 && of[0] < blobs.size() && blobs[of[0]].size_bytes == size;
  };
  for (const graph::Input& input : program.inputs) {
    if (!fits(input.blobs, input.value))
      return reader.error(fmt::format("the bytes of value %{} are missing or of another size", input.value));
  }
  for (const graph::Output& output : program.outputs) {
    if (output.operand.is_scalar() || !fits(output.blobs, output.operand.value)) {
      return reader.error(fmt::format("the recorded bytes of output '{}' are missing or of another size", output.name));
    }
  }
  for (const graph::Slot& slot : program.slots) {
    if (slot.values.size() != 1)
      return reader.error(fmt::format("slot '{}' has {} numbers instead of one", slot.name, slot.values.size()));
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> capsule_bytes(const Capsule& capsule) {
  trace::ByteWriter out;
  out.raw(std::as_bytes(std::span(kMagic)));
  out.u32(kVersion);
  CRUCIBLE_TRY_VOID(add_piece(out, std::as_bytes(std::span(capsule.origin))));
  CRUCIBLE_TRY_VOID(add_piece(out, graph::to_binary(capsule.program)));
  const auto count = static_cast<std::uint32_t>(capsule.blobs->blobs().size());
  out.u32(count);
  for (trace::BlobId blob = 0; blob < count; ++blob) {
    CRUCIBLE_TRY(const std::vector<std::byte> content, capsule.blobs->load(blob));
    CRUCIBLE_TRY_VOID(add_piece(out, content));
  }
  return out.take();
}

Result<void> write_capsule(const Capsule& capsule, const std::filesystem::path& path) {
  CRUCIBLE_TRY(const std::vector<std::byte> bytes, capsule_bytes(capsule));
  CRUCIBLE_TRY(trace::OutputFile file, trace::OutputFile::create(path));
  CRUCIBLE_TRY_VOID(file.append(bytes));
  return file.commit();
}

Result<Capsule> parse_capsule(std::span<const std::byte> bytes, const std::string& name) {
  PieceReader reader(bytes, name);
  if (!reader.skip_magic()) return Error{ErrorCode::kBadInput, fmt::format("{} is no capsule", name)};
  CRUCIBLE_TRY(const std::uint64_t version, reader.number(4, "the version"));
  if (version != kVersion) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} is a capsule of version {}, this crucible reads {}: use the one that made it", name,
                             version, kVersion)};
  }
  Capsule capsule;
  capsule.blobs = std::make_shared<trace::MemoryBlobStore>();
  CRUCIBLE_TRY(const std::vector<std::byte> origin, reader.piece("the origin"));
  capsule.origin.assign(reinterpret_cast<const char*>(origin.data()), origin.size());
  CRUCIBLE_TRY(const std::vector<std::byte> program, reader.piece("the program"));
  Result<graph::Program> parsed = graph::from_binary(program);
  if (!parsed) return reader.error(parsed.error().message);
  capsule.program = *std::move(parsed);
  CRUCIBLE_TRY(const std::uint64_t count, reader.number(4, "the number of blobs"));
  for (std::uint64_t blob = 0; blob < count; ++blob) {
    CRUCIBLE_TRY(std::vector<std::byte> content, reader.piece(fmt::format("blob {} of {}", blob, count)));
    // The store keeps equal contents once, so that numbers would shift: the writer's store had none twice either.
    if (capsule.blobs->add(std::move(content)) != blob)
      return reader.error(fmt::format("blob {} is there twice", blob));
  }
  if (reader.left() != 0) return reader.error(fmt::format("{} bytes follow its end", reader.left()));
  CRUCIBLE_TRY_VOID(check(capsule, reader));
  return capsule;
}

bool is_capsule(const std::filesystem::path& path) {
  const Result<trace::MappedFile> file = trace::MappedFile::open(path);
  return file && file->bytes().size() >= kMagic.size() &&
         std::memcmp(file->bytes().data(), kMagic.data(), kMagic.size()) == 0;
}

Result<Capsule> read_capsule(const std::filesystem::path& path) {
  CRUCIBLE_TRY(const trace::MappedFile file, trace::MappedFile::open(path));
  return parse_capsule(file.bytes(), path.string());
}

}  // namespace crucible::runtime
