// Epilogues of products: what joins and what does not, and that no bit changes: each program with epilogues, without
// them and with a kernel per op, compiled and interpreted.
#include "core/kernel/fuse/epilogue.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "core/graph/view.hpp"
#include "core/kernel/schedule_check.hpp"
#include "core/kernel/testing/test_program.hpp"

namespace crucible::kernel {
namespace {

using graph::Operand;
using graph::OpKind;

/// `cut`: of the products' ways to be cut. `lanes`: of the device.
Schedule scheduled(const TestProgram& t, bool epilogues = true, Numerics numerics = Numerics::kFast, bool fuse = true,
                   std::size_t cut = 0, int lanes = 1) {
  const DeviceShape device{.workers = 2, .register_bytes = 2048, .lanes = lanes, .cut = cut};
  Result<Schedule> made =
      schedule(t.program, {.fuse = fuse, .numerics = numerics, .epilogues = epilogues, .device = device});
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  const auto checked = check_schedule(t.program, *made);
  EXPECT_TRUE(checked) << checked.error().message;
  return *std::move(made);
}

/// The step that makes a value.
const Step& step_of(const TestProgram& t, const Schedule& schedule, const Operand& made) {
  const graph::OpId op = t.program.values[made.value].producer;
  return *std::ranges::find_if(schedule.steps,
                               [&](const Step& step) { return std::ranges::find(step.ops, op) != step.ops.end(); });
}

bool is_one_step(const TestProgram& t, const Operand& a, const Operand& b) {
  const Schedule made = scheduled(t);
  return &step_of(t, made, a) == &step_of(t, made, b);
}

/// Numbers from a seed.
class Dice {
 public:
  /// `jumps`: programs may have ops whose results jump: the last bit of a product then decides about more than a bit.
  explicit Dice(std::uint64_t seed, bool jumps = true) : jumps(jumps), state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  const bool jumps;
  std::size_t below(std::size_t count) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>(state_ >> 33) % count;
  }
  template <class T, std::size_t n>
  T one_of(const std::array<T, n>& list) {
    return list[below(n)];
  }

 private:
  std::uint64_t state_;
};

/// Every state's end and output has equal bits in all runs.
void expect_equal_bits(const std::deque<TestProgram>& programs, Numerics numerics) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::deque<std::array<Schedule, 3>> made;
  std::vector<const Schedule*> all;
  for (const TestProgram& t : programs) {
    auto& three =
        made.emplace_back(std::array{scheduled(t, true, numerics, true, made.size() % 5, made.size() % 3 == 2 ? 32 : 1),
                                     scheduled(t, false, numerics), scheduled(t, false, numerics, false)});
    for (const Schedule& one : three) all.push_back(&one);
  }
  const auto kernels = HostKernels::compile(all);
  ASSERT_TRUE(kernels) << kernels.error().message;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const TestProgram& t = programs[i];
    const auto want = run_on_host(t.program, made[i][2], *kernels, t.values, t.slots, {});
    ASSERT_TRUE(want) << want.error().message;
    const auto expect_same = [&](const Result<std::vector<graph::Bytes>>& got, const char* what) {
      ASSERT_TRUE(got) << what << ": " << got.error().message << "\n" << graph::to_text(t.program);
      std::vector<graph::ValueId> kept;
      for (const auto& state : t.program.states) kept.push_back(state.end);
      for (const auto& output : t.program.outputs) kept.push_back(output.operand.value);
      for (const graph::ValueId value : kept)
        ASSERT_TRUE((*got)[value] == (*want)[value]) << "program " << i << ", " << what << ", value %" << value << "\n"
                                                     << graph::to_text(t.program);
    };
    for (std::size_t s = 0; s < 2; ++s) {
      const char* const what = s == 0 ? "with epilogues" : "without";
      expect_same(run_on_host(t.program, made[i][s], *kernels, t.values, t.slots, {}), what);
      expect_same(run_on_host(t.program, made[i][s], *kernels, t.values, t.slots, {.in_place = true, .pieces = 3}),
                  what);
    }
    const auto interpreter = ScheduleInterpreter::create(t.program, made[i][0]);
    ASSERT_TRUE(interpreter) << interpreter.error().message;
    expect_same(interpreter->run(t.program, made[i][0], t.values, t.slots, {.in_place = true, .pieces = 2}, true),
                "interpreted");
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// ---- random chains behind a product ----

/// An operand of the sizes of `like`: of its own, along one dimension only, or lying the other way round.
Operand other_operand(TestProgram& t, Dice& dice, const Sizes& sizes, DType dtype) {
  const std::size_t rank = sizes.size();
  switch (dice.below(5)) {
    case 0: {  // a bias
      Sizes one(rank, 1);
      const std::size_t d = dice.below(rank);
      one[d] = sizes[d];
      return expanded(t.input(dtype, one), sizes);
    }
    case 1: {
      std::vector<std::size_t> order(rank);
      for (std::size_t d = 0; d < rank; ++d) order[d] = d;
      std::swap(order[rank - 1], order[rank - 2]);
      Sizes turned = sizes;
      std::swap(turned[rank - 1], turned[rank - 2]);
      return permuted(t.input(dtype, turned), order);
    }
    default:
      return t.input(dtype, sizes);
  }
}

/// Element-wise ops on `x`, some of whose results are kept.
void add_chain(TestProgram& t, Dice& dice, Operand x, const Sizes& sizes, DType dtype) {
  const std::size_t length = 1 + dice.below(6);
  Operand first = x;
  for (std::size_t i = 0; i < length; ++i) {
    std::size_t kind = dice.below(9);
    if (!dice.jumps && (kind == 5 || kind == 6)) kind = 0;
    switch (kind) {
      case 0:
      case 1:
        x = t.op(OpKind::kAdd, {x, other_operand(t, dice, sizes, dtype)}, sizes, dtype);
        break;
      case 2:
        x = t.op(OpKind::kMultiply, {x, t.slot(0.7)}, sizes, dtype);
        break;
      case 3:
        x = t.op(OpKind::kTanh, {x}, sizes, dtype);
        break;
      case 4:
        x = t.op(OpKind::kMaximum, {x, t.scalar(0)}, sizes, dtype);
        break;
      case 5: {
        const Operand mask = t.op(OpKind::kLess, {x, other_operand(t, dice, sizes, dtype)}, sizes, DType::kBool);
        x = t.op(OpKind::kSelect, {mask, x, first}, sizes, dtype);
        break;
      }
      case 6: {  // rounded on the way
        const Operand narrow = t.op(OpKind::kCopy, {x}, sizes, DType::kBF16);
        x = t.op(OpKind::kAdd, {narrow, x}, sizes, dtype);
        break;
      }
      case 7: {  // an update of a state
        const Operand p = t.state(dtype, sizes);
        const Operand next =
            t.op(OpKind::kSubtract, {p, t.op(OpKind::kMultiply, {x, t.slot(0.1)}, sizes, dtype)}, sizes, dtype);
        t.end_state(p, next);
        x = next;
        break;
      }
      default: {
        graph::Attributes along;
        along.dims = {static_cast<std::int64_t>(dice.below(sizes.size()))};
        const Operand place = t.op(OpKind::kCoordinate, {}, sizes, DType::kI64, along);
        x = t.op(OpKind::kMultiply, {x, place}, sizes, dtype);
      }
    }
    if (dice.below(4) == 0) t.keep(x);
  }
  t.keep(x);
  if (dice.below(3) == 0) t.keep(t.op(OpKind::kSin, {first}, sizes, dtype));  // a second reader
  if (dice.below(4) == 0) t.keep(first);
}

constexpr std::array<std::int64_t, 18> kLengths = {1,  2,  5,  11, 12, 13, 15, 16, 17,
                                                   24, 31, 32, 33, 47, 64, 65, 97, 130};
constexpr std::array<std::int64_t, 9> kSteps = {1, 3, 16, 31, 255, 256, 257, 300, 513};
constexpr std::array<DType, 6> kTypes = {DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kBF16, DType::kF64};

Operand turned(TestProgram& t, DType dtype, const Sizes& sizes, bool across) {
  if (!across) return t.input(dtype, sizes);
  return permuted(t.input(dtype, {sizes[0], sizes[2], sizes[1]}), {0, 2, 1});
}

void add_random_product(TestProgram& t, Dice& dice) {
  const std::int64_t batch = dice.below(3) == 0 ? 3 : 1, m = dice.one_of(kLengths), n = dice.one_of(kLengths),
                     k = dice.one_of(kSteps);
  const DType dtype = dice.one_of(kTypes);
  graph::Attributes attributes;
  if (dice.below(4) == 0) attributes.alpha = 0.3;
  const Operand a = turned(t, dtype, {batch, m, k}, dice.below(2) == 0),
                b = turned(t, dtype, {batch, k, n}, dice.below(2) == 0);
  Operand product = t.op(OpKind::kMatMul, {a, b}, {batch, m, n}, dtype, attributes);
  if (dice.below(5) == 0) {  // lies across in memory
    graph::View& view = t.program.ops.back().outputs[0].view;
    view.strides = {m * n, 1, m};
    product.view = view;
  }
  switch (dice.below(5)) {
    case 0:
      return add_chain(t, dice, permuted(product, {0, 2, 1}), {batch, n, m}, dtype);
    case 1: {
      const auto flat = graph::reshaped(product.view, {batch * m * n});
      if (flat && batch == 1)
        return add_chain(t, dice, {product.value, {flat->offset, {1, m * n}, {0, 1}}, {}}, {1, m * n}, dtype);
      break;
    }
    case 2:
      if (n % 32 == 0) {  // heads
        const auto heads = graph::reshaped(product.view, {batch * m, n / 32, 32});
        if (heads)
          return add_chain(t, dice, permuted({product.value, *heads, {}}, {1, 0, 2}), {n / 32, batch * m, 32}, dtype);
      }
      break;
    default:
      break;
  }
  add_chain(t, dice, product, {batch, m, n}, dtype);
}

void add_random_convolution(TestProgram& t, Dice& dice) {
  const std::int64_t groups = dice.below(4) == 0 ? 2 : 1, kernel = dice.below(2) == 0 ? 1 : 3,
                     stride = 1 + static_cast<std::int64_t>(dice.below(2));
  const std::int64_t images = 1 + static_cast<std::int64_t>(dice.below(3)),
                     channels = groups * (4 + static_cast<std::int64_t>(dice.below(10)));
  const std::int64_t outputs = groups * (4 + static_cast<std::int64_t>(dice.below(12)));
  constexpr std::array<std::int64_t, 6> kSides = {4, 7, 8, 10, 13, 16};
  const std::int64_t height = dice.one_of(kSides), width = dice.one_of(kSides), padding = kernel / 2;
  const auto out = [&](std::int64_t in) { return (in + 2 * padding - kernel) / stride + 1; };
  const DType dtype = dice.below(4) == 0 ? DType::kBF16 : DType::kF32;
  graph::Attributes a;
  a.groups = groups;
  for (int d = 0; d < 2; ++d) a.stride[d] = stride, a.padding[d] = padding, a.dilation[d] = 1;
  const Sizes x{images, channels, height, width}, w{outputs, channels / groups, kernel, kernel},
      y{images, outputs, out(height), out(width)};
  switch (dice.below(3)) {
    case 0:
      return add_chain(t, dice, t.op(OpKind::kConv2d, {t.input(dtype, x), t.input(dtype, w)}, y, dtype, a), y, dtype);
    case 1:
      return add_chain(t, dice, t.op(OpKind::kConv2dBackwardInput, {t.input(dtype, y), t.input(dtype, w)}, x, dtype, a),
                       x, dtype);
    default:
      return add_chain(
          t, dice, t.op(OpKind::kConv2dBackwardWeight, {t.input(dtype, y), t.input(dtype, x)}, w, dtype, a), w, dtype);
  }
}

class RandomEpilogues : public ::testing::TestWithParam<int> {};

std::deque<TestProgram> random_programs(int batch, std::size_t* joined, bool jumps = true) {
  constexpr int kPrograms = 10;
  std::deque<TestProgram> programs;
  for (int i = 0; i < kPrograms; ++i) {
    const auto seed = static_cast<std::uint64_t>(batch * kPrograms + i);
    Dice dice(seed, jumps);
    TestProgram& t = programs.emplace_back(seed);
    i % 3 == 2 ? add_random_convolution(t, dice) : add_random_product(t, dice);
    const Schedule made = scheduled(t);
    *joined += std::ranges::count_if(made.steps, [&](const Step& step) {
      return step.ops.size() > 1 &&
             std::ranges::any_of(step.ops, [&](graph::OpId op) { return takes_epilogue(t.program, op); });
    });
  }
  return programs;
}

TEST_P(RandomEpilogues, ChangeNoBit) {
  std::size_t joined = 0;
  const std::deque<TestProgram> programs = random_programs(GetParam(), &joined);
  EXPECT_GE(joined, 3u) << "of ten programs";
  expect_equal_bits(programs, Numerics::kFast);
  expect_equal_bits(programs, Numerics::kStrict);
}

TEST_P(RandomEpilogues, AgreeWithTheReference) {
  if (HostKernels::compiler().empty()) GTEST_SKIP() << "no clang";
  std::size_t joined = 0;
  const std::deque<TestProgram> programs = random_programs(1000 + GetParam(), &joined, false);
  std::vector<const TestProgram*> list;
  for (const TestProgram& t : programs) list.push_back(&t);
  for (const std::string& failure : run_and_compare(list)) ADD_FAILURE() << failure;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomEpilogues, ::testing::Range(0, 6));

// ---- what joins ----

TEST(Epilogue, TakesBiasAndActivation) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {24, 40}), w = t.input(DType::kF32, {40, 48}),
                bias = t.input(DType::kF32, {1, 48});
  const Operand product = t.op(OpKind::kMatMul, {x, w}, {24, 48});
  const Operand sum = t.op(OpKind::kAdd, {product, expanded(bias, {24, 48})}, {24, 48});
  const Operand y = t.op(OpKind::kTanh, {sum}, {24, 48});
  t.keep(y);
  t.keep(sum);  // read elsewhere: stored on the way
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 1u);
  EXPECT_EQ(made.steps[0].ops.size(), 3u);
  EXPECT_FALSE(made.materialized[product.value]) << "nobody reads the product itself";
  EXPECT_TRUE(made.materialized[sum.value]);
  EXPECT_EQ(scheduled(t, false).steps.size(), 2u);
  EXPECT_EQ(scheduled(t, true, Numerics::kStrict).steps.size(), 1u);
}

TEST(Epilogue, TakesBiasAndReluOfAConvolution) {
  TestProgram t;
  graph::Attributes a;
  for (int d = 0; d < 2; ++d) a.padding[d] = 1;
  const Sizes y{2, 8, 9, 9};
  const Operand conv = t.op(OpKind::kConv2d, {t.input(DType::kF32, {2, 6, 9, 9}), t.input(DType::kF32, {8, 6, 3, 3})},
                            y, DType::kF32, a);
  const Operand sum = t.op(OpKind::kAdd, {conv, expanded(t.input(DType::kF32, {1, 8, 1, 1}), y)}, y);
  const Operand residual = t.op(OpKind::kAdd, {sum, t.input(DType::kF32, y)}, y);
  t.keep(t.op(OpKind::kMaximum, {residual, t.scalar(0)}, y));
  EXPECT_EQ(scheduled(t).steps.size(), 1u);
}

/// The gradient is never in memory, and the weight and its moments are updated where they lie: after the product that
/// still reads the weight, though that comes later in the program.
TEST(Epilogue, UpdatesTheWeightInPlaceAfterItsLastReader) {
  TestProgram t;
  const Sizes size{32, 48};
  const Operand w = t.state(DType::kF32, size), m = t.state(DType::kF32, size);
  const Operand x = t.input(DType::kF32, {20, 48}), dy = t.input(DType::kF32, {20, 32});
  const Operand dw = t.op(OpKind::kMatMul, {permuted(dy, {1, 0}), x}, size);
  const Operand dx = t.op(OpKind::kMatMul, {dy, w}, {20, 48});
  t.keep(dx);
  const Operand moment = t.op(OpKind::kAdd, {t.op(OpKind::kMultiply, {m, t.slot(0.9)}, size), dw}, size);
  const Operand next = t.op(OpKind::kSubtract, {w, t.op(OpKind::kMultiply, {moment, t.slot(0.1)}, size)}, size);
  t.end_state(m, moment);
  t.end_state(w, next);
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 2u);
  EXPECT_EQ(&step_of(t, made, dw), &made.steps[1]);
  EXPECT_FALSE(made.materialized[dw.value]);
  EXPECT_EQ(made.in_place.size(), 2u);
}

/// Read across, it must stay until the last work item has read it.
TEST(Epilogue, UpdatesNoStateInPlaceThatIsReadElsewhere) {
  std::deque<TestProgram> programs(1);
  TestProgram& t = programs.front();
  const Operand w = t.state(DType::kF32, {40, 40}), x = t.input(DType::kF32, {40, 40});
  const Operand product = t.op(OpKind::kMatMul, {x, x}, {40, 40});
  t.end_state(w, t.op(OpKind::kSubtract, {product, permuted(w, {1, 0})}, {40, 40}));
  const Schedule made = scheduled(t);
  ASSERT_EQ(made.steps.size(), 1u);
  EXPECT_TRUE(made.in_place.empty());
  expect_equal_bits(programs, Numerics::kStrict);
}

TEST(Epilogue, OfTwoProductsTheLastTakesTheSum) {
  TestProgram t;
  const Operand x = t.input(DType::kF32, {40, 40});
  const Operand a = t.op(OpKind::kMatMul, {x, x}, {40, 40}), b = t.op(OpKind::kMatMul, {a, x}, {40, 40});
  const Operand sum = t.op(OpKind::kAdd, {a, b}, {40, 40});
  t.keep(sum);
  EXPECT_TRUE(is_one_step(t, sum, b));
  EXPECT_FALSE(is_one_step(t, sum, a));
}

TEST(Epilogue, TakesHeadsThatAreReadAsTheyLie) {
  TestProgram t;
  const Operand qkv =
      t.op(OpKind::kMatMul, {t.input(DType::kF32, {40, 24}), t.input(DType::kF32, {24, 128})}, {40, 128});
  const Operand heads = permuted(reshaped(qkv, {40, 2, 64}), {1, 0, 2});
  const Operand scaled = t.op(OpKind::kMultiply, {heads, t.scalar(0.125)}, {2, 40, 64});
  t.keep(scaled);
  EXPECT_TRUE(is_one_step(t, scaled, qkv));
}

// ---- what does not ----

Apart between(const TestProgram& t, const Operand& product, const Operand& reader, bool is_generated = true) {
  const IsGenerated generated = [&](graph::OpId) { return is_generated; };
  const auto units = join_epilogues(t.program, make_units(t.program, true, Numerics::kFast), generated);
  return epilogue_apart(t.program, units, generated, t.program.values[product.value].producer,
                        t.program.values[reader.value].producer);
}

struct Square {
  TestProgram t;
  Operand x, product;
  explicit Square(std::int64_t side = 64)
      : x(t.input(DType::kF32, {side, side})), product(t.op(OpKind::kMatMul, {x, x}, {side, side})) {}
};

TEST(Epilogue, NotOfWhatIsReadTwiceInDifferentPlaces) {
  Square s;
  const Operand sum = s.t.op(OpKind::kAdd, {s.product, permuted(s.product, {1, 0})}, {64, 64});
  s.t.keep(sum);
  EXPECT_EQ(scheduled(s.t).steps.size(), 2u);
  EXPECT_EQ(between(s.t, s.product, sum), Apart::kShape);
}

TEST(Epilogue, NotOfWhatGoesThroughAThirdStep) {
  Square s;
  const Operand norm = s.t.reduce(OpKind::kReduceSum, s.product, {0, 1});
  const Operand scaled = s.t.op(
      OpKind::kMultiply,
      {s.product, expanded(reshaped(s.t.op(OpKind::kMatMul, {norm, norm}, {1, 1}), {1, 1}), {64, 64})}, {64, 64});
  s.t.keep(scaled);
  EXPECT_EQ(between(s.t, s.product, scaled), Apart::kPath);
}

TEST(Epilogue, NotOfSums) {
  Square s;
  const Operand sum = s.t.reduce(OpKind::kReduceSum, s.product, {1});
  s.t.keep(sum);
  EXPECT_EQ(between(s.t, s.product, sum), Apart::kNotElementwise);
}

TEST(Epilogue, NotOfLibraryCalls) {
  Square s;
  const Operand y = s.t.op(OpKind::kTanh, {s.product}, {64, 64});
  s.t.keep(y);
  EXPECT_EQ(between(s.t, s.product, y, false), Apart::kLibraryProduct);
  int asked = 0;
  const auto claims = [&](const LibraryCall&) { return ++asked, true; };
  const auto made = schedule(s.t.program, {.claims = claims, .epilogues = true});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->steps.size(), 2u);
  EXPECT_EQ(asked, 1);
}

TEST(Epilogue, NotWhereOperandsLieAcrossUnlessFew) {
  for (const std::int64_t side : {32, 64}) {
    Square s(side);
    const Operand y =
        s.t.op(OpKind::kAdd, {s.product, permuted(s.t.input(DType::kF32, {side, side}), {1, 0})}, {side, side});
    s.t.keep(y);
    EXPECT_EQ(is_one_step(s.t, y, s.product), side == 32);
    if (side == 64) {
      EXPECT_EQ(between(s.t, s.product, y), Apart::kAcross);
    }
  }
}

TEST(Epilogue, NotWithMoreThan24Buffers) {
  Square s;
  Operand y = s.product;
  for (int i = 0; i < 24; ++i) y = s.t.op(OpKind::kAdd, {y, s.t.input(DType::kF32, {64, 64})}, {64, 64});
  s.t.keep(y);
  EXPECT_EQ(between(s.t, s.product, y), Apart::kBuffers);
}

TEST(Epilogue, NotOverAnOperandOfTheProduct) {
  TestProgram t;
  const Operand w = t.state(DType::kF32, {64, 64});
  const Operand product = t.op(OpKind::kMatMul, {w, w}, {64, 64});
  const Operand next = t.op(OpKind::kSubtract, {w, product}, {64, 64});
  t.end_state(w, next);
  EXPECT_EQ(between(t, product, next), Apart::kMemory);
}

/// A sum that waits for a long chain: with it, the operands of the product would wait too, and they are larger than its
/// result.
TEST(Epilogue, NotWhereMoreWouldHaveToWait) {
  TestProgram t;
  const Operand small = t.input(DType::kF32, {64, 64});
  const Operand a = t.op(OpKind::kSin, {t.input(DType::kF32, {64, 4096})}, {64, 4096}),
                b = t.op(OpKind::kCos, {t.input(DType::kF32, {4096, 64})}, {4096, 64});
  const Operand product = t.op(OpKind::kMatMul, {a, b}, {64, 64});
  Operand other = small;
  for (int i = 0; i < 3; ++i) {
    const Operand wide = t.op(OpKind::kMatMul, {other, t.input(DType::kF32, {64, 8192})}, {64, 8192});
    other = t.op(OpKind::kMatMul, {wide, t.input(DType::kF32, {8192, 64})}, {64, 64});
  }
  graph::Attributes along;
  along.dims = {1};
  const Operand through = t.op(OpKind::kScanSum, {other}, {64, 64}, DType::kF32, along);  // takes no epilogue itself
  const Operand sum = t.op(OpKind::kAdd, {product, through}, {64, 64});
  t.keep(sum);
  EXPECT_EQ(between(t, product, sum), Apart::kMemory);
}

}  // namespace
}  // namespace crucible::kernel
