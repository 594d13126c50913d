// Choices, operands and ops of wild programs: see wild_builder.hpp.
#include "core/graph/testing/wild_builder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/graph/op_table.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

constexpr std::int64_t kMostElements = 300;  // of one tensor, so that a program runs in microseconds

}  // namespace

WildBuilder::WildBuilder(const WildOptions& options)
    : options_(options), random_(options.seed * 0x9e3779b97f4a7c15u + 5) {
  Program& p = result_.program;
  p.iterations = 2;
  for (int i = 0; i < 3; ++i) {
    const auto first = static_cast<double>(integer(-2, 2));
    p.slots.push_back({"slot", {first, one_in(2) ? first : 0.75}});
  }
  if (one_in(3)) p.slots[2].values = p.slots[0].values;
  // Whole numbers: small ones, which are real ones in the ops of real numbers, and those that a double does not hold.
  std::mt19937_64 own(options.seed);  // so that the rest of the program is what it was before there were any
  const std::int64_t whole =
      own() % 2 == 0 ? static_cast<std::int64_t>(own() % 13) - 3 : static_cast<std::int64_t>(own());
  p.slots.push_back({"whole slot", {whole, own() % 2 == 0 ? whole : whole / 3}, true});
  for (const Slot& slot : p.slots) result_.slots.push_back(slot.values[0]);
  p.sources.push_back({"aten::wild", "blocks.0", "wild.py:1", Phase::kForward, 0});
  outside(ValueKind::kInput, DType::kF32, sizes(1, 3));
  outside(ValueKind::kInput, floating(), sizes(0, 4));
  outside(ValueKind::kInput, integral(), sizes(0, 3));
  p.inputs.back().is_draw = true;
  outside(ValueKind::kConstant, any_dtype(), sizes(0, 3));
  outside(ValueKind::kConstant, any_dtype(), Sizes(static_cast<std::size_t>(integer(0, 2)), 1));
  for (std::int64_t i = integer(1, 3); i > 0; --i) {
    storages_.push_back(outside(ValueKind::kState, any_dtype(), sizes(0, 3)).value);
  }
}

std::int64_t WildBuilder::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

Sizes WildBuilder::sizes(std::int64_t least_rank, std::int64_t largest_rank) {
  Sizes sizes(static_cast<std::size_t>(integer(least_rank, largest_rank)));
  for (auto& size : sizes) size = one_in(60) ? 0 : side();
  return sizes;
}

DType WildBuilder::any_dtype() { return one_in(8) ? DType::kBool : arithmetic(); }

DType WildBuilder::floating() {
  return one_of(std::array{DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16});
}

DType WildBuilder::integral() {
  return one_of(std::array{DType::kI64, DType::kI64, DType::kI32, DType::kI16, DType::kI8, DType::kU8});
}

ValueId WildBuilder::value(ValueKind kind, DType dtype, std::int64_t elements) {
  Program& p = result_.program;
  const OpId producer = kind == ValueKind::kTemporary ? static_cast<OpId>(p.ops.size()) : kNone;
  p.values.push_back({kind, dtype, elements, "", producer});
  result_.values.emplace_back();
  return static_cast<ValueId>(p.values.size() - 1);
}

double WildBuilder::awkward(DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const auto plain = static_cast<double>(integer(-4000, 4000)) / 1024;
  switch (integer(0, 15)) {
    case 0:
      return one_of(std::array{kInfinity, -kInfinity, kNan, 0.0, -0.0, 1e-42, -6e4, 3e38});
    case 1:
      return static_cast<double>(integer(-3, 3));
    case 2:
      return plain * (dtype == DType::kF16 ? 100 : 1e9);
    default:
      return plain;
  }
}

Operand WildBuilder::outside(ValueKind kind, DType dtype, const Sizes& sizes, Filling filling) {
  const View view = View::contiguous(sizes);
  const ValueId id = value(kind, dtype, view.elements());
  const auto count = static_cast<std::size_t>(view.elements());
  Numbers numbers = Numbers::zeros(dtype, count);
  for (auto& number : numbers.integer) {
    number = filling == Filling::kAwkward && one_in(8) ? static_cast<std::int64_t>(random_()) : integer(-3, 9);
  }
  for (auto& number : numbers.real) {
    number = filling == Filling::kAwkward ? awkward(dtype) : static_cast<double>(integer(-3, 3));
  }
  if (dtype == DType::kBool) {
    for (auto& number : numbers.integer) number &= 1;
  }
  result_.values[id].resize(count * size_bytes(dtype));
  store(numbers, dtype, view, result_.values[id]);
  Program& p = result_.program;
  if (kind == ValueKind::kInput) p.inputs.push_back({id, {0, 0}, false});
  if (kind == ValueKind::kConstant) p.constants.push_back({id, id});
  if (kind == ValueKind::kState) p.states.push_back({id, id, kNone, kNone});
  pool_.push_back({id, view, {}});
  return pool_.back();
}

Operand WildBuilder::ids(const Sizes& sizes, std::int64_t low, std::int64_t high) {
  const DType dtype = one_in(3) ? DType::kI32 : DType::kI64;
  const Operand made = outside(one_in(2) ? ValueKind::kInput : ValueKind::kConstant, dtype, sizes);
  Numbers numbers = Numbers::zeros(dtype, static_cast<std::size_t>(made.view.elements()));
  for (auto& number : numbers.integer) number = integer(low, high);
  store(numbers, dtype, made.view, result_.values[made.value]);
  return made;
}

Operand WildBuilder::tensor() {
  // Half of the time one of the last ones, so that programs grow deep as well as wide.
  const auto last = static_cast<std::int64_t>(pool_.size()) - 1;
  const auto at =
      static_cast<std::size_t>(one_in(2) ? integer(std::max<std::int64_t>(0, last - 5), last) : integer(0, last));
  Operand operand = pool_[at];
  for (std::int64_t n = integer(0, 2); n > 0; --n) operand = viewed(operand);
  return operand;
}

Operand WildBuilder::filled_tensor() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (const Operand t = tensor(); t.view.elements() > 0) return t;
  }
  return outside(ValueKind::kInput, arithmetic(), {side(), side()});
}

Operand WildBuilder::tensor_of(DType wanted) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (const Operand t = tensor(); dtype(t) == wanted) return t;
  }
  if (one_in(2)) return outside(ValueKind::kInput, wanted, sizes(0, 3));
  const Operand t = tensor();
  return emit(OpKind::kCopy, {t}, t.view.sizes, wanted);
}

Operand WildBuilder::like(const Sizes& wanted, DType of) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    const Operand t = tensor();
    if (of != DType::kOther && dtype(t) != of) continue;
    if (auto view = broadcast(t.view, wanted)) return {t.value, *view, {}};
  }
  Sizes part = wanted;
  for (auto& size : part) size = size > 0 && one_in(3) ? 1 : size;
  Operand made =
      outside(one_in(2) ? ValueKind::kConstant : ValueKind::kInput, of == DType::kOther ? any_dtype() : of, part);
  made.view = *broadcast(made.view, wanted);
  return made;
}

Operand WildBuilder::fixed(double real) {
  Operand o;
  o.scalar.real = real;
  return o;
}

Operand WildBuilder::whole(std::int64_t integer) {
  Operand o;
  o.scalar.is_integer = true;
  o.scalar.integer = integer;
  return o;
}

Operand WildBuilder::number() {
  switch (integer(0, 4)) {
    case 0: {
      Operand o;
      o.scalar.slot = static_cast<SlotId>(integer(0, 2));
      o.scalar.is_integer = one_in(4);
      if (o.scalar.is_integer) o.scalar.slot = 3;
      return o;
    }
    case 1:
      return whole(one_in(8) ? static_cast<std::int64_t>(random_()) : integer(-3, 9));
    case 2:
      return fixed(static_cast<double>(integer(-2, 2)));
    default:
      return fixed(awkward(DType::kF32));
  }
}

Operand WildBuilder::viewed(Operand operand) {
  View& v = operand.view;
  const std::size_t rank = v.sizes.size();
  if (v.elements() == 0 || v.elements() > kMostElements) return operand;
  if (rank == 0) return one_in(2) ? operand : Operand{operand.value, *reshaped(v, {1}), {}};
  const auto d = static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(rank) - 1));
  const auto at = static_cast<std::ptrdiff_t>(d);
  std::int64_t& size = v.sizes[d];
  std::int64_t& stride = v.strides[d];
  switch (integer(0, 8)) {
    case 0:
      std::swap(size, v.sizes[0]);
      std::swap(stride, v.strides[0]);
      break;
    case 1: {  // a part of a dimension
      const std::int64_t count = integer(1, size);
      v.offset += stride * integer(0, size - count);
      size = count;
      break;
    }
    case 2:  // every second element
      size = (size + 1) / 2;
      stride *= 2;
      break;
    case 3:  // one index of a dimension
      v.offset += stride * integer(0, size - 1);
      v.sizes.erase(v.sizes.begin() + at);
      v.strides.erase(v.strides.begin() + at);
      break;
    case 4:  // a new dimension, of one element or of the same ones again
      if (rank < 4) {
        v.sizes.insert(v.sizes.begin() + at, one_in(2) ? 1 : side());
        v.strides.insert(v.strides.begin() + at, 0);
      }
      break;
    case 5:
      if (auto flat = reshaped(v, {v.elements()})) v = *flat;
      break;
    case 6:  // a dimension cut in two
      if (size % 2 == 0 && rank < 4) {
        v.sizes.insert(v.sizes.begin() + at, 2);
        v.strides.insert(v.strides.begin() + at, v.strides[d] * (v.sizes[d + 1] / 2));
        v.sizes[d + 1] /= 2;
      }
      break;
    case 7:  // windows of two that overlap
      if (size > 1 && rank < 4) {
        v.sizes[d] -= 1;
        v.sizes.push_back(2);
        v.strides.push_back(v.strides[d]);
      }
      break;
    default:
      break;
  }
  if (v.elements() > kMostElements) return pool_.front();
  if (one_in(2)) v = normalized(v);
  return operand;
}

Operand WildBuilder::emit(OpKind kind, std::vector<Operand> inputs, Sizes sizes, DType dtype, Attributes attributes) {
  View view = View::contiguous(sizes);
  if (kind != OpKind::kUpdate && sizes.size() > 1 && one_in(5)) {
    const auto d = static_cast<std::size_t>(integer(1, static_cast<std::int64_t>(sizes.size()) - 1));
    std::swap(sizes[0], sizes[d]);
    view = View::contiguous(sizes);
    std::swap(view.sizes[0], view.sizes[d]);
    std::swap(view.strides[0], view.strides[d]);
  }
  if (is_reduction(kind)) {
    for (auto dim : attributes.dims) view.strides[static_cast<std::size_t>(dim)] = 0;
  }
  const ValueId id = value(ValueKind::kTemporary, dtype, view.elements());
  Op op;
  op.kind = kind;
  op.inputs = std::move(inputs);
  op.outputs = {{id, view, {}}};
  op.attributes = std::move(attributes);
  op.source = one_in(2) ? 0 : kNone;
  result_.program.ops.push_back(std::move(op));
  if (view.elements() <= kMostElements) pool_.push_back({id, view, {}});
  return {id, view, {}};
}

Operand WildBuilder::emit_second(const Sizes& sizes, DType dtype) {
  Program& p = result_.program;
  const View view = View::contiguous(sizes);
  const ValueId id = value(ValueKind::kTemporary, dtype, view.elements());
  p.values[id].producer = static_cast<OpId>(p.ops.size() - 1);
  p.ops.back().outputs.push_back({id, view, {}});
  pool_.push_back({id, view, {}});
  return {id, view, {}};
}

void WildBuilder::repeat_an_op() {
  Program& p = result_.program;
  if (p.ops.empty()) return;
  Op op = p.ops[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(p.ops.size()) - 1))];
  // Mostly the same; sometimes another number of the same op, which must not be merged.
  if (one_in(4)) {
    for (Operand& input : op.inputs) {
      if (input.is_scalar()) input = one_in(2) ? fixed(-0.0) : number();
    }
  }
  for (Operand& output : op.outputs) {
    const Value old = p.values[output.value];
    output.value = value(ValueKind::kTemporary, old.dtype, old.elements);
    if (output.view.elements() <= kMostElements) pool_.push_back(output);
  }
  p.ops.push_back(std::move(op));
}

void WildBuilder::write_in_place() {
  Program& p = result_.program;
  const auto s = static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(storages_.size()) - 1));
  const ValueId base = one_in(4) ? tensor().value : storages_[s];
  const bool is_storage = base == storages_[s];
  const Value old = p.values[base];
  const Operand all{base, View::contiguous({old.elements}), {}};
  Operand part = all;
  for (int tries = 0; tries < 3; ++tries) {
    const Operand next = viewed(part);
    if (next.value == base && is_injective(next.view)) part = next;
  }
  const Operand source = like(part.view.sizes, old.dtype);
  Attributes a;
  a.region = part.view;
  const Operand after = emit(OpKind::kUpdate, {all, source}, {old.elements}, old.dtype, a);
  if (is_storage) storages_[s] = after.value;
  pool_.push_back({after.value, part.view, {}});  // the view that was written is read again
}

void WildBuilder::end_states() {
  Program& p = result_.program;
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    State& state = p.states[s];
    const Value start = p.values[state.start];
    const Operand all{storages_[s], View::contiguous({start.elements}), {}};
    ValueId end = storages_[s];
    if (one_in(2) && start.dtype != DType::kBool) {
      end = emit(OpKind::kAdd, {all, either({start.elements})}, {start.elements}, start.dtype).value;
    } else if (one_in(4)) {  // as if the iteration had made the tensor anew
      end = emit(OpKind::kCopy, {like({start.elements})}, {start.elements}, start.dtype).value;
    }
    p.states[s].end = end;
  }
}

void WildBuilder::name_outputs() {
  Program& p = result_.program;
  const auto is_changed_start = [&](ValueId v) {
    return std::ranges::any_of(p.states, [&](const State& s) { return s.start == v && s.end != s.start; });
  };
  for (std::int64_t n = integer(0, 2); n > 0; --n) {
    Operand o = filled_tensor();
    for (auto& size : o.view.sizes) size = 1;
    if (one_in(2)) o.view = *reshaped(o.view, {});
    p.outputs.push_back({"number", o, {0, 0}, {}});
  }
  for (std::int64_t n = integer(1, 3); n > 0; --n) {
    const Operand o = tensor();
    if (!is_changed_start(o.value)) p.outputs.push_back({"tensor", o, {}, {0, 0}});
  }
}

RandomProgram WildBuilder::finish() {
  end_states();
  name_outputs();
  return std::move(result_);
}

}  // namespace crucible::graph
