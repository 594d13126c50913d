// What the file of a folder may say: every key, every spelling, before and after the user has trusted it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "frontends/config/load_policy.hpp"
#include "frontends/config/plugin_keys.hpp"
#include "frontends/config/testing.hpp"
#include "frontends/config/trust_store.hpp"

namespace crucible::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FolderFile : public Layers {
 protected:
  /// What is held back when the project's file says `text`, by key.
  List held(const std::string& text) {
    write(Layer::kProject, text);
    const Settings settings = load();
    EXPECT_TRUE(settings.check()) << text << settings.check().error().message;
    List keys;
    for (const HeldBack& one : settings.held_back()) keys.push_back(one.entry.key);
    return keys;
  }
  void trust() {
    const std::filesystem::path file = path_of(Layer::kProject);
    const Result<void> written =
        write_trusted(trust_store(surroundings_), {{place_of(file), sha256_of(*read_text(file))}});
    ASSERT_TRUE(written) << written.error().message;
  }
};

/// A value that the key takes.
std::string value_for(const Key& key) {
  switch (key.type) {
    case Type::kText:
    case Type::kPath:
    case Type::kWord:
      return "\"x\"";
    case Type::kChoice:
      return "\"" + key.choices.front() + "\"";
    case Type::kBool:
      return "false";
    case Type::kInteger:
      return std::to_string(std::max<std::int64_t>(key.min, 1));
    case Type::kDigest:
      return "\"" + std::string(64, 'a') + "\"";
    case Type::kTextList:
      return key.choices.empty() ? "[\"x\"]" : "[\"" + key.choices.front() + "\"]";
    case Type::kPathList:
      return "[\"x\"]";
  }
  return "";
}

std::string example(std::string pattern) {
  if (const std::size_t star = pattern.find('*'); star != std::string::npos) pattern.replace(star, 1, "acme");
  return pattern;
}

// The decisions about all keys, here once more: whoever adds a key decides twice.
TEST(FolderPolicy, EveryKeyIsDecided) {
  const List harmless = {"backend",          "device",   "fallback",     "fallback_devices",
                         "checkpoint_every", "numerics", "store.enabled"};
  for (const Key& key : known_keys()) {
    EXPECT_NE(key.from_folder, FromFolder::kUndecided) << key.name << ": decide whether a folder's file may set it";
    const bool is_harmless =
        std::ranges::find(harmless, key.name) != harmless.end() || key.name.starts_with("device_profile.*.");
    EXPECT_EQ(key.is_harmless(), is_harmless) << key.name;
    if (key.is_place()) {
      EXPECT_EQ(key.from_folder, FromFolder::kNeedsTrust) << key.name;
    }
  }
  for (const Key& key : keys_of_old_plugins()) {
    EXPECT_NE(key.from_folder, FromFolder::kUndecided) << key.name;
    EXPECT_EQ(key.is_harmless(), key.name == "threads") << key.name;
  }
}

TEST_F(FolderFile, EveryKeyIsInForceOrHeldBackAsItsRowSays) {
  for (const Key& key : known_keys()) {
    const std::string name = example(key.name);
    const List keys = held(name + " = " + value_for(key) + "\n");
    const Settings settings = load();
    const Setting* const setting = settings.find(name);
    const bool is_in_force = setting != nullptr && setting->origin.layer == Layer::kProject;
    EXPECT_EQ(is_in_force, key.is_harmless()) << name;
    EXPECT_EQ(keys.size(), key.is_harmless() ? 0u : 1u) << name;
  }
}

TEST_F(FolderFile, OtherLayersMaySayEverything) {
  std::string text;
  for (const Key& key : known_keys()) {
    if (key.name.find('*') == std::string::npos)
      text += (key.name == "backend" ? "backend" : key.name) + " = " + value_for(key) + "\n";
  }
  for (const Layer layer : {Layer::kSystem, Layer::kUser}) {
    write(layer, text);
    const Settings settings = load();
    EXPECT_THAT(settings.held_back(), IsEmpty());
    EXPECT_EQ(settings.find("plugins.folders")->origin.layer, layer);
  }
}

TEST_F(FolderFile, EverySpellingIsTheSameKey) {
  for (const char* text :
       {"plugins.folders = [\".\"]\n", "[plugins]\nfolders = [\".\"]\n", "plugins = { folders = [\".\"] }\n",
        "\"plugins\".\"folders\" = [\".\"]\n", "\"plugins.folders\" = [\".\"]\n",
        "'plugins' . folders = [\n  '.',\n]\n", "[ plugins ]\n\"fold\\u0065rs\" = [\".\"]\n",
        "numerics = \"strict\"\n[\"plugins\"]\n'folders' = [\".\"]\n"}) {
    EXPECT_THAT(held(text), ElementsAre("plugins.folders")) << text;
    EXPECT_THAT(load_policy(load()).folders, IsEmpty()) << text;
  }
}

TEST_F(FolderFile, TheHarmlessRestIsInForceAndTheRestIsToldOnce) {
  write(Layer::kProject, "numerics = \"strict\"\n[plugins]\nfolders = [\".\"]\ndecisions = \"d\"\n");
  Settings settings = load();
  EXPECT_EQ(settings.text("numerics"), "strict");
  EXPECT_THAT(
      settings.take_warnings(),
      ElementsAre(AllOf(HasSubstr(path_of(Layer::kProject) +
                                  " sets plugins.folders, plugins.decisions, which the file of a folder may not"),
                        HasSubstr("`crucible config trust " + path_of(Layer::kProject) + "` shows and allows it"))));
  EXPECT_THAT(settings.take_warnings(), IsEmpty());
  EXPECT_EQ(settings.standing_of(settings.find("numerics")->origin), Standing::kFolder);
  EXPECT_EQ(settings.standing_of(settings.find("plugins.trust")->origin), Standing::kOwn);
}

TEST_F(FolderFile, StrongerAndWeakerLayersStandAsBefore) {
  write(Layer::kUser, "[plugins]\nfolders = [\"/mine\"]\ndeny = [\"bad\"]\n");
  EXPECT_THAT(held("[plugins]\nfolders = [\".\"]\ndeny = []\nallow = [\"evil\"]\n"),
              ElementsAre("plugins.folders", "plugins.deny", "plugins.allow"));
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre("/mine"));
  EXPECT_THAT(load().list("plugins.deny"), ElementsAre("bad"));
  requests_.sets = {"plugins.folders=/asked"};
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre("/asked"));
}

TEST_F(FolderFile, TrustIsOfThisContentAtThisPlace) {
  const std::string text = "[plugins]\nfolders = [\".\"]\n";
  EXPECT_THAT(held(text), ElementsAre("plugins.folders"));
  trust();
  EXPECT_THAT(held(text), IsEmpty());
  EXPECT_EQ(load().standing_of(load().find("plugins.folders")->origin), Standing::kTrusted);
  EXPECT_THAT(held(text + "# one more line\n"), ElementsAre("plugins.folders"));
  Settings changed = load();
  EXPECT_THAT(changed.take_warnings(), ElementsAre(HasSubstr("has changed since it was trusted")));
  // The same file in another folder, by copy and by link: its relative paths would lead elsewhere.
  write(Layer::kProject, text);
  for (const bool by_link : {false, true}) {
    const std::filesystem::path other = folder_ / "home/other";
    std::filesystem::remove_all(other);
    std::filesystem::create_directories(other);
    if (by_link) std::filesystem::create_symlink(path_of(Layer::kProject), other / "crucible.toml");
    if (!by_link) std::filesystem::copy_file(path_of(Layer::kProject), other / "crucible.toml");
    surroundings_.working_folder = other;
    EXPECT_EQ(load().held_back().size(), 1u) << by_link;
  }
}

TEST_F(FolderFile, TheStoreIsTheUsersAlone) {
  const std::string text = "[plugins]\nfolders = [\".\"]\n";
  write(Layer::kProject, text);
  trust();
  const std::filesystem::path store = trust_store(surroundings_);
  struct stat status = {};
  ASSERT_EQ(stat(store.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(store, folder_ / "home/.config/crucible/trusted");
  ASSERT_EQ(chmod(store.c_str(), 0666), 0);
  Settings settings = load();
  EXPECT_EQ(settings.held_back().size(), 1u);
  EXPECT_THAT(settings.take_warnings()[0], AllOf(HasSubstr("nothing is trusted"), HasSubstr("all users can write it")));
  std::filesystem::remove(store);
  std::ofstream(folder_ / "home/elsewhere") << "crucible trusted files 1\n";
  std::filesystem::create_symlink(folder_ / "home/elsewhere", store);
  EXPECT_THAT(load().take_warnings()[0], HasSubstr("is no file"));
  std::filesystem::remove(store);
  std::ofstream(store) << "nonsense\n";
  EXPECT_THAT(load().take_warnings()[0], HasSubstr("is damaged"));
}

TEST_F(FolderFile, APlaceOfTwoLinesIsNotTrusted) {
  EXPECT_FALSE(
      write_trusted(trust_store(surroundings_), {{"/a\n" + std::string(64, '0') + " /b", std::string(64, '0')}}));
}

TEST_F(FolderFile, AFileThatIsNamedIsTheUsersWord) {
  std::ofstream(folder_ / "named.toml") << "[plugins]\nfolders = [\"here\"]\n";
  write(Layer::kProject, "numerics = \"strict\"\n");
  surroundings_.named_file = folder_ / "named.toml";
  const Settings settings = load();
  EXPECT_THAT(settings.held_back(), IsEmpty());
  EXPECT_THAT(settings.list("plugins.folders"), ElementsAre((folder_ / "here").string()));
  EXPECT_EQ(settings.text("numerics"), "fast") << "it is read in the place of the folder's";
  surroundings_.named_file = folder_ / "missing.toml";
  EXPECT_THAT(error(), HasSubstr("missing.toml: is not there"));
}

TEST_F(FolderFile, AFolderThatOthersMayWriteIsLeftOut) {
  write(Layer::kProject, "numerics = \"strict\"\n");
  for (const char* above : {"home/project", "home"}) {
    ASSERT_EQ(chmod((folder_ / above).c_str(), 0777), 0);
    EXPECT_EQ(load().text("numerics"), "fast") << above;
    EXPECT_THAT(load().warnings(),
                ElementsAre(AllOf(HasSubstr("is left out"), HasSubstr("all users can write its folder"))));
    ASSERT_EQ(chmod((folder_ / above).c_str(), 0755), 0);
  }
  // A link counts with the folder that it leads to.
  std::filesystem::create_directories(folder_ / "open");
  std::filesystem::rename(path_of(Layer::kProject), folder_ / "open/real.toml");
  std::filesystem::create_symlink(folder_ / "open/real.toml", path_of(Layer::kProject));
  EXPECT_EQ(load().text("numerics"), "strict");
  ASSERT_EQ(chmod((folder_ / "open").c_str(), 0777), 0);
  EXPECT_EQ(load().text("numerics"), "fast");
}

TEST_F(FolderFile, TheUsersOwnFileIsReadOnce) {
  write(Layer::kUser, "[plugins]\nfolders = [\"/mine\"]\n");
  surroundings_.working_folder = folder_ / "home/.config/crucible";
  EXPECT_THAT(load().held_back(), IsEmpty());
  EXPECT_EQ(load().files().size(), 1u);
}

backend::OptionSchema option(const std::string& name, const std::string& type, const std::string& folder) {
  backend::OptionSchema made;
  made.name = name;
  made.type = type;
  made.folder = folder;
  made.choices = {"one", "two"};
  return made;
}

TEST_F(FolderFile, OptionsOfAPluginAreHarmlessWhereItSaysSoAndTheirTypeAllowsIt) {
  const std::vector<Key> schema = keys_of({option("number", "u64", "harmless"), option("flag", "bool", "harmless"),
                                           option("word", "choice", "harmless"), option("path", "path", "harmless"),
                                           option("text", "str", "harmless"), option("silent", "u64", ""),
                                           option("not", "bool", "needs trust"), option("later", "u64", "HARMLESS")});
  write(Layer::kProject,
        "[backend.acme]\nnumber = 1\nflag = true\nword = \"one\"\npath = \"x\"\ntext = \"x\"\nsilent = 1\nnot = "
        "true\nlater = 1\n");
  Settings settings = load();
  settings.add_plugin("acme", &schema);
  ASSERT_TRUE(settings.check()) << settings.check().error().message;
  EXPECT_THAT(settings.plugin_options("acme"),
              ElementsAre(std::pair("flag", "true"), std::pair("number", "1"), std::pair("word", "one")));
  EXPECT_EQ(settings.held_back().size(), 5u);
}

TEST_F(FolderFile, OptionsOfAPluginThatIsNotKnownAreHeldBackButForThreads) {
  for (const char* text :
       {"[backend.old]\nthreads = 3\nanything = \"x\"\ncache_dir = \"c\"\nlibrary = \"l\"\n",
        "backend = { name = \"cpu\", old = { threads = 3, anything = \"x\", cache_dir = \"c\", library = \"l\" } }\n",
        "\"backend.old\".threads = 3\nbackend.\"old.anything\" = \"x\"\n\"backend.old.cache_dir\" = "
        "\"c\"\n'backend'.'old'.'library' = 'l'\n"}) {
    write(Layer::kProject, text);
    Settings settings = load();
    settings.add_plugin("old", nullptr);
    EXPECT_THAT(settings.plugin_options("old"), ElementsAre(std::pair("threads", "3"))) << text;
    EXPECT_EQ(settings.held_back().size(), 3u) << text;
  }
}

TEST_F(FolderFile, NamesAreShownOnOneLine) {
  write(Layer::kProject, "[backend.old]\n\"a\\u001b[2J\\nFORGED\" = \"x\"\n");
  Settings settings = load();
  settings.add_plugin("old", nullptr);
  EXPECT_THAT(settings.take_warnings(), ElementsAre(HasSubstr("backend.old.a\\x1b[2J\\x0aFORGED")));
}

}  // namespace
}  // namespace crucible::config
