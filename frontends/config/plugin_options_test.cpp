// Options of plugins among the layers, checked against the plugin's own schema; and what the loader is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/config/load_policy.hpp"
#include "frontends/config/plugin_keys.hpp"
#include "frontends/config/testing.hpp"

namespace crucible::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PluginOptions : public Layers {};

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

TEST_F(PluginOptions, PluginOptionsFollowTheSameLayers) {
  write(Layer::kUser, "[backend.acme]\nthreads = 3\ncompiler = \"tools/cc\"\nchecks = true\n");
  variables_["CRUCIBLE_THREADS"] = "4";
  requests_.sets = {"backend.acme.mode=exact"};
  Settings settings = load();
  settings.add_plugin("acme", &schema());
  ASSERT_TRUE(settings.check()) << settings.check().error().message;
  EXPECT_THAT(settings.plugin_options("acme"),
              ElementsAre(std::pair("checks", "true"),
                          std::pair("compiler", (folder_ / "home/.config/crucible/tools/cc").string()),
                          std::pair("mode", "exact"), std::pair("threads", "4")));
  const Setting& threads = *settings.find("backend.acme.threads");
  EXPECT_EQ(threads.origin.text(), "environment, CRUCIBLE_THREADS");
  ASSERT_EQ(threads.overridden.size(), 2u);
  EXPECT_EQ(threads.overridden[0].origin.place(), path_of(Layer::kUser) + ":2:1");
  EXPECT_EQ(threads.overridden[1].origin.text(), "built-in, plugin acme");
  Settings stronger = load();
  stronger.request_option("acme", "threads", "5", "--threads");
  stronger.add_plugin("acme", &schema());
  EXPECT_EQ(stronger.plugin_options("acme")["threads"], "5");
}

TEST_F(PluginOptions, PluginOptionsAreCheckedAgainstThePluginsOwnSchema) {
  write(Layer::kProject, "[backend.acme]\nthread = 3\nmode = \"exakt\"\nchecks = 1\nthreads = 65\nzzzzzz = 1\n");
  Settings settings = load();
  settings.add_plugin("acme", &schema());
  const Result<void> checked = settings.check();
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kBadInput);
  EXPECT_THAT(
      checked.error().message,
      AllOf(HasSubstr("5 problems"), HasSubstr(":2:1: plugin acme has no option 'thread'; did you mean 'threads'?"),
            HasSubstr("mode is 'exakt': it must be one of quick, exact; did you mean 'exact'?"),
            HasSubstr("checks is 1: it must be true or false"),
            HasSubstr("threads is 65: it must be an integer from 0 to 64"),
            HasSubstr("no option 'zzzzzz'; it has threads, compiler, mode, checks")));
}

TEST_F(PluginOptions, NoPluginIsAskedWhileARuleAboutPluginsMayBeAmongTheMistakes) {
  for (const char* text : {"backend = 1\n", "bakend = \"cpu\"\n", "numerics = \"x\"\n"}) {
    write(Layer::kProject, text);
    EXPECT_TRUE(load().may_ask_plugins()) << text;
  }
  for (const char* text :
       {"plugins.deny = 1\n", "plugin.deny = [\"cpu\"]\n", "[plugins\n", "plugins.dney = [\"cpu\"]\n"}) {
    write(Layer::kProject, text);
    EXPECT_FALSE(load().may_ask_plugins()) << text;
  }
}

TEST_F(PluginOptions, APluginThatCannotTellItsOptionsGetsThemAsTheyAre) {
  write(Layer::kUser, "[backend.old]\nanything = \"x\"\nthreads = 3\n");
  variables_["CRUCIBLE_LIBRARY"] = "none";
  requests_.sets = {"backend.old.threads=many"};
  Settings settings = load();
  settings.add_plugin("old", nullptr);
  EXPECT_THAT(settings.plugin_options("old"),
              ElementsAre(std::pair("anything", "x"), std::pair("library", "none"), std::pair("threads", "3")));
  EXPECT_THAT(settings.check().error().message, HasSubstr("threads is 'many': it must be an integer, 1 or more"));
}

TEST_F(PluginOptions, ThePolicyOfTheLoader) {
  const std::string digest(64, 'A');
  write(Layer::kSystem,
        "[plugins]\nallow = [\"cpu\", \"acme\"]\ndeny = [\"bad\"]\ntrust = \"enforce\"\nprobe = false\n"
        "probe_time_limit_ms = 250\npins.acme = \"" +
            digest + "\"\nlayers = [\"validate\", \"ledger\"]\n");
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
