#include "plugins/loader/query.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

constexpr std::uint64_t kLongestText = 4096;        // of names and versions
constexpr std::uint32_t kLargestTable = 64 * 1024;  // bytes; today's largest has 72
constexpr std::size_t kMostOptions = 1024;
constexpr unsigned char kGuard = 0xa5;

/// The answer's struct with bytes behind it that no plugin may touch.
struct GuardedAnswer {
  crucible_query_out out{};
  unsigned char guard[256];
};

Error nonsense(const std::filesystem::path& path, std::string_view what) {
  return {ErrorCode::kBadInput, fmt::format("plugin {}: {}", path.string(), what)};
}

/// Copies a text of the plugin. Errors: kBadInput when it cannot be one.
Result<std::string> text_of(crucible_str text, std::string_view what, const std::filesystem::path& path) {
  if (text.data == nullptr) return std::string();
  if (text.size > kLongestText) {
    return nonsense(path, fmt::format("its {} says it has {} bytes, {} are the most", what, text.size, kLongestText));
  }
  return std::string(text.data, text.size);
}

/// Everything that must hold before the answer's pointers may be followed. Errors: kBadInput, kUnavailable.
Result<void> check_answer(const std::filesystem::path& path, std::int32_t code, const crucible_query_out& out) {
  if (code != 0) {
    const std::string_view reason(out.reject_reason, strnlen(out.reject_reason, sizeof(out.reject_reason)));
    return Error{ErrorCode::kUnavailable,
                 fmt::format("plugin {} refuses this host (code {}): {}{}", path.string(), code,
                             reason.empty() ? "it gave no reason" : reason,
                             out.api == nullptr ? "" : " (and it had written its answer all the same)")};
  }
  if (out.magic != CRUCIBLE_MAGIC) {
    return nonsense(path,
                    fmt::format("it answers magic {:#010x}, expected {:#010x}: it was built against another header",
                                out.magic, CRUCIBLE_MAGIC));
  }
  if (out.abi_major != CRUCIBLE_ABI_MAJOR) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("plugin {} speaks ABI {}.{}, this host {}.{}: major numbers must be equal, so use a plugin "
                    "built for this host",
                    path.string(), out.abi_major, out.abi_minor, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR)};
  }
  if (!abi::understands(out.abi_major, out.abi_minor)) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("plugin {} speaks ABI {}.{}, and this host takes plugins from {}.{} on: kernels come as "
                             "kernel IR alone since then; use a newer version of the plugin, or rebuild it against "
                             "crucible_plugin.h {}.{}",
                             path.string(), out.abi_major, out.abi_minor, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_OLDEST_MINOR,
                             CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR)};
  }
  if (out.struct_size < offsetof(crucible_query_out, reject_reason) || out.api == nullptr || out.name.data == nullptr ||
      out.name.size == 0) {
    return nonsense(path, fmt::format("its query leaves name or table of functions empty ({} bytes written, {} are the "
                                      "least)",
                                      out.struct_size, offsetof(crucible_query_out, reject_reason)));
  }
  return {};
}

/// A table of the plugin: where it is, how long it says it is. Errors: kBadInput.
Result<void> check_table(const void* table, std::string_view name, const std::filesystem::path& path) {
  const auto address = reinterpret_cast<std::uintptr_t>(table);
  if (address % alignof(void*) != 0) {
    return nonsense(
        path, fmt::format("its table '{}' is at {:#x}, which is no multiple of {}", name, address, alignof(void*)));
  }
  std::uint32_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  constexpr std::uint32_t kSmallest = 2 * sizeof(std::uint32_t) + sizeof(void*);
  if (size < kSmallest || size > kLargestTable || size % sizeof(void*) != 0) {
    return nonsense(path, fmt::format("the table '{}' says it has {} bytes, {} are the least, {} the most, and entries "
                                      "have {}",
                                      name, size, kSmallest, kLargestTable, sizeof(void*)));
  }
  return {};
}

std::vector<std::string> split_choices(std::string_view text) {
  std::vector<std::string> choices;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" ,|"), text.size());
    const std::string_view word = text.substr(0, end);
    if (!word.empty()) choices.emplace_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return choices;
}

/// The number that a text is; nothing when it is none.
std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct OptionSink {
  const std::filesystem::path& path;
  std::vector<OptionSchema> options;
  std::string problem;
};

/// One call per option. Nothing is thrown through the plugin that calls this: what is wrong is kept for later.
void take_option(void* user, const crucible_kv* items, std::uint32_t count) {
  auto& sink = *static_cast<OptionSink*>(user);
  if (sink.options.size() >= kMostOptions)
    return void(sink.problem = fmt::format("it has more than {} options", kMostOptions));
  OptionSchema option;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto key = text_of(items[i].key, "option's key", sink.path);
    const auto text = items[i].type == CRUCIBLE_V_STR ? text_of(items[i].s, "option's text", sink.path)
                                                      : Result<std::string>(std::to_string(items[i].u));
    if (!key || !text) return void(sink.problem = "it has an option that is nonsense");
    if (*key == "name") option.name = *text;
    if (*key == "type") option.type = *text;
    if (*key == "default") option.default_value = *text;
    if (*key == "help") option.help = *text;
    if (*key == "env") option.env = *text;
    if (*key == "choices") option.choices = split_choices(*text);
    if (*key == "min") option.min = number(*text);
    if (*key == "max") option.max = number(*text);
    if (*key == "folder") option.folder = *text;
  }
  static constexpr std::string_view kTypes[] = {"bool", "u64", "str", "choice", "path"};
  if (option.name.empty()) return void(sink.problem = "it has an option without a name");
  if (std::find(std::begin(kTypes), std::end(kTypes), option.type) == std::end(kTypes)) {
    return void(sink.problem =
                    fmt::format("its option '{}' has the type '{}', which is none of bool, u64, str, choice, path",
                                option.name, option.type));
  }
  sink.options.push_back(std::move(option));
}

/// True, with the error destroyed, when the host's fill-in answered for an entry that the plugin lacks.
bool is_unimplemented(crucible_status status) {
  if (status == nullptr || status->table == nullptr || status->table->code == nullptr) return false;
  if ((status->table->code(status) & 0xff) != CRUCIBLE_E_UNIMPLEMENTED) return false;
  if (status->table->destroy != nullptr) status->table->destroy(status);
  return true;
}

/// Runs `call` and makes an error of whatever it throws.
template <class Call>
Result<void> guarded(std::string_view what, const std::filesystem::path& path, Call&& call) {
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    return nonsense(path, fmt::format("its {} threw a C++ exception across the boundary: {}", what, error.what()));
  } catch (...) {
    return nonsense(path, fmt::format("its {} threw something across the boundary", what));
  }
}

}  // namespace

Result<QueryAnswer> ask(crucible_plugin_query_fn query, const std::filesystem::path& path) {
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  GuardedAnswer answer;
  std::memset(answer.guard, kGuard, sizeof(answer.guard));
  crucible_query_out& out = answer.out;
  out.struct_size = sizeof(out);
  std::int32_t code = 0;
  CRUCIBLE_TRY_VOID(guarded("query", path, [&] { code = query(&in, &out); }));
  if (std::any_of(std::begin(answer.guard), std::end(answer.guard),
                  [](unsigned char byte) { return byte != kGuard; })) {
    return nonsense(path, fmt::format("its query wrote behind the {} bytes that it was given", sizeof(out)));
  }
  CRUCIBLE_TRY_VOID(check_answer(path, code, out));
  CRUCIBLE_TRY_VOID(check_table(out.api, "plugin", path));
  QueryAnswer result;
  result.facts.abi_major = out.abi_major;
  result.facts.abi_minor = out.abi_minor;
  CRUCIBLE_TRY(result.facts.name, text_of(out.name, "name", path));
  CRUCIBLE_TRY(result.facts.vendor, text_of(out.vendor, "vendor", path));
  CRUCIBLE_TRY(result.facts.version, text_of(out.version, "version", path));
  CRUCIBLE_TRY(result.facts.build_id, text_of(out.build_id, "build_id", path));
  result.api = copy_api(out.api);
  return result;
}

Result<Tables> take_tables(const QueryAnswer& answer, const std::filesystem::path& path) {
  Result<void> checked;
  CRUCIBLE_TRY_VOID(guarded("interface_table", path, [&] {
    Tables named{};  // for the numbers and names of the tables alone
    abi::for_each_interface(named, [&](auto&, std::uint32_t id, const char* name, bool) {
      const void* const table = answer.api.interface_table(id);
      if (table != nullptr && checked) checked = check_table(table, name, path);
    });
  }));
  CRUCIBLE_TRY_VOID(checked);
  return copy_tables(answer.api, answer.facts.name);
}

Result<std::vector<OptionSchema>> ask_options(const QueryAnswer& answer, const std::filesystem::path& path) {
  OptionSink sink{path, {}, ""};
  if (answer.api.describe_options == nullptr) return std::move(sink.options);
  crucible_status status = nullptr;
  CRUCIBLE_TRY_VOID(
      guarded("describe_options", path, [&] { status = answer.api.describe_options(take_option, &sink); }));
  if (is_unimplemented(status)) return std::move(sink.options);
  CRUCIBLE_TRY_VOID(to_result(status, fmt::format("plugin {}: describing its options", path.string())));
  if (!sink.problem.empty()) return nonsense(path, sink.problem);
  return std::move(sink.options);
}

}  // namespace crucible::backend
