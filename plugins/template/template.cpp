// Writing a new plugin's project: see template.hpp.
#include "plugins/template/template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/base/output.hpp"

namespace crucible::plugin_template {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDialects[] = {"c", "opencl", "cuda", "hip", "own"};
constexpr std::string_view kMemoryModels[] = {"host", "pointers", "handles"};
constexpr std::string_view kName = "acme", kDialectMark = "dialect_of_acme";
constexpr std::size_t kLongestName = 40;
// A plugin's name is that of a C++ namespace, too.
constexpr std::string_view kNotNames[] = {
    "alignas",   "alignof",   "and",      "asm",      "auto",     "bool",     "break",    "case",    "catch",
    "char",      "class",     "compl",    "concept",  "const",    "continue", "crucible", "default", "delete",
    "do",        "double",    "else",     "enum",     "explicit", "export",   "extern",   "false",   "float",
    "for",       "friend",    "goto",     "if",       "inline",   "int",      "linux",    "long",    "main",
    "mutable",   "namespace", "new",      "noexcept", "not",      "nullptr",  "operator", "or",      "private",
    "protected", "public",    "register", "requires", "return",   "sdk",      "short",    "signed",  "sizeof",
    "static",    "std",       "struct",   "switch",   "template", "this",     "throw",    "true",    "try",
    "typedef",   "typeid",    "typename", "union",    "unix",     "unsigned", "using",    "virtual", "void",
    "volatile",  "while",     "xor"};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Where a file of the template goes in a project of these choices; "" when it is another choice's. A file NAME.CHOICE
/// stands in for NAME.
std::string target(std::string_view path, const Choices& choices) {
  const auto is_for = [&](std::string_view choice) { return path.ends_with("." + std::string(choice)); };
  for (const std::string_view choice : {choices.dialect, choices.memory}) {
    if (is_for(choice)) return std::string(path.substr(0, path.size() - choice.size() - 1));
    const std::string stands_in = fmt::format("{}.{}", path, choice);
    if (std::ranges::any_of(files(), [&](const File& file) { return file.path == stands_in; })) return "";
  }
  const bool is_anothers = std::ranges::any_of(kDialects, is_for) || std::ranges::any_of(kMemoryModels, is_for);
  return is_anothers ? "" : std::string(path);
}

Result<void> check_choice(const char* what, std::string_view choice, std::span<const std::string_view> all) {
  if (std::ranges::find(all, choice) != all.end()) return {};
  return Error{ErrorCode::kUsage,
               fmt::format("there is no {} '{}': use one of {}", what, choice, fmt::join(all, ", "))};
}

Result<void> write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot make the folder {}: {}", path.parent_path().string(), error.message())};
  }
  const Result<void> written = write_output(path, text);
  if (!written) return Error{ErrorCode::kUnavailable, written.error().message};
  return {};
}

}  // namespace

std::span<const std::string_view> dialects() { return kDialects; }
std::span<const std::string_view> memory_models() { return kMemoryModels; }

Result<void> check_name(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= kLongestName && is_lower(name[0]) &&
                    std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; }) &&
                    std::ranges::find(kNotNames, name) == std::end(kNotNames);
  if (fits) return {};
  return Error{ErrorCode::kUsage, fmt::format("'{}' cannot be a plugin's name: use a small letter, then small letters, "
                                              "digits and '_', at most {}, and no word of C++",
                                              name, kLongestName)};
}

std::string personalise(std::string_view text, std::string_view name, std::string_view dialect) {
  std::string result(text);
  replace_all(result, kDialectMark, fmt::format("dialect_{}", dialect));
  replace_all(result, kName, name);
  return result;
}

Result<std::vector<fs::path>> write_project(const fs::path& folder, std::string_view name, const Choices& choices) {
  CRUCIBLE_TRY_VOID(check_name(name));
  CRUCIBLE_TRY_VOID(check_choice("dialect", choices.dialect, kDialects));
  CRUCIBLE_TRY_VOID(check_choice("memory model", choices.memory, kMemoryModels));
  std::error_code error;
  if (!choices.beside_others && fs::is_directory(folder, error) && !fs::is_empty(folder, error)) {
    return Error{ErrorCode::kUsage,
                 fmt::format("the folder {} is not empty: nothing was written; give another one with --folder, or "
                             "--force to write beside what is there",
                             folder.string())};
  }
  std::vector<std::pair<fs::path, const File*>> project;
  for (const File& file : files()) {
    const std::string path = target(file.path, choices);
    if (path.empty()) continue;
    if (fs::exists(fs::symlink_status(folder / path, error))) {
      return Error{ErrorCode::kUsage,
                   fmt::format("{} is there already: nothing was written; give another folder with --folder",
                               (folder / path).string())};
    }
    project.emplace_back(folder / path, &file);
  }
  std::vector<fs::path> written;
  for (const auto& [path, file] : project) {
    CRUCIBLE_TRY_VOID(write_file(path, personalise(file->text, name, choices.dialect)));
    written.push_back(path);
  }
  return written;
}

}  // namespace crucible::plugin_template
