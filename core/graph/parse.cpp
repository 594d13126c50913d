// The parser of the text form: see parse.hpp. One line is one thing; names of lines are those that print.cpp writes.
#include "core/graph/parse.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "core/graph/op_table.hpp"
#include "core/graph/print.hpp"
#include "core/graph/text_cursor.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

Error bad(std::string message) { return Error{ErrorCode::kBadInput, "the program's text: " + std::move(message)}; }

constexpr std::array kDTypes = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32, DType::kI64,
                                DType::kF16,  DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kC128};

DType read_dtype(TextCursor& c) {
  for (const DType dtype : kDTypes) {
    if (c.take(name(dtype))) return dtype;
  }
  c.expected("a dtype such as f32");
  return DType::kF32;
}

View read_view(TextCursor& c) {
  View view;
  view.sizes = c.integers("[", "]");
  view.strides = c.at("{") ? c.integers("{", "}") : View::contiguous(view.sizes).strides;
  if (c.take("+")) view.offset = c.integer("an offset");
  return view;
}

Scalar read_scalar(TextCursor& c) {
  Scalar scalar;
  if (c.take("slot")) {
    std::string_view word = c.identifier();
    scalar.is_integer = word.ends_with('i');
    if (scalar.is_integer) word.remove_suffix(1);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), scalar.slot);
    if (error != std::errc{} || end != word.data() + word.size() || scalar.slot == kNone) c.expected("the number of a slot");
    return scalar;
  }
  scalar.is_integer = !c.is_real();
  if (scalar.is_integer) {
    scalar.integer = c.integer("an operand");
  } else {
    scalar.real = c.real("an operand");
  }
  return scalar;
}

Operand read_operand(TextCursor& c) {
  Operand operand;
  if (c.take("%")) {
    operand.value = c.id("a value's number");
    operand.view = read_view(c);
  } else {
    operand.scalar = read_scalar(c);
  }
  return operand;
}

void read_pair(TextCursor& c, std::int64_t (&pair)[2]) {
  const auto numbers = c.integers("[", "]");
  if (numbers.size() != 2) return c.fail(fmt::format("needs two numbers, has {}", numbers.size()));
  pair[0] = numbers[0];
  pair[1] = numbers[1];
}

/// Takes one attribute with its value; false where none stands here.
bool read_attribute(TextCursor& c, Attributes& a) {
  const auto is = [&](std::string_view name) {
    if (!c.take(name)) return false;
    c.expect("=");
    return true;
  };
  if (is("dims")) {
    a.dims = c.integers("[", "]");
  } else if (is("index")) {
    a.index = c.integer("a number");
  } else if (is("alpha")) {
    a.alpha = c.real("a number with a point");
  } else if (is("region")) {
    a.region = read_view(c);
  } else if (is("kernel")) {
    read_pair(c, a.kernel);
  } else if (is("stride")) {
    read_pair(c, a.stride);
  } else if (is("padding")) {
    read_pair(c, a.padding);
  } else if (is("dilation")) {
    read_pair(c, a.dilation);
  } else if (is("groups")) {
    a.groups = c.integer("a number");
  } else {
    return false;
  }
  return true;
}

std::uint32_t read_blob(TextCursor& c) { return c.take("none") ? kNone : c.id("a blob's number or none"); }

std::vector<std::uint32_t> read_blobs(TextCursor& c) {
  std::vector<std::uint32_t> blobs;
  c.expect("[");
  if (c.take("]")) return blobs;
  do {
    blobs.push_back(read_blob(c));
  } while (c.take(","));
  c.expect("]");
  return blobs;
}

std::vector<double> read_reals(TextCursor& c) {
  std::vector<double> numbers;
  c.expect("[");
  if (c.take("]")) return numbers;
  do {
    numbers.push_back(c.real("a number with a point"));
  } while (c.take(","));
  c.expect("]");
  return numbers;
}

const std::map<std::string_view, OpKind>& kinds() {
  static const std::map<std::string_view, OpKind> kKinds = [] {
    std::map<std::string_view, OpKind> all;
    for (int k = 0; k < kOpKindCount; ++k) all.emplace(name(static_cast<OpKind>(k)), static_cast<OpKind>(k));
    return all;
  }();
  return kKinds;
}

class Parser {
 public:
  Result<Program> run(std::string_view text) {
    bool has_header = false;
    std::size_t number = 0;
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      TextCursor c(text.substr(0, end), ++number);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (c.at_end()) continue;
      if (std::exchange(has_header, true)) {
        read_line(c);
      } else {
        read_header(c);
      }
      if (!c.failed() && !c.at_end()) c.expected("the end of the line");
      if (c.failed()) return bad(c.failure());
    }
    if (!has_header) return bad("is empty; it begins with 'crucible program 1: ...'");
    return finish();
  }

 private:
  void read_header(TextCursor& c) {
    c.expect("crucible program");
    const std::int64_t version = c.integer("a version");
    if (!c.failed() && version != kTextVersion) return c.fail(fmt::format("has version {}; this program reads version {}", version, kTextVersion));
    c.expect(":");
    op_count_ = c.id("a number of ops");
    c.expect("ops,");
    value_count_ = c.id("a number of values");
    c.expect("values,");
    program_.iterations = c.id("a number of iterations", kNone);
    c.expect("iterations");
  }

  void read_line(TextCursor& c) {
    if (c.take("%")) return read_op(c);
    if (c.take("slot")) return read_slot(c);
    if (c.take("state")) return read_state(c);
    if (c.take("input")) return read_input(c);
    if (c.take("constant")) return read_constant(c);
    if (c.take("output")) return read_output(c);
    if (c.take("left out")) return program_.left_out.push_back(c.quoted("a reason"));
    if (c.take("source")) return read_source(c);
    c.expected("'slot', 'state', 'input', 'constant', an op's result, 'output', 'left out' or 'source'");
  }

  /// Lists whose entries are numbered: the numbers are there for people, and must be right.
  void expect_number(TextCursor& c, std::size_t wanted, std::string_view what) {
    const std::uint32_t number = c.id(what);
    if (!c.failed() && number != wanted) c.fail(fmt::format("{} must be {} here, is {}", what, wanted, number));
  }

  void read_slot(TextCursor& c) {
    expect_number(c, program_.slots.size(), "a slot's number");
    Slot slot;
    slot.name = c.optional_quoted();
    c.expect(":");
    slot.values = read_reals(c);
    program_.slots.push_back(std::move(slot));
  }

  ValueId read_outside_value(TextCursor& c, ValueKind kind) {
    c.expect("%");
    const ValueId id = c.id("a value's number");
    Value value;
    value.kind = kind;
    value.name = c.optional_quoted();
    c.expect(":");
    value.dtype = read_dtype(c);
    c.expect("[");
    value.elements = c.integer("a number of elements");
    c.expect("]");
    define(c, id, std::move(value));
    return id;
  }

  void define(TextCursor& c, ValueId id, Value value) {
    if (c.failed()) return;
    if (id >= value_count_) return c.fail(fmt::format("%{} is beyond the {} values of the first line", id, value_count_));
    if (!values_.emplace(id, std::move(value)).second) c.fail(fmt::format("%{} is there twice", id));
  }

  void read_state(TextCursor& c) {
    State state;
    state.start = read_outside_value(c, ValueKind::kState);
    state.end = state.start;
    if (!c.take("unchanged")) {
      c.expect("->");
      c.expect("%");
      state.end = c.id("a value's number");
    }
    c.expect("(");
    c.expect("blob");
    state.initial_blob = read_blob(c);
    c.expect(",");
    c.expect("final blob");
    state.final_blob = read_blob(c);
    c.expect(")");
    program_.states.push_back(state);
  }

  void read_input(TextCursor& c) {
    Input input;
    input.value = read_outside_value(c, ValueKind::kInput);
    input.is_draw = c.take("drawn");
    c.expect("(");
    c.expect("blobs");
    input.blobs = read_blobs(c);
    c.expect(")");
    program_.inputs.push_back(std::move(input));
  }

  void read_constant(TextCursor& c) {
    Constant constant;
    constant.value = read_outside_value(c, ValueKind::kConstant);
    c.expect("(");
    c.expect("blob");
    constant.blob = read_blob(c);
    c.expect(")");
    program_.constants.push_back(constant);
  }

  /// The '%' of its first result has been taken.
  void read_op(TextCursor& c) {
    Op op;
    do {
      if (!op.outputs.empty()) c.expect("%");
      Operand out;
      out.value = c.id("a value's number");
      Value value;
      value.producer = static_cast<OpId>(program_.ops.size());
      value.name = c.optional_quoted();
      c.expect(":");
      value.dtype = read_dtype(c);
      out.view = read_view(c);
      const auto elements = checked_elements(out.view.sizes);
      if (!c.failed() && !elements) return c.fail("the sizes of the result are negative or too large");
      value.elements = elements.value_or(0);
      define(c, out.value, std::move(value));
      op.outputs.push_back(std::move(out));
    } while (c.take(","));
    c.expect("=");
    read_kind(c, op);
    c.expect("(");
    if (!c.take(")")) {
      do {
        if (!read_attribute(c, op.attributes)) op.inputs.push_back(read_operand(c));
      } while (c.take(","));
      c.expect(")");
    }
    if (c.take("@")) op.source = c.id("a source's number");
    if (!c.failed()) program_.ops.push_back(std::move(op));
  }

  static void read_kind(TextCursor& c, Op& op) {
    if (c.failed()) return;
    TextCursor before = c;
    const auto found = kinds().find(c.identifier());
    if (found != kinds().end()) {
      op.kind = found->second;
      return;
    }
    before.expected("an op such as add or matmul");
    c = before;
  }

  void read_output(TextCursor& c) {
    Output output;
    output.name = c.quoted("an output's name");
    output.operand = read_operand(c);
    c.expect("(");
    if (c.take("blobs")) {
      output.blobs = read_blobs(c);
    } else {
      c.expect("recorded");
      output.recorded = read_reals(c);
    }
    c.expect(")");
    program_.outputs.push_back(std::move(output));
  }

  void read_source(TextCursor& c) {
    expect_number(c, program_.sources.size(), "a source's number");
    c.expect(":");
    Source source;
    if (c.take(phase_name(Phase::kBackward))) {
      source.phase = Phase::kBackward;
    } else if (c.take(phase_name(Phase::kOptimizer))) {
      source.phase = Phase::kOptimizer;
    } else {
      c.expect(phase_name(Phase::kForward));
    }
    source.trace_op = read_blob(c);
    source.op = c.quoted("the recorded op");
    source.module = c.quoted("a module");
    source.site = c.quoted("a Python line");
    program_.sources.push_back(std::move(source));
  }

  Result<Program> finish() {
    if (program_.ops.size() != op_count_) {
      return bad(fmt::format("the first line names {} ops, there are {}", op_count_, program_.ops.size()));
    }
    if (values_.size() != value_count_) {
      return bad(fmt::format("the first line names {} values, there are {}", value_count_, values_.size()));
    }
    for (auto& [id, value] : values_) program_.values.push_back(std::move(value));  // 0, 1, ...: as many as there are, each below that
    if (auto verified = verify(program_); !verified) return bad(verified.error().message);
    return std::move(program_);
  }

  Program program_;
  std::map<ValueId, Value> values_;
  std::uint32_t op_count_ = 0, value_count_ = 0;
};

}  // namespace

Result<Program> parse_program(std::string_view text) { return Parser().run(text); }

}  // namespace crucible::graph
