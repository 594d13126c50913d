#include "plugins/loader/probe/snapshot.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <clocale>
#include <cstring>
#include <filesystem>
#include <system_error>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace crucible::backend {
namespace {

std::size_t count_threads() {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

Snapshot Snapshot::take() {
  Snapshot now;
  const char* const locale = std::setlocale(LC_ALL, nullptr);
  now.locale_ = locale == nullptr ? "" : locale;
  std::error_code error;
  now.folder_ = std::filesystem::current_path(error).string();
  for (int number = 1; number < NSIG; ++number) {
    sigaction(number, nullptr, &now.handlers_[static_cast<std::size_t>(number)]);
  }
  for (int stream = 0; stream < 3; ++stream) {
    now.open_[static_cast<std::size_t>(stream)] = fstat(stream, &now.streams_[static_cast<std::size_t>(stream)]) == 0;
  }
#if defined(__x86_64__)
  now.rounding_ = _mm_getcsr() & 0xffc0u;  // without the flags that calculating sets
  __asm__ volatile("fnstcw %0" : "=m"(now.x87_));
#elif defined(__aarch64__)
  unsigned long control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  now.rounding_ = static_cast<unsigned>(control);
#endif
  now.threads_ = count_threads();
  return now;
}

std::vector<std::string> Snapshot::changes_until(const Snapshot& later) const {
  std::vector<std::string> changes;
  if (later.locale_ != locale_) {
    changes.push_back(
        fmt::format("changed the locale from {} to {}: numbers in texts change their meaning", locale_, later.locale_));
  }
  if (later.folder_ != folder_) changes.push_back(fmt::format("changed the current folder to {}", later.folder_));
  for (std::size_t number = 1; number < handlers_.size(); ++number) {
    if (handlers_[number].sa_handler == later.handlers_[number].sa_handler) continue;
    const char* const name = sigabbrev_np(static_cast<int>(number));
    changes.push_back(fmt::format("installed a handler of signal {}, which belongs to the host",
                                  name == nullptr ? std::to_string(number) : fmt::format("SIG{}", name)));
  }
  static constexpr const char* kStreams[] = {"standard input", "standard output", "standard error"};
  for (std::size_t stream = 0; stream < 3; ++stream) {
    if (open_[stream] && !later.open_[stream]) {
      changes.push_back(fmt::format("closed {}", kStreams[stream]));
    } else if (open_[stream] && (streams_[stream].st_dev != later.streams_[stream].st_dev ||
                                 streams_[stream].st_ino != later.streams_[stream].st_ino)) {
      changes.push_back(fmt::format("put another file in the place of {}", kStreams[stream]));
    }
  }
  if (later.rounding_ != rounding_) {
    changes.push_back(
        fmt::format("changed how the processor rounds (control bits {:#x}, were {:#x}): results of the "
                    "host would change",
                    later.rounding_, rounding_));
  }
  if (later.x87_ != x87_) {
    changes.push_back(fmt::format("changed the x87 control word to {:#x}, it was {:#x}", later.x87_, x87_));
  }
  if (later.threads_ > threads_) {
    changes.push_back(
        fmt::format("left {} thread{} running", later.threads_ - threads_, later.threads_ - threads_ == 1 ? "" : "s"));
  }
  return changes;
}

}  // namespace crucible::backend
