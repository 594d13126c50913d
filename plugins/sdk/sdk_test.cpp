// The SDK's small parts as a host meets them: error objects, hosts and queries of other sizes, options, the ledger, the
// host compiler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>

#include "plugins/sdk/child_program.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/host_compiler.hpp"
#include "plugins/sdk/host_queue.hpp"
#include "plugins/sdk/ledger.hpp"
#include "plugins/sdk/options.hpp"
#include "plugins/sdk/query.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible::sdk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Code and message; destroys the error.
std::pair<crucible_code, std::string> take(crucible_status status) {
  if (status == nullptr) return {CRUCIBLE_OK, ""};
  const std::pair<crucible_code, std::string> result = {status->table->code(status),
                                                        to_string(status->table->message(status))};
  status->table->destroy(status);
  return result;
}

template <class Body>
std::string message_of(Body&& body) {
  return take(guard(body)).second;
}

/// A host with options and a log, as a test sees it.
struct FakeHost {
  std::map<std::string, std::string> options;
  std::vector<std::string> lines;
  std::vector<std::string> metrics;
  std::uint64_t out = 0;
  crucible_host_api api = {};

  FakeHost() {
    api.struct_size = sizeof(api);
    api.abi_minor = CRUCIBLE_ABI_MINOR;
    api.ctx = this;
    api.log = [](void* ctx, std::uint32_t level, crucible_str component, crucible_str text) {
      self(ctx).lines.push_back(std::to_string(level) + " " + to_string(component) + ": " + to_string(text));
    };
    api.get_option = [](void* ctx, crucible_str key, crucible_str* value) -> std::uint32_t {
      const auto found = self(ctx).options.find(to_string(key));
      if (found == self(ctx).options.end()) return 0;
      return *value = borrow(found->second), 1;
    };
    api.alloc = [](void* ctx, std::uint64_t size, std::uint64_t) -> void* {
      return self(ctx).out += size, malloc(size);
    };
    api.free = [](void* ctx, void* memory, std::uint64_t size, std::uint64_t) { self(ctx).out -= size, free(memory); };
    api.metric = [](void* ctx, const crucible_kv* items, std::uint32_t count) {
      for (std::uint32_t i = 0; i < count; ++i)
        self(ctx).metrics.push_back(to_string(items[i].key) + "=" + std::to_string(items[i].u));
    };
  }
  ~FakeHost() { set_host(nullptr); }
  static FakeHost& self(void* ctx) { return *static_cast<FakeHost*>(ctx); }
};

void collect(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    static_cast<Pairs*>(user)->emplace_back(
        to_string(items[i].key), items[i].type == CRUCIBLE_V_U64 ? std::to_string(items[i].u) : to_string(items[i].s));
  }
}

TEST(SdkError, GuardTurnsEverythingIntoAnErrorObject) {
  EXPECT_EQ(guard([] {}), nullptr);
  EXPECT_THAT(take(guard([] { throw Failure(CRUCIBLE_E_UNSUPPORTED, "no f64"); })),
              Pair(CRUCIBLE_E_UNSUPPORTED, "no f64"));
  EXPECT_EQ(take(guard([] { throw std::bad_alloc(); })).first, CRUCIBLE_E_OUT_OF_MEMORY);
  EXPECT_THAT(take(guard([] { throw std::runtime_error("x"); })), Pair(CRUCIBLE_E_INTERNAL, "x"));
  EXPECT_EQ(take(guard([] { throw 7; })).first, CRUCIBLE_E_INTERNAL);
  EXPECT_THAT(take(guard([] { require(false, "no device"); })), Pair(CRUCIBLE_E_INVALID_ARGUMENT, "no device"));
  EXPECT_EQ(take(make_status(CRUCIBLE_OK, "none")).first, CRUCIBLE_E_INTERNAL);
}

TEST(SdkError, CarriesAPayload) {
  const crucible_status status =
      make_status(CRUCIBLE_E_OUT_OF_MEMORY, "full", {{"requested", "99"}, {"available", "7"}});
  crucible_str key = {}, value = {};
  ASSERT_EQ(status->table->payload(status, 1, &key, &value), 1u);
  EXPECT_EQ(view(key), "available");
  EXPECT_EQ(view(value), "7");
  EXPECT_EQ(status->table->payload(status, 2, &key, &value), 0u);
  EXPECT_EQ(view(value), "7");  // untouched
  status->table->destroy(status);
}

TEST(SdkHost, UsesWhatTheHostHas) {
  FakeHost host;
  set_host(&host.api);
  host.options["threads"] = "3";
  EXPECT_EQ(option("threads"), "3");
  EXPECT_EQ(option("other"), std::nullopt);
  log(LogLevel::kWarning, "memory", "low");
  EXPECT_THAT(host.lines, ElementsAre("2 memory: low"));
  metric("launches", 12);
  EXPECT_THAT(host.metrics, ElementsAre("launches=12"));
  void* memory = host_alloc(64, 16);
  EXPECT_EQ(host.out, 64u);
  host_free(memory, 64, 16);
  EXPECT_EQ(host.out, 0u);
  EXPECT_EQ(host_minor(), CRUCIBLE_ABI_MINOR);
}

/// A host of ABI 0.1 has a table without alloc, free and metric; what lies behind it in memory is not the SDK's
/// business.
TEST(SdkHost, AnOlderHostHasLess) {
  FakeHost host;
  host.api.struct_size = offsetof(crucible_host_api, alloc);
  host.api.abi_minor = 1;
  set_host(&host.api);
  host.options["a"] = "b";
  EXPECT_EQ(option("a"), "b");
  metric("launches", 12);
  EXPECT_TRUE(host.metrics.empty());
  void* memory = host_alloc(100, 64);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  EXPECT_EQ(host.out, 0u);
  host_free(memory, 100, 64);
  EXPECT_EQ(host_alloc(UINT64_MAX - 10, 64), nullptr);
}

TEST(SdkHost, WithoutAHostNothingHappens) {
  set_host(nullptr);
  EXPECT_EQ(option("a"), std::nullopt);
  log(LogLevel::kError, "x", "y");
  metric("a", 1);
  crucible_host_api junk = {};
  junk.struct_size = 4;
  EXPECT_THAT(message_of([&] { set_host(&junk); }), HasSubstr("too short"));
}

constexpr Identity kIdentity = {
    .name = "acme", .vendor = "Acme", .version = "1.2.3", .build_id = "b7", .needs = "libacme"};
const crucible_plugin_api kApi = {};

/// What a query writes into a struct that says it has `size` bytes, with canaries behind them.
crucible_query_out ask(const crucible_query_in& in, std::uint32_t size, std::int32_t* code) {
  crucible_query_out out = {};
  std::memset(static_cast<void*>(&out), 0x5a, sizeof(out));
  out.struct_size = size;
  *code = answer_query(&in, &out, kIdentity, &kApi);
  return out;
}

TEST(SdkQuery, WritesNoByteBehindTheHostsStruct) {
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  std::int32_t code = -1;
  crucible_query_out out = ask(in, sizeof(out), &code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(view(out.name), "acme");
  EXPECT_EQ(view(out.needs), "libacme");
  EXPECT_EQ(out.api, &kApi);
  EXPECT_EQ(out.abi_minor, CRUCIBLE_ABI_MINOR);
  out = ask(in, offsetof(crucible_query_out, build_id), &code);  // a host of ABI 0.1
  EXPECT_EQ(code, 0);
  EXPECT_EQ(view(out.version), "1.2.3");
  EXPECT_EQ(out.struct_size, offsetof(crucible_query_out, build_id));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(out.build_id.data), 0x5a5a5a5a5a5a5a5au);
  out = ask(in, 8, &code);
  EXPECT_EQ(code, 2);
  EXPECT_EQ(out.magic, 0x5a5a5a5au);
  EXPECT_EQ(answer_query(&in, nullptr, kIdentity, &kApi), 2);
}

TEST(SdkQuery, SaysWhyItRefuses) {
  std::int32_t code = 0;
  crucible_query_out out = ask({sizeof(crucible_query_in), 0x1badu, CRUCIBLE_ABI_MAJOR, 0}, sizeof(out), &code);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(out.reject_reason, HasSubstr("not one of Crucible's"));
  EXPECT_EQ(out.api, nullptr);
  out = ask({sizeof(crucible_query_in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR + 7, 1}, sizeof(out), &code);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(out.reject_reason, HasSubstr("the host speaks ABI 7.1"));
  EXPECT_EQ(answer_query(nullptr, &out, kIdentity, &kApi), 1);
}

constexpr OptionSpec kSpecs[] = {
    {.name = "fast", .type = OptionType::kBool, .default_value = "true", .help = "Be fast."},
    {.name = "streams",
     .type = OptionType::kU64,
     .default_value = "2",
     .min = 1,
     .max = 8,
     .help = "How many.",
     .env = "ACME_STREAMS"},
    {.name = "mode", .type = OptionType::kChoice, .default_value = "auto", .choices = "auto on off", .help = "Which."},
    {.name = "tools", .type = OptionType::kPath, .help = "Where."},
};
constexpr Options kOptions(kSpecs);

TEST(SdkOptions, DescribesEachOptionInOneCall) {
  std::vector<Pairs> all;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    collect(&static_cast<std::vector<Pairs>*>(user)->emplace_back(), items, count);
  };
  EXPECT_EQ(kOptions.describe(sink, &all), nullptr);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[1], ElementsAre(Pair("name", "streams"), Pair("type", "u64"), Pair("default", "2"), Pair("min", "1"),
                                  Pair("max", "8"), Pair("help", "How many."), Pair("env", "ACME_STREAMS")));
  EXPECT_THAT(all[2], ElementsAre(Pair("name", "mode"), Pair("type", "choice"), Pair("default", "auto"),
                                  Pair("choices", "auto on off"), Pair("help", "Which.")));
  EXPECT_EQ(take(kOptions.describe(nullptr, nullptr)).first, CRUCIBLE_E_INVALID_ARGUMENT);
}

TEST(SdkOptions, ChecksWhatTheUserSet) {
  FakeHost host;
  set_host(&host.api);
  EXPECT_TRUE(kOptions.get_bool("fast"));
  EXPECT_EQ(kOptions.get_u64("streams"), 2u);
  EXPECT_EQ(kOptions.get_text("mode"), "auto");
  EXPECT_FALSE(kOptions.has("tools"));
  host.options = {{"fast", "off"}, {"streams", "8"}, {"mode", "on"}, {"tools", "/opt"}};
  EXPECT_FALSE(kOptions.get_bool("fast"));
  EXPECT_EQ(kOptions.get_u64("streams"), 8u);
  EXPECT_EQ(kOptions.get_text("mode"), "on");
  EXPECT_EQ(kOptions.get_text("tools"), "/opt");
  EXPECT_TRUE(kOptions.has("tools"));
  host.options = {{"fast", "maybe"}, {"streams", "9"}, {"mode", "o"}};
  EXPECT_EQ(message_of([] { kOptions.get_bool("fast"); }), "option fast is 'maybe': give true or false");
  EXPECT_EQ(message_of([] { kOptions.get_u64("streams"); }), "option streams is '9': give a number from 1 to 8");
  EXPECT_EQ(message_of([] { kOptions.get_text("mode"); }), "option mode is 'o': give one of: auto on off");
  host.options["streams"] = "2x";
  EXPECT_NE(message_of([] { kOptions.get_u64("streams"); }), "");
  EXPECT_THAT(message_of([] { kOptions.get_text("typo"); }), HasSubstr("did not declare"));
  EXPECT_THAT(message_of([] { kOptions.get_u64("fast"); }), HasSubstr("as u64 and declared it as bool"));
}

TEST(SdkLedger, CountsAndTellsLeaks) {
  FakeHost host;
  set_host(&host.api);
  Ledger ledger;
  ledger.add("buffer", 60);
  ledger.add("buffer", 40);
  ledger.add("plan");
  ledger.remove("buffer", 60);
  EXPECT_EQ(ledger.of("buffer").live_bytes, 40u);
  EXPECT_EQ(ledger.of("buffer").peak_bytes, 100u);
  EXPECT_EQ(ledger.of("buffer").made, 2u);
  EXPECT_EQ(ledger.leaks(), "1 buffer of 40 bytes, 1 plan");
  EXPECT_FALSE(ledger.report_leaks("device"));
  EXPECT_THAT(host.lines, ElementsAre("2 device: not given back before shutdown: 1 buffer of 40 bytes, 1 plan"));
  Pairs stats;
  ledger.stats("buffer", collect, &stats);
  EXPECT_THAT(stats, ElementsAre(Pair("live_bytes", "40"), Pair("peak_bytes", "100"), Pair("live.buffer", "1"),
                                 Pair("live.plan", "1")));
  EXPECT_THAT(message_of([&] { ledger.remove("module"); }), HasSubstr("that is not out"));
  EXPECT_THAT(message_of([&] { ledger.remove("buffer", 41); }), HasSubstr("that is not out"));
  ledger.remove("buffer", 40);
  ledger.remove("plan");
  EXPECT_TRUE(ledger.report_leaks("device"));
}

TEST(SdkText, SizedStructsOfOtherMinors) {
  crucible_compile_info info;
  std::memset(static_cast<void*>(&info), 0x5a, sizeof(info));
  info.struct_size = offsetof(crucible_compile_info, binary_bytes);
  write_sized(&info, {.struct_size = 0, .from_cache = 1, .compile_ns = 2, .binary_bytes = 3});
  EXPECT_EQ(info.compile_ns, 2u);
  EXPECT_EQ(info.binary_bytes, 0x5a5a5a5a5a5a5a5au);
  const crucible_compile_info read = read_sized(&info);
  EXPECT_EQ(read.from_cache, 1u);
  EXPECT_EQ(read.binary_bytes, 0u);
  write_sized<crucible_compile_info>(nullptr, {});
}

/// What a newer host hands over: each element is longer than ours.
TEST(SdkText, ArraysOfLongerStructs) {
  struct Longer {
    crucible_compile_info info;
    std::uint64_t more;
  } items[2] = {};
  for (std::uint32_t i = 0; i < 2; ++i) items[i] = {{sizeof(Longer), 0, 10 + i, 20 + i}, 99};
  const SizedArray<crucible_compile_info> array(&items[0].info);
  EXPECT_EQ(array[1].compile_ns, 11u);
  EXPECT_EQ(array[1].binary_bytes, 21u);
  EXPECT_EQ(array[1].struct_size, sizeof(crucible_compile_info));
}

TEST(SdkTimeline, OnlyGrowsAndKeepsItsFailure) {
  HostTimeline timeline(5);
  EXPECT_EQ(timeline.value(), 5u);
  timeline.signal(6);
  EXPECT_EQ(message_of([&] { timeline.signal(6); }), "the timeline is at 6 and cannot go to 6");
  timeline.wait(6, 0);
  EXPECT_THAT(take(guard([&] { timeline.wait(7, 1000000); })),
              Pair(CRUCIBLE_E_CANCELLED, "the timeline did not reach 7 in 1000000 ns: it is at 6"));
  timeline.poison(Failure(CRUCIBLE_E_DEVICE_LOST, "unplugged"));
  timeline.poison(Failure(CRUCIBLE_E_INTERNAL, "later"));
  EXPECT_THAT(take(guard([&] { timeline.wait(7, UINT64_MAX); })), Pair(CRUCIBLE_E_DEVICE_LOST, "unplugged"));
  timeline.wait(6, UINT64_MAX);  // what was reached stays reached
  EXPECT_EQ(message_of([&] { (void)timeline.value(); }), "unplugged");
  EXPECT_EQ(message_of([&] { timeline.signal(9); }), "unplugged");
}

TEST(SdkTimeline, KeepsWhenItsLastWorkRan) {
  HostTimeline timeline(0);
  timeline.signal(WorkTimes{1, 100, 200});
  timeline.signal(2);
  for (std::uint64_t value = 3; value < 3 + HostTimeline::kKept - 1; ++value)
    timeline.signal(WorkTimes{value, value * 100, value * 100 + 50});
  EXPECT_EQ(timeline.times(1).end_ns, 200u);
  EXPECT_EQ(timeline.times(3).begin_ns, 300u);
  EXPECT_THAT(message_of([&] { timeline.times(2); }), HasSubstr("no work has signalled 2"));
  timeline.signal(WorkTimes{1000, 1, 2});
  EXPECT_THAT(message_of([&] { timeline.times(1); }), HasSubstr("more than 16 values ago"));
  timeline.poison(Failure(CRUCIBLE_E_DEVICE_LOST, "unplugged"));
  EXPECT_EQ(timeline.times(1000).end_ns, 2u);
  EXPECT_EQ(message_of([&] { timeline.times(1001); }), "unplugged");
}

class SdkQueue : public testing::Test {
 protected:
  static std::uint64_t number_of_this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }
  DeviceTimelines timelines_;
  HostQueue queue_{timelines_};
};

TEST_F(SdkQueue, RunsInOrderAfterItsWaitsAndPoisonsOnFailure) {
  const auto go = timelines_.make(0), done = timelines_.make(0);
  std::vector<int> order;  // written by the queue's thread, read when `done` says so
  queue_.submit([&] { order.push_back(1); }, {{go, 3}}, {{done, 1}});
  queue_.submit([&] { order.push_back(2); }, {}, {{done, 2}});
  queue_.flush();
  EXPECT_FALSE(queue_.wait_idle(1000000));
  EXPECT_EQ(done->value(), 0u);
  go->signal(3);
  done->wait(2, UINT64_MAX);
  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_TRUE(queue_.wait_idle(UINT64_MAX));
  const auto next = timelines_.make(0);
  queue_.submit([] { throw Failure(CRUCIBLE_E_EXEC_FAULT, "trap"); }, {}, {{done, 3}});
  queue_.submit([] {}, {{done, 3}}, {{next, 1}});  // inherits the failure
  queue_.flush();
  EXPECT_THAT(take(guard([&] { next->wait(1, UINT64_MAX); })), Pair(CRUCIBLE_E_EXEC_FAULT, "trap"));
  EXPECT_EQ(message_of([&] { (void)done->value(); }), "trap");
}

TEST_F(SdkQueue, WhoWaitsDoesWhatNeedNotWait) {
  const auto go = timelines_.make(0), done = timelines_.make(0);
  std::vector<std::uint64_t> by;  // which thread
  const auto work = [&] { by.push_back(number_of_this_thread()); };
  for (std::uint64_t value = 1; value <= 3; ++value) queue_.submit(work, {}, {{done, value}});
  EXPECT_TRUE(by.empty());  // until somebody waits
  queue_.run_here(*done, 2);
  EXPECT_THAT(by, testing::SizeIs(testing::Ge(2u)));
  EXPECT_EQ(by[0], number_of_this_thread());
  EXPECT_EQ(by[1], number_of_this_thread());
  done->wait(3, UINT64_MAX);  // what was not asked for is the queue's own thread's
  EXPECT_NE(by[2], number_of_this_thread());
  queue_.submit(work, {{go, 1}}, {{done, 4}});
  queue_.run_here(*done, 4);  // it would have to wait
  EXPECT_EQ(done->value(), 3u);
  go->signal(1);
  done->wait(4, UINT64_MAX);
  EXPECT_NE(by[3], number_of_this_thread());
}

// Everything that is in flight ends, whoever waits for it and on whatever it waits, with what the driver said first.
TEST_F(SdkQueue, ADeviceThatIsLostEndsEverythingWithOneError) {
  const auto never = timelines_.make(0), done = timelines_.make(0), other = timelines_.make(0);
  HostQueue beside(timelines_);
  beside.submit([] {}, {{never, 1}}, {{other, 1}});
  beside.submit([] {}, {}, {{other, 2}});
  beside.flush();
  queue_.submit([] { throw Failure(CRUCIBLE_E_DEVICE_LOST, "unplugged", {{"kernel", "k"}}); }, {}, {{done, 1}});
  queue_.submit([] { throw Failure(CRUCIBLE_E_INTERNAL, "nothing is asked of a device that is lost"); }, {},
                {{done, 2}});
  queue_.flush();
  for (const auto& [timeline, value] : {std::pair(done, 1), {done, 2}, {other, 1}, {other, 2}, {never, 1}})
    EXPECT_THAT(take(guard([&] { timeline->wait(static_cast<std::uint64_t>(value), UINT64_MAX); })),
                Pair(CRUCIBLE_E_DEVICE_LOST, "unplugged"));
  EXPECT_TRUE(beside.wait_idle(UINT64_MAX));
  const auto later = timelines_.make(0);
  EXPECT_EQ(message_of([&] { later->wait(1, UINT64_MAX); }), "unplugged");
  ASSERT_TRUE(timelines_.lost().has_value());
  EXPECT_EQ(timelines_.lost()->payload(), Payload({{"kernel", "k"}}));
}

TEST_F(SdkQueue, EndsOnlyWhenItsWorkIsDone) {
  std::atomic<int> ran{0};
  {
    HostQueue queue(timelines_);
    for (int i = 0; i < 100; ++i) queue.submit([&] { ++ran; }, {}, {});
  }
  EXPECT_EQ(ran, 100);
}

TEST(SdkHostCompiler, CompilesLoadsAndRuns) {
  if (access("/usr/bin/clang-19", X_OK) != 0) GTEST_SKIP() << "no clang-19";
  const auto library = HostLibrary::compile(
      "typedef __INT64_TYPE__ int64_t;\nvoid twice(void* const* buffers, const double* scalars, int64_t begin, int64_t "
      "end) {\n"
      "  for (int64_t i = begin; i < end; ++i) ((float*)buffers[0])[i] *= (float)scalars[0];\n}\n");
  float values[] = {1, 2, 3};
  void* buffers[] = {values};
  const double scalars[] = {2};
  ASSERT_NE(library->kernel("twice"), nullptr);
  library->kernel("twice")(buffers, scalars, 1, 3);
  EXPECT_THAT(values, ElementsAre(1, 4, 6));
  EXPECT_EQ(library->kernel("thrice"), nullptr);
  EXPECT_GT(library->binary_bytes(), library->kernel_bytes("twice"));
  EXPECT_GT(library->kernel_bytes("twice"), 0u);
  EXPECT_EQ(library->kernel_bytes("thrice"), 0u);
}

/// A plugin says in its own words which compiler it takes, and by which variable.
TEST(SdkHostCompiler, TheOptionHasAPluginsOwnWords) {
  static constexpr OptionSpec kSpecs[] = {
      compiler_option("The compiler of ACME; by default acmecc in PATH.", "ACME_COMPILER")};
  constexpr Options kOwn(kSpecs);
  std::map<std::string, std::string> told;
  const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      (*static_cast<std::map<std::string, std::string>*>(user))[to_string(items[i].key)] = to_string(items[i].s);
  };
  ASSERT_EQ(kOwn.describe(sink, &told), nullptr);
  EXPECT_EQ(told["name"], "compiler");
  EXPECT_EQ(told["type"], "path");
  EXPECT_EQ(told["help"], "The compiler of ACME; by default acmecc in PATH.");
  EXPECT_EQ(told["env"], "ACME_COMPILER");
  EXPECT_EQ(told["folder"], "needs trust");
}

TEST(SdkHostCompiler, SaysWhatIsMissingOrWrong) {
  EXPECT_THAT(
      take(guard([] { HostLibrary::compile("", "/no/such/compiler"); })),
      Pair(CRUCIBLE_E_UNAVAILABLE, HasSubstr("/no/such/compiler, which the option compiler names, is not a program")));
  // A plugin whose own compiler is missing says what was looked for and what to do.
  constexpr std::string_view kNames[] = {"no-such-acmecc", "no-such-acmecc-2"};
  EXPECT_THAT(
      take(guard([&] { require_program("", kNames, "acmecc", "install the package acme-compiler"); })),
      Pair(CRUCIBLE_E_UNAVAILABLE,
           "no compiler of kernels found (looked for no-such-acmecc, no-such-acmecc-2 in PATH): install the package "
           "acme-compiler, or name one with the option acmecc"));
  EXPECT_THAT(message_of([] { HostLibrary::compile("this is no C"); }), HasSubstr("ended with status"));
  EXPECT_TRUE(is_c_name("k_1"));
  for (const char* name : {"", "1k", "a b", "a;"}) EXPECT_FALSE(is_c_name(name));
}

}  // namespace
}  // namespace crucible::sdk
