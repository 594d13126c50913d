// One case per kind of op in the table, so that the tier grows with it, and cases of random programs.
#include <fmt/format.h>

#include "core/graph/op_table.hpp"
#include "core/kernel/fuse/trained_attention.hpp"
#include "plugins/conformance/ops_attention.hpp"
#include "plugins/conformance/ops_run.hpp"

namespace crucible::conformance {
namespace {

using graph::OpKind;

void expect_none(const std::vector<std::string>& failures, std::size_t programs) {
  if (failures.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < failures.size() && i < 5; ++i) text += (i == 0 ? "" : "\n            ") + failures[i];
  if (failures.size() > 5) text += fmt::format("\n            and {} more", failures.size() - 5);
  fail(fmt::format("all {} programs agree with the float64 reference", programs), text);
}

void run_kind(OpKind kind, const Settings& settings) {
  Opened opened(settings);
  const DtypeChoice choice = {opened.may_have("f64"), opened.may_have("f16"), opened.may_have("bf16")};
  const std::vector<OpsProgram> programs = programs_of(kind, choice, settings.quick);
  expect(!programs.empty(), fmt::format("the kit has programs for the op {}", graph::name(kind)),
         "it has none: plugins/conformance/ops_programs.cpp does not know this op yet");
  expect_none(run_programs(opened, programs, false), programs.size());
}

void run_claimed(OpKind kind, const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.library.claim, "library.claim");
  const std::vector<OpsProgram> programs =
      programs_of(kind, {opened.may_have("f64"), opened.may_have("f16"), opened.may_have("bf16")}, settings.quick);
  std::size_t calls = 0;
  const std::vector<std::string> failures = run_programs(opened, programs, true, &calls);
  if (calls == 0) unsupported(fmt::format("the plugin's library takes no {} of the kit's", graph::name(kind)));
  expect_none(failures, programs.size());
}

/// Only attentions go to the library, so that it is known who computed.
void run_claimed_attention(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.library.claim, "library.claim");
  const std::vector<OpsProgram> programs =
      attention_programs({opened.may_have("f64"), opened.may_have("f16"), opened.may_have("bf16")});
  std::size_t calls = 0;
  const std::vector<std::string> failures = run_programs(
      opened, programs, true, &calls, [](const kernel::LibraryCall& call) { return kernel::is_attention(call.kind); });
  if (calls == 0) unsupported("the plugin's library takes no attention of the kit's");
  expect_none(failures, programs.size());
}

/// Each program with both directions, as the scheduler states them for a library that takes both.
void run_claimed_training(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.library.claim, "library.claim");
  std::vector<OpsProgram> stated;
  for (OpsProgram& entry :
       trained_attention_programs({opened.may_have("f64"), opened.may_have("f16"), opened.may_have("bf16")})) {
    auto program = kernel::state_trained_attentions(
        entry.program, [&](const kernel::LibraryCall& call) { return is_claimed(opened, call); });
    if (!program) continue;
    entry.program = *std::move(program);
    entry.values.resize(entry.program.values.size());
    stated.push_back(std::move(entry));
  }
  if (stated.empty()) unsupported("the plugin's library takes no attention in training of the kit's");
  std::size_t calls = 0;
  const std::vector<std::string> failures = run_programs(
      opened, stated, true, &calls, [](const kernel::LibraryCall& call) { return kernel::is_attention(call.kind); });
  expect(calls == 2 * stated.size(), "both directions of each attention are calls", fmt::format("{} calls", calls));
  expect_none(failures, stated.size());
}

void run_random(const Settings& settings) {
  Opened opened(settings);
  const std::vector<OpsProgram> programs = random_programs(settings.quick ? 5 : 40);
  expect_none(run_programs(opened, programs, false), programs.size());
}

void run_whole_slots(const Settings& settings) {
  Opened opened(settings);
  const std::vector<OpsProgram> programs =
      whole_slot_programs({opened.may_have("f64"), opened.may_have("f16"), opened.may_have("bf16")});
  expect_none(run_programs(opened, programs, false), programs.size());
}

}  // namespace

std::vector<Case> ops_cases() {
  std::vector<Case> cases;
  for (int i = 0; i < graph::kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const graph::OpInfo& info = graph::info(kind);
    // The quick run samples: every fourth kind, and those that have a loop in their kernel.
    const bool quick =
        i % 4 == 0 || info.op_class == graph::OpClass::kReduction || kind == OpKind::kMatMul || kind == OpKind::kAdd;
    cases.push_back(
        {"ops." + std::string(info.name), Tier::kOps,
         fmt::format("{} agrees with the float64 reference for every dtype, awkward shape and awkward number",
                     info.name),
         quick, [kind](const Settings& settings) { run_kind(kind, settings); }, 120});
    if (info.op_class != graph::OpClass::kContraction) continue;
    cases.push_back({"ops.library." + std::string(info.name), Tier::kOps,
                     fmt::format("{} by the plugin's library agrees with the float64 reference", info.name), false,
                     [kind](const Settings& settings) { run_claimed(kind, settings); }, 120});
  }
  cases.push_back({"ops.library.attention", Tier::kOps,
                   "attention by the plugin's library agrees with the float64 reference", true, run_claimed_attention,
                   120});
  cases.push_back(
      {"ops.library.attention_training", Tier::kOps,
       "attention in training, with its gradient, by the plugin's library agrees with the float64 reference", true,
       run_claimed_training, 120});
  cases.push_back({"ops.random_programs", Tier::kOps, "fused programs of many ops agree with the float64 reference",
                   true, run_random, 180});
  cases.push_back({"ops.whole_slots", Tier::kOps,
                   "whole numbers in slots keep every digit, as i64 of which a double holds not all", true,
                   run_whole_slots, 120});
  return cases;
}

}  // namespace crucible::conformance
