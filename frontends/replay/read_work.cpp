#include "frontends/replay/read_work.hpp"

#include <utility>

#include "runtime/run/capsule.hpp"
#include "core/trace/trace_file.hpp"

namespace crucible::replay {

Result<Work> read_work(const std::string& file, aten::Opaques opaques, const graph::KeepsComposite& keeps) {
  if (!runtime::is_capsule(file)) {
    CRUCIBLE_TRY(trace::Trace trace, trace::read_file(file));
    CRUCIBLE_TRY(graph::Variants variants, aten::lower_variants(trace, opaques, keeps));
    return Work{std::move(trace), std::make_shared<const graph::Variants>(std::move(variants))};
  }
  CRUCIBLE_TRY(runtime::Capsule capsule, runtime::read_capsule(file));
  auto program = std::make_shared<const graph::Program>(std::move(capsule.program));
  Work work{.trace = {}, .variants = std::make_shared<const graph::Variants>(graph::alone(std::move(program)))};
  work.trace.metadata.frontend = "crucible compare --capsule";
  work.trace.metadata.command = std::move(capsule.origin);
  work.trace.blobs = capsule.blobs->blobs();
  work.trace.blob_store = std::move(capsule.blobs);
  return work;
}

}  // namespace crucible::replay
