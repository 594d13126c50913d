// The table of faults: what the faulty plugin does, and which case of the kit must find it. Tests and the page
// docs/conformance.md are made from it.
#pragma once

#include <string_view>

namespace crucible::conformance {

struct KnownFault {
  std::string_view fault;  // what the name of its file ends with
  std::string_view what;   // in words
  std::string_view found;  // the case that must fail
};

inline constexpr KnownFault kFaults[] = {
    {"second_export", "exports a second symbol", "static.exports.query_alone"},
    {"query_reads_environment", "the query needs an environment variable", "negotiation.query.without_environment"},
    {"query_opens_file", "the query opens a file", "negotiation.query.pure"},
    {"query_writes_behind_answer", "writes behind the end of an older host's answer", "negotiation.query.older_minor"},
    {"query_takes_any_major", "accepts a host of another major", "negotiation.query.wrong_major"},
    {"missing_memory_fill", "lacks a mandatory entry", "api.memory.nulls"},
    {"writes_output_on_error", "writes the output on an error", "api.memory.alloc"},
    {"no_range_check", "takes a write beyond the end", "api.memory.ranges"},
    {"frees_error_twice", "frees an error object twice", "api.error.objects"},
    {"throws_exception", "lets a C++ exception out", "api.device.properties"},
    {"aborts", "aborts on an op that it does not know", "api.plan.build"},
    {"exits", "calls exit(0) when it is asked for a device that it has not", "api.device.open"},
    {"changes_locale", "changes the locale", "api.teardown.process_as_before"},
    {"installs_signal_handler", "installs a signal handler", "api.teardown.process_as_before"},
    {"closes_stdout", "closes standard output", "api.teardown.process_as_before"},
    {"leaves_thread_running", "leaves a thread running after shutdown", "api.teardown.process_as_before"},
    {"memory_not_zero", "hands out memory that is not zero", "behaviour.memory.zero_filled"},
    {"reads_one_byte_too_few", "reads one byte too few", "behaviour.memory.round_trips"},
    {"hands_out_buffer_twice", "hands out a stale buffer handle", "behaviour.memory.do_not_overlap"},
    {"stale_plan", "hands out a stale plan handle", "behaviour.plan.many"},
    {"one_ulp_off", "a scalar arrives one ulp off", "behaviour.kernel.scalars"},
    {"whole_scalar_as_double", "takes a whole scalar for a double and back", "behaviour.kernel.scalars"},
    {"drops_last_work_item", "leaves out the last work item", "behaviour.kernel.grids"},
    {"slots_shifted", "mixes up slots", "behaviour.plan.slots"},
    {"whole_slot_as_double", "takes a whole slot for a double and back", "behaviour.plan.slots"},
    {"ops_out_of_order", "runs two ops in the wrong order", "behaviour.plan.order"},
    {"fill_stops_early", "a FILL stops one byte early", "behaviour.plan.copy_and_fill"},
    {"device_lost_in_mid_run", "loses the device in mid-run", "behaviour.plan.replays"},
    {"hangs", "never returns from a submission", "behaviour.plan.replays"},
    {"changes_mxcsr", "changes the floating-point mode of the host", "behaviour.plan.keeps_process_state"},
    {"never_signals", "a timeline that never signals", "behaviour.queue.submit_runs"},
    {"timeline_goes_back", "a timeline that goes back", "behaviour.queue.timeline_grows"},
    {"signals_too_early", "a signal that comes too early", "behaviour.queue.signal_is_not_early"},
    {"ignores_waits", "work that does not wait for its points", "behaviour.queue.waits_are_kept"},
    {"wait_returns_at_once", "a wait that does not wait", "behaviour.queue.wait_times_out"},
    {"wrong_clock", "microseconds where nanoseconds were asked for", "behaviour.report.clocks"},
    {"never_begins_by_itself", "work that begins only when somebody waits", "behaviour.flight.flush_begins"},
    {"swallows_failures", "a failure that reaches one of two timelines", "behaviour.flight.failure_goes_on"},
    {"wrong_times", "times of work in microseconds", "behaviour.flight.times"},
    {"has_no_queues", "lacks the table of queues", "negotiation.tables.mandatory"},
    {"claims_conv2d_without_it", "claims library convolutions, cannot do them", "claims.library.conv2d"},
    {"leaks_a_buffer_per_call", "leaks one buffer per submission", "stress.leak.replays"},
    {"pretends_to_have_memory", "answers success for 32 PiB", "faults.memory.too_much"},
    {"takes_old_hosts", "accepts hosts that hand over texts", "old.hosts"},
    {"kernels_read_doubles", "kernels that read a whole slot by way of a double", "ops.whole_slots"},
    {"one_op_is_wrong", "one op is wrong in its fourth digit", "ops.rsqrt"},
    {"takes_any_form", "takes a kernel of an unknown form for kernel IR", "api.compile.broken"},
    {"other_mathematics", "computes with the mathematics of another SDK", "claims.math"},
};

}  // namespace crucible::conformance
