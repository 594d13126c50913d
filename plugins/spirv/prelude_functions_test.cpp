// The prelude as SPIR-V: every function of it is known and valid, and on a device each has the bits that the host's C
// compiler gives it.
#include "plugins/spirv/prelude_functions.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/kernel/math/native_math.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/spirv/testing.hpp"

namespace crucible::spirv {
namespace {

using namespace crucible;
using sdk::Type;
using Bytes = std::vector<std::byte>;

TEST(SpirvPrelude, EveryFunctionIsWrittenAndValid) {
  SpirvModule module;
  PreludeFunctions functions(sdk_prelude(), module);
  EXPECT_GT(sdk_prelude().functions().size(), 150u);
  for (const auto& [name, function] : sdk_prelude().functions())
    EXPECT_NO_THROW(EXPECT_NE(functions.get(name), 0u)) << name;
  if (const std::string reason = testing::no_validator(); !reason.empty()) GTEST_SKIP() << reason;
  FunctionWriter entry(module, module.void_type(), {});
  entry.effect(Op::kReturn, {});
  entry.finish();
  module.add_entry_point(entry.id(), "nothing", {});
  EXPECT_EQ(testing::validate(module.words()), "");
}

TEST(SpirvPrelude, WhatIsNotKnownIsNamed) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      const PreludeText prelude(text);
      SpirvModule module;
      PreludeFunctions functions(prelude, module);
      functions.get("f");
    } catch (const sdk::Failure& failure) {
      EXPECT_EQ(failure.code(), CRUCIBLE_E_INTERNAL);
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("CRUCIBLE_FN int f(int a) { return a + 1; }"), "");
  EXPECT_NE(refusal("CRUCIBLE_FN int f(int a) { goto x; }").find("goto"), std::string::npos);
  EXPECT_NE(refusal("CRUCIBLE_FN int f(int a) { return g(a); }").find("a call of g"), std::string::npos);
  EXPECT_NE(refusal("CRUCIBLE_FN int f(int a) { return f(a); }").find("a call of itself"), std::string::npos);
  EXPECT_NE(refusal("CRUCIBLE_FN int g(int a) { return a; }").find("it is not there"), std::string::npos);
  EXPECT_NE(refusal("CRUCIBLE_FN char f(int a) { return a; }").find("the function f"), std::string::npos);
  EXPECT_NE(refusal("#define F 1\n").find("#define F 1"), std::string::npos);
  EXPECT_NE(refusal("CRUCIBLE_FN int f(int a) { return a").find("without an end"), std::string::npos);
}

/// Numbers of a type that are easily got wrong, and random ones.
template <class T>
std::vector<T> numbers(std::uint64_t seed) {
  std::vector<T> all;
  std::mt19937_64 random(seed);
  if constexpr (std::is_floating_point_v<T>) {
    using Limits = std::numeric_limits<T>;
    for (const T x :
         {T(0), Limits::min(), Limits::denorm_min(), Limits::max(), Limits::infinity(), Limits::quiet_NaN(), T(1),
          T(0.5), T(2), T(3.25), T(1e-3), T(0.9999), T(1.5), T(2.5), T(88), T(104), T(700), T(1e10), T(16777216)}) {
      all.push_back(x);
      all.push_back(-x);
    }
    std::uniform_real_distribution<double> near(-4, 4), exponent(-30, 30);
    while (all.size() < 2000) {
      all.push_back(static_cast<T>(near(random)));
      all.push_back(static_cast<T>(std::copysign(std::exp2(exponent(random)), near(random))));
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      all.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    }
  } else {
    for (const int x : {0, 1, 2, 3, 7, 31, 63, 100}) {
      all.push_back(static_cast<T>(x));
      all.push_back(static_cast<T>(-x));
    }
    all.push_back(std::numeric_limits<T>::min());
    all.push_back(std::numeric_limits<T>::max());
    while (all.size() < 1000) {
      all.push_back(static_cast<T>(random()));
      all.push_back(static_cast<T>(static_cast<std::int64_t>(random() % 130) - 65));
    }
  }
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

Bytes numbers_of(Type type, std::uint64_t seed, std::size_t count) {
  const auto bytes = [&](const auto& values) {
    Bytes all(count * sizeof values[0]);
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(all.data() + i * sizeof values[0], &values[i % values.size()], sizeof values[0]);
    return all;
  };
  switch (type) {
    case Type::kU8:
      return bytes(numbers<std::uint8_t>(seed));
    case Type::kI8:
      return bytes(numbers<std::int8_t>(seed));
    case Type::kI16:
      return bytes(numbers<std::int16_t>(seed));
    case Type::kI32:
      return bytes(numbers<std::int32_t>(seed));
    case Type::kF32:
      return bytes(numbers<float>(seed));
    case Type::kF64:
      return bytes(numbers<double>(seed));
    case Type::kF16:
    case Type::kBF16:
      return bytes(numbers<std::uint16_t>(seed));
    case Type::kBool: {
      Bytes all = bytes(numbers<std::uint8_t>(seed));
      for (std::byte& b : all) b &= std::byte{1};
      return all;
    }
    default:
      break;
  }
  return bytes(numbers<std::int64_t>(seed));
}

/// The bits, but one for all NaN: their payloads are no part of what is promised.
std::uint64_t bits_at(const Bytes& bytes, Type type, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * size_bytes(type), size_bytes(type));
  if (type == Type::kF32 && std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))) return 0x7fc00000u;
  if (type == Type::kF64 && std::isnan(std::bit_cast<double>(bits))) return 0x7ff8000000000000u;
  if (type == Type::kF16 && (bits & 0x7fffu) > 0x7c00u) return 0x7e00u;
  if (type == Type::kBF16 && (bits & 0x7fffu) > 0x7f80u) return 0x7fc0u;
  return bits;
}

/// One kernel per question, all in one module.
class Questions {
 public:
  struct Question {
    std::string name;         // of the native function
    std::vector<Type> types;  // operands, then the result
    std::vector<Parameter> parameters;
  };

  /// `make` gets the kernel and writes the result's expression from the operands' loads.
  void add(std::string name, std::vector<Type> types, sdk::Expr expr) {
    testing::OneKernel one(types);
    for (std::uint32_t i = 0; i + 1 < types.size(); ++i) expr.in[i] = one.load(i);
    one.store(one.add(expr));
    std::vector<Parameter> parameters = module_.add(one.kernel, "q" + std::to_string(questions_.size()));
    questions_.push_back({std::move(name), std::move(types), std::move(parameters)});
  }

  void ask() {
    if (const std::string reason = testing::DeviceProgram::no_device(); !reason.empty()) GTEST_SKIP() << reason;
    ASSERT_EQ(testing::no_validator().empty() ? testing::validate(module_.words()) : "", "");
    testing::DeviceProgram program(module_.words());
    for (std::size_t q = 0; q < questions_.size(); ++q) ask_one(program, "q" + std::to_string(q), questions_[q]);
  }

 private:
  static constexpr std::size_t kCount = 2400;

  static void ask_one(testing::DeviceProgram& program, const std::string& kernel, const Question& question) {
    const kernel::NativeFunction native = kernel::native_function(question.name);
    ASSERT_NE(native, nullptr) << question.name;
    std::vector<Bytes> data;
    for (std::size_t i = 0; i + 1 < question.types.size(); ++i)
      data.push_back(numbers_of(question.types[i], 7 * i + 1, kCount));
    const Type result = question.types.back();
    const std::size_t size = size_bytes(result);
    data.emplace_back(kCount * size);
    std::vector<Bytes*> pointers;
    for (Bytes& bytes : data) pointers.push_back(&bytes);
    program.run(kernel, question.parameters, pointers, {}, 0, kCount, 64);
    Bytes expected(kCount * size);
    std::size_t different = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      alignas(8) std::byte a[8] = {}, b[8] = {}, r[8] = {};
      const std::size_t a_size = size_bytes(question.types[0]);
      std::memcpy(a, data[0].data() + i * a_size, a_size);
      if (data.size() > 2)
        std::memcpy(b, data[1].data() + i * size_bytes(question.types[1]), size_bytes(question.types[1]));
      native(a, data.size() > 2 ? b : nullptr, r);
      std::memcpy(expected.data() + i * size, r, size);
      const std::uint64_t want = bits_at(expected, result, i), got = bits_at(data.back(), result, i);
      if (want == got || different++ > 3) continue;
      ADD_FAILURE() << fmt::format(
          "{} of {:x}{}: {:x}, not {:x}", question.name, bits_at(data[0], question.types[0], i),
          data.size() > 2 ? fmt::format(" and {:x}", bits_at(data[1], question.types[1], i)) : "", got, want);
    }
    EXPECT_EQ(different, 0u) << question.name;
  }

  KernelModule module_;
  std::vector<Question> questions_;
};

constexpr Type kFloats[] = {Type::kF32, Type::kF64};
constexpr Type kIntegers[] = {Type::kU8, Type::kI8, Type::kI16, Type::kI32, Type::kI64};

TEST(SpirvPrelude, OperationsHaveTheHostsBits) {
  Questions questions;
  const std::pair<sdk::Op, const char*> unary[] = {
      {sdk::Op::kAbsolute, "abs"}, {sdk::Op::kSqrt, "sqrt"},       {sdk::Op::kFloor, "floor"},
      {sdk::Op::kExp, "exp"},      {sdk::Op::kLog, "log"},         {sdk::Op::kTanh, "tanh"},
      {sdk::Op::kErf, "erf"},      {sdk::Op::kSigmoid, "sigmoid"}, {sdk::Op::kReciprocalSqrt, "rsqrt"},
      {sdk::Op::kSin, "sin"},      {sdk::Op::kCos, "cos"}};
  for (const Type type : kFloats) {
    for (const auto& [op, word] : unary)
      questions.add(fmt::format("{}_{}", word, name(type)), {type, type}, {.operation = op, .type = type});
    for (const auto& [op, word] :
         {std::pair{sdk::Op::kMaximum, "max"}, {sdk::Op::kMinimum, "min"}, {sdk::Op::kPower, "pow"}})
      questions.add(fmt::format("{}_{}", word, name(type)), {type, type, type}, {.operation = op, .type = type});
    const Type key = type == Type::kF64 ? Type::kI64 : Type::kI32;
    questions.add(fmt::format("order_key_{}", name(type)), {type, key}, {.operation = sdk::Op::kOrderKey, .type = key});
    questions.add(fmt::format("from_order_key_{}", name(type)), {key, type},
                  {.operation = sdk::Op::kFromOrderKey, .type = type});
  }
  for (const Type type : kIntegers)
    questions.add(fmt::format("abs_{}", name(type)), {type, type}, {.operation = sdk::Op::kAbsolute, .type = type});
  questions.ask();
}

TEST(SpirvPrelude, CalledFunctionsHaveTheHostsBits) {
  Questions questions;
  for (std::uint32_t f = 0; f < sdk::kFunctions.size(); ++f) {
    const kernel::FunctionInfo& function = sdk::kFunctions[f];
    const auto add = [&](Type type) {
      std::vector<Type> types(static_cast<std::size_t>(function.operands) + 1, type);
      questions.add(fmt::format("{}_{}", function.name, name(type)), types,
                    {.operation = sdk::Op::kCall, .type = type, .id = f});
    };
    if (function.of_floats) {
      for (const Type type : kFloats) add(type);
    } else {
      for (const Type type : kIntegers) add(type);
    }
  }
  questions.ask();
}

TEST(SpirvPrelude, ConversionsHaveTheHostsBits) {
  Questions questions;
  constexpr Type kAll[] = {Type::kBool, Type::kU8,  Type::kI8,   Type::kI16, Type::kI32,
                           Type::kI64,  Type::kF16, Type::kBF16, Type::kF32, Type::kF64};
  for (const Type from : kAll) {
    for (const Type to : kAll) {
      const std::string conversion = fmt::format("{}_from_{}", name(to), name(from));
      // By way of f32, where C has a conversion of its own or none: kernels convert storage from and to f32.
      const bool by_f32 = (to == Type::kF16 || from == Type::kBF16) && !is_floating(to == Type::kF16 ? from : to);
      if (kernel::native_function(conversion) == nullptr || by_f32) continue;
      questions.add(conversion, {from, to}, {.operation = sdk::Op::kConvert, .type = to});
    }
  }
  questions.ask();
}

}  // namespace
}  // namespace crucible::spirv
