// Whose word the files are: who else can write them, which of a folder's are trusted, and what is held back of the
// others.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/config/settings.hpp"
#include "frontends/config/trust_store.hpp"

namespace crucible::config {

/// A folder's file is trusted when the user has vouched for just this content at just this place.
void Settings::judge_standing(ConfigFile& file, const std::string& text) {
  file.sha256 = sha256_of(text);
  if (file.standing != Standing::kFolder || file.is_named) return;
  const Result<std::vector<TrustedFile>> trusted = read_trusted(trust_store(surroundings_));
  if (!trusted) {
    warnings_.push_back(fmt::format("nothing is trusted: {}", trusted.error().message));
    return;
  }
  const auto known = std::ranges::find(*trusted, place_of(file.path), &TrustedFile::place);
  if (known == trusted->end()) return;
  file.has_changed = known->sha256 != file.sha256;
  if (!file.has_changed) file.standing = Standing::kTrusted;
}

void Settings::hold_back(const Key& key, Entry entry) {
  const char* const reason = key.names_server                    ? "names a server"
                             : key.is_place()                    ? "names a file, a folder or a program"
                             : entry.key.starts_with("backend.") ? "its plugin does not say that it is harmless"
                                                                 : "is a rule about what may run";
  held_back_.push_back({std::move(entry), reason});
}

Standing Settings::standing_of(const Origin& origin) const {
  if (origin.layer != Layer::kProject) return Standing::kOwn;
  const auto file = std::ranges::find(files_, Layer::kProject, &ConfigFile::layer);
  return file == files_.end() ? Standing::kFolder : file->standing;
}

std::vector<std::string> Settings::take_warnings() {
  std::vector<std::string> taken(warnings_.begin() + static_cast<std::ptrdiff_t>(taken_warnings_), warnings_.end());
  taken_warnings_ = warnings_.size();
  if (taken_held_back_ == held_back_.size()) return taken;
  constexpr std::size_t kMost = 8;
  std::string names;
  const std::size_t count = held_back_.size() - taken_held_back_;
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", shown(held_back_[taken_held_back_ + i].entry.key));
  }
  if (count > kMost) names += fmt::format(" and {} more", count - kMost);
  taken_held_back_ = held_back_.size();
  const auto file = std::ranges::find(files_, Layer::kProject, &ConfigFile::layer);
  const std::string path = shown(file->path.string());
  taken.push_back(fmt::format(
      "{}{} sets {}, which the file of a folder may not: left out; `crucible config trust {}` shows and allows it",
      path, file->has_changed ? " has changed since it was trusted, and" : "", names, path));
  return taken;
}

/// The policy that the layers without doubtful files ask for: a file in doubt does not decide about itself.
std::string Settings::trust_beyond_doubt() const {
  const auto doubtful = [this](const Origin& origin) {
    return std::ranges::any_of(files_, [&](const ConfigFile& file) {
      return !file.danger.empty() && is_file(origin.layer) && file.path.string() == origin.where;
    });
  };
  const Setting* setting = find("plugins.trust");
  if (setting == nullptr) return "";
  if (!doubtful(setting->origin)) return to_text(setting->value);
  for (const Entry& entry : setting->overridden) {
    if (!doubtful(entry.origin)) return to_text(entry.value);
  }
  return "";
}

/// A file that somebody else can write is told or refused.
void Settings::judge_files() {
  const std::string trust = trust_beyond_doubt();
  for (const ConfigFile& file : files_) {
    if (file.danger.empty() || trust == "off") continue;
    if (trust == "enforce") {
      problems_.push_back(
          {{file.layer, file.path.string()}, fmt::format("refused (plugins.trust = enforce): {}", file.danger)});
    } else {
      warnings_.push_back(fmt::format("{}: {}", file.path.string(), file.danger));
    }
  }
}

}  // namespace crucible::config
