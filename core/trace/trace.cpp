// What a Trace can say about itself without knowing its file.
#include "core/trace/trace.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

std::string Trace::site_text(SiteId id) const {
  if (id >= sites.size()) return "?";
  const Site& site = sites[id];
  std::string_view file = site.file;
  if (const std::size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", printable(file), site.line);
}

}  // namespace crucible::trace
