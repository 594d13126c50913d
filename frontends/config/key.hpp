// Which keys there are, what values they take, which variable of the environment sets them; and the check of a value
// against its key. An option of a plugin is a key too, made from the plugin's own schema.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/config/value.hpp"

namespace crucible::config {

enum class Type : std::uint8_t {
  kText,
  kChoice,  // one of `choices`
  kBool,
  kInteger,   // from `min` to `max`
  kPath,      // relative to the file that says it, else to the working folder
  kWord,      // as kPath when it has a slash, else a name to be looked up in PATH
  kDigest,    // 64 hexadecimal digits
  kTextList,  // of `choices`, unless that is empty
  kPathList,
};

/// Whether a crucible.toml that lies in a folder, and that the user has not trusted, may set a key. Whoever made the
/// folder wrote it: it chooses among what is there, and names nothing to run, to load, to read or to write.
enum class FromFolder : std::uint8_t {
  kUndecided,   // nobody has decided yet: as kNeedsTrust, and a test asks for the decision
  kHarmless,    // a choice among what is there
  kNeedsTrust,  // names a file, a folder, a program or a library, or weakens what keeps wrong ones out
};

struct Key {
  std::string name;  // dotted; a part "*" stands for any name
  Type type = Type::kText;
  std::string built_in = {};  // as text; "" where nothing is set
  std::string variable = {};  // of the environment; "" where there is none
  std::string help = {};
  std::vector<std::string> choices = {};
  std::int64_t min = 0, max = std::numeric_limits<std::int64_t>::max();
  FromFolder from_folder = FromFolder::kUndecided;
  bool names_server = false;
  /// True when a folder's file may set it. A place never is, whatever somebody decided about it.
  bool is_harmless() const { return from_folder == FromFolder::kHarmless && !is_place(); }
  /// True when what it names is a place in the file system, or a server; a privileged process takes none from its
  /// environment.
  bool is_place() const {
    return names_server || type == Type::kPath || type == Type::kWord || type == Type::kPathList;
  }
  /// What stands between the elements when a list is written as one text.
  char separator() const { return type == Type::kPathList ? ':' : ','; }
};

/// Every key but the options of plugins, in the order in which they are shown.
const std::vector<Key>& known_keys();
/// "harmless", "needs trust", "undecided".
std::string_view from_folder_name(FromFolder from_folder);
/// The key that `name` is, patterns included; null when there is none.
const Key* find_key(std::string_view name);
/// All names of `keys`, for suggestions; patterns left out.
std::vector<std::string> names_of(const std::vector<Key>& keys);
/// The last parts of the known keys that stand in the same table as `name`: "trust" and others for "plugins.trsut".
std::vector<std::string> names_beside(std::string_view name);

/// `value` in the key's own type. With `from_text`, a text is read as what the key wants ("2", "true", "a,b"): that is
/// how environment and command line write everything. Relative paths become absolute under `base`.
/// Errors: a sentence about the value, without its place, kBadInput.
Result<Value> convert(const Key& key, const Value& value, bool from_text, const std::filesystem::path& base);

}  // namespace crucible::config
