// The ops of one module for people to read: states by their names, one heading per recorded op, and results that only
// the next element-wise op of the same recorded op reads written inside it.
#include <fmt/format.h>

#include <algorithm>

#include "core/graph/composite.hpp"
#include "core/graph/op_table.hpp"
#include "core/graph/print.hpp"
#include "core/graph/queries.hpp"
#include "core/graph/view.hpp"

namespace crucible::graph {
namespace {

bool is_inside(std::string_view module, std::string_view wanted) {
  if (wanted.empty() || module == wanted) return true;
  return module.size() > wanted.size() && module.starts_with(wanted) && module[wanted.size()] == '.';
}

class ModulePrinter {
 public:
  ModulePrinter(const Program& program, const ModuleText& what)
      : program_(program), reads_(read_counts(program)), readers_(readers(program)) {
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (program.ops[id].source != kNone && is_shown(program, id, what)) wanted_.push_back(id);
    }
  }

  std::string text() const {
    std::string text;
    std::uint32_t heading = kNone;
    for (const OpId id : wanted_) {
      const Op& op = program_.ops[id];
      if (is_inlined(id)) continue;
      if (op.source != heading) {
        heading = op.source;
        const Source& source = program_.sources[heading];
        text += fmt::format("{}{}{}  {}\n", source.module, source.module.empty() ? "" : "  ", source.op, source.site);
      }
      text += "  ";
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const Operand& out = op.outputs[i];
        text += fmt::format("{}%{}: {}[{}]", i ? ", " : "", out.value, name(program_.values[out.value].dtype),
                            fmt::join(out.view.sizes, ", "));
      }
      text += " = " + expression(op) + "\n";
    }
    return text;
  }

 private:
  /// Element-wise, read once, by an element-wise op or a reduction that came from the same recorded op.
  bool is_inlined(OpId id) const {
    const Op& op = program_.ops[id];
    if (!is_elementwise(op.kind) || op.outputs.size() != 1) return false;
    const ValueId value = op.outputs[0].value;
    if (reads_[value] != 1 || readers_[value].empty()) return false;
    const Op& user = program_.ops[readers_[value].front()];
    return user.source == op.source && (is_elementwise(user.kind) || is_reduction(user.kind));
  }

  std::string operand_text(const Operand& operand) const {
    if (operand.is_scalar()) return to_text(operand.scalar);
    const Value& value = program_.values[operand.value];
    if (value.producer != kNone && is_inlined(value.producer)) return expression(program_.ops[value.producer]);
    std::string text = value.name.empty() ? fmt::format("%{}", operand.value) : value.name;
    if (operand.view.elements() == value.elements && operand.view.is_contiguous()) return text;
    return text + fmt::format("[{}]", fmt::join(operand.view.sizes, ", "));
  }

  std::string expression(const Op& op) const {
    std::string text = op_name(program_, op) + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) text += (i ? ", " : "") + operand_text(op.inputs[i]);
    const std::string attributes =
        op.kind == OpKind::kComposite ? attributes_text(composite_of(program_, op)) : attributes_text(program_, op);
    if (!attributes.empty()) text += (op.inputs.empty() ? "" : ", ") + attributes;
    return text + ")";
  }

  const Program& program_;
  std::vector<std::uint32_t> reads_;
  IdLists readers_;
  std::vector<OpId> wanted_;
};

}  // namespace

bool is_shown(const Program& program, OpId op, const ModuleText& what) {
  if (what.module.empty() && !what.phase) return true;
  const std::uint32_t source = program.ops[op].source;
  if (source == kNone) return false;
  return is_inside(program.sources[source].module, what.module) &&
         (!what.phase || program.sources[source].phase == *what.phase);
}

std::string module_text(const Program& program, const ModuleText& what) { return ModulePrinter(program, what).text(); }

std::vector<std::string> module_names(const Program& program) {
  std::vector<std::string> names;
  for (const Source& source : program.sources) {
    if (!source.module.empty()) names.push_back(source.module);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

}  // namespace crucible::graph
