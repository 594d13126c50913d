#include "frontends/config/plugin_keys.hpp"

#include <algorithm>
#include <limits>

namespace crucible::config {
namespace {

Type type_of(const std::string& name) {
  if (name == "bool") return Type::kBool;
  if (name == "u64") return Type::kInteger;
  if (name == "choice") return Type::kChoice;
  if (name == "path") return Type::kWord;
  return Type::kText;
}

std::int64_t clamp(std::uint64_t number) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(number, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
}

}  // namespace

std::vector<Key> keys_of(const std::vector<backend::OptionSchema>& options) {
  std::vector<Key> keys;
  for (const backend::OptionSchema& option : options) {
    Key key = {.name = option.name,
               .type = type_of(option.type),
               .built_in = option.default_value,
               .variable = option.env,
               .help = option.help,
               .choices = option.choices};
    // Of a number or one of some words a plugin may say that it is harmless; a path or a text never is, whatever it
    // says.
    const bool may_be_harmless = key.type == Type::kBool || key.type == Type::kInteger || key.type == Type::kChoice;
    key.from_folder = option.folder.empty()                          ? FromFolder::kUndecided
                      : option.folder == "harmless" && may_be_harmless ? FromFolder::kHarmless
                                                                       : FromFolder::kNeedsTrust;
    if (option.min) key.min = clamp(*option.min);
    if (option.max) key.max = clamp(*option.max);
    keys.push_back(std::move(key));
  }
  return keys;
}

const std::vector<Key>& keys_of_old_plugins() {
  static const std::vector<Key> keys = {
      {.name = "threads",
       .type = Type::kInteger,
       .variable = "CRUCIBLE_THREADS",
       .help = "how many threads",
       .min = 1,
       .from_folder = FromFolder::kHarmless},
      {.name = "compiler",
       .type = Type::kWord,
       .variable = "CRUCIBLE_CLANG",
       .help = "the compiler of kernels",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "cache_dir",
       .type = Type::kWord,
       .variable = "CRUCIBLE_CACHE_DIR",
       .help = "where kernels are kept",
       .from_folder = FromFolder::kNeedsTrust},
      {.name = "library",
       .variable = "CRUCIBLE_LIBRARY",
       .help = "the vendor's library, or none",
       .from_folder = FromFolder::kNeedsTrust},
  };
  return keys;
}

}  // namespace crucible::config
