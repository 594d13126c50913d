// Whether a kernel has one of some words, as refusing_plugin.c asks: in the C text that the SDK prints of it.
#include <algorithm>
#include <string>
#include <string_view>

#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/text.hpp"

/// `words`: comma-separated.
extern "C" int refusing_has_word(const crucible_kernel_source* source, crucible_str words) {
  using namespace crucible::sdk;
  const std::string text = print_kernel(read_kernel(source->data, source->size), dialect_c(), view(source->name));
  std::string_view left = view(words);
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(','));
    if (!word.empty() && text.find(word) != std::string::npos) return 1;
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return 0;
}
