// Writing programs and their numbers: see ops_writer.hpp.
#include "plugins/conformance/ops_writer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/graph/op_table.hpp"
#include "core/graph/view.hpp"

namespace crucible::conformance {

using graph::kNone;
using graph::Operand;
using graph::OpKind;
using graph::View;

namespace {

struct FloatShape {
  int digits, min_exponent;
  double largest;
};

FloatShape shape_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {11, -14, 65504};
    case DType::kBF16:
      return {8, -126, std::ldexp(255, 120)};
    case DType::kF32:
      return {24, -126, std::numeric_limits<float>::max()};
    default:
      return {53, -1022, std::numeric_limits<double>::max()};
  }
}

bool needs_moderate_numbers(OpKind kind) { 
  return kind == OpKind::kSin || kind == OpKind::kCos || kind == OpKind::kTan || kind == OpKind::kDigamma ||
         kind == OpKind::kLogGamma;
}

}  // namespace

std::vector<double> awkward_numbers(DType dtype, OpKind kind) {
  if (dtype == DType::kBool) return {0, 1};
  if (!is_floating(dtype)) {
    const int bits = static_cast<int>(8 * size_bytes(dtype));
    const bool is_signed = dtype != DType::kU8;
    // Doubles that are exact; the ends of 64 bits are as near as a double comes.
    const double high = is_signed ? std::ldexp(1, bits - 1) - (bits == 64 ? 1024 : 1) : std::ldexp(1, bits) - 1;
    const double low = is_signed ? -std::ldexp(1, bits - 1) : 0;
    return {0,   1,   is_signed ? -1.0 : 2.0,     low, high, 2, 3, 7, 11, is_signed ? -7.0 : 13.0, 64,
            100, 127, is_signed ? -128.0 : 200.0, 5,   10};
  }
  const FloatShape shape = shape_of(dtype);
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const double smallest_normal = std::ldexp(1, shape.min_exponent),
               subnormal = std::ldexp(1, shape.min_exponent - shape.digits + 1);
  if (needs_moderate_numbers(kind))
    return {nan, infinity, -infinity, 0.0,      -0.0, subnormal, -subnormal, smallest_normal,
            1,   -1,       0.5,       3.140625, -100, 1000,      1.5,        -2.5};
  return {nan,           infinity,       -infinity, 0.0, -0.0, subnormal, -subnormal, smallest_normal,
          shape.largest, -shape.largest, 1,         -1,  0.5,  2.5,       -2.5,       3};
}

OpsWriter::OpsWriter(OpKind kind, std::string label, std::uint64_t seed) : random_(seed * 2654435761u + 77) {
  program.kind = kind;
  program.label = std::string(graph::name(kind)) + " " + std::move(label);
  program.program.iterations = 1;
}

double OpsWriter::uniform() {
  random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<double>(random_ >> 11) / 9007199254740992.0;
}

graph::ValueId OpsWriter::add_value(graph::ValueKind kind, DType dtype, std::int64_t elements, graph::OpId producer) {
  program.program.values.push_back({kind, dtype, elements, "", producer});
  program.values.emplace_back();
  return static_cast<graph::ValueId>(program.program.values.size() - 1);
}

double OpsWriter::draw(DType dtype, Pattern pattern, std::int64_t index) {
  if (dtype == DType::kBool) return uniform() < 0.5 ? 0 : 1;
  switch (pattern) {
    case Pattern::kSmallWhole:
      return std::floor(9 * uniform());
    case Pattern::kUnit:
      return is_floating(dtype) ? 2 * uniform() - 1 : std::floor(7 * uniform()) - (dtype == DType::kU8 ? 0 : 3);
    case Pattern::kSmooth:
      break;
    case Pattern::kAwkward:
    case Pattern::kAwkwardPairs: {
      const std::vector<double> numbers = awkward_numbers(dtype, program.kind);
      const auto count = static_cast<std::int64_t>(numbers.size());
      const std::int64_t place = pattern == Pattern::kAwkward ? index % (count + 3) : index / 16 % count;
      if (place < count) return numbers[static_cast<std::size_t>(place)];
      break;
    }
  }
  if (!is_floating(dtype)) return std::floor((dtype == DType::kU8 ? 0 : -11) + 23 * uniform());
  switch (program.kind) {
    case OpKind::kLog:
    case OpKind::kSqrt:
    case OpKind::kReciprocalSqrt:
    case OpKind::kReciprocal:
    case OpKind::kDivide:
    case OpKind::kPower:
    case OpKind::kLog2:
    case OpKind::kLog10:
      return 0.5 + 1.5 * uniform();
    case OpKind::kLog1p:
    case OpKind::kAsin:
    case OpKind::kAcos:
    case OpKind::kAtanh:
    case OpKind::kErfInverse:
      return 1.9 * uniform() - 0.95;
    case OpKind::kTan:
      return 2.6 * uniform() - 1.3;
    case OpKind::kAcosh:
    case OpKind::kLogGamma:
    case OpKind::kDigamma:  // from where they have no zeros
      return 2.5 + 6 * uniform();
    default:
      return 6 * uniform() - 3;
  }
}

Operand OpsWriter::input(DType dtype, const View& view, Pattern pattern) {
  const std::int64_t elements = graph::last_index(view).value_or(-1) + 1;
  const graph::ValueId id = add_value(graph::ValueKind::kInput, dtype, elements, kNone);
  program.program.inputs.push_back({id, {0}, false});
  graph::Bytes& bytes = program.values[id];
  bytes.resize(static_cast<std::size_t>(elements) * size_bytes(dtype));
  // In the order of the view, so that pairs meet whatever the strides are.
  std::int64_t index = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    std::byte* at = bytes.data() + static_cast<std::size_t>(i) * size_bytes(dtype);
    const double value = draw(dtype, pattern, index++);
    is_floating(dtype) ? graph::store_real(dtype, value, at)
                       : graph::store_integer(dtype, static_cast<std::int64_t>(value), at);
  }
  return {id, view, {}};
}

Operand OpsWriter::ids(DType dtype, const Sizes& sizes, std::int64_t below) {
  const Operand operand = input(dtype, sizes, Pattern::kSmallWhole);
  graph::Bytes& bytes = program.values[operand.value];
  for (std::int64_t i = 0; i < program.program.values[operand.value].elements; ++i)
    graph::store_integer(dtype, static_cast<std::int64_t>(uniform() * static_cast<double>(below)),
                         bytes.data() + static_cast<std::size_t>(i) * size_bytes(dtype));
  return operand;
}

Operand OpsWriter::bools(const View& view) { return input(DType::kBool, view, Pattern::kSmooth); }

Operand OpsWriter::number(double value) {
  Operand operand;
  operand.scalar.real = value;
  return operand;
}

Operand OpsWriter::slot(double value) {
  Operand operand;
  operand.scalar.slot = static_cast<graph::SlotId>(program.program.slots.size());
  program.program.slots.push_back({"slot", {value}});
  program.slots.push_back(value);
  return operand;
}

Operand OpsWriter::whole_slot(std::int64_t value) {
  Operand operand;
  operand.scalar.slot = static_cast<graph::SlotId>(program.program.slots.size());
  operand.scalar.is_integer = true;
  program.program.slots.push_back({"whole slot", {value}, true});
  program.slots.push_back(value);
  return operand;
}

Operand OpsWriter::op(std::vector<Operand> inputs, const Sizes& sizes, DType dtype, graph::Attributes attributes) {
  const auto id = static_cast<graph::OpId>(program.program.ops.size());
  const View view = View::contiguous(sizes);
  const Operand result{add_value(graph::ValueKind::kTemporary, dtype, view.elements(), id), view, {}};
  graph::Op op;
  op.kind = program.kind;
  op.inputs = std::move(inputs);
  op.outputs = {result};
  if (graph::is_reduction(op.kind)) {
    for (const std::int64_t dim : attributes.dims) op.outputs[0].view.strides[static_cast<std::size_t>(dim)] = 0;
  }
  op.attributes = std::move(attributes);
  program.program.ops.push_back(std::move(op));
  keep(result);
  return result;
}

Operand OpsWriter::second_result(const Sizes& sizes, DType dtype) {
  const View view = View::contiguous(sizes);
  const auto id = static_cast<graph::OpId>(program.program.ops.size() - 1);
  const Operand result{add_value(graph::ValueKind::kTemporary, dtype, view.elements(), id), view, {}};
  program.program.ops.back().outputs.push_back(result);
  keep(result);
  return result;
}

void OpsWriter::set_number(const Operand& operand, std::int64_t index, double value) {
  const DType dtype = program.program.values[operand.value].dtype;
  graph::store_real(dtype, value,
                    program.values[operand.value].data() + static_cast<std::size_t>(index) * size_bytes(dtype));
}

void OpsWriter::keep(const Operand& operand) {
  if (program.program.values[operand.value].elements == 0) return;
  program.program.outputs.push_back({"kept", {operand.value, View::contiguous({}), {}}, {0}});
}

}  // namespace crucible::conformance
