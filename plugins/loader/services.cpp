// What the host gives to a plugin.
#include <cstdlib>
#include <string_view>

#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "plugins/loader/library.hpp"

namespace crucible::backend {
namespace {

std::string_view view(crucible_str text) { return text.data == nullptr ? "" : std::string_view(text.data, text.size); }

/// Only what the user should act upon: level 2 is a warning, 3 an error.
void log_to_stderr(void* ctx, std::uint32_t level, crucible_str component, crucible_str text) {
  if (level < 2) return;
  const auto* library = static_cast<const Library*>(ctx);
  tell("crucible: {}: {} ({}): {}\n", level == 2 ? "warning" : "error", library->name, printable(view(component)),
       view(text));
}

std::uint32_t get_option(void* ctx, crucible_str key, crucible_str* out) {
  auto* library = static_cast<Library*>(ctx);
  const auto found = library->options.find(std::string(view(key)));
  if (found == library->options.end() || found->second.empty()) return 0;
  const std::string& value = found->second;
  static std::mutex* const mutex = new std::mutex;  // devices may be opened by several threads
  const std::lock_guard lock(*mutex);
  for (const std::string& answer : library->answers) {
    if (answer == value) return *out = {answer.data(), answer.size()}, 1;
  }
  const std::string& answer = library->answers.emplace_back(value);
  *out = {answer.data(), answer.size()};
  return 1;
}

/// Host memory, aligned; NULL when there is none or when the alignment is no power of two.
void* allocate(void*, std::uint64_t size, std::uint64_t align) {
  void* memory = nullptr;
  return posix_memalign(&memory, align < sizeof(void*) ? sizeof(void*) : align, size) == 0 ? memory : nullptr;
}

void release(void*, void* memory, std::uint64_t, std::uint64_t) { std::free(memory); }

void take_metric(void*, const crucible_kv*, std::uint32_t) {}  // nobody has asked for a receipt

}  // namespace

crucible_host_api host_services(Library* library) {
  return {sizeof(crucible_host_api),
          CRUCIBLE_ABI_MINOR,
          library,
          log_to_stderr,
          get_option,
          allocate,
          release,
          take_metric,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          nullptr};  // set_store()
}

}  // namespace crucible::backend
