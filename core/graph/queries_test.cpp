// Queries against answers found the slow way: on random programs, on random views element by element, and on programs
// whose answers are known.
#include "core/graph/queries.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/graph/random_program.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Program> programs() {
  std::vector<Program> all;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    all.push_back(random_program({.seed = seed, .ops = 5 + static_cast<std::uint32_t>(seed % 60)}).program);
  }
  all.push_back({});  // nothing at all
  return all;
}

bool reads(const Op& op, ValueId value) {
  return std::ranges::any_of(op.inputs,
                             [&](const Operand& input) { return !input.is_scalar() && input.value == value; });
}

template <class List>
std::set<std::uint32_t> as_set(const List& list) {
  return {list.begin(), list.end()};
}

TEST(Queries, ReadersAndCounts) {
  for (const Program& p : programs()) {
    const IdLists lists = readers(p);
    const auto counts = read_counts(p);
    ASSERT_EQ(lists.size(), p.values.size());
    for (ValueId v = 0; v < p.values.size(); ++v) {
      std::vector<std::uint32_t> wanted;
      std::uint32_t count = 0;
      for (OpId op = 0; op < p.ops.size(); ++op) {
        if (reads(p.ops[op], v)) wanted.push_back(op);
        for (const Operand& input : p.ops[op].inputs) count += !input.is_scalar() && input.value == v;
      }
      for (const State& state : p.states) count += state.end == v;
      for (const Output& output : p.outputs) count += output.operand.value == v;
      ASSERT_THAT(std::vector<std::uint32_t>(lists[v].begin(), lists[v].end()), testing::ElementsAreArray(wanted));
      ASSERT_EQ(counts[v], count);
    }
  }
}

TEST(Queries, Dependences) {
  for (const Program& p : programs()) {
    const Dependences d = dependences(p);
    ASSERT_EQ(d.before.size(), p.ops.size());
    ASSERT_EQ(d.after.size(), p.ops.size());
    for (OpId a = 0; a < p.ops.size(); ++a) {
      ASSERT_TRUE(std::ranges::is_sorted(d.before[a]));
      ASSERT_TRUE(std::ranges::is_sorted(d.after[a]));
      std::set<std::uint32_t> before, after;
      for (OpId b = 0; b < p.ops.size(); ++b) {
        const auto needs = [&](OpId reader, OpId writer) {
          return std::ranges::any_of(p.ops[writer].outputs,
                                     [&](const Operand& out) { return reads(p.ops[reader], out.value); });
        };
        if (needs(a, b)) before.insert(b);
        if (needs(b, a)) after.insert(b);
      }
      ASSERT_EQ(as_set(d.before[a]), before);
      ASSERT_EQ(as_set(d.after[a]), after);
      ASSERT_EQ(d.before[a].size(), before.size()) << "each once";
      ASSERT_EQ(d.after[a].size(), after.size()) << "each once";
    }
  }
}

/// Whether value `v` is needed while `op` runs, from the rules alone.
bool lives_at(const Program& p, ValueId v, OpId op) {
  const OpId producer = p.values[v].producer;
  if (producer != kNone && op < producer) return false;
  if (producer == op) return true;
  const bool stays = std::ranges::any_of(p.states, [&](const State& s) { return s.end == v; }) ||
                     std::ranges::any_of(p.outputs, [&](const Output& o) { return o.operand.value == v; });
  if (stays) return true;
  for (OpId later = op; later < p.ops.size(); ++later) {
    if (reads(p.ops[later], v)) return true;
  }
  return producer == kNone && op == 0;  // an outside value that nobody reads is there when the iteration begins
}

TEST(Queries, LifetimesAndLiveBytes) {
  for (const Program& p : programs()) {
    const auto lives = lifetimes(p);
    const auto bytes = live_bytes(p);
    ASSERT_EQ(bytes.size(), p.ops.size());
    for (OpId op = 0; op < p.ops.size(); ++op) {
      std::uint64_t wanted = 0;
      for (ValueId v = 0; v < p.values.size(); ++v) {
        const bool alive = lives_at(p, v, op);
        ASSERT_EQ(lives[v].first <= op && op <= lives[v].last, alive) << "%" << v << " at op " << op;
        if (alive) wanted += static_cast<std::uint64_t>(p.values[v].elements) * size_bytes(p.values[v].dtype);
      }
      ASSERT_EQ(bytes[op], wanted);
    }
    for (const State& state : p.states) ASSERT_EQ(lives[state.end].last, p.ops.size());
  }
}

TEST(Queries, CriticalPathIsTheHeaviestChain) {
  std::mt19937_64 random(1);
  for (const Program& p : programs()) {
    std::vector<double> weights(p.ops.size());
    for (double& weight : weights) weight = static_cast<double>(random() % 7);
    for (const auto& given : {weights, std::vector<double>{}}) {
      const CriticalPath path = critical_path(p, given);
      const auto weight = [&](OpId op) { return given.empty() ? 1.0 : given[op]; };
      double sum = 0;
      for (std::size_t i = 0; i < path.ops.size(); ++i) {
        sum += weight(path.ops[i]);
        if (i == 0) continue;
        const auto& outputs = p.ops[path.ops[i - 1]].outputs;
        ASSERT_TRUE(
            std::ranges::any_of(outputs, [&](const Operand& out) { return reads(p.ops[path.ops[i]], out.value); }));
      }
      ASSERT_EQ(sum, path.weight);
      // The same by relaxing every pair of ops until nothing changes.
      std::vector<double> longest(p.ops.size());
      for (OpId op = 0; op < p.ops.size(); ++op) longest[op] = weight(op);
      const Dependences d = dependences(p);
      for (bool changed = true; changed;) {
        changed = false;
        for (OpId op = 0; op < p.ops.size(); ++op) {
          for (const OpId next : d.after[op]) {
            if (longest[op] + weight(next) <= longest[next]) continue;
            longest[next] = longest[op] + weight(next);
            changed = true;
          }
        }
      }
      ASSERT_EQ(path.weight, longest.empty() ? 0.0 : std::ranges::max(longest));
    }
  }
}

bool share_elements(const View& a, const View& b) {
  const auto in_a = as_set(indices(a)), in_b = as_set(indices(b));
  return std::ranges::any_of(in_a, [&](auto i) { return in_b.contains(i); });
}

TEST(Queries, OutputsThatShowTheSameElementsAreAlike) {
  Program program;
  const auto add = [&](ValueId value, View view, std::vector<std::uint32_t> blobs) {
    program.outputs.push_back(
        {.name = "out", .operand = {.value = value, .view = std::move(view), .scalar = {}}, .blobs = std::move(blobs)});
  };
  add(1, {.offset = 0, .sizes = {1}, .strides = {1}}, {});  // a number
  add(1, {.offset = 0, .sizes = {2, 3}, .strides = {3, 1}}, {0});
  add(1, {.offset = 0, .sizes = {3, 2}, .strides = {1, 3}}, {0});  // in another order
  add(1, {.offset = 0, .sizes = {2, 3}, .strides = {3, 1}}, {5});  // beside other recorded bytes
  add(2, {.offset = 0, .sizes = {2, 3}, .strides = {3, 1}}, {0});
  add(1, {.offset = 1, .sizes = {2, 3}, .strides = {3, 1}}, {0});
  add(1, {.offset = 0, .sizes = {2, 3}, .strides = {3, 1}}, {0});
  const OutputTensors shown = output_tensors(program);
  ASSERT_EQ(shown.outputs.size(), 6u);
  EXPECT_EQ(shown.outputs[2], &program.outputs[3]);
  EXPECT_THAT(shown.first_alike, ElementsAre(0, 1, 0, 3, 4, 0));
}

TEST(Queries, OverlapIsNeverMissed) {
  std::mt19937_64 random(2);
  const auto view = [&] {
    View v{static_cast<std::int64_t>(random() % 30), {}, {}};
    for (std::size_t rank = random() % 4; rank-- > 0;) {
      v.sizes.push_back(static_cast<std::int64_t>(random() % 5));
      v.strides.push_back(static_cast<std::int64_t>(random() % 13));
    }
    return v;
  };
  std::size_t disjoint = 0, proven = 0;
  for (int i = 0; i < 100000; ++i) {
    const View a = view(), b = view();
    const bool share = share_elements(a, b);
    ASSERT_TRUE(!share || may_overlap(a, b));
    ASSERT_EQ(may_overlap(a, b), may_overlap(b, a));
    disjoint += !share;
    proven += !may_overlap(a, b);
  }
  EXPECT_GT(proven, disjoint * 8 / 10) << "of " << disjoint;
}

TEST(Queries, OverlapOfBlocksIsExact) {
  std::mt19937_64 random(3);
  std::size_t disjoint = 0;
  for (int i = 0; i < 20000; ++i) {
    // Two blocks of one row-major array, dimensions in any order, sometimes with steps of one over a dimension's part.
    const std::vector<std::int64_t> sides = {1 + static_cast<std::int64_t>(random() % 4),
                                             1 + static_cast<std::int64_t>(random() % 5),
                                             1 + static_cast<std::int64_t>(random() % 6)};
    const View whole = View::contiguous(sides);
    const auto block = [&] {
      View v;
      for (const std::size_t d : {std::size_t{2}, std::size_t{0}, std::size_t{1}}) {
        const auto low = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(sides[d]));
        v.offset += low * whole.strides[d];
        v.sizes.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(sides[d] - low)));
        v.strides.push_back(whole.strides[d]);
      }
      return v;
    };
    const View a = block(), b = block();
    ASSERT_EQ(may_overlap(a, b), share_elements(a, b));
    disjoint += !share_elements(a, b);
  }
  EXPECT_GT(disjoint, 2000u);
}

TEST(Queries, AliasSetsAreTheComponentsOfOverlap) {
  for (const Program& p : programs()) {
    const auto sets = alias_sets(p);
    std::map<std::pair<OpId, std::uint32_t>, std::size_t> set_of;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      ASSERT_FALSE(sets[s].uses.empty());
      for (const Use& use : sets[s].uses) {
        ASSERT_EQ(p.ops[use.op].inputs[use.input].value, sets[s].value);
        ASSERT_TRUE(set_of.emplace(std::pair{use.op, use.input}, s).second) << "in two sets";
      }
    }
    std::vector<Use> uses;
    for (OpId op = 0; op < p.ops.size(); ++op) {
      for (std::uint32_t i = 0; i < p.ops[op].inputs.size(); ++i) {
        if (p.ops[op].inputs[i].is_scalar()) continue;
        uses.push_back({op, i});
        ASSERT_TRUE(set_of.contains({op, i})) << "in no set";
      }
    }
    for (const Use& a : uses) {
      // What is reached from `a` step by step, and nothing else, is in its set.
      std::vector<Use> reached = {a};
      for (std::size_t next = 0; next < reached.size(); ++next) {
        const Operand& here = p.ops[reached[next].op].inputs[reached[next].input];
        for (const Use& b : uses) {
          const Operand& there = p.ops[b.op].inputs[b.input];
          const bool meets = here.value == there.value && may_overlap(here.view, there.view);
          if (meets && std::ranges::find(reached, b) == reached.end()) reached.push_back(b);
        }
      }
      ASSERT_EQ(sets[set_of.at({a.op, a.input})].uses.size(), reached.size());
      for (const Use& b : reached) ASSERT_EQ(set_of.at({a.op, a.input}), set_of.at({b.op, b.input}));
    }
  }
}

Operand whole(ValueId value, std::vector<std::int64_t> sizes) {
  return {value, View::contiguous(std::move(sizes)), {}};
}

TEST(Queries, WorkOfKnownOps) {
  Program p;
  p.iterations = 1;
  const auto temporary = [](std::int64_t elements, OpId producer) {
    return Value{ValueKind::kTemporary, DType::kF32, elements, "", producer};
  };
  p.values = {{ValueKind::kConstant, DType::kF32, 6, "a", kNone},
              {ValueKind::kConstant, DType::kBF16, 12, "b", kNone},
              {ValueKind::kConstant, DType::kF32, 2 * 3 * 5 * 5, "x", kNone},
              {ValueKind::kConstant, DType::kF32, 4 * 3 * 3 * 3, "w", kNone},
              temporary(8, 0),
              temporary(6, 1),
              temporary(2 * 4 * 3 * 3, 2),
              temporary(2, 3)};
  p.constants = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  Operand column{0, {0, {2, 3}, {0, 1}}, {}};  // the first three elements, twice
  Op product{OpKind::kMatMul, {whole(0, {2, 3}), whole(1, {3, 4})}, {whole(4, {2, 4})}, {}, kNone};
  Op sum{OpKind::kAdd, {column, whole(0, {2, 3})}, {whole(5, {2, 3})}, {}, kNone};
  Op convolution{
      OpKind::kConv2d, {whole(2, {2, 3, 5, 5}), whole(3, {4, 3, 3, 3})}, {whole(6, {2, 4, 3, 3})}, {}, kNone};
  Op rows{OpKind::kReduceMax, {whole(0, {2, 3})}, {{7, {0, {2, 1}, {1, 0}}, {}}}, {}, kNone};
  rows.attributes.dims = {1};
  p.ops = {product, sum, convolution, rows};
  EXPECT_EQ(work(p, 0).flops, 2u * 2 * 4 * 3);
  EXPECT_EQ(work(p, 0).bytes_read, 6u * 4 + 12u * 2);
  EXPECT_EQ(work(p, 0).bytes_written, 8u * 4);
  EXPECT_EQ(work(p, 1).flops, 6u);
  EXPECT_EQ(work(p, 1).bytes_read, 3u * 4 + 6u * 4);
  EXPECT_EQ(work(p, 2).flops, 2u * (2 * 4 * 3 * 3) * (3 * 3 * 3));
  EXPECT_EQ(work(p, 3).flops, 6u);
  EXPECT_EQ(work(p, 3).bytes_written, 2u * 4);
  EXPECT_THAT(flop_weights(p), ElementsAre(48, 6, 3888, 6));
  EXPECT_THAT(critical_path(p, flop_weights(p)).ops, ElementsAre(2));
}

TEST(Queries, BytesReadAreTheDistinctElements) {
  // Where no two indices of a view but those along stride 0 name one element, its distinct elements are counted
  // exactly.
  for (const Program& p : programs()) {
    for (OpId op = 0; op < p.ops.size(); ++op) {
      std::uint64_t wanted = 0;
      bool exact = true;
      for (const Operand& input : p.ops[op].inputs) {
        if (input.is_scalar()) continue;
        View moving = input.view;
        for (std::size_t d = 0; d < moving.sizes.size(); ++d)
          moving.sizes[d] = moving.strides[d] == 0 && moving.sizes[d] > 1 ? 1 : moving.sizes[d];
        exact = exact && is_injective(moving);
        wanted += as_set(indices(input.view)).size() * size_bytes(p.values[input.value].dtype);
      }
      if (exact) {
        ASSERT_EQ(work(p, op).bytes_read, wanted);
      }
    }
  }
}

TEST(Queries, EmptyProgram) {
  const Program p;
  EXPECT_THAT(critical_path(p).ops, IsEmpty());
  EXPECT_EQ(readers(p).size(), 0u);
  EXPECT_EQ(dependences(p).before.size(), 0u);
  EXPECT_THAT(alias_sets(p), IsEmpty());
}

}  // namespace
}  // namespace crucible::graph
