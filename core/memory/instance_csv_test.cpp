// Good, odd and hostile CSV: what is read, and the message for what is not.
#include "core/memory/instance_csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace crucible::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InstanceCsv, ReadsWhatMiniMallocReads) {
  const Result<Instance> instance = parse_csv("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n");
  ASSERT_TRUE(instance) << instance.error().message;
  EXPECT_THAT(instance->ids, ElementsAre("b1", "b2"));
  EXPECT_EQ(instance->problem.buffers[1].begin, 3u);
  EXPECT_EQ(instance->problem.buffers[1].end, 9u);
  EXPECT_EQ(instance->problem.buffers[1].size_bytes, 4u);
  EXPECT_EQ(to_csv(*instance, std::vector<std::uint64_t>{0, 4}),
            "id,lower,upper,size,offset\nb1,0,3,4,0\nb2,3,9,4,4\n");
}

TEST(InstanceCsv, TakesColumnsInAnyOrderAndTheInclusiveEnd) {
  const Result<Instance> instance = parse_csv("size,start,end,buffer_id,alignment\r\n8,1,4,x y,16\r\n\r\n");
  ASSERT_TRUE(instance) << instance.error().message;
  EXPECT_THAT(instance->ids, ElementsAre("x y"));
  EXPECT_EQ(instance->problem.buffers[0].end, 5u);
  EXPECT_EQ(instance->problem.buffers[0].alignment, 16u);
}

TEST(InstanceCsv, ReadsEveryColumnAndWritesItBack) {
  const std::string text =
      "id,lower,upper,size,alignment,space,group,carried,offset\na,0,3,4,2,0,,0,8\nb,5,2,4,1,1,7,1,\n";
  const Result<Instance> instance = parse_csv(text);
  ASSERT_TRUE(instance) << instance.error().message;
  const std::vector<Buffer>& buffers = instance->problem.buffers;
  EXPECT_EQ(buffers[0].pinned_offset, 8u);
  EXPECT_EQ(buffers[1].pinned_offset, kUnpinned);
  EXPECT_EQ(buffers[0].group, kNoGroup);
  EXPECT_EQ(buffers[1].group, 7u);
  EXPECT_TRUE(buffers[1].carried);
  EXPECT_EQ(instance->problem.spaces.size(), 2u);
  const Result<Solution> solution = solve(instance->problem);
  ASSERT_TRUE(solution);
  const std::string written = to_csv(*instance, solution->offsets);
  const Result<Instance> again = parse_csv(written);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_csv(*again, solution->offsets), written);
}

struct Hostile {
  const char* text;
  const char* message;
};

TEST(InstanceCsv, RefusesEachFaultWithItsLine) {
  constexpr Hostile kCases[] = {
      {"", "line 1: the file is empty"},
      {"0,1,2,3\n", "line 1: '0' is not a column"},
      {"id,lower,upper\n", "lacks one of id, lower, upper, size"},
      {"id,lower,upper,size,size\n", "line 1: the column 'size' is there twice"},
      {"id,lower,upper,end,size\n", "has both 'upper' and 'end'"},
      {"id,lower,upper,size,colour\n", "line 1: 'colour' is not a column"},
      {"id,lower,upper,size\na,0,1\n", "line 2: has 3 fields, the header has 4"},
      {"id,lower,upper,size\na,0,1,2,3\n", "line 2: has 5 fields, the header has 4"},
      {"id,lower,upper,size\na,0,1,2\n\nb,0,1,2\n", "line 3: is empty, but others follow"},
      {"id,lower,upper,size\na,0,1,-5\n", "line 2: size -5 is negative"},
      {"id,lower,upper,size\na,-1,1,5\n", "line 2: lower -1 is negative"},
      {"id,lower,upper,size\na,0,1,nan\n", "line 2: size 'nan' is not a whole number"},
      {"id,lower,upper,size\na,0,1,1.5\n", "line 2: size '1.5' is not a whole number"},
      {"id,lower,upper,size\na,0,1,\n", "line 2: size '' is not a whole number"},
      {"id,lower,upper,size\na,0,1, 4\n", "line 2: size ' 4' is not a whole number"},
      {"id,lower,upper,size\na,0,1,18446744073709551616\n",
       "line 2: size 18446744073709551616 is above 18446744073709551615"},
      {"id,lower,upper,size\na,0,4294967296,1\n", "line 2: upper 4294967296 is above 4294967295"},
      {"id,lower,end,size\na,0,4294967295,1\n", "line 2: end 4294967295 is above 4294967294"},
      {"id,lower,upper,size\na,7,4,1\n", "line 2: upper 4 is below lower 7"},
      {"id,lower,upper,size\n,0,4,1\n", "line 2: the id is empty"},
      {"id,lower,upper,size\na,0,4,1\nb,0,4,1\na,0,4,1\nb,0,4,1\n", "line 4: the id 'a' was already used in line 2"},
      {"id,lower,upper,size,align\na,0,4,1,3\n", "line 2: alignment 3 is not a power of two"},
      {"id,lower,upper,size,align\na,0,4,1,0\n", "line 2: alignment 0 is not a power of two"},
      {"id,lower,upper,size,space\na,0,4,1,4000000000\n", "line 2: space 4000000000 is above 255"},
      {"id,lower,upper,size,carried\na,0,4,1,2\n", "line 2: carried 2 is above 1"},
      {"id,lower,upper,size,gaps\na,0,9,1,3-5\n", "line 2: has the gaps '3-5'"},
      {"id,lower,upper,size\na,0,1,\x01\x02\xff\n", "line 2: size '?\?\?' is not a whole number"}};
  for (const Hostile& hostile : kCases) {
    const Result<Instance> instance = parse_csv(hostile.text);
    ASSERT_FALSE(instance) << hostile.text;
    EXPECT_EQ(instance.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(instance.error().message, HasSubstr(hostile.message)) << hostile.text;
  }
}

TEST(InstanceCsv, ManyEqualIdsAreRefusedQuickly) {
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 200'000; ++i) text += "a,0,1,1\n";
  const Result<Instance> instance = parse_csv(text);
  ASSERT_FALSE(instance);
  EXPECT_THAT(instance.error().message, HasSubstr("line 3: the id 'a' was already used in line 2"));
}

/// Damaged files: read or refused, and what is read can be written and read again.
TEST(InstanceCsv, TakesDamageWithoutHarm) {
  const std::string good =
      "id,lower,upper,size,alignment,space,group,carried,offset\na,0,3,4,2,0,,0,8\nb,5,2,4,1,1,7,1,\nc,1,9,300,8,0,7,0,"
      "\n";
  constexpr std::string_view kBytes = ",\n\r-0123456789abx\"; \xff";
  std::mt19937 random(1);
  std::uint32_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::uint32_t k = random() % 4; k < 4; ++k) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) text.erase(at, 1 + random() % 8);
      else if (random() % 2 == 0) text.insert(at, 1, kBytes[random() % kBytes.size()]);
      else text[at] = kBytes[random() % kBytes.size()];
      if (text.empty()) text = ",";
    }
    const Result<Instance> instance = parse_csv(text);
    if (!instance) {
      EXPECT_EQ(instance.error().code, ErrorCode::kBadInput);
      EXPECT_THAT(instance.error().message, HasSubstr("line "));
      continue;
    }
    ++read;
    const std::vector<std::uint64_t> offsets(instance->ids.size(), 64);
    const std::string written = to_csv(*instance, offsets);
    const Result<Instance> again = parse_csv(written);
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    ASSERT_EQ(to_csv(*again, offsets), written);
  }
  EXPECT_GT(read, 500u);
}

}  // namespace
}  // namespace crucible::memory
