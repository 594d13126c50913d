// Test support: a recording whose iterations are not all alike, made by the reference interpreter, and programs with an
// error in one op.
#pragma once

#include <cstdint>
#include <memory>

#include "core/graph/variants.hpp"
#include "core/trace/memory_blob_store.hpp"

namespace crucible::runtime {

struct VariantRecording {
  std::shared_ptr<graph::Variants> variants = std::make_shared<graph::Variants>();
  std::shared_ptr<trace::MemoryBlobStore> blobs = std::make_shared<trace::MemoryBlobStore>();
};

/// Three programs over the states a, b and c, of 40 elements each. The first moves a by an input, the second b by a,
/// and neither touches c; the third changes nothing and gives back what it makes of all. Turns at random, some of them
/// with states given anew; what they compute is recorded by the reference interpreter.
VariantRecording recorded_variants(std::uint32_t seed, std::uint32_t turns);

/// `program` in which everybody reads result 0 of `op` times `factor`.
graph::Program with_error(graph::Program program, graph::OpId op, double factor);

}  // namespace crucible::runtime
