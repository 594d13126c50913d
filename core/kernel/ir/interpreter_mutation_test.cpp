// Kernels of random programs are changed in one place each. A mutant that the verifier takes must not leave its memory:
// the interpreter would see it. And most mutants have to be seen by somebody: refused, found out by the watches, or
// other bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "core/graph/random_program.hpp"
#include "core/kernel/ir/read_ir.hpp"
#include "core/kernel/run_schedule.hpp"

namespace crucible::kernel {
namespace {

using Random = std::mt19937_64;

/// A member of `list` at random for which `fits` holds; null when there is none.
template <class T>
T* any_of(std::vector<T>& list, Random& random, const std::function<bool(const T&)>& fits) {
  std::vector<T*> fitting;
  for (T& member : list) {
    if (fits(member)) fitting.push_back(&member);
  }
  return fitting.empty() ? nullptr : fitting[random() % fitting.size()];
}

/// Whose operands have an order.
bool is_ordered(const Expr& e) {
  switch (e.operation) {
    case Operation::kSubtract:
    case Operation::kDivide:
    case Operation::kRemainder:
    case Operation::kLess:
    case Operation::kLessEqual:
      return true;
    default:
      return false;
  }
}

std::int64_t near(Random& random) { return random() % 2 == 0 ? 1 : -1; }

bool change_integer(KernelIr& kernel, Random& random) {
  Expr* e = any_of<Expr>(kernel.exprs, random,
                         [](const Expr& x) { return x.operation == Operation::kInteger && x.type == DType::kI64; });
  if (e != nullptr) e->integer += near(random);
  return e != nullptr;
}
bool change_real(KernelIr& kernel, Random& random) {
  Expr* e = any_of<Expr>(kernel.exprs, random, [](const Expr& x) { return x.operation == Operation::kReal; });
  if (e != nullptr) e->real = e->real * 1.5 + 0.25;
  return e != nullptr;
}
bool swap_operands(KernelIr& kernel, Random& random) {
  Expr* e = any_of<Expr>(kernel.exprs, random, [](const Expr& x) { return is_ordered(x) && x.in[0] != x.in[1]; });
  if (e != nullptr) std::swap(e->in[0], e->in[1]);
  return e != nullptr;
}
bool change_operation(KernelIr& kernel, Random& random) {
  static const std::map<Operation, Operation> kOthers = {
      {Operation::kAdd, Operation::kSubtract},     {Operation::kSubtract, Operation::kAdd},
      {Operation::kMultiply, Operation::kAdd},     {Operation::kDivide, Operation::kMultiply},
      {Operation::kMaximum, Operation::kMinimum},  {Operation::kMinimum, Operation::kMaximum},
      {Operation::kLess, Operation::kLessEqual},   {Operation::kLessEqual, Operation::kLess},
      {Operation::kEqual, Operation::kNotEqual},   {Operation::kNotEqual, Operation::kEqual},
      {Operation::kRemainder, Operation::kDivide}, {Operation::kAnd, Operation::kOr},
      {Operation::kExp, Operation::kTanh},         {Operation::kSqrt, Operation::kAbsolute}};
  Expr* e = any_of<Expr>(kernel.exprs, random, [](const Expr& x) { return kOthers.contains(x.operation); });
  if (e != nullptr) e->operation = kOthers.at(e->operation);
  return e != nullptr;
}
bool change_operand(KernelIr& kernel, Random& random) {
  Expr* e = any_of<Expr>(kernel.exprs, random, [](const Expr& x) { return x.in[0] != kNoId; });
  if (e == nullptr) return false;
  const DType type = kernel.exprs[e->in[0]].type;
  const auto before = static_cast<std::size_t>(e - kernel.exprs.data());
  std::vector<ExprId> others;
  for (ExprId id = 0; id < before; ++id) {
    if (kernel.exprs[id].type == type && id != e->in[0]) others.push_back(id);
  }
  if (others.empty()) return false;
  e->in[0] = others[random() % others.size()];
  return true;
}
bool change_assumption(KernelIr& kernel, Random& random) {
  Expr* e = any_of<Expr>(kernel.exprs, random, [](const Expr& x) { return x.operation == Operation::kAssume; });
  if (e != nullptr) (random() % 2 == 0 ? e->integer : e->high) += near(random);
  return e != nullptr;
}
bool change_tile(KernelIr& kernel, Random& random) {
  if (kernel.tiles.empty()) return false;
  Tile& tile = kernel.tiles[random() % kernel.tiles.size()];
  switch (random() % 5) {
    case 0:
      tile.rows += static_cast<std::uint32_t>(near(random));
      break;
    case 1:
      tile.left.step += near(random);
      break;
    case 2:
      tile.left.row_step += near(random);
      break;
    case 3:
      tile.right.step += near(random);
      break;
    default:
      tile.start = tile.start == TileStart::kZero ? TileStart::kAdd : TileStart::kZero;
  }
  return true;
}
bool change_transpose(KernelIr& kernel, Random& random) {
  if (kernel.transposes.empty()) return false;
  Transpose& copy = kernel.transposes[random() % kernel.transposes.size()];
  (random() % 2 == 0 ? copy.from_step : copy.to_step) += near(random);
  return true;
}

void collect(std::vector<Stmt>& body, std::vector<std::vector<Stmt>*>& blocks) {
  if (!body.empty()) blocks.push_back(&body);
  for (Stmt& stmt : body) collect(stmt.body, blocks);
}
bool drop_statement(KernelIr& kernel, Random& random) {
  std::vector<std::vector<Stmt>*> blocks;
  collect(kernel.body, blocks);
  std::vector<Stmt>& block = *blocks[random() % blocks.size()];
  block.erase(block.begin() + static_cast<std::ptrdiff_t>(random() % block.size()));
  return true;
}
bool change_place(KernelIr& kernel, Random& random) {
  std::vector<std::vector<Stmt>*> blocks;
  collect(kernel.body, blocks);
  std::vector<Stmt*> stores;
  for (std::vector<Stmt>* block : blocks) {
    for (Stmt& stmt : *block) {
      if (stmt.kind == StmtKind::kStore || stmt.kind == StmtKind::kElement || stmt.kind == StmtKind::kFor)
        stores.push_back(&stmt);
    }
  }
  if (stores.empty()) return false;
  Stmt& stmt = *stores[random() % stores.size()];
  std::vector<ExprId> others;
  for (ExprId id = 0; id < kernel.exprs.size(); ++id) {
    const Expr& e = kernel.exprs[id];
    if (e.type == DType::kI64 &&
        (e.operation == Operation::kVariable || (e.operation == Operation::kInteger && e.integer < 1000)))
      others.push_back(id);
  }
  if (others.empty()) return false;
  (stmt.kind == StmtKind::kFor ? stmt.b : stmt.a) = others[random() % others.size()];
  return true;
}

struct Mutation {
  std::string name;
  bool (*apply)(KernelIr&, Random&);
};
const Mutation kMutations[] = {
    {"integer", change_integer},     {"real", change_real},           {"swapped operands", swap_operands},
    {"operation", change_operation}, {"operand", change_operand},     {"assumption", change_assumption},
    {"tile", change_tile},           {"transpose", change_transpose}, {"dropped statement", drop_statement},
    {"place or bound", change_place}};

/// Every step that launches kernel `index`, as its plan would ask.
bool is_taken(const graph::Program& program, const Schedule& schedule, std::uint32_t index, const KernelIr& kernel) {
  for (const Step& step : schedule.steps) {
    if (step.kernel != index) continue;
    std::vector<std::int64_t> elements;
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const graph::Value& value = program.values[step.buffers[i].value];
      elements.push_back(value.elements *
                         static_cast<std::int64_t>(size_bytes(value.dtype) / size_bytes(kernel.buffers[i].type)));
    }
    if (!verify_kernel(kernel, elements, step.grid)) return false;
  }
  return true;
}

/// CRUCIBLE_MUTANT_BATCHES in the environment makes it more: some 300 mutants each.
int batches() {
  const char* text = std::getenv("CRUCIBLE_MUTANT_BATCHES");
  return text == nullptr ? 4 : std::max(1, std::atoi(text));
}

struct Counts {
  int made = 0, refused = 0, found = 0, other_bits = 0;
};

class KernelMutation : public ::testing::TestWithParam<int> {};

TEST_P(KernelMutation, NoMutantThatTheVerifierTakesLeavesItsMemory) {
  std::map<std::string, Counts> counts;
  Random random(static_cast<std::uint64_t>(GetParam()) + 7);
  for (int i = 0; i < 6; ++i) {
    const graph::RandomProgram made =
        graph::random_program({.seed = static_cast<std::uint64_t>(900000 + GetParam() * 6 + i), .ops = 30});
    auto scheduled = schedule(made.program, {.claims = {}, .fuse = true, .numerics = Numerics::kStrict});
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    const auto run = [&](const Schedule& mutant) -> Result<std::vector<graph::Bytes>> {
      CRUCIBLE_TRY(const ScheduleInterpreter interpreter, ScheduleInterpreter::create(made.program, mutant));
      return interpreter.run(made.program, mutant, made.values, made.slots, {}, true);
    };
    const auto sound = run(*scheduled);
    ASSERT_TRUE(sound) << sound.error().message;
    for (int round = 0; round < 60; ++round) {
      const Mutation& mutation = kMutations[random() % std::size(kMutations)];
      const auto index = static_cast<std::uint32_t>(random() % scheduled->kernels.size());
      auto kernel = read_ir(scheduled->kernels[index].ir);
      ASSERT_TRUE(kernel);
      const KernelIr before = *kernel;
      if (!mutation.apply(*kernel, random)) continue;
      Counts& count = counts[mutation.name];
      ++count.made;
      if (!is_taken(made.program, *scheduled, index, *kernel)) {
        ++count.refused;
        continue;
      }
      Schedule mutant = *scheduled;
      mutant.kernels[index].ir = serialize_ir(*kernel);
      const auto got = run(mutant);
      if (!got) {
        EXPECT_EQ(got.error().message.find("is reached at"), std::string::npos)
            << mutation.name << " in program " << i << ", round " << round << ": " << got.error().message;
        ++count.found;
      } else {
        count.other_bits += *got != *sound;
      }
    }
  }
  Counts all;
  for (const auto& [name, count] : counts) {
    all = {all.made + count.made, all.refused + count.refused, all.found + count.found,
           all.other_bits + count.other_bits};
    std::printf("%-18s %3d made, %3d refused by the verifier, %3d found by the interpreter, %3d with other bits\n",
                name.c_str(), count.made, count.refused, count.found, count.other_bits);
  }
  // What stays unseen: branches and assumptions that the data do not reach, constants and results that nobody reads.
  EXPECT_GT(3 * (all.refused + all.found + all.other_bits), 2 * all.made);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KernelMutation, ::testing::Range(0, batches()));

}  // namespace
}  // namespace crucible::kernel
