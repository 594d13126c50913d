// What the loader sees in files and folders: damaged files, who may write them, links that are swapped, names that come
// twice, many plugins, manifests, pins and lists.
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "core/base/words.hpp"
#include "plugins/abi/crucible_plugin.h"
#include "plugins/loader/dependency.hpp"
#include "plugins/loader/examine.hpp"
#include "plugins/loader/sealed.hpp"
#include "plugins/loader/testing/fixture.hpp"

namespace crucible::backend {
namespace {

using std::filesystem::path;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string read_file(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void write_file(const path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  chmod(file.c_str(), 0644);
}

class Files : public LoaderFiles {
 protected:
  /// The error of examining `file`; "" when it passes.
  std::string problem(const path& file, const LoadPolicy& policy) {
    const auto facts = examine(file, policy, log_);
    return facts ? "" : facts.error().message;
  }
  std::string problem(const path& file) { return problem(file, policy()); }
  Decision last() const { return log_.all().back(); }
  Decision decision_of(Step step) const {
    for (const Decision& decision : log_.all()) {
      if (decision.step == step) return decision;
    }
    return {};
  }
  DecisionLog log_;
};

// ---- damaged files ----

TEST_F(Files, DamagedOnesAreNamedAndNeverRun) {
  const std::string whole = read_file(copy_plugin("sound"));
  const auto changed = [&](std::size_t offset, char byte) {
    std::string content = whole;
    content[offset] = byte;
    return content;
  };
  const struct {
    std::string what, content, words;
  } cases[] = {
      {"text", "#!/bin/sh\necho this is a program of another kind\n", "it is not an ELF file"},
      {"empty", "", "it is not an ELF file"},
      {"machine", changed(offsetof(Elf64_Ehdr, e_machine), EM_S390), "it is built for machine 22, this host is"},
      {"class", changed(EI_CLASS, ELFCLASS32), "it is a program of 32 bits"},
      {"order", changed(EI_DATA, ELFDATA2MSB), "other byte order"},
      {"type", changed(offsetof(Elf64_Ehdr, e_type), ET_REL), "it is not a shared object"},
      {"headers", changed(offsetof(Elf64_Ehdr, e_phentsize), 3), "its headers are damaged"},
      {"cut_early", whole.substr(0, 40), "it is cut off after 40 bytes"},
      {"cut_half", whole.substr(0, whole.size() / 2), "it is cut off after"},
      {"cut_late", whole.substr(0, whole.size() - 1), "it is cut off after"},
  };
  for (const auto& [what, content, words] : cases) {
    const path file = folder() / ("libcrucible_" + what + ".so");
    write_file(file, content);
    EXPECT_THAT(problem(file), HasSubstr(words)) << what;
    EXPECT_EQ(last().step, Step::kInspect) << what;
    EXPECT_EQ(last().outcome, Outcome::kRefused) << what;
  }
  std::filesystem::create_directory(folder() / "libcrucible_folder.so");
  EXPECT_THAT(problem(folder() / "libcrucible_folder.so"), HasSubstr("it is not a file"));
  EXPECT_THAT(problem(folder() / "libcrucible_absent.so"), HasSubstr("No such file or directory"));
}

TEST_F(Files, EveryDamagedByteOfTheHeadersIsSurvived) {
  const std::string whole = read_file(copy_plugin("sound"));
  LoadPolicy policy = this->policy();
  policy.probe = false;  // the inspection alone, in this process
  const path file = folder() / "libcrucible_fuzzed.so";
  for (std::size_t offset = 4; offset < sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr); ++offset) {
    std::string content = whole;
    content[offset] = static_cast<char>(content[offset] ^ 0xff);
    write_file(file, content);
    (void)problem(file, policy);
  }
  EXPECT_EQ(problem(copy_plugin("sound"), policy), "");
}

TEST_F(Files, AMissingLibraryIsNamedWithItsPackage) {
  EXPECT_THAT(problem(copy(CRUCIBLE_NEEDING_PLUGIN, "needing")),
              AllOf(HasSubstr("libvendor_driver.so.7 is missing (no package is known for it"),
                    HasSubstr("libnvrtc.so.99 is missing (install nvidia-cuda-toolkit, in non-free)")));
  EXPECT_EQ(last().step, Step::kDependency);
  EXPECT_EQ(package_of("libdnnl.so.2"), "libdnnl2");
  EXPECT_EQ(package_of("libOpenCL.so.1"), "ocl-icd-libopencl1");
  EXPECT_EQ(package_of("libunheard.so"), "");
  EXPECT_EQ(library_in_message("libx.so.1: cannot open shared object file: No such file or directory"), "libx.so.1");
  EXPECT_EQ(library_in_message("undefined symbol: f"), "");
}

TEST_F(Files, AMissingLibraryThatComesBackIsNoticed) {
  const path plugin = copy(CRUCIBLE_NEEDING_PLUGIN, "needing");
  EXPECT_NE(problem(plugin), "");
  setenv("LD_LIBRARY_PATH", CRUCIBLE_ABSENT_FOLDER, 1);
  EXPECT_EQ(problem(plugin), "");
  unsetenv("LD_LIBRARY_PATH");
}

// ---- trust ----

TEST_F(Files, WhoMayWriteThemDecides) {
  LoadPolicy policy = this->policy();
  const path plugin = copy_plugin("sound");
  EXPECT_EQ(problem(plugin, policy), "");
  EXPECT_EQ(decision_of(Step::kTrust).outcome, Outcome::kPassed);

  chmod(plugin.c_str(), 0757);
  EXPECT_THAT(problem(plugin, policy), HasSubstr("all users can write the file"));
  EXPECT_EQ(last().step, Step::kTrust);
  policy.trust = TrustPolicy::kWarn;
  const auto warned = examine_candidate(explicit_candidate(plugin), policy, log_);
  ASSERT_TRUE(warned.has_value());
  ASSERT_EQ(warned->warnings.size(), 1u);
  EXPECT_THAT(warned->warnings[0], HasSubstr("can be changed by others: all users can write the file"));
  policy.trust = TrustPolicy::kOff;
  const auto ignored = examine_candidate(explicit_candidate(plugin), policy, log_);
  ASSERT_TRUE(ignored.has_value());
  EXPECT_TRUE(ignored->warnings.empty());
}

TEST_F(Files, AFolderThatAllCanWriteIsNotTrusted) {
  const path plugin = copy_plugin("sound", "outer/inner");
  chmod((folder() / "outer/inner").c_str(), 0777);
  EXPECT_THAT(problem(plugin), HasSubstr("all users can write its folder " + (folder() / "outer/inner").string()));
  chmod((folder() / "outer/inner").c_str(), 01777);  // sticky does not help here: anybody may put a new file beside it
  EXPECT_THAT(problem(plugin), HasSubstr("all users can write its folder"));
  chmod((folder() / "outer/inner").c_str(), 0755);
  chmod((folder() / "outer").c_str(), 0777);
  EXPECT_THAT(problem(plugin), HasSubstr("all users can write its folder " + (folder() / "outer").string()));
  chmod((folder() / "outer").c_str(), 01777);
  EXPECT_EQ(problem(plugin), "");
}

TEST_F(Files, AnotherOwnerIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const path plugin = copy_plugin("sound");
  ASSERT_EQ(chown(plugin.c_str(), 4321, 4321), 0);
  EXPECT_THAT(problem(plugin), HasSubstr("the file belongs to user 4321, not to root or to user 0"));
  ASSERT_EQ(chown(plugin.c_str(), 0, 4321), 0);
  chmod(plugin.c_str(), 0775);
  EXPECT_THAT(problem(plugin), HasSubstr("group 4321 can write the file"));
}

TEST_F(Files, APinIsKeptInEveryPolicy) {
  const path plugin = copy_plugin("sound");
  LoadPolicy policy = this->policy();
  policy.trust = TrustPolicy::kOff;
  policy.pins["sound"] = std::string(64, 'a');
  const std::string words = problem(plugin, policy);
  EXPECT_THAT(words, HasSubstr("it is pinned to aaaa"));
  EXPECT_EQ(last().step, Step::kTrust);
  const std::string digest = words.substr(words.find("SHA-256 ") + 8, 64);
  policy.pins["sound"] = digest;
  EXPECT_EQ(problem(plugin, policy), "");
  std::ofstream(plugin, std::ios::app) << "x";
  EXPECT_THAT(problem(plugin, policy), HasSubstr("it is pinned to " + digest));
}

/// Pins the plugin to what it is.
LoadPolicy pinned(LoadPolicy policy, const path& plugin, const std::string& name) {
  policy.pins[name] = *file_digest(*OpenFile::open(plugin));
  return policy;
}

TEST_F(Files, WhatWasHashedIsWhatIsLoaded) {
  const path plugin = copy_plugin("sound");
  Result<OpenFile> file = OpenFile::open(plugin);
  ASSERT_TRUE(file);
  const std::string digest = *file_digest(*file);
  ASSERT_TRUE(file->seal());
  std::ofstream(plugin, std::ios::in | std::ios::out | std::ios::binary)
      << std::string(5000, 'x');  // in place: the same file with other words
  EXPECT_EQ(*file_digest(*file), digest);
  EXPECT_EQ(pwrite(file->descriptor(), "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(file->descriptor(), 0), -1);
  void* const library = dlopen(loadable_path(file->descriptor(), file->path()).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, CRUCIBLE_QUERY_SYMBOL), nullptr);
  EXPECT_FALSE(file->is_current()) << "which is told all the same";
}

TEST_F(Files, APinnedPluginIsLoadedFromACopyAndAnotherIsNot) {
  DecisionLog log;
  for (const bool is_pinned : {true, false}) {
    const path plugin = copy_plugin(is_pinned ? "pinned" : "plain");
    const std::string name = is_pinned ? "pinned" : "plain";
    const LoadPolicy policy = is_pinned ? pinned(this->policy(), plugin, name) : this->policy();
    const Result<Examined> examined = examine_candidate(explicit_candidate(plugin), policy, log);
    ASSERT_TRUE(examined) << examined.error().message;
    EXPECT_EQ(is_sealed(examined->file.descriptor()), is_pinned);
    EXPECT_TRUE(load_examined(*examined, {}, log));
  }
}

TEST_F(Files, APinnedPluginFindsWhatLiesBesideIt) {
  const path plugin = copy(CRUCIBLE_NEIGHBOUR_PLUGIN, "neighbour");
  std::filesystem::copy_file(path(CRUCIBLE_ABSENT_FOLDER) / "libvendor_driver.so.7",
                             plugin.parent_path() / "libvendor_driver.so.7");
  const LoadPolicy policy = pinned(this->policy(), plugin, "neighbour");
  DecisionLog log;
  const Result<Examined> examined = examine_candidate(explicit_candidate(plugin), policy, log);
  ASSERT_TRUE(examined) << examined.error().message;
  const auto loaded = load_examined(*examined, {}, log);
  EXPECT_TRUE(loaded) << loaded.error().message;
}

TEST_F(Files, WhoMayWriteTheLibrariesThatItBringsDecidesToo) {
  const path plugin = copy(CRUCIBLE_NEIGHBOUR_PLUGIN, "neighbour");
  const path library = plugin.parent_path() / "libvendor_driver.so.7";
  std::filesystem::copy_file(path(CRUCIBLE_ABSENT_FOLDER) / library.filename(), library);
  EXPECT_EQ(problem(plugin), "");
  chmod(library.c_str(), 0777);
  const std::string words = problem(plugin);
  EXPECT_THAT(words, HasSubstr("can be changed by others: of its library " + library.string() + ", "));
  EXPECT_THAT(words, HasSubstr("can write the file"));
  // By a link, from a folder that the environment names.
  const path elsewhere = folder() / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::rename(library, elsewhere / "real.so");
  std::filesystem::create_symlink("real.so", elsewhere / library.filename());
  setenv("LD_LIBRARY_PATH", elsewhere.c_str(), 1);
  EXPECT_THAT(problem(plugin), HasSubstr("of its library " + (elsewhere / "real.so").string() + ", "));
  chmod((elsewhere / "real.so").c_str(), 0755);
  chmod(elsewhere.c_str(), 0777);
  EXPECT_THAT(problem(plugin), HasSubstr("can write its folder"));
  unsetenv("LD_LIBRARY_PATH");
}

TEST_F(Files, WhatTheShellKeepsSecretIsNotAPluginsThatIsOnlyAsked) {
  setenv("API_TOKEN", "hunter2", 1);
  const std::string words = problem(copy_plugin("reads_secrets"));
  unsetenv("API_TOKEN");
  EXPECT_EQ(words, "");
}

TEST_F(Files, ListsComeBeforeEverything) {
  const path plugin = folder() / "libcrucible_x.so";  // is not even there
  LoadPolicy policy = this->policy();
  policy.deny = {"x"};
  policy.allow = {"x"};
  EXPECT_THAT(problem(plugin, policy), HasSubstr("plugin x is on the deny list"));
  policy.deny.clear();
  policy.allow = {"y"};
  EXPECT_THAT(problem(plugin, policy), HasSubstr("plugin x is not on the allow list, which has 1 name"));
  EXPECT_EQ(log_.all().size(), 2u);
  policy.allow = {"sound"};
  EXPECT_EQ(problem(copy_plugin("sound"), policy), "");
}

// ---- swaps ----

TEST_F(Files, ALinkThatIsSwappedLoadsWhatWasProbed) {
  const path probed = copy_plugin("sound", "a"), other = copy_plugin("constructor_aborts", "b");
  const path link = folder() / "libcrucible_link.so";
  std::filesystem::create_symlink(probed, link);
  const auto examined = examine_candidate(explicit_candidate(link), policy(), log_);
  ASSERT_TRUE(examined.has_value()) << examined.error().message;
  std::filesystem::remove(link);
  std::filesystem::create_symlink(other, link);
  const auto backend = load_examined(*examined, {}, log_);  // the other one would end this process
  ASSERT_TRUE(backend.has_value()) << backend.error().message;
  EXPECT_EQ((*backend)->path(), probed);
}

TEST_F(Files, AFileThatIsReplacedAfterTheProbeIsRefused) {
  const path plugin = copy_plugin("swapped");
  const auto examined = examine_candidate(explicit_candidate(plugin), policy(), log_);
  ASSERT_TRUE(examined.has_value());
  std::filesystem::rename(copy_plugin("constructor_aborts", "other"), plugin);
  const auto backend = load_examined(*examined, {}, log_);
  ASSERT_FALSE(backend.has_value());
  EXPECT_THAT(backend.error().message, HasSubstr("is another file now than when it was examined"));
  EXPECT_EQ(last().step, Step::kLoad);
}

TEST_F(Files, AFileThatIsOverwrittenInPlaceIsRefused) {
  const path plugin = copy_plugin("overwritten");
  const auto examined = examine_candidate(explicit_candidate(plugin), policy(), log_);
  ASSERT_TRUE(examined.has_value());
  std::ofstream(plugin, std::ios::app) << "more";
  EXPECT_FALSE(load_examined(*examined, {}, log_).has_value());
}

// ---- candidates ----

TEST_F(Files, TheFirstOfTwoNamesWins) {
  const path first = copy_plugin("twin", "a"), second = copy_plugin("twin", "b");
  LoadPolicy policy = this->policy();
  policy.folders = {first.parent_path(), second.parent_path()};
  const auto found = find_candidate("twin", policy, log_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, first);
  EXPECT_EQ(last().outcome, Outcome::kSkipped);
  EXPECT_EQ(last().path, second);
  EXPECT_EQ(last().reason, first.string() + " of the same name comes first");
}

TEST_F(Files, TheCurrentFolderIsNoPlace) {
  const path plugin = copy_plugin("here");
  const path before = std::filesystem::current_path();
  std::filesystem::current_path(plugin.parent_path());
  LoadPolicy policy = this->policy();
  policy.folders = {".", ""};
  EXPECT_FALSE(find_candidate("here", policy, log_).has_value());
  std::filesystem::current_path(before);
}

TEST_F(Files, RaisedRightsIgnoreTheEnvironmentAndEnforceTrust) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can take on another user's number";
  const path plugin = copy_plugin("sound");
  setenv("CRUCIBLE_PLUGIN_PATH", plugin.parent_path().c_str(), 1);
  LoadPolicy policy = this->policy();
  policy.trust = TrustPolicy::kOff;
  chmod(plugin.c_str(), 0777);
  EXPECT_TRUE(find_candidate("sound", policy, log_).has_value());
  EXPECT_EQ(problem(plugin, policy), "");
  ASSERT_EQ(seteuid(65534), 0);  // now the user and the effective user differ, as in a set-uid program
  const bool found = find_candidate("sound", policy, log_).has_value();
  const std::string refused = problem(plugin, policy);
  ASSERT_EQ(seteuid(0), 0);
  unsetenv("CRUCIBLE_PLUGIN_PATH");
  EXPECT_FALSE(found);
  EXPECT_THAT(refused, HasSubstr("all users can write the file"));
}

TEST_F(Files, ManifestsNameAndPinAPlugin) {
  const path plugin = copy_plugin("sound"), manifests = folder() / "config/crucible/plugins.d";
  setenv("XDG_CONFIG_HOME", (folder() / "config").c_str(), 1);
  write_file(manifests / "a.json", R"({"name": "acme", "path": ")" + plugin.string() + R"("})");
  const std::string zeros(64, '0');
  write_file(manifests / "b.json",
             R"({"name": "pinned", "sha256": ")" + zeros + R"(", "path": ")" + plugin.string() + R"("})");
  const auto acme = find_candidate("acme", policy(), log_);
  ASSERT_TRUE(acme.has_value());
  EXPECT_EQ(acme->path, plugin);
  EXPECT_TRUE(examine_candidate(*acme, policy(), log_).has_value());
  const auto pinned = find_candidate("pinned", policy(), log_);
  ASSERT_TRUE(pinned.has_value());
  EXPECT_THAT(examine_candidate(*pinned, policy(), log_).error().message,
              HasSubstr("it is pinned to " + zeros + " by the manifest " + (manifests / "b.json").string() +
                        ": install the plugin again, or correct its sha256"));
  // The user's own pin, with who said it.
  LoadPolicy pinning = policy();
  pinning.pins["acme"] = zeros;
  pinning.pinned_by["acme"] = "the key plugins.pins.acme (/home/ada/crucible.toml:3:1)";
  EXPECT_THAT(examine_candidate(*acme, pinning, log_).error().message,
              HasSubstr(" by the key plugins.pins.acme (/home/ada/crucible.toml:3:1): install the plugin again, or "
                        "correct the pin"));
  unsetenv("XDG_CONFIG_HOME");
}

/// What is wrong with a manifest is a refusal in the log, with the file, and in the error of whoever asks for its
/// plugin. A manifest as somebody may write it: JSON of the right keys with values of any kind, then bytes of it
/// changed.
std::string random_manifest(std::mt19937& random, const std::string& plugin) {
  const auto one_of = [&](std::initializer_list<std::string> choices) {
    return choices.begin()[random() % choices.size()];
  };
  const auto value = [&] {
    return one_of({"\"" + plugin + "\"", "\"relative/libx.so\"", "\"/nowhere\\u001b[2J\\n/libx.so\"",
                   "\"" + std::string(random() % 70, 'a') + "\"", "\"/dev/zero\"", "\"../../x\"", "\"\\u202e\\u0000\"",
                   "null", "-1", "1e999", "18446744073709551616", "[]", "{}", "[[[[]]]]", "true",
                   std::string(random() % 3000, '['), "\"\xff\xfe\"", "\"" + std::string(64, 'A') + "\""});
  };
  std::string text = random() % 2 == 0 ? "{" : "{\"path\": \"" + plugin + "\"";
  for (unsigned i = random() % 3; i > 0; --i)
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "",
                        one_of({"\"path\"", "\"name\"", "\"sha256\"", "\"Path\"", "\"\"", "\"\\u0070ath\""}), value());
  text += "}";
  for (unsigned i = random() % 3; i > 1 && !text.empty(); --i)
    text[random() % text.size()] = static_cast<char>(random());
  return random() % 8 == 0 ? text.substr(0, random() % (text.size() + 1)) : text;
}

TEST_F(Files, RandomManifestsNameAPluginSoundlyOrAreToldInOneLine) {
  const path plugin = copy_plugin("sound"), manifests = folder() / "config/crucible/plugins.d";
  setenv("XDG_CONFIG_HOME", (folder() / "config").c_str(), 1);
  std::mt19937 random(35);
  std::size_t taken = 0, told = 0;
  for (int round = 0; round < 1000; ++round) {
    const std::string content = random_manifest(random, plugin.string());
    write_file(manifests / "m.json", content);
    DecisionLog log;
    bool is_taken = false;
    for (const Candidate& candidate : find_candidates(policy(), log)) {
      if (!candidate.source.starts_with("a manifest of the user")) continue;
      is_taken = true;
      EXPECT_TRUE(candidate.path.is_absolute()) << content;
      EXPECT_EQ(candidate.path.string().find('\0'), std::string::npos) << content;
      EXPECT_TRUE(printable(candidate.name) == candidate.name && candidate.name.size() <= 100 &&
                  candidate.name.find('/') == std::string::npos)
          << content;
      EXPECT_TRUE(candidate.pin.empty() || candidate.pin.size() == 64) << content;
    }
    std::size_t reasons = 0;
    for (const Decision& decision : log.all()) {
      if (decision.outcome != Outcome::kRefused) continue;
      ++reasons;
      EXPECT_EQ(printable(decision.reason), decision.reason) << content;
    }
    EXPECT_EQ(reasons, is_taken ? 0u : 1u) << content;
    ++(is_taken ? taken : told);
  }
  unsetenv("XDG_CONFIG_HOME");
  EXPECT_GT(taken, 100u);
  EXPECT_GT(told, 300u);
}

TEST_F(Files, BrokenManifestsAreToldWithTheirFile) {
  const path plugin = copy_plugin("sound"), manifests = folder() / "config/crucible/plugins.d";
  setenv("XDG_CONFIG_HOME", (folder() / "config").c_str(), 1);
  const std::string named = R"({"path": ")" + plugin.string() + R"(", )";
  const std::vector<std::array<std::string, 3>> cases = {
      {"relative", R"({"path": "libcrucible_sound.so"})", R"(its "path" libcrucible_sound.so is not absolute)"},
      {"cut", R"({"path": )", "it is no JSON object"},
      {"empty", "", "it is empty"},
      {"list", "[]", "it is no JSON object"},
      {"nothing", "{}", R"(it has no "path")"},
      {"number", R"({"path": 3})", R"(its "path" is no text)"},
      {"pin", named + R"("sha256": "00"})", R"(its "sha256" is no SHA-256)"},
      {"pin_number", named + R"("sha256": 5})", R"(its "sha256" is no text)"},
      {"misspelt", named + R"("sha265": "00"})", R"("sha265" is none of path, name, sha256)"},
      {"named", named + R"("name": "../x"})", "'../x' is no name of a plugin"},
      {"long", std::string(70000, ' '), "it is longer than 64 KiB"}};
  for (const auto& [name, content, words] : cases) write_file(manifests / (name + ".json"), content);
  std::filesystem::create_directory(manifests / "folder.json");
  std::filesystem::create_symlink("nowhere", manifests / "link.json");
  find_candidates(policy(), log_);
  const auto reason_of = [&](const std::string& name) {
    std::string reasons;
    for (const Decision& decision : log_.of(name)) {
      if (decision.outcome == Outcome::kRefused) reasons += decision.path.string() + ": " + decision.reason;
    }
    return reasons;
  };
  for (const auto& [name, content, words] : cases) {
    EXPECT_THAT(reason_of(name), AllOf(HasSubstr((manifests / (name + ".json")).string()), HasSubstr(words))) << name;
    EXPECT_THAT(find_candidate(name, policy(), log_).error().message, HasSubstr(words)) << name;
  }
  EXPECT_THAT(reason_of("folder"), HasSubstr("it is a folder"));
  EXPECT_THAT(reason_of("link"), HasSubstr("it is a link to nowhere, which is not there"));
  unsetenv("XDG_CONFIG_HOME");
}

TEST_F(Files, ALinkToNothingInAFolderOfPluginsIsTold) {
  const path plugin = copy_plugin("sound");
  std::filesystem::create_symlink("gone.so", plugin.parent_path() / "libcrucible_gone.so");
  LoadPolicy policy = this->policy();
  policy.folders = {plugin.parent_path()};
  EXPECT_THAT(find_candidate("gone", policy, log_).error().message,
              HasSubstr("it is a link to gone.so, which is not there"));
  DecisionLog log;
  find_candidates(policy, log);
  ASSERT_EQ(log.of("gone").size(), 1u);
  EXPECT_EQ(log.of("gone")[0].outcome, Outcome::kRefused);
  EXPECT_TRUE(find_candidate("sound", policy, log_).has_value());
}

TEST_F(Files, AManifestWhosePluginIsGoneIsPassedOverAndTold) {
  const path plugin = copy_plugin("sound"), manifests = folder() / "config/crucible/plugins.d";
  setenv("XDG_CONFIG_HOME", (folder() / "config").c_str(), 1);
  write_file(manifests / "a.json", R"({"name": "sound", "path": "/opt/gone/libcrucible_sound.so"})");
  LoadPolicy policy = this->policy();
  EXPECT_THAT(find_candidate("sound", policy, log_).error().message,
              HasSubstr("manifest " + (manifests / "a.json").string() +
                        " is passed over: its plugin is gone (/opt/gone/libcrucible_sound.so is not there): remove the "
                        "manifest, or install plugin sound again"));
  const std::vector<Decision> gone = manifests_left_behind(policy);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].plugin, "sound");
  EXPECT_EQ(gone[0].path, manifests / "a.json");
  // Another manifest that names a plugin which is there is taken.
  write_file(manifests / "b.json", R"({"name": "sound", "path": ")" + plugin.string() + R"("})");
  const auto found = find_candidate("sound", policy, log_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, plugin);
  unsetenv("XDG_CONFIG_HOME");
}

TEST_F(Files, TwoHundredPluginsAndOneBrokenAmongThem) {
  for (int i = 0; i < 200; ++i) copy_plugin("number" + std::to_string(i));
  copy_plugin("query_segfaults");
  LoadPolicy policy = this->policy();
  policy.folders = {folder() / "plugins"};
  std::vector<Candidate> candidates;
  for (Candidate& candidate : find_candidates(policy, log_)) {
    if (candidate.path.parent_path() == policy.folders[0]) candidates.push_back(std::move(candidate));
  }
  ASSERT_EQ(candidates.size(), 201u);
  std::vector<std::optional<Result<Examined>>> results(candidates.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < candidates.size();) results[i] = examine_candidate(candidates[i], policy, log_);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  int passed = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (*results[i]) {
      EXPECT_EQ((*results[i])->facts.name, candidates[i].name);  // each has its own answer
      ++passed;
    } else {
      EXPECT_EQ(candidates[i].name, "query_segfaults");
    }
  }
  EXPECT_EQ(passed, 200);
}

// ---- the log ----

TEST_F(Files, DecisionsAreLinesOfJson) {
  const path file = folder() / "decisions.jsonl";
  ASSERT_TRUE(log_.append_to(file));
  EXPECT_EQ(problem(copy_plugin("sound")), "");
  EXPECT_NE(problem(copy_plugin("rejects")), "");
  std::ifstream stream(file);
  std::vector<std::string> steps;
  for (std::string line; std::getline(stream, line);) {
    const auto document = nlohmann::json::parse(line);
    EXPECT_TRUE(document.contains("path") && document.contains("time_ns"));
    steps.push_back(document["plugin"].get<std::string>() + " " + document["step"].get<std::string>() + " " +
                    document["outcome"].get<std::string>());
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"sound lists passed", "sound trust passed", "sound inspect passed",
                                             "sound dependency passed", "sound probe passed", "rejects lists passed",
                                             "rejects trust passed", "rejects inspect passed",
                                             "rejects dependency passed", "rejects probe refused"}));
  EXPECT_FALSE(log_.append_to(folder() / "no/such/folder/x"));
  EXPECT_EQ(log_.of("rejects").size(), 5u);
}

}  // namespace
}  // namespace crucible::backend
