// `crucible plugin list` and `crucible plugin explain` as a user meets them: sound and broken plugins side by side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/cli/run_command.hpp"

namespace crucible {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Outcome = CommandOutcome;

class PluginCommand : public testing::Test {
 protected:
  PluginCommand() {
    std::string name = testing::TempDir() + "crucible_plugin_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    std::filesystem::create_directories(folder_ / "plugins");
    chmod((folder_ / "plugins").c_str(), 0755);
    for (const char* kind : {"sound", "query_segfaults", "init_segfaults", "init_fails", "rejects"}) {
      std::filesystem::copy_file(CRUCIBLE_BROKEN_PLUGIN,
                                 folder_ / "plugins" / ("libcrucible_" + std::string(kind) + ".so"));
    }
    std::ofstream(folder_ / "plugins/libcrucible_text.so") << "no library";
  }
  ~PluginCommand() override { std::filesystem::remove_all(folder_); }

  /// Standard output and error together.
  Outcome crucible(const std::string& arguments, const std::string& before = "") const {
    const std::string command = "cd / && XDG_CACHE_HOME=" + (folder_ / "cache").string() +
                                " CRUCIBLE_PLUGIN_PATH=" + (folder_ / "plugins").string() + " " + before +
                                " " CRUCIBLE_COMMAND " plugin " + arguments + " 2>&1";
    return run_line(command);
  }
  std::filesystem::path folder_;
};

TEST_F(PluginCommand, ListHasARowForEveryPlugin) {
  const Outcome outcome = crucible("list --json");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto document = nlohmann::json::parse(outcome.out);
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : document["plugins"]) rows[row["name"]] = row;
  EXPECT_EQ(rows.count("core"), 0u);  // the runtime's own library
  ASSERT_EQ(rows.count("sound"), 1u);
  EXPECT_EQ(rows["sound"]["usable"], true);
  EXPECT_EQ(rows["sound"]["vendor"], "nobody");
  EXPECT_EQ(rows["sound"]["version"], "1.0");
  EXPECT_EQ(rows["cpu"]["devices"].size(), 1u);
  for (const auto& [name, words] :
       {std::pair("query_segfaults", "crashed with SIGSEGV"),
        std::pair("init_segfaults", "while the probe was starting it"), std::pair("rejects", "the moon is not full"),
        std::pair("text", "not an ELF file")}) {
    EXPECT_EQ(rows[name]["usable"], false) << name;
    EXPECT_THAT(rows[name]["reason"].get<std::string>(), HasSubstr(words));
  }
}

TEST_F(PluginCommand, ListHasAWordAndAShortReasonForEachAndTheFoldersBelow) {
  std::filesystem::create_directories(folder_ / "config/crucible/plugins.d");
  std::ofstream(folder_ / "config/crucible/plugins.d/cut.json") << "{\"path\": ";
  std::filesystem::create_symlink("gone.so", folder_ / "plugins/libcrucible_gone.so");
  const Outcome outcome = crucible("list", "XDG_CONFIG_HOME=" + (folder_ / "config").string());
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ntext +broken +it cannot be loaded: it is not an ELF file\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\nrejects +broken +.*the moon is not full\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ncut +broken +it is no JSON object\n"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("\ngone +broken +it is a link to gone.so, which is not there\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("in " + (folder_ / "plugins").string() +
                        ": libcrucible_gone.so, libcrucible_init_fails.so, libcrucible_init_segfaults.so"));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("in ")) {
      EXPECT_LE(line.size(), 130u) << line;
    }
  }
}

/// A plugin that starts and says that it cannot work here, for want of a driver or a device, is no broken one.
TEST_F(PluginCommand, APluginThatSaysThatItCannotWorkHereIsUnavailable) {
  EXPECT_THAT(crucible("list").out, testing::ContainsRegex("\ninit_fails +unavailable +.*no device is plugged in\n"));
  EXPECT_THAT(crucible("list").out, testing::ContainsRegex("\ninit_segfaults +broken +"));
  EXPECT_THAT(crucible("explain init_fails").out, HasSubstr("no device is plugged in"));
  const auto document = nlohmann::json::parse(crucible("list --json").out);
  for (const auto& row : document["plugins"]) {
    if (row["name"] == "init_fails") {
      EXPECT_EQ(row["state"], "unavailable");
    }
    if (row["name"] == "sound") {
      EXPECT_EQ(row["state"], "usable");
    }
  }
}

TEST_F(PluginCommand, ExplainNumbersTheSteps) {
  const Outcome good = crucible("explain sound");
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_THAT(good.out, AllOf(HasSubstr("plugin sound: usable"), HasSubstr("  1. candidate  passed"),
                              HasSubstr(" 11. init       passed"), HasSubstr("found in CRUCIBLE_PLUGIN_PATH")));
  const Outcome bad = crucible("explain query_segfaults");
  EXPECT_EQ(bad.code, 4);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("not usable"), HasSubstr("  6. probe      refused"), Not(HasSubstr("  7. "))));
  EXPECT_EQ(crucible("explain init_segfaults").code, 4);  // and the command lives
  EXPECT_EQ(crucible("explain ../x/").code, 4);
  EXPECT_EQ(crucible("explain absent").code, 4);
  EXPECT_THAT(crucible("explain absent").out, HasSubstr("plugin absent was not found; looked for"));
}

TEST_F(PluginCommand, OptionsShowsEachWithItsHelp) {
  const Outcome words = crucible("options cpu");
  EXPECT_EQ(words.code, 0) << words.out;
  EXPECT_THAT(words.out, testing::ContainsRegex("backend\\.cpu\\.threads: a whole number.*\n    [a-z].*\n"));
  EXPECT_THAT(words.out, testing::ContainsRegex("backend\\.cpu\\.library: one of auto, onednn, none\n"));
  const Outcome outcome = crucible("options cpu --json");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["plugin"], "cpu");
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : document["options"]) rows[row["name"]] = row;
  ASSERT_EQ(rows.count("library"), 1u) << outcome.out;
  EXPECT_EQ(rows["library"]["choices"], nlohmann::json({"auto", "onednn", "none"}));
  EXPECT_FALSE(rows["threads"]["help"].get<std::string>().empty());
  EXPECT_EQ(rows["threads"]["type"], "u64");
  EXPECT_THAT(crucible("options null").out, HasSubstr("null has no options\n"));
  const Outcome missing = crucible("options nobody");
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.out, HasSubstr("plugin nobody was not found"));
}

/// A plugin that was removed without its manifest.
TEST_F(PluginCommand, AManifestThatIsLeftBehindIsNamed) {
  const auto manifest = folder_ / "config/crucible/plugins.d/gone.json";
  std::filesystem::create_directories(manifest.parent_path());
  std::ofstream(manifest) << R"({"path": "/opt/gone/libcrucible_gone.so", "name": "gone"})";
  const std::string config = "XDG_CONFIG_HOME=" + (folder_ / "config").string(),
                    expected = "manifest " + manifest.string() +
                               " is passed over: its plugin is gone (/opt/gone/libcrucible_gone.so is not there): "
                               "remove the manifest, or install plugin gone again";
  for (const char* command : {"explain gone", "options gone", "list --json"})
    EXPECT_THAT(crucible(command, config).out, HasSubstr(expected)) << command;
  // Commands that are not about this plugin name it, too.
  for (const char* command : {"devices --json", "doctor", "health --json", "devices --self-test --backend null"}) {
    EXPECT_THAT(run_line("cd / && " + config + " XDG_CACHE_HOME=" + (folder_ / "cache").string() +
                         " " CRUCIBLE_COMMAND " " + command + " 2>&1")
                    .out,
                HasSubstr(expected))
        << command;
  }
  // In the table: its state by the page's words, what to do on its line, and no file that is gone below it.
  const std::string list = crucible("list", config).out;
  EXPECT_THAT(list, testing::ContainsRegex(
                        "\ngone +broken +its plugin is gone: remove the manifest, or install plugin gone again\n"));
  EXPECT_THAT(list, HasSubstr("in " + manifest.parent_path().string() + ": gone.json\n"));
  EXPECT_THAT(list, Not(HasSubstr("/opt/gone")));
}

/// Of a reason that is too long for the table what to do stays.
TEST_F(PluginCommand, ListShortensReasonsBeforeTheAdvice) {
  const auto manifest = folder_ / "config/crucible/plugins.d/pinned.json";
  std::filesystem::create_directories(manifest.parent_path());
  std::ofstream(manifest) << R"({"name": "pinned", "path": ")" + (folder_ / "plugins/libcrucible_sound.so").string() +
                                 R"(", "sha256": ")" + std::string(64, '0') + "\"}";
  EXPECT_THAT(
      crucible("list", "XDG_CONFIG_HOME=" + (folder_ / "config").string()).out,
      testing::ContainsRegex(
          "\npinned +not trusted +it has the SHA-256\\.\\.\\.: install the plugin again, or correct its sha256\n"));
}

/// A plugin that needs an option to start is started with it, whoever said it, by every command that starts it.
TEST_F(PluginCommand, PluginsAreStartedWithTheOptionsOfTheConfiguration) {
  std::filesystem::copy_file(CRUCIBLE_BROKEN_PLUGIN, folder_ / "plugins/libcrucible_needs_a_key.so");
  const std::string absent = crucible("list").out;
  EXPECT_THAT(absent, testing::ContainsRegex("\nneeds_a_key +unavailable +[0-9.]+ +[0-9.]+ +nobody +no key was given"));
  EXPECT_EQ(crucible("explain needs_a_key").code, 4);
  std::filesystem::create_directories(folder_ / "config/crucible");
  const auto say = [&](const std::string& key) {
    std::ofstream(folder_ / "config/crucible/crucible.toml") << "[backend.needs_a_key]\nkey = \"" << key << "\"\n";
  };
  const std::string user = "XDG_CONFIG_HOME=" + (folder_ / "config").string(), by_variable = "CRUCIBLE_BROKEN_KEY=open";
  say("open");
  for (const std::string& before : {user, by_variable}) {
    EXPECT_THAT(crucible("list", before).out, testing::ContainsRegex("\nneeds_a_key +usable +0 ")) << before;
    EXPECT_EQ(crucible("explain needs_a_key", before).code, 0) << before;
  }
  // What does not open it is told as the plugin tells it, also where a stronger layer says it.
  for (const std::string& before : {user + " CRUCIBLE_BROKEN_KEY=shut", std::string("CRUCIBLE_BROKEN_KEY=shut")}) {
    EXPECT_THAT(crucible("list", before).out, testing::ContainsRegex("\nneeds_a_key +unavailable +")) << before;
    EXPECT_THAT(crucible("explain needs_a_key", before).out, HasSubstr("the key shut does not fit")) << before;
  }
  // An option that it does not have is the user's mistake, not the plugin's, and no other plugin's.
  std::ofstream(folder_ / "config/crucible/crucible.toml") << "[backend.needs_a_key]\nkye = \"open\"\n";
  const std::string list = crucible("list", user).out;
  EXPECT_THAT(list, testing::ContainsRegex("\nneeds_a_key +misconfigured +.*did you mean 'key'"));
  EXPECT_THAT(list, testing::ContainsRegex("\nsound +usable "));
  const Outcome explained = crucible("explain needs_a_key", user);
  EXPECT_EQ(explained.code, 3);
  EXPECT_THAT(explained.out, AllOf(HasSubstr(" 11. init       refused"), HasSubstr("has no option 'kye'")));
}

/// Each place once, both ways out, and every line of a reason below the first.
TEST_F(PluginCommand, ExplainSaysWhereItLookedAndWhatToDo) {
  const std::string out = crucible("explain absent", "XDG_CONFIG_HOME=" + (folder_ / "config").string()).out;
  EXPECT_THAT(
      out, HasSubstr("\n     set CRUCIBLE_PLUGIN_PATH to the folder that has it, or write a manifest with its path: " +
                     (folder_ / "config/crucible/plugins.d/absent.json").string() + "\n"));
  std::set<std::filesystem::path> places;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) {
      EXPECT_TRUE(line.starts_with("     ") || line.find("candidate") != std::string::npos) << line;
    }
    if (line.ends_with(".so") || line.ends_with("*.json")) {
      EXPECT_TRUE(places.insert(std::filesystem::weakly_canonical(line.substr(line.find('/')))).second) << line;
    }
  }
  EXPECT_GE(places.size(), 5u);
}

TEST_F(PluginCommand, ExplainHasEachStepOnce) {
  // A certificate beside the file, of which there is much to say.
  std::ofstream(folder_ / "plugins/libcrucible_sound.so.certificate.json") << "{}";
  for (const char* before : {"", "CRUCIBLE_TRUST=enforce", "CRUCIBLE_TRUST=off"}) {
    const Outcome outcome = crucible("explain sound --json", before);
    std::map<std::string, int> count;
    const auto document = nlohmann::json::parse(outcome.out.substr(outcome.out.find('{')));
    for (const auto& decision : document["decisions"]) ++count[decision["step"]];
    EXPECT_EQ(count["trust"], 1) << before << outcome.out;
  }
}

TEST_F(PluginCommand, ExplainTakesAPath) {
  const Outcome outcome = crucible("explain " + (folder_ / "plugins/libcrucible_sound.so").string() + " --json");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto document = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(document["usable"], true);
  EXPECT_EQ(document["decisions"].size(), 11u);
  EXPECT_EQ(document["decisions"][0]["reason"], "the path that was given");
  EXPECT_EQ(document["decisions"][10]["step"], "init");
}

TEST_F(PluginCommand, DecisionsGoToAFileByOptionAndByVariable) {
  const std::string file = (folder_ / "d.jsonl").string();
  EXPECT_EQ(crucible("explain sound --decisions " + file).code, 0);
  EXPECT_EQ(crucible("explain sound", "CRUCIBLE_DECISIONS=" + file).code, 0);
  std::ifstream stream(file);
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) {
    EXPECT_TRUE(nlohmann::json::parse(line).contains("outcome"));
  }
  EXPECT_EQ(lines, 22);
  EXPECT_EQ(crucible("list --decisions /no/such/folder/x").code, 2);
}

}  // namespace
}  // namespace crucible
