// The query without allocation: everything is built in a local struct of full size and then cut to the host's size.
#include "plugins/sdk/query.hpp"

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "plugins/abi/stubs.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

/// The query of ABI 0.1 ends here: no host has a shorter one.
constexpr std::uint32_t kShortestOut =
    offsetof(crucible_query_out, reject_reason) + sizeof(crucible_query_out{}.reject_reason);

}  // namespace

std::int32_t answer_query(const crucible_query_in* in, crucible_query_out* out, const Identity& identity,
                          const crucible_plugin_api* api) noexcept {
  if (out == nullptr || out->struct_size < kShortestOut) return 2;  // there is no place for a reason either
  crucible_query_out answer = {};
  std::int32_t code = 0;
  if (in == nullptr || in->struct_size < sizeof(crucible_query_in) || in->magic != CRUCIBLE_MAGIC) {
    code = 1;
    std::snprintf(answer.reject_reason, sizeof(answer.reject_reason),
                  "the host's query is not one of Crucible's (size or magic)");
  } else if (in->host_major != CRUCIBLE_ABI_MAJOR) {
    code = 1;
    std::snprintf(
        answer.reject_reason, sizeof(answer.reject_reason),
        "the host speaks ABI %u.%u, this plugin %u.%u: major numbers must be equal, so use a plugin built for the host",
        in->host_major, in->host_minor, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR);
  } else if (!abi::understands(in->host_major, in->host_minor)) {
    code = 1;
    std::snprintf(answer.reject_reason, sizeof(answer.reject_reason),
                  "the host speaks ABI %u.%u, this plugin takes hosts from %u.%u on, which hand over "
                  "kernels as kernel IR alone: use a newer Crucible, or a plugin built for that one",
                  in->host_major, in->host_minor, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_OLDEST_MINOR);
  } else {
    answer.magic = CRUCIBLE_MAGIC;
    answer.abi_major = CRUCIBLE_ABI_MAJOR;
    answer.abi_minor = CRUCIBLE_ABI_MINOR;
    answer.name = borrow(identity.name);
    answer.vendor = borrow(identity.vendor);
    answer.version = borrow(identity.version);
    answer.api = api;
    answer.build_id = borrow(identity.build_id);
    answer.needs = borrow(identity.needs);
  }
  write_sized(out, answer);
  return code;
}

}  // namespace crucible::sdk
