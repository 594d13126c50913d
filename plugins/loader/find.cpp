// Finding under the default policy, for callers without one of their own.
#include <algorithm>

#include "plugins/loader/backend.hpp"
#include "plugins/loader/candidates.hpp"
#include "plugins/loader/inspect.hpp"

namespace crucible::backend {

std::vector<FoundBackend> list_backends() {
  std::vector<FoundBackend> result;
  for (const Candidate& candidate : find_candidates(LoadPolicy{}, process_log())) {
    if (exports_symbol(candidate.path, CRUCIBLE_QUERY_SYMBOL)) result.push_back({candidate.name, candidate.path});
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return result;
}

Result<std::filesystem::path> find_backend(std::string_view name) {
  CRUCIBLE_TRY(const Candidate candidate, find_candidate(name, LoadPolicy{}, process_log()));
  return candidate.path;
}

}  // namespace crucible::backend
