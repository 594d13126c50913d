// What stands inside each section of a .crtrace file: a count and that many records, one section per table of the
// Trace. records.hpp has the records. Ids are not compared with table sizes here: validate.hpp does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/container.hpp"
#include "core/trace/records.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// The uncompressed content of one of kTableSections.
std::vector<std::byte> encode_section(const Trace& trace, SectionId id);

/// Fills the table of `trace` that belongs to one of kTableSections.
/// Errors: kBadInput naming the section, the record and the byte.
Result<void> decode_section(std::span<const std::byte> content, SectionId id, Trace& trace);

std::vector<std::byte> encode_blob_index(std::span<const Blob> blobs, std::span<const BlobPlace> places);

/// `area_bytes` is the size of the section 'blobs'.
/// Errors: kBadInput naming the section 'blob_index'; places outside the area, overlapping or unaligned ones included.
Result<std::vector<BlobPlace>> decode_blob_index(std::span<const std::byte> content, std::uint64_t area_bytes,
                                                 std::vector<Blob>& blobs);

/// visit(TABLE) with the table of `trace` (const or not) that belongs to `id`, one of kTableSections but the metadata.
template <class AnyTrace, class Visit>
void visit_table(SectionId id, AnyTrace& trace, Visit visit) {
  switch (id) {
    case SectionId::kSchemas:
      return visit(trace.schemas);
    case SectionId::kSites:
      return visit(trace.sites);
    case SectionId::kModules:
      return visit(trace.modules);
    case SectionId::kStorages:
      return visit(trace.storages);
    case SectionId::kTensors:
      return visit(trace.tensors);
    case SectionId::kOps:
      return visit(trace.ops);
    case SectionId::kIterations:
      return visit(trace.iterations);
    case SectionId::kExternals:
      return visit(trace.externals);
    case SectionId::kDraws:
      return visit(trace.draws);
    case SectionId::kFinalStates:
      return visit(trace.final_states);
    case SectionId::kNotRecorded:
      return visit(trace.not_recorded);
    case SectionId::kGenerators:
      return visit(trace.generators);
    case SectionId::kOutputs:
      return visit(trace.outputs);
    case SectionId::kCompounds:
      return visit(trace.compounds);
    case SectionId::kOpHashes:
      return visit(trace.op_hashes);
    case SectionId::kMetadata:
    case SectionId::kBlobIndex:
    case SectionId::kBlobs:
      return;  // not a vector of records, or needs the places: encode_blob_index
  }
}

}  // namespace crucible::trace
