// Random contractions: products of matrices of all small shapes, whose operands are views of one buffer more often than
// not - slices of it, the same slice turned, matrices that overlap, batches that lie on top of each other. Generated
// kernels and libraries, fast and strict, against a sum in double precision; strict ones have the bits of the
// interpreter of the kernel IR besides.
//
// CRUCIBLE_CONTRACTIONS=N tries N programs of kPerProgram products instead of one or two.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <span>

#include "core/graph/reference_numbers.hpp"
#include "core/kernel/run_schedule.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/plan/library_calls.hpp"
#include "runtime/run/small_run.hpp"

namespace crucible::runtime {
namespace {

using graph::Bytes;
using graph::Operand;
using graph::ValueId;
using graph::View;

constexpr std::size_t kPerProgram = 40;
constexpr std::int64_t kElements = 20000;  // of a buffer; the largest view of all reaches less far

int programs(int usual) {
  const char* const text = std::getenv("CRUCIBLE_CONTRACTIONS");
  return text == nullptr ? usual : std::atoi(text);
}

struct Contraction {
  Operand left, right, out;
  DType type = DType::kF32;
  std::string in_words() const {
    const auto view = [](const Operand& operand) {
      std::string text =
          "buffer " + std::to_string(operand.value) + " from " + std::to_string(operand.view.offset) + ":";
      for (std::size_t d = 0; d < operand.view.sizes.size(); ++d)
        text += " " + std::to_string(operand.view.sizes[d]) + " by " + std::to_string(operand.view.strides[d]);
      return text;
    };
    return std::string(name(type)) + ", left " + view(left) + ", right " + view(right);
  }
};

class Contractions {
 public:
  graph::Program program;
  std::vector<Contraction> all;
  std::vector<Bytes> inputs;  // by value

  explicit Contractions(unsigned seed) : random_(seed) {
    for (const DType type : {DType::kF32, DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) add_buffer(type);
    while (all.size() < kPerProgram) add();
    program.iterations = 1;
  }

 private:
  std::int64_t below(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_); }
  bool one_in(std::int64_t n) { return below(n) == 0; }

  ValueId add_value(graph::ValueKind kind, DType type, std::int64_t elements) {
    graph::Value value;
    value.kind = kind;
    value.dtype = type;
    value.elements = elements;
    if (kind == graph::ValueKind::kTemporary) value.producer = static_cast<graph::OpId>(program.ops.size());
    program.values.push_back(value);
    return static_cast<ValueId>(program.values.size() - 1);
  }

  void add_buffer(DType type) {
    const ValueId id = add_value(graph::ValueKind::kInput, type, kElements);
    program.inputs.push_back({id, {0}, false});
    Bytes bytes(static_cast<std::size_t>(kElements) * size_bytes(type));
    std::uniform_real_distribution<double> number(-2, 2);
    for (std::int64_t i = 0; i < kElements; ++i)
      graph::store_real(type, number(random_), bytes.data() + static_cast<std::size_t>(i) * size_bytes(type));
    inputs.push_back(std::move(bytes));
  }

  std::int64_t size() { return one_in(8) ? 14 + below(6) : one_in(40) ? 30 + below(6) : 1 + below(9); }

  /// The dimensions lie in memory in any order, with or without gaps; batches may all be one.
  View view(const std::vector<std::int64_t>& sizes) {
    View made{below(8), sizes, std::vector<std::int64_t>(sizes.size())};
    std::vector<std::size_t> order(sizes.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = order.size() - 1 - d;
    const bool is_slice =
        one_in(2);  // columns of a matrix: what programs have most often, and what compilers know best
    if (!is_slice) std::shuffle(order.begin(), order.end(), random_);
    std::int64_t stride = !is_slice && one_in(8) ? 2 : 1;
    for (const std::size_t d : order) {
      const bool is_batch = d + 2 < sizes.size();
      made.strides[d] = is_batch && one_in(5) ? 0 : stride;
      const std::int64_t step = one_in(3)   ? sizes[d] + 1 + below(4)
                                : one_in(8) ? std::max<std::int64_t>(1, sizes[d] - 1)
                                            : sizes[d];  // the last: rows overlap
      if (made.strides[d] != 0) stride *= step;
    }
    return made;
  }

  static std::int64_t last_of(const View& view) {
    std::int64_t last = view.offset;
    for (std::size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
    return last;
  }

  void add() {
    std::vector<std::int64_t> sizes;
    for (std::int64_t batches = one_in(3) ? 1 + below(2) : 0; batches > 0; --batches) sizes.push_back(1 + below(3));
    const std::size_t rank = sizes.size() + 2;
    const std::int64_t m = size(), k = one_in(5) ? 1 : one_in(12) ? 250 + below(20) : size();
    const bool is_with_itself = one_in(2);
    const std::int64_t n = is_with_itself ? m : size();
    const auto with = [&](std::int64_t rows, std::int64_t columns) {
      std::vector<std::int64_t> all_sizes = sizes;
      all_sizes.insert(all_sizes.end(), {rows, columns});
      return all_sizes;
    };
    Contraction made;
    const auto buffer = static_cast<ValueId>(one_in(4) ? below(5) : below(2));
    made.type = program.values[buffer].dtype;
    made.left.value = buffer;
    made.left.view = view(with(m, k));
    made.right = made.left;
    if (is_with_itself) {
      std::swap(made.right.view.sizes[rank - 2], made.right.view.sizes[rank - 1]);
      std::swap(made.right.view.strides[rank - 2], made.right.view.strides[rank - 1]);
      if (one_in(4)) made.right.view.offset += below(3);  // nearly itself
    } else {
      if (buffer < 2 && one_in(3)) made.right.value = 1 - buffer;
      made.right.view = view(with(k, n));
    }
    if (std::max(last_of(made.left.view), last_of(made.right.view)) >= kElements) return;
    made.out.view = View::contiguous(with(m, n));
    made.out.value = add_value(graph::ValueKind::kTemporary, made.type, made.out.view.elements());
    graph::Op op;
    op.kind = graph::OpKind::kMatMul;
    op.inputs = {made.left, made.right};
    op.outputs = {made.out};
    program.ops.push_back(std::move(op));
    program.outputs.push_back({.name = std::to_string(all.size()), .operand = made.out, .recorded = {}, .blobs = {0}});
    all.push_back(made);
  }

  std::mt19937_64 random_;
};

double element(const Contractions& made, const Operand& operand, DType type, std::int64_t at) {
  return graph::load_real(type, made.inputs[operand.value].data() + static_cast<std::size_t>(at) * size_bytes(type));
}

/// "" or the first element that is not the sum of its terms.
std::string compare(const Contractions& made, const Contraction& one, const Bytes& found) {
  const std::size_t rank = one.out.view.sizes.size();
  const std::int64_t m = one.out.view.sizes[rank - 2], n = one.out.view.sizes[rank - 1],
                     k = one.left.view.sizes[rank - 1];
  const double epsilon = one.type == DType::kF64 ? 0x1p-52 : 0x1p-23;
  const double rounding = one.type == DType::kBF16 ? 0x1p-8 : one.type == DType::kF16 ? 0x1p-11 : epsilon;
  for (std::int64_t at = 0; at < one.out.view.elements(); ++at) {
    std::int64_t rest = at / (m * n), left = one.left.view.offset, right = one.right.view.offset;
    for (std::size_t d = rank - 2; d-- > 0;) {
      left += rest % one.out.view.sizes[d] * one.left.view.strides[d];
      right += rest % one.out.view.sizes[d] * one.right.view.strides[d];
      rest /= one.out.view.sizes[d];
    }
    left += at / n % m * one.left.view.strides[rank - 2];
    right += at % n * one.right.view.strides[rank - 1];
    double sum = 0, terms = 0;
    for (std::int64_t q = 0; q < k; ++q) {
      const double term = element(made, one.left, one.type, left + q * one.left.view.strides[rank - 1]) *
                          element(made, one.right, one.type, right + q * one.right.view.strides[rank - 2]);
      sum += term;
      terms += std::abs(term);
    }
    const double is = graph::load_real(one.type, found.data() + static_cast<std::size_t>(at) * size_bytes(one.type));
    if (std::abs(is - sum) <= static_cast<double>(k + 1) * epsilon * terms + rounding * std::abs(sum)) continue;
    return one.in_words() + ": element " + std::to_string(at) + " is " + std::to_string(is) + ", not " +
           std::to_string(sum);
  }
  return "";
}

/// What the interpreter of the kernel IR makes of the same schedule.
std::vector<Bytes> interpreted(const Contractions& made, const backend::Device& device) {
  kernel::Options options;
  options.numerics = kernel::Numerics::kStrict;
  options.device = shape_of(device);
  auto schedule = kernel::schedule(made.program, options);
  EXPECT_TRUE(schedule) << schedule.error().message;
  auto interpreter = kernel::ScheduleInterpreter::create(made.program, *schedule);
  EXPECT_TRUE(interpreter) << interpreter.error().message;
  auto values = interpreter->run(made.program, *schedule, made.inputs, {}, {}, false);
  EXPECT_TRUE(values) << values.error().message;
  return *std::move(values);
}

void try_on(const std::shared_ptr<backend::Device>& device, kernel::Numerics numerics, bool by_library, int count,
            unsigned first_seed) {
  for (int i = 0; i < count; ++i) {
    const Contractions made(first_seed + static_cast<unsigned>(i));
    SCOPED_TRACE("seed " + std::to_string(first_seed + static_cast<unsigned>(i)));
    auto run = SmallRun::make(device, made.program, numerics, {.by_library = by_library, .fuse = true});
    ASSERT_TRUE(run) << run.error().message;
    for (ValueId input = 0; input < made.inputs.size(); ++input) {
      const auto written = run->write(input, made.inputs[input]);
      ASSERT_TRUE(written) << written.error().message;
    }
    const auto ran = run->run();
    ASSERT_TRUE(ran) << ran.error().message;
    std::vector<Bytes> wanted;
    if (numerics == kernel::Numerics::kStrict) wanted = interpreted(made, *device);
    for (const Contraction& one : made.all) {
      const auto found = run->read(one.out.value);
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(compare(made, one, *found), "");
      if (wanted.empty()) continue;
      EXPECT_TRUE(*found == wanted[one.out.value]) << one.in_words() << ": other bits than the interpreter's";
    }
  }
}

class ContractionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("crucible-contractions-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<backend::Device> open(const char* plugin) {
    auto loaded = backend::Backend::load(plugin, {}, backend::keep_in(folder_ / "store"));
    if (!loaded) return nullptr;
    auto opened = (*loaded)->open("");
    return opened ? *opened : nullptr;
  }
  std::filesystem::path folder_;
};

TEST_F(ContractionsTest, StrictOnTheCpuPlugin) {
  const auto device = open(CRUCIBLE_TEST_CPU_PLUGIN);
  ASSERT_NE(device, nullptr);
  try_on(device, kernel::Numerics::kStrict, false, programs(2), 1);
}

TEST_F(ContractionsTest, FastGeneratedOnTheCpuPlugin) {
  const auto device = open(CRUCIBLE_TEST_CPU_PLUGIN);
  ASSERT_NE(device, nullptr);
  try_on(device, kernel::Numerics::kFast, false, programs(1), 100001);
}

TEST_F(ContractionsTest, ByTheLibraryOfTheCpuPlugin) {
  const auto device = open(CRUCIBLE_TEST_CPU_PLUGIN);
  ASSERT_NE(device, nullptr);
  try_on(device, kernel::Numerics::kFast, true, programs(1), 200001);
}

TEST_F(ContractionsTest, StrictOnTheOpenClPlugin) {
  const auto device = open(CRUCIBLE_TEST_OPENCL_PLUGIN);
  if (device == nullptr) GTEST_SKIP() << "there is no OpenCL device: install ocl-icd-libopencl1 and pocl-opencl-icd";
  try_on(device, kernel::Numerics::kStrict, false, programs(1), 300001);
}

}  // namespace
}  // namespace crucible::runtime
