// The parser of the text form: see parse.hpp. One line is one thing; names of lines are those that print.cpp writes.
#include "core/graph/parse.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/print.hpp"
#include "core/graph/text_cursor.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

Error bad(std::string message) { return Error{ErrorCode::kBadInput, std::move(message)}; }

constexpr std::array kDTypes = {DType::kBool, DType::kU8,   DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
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

/// The number of a slot, with an 'i' behind it where it holds whole numbers.
Scalar read_slot_number(TextCursor& c) {
  Scalar scalar;
  std::string_view word = c.identifier();
  scalar.is_integer = word.ends_with('i');
  if (scalar.is_integer) word.remove_suffix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), scalar.slot);
  if (error != std::errc{} || end != word.data() + word.size() || scalar.slot == kNone)
    c.expected("the number of a slot");
  return scalar;
}

Scalar read_scalar(TextCursor& c) {
  if (c.take("slot")) return read_slot_number(c);
  Scalar scalar;
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
  } else if (is("pieces")) {
    a.pieces = c.integer("a number");
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

/// A composite op as its line has it.
struct Named {
  OpId op;
  std::string name;
  std::vector<CompositeAttribute> attributes;
  TextCursor place;
};

/// The entry whose body is being collected.
struct Entry {
  Composite composite;
  std::string body;
  std::size_t line = 0;  // of its head
};

class Parser {
 public:
  explicit Parser(bool is_body = false) : is_body_(is_body) {}

  /// `before`: how many lines stand before the text, as those before a body do.
  Result<Program> run(std::string_view text, std::size_t before = 0) {
    bool has_header = false;
    std::size_t number = before;
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      TextCursor c(text.substr(0, end), ++number);
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (c.at_end()) {
        if (entry_) entry_->body += '\n';
        continue;
      }
      if (entry_.has_value() && c.at("|")) {
        // Lines of a body are read together, when its last one is known. What stood before the bar keeps the columns.
        const std::size_t bar = line.find('|');
        entry_->body.append(bar + 1, ' ').append(line.substr(bar + 1)) += '\n';
        continue;
      }
      CRUCIBLE_TRY_VOID(finish_composite());
      if (std::exchange(has_header, true)) {
        read_line(c);
      } else {
        read_header(c);
      }
      if (!c.failed() && !c.at_end()) c.expected("the end of the line");
      if (c.failed()) return bad(c.failure());
    }
    CRUCIBLE_TRY_VOID(finish_composite());
    if (!has_header) return bad("is empty; it begins with 'crucible program 2: ...'");
    return finish();
  }

 private:
  void read_header(TextCursor& c) {
    c.expect("crucible program");
    const std::int64_t version = c.integer("a version");
    if (!c.failed() && version != kTextVersion)
      return c.fail(fmt::format("has version {}; this program reads version {}", version, kTextVersion));
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
    if (c.take("meaning")) return read_meaning(c);
    if (c.take("left out")) return program_.left_out.push_back(c.quoted("a reason"));
    if (c.at("composite")) return read_composite(c);
    if (c.take("source")) return read_source(c);
    c.expected(
        "'slot', 'state', 'input', 'constant', an op's result, 'output', 'meaning', 'left out', 'composite' or "
        "'source'");
  }

  /// Lists whose entries are numbered: the numbers are there for people, and must be right.
  void expect_number(TextCursor& c, std::size_t wanted, std::string_view what) {
    const std::uint32_t number = c.id(what);
    if (!c.failed() && number != wanted) c.fail(fmt::format("{} must be {} here, is {}", what, wanted, number));
  }

  void read_slot(TextCursor& c) {
    const Scalar number = read_slot_number(c);
    if (!c.failed() && number.slot != program_.slots.size()) {
      c.fail(fmt::format("a slot's number must be {} here, is {}", program_.slots.size(), number.slot));
    }
    Slot slot{c.optional_quoted(), {}, number.is_integer};
    c.expect(":");
    if (slot.is_integer) {
      for (const std::int64_t value : c.integers("[", "]")) slot.values.emplace_back(value);
    } else {
      for (const double value : read_reals(c)) slot.values.emplace_back(value);
    }
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
    if (id >= value_count_)
      return c.fail(fmt::format("%{} is beyond the {} values of the first line", id, value_count_));
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
    if (!c.failed()) c.at_end();  // blanks
    const TextCursor at_kind = c;
    read_kind(c, op);
    if (op.kind == OpKind::kComposite) {
      read_named(c, op, at_kind);
    } else {
      c.expect("(");
      if (!c.take(")")) {
        do {
          if (!read_attribute(c, op.attributes)) op.inputs.push_back(read_operand(c));
        } while (c.take(","));
        c.expect(")");
      }
    }
    take_pieces(c, op);
    if (c.take("@")) op.source = c.id("a source's number");
    if (!c.failed()) program_.ops.push_back(std::move(op));
  }

  /// A product in pieces has as many results in its value.
  void take_pieces(TextCursor& c, const Op& op) {
    const std::int64_t pieces = op.attributes.pieces;
    if (c.failed() || pieces <= 1 || !is_known(op.kind) || info(op.kind).op_class != OpClass::kContraction) return;
    std::int64_t& elements = values_.at(op.outputs[0].value).elements;
    if (__builtin_mul_overflow(elements, pieces, &elements)) c.fail("there are too many pieces");
  }

  static void read_kind(TextCursor& c, Op& op) {
    if (c.failed()) return;
    TextCursor before = c;
    const std::string_view word = c.identifier();
    const auto found = kinds().find(word);
    if (found != kinds().end() || !word.empty()) {
      op.kind = found != kinds().end() ? found->second : OpKind::kComposite;
      return;
    }
    before.expected(kAnOp);
    c = before;
  }

  /// Another word than a neutral kind's is the name of a composite, and its operands end with "body=0".
  void read_named(TextCursor& c, Op& op, TextCursor at_kind) {
    TextCursor again = at_kind;
    Named named{static_cast<OpId>(program_.ops.size()), std::string(again.identifier()), {}, at_kind};
    bool has_body = false;
    if (c.take("(") && !c.take(")")) {
      do {
        if (c.take("body")) {
          c.expect("=");
          op.attributes.index = c.id("the number of a composite");
          has_body = true;
        } else if (!read_named_attribute(c, named.attributes)) {
          op.inputs.push_back(read_operand(c));
        }
      } while (c.take(","));
      c.expect(")");
    }
    if (!has_body) {
      c = at_kind;
      return c.expected(kAnOp);
    }
    named_.push_back(std::move(named));
  }

  /// Takes "eps=1e-05" or "dims=[0, 1]"; false where no attribute stands here.
  static bool read_named_attribute(TextCursor& c, std::vector<CompositeAttribute>& attributes) {
    const TextCursor before = c;
    CompositeAttribute attribute;
    attribute.name = c.identifier();
    if (attribute.name.empty() || !c.take("=")) {
      c = before;
      return false;
    }
    const auto read = [&] { c.at("slot") ? c.expected("a number") : attribute.numbers.push_back(read_scalar(c)); };
    attribute.is_list = c.take("[");
    if (!attribute.is_list) {
      read();
    } else if (!c.take("]")) {
      do {
        read();
      } while (c.take(","));
      c.expect("]");
    }
    attributes.push_back(std::move(attribute));
    return true;
  }

  static std::vector<CompositeAttribute> read_named_attributes(TextCursor& c) {
    std::vector<CompositeAttribute> attributes;
    c.expect("(");
    if (c.take(")")) return attributes;
    do {
      if (!read_named_attribute(c, attributes)) c.expected("an attribute such as eps=1e-05");
    } while (!c.failed() && c.take(","));
    c.expect(")");
    return attributes;
  }

  static std::vector<Role> read_roles(TextCursor& c) {
    std::vector<Role> roles;
    do {
      Role& role = roles.emplace_back();
      role.name = c.quoted("what a value is called");
      c.at("%") ? void(role.operand = read_operand(c)) : c.expected("a value");
    } while (!c.failed() && c.take(","));
    return roles;
  }

  void read_meaning(TextCursor& c) {
    Meaning meaning;
    meaning.outputs = read_roles(c);
    c.expect("=");
    meaning.name = c.identifier();
    meaning.attributes = read_named_attributes(c);
    c.expect("of");
    if (!c.at_end()) meaning.inputs = read_roles(c);
    program_.meanings.push_back(std::move(meaning));
  }

  void read_composite(TextCursor& c) {
    if (is_body_) return c.fail("a body has no composites of its own");
    c.expect("composite");
    expect_number(c, program_.composites.size(), "a composite's number");
    c.expect(":");
    entry_.emplace();
    entry_->composite.name = c.identifier();
    entry_->composite.attributes = read_named_attributes(c);
    entry_->line = c.line();
  }

  /// The lines of a body have ended.
  Result<void> finish_composite() {
    if (!entry_) return {};
    auto body = Parser(true).run(entry_->body, entry_->line);
    if (!body) return bad(fmt::format("composite {}, body: {}", program_.composites.size(), body.error().message));
    entry_->composite.body = *std::move(body);
    program_.composites.push_back(std::make_shared<const Composite>(std::move(entry_->composite)));
    entry_.reset();
    return {};
  }

  /// An op repeats its entry's name and attributes for people: they must be right.
  Result<void> check_named() {
    for (Named& named : named_) {
      const std::int64_t entry = program_.ops[named.op].attributes.index;
      if (static_cast<std::size_t>(entry) >= program_.composites.size()) {
        named.place.fail(fmt::format("composite {} does not exist; there are {}", entry, program_.composites.size()));
        return bad(named.place.failure());
      }
      const Composite said{named.name, named.attributes, {}},
          &meant = *program_.composites[static_cast<std::size_t>(entry)];
      if (said.name == meant.name && attributes_text(said) == attributes_text(meant)) continue;
      named.place.fail(fmt::format("composite {} is {}({})", entry, meant.name, attributes_text(meant)));
      return bad(named.place.failure());
    }
    return {};
  }

  Bound read_bound(TextCursor& c) {
    const std::vector<std::int64_t> ends = c.integers("[", "]");
    if (!c.failed() && ends.size() != 2) c.fail(fmt::format("a bound has 2 ends, not {}", ends.size()));
    if (c.failed()) return {};
    return {ends[0], ends[1], c.take("@") ? c.id("a source's number") : kNone};
  }

  void read_output(TextCursor& c) {
    Output output;
    output.name = c.quoted("an output's name");
    output.operand = read_operand(c);
    c.expect("(");
    if (c.take("blobs")) {
      output.blobs = read_blobs(c);
    } else if (c.take("bounds")) {
      do {
        output.bounds.push_back(read_bound(c));
      } while (!c.failed() && c.take(","));
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
    CRUCIBLE_TRY_VOID(check_named());
    for (auto& [id, value] : values_)
      program_.values.push_back(std::move(value));  // 0, 1, ...: as many as there are, each below that
    if (auto verified = verify(program_); !verified) return bad(verified.error().message);
    return std::move(program_);
  }

  static constexpr std::string_view kAnOp = "an op such as add or matmul";

  bool is_body_;
  Program program_;
  std::map<ValueId, Value> values_;
  std::vector<Named> named_;
  std::optional<Entry> entry_;
  std::uint32_t op_count_ = 0, value_count_ = 0;
};

}  // namespace

Result<Program> parse_program(std::string_view text) {
  auto program = Parser().run(text);
  if (!program) return Error{program.error().code, "the program's text: " + program.error().message};
  return program;
}

}  // namespace crucible::graph
