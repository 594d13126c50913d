#include "runtime/judge/kernel_trials.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/base/progress.hpp"
#include "runtime/judge/trial.hpp"
#include "runtime/judge/trial_verdicts.hpp"

namespace crucible::runtime {
namespace {

/// What a plugin calls the machine code of a kernel (key binary of kernel_info); "" where it does not say.
std::string binary_of(const backend::Device& device, crucible_kernel* kernel) {
  std::string binary;
  const auto note = [](void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (std::string_view(items[i].key.data, items[i].key.size) == "binary" && items[i].type == CRUCIBLE_V_STR)
        static_cast<std::string*>(user)->assign(items[i].s.data, items[i].s.size);
    }
  };
  if (!backend::to_result(device.backend().compile_table().kernel_info(kernel, note, &binary), "")) return "";
  return binary;
}

std::uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

class Trials {
 public:
  Trials(const TrialPlace& place, const TrialOptions& options, TrialReferences& references, AcceptedKernels& accepted,
         TrialReport& report)
      : place_(place),
        references_(references),
        accepted_(accepted),
        report_(report),
        own_(options.verdicts ? options.verdicts : std::make_shared<VerdictsByDevice>()),
        verdicts_(own_->of(*place.device, place.schedule.numerics)) {}
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  Result<void> run(std::span<const backend::KernelSource> sources) {
    std::vector<Pending> pending;
    std::vector<backend::KernelSource> wrong;
    const auto note_wrong = [&](const backend::KernelSource& source, std::uint32_t step, const std::string& what) {
      report_.wrong.push_back({source.name, step, what, false});
      wrong.push_back(source);
    };
    for (const backend::KernelSource& source : sources) {
      const std::optional<std::uint32_t> step = references_.step_of(source.name);
      if (source.ir.empty() || !step || is_refused(source.name)) continue;
      ++report_.kernels;
      CRUCIBLE_TRY(Pending one, look_up(source, *step, *accepted_.module));
      pending.push_back(std::move(one));
    }
    std::vector<store::ActionKey> keys;
    for (const Pending& one : pending) {
      if (one.key) keys.push_back(*one.key);
    }
    verdicts_.look_ahead(keys);
    for (Pending& one : pending) {
      one.known = verdicts_.find(one.key);
      if (one.known && !one.known->empty()) note_wrong(*one.source, one.step, *one.known);
    }
    std::erase_if(pending, [](const Pending& one) { return one.known.has_value(); });
    // Memory for the largest, once: a plugin may clear what it hands out.
    for (const Pending& one : pending) most_bytes_ = std::max(most_bytes_, references_.bytes_of(one.source->name));
    std::size_t tried = 0;
    const auto judge_one = [&](Pending& one, Result<TrialReferences::Made> made) -> Result<void> {
      report_progress("trying kernels", tried++, pending.size());
      if (!made) return made.error();
      CRUCIBLE_TRY(one.judged, judge(one, *std::move(made)));
      return {};
    };
    std::map<std::string_view, Pending*> left;
    std::set<std::string_view> names;
    for (Pending& one : pending) {
      left.emplace(one.source->name, &one);
      names.insert(one.source->name);
    }
    references_.want(names);
    while (std::optional<TrialReferences::Next> next = references_.next()) {
      const auto one = left.find(next->kernel);
      CRUCIBLE_TRY_VOID(judge_one(*one->second, std::move(next->made)));
      left.erase(one);
    }
    for (const auto& [name, one] : left) CRUCIBLE_TRY_VOID(judge_one(*one, references_.make(*one->source)));
    for (const Pending& one : pending) {
      if (!one.judged.empty()) note_wrong(*one.source, one.step, one.judged);
    }
    std::ranges::sort(report_.untried, {}, &Refusal::kernel);
    return wrong.empty() ? Result<void>() : mend(wrong);
  }

 private:
  /// A kernel that may have to be tried.
  struct Pending {
    const backend::KernelSource* source = nullptr;
    std::uint32_t step = 0;
    crucible_kernel* compiled = nullptr;
    std::optional<store::ActionKey> key;  // of its verdict
    std::optional<std::string> known;  // what an earlier trial of this binary said
    std::string judged;                // what is wrong, by this one
  };

  bool is_refused(std::string_view name) const {
    return std::ranges::find(accepted_.refused, name, &Refusal::kernel) != accepted_.refused.end();
  }

  Result<Pending> look_up(const backend::KernelSource& source, std::uint32_t step,
                          const backend::Module& module) const {
    Pending one{.source = &source, .step = step, .compiled = nullptr, .key = {}, .known = {}, .judged = {}};
    CRUCIBLE_TRY(one.compiled, module.kernel(source.name));
    one.key = verdicts_.key_of(source, binary_of(*place_.device, one.compiled));
    return one;
  }

  /// "" when the kernel is right, or nobody can say.
  Result<std::string> judge(const Pending& one, TrialReferences::Made made) {
    const TrialSubject& subject = *made.subject;
    const auto nobody_can_say = [&](const Error& error) {
      report_.untried.push_back({one.source->name, error.message});
      return std::string();
    };
    if (!bench_ || bench_bytes_ < subject.bytes()) {
      bench_.reset();
      Result<TrialBench> bench = TrialBench::make(place_.device, std::max(most_bytes_, subject.bytes()));
      if (!bench && place_.device->lost() != nullptr) return bench.error();
      if (!bench) return nobody_can_say(bench.error());
      bench_.emplace(*std::move(bench));
      bench_bytes_ = std::max(most_bytes_, subject.bytes());
    }
    std::string what;
    for (const bool is_again : {false, true}) {
      if (is_again) TrialReferences::make_whole(made, references_.nearness());
      Result<TrialReference>& reference = *made.reference;
      if (!reference) return nobody_can_say(reference.error());
      CRUCIBLE_TRY(what, bench_->run(*reference, one.compiled));
      // A difference may be the sample's, or that of a comparison which rounding decides: then it is another one with
      // other numbers.
      if (what.empty() || (!reference->is_sampled() && references_.nearness() == Nearness::kBits)) break;
    }
    references_.give_back(std::move(made));
    ++report_.tried;
    verdicts_.note(one.key, what);
    return what;
  }

  /// The last entries of the report, compiled again.
  Result<void> mend(const std::vector<backend::KernelSource>& wrong) {
    WrongKernel* const reports = &report_.wrong[report_.wrong.size() - wrong.size()];
    Result<backend::Module> careful = backend::Module::compile(place_.device, wrong, nullptr, true);
    if (!careful && place_.device->lost() != nullptr) return careful.error();
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      std::string again =
          careful ? "" : fmt::format("it cannot be compiled with less optimisation: {}", careful.error().message);
      if (careful) {
        CRUCIBLE_TRY(Pending one, look_up(wrong[i], reports[i].step, *careful));
        one.known = verdicts_.find(one.key);
        std::string what = one.known.value_or("");
        if (!one.known) {
          CRUCIBLE_TRY(TrialReferences::Made made, references_.make(*one.source));
          CRUCIBLE_TRY(what, judge(one, std::move(made)));
        }
        if (!what.empty())
          again =
              what == reports[i].what ? "with less optimisation too" : fmt::format("with less optimisation {}", what);
      }
      reports[i].is_mended = again.empty();
      if (again.empty()) continue;
      reports[i].what += "; " + again;
      accepted_.refused.push_back(
          {wrong[i].name, fmt::format("kernel {} was compiled wrongly: {}", wrong[i].name, reports[i].what)});
    }
    if (!careful) return {};
    accepted_.careful.emplace(CarefulKernels{*std::move(careful), {}});
    for (const backend::KernelSource& source : wrong) accepted_.careful->names.push_back(source.name);
    return {};
  }

  const TrialPlace& place_;
  TrialReferences& references_;
  AcceptedKernels& accepted_;
  TrialReport& report_;
  const std::shared_ptr<VerdictsByDevice> own_;
  TrialVerdicts& verdicts_;
  std::optional<TrialBench> bench_;
  std::uint64_t bench_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace

Result<void> try_kernels(const TrialPlace& place, const TrialOptions& options,
                         std::span<const backend::KernelSource> sources, TrialReferences& references,
                         AcceptedKernels& accepted, TrialReport& report) {
  const bool computes = place.computes();
  report.is_on |= options.is_on && computes;
  if (!options.is_on || !computes || !accepted.module) return {};
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before_ns = thread_ns();
  const std::size_t tried = report.tried;
  Result<void> done = Trials(place, options, references, accepted, report).run(sources);
  references.stop();
#ifdef __GLIBC__
  if (report.tried > tried)
    malloc_trim(0);  // what the trials took goes back, so that a memory budget is what the process takes
#endif
  report.time_ns += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  report.processor_ns += thread_ns() - before_ns + references.processor_ns();
  return done;
}

}  // namespace crucible::runtime
