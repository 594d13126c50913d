// See branches.hpp. The first op at which two ways differ says much: an argument of another size came from outside, a
// result of another size was found or was asked for by a number, another op was chosen by Python. What Python chose by
// is guessed: how often a row of ops ran, then numbers that left the program before, the last one first.
#include "frontends/aten/recording/branches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "core/base/words.hpp"
#include "frontends/aten/call/schema.hpp"
#include "frontends/aten/recording/align_parts.hpp"
#include "frontends/aten/recording/signatures.hpp"

namespace crucible::aten {
namespace {

using graph::Arm;
using graph::Branch;
using graph::Guard;
using trace::Arg;
using Kind = trace::Arg::Kind;

/// A number that left the program for Python.
struct Question {
  std::uint32_t position = 0;  // so many ops of the iteration ran before
  std::uint32_t ordinal = 0;   // among those of that position
  const trace::Op* op = nullptr;
  auto key() const { return std::pair(position, ordinal); }
};

struct Way {                       // an iteration
  std::vector<std::uint32_t> ops;  // indices in Trace::ops, those of each thread together
  std::vector<Question> questions;
};

/// A number as outcomes are sorted by.
double number_of(const Arg& arg) { return arg.kind == Kind::kDouble ? arg.real : static_cast<double>(arg.integer); }

/// "3.0, 5.0", or "3.0 to 9.0" where there are many.
std::string outcomes_text(const trace::Trace& trace, const std::vector<const Arg*>& found) {
  std::map<double, std::string> texts;
  for (const Arg* arg : found) texts.emplace(number_of(*arg), argument_text(trace, *arg));
  if (texts.size() > 3) return texts.begin()->second + " to " + texts.rbegin()->second;
  std::string text;
  for (const auto& [number, words] : texts) text += (text.empty() ? "" : ", ") + words;
  return text;
}

class BranchFinder {
 public:
  BranchFinder(const trace::Trace& trace, const graph::Variants& variants)
      : trace_(trace), variants_(variants), signatures_(trace), iterations_of_(variants.programs.size()) {
    for (const graph::Turn& turn : variants.turns) iterations_of_[turn.variant].push_back(turn.iteration);
    for (const auto& iterations : iterations_of_) {
      std::vector<std::uint64_t>& keys = keys_.emplace_back();
      for (const auto op : way(iterations[0]).ops) keys.push_back(signatures_.of(trace.ops[op]));
    }
  }

  graph::Branches run() {
    std::vector<std::uint32_t> all(variants_.programs.size());
    for (std::uint32_t v = 0; v < all.size(); ++v) all[v] = v;
    if (all.size() > 1) part(all, 0);
    graph::Branches joined;
    if (!branches_.empty()) join_counts(0, joined);
    return joined;
  }

 private:
  const Way& way(std::uint32_t iteration) {
    const auto [found, is_new] = ways_.try_emplace(iteration);
    if (!is_new) return found->second;
    const trace::Iteration& recorded = trace_.iterations[iteration];
    std::vector<std::uint32_t> order(recorded.op_count);
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = recorded.first_op + i;
    std::ranges::stable_sort(order, {}, [&](auto op) { return trace_.ops[op].thread; });
    for (const auto index : order) {
      const trace::Op& op = trace_.ops[index];
      if (is_aligned(trace_, op)) {
        found->second.ops.push_back(index);
      } else if (op.outputs.size() == 1 && is_number(op.outputs[0])) {
        std::vector<Question>& asked = found->second.questions;
        const auto position = static_cast<std::uint32_t>(found->second.ops.size());
        const bool is_next = !asked.empty() && asked.back().position == position;
        asked.push_back({position, is_next ? asked.back().ordinal + 1 : 0, &op});
      }
    }
    return found->second;
  }

  const std::vector<std::uint32_t>& ops_of(std::uint32_t variant) { return way(iterations_of_[variant][0]).ops; }
  const trace::Op* op_of(std::uint32_t variant, std::size_t position) {
    const auto& ops = ops_of(variant);
    return position < ops.size() ? &trace_.ops[ops[position]] : nullptr;
  }

  std::size_t common_prefix(std::span<const std::uint32_t> variants, std::size_t from) const {
    const auto& first = keys_[variants[0]];
    std::size_t length = first.size();
    for (const auto v : variants.subspan(1)) {
      const std::size_t end = std::min(length, keys_[v].size());
      std::size_t p = std::min(from, end);
      while (p < end && keys_[v][p] == first[p]) ++p;
      length = p;
    }
    return length;
  }

  std::size_t common_suffix(std::uint32_t a, std::uint32_t b, std::size_t limit) const {
    const auto &x = keys_[a], &y = keys_[b];
    limit = std::min(limit, std::min(x.size(), y.size()));
    std::size_t n = 0;
    while (n < limit && x[x.size() - 1 - n] == y[y.size() - 1 - n]) ++n;
    return n;
  }

  /// Adds the branch at which these variants part and those after it. Returns how many of the last ops all of them
  /// have.
  std::size_t part(const std::vector<std::uint32_t>& variants, std::size_t from) {
    const std::size_t position = common_prefix(variants, from), number = branches_.size();
    std::map<std::optional<std::uint64_t>, std::vector<std::uint32_t>> by_key;
    for (const auto v : variants) {
      const bool has_ended = position >= keys_[v].size();
      by_key[has_ended ? std::nullopt : std::optional(keys_[v][position])].push_back(v);
    }
    Branch branch;
    branch.op = static_cast<std::uint32_t>(position);
    const bool is_alike = by_key.size() == 1;  // to the end
    for (auto& [key, some] : by_key) {
      if (!is_alike) branch.arms.emplace_back().variants = std::move(some);
    }
    if (is_alike) {
      for (const auto v : variants) branch.arms.emplace_back().variants = {v};
    }
    std::ranges::sort(branch.arms, {}, [](const Arm& arm) { return arm.variants[0]; });
    for (Arm& arm : branch.arms) {
      for (const auto v : arm.variants) arm.iterations += static_cast<std::uint32_t>(iterations_of_[v].size());
    }
    const trace::Op* first = op_of(branch.arms[0].variants[0], position);
    if (first != nullptr) branch.op_name = name_of(*first), branch.site = trace_.site_text(first->site);
    row_ = {};
    is_alike ? tell_memory(branch) : tell(branch);
    rows_.push_back(std::move(row_));
    if (branch.site.empty()) branch.site = end_site(branch);
    branches_.push_back(std::move(branch));

    std::size_t suffix = keys_[variants[0]].size() - position;
    const std::size_t count = branches_[number].arms.size();
    for (std::size_t k = 0; k < count; ++k) {
      const std::vector<std::uint32_t> some = branches_[number].arms[k].variants;
      suffix = common_suffix(variants[0], some[0], std::min(suffix, keys_[some[0]].size() - position));
      if (some.size() == 1) continue;
      branches_[number].arms[k].next = static_cast<std::uint32_t>(branches_.size());
      suffix = std::min(suffix, part(some, position));
    }
    branches_[number].alike_after = static_cast<std::uint32_t>(suffix);
    return suffix;
  }

  /// Appends the branch and those after it, but for branches that ask again how often the same ops run: their ways are
  /// ways of the first.
  std::uint32_t join_counts(std::uint32_t number, graph::Branches& joined) const {
    const auto own = static_cast<std::uint32_t>(joined.size());
    joined.push_back(branches_[number]);
    std::vector<Arm>& left = joined[own].arms;
    std::vector<Arm> arms;
    while (!left.empty()) {
      Arm arm = std::move(left.front());
      left.erase(left.begin());
      const Branch* next = arm.next == graph::kNone ? nullptr : &branches_[arm.next];
      const bool asks_again = next != nullptr && next->guard == Guard::kCount && rows_[arm.next] == rows_[number];
      asks_again ? void(left.insert(left.begin(), next->arms.begin(), next->arms.end()))
                 : arms.push_back(std::move(arm));
    }
    std::ranges::sort(arms, {}, [](const Arm& arm) { return arm.variants[0]; });
    for (Arm& arm : arms) {
      if (arm.next != graph::kNone) arm.next = join_counts(arm.next, joined);
    }
    joined[own].arms = std::move(arms);
    return own;
  }

  std::string name_of(const trace::Op& op) const { return trace_.schemas[op.schema].full_name(); }

  /// Where the first arm's iterations end, the op by which another goes on.
  std::string end_site(const Branch& branch) {
    for (const Arm& arm : branch.arms) {
      if (const trace::Op* op = op_of(arm.variants[0], branch.op)) return trace_.site_text(op->site);
    }
    return "?";
  }

  void tell_memory(Branch& branch) {
    branch.guard = Guard::kMemory;
    branch.words = "which tensors share memory, or a number by which the program is shaped";
    for (Arm& arm : branch.arms) arm.when = fmt::format("as in iteration {}", iterations_of_[arm.variants[0]][0]);
  }

  void tell(Branch& branch) {
    const trace::Op* first = op_of(branch.arms[0].variants[0], branch.op);
    const bool is_one_op = first != nullptr && std::ranges::all_of(branch.arms, [&](const Arm& arm) {
                             const trace::Op* op = op_of(arm.variants[0], branch.op);
                             return op != nullptr && name_of(*op) == name_of(*first) &&
                                    op->args.size() == first->args.size() &&
                                    op->outputs.size() == first->outputs.size();
                           });
    if (is_one_op) return tell_parts(branch);
    if (tell_count(branch) || tell_value(branch, false)) return;
    branch.guard = Guard::kPython;
    branch.words = "Python took another way, for a reason that the recording does not have";
    for (Arm& arm : branch.arms) {
      const trace::Op* op = op_of(arm.variants[0], branch.op);
      arm.when = op == nullptr ? "the iteration ends" : name_of(*op);
    }
  }

  /// One op runs on all ways, and something about it differs.
  void tell_parts(Branch& branch) {
    const trace::Op& first = *op_of(branch.arms[0].variants[0], branch.op);
    const auto names = argument_names(trace_.schemas[first.schema].text);
    for (std::size_t k = 0; k < first.args.size(); ++k) {
      if (!differs(branch, &trace::Op::args, k)) continue;
      const std::string argument = k < names.size() ? names[k] : fmt::format("argument {}", k);
      branch.guard = tell_shapes(branch, &trace::Op::args, k) ? Guard::kExtent : Guard::kKind;
      branch.words =
          fmt::format("{} what {} takes as {}", branch.guard == Guard::kExtent ? "the size of" : "the kind of",
                      branch.op_name, argument);
      return;
    }
    if (tell_value(branch, true) || tell_number(branch, names)) return;
    for (std::size_t k = 0; k < first.outputs.size(); ++k) {
      if (!differs(branch, &trace::Op::outputs, k)) continue;
      branch.guard = tell_shapes(branch, &trace::Op::outputs, k) ? Guard::kFound : Guard::kKind;
      branch.words = branch.guard == Guard::kFound ? fmt::format("how many elements {} found", branch.op_name)
                                                   : fmt::format("the kind of what {} made", branch.op_name);
      return;
    }
  }

  bool differs(const Branch& branch, std::vector<Arg> trace::Op::*list, std::size_t k) {
    const auto part = [&](const Arm& arm) { return signatures_.of((op_of(arm.variants[0], branch.op)->*list)[k]); };
    return std::ranges::any_of(branch.arms, [&](const Arm& arm) { return part(arm) != part(branch.arms[0]); });
  }

  /// Sets each arm's outcome to the tensor's sizes, or where they do not tell the ways apart, to all that is known of
  /// it; then false is returned.
  bool tell_shapes(Branch& branch, std::vector<Arg> trace::Op::*list, std::size_t k) {
    std::set<std::string> sizes;
    for (Arm& arm : branch.arms) {
      const Arg* arg = &(op_of(arm.variants[0], branch.op)->*list)[k];
      const std::size_t item = differing_item(branch, list, k);
      if (arg->kind == Kind::kList && item < arg->list.size()) arg = &arg->list[item];
      arm.when = argument_text(trace_, *arg);
      if (arg->kind != Kind::kTensor) continue;
      const std::string text = fmt::format("[{}]", fmt::join(trace_.tensors[arg->tensor].sizes, ", "));
      if (sizes.insert(text).second) arm.when = text;
    }
    return sizes.size() == branch.arms.size();
  }

  /// Of a list of tensors, the first that is not the same on all ways.
  std::size_t differing_item(const Branch& branch, std::vector<Arg> trace::Op::*list, std::size_t k) {
    std::size_t length = static_cast<std::size_t>(-1);
    std::vector<const Arg*> args;
    for (const Arm& arm : branch.arms) {
      args.push_back(&(op_of(arm.variants[0], branch.op)->*list)[k]);
      length = std::min(length, args.back()->list.size());
    }
    for (std::size_t i = 0; i < length; ++i) {
      const auto is_other = [&](const Arg* arg) {
        return signatures_.of(arg->list[i]) != signatures_.of(args[0]->list[i]);
      };
      if (std::ranges::any_of(args, is_other)) return i;
    }
    return length;
  }

  std::vector<std::uint32_t> iterations_of(const Arm& arm) const {
    constexpr std::size_t kMost = 64;
    std::vector<std::uint32_t> iterations;
    for (const auto v : arm.variants) {
      const std::size_t left = kMost - iterations.size();
      const auto& own = iterations_of_[v];
      iterations.insert(iterations.end(), own.begin(),
                        own.begin() + static_cast<std::ptrdiff_t>(std::min(left, own.size())));
    }
    return iterations;
  }

  /// By a number that left before the branch and is never the same on two ways. `is_asked_for`: one that the op at the
  /// branch then takes.
  bool tell_value(Branch& branch, bool is_asked_for) {
    const auto& asked = way(iterations_of_[branch.arms[0].variants[0]][0]).questions;
    for (std::size_t q = asked.size(); q-- > 0;) {
      if (asked[q].position <= branch.op && separates(branch, asked[q], is_asked_for)) {
        const std::string name = trace_.schemas[asked[q].op->schema].name;
        branch.guard = Guard::kValue;
        branch.words = fmt::format("what {} gave Python at {}{}", name == "aten::_local_scalar_dense" ? "item()" : name,
                                   trace_.site_text(asked[q].op->site),
                                   is_asked_for ? fmt::format(", which {} takes", branch.op_name)
                                                : ", the last number that tells the ways apart");
        return true;
      }
    }
    return false;
  }

  bool separates(Branch& branch, const Question& question, bool is_asked_for) {
    std::map<double, std::size_t> way_of;  // which arm had the number
    std::vector<std::string> outcomes;
    for (std::size_t k = 0; k < branch.arms.size(); ++k) {
      std::vector<const Arg*> found;
      for (const auto iteration : iterations_of(branch.arms[k])) {
        const Way& own = way(iteration);
        const auto same = std::ranges::lower_bound(own.questions, question.key(), {}, &Question::key);
        if (same == own.questions.end() || same->key() != question.key() || same->op->schema != question.op->schema)
          return false;
        found.push_back(&same->op->outputs[0]);
        if (!way_of.emplace(number_of(*found.back()), k).second && way_of[number_of(*found.back())] != k) return false;
        if (is_asked_for && (branch.op >= own.ops.size() || !takes(trace_.ops[own.ops[branch.op]].args, *found.back())))
          return false;
      }
      outcomes.push_back(outcomes_text(trace_, found));
    }
    for (std::size_t k = 0; k < outcomes.size(); ++k) branch.arms[k].when = std::move(outcomes[k]);
    return true;
  }

  static bool takes(const std::vector<Arg>& args, const Arg& number) {
    return std::ranges::any_of(args, [&](const Arg& arg) {
      return arg.kind == Kind::kList ? takes(arg.list, number) : is_number(arg) && number_of(arg) == number_of(number);
    });
  }

  /// By a number that the op at the branch takes, alike on each way.
  bool tell_number(Branch& branch, const std::vector<std::string>& names) {
    const trace::Op& first = *op_of(branch.arms[0].variants[0], branch.op);
    for (std::size_t k = 0; k < first.args.size(); ++k) {
      std::set<std::string> texts;
      std::vector<std::string> outcomes;
      for (const Arm& arm : branch.arms) {
        const Arg& arg = op_of(arm.variants[0], branch.op)->args[k];
        const bool has_numbers = is_number(arg) || (!arg.list.empty() && std::ranges::all_of(arg.list, is_number));
        if (!has_numbers) break;
        outcomes.push_back(argument_text(trace_, arg));
        texts.insert(outcomes.back());
      }
      if (texts.size() != branch.arms.size()) continue;
      branch.guard = Guard::kNumber;
      branch.words = fmt::format("the number that Python gives {} as {}", branch.op_name,
                                 k < names.size() ? names[k] : fmt::format("argument {}", k));
      for (std::size_t arm = 0; arm < outcomes.size(); ++arm) branch.arms[arm].when = std::move(outcomes[arm]);
      return true;
    }
    return false;
  }

  /// By how often the ops just before the branch run, where one way goes on with them again.
  bool tell_count(Branch& branch) {
    constexpr std::size_t kLeast = 3, kMost = 100'000;  // ops in a row
    for (const Arm& arm : branch.arms) {
      const auto& keys = keys_[arm.variants[0]];
      for (std::size_t n = kLeast; n <= std::min<std::size_t>(branch.op, kMost); ++n) {
        if (branch.op + n > keys.size()) break;
        if (!repeats(keys, branch.op, n)) continue;
        std::size_t before = 1;
        while (branch.op >= (before + 1) * n && repeats(keys, branch.op - before * n, n)) ++before;
        branch.guard = Guard::kCount;
        row_.assign(keys.begin() + static_cast<std::ptrdiff_t>(branch.op),
                    keys.begin() + static_cast<std::ptrdiff_t>(branch.op + n));
        branch.words = fmt::format("how often the {} ops from {} run", n,
                                   trace_.site_text(op_of(arm.variants[0], branch.op - n)->site));
        for (Arm& each : branch.arms) each.when = times_text(each, branch.op, n, before);
        return true;
      }
    }
    return false;
  }

  /// "3 times", of a way on which several variants lie "3 times or more": how often a row of n ops runs that ran
  /// `before` times before `position`.
  std::string times_text(const Arm& arm, std::size_t position, std::size_t n, std::size_t before) const {
    std::set<std::size_t> found;
    for (const auto v : arm.variants) {
      std::size_t times = before;
      for (std::size_t at = position; at + n <= keys_[v].size() && repeats(keys_[v], at, n); at += n) ++times;
      found.insert(times);
    }
    const std::size_t least = *found.begin();
    return times_in_words(least) + (found.size() > 1 ? " or more" : "");
  }

  /// Whether the n ops from `at` on are those before it.
  static bool repeats(const std::vector<std::uint64_t>& keys, std::size_t at, std::size_t n) {
    return std::equal(keys.begin() + static_cast<std::ptrdiff_t>(at),
                      keys.begin() + static_cast<std::ptrdiff_t>(at + n),
                      keys.begin() + static_cast<std::ptrdiff_t>(at - n));
  }

  const trace::Trace& trace_;
  const graph::Variants& variants_;
  Signatures signatures_;
  std::vector<std::vector<std::uint32_t>> iterations_of_;  // by variant
  std::vector<std::vector<std::uint64_t>> keys_;           // by variant: its first iteration's ops
  std::map<std::uint32_t, Way> ways_;                      // by iteration, those that were looked at
  graph::Branches branches_;
  std::vector<std::vector<std::uint64_t>> rows_;  // by branch: the ops that run again and again, of Guard::kCount
  std::vector<std::uint64_t> row_;                // of the branch that is being made
};

}  // namespace

graph::Branches find_branches(const trace::Trace& trace, const graph::Variants& variants) {
  return BranchFinder(trace, variants).run();
}

}  // namespace crucible::aten
