// What is said about a device on which a plan fits or not.
#include "frontends/cli/plan_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace crucible::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMib = 1 << 20;

hardware::DeviceProfile toy(std::uint64_t usable) {
  hardware::DeviceProfile profile{.name = "toy", .source = "made up"};
  profile.figures["memory.size"] = {.value = static_cast<double>(usable + kMib)};
  profile.figures["memory.reserved"] = {.value = static_cast<double>(kMib)};
  return profile;
}

/// A peak of 100 MiB: 40 are carried, 50 activations, 4 gradients, 6 other; no step needs more than 20 beside the 40.
ProfileAnswer answer(std::uint64_t usable_mib) {
  const std::uint64_t usable = usable_mib * kMib, peak = 100 * kMib;
  return {toy(usable),
          {.fits = peak <= usable,
           .usable_bytes = usable,
           .peak_bytes = peak,
           .missing_bytes = peak > usable ? peak - usable : 0,
           .carried_bytes = 40 * kMib,
           .activation_bytes = 50 * kMib,
           .gradient_bytes = 4 * kMib,
           .rest_bytes = 6 * kMib,
           .floor_bytes = 60 * kMib,
           .floor_step = 7}};
}

TEST(PlanFit, SaysThatItFits) {
  EXPECT_THAT(fit_text(answer(128)),
              AllOf(HasSubstr("fits on toy: 100 MiB of 128 MiB; 28.0 MiB stay free\n  (of its 129 MiB, 1.00 MiB are "
                              "left to driver and context)"),
                    HasSubstr("smallest peak: 60.0 MiB"), Not(HasSubstr("what would make it fit"))));
  EXPECT_EQ(fit_json(answer(128))["fits"], true);
  EXPECT_EQ(fit_json(answer(128))["missing_bytes"], 0);
}

TEST(PlanFit, NamesTheCheapestWay) {
  EXPECT_THAT(fit_text(answer(80)), AllOf(HasSubstr("does not fit on toy"), HasSubstr("20.0 MiB are missing"),
                                          HasSubstr("20.0 MiB of the 50.0 MiB of activations")));
  EXPECT_THAT(fit_text(answer(59)), AllOf(HasSubstr("step 7 alone needs 60.0 MiB"), HasSubstr("a smaller batch")));
  EXPECT_THAT(fit_text(answer(39)), AllOf(HasSubstr("alone are 40.0 MiB: recomputation cannot help")));
  ProfileAnswer few = answer(80);
  few.fit.activation_bytes = 5 * kMib;
  EXPECT_THAT(fit_text(few), HasSubstr("all 5.00 MiB of activations at the peak are 15.0 MiB too few"));
}

TEST(PlanFit, TheBatchIsCalledAnEstimate) {
  ProfileAnswer batch = answer(80);
  EXPECT_THAT(fit_text(batch), Not(HasSubstr("batch:")));
  EXPECT_TRUE(fit_json(batch)["largest_batch_estimate"].is_null());
  batch.fit.batch = 8;
  EXPECT_THAT(fit_text(batch), HasSubstr("not even 1 would fit (estimate)"));
  batch.fit.largest_batch = 5;
  EXPECT_THAT(fit_text(batch), HasSubstr("batch: 8 in the recording; up to about 5 would fit\n  (estimate"));
  EXPECT_EQ(fit_json(batch)["largest_batch_estimate"], 5);
}

/// A recording whose first op reads storages with these leading sizes; with `iterations` 2 it is that of the second
/// one.
trace::Trace with_inputs(const std::vector<std::int64_t>& leading, std::uint32_t iterations = 1) {
  trace::Trace trace;
  trace::Op op;
  for (const std::int64_t size : leading) {
    const auto id = static_cast<std::uint32_t>(trace.tensors.size());
    trace.storages.push_back({64, "cpu"});
    trace.tensors.push_back({.storage = id, .sizes = {size, 3}, .strides = {3, 1}});
    trace.externals.push_back(
        {.storage = id, .iteration = iterations - 1, .op = 0, .role = trace::Role::kInput, .name = ""});
    trace::Arg arg, list;
    arg.kind = trace::Arg::Kind::kTensor;
    arg.tensor = id;
    list.kind = trace::Arg::Kind::kList;
    list.list = {arg};
    op.args.push_back(id % 2 == 0 ? arg : list);
  }
  trace.ops.push_back(op);
  trace.iterations.resize(iterations);
  return trace;
}

TEST(PlanFit, TheBatchIsTheLeadingSizeThatAllInputsShare) {
  EXPECT_EQ(batch_of(with_inputs({4, 512, 4})), 4u);  // targets are often flat: 4 * 128
  EXPECT_EQ(batch_of(with_inputs({4, 6})), 0u);
  EXPECT_EQ(batch_of(with_inputs({})), 0u);
  trace::Trace parameter = with_inputs({16});
  parameter.externals[0].role = trace::Role::kParameter;
  EXPECT_EQ(batch_of(parameter), 0u);
  trace::Trace constant =
      with_inputs({4, 4, 7}, 2);  // the recorder does not say of data what it is; a constant comes once
  for (trace::External& external : constant.externals) external.role = trace::Role::kUnknown;
  EXPECT_EQ(batch_of(constant), 0u);
  constant.externals[2].iteration = 0;
  EXPECT_EQ(batch_of(constant), 4u);
}

}  // namespace
}  // namespace crucible::cli
