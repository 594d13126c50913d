// Landlock by its system calls, for no library of Debian 12 knows them; the filter of system calls by libseccomp.
// Sources: landlock(7), seccomp(2), and linux/landlock.h of Linux 6.12.
#include "frontends/cli/confine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace crucible::cli {
namespace {

// Of linux/landlock.h: the headers of a system are often older than its kernel.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr std::uint32_t kAskForVersion = 1;
constexpr int kPathBeneath = 1;
constexpr std::uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadDir = 8, kRefer = 1 << 13,
                        kTruncate = 1 << 14;
constexpr std::uint64_t kRemoveAndMake = ((1 << 13) - 1) & ~std::uint64_t{kExecute | kWriteFile | kReadFile | kReadDir};
constexpr std::uint64_t kAbstractSockets = 1, kSignals = 2;

struct Ruleset {
  std::uint64_t files, network, scopes;
};
struct __attribute__((packed)) PathRule {
  std::uint64_t allowed;
  std::int32_t parent;
};

class Landlock {
 public:
  /// `version` as the system counts: each brought rights that an older one refuses to hear of.
  explicit Landlock(long version) {
    rules_.files =
        kExecute | kWriteFile | kRemoveAndMake | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0);
    rules_.scopes = version >= 6 ? kAbstractSockets | kSignals : 0;
    const std::size_t size = version >= 6   ? sizeof(Ruleset)
                             : version >= 4 ? offsetof(Ruleset, scopes)
                                            : offsetof(Ruleset, network);
    descriptor_ = static_cast<int>(syscall(kCreateRuleset, &rules_, size, 0));
  }
  Landlock(const Landlock&) = delete;
  ~Landlock() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  void allow(const std::filesystem::path& path, std::uint64_t rights) {
    const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (file < 0) return;
    struct stat status = {};
    if (fstat(file, &status) == 0) {
      // Only these mean anything for what is no folder, and the system refuses a rule that says more.
      if (!S_ISDIR(status.st_mode)) rights &= kExecute | kWriteFile | kTruncate;
      const PathRule rule{rights & rules_.files, file};
      syscall(kAddRule, descriptor_, kPathBeneath, &rule, 0);
    }
    close(file);
  }

  bool restrict() const { return descriptor_ >= 0 && syscall(kRestrictSelf, descriptor_, 0) == 0; }

 private:
  Ruleset rules_ = {};
  int descriptor_ = -1;
};

std::string limit_files(const Confinement& to) {
  const long version = syscall(kCreateRuleset, nullptr, 0, kAskForVersion);
  if (version < 1) return fmt::format("limits on files and programs (Landlock: {})", std::strerror(errno));
  Landlock landlock(version);
  const std::uint64_t write = kWriteFile | kTruncate | kRemoveAndMake | kRefer;
  for (const std::filesystem::path& path : to.writable) landlock.allow(path, write);
  for (const std::filesystem::path& path : to.runnable) landlock.allow(path, kExecute);
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/shm"})
    landlock.allow(device, write);
  // /dev/stdout is a name for what is open: as a name it is opened again.
  for (const char* stream : {"/proc/self/fd/1", "/proc/self/fd/2"}) {
    struct stat status = {};
    if (stat(stream, &status) == 0 && !S_ISDIR(status.st_mode)) landlock.allow(stream, kWriteFile | kTruncate);
  }
  if (!landlock.restrict()) return fmt::format("limits on files and programs (Landlock: {})", std::strerror(errno));
  return "";
}

/// System calls that no replay makes and whose refusal nobody notices. What is not here is free: compilers and C
/// libraries make others from version to version, and Landlock stands behind.
constexpr const char* kRefused[] = {
    // Other machines, other processes: the network is whatever has a socket, also that of a container's master.
    "socket", "bind", "listen", "accept", "accept4", "connect", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "pidfd_getfd", "kcmp", "migrate_pages", "move_pages",
    // What Landlock does not look at: mode, owner, attributes and times of files that lie anywhere.
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr",
    "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "utime", "utimes", "utimensat", "futimesat",
    // Ways around this filter, and into the kernel.
    "io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "userfaultfd", "perf_event_open",
    "open_by_handle_at", "name_to_handle_at", "add_key", "request_key", "keyctl", "lookup_dcookie", "fanotify_init",
    "vmsplice", "personality", "modify_ldt", "iopl", "ioperm",
    // Of administrators.
    "mount", "umount2", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "pivot_root", "chroot", "unshare", "setns", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "reboot", "swapon", "swapoff", "sethostname", "setdomainname", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup", "nfsservctl"};

std::string filter_calls() {
  const std::unique_ptr<void, void (*)(void*)> filter(seccomp_init(SCMP_ACT_ALLOW), seccomp_release);
  if (!filter) return "a filter of system calls (seccomp)";
  // Another table of numbers would go around the filter: 32-bit calls have no business here.
  seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  for (const char* name : kRefused) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number != __NR_SCMP_ERROR)
      seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EACCES), number, 0);  // fails for those of other processors
  }
  const int loaded = seccomp_load(filter.get());
  return loaded == 0 ? "" : fmt::format("a filter of system calls (seccomp: {})", std::strerror(-loaded));
}

}  // namespace

std::vector<std::string> confine(const Confinement& to) {
  std::vector<std::string> missing;
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (to.memory_bytes != 0) {
    const rlimit memory = {to.memory_bytes, to.memory_bytes};
    if (setrlimit(RLIMIT_AS, &memory) != 0)
      missing.push_back(fmt::format("a limit on memory ({})", std::strerror(errno)));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    missing.push_back("a promise to gain no rights (prctl)");
    return missing;  // both of the others need it
  }
  for (std::string one : {limit_files(to), filter_calls()}) {
    if (!one.empty()) missing.push_back(std::move(one));
  }
  return missing;
}

}  // namespace crucible::cli
