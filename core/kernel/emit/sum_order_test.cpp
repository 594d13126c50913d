// Strict sums have the order that docs/numerics.md names for their logical shape, whatever the layout of their operand.
// The order is written down here once more, from the document: element by element, with nothing of the kernels' loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "core/graph/passes.hpp"
#include "core/kernel/fuse/nest.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

struct Case {
  Sizes sizes, dims;
  std::vector<std::size_t> memory;  // the order of the dimensions in memory, outermost first; empty: as they are
  OpKind kind = OpKind::kReduceSum;
  DType dtype = DType::kF32;
};

std::string describe(const Case& c) {
  return fmt::format("{} of [{}] over [{}], memory [{}], {}", graph::name(c.kind), fmt::join(c.sizes, " "),
                     fmt::join(c.dims, " "), fmt::join(c.memory, " "), name(c.dtype));
}

/// How the terms of one result are taken: by chains or as trees, block by block.
struct Order {
  std::int64_t chains, blocks, places;
};

Order order_of(const Case& c) {
  Sizes sizes;
  std::vector<bool> reduced;
  for (std::size_t d = 0; d < c.sizes.size(); ++d) {
    if (c.sizes[d] == 1) continue;
    sizes.push_back(c.sizes[d]);
    reduced.push_back(std::ranges::count(c.dims, static_cast<std::int64_t>(d)) > 0);
  }
  std::int64_t terms = 1, last = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (reduced[d]) terms *= last = sizes[d];
  }
  if (!reduced.back()) {
    const std::int64_t tree = last % 4 == 0 ? 4 : 1;
    return {1, terms / tree, tree};
  }
  std::int64_t places = 1;
  for (std::size_t d = sizes.size(); d-- > 0 && reduced[d];) {
    if (places * sizes[d] <= 4096) {
      places *= sizes[d];
      continue;
    }
    std::int64_t part = 1;
    for (std::int64_t divisor = 1; divisor <= sizes[d]; ++divisor) {
      if (sizes[d] % divisor == 0 && places * divisor <= 4096) part = divisor;
    }
    if (places * part >= 256) {
      places *= part;
    } else {
      places *= sizes[d];
    }
    break;
  }
  std::int64_t chains = 2;
  while (chains < places && chains < 32) chains *= 2;
  return {chains, terms / places, places};
}

template <class T>
T in_order(const Case& c, const std::vector<T>& terms) {
  const auto join = [&](T a, T b) { return c.kind == OpKind::kReduceSum ? a + b : a * b; };
  const T neutral = c.kind == OpKind::kReduceSum ? T(0) : T(1);
  const Order order = order_of(c);
  const auto at = [&](std::int64_t block, std::int64_t place) {
    return terms[static_cast<std::size_t>(block * order.places + place)];
  };
  if (order.chains == 1) {
    T sum = neutral;
    for (std::int64_t b = 0; b < order.blocks; ++b) {
      sum = join(sum, order.places == 1 ? at(b, 0) : join(join(at(b, 0), at(b, 1)), join(at(b, 2), at(b, 3))));
    }
    return sum;
  }
  std::vector<T> totals(static_cast<std::size_t>(order.chains), neutral);
  for (std::int64_t b = 0; b < order.blocks; ++b) {
    std::vector<T> part(totals.size(), neutral);
    for (std::int64_t p = 0; p < order.places; ++p) {
      T& chain = part[static_cast<std::size_t>(p % order.chains)];
      chain = join(chain, at(b, p));
    }
    for (std::size_t i = 0; i < part.size(); ++i) totals[i] = order.blocks == 1 ? part[i] : join(totals[i], part[i]);
  }
  for (std::size_t width = totals.size() / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) totals[i] = join(totals[i], totals[i + width]);
  }
  return totals[0];
}

/// A case whose terms are taken in parts first: a part's terms, neighbours in the order of all, and what is left to do
/// with the parts' results.
struct Parts {
  std::int64_t terms = 0;
  Case part, rest;
};

std::optional<Parts> parts_of(const Case& c) {
  const auto is_reduced = [&](std::size_t d) { return std::ranges::count(c.dims, static_cast<std::int64_t>(d)) > 0; };
  std::int64_t results = 1, terms = 1, last = 1;
  bool by_rows = false;
  for (std::size_t d = 0; d < c.sizes.size(); ++d) {
    if (c.sizes[d] == 1) continue;
    (is_reduced(d) ? terms : results) *= c.sizes[d];
    by_rows = is_reduced(d);
    last = by_rows ? last * c.sizes[d] : 1;
  }
  std::int64_t about = 0;
  if (results == 1 && terms >= 16384) {
    about = std::clamp<std::int64_t>(terms / 4096, 1024, 16384);
  } else if (by_rows && results < 1024 &&
             (terms >= 8192 || (terms >= 4096 && results >= 16) ||
              (terms >= 2048 && results >= 16 && terms * results >= 524288 && terms >= 4 * last))) {
    about = std::clamp<std::int64_t>(results * (terms / 4096), 1024, 16384);
  } else if (!by_rows && results < 32768 && terms >= 128) {
    const std::int64_t parts = std::min<std::int64_t>(terms / 64, std::max<std::int64_t>(2, 131072 / results));
    about = (terms + parts - 1) / parts;
  } else {
    return std::nullopt;
  }
  Parts parts{1, c, c};
  for (std::size_t d = c.sizes.size(); d-- > 0;) {
    if (!is_reduced(d)) continue;
    if (parts.terms * c.sizes[d] <= about) {
      parts.terms *= c.sizes[d];
      parts.rest.sizes[d] = 1;
      continue;
    }
    std::int64_t most = 0, next = 0;
    for (std::int64_t f = c.sizes[d]; f > 0; --f) {
      if (c.sizes[d] % f != 0) continue;
      if (most == 0 && parts.terms * f <= about) most = f;
      if (parts.terms * f > about && parts.terms * f <= 4 * about) next = f;
    }
    if (8 * parts.terms * most < about && next != 0) most = next;
    if (8 * parts.terms * most < about) return std::nullopt;
    parts.terms *= most;
    parts.part.sizes[d] = most;
    parts.rest.sizes[d] = c.sizes[d] / most;
    for (std::size_t outer = 0; outer < d; ++outer) {  // kept in a part: they count parts
      if (is_reduced(outer)) std::erase(parts.part.dims, static_cast<std::int64_t>(outer));
    }
    if (parts.terms == terms) return std::nullopt;
    // What is left: kept dimensions in front of all that count parts, or behind them.
    Case rest = parts.rest;
    rest.sizes.clear();
    rest.dims.clear();
    for (const bool reduced_ones : {!by_rows, by_rows}) {
      for (std::size_t i = 0; i < c.sizes.size(); ++i) {
        if (is_reduced(i) != reduced_ones) continue;
        if (reduced_ones) rest.dims.push_back(static_cast<std::int64_t>(rest.sizes.size()));
        rest.sizes.push_back(parts.rest.sizes[i]);
      }
    }
    parts.rest = rest;
    return parts;
  }
  return std::nullopt;
}

/// All terms of one result, in parts where they are many.
template <class T>
T in_parts(const Case& c, const std::vector<T>& terms) {
  const auto parts = parts_of(c);
  if (!parts) return in_order(c, terms);
  std::vector<T> results;
  for (auto at = terms.begin(); at != terms.end(); at += parts->terms)
    results.push_back(in_parts(parts->part, std::vector<T>(at, at + parts->terms)));
  return in_parts(parts->rest, results);
}

template <class T>
T read(const graph::Bytes& bytes, std::int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

/// The next point of a box; false behind the last.
bool advance(Sizes& point, const Sizes& sizes) {
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (++point[d] < sizes[d]) return true;
    point[d] = 0;
  }
  return false;
}

/// Terms of each result, in the row-major order of the logical shape; results in the order of the kept dimensions.
template <class T>
std::vector<std::vector<T>> terms_of(const Case& c, const Operand& x, const graph::Bytes& bytes) {
  Sizes kept = c.sizes, reduced = c.sizes;
  for (std::size_t d = 0; d < c.sizes.size(); ++d) {
    (std::ranges::count(c.dims, static_cast<std::int64_t>(d)) > 0 ? kept : reduced)[d] = 1;
  }
  std::vector<std::vector<T>> all;
  Sizes row(kept.size(), 0);
  do {
    std::vector<T>& terms = all.emplace_back();
    Sizes point(reduced.size(), 0);
    do {
      std::int64_t at = x.view.offset;
      for (std::size_t d = 0; d < point.size(); ++d) at += (row[d] + point[d]) * x.view.strides[d];
      terms.push_back(read<T>(bytes, at));
    } while (advance(point, reduced));
  } while (advance(row, kept));
  return all;
}

Operand operand_of(TestProgram& t, const Case& c) {
  if (c.memory.empty()) return t.input(c.dtype, c.sizes);
  Sizes stored;
  std::vector<std::size_t> back(c.sizes.size());
  for (std::size_t i = 0; i < c.memory.size(); ++i) {
    stored.push_back(c.sizes[c.memory[i]]);
    back[c.memory[i]] = i;
  }
  return permuted(t.input(c.dtype, stored), back);
}

template <class T>
void expect_bits(const Case& c) {
  SCOPED_TRACE(describe(c));
  TestProgram t(static_cast<std::uint64_t>(c.sizes.back() * 31 + static_cast<std::int64_t>(c.sizes.size())));
  const Operand x = operand_of(t, c), sum = t.reduce(c.kind, x, c.dims);
  t.keep(sum);
  graph::split_whole_reductions(t.program);
  const auto prepared = prepare(t.program, {.claims = nullptr, .numerics = Numerics::kStrict});
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto kernels = HostKernels::compile({&prepared->schedule});
  ASSERT_TRUE(kernels) << kernels.error().message;
  const graph::Program& program = prepared->program ? *prepared->program : t.program;
  std::vector<graph::Bytes> values = t.values;
  values.resize(program.values.size());
  const auto got = run_on_host(program, prepared->schedule, *kernels, values, t.slots, {.pieces = 2});
  ASSERT_TRUE(got) << got.error().message;
  const auto rows = terms_of<T>(c, x, t.values[x.value]);
  std::size_t different = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const T want = in_parts(c, rows[i]), found = read<T>((*got)[sum.value], static_cast<std::int64_t>(i));
    different += std::memcmp(&want, &found, sizeof(T)) != 0;
  }
  EXPECT_EQ(different, 0u) << "of " << rows.size();
}

void expect_bits_of(const Case& c) {
  if (c.dtype == DType::kF64) return expect_bits<double>(c);
  expect_bits<float>(c);
}

TEST(SumOrder, IsTheNamedOneForEveryShapeAndLayout) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const Case& c : {
           Case{{5, 1000}, {1}, {}},
           Case{{5, 32}, {1}, {}},
           Case{{7, 10}, {1}, {}},
           Case{{3, 31}, {1}, {}},
           Case{{3, 33}, {1}, {}},
           Case{{3, 2}, {1}, {}},
           Case{{4, 6, 7, 7}, {0, 2, 3}, {}},             // a batch norm's statistics
           Case{{4, 6, 7, 7}, {0, 2, 3}, {0, 2, 3, 1}},   // the same with channels last
           Case{{4, 6, 8, 12}, {0, 2, 3}, {0, 3, 2, 1}},  // columns lie before rows: no vector of chains
           Case{{2, 50257}, {1}, {}},                     // 29 * 1733: divided into blocks
           Case{{2, 8191}, {1}, {}},                      // a prime: one block
           Case{{100000}, {0}, {}},
           Case{{3, 70, 90}, {0, 1, 2}, {}},  // a block ends inside of the second dimension
           Case{{3, 70, 90}, {0, 1, 2}, {2, 0, 1}},
           Case{{64, 160}, {0}, {}},  // columns
           Case{{63, 160}, {0}, {}},
           Case{{64, 160}, {0}, {1, 0}},  // columns that lie in memory as rows
           Case{{6, 8, 5, 16}, {0, 2}, {}},
           Case{{6, 5, 8, 16}, {0, 2}, {3, 2, 1, 0}},
           Case{{9, 1, 40}, {0, 1, 2}, {}},
           Case{{40, 9, 1}, {0}, {}},
           Case{{3, 96}, {1}, {}, OpKind::kReduceProduct},
           Case{{96, 3}, {0}, {}, OpKind::kReduceProduct},
           Case{{5, 777}, {1}, {}, OpKind::kReduceSum, DType::kF64},
           Case{{4096, 40}, {0}, {}},  // slabs of columns, twice
           Case{{4096, 40}, {0}, {1, 0}},
           Case{{1024, 3, 50}, {0}, {}},
           Case{{40, 24, 96}, {0, 1}, {}},  // a slab ends inside of the inner dimension
           Case{{257, 33}, {0}, {}},        // a prime: one slab
           Case{{3, 20000}, {1}, {}},
           Case{{20, 5000}, {1}, {}},
           Case{{20, 5003}, {1}, {}},            // a prime: one part
           Case{{8, 6, 40, 40}, {0, 2, 3}, {}},  // a batch norm's statistics of large pictures
           Case{{8, 6, 40, 40}, {0, 2, 3}, {0, 2, 3, 1}},
           Case{{16, 256, 14, 14}, {0, 2, 3}, {}},  // of many channels of smaller ones, too
           Case{{2, 300, 41, 41}, {0, 2, 3}, {}},   // each picture of these is long enough for itself
           Case{{900, 1100}, {0, 1}, {}},           // parts of parts
           Case{{2048, 6}, {0}, {}, OpKind::kReduceProduct},
           Case{{640, 9}, {0}, {}, OpKind::kReduceSum, DType::kF64},
           Case{{52, 9}, {0}, {}, OpKind::kReduceSum, DType::kF64},
       }) {
    expect_bits_of(c);
  }
}

TEST(SumOrder, IsTheNamedOneForRandomShapes) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int i = 0; i < 40; ++i) {
    const std::size_t rank = 1 + below(4);
    Case c{.sizes = {}, .dims = {}, .memory = {}};
    for (std::size_t d = 0; d < rank; ++d) {
      c.sizes.push_back(std::vector<std::int64_t>{1, 2, 3, 7, 16, 31, 32, 33, 48, 64, 100, 200}[below(12)]);
      c.memory.push_back(d);
    }
    std::ranges::shuffle(c.memory, random);
    for (std::size_t d = 0; d < rank; ++d) {
      if (below(2) == 0 && c.sizes[d] > 1) c.dims.push_back(static_cast<std::int64_t>(d));
    }
    if (!c.dims.empty()) expect_bits_of(c);
  }
}

/// One operand, the same elements, the dimensions the other way round: two orders, which one kernel cannot have.
TEST(SumOrder, SumsOfDifferentOrdersAreNotJoined) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  for (const auto& [sizes, dims] : {std::pair(Sizes{48, 80}, Sizes{0, 1}), std::pair(Sizes{48, 80, 6}, Sizes{0, 1})}) {
    TestProgram t(3);
    const Operand x = t.input(DType::kF32, sizes);
    std::vector<std::size_t> order{1, 0};
    if (sizes.size() == 3) order.push_back(2);
    const Operand across = t.reduce(OpKind::kReduceSum, permuted(x, order), dims);
    t.keep(t.reduce(OpKind::kReduceSum, x, dims));
    t.keep(across);
    for (const std::string& failure : run_and_compare({&t}, nullptr, Numerics::kStrict)) ADD_FAILURE() << failure;
  }
}

TEST(SumOrder, SumsOfIntegersAndMaximaNameNone) {
  TestProgram t(1);
  t.keep(t.reduce(OpKind::kReduceMax, t.input(DType::kF32, {5, 100}), {1}));
  t.keep(t.reduce(OpKind::kReduceSum, t.input(DType::kI64, {5, 100}, 0, 9), {1}));
  for (graph::OpId op = 0; op < t.program.ops.size(); ++op) {
    EXPECT_EQ(make_group(t.program, op, Numerics::kStrict)->order(), nullptr) << op;
  }
}

}  // namespace
}  // namespace crucible::kernel
