// Examining and loading in one call.
#include <utility>

#include "plugins/loader/examine.hpp"

namespace crucible::backend {

Result<std::shared_ptr<Backend>> load_examined(const Examined& plugin, Options options, DecisionLog& log) {
  return Backend::attach(plugin, std::move(options), log);
}

Result<std::shared_ptr<Backend>> load(const Candidate& candidate, Options options, const LoadPolicy& policy,
                                      DecisionLog& log) {
  CRUCIBLE_TRY(const Examined plugin, examine_candidate(candidate, policy, log));
  return load_examined(plugin, std::move(options), log);
}

Result<std::shared_ptr<Backend>> load(std::string_view name, Options options, const LoadPolicy& policy,
                                      DecisionLog& log) {
  CRUCIBLE_TRY(const Candidate candidate, find_candidate(name, policy, log));
  return load(candidate, std::move(options), policy, log);
}

}  // namespace crucible::backend
