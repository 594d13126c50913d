// Names in a compiler's words: see named_kernels.hpp.
#include "plugins/sdk/named_kernels.hpp"

#include <string_view>
#include <utility>

namespace crucible::sdk {

Failure naming_kernels(const Failure& failure, const std::vector<std::string>& names) {
  const std::string_view words = failure.what();
  std::string named;
  for (const std::string& name : names) {
    for (std::size_t at = words.find(name); !name.empty() && at != std::string_view::npos;
         at = words.find(name, at + 1)) {
      const char next = at + name.size() < words.size() ? words[at + name.size()] : ' ';
      if (next == '_' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))
        continue;
      named += (named.empty() ? "" : ", ") + name;
      break;
    }
  }
  Payload payload = failure.payload();
  if (!named.empty()) payload.emplace_back("kernel", named);
  return {failure.code(), failure.what(), std::move(payload)};
}

}  // namespace crucible::sdk
