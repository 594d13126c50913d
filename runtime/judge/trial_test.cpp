// Kernels whose text is not what their IR says: the compiler gets an edited text, so that each edit of it is a
// compiler's mistake.
#include "runtime/judge/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "plugins/loader/testing/kernels_in_c.hpp"
#include "plugins/sdk/c_dialect.hpp"

namespace crucible::runtime {
namespace {

using kernel::ExprId;
using kernel::IrBuilder;
using kernel::KernelIr;
using kernel::LoopMode;
using kernel::Operation;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 37, kColumns = 21;
constexpr std::uint64_t kBudget = 4000;

/// Rows of x: their shares of the row's sum of exponentials, less a number; and how many of them are less than a
/// quarter.
KernelIr row_kernel() {
  IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), shares = b.add_buffer(DType::kF32, true),
             count = b.add_buffer(DType::kI64, true);
  const ExprId row = b.open_grid(LoopMode::kSerial);
  const auto sum = b.declare(b.real(0, DType::kF32));
  const auto few = b.declare(b.integer(0));
  const ExprId j = b.open_for(b.integer(0), b.integer(kColumns), LoopMode::kSerial);
  const ExprId number = b.let(b.load(x, b.add(b.multiply(row, kColumns), j)));
  b.set(sum, b.add(b.variable(sum), b.unary(Operation::kExp, number)));
  const ExprId is_less = b.binary(Operation::kLess, number, b.real(0.25, DType::kF32));
  b.set(few, b.add(b.variable(few), b.select(is_less, b.integer(1), b.integer(0))));
  b.close();
  const ExprId k = b.open_for(b.integer(0), b.integer(kColumns), LoopMode::kVector);
  const ExprId again = b.let(b.load(x, b.add(b.multiply(row, kColumns), k)));
  const ExprId share = b.binary(Operation::kDivide, b.unary(Operation::kExp, again), b.variable(sum));
  b.store(shares, b.add(b.multiply(row, kColumns), k), b.binary(Operation::kSubtract, share, b.real(0.5, DType::kF32)));
  b.close();
  b.store(count, row, b.variable(few));
  b.close();
  return b.finish();
}

/// y[i] = table[ids[i]], of `height` numbers.
KernelIr gather_kernel(std::int64_t height) {
  IrBuilder b;
  const auto table = b.add_buffer(DType::kF32, false), ids = b.add_buffer(DType::kI64, false),
             y = b.add_buffer(DType::kF32, true);
  const ExprId i = b.open_grid(LoopMode::kVector);
  const ExprId id = b.guard(b.let(b.load(ids, i)), 0, height - 1);
  b.store(y, i, b.let(b.load(table, id)));
  b.close();
  return b.finish();
}

class Trial : public ::testing::Test {
 public:
  using Edit = std::function<void(std::string&)>;

 protected:
  void SetUp() override {
    if (backend::clang_path().empty()) GTEST_SKIP() << "no clang on this machine";
    folder_ = std::filesystem::temp_directory_path() / ("crucible-trial-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    in_c_.emplace(folder_);
    auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", "2"}, {"compiler", in_c_->compiler()}},
                                         backend::keep_in(folder_ / "store"));
    ASSERT_TRUE(loaded) << loaded.error().message;
    auto opened = (*loaded)->open("");
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = *opened;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static TrialSubject rows() {
    return {.ir = row_kernel(),
            .memory_of = {0, 1, 2},
            .memories = {kRows * kColumns * 4, kRows * kColumns * 4, kRows * 8},
            .scalars = {},
            .grid = kRows};
  }
  static TrialSubject gather(std::int64_t height, std::int64_t count) {
    const auto bytes = static_cast<std::uint64_t>(count);
    return {.ir = gather_kernel(height),
            .memory_of = {0, 1, 2},
            .memories = {static_cast<std::uint64_t>(height) * 4, bytes * 8, bytes * 4},
            .scalars = {},
            .grid = count};
  }

  static Edit replace(const std::string& from, const std::string& to) {
    return [from, to](std::string& text) {
      const std::size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << from << " in\n" << text;
      text.replace(at, from.size(), to);
    };
  }

  /// What the trial says of each text, all compiled together.
  std::vector<std::string> verdicts(const TrialSubject& subject, const std::vector<Edit>& edits,
                                    Nearness nearness = Nearness::kBits) {
    std::vector<backend::KernelSource> kernels;
    for (std::size_t i = 0; i < edits.size(); ++i) {
      const std::string name = "k_" + std::to_string(i);
      std::string text = sdk::print_kernel(subject.ir, sdk::dialect_c(), name);
      edits[i](text);
      kernels.push_back(in_c_->add(name, text));
    }
    std::vector<std::string> said;
    auto module = backend::Module::compile(device_, kernels);
    EXPECT_TRUE(module) << module.error().message;
    auto reference = TrialReference::make(subject, nearness, kBudget, {.may_sample = true});
    EXPECT_TRUE(reference) << reference.error().message;
    auto bench = TrialBench::make(device_, subject.bytes());
    EXPECT_TRUE(bench) << bench.error().message;
    if (!module || !reference || !bench) return said;
    items_ = reference->items();
    for (const backend::KernelSource& kernel : kernels) {
      const auto what = bench->run(*reference, *module->kernel(kernel.name));
      EXPECT_TRUE(what) << what.error().message;
      said.push_back(what ? *what : "");
    }
    return said;
  }

  std::filesystem::path folder_;
  std::optional<backend::KernelsInC> in_c_;
  std::shared_ptr<backend::Device> device_;
  std::int64_t items_ = 0;
};

const Trial::Edit kUnchanged = [](std::string&) {};

TEST_F(Trial, PassesWhatIsRight) {
  EXPECT_EQ(verdicts(rows(), {kUnchanged})[0], "");
  EXPECT_GE(items_, 2);
  EXPECT_LT(items_, kRows);
  EXPECT_EQ(verdicts(gather(1000, 300), {kUnchanged})[0], "");
}

TEST_F(Trial, FindsEachPlantedMistake) {
  const std::vector<Edit> edits = {
      replace("< 21;", "< 20;"),                  // the last turn of the sum
      replace("- 0x1p-1f", "+ 0x1p-1f"),          // plus for minus
      replace("0x1p-1f", "0x1.000002p-1f"),       // a constant's last place
      replace("0x1p-2f", "0x1.000002p-2f"),       // less is less or equal, for numbers that are there
      replace("v0 < end;", "v0 < end - 1;"),      // the last item
      replace("v0 = begin;", "v0 = begin + 1;"),  // the first item
      replace("crucible_exp_f32(v", "0x1.000002p+0f * crucible_exp_f32(v"),
      replace("b2[v0] =", "b2[v0 ^ 1] ="),  // the neighbour's place
  };
  const std::vector<std::string> said = verdicts(rows(), edits);
  ASSERT_EQ(said.size(), edits.size());
  for (std::size_t i = 0; i < said.size(); ++i) EXPECT_NE(said[i], "") << "edit " << i;
  EXPECT_THAT(said[4], HasSubstr("of its buffer"));
}

TEST_F(Trial, FindsWhatIsWrittenBesideTheBuffers) {
  const auto said = verdicts(
      rows(), {replace("b2[v0] =", "b2[37] = 0;\n    b2[v0] ="), replace("b2[v0] =", "b1[-1] = 0;\n    b2[v0] =")});
  EXPECT_EQ(said[0], "it writes 0 bytes behind a buffer of 296, or before the next one");
  EXPECT_NE(said[1], "");
}

TEST_F(Trial, FollowsIndices) {
  const auto said = verdicts(gather(1000, 300), {kUnchanged, replace("b0[", "b0[999 - ")});
  EXPECT_EQ(said[0], "");
  EXPECT_NE(said[1], "");
}

TEST_F(Trial, AKernelOfLargeTensorsTouchesLittle) {
  TrialSubject subject = gather(std::int64_t{1} << 32, 20000);  // 16 GiB of table
  const auto reference = TrialReference::make(subject, Nearness::kBits, 400, {.may_sample = true});
  ASSERT_TRUE(reference) << reference.error().message;
  EXPECT_GE(reference->items(), 2);
}

TEST_F(Trial, OperandsInOnePlaceAreTriedInOnePlace) {
  IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  b.ir().buffers[x].may_alias = b.ir().buffers[y].may_alias = true;
  const ExprId i = b.open_grid(LoopMode::kVector);
  b.store(y, i, b.add(b.let(b.load(x, i)), b.real(1, DType::kF32)));
  b.close();
  TrialSubject subject{.ir = b.finish(), .memory_of = {0, 0}, .memories = {4000}, .scalars = {}, .grid = 1000};
  // Twice is once too often only where the result is the operand.
  const Edit twice = replace("b1[v0] = (v1 + ", "b1[v0] = v1 + 1.0f;\n    b1[v0] = (b0[v0] + ");
  const auto said = verdicts(subject, {kUnchanged, twice});
  EXPECT_EQ(said[0], "");
  EXPECT_NE(said[1], "");
  subject.memory_of = {0, 1};
  subject.memories = {4000, 4000};
  EXPECT_EQ(verdicts(subject, {twice})[0], "");
}

TEST_F(Trial, RoundedIsNearerThanAnyMistake) {
  const auto off = [](const std::string& factor) {
    return replace("crucible_exp_f32(v", factor + " * crucible_exp_f32(v");
  };
  const auto said =
      verdicts(rows(), {off("0x1.000002p+0f"), replace("< 21;", "< 20;"), off("1.001f")}, Nearness::kRounded);
  EXPECT_EQ(said[0], "");
  EXPECT_NE(said[1], "");
  EXPECT_NE(said[2], "") << "floats alone are wrong";
}

/// One item: y[r] = x[r] + 1 for `rows` r, and with `sums` y[r] = y[r - 1] + x[r].
KernelIr long_kernel(std::int64_t rows, bool sums) {
  IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true);
  b.open_grid(LoopMode::kSerial);
  const ExprId r = b.open_for(b.integer(1), b.integer(rows), LoopMode::kSerial);
  const ExprId before = sums ? b.let(b.load(y, b.add(r, b.integer(-1)))) : b.real(1, DType::kF32);
  b.store(y, r, b.add(b.let(b.load(x, r)), before));
  b.close();
  b.close();
  return b.finish();
}

TEST_F(Trial, LongLoopsAreSampledAndTheirLastPassIsSeen) {
  constexpr std::int64_t kMany = 50000;
  const TrialSubject subject{
      .ir = long_kernel(kMany, false), .memory_of = {0, 1}, .memories = {kMany * 4, kMany * 4}, .scalars = {}};
  const auto reference = TrialReference::make(subject, Nearness::kBits, kBudget, {.may_sample = true});
  ASSERT_TRUE(reference) << reference.error().message;
  EXPECT_TRUE(reference->is_sampled());
  const auto said = verdicts(subject, {kUnchanged, replace("< 50000;", "< 49999;"), replace("= 1;", "= 2;")});
  EXPECT_EQ(said[0], "");
  EXPECT_NE(said[1], "");
  EXPECT_NE(said[2], "");
}

TEST_F(Trial, LoopsThatHandNumbersOnAreNotSampled) {
  constexpr std::int64_t kMany = 50000;
  const TrialSubject subject{
      .ir = long_kernel(kMany, true), .memory_of = {0, 1}, .memories = {kMany * 4, kMany * 4}, .scalars = {}};
  const auto reference = TrialReference::make(subject, Nearness::kBits, kBudget, {.may_sample = true});
  ASSERT_TRUE(reference) << reference.error().message;
  EXPECT_FALSE(reference->is_sampled());
  EXPECT_EQ(verdicts(subject, {kUnchanged})[0], "");
}

/// 64 columns of sums over 500 rows in each item, and the rows twice as large.
KernelIr columns_kernel() {
  constexpr std::int64_t kLanes = 64, kLong = 500;
  IrBuilder b;
  const auto x = b.add_buffer(DType::kF32, false), y = b.add_buffer(DType::kF32, true),
             twice = b.add_buffer(DType::kF32, true);
  const auto sums = b.add_array(DType::kF32, kLanes);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.open_for(b.integer(0), b.integer(kLanes), LoopMode::kVector);
  b.store_element(sums, first, b.real(0, DType::kF32));
  b.close();
  const ExprId row = b.open_for(b.integer(0), b.integer(kLong), LoopMode::kSerial);
  const ExprId j = b.open_for(b.integer(0), b.integer(kLanes), LoopMode::kVector);
  const ExprId at = b.add(b.add(b.multiply(item, kLanes), j), b.multiply(row, 2 * kLanes));
  const ExprId number = b.let(b.load(x, at));
  b.store_element(sums, j, b.add(b.let(b.element(sums, j)), number));
  b.store(twice, at, b.add(number, number));
  b.close();
  b.close();
  const ExprId last = b.open_for(b.integer(0), b.integer(kLanes), LoopMode::kVector);
  b.store(y, b.add(b.multiply(item, kLanes), last), b.let(b.element(sums, last)));
  b.close();
  b.close();
  return b.finish();
}

TEST_F(Trial, ColumnsOfSumsAreSampledAndEachMistakeIsSeen) {
  constexpr std::int64_t kNumbers = 2 * 64 * 500;
  const TrialSubject subject{.ir = columns_kernel(),
                             .memory_of = {0, 1, 2},
                             .memories = {kNumbers * 4, 2 * 64 * 4, kNumbers * 4},
                             .scalars = {},
                             .grid = 2};
  const auto reference = TrialReference::make(subject, Nearness::kBits, kBudget, {.may_sample = true});
  ASSERT_TRUE(reference) << reference.error().message;
  EXPECT_TRUE(reference->is_sampled());
  const auto said =
      verdicts(subject, {kUnchanged, replace("< 500;", "< 499;"), replace("= 0x0p+0f", "= 0x1p-20f"),
                         replace("v3 = 0; v3 < 64;", "v3 = 1; v3 < 64;"), replace("(v4 + v4)", "(v4 + v5)")});
  EXPECT_EQ(said[0], "");
  for (std::size_t i = 1; i < said.size(); ++i) EXPECT_NE(said[i], "") << "edit " << i;
}

/// A product of matrices as the schedule makes it, of which a sample of rows and columns is interpreted.
TrialSubject product() {
  graph::Program program;
  program.iterations = 1;
  const auto add = [&](std::int64_t elements, graph::ValueKind kind) {
    program.values.push_back({.kind = kind, .dtype = DType::kF32, .elements = elements, .name = {}});
    return static_cast<graph::ValueId>(program.values.size() - 1);
  };
  const std::int64_t m = 300, k = 300, n = 200;
  const auto matrix = [](graph::ValueId value, std::int64_t rows, std::int64_t columns) {
    graph::Operand operand;
    operand.value = value;
    operand.view = graph::View::contiguous({1, rows, columns});
    return operand;
  };
  graph::Op op;
  op.kind = graph::OpKind::kMatMul;
  op.inputs = {matrix(add(m * k, graph::ValueKind::kInput), m, k), matrix(add(k * n, graph::ValueKind::kInput), k, n)};
  op.outputs = {matrix(add(m * n, graph::ValueKind::kTemporary), m, n)};
  program.values.back().producer = 0;
  program.inputs = {{op.inputs[0].value, {0}, false}, {op.inputs[1].value, {0}, false}};
  program.outputs.push_back({"kept", {op.outputs[0].value, graph::View::contiguous({}), {}}, {0}});
  program.ops.push_back(op);
  const auto scheduled = kernel::schedule(program, {.claims = nullptr, .numerics = kernel::Numerics::kStrict});
  EXPECT_TRUE(scheduled) << scheduled.error().message;
  const kernel::Step& step = scheduled->steps.at(0);
  return {.ir = *kernel::read_ir(scheduled->kernels[step.kernel].ir),
          .memory_of = {0, 1, 2},
          .memories = {m * k * 4, k * n * 4, m * n * 4},
          .scalars = {},
          .grid = step.grid};
}

TEST_F(Trial, ProductsAreSampledAndEachMistakeIsSeen) {
  const TrialSubject subject = product();
  const auto reference = TrialReference::make(subject, Nearness::kBits, 6000, {.may_sample = true});
  ASSERT_TRUE(reference) << reference.error().message;
  EXPECT_TRUE(reference->is_sampled());
  const std::vector<Edit> edits = {
      replace("q < 256;", "q < 255;"),                                                      // the last step of a chunk
      replace("q < 44;", "q < 43;"),                                                        // of the last one
      replace("b2[", "b2[1 + "),                                                            // the neighbour's place
      replace("t5_1 = crucible_fma_f32x16(x5, y1,", "t5_1 = crucible_fma_f32x16(x4, y1,"),  // another row's factor
      replace("t11_0 = crucible_fma_f32x16(x11, y0, t11_0)", "t11_0 = x11 * y0 + t11_0"),   // rounded twice
      replace("q * 32 + 16)", "q * 32 + 15)"),  // a vector that begins too early
  };
  std::vector<Edit> all = {kUnchanged};
  all.insert(all.end(), edits.begin(), edits.end());
  const auto said = verdicts(subject, all);
  EXPECT_EQ(said[0], "");
  for (std::size_t i = 1; i < said.size(); ++i) EXPECT_NE(said[i], "") << "edit " << i;
}

TEST(TrialData, IndicesLieWhereTheKernelGuardsThemAndOneBeside) {
  const auto ranges = kernel::index_ranges(gather_kernel(77));
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_FALSE(ranges[0]);
  EXPECT_EQ(ranges[1], (kernel::IndexRange{-1, 77}));
  EXPECT_FALSE(ranges[2]);
}

TEST(TrialData, IndicesLieWhereItemsPutWhatIsTheirsAndOneBeside) {
  IrBuilder b;
  const auto ids = b.add_buffer(DType::kI32, false), y = b.add_buffer(DType::kF32, true);
  const ExprId item = b.open_grid(LoopMode::kSerial);
  const ExprId first = b.let(b.multiply(item, 8)),
               last = b.let(b.binary(Operation::kMinimum, b.add(first, b.integer(8)), b.integer(50)));
  const ExprId i = b.open_for(b.integer(0), b.integer(20), LoopMode::kSerial);
  const ExprId id = b.let(b.convert(b.let(b.load(ids, i)), DType::kI64));
  b.open_if(
      b.binary(Operation::kAnd, b.binary(Operation::kLessEqual, first, id), b.binary(Operation::kLess, id, last)));
  b.store(y, id, b.real(1, DType::kF32));
  for (int blocks = 0; blocks < 3; ++blocks) b.close();
  const auto ranges = kernel::index_ranges(b.finish());
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0], (kernel::IndexRange{-1, 50}));
}

}  // namespace
}  // namespace crucible::runtime
