// What a command is to run: a recording, lowered, or a capsule.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "core/graph/variants.hpp"
#include "core/trace/trace.hpp"
#include "frontends/aten/lower.hpp"

namespace crucible::replay {

struct Work {
  trace::Trace
      trace;  // of a capsule: without ops, its metadata say where it comes from, its blob_store is the capsule's
  std::shared_ptr<const graph::Variants> variants;  // shared with sessions
};

/// Errors: those of reading a recording and of lowering it, or of reading a capsule, naming the file.
Result<Work> read_work(const std::string& file, aten::Opaques opaques = aten::Opaques::kMissing,
                       const graph::KeepsComposite& keeps = nullptr);

}  // namespace crucible::replay
