// Capsules: they compute what the whole program computed there, show a planted difference alone, and damaged files are
// refused.
#include "runtime/run/capsule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/graph/binary.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;

/// The interpreter of kernels: its bits are those of every device in strict numerics, and no compiler is needed.
Result<std::unique_ptr<Session>> open_strict(const std::shared_ptr<const graph::Program>& program,
                                             const std::shared_ptr<const trace::BlobStore>& blobs) {
  return Session::create_reference(program, blobs, kernel::Numerics::kStrict);
}

std::unique_ptr<Session> watched_session(const Recording& recording) {
  auto made =
      open_strict(std::make_shared<const graph::Program>(with_every_result(recording.program)), recording.blobs);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

/// With every `from` turned into `to`, in programs that have a `needed` op.
graph::Program changed(const graph::Program& program, graph::OpKind from, graph::OpKind to, graph::OpKind needed) {
  graph::Program other = program;
  if (std::ranges::none_of(program.ops, [&](const graph::Op& op) { return op.kind == needed; })) return other;
  for (graph::Op& op : other.ops) {
    if (op.kind == from) op.kind = to;
  }
  return other;
}

graph::OpId first_of(const graph::Program& program, graph::OpKind kind) {
  const auto op = std::ranges::find(program.ops, kind, &graph::Op::kind);
  EXPECT_NE(op, program.ops.end());
  return static_cast<graph::OpId>(op - program.ops.begin());
}

Capsule cut(const Recording& recording, std::uint32_t iteration, const std::vector<graph::OpId>& ops) {
  const std::unique_ptr<Session> session = watched_session(recording);
  auto made = cut_capsule(recording.program, *recording.blobs, *session, iteration, ops);
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : Capsule{};
}

/// Every op of a training step, alone, with what is behind it and with what is around it, in a later iteration, where
/// states and slots have moved on: it computes the bits that the whole program computed.
TEST(Capsule, ComputesWhatTheProgramComputed) {
  const Recording recording = record(training_step(), 3, 1);
  for (graph::OpId op = 0; op < recording.program.ops.size(); ++op) {
    for (const auto& ops : {ops_behind(recording.program, op, 0), ops_behind(recording.program, op, 3),
                            ops_around(recording.program, op, 2)}) {
      const Capsule capsule = cut(recording, 2, ops);
      auto session = open_strict(std::make_shared<const graph::Program>(capsule.program), capsule.blobs);
      ASSERT_TRUE(session) << session.error().message;
      ASSERT_TRUE((*session)->run(0));
      const auto outputs = (*session)->compare_outputs();
      ASSERT_TRUE(outputs) << outputs.error().message;
      ASSERT_EQ(outputs->size(), capsule.program.outputs.size());
      for (const OutputDifference& output : *outputs)
        EXPECT_TRUE(output.bit_equal) << op << " of " << ops.size() << ": " << output.name;
    }
  }
}

TEST(Capsule, IterationsDiffer) {
  const Recording recording = record(training_step(), 3, 1);
  const std::vector<graph::OpId> last = {static_cast<graph::OpId>(recording.program.ops.size() - 1)};
  const Capsule first = cut(recording, 0, last), third = cut(recording, 2, last);
  EXPECT_NE(*capsule_bytes(first), *capsule_bytes(third));
}

TEST(Capsule, TheOpAloneShowsTheDifference) {
  const Recording recording = record(training_step(), 2, 1);
  const graph::OpId op = first_of(recording.program, graph::OpKind::kTanh);
  const auto open_b = [](const auto& program, const auto& blobs) {
    return open_strict(std::make_shared<const graph::Program>(
                           changed(*program, graph::OpKind::kTanh, graph::OpKind::kSin, graph::OpKind::kTanh)),
                       blobs);
  };
  const std::unique_ptr<Session> session = watched_session(recording);
  const auto found =
      cut_smallest_capsule(recording.program, *recording.blobs, *session, {.op = op}, open_strict, open_b, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_reproduced);
  ASSERT_EQ(found->capsule.program.ops.size(), 1u);
  EXPECT_EQ(found->capsule.program.ops[0].kind, graph::OpKind::kTanh);
}

/// A compiler that goes wrong only where the product stands before the tanh: the capsule has to have both.
TEST(Capsule, GrowsUntilItShowsTheDifference) {
  const Recording recording = record(training_step(), 2, 1);
  const graph::OpId op = first_of(recording.program, graph::OpKind::kTanh);
  const auto open_b = [](const auto& program, const auto& blobs) {
    return open_strict(std::make_shared<const graph::Program>(
                           changed(*program, graph::OpKind::kTanh, graph::OpKind::kSin, graph::OpKind::kMatMul)),
                       blobs);
  };
  const std::unique_ptr<Session> session = watched_session(recording);
  const auto found =
      cut_smallest_capsule(recording.program, *recording.blobs, *session, {.op = op}, open_strict, open_b, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_reproduced);
  EXPECT_EQ(found->capsule.program.ops.size(), 2u);
}

/// One that goes wrong only where something reads the tanh: what stands behind the op is not enough.
TEST(Capsule, GrowsToWhatReadsTheOp) {
  const Recording recording = record(training_step(), 2, 1);
  const graph::OpId op = first_of(recording.program, graph::OpKind::kTanh);
  const graph::ValueId result = recording.program.ops[op].outputs[0].value;
  const auto reads_it = [](const graph::Program& program, graph::ValueId value) {
    return std::ranges::any_of(program.ops, [&](const graph::Op& other) {
      return std::ranges::any_of(
          other.inputs, [&](const graph::Operand& operand) { return !operand.is_scalar() && operand.value == value; });
    });
  };
  ASSERT_TRUE(reads_it(recording.program, result));
  const auto open_b = [&](const auto& program, const auto& blobs) {
    const graph::ValueId here = program->ops[first_of(*program, graph::OpKind::kTanh)].outputs[0].value;
    const bool is_read = reads_it(*program, here);
    return open_strict(std::make_shared<const graph::Program>(
                           changed(*program, graph::OpKind::kTanh, is_read ? graph::OpKind::kSin : graph::OpKind::kTanh,
                                   graph::OpKind::kTanh)),
                       blobs);
  };
  const std::unique_ptr<Session> session = watched_session(recording);
  const auto found =
      cut_smallest_capsule(recording.program, *recording.blobs, *session, {.op = op}, open_strict, open_b, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_reproduced);
  EXPECT_EQ(found->capsule.program.ops.size(), ops_around(recording.program, op, 1).size());
}

TEST(Capsule, SaysWhenItShowsNothing) {
  const Recording recording = record(training_step(), 1, 1);
  const std::unique_ptr<Session> session = watched_session(recording);
  const auto found =
      cut_smallest_capsule(recording.program, *recording.blobs, *session, {.op = 3}, open_strict, open_strict, {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->is_reproduced);
}

class CapsuleFile : public ::testing::Test {
 protected:
  CapsuleFile() {
    capsule_ =
        cut(recording_, 0, ops_behind(recording_.program, first_of(recording_.program, graph::OpKind::kTanh), 1));
    capsule_.origin = "a test";
    bytes_ = *capsule_bytes(capsule_);
  }
  Recording recording_ = record(training_step(), 1, 1);
  Capsule capsule_;
  std::vector<std::byte> bytes_;
};

TEST_F(CapsuleFile, ComesBackWhole) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "crucible_capsule_test.crcapsule";
  ASSERT_TRUE(write_capsule(capsule_, path));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600))
      << "it has bytes of the recording";
  EXPECT_TRUE(is_capsule(path));
  const auto back = read_capsule(path);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->origin, "a test");
  EXPECT_EQ(graph::to_binary(back->program), graph::to_binary(capsule_.program));
  EXPECT_EQ(*capsule_bytes(*back), bytes_);
  std::filesystem::remove(path);
  EXPECT_FALSE(is_capsule(path));
  EXPECT_THAT(read_capsule(path).error().message, HasSubstr(path.string()));
  EXPECT_THAT(write_capsule(capsule_, "/nowhere/x.crcapsule").error().message, HasSubstr("/nowhere"));
}

TEST_F(CapsuleFile, IsRefusedWhereverItEnds) {
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    const auto parsed = parse_capsule(std::span(bytes_).first(size), "x");
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().code, ErrorCode::kBadInput);
  }
  std::vector<std::byte> longer = bytes_;
  longer.push_back(std::byte{0});
  EXPECT_THAT(parse_capsule(longer, "x").error().message, HasSubstr("1 bytes follow"));
}

/// Whichever byte is another one: an error, or, where nothing guards it (nowhere today), the same capsule.
TEST_F(CapsuleFile, IsRefusedWhateverIsDamaged) {
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    std::vector<std::byte> damaged = bytes_;
    damaged[at] ^= std::byte{0x41};
    EXPECT_FALSE(parse_capsule(damaged, "x")) << at;
  }
}

TEST_F(CapsuleFile, OfAnotherVersionSaysSo) {
  bytes_[8] = std::byte{2};
  EXPECT_THAT(parse_capsule(bytes_, "x").error().message, HasSubstr("version 2"));
}

/// Numbers that checksums do not guard, because whoever made the file made those too.
TEST_F(CapsuleFile, WithBytesOfAnotherSizeIsRefused) {
  Capsule other = capsule_;
  other.blobs = std::make_shared<trace::MemoryBlobStore>();
  for (trace::BlobId blob = 0; blob < capsule_.blobs->blobs().size(); ++blob) {
    std::vector<std::byte> content = *capsule_.blobs->load(blob);
    content.push_back(std::byte{1});
    other.blobs->add(std::move(content));
  }
  EXPECT_THAT(parse_capsule(*capsule_bytes(other), "x").error().message, HasSubstr("of another size"));
  other.blobs = std::make_shared<trace::MemoryBlobStore>();
  EXPECT_THAT(parse_capsule(*capsule_bytes(other), "x").error().message, HasSubstr("missing"));
}

}  // namespace
}  // namespace crucible::runtime
