// A program of whole slots and its results: see whole_slot_program.hpp.
#include "core/graph/whole_slot_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

constexpr std::int64_t kElements[] = {0,
                                      1,
                                      -1,
                                      77,
                                      INT64_C(9007199254740992),
                                      INT64_C(9007199254740993),
                                      INT64_C(-9007199254740995),
                                      INT64_C(4611686018427387907),
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_C(1790000000000000001)};
constexpr float kReals[] = {1.5F, -2.0F, 0.25F, 1e20F, -0.0F, 7.0F, 3.0F};
constexpr std::size_t kPlaces = 5;

std::int64_t wrapped(std::uint64_t number) { return static_cast<std::int64_t>(number); }

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  Bytes bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

class Writer {
 public:
  Writer() {
    made_.program.iterations = static_cast<std::uint32_t>(kWholeNumbers.size());
    made_.program.slots = {{"rate", {}, false}, {"time stamp", {}, true}, {"the number before it", {}, true}};
    for (const std::int64_t number : kWholeNumbers) {
      const std::vector<Number> slots = {0.75, number, before(number)};
      for (std::size_t slot = 0; slot < slots.size(); ++slot) made_.program.slots[slot].values.push_back(slots[slot]);
      made_.slots.push_back(slots);
    }
    made_.expected.resize(kWholeNumbers.size());
  }

  static std::int64_t before(std::int64_t number) { return wrapped(static_cast<std::uint64_t>(number) - 1); }

  template <class T>
  Operand input(DType dtype, const std::vector<T>& numbers) {
    const Operand operand = value(ValueKind::kInput, dtype, static_cast<std::int64_t>(numbers.size()));
    made_.program.inputs.push_back({operand.value, std::vector<std::uint32_t>(kWholeNumbers.size(), 0), false});
    made_.values[operand.value] = bytes_of(numbers);
    return operand;
  }

  static Operand slot(SlotId id) {
    Operand operand;
    operand.scalar = {.slot = id, .is_integer = id != 0};
    return operand;
  }

  Operand op(OpKind kind, std::vector<Operand> inputs, DType dtype, std::size_t elements) {
    const Operand result = value(ValueKind::kTemporary, dtype, static_cast<std::int64_t>(elements));
    Op op;
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs = {result};
    if (kind == OpKind::kCoordinate) op.attributes.dims = {0};
    made_.program.ops.push_back(std::move(op));
    return result;
  }

  /// An op whose result is watched; `element(i, number)` says what it must be.
  template <class T, class Function>
  void watched(OpKind kind, std::vector<Operand> inputs, DType dtype, std::size_t elements, Function element) {
    const Operand result = op(kind, std::move(inputs), dtype, elements);
    made_.program.outputs.push_back(
        {std::string(name(kind)), result, {}, std::vector<std::uint32_t>(kWholeNumbers.size(), 0)});
    for (std::size_t iteration = 0; iteration < kWholeNumbers.size(); ++iteration) {
      std::vector<T> numbers;
      for (std::size_t i = 0; i < elements; ++i)
        numbers.push_back(static_cast<T>(element(i, kWholeNumbers[iteration])));
      made_.expected[iteration].push_back(bytes_of(numbers));
    }
  }

  WholeSlotProgram take() { return std::move(made_); }

 private:
  Operand value(ValueKind kind, DType dtype, std::int64_t elements) {
    Value added;
    added.kind = kind;
    added.dtype = dtype;
    added.elements = elements;
    if (kind == ValueKind::kTemporary) added.producer = static_cast<OpId>(made_.program.ops.size());
    made_.program.values.push_back(added);
    made_.values.emplace_back();
    return {static_cast<ValueId>(made_.program.values.size() - 1), View::contiguous({elements}), {}};
  }
  WholeSlotProgram made_;
};

void add_arithmetic(Writer& w) {
  using Binary = std::function<std::int64_t(std::int64_t, std::int64_t)>;
  const std::size_t count = std::size(kElements);
  const Operand x = w.input(DType::kI64, std::vector(std::begin(kElements), std::end(kElements))),
                now = Writer::slot(1);
  const auto of_bits = [](auto function) -> Binary {
    return [function](std::int64_t a, std::int64_t b) {
      return wrapped(function(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
    };
  };
  const std::pair<OpKind, Binary> arithmetic[] = {
      {OpKind::kAdd, of_bits(std::plus<>())},
      {OpKind::kSubtract, of_bits(std::minus<>())},
      {OpKind::kMultiply, of_bits(std::multiplies<>())},
      {OpKind::kBitAnd, of_bits(std::bit_and<>())},
      {OpKind::kBitOr, of_bits(std::bit_or<>())},
      {OpKind::kBitXor, of_bits(std::bit_xor<>())},
      {OpKind::kMaximum, [](std::int64_t a, std::int64_t b) { return std::max(a, b); }},
      {OpKind::kMinimum, [](std::int64_t a, std::int64_t b) { return std::min(a, b); }}};
  for (const auto& [kind, function] : arithmetic) {
    w.watched<std::int64_t>(kind, {x, now}, DType::kI64, count,
                            [&](std::size_t i, std::int64_t number) { return function(kElements[i], number); });
    w.watched<std::int64_t>(kind, {now, x}, DType::kI64, count,
                            [&](std::size_t i, std::int64_t number) { return function(number, kElements[i]); });
  }
  // None of the numbers is 0 or -1.
  w.watched<std::int64_t>(OpKind::kDivideInteger, {x, now}, DType::kI64, count,
                          [](std::size_t i, std::int64_t number) { return kElements[i] / number; });
  w.watched<std::int64_t>(OpKind::kRemainder, {x, now}, DType::kI64, count,
                          [](std::size_t i, std::int64_t number) { return kElements[i] % number; });
  const std::pair<OpKind, Binary> comparisons[] = {{OpKind::kLess, std::less<>()},
                                                   {OpKind::kLessEqual, std::less_equal<>()},
                                                   {OpKind::kGreater, std::greater<>()},
                                                   {OpKind::kEqual, std::equal_to<>()},
                                                   {OpKind::kNotEqual, std::not_equal_to<>()}};
  for (const auto& [kind, function] : comparisons) {
    w.watched<std::uint8_t>(kind, {x, now}, DType::kBool, count,
                            [&](std::size_t i, std::int64_t number) { return function(kElements[i], number); });
  }
  w.watched<std::uint8_t>(OpKind::kEqual, {x, Writer::slot(2)}, DType::kBool, count,
                          [](std::size_t i, std::int64_t number) { return kElements[i] == Writer::before(number); });
}

/// Elements one further than their own place, by a difference of two numbers of which a double holds none.
void add_places(Writer& w) {
  const Operand table = w.input(DType::kF32, std::vector(std::begin(kReals), std::end(kReals)));
  const Operand own = w.op(OpKind::kCoordinate, {}, DType::kI64, kPlaces);
  const Operand far = w.op(OpKind::kAdd, {own, Writer::slot(1)}, DType::kI64, kPlaces);
  const Operand place = w.op(OpKind::kSubtract, {far, Writer::slot(2)}, DType::kI64, kPlaces);
  w.watched<float>(OpKind::kTake, {table, place}, DType::kF32, kPlaces,
                   [](std::size_t i, std::int64_t) { return kReals[i + 1]; });
  const std::vector<float> source = {10, 11, 12, 13, 14};
  w.watched<float>(OpKind::kPutSet, {table, place, w.input(DType::kF32, source)}, DType::kF32, std::size(kReals),
                   [&](std::size_t i, std::int64_t) { return i > 0 && i <= kPlaces ? source[i - 1] : kReals[i]; });
}

void add_conversions(Writer& w, bool f64) {
  const Operand now = Writer::slot(1), reals = w.input(DType::kF32, std::vector(std::begin(kReals), std::end(kReals)));
  w.watched<std::int64_t>(OpKind::kFill, {now}, DType::kI64, 3,
                          [](std::size_t, std::int64_t number) { return number; });
  w.watched<std::int32_t>(OpKind::kFill, {now}, DType::kI32, 3, [](std::size_t, std::int64_t number) {
    return static_cast<std::int32_t>(static_cast<std::uint64_t>(number));
  });
  w.watched<std::uint8_t>(OpKind::kFill, {now}, DType::kBool, 3, [](std::size_t, std::int64_t) { return 1; });
  w.watched<float>(OpKind::kFill, {now}, DType::kF32, 3,
                   [](std::size_t, std::int64_t number) { return static_cast<float>(number); });
  w.watched<float>(OpKind::kAdd, {reals, now}, DType::kF32, std::size(kReals),
                   [](std::size_t i, std::int64_t number) { return kReals[i] + static_cast<float>(number); });
  w.watched<std::uint8_t>(OpKind::kLess, {reals, now}, DType::kBool, std::size(kReals),
                          [](std::size_t i, std::int64_t number) { return kReals[i] < static_cast<float>(number); });
  w.watched<float>(OpKind::kMultiply, {reals, Writer::slot(0)}, DType::kF32, std::size(kReals),
                   [](std::size_t i, std::int64_t) { return kReals[i] * 0.75F; });
  if (!f64) return;
  w.watched<double>(OpKind::kFill, {now}, DType::kF64, 3,
                    [](std::size_t, std::int64_t number) { return static_cast<double>(number); });
  const std::vector<double> doubles = {1.5, -0.25, 1e300};
  w.watched<double>(OpKind::kMultiply, {w.input(DType::kF64, doubles), now}, DType::kF64, doubles.size(),
                    [&](std::size_t i, std::int64_t number) { return doubles[i] * static_cast<double>(number); });
}

}  // namespace

WholeSlotProgram whole_slot_program(bool f64) {
  Writer writer;
  add_arithmetic(writer);
  add_places(writer);
  add_conversions(writer, f64);
  return writer.take();
}

std::string difference(const WholeSlotProgram& made, std::size_t iteration, const Program& program,
                       const std::vector<Bytes>& values) {
  if (program.outputs.size() != made.expected[iteration].size())
    return fmt::format("{} outputs instead of {}", program.outputs.size(), made.expected[iteration].size());
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const Operand& operand = program.outputs[i].operand;
    const Bytes &got = values[operand.value], &wanted = made.expected[iteration][i];
    if (got == wanted) continue;
    const DType dtype = program.values[operand.value].dtype;
    const Numbers a = load(got, dtype, operand.view), b = load(wanted, dtype, operand.view);
    for (std::size_t e = 0; e < b.size(); ++e) {
      const bool same = b.is_integer ? a.integer[e] == b.integer[e] : a.real[e] == b.real[e];
      if (same) continue;
      const std::string texts = b.is_integer ? fmt::format("{} instead of {}", a.integer[e], b.integer[e])
                                             : fmt::format("{} instead of {}", a.real[e], b.real[e]);
      return fmt::format("{}, output {} ({} {}), element {}: {}", kWholeNumbers[iteration], i, program.outputs[i].name,
                         name(dtype), e, texts);
    }
    return fmt::format("{}, output {} ({} {}): other bits", kWholeNumbers[iteration], i, program.outputs[i].name,
                       name(dtype));
  }
  return "";
}

}  // namespace crucible::graph
