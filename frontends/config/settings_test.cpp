// The layers put together: who wins, who is remembered as overridden, and every mistake with its place.
#include "frontends/config/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "core/trace/trace_samples.hpp"
#include "frontends/config/load_policy.hpp"
#include "frontends/config/plugin_keys.hpp"

namespace crucible::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A file system and an environment of its own.
class Layers : public ::testing::Test {
 protected:
  Layers() {
    surroundings_.system_file = folder_ / "etc/crucible.toml";
    surroundings_.working_folder = folder_ / "home/project/deep";
    variables_["HOME"] = (folder_ / "home").string();
    surroundings_.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional<std::string>(found->second);
    };
    std::filesystem::create_directories(surroundings_.working_folder);
  }

  std::string path_of(Layer layer) {
    switch (layer) {
      case Layer::kSystem: return (folder_ / "etc/crucible.toml").string();
      case Layer::kUser: return (folder_ / "home/.config/crucible/crucible.toml").string();
      default: return (folder_ / "home/project/crucible.toml").string();
    }
  }

  void write(Layer layer, const std::string& text) {
    const std::filesystem::path path = path_of(layer);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  /// Lets one layer say `backend = NAME of the layer`.
  void say(Layer layer) {
    const std::string name = "by_" + std::to_string(static_cast<int>(layer));
    switch (layer) {
      case Layer::kBuiltIn: return;
      case Layer::kSystem:
      case Layer::kUser:
      case Layer::kProject: return write(layer, "backend = \"" + name + "\"\n");
      case Layer::kEnvironment: variables_["CRUCIBLE_BACKEND"] = name; return;
      case Layer::kCommandLine: requests_.switches.emplace_back("backend", name); return;
      case Layer::kApi: requests_.api["backend"] = name; return;
    }
  }

  Settings load() { return Settings::load(surroundings_, requests_); }
  std::string error() {
    const Result<void> checked = load().check();
    return checked ? "" : checked.error().message;
  }

  trace::samples::Folder folder_;
  std::map<std::string, std::string> variables_;
  Surroundings surroundings_;
  Requests requests_;
};

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
  write(Layer::kProject, "# first line\n\n[plugins]\n  trust = \"enforce\"\n");
  variables_["CRUCIBLE_DEVICE"] = "cpu:0";
  requests_.sets = {"plugins.probe=false"};
  const Settings settings = load();
  EXPECT_EQ(settings.find("plugins.trust")->origin.text(), "project, " + path_of(Layer::kProject) + ":4:3");
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
  EXPECT_THAT(checked.error().message, AllOf(HasSubstr(":10:1: plugins.layers has 'tarce'"), HasSubstr("did you mean 'trace'?"),
                                             HasSubstr(":11:1: plugins.trace_file is a float: it must be a path")));
}

TEST_F(Layers, MistakesBesideTheFilesAreTheCallers) {
  variables_["CRUCIBLE_FALLBACK"] = "alow";
  requests_.sets = {"plugins.probe", "=3", "nonsense=1"};
  requests_.switches.emplace_back("numerics", "exact");
  const Result<void> checked = load().check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kUsage);
  EXPECT_THAT(checked.error().message,
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
  variables_["CRUCIBLE_FALLBACK"] = "allow";  // names no place
  const Settings settings = load();
  EXPECT_EQ(settings.text("backend"), "by_1");
  EXPECT_EQ(settings.text("numerics"), "fast");
  EXPECT_EQ(settings.text("plugins.folders"), "");
  EXPECT_EQ(settings.text("fallback"), "allow");
  EXPECT_THAT(settings.warnings(), ElementsAre(HasSubstr("CRUCIBLE_PLUGIN_PATH is ignored")));
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
  write(Layer::kProject, "[plugins]\nfolders = [\"build\", \"/abs\"]\ntrace_file = \"../t.jsonl\"\n");
  Settings settings = load();
  EXPECT_THAT(settings.list("plugins.folders"), ElementsAre((folder_ / "home/project/build").string(), "/abs"));
  EXPECT_EQ(settings.text("plugins.trace_file"), (folder_ / "home/t.jsonl").string());
  variables_["CRUCIBLE_PLUGIN_PATH"] = "relative:/first:also/relative:/second";
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre("/first", "/second"));
  variables_["CRUCIBLE_PLUGIN_PATH"] = "relative";
  EXPECT_THAT(load().list("plugins.folders"), ElementsAre((folder_ / "home/project/build").string(), "/abs"));
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
  static constexpr const char* kValues[] = {"1",     "-1",          "true",   "\"warn\"", "\"fast\"",         "[]",
                                            "[\"a\"]", "[\"validate\"]", "1.5",    "\"\"",      "99999999999",    "[1]",
                                            "\"x:y\"", "{a = 1}",     "\"strict\"", "0x7f",    "1979-05-27", "[[\"a\"]]"};
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
    write(Layer::kProject, text);
    const Settings settings = load();
    std::size_t of_the_file = 0;
    for (const auto& [name, setting] : settings.all()) {
      const Key* key = find_key(name);
      ASSERT_NE(key, nullptr) << name;
      const Result<Value> again = convert(*key, setting.value, false, "/");
      ASSERT_TRUE(again) << text << again.error().message;
      EXPECT_EQ(*again, setting.value) << text;
      of_the_file += setting.origin.layer == Layer::kProject;
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

// ---- options of plugins ----

backend::OptionSchema option(const std::string& name, const std::string& type, const std::string& variable = "") {
  backend::OptionSchema made;
  made.name = name;
  made.type = type;
  made.env = variable;
  return made;
}

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<backend::OptionSchema> options = {option("threads", "u64", "CRUCIBLE_THREADS"),
                                                  option("compiler", "path", "CRUCIBLE_CLANG"),
                                                  option("mode", "choice"), option("checks", "bool")};
    options[0].default_value = "0";
    options[0].min = 0, options[0].max = 64;
    options[2].choices = {"quick", "exact"};
    return keys_of(options);
  }();
  return keys;
}

TEST_F(Layers, PluginOptionsFollowTheSameLayers) {
  write(Layer::kProject, "[backend.acme]\nthreads = 3\ncompiler = \"tools/cc\"\nchecks = true\n");
  variables_["CRUCIBLE_THREADS"] = "4";
  requests_.sets = {"backend.acme.mode=exact"};
  Settings settings = load();
  settings.add_plugin("acme", &schema());
  ASSERT_TRUE(settings.check()) << settings.check().error().message;
  EXPECT_THAT(settings.plugin_options("acme"),
              ElementsAre(std::pair("checks", "true"), std::pair("compiler", (folder_ / "home/project/tools/cc").string()),
                          std::pair("mode", "exact"), std::pair("threads", "4")));
  const Setting& threads = *settings.find("backend.acme.threads");
  EXPECT_EQ(threads.origin.text(), "environment, CRUCIBLE_THREADS");
  ASSERT_EQ(threads.overridden.size(), 2u);
  EXPECT_EQ(threads.overridden[0].origin.place(), path_of(Layer::kProject) + ":2:1");
  EXPECT_EQ(threads.overridden[1].origin.text(), "built-in, plugin acme");
  Settings stronger = load();
  stronger.request_option("acme", "threads", "5", "--threads");
  stronger.add_plugin("acme", &schema());
  EXPECT_EQ(stronger.plugin_options("acme")["threads"], "5");
}

TEST_F(Layers, PluginOptionsAreCheckedAgainstThePluginsOwnSchema) {
  write(Layer::kProject, "[backend.acme]\nthread = 3\nmode = \"exakt\"\nchecks = 1\nthreads = 65\nzzzzzz = 1\n");
  Settings settings = load();
  settings.add_plugin("acme", &schema());
  const Result<void> checked = settings.check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(checked.error().message,
              AllOf(HasSubstr("5 problems"), HasSubstr(":2:1: plugin acme has no option 'thread'; did you mean 'threads'?"),
                    HasSubstr("mode is 'exakt': it must be one of quick, exact; did you mean 'exact'?"),
                    HasSubstr("checks is 1: it must be true or false"),
                    HasSubstr("threads is 65: it must be an integer from 0 to 64"),
                    HasSubstr("no option 'zzzzzz'; it has threads, compiler, mode, checks")));
}

TEST_F(Layers, NoPluginIsAskedWhileARuleAboutPluginsMayBeAmongTheMistakes) {
  for (const char* text : {"backend = 1\n", "bakend = \"cpu\"\n", "numerics = \"x\"\n"}) {
    write(Layer::kProject, text);
    EXPECT_TRUE(load().may_ask_plugins()) << text;
  }
  for (const char* text : {"plugins.deny = 1\n", "plugin.deny = [\"cpu\"]\n", "[plugins\n", "plugins.dney = [\"cpu\"]\n"}) {
    write(Layer::kProject, text);
    EXPECT_FALSE(load().may_ask_plugins()) << text;
  }
}

TEST_F(Layers, APluginThatCannotTellItsOptionsGetsThemAsTheyAre) {
  write(Layer::kProject, "[backend.old]\nanything = \"x\"\nthreads = 3\n");
  variables_["CRUCIBLE_LIBRARY"] = "none";
  requests_.sets = {"backend.old.threads=many"};
  Settings settings = load();
  settings.add_plugin("old", nullptr);
  EXPECT_THAT(settings.plugin_options("old"),
              ElementsAre(std::pair("anything", "x"), std::pair("library", "none"), std::pair("threads", "3")));
  EXPECT_THAT(settings.check().error().message, HasSubstr("threads is 'many': it must be an integer, 1 or more"));
}

TEST_F(Layers, ThePolicyOfTheLoader) {
  const std::string digest(64, 'A');
  write(Layer::kSystem, "[plugins]\nallow = [\"cpu\", \"acme\"]\ndeny = [\"bad\"]\ntrust = \"enforce\"\nprobe = false\n"
                        "probe_time_limit_ms = 250\npins.acme = \"" + digest + "\"\nlayers = [\"validate\", \"ledger\"]\n");
  const backend::LoadPolicy policy = load_policy(load());
  EXPECT_THAT(policy.allow, ElementsAre("cpu", "acme"));
  EXPECT_THAT(policy.deny, ElementsAre("bad"));
  EXPECT_EQ(policy.trust, backend::TrustPolicy::kEnforce);
  EXPECT_FALSE(policy.probe);
  EXPECT_EQ(policy.probe_time_limit.count(), 250);
  EXPECT_THAT(policy.pins, ElementsAre(std::pair("acme", std::string(64, 'a'))));
  EXPECT_THAT(policy.layers, ElementsAre("validate", "ledger"));
  requests_.sets = {"plugins.folders=/a:/b"};
  EXPECT_THAT(load_policy(load()).folders, ElementsAre("/a", "/b"));
  requests_.sets.clear();
  variables_["CRUCIBLE_PLUGIN_PATH"] = "/c";
  EXPECT_TRUE(load_policy(load()).folders.empty());  // the loader reads this one itself
}

}  // namespace
}  // namespace crucible::config
