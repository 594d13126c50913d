// Sessions hand whole numbers over with all of their digits, and others in each iteration: to the reference interpreter
// and to the CPU plugin.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/graph/whole_slot_program.hpp"
#include "core/trace/memory_blob_store.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/run/session.hpp"

namespace crucible::runtime {
namespace {

struct Recording {
  std::shared_ptr<const graph::Program> program;
  std::shared_ptr<trace::MemoryBlobStore> blobs = std::make_shared<trace::MemoryBlobStore>();
};

/// "Recorded" is what must come of it, which none of core has computed.
Recording recording() {
  Recording recording;
  graph::WholeSlotProgram made = graph::whole_slot_program();
  for (graph::Input& input : made.program.inputs)
    input.blobs.assign(input.blobs.size(), recording.blobs->add(made.values[input.value]));
  for (std::size_t output = 0; output < made.program.outputs.size(); ++output) {
    for (std::size_t i = 0; i < made.expected.size(); ++i)
      made.program.outputs[output].blobs[i] = recording.blobs->add(made.expected[i][output]);
  }
  recording.program = std::make_shared<const graph::Program>(std::move(made.program));
  return recording;
}

void expect_digits(Result<std::unique_ptr<Session>> made) {
  ASSERT_TRUE(made) << made.error().message;
  Session& session = **made;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < graph::kWholeNumbers.size(); ++i) {
      const auto ran = session.run(i);
      ASSERT_TRUE(ran) << ran.error().message;
      const auto outputs = session.compare_outputs();
      ASSERT_TRUE(outputs) << outputs.error().message;
      EXPECT_GE(outputs->size(), 30u);
      for (const OutputDifference& output : *outputs)
        EXPECT_TRUE(output.bit_equal) << output.name << " of " << graph::kWholeNumbers[i];
    }
    ASSERT_TRUE(session.reset());
  }
}

void expect_digits_on(const std::filesystem::path& plugin) {
  const auto loaded = backend::Backend::load(plugin, {{"threads", "2"}}, backend::shared_store());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto device = (*loaded)->open("");
  ASSERT_TRUE(device) << device.error().message;
  const Recording made = recording();
  for (const bool fuse : {true, false})
    expect_digits(Session::create(made.program, made.blobs, *device, {.fuse = fuse}));
}

TEST(WholeSlots, TheReferenceSessionKeepsEveryDigit) {
  const Recording made = recording();
  expect_digits(Session::create_reference(made.program, made.blobs));
}

TEST(WholeSlots, TheInterpreterOfKernelsKeepsEveryDigit) {
  const Recording made = recording();
  expect_digits(Session::create_reference(made.program, made.blobs, kernel::Numerics::kStrict));
}

TEST(WholeSlots, TheCpuPluginKeepsEveryDigit) { expect_digits_on(CRUCIBLE_TEST_CPU_PLUGIN); }

}  // namespace
}  // namespace crucible::runtime
