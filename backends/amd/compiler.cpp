// Choosing between HIPRTC and clang: see compiler.hpp.
#include "backends/amd/compiler.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr unsigned kTrialSeconds = 60;  // a first HIPRTC program reads some hundred megabytes of libraries
constexpr int kRefused = 3;             // the child's exit status when HIPRTC answers with an error
constexpr std::string_view kTrialText =
    "extern \"C\" __attribute__((global)) void trial(float* a) { a[0] = __builtin_sqrtf(a[1]) / a[2]; }\n";

/// In the child. Nothing that belongs to the parent is given back here.
[[noreturn]] void try_here(const Hiprtc& compiler, const std::vector<std::string>& flags, unsigned seconds) {
  const rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGALRM}) std::signal(signal, SIG_DFL);
  if (const int null = open("/dev/null", O_RDWR); null >= 0) {
    dup2(null, STDOUT_FILENO);  // its own words are of no use without the kernel's, which is the trial's
    dup2(null, STDERR_FILENO);
  }
  alarm(seconds);
  int status = kRefused;
  try {
    if (!compiler.compile(std::string(kTrialText), flags, "trial").bytes.empty()) status = 0;
  } catch (...) {
  }
  _exit(status);
}

std::string words_of_end(int status, unsigned seconds) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) return "it cannot compile one small kernel";
  if (WIFEXITED(status)) return "it ends the process with status " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM)
    return "it has not compiled one small kernel after " + std::to_string(seconds) + " s";
  const char* const name = strsignal(WTERMSIG(status));
  return "signal " + std::to_string(WTERMSIG(status)) + (name != nullptr ? std::string(" (") + name + ")" : "") +
         " ends it";
}

/// Which file it is: another version in its place has to be tried again.
std::string identity_of(const std::string& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return file;
  return file + "\n" + std::to_string(status.st_size) + "\n" + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

Compiler with_clang(const crucible_device& device, std::string note) {
  Compiler chosen;
  chosen.clang = &clang();
  chosen.architecture = architecture_of(*device.driver, device.facts.device);
  chosen.note = std::move(note);
  if (!chosen.architecture.empty()) return chosen;
  throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                     "the HIP runtime (" + device.driver->file + ") does not tell the architecture of " +
                         device.facts.id + ", and clang has to know it: name it with the option arch, as gfx942",
                     {{"where", device.facts.id}});
}

/// clang because of `reason`; both reasons where that cannot be either.
Compiler instead_of_hiprtc(const crucible_device& device, const std::string& reason, crucible_code code) {
  try {
    return with_clang(device, reason);
  } catch (const sdk::Failure& failure) {
    throw sdk::Failure(code, reason + "; clang, which could stand in for it: " + failure.what(), failure.payload());
  }
}

std::string broken_words(const Hiprtc& compiler, const std::string& what) {
  return compiler.describe() + " (" + compiler.file + ") is broken here: " + what;
}

Compiler choose(const crucible_device& device) {
  const std::string option = options().get_text("compiler");
  if (option == "clang") return with_clang(device, "");
  const Hiprtc* found = nullptr;
  try {
    found = &hiprtc(*device.driver);
  } catch (const sdk::Failure& failure) {
    if (option == "hiprtc") throw;
    return instead_of_hiprtc(device, failure.what(), failure.code());
  }
  if (option == "auto") {
    const std::string broken =
        verdict_on(*found, architecture_of(*device.driver, device.facts.device), device.facts.name);
    if (!broken.empty()) return instead_of_hiprtc(device, broken_words(*found, broken), CRUCIBLE_E_UNAVAILABLE);
  }
  Compiler chosen;
  chosen.hiprtc = found;
  return chosen;
}

struct Choices {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Compiler>> made;
};

}  // namespace

std::string Compiler::flags(const Hip& hip, bool is_careful) const {
  std::string all;
  for (const std::string& flag :
       clang != nullptr ? clang_flags(architecture, hip.major(), is_careful) : compile_flags(is_careful))
    all += flag + " ";
  return all;
}

Hiprtc::Compiled Compiler::compile(const Hip& hip, const std::string& text, const std::string& who,
                                   bool is_careful) const {
  if (clang != nullptr) return clang->compile(text, architecture, hip.major(), who, is_careful);
  return hiprtc->compile(text, compile_flags(is_careful), who);
}

const Compiler& compiler_of(crucible_device& device) {
  static Choices& all = *new Choices;  // never destroyed, like the libraries
  std::string key = device.driver->file + "\n" + std::to_string(device.facts.device);
  for (const char* option : {"compiler", "hiprtc", "clang", "arch"}) key += "\n" + options().get_text(option);
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Compiler>& entry = all.made[key];
  if (entry == nullptr) {
    entry = std::make_unique<Compiler>(choose(device));
    if (!entry->note.empty())
      sdk::log(sdk::LogLevel::kWarning, "compile",
               entry->describe() + " (" + entry->file() + ") compiles for " + entry->architecture + ": " + entry->note);
  }
  return *entry;
}

std::string describe_compiler(const crucible_device& device, std::string& note) {
  const std::string option = options().get_text("compiler");
  if (option != "clang") {
    try {
      return hiprtc(*device.driver).describe();
    } catch (const sdk::Failure& failure) {
      note = failure.what();
      if (option == "hiprtc") return "none";
    }
  }
  try {
    return clang().describe();
  } catch (const sdk::Failure& failure) {
    note += (note.empty() ? "" : "; ") + std::string(failure.what());
    return "none";  // the device can still copy and fill
  }
}

std::string architecture_of(const Hip& hip, int device) {
  if (std::string named = options().get_text("arch"); !named.empty()) return named;
  // The struct of properties is another one in HIP 5 than since 6, and longer in each release; the architecture is text
  // in it.
  using GetProperties = hipError_t (*)(void* properties, int device);
  void* get = hip.library.find("hipGetDevicePropertiesR0600");
  if (get == nullptr) get = hip.library.find("hipGetDeviceProperties");
  if (get == nullptr) return "";
  std::string properties(16384, '\0');
  if (reinterpret_cast<GetProperties>(get)(properties.data(), device) != hipSuccess) return "";
  const std::string_view all = properties;
  for (std::size_t at = all.find("gfx"); at != std::string_view::npos; at = all.find("gfx", at + 1)) {
    const bool is_whole = at == 0 || all[at - 1] == '\0';  // and not a part of the device's name
    const std::string_view word = all.substr(at, all.find('\0', at) - at);
    if (is_whole && word.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz:+-") == std::string_view::npos)
      return std::string(word);
  }
  return "";
}

std::string try_hiprtc(const Hiprtc& compiler, const std::string& architecture, unsigned seconds) {
  std::vector<std::string> flags = compile_flags();
  if (options().get_text("arch").empty() && !architecture.empty()) flags.push_back("--offload-arch=" + architecture);
  const pid_t child = fork();
  if (child < 0) return "";  // nothing can be said of it
  if (child == 0) try_here(compiler, flags, seconds);
  int status = 0;
  pid_t ended = -1;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended < 0 ? "" : words_of_end(status, seconds);  // a host that ignores SIGCHLD does not learn it
}

std::string verdict_on(const Hiprtc& compiler, const std::string& architecture, const std::string& device_name) {
  constexpr std::string_view kWorks = "works";
  const sdk::KeptKey key{.content = "",
                         .target = architecture + " " + device_name,
                         .toolchain = compiler.describe() + " " + identity_of(compiler.file),
                         .options = "",
                         .kind = "compiler trial"};
  const std::string kept = sdk::find_kept(key);
  if (!kept.empty()) return kept == kWorks ? "" : kept;
  const std::string found = try_hiprtc(compiler, architecture, kTrialSeconds);
  sdk::keep(key, found.empty() ? std::string(kWorks) : found);
  return found;
}

}  // namespace crucible_amd
