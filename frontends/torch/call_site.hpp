// Where in the Python program an op was called: the innermost line outside the framework, and the innermost nn.Module
// whose call is running. On CPython 3.11 the interpreter's frames are read in place, without the GIL and without
// touching reference counts; on other versions through the public API. Nothing here knows ops or tensors.
#pragma once

#include <Python.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace crucible::recorder {

inline constexpr std::uint32_t kNoSite = 0xffffffffu;

/// Ids of a site and of a module; kNoSite where there is none.
struct CallSite {
  std::uint32_t site = kNoSite;
  std::uint32_t module = kNoSite;
};

struct SourceLine {
  std::string file;
  std::uint32_t line = 0;
  std::string function;
};

/// What the threads share: every site and module that was met. Owns: references to the code and module objects in its
/// tables, so that their addresses stay theirs. Threads: the GIL guards all of it.
class CallSites {
 public:
  /// How a thread's frames are read: in place where this Python's layout is known, through the public API, not at all.
  enum class Way : std::uint8_t { kPublicApi, kInPlace, kNot };
  /// `module_call` is nn.Module.__call__; code in one of `framework_folders` is not a site. `name_modules` is called
  /// with the outermost running module when a module is met that has no name yet; it returns a list of (module, name).
  void start(PyObject* module_call, std::vector<std::string> framework_folders, PyObject* name_modules, Way way);
  /// Gives all references back. Sites and module names stay readable until the next start.
  void stop();

  const std::vector<SourceLine>& sites() const { return sites_; }
  const std::vector<std::string>& modules() const { return modules_; }
  /// Threads: any, as generation().
  Way way() const { return way_.load(std::memory_order_relaxed); }
  /// Grows with each start: threads compare it to know that their caches are stale.
  std::uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

 private:
  friend class CallSiteCache;
  enum class CodeKind : std::uint8_t { kUser, kFramework, kModuleCall };
  CodeKind kind_of(PyCodeObject* code);
  std::uint32_t site_of(PyCodeObject* code, int instruction);
  std::uint32_t module_of(PyObject* module, PyObject* outermost);

  struct Tables;
  Tables* tables_ = nullptr;
  std::vector<SourceLine> sites_;
  std::vector<std::string> modules_;
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<Way> way_{Way::kNot};
};

/// One thread's way to its call site. Threads: its own.
class CallSiteCache {
 public:
  /// The call site of the op that this thread is about to run. The module is searched beyond the site's frame only when
  /// `want_module`. Takes the GIL only for code that this thread has not met yet.
  CallSite find(CallSites& shared, bool want_module) {
    if (generation_ != shared.generation()) [[unlikely]] forget(shared.generation());
    if (shared.way() == CallSites::Way::kInPlace) [[likely]] return find_in_frames(shared, want_module);
    return shared.way() == CallSites::Way::kPublicApi ? find_with_api(shared, want_module) : CallSite{};
  }
  /// Says that the calling thread holds the GIL and runs Python code for as long as the recording lasts.
  void stays_in_python() { python_thread_ = PyThreadState_Get(); }

 private:
  [[gnu::hot]] CallSite find_in_frames(CallSites& shared, bool want_module);
  CallSite find_with_api(CallSites& shared, bool want_module);
  [[gnu::cold]] void forget(std::uint32_t generation);
  CallSites::CodeKind kind_of(CallSites& shared, PyCodeObject* code);
  [[gnu::cold]] CallSites::CodeKind learn_kind(CallSites& shared, PyCodeObject* code);
  std::uint32_t site_of(CallSites& shared, PyCodeObject* code, const void* instruction);
  [[gnu::cold]] std::uint32_t learn_site(CallSites& shared, PyCodeObject* code, const void* instruction);
  std::uint32_t module_of(CallSites& shared, PyObject* module, void* frame);

  /// Addresses with a number each, in sets of two places. The address 0 is the empty place.
  class AddressMap {
   public:
    explicit AddressMap(std::size_t places) : entries_(places), mask_(places - 1) {}
    /// The place with the number of `address`, or null.
    const std::uint32_t* find(const void* address) const {
      const std::size_t at = place(address);
      if (entries_[at].address == address) [[likely]] return &entries_[at].number;
      return entries_[at ^ 1].address == address ? &entries_[at ^ 1].number : nullptr;
    }
    std::uint32_t remember(const void* address, std::uint32_t number) {
      const std::size_t at = place(address);
      if (entries_[at].address != nullptr) entries_[at ^ 1] = entries_[at];
      entries_[at] = {address, number};
      return number;
    }
    void clear() { entries_.assign(entries_.size(), {}); }

   private:
    struct Entry {
      const void* address = nullptr;
      std::uint32_t number = 0;
    };
    std::size_t place(const void* address) const {
      return (reinterpret_cast<std::uintptr_t>(address) * 0x9E3779B97F4A7C15ull >> 40) & mask_;
    }
    std::vector<Entry> entries_;
    std::size_t mask_;
  };

  /// The frames of the last search, innermost first. While they stand where they stood, its answer is the answer: most
  /// ops are called from where the one before them was, a backward pass from one place altogether.
  struct Step {
    const void* frame = nullptr;
    const void* instruction = nullptr;  // its next one; tells the code object too
    const void* module = nullptr;       // in a frame of nn.Module.__call__: whose
  };
  static constexpr std::size_t kMostSteps = 24;
  struct Path {
    std::array<Step, kMostSteps> steps;
    std::size_t length = 0;  // 0: no search is remembered
    bool wanted_module = false;
    CallSite found;
  };
  bool is_on_path(const void* frame, bool want_module) const;

  std::uint32_t generation_ = 0;
  PyThreadState* python_thread_ = nullptr;  // of the thread that started recording: it outlives the recording
  Path path_;
  AddressMap codes_{2048};                  // code object -> kind
  AddressMap sites_{2048};                  // address of the instruction in its code object -> site
  AddressMap modules_{1024};                // module object -> module
};

}  // namespace crucible::recorder
