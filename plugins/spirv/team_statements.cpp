// Statements that the work-items of a team execute together: see plugins/sdk/team_kernel.hpp. A group is one team, or
// its sub-groups are one each.
#include "plugins/spirv/kernel_writer.hpp"

namespace crucible::spirv {

using sdk::Type;

namespace {

// Numbers of the specification: scopes; acquire and release, of the group's memory and of the device's.
constexpr std::uint32_t kGroupScope = 2, kSubgroupScope = 3, kSeesAll = 0x8 | 0x100 | 0x200;
constexpr std::uint32_t kPlainLoop = 0;  // loop control

}  // namespace

void KernelWriter::open_team() {
  lane_ = first_of(is_subgroup() ? BuiltIn::kSubgroupLane : BuiltIn::kLocalInvocationId);
  if (is_subgroup()) team_ = first_of(BuiltIn::kSubgroupId);
}

void KernelWriter::demand_sizes() {
  is_subgroup() ? module_.set_subgroup_size(writer_->id(), form_.team->lanes)
                : module_.set_group_size(writer_->id(), form_.team->lanes);
}

void KernelWriter::meet() {
  if (writer_->size() == met_at_) return;
  const Id scope = module_.int_constant(32, is_subgroup() ? kSubgroupScope : kGroupScope);
  writer_->effect(Op::kControlBarrier, {scope, scope, module_.int_constant(32, kSeesAll)});
  met_at_ = writer_->size();
}

Id KernelWriter::is_lane_below(std::uint32_t width) {
  return writer_->value(Op::kSLessThan, module_.bool_type(), {lane_, i64(width)});
}

void KernelWriter::team_statement(const sdk::Stmt& stmt) {
  const bool meets = form_.team->meets.contains(&stmt);
  if (meets) meet();
  if (const auto dealt = form_.team->dealt.find(&stmt); dealt != form_.team->dealt.end()) {
    deal(stmt, dealt->second);
  } else if (stmt.kind == sdk::StmtKind::kStore || stmt.kind == sdk::StmtKind::kElement) {
    when(is_lane_below(1), [&] { plain_statement(stmt); });
  } else {
    plain_statement(stmt);
  }
  if (meets) meet();
}

/// The turns of one loop: the first lane has the first, and goes on with the old value of what all turns update.
void KernelWriter::deal(const sdk::Stmt& stmt, const std::vector<sdk::TeamReduction>& reductions) {
  for (const sdk::TeamReduction& reduction : reductions) {
    if (reduction.op != sdk::Op::kAdd && reduction.op != sdk::Op::kMultiply)
      continue;  // the largest of two equal numbers is that number
    const Type type = kernel_.variables[reduction.variable].type;
    const Id variable = variables_[reduction.variable].pointer, old = load(type, variable);
    const Id neutral = number(type, reduction.op == sdk::Op::kAdd ? 0 : 1);
    store(type, variable, writer_->value(Op::kSelect, value_type(module_, type), {is_lane_below(1), old, neutral}));
  }
  Words nothing;
  const Id begin = add(expr(stmt.a), lane_), end = expr(stmt.b);
  is_dealt_ = true;
  loop(begin, end, i64(form_.team->lanes), kPlainLoop, 0, nothing, [&](Id v, Words&) {
    variables_[stmt.id].value = v;
    block(stmt.body);
  });
  is_dealt_ = false;
  for (const sdk::TeamReduction& reduction : reductions) join(reduction);
}

/// The lanes' values of one variable become one, halving the lanes, which all get it.
void KernelWriter::join(const sdk::TeamReduction& reduction) {
  if (is_subgroup()) return join_by_shuffles(reduction);
  const Type type = kernel_.variables[reduction.variable].type;
  const Id variable = variables_[reduction.variable].pointer, element = memory_type(module_, type);
  Id& all = exchanges_[type];
  if (all == 0) all = module_.group_variable(module_.array_type(element, form_.team->lanes));
  const auto at = [&](Id lane) {
    return writer_->value(Op::kInBoundsAccessChain, module_.pointer_type(Storage::kWorkgroup, element), {all, lane});
  };
  store(type, at(lane_), load(type, variable));
  meet();
  for (std::uint32_t width = form_.team->lanes / 2; width > 0; width /= 2) {
    when(is_lane_below(width), [&] {
      const Id low = load(type, at(lane_)), high = load(type, at(add(lane_, i64(width))));
      store(type, at(lane_), combine(reduction.op, type, low, high));
    });
    meet();
  }
  store(type, variable, load(type, at(i64(0))));
  meet();
}

/// The same; what is narrower than 32 bits goes as so many, which every device shuffles.
void KernelWriter::join_by_shuffles(const sdk::TeamReduction& reduction) {
  module_.add_capability(Capability::kSubgroupShuffle);
  const Type type = kernel_.variables[reduction.variable].type;
  const bool is_narrow = size_bytes(type) < 4;
  const Id variable = variables_[reduction.variable].pointer, word = module_.int_type(32);
  Id value = load(type, variable);
  for (std::uint32_t width = form_.team->lanes / 2; width > 0; width /= 2) {
    const Id mask = module_.int_constant(32, width);
    const Id given = is_narrow ? convert(value, type, Type::kI32) : value;
    Id other = writer_->value(Op::kSubgroupShuffleXor, is_narrow ? word : value_type(module_, type), {given, mask});
    if (is_narrow) other = convert(other, Type::kI32, type);
    value = combine(reduction.op, type, value, other);
  }
  store(type, variable, value);
}

}  // namespace crucible::spirv
