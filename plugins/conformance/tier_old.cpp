// Hosts of the ABI before CRUCIBLE_ABI_OLDEST_MINOR hand over kernels in a way that is gone: they must be told so,
// before they do.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "plugins/conformance/subject.hpp"
#include "plugins/conformance/verdict.hpp"

namespace crucible::conformance {
namespace {

void refused(const Settings& settings) {
  const crucible_plugin_query_fn query = load_query(settings);
  for (std::uint32_t minor = 0; minor < CRUCIBLE_ABI_OLDEST_MINOR; ++minor) {
    const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, minor};
    crucible_query_out out{};
    out.struct_size = offsetof(crucible_query_out, build_id);  // what 0.1 had
    const std::int32_t code = query(&in, &out);
    const std::string_view reason(out.reject_reason, strnlen(out.reject_reason, sizeof(out.reject_reason)));
    expect(code != 0, fmt::format("a host of ABI {}.{} is rejected", CRUCIBLE_ABI_MAJOR, minor), "the query answers 0");
    for (const std::uint32_t named : {minor, CRUCIBLE_ABI_OLDEST_MINOR}) {
      const std::string version = fmt::format("{}.{}", CRUCIBLE_ABI_MAJOR, named);
      expect(reason.find(version) != std::string_view::npos,
             fmt::format("the reason for rejecting a host of {}.{} names {}", CRUCIBLE_ABI_MAJOR, minor, version),
             reason.empty() ? "it is empty" : std::string(reason));
    }
  }
}

}  // namespace

std::vector<Case> old_cases() {
  return {Case{"old.hosts", Tier::kOld,
               "hosts of minors that hand over kernels in another way are rejected, with both versions", true, refused,
               20}};
}

}  // namespace crucible::conformance
