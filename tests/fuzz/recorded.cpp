// Where valid programs come from, what a finding's file is, and how much a program asks for.
#include "tests/fuzz/recorded.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>

#include "core/graph/binary.hpp"
#include "core/graph/op_rules.hpp"
#include "core/graph/random_outline.hpp"
#include "core/graph/random_program.hpp"
#include "core/graph/reference_numbers.hpp"
#include "core/graph/rule_language.hpp"
#include "core/graph/testing/one_op.hpp"
#include "runtime/testing/test_programs.hpp"
#include "core/trace/byte_stream.hpp"
#include "core/trace/validate.hpp"
#include "frontends/aten/lower.hpp"
#include "frontends/aten/testing/arbitrary_op.hpp"
#include "plugins/conformance/ops_programs.hpp"
#include "tests/fuzz/mutate.hpp"

namespace crucible::fuzz {
namespace {

constexpr std::uint64_t kMostWork = std::uint64_t{1} << 62;
constexpr std::uint64_t kSmallWork = 4000;

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kMostWork : std::min(result, kMostWork);
}

std::uint64_t elements_of(const graph::Operand& operand) {
  if (operand.is_scalar()) return 1;
  std::uint64_t elements = 1;
  for (const std::int64_t size : operand.view.sizes)
    elements = product(elements, static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0)));
  return elements;
}

/// Everything that a recording has beside the ops: as many bytes and numbers as there are iterations.
Recorded complete(graph::Program program, const std::vector<graph::Bytes>& values,
                  const std::vector<graph::Number>& slots) {
  Recorded recorded{std::move(program), {}};
  graph::Program& p = recorded.program;
  p.iterations = 2;
  const auto keep = [&](graph::ValueId value) {
    recorded.blobs.push_back(values[value]);
    return static_cast<std::uint32_t>(recorded.blobs.size() - 1);
  };
  for (graph::State& state : p.states) state = {state.start, state.end, keep(state.start), graph::kNone};
  for (graph::Input& input : p.inputs) input.blobs.assign(p.iterations, keep(input.value));
  for (graph::Constant& constant : p.constants) constant.blob = keep(constant.value);
  for (std::size_t i = 0; i < p.slots.size(); ++i) {
    const graph::Number number = i < slots.size()        ? slots[i]
                                 : p.slots[i].is_integer ? graph::Number(std::int64_t{1})
                                                         : graph::Number(0.5);
    p.slots[i].values.assign(p.iterations, number);
  }
  for (graph::Output& output : p.outputs) {
    if (output.is_tensor()) output.blobs.assign(p.iterations, graph::kNone);
    if (output.is_number()) output.recorded.assign(p.iterations, 0.0);
  }
  return recorded;
}

/// Small programs of each kind of op, made once.
const std::vector<Recorded>& programs_of(std::size_t kind) {
  static std::array<std::vector<Recorded>, graph::kOpKindCount> all;
  std::vector<Recorded>& of_kind = all[kind];
  if (!of_kind.empty()) return of_kind;
  for (conformance::OpsProgram& program : conformance::programs_of(static_cast<graph::OpKind>(kind), {}, false)) {
    if (work_of(program.program) <= kSmallWork)
      of_kind.push_back(complete(std::move(program.program), program.values, program.slots));
  }
  if (of_kind.empty()) of_kind.emplace_back();
  return of_kind;
}

Recorded random_recorded(Draw& draw) {
  graph::RandomOptions options{
      .seed = draw.bits(), .ops = 2 + static_cast<std::uint32_t>(draw.below(7)), .largest_side = 5};
  options.generators = draw.one_in(3);
  if (draw.one_in(8)) options.largest_side = 33;
  auto random = graph::random_program(options);
  if (draw.one_in(6)) graph::outline_randomly(random, draw.bits());
  return complete(std::move(random.program), random.values, random.slots);
}

/// One op with operands and attributes of few numbers, most of which agree.
Recorded one_op_recorded(Draw& draw) {
  static const std::vector<graph::ReadRule> lines = [] {
    std::vector<graph::ReadRule> read;
    for (const graph::OpRule& rule : graph::op_rules()) read.push_back(graph::read_rule(rule));
    return read;
  }();
  const auto kind = static_cast<graph::OpKind>(draw.below(graph::kOpKindCount));
  graph::Program program = graph::one_op(kind, lines[graph::rule_of(kind)], draw.bits());
  std::vector<graph::Bytes> values(program.values.size());
  for (graph::ValueId v = 0; v < program.values.size(); ++v) {
    const graph::Value& value = program.values[v];
    if (value.kind != graph::ValueKind::kInput || value.elements < 0 || value.elements > 4096) continue;
    values[v].resize(static_cast<std::size_t>(value.elements) * size_bytes(value.dtype));
    for (std::size_t at = 0; is_floating(value.dtype) && at < values[v].size(); at += size_bytes(value.dtype)) {
      graph::store_real(value.dtype, static_cast<double>(draw.below(64)) / 8 - 4, &values[v][at]);
    }
  }
  for (const graph::Operand& result : program.ops[0].outputs)
    program.outputs.push_back({"kept", result, {}, {graph::kNone}});
  return complete(std::move(program), values, {});
}

/// A training step with two iterations, and its numbers of before.
Recorded step_recorded(std::uint32_t seed) {
  const runtime::Recording recording = runtime::record(runtime::training_step(), 2, seed);
  Recorded recorded{recording.program, {}};
  for (std::uint32_t blob = 0; blob < recording.blobs->blobs().size(); ++blob)
    recorded.blobs.push_back(*recording.blobs->load(blob));
  return recorded;
}

const std::vector<aten::Signature>& signatures() {
  static const std::vector<aten::Signature> all = [] {
    std::vector<aten::Signature> result;
    std::ifstream file(CRUCIBLE_SCHEMAS);
    for (std::string line; std::getline(file, line);) result.push_back(aten::parse_signature(line));
    return result;
  }();
  return all;
}

}  // namespace

Result<std::vector<std::byte>> ListStore::load(trace::BlobId id) const {
  if (id < blobs_.size()) return blobs_[id];
  return Error{ErrorCode::kBadInput, "blob " + std::to_string(id) + " of " + std::to_string(blobs_.size())};
}

std::int64_t Draw::other_than(std::int64_t number) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  static const std::vector<std::int64_t> kNumbers = {
      0,  1,   -1,  2,   3,       7,         8,         15,        16,        17,        31,     33,   64,
      65, 255, 256, 257, 1 << 16, 1LL << 31, 1LL << 32, 1LL << 40, 1LL << 53, 1LL << 61, kLeast, kMost};
  switch (below(4)) {
    case 0:
      return number < kMost ? number + 1 : 0;
    case 1:
      return number > kLeast ? number - 1 : 0;
    case 2:
      return number / 2 * static_cast<std::int64_t>(below(2) == 0 ? 1 : -1) +
             (number > 0 && number < kMost / 4 ? number : 0);
    default:
      return of(kNumbers);
  }
}

Recorded make_recorded(Draw& draw) {
  switch (draw.below(9)) {
    case 8:
      return one_op_recorded(draw);
    case 0:
    case 1:
    case 2:
      return random_recorded(draw);
    case 3:
      return step_recorded(static_cast<std::uint32_t>(draw.below(4)));
    default:
      return draw.of(programs_of(draw.below(graph::kOpKindCount)));
  }
}

std::optional<Recorded> make_lowered(Draw& draw, std::string& finding) {
  aten::TraceBuilder builder;
  record_arbitrary(builder, draw.of(signatures()), aten::Choices(draw.bits()), {});
  trace::Trace trace = builder.trace();
  for (std::size_t i = draw.below(3); i > 0; --i) break_field(trace, draw);
  if (!trace::validate(trace)) return std::nullopt;
  const auto variants = aten::lower_variants(trace);
  if (!variants) {
    if (variants.error().code != ErrorCode::kBadInput) finding = "lowering: " + variants.error().message;
    return std::nullopt;
  }
  if (const auto verified = graph::verify(*variants); !verified) {
    finding = "lowering: " + verified.error().message;
    return std::nullopt;
  }
  Recorded recorded{*variants->programs[draw.below(variants->programs.size())], {}};
  for (std::uint32_t blob = 0; blob < trace.blobs.size() && trace.blob_store != nullptr; ++blob) {
    const auto bytes = trace.blob_store->load(blob);
    recorded.blobs.push_back(bytes ? *bytes : std::vector<std::byte>());
  }
  return recorded;
}

std::vector<std::byte> to_bytes(const Recorded& recorded) {
  trace::ByteWriter out;
  const auto add = [&](std::span<const std::byte> bytes) {
    out.u64(bytes.size());
    out.raw(bytes);
  };
  add(graph::to_binary(recorded.program));
  for (const std::vector<std::byte>& blob : recorded.blobs) add(blob);
  return out.take();
}

std::optional<Recorded> from_bytes(std::span<const std::byte> bytes) {
  std::vector<std::span<const std::byte>> pieces;
  while (!bytes.empty()) {
    if (bytes.size() < 8) return std::nullopt;
    const std::uint64_t size = trace::ByteReader(bytes.first(8)).u64();
    bytes = bytes.subspan(8);
    if (size > bytes.size()) return std::nullopt;
    pieces.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  if (pieces.empty()) return std::nullopt;
  auto program = graph::from_binary(pieces[0]);
  if (!program) return std::nullopt;
  Recorded recorded{*std::move(program), {}};
  for (const auto& piece : std::span(pieces).subspan(1)) recorded.blobs.emplace_back(piece.begin(), piece.end());
  return recorded;
}

std::uint64_t work_of(const graph::Program& program) {
  std::uint64_t work = 0;
  for (const graph::Op& op : program.ops) {
    std::uint64_t touched = 1, operands = 1;
    for (const graph::Operand& operand : op.outputs) touched = std::min(kMostWork, touched + elements_of(operand));
    for (const graph::Operand& operand : op.inputs) {
      touched = std::min(kMostWork, touched + elements_of(operand));
      operands = product(operands, std::max<std::uint64_t>(elements_of(operand), 1));
    }
    const graph::OpClass op_class = graph::is_known(op.kind) ? graph::info(op.kind).op_class : graph::OpClass::kOpaque;
    if (op_class == graph::OpClass::kContraction) touched = std::min(kMostWork, touched + operands);
    if (op_class == graph::OpClass::kFactorization) touched = product(touched, touched);
    if (op_class == graph::OpClass::kPooling) {
      for (const std::int64_t side : op.attributes.kernel)
        touched = product(touched, static_cast<std::uint64_t>(std::max<std::int64_t>(side, 1)));
    }
    work = std::min(kMostWork, work + touched);
  }
  return work;
}

std::uint64_t bytes_of(const graph::Program& program) {
  std::uint64_t bytes = 0;
  for (const graph::Value& value : program.values) {
    bytes = std::min(kMostWork, bytes + product(static_cast<std::uint64_t>(std::max<std::int64_t>(value.elements, 0)),
                                                size_bytes(value.dtype)));
  }
  return bytes;
}

}  // namespace crucible::fuzz
