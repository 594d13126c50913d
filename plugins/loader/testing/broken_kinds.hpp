// The table of broken plugins: what each does, and what the user must see. Kinds are names of broken_plugin.cpp's
// copies.
#pragma once

#include <cstdint>
#include <string_view>

namespace crucible::backend {

enum class Verdict : std::uint8_t { kRefused, kLoads, kLoadsWithWarning, kFailsAtStart };

struct BrokenKind {
  std::string_view kind;
  std::string_view does;  // for the table
  Verdict verdict;
  std::string_view sees;  // part of the error or warning; "" of one that loads
};

inline constexpr BrokenKind kBrokenKinds[] = {
    {"constructor_aborts", "calls abort in a constructor", Verdict::kRefused,
     "crashed with SIGABRT (Aborted) while the probe was loading it"},
    {"constructor_segfaults", "writes to address 0 in a constructor", Verdict::kRefused,
     "crashed with SIGSEGV (Segmentation fault) while the probe was loading it"},
    {"constructor_illegal", "runs an illegal instruction in a constructor", Verdict::kRefused,
     "crashed with SIGILL (Illegal instruction)"},
    {"constructor_exits", "calls exit(0) in a constructor", Verdict::kRefused,
     "ended the process with exit code 0 while the probe was loading it"},
    {"constructor_throws", "throws in a constructor", Verdict::kRefused,
     "crashed with SIGABRT (Aborted) while the probe was loading it; it wrote: terminate called after throwing"},
    {"constructor_complains", "writes why, then aborts in a constructor", Verdict::kRefused,
     "it wrote: fatal: the device file is missing"},
    {"constructor_loops", "loops for ever in a constructor", Verdict::kRefused,
     "did not answer within 500 ms while the probe was loading it"},
    {"constructor_hogs", "takes all memory in a constructor", Verdict::kRefused,
     "MiB of the 256 MiB that it may while the probe was loading it"},
    {"query_aborts", "calls abort in the query", Verdict::kRefused,
     "crashed with SIGABRT (Aborted) while the probe was asking who it is"},
    {"query_segfaults", "writes to address 0 in the query", Verdict::kRefused,
     "crashed with SIGSEGV (Segmentation fault) while the probe was asking who it is"},
    {"query_illegal", "runs an illegal instruction in the query", Verdict::kRefused,
     "crashed with SIGILL (Illegal instruction) while the probe was asking who it is"},
    {"query_exits", "calls exit(0) in the query", Verdict::kRefused,
     "ended the process with exit code 0 while the probe was asking who it is"},
    {"query_loops", "loops for ever in the query", Verdict::kRefused,
     "did not answer within 500 ms while the probe was asking who it is"},
    {"query_hogs", "takes all memory in the query", Verdict::kRefused,
     "MiB of the 256 MiB that it may while the probe was asking who it is"},
    {"query_throws", "throws a C++ exception out of the query", Verdict::kRefused,
     "its query threw a C++ exception across the boundary: an unhandled exception"},
    {"query_throws_int", "throws a number out of the query", Verdict::kRefused,
     "its query threw something across the boundary"},
    {"tables_throw", "throws when asked for a table", Verdict::kRefused,
     "its interface_table threw a C++ exception across the boundary: tables"},
    {"options_throws", "throws when asked for its options", Verdict::kRefused,
     "its describe_options threw a C++ exception"},
    {"options_segfaults", "crashes when asked for its options", Verdict::kRefused,
     "crashed with SIGSEGV (Segmentation fault) while the probe was asking for its options"},
    {"option_unnamed", "has an option without a name", Verdict::kRefused, "it has an option without a name"},
    {"option_of_no_type", "has an option of a type that does not exist", Verdict::kRefused,
     "its option 'speed' has the type 'warp'"},
    {"leaves_thread", "leaves a thread running after the query", Verdict::kRefused, "left 1 thread running"},
    {"changes_locale", "changes the locale", Verdict::kRefused, "changed the locale from C to C.UTF-8"},
    {"installs_handler", "installs a signal handler", Verdict::kRefused, "installed a handler of signal SIGSEGV"},
    {"closes_stdout", "closes standard output", Verdict::kRefused, "closed standard output"},
    {"redirects_stderr", "puts another file in the place of standard error", Verdict::kRefused,
     "put another file in the place of standard error"},
    {"changes_folder", "changes the current folder", Verdict::kRefused, "changed the current folder to /"},
#if defined(__x86_64__)
    {"changes_mxcsr", "sets flush-to-zero in MXCSR", Verdict::kRefused, "changed how the processor rounds"},
#endif
    {"changes_rounding", "rounds upwards from now on", Verdict::kRefused, "changed how the processor rounds"},
    {"writes_on_stdout", "writes on standard output in the query", Verdict::kLoadsWithWarning,
     "writes to standard output by itself: hello from the plugin"},
    {"wrong_magic", "answers another magic", Verdict::kRefused, "it answers magic 0x01badbad, expected 0x31435243"},
    {"newer_major", "speaks another major version", Verdict::kRefused, "major numbers must be equal"},
    {"older_minor", "speaks the last minor version that took kernels as texts", Verdict::kRefused,
     "speaks ABI 0.3, and this host takes plugins from 0.4 on"},
    {"newer_minor", "speaks a newer minor version", Verdict::kLoads, ""},
    {"rejects", "refuses the host with a reason", Verdict::kRefused,
     "refuses this host (code 5): the moon is not full"},
    {"rejects_silently", "refuses the host without a reason", Verdict::kRefused,
     "refuses this host (code -1): it gave no reason"},
    {"rejects_and_writes", "refuses the host and has written its answer all the same", Verdict::kRefused,
     "refuses this host (code 6): not today (and it had written its answer all the same)"},
    {"answer_empty", "answers without a table of functions", Verdict::kRefused,
     "its query leaves name or table of functions empty"},
    {"answer_short", "says that its answer has 4 bytes", Verdict::kRefused,
     "its query leaves name or table of functions empty (4 bytes written"},
    {"writes_behind_answer", "writes behind the answer's end", Verdict::kRefused, "its query wrote behind the"},
    {"name_too_long", "has a name of 2^64 - 1 bytes", Verdict::kRefused,
     "its name says it has 18446744073709551615 bytes"},
    {"name_at_nonsense", "has a name at address 8", Verdict::kRefused,
     "crashed with SIGSEGV (Segmentation fault) while the probe was asking who it is"},
    {"api_unaligned", "hands out a table of functions at an odd address", Verdict::kRefused,
     "its table 'plugin' is at 0x"},
    {"api_null_entries", "has NULL for init, shutdown and options", Verdict::kLoads, ""},
    {"api_too_short", "says that its table of functions has 3 bytes", Verdict::kRefused,
     "the table 'plugin' says it has 3 bytes"},
    {"table_unaligned", "hands out an interface table at an odd address", Verdict::kRefused,
     "its table 'device' is at 0x"},
    {"table_at_nonsense", "hands out an interface table at address 0x1000", Verdict::kRefused,
     "crashed with SIGSEGV (Segmentation fault) while the probe was asking for its tables"},
    {"table_too_long", "says that a table has 4 GiB", Verdict::kRefused,
     "the table 'device' says it has 4294967288 bytes"},
    {"table_too_short", "says that a table has 8 bytes", Verdict::kRefused, "the table 'device' says it has 8 bytes"},
    {"table_odd_size", "says that a table has 45 bytes", Verdict::kRefused, "the table 'device' says it has 45 bytes"},
    {"table_missing", "lacks a mandatory table", Verdict::kRefused,
     "the mandatory table 'plan' (id 0x0005) is missing"},
    {"table_shorter", "has a shorter table, as of an older minor", Verdict::kLoads, ""},
    {"table_longer", "has a longer table, as of a newer minor", Verdict::kLoads, ""},
    {"init_fails", "fails to start with a reason", Verdict::kFailsAtStart, "no device is plugged in"},
    {"init_throws", "throws when it is started", Verdict::kFailsAtStart,
     "its init threw a C++ exception across the boundary"},
    {"devices_fail", "cannot list its devices", Verdict::kFailsAtStart,
     "listing the devices of devices_fail: no device is plugged in"},
    {"error_without_functions", "returns an error object without functions", Verdict::kFailsAtStart,
     "the plugin returned an error object without a table"},
};

}  // namespace crucible::backend
