// break_field and bend for programs; those of traces are in mutate_trace.cpp.
#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/graph/op_table.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"

namespace crucible::fuzz {
namespace {

using graph::Operand;
using graph::OpKind;
using graph::Program;
using graph::View;

constexpr DType kDTypes[] = {DType::kBool, DType::kU8,   DType::kI8,   DType::kI16, DType::kI32,
                             DType::kI64,  DType::kF16,  DType::kBF16, DType::kF32, DType::kF64,
                             DType::kC64,  DType::kC128, DType::kOther};

DType any_dtype(Draw& draw, std::size_t count = std::size(kDTypes)) { return kDTypes[draw.below(count)]; }

std::uint32_t other_id(Draw& draw, std::uint32_t id, std::size_t count) {
  if (draw.one_in(8)) return static_cast<std::uint32_t>(draw.other_than(id));
  if (draw.one_in(8)) return graph::kNone;
  return static_cast<std::uint32_t>(draw.below(count + 1));
}

double awkward(Draw& draw) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> kNumbers = {0.0,          -0.0,          1,
                                               -1,           0.5,           1e-320,
                                               1e300,        -1e300,        3e38,
                                               1e-40,        65504,         65520,
                                               2147483648.0, -2147483649.0, 9223372036854775808.0,
                                               kInfinity,    -kInfinity,    std::numeric_limits<double>::quiet_NaN()};
  return draw.of(kNumbers);
}

/// One of the operands of all ops and outputs; null where there is none.
Operand* any_operand(Program& program, Draw& draw) {
  const std::size_t at = draw.below(program.ops.size() + program.outputs.size());
  if (at >= program.ops.size())
    return at - program.ops.size() < program.outputs.size() ? &program.outputs[at - program.ops.size()].operand
                                                            : nullptr;
  graph::Op& op = program.ops[at];
  const std::size_t place = draw.below(op.inputs.size() + op.outputs.size());
  if (place < op.inputs.size()) return &op.inputs[place];
  return place - op.inputs.size() < op.outputs.size() ? &op.outputs[place - op.inputs.size()] : nullptr;
}

/// Takes one out, doubles one, or lets two change places.
template <class T>
void change_list(std::vector<T>& list, Draw& draw) {
  if (list.empty()) return;
  const std::size_t at = draw.below(list.size());
  switch (draw.below(3)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1: {
      const T copy = list[at];
      list.push_back(copy);
      break;
    }
    default:
      std::swap(list[at], list[draw.below(list.size())]);
  }
}

std::string break_view(View& view, Draw& draw) {
  switch (draw.below(6)) {
    case 0:
      view.offset = draw.other_than(view.offset);
      return "a view's offset";
    case 1:
      if (!view.sizes.empty()) {
        std::int64_t& size = view.sizes[draw.below(view.sizes.size())];
        size = draw.other_than(size);
      }
      return "a view's size";
    case 2:
      if (!view.strides.empty()) {
        std::int64_t& stride = view.strides[draw.below(view.strides.size())];
        stride = draw.other_than(stride);
      }
      return "a view's stride";
    case 3:
      change_list(view.sizes, draw);
      return "a view's sizes";
    case 4:
      change_list(view.strides, draw);
      return "a view's strides";
    default:
      if (!view.sizes.empty()) {
        const std::size_t at = draw.below(view.sizes.size());
        view.sizes.insert(view.sizes.begin() + static_cast<std::ptrdiff_t>(at),
                          1 + static_cast<std::int64_t>(draw.below(3)));
        view.strides.insert(view.strides.begin() + static_cast<std::ptrdiff_t>(std::min(at, view.strides.size())),
                            static_cast<std::int64_t>(draw.below(3)));
      }
      return "a view's rank";
  }
}

std::string break_operand(Recorded& recorded, Draw& draw) {
  Operand* operand = any_operand(recorded.program, draw);
  if (operand == nullptr) return "nothing";
  switch (draw.below(6)) {
    case 0:
      operand->value = other_id(draw, operand->value, recorded.program.values.size());
      return "an operand's value";
    case 1:
      operand->scalar.slot = other_id(draw, operand->scalar.slot, recorded.program.slots.size());
      return "an operand's slot";
    case 2:
      operand->scalar.is_integer = !operand->scalar.is_integer;
      return "an operand's type of number";
    case 3:
      (operand->scalar.is_integer ? operand->scalar.real : operand->scalar.real) = awkward(draw);
      if (operand->scalar.is_integer)
        operand->scalar = {.is_integer = true, .integer = draw.other_than(operand->scalar.integer)};
      return "an operand's number";
    default:
      return break_view(operand->view, draw);
  }
}

std::string break_attribute(graph::Attributes& a, Draw& draw) {
  const auto pair = [&](std::int64_t(&numbers)[2]) {
    std::int64_t& number = numbers[draw.below(2)];
    number = draw.other_than(number);
  };
  switch (draw.below(9)) {
    case 0:
      if (a.dims.empty() || draw.one_in(3)) {
        a.dims.push_back(static_cast<std::int64_t>(draw.below(4)));
      } else {
        std::int64_t& dim = a.dims[draw.below(a.dims.size())];
        dim = draw.other_than(dim);
      }
      return "attribute dims";
    case 1:
      a.index = draw.other_than(a.index);
      return "attribute index";
    case 2:
      a.alpha = awkward(draw);
      return "attribute alpha";
    case 3:
      return "attribute region, " + break_view(a.region, draw);
    case 4:
      pair(a.kernel);
      return "attribute kernel";
    case 5:
      pair(a.stride);
      return "attribute stride";
    case 6:
      pair(a.padding);
      return "attribute padding";
    case 7:
      pair(a.dilation);
      return "attribute dilation";
    default:
      a.groups = draw.other_than(a.groups);
      return "attribute groups";
  }
}

std::string break_op(Recorded& recorded, Draw& draw) {
  Program& program = recorded.program;
  if (program.ops.empty()) return "nothing";
  graph::Op& op = program.ops[draw.below(program.ops.size())];
  switch (draw.below(7)) {
    case 0:
      op.kind = static_cast<OpKind>(draw.one_in(20) ? draw.below(256) : draw.below(graph::kOpKindCount + 2));
      return "an op's kind";
    case 1:
      change_list(op.inputs, draw);
      return "an op's operands";
    case 2:
      change_list(op.outputs, draw);
      return "an op's results";
    case 3:
      op.source = other_id(draw, op.source, program.sources.size());
      return "an op's source";
    case 4:
      change_list(program.ops, draw);
      return "the ops";
    default:
      return break_attribute(op.attributes, draw);
  }
}

std::string break_value(Recorded& recorded, Draw& draw) {
  Program& program = recorded.program;
  if (program.values.empty()) return "nothing";
  graph::Value& value = program.values[draw.below(program.values.size())];
  switch (draw.below(4)) {
    case 0:
      value.kind = static_cast<graph::ValueKind>(draw.below(5));
      return "a value's kind";
    case 1:
      value.dtype = any_dtype(draw);
      return "a value's dtype";
    case 2:
      value.elements = draw.other_than(value.elements);
      return "a value's elements";
    default:
      value.producer = other_id(draw, value.producer, program.ops.size());
      return "a value's producer";
  }
}

std::string break_lists(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  const std::size_t values = p.values.size(), blobs = recorded.blobs.size();
  switch (draw.below(12)) {
    case 0:
      p.iterations = static_cast<std::uint32_t>(draw.other_than(p.iterations));
      return "the iterations";
    case 1:
      change_list(p.states, draw);
      return "the states";
    case 2:
      if (!p.states.empty()) {
        graph::State& state = p.states[draw.below(p.states.size())];
        std::uint32_t* const fields[] = {&state.start, &state.end, &state.initial_blob, &state.final_blob};
        std::uint32_t& field = *fields[draw.below(4)];
        field = other_id(draw, field, std::max(values, blobs));
      }
      return "a state";
    case 3:
      change_list(p.inputs, draw);
      return "the inputs";
    case 4:
      if (!p.inputs.empty()) {
        graph::Input& input = p.inputs[draw.below(p.inputs.size())];
        if (draw.one_in(3)) input.value = other_id(draw, input.value, values);
        for (std::uint32_t& blob : input.blobs) {
          if (draw.one_in(2)) blob = other_id(draw, blob, blobs);
        }
        if (draw.one_in(3)) change_list(input.blobs, draw);
      }
      return "an input";
    case 5:
      if (!p.constants.empty()) {
        graph::Constant& constant = p.constants[draw.below(p.constants.size())];
        (draw.one_in(2) ? constant.value : constant.blob) = other_id(draw, constant.blob, std::max(values, blobs));
      }
      return "a constant";
    case 6:
      change_list(p.outputs, draw);
      return "the outputs";
    case 7:
      if (!p.outputs.empty()) {
        graph::Output& output = p.outputs[draw.below(p.outputs.size())];
        if (draw.one_in(3)) change_list(output.recorded, draw);
        if (draw.one_in(3)) change_list(output.blobs, draw);
        if (draw.one_in(2))
          output.bounds.push_back({draw.other_than(0), draw.other_than(0), other_id(draw, 0, p.sources.size())});
      }
      return "an output";
    case 8:
      if (!p.slots.empty()) {
        graph::Slot& slot = p.slots[draw.below(p.slots.size())];
        if (draw.one_in(3)) slot.is_integer = !slot.is_integer;
        for (graph::Number& number : slot.values) {
          if (draw.one_in(2))
            number = slot.is_integer ? graph::Number(draw.other_than(number.integer())) : graph::Number(awkward(draw));
        }
        if (draw.one_in(4)) change_list(slot.values, draw);
      }
      return "a slot";
    case 9:
      change_list(p.slots, draw);
      return "the slots";
    case 10:
      change_list(p.composites, draw);
      return "the composites";
    default:
      change_list(p.values, draw);
      return "the values";
  }
}

std::string break_blob(Recorded& recorded, Draw& draw) {
  if (recorded.blobs.empty()) return "nothing";
  std::vector<std::byte>& blob = recorded.blobs[draw.below(recorded.blobs.size())];
  switch (draw.below(5)) {
    case 0:
      blob.resize(draw.below(blob.size() + 9));
      return "a blob's size";
    case 1:
      for (std::byte& byte : blob) byte = static_cast<std::byte>(draw.bits());
      return "all of a blob";
    default:
      for (std::size_t i = 1 + draw.below(4); i > 0 && !blob.empty(); --i) {
        // Eight bytes as a number of each width.
        const std::size_t width = std::size_t{1} << draw.below(4), at = draw.below(blob.size() / width) * width;
        const std::uint64_t bits = draw.one_in(2) ? static_cast<std::uint64_t>(draw.other_than(0))
                                                  : std::bit_cast<std::uint64_t>(awkward(draw));
        std::memcpy(blob.data() + at, &bits, std::min(width, blob.size() - at));
      }
      return "a blob's numbers";
  }
}

// ---- what belongs together

std::vector<std::byte> numbers_for(const graph::Value& value, Draw& draw) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype));
  if (size_bytes(value.dtype) == 0) return bytes;
  for (std::size_t at = 0; at < bytes.size(); at += size_bytes(value.dtype)) {
    if (is_floating(value.dtype)) {
      graph::store_real(value.dtype, static_cast<double>(draw.below(4001)) / 1000 - 2, bytes.data() + at);
    } else {
      graph::store_integer(value.dtype, static_cast<std::int64_t>(draw.below(value.dtype == DType::kBool ? 2 : 9)),
                           bytes.data() + at);
    }
  }
  return bytes;
}

/// New bytes for everything that enters, of the sizes that it has now.
void refill(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  const auto fill = [&](graph::ValueId value, std::uint32_t& blob) {
    const std::size_t size = static_cast<std::size_t>(p.values[value].elements) * size_bytes(p.values[value].dtype);
    if (blob == graph::kNone || (blob < recorded.blobs.size() && recorded.blobs[blob].size() == size)) return;
    recorded.blobs.push_back(numbers_for(p.values[value], draw));
    blob = static_cast<std::uint32_t>(recorded.blobs.size() - 1);
  };
  for (graph::State& state : p.states) {
    fill(state.start, state.initial_blob);
    state.final_blob = graph::kNone;
  }
  for (graph::Constant& constant : p.constants) fill(constant.value, constant.blob);
  for (graph::Input& input : p.inputs) {
    for (std::uint32_t& blob : input.blobs) fill(input.value, blob);
  }
  for (graph::Output& output : p.outputs) std::ranges::fill(output.blobs, graph::kNone);
}

template <class Do>
void for_each_operand(Program& program, Do apply) {
  for (graph::Op& op : program.ops) {
    for (Operand& operand : op.inputs) {
      if (!operand.is_scalar()) apply(operand);
    }
    for (Operand& operand : op.outputs) apply(operand);
  }
  for (graph::Output& output : program.outputs) apply(output.operand);
}

/// All dimensions of one size get another one; dense views stay dense, and values are as large as what they hold.
void resize_dimensions(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  std::vector<std::int64_t> sizes;
  for_each_operand(
      p, [&](Operand& operand) { sizes.insert(sizes.end(), operand.view.sizes.begin(), operand.view.sizes.end()); });
  if (sizes.empty()) return;
  static const std::vector<std::int64_t> kSizes = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
  const std::int64_t from = draw.of(sizes), to = draw.of(kSizes);
  for (graph::Value& value : p.values) value.elements = 0;
  for_each_operand(p, [&](Operand& operand) {
    const bool is_dense = operand.view.is_contiguous();
    View& view = operand.view;
    std::ranges::replace(view.sizes, from, to);
    if (is_dense) view.strides = View::contiguous(view.sizes).strides;
    const auto last = graph::last_index(view);
    if (last && operand.value < p.values.size()) {
      p.values[operand.value].elements = std::max(p.values[operand.value].elements, *last + 1);
    }
  });
  for (graph::Op& op : p.ops) {
    const bool is_dense = op.attributes.region.is_contiguous();
    std::ranges::replace(op.attributes.region.sizes, from, to);
    if (is_dense) op.attributes.region.strides = View::contiguous(op.attributes.region.sizes).strides;
    for (std::int64_t& side : op.attributes.kernel) side = side == from && side > 1 ? to : side;
  }
  for (const graph::State& state : p.states) {
    const std::int64_t elements = std::max(p.values[state.start].elements, p.values[state.end].elements);
    p.values[state.start].elements = p.values[state.end].elements = elements;
  }
  for (const graph::Value& value : p.values) {
    if (value.elements > 1 << 16) return;  // refused for want of bytes
  }
  refill(recorded, draw);
}

void change_dtypes(Recorded& recorded, Draw& draw) {
  const DType from = any_dtype(draw, std::size(kDTypes) - 3), to = any_dtype(draw, std::size(kDTypes) - 3);
  for (graph::Value& value : recorded.program.values) {
    if (value.dtype == from) value.dtype = to;
  }
  refill(recorded, draw);
}

/// An operand is read through other strides, inside of its value.
void read_otherwise(Recorded& recorded, Draw& draw) {
  Operand* const operand = any_operand(recorded.program, draw);
  if (operand == nullptr || operand->is_scalar() || operand->value >= recorded.program.values.size()) return;
  const std::int64_t elements = recorded.program.values[operand->value].elements;
  View& view = operand->view;
  const View before = view;
  if (draw.one_in(2) && view.strides.size() > 1) {
    const std::size_t a = draw.below(view.strides.size()), b = draw.below(view.strides.size());
    std::swap(view.strides[a], view.strides[b]);
  } else {
    for (std::int64_t& stride : view.strides) {
      if (draw.one_in(2))
        stride =
            static_cast<std::int64_t>(draw.below(static_cast<std::size_t>(std::min<std::int64_t>(elements, 40)) + 1));
    }
  }
  view.offset = 0;
  const auto last = graph::last_index(view);
  if (!last || *last >= elements) {
    view = before;
    return;
  }
  if (*last >= 0)
    view.offset = draw.one_in(2) ? elements - 1 - *last
                                 : static_cast<std::int64_t>(draw.below(static_cast<std::size_t>(elements - *last)));
}

/// An operand becomes another one of its sizes and dtype.
void read_another(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  if (p.ops.empty()) return;
  std::vector<Operand> operands;
  for (const graph::Op& op : p.ops) {
    for (const Operand& operand : op.inputs) operands.push_back(operand);
    for (const Operand& operand : op.outputs) operands.push_back(operand);
  }
  graph::Op& op = p.ops[draw.below(p.ops.size())];
  if (op.inputs.empty()) return;
  Operand& operand = op.inputs[draw.below(op.inputs.size())];
  std::erase_if(operands, [&](const Operand& other) {
    if (other.is_scalar() || operand.is_scalar()) return !other.is_scalar();
    if (other.value >= p.values.size() || operand.value >= p.values.size()) return true;
    return p.values[other.value].dtype != p.values[operand.value].dtype || other.view.sizes != operand.view.sizes;
  });
  if (!operands.empty()) operand = draw.of(operands);
}

void change_kind(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  if (p.ops.empty()) return;
  graph::Op& op = p.ops[draw.below(p.ops.size())];
  if (!graph::is_known(op.kind)) return;
  const graph::OpInfo& is = graph::info(op.kind);
  std::vector<OpKind> others;
  for (int k = 0; k < graph::kOpKindCount; ++k) {
    const graph::OpInfo& other = graph::info(static_cast<OpKind>(k));
    const bool fits =
        other.min_inputs == is.min_inputs && other.outputs == is.outputs && other.attributes == is.attributes;
    if (fits && (other.op_class == is.op_class || draw.one_in(3))) others.push_back(other.kind);
  }
  if (!others.empty()) op.kind = draw.of(others);
}

/// States end as other values of their kind, of each other too.
void change_ends(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  if (p.states.empty()) return;
  graph::State& state = p.states[draw.below(p.states.size())];
  std::vector<graph::ValueId> ends = {state.start};
  for (graph::ValueId v = 0; v < p.values.size(); ++v) {
    const graph::Value& value = p.values[v];
    if (value.kind == graph::ValueKind::kTemporary && value.dtype == p.values[state.start].dtype &&
        value.elements == p.values[state.start].elements)
      ends.push_back(v);
  }
  const graph::ValueId end = draw.of(ends);
  for (graph::State& other : p.states) {
    if (other.end == end) other.end = state.end;
  }
  state.end = end;
}

/// One more tensor is given back.
void watch(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  if (p.values.empty()) return;
  const auto value = static_cast<graph::ValueId>(draw.below(p.values.size()));
  graph::Output output{.name = "watched", .operand = {value, View::contiguous({p.values[value].elements}), {}}};
  output.blobs.assign(p.iterations, graph::kNone);
  if (output.blobs.size() <= 4) p.outputs.push_back(std::move(output));
}

/// What enters as one kind of value enters as another.
void enter_otherwise(Recorded& recorded, Draw& draw) {
  Program& p = recorded.program;
  if (p.inputs.empty() || p.iterations > 4) return;
  const std::size_t at = draw.below(p.inputs.size());
  const graph::Input input = p.inputs[at];
  if (input.value >= p.values.size() || input.blobs.empty()) return;
  p.inputs.erase(p.inputs.begin() + static_cast<std::ptrdiff_t>(at));
  const bool is_state = draw.one_in(2);
  p.values[input.value].kind = is_state ? graph::ValueKind::kState : graph::ValueKind::kConstant;
  if (is_state) {
    p.states.push_back({input.value, input.value, draw.one_in(4) ? graph::kNone : input.blobs[0], graph::kNone});
  } else {
    p.constants.push_back({input.value, input.blobs[0]});
  }
}

}  // namespace

std::string break_field(Recorded& recorded, Draw& draw) {
  switch (draw.below(10)) {
    case 0:
    case 1:
    case 2:
      return break_operand(recorded, draw);
    case 3:
    case 4:
    case 5:
      return break_op(recorded, draw);
    case 6:
      return break_value(recorded, draw);
    case 7:
      return break_lists(recorded, draw);
    default:
      return break_blob(recorded, draw);
  }
}

std::string bend(Recorded& recorded, Draw& draw) {
  struct Way {
    const char* name;
    void (*apply)(Recorded&, Draw&);
  };
  constexpr Way kWays[] = {{"other sizes", resize_dimensions}, {"other sizes", resize_dimensions},
                           {"other dtypes", change_dtypes},    {"another view", read_otherwise},
                           {"another view", read_otherwise},   {"another operand", read_another},
                           {"another kind", change_kind},      {"other ends", change_ends},
                           {"one more output", watch},         {"no input", enter_otherwise}};
  const Way& way = kWays[draw.below(std::size(kWays))];
  way.apply(recorded, draw);
  return way.name;
}

}  // namespace crucible::fuzz
