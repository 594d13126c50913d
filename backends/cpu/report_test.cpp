// What the plugin says of itself: options, capabilities, score, self test, clock, health.
#include <gmock/gmock.h>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Key;

using Items = std::map<std::string, std::pair<std::uint64_t, std::string>>;

void collect(void* user, const crucible_kv* items, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    (*static_cast<Items*>(user))[std::string(items[i].key.data, items[i].key.size)] = {
        items[i].u, std::string(items[i].s.data == nullptr ? "" : items[i].s.data, items[i].s.size)};
  }
}
void collect_rows(void* user, const crucible_kv* items, std::uint32_t count) {
  collect(&static_cast<std::vector<Items>*>(user)->emplace_back(), items, count);
}

class CpuReport : public CpuTest {
 protected:
  static std::string message(crucible_status status) {
    const Result<void> result = to_result(status, "call");
    return result ? "" : result.error().message;
  }
  const crucible_if_device& table() const { return device_->backend().tables().device; }
  std::shared_ptr<Device> device_ = open({{"threads", "2"}});
  const crucible_str id_ = {"cpu:0", 5}, other_ = {"cpu:7", 5};
};

TEST_F(CpuReport, CapabilitiesHaveReasonsAndAreTrue) {
  Items items;
  ASSERT_EQ(message(table().capabilities(id_, collect, &items)), "");
  EXPECT_EQ(items["async"].first, 1u);
  EXPECT_EQ(items["compile.ir"].first, 1u);
  EXPECT_EQ(items["library.matmul"].first, 2u);
  for (const auto& [key, item] : items) EXPECT_LE(item.first, 2u) << key;
  EXPECT_THAT(message(table().capabilities(other_, collect, &items)),
              HasSubstr("there is no device 'cpu:7', only cpu:0"));
  EXPECT_NE(message(table().capabilities(id_, nullptr, nullptr)), "");
}

TEST_F(CpuReport, ScoresAndRefusesWhatDoesNotFit) {
  std::uint64_t score = 0;
  Items why;
  EXPECT_EQ(message(table().score(id_, nullptr, 0, &score, collect, &why)), "");
  EXPECT_GT(score, 0u);
  EXPECT_THAT(why["reason"].second, HasSubstr("MHz"));
  const crucible_kv workload = {{"peak_bytes", 10}, CRUCIBLE_V_U64, 0, std::uint64_t{1} << 60, {nullptr, 0}};
  EXPECT_EQ(message(table().score(id_, &workload, 1, &score, collect, &why)), "");
  EXPECT_EQ(score, 0u);
  EXPECT_THAT(why["reason"].second, HasSubstr("the program needs 1152921504606846976 bytes"));
}

TEST_F(CpuReport, TestsItself) {
  Items items;
  EXPECT_EQ(message(table().self_test(device_->handle(), 0, collect, &items)), "");
  EXPECT_EQ(items["threads"].first, 2u);
}

TEST_F(CpuReport, ClockAndCounters) {
  const crucible_if_profile& profile = device_->backend().tables().profile;
  std::uint64_t ticks = 0, host = 0, rate = 0, later = 0;
  EXPECT_EQ(message(profile.clock_pair(device_->handle(), &ticks, &host, &rate)), "");
  EXPECT_EQ(message(profile.clock_pair(device_->handle(), &later, &host, &rate)), "");
  EXPECT_GE(later, ticks);
  EXPECT_EQ(rate, 1'000'000'000u);
  const crucible_str wanted = {"cycles", 6};
  EXPECT_THAT(message(profile.begin(device_->handle(), &wanted, 1)), HasSubstr("there is no counter 'cycles'"));
  EXPECT_EQ(message(profile.begin(device_->handle(), nullptr, 0)), "");
  EXPECT_EQ(message(profile.end(device_->handle())), "");
}

TEST_F(CpuReport, Health) {
  const crucible_if_health& health = device_->backend().tables().health;
  Items items;
  EXPECT_EQ(message(health.sample(id_, collect, &items)), "");
  EXPECT_THAT(items, Contains(Key("memory_used_bytes")));
  std::uint32_t state = 9;
  EXPECT_EQ(message(health.state(id_, &state, collect, &items)), "");
  EXPECT_EQ(state, CRUCIBLE_STATE_OK);
  EXPECT_NE(message(health.state(other_, &state, collect, &items)), "");
}

TEST_F(CpuReport, DescribesTheOptionsThatItAsksFor) {
  std::vector<Items> rows;
  ASSERT_EQ(message(device_->backend().api().describe_options(collect_rows, &rows)), "");
  std::vector<std::string> names;
  for (Items& row : rows) {
    names.push_back(row["name"].second);
    EXPECT_NE(row["help"].second, "") << names.back();
    EXPECT_THAT(row["type"].second, testing::AnyOf("bool", "u64", "str", "choice", "path"));
  }
  EXPECT_THAT(names, IsSupersetOf({"threads", "compiler", "library"}));
}

}  // namespace
}  // namespace crucible::backend
