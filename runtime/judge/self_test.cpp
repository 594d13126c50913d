#include "runtime/judge/self_test.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <span>

#include "core/base/hash.hpp"
#include "core/base/nan_bits.hpp"
#include "runtime/run/device_identity.hpp"
#include "runtime/run/small_run.hpp"
#include "store/store.hpp"

namespace crucible::runtime {
namespace {

using graph::OpKind;
using graph::Operand;
using graph::ValueId;

constexpr std::int64_t kPatterns = std::int64_t{1} << 18;  // of a round
constexpr std::uint32_t kPeriod = 1u << 14;                 // rounds that cover all patterns of 32 bits
constexpr std::uint32_t kLongRounds = 16;
constexpr std::int64_t kRows = 37, kSteps = 600,
                       kColumns = 45;  // of the product: two chunks and a part, tiles and rests

/// What is computed from what: x and y are any bits, of m and n numbers of moderate size.
enum class Shape : std::uint8_t {
  kOfX,
  kOfXY,
  kMultiplyAdd,
  kConvert,
  kProduct,
  kProductWithItself,
  kSumOfRows,
  kSumOfColumns,
  kScan
};

struct Probe {
  std::string_view name;
  OpKind kind;
  Shape shape;
  std::string_view start_up, on_demand;  // hashes
  std::string_view all = {};             // the sum over all patterns; empty where it is not one operand of any bits
  DType dtype = DType::kF32;
  std::int64_t rows = 0, steps = 0;  // of a product with itself

  /// All patterns of an operand can be tried; of two they are too many.
  constexpr bool of_one_operand() const { return shape == Shape::kOfX || shape == Shape::kConvert; }
};

// The hashes are those of clang 19 with AVX-512, and the same from gcc 12, AVX2, one thread, PoCL and Intel's OpenCL
// runtime.
constexpr Probe kProbes[] = {
    {"exp", OpKind::kExp, Shape::kOfX, "03dcf1d767647f7e", "4bd747ab30bd909e", "c44f3294cd575877"},
    {"exp2", OpKind::kExp2, Shape::kOfX, "30f3545e4b54ba98", "315e1259e5985b8c", "ccd7457c60082ffa"},
    {"expm1", OpKind::kExpm1, Shape::kOfX, "2ee4411244bcb3e6", "f03aafa0ed8557d6", "85902f09c70c735a"},
    {"log", OpKind::kLog, Shape::kOfX, "42677c7bf31b038a", "f7c1377dc39bf06a", "bb07cc82295b60df"},
    {"log1p", OpKind::kLog1p, Shape::kOfX, "df1b0afef11c5aa4", "1991dd3129c9e88a", "28ac2f771a52a788"},
    {"log2", OpKind::kLog2, Shape::kOfX, "c72c7e15613d5b9d", "52ffc9b22613e19f", "77ed312906951e3a"},
    {"log10", OpKind::kLog10, Shape::kOfX, "245e407d4622cb96", "13abf7d803773ee8", "b0d949a4fddf32e1"},
    {"tanh", OpKind::kTanh, Shape::kOfX, "72916af96d94f9d1", "4a782abb41f1b5bc", "a66e789700e1ab55"},
    {"sigmoid", OpKind::kSigmoid, Shape::kOfX, "7ef10669cadba454", "e22e2f77028d6700", "d2019b8b38888ecf"},
    {"erf", OpKind::kErf, Shape::kOfX, "e0e69aba83489bb0", "f6c51488841ec6b7", "52075f6e367ef14c"},
    {"erfc", OpKind::kErfc, Shape::kOfX, "861fda34e73815b7", "6395055ab74597f9", "8749e1ea235a9378"},
    {"sin", OpKind::kSin, Shape::kOfX, "d1c20b97d0baf4de", "637e5fd4739d7dec", "044c8bc38e54e763"},
    {"cos", OpKind::kCos, Shape::kOfX, "a60a196ab682ad48", "c3a76043348f914e", "d27a63bcd490410e"},
    {"tan", OpKind::kTan, Shape::kOfX, "be5799f5a836e59b", "10fec4ac0b3065ae", "3856514f819fe527"},
    {"asin", OpKind::kAsin, Shape::kOfX, "b0f3a7bf892af3f0", "7ef9f0f349eff09d", "5e146b633316bde0"},
    {"acos", OpKind::kAcos, Shape::kOfX, "f154c0ce51ba7849", "7d17890c48466110", "c24d3eab20301018"},
    {"atan", OpKind::kAtan, Shape::kOfX, "3e7371a70dc9d996", "5641a941d0680f38", "9df13f55ca0c3805"},
    {"sinh", OpKind::kSinh, Shape::kOfX, "e5f2b354d9bf752e", "17536bbbd1b6a5ba", "f5e7242b59f0f8c2"},
    {"cosh", OpKind::kCosh, Shape::kOfX, "6c928f834e1923c2", "1f28b447b7a2de87", "0484a4daba1415f5"},
    {"asinh", OpKind::kAsinh, Shape::kOfX, "0d7694a888e84cf4", "a9d0e9448f9d5747", "8d21c85c10f548de"},
    {"acosh", OpKind::kAcosh, Shape::kOfX, "89bd1cd6a5966487", "ed0f38bd296ca3e1", "1198a9c51ab0a808"},
    {"atanh", OpKind::kAtanh, Shape::kOfX, "a5610e945fb5acf3", "e1939c0279d87a8d", "03b4b12c5153b241"},
    {"sqrt", OpKind::kSqrt, Shape::kOfX, "7e658d9a10618395", "3882cee10b4beff8", "a2d066122b825e77"},
    {"reciprocal", OpKind::kReciprocal, Shape::kOfX, "5bda0372e3613a73", "a2033263e0c932b6", "e6206c190777fcdc"},
    {"floor", OpKind::kFloor, Shape::kOfX, "512bd802b39bab6e", "903ec1c65e06c184", "781edbafb0f6fda6"},
    {"ceil", OpKind::kCeil, Shape::kOfX, "0c30b6e024cc2013", "f762fb49c1ee9147", "fe9c727999223c13"},
    {"round", OpKind::kRound, Shape::kOfX, "f75d56842e1732a4", "20ab9513fe433be5", "e916df50ad633aeb"},
    {"reciprocal sqrt", OpKind::kReciprocalSqrt, Shape::kOfX, "58acc258d6e75a01", "b80c0f38ad9dc9cb",
     "bf1e74cd84d697cc"},
    {"add", OpKind::kAdd, Shape::kOfXY, "75f82d171093068e", "5a2b7465beaf1d35"},
    {"subtract", OpKind::kSubtract, Shape::kOfXY, "a11bfeef7a5c1c7a", "212618eef3b04a2b"},
    {"multiply", OpKind::kMultiply, Shape::kOfXY, "12855bf10e09e407", "a3ec1ddf7fd8c812"},
    {"divide", OpKind::kDivide, Shape::kOfXY, "5e04cb165d4b2e01", "16956142a632a6c4"},
    {"remainder", OpKind::kRemainder, Shape::kOfXY, "3d3748f018027ba9", "cb4a2008098a826a"},
    {"maximum", OpKind::kMaximum, Shape::kOfXY, "8931c8fb71829d45", "b2b0cff5e2bec997"},
    {"minimum", OpKind::kMinimum, Shape::kOfXY, "f17ffa8b40e29897", "be1c5c9fe02ced53"},
    {"power", OpKind::kPower, Shape::kOfXY, "ecce9609aef3c863", "432cc11b78454bf6"},
    {"atan2", OpKind::kAtan2, Shape::kOfXY, "b6b58e8aedd73c73", "4b0240b1b2ed06d9"},
    {"multiply, then add", OpKind::kAdd, Shape::kMultiplyAdd, "f027183f83281ebc", "69238c3ebcf3267f"},
    {"to f16", OpKind::kCopy, Shape::kConvert, "efd55627fd0e4acf", "fac6b6b67abb1cbb", "14fccf27fe046d9e", DType::kF16},
    {"to bf16", OpKind::kCopy, Shape::kConvert, "140b4b662678b751", "a07b63253cd274c2", "e6db99313b821c12",
     DType::kBF16},
    {"to i32", OpKind::kCopy, Shape::kConvert, "3f497bf3bf1367ec", "a1cf1a8231514079", "6497897d019bc8c1", DType::kI32},
    {"product", OpKind::kMatMul, Shape::kProduct, "2660538268577992", "b682eb66a0738fb3"},
    // Small ones, whose text is all in one piece before a compiler: LLVM 19 to 22 made a square of the first
    // (backends/cpu/compiler.cpp). Their hashes are also those of exact fractions, each sum rounded to f32.
    {.name = "product of 4 x 3 with itself",
     .kind = OpKind::kMatMul,
     .shape = Shape::kProductWithItself,
     .start_up = "c9b72b0ee915afc3",
     .on_demand = "a44c5eaab4a9bd9e",
     .rows = 4,
     .steps = 3},
    {.name = "product of 3 x 2 with itself",
     .kind = OpKind::kMatMul,
     .shape = Shape::kProductWithItself,
     .start_up = "0443a967c76bd05a",
     .on_demand = "c7a0f5762dcd4651",
     .rows = 3,
     .steps = 2},
    {.name = "product of 8 x 1 with itself",
     .kind = OpKind::kMatMul,
     .shape = Shape::kProductWithItself,
     .start_up = "6b603a86fbdd1811",
     .on_demand = "80c738ca7ef64543",
     .rows = 8,
     .steps = 1},
    {.name = "product of 7 x 5 with itself",
     .kind = OpKind::kMatMul,
     .shape = Shape::kProductWithItself,
     .start_up = "74173ca69382881d",
     .on_demand = "caa71aef6f8b8700",
     .rows = 7,
     .steps = 5},
    {.name = "product of 17 x 9 with itself",
     .kind = OpKind::kMatMul,
     .shape = Shape::kProductWithItself,
     .start_up = "c4265580d9b843bd",
     .on_demand = "56604e1004d50052",
     .rows = 17,
     .steps = 9},
    {"sum of rows", OpKind::kReduceSum, Shape::kSumOfRows, "8141830cf448c0e4", "48abaa8a9a9bd8a2"},
    {"sum of columns", OpKind::kReduceSum, Shape::kSumOfColumns, "1cd56250668649c9", "e862922828a4aae5"},
    {"cumulative sum", OpKind::kScanSum, Shape::kScan, "26e5589256bb9e15", "a4871f1374b78d4a"},
};

constexpr bool have_sums() {
  for (const Probe& probe : kProbes) {
    if (probe.of_one_operand() && probe.all.empty()) return false;
  }
  return true;
}
static_assert(have_sums());

constexpr std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

/// Pattern i of a round: over all rounds each pattern of 32 bits is x once.
std::uint32_t pattern_x(std::uint32_t i, std::uint32_t round) {
  return i * kPeriod + ((round * 9973u + mix(i)) % kPeriod);
}
std::uint32_t pattern_y(std::uint32_t i, std::uint32_t round) { return mix(i ^ mix(round + 1)); }
/// A multiple of 2^-20 of magnitude below 16: sums round, and nothing overflows.
float moderate(std::uint32_t i) {
  const std::uint32_t bits = mix(i + 77);
  return (static_cast<float>(bits >> 8) - 0x1p23f) * 0x1p-23f * static_cast<float>(1u << (bits & 3u));
}

struct Test {
  graph::Program program;
  std::vector<ValueId> results;  // one per probe
};

std::vector<Probe> probes_of(Extent extent) {
  std::vector<Probe> probes(std::begin(kProbes), std::end(kProbes));
  if (extent == Extent::kAll) std::erase_if(probes, [](const Probe& probe) { return !probe.of_one_operand(); });
  return probes;
}

class Builder {
 public:
  Test build(const std::vector<Probe>& probes) {
    x_ = input({kPatterns});
    y_ = input({kPatterns});
    m_ = input({kRows, kSteps});
    n_ = input({kSteps, kColumns});
    for (const Probe& probe : probes) test_.results.push_back(add(probe));
    test_.program.iterations = 1;
    return std::move(test_);
  }

 private:
  ValueId value(graph::ValueKind kind, DType dtype, const std::vector<std::int64_t>& sizes) {
    graph::Value value;
    value.kind = kind;
    value.dtype = dtype;
    value.elements = graph::View::contiguous(sizes).elements();
    if (kind == graph::ValueKind::kTemporary) value.producer = static_cast<graph::OpId>(test_.program.ops.size());
    test_.program.values.push_back(value);
    return static_cast<ValueId>(test_.program.values.size() - 1);
  }
  Operand input(const std::vector<std::int64_t>& sizes) {
    const ValueId id = value(graph::ValueKind::kInput, DType::kF32, sizes);
    test_.program.inputs.push_back({id, {0}, false});
    return whole(id, sizes);
  }
  static Operand whole(ValueId id, const std::vector<std::int64_t>& sizes) {
    Operand operand;
    operand.value = id;
    operand.view = graph::View::contiguous(sizes);
    return operand;
  }
  Operand op(OpKind kind, std::vector<Operand> inputs, const std::vector<std::int64_t>& sizes,
             DType dtype = DType::kF32, std::vector<std::int64_t> dims = {}) {
    const Operand result = whole(value(graph::ValueKind::kTemporary, dtype, sizes), sizes);
    graph::Op made;
    made.kind = kind;
    made.inputs = std::move(inputs);
    made.outputs = {result};
    made.attributes.dims = std::move(dims);
    test_.program.ops.push_back(std::move(made));
    return result;
  }

  ValueId add(const Probe& probe) {
    Operand result;
    switch (probe.shape) {
      case Shape::kOfX:
        result = op(probe.kind, {x_}, {kPatterns});
        break;
      case Shape::kOfXY:
        result = op(probe.kind, {x_, y_}, {kPatterns});
        break;
      case Shape::kMultiplyAdd:
        // Of moderate numbers: of any two, one mostly vanishes beside the other, and a missing rounding with it.
        result = op(OpKind::kAdd, {op(OpKind::kMultiply, {m_, m_}, {kRows, kSteps}), m_}, {kRows, kSteps});
        break;
      case Shape::kConvert:
        result = op(OpKind::kCopy, {x_}, {kPatterns}, probe.dtype);
        break;
      case Shape::kProduct:
        result = op(OpKind::kMatMul, {m_, n_}, {kRows, kColumns});
        break;
      case Shape::kProductWithItself:
        result = op(OpKind::kMatMul, {slice(probe, false), slice(probe, true)}, {probe.rows, probe.rows});
        break;
      case Shape::kSumOfRows:
        result = reduced(OpKind::kReduceSum, 1, {kRows, 1});
        break;
      case Shape::kSumOfColumns:
        result = reduced(OpKind::kReduceSum, 0, {1, kSteps});
        break;
      case Shape::kScan:
        result = op(OpKind::kScanSum, {m_}, {kRows, kSteps}, DType::kF32, {1});
        break;
    }
    test_.program.outputs.push_back({.name = std::string(probe.name), .operand = result, .recorded = {}, .blobs = {0}});
    return result.value;
  }
  /// The columns 3 and on of a matrix of three more, or that turned.
  Operand slice(const Probe& probe, bool is_turned) const {
    Operand operand = m_;
    operand.view = {3, {probe.rows, probe.steps}, {probe.steps + 3, 1}};
    if (is_turned) {
      std::swap(operand.view.sizes[0], operand.view.sizes[1]);
      std::swap(operand.view.strides[0], operand.view.strides[1]);
    }
    return operand;
  }
  Operand reduced(OpKind kind, std::int64_t dim, const std::vector<std::int64_t>& sizes) {
    return op(kind, {m_}, sizes, DType::kF32, {dim});
  }

  Test test_;
  Operand x_, y_, m_, n_;
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Of patterns and the results of type T: a sum, so that it does not depend on the order in which the patterns come.
template <class T>
std::uint64_t sum_of(const std::vector<std::uint32_t>& x, const std::vector<std::byte>& results) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    T bits;
    std::memcpy(&bits, results.data() + i * sizeof(T), sizeof(T));
    sum += mix64((std::uint64_t{x[i]} << 32) | bits);
  }
  return sum;
}

struct Digest {
  Sha256 sha256;
  std::uint64_t sum = 0;  // of all patterns
};

Result<void> write_moderate(SmallRun& run, ValueId value, std::int64_t elements, std::uint32_t first) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < elements; ++i) numbers.push_back(moderate(first + static_cast<std::uint32_t>(i)));
  return run.write(value, bytes_of(numbers));
}

}  // namespace

bool SelfTest::passed() const {
  for (const SelfTestItem& item : items) {
    if (!item.passed()) return false;
  }
  return true;
}

std::string SelfTest::failed() const {
  std::string names;
  for (const SelfTestItem& item : items) {
    if (!item.passed()) names += fmt::format("{}{}", names.empty() ? "" : ", ", item.name);
  }
  return names;
}

Result<SelfTest> self_test(const std::shared_ptr<backend::Device>& device, Extent extent,
                           const SelfTestProgress& progress) {
  const std::vector<Probe> probes = probes_of(extent);
  const std::uint32_t rounds = extent == Extent::kAll ? kPeriod : extent == Extent::kOnDemand ? kLongRounds : 1;
  Test test = Builder().build(probes);
  // One fused kernel is compiled sooner; kernels of their own have vectors.
  CRUCIBLE_TRY(SmallRun run,
               SmallRun::make(device, test.program, kernel::Numerics::kStrict, {.fuse = extent != Extent::kAll}));
  std::vector<Digest> digests(probes.size());
  std::vector<std::uint32_t> x(kPatterns), y(kPatterns);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (progress) progress(static_cast<double>(round) / rounds);
    for (std::uint32_t i = 0; i < kPatterns; ++i) x[i] = pattern_x(i, round), y[i] = pattern_y(i, round);
    CRUCIBLE_TRY_VOID(run.write(0, bytes_of(x)));
    CRUCIBLE_TRY_VOID(run.write(1, bytes_of(y)));
    if (extent != Extent::kAll) {
      CRUCIBLE_TRY_VOID(write_moderate(run, 2, kRows * kSteps, round << 16));
      CRUCIBLE_TRY_VOID(write_moderate(run, 3, kSteps * kColumns, (round + 100) << 16));
    }
    CRUCIBLE_TRY_VOID(run.run());
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const DType dtype = test.program.values[test.results[i]].dtype;
      CRUCIBLE_TRY(std::vector<std::byte> bytes, run.read(test.results[i]));
      (void)canonicalize_nan(dtype, bytes);
      if (extent != Extent::kAll)
        digests[i].sha256.update(bytes);
      else if (size_bytes(dtype) == 2)
        digests[i].sum += sum_of<std::uint16_t>(x, bytes);
      else
        digests[i].sum += sum_of<std::uint32_t>(x, bytes);
    }
  }
  SelfTest result;
  result.samples = static_cast<std::uint64_t>(kPatterns) * rounds;
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Probe& probe = probes[i];
    const std::string_view expected = extent == Extent::kAll        ? probe.all
                                      : extent == Extent::kOnDemand ? probe.on_demand
                                                                    : probe.start_up;
    const std::string found = extent == Extent::kAll ? fmt::format("{:016x}", digests[i].sum)
                                                     : digests[i].sha256.finish().hex().substr(0, 16);
    result.items.push_back({probe.name, std::string(expected), found});
  }
  return result;
}

Result<void> admit_to_strict(const std::shared_ptr<backend::Device>& device) {
  std::string probes;
  for (const Probe& probe : kProbes) probes += probe.start_up;
  store::ActionKey key = key_about(*device, "admission to strict numerics", kernel::Numerics::kStrict);
  key.region = sha256(std::as_bytes(std::span(probes)));
  const std::shared_ptr<store::Store>& store = device->backend().store();
  if (store && store->get(key)) return {};
  CRUCIBLE_TRY(const SelfTest test, self_test(device, Extent::kStartUp));
  if (!test.passed()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("device {} ({}) cannot be strict: in the self-test its results of {} are not the named "
                             "ones\ncrucible devices "
                             "--self-test shows all; --numerics fast runs here, within tolerances",
                             device->info().id, device->info().name, test.failed())};
  }
  if (store) (void)store->put(key, {}, "self-test");  // where it cannot be kept, it is tested again
  return {};
}

}  // namespace crucible::runtime
