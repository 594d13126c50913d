// Absolute paths in texts: where they are, and what is left of them where nobody is to learn whose machine it was.
// `crucible record --no-paths` writes every text of a recording through it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::trace {

/// The absolute paths in `text`, in their order: they begin with '/' where no name or '.' is before it, and end at a
/// blank, a quote or a sign that separates; addresses (https://...) are none. They point into `text`.
std::vector<std::string_view> absolute_paths(std::string_view text);

/// Threads: any.
class PathShortener {
 public:
  /// A path below one of `folders` (absolute; the longest counts) becomes relative to it, else below one of
  /// `last_folders`. What is below none becomes its last part, as does what would still name `user`; the home folder
  /// itself becomes "~".
  PathShortener(std::vector<std::string> folders, std::vector<std::string> last_folders, std::string user);
  /// Of one path; a relative one stays, but for what climbs ("../alice/a.py").
  std::string path(std::string_view path) const;
  /// `text` with every absolute path in it shortened.
  std::string text(std::string_view text) const;

 private:
  std::string_view folder_of(std::string_view path) const;

  std::vector<std::string> folders_, last_folders_;
  std::string user_;
};

}  // namespace crucible::trace
