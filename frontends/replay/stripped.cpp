// See stripped.hpp.
#include "frontends/replay/stripped.hpp"

#include "core/trace/strip.hpp"

namespace crucible::replay {

bool judge_stripped(runtime::Verification& verdict, const trace::Trace& trace) {
  if (!trace::is_stripped(trace)) return false;
  verdict.losses_compared = verdict.losses_rounded = verdict.outputs_compared = 0;
  verdict.max_loss_rel_diff = 0;
  verdict.losses.clear();
  verdict.outputs.clear();
  verdict.states.clear();
  verdict.states_not_recorded.clear();
  verdict.verified = false;
  verdict.reason = "the recording was stripped";
  verdict.verdict = "not verified: " + verdict.reason +
                    " (crucible trace strip): its data are noise, and so is what was to be compared with";
  return true;
}

}  // namespace crucible::replay
