// Files of folders at random, by seed: keys that there are and ones beside them, in every spelling of TOML, broken and
// whole. Whatever a file says, nothing but what a folder may say is in force, and reading it ends soon.
// CRUCIBLE_FOLDER_FILES says how many (1500 where it is not set), CRUCIBLE_FOLDER_FIRST the first seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>

#include "frontends/config/plugin_keys.hpp"
#include "frontends/config/testing.hpp"
#include "frontends/config/trust_store.hpp"

namespace crucible::config {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// What a plugin says of its options, each with the word about folders.
const std::vector<Key>& acme() {
  static const std::vector<Key> keys = {
      {.name = "number", .type = Type::kInteger, .from_folder = FromFolder::kHarmless},
      {.name = "library", .type = Type::kPath, .from_folder = FromFolder::kNeedsTrust},
      {.name = "path", .type = Type::kPath, .from_folder = FromFolder::kHarmless},
      {.name = "flags", .type = Type::kText, .from_folder = FromFolder::kNeedsTrust},
      {.name = "silent", .type = Type::kInteger}};
  return keys;
}

/// The decisions once more, so that a change of the table alone changes no answer here.
bool may_be_of_a_folder(const std::string& key) {
  static const List kHarmless = {"backend",
                                 "device",
                                 "fallback",
                                 "fallback_devices",
                                 "checkpoint_every",
                                 "numerics",
                                 "backend.acme.number",
                                 "backend.old.threads"};
  return std::ranges::find(kHarmless, key) != kHarmless.end() || key.starts_with("device_profile.");
}

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 7) {}

  std::string file() {
    std::string text;
    if (one_in(12)) text += "\xef\xbb\xbf";
    if (one_in(40)) text += std::string(2, '\xff');
    for (std::size_t i = 1 + below(one_in(3) ? 6 : 2); i > 0; --i) text += line();
    switch (below(24)) {
      case 0:
        return text.substr(0, below(text.size() + 1));
      case 1:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(below(256));
        return text;
      case 2:
        for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
        return text;
      default:
        return text;
    }
  }
  std::size_t below(std::size_t count) { return count < 2 ? 0 : static_cast<std::size_t>(random_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }

 private:
  const std::string& of(const List& items) { return items[below(items.size())]; }

  List parts() {
    static const List kNames = [] {
      List names;
      for (const Key& key : known_keys()) names.push_back(key.name);
      for (const Key& key : acme()) names.push_back("backend.acme." + key.name);
      for (const char* name : {"backend.old.threads", "backend.old.library", "backend.name", "backend.cpu.compiler",
                               "backend.cpu.threads", "backend.nvidia.library", "plugins", "plugins.path.x",
                               "backend.acme", "backend.acme.library.x", "device_profile.a.b"})
        names.push_back(name);
      return names;
    }();
    std::string name = of(kNames);
    const Key* const key = find_key(name);
    fitting_ = key == nullptr ? (name.ends_with("number") || name.ends_with("threads") ? "2" : "\"x\"") : fitting(*key);
    if (const std::size_t star = name.find('*'); star != std::string::npos)
      name.replace(star, 1, of({"acme", "old", "*", "a.b", ""}));
    List result;
    for (std::size_t start = 0; start <= name.size();) {
      const std::size_t end = std::min(name.find('.', start), name.size());
      result.push_back(name.substr(start, end - start));
      start = end + 1;
    }
    // Two parts written as one, with the dot in quotes; a part in another case; one that is nothing.
    if (result.size() > 1 && one_in(6)) {
      result[0] += "." + result[1];
      result.erase(result.begin() + 1);
    }
    if (one_in(20)) result.push_back("");
    if (one_in(20)) result[below(result.size())][0] ^= 0x20;
    if (one_in(100)) result.insert(result.begin() + 1, 300, "a");
    return result;
  }

  std::string part(const std::string& name) {
    const bool is_bare = !name.empty() && std::ranges::all_of(name, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    });
    switch (below(is_bare ? 6 : 3)) {
      case 0:
        return "\"" + name + "\"";
      case 1:
        return "'" + name + "'";
      case 2: {
        std::string escaped = "\"";
        for (const char c : name) {
          constexpr char kDigits[] = "0123456789abcdef";
          const auto byte = static_cast<unsigned char>(c);
          if (one_in(2) && byte < 128) {
            escaped += std::string("\\u00") + kDigits[byte / 16] + kDigits[byte % 16];
          } else {
            escaped += c;
          }
        }
        return escaped + "\"";
      }
      default:
        return name;
    }
  }

  /// A value that the key takes.
  static std::string fitting(const Key& key) {
    switch (key.type) {
      case Type::kChoice:
        return "\"" + key.choices.back() + "\"";
      case Type::kBool:
        return "true";
      case Type::kInteger:
        return std::to_string(std::max<std::int64_t>(key.min, 2));
      case Type::kDigest:
        return "\"" + std::string(64, 'a') + "\"";
      case Type::kTextList:
        return key.choices.empty() ? "[\"x\"]" : "[\"" + key.choices.back() + "\"]";
      case Type::kPathList:
        return "[\"/tmp/x\"]";
      default:
        return "\"/tmp/x\"";
    }
  }

  std::string value() {
    if (!one_in(4)) return fitting_;
    switch (below(10)) {
      case 0:
        return of({"true", "false", "1", "-1", "0x10", "9223372036854775807", "9223372036854775808", "1.5", "inf",
                   "1979-05-27", "1_000"});
      case 1:
        return "[\"x\", \"/tmp/y\"]";
      case 2:
        return "[]";
      case 3:
        return "{}";
      case 4:
        return "\"\"\"\n/tmp/x\"\"\"";
      case 5:
        return "'/tmp/x'";
      case 6:
        return std::string(below(2000), '[') + "1";
      case 7:
        return "\"" + std::string(1, static_cast<char>(below(256))) + "\"";
      default:
        return of({"\"cpu\"", "\"strict\"", "\"allow\"", "\"/tmp/evil.so\"", "\"./evil\"", "2", "[\"cpu\"]", "\"../x\"",
                   "\"all\""});
    }
  }

  std::string line() {
    const List path = parts();
    const std::string dot = one_in(4) ? " . " : ".";
    const auto dotted = [&](std::size_t first, std::size_t last) {
      std::string text;
      for (std::size_t i = first; i < last; ++i) text += (i > first ? dot : "") + part(path[i]);
      return text;
    };
    const std::size_t cut = below(path.size());
    switch (below(6)) {
      case 0: {  // a table of its own
        if (cut == 0) return dotted(0, path.size()) + " = " + value() + "\n";
        return "[" + dotted(0, cut) + "]\n" + dotted(cut, path.size()) + " = " + value() + "\n";
      }
      case 1: {  // inline
        std::string text = part(path[0]), end;
        for (std::size_t i = 1; i < path.size(); ++i) {
          text += " = { " + part(path[i]);
          end += " }";
        }
        return text + " = " + value() + end + "\n";
      }
      case 2:  // a list of tables
        return "[[" + dotted(0, cut + 1) + "]]\n" +
               (cut + 1 < path.size() ? dotted(cut + 1, path.size()) + " = " + value() + "\n" : "");
      case 3:
        return "# " + dotted(0, path.size()) + "\n" + dotted(0, path.size()) + "=" + value() + " # comment\n";
      default:
        return dotted(0, path.size()) + " = " + value() + "\n";
    }
  }

  std::mt19937_64 random_;
  std::string fitting_;  // for the key of the present line
};

class FolderFuzz : public Layers {
 protected:
  Settings all_of() {
    Settings settings = load();
    settings.add_plugin("acme", &acme());
    settings.add_plugin("old", nullptr);
    return settings;
  }
  static std::map<std::string, std::string> in_force(const Settings& settings) {
    std::map<std::string, std::string> result;
    for (const auto& [key, one] : settings.all()) result[key] = to_text(one.value);
    for (const char* plugin : {"acme", "old"}) {
      for (const auto& [option, text] : settings.plugin_options(plugin))
        result[std::string("backend.") + plugin + "." + option] = text;
    }
    return result;
  }
  static double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
};

TEST_F(FolderFuzz, NothingButWhatAFolderMaySayIsInForce) {
  write(Layer::kUser, "numerics = \"fast\"\n[backend.acme]\nlibrary = \"/usr/lib/acme.so\"\n");
  const std::map<std::string, std::string> before = in_force(all_of());
  const std::filesystem::path file = path_of(Layer::kProject), beside = file.parent_path() / "beside.toml";
  const std::uint64_t first = setting("CRUCIBLE_FOLDER_FIRST", 0), count = setting("CRUCIBLE_FOLDER_FILES", 1500);
  std::size_t good = 0, held = 0, changed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Writer writer(seed);
    const std::string text = writer.file();
    std::filesystem::remove(file);
    write(Layer::kProject, text);
    if (writer.one_in(8)) {  // a link to the file, which lies beside it
      std::filesystem::rename(file, beside);
      std::filesystem::create_symlink(writer.one_in(2) ? beside : std::filesystem::path("beside.toml"), file);
    }
    if (writer.one_in(8)) {  // the user trusted what it said before
      std::ofstream(file, std::ios::app) << " ";
      ASSERT_TRUE(write_trusted(trust_store(surroundings_), {{place_of(file), sha256_of(text)}}));
    }
    const double start = seconds();
    const Settings settings = all_of();
    const std::map<std::string, std::string> after = in_force(settings);
    good += settings.check().has_value();
    held += !settings.held_back().empty();
    for (const auto& [key, value] : after) {
      const auto was = before.find(key);
      if (was != before.end() && was->second == value) continue;
      ++changed;
      EXPECT_TRUE(may_be_of_a_folder(key)) << key << " is " << value << " by a folder's file:\n" << shown(text);
    }
    for (const auto& [key, value] : before)
      EXPECT_TRUE(after.contains(key)) << key << " is gone by a folder's file:\n" << shown(text);
    EXPECT_LT(seconds() - start, 2) << shown(text).substr(0, 200);
  }
  std::printf("%llu files: %zu good, %zu with something held back, %zu values changed\n",
              static_cast<unsigned long long>(count), good, held, changed);
  if (count >= 1000) {
    EXPECT_GT(held, count / 10);
    EXPECT_GT(changed, count / 100);
  }
}

}  // namespace
}  // namespace crucible::config
