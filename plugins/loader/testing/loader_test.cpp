// The loader against small plugins that are each wrong in one way (fake_plugin.c), and one that is right.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path fake(const std::string& kind) {
  return std::filesystem::path(CRUCIBLE_FAKE_FOLDER) / ("libcrucible_fake_" + kind + ".so");
}

Error load_error(const std::filesystem::path& path) {
  const auto backend = Backend::load(path, {});
  if (backend) return {ErrorCode::kInternal, "it was loaded"};
  return backend.error();
}

template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return *std::move(result);
}

std::string property(const Device& device, const std::string& key) {
  for (const auto& [name, value] : take(device.properties())) {
    if (name == key) return value;
  }
  return "absent";
}

TEST(Loader, TakesAGoodPlugin) {
  const auto backend = take(Backend::load(fake("good"), {}));
  EXPECT_EQ(backend->name(), "fake");
  EXPECT_EQ(backend->vendor(), "nobody");
  EXPECT_EQ(backend->version(), "1.2.3");
  EXPECT_TRUE(backend->path().is_absolute());
  const auto devices = take(backend->devices());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].id, "fake:1");
  EXPECT_EQ(devices[1].threads, 3u);
  EXPECT_EQ(take(backend->open(""))->info().id, "fake:0");
  EXPECT_EQ(take(backend->open("fake:1"))->info().id, "fake:1");
  const auto absent = backend->open("fake:2");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(absent.error().message, HasSubstr("no device 'fake:2': it has fake:0, fake:1"));
}

TEST(Loader, OwnsBuffersAndMovesThem) {
  auto device = take(take(Backend::load(fake("good"), {}))->open(""));
  Buffer a = take(Buffer::allocate(device, 8, 64));
  const std::vector<std::byte> bytes(4, std::byte{7});
  ASSERT_TRUE(static_cast<bool>(a.write(2, bytes)));
  ASSERT_TRUE(static_cast<bool>(a.fill(3, 1, 9)));
  Buffer b = std::move(a);
  device.reset();  // the buffer keeps it
  std::vector<std::byte> read(8);
  ASSERT_TRUE(static_cast<bool>(b.read(0, read)));
  EXPECT_EQ(read, (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{7}, std::byte{9}, std::byte{7},
                                          std::byte{7}, std::byte{0}, std::byte{0}}));
  EXPECT_NE(b.address(), 0u);
}

TEST(Loader, KeepsThePluginsWordsAndCode) {
  const auto device = take(take(Backend::load(fake("good"), {}))->open(""));
  const auto buffer = Buffer::allocate(device, 99, 64);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(buffer.error().message, "allocating 99 bytes on device fake:0: asked for 99 bytes, have 7");
  EXPECT_EQ(take(Buffer::allocate(device, 5, 64)).size_bytes(), 5u);
}

TEST(Loader, PassesOptions) {
  EXPECT_EQ(property(*take(take(Backend::load(fake("good"), {}))->open("")), "library"), "unset");
  EXPECT_EQ(property(*take(take(Backend::load(fake("good"), {{"library", ""}}))->open("")), "library"), "unset");
  EXPECT_EQ(property(*take(take(Backend::load(fake("good"), {{"library", "own"}}))->open("")), "library"), "own");
}

TEST(Loader, StartsAPluginOnceAtATime) {
  const auto first = take(Backend::load(fake("good"), {{"threads", "2"}}));
  EXPECT_EQ(take(Backend::load(fake("good"), {{"threads", "2"}})), first);
  const auto other = Backend::load(fake("good"), {{"threads", "3"}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kUsage);
  EXPECT_THAT(other.error().message, AllOf(HasSubstr("threads=2"), HasSubstr("threads=3")));
}

TEST(Loader, StopsAPluginWhenTheLastOwnerIsGone) {
  auto backend = take(Backend::load(fake("good"), {}));
  auto device = take(backend->open(""));
  const int starts = std::stoi(property(*device, "starts")), stops = std::stoi(property(*device, "stops"));
  EXPECT_EQ(starts, stops + 1);
  backend.reset();
  EXPECT_EQ(property(*device, "stops"), std::to_string(stops));  // the device keeps it running
  device.reset();
  device = take(take(Backend::load(fake("good"), {}))->open(""));
  EXPECT_EQ(property(*device, "starts"), std::to_string(starts + 1));
  EXPECT_EQ(property(*device, "stops"), std::to_string(stops + 1));
}

TEST(Loader, PrintsWarningsAndNothingBelow) {
  testing::internal::CaptureStderr();
  (void)take(take(Backend::load(fake("good"), {}))->open(""));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "crucible: warning: fake (fake): a warning line\n");
}

TEST(Loader, FillsMissingEntries) {
  const auto device = take(take(Backend::load(fake("null_entries"), {}))->open(""));
  Buffer buffer = take(Buffer::allocate(device, 8, 64));
  const auto filled = buffer.fill(0, 1, 1);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(filled.error().message, HasSubstr("the plugin has no memory.fill"));
  const auto plan = Plan::build(device, {}, 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("the plugin has no plan.build"));
  std::uint64_t scratch = 77;
  const auto claimed = to_result(device->backend().library_table().claim(device->handle(), nullptr, &scratch), "claim");
  ASSERT_FALSE(claimed);
  EXPECT_THAT(claimed.error().message, HasSubstr("the plugin has no library.claim"));
  EXPECT_EQ(scratch, 77u);
}

TEST(Loader, DoesNotReadBehindAShortTable) {
  const auto device = take(take(Backend::load(fake("short_tables"), {}))->open(""));
  EXPECT_EQ(take(Buffer::allocate(device, 8, 64)).size_bytes(), 8u);
  const auto peak = device->peak_bytes();
  ASSERT_FALSE(peak);
  EXPECT_THAT(peak.error().message, HasSubstr("the plugin has no memory.stats"));
}

TEST(Loader, RefusesAMissingMandatoryTable) {
  const Error error = load_error(fake("missing_table"));
  EXPECT_EQ(error.code, ErrorCode::kBadInput);
  EXPECT_THAT(error.message, HasSubstr("the mandatory table 'plan' (id 0x0005) is missing"));
}

TEST(Loader, RefusesAnotherMagic) {
  const Error error = load_error(fake("wrong_magic"));
  EXPECT_EQ(error.code, ErrorCode::kBadInput);
  EXPECT_THAT(error.message, HasSubstr("magic 0x01badbad, expected 0x31435243"));
}

TEST(Loader, RefusesAnotherMajor) {
  const Error error = load_error(fake("newer_major"));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr(fmt::format("speaks ABI 7.{0}, this host 0.{0}", CRUCIBLE_ABI_MINOR)));
}

TEST(Loader, PassesOnWhyAPluginRefuses) {
  const Error error = load_error(fake("rejecting"));
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("(code 5): the moon is not full"));
}

TEST(Loader, PassesOnWhyAPluginDoesNotStart) {
  for (int i = 0; i < 2; ++i) {  // the second time the library is known already
    const Error error = load_error(fake("empty_init_error"));
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("starting plugin fake: asked for 99 bytes, have 7"));
  }
}

TEST(Loader, RefusesALibraryThatIsNoPlugin) {
  const Error error = load_error(fake("missing_symbol"));
  EXPECT_EQ(error.code, ErrorCode::kBadInput);
  EXPECT_THAT(error.message, HasSubstr("it exports no crucible_plugin_query"));
}

TEST(Loader, KeepsTheDynamicLoadersWords) {
  const Error undefined = load_error(fake("undefined"));
  EXPECT_EQ(undefined.code, ErrorCode::kUnavailable);
  EXPECT_EQ(undefined.message, "plugin " + fake("undefined").string() + " cannot be loaded: " +
                                   fake("undefined").string() + ": undefined symbol: a_function_that_no_library_has");

  const std::filesystem::path text = std::filesystem::path(testing::TempDir()) / "libcrucible_text.so";
  std::ofstream(text) << "this is a text that is long enough to be looked at as the header of a program\n";
  const Error not_elf = load_error(text);
  EXPECT_EQ(not_elf.code, ErrorCode::kUnavailable);
  EXPECT_THAT(not_elf.message, HasSubstr("it is not an ELF file"));
  std::filesystem::remove(text);

  const Error absent = load_error("/nonexistent/libcrucible_x.so");
  EXPECT_EQ(absent.code, ErrorCode::kUnavailable);
  EXPECT_THAT(absent.message, HasSubstr("No such file or directory"));
}

TEST(FindBackend, LooksInTheVariablesFoldersFirst) {
  setenv("CRUCIBLE_PLUGIN_PATH", ("/nonexistent:" CRUCIBLE_FAKE_FOLDER), 1);
  EXPECT_EQ(take(find_backend("fake_good")), fake("good"));
  unsetenv("CRUCIBLE_PLUGIN_PATH");
}

TEST(FindBackend, ListsEveryPlaceAndNeverTheCurrentFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(CRUCIBLE_FAKE_FOLDER);
  setenv("CRUCIBLE_PLUGIN_PATH", "/nonexistent:.:", 1);
  const auto found = find_backend("fake_good");
  std::filesystem::current_path(before);
  unsetenv("CRUCIBLE_PLUGIN_PATH");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("plugin fake_good was not found"), HasSubstr("\n  /nonexistent/libcrucible_fake_good.so"),
                    HasSubstr("\n  " + (here / "libcrucible_fake_good.so").string()),
                    HasSubstr("\n  " + (here.parent_path() / "lib/crucible/libcrucible_fake_good.so").string())));
}

TEST(ListBackends, TellsPluginsFromOtherLibrariesWithoutLoadingThem) {
  setenv("CRUCIBLE_PLUGIN_PATH", "/nonexistent:" CRUCIBLE_FAKE_FOLDER ":" CRUCIBLE_FAKE_FOLDER, 1);
  const std::filesystem::path text = std::filesystem::path(CRUCIBLE_FAKE_FOLDER) / "libcrucible_fake_text.so";
  std::ofstream(text) << "\x7f"
                         "ELF, it says, and is none";
  std::vector<std::string> names;
  for (const FoundBackend& found : list_backends()) {
    if (found.path.parent_path() == CRUCIBLE_FAKE_FOLDER) names.push_back(found.name);
  }
  std::filesystem::remove(text);
  unsetenv("CRUCIBLE_PLUGIN_PATH");
  // "undefined" cannot even be loaded, and is listed: it says that it is a plugin.
  EXPECT_EQ(names, (std::vector<std::string>{"fake_empty_init_error", "fake_good", "fake_missing_table",
                                             "fake_newer_major", "fake_null_entries", "fake_rejecting",
                                             "fake_short_tables", "fake_undefined", "fake_wrong_magic"}));
}

TEST(FindBackend, RefusesNamesWithFolders) {
  EXPECT_EQ(find_backend("../evil").error().code, ErrorCode::kUsage);
  EXPECT_EQ(find_backend("").error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace crucible::backend
