#include "backends/cpu/options.hpp"

#include <string_view>
#include <vector>

#include "backends/cpu/error.hpp"
#include "backends/cpu/kv.hpp"

namespace crucible_cpu {
namespace {

struct OptionRow {
  std::string_view name, type, default_value, choices, min, max, help, env;
};

constexpr OptionRow kOptions[] = {
    {"threads", "u64", "", "", "1", "1024", "threads that share the work; default: the cores that the process may use", "CRUCIBLE_THREADS"},
    {"compiler", "path", "", "", "", "", "clang, by path or name; default: clang-19, then any other from 17 on", "CRUCIBLE_CLANG"},
    {"cache_dir", "path", "", "", "", "", "where compiled kernels are kept; default: the user's cache folder", "CRUCIBLE_CACHE_DIR"},
    {"library", "choice", "auto", "auto onednn none", "", "", "oneDNN for products and convolutions: when it is there, always, or never", "CRUCIBLE_LIBRARY"},
};

}  // namespace

crucible_status describe_options(crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(sink != nullptr, "describe_options: no function to report to");
    for (const OptionRow& row : kOptions) {
      std::vector<crucible_kv> items;
      const auto add = [&](std::string_view key, std::string_view value) {
        if (!value.empty()) items.push_back(text_item(key, value));
      };
      add("name", row.name);
      add("type", row.type);
      add("default", row.default_value);
      add("choices", row.choices);
      add("min", row.min);
      add("max", row.max);
      add("help", row.help);
      add("env", row.env);
      sink(user, items.data(), static_cast<std::uint32_t>(items.size()));
    }
  });
}

}  // namespace crucible_cpu
