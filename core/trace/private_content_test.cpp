// What a recording tells of its maker is found wherever it stands.
#include "core/trace/private_content.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/strip.hpp"
#include "core/trace/trace_samples.hpp"

namespace crucible::trace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

Trace telling_trace() {
  Trace trace = samples::small_trace();
  trace.metadata.command =
      "python /home/ann/train.py --api-key=abc --host bob@node7 --url https://db.example.org/x API_TOKEN=1 --master "
      "10.0.0.7";
  trace.metadata.incomplete_reason = "raised OSError: on mymachine by eve";
  trace.schemas[1].name = "acme::frobnicate";
  return trace;
}

TEST(PrivateContent, IsFoundInTextsOfAnyKind) {
  const PrivateContent found = private_content(telling_trace(), "eve", "mymachine");
  EXPECT_THAT(found.paths, ElementsAre("/home/ann/train.py", "/home/zoë/train.py"));
  EXPECT_THAT(found.users, ElementsAre("ann", "bob", "eve", "zoë"));
  EXPECT_THAT(found.hosts, ElementsAre("10.0.0.7", "db.example.org", "mymachine", "node7"));
  EXPECT_THAT(found.secrets, ElementsAre("--api-key", "API_TOKEN"));
  EXPECT_THAT(found.operators, ElementsAre("acme::frobnicate"));
  EXPECT_THAT(found.modules, ElementsAre("blocks.0.norm1"));
  EXPECT_THAT(found.functions, ElementsAre("step"));
  EXPECT_THAT(found.tensors, ElementsAre("exp_avg of weight", "weight"));
  EXPECT_GT(found.hashes, 0u);
  std::vector<std::string> kinds;
  for (const PrivateContent::Data& data : found.data) kinds.push_back(data.what);
  EXPECT_THAT(kinds, ElementsAre("parameters", "inputs", "states at the end", "outputs", "what random ops drew",
                                 "states of generators"));
  EXPECT_EQ(found.data[0].size_bytes, 300u);
}

TEST(PrivateContent, OfAStrippedCopyIsNothingButHashes) {
  const auto made = strip(telling_trace(), {});
  ASSERT_TRUE(made);
  const PrivateContent found = private_content(made->trace, "eve", "mymachine");
  EXPECT_EQ(found.command + found.created, "");
  EXPECT_THAT(found.paths, IsEmpty());
  EXPECT_THAT(found.users, IsEmpty());
  EXPECT_THAT(found.hosts, IsEmpty());
  EXPECT_THAT(found.modules, Not(Contains("blocks.0.norm1")));
  EXPECT_EQ(found.hashes, 0u);
}

}  // namespace
}  // namespace crucible::trace
