// Recordings whose iterations differ: random programs of a few kinds of iterations over shared variables, run here as
// an eager framework would, recorded as the recorder would, and replayed as variants by the reference interpreter.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "core/graph/reference.hpp"
#include "frontends/aten/testing/lowered_trace.hpp"

namespace crucible::aten {
namespace {

using B = TraceBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

/// A program of variables, each a tensor that ops change in place or that a new one takes the place of.
class EagerProgram {
 public:
  EagerProgram(std::uint32_t seed, std::size_t variables, std::size_t kinds) : random_(seed) {
    for (std::size_t v = 0; v < variables; ++v) {
      variables_.push_back(b_.fresh({2}));
      write(v, {number(), number()});
      is_parameter_.push_back(chance(2));
    }
    for (std::size_t k = 0; k < kinds; ++k) {
      std::vector<Step>& steps = kinds_.emplace_back();
      for (int i = 1 + pick(5); i > 0; --i) steps.push_back({pick(7), pick_variable(), pick_variable()});
    }
  }

  void iteration() {
    if (chance(5)) change_outside();
    const auto& steps = kinds_[static_cast<std::size_t>(pick(static_cast<int>(kinds_.size())))];
    std::vector<trace::TensorId> results;
    for (const Step& step : steps) run(step);
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      if (!touched_.contains(b_.storage_of(variables_[v])) || !chance(3)) continue;
      b_.output(variables_[v], contents(v), fmt::format("v{}", v));
      expected_.push_back(contents(v));
    }
    touched_.clear();
    b_.end_iteration();
  }

  void finish() {
    std::set<trace::StorageId> kept;
    for (std::size_t v = 0; v < variables_.size(); ++v) {
      const trace::StorageId storage = b_.storage_of(variables_[v]);
      // What was changed outside and not read since then no replay can know.
      if (!is_parameter_[v] || !seen_.contains(storage) || !known_.contains(storage)) continue;
      if (!kept.insert(storage).second) continue;  // of two variables
      b_.final_state(b_.storage_of(variables_[v]), contents(v), fmt::format("v{}", v));
    }
  }

  const trace::Trace& trace() { return b_.trace(); }
  const std::vector<Floats>& expected_outputs() const { return expected_; }
  /// By an op, and since then by nothing else.
  bool is_written(trace::StorageId storage) const { return written_.contains(storage); }

 private:
  struct Step {
    int op;
    std::size_t a, b;
  };

  int pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  std::size_t pick_variable() { return static_cast<std::size_t>(pick(static_cast<int>(variables_.size()))); }
  bool chance(int one_in) { return pick(one_in) == 0; }
  float number() { return static_cast<float>(pick(64) - 32); }
  Floats contents(std::size_t v) const { return memory_.at(b_.storage_of(variables_[v])); }
  void write(std::size_t v, Floats content) { memory_[b_.storage_of(variables_[v])] = std::move(content); }

  void store(std::size_t v, Floats content) {
    write(v, std::move(content));
    written_.insert(b_.storage_of(variables_[v]));
  }

  /// Something that no op does: the same memory gets other bytes, or another tensor takes the variable's place.
  void change_outside() {
    const std::size_t v = pick_variable();
    if (chance(2)) variables_[v] = b_.fresh({2});
    write(v, {number(), number()});
    known_.erase(b_.storage_of(variables_[v]));
    written_.erase(b_.storage_of(variables_[v]));
  }

  /// As an op reads it: what nobody knows is recorded.
  Floats read(std::size_t v) {
    const trace::StorageId storage = b_.storage_of(variables_[v]);
    if (known_.insert(storage).second) {
      b_.external(storage, contents(v), is_parameter_[v] ? trace::Role::kParameter : trace::Role::kUnknown,
                  is_parameter_[v] ? fmt::format("v{}", v) : "");
    }
    touch(v);
    return contents(v);
  }
  void touch(std::size_t v) {
    known_.insert(b_.storage_of(variables_[v]));
    seen_.insert(b_.storage_of(variables_[v]));
    touched_.insert(b_.storage_of(variables_[v]));
  }

  void run(const Step& step) {
    const trace::TensorId a = variables_[step.a], b = variables_[step.b];
    const auto sum = [](const Floats& x, const Floats& y) { return Floats{x[0] + y[0], x[1] + y[1]}; };
    if (step.op == 0) {  // a += b
      const Floats x = read(step.a), y = read(step.b);
      b_.op(kAddInPlace, {B::tensor(a), B::tensor(b), B::integer(1)}, {B::tensor(a)});
      store(step.a, sum(x, y));
    } else if (step.op == 1) {  // a *= half
      const Floats x = read(step.a);
      b_.op(kMulInPlace, {B::tensor(a), B::number(0.5)}, {B::tensor(a)});
      store(step.a, {x[0] * 0.5f, x[1] * 0.5f});
    } else if (step.op == 2) {  // a = a + b, a new tensor
      const Floats x = read(step.a), y = read(step.b);
      variables_[step.a] = b_.fresh({2});
      b_.op(kAdd, {B::tensor(a), B::tensor(b), B::integer(1)}, {B::tensor(variables_[step.a])});
      store(step.a, sum(x, y));
      touch(step.a);
    } else if (step.op == 3) {  // a.copy_(b)
      if (step.a == step.b) return;
      const Floats y = read(step.b);
      touch(step.a);
      b_.op(kCopyInPlace, {B::tensor(a), B::tensor(b), B::boolean(false)}, {B::tensor(a)});
      store(step.a, y);
    } else if (step.op == 4) {  // a, b = b, a: no op
      if (is_parameter_[step.a] == is_parameter_[step.b]) std::swap(variables_[step.a], variables_[step.b]);
    } else if (step.op == 5) {  // a = one of all + one of all, others in each iteration
      const std::size_t one = pick_variable(), other = pick_variable();
      const trace::TensorId p = variables_[one], q = variables_[other];
      const Floats x = read(one), y = read(other);
      variables_[step.a] = b_.fresh({2});
      b_.op(kAdd, {B::tensor(p), B::tensor(q), B::integer(1)}, {B::tensor(variables_[step.a])});
      store(step.a, sum(x, y));
      touch(step.a);
    } else if (is_parameter_[step.a] == is_parameter_[step.b] && chance(3)) {  // a = b: no op
      variables_[step.a] = variables_[step.b];
    }
  }

  std::mt19937 random_;
  TraceBuilder b_;
  std::vector<trace::TensorId> variables_;
  std::vector<bool> is_parameter_;
  std::vector<std::vector<Step>> kinds_;
  std::map<trace::StorageId, Floats> memory_;
  std::set<trace::StorageId> known_, seen_, touched_, written_;
  std::vector<Floats> expected_;
};

void expect_as_recorded(const trace::Trace& trace, const graph::Variants& variants,
                        const graph::ReferenceReplay& replay) {
  for (std::size_t s = 0; s < variants.programs[0]->states.size(); ++s) {
    const std::uint32_t blob = variants.programs[0]->states[s].final_blob;
    if (blob == graph::kNone) continue;
    const auto recorded = trace.blob_store->load(blob);
    ASSERT_TRUE(recorded);
    EXPECT_EQ(floats(replay.states[s]), floats(*recorded)) << "state " << s;
  }
  for (std::size_t k = 0; k < variants.turns.size(); ++k) {
    const graph::Program& program = *variants.programs[variants.turns[k].variant];
    std::size_t place = 0;
    for (const graph::Output& output : program.outputs) {
      if (!output.is_tensor()) continue;
      const auto recorded = trace.blob_store->load(output.blobs[variants.turns[k].index]);
      ASSERT_TRUE(recorded);
      EXPECT_EQ(floats(*replay.tensors[k][place++]), floats(*recorded)) << "turn " << k << ", " << output.name;
    }
  }
}

TEST(Variants, WhatIsKeptThroughSeveralIterationsIsReadWhenItIsAsOldAsEachTime) {
  TraceBuilder b;
  std::vector<trace::TensorId> kept;
  std::vector<Floats> contents;
  for (int i = 0; i < 9; ++i) {
    const auto x = b.fresh({2}), doubled = b.fresh({2});
    const float value = static_cast<float>(i * i);
    b.external(b.storage_of(x), {value, -1});
    b.op(kAdd, {B::tensor(x), B::tensor(x), B::integer(1)}, {B::tensor(doubled)});
    if (i % 3 == 2) {
      const auto sum = b.fresh({2});
      b.op(kAdd, {B::tensor(kept[kept.size() - 2]), B::tensor(kept.back()), B::integer(1)}, {B::tensor(sum)});
      const auto& [first, second] = std::pair(contents[contents.size() - 2], contents.back());
      b.output(sum, {first[0] + second[0], first[1] + second[1]}, "sum");
    }
    kept.push_back(doubled);
    contents.push_back({2 * value, -2});
    b.end_iteration();
  }
  const trace::Trace& trace = b.trace();
  const auto variants = lower_variants(trace);
  ASSERT_TRUE(variants) << variants.error().message;
  EXPECT_EQ(variants->programs.size(), 2u);
  EXPECT_EQ(variants->seams(), 0u);
  const auto replay = graph::replay_reference(*variants, *trace.blob_store, 9);
  ASSERT_TRUE(replay) << replay.error().message;
  expect_as_recorded(trace, *variants, *replay);
}

TEST(Variants, RandomProgramsEndAsEagerlyWhateverTheirIterationsDo) {
  int with_copies = 0, with_variants = 0, with_seams = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    EagerProgram eager(seed, 2 + seed % 4, 1 + seed % 4);
    for (std::uint32_t i = 0; i < 2 + seed % 9; ++i) eager.iteration();
    eager.finish();
    const trace::Trace& trace = eager.trace();
    const auto variants = lower_variants(trace);
    ASSERT_TRUE(variants) << variants.error().message;
    const auto turns = static_cast<std::uint32_t>(variants->turns.size());
    const auto replay = graph::replay_reference(*variants, *trace.blob_store, turns);
    ASSERT_TRUE(replay) << replay.error().message;
    with_copies += std::ranges::any_of(variants->turns, [](const graph::Turn& turn) {
      return std::ranges::any_of(turn.given, [](const graph::Given& given) { return given.from != graph::kNone; });
    });
    with_variants += variants->programs.size() > 1;
    with_seams += variants->seams() > 0;
    std::set<std::uint32_t> compared;
    for (const graph::State& state : variants->programs[0]->states) compared.insert(state.final_blob);
    for (const trace::FinalState& state : trace.final_states) {
      // Where all iterations are alike, what only moves from one place to another is no state.
      const bool is_old = variants->programs[0]->is_variant &&
                          std::ranges::any_of(trace.externals, [&](const trace::External& external) {
                            return external.storage == state.storage;
                          });
      EXPECT_TRUE(!is_old || !eager.is_written(state.storage) || compared.contains(state.blob)) << state.name;
    }
    expect_as_recorded(trace, *variants, *replay);
  }
  EXPECT_GT(with_copies, 100);
  EXPECT_GT(with_variants, 1500);
  EXPECT_GT(with_seams, 500);
}

TEST(StatesWithoutNames, AreCalledAfterTheOpThatMakesOrWritesThem) {
  TraceBuilder b;
  const auto mean = b.fresh({2}), start = b.fresh({2});
  b.external(b.storage_of(mean), {1, 2});
  b.external(b.storage_of(start), {3, 4});
  auto last = start;
  for (int i = 0; i < 3; ++i) {
    const auto next = b.fresh({2});
    b.op(kAdd, {B::tensor(last), B::tensor(last), B::integer(1)}, {B::tensor(next)});
    b.op(kAddInPlace, {B::tensor(mean), B::tensor(next), B::integer(1)}, {B::tensor(mean)});
    last = next;
    b.end_iteration();
  }
  const graph::Program program = lowered(b);
  std::vector<std::string> names;
  for (const graph::State& state : program.states) names.push_back(program.values[state.start].name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("tensor made by aten::add.Tensor at train.py:1",
                                                   "tensor written by aten::add_.Tensor at train.py:2"));
}

/// KiB that a process of its own has at most when it lowers a recording of so many variants.
long peak_of_lowering(int count) {
  const pid_t child = fork();
  if (child == 0) {
    TraceBuilder b;
    for (int i = 0; i < count; ++i) {
      auto x = b.fresh({2 + i});
      b.external(b.storage_of(x), Floats(static_cast<std::size_t>(2 + i), 1.0f), trace::Role::kInput);
      for (int k = 0; k < 50; ++k) {
        const auto next = b.fresh({2 + i});
        b.op(kAdd, {B::tensor(x), B::tensor(x), B::integer(1)}, {B::tensor(next)});
        x = next;
      }
      b.output(x, Floats(static_cast<std::size_t>(2 + i), 0.0f));
      b.end_iteration();
    }
    const auto variants = lower_variants(b.trace());
    _exit(variants && variants->programs.size() == static_cast<std::size_t>(count) ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return usage.ru_maxrss;
}

TEST(Variants, MemoryGrowsWithTheirNumberAndNotWithItsSquare) {
  const long base = peak_of_lowering(1), some = peak_of_lowering(150) - base, more = peak_of_lowering(600) - base;
  EXPECT_LT(more, 7 * some) << base << " KiB, " << some << ", " << more;  // 4 times as many: 16 where each keeps all
}

TEST(VariantsOf, IterationsWithOtherOps) {
  TraceBuilder b;
  const auto x = b.fresh({2});
  b.external(b.storage_of(x), {1, 2}, trace::Role::kParameter);
  b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
  b.end_iteration();
  b.op(kZero, {B::tensor(x)}, {B::tensor(x)});
  b.end_iteration();
  EXPECT_THAT(difference(b),
              HasSubstr("iterations 0 and 1 differ at op 0 (train.py:1): aten::mul_.Tensor vs aten::zero_"));
}

TEST(VariantsOf, IterationsOfOtherLengths) {
  TraceBuilder b;
  const auto x = b.fresh({2});
  b.external(b.storage_of(x), {1, 2}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n <= i; ++n) b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b),
              HasSubstr("the first has 1 ops, the other 2; the first op without a partner is aten::mul_"));
}

TEST(VariantsOf, ShapesThatDiffer) {
  TraceBuilder b;
  for (int i = 0; i < 2; ++i) {
    const auto x = b.fresh({2 + i}), sum = b.fresh({});
    b.external(b.storage_of(x), Floats(static_cast<std::size_t>(2 + i), 1.0f), trace::Role::kInput);
    b.op(kSum, {B::tensor(x), B::none()}, {B::tensor(sum)});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b), HasSubstr("aten::sum argument self: f32[2] with strides [1] vs f32[3] with strides [1]"));
}

TEST(VariantsOf, ListsAreToldByTheFirstElementThatDiffers) {
  const auto told = [](int first_length, int length, int wide_at) {
    TraceBuilder b;
    for (int i = 0; i < 2; ++i) {
      std::vector<trace::Arg> list;
      std::int64_t rows = 0;
      for (int k = 0; k < (i == 0 ? first_length : length); ++k) {
        const std::int64_t size = i == 1 && k == wide_at ? 3 : 2;
        const auto x = b.fresh({size});
        b.external(b.storage_of(x), Floats(static_cast<std::size_t>(size), 1.0f), trace::Role::kInput);
        list.push_back(B::tensor(x));
        rows += size;
      }
      b.op("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", {B::list(list), B::integer(0)},
           {B::tensor(b.fresh({rows}))});
      b.end_iteration();
    }
    return difference(b);
  };
  EXPECT_THAT(told(64, 64, 5), HasSubstr("aten::cat argument tensors: element 5 of 64: f32[2] with strides [1] vs "
                                         "f32[3] with strides [1]"));
  EXPECT_THAT(told(64, 64, 5), ::testing::SizeIs(::testing::Le(160u)));
  EXPECT_THAT(told(64, 63, -1), HasSubstr("aten::cat argument tensors: 64 elements vs 63"));
  EXPECT_THAT(told(2, 1, -1),
              HasSubstr("[f32[2] with strides [1], f32[2] with strides [1]] vs [f32[2] with strides [1]]"));
}

TEST(VariantsOf, StridesThatDiffer) {
  TraceBuilder b;
  for (int i = 0; i < 2; ++i) {
    const auto storage = b.storage(4);
    const auto x = b.view(storage, {2, 2}, i == 0 ? std::vector<std::int64_t>{2, 1} : std::vector<std::int64_t>{1, 2});
    const auto sum = b.fresh({2});
    b.external(storage, {1, 2, 3, 4}, trace::Role::kInput);
    b.op("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         {B::tensor(x), B::integers({1}), B::boolean(false), B::none()}, {B::tensor(sum)});
    b.output(sum, i == 0 ? Floats{3, 7} : Floats{4, 6});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b),
              HasSubstr("aten::sum.dim_IntList argument self: f32[2, 2] with strides [2, 1] vs f32[2, 2] with strides "
                        "[1, 2]"));
}

TEST(VariantsOf, NumbersThatShapeTheProgram) {
  TraceBuilder b;
  const auto x = b.fresh({2, 2});
  b.external(b.storage_of(x), {1, 2, 3, 4}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    const auto y = b.fresh({2, 2});
    b.op("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
         {B::tensor(x), B::integer(i), B::boolean(false)}, {B::tensor(y)});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b), HasSubstr("iterations 0 and 1 differ: argument dim is 0 vs 1"));
}

TEST(VariantsOf, NumbersThatALoweringIgnores) {
  TraceBuilder b;
  const auto x = b.fresh({2});
  b.external(b.storage_of(x), {1, 2}, trace::Role::kParameter);
  for (int i = 0; i < 2; ++i) {
    b.op("aten::zero_(Tensor(a!) self, int extra) -> Tensor(a!)", {B::tensor(x), B::integer(i)}, {B::tensor(x)});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b), HasSubstr("argument extra is 0 vs 1"));
}

/// Sums of two tensors, of which each iteration has the ones that `picked` names, and what they are in the end.
std::vector<std::size_t> variants_of_sums(const std::vector<std::pair<int, int>>& picked, bool writes) {
  TraceBuilder b;
  std::vector<trace::TensorId> x;
  for (int i = 0; i < 4; ++i) x.push_back(b.fresh({1}));
  std::vector<Floats> results;
  std::vector<float> held = {1, 10, 100, 1000};
  std::set<int> known;
  for (const auto& [i, k] : picked) {
    for (const int which : {i, k}) {
      if (known.insert(which).second) b.external(b.storage_of(x[which]), {held[which]});
    }
    const auto sum = b.fresh({1});
    if (writes) b.op(kMulInPlace, {B::tensor(x[i]), B::number(2)}, {B::tensor(x[i])});
    if (writes) held[i] *= 2;
    b.op(kAdd, {B::tensor(x[i]), B::tensor(x[k]), B::integer(1)}, {B::tensor(sum)});
    results.push_back({held[i] + held[k]});
    b.output(sum, results.back(), "0");
    b.end_iteration();
  }
  const auto variants = lower_variants(b.trace());
  EXPECT_TRUE(variants) << variants.error().message;
  if (!variants) return {};
  const auto replay =
      graph::replay_reference(*variants, *b.trace().blob_store, static_cast<std::uint32_t>(variants->turns.size()));
  EXPECT_TRUE(replay) << replay.error().message;
  std::vector<std::size_t> of_turns;
  for (std::size_t turn = 0; turn < variants->turns.size(); ++turn) {
    of_turns.push_back(variants->turns[turn].variant);
    if (!replay) continue;
    EXPECT_EQ(floats(*replay->tensors[turn][0]), results[turn]) << "turn " << turn;
  }
  return of_turns;
}

TEST(VariantsOf, SharingOfWhatIsOnlyRead) {
  EXPECT_THAT(variants_of_sums({{0, 1}, {2, 2}, {1, 3}}, false), ElementsAre(0, 0, 0));
  EXPECT_THAT(variants_of_sums({{0, 0}, {1, 2}, {3, 3}, {2, 1}}, false), ElementsAre(0, 0, 0, 0));
}

TEST(VariantsOf, SharingOfWhatIsWritten) {
  EXPECT_THAT(variants_of_sums({{0, 1}, {2, 2}, {1, 3}, {0, 0}}, true), ElementsAre(0, 1, 0, 1));
}

TEST(VariantsOf, AliasesThatDifferBetweenIterations) {
  TraceBuilder b;
  for (int i = 0; i < 2; ++i) {
    const auto x = b.fresh({1}), y = i == 0 ? b.fresh({1}) : x;
    b.external(b.storage_of(x), {1});
    if (i == 0) b.external(b.storage_of(y), {1});
    b.op(kMulInPlace, {B::tensor(x), B::number(2)}, {B::tensor(x)});
    b.op(kAdd, {B::tensor(x), B::tensor(y), B::integer(1)}, {B::tensor(b.fresh({1}))});
    b.end_iteration();
  }
  EXPECT_THAT(difference(b), HasSubstr("shared with other tensors in different ways"));
}

}  // namespace
}  // namespace crucible::aten
