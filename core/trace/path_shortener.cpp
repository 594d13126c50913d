#include "core/trace/path_shortener.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace crucible::trace {

namespace {

/// Ends a path in a text. Folders with such signs in their names are found as known folders, before this counts.
bool ends_path(char sign) {
  return static_cast<unsigned char>(sign) <= ' ' ||
         std::string_view("'\"`,;:()[]{}<>|&=").find(sign) != std::string_view::npos;
}

/// Whether an absolute path may begin at `at`, where a '/' is.
bool may_begin(std::string_view text, std::size_t at) {
  if (at == 0) return true;
  const char before = text[at - 1];
  return std::isalnum(static_cast<unsigned char>(before)) == 0 &&
         std::string_view("_.~/-").find(before) == std::string_view::npos;
}

struct Place {
  std::size_t begin = 0, end = 0;
};

/// Whether `path`, which may have more text behind it, is `folder` or below it.
bool is_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/' || ends_path(path[folder.size()]));
}

/// Places of absolute paths; `known` says how much of the text at a place is a folder, whatever signs are in it.
template <class Known>
std::vector<Place> places(std::string_view text, Known known) {
  std::vector<Place> found;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '/' || !may_begin(text, at)) continue;
    std::size_t slashes = 1;
    while (at + slashes < text.size() && text[at + slashes] == '/') ++slashes;
    const bool is_address = slashes == 2 && at > 0 && text[at - 1] == ':';
    std::size_t begin = at + slashes - 1, end = begin + 1;
    end = std::max(end, begin + known(text.substr(begin)));
    while (end < text.size() && !ends_path(text[end])) ++end;
    if (!is_address && end > begin + 1) found.push_back({begin, end});
    at = std::max(end, begin + 1) - 1;
  }
  return found;
}

}  // namespace

std::vector<std::string_view> absolute_paths(std::string_view text) {
  std::vector<std::string_view> found;
  for (const Place& place : places(text, [](std::string_view) { return std::size_t{0}; }))
    found.push_back(text.substr(place.begin, place.end - place.begin));
  return found;
}

PathShortener::PathShortener(std::vector<std::string> folders, std::vector<std::string> last_folders, std::string user)
    : folders_(std::move(folders)), last_folders_(std::move(last_folders)), user_(std::move(user)) {
  for (std::vector<std::string>* list : {&folders_, &last_folders_}) {
    for (std::string& folder : *list) {
      while (folder.ends_with('/')) folder.pop_back();
    }
    std::erase_if(*list, [](const std::string& folder) { return !folder.starts_with('/'); });
    std::ranges::stable_sort(*list, std::ranges::greater(), &std::string::size);
  }
}

std::string_view PathShortener::folder_of(std::string_view path) const {
  for (const std::vector<std::string>* list : {&folders_, &last_folders_}) {
    const auto found =
        std::ranges::find_if(*list, [path](const std::string& folder) { return is_below(path, folder); });
    if (found != list->end()) return *found;
  }
  return "";
}

std::string PathShortener::path(std::string_view path) const {
  if (!path.starts_with('/') && !path.starts_with("../")) return std::string(path);
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::string_view folder = folder_of(path);
  const std::string_view last = path.substr(path.rfind('/') + 1);
  std::string_view rest = folder.empty()                 ? last
                          : path.size() == folder.size() ? std::string_view(".")
                                                         : path.substr(folder.size() + 1);
  const auto names_user = [this](std::string_view text) {
    for (std::size_t start = 0; !user_.empty() && start <= text.size();) {
      const std::size_t end = std::min(text.find('/', start), text.size());
      if (text.substr(start, end - start) == user_) return true;
      start = end + 1;
    }
    return false;
  };
  if (names_user(rest)) rest = last;
  return names_user(rest) ? "~" : std::string(rest);
}

std::string PathShortener::text(std::string_view text) const {
  std::string made;
  std::size_t done = 0;
  for (const Place& place : places(text, [this](std::string_view from) { return folder_of(from).size(); })) {
    made += text.substr(done, place.begin - done);
    while (made.ends_with('/')) made.pop_back();  // of "//a" and "file:///a"
    made += path(text.substr(place.begin, place.end - place.begin));
    done = place.end;
  }
  return made += text.substr(done);
}

}  // namespace crucible::trace
