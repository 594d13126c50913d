// Random composites: see random_outline.hpp.
#include "core/graph/random_outline.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/outline.hpp"

namespace crucible::graph {
namespace {

/// A role for every value that the ops read from outside, each through the view of its first reader.
std::vector<Role> roles_of(const Program& program, OpId first, OpId end) {
  std::vector<Role> roles;
  for (OpId id = first; id < end; ++id) {
    for (const Operand& input : program.ops[id].inputs) {
      if (input.is_scalar()) continue;
      const OpId producer = program.values[input.value].producer;
      const bool is_inner = producer != kNone && producer >= first && producer < end;
      const auto is_it = [&](const Role& role) { return role.operand.value == input.value; };
      if (!is_inner && !std::ranges::any_of(roles, is_it))
        roles.push_back({"operand_" + std::to_string(roles.size()), input});
    }
  }
  return roles;
}

std::vector<CompositeAttribute> random_attributes(std::mt19937_64& random) {
  constexpr double kReals[] = {0.5, -0.0, 1e-300, std::numeric_limits<double>::infinity(), 3.0};
  std::vector<CompositeAttribute> attributes;
  if (random() % 2 == 0) attributes.push_back({"eps", false, {Scalar{kNone, false, kReals[random() % 5], 0}}});
  if (random() % 2 == 0) attributes.push_back({"dims", true, {}});
  for (std::uint64_t n = random() % 3; !attributes.empty() && attributes.back().is_list && n > 0; --n) {
    attributes.back().numbers.push_back(Scalar{kNone, true, 0, static_cast<std::int64_t>(random() % 7) - 3});
  }
  return attributes;
}

}  // namespace

std::uint32_t outline_randomly(Program& program, std::uint64_t seed) {
  constexpr const char* kNames[] = {"swirl", "fold_twice", "mix3"};
  std::mt19937_64 random(seed);
  std::vector<Outline> outlines;
  const auto count = static_cast<OpId>(program.ops.size());
  for (OpId first = 0; first < count;) {
    const auto length = static_cast<OpId>(1 + random() % 4);
    if (random() % 3 == 0) {
      const OpId end = std::min(first + length, count);
      outlines.push_back(
          {first, end, kNames[random() % 3], random_attributes(random), roles_of(program, first, end), {}});
      for (const Operand& out : program.ops[end - 1].outputs) outlines.back().outputs.push_back({"result", out});
    }
    first += length;
  }
  return outline(program, std::move(outlines));
}

std::uint32_t outline_randomly(RandomProgram& random, std::uint64_t seed) {
  std::vector<std::string> names;
  for (ValueId v = 0; v < random.program.values.size(); ++v) {
    Value& value = random.program.values[v];
    names.push_back(value.name);
    if (value.kind != ValueKind::kTemporary) value.name = std::to_string(v);
  }
  const std::uint32_t made = outline_randomly(random.program, seed);
  std::vector<Bytes> values(random.program.values.size());
  for (ValueId v = 0; v < values.size(); ++v) {
    Value& value = random.program.values[v];
    if (value.kind == ValueKind::kTemporary) continue;
    const auto old = static_cast<std::size_t>(std::stoul(value.name));
    values[v] = std::move(random.values[old]);
    value.name = names[old];
  }
  random.values = std::move(values);
  return made;
}

}  // namespace crucible::graph
