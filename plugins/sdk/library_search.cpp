// See library_search.hpp.
#include "plugins/sdk/library_search.hpp"

#include <filesystem>

namespace crucible::sdk {
namespace {

std::string all_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> files_to_try(const LibrarySearch& search, const std::string& wanted, const std::string& named,
                                      bool is_emulated) {
  namespace fs = std::filesystem;
  const std::string title(search.title), option(search.option);
  if (wanted == "none") throw Failure(CRUCIBLE_E_UNAVAILABLE, "the option " + std::string(search.choice) + " is none");
  if (named.empty() && is_emulated)
    throw Failure(CRUCIBLE_E_UNAVAILABLE,
                  "an emulated device takes only a " + title + " that the option " + option + " names");
  if (named.empty()) return search.names;
  std::error_code error;
  if (!fs::is_directory(named, error)) return {named};
  std::vector<std::string> files;
  for (const std::string& name : search.names) {
    if (fs::exists(fs::path(named) / name, error)) files.push_back(fs::path(named) / name);
  }
  if (!files.empty()) return files;
  throw Failure(CRUCIBLE_E_UNAVAILABLE, "the folder " + named + " of the option " + option + " has none of " +
                                            all_of(search.names) + ": " + std::string(search.advice));
}

std::string told_absence(const LibrarySearch& search, const std::string& wanted, const Failure& reason) {
  if (wanted == search.option)
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "the option " + std::string(search.choice) + " demands " +
                                              std::string(search.title) + ": " + reason.what());
  return std::string("none (") + reason.what() + "; " + std::string(search.otherwise) + ")";
}

}  // namespace crucible::sdk
