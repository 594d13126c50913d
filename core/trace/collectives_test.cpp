// Collectives of several ranks: what must be the same, what may differ, and how a disagreement is told.
#include "core/trace/collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/trace/trace_maker.hpp"

namespace crucible::trace {
namespace {

using samples::TraceMaker;
using samples::integer;
using samples::list_of;
using samples::tensor_of;
using ::testing::HasSubstr;

const char* const kAllreduce =
    "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup process_group, "
    "__torch__.torch.classes.c10d.ReduceOp reduce_op, Tensor? sparse_indices, int timeout=-1) -> (Tensor[], Work)";
const char* const kScatter =
    "c10d::scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, "
    "__torch__.torch.classes.c10d.ProcessGroup process_group, int root_rank) -> (Tensor[], Work)";

Arg opaque(const std::string& text) {
  Arg made;
  made.kind = Arg::Kind::kOpaque;
  made.text = text;
  return made;
}

class Rank {
 public:
  explicit Rank(int rank, int world = 2) : rank_(rank), world_(world) { maker_.begin_iteration(); }
  Rank& allreduce(std::int64_t size, const std::string& reduce = "sum", const std::string& group = "default_pg") {
    maker_.op(kAllreduce,
              {list_of({tensor_of(maker_.tensor({size}))}), group_arg(group), opaque("reduce op " + reduce), Arg{},
               integer(1000 + rank_)},
              {});
    return *this;
  }
  Rank& scatter(bool is_root) {
    std::vector<Arg> pieces;
    if (is_root) pieces = {list_of({tensor_of(maker_.tensor({2})), tensor_of(maker_.tensor({2}))})};
    maker_.op(kScatter,
              {list_of({tensor_of(maker_.tensor({2}))}), list_of(pieces), group_arg("default_pg"), integer(0)}, {});
    return *this;
  }
  Rank& send() {
    maker_.op("c10d::send(Tensor[] tensors, ProcessGroup process_group, int dst, int tag) -> Work",
              {list_of({}), group_arg("default_pg"), integer(1), integer(0)}, {});
    return *this;
  }
  Rank& relu() {
    maker_.op("aten::relu(Tensor self) -> Tensor", {tensor_of(maker_.tensor({4}))}, {});
    return *this;
  }
  operator Trace() { return maker_.take(); }

 private:
  Arg group_arg(const std::string& group) {
    return opaque("process group '" + group + "' rank " + std::to_string(rank_) + " of " + std::to_string(world_));
  }
  TraceMaker maker_;
  int rank_, world_;
};

TEST(Collectives, AreFoundWithoutTheRank) {
  const Trace trace = Rank(1).relu().allreduce(32).send();
  const auto found = collectives(trace);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].op, 1u);
  EXPECT_EQ(found[0].group, "process group 'default_pg' of 2");
  EXPECT_EQ(found[0].text, "allreduce_ (f32[32]), reduce op sum");
}

TEST(Collectives, EqualSequencesAgree) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(32).relu().allreduce(8).send(),
                                    Rank(1).allreduce(32).allreduce(8).relu()};
  EXPECT_EQ(collective_disagreement(ranks), "");
  EXPECT_EQ(collective_disagreement({}), "");
}

TEST(Collectives, ScatterDiffersByDesign) {
  const std::vector<Trace> ranks = {Rank(0).scatter(true), Rank(1).scatter(false)};
  EXPECT_EQ(collective_disagreement(ranks), "");
}

TEST(Collectives, AnotherShapeIsADisagreement) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(4).allreduce(32), Rank(1).allreduce(4).relu().allreduce(64)};
  EXPECT_EQ(
      collective_disagreement(ranks),
      "collective 1 of process group 'default_pg' of 2 is allreduce_ (f32[32]), reduce op sum on rank 0 (iteration 0, "
      "op 1, train.py:10) and allreduce_ (f32[64]), reduce op sum on rank 1 (iteration 0, op 2, train.py:10)");
}

TEST(Collectives, AnotherReductionIsADisagreement) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(4, "sum"), Rank(1).allreduce(4, "max")};
  EXPECT_THAT(collective_disagreement(ranks), HasSubstr("reduce op sum on rank 0"));
}

TEST(Collectives, OneMoreIsADisagreement) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(4), Rank(1).allreduce(4).allreduce(5)};
  EXPECT_EQ(
      collective_disagreement(ranks),
      "rank 0 calls 1 collectives of process group 'default_pg' of 2 and rank 1 calls 2; the first without a partner "
      "is allreduce_ (f32[5]), reduce op sum on rank 1 (iteration 0, op 1, train.py:10)");
}

TEST(Collectives, ARankThatIsMissingFromItsGroup) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(4), Rank(1).relu()};
  EXPECT_THAT(collective_disagreement(ranks),
              HasSubstr("calls collectives on 1 of its 2 ranks only: the first is allreduce_"));
}

TEST(Collectives, SubgroupsMayBeInterleavedAnyhow) {
  const std::vector<Trace> ranks = {Rank(0).allreduce(4, "sum", "a").allreduce(5, "sum", "b"),
                                    Rank(1).allreduce(5, "sum", "b").allreduce(4, "sum", "a")};
  EXPECT_EQ(collective_disagreement(ranks), "");
}

}  // namespace
}  // namespace crucible::trace
