// The layers put together: who wins, who is remembered as overridden, and every mistake with its place.
#include "frontends/config/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "frontends/config/testing.hpp"

namespace crucible::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class LayerPair : public Layers, public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(LayerPair, TheLaterOneWinsAndTheOtherIsRemembered) {
  const auto weaker = static_cast<Layer>(GetParam().first), stronger = static_cast<Layer>(GetParam().second);
  say(weaker);
  say(stronger);
  const Settings settings = load();
  ASSERT_TRUE(settings.check()) << settings.check().error().message;
  const Setting& setting = *settings.find("backend");
  EXPECT_EQ(to_text(setting.value), "by_" + std::to_string(GetParam().second));
  EXPECT_EQ(setting.origin.layer, stronger);
  ASSERT_FALSE(setting.overridden.empty());
  EXPECT_EQ(setting.overridden[0].origin.layer, weaker);
  EXPECT_EQ(setting.overridden.back().origin.layer, Layer::kBuiltIn);
  EXPECT_EQ(to_text(setting.overridden.back().value), "cpu");
}

std::vector<std::pair<int, int>> all_pairs() {
  std::vector<std::pair<int, int>> pairs;
  for (int weaker = 0; weaker < kLayerCount; ++weaker) {
    for (int stronger = weaker + 1; stronger < kLayerCount; ++stronger) pairs.emplace_back(weaker, stronger);
  }
  return pairs;
}
INSTANTIATE_TEST_SUITE_P(All, LayerPair, ::testing::ValuesIn(all_pairs()));

TEST_F(Layers, EveryValueKnowsItsPlace) {
  write(Layer::kUser, "# first line\n\n[plugins]\n  trust = \"enforce\"\n");
  variables_["CRUCIBLE_DEVICE"] = "cpu:0";
  requests_.sets = {"plugins.probe=false"};
  const Settings settings = load();
  EXPECT_EQ(settings.find("plugins.trust")->origin.text(), "user, " + path_of(Layer::kUser) + ":4:3");
  EXPECT_EQ(settings.find("device")->origin.text(), "environment, CRUCIBLE_DEVICE");
  EXPECT_EQ(settings.find("plugins.probe")->origin.text(), "command line, --set plugins.probe");
  EXPECT_EQ(settings.find("backend")->origin.text(), "built-in");
  EXPECT_FALSE(settings.flag("plugins.probe"));
}

TEST_F(Layers, AllMistakesOfAFileAreListedAtOnceWithTheirPlaces) {
  write(Layer::kProject,
        "bakend = \"cpu\"\nnumerics = \"fats\"\n[plugins]\nprobe = \"yes\"\nprobe_time_limit_ms = 0\ntrsut = \"off\"\n"
        "deny = [1, 2]\nfolders = \"here\"\npins.acme = \"12\"\nlayers = [\"tarce\"]\ntrace_file = 1.5\n");
  const Result<void> checked = load().check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kBadInput);
  const std::string file = path_of(Layer::kProject);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("10 problems in the configuration"),
                    HasSubstr(file + ":1:1: unknown key 'bakend'; did you mean 'backend'?"),
                    HasSubstr(file + ":2:1: numerics is 'fats': it must be one of fast, strict; did you mean 'fast'?"),
                    HasSubstr(file + ":4:1: plugins.probe is 'yes': it must be true or false"),
                    HasSubstr(file + ":5:1: plugins.probe_time_limit_ms is 0: it must be an integer from 1 to 3600000"),
                    HasSubstr(file + ":6:1: unknown key 'plugins.trsut'; did you mean 'plugins.trust'?"),
                    HasSubstr(file + ":7:1: plugins.deny is a list of something else than texts"),
                    HasSubstr(file + ":8:1: plugins.folders is 'here': it must be a list of paths"),
                    HasSubstr(file + ":9:6: plugins.pins.* is '12': it must be a SHA-256")));
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr(":10:1: plugins.layers has 'tarce'"), HasSubstr("did you mean 'trace'?"),
                    HasSubstr(":11:1: plugins.trace_file is a float: it must be a path")));
}

TEST_F(Layers, AStarStandsForAnyNameInTheMiddleToo) {
  write(
      Layer::kProject,
      "[device_profile.toy]\nmemory_bytes = 1_000\n[device_profile.other]\nmemory_byts = 1\n[device_profile]\nx = 1\n");
  const Settings settings = load();
  EXPECT_EQ(settings.number("device_profile.toy.memory_bytes"), 1000);
  const Result<void> checked = settings.check();
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("2 problems"),
                    HasSubstr("unknown key 'device_profile.other.memory_byts'; did you mean 'memory_bytes'?"),
                    HasSubstr("unknown key 'device_profile.x'")));
  EXPECT_EQ(find_key("device_profile..memory_bytes"), nullptr);
  EXPECT_EQ(find_key("device_profile.memory_bytes"), nullptr);
}

TEST_F(Layers, MistakesBesideTheFilesAreTheCallers) {
  variables_["CRUCIBLE_FALLBACK"] = "alow";
  requests_.sets = {"plugins.probe", "=3", "nonsense=1"};
  requests_.switches.emplace_back("numerics", "exact");
  const Result<void> checked = load().check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kUsage);
  EXPECT_THAT(
      checked.error().message,
      AllOf(HasSubstr("CRUCIBLE_FALLBACK is 'alow': it must be one of forbid, warn, allow; did you mean 'allow'?"),
            HasSubstr("--set plugins.probe: write --set KEY=VALUE"), HasSubstr("unknown key 'nonsense'"),
            HasSubstr("--numerics: numerics is 'exact'")));
}

TEST_F(Layers, SyntaxErrorsHaveALine) {
  write(Layer::kUser, "backend = \"cpu\"\nnumerics = \n");
  EXPECT_THAT(error(), AllOf(HasSubstr(path_of(Layer::kUser) + ":2:"), HasSubstr("not TOML")));
  write(Layer::kUser, "backend = \"cpu\"\n[backend.cpu]\nthreads = 2\n");
  EXPECT_THAT(error(), AllOf(HasSubstr(".toml:"), HasSubstr("write the name as [backend] name")));
}

TEST_F(Layers, TheProjectIsTheNearestFileUpToItsRoot) {
  write(Layer::kProject, "backend = \"near\"\n");
  std::ofstream(folder_ / "home/crucible.toml") << "backend = \"far\"\n";
  EXPECT_EQ(load().text("backend"), "near");
  std::filesystem::remove(folder_ / "home/project/crucible.toml");
  EXPECT_EQ(load().text("backend"), "far");
  std::filesystem::create_directory(folder_ / "home/project/.git");
  EXPECT_EQ(load().text("backend"), "cpu");  // the repository ends before the home folder
  std::filesystem::remove(folder_ / "home/project/.git");
  std::filesystem::remove(folder_ / "home/crucible.toml");
  std::ofstream(folder_ / "crucible.toml") << "backend = \"above home\"\n";
  EXPECT_EQ(load().text("backend"), "cpu");
}

TEST_F(Layers, WhatStandsInTheFilesPlaceAndIsNoFileIsAnError) {
  const std::filesystem::path file = path_of(Layer::kProject), user = path_of(Layer::kUser);
  std::filesystem::remove(file);
  std::filesystem::create_symlink("gone.toml", file);
  EXPECT_THAT(error(),
              AllOf(HasSubstr(file.string() + ": is a link to gone.toml, which is not there: mend or remove it")));
  std::filesystem::remove(file);
  std::filesystem::create_symlink(file.filename(), file);
  EXPECT_THAT(error(), HasSubstr(file.string() + ": is a link that leads back to itself"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_THAT(error(), HasSubstr(file.string() + ": is a folder"));
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr(file.string() + ": is neither a file nor a link to one"));
  std::filesystem::remove(file);
  std::filesystem::create_symlink("/dev/null", file);  // how one says "nothing" where a file is expected
  EXPECT_TRUE(load().check());
  std::filesystem::remove(file);
  std::filesystem::create_directories(user.parent_path().parent_path());
  std::ofstream(user.parent_path()) << "no folder\n";
  EXPECT_THAT(error(), HasSubstr(user.parent_path().string() + " is no folder"));
  std::filesystem::remove(user.parent_path());
  variables_["XDG_CONFIG_HOME"] = "/dev/null";
  EXPECT_TRUE(load().check());
}

TEST_F(Layers, XdgConfigHomeGoesBeforeDotConfig) {
  write(Layer::kUser, "backend = \"dot\"\n");
  variables_["XDG_CONFIG_HOME"] = (folder_ / "xdg").string();
  EXPECT_EQ(load().text("backend"), "cpu");
  std::filesystem::create_directories(folder_ / "xdg/crucible");
  std::ofstream(folder_ / "xdg/crucible/crucible.toml") << "backend = \"xdg\"\n";
  EXPECT_EQ(load().text("backend"), "xdg");
}

TEST_F(Layers, APrivilegedProcessTakesNoPlacesFromItsUser) {
  surroundings_.privileged = true;
  say(Layer::kSystem);
  say(Layer::kUser);
  write(Layer::kProject, "numerics = \"strict\"\n");
  variables_["CRUCIBLE_PLUGIN_PATH"] = "/tmp/evil";
  variables_["CRUCIBLE_STORE_REMOTE"] = "http://evil";
  variables_["CRUCIBLE_FALLBACK"] = "allow";  // names no place
  const Settings settings = load();
  EXPECT_EQ(settings.text("backend"), "by_1");
  EXPECT_EQ(settings.text("numerics"), "fast");
  EXPECT_EQ(settings.text("plugins.folders"), "");
  EXPECT_EQ(settings.text("store.remote"), "");
  EXPECT_EQ(settings.text("fallback"), "allow");
  EXPECT_THAT(settings.warnings(), UnorderedElementsAre(HasSubstr("CRUCIBLE_PLUGIN_PATH is ignored"),
                                                        HasSubstr("CRUCIBLE_STORE_REMOTE is ignored")));
}

TEST_F(Layers, AFileThatEverybodyCanWriteIsToldOrRefused) {
  write(Layer::kUser, "backend = \"acme\"\n");
  ASSERT_EQ(chmod(path_of(Layer::kUser).c_str(), 0666), 0);
  EXPECT_THAT(load().warnings(), ElementsAre(AllOf(HasSubstr("everybody can write it"), HasSubstr("chmod o-w"))));
  EXPECT_EQ(error(), "");
  write(Layer::kSystem, "[plugins]\ntrust = \"enforce\"\n");
  EXPECT_THAT(error(), AllOf(HasSubstr(path_of(Layer::kUser)), HasSubstr("refused (plugins.trust = enforce)")));
  // The file in doubt does not decide about itself.
  write(Layer::kUser, "plugins.trust = \"off\"\n");
  EXPECT_THAT(error(), HasSubstr("refused (plugins.trust = enforce)"));
  write(Layer::kSystem, "[plugins]\ntrust = \"off\"\n");
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(load().warnings().empty());
}

TEST_F(Layers, RelativePathsBelongToTheFileThatSaysThem) {
  write(Layer::kUser, "[plugins]\nfolders = [\"build\", \"/abs\"]\ntrace_file = \"../t.jsonl\"\n");
  Settings settings = load();
  EXPECT_THAT(settings.list("plugins.folders"),
              ElementsAre((folder_ / "home/.config/crucible/build").string(), "/abs"));
  EXPECT_EQ(settings.text("plugins.trace_file"), (folder_ / "home/.config/t.jsonl").string());
  variables_["CRUCIBLE_PLUGIN_PATH"] = "relative:/first:also/relative:/second";
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre("/first", "/second"));
  variables_["CRUCIBLE_PLUGIN_PATH"] = "relative";
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre((folder_ / "home/.config/crucible/build").string(), "/abs"));
}

TEST_F(Layers, FallbackFollowsWhoNamedABackend) {
  EXPECT_EQ(load().text("fallback"), "warn");
  variables_["CRUCIBLE_BACKEND"] = "auto";
  EXPECT_EQ(load().text("fallback"), "warn");
  variables_["CRUCIBLE_BACKEND"] = "acme";
  EXPECT_EQ(load().text("fallback"), "forbid");
  variables_.erase("CRUCIBLE_BACKEND");
  variables_["CRUCIBLE_DEVICE"] = "acme:0";
  EXPECT_EQ(load().text("fallback"), "forbid");
  variables_["CRUCIBLE_FALLBACK"] = "allow";
  EXPECT_EQ(load().text("fallback"), "allow");
}

TEST_F(Layers, AFileOfSomebodyElseIsInDoubt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  write(Layer::kProject, "backend = \"acme\"\n");
  ASSERT_EQ(chown(path_of(Layer::kProject).c_str(), 12345, 12345), 0);
  EXPECT_THAT(load().warnings(), ElementsAre(AllOf(HasSubstr("is left out"), HasSubstr("it belongs to user 12345"))));
  EXPECT_EQ(load().text("backend"), "cpu");
  requests_.sets = {"plugins.trust=enforce"};
  EXPECT_THAT(error(), HasSubstr("refused (plugins.trust = enforce): it belongs to user 12345"));
  requests_.sets = {"plugins.trust=off"};
  EXPECT_EQ(load().text("backend"), "acme");
}

TEST_F(Layers, AProjectThatEverybodyCanWriteIsLeftOut) {
  write(Layer::kProject, "backend = \"acme\"\nplugins.trust = \"off\"\n");
  ASSERT_EQ(chmod(path_of(Layer::kProject).c_str(), 0666), 0);
  const Settings settings = load();
  EXPECT_EQ(settings.text("backend"), "cpu");
  EXPECT_EQ(settings.text("plugins.trust"), "warn");
  EXPECT_THAT(settings.warnings(), ElementsAre(AllOf(HasSubstr("is left out"), HasSubstr("everybody can write it"))));
  requests_.sets = {"plugins.trust=enforce"};
  EXPECT_THAT(error(), HasSubstr("refused"));
}

/// Random values for the known keys and for words that are none: each is either in force or a problem with a place.
TEST_F(Layers, RandomFilesAreSettledOrComplainedAbout) {
  static constexpr const char* kValues[] = {
      "1",    "-1",          "true", "\"warn\"", "\"fast\"", "[]",         "[\"a\"]", "[\"validate\"]", "1.5",
      "\"\"", "99999999999", "[1]",  "\"x:y\"",  "{a = 1}",  "\"strict\"", "0x7f",    "1979-05-27",     "[[\"a\"]]"};
  std::mt19937 random(3);
  std::size_t settled = 0, refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text;
    std::vector<std::string> names = names_of(known_keys());
    names.insert(names.end(), {"plugins.pins.acme", "nonsense", "plugins.nonsense", "a.b.c.d", "\"\"", "backend"});
    std::shuffle(names.begin() + 1, names.end(), random);
    std::map<std::string, bool> used;
    for (std::size_t i = 0; i < 1 + random() % 8; ++i) {
      if (!used.emplace(names[i], true).second) continue;
      text += names[i] + " = " + kValues[random() % std::size(kValues)] + "\n";
    }
    write(Layer::kUser, text);
    const Settings settings = load();
    std::size_t of_the_file = 0;
    for (const auto& [name, setting] : settings.all()) {
      const Key* key = find_key(name);
      ASSERT_NE(key, nullptr) << name;
      const Result<Value> again = convert(*key, setting.value, false, "/");
      ASSERT_TRUE(again) << text << again.error().message;
      EXPECT_EQ(*again, setting.value) << text;
      of_the_file += setting.origin.layer == Layer::kUser;
    }
    for (const Problem& problem : settings.problems()) EXPECT_GE(problem.origin.line, 1u) << text << problem.message;
    const auto inner = static_cast<std::size_t>(std::ranges::count(text, '{'));  // their key may be an option's
    EXPECT_GE(of_the_file + settings.problems().size() + inner, used.size()) << text;
    settled += of_the_file;
    refused += settings.problems().size();
  }
  EXPECT_GT(settled, 100u);
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace crucible::config
