// Copies of operands whose columns lie apart: see turn_operands.hpp.
#include "core/kernel/fuse/turn_operands.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/kernel/fuse/epilogue.hpp"

namespace crucible::kernel {
namespace {

using graph::kNone;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Program;
using graph::ValueId;
using graph::View;

constexpr std::int64_t kWorthACopy = std::int64_t{1} << 23;  // multiply-adds: less is done before a launch is worth it
constexpr std::int64_t kFewRows = 32;                        // for which the copy reads as much as the product would
constexpr std::int64_t kFewColumns = 16;                     // of which a line holds most

/// The operand that has the columns of the result, which are what lies side by side in it.
struct Columns {
  std::size_t input, dim, steps;  // dimensions of the operand
};
Columns columns_of(const Op& op) {
  const std::size_t rank = op.outputs[0].view.sizes.size();
  if (runs_along_rows(op.outputs[0].view)) return {.input = 0, .dim = rank - 2, .steps = rank - 1};
  return {.input = 1, .dim = rank - 1, .steps = rank - 2};
}

class Turn {
 public:
  Turn(const Program& program, const Options& options) : program_(program), options_(options) {}

  bool is_wanted(const Op& op) const {
    if (op.kind != OpKind::kMatMul || op.outputs[0].view.elements() == 0) return false;
    const Columns columns = columns_of(op);
    const View& view = op.inputs[columns.input].view;
    const std::int64_t steps = view.sizes[columns.steps], across = view.sizes[columns.dim];
    if (view.strides[columns.dim] <= 1 || view.strides[columns.steps] != 1 || steps < 2 || across < kFewColumns)
      return false;
    const std::int64_t rows = op.outputs[0].view.elements() * steps / own_elements(view);
    if (rows < kFewRows || op.outputs[0].view.elements() < kWorthACopy / steps) return false;
    if (options_.numerics == Numerics::kStrict || !options_.claims) return true;
    const auto call = library_call_of(program_, op);
    return !call || !options_.claims(*call);
  }

  Program run() {
    Program turned = program_;
    turned.ops.clear();
    std::vector<OpId> now(program_.ops.size(), kNone);
    for (OpId id = 0; id < program_.ops.size(); ++id) {
      Op op = program_.ops[id];
      if (is_wanted(op)) {
        graph::Operand& operand = op.inputs[columns_of(op).input];
        operand = copy_of(turned, op, operand);
      }
      now[id] = static_cast<OpId>(turned.ops.size());
      turned.ops.push_back(std::move(op));
    }
    for (ValueId v = 0; v < program_.values.size(); ++v) {
      if (turned.values[v].producer != kNone) turned.values[v].producer = now[turned.values[v].producer];
    }
    return turned;
  }

 private:
  /// Without what is repeated.
  static std::int64_t own_elements(const View& view) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < view.sizes.size(); ++d) count *= view.strides[d] == 0 ? 1 : view.sizes[d];
    return count;
  }

  /// Products that read the same share a copy.
  graph::Operand copy_of(Program& turned, const Op& op, const graph::Operand& operand) {
    const auto key =
        std::pair(operand.value, std::pair(operand.view.offset, std::pair(operand.view.sizes, operand.view.strides)));
    if (const auto found = copies_.find(key); found != copies_.end()) return found->second;
    const std::size_t rank = operand.view.sizes.size();
    View read = operand.view;
    for (std::size_t d = 0; d < rank; ++d) {
      if (read.strides[d] == 0) read.sizes[d] = 1;
    }
    const Columns columns = columns_of(op);
    View written{0, read.sizes, std::vector<std::int64_t>(rank, 0)};
    std::int64_t stride = 1;
    const auto lay = [&](std::size_t d) {
      written.strides[d] = read.sizes[d] == 1 ? 0 : stride;
      stride *= read.sizes[d];
    };
    lay(columns.dim);
    lay(columns.steps);
    for (std::size_t d = rank - 2; d-- > 0;) lay(d);
    const auto value = static_cast<ValueId>(turned.values.size());
    turned.values.push_back({.kind = graph::ValueKind::kTemporary,
                             .dtype = program_.values[operand.value].dtype,
                             .elements = stride,
                             .name = "",
                             .producer = static_cast<OpId>(turned.ops.size())});
    View seen = written;
    seen.sizes = operand.view.sizes;
    turned.ops.push_back({.kind = OpKind::kCopy,
                          .inputs = {{.value = operand.value, .view = std::move(read), .scalar = {}}},
                          .outputs = {{.value = value, .view = std::move(written), .scalar = {}}},
                          .attributes = {},
                          .source = op.source});
    return copies_[key] = {.value = value, .view = std::move(seen), .scalar = {}};
  }

  const Program& program_;
  const Options& options_;
  using Key =
      std::pair<ValueId, std::pair<std::int64_t, std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>>;
  std::map<Key, graph::Operand> copies_;
};

}  // namespace

std::optional<Program> turn_operands(const Program& program, const Options& options) {
  if (options.device.lanes <= 1) return std::nullopt;
  Turn turn(program, options);
  if (std::ranges::none_of(program.ops, [&](const Op& op) { return turn.is_wanted(op); })) return std::nullopt;
  return turn.run();
}

}  // namespace crucible::kernel
